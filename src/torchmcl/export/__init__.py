"""Trained models as ONNX files, which run without this package."""

from torchmcl.export.graph import Graph, Value
from torchmcl.export.onnx import write_onnx

__all__ = ["Graph", "Value", "write_onnx"]
