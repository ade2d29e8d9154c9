"""A table or figure of the paper: plan its runs, do what is missing, collect the results, write it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError
from torchmcl.experiments.build import build_data, check_data
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.config import Config, change, read_method, to_plain
from torchmcl.experiments.figures import Result
from torchmcl.experiments.published import Cells
from torchmcl.experiments.saved import read_metrics
from torchmcl.experiments.studies import STUDIES, Row, Study
from torchmcl.experiments.train import member_seeds, prepare
from torchmcl.runs.folder import METRICS
from torchmcl.runs.jobs import Job, Local, Ray, execute
from torchmcl.runs.outputs import claim_outputs

__all__ = ["StudyRun", "collect", "compose_panels", "plan", "run_study"]

GROUPS = ("D1", "D2", "D3")
"""The numbers of sources that tables and figures show."""


@dataclass(frozen=True)
class StudyRun(Job):
    """A run of a study, as a job.

    Args:
        config: Its settings.
        row: The method; `None` for a run that is only a member of an ensemble.
    """

    config: Config = field(default_factory=Config, hash=False)
    row: Row | None = None

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.done.parent


def plan(
    study: Study, base_config: Config, out: Path, *, seeds: int = 1, changes: dict[str, Any] | None = None
) -> tuple[StudyRun, ...]:
    """The runs of a study on one data set.

    Args:
        study: Whose rows are run.
        base_config: The settings that all runs share; the rows change them.
        out: The runs are below, in a folder for each scale.
        seeds: Runs of each row where the study has error bars; they have the seed of `base_config` and those after it.
        changes: Applied after those of a row, for example `{"method.scoring": 4.0}`.

    Returns:
        The runs of all rows, in order, and among them the members of ensembles; none is started.
    """
    count = seeds if study.several_seeds else 1
    runs: dict[Path, StudyRun] = {}
    for row in study.rows:
        for seed in range(base_config.seed, base_config.seed + count):
            _add(runs, row, base_config, seed, out, changes or {}, shown=True)
    return tuple(runs.values())


def collect(runs: Sequence[StudyRun]) -> tuple[Result, ...]:
    """What finished runs found on their test recordings.

    Args:
        runs: Planned and done.

    Returns:
        A result for each row and data set, with one entry for each seed.
    """
    groups: dict[tuple[str, str], list[StudyRun]] = {}
    for run in runs:
        if run.row is not None:
            groups.setdefault((run.config.data.name, run.row.label), []).append(run)
    return tuple(
        Result(label, _row_of(same).published, data, tuple(_cells(run) for run in same), same[0].folder)
        for (data, label), same in groups.items()
    )


def run_study(
    name: str,
    words: Sequence[str],
    *,
    out: Path = Path("runs/study"),
    where: Local | Ray | None = None,
    seeds: int = 3,
) -> list[Path]:
    """Train the missing runs of a table or figure, and write it.

    Args:
        name: A key of `STUDIES`, or `all`.
        words: Settings of all runs, like `scale=smoke`. `data=A,B` and `data.folder=A,B` replace the data sets of the
            panels in their order; panels that are not named keep their own.
        out: Where runs, tables and figures go.
        where: The runs are done there; `Local()` by default.
        seeds: Runs of each row in figures with error bars.

    Returns:
        The files to show.
    """
    if name not in (*STUDIES, "all"):
        raise UserError(f"no study {name}; there are {', '.join(STUDIES)} and all")
    if any(word.startswith(("method=", "run=")) for word in words):
        raise UserError("method and run are chosen by the study; give others, for example scale=smoke")
    where = where or Local()
    names = list(STUDIES) if name == "all" else [name]
    panels = {each: compose_panels(each, words) for each in names}
    changes = _method_changes(words)
    everything = [base for bases in panels.values() for base in bases]
    for base in everything:
        check_data(base)
    for each, (base, *_) in panels.items():
        claim_outputs(out / base.scale, STUDIES[each].files(each), otherwise="choose another --out")
    for base in everything:
        build_data(base, workers=where.workers)
    written = []
    for each, bases in panels.items():
        study = STUDIES[each]
        runs = [run for base in bases for run in plan(study, base, out, seeds=seeds, changes=changes)]
        for run in runs:
            prepare(run.folder, run.config, members=[need.done.parent for need in run.needs])
        execute(runs, where)
        written.append(study.write(out / bases[0].scale / each, collect(runs)))
    return written


def _add(
    runs: dict[Path, StudyRun],
    row: Row,
    base: Config,
    seed: int,
    out: Path,
    changes: dict[str, Any],
    *,
    shown: bool,
) -> StudyRun:
    """Add a run and those that it needs; the member of an ensemble may be a row of its own as well."""
    folder = out / base.scale / f"{base.data.name}-{row.published}-seed{seed}"
    known = runs.get(folder)
    if known is not None and not shown:
        return known
    own = {key: read_method(value) if key == "method" else value for key, value in row.changes.items()}
    fixed = {"seed": seed, "run": str(folder), "trainer.threads": 1}
    config = change(base, {**own, **changes, **fixed})
    needs: tuple[StudyRun, ...] = ()
    if row.members is not None:
        others = {key: value for key, value in changes.items() if key != "method.members"}
        seeds = member_seeds(config)
        needs = tuple(_add(runs, row.members, base, s, out, others, shown=False) for s in seeds)
    runs.pop(folder, None)
    runs[folder] = StudyRun(
        name=str(folder),
        function="torchmcl.experiments.train:resume",
        arguments={"folder": str(folder)},
        done=folder / METRICS,
        log=folder / "train.log",
        needs=needs,
        config=config,
        row=row if shown else None,
    )
    return runs[folder]


def compose_panels(name: str, words: Sequence[str]) -> list[Config]:
    """The settings that the runs of each panel share.

    Args:
        name: A key of `STUDIES`.
        words: As in `run_study`; settings of the method are left out, for the rows have their own.

    Returns:
        Settings for each data set.
    """
    study = STUDIES[name]
    others = [word for word in words if not word.startswith(("data=", "data.folder=", "method."))]
    given = {key: _listed(words, key) for key in ("data", "data.folder")}
    for key, values in given.items():
        if len(values) > len(study.data):
            raise UserError(
                f"{key} names {len(values)}, {name} has {len(study.data)} data sets: {', '.join(study.data)}"
            )
    chosen = [*given["data"], *study.data[len(given["data"]) :]]
    if len(set(chosen)) < len(chosen):
        raise UserError(
            f"data: {name} would have {chosen[0]} twice, its data sets are {', '.join(study.data)}"
        )
    folders = [[f"data.folder={folder}"] for folder in given["data.folder"]]
    folders += [[] for _ in chosen[len(folders) :]]
    return [
        compose_config([f"data={data}", *others, *folder])
        for data, folder in zip(chosen, folders, strict=True)
    ]


def _listed(words: Sequence[str], key: str) -> list[str]:
    values = [word.removeprefix(f"{key}=") for word in words if word.startswith(f"{key}=")]
    return values[-1].split(",") if values else []


def _method_changes(words: Sequence[str]) -> dict[str, Any]:
    """Settings of the method, which hold for all rows."""
    given = [word for word in words if word.startswith("method.")]
    composed = to_plain(compose_config(given))["method"]
    keys = [word.split("=")[0] for word in given]
    return {key: composed[key.removeprefix("method.")] for key in keys}


def _row_of(runs: Sequence[StudyRun]) -> Row:
    row = runs[0].row
    assert row is not None
    return row


def _cells(run: StudyRun) -> Cells:
    """EMD, then oracle error, for one, two and three sources; NaN for a number that no test recording has."""
    metrics, config = read_metrics(run.folder), run.config
    wanted = {
        "method": config.method.name,
        "data": config.data.name,
        "scale": config.scale,
        "seed": config.seed,
    }
    for key, own in wanted.items():
        if (found := getattr(metrics, key)) != own:
            raise UserError(f"{run.done}: {key} is {found!r}, must be {own!r}")
    groups = metrics.test.groups
    return tuple(
        (groups[group][metric].mean, groups[group][metric].std) if group in groups else (math.nan, math.nan)
        for metric in ("emd", "oracle")
        for group in GROUPS
    )
