"""The tables of the study, with published rows beside ours and the protocol of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchmcl.runs.tables import Column, Row, Table
from torchmcl.trajectories.folds import SCENES

__all__ = ["PUBLISHED", "Published", "choice_table", "tables"]


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

MEASURES = (
    ("pedestrians", "pedestrians", 0),
    ("energy score, m", "energy", 3),
    ("NLL of a position, nats", "nll", 2),
    ("miss rate (2 m)", "miss_rate", 3),
    ("brier-minFDE, m", "brier_min_fde", 3),
    ("calibration error of the scores", "calibration_error", 4),
    ("... of exact probabilities, by chance", "calibration_floor", 4),
    ("most probable hypothesis: stated", "top_stated", 3),
    ("most probable hypothesis: is the nearest", "top_right", 3),
    ("collision rate of single answers", "collision_rate", 3),
    ("without neighbors: minADE20, m", "alone_min_ade", 3),
    ("without neighbors: minFDE20, m", "alone_min_fde", 3),
    ("without neighbors: single answer, ADE, m", "alone_ade", 3),
    ("without neighbors: single answer, FDE, m", "alone_fde", 3),
    ("last velocity, ADE, m", "last_step_ade", 3),
    ("velocity of three steps, ADE, m", "three_steps_ade", 3),
    ("velocity of three steps, FDE, m", "three_steps_fde", 3),
)


def tables(results: dict[str, Any], seeds: int) -> list[Table]:
    """Errors beside published ones, and the other measures.

    Args:
        results: As `summarize` makes them.
        seeds: Of each scene.

    Returns:
        Two tables; cells of the first are `minADE/minFDE` of the best of 20, or ADE/FDE of single answers.
    """
    count = f"mean of {seeds} {'seed' if seeds == 1 else 'seeds'}"
    published = [
        Row(each.name, [*_pairs(each.ade, each.fde, 2), each.note or "as published"]) for each in PUBLISHED
    ]
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
    headings = [*SCENES, "mean"]
    errors = Table(
        "minADE20/minFDE20 and ADE/FDE, meters",
        [Column(heading) for heading in (*headings, "protocol")],
        [*published, *(_ours(results, *line) for line in shown)],
        "method",
    )
    others = Table(
        "Other measures, protocol all",
        [Column(heading) for heading in headings],
        [
            Row(label, ["" if value is None else f"{value:.{digits}f}" for value in _values(results, key)])
            for label, key, digits in MEASURES
        ],
        "measure",
    )
    return [errors, others]


def choice_table(relative: dict[str, dict[str, float]]) -> Table:
    """The candidates for each fold, by held-out videos of other scenes.

    Args:
        relative: As `choose` makes it.

    Returns:
        A row for each fold and one for their mean, a column for each candidate.
    """
    rows = [
        Row(fold, [*(f"{value:.3f}" for value in row.values()), min(row, key=row.__getitem__)])
        for fold, row in relative.items()
    ]
    return Table(
        "minADE + minFDE / 2 on held-out videos, relative to the first column",
        [Column(heading) for heading in (*relative["mean"], "best")],
        rows,
        "fold",
    )


def _ours(results: dict[str, Any], name: str, protocol: str, ade: str, fde: str, note: str) -> Row:
    found = [results["scenes"][scene][protocol] if scene in results["scenes"] else None for scene in SCENES]
    found.append(results["mean"][protocol] if None not in found else None)
    return Row(name, [*("" if each is None else _pair(each[ade], each[fde], 3) for each in found), note])


def _pairs(ade: Sequence[float], fde: Sequence[float], digits: int) -> list[str]:
    return [_pair(a, f, digits) for a, f in zip(ade, fde, strict=True)]


def _pair(ade: float, fde: float, digits: int) -> str:
    return "/".join(f"{value:.{digits}f}".removeprefix("0") for value in (ade, fde))


def _values(results: dict[str, Any], key: str) -> list[float | None]:
    known = results["scenes"]
    scenes = [known[scene]["all"][key] if scene in known else None for scene in SCENES]
    return [*scenes, results["mean"]["all"][key] if None not in scenes else None]
