"""What the options of a graph mean for its functions: passes, and how onnxruntime is asked to run them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.graph.execution import Execution
from onnxgrad.engine.graph.first_run import FirstRun, is_random
from onnxgrad.engine.graph.lowering import Lowered, Transform
from onnxgrad.engine.graph.options import GraphOptions
from onnxgrad.engine.graph.sublinear import compute_twice, has_endpoints
from onnxgrad.engine.graph.traversal import in_priority_order
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.virtual_operators import is_virtual
from onnxgrad.engine.optimize import optimization_report, optimize_for_inference
from onnxgrad.engine.runtime.providers import CPU, Provider, why_not_cuda
from onnxgrad.engine.runtime.session import Tuning

logger = logging.getLogger("onnxgrad.graph")

T = TypeVar("T")

_LEVELS = ("none", "basic", "all")


def level_of(options: GraphOptions) -> str:
    """How much onnxruntime's own optimizer may do."""
    return _LEVELS[min(options.level, len(_LEVELS) - 1)]


def tuning_of(options: GraphOptions) -> Tuning:
    """How sessions lay out memory and order nodes. Raises: OptionError for options that do not go together."""
    options.check()
    return Tuning(
        memory_pattern=bool(options.enable_mem_plan_opt) and not options.force_dynamic_alloc,
        reuse=bool(options.enable_mem_reuse_alloc),
        parallel=bool(options.async_exec_level & 0b100),
    )


def providers_of(options: GraphOptions) -> list[Provider] | None:
    """None, which takes CUDA where it works, unless an option says more."""
    cuda: dict[str, object] = {}
    if options.comp_node_seq_record_level:
        cuda["cuda_graph"] = True
    if options.no_profiling_on_shape_change:
        cuda["cudnn_search"] = "heuristic"
    if not options.enable_seq_comp_node_opt:
        cuda["do_copy_in_default_stream"] = 1
    if not (cuda or options.tensorrt):
        return None
    chosen: list[Provider] = ["TensorrtExecutionProvider"] if options.tensorrt else []
    if why_not_cuda() == "":
        chosen.append(("cuda", cuda))
    return [*chosen, CPU]


def before_gradients(options: GraphOptions, write: Callable[[Transform | None], T]) -> T:
    """What `write` gives, with the passes of the level on what gradients are taken of.

    Where a pass makes an operator of which there is no gradient, these passes are left out.
    """
    forward = _forward(options) if options.level > 1 else None
    try:
        return write(forward)
    except GradientError:
        if forward is None:
            raise
        return write(None)


def after_gradients(options: GraphOptions, lowered: Lowered) -> Lowered:
    """With the passes of the level on the whole."""
    if options.level > 2 and not options.enable_sublinear_memory_opt:
        lowered = replace(lowered, model=_optimized(lowered.model, options, "all"))
    return lowered


def finish(lowered: Lowered, options: GraphOptions) -> Tuning:
    """The last changes of a model, in place, and what sessions must know of them."""
    graph, tuning = lowered.model.graph, tuning_of(options)
    if options.enable_sublinear_memory_opt:
        compute_twice(graph, options.thresh_nr_try, options.lb_memory_mb * 2**20)
        tuning = replace(tuning, keep_order=True, keep_equal_nodes=True, parallel=False)
    elif in_priority_order(graph):
        tuning = replace(tuning, keep_order=True, parallel=False)
    if options.log_level > 0:
        logger.info("compiled %d nodes of graph %s at level %d", len(graph), graph.name, options.level)
    return tuning


def first_run(options: GraphOptions, lowered: Lowered, plainly: Callable[[], Lowered]) -> FirstRun | None:
    """What the first run verifies, if the options want it; `plainly` lowers without passes."""
    is_compared = options.graph_opt_level < 0 and not is_random(lowered)
    if not (is_compared or options.var_sanity_check_first_run):
        return None
    return FirstRun(lowered, bool(options.var_sanity_check_first_run), plainly() if is_compared else None)


def warm_up(execution: Execution) -> None:
    """Run once for nobody, if all inputs have values, so that the first call finds the memory it needs."""
    inputs = execution.host_inputs
    if not any(source.is_empty for source in inputs.values()):
        execution.warm_up({name: source.array for name, source in inputs.items()})


def for_inference(model: ir.Model, options: GraphOptions) -> ir.Model:
    """The model after all passes, with those that the options of the graph ask for."""
    return optimize_for_inference(
        model,
        precision="f16_io_comp" if options.f16_io_comp else "f16_io_f32_comp" if options.f16_io_f32_comp else None,
        fuse_grain=bool(options.fuse_grain),
        fuse_conv_bias_nonlinearity=bool(options.fuse_conv_bias_nonlinearity),
        fuse_conv_bias_with_z=bool(options.fuse_conv_bias_with_z),
    )


def _forward(options: GraphOptions) -> Transform:
    """All passes, on a model with virtual gradients in it, which they leave alone; others stay as they are."""

    def transform(model: ir.Model) -> ir.Model:
        if not any(is_virtual(node) and node.op_type == "VirtualGrad" for node in model.graph):
            return model
        if options.enable_sublinear_memory_opt and has_endpoints(model.graph):
            return model  # a pass might take the values that were marked away
        outputs = list(model.graph.outputs)
        places = {value: place for place, value in enumerate(dict.fromkeys(outputs))}
        model.graph.outputs[:] = list(places)
        result = _optimized(model, options, "what gradients are taken of")
        infer_shapes(result)
        found = list(result.graph.outputs)
        result.graph.outputs[:] = [found[places[value]] for value in outputs]
        return result

    return transform


def _optimized(model: ir.Model, options: GraphOptions, what: str) -> ir.Model:
    result = optimize_for_inference(model)
    if options.log_level > 1:
        logger.info("rewrote %s:\n%s", what, optimization_report(result))
    return result
