"""Jobs in processes: each once, in order, and a failure tells what and where."""

import os
import signal
import subprocess
import sys
import time

import pytest

from torchmcl.errors import UserError
from torchmcl.runs.jobs import Job, Local, Ray, execute


def job(folder, name, function="pathlib:Path.touch", needs=(), **arguments):
    return Job(name, function, arguments, folder / name, folder / "logs" / f"{name}.log", tuple(needs))


def script(folder, name, code, needs=()):
    """A job that runs Python code."""
    (folder / f"{name}.py").write_text(code)
    return job(folder, name, "runpy:run_path", needs, path_name=str(folder / f"{name}.py"))


def touching(folder, name, needs=()):
    """A job that is done only after what it needs."""
    paths = [str(each.done) for each in needs]
    code = (
        f"import pathlib\nassert all(pathlib.Path(p).exists() for p in {paths})\n"
        f"with open({str(folder / 'order.txt')!r}, 'a') as f: print({name!r}, file=f)\n"
        f"pathlib.Path({str(folder / name)!r}).touch()\n"
    )
    return script(folder, name, code, needs)


def test_each_job_is_done_once_after_what_it_needs(tmp_path):
    first = touching(tmp_path, "first")
    second = touching(tmp_path, "second", [first])
    for _ in range(2):
        execute([second, first], Local(2))
    assert (tmp_path / "order.txt").read_text().split() == ["first", "second"]


def test_a_failure_names_the_job_the_reason_and_the_log(tmp_path):
    code = "from torchmcl.errors import UserError\nraise UserError('beta is -1, must be positive')"
    broken = script(tmp_path, "broken", code)
    never = touching(tmp_path, "never", [broken])
    with pytest.raises(UserError, match=r"broken: failed, beta is -1, must be positive; see .*broken\.log"):
        execute([never], Local(1))
    assert not never.is_done


def test_a_circle_is_refused(tmp_path):
    circle = job(tmp_path, "circle")
    object.__setattr__(circle, "needs", (circle,))
    with pytest.raises(ValueError, match="circle needs itself"):
        execute([circle])


def test_an_interrupted_study_ends_its_processes(tmp_path):
    pid = tmp_path / "pid"
    sleeper = (
        f"import os, time, pathlib\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    script(tmp_path, "sleeper", sleeper)
    program = (
        "from pathlib import Path\nfrom torchmcl.runs.jobs import Job, Local, execute\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "arguments = {'path_name': str(folder / 'sleeper.py')}\n"
        "job = Job('sleeper', 'runpy:run_path', arguments, folder / 'done', folder / 'log')\n"
        "try:\n    execute([job], Local(1))\nexcept KeyboardInterrupt:\n    print('caught')\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    while not pid.exists() or not pid.read_text():
        assert parent.poll() is None
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    assert parent.communicate(timeout=30)[0] == "caught\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("address", ["nowhere", "host:port", "host:99999999", ":1"])
def test_an_address_that_is_none_is_refused(address, tmp_path):
    with pytest.raises(UserError, match="must be HOST:PORT"):
        execute([job(tmp_path, "a")], Ray(address))


def test_an_address_where_nobody_listens_is_told_at_once(tmp_path):
    began = time.perf_counter()
    with pytest.raises(UserError, match="no Ray cluster there"):
        execute([job(tmp_path, "a")], Ray("127.0.0.1:1"))
    assert time.perf_counter() - began < 20
