"""The page on which t can be moved by hand: one file, no server, nothing loaded from elsewhere."""

import base64
import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from torchmcl.toy.evaluate import predict
from torchmcl.toy.floor import TIMES, floor
from torchmcl.toy.models import NAMES
from torchmcl.toy.outcomes import Run

__all__ = ["page"]

STEPS = 101


def page(run: Run, numbers: dict[str, Any], table: str, figure: Path) -> str:
    """The HTML of the report.

    Args:
        run: Whose models and curves are shown.
        numbers: What `results.json` holds.
        table: The numbers as a table element.
        figure: A PNG that is put into the page.

    Returns:
        The page, which needs no other file.
    """
    text = resources.files("torchmcl.toy").joinpath("page.html").read_text(encoding="utf-8")
    image = base64.b64encode(figure.read_bytes()).decode("ascii")
    seeds = numbers.get("seeds", [numbers["seed"]])
    about = f"Preset {numbers['preset']}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}."
    if len(seeds) > 1:
        about += f" The table holds means; all else shows seed {run.seed}."
    parts = {
        "<!--about-->": html.escape(about),
        "<!--table-->": table,
        "<!--figure-->": f"data:image/png;base64,{image}",
        "<!--data-->": json.dumps(_data(run), separators=(",", ":")).replace("<", "\\u003c"),
    }
    for mark, content in parts.items():
        text = text.replace(mark, content)
    return text


def _data(run: Run) -> dict[str, Any]:
    times = torch.linspace(0, 1, STEPS, dtype=torch.float64)
    models = []
    for method, outcome in run.outcomes.items():
        hypotheses = predict(outcome.trained.network, times)
        rows = torch.cat([hypotheses.points, hypotheses.probs[..., None]], dim=-1)
        models.append(
            {"name": NAMES[method], "hypotheses": _rounded(rows), "emd": _rounded(outcome.evaluation.emd)}
        )
    best = torch.stack([TIMES, floor()], dim=-1)
    return {"times": _rounded(times), "models": models, "floor": _rounded(best)}


def _rounded(values: Any, digits: int = 4) -> Any:
    if isinstance(values, torch.Tensor):
        return _rounded(values.tolist(), digits)
    return (
        [_rounded(value, digits) for value in values]
        if isinstance(values, list | tuple)
        else round(values, digits)
    )
