"""The wheel holds everything that the package reads, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import torchmcl

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "torchmcl"


def test_the_wheel_holds_the_package_with_its_data(tmp_path):
    words = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
    ]
    subprocess.run([sys.executable, *words, str(ROOT)], check=True, timeout=120)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == f"torchmcl-{torchmcl.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 8e6
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist() if name.startswith("torchmcl/")}
    expected = {
        path.relative_to(SOURCE.parent)
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected
    assert "torchmcl_command.py" in zipfile.ZipFile(wheel).namelist()
