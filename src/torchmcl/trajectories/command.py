"""The command `torchmcl trajectories`: which runs there are, and what is made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError
from torchmcl.runs.figures import save_figure
from torchmcl.runs.files import write_json
from torchmcl.runs.folder import METRICS
from torchmcl.runs.jobs import Job, Local, Ray, execute
from torchmcl.runs.outputs import claim_outputs
from torchmcl.runs.tables import write_tables
from torchmcl.trajectories.folds import HELD_OUT, SCENES, folds, read_windows
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.recipes import DEFAULT, RECIPES, recipe_named
from torchmcl.trajectories.report import choice_table, tables
from torchmcl.trajectories.study import choose, run_bundle, run_choice, run_scene, summarize

__all__ = ["Run", "Study", "study", "work"]

MOST_SEEDS, MOST_STEPS = 1000, 10_000_000
FILES = ("results.json", "table.md", "table.tex", "table.html", "futures.png", "futures.pdf")
CHOICE_FILES = ("choice.json", "choice.md", "choice.tex", "choice.html")
"""What is written beside the runs."""


@dataclass(frozen=True)
class Study:
    """What to do.

    Args:
        data: With one folder for each scene.
        scene: One scene, `all`, or `none` to leave nothing out.
        seeds: Networks of each scene.
        out: The folder of the study.
        recipe: Its name.
        steps: Of the optimizer, where not those of the recipe; several to compare them.
        choose: Whether to compare the recipes on held-out videos instead, or the recipe at several numbers of steps.
        workers: Runs at a time; one for each core by default.
        on: `local` or `ray`.
        address: Of a Ray cluster.
    """

    data: Path
    scene: str = "all"
    seeds: int = 3
    out: Path = Path("runs/trajectories")
    recipe: str = DEFAULT
    steps: tuple[int, ...] = ()
    choose: bool = False
    workers: int | None = None
    on: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise UserError(f"--seeds must be 1 to {MOST_SEEDS}, got {self.seeds}")
        for steps in self.steps:
            if not 1 <= steps <= MOST_STEPS:
                raise UserError(f"--steps must be 1 to {MOST_STEPS}, got {steps}")

    @property
    def place(self) -> Local | Ray:
        """Where runs are trained."""
        if self.on not in ("local", "ray"):
            raise UserError(f"--on is {self.on!r}, must be local or ray")
        if self.address is not None and self.on != "ray":
            raise UserError("--address is of a Ray cluster: say --on ray as well")
        count = {} if self.workers is None else {"workers": self.workers}
        return Ray(self.address, **count) if self.on == "ray" else Local(**count)


@dataclass(frozen=True)
class Run:
    """One training of a study, in plain values.

    Args:
        data: The folder of the data.
        out: The folder of the study.
        recipe: Its name.
        steps: Of the optimizer, where not those of the recipe.
        scene: That is left out; `none` for no scene.
        seed: Of its random numbers.
        judge: A second scene that is left out, where recipes are compared.
    """

    data: str
    out: str
    recipe: str
    steps: int | None
    scene: str
    seed: int = 0
    judge: str | None = None

    @property
    def folder(self) -> Path:
        """Where its result is."""
        if self.judge is not None:
            name = self.recipe if self.steps is None else f"{self.recipe}-{self.steps}"
            return Path(self.out) / "choice" / f"{self.scene}-{self.judge}-{name}"
        return Path(self.out) / self.scene / f"seed{self.seed}"

    @property
    def job(self) -> Job:
        """The same as a job of a process."""
        name = "-".join(self.folder.relative_to(self.out).parts)
        log = Path(self.out) / "logs" / f"{name}.log"
        return Job(name, f"{__name__}:work", self.__dict__, self.folder / METRICS, log)

    def work(self, progress: Callable[[float], None] | bool = False) -> Any:
        """Train and measure, or read what is there."""
        data, recipe = Path(self.data), recipe_named(self.recipe, self.steps)
        if self.judge is not None:
            return run_choice(data, (self.scene, self.judge), self.recipe, self.steps, self.folder, progress)
        if self.scene == "none":
            return run_bundle(data, recipe, self.seed, self.folder, progress)
        [fold] = folds(data, [self.scene])
        return run_scene(fold, recipe, self.seed, self.folder, progress)


def work(**run: Any) -> None:
    """One run, in a process of its own.

    Args:
        run: The fields of `Run`.
    """
    Run(**run).work()


def study(settings: Study) -> list[Path]:
    """Train what is missing, and write results, tables and figures.

    Args:
        settings: What to do.

    Returns:
        What was written.
    """
    scenes = SCENES if settings.scene in ("all", "none") else (settings.scene,)
    folds(settings.data, scenes)
    for steps in settings.steps or (None,):
        recipe_named(settings.recipe, steps)
    if settings.choose:
        claim_outputs(settings.out, CHOICE_FILES, otherwise="choose another --out")
        return _choice(settings)
    if len(settings.steps) > 1:
        raise UserError(f"--steps has {len(settings.steps)} values, which only --choose compares: give one")
    if settings.scene != "none":
        claim_outputs(settings.out, FILES, otherwise="choose another --out")
    left_out = ("none",) if settings.scene == "none" else scenes
    runs = [_run(settings, scene, seed=seed) for scene in left_out for seed in range(settings.seeds)]
    _finish(runs, settings)
    return [run.folder for run in runs] if settings.scene == "none" else _results(settings, scenes)


def _run(settings: Study, scene: str, **more: Any) -> Run:
    steps = settings.steps[0] if settings.steps else None
    fixed = {"data": str(settings.data), "out": str(settings.out), "scene": scene}
    return Run(**{"recipe": settings.recipe, "steps": steps, **fixed, **more})


def _finish(runs: Sequence[Run], settings: Study) -> None:
    """Do what is not done; a single run in this process, with a bar of its own."""
    place = settings.place
    missing = [run for run in runs if not run.job.is_done]
    if len(missing) == 1 and isinstance(place, Local):
        missing[0].work(progress=True)
    else:
        execute([run.job for run in missing], place)


def _results(settings: Study, scenes: Sequence[str]) -> list[Path]:
    from torchmcl.trajectories.pictures import gallery

    records = {
        scene: [_run(settings, scene, seed=seed).work() for seed in range(settings.seeds)] for scene in scenes
    }
    results = summarize(records)
    write_json(settings.out / "results.json", {"recipe": settings.recipe, **results})
    written = write_tables(
        settings.out / "table", "Pedestrian trajectories: ETH/UCY", tables(results, settings.seeds)
    )
    shown = [
        (
            fold.scene,
            Forecaster.from_pretrained(_run(settings, fold.scene).folder),
            read_windows(fold.files("test")),
        )
        for fold in folds(settings.data, scenes)
    ]
    return [*written, settings.out / "results.json", *save_figure(gallery(shown), settings.out / "futures")]


def _candidates(settings: Study) -> dict[str, dict[str, Any]]:
    """What is compared, under the name of its column."""
    if len(settings.steps) > 1:
        return {f"{steps} steps": {"steps": steps} for steps in settings.steps}
    return {name: {"recipe": name} for name in RECIPES}


def _choice(settings: Study) -> list[Path]:
    runs = {
        pair: {
            name: _run(settings, pair[0], judge=pair[1], **candidate)
            for name, candidate in _candidates(settings).items()
        }
        for pair in HELD_OUT
    }
    _finish([run for row in runs.values() for run in row.values()], settings)
    scores = {pair: {name: run.work() for name, run in row.items()} for pair, row in runs.items()}
    relative = choose(scores)
    best = {fold: min(row, key=row.__getitem__) for fold, row in relative.items()}
    pairs = {"-".join(pair): rows for pair, rows in scores.items()}
    write_json(settings.out / "choice.json", {"folds": relative, "best": best, "scores": pairs})
    written = write_tables(settings.out / "choice", "Held-out videos", [choice_table(relative)])
    return [*written, settings.out / "choice.json"]
