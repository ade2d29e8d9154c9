"""On two processes: train by the settings given, then validate the network of another run: `ddp.py RUN SETTING...`."""

import json
import sys
from pathlib import Path

from lightning.pytorch import Trainer

from torchmcl.distances import great_circle
from torchmcl.experiments.build import build_data
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.saved import load_network
from torchmcl.experiments.train import train
from torchmcl.losses import rmcl_loss
from torchmcl.metrics import EarthMoversDistance, OracleError
from torchmcl.training import Learner, quiet
from torchmcl.training.distributed import build_strategy


def validate(run: str, words: list[str], devices: int) -> dict[str, float]:
    """The metrics of a trained network on the validation scenes, by so many processes."""
    config = compose_config(words)
    metrics = {"emd": EarthMoversDistance(great_circle), "oracle": OracleError(great_circle)}
    learner = Learner(load_network(run)[1], rmcl_loss, metrics=metrics)
    with quiet():
        trainer = Trainer(
            accelerator="cpu", devices=devices, strategy=build_strategy(config.trainer.strategy, devices),
            use_distributed_sampler=False, logger=False, enable_progress_bar=False,
        )  # fmt: skip
        trainer.validate(learner, datamodule=build_data(config, progress=False), verbose=False)
    return {name: value.item() for name, value in trainer.callback_metrics.items() if name in metrics}


if __name__ == "__main__":
    folder = train(compose_config(sys.argv[2:]), progress=False)
    found = validate(sys.argv[1], sys.argv[2:], devices=2)
    (Path(folder) / "validated.json").write_text(json.dumps(found))
