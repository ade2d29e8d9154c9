"""Draw the pictures of the gallery: run each example whose picture is missing or older than itself."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PICTURES = HERE / "_build" / "pictures"


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for example in sorted((HERE.parent / "examples").glob("*.py")):
        picture = PICTURES / f"{example.stem}.png"
        if picture.exists() and picture.stat().st_mtime > example.stat().st_mtime:
            continue
        print(f"{example.name} draws {picture.name}", flush=True)
        # One thread: the networks are small, and two would wait for each other on a busy machine.
        subprocess.run(
            [sys.executable, example, picture], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )


if __name__ == "__main__":
    main()
