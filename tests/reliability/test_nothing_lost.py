"""Whatever ends a run, the same command goes on, and what was there before is still there."""

import csv
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from forks import fork
from reliability import killed
from torchmcl import cli
from torchmcl.errors import UserError
from torchmcl.experiments import train as run
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.saved import load_network
from torchmcl.experiments.train import train
from torchmcl.runs.files import locked, write_text
from torchmcl.training import Learner

EPOCHS, STEPS = 4, 2
METHODS = {"rmcl_star": ["method=rmcl_star"], "ensemble": ["method=ie", "method.members=2"]}


def start(moment, words):
    """A process that trains and dies."""
    return fork(killed.main, moment, words)


def same(first, second):
    one, two = (load_file(Path(folder) / "model.safetensors") for folder in (first, second))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def rows(folder):
    return list(csv.DictReader((folder / "logs" / "metrics.csv").read_text().splitlines()))


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["torchmcl", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture(scope="module")
def undisturbed(scenes, tmp_path_factory):
    """The run that nothing happens to, for each method."""
    made = {}

    def get(method):
        if method not in made:
            folder = tmp_path_factory.mktemp("undisturbed") / method
            words = [
                "scale=smoke", "trainer.threads=1", "trainer.accelerator=cpu", f"data.folder={scenes}",
                f"training.epochs={EPOCHS}", f"run={folder}", *METHODS[method],
            ]  # fmt: skip
            made[method] = train(compose_config(words), progress=False)
        return made[method]

    return get


DEATHS = [
    ("rmcl_star", ["step:1", "step:3", "checkpoint:1", "step:1"]),
    ("rmcl_star", ["checkpoint:3", "saving", "evaluating"]),
    ("ensemble", [f"step:{EPOCHS * STEPS + 3}"]),
]
"""One run each: within epochs and while each kind of file is written; an ensemble in its second member."""


@pytest.mark.parametrize(("method", "deaths"), DEATHS, ids=lambda value: str(value))
def test_killed_without_warning_it_ends_with_the_same_weights(method, deaths, smoke, undisturbed):
    words = smoke("run", f"training.epochs={EPOCHS}", *METHODS[method])
    for moment in deaths:
        process = start(moment, words)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    folder = train(compose_config(words), progress=False)
    assert same(folder, undisturbed(method))
    if method == "rmcl_star":
        for mine, whole in zip(rows(folder), rows(undisturbed(method)), strict=True):
            assert mine == whole
    left = [path.name for path in folder.rglob("*") if path.is_file() and path.name.startswith(".")]
    assert not left, "what was half written is gone"
    assert not list(folder.rglob("*.ckpt"))


def test_killed_from_outside_at_random_times_it_ends_with_the_same_weights(smoke, undisturbed, tmp_path):
    words = smoke("run", f"training.epochs={EPOCHS}", *METHODS["rmcl_star"])
    wait = random.Random(time.time_ns()).uniform(0, 1.0)
    process = start("never", words)
    while not (tmp_path / "run" / "settings.json").exists():
        assert process.is_alive()
        time.sleep(0.01)
    time.sleep(wait)
    process.kill()
    process.join()
    assert same(train(compose_config(words), progress=False), undisturbed("rmcl_star")), (
        f"killed after {wait} s"
    )


def test_the_second_process_in_a_folder_says_so(smoke, tmp_path, monkeypatch, capsys):
    words = smoke("run")
    with locked(tmp_path / "run"):
        assert command(monkeypatch, "train", *words) == 2
    said = capsys.readouterr().err
    assert said == (
        f"torchmcl: {tmp_path / 'run'}: another process is training there; wait for it, or choose another "
        "run=FOLDER\n"
    )
    assert list((tmp_path / "run").iterdir()) == []


def test_two_runs_at_the_same_time_are_one(smoke, tmp_path):
    words = smoke("run", "training.epochs=8")
    first = start("never", words)
    while not (tmp_path / "run" / "settings.json").exists():
        assert first.is_alive()
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGSTOP)  # a fast machine would end it while the second one waits
    try:
        with pytest.raises(UserError, match="another process is training there"):
            train(compose_config(words), progress=False)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    first.join()
    assert first.exitcode == 0
    assert load_network(tmp_path / "run")


def full_disk(monkeypatch, suffix):
    """From now on there is no room for files of this kind."""
    write = Path.write_bytes

    def fail(self, data):
        if self.suffix == suffix:
            write(self, bytes(data)[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", fail)


@pytest.mark.parametrize(("suffix", "name"), [(".ckpt", "last.ckpt"), (".safetensors", "model.safetensors")])
def test_a_full_disk_is_one_sentence(suffix, name, smoke, tmp_path, monkeypatch, capsys, undisturbed):
    words = smoke("run", f"training.epochs={EPOCHS}", *METHODS["rmcl_star"])
    with monkeypatch.context() as patch:
        full_disk(patch, suffix)
        assert command(patch, "train", *words) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == f"torchmcl: {tmp_path / 'run' / name}: No space left on device"
    assert not list((tmp_path / "run").glob(".*"))
    assert same(train(compose_config(words), progress=False), undisturbed("rmcl_star"))


def test_a_file_that_may_not_grow_leaves_the_earlier_one(tmp_path):
    """By the kernel's own limit on the size of files, in a process of its own."""
    write_text(tmp_path / "kept.txt", "before")
    program = (
        "import resource, signal; from torchmcl.runs.files import write_text;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        f"write_text({str(tmp_path / 'kept.txt')!r}, 'x' * 100000)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"File too large: '{tmp_path / 'kept.txt'}'" in ended.stderr
    assert (tmp_path / "kept.txt").read_text() == "before"
    assert os.listdir(tmp_path) == ["kept.txt"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_a_folder_that_cannot_be_written_is_one_sentence(smoke, tmp_path, monkeypatch, capsys):
    if os.geteuid() == 0:
        place = Path("/sys/torchmcl")
    else:
        (tmp_path / "sealed").mkdir(mode=0o500)
        place = tmp_path / "sealed" / "run"
    assert command(monkeypatch, "train", *smoke("unused"), f"run={place}") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"torchmcl: {place}: ")
    assert said.count("\n") == 1


def test_a_file_in_place_of_the_folder_is_one_sentence(smoke, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").write_text("precious")
    assert command(monkeypatch, "train", *smoke("run")) == 2
    assert capsys.readouterr().err == f"torchmcl: {tmp_path / 'run'}: is a file, it must be a folder\n"
    assert (tmp_path / "run").read_text() == "precious"


def test_a_data_set_that_vanished_is_one_sentence(smoke, tmp_path, monkeypatch, capsys, undisturbed):
    gone = tmp_path / "gone"
    words = [*smoke("run"), "data=ansyn", f"data.folder={gone}"]
    assert command(monkeypatch, "train", *words) == 2
    assert capsys.readouterr().err == f"torchmcl: {gone}: no such folder\n"


def test_a_data_set_that_vanishes_while_training_is_one_sentence(
    scenes, smoke, tmp_path, monkeypatch, capsys
):
    moved = tmp_path / "moved"
    os.symlink(scenes, moved)
    build = run.build_data

    def build_then_lose(*args, **kwargs):
        data = build(*args, **kwargs)
        data.prepare_data()
        data.prepare_data = lambda: None
        moved.unlink()
        return data

    monkeypatch.setattr(run, "build_data", build_then_lose)
    assert command(monkeypatch, "train", *smoke("run"), "data=ansyn", f"data.folder={moved}") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"torchmcl: {moved}/wav_ov")
    assert said[-1].endswith(": No such file or directory")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_training_says_how_to_go_on(number, code, smoke, monkeypatch, capsys, undisturbed):
    """And the run that is called again ends with the weights of one that nothing happened to."""
    words = smoke("run", f"training.epochs={EPOCHS}", *METHODS["rmcl_star"])
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    step = Learner.training_step

    def interrupted(self, batch, batch_idx):
        if self.current_epoch == 1:
            os.kill(os.getpid(), number)
            time.sleep(0.1)
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "training_step", interrupted)
        assert command(patch, "train", *words) == code
    said = "torchmcl: interrupted; the same command continues where it stopped"
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert same(train(compose_config(words), progress=False), undisturbed("rmcl_star"))
