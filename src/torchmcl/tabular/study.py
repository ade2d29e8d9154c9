"""The study on real tables: our default against peers, on the same splits."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchmcl.errors import UserError
from torchmcl.runs.files import resolved, write_json, write_text
from torchmcl.runs.folder import RunFolder
from torchmcl.runs.jobs import Job, Local, Ray, execute
from torchmcl.runs.records import read_record
from torchmcl.runs.tables import Column, Row, Table
from torchmcl.tabular.command import check_seed
from torchmcl.tabular.judge import COVERAGES, Judged
from torchmcl.tabular.peers import OURS, PEERS, peer_named
from torchmcl.tabular.sets import find_sets, read_split, split_count

__all__ = ["Study", "study", "summary"]

MEASURES = {"crps": "CRPS", "nll": "NLL", "rmse": "RMSE"}
CONTROL, BASE = "control", "mdn"
NO_LIKELIHOOD = "wine-quality-red"
"""The targets of this set are whole numbers: its likelihood has no upper bound and means nothing."""

PUBLISHED = {
    "deep ensembles (Lakshminarayanan et al. 2017)": {
        "bostonHousing": (3.28, 2.41), "concrete": (6.03, 3.06), "energy": (2.09, 1.38), "power-plant": (4.11, 2.79),
        "yacht": (1.58, 1.18),
    },
    "NGBoost (Duan et al. 2020)": {
        "bostonHousing": (2.94, 2.43), "concrete": (5.06, 3.04), "energy": (0.46, 0.60), "power-plant": (3.79, 2.79),
        "yacht": (0.50, 0.20),
    },
}  # fmt: skip
"""RMSE and NLL, means over twenty splits as their authors give them."""


@dataclass(frozen=True)
class Study:
    """What is compared on what.

    Args:
        data: The folder of the sets.
        sets: Their names; empty for all.
        splits: The first so many of each set; of sets with more than 5,000 rows at most three.
        methods: Names of `PEERS`.
        seed: Of all methods.
    """

    data: str
    sets: tuple[str, ...] = ()
    splits: int = 5
    methods: tuple[str, ...] = tuple(PEERS)
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)


def study(settings: Study, out: Path, place: Local | Ray) -> list[Path]:
    """Run what is missing, then write tables, figure and `results.json`.

    Args:
        settings: What is compared.
        out: The folder of records and results; a study in it goes on.
        place: Where the runs are done.

    Returns:
        The files that were written.
    """
    root = Path(settings.data)
    found = find_sets(root)
    for name in settings.sets:
        if name not in found:
            raise UserError(f"--sets {name}: {root} has {', '.join(found)}")
    for method in settings.methods:
        peer_named(method)
    names = settings.sets or tuple(found)
    counts = {name: min(settings.splits, _splits(root, name)) for name in names}
    # What is broken in a split is found before hours of work on others.
    for name, count in counts.items():
        for split in range(1, count):
            read_split(root, name, split)
    with RunFolder.open(out, {"data": str(resolved(root)), "seed": settings.seed}):
        jobs = [
            _job(root, out, name, split, method, settings.seed)
            for split in range(settings.splits)
            for name in names
            if split < counts[name]
            for method in settings.methods
        ]
        execute(jobs, place)
        records = [_record(job) for job in jobs]
        return _write(records, out)


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over splits for each set and method, ranks, and ratios to the peers.

    Args:
        records: Of `judge`.

    Returns:
        `sets` with means and deviations, `ranks` with the mean rank of each method in each measure over the sets,
        `ratios` with the geometric mean over the sets of our CRPS to that of others, and `coverage`.
    """
    sets = sorted({record["set"] for record in records})
    methods = [name for name in PEERS if any(record["method"] == name for record in records)]
    means: dict[str, dict[str, Any]] = {
        name: {
            method: _means([r for r in records if r["set"] == name and r["method"] == method])
            for method in methods
        }
        for name in sets
    }
    means = {name: {m: value for m, value in own.items() if value} for name, own in means.items()}
    ranks = {measure: _ranks(means, measure) for measure in MEASURES}
    # The control is MDN x 5 with aids of ours: a row of the table, not one of the peers that are ranked.
    return {
        "sets": means,
        "ranks": ranks,
        "ratios": {other: _ratio(means, other) for other in methods if other != OURS},
        "coverage": {method: _coverage(means, method) for method in methods},
    }


def _splits(root: Path, name: str) -> int:
    rows = len(read_split(root, name, 0).X)
    return min(split_count(root, name), 3) if rows > 5000 else split_count(root, name)


def _job(root: Path, out: Path, name: str, split: int, method: str, seed: int) -> Job:
    label = f"{name}-{split}-{method}"
    file = out / "records" / f"{label}.json"
    arguments = {
        "root": str(resolved(root)), "name": name, "split": split, "method": method, "seed": seed,
        "file": str(file.resolve()),
    }  # fmt: skip
    return Job(label, "torchmcl.tabular.judge:work", arguments, file, out / "logs" / f"{label}.log")


def _record(job: Job) -> dict[str, Any]:
    found = asdict(read_record(job.done, Judged))
    for key, own in (("set", "name"), ("split", "split"), ("method", "method"), ("seed", "seed")):
        if found[key] != job.arguments[own]:
            raise UserError(f"{job.done}: {key} is {found[key]!r}, must be {job.arguments[own]!r}")
    return found


def _means(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not records:
        return {}
    found: dict[str, Any] = {"splits": len(records), "rows": records[0]["rows"]}
    for key in ("rmse", "mae", "nll", "crps", "cpu_seconds", "seconds"):
        values = [record[key] for record in records]
        found[key] = None if None in values else [float(np.mean(values)), float(np.std(values))]
    tested = np.array([record["test_rows"] for record in records], dtype=float)
    for key in ("coverage", "width", "interval_score"):
        found[key] = {
            str(level): _average([r[key][str(level)] for r in records], tested) for level in COVERAGES
        }
    found["test_rows"] = int(tested.sum())
    return found


def _average(values: Sequence[float | None], weights: Any) -> float | None:
    return None if None in values else float(np.average(np.array(values, dtype=float), weights=weights))


def _ranks(means: dict[str, dict[str, Any]], measure: str) -> dict[str, float]:
    """The mean rank over the sets; the control takes no part."""
    places: dict[str, list[int]] = {}
    for name, own in means.items():
        if measure == "nll" and name == NO_LIKELIHOOD:
            continue
        values = {
            method: v[measure][0] for method, v in own.items() if v[measure] is not None and method != CONTROL
        }
        for method, value in values.items():
            places.setdefault(method, []).append(1 + sum(other < value for other in values.values()))
    return {method: float(np.mean(each)) for method, each in places.items()}


def _ratio(means: dict[str, dict[str, Any]], other: str) -> float | None:
    """The geometric mean over the sets of our CRPS to that of another method."""
    logs = [
        np.log(v[OURS]["crps"][0] / v[other]["crps"][0]) for v in means.values() if OURS in v and other in v
    ]
    return float(np.exp(np.mean(logs))) if logs else None


def _coverage(means: dict[str, dict[str, Any]], method: str) -> dict[str, Any]:
    own = [value[method]["coverage"] for value in means.values() if method in value]
    gaps = [np.mean([abs(each[str(level)] - level) for level in COVERAGES]) for each in own]
    average = {str(level): float(np.mean([each[str(level)] for each in own])) for level in COVERAGES}
    return {"mean_over_sets": average, "mean_gap_per_set": float(np.mean(gaps)) if gaps else None}


def _write(records: Sequence[dict[str, Any]], out: Path) -> list[Path]:
    from torchmcl.runs.figures import save_figure
    from torchmcl.tabular.figures import study_figure

    found = summary(records)
    write_json(out / "results.json", found)
    tables = [*(_set_table(name, own) for name, own in found["sets"].items()), _rank_table(found)]
    tables += [_coverage_table(found, method) for method in found["coverage"]]
    write_text(out / "tables.md", "\n".join(table.markdown() for table in tables))
    return [out / "tables.md", out / "results.json", *save_figure(study_figure(found), out / "study")]


def _set_table(name: str, own: dict[str, Any]) -> Table:
    columns = [
        Column("RMSE", 3, "min"), Column("NLL", 3, "min"), Column("CRPS", 4, "min"), Column("coverage at 90 %", 3),
        Column("width", 3), Column("interval score", 3, "min"), Column("CPU seconds", 1),
    ]  # fmt: skip
    rows = []
    for method, value in own.items():
        nll = None if name == NO_LIKELIHOOD else value["nll"]
        cells = [tuple(value["rmse"]), nll and tuple(nll), tuple(value["crps"]), value["coverage"]["0.9"]]
        width = value["width"]["0.9"]
        cells += [width, value["interval_score"]["0.9"], value["cpu_seconds"][0]]
        rows.append(Row(PEERS[method].title, cells))
    for title, values in PUBLISHED.items():
        if name in values:
            rmse, nll = values[name]
            rows.append(Row(f"published: {title}", [rmse, nll, *[None] * 5], ranked=False))
    first = next(iter(own.values()))
    return Table(f"{name}: {first['rows']} training rows, {first['splits']} splits", columns, rows)


def _rank_table(found: dict[str, Any]) -> Table:
    columns = [Column(f"mean rank {title}", 2, "min") for title in MEASURES.values()]
    columns += [Column("our CRPS / its CRPS", 3), Column("mean gap of coverage", 3, "min")]
    rows = []
    for method in found["coverage"]:
        ranks = [found["ranks"][measure].get(method) for measure in MEASURES]
        ratio = None if method == OURS else found["ratios"].get(method)
        rows.append(Row(PEERS[method].title, [*ranks, ratio, found["coverage"][method]["mean_gap_per_set"]]))
    return Table("All sets", columns, rows)


def _coverage_table(found: dict[str, Any], method: str) -> Table:
    """The share of test rows inside of intervals, by set."""
    columns = [*(Column(f"{level:g}", 3) for level in COVERAGES), Column("test rows", 0)]
    own = {name: value[method] for name, value in found["sets"].items() if value.get(method)}
    rows = [
        Row(name, [*(value["coverage"][str(level)] for level in COVERAGES), value["test_rows"]])
        for name, value in own.items()
    ]
    mean = found["coverage"][method]["mean_over_sets"]
    rows.append(Row("mean of the sets", [*(mean[str(level)] for level in COVERAGES), None]))
    return Table(f"Coverage of intervals: {PEERS[method].title}", columns, rows)
