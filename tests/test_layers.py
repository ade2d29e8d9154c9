"""Dependencies point one way: commands, experiments, applications, training, core."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import torchmcl

ROOT = Path(torchmcl.__file__).parent
LAYERS = {
    "core": {
        "assignment", "classification", "crps", "directions", "distances", "energy", "ensemble",
        "errors", "heads", "hypotheses", "likelihood", "losses", "metrics", "mixtures", "plots", "regions", "transport",
        "voronoi",
    },
    "training": {"export", "runs", "sharing", "training"},
    "application": {"audio", "images", "tabular", "toy", "trajectories"},
    "experiments": {"experiments"},
    "command": {"__main__", "cli", "demo", "web"},
}  # fmt: skip
ORDER = list(LAYERS)


def layer_of(module: str) -> int:
    return next(ORDER.index(name) for name, members in LAYERS.items() if module in members)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_upwards(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    for name in imports_of(path):
        parts = name.split(".")
        if (
            parts[0] == "torchmcl"
            and len(parts) > 1
            and (ROOT / parts[1]).with_suffix(".py").exists() | (ROOT / parts[1]).is_dir()
        ):
            assert layer_of(parts[1]) <= layer_of(own), f"{own} must not import {name}"
    if own in LAYERS["core"]:
        heavy = {"lightning", "sklearn", "soundfile", "matplotlib"} - (
            {"matplotlib"} if own == "plots" else set()
        )
        assert not any(name.split(".")[0] in heavy for name in imports_of(path))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_with_an_underscore_stay_in_their_folder(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchmcl")):
            continue
        parts = [*node.module.split(".")[1:]]
        for name in (alias.name for alias in node.names):
            chain = [*parts, name]
            hidden = [i for i, part in enumerate(chain) if part.startswith("_") and not part.startswith("__")]
            for i in hidden:
                home = ROOT.joinpath(*chain[:i])
                home = home if home.is_dir() else home.parent
                assert path.parent == home, f"{path} imports {'.'.join(chain)}"


def test_few_files_stand_at_the_top():
    assert len(list(ROOT.glob("*.py"))) <= 14


def test_toy_and_audio_know_nothing_of_each_other():
    for own, other in (("toy", "audio"), ("audio", "toy")):
        for path in (ROOT / own).rglob("*.py"):
            assert not any(name.startswith(f"torchmcl.{other}") for name in imports_of(path)), path


def test_import_is_light():
    program = "import sys, torchmcl; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"lightning", "torchmetrics", "sklearn", "matplotlib", "hydra", "soundfile", "ot"} & set(
        loaded
    )


def test_every_public_name_is_there():
    assert all(getattr(torchmcl, name) is not None for name in torchmcl.__all__)
    with pytest.raises(AttributeError, match="module 'torchmcl' has no attribute 'nothing'"):
        _ = torchmcl.nothing
