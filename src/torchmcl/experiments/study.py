"""Many runs: the rows of the paper's tables and figures, trained where missing, several at a time."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchmcl.errors import UserError
from torchmcl.experiments import figures
from torchmcl.experiments.build import build_data
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.figures import Result
from torchmcl.experiments.jobs import Job, check_place, run_jobs
from torchmcl.experiments.published import ANSYN, RESYN, Cells
from torchmcl.experiments.tables import Line, Sheet, write_sheet
from torchmcl.experiments.train import member_seeds, train

__all__ = ["STUDIES", "Part", "Row", "Study", "run_study"]


@dataclass(frozen=True)
class Row:
    """A method of a table or figure: its label, its place in the published table, and its settings.

    The members of an ensemble are runs of another row.
    """

    label: str
    key: str
    settings: tuple[str, ...]
    members: "Row | None" = None


@dataclass(frozen=True)
class Part:
    """The rows on one data set, and where the runs of each row are, one for each seed."""

    data: str
    rows: tuple[Row, ...]
    runs: tuple[tuple[Path, ...], ...]

    def results(self) -> list[Result]:
        """What the runs found on the test recordings."""
        return [
            Result(row.label, [_found(run) for run in runs], runs[0])
            for row, runs in zip(self.rows, self.runs, strict=True)
        ]


@dataclass(frozen=True)
class Study:
    """What is run on which data, and what is made of it; `several` seeds or one."""

    parts: tuple[tuple[str, tuple[Row, ...]], ...]
    write: Callable[[Path, Sequence[Part]], Path]
    several: bool = False


def _row(label: str, method: str, *settings: str, key: str | None = None) -> Row:
    return Row(label, key or method, (f"method={method}", *settings))


def _sizes(method: str, name: str, sizes: Sequence[int]) -> tuple[Row, ...]:
    return tuple(
        _row(f"{name}, {k} hyp.", method, f"method.hypotheses={k}", key=method if k == 5 else f"{method}-{k}")
        for k in sizes
    )


def _write_table(path: Path, parts: Sequence[Part]) -> Path:
    sheets = [
        Sheet(
            f"{part.data}, scale {path.parent.name}",
            [
                Line(result.label, result.cells[0], PUBLISHED.get(part.data, {}).get(row.key))
                for row, result in zip(part.rows, part.results(), strict=True)
            ],
        )
        for part in parts
    ]
    return write_sheet(path, path.name, sheets)


def _write_statistics(path: Path, parts: Sequence[Part]) -> Path:
    return figures.statistics(path, {part.data: part.results() for part in parts})


def _write_sizes(path: Path, parts: Sequence[Part]) -> Path:
    return figures.sizes(path, {part.data: part.results() for part in parts})


def _write_winners(path: Path, parts: Sequence[Part]) -> Path:
    return figures.winners(path, parts[0].results()[0])


def _write_scenes(path: Path, parts: Sequence[Part]) -> Path:
    return figures.scenes(path, *parts[0].results())


PIT = _row("PIT", "pit")
PIT_IN_ORDER = _row("PIT in start order", "pit_in_order")
WTA1 = _row("WTA, 1 hyp.", "wta1")
RMCL = _row("rMCL, 5 hyp.", "rmcl")
SOFTMAX = _row("rMCL, softmax scores, 5 hyp.", "rmcl_softmax")
OURS = _row("transport-rMCL, 5 hyp.", "transport_rmcl")
BASELINES = (
    PIT,
    PIT_IN_ORDER,
    Row("IE (5 members)", "ie", ("method=ie",), members=WTA1),
    WTA1,
    _row("WTA, 5 hyp.", "wta"),
    _row("top-n-WTA, 5 hyp.", "top_n_wta"),
    _row("ε-WTA, 5 hyp.", "eps_wta"),
    RMCL,
    OURS,
)
VARIANTS = (RMCL, SOFTMAX, _row("top-n-rMCL, 5 hyp.", "top_n_rmcl"), _row("ε-rMCL, 5 hyp.", "eps_rmcl"), OURS)
SIZES = _sizes("rmcl", "rMCL", (3, 5, 10, 20))

STUDIES: dict[str, Study] = {
    "table1": Study((("simulated", BASELINES),), _write_table),
    "table2": Study((("reverberant", BASELINES),), _write_table),
    "table3": Study((("simulated", VARIANTS), ("reverberant", VARIANTS)), _write_table),
    "table4": Study((("simulated", (PIT, PIT_IN_ORDER, WTA1, *SIZES, OURS)),), _write_table),
    "figure-statistics": Study(
        (("simulated", (PIT, RMCL, OURS)), ("reverberant", (PIT, RMCL, OURS))),
        _write_statistics,
        several=True,
    ),
    "figure-hypotheses": Study((("simulated", SIZES),), _write_sizes, several=True),
    "figure-winners": Study((("simulated", _sizes("rmcl", "rMCL", (20,))),), _write_winners),
    "figure-scenes": Study((("simulated", (RMCL, PIT)),), _write_scenes),
}
"""Each table and figure of the paper: the data, its rows, and what is made of them."""

PUBLISHED: dict[str, dict[str, Cells]] = {
    "simulated": ANSYN, "ansyn": ANSYN, "reverberant": RESYN, "resyn": RESYN,
}  # fmt: skip


def run_study(
    name: str,
    settings: Sequence[str],
    *,
    out: Path = Path("runs/study"),
    workers: int | None = None,
    seeds: int = 3,
    on: str = "local",
    address: str | None = None,
) -> list[Path]:
    """Train the missing rows of a table or figure, or of `all`, `workers` at a time, and write it.

    Figures with error bars have `seeds` runs of each row. A setting `data=NAME` takes that data set in place of
    the study's own. Runs are done where `run_jobs` does them with `on` and `address`.
    """
    if name not in (*STUDIES, "all"):
        raise UserError(f"no study {name}; there are {', '.join(STUDIES)} and all")
    if any(word.startswith(("method=", "run=")) for word in settings):
        raise UserError("method and run are chosen by the study; give others, for example scale=smoke")
    check_place(on, address)
    workers = workers or os.cpu_count() or 1
    names = list(STUDIES) if name == "all" else [name]
    work = partial(run_jobs, workers=workers, on=on, address=address)
    return [_run(each, STUDIES[each], settings, out, work, workers, seeds) for each in names]


def _run(
    name: str,
    study: Study,
    settings: Sequence[str],
    out: Path,
    work: Callable[[Sequence[Job]], None],
    workers: int,
    seeds: int,
) -> Path:
    chosen = [word.removeprefix("data=") for word in settings if word.startswith("data=")]
    others = [word for word in settings if not word.startswith("data=")]
    parts, scale = [], ""
    for data, rows in ((chosen[-1], study.parts[0][1]),) if chosen else study.parts:
        plan = [_jobs(row, data, others, out, seeds if study.several else 1) for row in rows]
        config = compose_config(plan[0][0].settings)
        build_data(config, workers=workers)
        missing = {
            job: _trainings(row, job, data, others, out)
            for row, jobs in zip(rows, plan, strict=True)
            for job in jobs
            if not job.done
        }
        # The member of an ensemble may be in a row of its own as well: it is trained once.
        work(list({job.run: job for jobs in missing.values() for job in jobs}.values()))
        for job, members in missing.items():
            if members != [job]:
                ensemble = compose_config([*job.settings, f"run={job.run}"])
                train(ensemble, members=[member.run for member in members], progress=False)
        scale = config.scale
        parts.append(Part(data, rows, tuple(tuple(job.run for job in jobs) for jobs in plan)))
    return study.write(out / scale / name, parts)


def _jobs(row: Row, data: str, settings: Sequence[str], out: Path, seeds: int) -> list[Job]:
    """The runs of a row: with the seed of the settings and those that follow."""
    words = (f"data={data}", *row.settings, *settings)
    config = compose_config(words)
    folder = out / config.scale
    return [
        Job(folder / f"{data}-{row.key}-seed{seed}", (*words, f"seed={seed}"))
        for seed in range(config.seed, config.seed + seeds)
    ]


def _trainings(row: Row, job: Job, data: str, settings: Sequence[str], out: Path) -> list[Job]:
    """What has to be trained for a run: itself or, if it is an ensemble, its members."""
    if row.members is None:
        return [job]
    seeds = member_seeds(compose_config(job.settings))
    return _jobs(row.members, data, [*settings, f"seed={seeds[0]}"], out, len(seeds))


def _found(run: Path) -> Cells:
    groups = json.loads((run / "metrics.json").read_text())["test"]["groups"]
    return tuple(
        (groups[group][metric]["mean"], groups[group][metric]["std"])
        for metric in ("emd", "oracle")
        for group in sorted(groups)
    )
