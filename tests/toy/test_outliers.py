"""`torchmcl toy-outliers` from end to end on tiny networks."""

import json
from dataclasses import replace

from PIL import Image
from rich.console import Console

from torchmcl.toy.outliers import RHO, THRESHOLD, toy_outliers


def test_numbers_figure_and_the_mark_of_outliers(tiny, tmp_path):
    settings = replace(tiny, epochs=3)
    console = Console(record=True, width=120)
    toy_outliers(settings, seed=0, out=tmp_path, console=console, size=10)
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["outliers"], found["threshold"]) == (RHO, THRESHOLD) == (0.02, 0.005)
    assert set(found["models"]) == {"rmcl", "rmcl_clean", "smcl"}
    for case, numbers in found["models"].items():
        config = json.loads((tmp_path / f"models/tiny/seed0/{case}/settings.json").read_text())
        assert config["settings"]["outliers"] == (0 if case == "rmcl_clean" else RHO)
        assert numbers["emd_mean"] > found["floor_mean"]
    smcl = found["models"]["smcl"]
    assert smcl["emd_mean"] == smcl["emd_mean_pruned"]
    assert "rMCL, no outliers" in console.export_text()
    with Image.open(tmp_path / "outliers.png") as image:
        assert image.width > 1500
