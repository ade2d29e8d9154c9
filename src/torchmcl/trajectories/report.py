"""The table of the study, with published rows beside ours and the protocol of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchmcl.trajectories.folds import SCENES

__all__ = ["PUBLISHED", "Published", "latex", "markdown", "rows"]


@dataclass(frozen=True)
class Published:
    """A row of a paper: minADE20 / minFDE20 in meters.

    Args:
        name: Of the method.
        ade: For each scene, then the mean.
        fde: The same.
        note: What differs from our protocol.
    """

    name: str
    ade: tuple[float, ...]
    fde: tuple[float, ...]
    note: str


PUBLISHED = (
    Published("Social GAN", (0.87, 0.67, 0.76, 0.35, 0.42, 0.61), (1.62, 1.37, 1.52, 0.68, 0.84, 1.21),
              "best of 20 by sum over a scene"),
    Published("PECNet", (0.54, 0.18, 0.35, 0.22, 0.17, 0.29), (0.87, 0.24, 0.60, 0.39, 0.30, 0.48), ""),
    Published("Trajectron++", (0.61, 0.19, 0.30, 0.24, 0.18, 0.30), (1.02, 0.28, 0.54, 0.42, 0.32, 0.51),
              "corrected: without look-ahead"),
    Published("AgentFormer", (0.45, 0.14, 0.25, 0.18, 0.14, 0.23), (0.75, 0.22, 0.45, 0.30, 0.24, 0.39), "corrected"),
    Published("MemoNet", (0.40, 0.11, 0.24, 0.18, 0.14, 0.21), (0.61, 0.17, 0.43, 0.32, 0.24, 0.35), ""),
    Published("EqMotion", (0.40, 0.12, 0.23, 0.18, 0.13, 0.21), (0.61, 0.18, 0.43, 0.32, 0.23, 0.35),
              "epoch chosen on the test set"),
    Published("LED", (0.39, 0.11, 0.26, 0.18, 0.13, 0.21), (0.58, 0.17, 0.43, 0.26, 0.22, 0.33), ""),
)  # fmt: skip
"""As printed in the papers, or in their published corrections."""

HEADER = ("method", *SCENES, "mean", "protocol")


def rows(results: dict[str, Any], seeds: int) -> list[tuple[str, ...]]:
    """The rows of the table, published ones first.

    Args:
        results: As `summarize` makes them.
        seeds: Of each scene.

    Returns:
        Cells as text: `minADE/minFDE` of best of 20, and ADE/FDE of single answers.
    """
    made = [(each.name, *_pairs(each.ade, each.fde, 2), each.note or "as published") for each in PUBLISHED]
    count = f"mean of {seeds} {'seed' if seeds == 1 else 'seeds'}"
    shown = (
        ("torchmcl, best of 20", "filtered", "min_ade", "min_fde", f"filtered, {count}"),
        ("torchmcl, best of 20", "all", "min_ade", "min_fde", f"all, {count}"),
        ("torchmcl, single answer", "filtered", "ade", "fde", f"filtered, {count}"),
        ("last velocity, single answer", "filtered", "last_step_ade", "last_step_fde", "filtered"),
        (
            "velocity of three steps, single answer",
            "filtered",
            "three_steps_ade",
            "three_steps_fde",
            "filtered",
        ),
    )
    made.extend(_ours(results, *line) for line in shown)
    return made


def _ours(
    results: dict[str, Any], name: str, protocol: str, ade: str, fde: str, note: str
) -> tuple[str, ...]:
    found = [results["scenes"][scene][protocol] if scene in results["scenes"] else None for scene in SCENES]
    found.append(results["mean"][protocol] if None not in found else None)
    cells = ["" if each is None else _pair(each[ade], each[fde], 3) for each in found]
    return (name, *cells, note)


def _pairs(ade: Sequence[float], fde: Sequence[float], digits: int) -> list[str]:
    return [_pair(a, f, digits) for a, f in zip(ade, fde, strict=True)]


def _pair(ade: float, fde: float, digits: int) -> str:
    return "/".join(f"{value:.{digits}f}".removeprefix("0") for value in (ade, fde))


def markdown(results: dict[str, Any], seeds: int) -> str:
    """The table and the other measures as Markdown.

    Args:
        results: As `summarize` makes them.
        seeds: Of each scene.

    Returns:
        Two tables.
    """
    lines = [HEADER, ("---",) * len(HEADER), *rows(results, seeds)]
    first = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    others = [
        ("protocol `all`", *SCENES, "mean"),
        ("---",) * (len(SCENES) + 2),
        *(
            (label, *(f"{value:.{digits}f}" for value in _values(results, key)))
            for label, key, digits in MEASURES
        ),
    ]
    second = "\n".join("| " + " | ".join(line) + " |" for line in others)
    return f"{first}\n\n{second}\n"


MEASURES = (
    ("pedestrians", "pedestrians", 0),
    ("energy score, m", "energy", 3),
    ("NLL of a position, nats", "nll", 2),
    ("miss rate (2 m)", "miss_rate", 3),
    ("brier-minFDE, m", "brier_min_fde", 3),
    ("calibration error of the scores", "calibration_error", 4),
    ("most probable: stated", "top_stated", 3),
    ("most probable: is the nearest", "top_right", 3),
    ("collision rate of single answers", "collision_rate", 3),
)


def _values(results: dict[str, Any], key: str) -> list[float]:
    scenes = [
        results["scenes"][scene]["all"][key] if scene in results["scenes"] else float("nan")
        for scene in SCENES
    ]
    return [*scenes, results["mean"]["all"][key]]


def latex(results: dict[str, Any], seeds: int) -> str:
    """The first table for a paper.

    Args:
        results: As `summarize` makes them.
        seeds: Of each scene.

    Returns:
        A `tabular` with rules of booktabs.
    """
    body = [" & ".join(line) + r" \\" for line in rows(results, seeds)]
    lines = [
        r"\begin{tabular}{l" + "c" * (len(SCENES) + 1) + "l}",
        r"\toprule",
        " & ".join(HEADER) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
