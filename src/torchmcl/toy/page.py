"""The page on which t can be moved by hand: one file, no server, nothing loaded from elsewhere."""

import base64
import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from torchmcl.toy.evaluate import predict
from torchmcl.toy.experiment import Run
from torchmcl.toy.floor import TIMES, floor
from torchmcl.toy.models import NAMES

__all__ = ["COLUMNS", "cells_of", "page"]

STEPS = 101

COLUMNS = (
    ("EMD", "emd_mean", 4),
    ("EMD, samples", "emd_mean_sampled", 4),
    ("excess", "excess", 1),
    ("oracle", "oracle_mean", 4),
    ("to mean", "centroid_error", 4),
    ("score", "score_error", 4),
    ("entropy", "winner_entropy", 3),
    ("seconds", "train_seconds", 1),
)
"""Heading, name in `results.json`, and digits of each column of numbers."""


def page(run: Run, numbers: dict[str, Any], figure: Path) -> str:
    """The HTML of the report: models and curves of `run`, the table of `numbers`, and the figure itself."""
    text = resources.files("torchmcl.toy").joinpath("page.html").read_text(encoding="utf-8")
    image = base64.b64encode(figure.read_bytes()).decode("ascii")
    seeds = numbers.get("seeds", [numbers["seed"]])
    about = f"Preset {numbers['preset']}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}."
    if len(seeds) > 1:
        about += f" The table holds means; all else shows seed {run.seed}."
    parts = {
        "<!--about-->": html.escape(about),
        "<!--table-->": _table(numbers),
        "<!--figure-->": f"data:image/png;base64,{image}",
        "<!--data-->": json.dumps(_data(run), separators=(",", ":")).replace("<", "\\u003c"),
    }
    for mark, content in parts.items():
        text = text.replace(mark, content)
    return text


def cells_of(method: str, values: dict[str, Any], floor_mean: float) -> list[str]:
    """A row of the table as text."""
    excess = f"{100 * (values['emd_mean'] / floor_mean - 1):.1f} %"
    found = [excess if key == "excess" else f"{values[key]:.{digits}f}" for _, key, digits in COLUMNS]
    return [{str(key): name for key, name in NAMES.items()}[method], *found]


def _table(numbers: dict[str, Any]) -> str:
    head = "".join(
        f'<th scope="col">{html.escape(name)}</th>' for name in ("model", *(c[0] for c in COLUMNS))
    )
    rows = []
    for method, values in numbers["models"].items():
        name, *cells = cells_of(method, values, numbers["floor_mean"])
        rows.append(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{c}</td>" for c in cells)
            + "</tr>"
        )
    rows.append(
        f'<tr><th scope="row">best 20 points</th><td>{numbers["floor_mean"]:.4f}</td>'
        + "<td></td>" * (len(COLUMNS) - 1)
        + "</tr>"
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


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
