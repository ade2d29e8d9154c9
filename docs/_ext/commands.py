"""The directive `commands`: every command of `torchmcl` with its arguments and options, from the program itself."""

import inspect
from typing import Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from torchmcl.cli import app


class Commands(SphinxDirective):
    """Writes a section for each command."""

    def run(self) -> list[nodes.Node]:
        """The sections."""
        group: Any = typer.main.get_command(app)
        lines = [line for name, command in group.commands.items() for line in _section(name, command)]
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, source="torchmcl --help"), node)
        return node.children


def _section(name: str, command: Any) -> list[str]:
    about = inspect.cleandoc(command.help or "").splitlines()
    about = [line for line in about if not line.startswith("Read more:")]
    lines = [f"## torchmcl {name}", "", *about, ""]
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        lines += ["| argument or option | meaning | default |", "|---|---|---|", *rows, ""]
    return lines


def _row(parameter: Any) -> str:
    names = [f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)]
    shown = f"`{parameter.name.upper()}`" if parameter.param_type_name == "argument" else ", ".join(names)
    default = (
        "" if parameter.default in (None, "") or callable(parameter.default) else f"`{parameter.default}`"
    )
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {shown} | {meaning} | {default} |"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
