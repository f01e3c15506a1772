"""Writing bodies: sub-graphs of If, Loop, Scan and SequenceMap."""

import onnx_ir as ir

from onnxgrad.engine.ir.builder import Builder


def body_builder(op: Builder, label: str, *, share: bool = False) -> Builder:
    """A builder that writes a new sub-graph."""
    inner = Builder(ir.Graph([], [], nodes=[], name=label), parent=op, share=share)
    inner.scope = label
    return inner


def add_input(op: Builder, name: str, type_: ir.TypeProtocol | None, shape: ir.Shape | None = None) -> ir.Value:
    """A new input of the sub-graph that `op` writes."""
    value = ir.Value(name=op.names.fresh(name), type=type_, shape=shape)
    op.graph.inputs.append(value)
    return value


def add_output(op: Builder, value: ir.Value) -> None:
    """Make `value` the next output of the graph: through an Identity if it comes from outside or is one already."""
    producer = value.producer()
    if producer is None or producer.graph is not op.graph or value.is_graph_output():
        identity = ir.node("Identity", [value])
        op.insert(identity)
        identity.outputs[0].type, identity.outputs[0].shape = value.type, value.shape
        value = identity.outputs[0]
    op.graph.outputs.append(value)
