"""The page of the demonstration: a card for each door, with the command behind it."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Door", "index_page"]


@dataclass(frozen=True)
class Door:
    """A part of the demonstration.

    Args:
        title: What one has.
        text: What is seen, in a sentence or two.
        command: The command that made it.
        picture: Path of a picture, relative to the page.
        links: Pairs of a name and a path relative to the page.
    """

    title: str
    text: str
    command: str
    picture: str
    links: Sequence[tuple[str, str]]


def index_page(doors: Sequence[Door]) -> str:
    """The page with all doors.

    Args:
        doors: In the order in which they are shown.

    Returns:
        HTML that loads nothing but the pictures beside it.
    """
    template = (files("torchmcl.demo") / "page.html").read_text(encoding="utf-8")
    return template.replace("__CARDS__", "".join(map(_card, doors)))


def _card(door: Door) -> str:
    links = "".join(f'<a href="{html.escape(path)}">{html.escape(name)}</a>' for name, path in door.links)
    return f"""<article>
<h2>{html.escape(door.title)}</h2>
<img src="{html.escape(door.picture)}" alt="{html.escape(door.title)}">
<p>{html.escape(door.text)}</p>
<pre><code>{html.escape(door.command)}</code></pre>
<div>{links}</div>
</article>
"""
