"""The command `export`: a trained model as an ONNX file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchmcl.cli.options import Overwrite, say

if TYPE_CHECKING:
    from torchmcl.export import Graph

__all__ = ["COMMANDS", "export"]

BUNDLED = ("forecaster", "localizer")


def export(
    run: Annotated[
        Path,
        typer.Argument(
            help="The folder of a trained model; or `forecaster` or `localizer`, the bundled models."
        ),
    ],
    file: Annotated[Path, typer.Argument(help="The file to write; its name ends in .onnx.")],
    coverage: Annotated[float, typer.Option(help="Of the intervals of a model of a table.")] = 0.9,
    overwrite: Overwrite = False,
) -> None:
    """Write a trained model as an ONNX file, which runs without torchmcl and PyTorch.

    Example: `torchmcl export runs/houses houses.onnx`

    Writes FILE with everything from raw inputs to answers, and what they hold in its metadata. The answers of
    onnxruntime are compared with those of PyTorch before. Needs the extra `export`.

    Read more: docs/howto/export.md
    """
    from torchmcl.errors import UserError
    from torchmcl.export import write_onnx

    if not 0 < coverage < 1:
        raise UserError(f"--coverage {coverage}: must be above 0 and below 1")
    graph = _graph(run, coverage)
    say(write_onnx(graph, file, overwrite=overwrite))
    print(f"inputs {', '.join(each.name for each in graph.inputs)}")
    print(f"outputs {', '.join(each.name for each in graph.outputs)}")


COMMANDS = (export,)


def _graph(run: Path, coverage: float) -> "Graph":
    """The graph of the model in a folder, by what its files say it is."""
    from torchmcl.audio.exporting import sound_graph
    from torchmcl.errors import UserError
    from torchmcl.trajectories.forecaster import FORMAT

    if not run.is_dir():
        return _bundled(run)
    config, settings = _read(run / "config.json"), _read(run / "settings.json")
    kind = config.get("kind", config.get("format", ""))
    if kind == "torchmcl.MCLRegressor":
        from torchmcl.tabular.exporting import regressor_graph
        from torchmcl.tabular.regressor import MCLRegressor

        return regressor_graph(MCLRegressor.load(run), coverage)
    if kind == "torchmcl.MCLClassifier":
        from torchmcl.tabular.classifier import MCLClassifier
        from torchmcl.tabular.exporting import classifier_graph

        return classifier_graph(MCLClassifier.load(run))
    if kind == FORMAT:
        return _forecaster(run)
    if "sample_rate" in config:
        return sound_graph(run)
    if "method" in settings and "settings" in settings:
        from torchmcl.toy.exporting import toy_graph

        return toy_graph(run)
    hint = "; name one of the folders in its models" if settings.get("command") == "toy" else ""
    raise UserError(f"{run}: holds no trained model that can be exported{hint}")


def _bundled(name: Path) -> "Graph":
    from torchmcl.errors import UserError

    if str(name) == "forecaster":
        return _forecaster(None)
    if str(name) == "localizer":
        from torchmcl.audio.exporting import sound_graph
        from torchmcl.audio.localizer import BUNDLED_MODEL

        return sound_graph(BUNDLED_MODEL)
    raise UserError(f"{name}: is no folder, and none of the bundled models {', '.join(BUNDLED)}")


def _forecaster(folder: Path | None) -> "Graph":
    from torchmcl.trajectories.exporting import forecaster_graph
    from torchmcl.trajectories.forecaster import Forecaster

    return forecaster_graph(Forecaster.from_pretrained(folder))


def _read(path: Path) -> dict[str, Any]:
    from torchmcl.runs.files import read_json

    value = read_json(path) if path.is_file() else {}
    return value if isinstance(value, dict) else {}
