"""One progress bar over trainings and evaluations of different lengths."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Bar", "bar", "is_watched", "training_bar"]


class Bar:
    """Counts units of work; a stage that ends early, or that has nothing to do, is counted whole."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress = progress
        self.task = task

    @contextmanager
    def stage(self, description: str, units: float) -> Iterator[Callable[[float], None]]:
        """A part of the work worth so many units; what it yields advances the bar by a part of these.

        Args:
            description: Shown beside the bar.
            units: Of the whole stage.

        Yields:
            A function that advances the bar by so many units.
        """
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
    """A bar of `total` units on the console, gone when the work is done.

    Args:
        total: Units of work.
        console: Where it is shown.

    Yields:
        The bar.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_watched(console)) as progress:
        yield Bar(progress, progress.add_task("", total=total))


def is_watched(console: Console) -> bool:
    """Whether a bar can move there: in a terminal or a notebook, not in a file, which would get empty lines.

    Args:
        console: Where it would be shown.
    """
    return console.is_terminal or console.is_jupyter


@contextmanager
def training_bar(description: str = "training") -> Iterator[Callable[[float], None]]:
    """A bar for one training on the terminal's error stream, gone when it is done.

    Args:
        description: What is shown beside it.

    Yields:
        A function that advances it by a part of the whole, out of 1.
    """
    with bar(1.0, Console(stderr=True)) as made, made.stage(description, 1.0) as advance:
        yield advance
