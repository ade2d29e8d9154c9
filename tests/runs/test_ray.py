"""Jobs on a Ray cluster: dependencies are kept, a killed worker is replaced, a failure is named."""

import os
import signal
import socket
import sys
import threading
import time

import pytest

from torchmcl.cli.options import place
from torchmcl.errors import UserError
from torchmcl.runs.jobs import Job, Local, Ray, execute

pytest.importorskip("ray")

STEPS = """
import os, pathlib, time
folder = pathlib.Path({folder!r})
folder.mkdir(exist_ok=True)
for step in range(3):
    if not (folder / f"step{{step}}").exists():
        time.sleep(0.2)
        (folder / f"step{{step}}").write_text(str(os.getpid()))
seen = [path.parent.name for path in folder.parent.glob("*/done")]
(folder / "done").write_text(" ".join(sorted(seen)))
"""


def script(folder, name, code, needs=()):
    path = folder / f"{name}.py"
    path.write_text(code.format(folder=str(folder / name)))
    arguments = {"path_name": str(path)}
    done, log = folder / name / "done", folder / "logs" / f"{name}.log"
    return Job(name, "runpy:run_path", arguments, done, log, tuple(needs))


def kill_the_worker(folder, over):
    while not over.is_set():
        if (folder / "step0").exists() and (folder / "step0").read_text():
            os.kill(int((folder / "step0").read_text()), signal.SIGKILL)
            return
        time.sleep(0.01)


@pytest.mark.filterwarnings("default")
def test_a_killed_worker_of_a_cluster_is_replaced_and_a_failure_named(tmp_path):
    from ray.cluster_utils import Cluster

    first, second = script(tmp_path, "first", STEPS), script(tmp_path, "second", STEPS)
    joined = script(tmp_path, "joined", STEPS, needs=(first, second))
    over = threading.Event()
    killer = threading.Thread(target=kill_the_worker, args=(tmp_path / "first", over))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        killer.start()
        broken = script(tmp_path, "broken", "raise ValueError('beta is -1')", needs=(joined,))
        with pytest.raises(UserError, match=r"broken: failed, .*beta is -1.*; see .*broken\.log"):
            execute([broken], Ray(cluster.address))
    finally:
        over.set()
        killer.join()
        cluster.shutdown()
    assert (tmp_path / "joined" / "done").read_text() == "first second"
    workers = [(tmp_path / "first" / f"step{step}").read_text() for step in range(3)]
    assert workers[0] not in workers[1:], "the first worker was killed, and its step was not done again"


def test_what_is_done_needs_no_ray(tmp_path, monkeypatch):
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "done").touch()
    monkeypatch.setitem(sys.modules, "ray", None)
    execute([script(tmp_path, "done", STEPS)], Ray())
    with pytest.raises(UserError, match=r"--on ray needs Ray: pip install 'torchmcl\[cluster\]'"):
        execute([script(tmp_path, "missing", STEPS)], Ray())


def test_options_name_a_place():
    assert place("local", None, 3) == Local(3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert place("ray", address, 2) == Ray(address, 2)
    for wrong in (address, "head", ":", "127.0.0.1:99999", "\udc80:1"):
        with pytest.raises(UserError, match=r"^--address"):
            place("ray", wrong, None)
    with pytest.raises(UserError, match="--on is 'slurm', must be local or ray"):
        place("slurm", None, None)
    with pytest.raises(UserError, match="--address is of a Ray cluster: say --on ray as well"):
        place("local", "head:6379", None)
