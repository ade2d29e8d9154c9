"""Processes that are forks of the tests': all is imported already."""

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess

from lightning.fabric.plugins.environments.lightning import find_free_network_port

from torchmcl.runs import jobs

CONTEXT = multiprocessing.get_context("fork")


def fork(function: Callable[..., None], *arguments: object) -> BaseProcess:
    process = CONTEXT.Process(target=function, args=arguments)
    process.start()
    return process


def execute(missing: Sequence[jobs.Job], on: jobs.Local) -> None:
    """In place of `jobs.execute`, for jobs that need none other: all at once."""
    started = [
        fork(jobs._call, job.function, json.loads(json.dumps(job.arguments)))
        for job in missing
        if not job.is_done
    ]
    _join(started)


def run_ranks(function: Callable[..., None], *arguments: object, processes: int = 2) -> None:
    """Call `function(rank, *arguments)` in as many processes, which Lightning takes for those of a cluster."""
    port = str(find_free_network_port())
    started = [fork(_run_rank, function, rank, port, arguments) for rank in range(processes)]
    _join(started)


def _join(started: Sequence[BaseProcess]) -> None:
    for process in started:
        process.join(300)
    assert [process.exitcode for process in started] == [0] * len(started)


def _run_rank(function: Callable[..., None], rank: int, port: str, arguments: tuple[object, ...]) -> None:
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    function(rank, *arguments)
