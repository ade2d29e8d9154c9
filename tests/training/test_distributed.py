"""Two processes train as one does with twice the batch."""

from types import SimpleNamespace

import torch
from lightning.pytorch import LightningModule

from forks import run_ranks
from torchmcl.hypotheses import Hypotheses
from torchmcl.training.distributed import build_strategy, gather_batch, gather_hypotheses
from training import two_processes


def test_two_processes_are_one_with_twice_the_batch(tmp_path):
    """With different numbers of targets on the processes, drawn negatives and averaged weights."""
    two_processes.main(0, 1, tmp_path / "one.pt")
    run_ranks(two_processes.main, 2, tmp_path / "two.pt")
    one, two = (torch.load(tmp_path / name, weights_only=True) for name in ("one.pt", "two.pt"))
    for name, weight in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], weight, rtol=1e-4, atol=1e-5)
    for mine, other in zip(one["history"], two["history"], strict=True):
        assert mine["step"] == other["step"]
        for name in ("training_loss", "oracle"):
            torch.testing.assert_close(mine[name], other[name], rtol=1e-5, atol=1e-6)


class Lonely(LightningModule):
    """The module of a trainer with three processes that all have the same items, shifted by their rank."""

    trainer = SimpleNamespace(world_size=3)

    def all_gather(self, data, sync_grads=False):
        return torch.stack([data + rank for rank in range(3)])


def test_items_are_dealt_back_as_a_distributed_sampler_dealt_them_out():
    own = torch.arange(0, 6, 3)
    assert gather_batch(Lonely(), own).tolist() == list(range(6))
    h = Hypotheses(torch.zeros(2, 4, 1), torch.zeros(2, 4), "softmax")
    gathered = gather_hypotheses(Lonely(), h)
    assert gathered.link == "softmax"
    assert gathered.points[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert gathered.logits.shape == (6, 4)


def test_one_process_needs_no_strategy():
    assert build_strategy("auto", 1) == "auto"
    assert build_strategy("fsdp", 8) == "fsdp"
    assert not isinstance(build_strategy("auto", 2), str)
