"""A localizer in simulated rooms with sounds of classes that it has not heard: the table of its card.

`python -m benchmarks rooms SOUNDS`, where SOUNDS is the folder of recorded sounds that it was trained with.
"""

import argparse

from torchmcl.audio.localizer import BUNDLED_MODEL, listening_named
from torchmcl.audio.training import LocalizerTraining, judge_model, table

__all__ = ["HELD_OUT", "main"]

HELD_OUT = ("crying_baby", "helicopter", "speech", "keys")
"""Classes that the bundled model has not heard."""

SEED = 4000
"""Of the scenes: other ones than those of the training, the calibration and the choice of settings."""


def main(arguments: list[str]) -> int:
    """Localize the scenes and print the measures and the reliability of the count."""
    parser = argparse.ArgumentParser("benchmarks rooms", description=__doc__)
    parser.add_argument("sounds", help="folder of recorded sounds, one subfolder a class")
    parser.add_argument("--model", default=str(BUNDLED_MODEL), help="folder of the model")
    parser.add_argument("--scenes", type=int, default=150, help="scenes of each number of sources")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--prefer", default="recall")
    parser.add_argument("--causal", action="store_true")
    given = parser.parse_args(arguments)
    listening = listening_named(given.prefer, turns=given.turns, causal=given.causal)
    settings = LocalizerTraining(sounds=given.sounds, held_out=HELD_OUT, scenes=given.scenes)
    found = judge_model(given.model, settings, listening=listening, seed=SEED)
    print(table(found["sources"]))
    print()
    print("| probability said | right | frames |\n|---:|---:|---:|")
    for probability, right, frames in found["count_reliability"]:
        print(f"| {probability:.2f} | {right:.2f} | {frames} |")
    return 0
