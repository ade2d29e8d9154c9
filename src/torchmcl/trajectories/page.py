"""An animated page of a scene: one self-contained HTML file with a slider over time."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from torchmcl.trajectories.forecast import Forecast
from torchmcl.trajectories.windows import PREDICTED

__all__ = ["scene_page"]

DECIMALS = 2


def scene_page(shown: Sequence[Forecast], title: str) -> str:
    """The page.

    Args:
        shown: The instants in order.
        title: What is shown.

    Returns:
        HTML without any reference to another file.
    """
    instants = [_instant(made) for made in shown]
    text = files("torchmcl.trajectories").joinpath("scene.html").read_text(encoding="utf-8")
    data = json.dumps({"steps": PREDICTED, "instants": instants}, separators=(",", ":"))
    # A closing tag inside of a name must not end the script.
    return text.replace("__TITLE__", html.escape(title)).replace("__DATA__", data.replace("</", "<\\/"))


def _instant(made: Forecast) -> dict[str, object]:
    probs = made.hypotheses.probs
    return {
        "frame": made.instant.frame,
        "people": [
            {
                "name": name,
                "past": [_round(xy) for xy in past.tolist() if xy[0] == xy[0]],
                "futures": [_round(future) for future in futures.tolist()],
                "probs": [round(chance, 3) for chance in chances.tolist()],
                "answer": _round(answer.flatten().tolist()),
            }
            for name, past, futures, chances, answer in zip(
                made.instant.names,
                made.instant.observed,
                made.hypotheses.points,
                probs,
                made.answers,
                strict=True,
            )
        ],
    }


def _round(values: list[float]) -> list[float]:
    return [round(value, DECIMALS) for value in values]
