"""`fit`: repeatable, resumable, interruptible, and it keeps the weights that it says."""

import csv
import math
import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torchmetrics import MeanMetric

import torchmcl
from torchmcl.errors import UserError
from torchmcl.heads import HypothesisHead
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.metrics import OracleError
from torchmcl.training import Hardware, History, Optimization, Scheduled, TensorBatches, cosine, fit

INPUTS, TARGETS, ACTIVE = torch.rand(3, 64, 2, 1, generator=torch.Generator().manual_seed(5)).unbind()
DATA = INPUTS[:, 0], TARGETS, ACTIVE[..., 0] < 0.7
CPU = Hardware("cpu")


def batches(shuffle=True, size=16):
    return TensorBatches(*DATA, batch_size=size, shuffle_seed=3 if shuffle else None)


def network():
    """With dropout, so that random numbers matter."""
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Dropout(0.3), HypothesisHead(8, 4, 1))


def train(epochs=4, loss=rmcl_loss, data=None, seed=0, **options):
    own = {
        key: options.pop(key) for key in ("callbacks", "checkpoint", "progress", "metrics") if key in options
    }
    optimization = Optimization(**{"epochs": epochs, "learning_rate": 0.01, **options})
    return fit(
        network,
        loss,
        data or batches(),
        batches(False),
        seed=seed,
        optimization=optimization,
        hardware=CPU,
        **own,
    )


def equal(one, two):
    first, second = (each.network.state_dict() for each in (one, two))
    return all(torch.equal(first[name], second[name]) for name in first)


class Endless(IterableDataset):
    """Nobody knows how many items it has."""

    def __iter__(self):
        yield from ()


class Stop(Callback):
    """Dies in the middle of an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.current_epoch == self.epoch and batch_idx == 2:
            raise RuntimeError("killed")


def test_one_trainer_is_built_in_the_package_and_no_private_function_of_torch_is_called():
    root = Path(torchmcl.__file__).parent
    sources = {path: path.read_text() for path in root.rglob("*.py")}
    built = [path.relative_to(root) for path, text in sources.items() if re.search(r"\bTrainer\(", text)]
    assert built == [Path("training/fit.py")]
    private = re.compile(r"\b(torch|lightning|pl|distributed)(\.\w+)*\._[a-z]\w*\(|__class__ = ")
    assert not [path for path, text in sources.items() if private.search(text)]


def test_the_seed_decides_and_the_process_is_left_as_it_was():
    before = torch.get_rng_state(), torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    first, again, other = train(), train(), train(seed=1)
    assert equal(first, again)
    assert not equal(first, other)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.get_num_threads(), signal.getsignal(signal.SIGTERM)) == before[1:]
    assert not first.network.training
    assert first.epochs == len(first.history) == 4
    assert [row["step"] for row in first.history] == [4, 8, 12, 16]
    assert first.best == min(row["validation_loss"] for row in first.history)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schedule": cosine, "ema": 0.9, "loss": partial(rmcl_loss, negatives=1)},
        {"keep": "last", "clip": 0.1, "batches": 3},
        {"data": DataLoader(TensorDataset(*DATA), batch_size=16, shuffle=True)},
    ],
    ids=["plain", "averaged", "clipped", "loader"],
)
@pytest.mark.parametrize("death", [0, 2, 3])
def test_killed_and_called_again_it_ends_with_equal_weights(options, death, tmp_path):
    path = tmp_path / "last.ckpt"
    with pytest.raises(RuntimeError, match="killed"):
        train(checkpoint=path, callbacks=[Stop(death)], **options)
    resumed, whole = train(checkpoint=path, **options), train(**options)
    assert equal(resumed, whole)
    assert resumed.best == whole.best
    assert resumed.history == whole.history
    assert equal(train(checkpoint=path, **options), whole), "a finished training stays finished"
    assert [each.name for each in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_training_that_stopped_early_is_not_resumed(tmp_path):
    options = {"epochs": 30, "patience": 2, "learning_rate": 0.0, "checkpoint": tmp_path / "last.ckpt"}
    first, second = train(**options), train(**options)
    assert first.epochs == second.epochs == 3
    assert equal(first, second)


FIRST = ("optimizer_states", 0, "state", 0)
"""Where the optimizer keeps what it knows of the first weights."""


def replaced(content, *place_and_value):
    *above, last, value = place_and_value
    parent = content
    for key in above:
        parent = parent[key]
    parent[last] = value
    return content


def counted(content, value):
    """A checkpoint with another number of batches."""
    content["loops"]["fit_loop"]["epoch_loop.state_dict"]["_batches_that_stepped"] = value
    return content


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: [content],
        lambda content: {"state_dict": {}},
        lambda content: {**content, "state_dict": {}},
        lambda content: {**content, "callbacks": []},
        lambda content: {**content, "optimizer_states": [{}]},
        lambda content: {**content, "loops": {"fit_loop": 3}},
        lambda content: replaced(content, "loops", "fit_loop", "epoch_progress", "current", "completed", 99),
        lambda content: {**content, "state_dict": {k: v[:1] for k, v in content["state_dict"].items()}},
        lambda content: {key: value for key, value in content.items() if key != "pytorch-lightning_version"},
        lambda content: replaced(content, "state_dict", "network.0.bias", torch.full((8,), math.nan)),
        lambda content: replaced(content, *FIRST, "exp_avg_sq", torch.zeros(7, 7)),
        lambda content: replaced(content, *FIRST, "exp_avg_sq", None),
        lambda content: replaced(content, *FIRST, "step", torch.tensor(-1.0)),
        lambda content: replaced(content, *FIRST[:-1], 99, {}),
        lambda content: replaced(content, "optimizer_states", 0, "param_groups", 0, "betas", None),
        lambda content: replaced(content, "optimizer_states", 0, "param_groups", 0, "weight_decay", 1e12),
        lambda content: replaced(content, "optimizer_states", 0, "param_groups", 0, "maximize", True),
        lambda content: replaced(content, "optimizer_states", 0, "param_groups", 0, "lr", math.inf),
        lambda content: replaced(
            content, "callbacks", "KeepBest", "weights", "network.0.bias", torch.ones(7, 7)
        ),
        lambda content: replaced(content, "callbacks", "KeepBest", "weights", []),
        lambda content: replaced(content, "callbacks", "KeepBest", "best", "x"),
        lambda content: replaced(content, "callbacks", "KeepBest", "epoch", None),
        lambda content: replaced(content, "callbacks", "AverageWeights", "average", 0, torch.ones(7, 7)),
        lambda content: replaced(content, "callbacks", "AverageWeights", "steps", "x"),
        lambda content: replaced(content, "callbacks", "History", "rows", [1]),
        lambda content: replaced(content, "callbacks", "History", "seconds", None),
        lambda content: counted(content, torch.tensor(1j)),
        lambda content: counted(content, 0.5),
        lambda content: counted(content, {}),
        lambda content: counted(content, None),
        lambda content: counted(content, -1),
        lambda content: replaced(content, "optimizer_states", 0, torch.zeros(0)),
        lambda content: replaced(content, "optimizer_states", 0, "param_groups", 0, torch.zeros(0)),
    ],
)
def test_a_checkpoint_of_another_program_is_one_sentence(spoil, tmp_path):
    path = tmp_path / "last.ckpt"
    train(epochs=1, ema=0.9, checkpoint=path)
    torch.save(spoil(torch.load(path, weights_only=True)), path)
    before = path.read_bytes()
    with pytest.raises(
        UserError, match=r"last\.ckpt: is not a checkpoint of this [^\n]*; remove it to train from the start$"
    ):
        train(epochs=2, ema=0.9, checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_does_not_say_which_file_the_next_one_removes(tmp_path):
    path, other = tmp_path / "last.ckpt", tmp_path / "other.ckpt"
    train(epochs=1, checkpoint=path)
    content = torch.load(path, weights_only=True)
    [key] = [each for each in content["callbacks"] if "ModelCheckpoint" in each]
    for best in (str(other), -1):
        other.write_text("of a person")
        torch.save(replaced(content, "callbacks", key, "best_model_path", best), path)
        train(epochs=2, checkpoint=path)
        assert other.read_text() == "of a person"


def test_a_pipe_in_place_of_a_checkpoint_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "last.ckpt")
    with pytest.raises(UserError, match=r"last\.ckpt: is no file"):
        train(epochs=1, checkpoint=tmp_path / "last.ckpt")


@pytest.mark.parametrize("mode", ["min", "max"])
def test_any_metric_can_choose_the_epoch(mode):
    metrics = {"oracle": OracleError()}
    fitted = train(epochs=8, monitor="oracle", mode=mode, metrics=metrics, learning_rate=0.3)
    values = [row["oracle"] for row in fitted.history]
    assert fitted.best == {"min": min, "max": max}[mode](values)
    assert len(set(values)) > 1
    measured = OracleError()
    measured.update(fitted.network(DATA[0]), *DATA[1:])
    assert measured.compute().item() == pytest.approx(fitted.best, rel=1e-5)


def test_a_monitor_that_nobody_logs_is_named():
    with pytest.raises(UserError, match="monitor is 'crps', must be one of validation_loss"):
        train(monitor="crps")


def test_averaged_weights_are_validated_and_kept():
    """Against the same average, computed step by step from the weights that the optimizer made."""
    seen, validated = [], []

    def weight(module):
        return module.network.projection.weight.detach().clone()

    class Watch(Callback):
        def on_train_start(self, trainer, pl_module):
            seen.append(weight(pl_module))

        def on_train_batch_end(self, trainer, pl_module, *_):
            seen.append(weight(pl_module))

        def on_validation_end(self, trainer, pl_module):
            validated.append(weight(pl_module))

    fitted = fit(
        HypothesisHead(1, 3, 1), rmcl_loss, batches(), batches(False), seed=0, callbacks=[Watch()], hardware=CPU,
        optimization=Optimization(epochs=3, learning_rate=0.1, ema=0.5, keep="last"),
    )  # fmt: skip
    average, expected = seen[0], []
    for step, live in enumerate(seen[1:]):
        decay = min(0.5, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * live
        expected.append(average)
    torch.testing.assert_close(torch.stack(validated), torch.stack(expected[3::4]))
    torch.testing.assert_close(fitted.network.projection.weight.detach(), expected[-1])
    assert not torch.allclose(fitted.network.projection.weight, seen[-1])


def test_a_callback_can_keep_weights_of_its_own_choice():
    class First(Callback):
        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, *_):
            assert outputs["hypotheses"].points.shape[0] == len(batch[0])

        def on_validation_end(self, trainer, pl_module):
            if trainer.current_epoch == 0:
                self.weights = {key: value.clone() for key, value in pl_module.state_dict().items()}

        def on_fit_end(self, trainer, pl_module):
            pl_module.load_state_dict(self.weights)

    kept = train(epochs=4, keep="last", callbacks=[First()])
    assert equal(kept, train(epochs=1, keep="last"))


def test_a_parameter_of_the_loss_follows_its_schedule():
    seen = {True: [], False: []}

    def loss(hypotheses, targets, active, *, share):
        seen[torch.is_grad_enabled()].append(share)
        return mcl_loss(hypotheses, targets, active)

    train(epochs=2, loss=Scheduled(loss, share=lambda progress: 10 * progress))
    assert seen[True] == pytest.approx([10 * step / 8 for step in range(8)])
    assert set(seen[False]) == {10.0}


def test_without_validation_the_last_weights_are_kept():
    fitted = fit(network, rmcl_loss, batches(), seed=0, optimization=Optimization(epochs=2), hardware=CPU)
    assert fitted.best is None
    assert fitted.epochs == 2


def test_fits_in_several_threads_are_as_one_after_another():
    found = []
    threads = [threading.Thread(target=lambda: found.append(train())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(equal(each, found[0]) for each in found)


def test_progress_is_told_and_history_is_written(tmp_path):
    parts = []
    fitted = train(progress=parts.append, callbacks=[History(tmp_path / "logs" / "metrics.csv")])
    assert sum(parts) == pytest.approx(1)
    lines = (tmp_path / "logs" / "metrics.csv").read_text().splitlines()
    assert len(lines) == fitted.epochs + 1
    assert lines[0].startswith("epoch,step,")


WRONG_SETTINGS = [
    {"epochs": 0},
    {"epochs": 2.5},
    {"patience": 0},
    {"batches": 0.5},
    {"block": None},
    {"ema": 1.0},
    {"clip": -1.0},
    {"learning_rate": math.nan},
    {"weight_decay": -1},
    {"schedule": "cosine"},
    {"optimizer": "adam"},
    {"monitor": 3},
    {"mode": "MIN"},
    {"keep": "first"},
    {"devices": "two"},
    {"nodes": 0},
    {"threads": 10**9},
    {"strategy": None},
    {"accelerator": 3},
]


@pytest.mark.parametrize("options", WRONG_SETTINGS, ids=str)
def test_wrong_settings_are_named(options, unchecked):
    [name] = options
    with pytest.raises((ValueError, TypeError), match=f"{name} must be "):
        (Optimization if hasattr(Optimization, name) else Hardware)(**options)


X, Y = INPUTS[:, 0], TARGETS
WRONG_ARGUMENTS = [
    ("seed", 1.5, "seed must be an integer"),
    ("network", 3, "network must be a torch.nn.Module"),
    ("network", nn.Identity(), "network must have weights"),
    ("network", lambda: None, "network must be a torch.nn.Module"),
    ("loss", "rmcl", "loss must be a function"),
    ("loss", lambda *_: 3.0, "loss must return a tensor"),
    ("loss", lambda h, *_: h.points, "loss must return one number"),
    ("loss", lambda *_: torch.zeros(()), "loss must return a number that depends on the weights"),
    ("train", [], "train is empty"),
    ("train", X, "train must be batches"),
    ("train", ((X, Y) for _ in range(2)), "train must be batches with a length"),
    ("train", DataLoader(Endless()), "train must be batches with a length"),
    ("train", TensorBatches(X[:0], Y[:0], batch_size=4), "train is empty"),
    ("train", TensorBatches(X, batch_size=4), "each batch must be .inputs, targets, active"),
    ("train", [{"inputs": X}], "each batch must be .inputs, targets, active"),
    ("validation", [], "validation is empty"),
    ("validation", 3, "validation must be batches"),
    ("validation", [(X, Y * math.nan)], "validation_loss is nan"),
    ("optimization", {"epochs": 1}, "optimization must be an Optimization"),
    ("hardware", "cpu", "hardware must be a Hardware"),
    ("metrics", [OracleError()], "metrics must be a mapping"),
    ("metrics", {"a": 3}, "metrics.'a'. must be a torchmetrics.Metric"),
    ("metrics", {"validation_loss": OracleError()}, "each name of metrics must"),
    ("callbacks", [3], "each of callbacks must be"),
    ("checkpoint", 3, "checkpoint must be a path"),
    ("progress", "yes", "progress must be True, False or a function"),
    ("logger", 3, "logger must be a logger"),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG_ARGUMENTS)
def test_wrong_arguments_are_named(name, value, said, unchecked):
    once = Optimization(epochs=1)
    right = {"network": network, "loss": rmcl_loss, "train": batches(), "seed": 0, "optimization": once}
    with pytest.raises((ValueError, TypeError), match=said):
        fit(**{**right, "hardware": CPU, name: value})


def test_a_list_of_batches_is_validated_batch_by_batch():
    data = list(batches(False))
    listed = fit(network, rmcl_loss, data, data, seed=0, optimization=Optimization(epochs=1), hardware=CPU)
    loader = batches(False)
    same = fit(network, rmcl_loss, loader, loader, seed=0, optimization=Optimization(epochs=1), hardware=CPU)
    assert listed.best == same.best is not None


def test_hardware_that_is_not_there_is_named():
    with pytest.raises(UserError, match="hardware: "):
        fit(network, rmcl_loss, batches(), seed=0, hardware=Hardware("warp"))


def test_metrics_that_average_over_batches_are_those_of_all(tmp_path):
    class Counted(MeanMetric):
        def update(self, hypotheses, targets, active):
            super().update(hypotheses.points.new_tensor(float(len(targets))))

    fitted = train(epochs=1, metrics={"size": Counted()})
    assert fitted.history[0]["size"] == 16


TRACKERS = {"tensorboard", "tensorboardX", "mlflow", "wandb", "comet_ml", "neptune"}
PROGRAM = f"""
import os, signal, sys, threading
import numpy as np
from torchmcl import MCLRegressor
def handler(number, frame): raise RuntimeError("from the handler")
x = np.linspace(0, 1, 2000)[:, None]
def fit(epochs): MCLRegressor(max_epochs=epochs, patience=None, progress=False, random_state=0).fit(x, x[:, 0])
fit(1)
print("trackers:", *{TRACKERS} & set(sys.modules))
for name, action in (("SIGINT", signal.default_int_handler), ("SIGTERM", handler), ("SIGTERM", signal.SIG_DFL)):
    signal.signal(getattr(signal, name), action)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    threading.Timer(0.5, os.kill, (os.getpid(), getattr(signal, name))).start()
    try:
        fit(100_000)
    except (KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__, flush=True)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
"""


@pytest.fixture(scope="module")
def script() -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)


def test_signals_belong_to_the_caller(script):
    """To the handlers of a script that lives on, and to the system where there is none."""
    assert script.returncode == -signal.SIGTERM, script.stderr
    assert script.stdout.split()[1:] == ["KeyboardInterrupt", "RuntimeError"]
    assert "Traceback" not in script.stderr


def test_no_tracker_is_imported_unless_it_is_used(script):
    assert script.stdout.startswith("trackers:\n")


def test_a_logger_gets_the_values_of_each_epoch_and_changes_nothing(tmp_path):
    logger = CSVLogger(tmp_path, name=None, version="run")
    logged = fit(
        network,
        rmcl_loss,
        batches(),
        batches(False),
        seed=0,
        optimization=Optimization(epochs=3, learning_rate=0.01),
        hardware=CPU,
        logger=logger,
    )
    with (tmp_path / "run" / "metrics.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["validation_loss"]]
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    expected = [row["validation_loss"] for row in logged.history]
    assert [float(row["validation_loss"]) for row in rows] == pytest.approx(expected)
    assert equal(logged, train(3))


def test_a_tilde_is_a_name_like_any_other(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    for each in (home, work):
        each.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    train(1, checkpoint=Path("~") / "last.ckpt")
    assert not list(home.iterdir())
    assert (work / "~" / "last.ckpt").is_file()
    assert torch.equal(*(train(2, **more).network[0].weight for more in ({}, {"checkpoint": "~/last.ckpt"})))
