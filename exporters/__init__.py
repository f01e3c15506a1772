"""Writing models: ONNX files and protos, reports."""

from onnxgrad.exporters.onnx import save, to_proto

__all__ = ["save", "to_proto"]
