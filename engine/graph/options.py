"""Options of a computing graph: `graph.options.graph_opt_level = 1`, `graph.set_option("log_level", 0)`."""

from __future__ import annotations

import difflib
import os
import warnings
from dataclasses import dataclass, fields

from onnxgrad.engine.errors import OptionError

ENVIRONMENT = "ONNXGRAD_GRAPH_OPTIONS"
"""Options that graphs start with: `name=number;name=number`."""
USER_DATA = "ONNXGRAD_GRAPH_USER_DATA"
"""What `graph.user_data` starts with: `key=text;key=text`."""

_ALIASES = {"log_static_mem_alloc": "log_level", "enable_async_exec": "async_exec_level"}
_GROUPS = ("seq_opt.", "graph_opt.", "sublinear_mem_config.", "sublinear_mem_cofig.")

_MEANINGLESS = {
    "eager_evaluation": "operators run at once on og.Tensor; a graph is compiled",
    "enable_dtr_memory_opt": "onnxruntime decides what to keep before a run; enable_sublinear_memory_opt does too",
    "enable_memory_swap": "onnxruntime's providers do not move values to the host and back",
    "jit": "onnxruntime has no compiler for clusters of operators in its wheel",
    "allreduce_pack_max_size": "there is one process, and nothing to reduce over several",
    "imperative_proxy_graph": "og.Tensor runs operators through sessions of one node",
    "no_force_inplace": "onnxruntime alone decides which values share memory",
}
"""Options that are known and cannot be switched on here, and why."""


@dataclass
class GraphOptions:
    """How a graph is compiled. Functions that are compiled already keep what they were compiled with.

    graph_opt_level: 0 nothing is optimized; 1 by onnxruntime's basic rewrites; 2 by all of onnxruntime's, and, where
    virtual gradients are written out, by the passes of `optimize_for_inference` on what they are taken of; 3 by these
    passes also afterwards, on the whole. A negative level does the same, and the first run is repeated at level 0 and
    compared.
    enable_mem_plan_opt, force_dynamic_alloc: whether memory of a run is laid out beforehand, from the shapes before.
    enable_mem_reuse_alloc: values that are not needed any more leave their memory to others.
    enable_seq_comp_node_opt: CUDA copies inputs and outputs in streams of their own.
    var_sanity_check_first_run: the first run verifies that parameters and inputs which are not updated stay the same.
    allocate_static_mem_after_graph_compile: `compile` runs the function once, on inputs that have a value; updates
    and callbacks do not happen. fake_next_exec: the next call does the same, and is the last to do so.
    enable_sublinear_memory_opt: values that only gradients read are computed a second time there, from the nearest
    endpoints (og.tools.set_sublinear_memory_endpoint), or so many of them that thresh_nr_try splits find best; nothing
    is split further where lb_memory_mb is enough.
    comp_node_seq_record_level: 1, 2 CUDA records a run as a graph, and repeats that; shapes must be fixed.
    async_exec_level: 0b100 nodes that do not depend on each other may run at the same time; else they do not.
    no_profiling_on_shape_change: cuDNN's algorithms are chosen without trying them out.
    tensorrt: TensorRT is asked first. log_level: 0 nothing is logged, 1 what is compiled, 2 also what was rewritten.
    force_output_dynamic_alloc, force_output_use_user_specified_memory, enable_var_mem_defragment,
    enable_grad_var_static_reshape, disable_inplace_arith_opt, comp_seq_sync_device: accepted; always outputs are new
    memory, the arena grows as needed, gradients have the static shape of their variable, nodes are added as they are
    asked for, and waiting waits for the device.
    f16_io_f32_comp ... fuse_conv_bias_with_z: see `optimize_for_inference`; for functions compiled with that.
    """

    graph_opt_level: int = 2
    enable_mem_plan_opt: int = 1
    enable_mem_reuse_alloc: int = 1
    enable_seq_comp_node_opt: int = 1
    force_dynamic_alloc: int = 0
    force_output_dynamic_alloc: int = 0
    force_output_use_user_specified_memory: int = 0
    var_sanity_check_first_run: int = 1
    allocate_static_mem_after_graph_compile: int = 0
    fake_next_exec: int = 0
    enable_sublinear_memory_opt: int = 0
    thresh_nr_try: int = 10
    lb_memory_mb: int = 0
    no_profiling_on_shape_change: int = 0
    enable_var_mem_defragment: int = 1
    enable_grad_var_static_reshape: int = 0
    comp_node_seq_record_level: int = 0
    async_exec_level: int = 1
    log_level: int = 1
    tensorrt: int = 0
    disable_inplace_arith_opt: int = 0
    comp_seq_sync_device: int = 1
    f16_io_f32_comp: int = 0
    f16_io_comp: int = 0
    fuse_grain: int = 1
    fuse_conv_bias_nonlinearity: int = 0
    fuse_conv_bias_with_z: int = 0
    eager_evaluation: int = 0
    enable_dtr_memory_opt: int = 0
    enable_memory_swap: int = 0
    jit: int = 0
    allreduce_pack_max_size: int = 0
    imperative_proxy_graph: int = 0
    no_force_inplace: int = 0

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 3)
            raise OptionError(
                f"there is no option {name!r}", fix=f"did you mean {' or '.join(near)}?" if near else ", ".join(_NAMES)
            )
        if not isinstance(value, int):
            raise OptionError(f"option {name!r} takes a whole number or a bool, not {value!r}")
        if value and name in _MEANINGLESS:
            raise OptionError(f"option {name!r} has no meaning here", why=_MEANINGLESS[name])
        object.__setattr__(self, name, int(value))

    def set(self, name: str, value: int) -> int:
        """Set an option by its name, also by an old one or with its group in front; the result is what it was.

        Raises: OptionError for a name or value that is none.
        """
        name = plain_name(name)
        before: int = getattr(self, name, 0)
        setattr(self, name, value)
        return before

    def check(self) -> None:
        """Raises: OptionError for options that do not go together."""
        if self.comp_node_seq_record_level > 1:
            for name in ("fake_next_exec", "var_sanity_check_first_run"):
                if getattr(self, name):
                    raise OptionError(
                        f"comp_node_seq_record_level=2 does not go with {name}", fix=f"graph.set_option({name!r}, 0)"
                    )
        if self.f16_io_comp and self.f16_io_f32_comp:
            raise OptionError("f16_io_comp and f16_io_f32_comp do not go together", fix="choose one")

    @property
    def level(self) -> int:
        """The level of optimization without its sign."""
        return abs(self.graph_opt_level)


_NAMES = tuple(entry.name for entry in fields(GraphOptions))


def plain_name(name: str) -> str:
    """The name of an option as the attribute is called."""
    for group in _GROUPS:
        name = name.removeprefix(group)
    return _ALIASES.get(name, "lb_memory_mb" if name == "lb_memory" else name)


def options_from_environment() -> GraphOptions:
    """The defaults, but for what the environment says, of which it warns.

    Raises: OptionError for what cannot be read.
    """
    options = GraphOptions()
    for name, text in _pairs(ENVIRONMENT):
        try:
            options.set(name, int(text))
        except ValueError as error:
            raise OptionError(f"{ENVIRONMENT} gives {name!r} the value {text!r}", why=str(error)) from error
        warnings.warn(f"{ENVIRONMENT} sets {plain_name(name)} to {text}", stacklevel=3)
    return options


def user_data_from_environment() -> dict[str, object]:
    """What `graph.user_data` begins with. Raises: OptionError for what cannot be read."""
    return dict(_pairs(USER_DATA))


def _pairs(variable: str) -> list[tuple[str, str]]:
    found = []
    for entry in os.environ.get(variable, "").split(";"):
        name, separator, text = entry.partition("=")
        if entry.strip() and not separator:
            raise OptionError(f"{variable} has an entry {entry!r}", fix="name=value;name=value")
        if entry.strip():
            found.append((name.strip(), text.strip()))
    return found
