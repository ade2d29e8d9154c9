"""Bars move where somebody watches, and leave nothing elsewhere."""

from io import StringIO

import pytest
from rich.console import Console

from torchmcl.runs.progress import bar


@pytest.mark.parametrize("watched", [False, True])
def test_a_bar_is_written_to_terminals_only(watched: bool) -> None:
    stream = StringIO()
    with (
        bar(2.0, Console(file=stream, force_terminal=watched)) as made,
        made.stage("training", 2.0) as advance,
    ):
        advance(1.0)
    assert bool(stream.getvalue()) == watched
