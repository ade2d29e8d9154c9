"""A model as an ONNX file: traced, described in its metadata, and compared with PyTorch before it is kept."""

import json
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchmcl
from torchmcl.errors import UserError
from torchmcl.export.graph import Graph, Value
from torchmcl.runs.outputs import own_file

__all__ = ["TOLERANCE", "write_onnx"]

TOLERANCE = 1e-4
"""How far onnxruntime may be from PyTorch, in units of `Value.scale`."""
OPSET = 20


def write_onnx(graph: Graph, path: str | Path, *, overwrite: bool = True) -> Path:
    """Write a model to an ONNX file that onnxruntime answers from as PyTorch does; needs the extra `export`.

    The metadata of the file says what the model is (`kind`, `version`), what inputs and outputs hold and in which unit
    (`inputs`, `outputs`: JSON by name), and what else there is to know (`details`, JSON).

    Args:
        graph: The model.
        path: The file to make or to replace; it must end in `.onnx`.
        overwrite: Replace a file that this program did not write as well.

    Returns:
        The path.
    """
    import onnx  # noqa: F401  before anything is computed: without the extra there is one sentence
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401

    path = Path(path)
    if path.suffix != ".onnx":
        raise UserError(f"{path}: the name of an ONNX file must end in .onnx")
    with own_file(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(_content(graph, path))
    return path


def _content(graph: Graph, path: Path) -> bytes:
    import onnx
    import onnxruntime

    model = _traced(graph)
    for key, value in _metadata(graph).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    model.producer_name, model.producer_version = "torchmcl", torchmcl.__version__
    model.doc_string = f"{graph.kind} of torchmcl {torchmcl.__version__}"
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for example in graph.examples:
        _compare(graph, session, example, path)
    return content


def _traced(graph: Graph) -> Any:
    shapes = tuple(
        {axis: graph.dynamic[name] for axis, name in enumerate(value.axes) if name in graph.dynamic}
        for value in graph.inputs
    )
    with _silent(), uninterrupted(), torch.no_grad():
        # Traced here: `torch.onnx.export` by itself would fall back to fixed lengths where dynamic ones fail.
        traced = torch.export.export(graph.network.eval(), graph.examples[0], dynamic_shapes=(shapes,))
        program = torch.onnx.export(
            traced,
            dynamo=True,
            dynamic_shapes=(shapes,),
            input_names=[value.name for value in graph.inputs],
            output_names=[value.name for value in graph.outputs],
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for value, output in zip(graph.outputs, model.graph.output, strict=True):
        for name, length in zip(value.axes, output.type.tensor_type.shape.dim, strict=True):
            if length.dim_param:
                length.dim_param = name
    return model


def _metadata(graph: Graph) -> dict[str, str]:
    return {
        "kind": graph.kind,
        "version": torchmcl.__version__,
        "inputs": json.dumps(_described(graph.inputs)),
        "outputs": json.dumps(_described(graph.outputs)),
        "details": json.dumps(dict(graph.details), allow_nan=False),
    }


def _described(values: tuple[Value, ...]) -> dict[str, Any]:
    return {value.name: {"axes": list(value.axes), "about": value.about} for value in values}


def _compare(graph: Graph, session: Any, example: tuple[torch.Tensor, ...], path: Path) -> None:
    with torch.no_grad():
        expected = graph.network(*example)
    names = [value.name for value in graph.inputs]
    given = {name: tensor.numpy() for name, tensor in zip(names, example, strict=True)}
    answers = session.run([value.name for value in graph.outputs], given)
    for value, one, other in zip(graph.outputs, expected, answers, strict=True):
        wanted = one.numpy()
        if wanted.shape != other.shape:
            raise UserError(f"{path}: {value.name} has shape {other.shape}, must have {wanted.shape}")
        if value.scale is None or not wanted.size:
            continue
        apart = float(np.abs(value.compared(wanted) - value.compared(other)).max())
        if not apart <= TOLERANCE * value.scale:
            raise UserError(
                f"{path}: {value.name} of onnxruntime is {apart:g} away from that of PyTorch, the file is not written"
            )


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait until the end: PyTorch ends the process if Python raises inside of its tracer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, lambda number, _: received.append(number)) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in received[:1]:
            signal.raise_signal(number)


@contextmanager
def _silent() -> Iterator[None]:
    """Without remarks of the tracer on packages and versions; its errors still come through."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
