"""Tools for computing graphs: questions, other graphs made from them, costs.

Everything that gives variables gives new ones: what was there stays as it was.
"""

from onnxgrad.engine.graph.conversion import graph_of_model, model_of_vars
from onnxgrad.engine.graph.copying import clone_graph, import_vars, inter_graph_var, set_inter_graph_transformer
from onnxgrad.engine.graph.cost import NodeCost, cost_of
from onnxgrad.engine.graph.inference import inferred_value
from onnxgrad.engine.graph.node import Node
from onnxgrad.engine.graph.optimized import optimize_vars, replaced_var
from onnxgrad.engine.graph.replace import (
    convert_inputs,
    embed_inputs,
    find_vars_by_name,
    host_inputs,
    replace_nodes,
    replace_vars,
)
from onnxgrad.engine.graph.traversal import (
    Traversal,
    get_dep_vars,
    graph_traversal,
    node_sequence,
    set_priority_to_id,
    set_sublinear_memory_endpoint,
)

__all__ = [
    "Node",
    "NodeCost",
    "Traversal",
    "clone_graph",
    "convert_inputs",
    "cost_of",
    "embed_inputs",
    "find_vars_by_name",
    "get_dep_vars",
    "graph_of_model",
    "graph_traversal",
    "host_inputs",
    "import_vars",
    "inferred_value",
    "inter_graph_var",
    "model_of_vars",
    "node_sequence",
    "optimize_vars",
    "replace_nodes",
    "replace_vars",
    "replaced_var",
    "set_inter_graph_transformer",
    "set_priority_to_id",
    "set_sublinear_memory_endpoint",
]
