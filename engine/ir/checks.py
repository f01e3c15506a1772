"""Nodes that check something at run time: they fail where it does not hold, and their name says what that means."""

import onnx_ir as ir

_MARK = "check: "


def named_check(value: ir.Value, message: str) -> None:
    """Let a failure of the node that makes `value` be reported as `message`."""
    node = value.producer()
    assert node is not None
    node.name = f"{_MARK}{message} ({node.name})"


def failed_check(node_name: str) -> str:
    """The message of a check, from the name of its node; "" for other nodes."""
    if not node_name.startswith(_MARK):
        return ""
    return node_name.removeprefix(_MARK).rpartition(" (")[0]
