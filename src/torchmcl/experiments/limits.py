"""How large and how small settings may be: a mistake, or a run from elsewhere, must not fill the machine."""

from torchmcl.errors import UserError
from torchmcl.experiments.config import Config, to_plain

__all__ = ["check_limits"]

LIMITS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**31 - 1),
    "method.hypotheses": (1, 10_000),
    "method.members": (1, 1000),
    "method.n": (1, 10_000),
    "method.epsilon": (0, 1),
    "method.regression": (0, 1e6),
    "method.scoring": (0, 1e6),
    "method.transport": (0, 1e6),
    "method.negatives": (1, 10_000),
    "data.recordings": (1, 100_000),
    "data.fold": (1, 100),
    "network.filters": (1, 1024),
    "network.units": (1, 2048),
    "network.layers": (1, 32),
    "network.nfft": (2, 2**17),
    "network.stride": (1, 2**10),
    "network.bins": (1, 2**16),
    "training.epochs": (1, 1_000_000),
    "training.batches": (1, 1_000_000_000),
    "training.batch_size": (1, 1_000_000),
    "training.learning_rate": (0, 1e3),
    "training.weight_decay": (0, 1e3),
    "training.clip": (0, 1e9),
    "trainer.devices": (1, 1024),
    "trainer.nodes": (1, 10_000),
    "trainer.threads": (1, 4096),
}


def check_limits(config: Config) -> None:
    """Refuse a setting that is out of its limits, by its name; what is null is left out."""
    plain = to_plain(config)
    for key, (low, high) in LIMITS.items():
        group, _, name = key.rpartition(".")
        value = plain[group][name] if group else plain[name]
        if value is not None and not low <= value <= high:
            raise UserError(f"{key} is {value:g}, must be {low:g} to {high:g}")
    for pool in config.network.pools:
        if not 1 <= pool <= 1024:
            raise UserError(f"network.pools is {list(config.network.pools)}, each must be 1 to 1024")
    if not 1 <= len(config.network.pools) <= 10:
        raise UserError(f"network.pools has {len(config.network.pools)} entries, must be 1 to 10")
