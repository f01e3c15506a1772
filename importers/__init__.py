"""Reading models of other formats into `onnx_ir.Model`."""

from onnxgrad.importers.onnx import ModelSource, load

__all__ = ["ModelSource", "load"]
