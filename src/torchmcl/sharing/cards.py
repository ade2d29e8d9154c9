"""The card of a model: `README.md` with a front matter that the Hugging Face Hub reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

import torchmcl
from torchmcl.errors import UserError, printable
from torchmcl.runs.files import check_root, read_json, write_text

__all__ = ["CARD", "Card", "Measure", "as_code", "as_words", "check_own", "write_card"]

CARD = "README.md"
MARK = "<!-- Written by torchmcl: remove this line, and the card is kept when the model is saved again. -->"

SIGNS = re.compile(r"([\\`*\[\]<|])")
"""With a backslash before them they are themselves, and begin no tag, link, code or cell."""
LARGEST = 2**20
"""Characters among which the mark is looked for."""


@dataclass(frozen=True)
class Measure:
    """A number that tells how good a model is.

    Args:
        name: Of the metric.
        value: The number.
        data: What it was measured on.
    """

    name: str
    value: float
    data: str


@dataclass(frozen=True)
class Card:
    """What a stranger must know of a model.

    Args:
        title: What it is.
        task: A task of the Hub, such as `tabular-regression`.
        text: What it does, and what its inputs and outputs are.
        use: A few lines of Python that load it; `FOLDER` stands for its folder or its name on the Hub.
        limits: What it must not be used for, and what it does not know.
        tags: For searching.
        measures: How good it is.
        license: An identifier of the Hub.
    """

    title: str
    task: str
    text: str
    use: str
    limits: str
    tags: Sequence[str] = ()
    measures: Sequence[Measure] = field(default_factory=tuple)
    license: str = "unknown"

    def render(self) -> str:
        """The whole file.

        Example:
            >>> card = Card("Prices", "tabular-regression", "Prices of houses.", "load(FOLDER)", "One town only.")
            >>> card.render().splitlines()[:4]
            ['---', 'library_name: torchmcl', 'license: unknown', 'pipeline_tag: tabular-regression']
        """
        front = yaml.safe_dump(self._front(), sort_keys=False, allow_unicode=True, width=100)
        parts = [
            f"---\n{front}---",
            MARK,
            f"# {as_words(self.title)}",
            self.text,
            f"## Use\n\n```python\n{self.use}\n```",
            *([_numbers(self.measures)] if self.measures else []),
            f"## Limits\n\n{self.limits}",
        ]
        if self.license == "unknown":
            parts.append(
                "## License\n\nNot stated. Set `license` in the first lines before you share the model."
            )
        parts.append(
            f"Written by torchmcl {torchmcl.__version__}. Weights are safetensors; nothing in this folder can run."
        )
        return "\n\n".join(parts) + "\n"

    def _front(self) -> dict[str, Any]:
        front: dict[str, Any] = {
            "library_name": "torchmcl",
            "license": self.license,
            "pipeline_tag": self.task,
            "tags": ["torchmcl", "multiple-choice-learning", "uncertainty", *self.tags],
        }
        if self.measures:
            front["metrics"] = sorted({_slug(measure.name) for measure in self.measures})
            front["model-index"] = [
                {"name": self.title, "results": [self._result(each) for each in self.measures]}
            ]
        return front

    def _result(self, measure: Measure) -> dict[str, Any]:
        return {
            "task": {"type": self.task},
            "dataset": {"name": measure.data, "type": _slug(measure.data)},
            "metrics": [{"type": _slug(measure.name), "name": measure.name, "value": float(measure.value)}],
        }


def as_words(name: str) -> str:
    r"""A name of a foreign file as Markdown that shows it, and does nothing else.

    Args:
        name: Of a column or a file.

    Example:
        >>> as_words("<b>\n")
        '\\<b>\\\\n'
    """
    return SIGNS.sub(r"\\\1", printable(name))


def as_code(name: str) -> str:
    """The same in the font of code, where no sign has a meaning but the one that ends it.

    Args:
        name: Of a column or a category.
    """
    return f"`{printable(name).replace('`', chr(39))}`"


def write_card(folder: str | Path, card: Card) -> None:
    """Write the card into the folder of a model, unless a person's own card is there.

    Args:
        folder: Of the model.
        card: What it says.
    """
    path = Path(folder) / CARD
    if path.exists() and not _is_ours(path):
        return
    write_text(path, card.render())


def check_own(folder: str | Path) -> None:
    """Refuse to save a model where another program keeps its own, and in the root folder.

    The `config.json` there must describe a model of torchmcl; it is written before the weights, so that weights
    without one are ours only in a run.

    Args:
        folder: Where the model shall be saved.
    """
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"folder must be a path, got {type(folder).__name__}")
    check_root(Path(folder))
    path, weights = Path(folder) / "config.json", Path(folder) / "model.safetensors"
    if not path.is_file():
        if weights.exists() and not (Path(folder) / "settings.json").is_file():
            raise UserError(
                f"{weights}: is there without a config.json, so that it may not be torchmcl's, and is not replaced; "
                "choose another folder"
            )
        return
    try:
        value = read_json(path)
    except UserError:
        value = None
    named = [value.get("kind"), value.get("format")] if isinstance(value, dict) else [None]
    sound = isinstance(value, dict) and {"method", "sample_rate", "hypotheses"} <= value.keys()
    if not any(str(each).startswith("torchmcl") for each in named) and not sound:
        raise UserError(f"{path}: was not written by torchmcl and is not replaced, choose another folder")


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        return MARK in stream.read(LARGEST)


def _numbers(measures: Sequence[Measure]) -> str:
    rows = "\n".join(
        f"| {as_words(each.name)} | {each.value:.4g} | {as_words(each.data)} |" for each in measures
    )
    return f"## Numbers\n\n| metric | value | data |\n|---|---:|---|\n{rows}"


def _slug(text: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in text.lower()).split()) or "data"
