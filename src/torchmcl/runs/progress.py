"""One progress bar over trainings and evaluations of different lengths."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Bar", "bar"]


class Bar:
    """Counts units of work; a stage that ends early, or that has nothing to do, is counted whole."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress = progress
        self.task = task

    @contextmanager
    def stage(self, description: str, units: float) -> Iterator[Callable[[float], None]]:
        """A part of the work worth so many units; what it yields advances the bar by a part of these."""
        self.progress.update(self.task, description=description)
        done = 0.0

        def advance(part: float) -> None:
            nonlocal done
            part = min(part, units - done)
            done += part
            self.progress.advance(self.task, part)

        yield advance
        advance(units)


@contextmanager
def bar(total: float, console: Console) -> Iterator[Bar]:
    """A bar of `total` units on the console, gone when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress, progress.add_task("", total=total))
