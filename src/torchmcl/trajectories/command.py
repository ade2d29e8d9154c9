"""The command `torchmcl trajectories`: which runs there are, and what is made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmcl.runs.files import write_json, write_text
from torchmcl.trajectories.folds import HELD_OUT, SCENES, folds
from torchmcl.trajectories.recipes import RECIPES, recipe_named
from torchmcl.trajectories.report import latex, markdown
from torchmcl.trajectories.study import choose, collect, run_bundle, run_choice, run_scene, summarize

__all__ = ["Run", "Study", "study"]


@dataclass(frozen=True)
class Study:
    """What to do.

    Args:
        data: With one folder for each scene.
        scene: One scene, `all`, or `none` to leave nothing out.
        seeds: Networks of each scene.
        out: The folder of the study.
        recipe: Its name.
        steps: Of the optimizer, where not those of the recipe.
        choose: Whether to compare the recipes on held-out videos instead.
        workers: Runs at a time; one for each core by default.
        on: `local` or `ray`.
        address: Of a Ray cluster.
    """

    data: Path
    scene: str = "all"
    seeds: int = 3
    out: Path = Path("runs/trajectories")
    recipe: str = "roughness"
    steps: int | None = None
    choose: bool = False
    workers: int | None = None
    on: str = "local"
    address: str | None = None


@dataclass(frozen=True)
class Run:
    """One training of the study.

    Args:
        study: That it belongs to.
        kind: `scene`, `none` or `choice`.
        what: The scene, or the pair of scenes that is held out.
        recipe: Its name.
        seed: Of its random numbers.
    """

    study: Study
    kind: str
    what: tuple[str, ...]
    recipe: str
    seed: int = 0

    @property
    def folder(self) -> Path:
        """Where its result is."""
        if self.kind == "choice":
            return self.study.out / "choice" / f"{'-'.join(self.what)}-{self.recipe}"
        return self.study.out / (self.what[0] if self.what else "none") / f"seed{self.seed}"

    @property
    def done(self) -> bool:
        """Whether it was trained and measured."""
        return (self.folder / "metrics.json").exists()

    def work(self, progress: Callable[[float], None] | bool = False) -> Any:
        """Train and measure, or read what is there."""
        study = self.study
        recipe = recipe_named(self.recipe, study.steps)
        if self.kind == "choice":
            pair = (self.what[0], self.what[1])
            return run_choice(study.data, pair, self.recipe, study.steps, self.folder, progress)
        if self.kind == "none":
            return run_bundle(study.data, recipe, self.seed, self.folder, progress)
        [fold] = folds(study.data, self.what)
        return run_scene(fold, recipe, self.seed, self.folder, progress)


def study(settings: Study) -> list[Path]:
    """Train what is missing, and write results, tables and figures.

    Args:
        settings: What to do.

    Returns:
        What was written.
    """
    scenes = SCENES if settings.scene == "all" else () if settings.scene == "none" else (settings.scene,)
    folds(settings.data, scenes or SCENES)
    recipe_named(settings.recipe, settings.steps)
    if settings.choose:
        return _choice(settings)
    if not scenes:
        runs = [Run(settings, "none", (), settings.recipe, seed) for seed in range(settings.seeds)]
        _work(runs, settings)
        return [run.folder for run in runs]
    _work(
        [
            Run(settings, "scene", (scene,), settings.recipe, seed)
            for scene in scenes
            for seed in range(settings.seeds)
        ],
        settings,
    )
    return _results(settings, scenes)


def _work(runs: Sequence[Run], settings: Study) -> None:
    for run in runs:
        if not run.done:
            run.work(progress=True)


def _results(settings: Study, scenes: Sequence[str]) -> list[Path]:
    results = summarize(collect(settings.out, scenes, settings.seeds))
    write_json(settings.out / "results.json", {"recipe": settings.recipe, **results})
    write_text(settings.out / "table.md", markdown(results, settings.seeds))
    write_text(settings.out / "table.tex", latex(results, settings.seeds))
    return [settings.out / name for name in ("results.json", "table.md", "table.tex")]


def _choice(settings: Study) -> list[Path]:
    runs = [Run(settings, "choice", pair, name) for pair in HELD_OUT for name in RECIPES]
    _work(runs, settings)
    scores: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for run in runs:
        scores.setdefault((run.what[0], run.what[1]), {})[run.recipe] = run.work()
    table = choose(scores)
    best = {fold: min(row, key=row.__getitem__) for fold, row in table.items()}
    pairs = {"-".join(pair): rows for pair, rows in scores.items()}
    write_json(settings.out / "choice.json", {"folds": table, "best": best, "scores": pairs})
    lines = [("fold", *RECIPES, "best"), ("---",) * (len(RECIPES) + 2)]
    lines += [(fold, *(f"{row[name]:.3f}" for name in RECIPES), best[fold]) for fold, row in table.items()]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    write_text(settings.out / "choice.md", text)
    return [settings.out / "choice.json", settings.out / "choice.md"]
