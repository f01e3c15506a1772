"""A model to operate on: outputs and inputs are added and removed, parts replaced, batches resized."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Self

import numpy as np

from onnxgrad.engine.errors import GraphError
from onnxgrad.engine.graph.graph import Graph
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.node import Node
from onnxgrad.engine.graph.optimized import optimize_vars
from onnxgrad.engine.graph.replace import find_vars_by_name, host_inputs, replace_nodes, replace_vars
from onnxgrad.engine.graph.traversal import node_sequence
from onnxgrad.engine.graph.var import Var
from onnxgrad.models.graph_files import GraphFile, load_graph, save_graph


class NodeFilter:
    """Some nodes of a network, in order: `net.nodes_filter.type("Conv").name("stem")` narrows it further."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)

    def type(self, op_type: str) -> NodeFilter:
        """Those of this operator."""
        return self.where(lambda node: node.op_type == op_type)

    def not_type(self, op_type: str) -> NodeFilter:
        """Those of other operators."""
        return self.where(lambda node: node.op_type != op_type)

    def name(self, part: str) -> NodeFilter:
        """Those whose name holds this text."""
        return self.where(lambda node: part in node.name)

    def has_input(self, var: Var) -> NodeFilter:
        """Those that read this variable."""
        return self.where(lambda node: var in node.inputs)

    def where(self, condition: Callable[[Node], bool]) -> NodeFilter:
        """Those of which a condition holds."""
        return NodeFilter([node for node in self._nodes if condition(node)])

    def unique(self) -> Node:
        """The only one. Raises: GraphError for none or several."""
        if len(self._nodes) != 1:
            names = ", ".join(repr(node.name) for node in self._nodes[:5]) or "none"
            raise GraphError(f"one node is wanted, {len(self._nodes)} are there", where=names)
        return self._nodes[0]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


class Network:
    """Outputs of a graph, by name, and what is done with them. `metadata` is written into the file, as text by text.

    Changes make new outputs; nodes that are needed no more are neither found nor written.
    """

    def __init__(self, outputs: Mapping[str, Var], metadata: Mapping[str, str] | None = None) -> None:
        self._outputs = dict(outputs)
        self._kept: list[Var] = []
        self.metadata = dict(metadata or {})

    @classmethod
    def load(cls, source: str | os.PathLike[str] | bytes) -> Self:
        """A network from an ONNX file or its bytes. Raises: ModelError, GraphError."""
        loaded = load_graph(source)
        return cls(loaded.by_name, loaded.metadata)

    def dump(self, path: str | os.PathLike[str]) -> GraphFile:
        """Write an ONNX file; what was written. Raises: GraphError for a network without outputs."""
        if not self._outputs:
            raise GraphError("a network without outputs cannot be written", fix="add_output(...)")
        return save_graph(path, self._outputs, keep_var_name=2, metadata=self.metadata)

    @property
    def graph(self) -> Graph:
        """The graph of all its variables."""
        return next(iter(self._outputs.values())).graph

    @property
    def outputs(self) -> dict[str, Var]:
        """The outputs by name, in their order."""
        return dict(self._outputs)

    def add_output(self, *vars: Var, **named: Var) -> None:
        """More outputs: under their own names, or those given. Raises: GraphError for a name that is taken."""
        for name, var in [*((var.name, var) for var in vars), *named.items()]:
            if self._outputs:
                self.graph.check_own(var)
            if self._outputs.get(name, var) != var:
                raise GraphError(f"the network has an output {name!r} already")
            self._outputs[name] = var

    def remove_output(self, *outputs: Var | str) -> None:
        """Outputs less, by variable or name; warns of what is none."""
        for entry in outputs:
            names = [name for name, var in self._outputs.items() if entry in (name, var)]
            if not names:
                warnings.warn(f"{entry!r} is no output of the network", stacklevel=2)
            for name in names:
                del self._outputs[name]

    def add_dep_nodes(self, *vars: Var) -> None:
        """Count what these variables depend on as nodes of the network, though no output needs it."""
        self._kept.extend(vars)

    def replace_vars(self, replacements: Mapping[Var, Var]) -> None:
        """Let the outputs be computed with other variables: see og.tools.replace_vars."""
        self._change(lambda vars: replace_vars(vars, replacements))

    def replace_nodes(self, replacements: Mapping[Node, Node]) -> None:
        """Let the outputs be computed with other nodes: see og.tools.replace_nodes."""
        self._change(lambda vars: replace_nodes(vars, replacements))

    def modify_node_names(self, change: str | Callable[[str], str]) -> None:
        """Call nodes, and what they make, otherwise: by a text in front, or a function. Outputs keep their names."""
        for node in self.all_nodes:
            node.ir.name = change + node.name if isinstance(change, str) else change(node.name)

    def reset_batch_size(self, size: int | str, blacklist: Collection[Var] = ()) -> None:
        """Give all inputs, but for those of `blacklist`, another first size: a number, or a name for any.

        Raises: GraphError for an input without a first size.
        """
        fresh = {}
        for var in self.inputs:
            if var in blacklist:
                continue
            if not var.shape or var.element_type is None:
                raise GraphError(f"{var!r} has no first size to change")
            name, var.value.name = var.name, self.graph.fresh(f"{var.name}.before")
            fresh[var] = self.graph.add_source(HostTensor(name, var.element_type, (size, *var.shape[1:])))
            fresh[var].value.name = name
        self.replace_vars(fresh)

    def make_const(self, value: object, name: str = "") -> Var:
        """A constant to replace something by."""
        return self.graph.constant(np.asarray(value), name=name)

    def make_input(self, name: str, dtype: object = "float32", shape: Sequence[int | str | None] | None = None) -> Var:
        """An input to replace something by."""
        return self.graph.input(name, dtype, shape)

    def optimize_for_inference(self) -> None:
        """All passes: see og.tools.optimize_vars. Parameters are constants afterwards."""
        self._change(optimize_vars)

    def get_var_by_name(self, name: str) -> Var:
        """The variable, or the output, that is called so. Raises: GraphError if there is none."""
        if name in self._outputs:
            return self._outputs[name]
        return find_vars_by_name(self._targets(), [name])[0]

    def get_node_by_name(self, name: str) -> Node:
        """The node that is called so. Raises: GraphError if there is none."""
        return self.nodes_filter.where(lambda node: node.name == name).unique()

    def get_node_by_type(self, op_type: str) -> Node:
        """The only node of an operator. Raises: GraphError if there is none, or several."""
        return self.nodes_filter.type(op_type).unique()

    def get_nodes_by_type(self, op_type: str) -> list[Node]:
        """All nodes of an operator."""
        return list(self.nodes_filter.type(op_type))

    @property
    def all_nodes(self) -> list[Node]:
        """The nodes that the outputs depend on, constants included, in an order in which they can run."""
        return node_sequence(self._targets(), prune_constants=False)

    @property
    def nodes_filter(self) -> NodeFilter:
        """All nodes but constants, to choose from."""
        return NodeFilter(node_sequence(self._targets()))

    @property
    def inputs(self) -> list[Var]:
        """The inputs that calls must give."""
        return host_inputs(self._targets())

    @property
    def params(self) -> list[Var]:
        """The parameters that the outputs depend on."""
        read = {value for node in self.all_nodes for value in node.inputs}
        given = {var for var in self.graph.inputs if not isinstance(self.graph.sources[var.value], HostTensor)}
        return [var for var in self.graph.inputs if var in given and var in read]

    def _targets(self) -> list[Var]:
        return [*self._outputs.values(), *self._kept]

    def _change(self, change: Callable[[list[Var]], list[Var]]) -> None:
        count = len(self._outputs)
        found = change(self._targets())
        self._outputs = dict(zip(self._outputs, found[:count], strict=True))
        self._kept = found[count:]
