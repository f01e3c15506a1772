"""onnxruntime's messages as errors of onnxgrad: which node, which file, and what can be done."""

import re

from onnxgrad.engine.errors import (
    ExecutionError,
    ExternalDataError,
    GraphError,
    ModelError,
    OnnxGradError,
    OpsetError,
)
from onnxgrad.engine.ir.checks import failed_check

_NODE_AT_RUN = re.compile(r"running (\S+) node\. Name:'(.*?)' Status Message: (.*)", re.DOTALL)
_NODE_WITHOUT_KERNEL = re.compile(r"Could not find an implementation for (\w+)\((\d+)\) node with name '(.*?)'")
_NODE_INVALID = re.compile(r'In Node, \("(.*?)", (\w+), "(.*?)", -?\d+\)')
_IR_VERSION = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
_OPSET = re.compile(r"Opset (\d+) is under development.*?domain (\S+) is till opset (\d+)", re.DOTALL)
_EXTERNAL = re.compile(r"for initializer: (\S+?)\.? (?:Error: )?(.*)|(External initializer.*)", re.DOTALL)
_PLACE_IN_SOURCE = re.compile(r"^/onnxruntime_src/\S+ .*?\) ", re.DOTALL)
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


def loading_error(error: Exception) -> OnnxGradError:
    """Why onnxruntime made no session."""
    text = str(error).strip()
    why = _STATUS.sub("", text)
    if found := _IR_VERSION.search(text):
        return OpsetError(
            f"the model has IR version {found[1]}, the installed onnxruntime loads up to {found[2]}",
            fix="install a newer onnxruntime, or export the model with an older IR version",
        )
    if found := _OPSET.search(text):
        return OpsetError(
            f"the model uses opset {found[1]} of {found[2]}, the installed onnxruntime knows up to {found[3]}",
            fix="install a newer onnxruntime, or convert the model to an older opset",
        )
    if "INVALID_PROTOBUF" in text:
        return ModelError("onnxruntime cannot read the model", why=why)
    if "xternal data" in text or "External initializer" in text:
        found = _EXTERNAL.search(why)
        where = f"initializer {found[1]!r}" if found and found[1] else ""
        return ExternalDataError("the external data of a tensor cannot be used", where=where, why=why)
    if found := _NODE_WITHOUT_KERNEL.search(text):
        return ExecutionError(
            f"onnxruntime has no kernel for {found[1]} (version {found[2]}) with these types",
            where=f"node {found[3]!r}",
            why=why,
        )
    if found := _NODE_INVALID.search(text):
        where = f"node {found[1]!r}: {found[3] or 'ai.onnx'}::{found[2]}"
        return ModelError("a node of the model is not valid", where=where, why=why)
    if "INVALID_GRAPH" in text:
        return ModelError("the model is not valid", why=why)
    return ExecutionError("onnxruntime refuses the model", why=why or type(error).__name__)


def running_error(error: Exception, inputs: str) -> OnnxGradError:
    """Why a run failed; `inputs` describes what it was given."""
    text = _STATUS.sub("", str(error).strip())
    if found := _NODE_AT_RUN.search(text):
        why = _PLACE_IN_SOURCE.sub("", found[3].strip())
        if message := failed_check(found[2]):
            return GraphError(message, where=f"inputs {inputs}", why=why)
        return ExecutionError(f"{found[1]} failed", where=f"node {found[2]!r}, inputs {inputs}", why=why)
    return ExecutionError("the model failed while it ran", where=f"inputs {inputs}", why=text or type(error).__name__)
