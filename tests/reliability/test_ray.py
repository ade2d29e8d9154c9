"""Studies on Ray: a worker that is killed is replaced, and the table is complete."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from torchmcl.errors import UserError
from torchmcl.experiments.jobs import Job, run_jobs

pytest.importorskip("ray")


def holder(run):
    """The Ray worker that has this run, by the folder that it holds open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if not (process / "cmdline").read_bytes().startswith(b"ray::"):
                continue
            if any(os.readlink(handle) == str(run) for handle in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    return None


def kill_the_worker(run, killed, over):
    while not over.is_set():
        worker = holder(run)
        if worker is not None and (run / "last.ckpt").exists():
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)
            return
        time.sleep(0.02)


@pytest.fixture
def settings(smoke, tmp_path, monkeypatch):
    """Of all runs of a test, without their folder."""
    monkeypatch.chdir(tmp_path)
    return tuple(word for word in smoke("unused") if not word.startswith(("run=", "trainer.threads=")))


@pytest.mark.filterwarnings("default")
def test_a_killed_worker_of_a_cluster_is_replaced_and_all_runs_end(settings, tmp_path):
    from ray.cluster_utils import Cluster

    jobs = [
        Job(tmp_path / name, (*settings, f"method={name}", f"training.epochs={epochs}", "training.batches=1"))
        for name, epochs in (("rmcl", 12), ("pit", 1))
    ]
    killed, over = [], threading.Event()
    killer = threading.Thread(target=kill_the_worker, args=(jobs[0].run, killed, over))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        killer.start()
        run_jobs(jobs, on="ray", address=cluster.address)
    finally:
        over.set()
        killer.join()
        cluster.shutdown()
    assert len(killed) == 1
    assert all(job.done for job in jobs)
    rows = (jobs[0].run / "logs" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 13, "it went on where it was, and its record has every epoch once"


@pytest.mark.filterwarnings("default")
def test_a_ray_of_its_own_tells_which_run_failed_and_why(settings, tmp_path):
    broken = Job(tmp_path / "broken", (*settings, "network.pools=[7]"))
    with pytest.raises(UserError, match=r"broken: training failed, network: pools is .*"):
        run_jobs([broken], workers=2, on="ray")


def test_what_is_done_needs_no_ray(tmp_path, monkeypatch):
    (tmp_path / "metrics.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "ray", None)
    run_jobs([Job(tmp_path, ())], workers=1, on="ray")


def test_mistakes_are_one_sentence(tmp_path, monkeypatch):
    job = Job(tmp_path / "run", ())
    with pytest.raises(UserError, match="--on is 'slurm', must be local or ray"):
        run_jobs([job], on="slurm")
    with pytest.raises(UserError, match="--address is of a Ray cluster: say --on ray as well"):
        run_jobs([job], address="head:6379")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        with pytest.raises(UserError, match=r"--on ray needs Ray: pip install 'torchmcl\[cluster\]'"):
            run_jobs([job], on="ray")
