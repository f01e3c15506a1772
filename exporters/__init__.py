"""Writing models: ONNX files and protos, reports."""

from onnxgrad.exporters.onnx import save, to_proto
from onnxgrad.exporters.report import Summary, summary

__all__ = ["Summary", "save", "summary", "to_proto"]
