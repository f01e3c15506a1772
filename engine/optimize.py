"""optimize_for_inference: the passes, in their order, run until nothing changes."""

import difflib
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import onnx_ir as ir

from onnxgrad.engine.compare import Shapes, compare, worst_errors
from onnxgrad.engine.errors import OptionError, VerificationError
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.input_shapes import with_input_shapes
from onnxgrad.engine.ir.names import graphs_in, values_in
from onnxgrad.engine.ir.opset import raise_opset
from onnxgrad.engine.ir.verify import verify
from onnxgrad.engine.passes import remove_no_ops
from onnxgrad.engine.passes.drop_zero_states import drop_zero_states
from onnxgrad.engine.passes.fold_constants import fold_constants
from onnxgrad.engine.passes.fusions import (
    activation,
    arithmetic,
    attention,
    casts,
    chains,
    clip,
    concat,
    conv,
    einsum,
    fused_conv,
    gemm,
    gemm_weights,
    grain,
    layout,
    norm,
    pad,
    quant,
    redistribute,
    reduce,
    reshape,
    rotary,
    slicing,
    softmax,
    transpose,
    unrolled,
)
from onnxgrad.engine.passes.fusions.move_transposes import move_transposes
from onnxgrad.engine.passes.inline_branches import inline_branches
from onnxgrad.engine.passes.inline_functions import inline_functions
from onnxgrad.engine.passes.lift_constants import lift_constants
from onnxgrad.engine.passes.merge_equal_nodes import merge_equal_nodes
from onnxgrad.engine.passes.merge_initializers import merge_initializers
from onnxgrad.engine.passes.precision import Precision, known_precision, lower_precision
from onnxgrad.engine.passes.preprocess import ImageInput, with_image_input
from onnxgrad.engine.passes.remove_dead_code import remove_dead_code
from onnxgrad.engine.passes.rewrite import Hits, Rewrite, apply_rewrites
from onnxgrad.engine.passes.scope import Scope, hidden_defaults
from onnxgrad.engine.passes.simplify_shapes import simplify_shapes
from onnxgrad.engine.passes.unportable_options import refuse_options
from onnxgrad.engine.passes.unroll_loops import unroll_loops
from onnxgrad.engine.runtime.evaluate import evaluate
from onnxgrad.importers.onnx import ModelSource, load

Pass = Callable[[Scope], int]
"""A pass changes the model of a scope, and returns how often it did."""

PASSES: tuple[Pass | Rewrite, ...] = (
    inline_functions,
    remove_dead_code,
    inline_branches,
    unroll_loops,
    simplify_shapes,
    fold_constants,
    merge_initializers,
    merge_equal_nodes,
    # What exporters write out becomes one operator, before the arithmetic in it is rewritten.
    *remove_no_ops.RULES,
    *norm.RULES,
    *activation.RULES,
    *softmax.RULES,
    *rotary.RULES,
    *attention.RULES,
    *einsum.RULES,
    drop_zero_states,
    move_transposes,
    *casts.RULES,
    *reshape.RULES,
    *transpose.RULES,
    *slicing.RULES,
    *concat.RULES,
    *unrolled.RULES,
    *reduce.RULES,
    *grain.RULES,
    *layout.RULES,
    *pad.RULES,
    *conv.RULES,
    *gemm_weights.RULES,
    *gemm.RULES,
    *clip.RULES,
    *chains.RULES,
    *redistribute.RULES,
    *arithmetic.RULES,
    *quant.RULES,
    merge_equal_nodes,
    # What others look for in its old form.
    *arithmetic.LATE_RULES,
    *transpose.LATE_RULES,
    lift_constants,
    remove_dead_code,
)
"""All passes in the order they run. The whole is repeated until nothing changes. Rewrites beside each other run in one
walk, in this order at each node."""

_ROUNDS = 12
_REPORT = "onnxgrad.optimization"


@dataclass
class Optimization:
    """What `optimize_for_inference` did.

    hits: pass or rewrite -> how often it changed something.  reasons: rewrite -> why it did not where its pattern was
    found, with the number of times.  disabled: what was switched off.  rounds: repetitions of all passes.
    errors: output -> its largest error as a part of its largest number, where the precision was lowered and checked.
    """

    rounds: int = 0
    seconds: float = 0.0
    disabled: tuple[str, ...] = ()
    hits: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, dict[str, int]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    _went: dict[str, ir.Value] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "rounds": self.rounds,
            "seconds": round(self.seconds, 3),
            "disabled": list(self.disabled),
            "hits": self.hits,
            "reasons": self.reasons,
            "errors": self.errors,
        }

    def __str__(self) -> str:
        width = max(map(len, self.hits), default=0)
        lines = [f"{name:{width}}  {count}" for name, count in self.hits.items()]
        return "\n".join([*lines, f"{self.rounds} rounds, {self.seconds:.2f} s"])


def optimize_for_inference(
    model: ModelSource,
    *,
    disable: str | Iterable[str] = (),
    opset: int | None = None,
    input_shapes: Shapes | None = None,
    check: int = 0,
    precision: str | None = None,
    fuse_preprocess: ImageInput | None = None,
    fuse_grain: bool = True,
    fuse_conv_bias_nonlinearity: bool = False,
    fuse_conv_bias_with_z: bool = False,
    weight_preprocess: bool = False,
    layout: str | None = None,
) -> ir.Model:
    """A smaller and faster model with the same answers; `model` (path, bytes, ModelProto, ir.Model) is not changed.

    disable: names of passes and rewrites to leave out (`pass_names()` lists them).  opset: raised to this first.
    input_shapes: name -> dimensions, None for one that stays; what is fixed makes more simplifications possible.
    check: so many random inputs must give the same outputs before and after.
    precision: "f16_io_f32_comp" stores weights in float16, "f16_io_comp" computes in it too, "bfloat16" in that; inputs
    and outputs keep their dtypes. A check then reports the errors (`optimization_report(model).errors`).
    fuse_preprocess: an input takes images as bytes from then on; a check runs both models on bytes.
    fuse_grain: a divided sum becomes a mean.  fuse_conv_bias_nonlinearity, fuse_conv_bias_with_z: convolutions with
    activation, and with addend too, become nodes that only onnxruntime has: the file is not portable, and says so.
    weight_preprocess, layout: have no meaning for files; the error says why.

    Inputs, outputs, their names and order, initializers that are inputs, metadata and random nodes stay. Initializers
    that files of IR version 3 and older list as inputs are no inputs for onnxruntime, and none afterwards.
    What was done is told by `optimization_report(model)`, where a value went by `replaced(value, model)`.

    Raises: ModelError, OptionError, OpsetError, ShapeError; EquivalenceError if a check fails.
    """
    start = time.perf_counter()
    refuse_options(weight_preprocess, layout)
    left_out = () if fuse_grain else [rule.name for rule in grain.RULES]
    disabled = _known_names([*([disable] if isinstance(disable, str) else disable), *left_out])
    lower = None if precision is None else known_precision(precision)
    runtime_only = fused_conv.chosen(fuse_conv_bias_nonlinearity, fuse_conv_bias_with_z)
    original = load(model)
    if fuse_preprocess is not None:
        original = with_image_input(original, fuse_preprocess)
    try:
        result = _optimized(original, disabled, opset, input_shapes, lower, runtime_only, verify_each=False)
    except VerificationError:
        # Once more, to say which pass it was.
        _optimized(original, disabled, opset, input_shapes, lower, runtime_only, verify_each=True)
        raise
    optimization_report(result).seconds = time.perf_counter() - start
    if check and lower is not None:
        optimization_report(result).errors = worst_errors(original, result, check, input_shapes or {})
    elif check:
        compare(original, result, check, input_shapes or {})
    return result


def _optimized(
    original: ir.Model,
    disabled: tuple[str, ...],
    opset: int | None,
    shapes: Shapes | None,
    lower: Precision | None,
    runtime_only: Sequence[Rewrite],
    *,
    verify_each: bool,
) -> ir.Model:
    copy = with_input_shapes(original, shapes) if shapes else clone(original)
    if opset is not None:
        raise_opset(copy, opset)
    _release_initializers(copy)
    annotated = {value.name: (value.type, value.shape) for value in values_in(copy.graph) if value.type is not None}
    report = copy.meta[_REPORT] = _run(copy, disabled, verify_each)
    if lower is not None:
        report.hits["lower_precision"] = lower_precision(Scope(copy, evaluate), lower)
        verify(copy)
    if runtime_only:
        report.hits.update(fused_conv.fuse_for_onnxruntime(Scope(copy, evaluate), runtime_only))
        verify(copy)
    _forget_types(copy, annotated)
    return copy


def _run(model: ir.Model, disabled: tuple[str, ...], verify_each: bool) -> Optimization:
    _infer(model)
    origin = {value.name or "": value for value in values_in(model.graph)}
    scope, record = Scope(model, evaluate), dict[str, Hits]()
    steps = _steps([entry for entry in PASSES if name_of(entry) not in disabled])
    rounds = _repeat(scope, steps, record, verify_each)
    hits = {name: record[name].hits for name in pass_names() if name in record and record[name].hits}
    reasons = {name: dict(found.reasons.most_common()) for name, found in record.items() if found.reasons}
    report = Optimization(rounds, 0.0, disabled, hits, reasons)
    report._went = {name: _follow(scope.moved, value) for name, value in origin.items()}
    return report


def _repeat(scope: Scope, steps: Sequence[list[Rewrite] | Pass], record: dict[str, Hits], verify_each: bool) -> int:
    """Run all steps until none changes anything; one rests while nothing changed since it ran. Returns the rounds.

    The model is verified after every round, or after every step, which takes longer and says which pass broke it.
    """
    changes, seen = 0, [-1] * len(steps)
    for rounds in range(1, _ROUNDS + 1):
        before = changes
        for index, step in enumerate(steps):
            if seen[index] != changes:
                count = _step(scope, step, record, verify_each)
                changes += count
                # Rewrites are through with their own changes; a pass that goes over the nodes once may not be.
                seen[index] = -1 if count and not isinstance(step, list) else changes
        if changes == before:
            return rounds
        verify(scope.model)
    return _ROUNDS


def _steps(entries: Sequence[Pass | Rewrite]) -> list[list[Rewrite] | Pass]:
    """Neighbouring rewrites become one step."""
    steps: list[list[Rewrite] | Pass] = []
    for is_rewrite, group in groupby(entries, lambda entry: isinstance(entry, Rewrite)):
        members = list(group)
        if is_rewrite:
            steps.append([entry for entry in members if isinstance(entry, Rewrite)])
        else:
            steps.extend(entry for entry in members if not isinstance(entry, Rewrite))
    return steps


def _step(scope: Scope, step: list[Rewrite] | Pass, record: dict[str, Hits], verify_after: bool) -> int:
    with hidden_defaults(scope.model.graph):
        if isinstance(step, list):
            count, name = apply_rewrites(scope, step, record), "the rewrites"
        else:
            count, name = step(scope), name_of(step)
            record.setdefault(name, Hits()).hits += count
    if count:
        scope.forget_graphs()
    if count and verify_after:
        try:
            verify(scope.model)
        except VerificationError as error:
            what, fix = f"{name} broke the model. {error.what}", f'disable="{name}", and please report this'
            raise VerificationError(what, where=error.where, why=error.why, fix=fix) from error
    return count


def _infer(model: ir.Model) -> None:
    """Infer shapes without the defaults of inputs, and without what annotations may have drawn from them."""
    if any(value.is_initializer() for value in model.graph.inputs):
        for node in model.graph.all_nodes():
            for output in node.outputs:
                output.shape = output.shape if output.is_graph_output() else None
    with hidden_defaults(model.graph):
        infer_shapes(model)


def _release_initializers(model: ir.Model) -> None:
    """Before IR version 4 every initializer is listed as an input, and none can be overridden."""
    if model.ir_version >= 4:
        return
    own = [value for value in model.graph.inputs if not value.is_initializer()]
    model.graph.inputs.clear()
    model.graph.inputs.extend(own)
    model.ir_version = 4


def _forget_types(
    model: ir.Model, annotated: Mapping[str | None, tuple[ir.TypeProtocol | None, ir.Shape | None]]
) -> None:
    """The file says of inner values what it said before: every reader infers the rest.

    More would be true, but onnxruntime fuses other nodes where it knows more, and rounds in another order.
    """
    for graph in graphs_in(model.graph):
        for value in graph.inputs if graph is not model.graph else ():
            type_, shape = annotated.get(value.name, (None, None))
            if type_ is not None and type_ == value.type and _agree(shape, value.shape):
                value.shape = shape
        for node in graph:
            for output in node.outputs:
                if not output.is_graph_output():
                    type_, shape = annotated.get(output.name, (None, None))
                    fits = type_ is not None and type_ == output.type and _agree(shape, output.shape)
                    output.type, output.shape = (type_, shape) if fits else (None, None)


def _agree(declared: ir.Shape | None, inferred: ir.Shape | None) -> bool:
    if declared is None or inferred is None:
        return declared is inferred
    pairs = zip(declared, inferred, strict=False)
    return len(declared) == len(inferred) and all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _follow(moved: Mapping[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    while value in moved:
        value = moved[value]
    return value


def name_of(entry: Pass | Rewrite) -> str:
    """The name of a pass or rewrite, as options and reports spell it."""
    return entry.name if isinstance(entry, Rewrite) else entry.__name__


def pass_names() -> dict[str, str]:
    """Every pass and rewrite, in order, with what it does."""
    return {name_of(entry): inspect.cleandoc(entry.__doc__ or "").partition("\n")[0] for entry in PASSES}


def _known_names(names: Iterable[str]) -> tuple[str, ...]:
    known = pass_names()
    chosen = tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            fix = f"did you mean {' or '.join(near)}?" if near else "onnxgrad optimize --list-passes shows all"
            raise OptionError(f"There is no pass {name!r}.", fix=fix)
    return chosen


def optimization_report(model: ir.Model) -> Optimization:
    """What was done to a model that `optimize_for_inference` made. Raises: OptionError for other models."""
    report = model.meta.get(_REPORT)
    if not isinstance(report, Optimization):
        raise OptionError("The model does not come from optimize_for_inference.", fix="pass what it returned")
    return report


def replaced(value: ir.Value | str, model: ir.Model) -> ir.Value | None:
    """Where a value went: `value` (or its name) of a model that was optimized, in the `model` that came out.

    None where nothing in the new model computes it any more.

    Raises: OptionError for a name that the model did not have.
    """
    went = optimization_report(model)._went
    name = value if isinstance(value, str) else value.name or ""
    if name not in went:
        raise OptionError(f"The model had no value {name!r} before it was optimized.")
    found = went[name]
    is_there = (
        found.is_initializer()
        or found.is_graph_input()
        or ((maker := found.producer()) is not None and maker.graph is not None)
    )
    return found if is_there else None
