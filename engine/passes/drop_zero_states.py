"""Initial states of zeros are left out of recurrent nodes: zeros are what stands for a state that is not given."""

import onnx_ir as ir

from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.passes.edit import remove_dead
from onnxgrad.engine.passes.queries import all_equal
from onnxgrad.engine.passes.scope import Scope

_STATES = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6)}


def drop_zero_states(scope: Scope) -> int:
    """RNN, GRU, LSTM with zeros as initial_h or initial_c -> the same node without them, whatever makes their shape."""
    count = 0
    for graph in scope.graphs():
        for node in list(graph):
            if node.domain == "" and node.op_type in _STATES:
                count += sum(_drop(node, index) for index in _STATES[node.op_type])
    if count:
        infer_shapes(scope.model)  # a state of unknown size hid the batch behind it
    return count


def _drop(node: ir.Node, index: int) -> int:
    state = node.inputs[index] if index < len(node.inputs) else None
    if state is None or not _is_zeros(state):
        return 0
    maker = state.producer()
    node.replace_input_with(index, None)
    while node.inputs and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)
    remove_dead([maker] if maker is not None else [])
    return 1


def _is_zeros(value: ir.Value) -> bool:
    if all_equal(value, 0):
        return True
    maker = value.producer()
    if maker is None or maker.domain != "":
        return False
    if maker.op_type == "ConstantOfShape":
        filled = maker.attributes.get("value")
        return filled is None or (not filled.is_ref() and not filled.as_tensor().numpy().any())
    return maker.op_type in ("Expand", "Tile") and maker.inputs[0] is not None and _is_zeros(maker.inputs[0])
