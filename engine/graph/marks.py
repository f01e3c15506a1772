"""What nodes of a computing graph carry with them, by key of `node.meta`; copies of a node carry it too."""

PRIORITY = "onnxgrad.priority"
"""int: nodes of lower numbers come earlier where the order is free; absent means 0."""

TRACEBACK = "onnxgrad.traceback"
"""tuple of traceback.FrameSummary: where the program made the node, in a tracking scope."""

GRADIENT = "onnxgrad.gradient"
"""The function of a custom gradient, on SetGrad nodes."""

NUMBER = "onnxgrad.number"
"""int: the number of a node in its graph; on a graph, the last one given."""

CALLBACK = "onnxgrad.callback"
"""The function of a Callback node, and whether it is lazy: a callback.CallbackFunction."""

OF_GRADIENT = "onnxgrad.of_gradient"
"""True on nodes that belong to a gradient."""

ENDPOINT = "onnxgrad.endpoint"
"""True on values that are kept where others are computed twice (enable_sublinear_memory_opt)."""
