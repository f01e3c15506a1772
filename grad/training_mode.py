"""Normalization and dropout in training mode."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder


def set_training_mode(model: ir.Model) -> dict[str, ir.Value]:
    """Switch BatchNormalization and Dropout nodes of the main graph to training. In place.

    Returns the name of each running statistic (an initializer) and the value that follows it after a step; a statistic
    that several nodes share is followed by what the last of them gives. Nodes whose statistics are not initializers
    stay as they are.
    """
    graph = model.graph
    statistics: dict[str, ir.Value] = {}
    for node in list(graph):
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "Dropout":
            _train_dropout(graph, node)
        if node.op_type == "BatchNormalization":
            statistics.update(_train_batch_norm(graph, node))
    return statistics


def _train_dropout(graph: ir.Graph, node: ir.Node) -> None:
    ratio = node.inputs[1] if len(node.inputs) > 1 else None
    op = Builder(graph, before=node)
    values = [node.inputs[0], ratio, op.constant(True)]
    node.resize_inputs(3)
    for index, value in enumerate(values):
        node.replace_input_with(index, value)


def _train_batch_norm(graph: ir.Graph, node: ir.Node) -> dict[str, ir.Value]:
    running = node.inputs[3:5]
    if any(value is None or not value.is_initializer() for value in running):
        return {}
    node.attributes["training_mode"] = ir.AttrInt64("training_mode", 1)
    node.resize_outputs(3)
    after: dict[str, ir.Value] = {}
    for value, output, label in zip(running, node.outputs[1:], ("mean", "var"), strict=True):
        assert value is not None
        output.type, output.shape = value.type, value.shape
        output.name = output.name or f"{node.name}.running_{label}"
        after[value.name or ""] = output
    return after
