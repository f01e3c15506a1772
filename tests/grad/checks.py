"""Checking a gradient rule: one `Case` is one node; its gradients are compared with central differences in float64."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import onnx.parser
import onnx.reference.ops.op_erf as reference_erf
import onnx_ir as ir
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.serialize import serialize
from onnxgrad.engine.ir.verify import verify
from onnxgrad.grad.reverse import gradients
from tests.grad import contrib_operators, reference_loops, reference_norms, reference_ops  # noqa: F401 (mend the evaluator)

Arrays = dict[str, np.ndarray]
Input = Sequence[int] | np.ndarray | None

_OPERATORS = [*contrib_operators.OPERATORS, *reference_norms.OPERATORS, *reference_ops.OPERATORS]


def _erf_in_float64(self, node, params):  # the reference rounds erf to float32, too coarse for differences
    super(reference_erf.Erf, self).__init__(node, params)
    from math import erf

    self._erf = np.vectorize(erf, otypes=["d"])


reference_erf.Erf.__init__ = _erf_in_float64  # type: ignore[method-assign]


@dataclass(frozen=True)
class Case:
    """One node of `op_type`, or `nodes` in ONNX text over x0, x1, ... that give y0, y1, ...; T is the float type.

    inputs: a shape (a float input, drawn from `domain`), an array (floats are differentiated, others are constants: an
    initializer of the model), or None (left out). outputs: how many the node has, `seeded`: which of them the scalar
    depends on (all float ones by default). fixed: positions of float inputs that are not differentiated. domain: (low,
    high) of random inputs. runs32: also runs in onnxruntime in float32 with symbolic shapes; second: whether second
    derivatives are checked; half: whether the float16 gradient is checked. forward: "reference" or "ort", what computes
    the forward values in float64.
    """

    op_type: str
    inputs: Sequence[Input]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    outputs: int = 1
    seeded: Sequence[int] | None = None
    fixed: Sequence[int] = ()
    domain: tuple[float, float] = (-2.0, 2.0)
    op_domain: str = ""
    opset: int = 22
    tolerance: float = 1e-6
    second: bool = True
    half: bool = True
    runs32: bool = True
    forward: str = "reference"
    nodes: str = ""

    def __str__(self) -> str:
        spelled = ",".join(f"{k}={v}" for k, v in self.attributes.items() if not isinstance(v, onnx.GraphProto))
        return self.name or f"{self.op_type}-{self.opset}({spelled})"[:80]


def check_gradient(case: Case) -> None:
    """Value, shape, second order (float64), symbolic shapes in onnxruntime (float32), float16."""
    model, feeds = build(case, np.float64, symbolic=False)
    wrt = list(feeds)
    check_differences(model, feeds, wrt, case)
    if case.runs32:
        exact = run_gradient(model, feeds, wrt, evaluate)
        loose, feeds32 = build(case, np.float32, symbolic=True)
        single = run_gradient(loose, feeds32, wrt, run_in_onnxruntime)
        _compare(single, exact, wrt, 2e-3, "onnxruntime, float32, symbolic shapes")
    if case.half:
        exact = run_gradient(model, feeds, wrt, evaluate)
        halved, feeds16 = build(case, np.float16, symbolic=False)
        _compare(run_gradient(halved, feeds16, wrt, evaluate), exact, wrt, 3e-2, "float16")


def check_differences(model: onnx.ModelProto, feeds: Arrays, wrt: Sequence[str], case: Case) -> None:
    """First (and second) derivatives of sum(seed * outputs) against central differences in float64."""
    rng = np.random.default_rng(5)
    forward = run_in_onnxruntime if case.forward == "ort" else evaluate
    first = gradient_model_of(model, wrt)
    seeds = seeds_of(model, forward(model, feeds))
    grads = evaluate(first, {**feeds, **seeds})
    for name in wrt:
        assert grads[f"{name}.grad"].shape == feeds[name].shape, name
        assert np.isfinite(grads[f"{name}.grad"]).all(), name
    scalar = lambda at: _dot(forward(model, at), seeds)  # noqa: E731
    _check_slopes(scalar, feeds, {n: grads[f"{n}.grad"] for n in wrt}, rng, case.tolerance, "first order")
    if case.second:
        seeds2 = {f"{n}.grad": rng.standard_normal(feeds[n].shape) for n in wrt}
        second = gradient_model_of(first, wrt, of=list(seeds2))
        hessian = evaluate(second, {**feeds, **seeds, **{f"{k}.seed": v for k, v in seeds2.items()}})
        slope = lambda at: sum(  # noqa: E731
            float((g * seeds2[k]).sum()) for k, g in evaluate(first, {**at, **seeds}).items() if k in seeds2
        )
        _check_slopes(slope, feeds, {n: hessian[f"{n}.grad"] for n in wrt}, rng, 20 * case.tolerance, "second order")


def build(case: Case, dtype: type, symbolic: bool) -> tuple[onnx.ModelProto, Arrays]:
    """The model of a case and its inputs: float inputs are graph inputs x0, x1, ...; the others initializers."""
    rng = np.random.default_rng(3)
    names, infos, constants, feeds = [], [], [], {}
    code = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for i, spec in enumerate(case.inputs):
        names.append("" if spec is None else f"x{i}")
        if spec is None:
            continue
        if isinstance(spec, np.ndarray):
            value = spec.astype(dtype) if spec.dtype.kind == "f" else spec
        else:
            value = rng.uniform(*case.domain, size=tuple(spec)).astype(np.float16).astype(dtype)
        if value.dtype.kind == "f" and i not in case.fixed:
            dims = [f"x{i}_{k}" for k in range(value.ndim)] if symbolic else value.shape
            infos.append(oh.make_tensor_value_info(f"x{i}", code, dims))
            feeds[f"x{i}"] = value
        else:
            constants.append(onnx.numpy_helper.from_array(value, f"x{i}"))
    outputs = [f"y{k}" for k in range(case.outputs)]
    nodes = [oh.make_node(case.op_type, names, outputs, domain=case.op_domain, **case.attributes)]
    if case.nodes:
        kind = {"float64": "double", "float32": "float"}.get(np.dtype(dtype).name, "float16")
        text = re.sub(r"\bT\b", kind, case.nodes)
        nodes = list(onnx.parser.parse_graph(f"g () => () {{ {text} }}").node)
    seeded = case.seeded if case.seeded is not None else range(case.outputs)
    results = [oh.make_tensor_value_info(f"y{k}", code, None) for k in seeded]
    graph = oh.make_graph(nodes, "case", infos, results, constants)
    imports = [oh.make_opsetid("", case.opset)]
    if case.op_domain:
        imports.append(oh.make_opsetid(case.op_domain, 1))
    return oh.make_model(graph, opset_imports=imports, ir_version=10), feeds


def gradient_model_of(model: onnx.ModelProto, wrt: Sequence[str], of: Sequence[str] | None = None) -> onnx.ModelProto:
    """The model plus gradients: outputs "<name>.grad" for `wrt`; seed inputs "<output>.grad" (or "<output>.seed")."""
    inner = ir.serde.deserialize_model(model)
    inner.graph.meta["onnxgrad.functions"] = inner.functions
    infer_shapes(inner)
    by_name = {value.name: value for value in (*inner.graph.inputs, *inner.graph.outputs)}
    targets = [by_name[name] for name in of] if of else [v for v in inner.graph.outputs if v.dtype and _floats(v)]
    ending = "seed" if of else "grad"
    seeds = [ir.Value(name=f"{v.name}.{ending}", type=v.type, shape=v.shape) for v in targets]
    results = gradients(targets, [by_name[name] for name in wrt], seeds)
    inner.graph.inputs.extend(seeds)
    inner.graph.outputs.clear()
    for value in (output for node in inner.graph for output in node.outputs):
        if of and value.name in of:
            value.name = f"{value.name}.first"
    for name, grad in zip(wrt, results, strict=True):
        like = by_name[name]
        result = _append(inner.graph, "Sub", [like, like], like) if grad is None else grad
        if result.is_graph_input() or result.is_graph_output():
            result = _append(inner.graph, "Identity", [result], result)
        result.name = f"{name}.grad"
        inner.graph.outputs.append(result)
    proto = serialize(inner)
    verify(inner)
    if all(_is_standard(node, model.opset_import[0].version) for node in proto.graph.node):
        onnx.checker.check_model(proto)
    return proto


def _append(graph: ir.Graph, op_type: str, inputs: Sequence[ir.Value], like: ir.Value) -> ir.Value:
    node = ir.node(op_type, inputs)
    graph.append(node)
    node.outputs[0].type, node.outputs[0].shape = like.type, like.shape
    return node.outputs[0]


def _is_standard(node: onnx.NodeProto, opset: int) -> bool:
    """Whether the checker may see the node: not an operator that only onnxruntime has, nor one out of use."""
    if node.domain:
        return True
    return onnx.defs.has(node.op_type) and not onnx.defs.get_schema(node.op_type, opset).deprecated


def _floats(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def run_gradient(
    model: onnx.ModelProto, feeds: Arrays, wrt: Sequence[str], run: Callable[[onnx.ModelProto, Arrays], Arrays]
) -> Arrays:
    """The gradients of sum(seed * outputs) with the same seeds in every dtype."""
    outputs = run(model, feeds)
    return run(gradient_model_of(model, wrt), {**feeds, **seeds_of(model, outputs)})


def seeds_of(model: onnx.ModelProto, outputs: Arrays) -> Arrays:
    """Random seeds "<output>.grad" for all float outputs; the same numbers whatever the dtype."""
    rng = np.random.default_rng(4)
    kept = {name: v for name, v in outputs.items() if v.dtype.kind == "f" or v.dtype == ml_dtypes.bfloat16}
    return {
        f"{name}.grad": np.asarray(rng.uniform(-1, 1, v.shape).astype(np.float16)).astype(v.dtype)
        for name, v in kept.items()
    }


def evaluate(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Run with onnx's reference evaluator."""
    with np.errstate(all="ignore"):
        evaluator = ReferenceEvaluator(model, new_ops=_OPERATORS)
        return dict(zip(evaluator.output_names, map(np.asarray, evaluator.run(None, feeds)), strict=True))


def run_in_onnxruntime(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Run with onnxruntime on the CPU."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def _dot(outputs: Arrays, seeds: Arrays) -> float:
    return sum(float((v * seeds[f"{k}.grad"]).sum()) for k, v in outputs.items() if f"{k}.grad" in seeds)


def _check_slopes(
    scalar: Callable[[Arrays], float],
    at: Arrays,
    grads: Arrays,
    rng: np.random.Generator,
    tolerance: float,
    what: str,
    step: float = 1e-5,
) -> None:
    """Directional derivatives along random directions, one input at a time."""
    for name, grad in grads.items():
        for _ in range(2):
            u = rng.standard_normal(at[name].shape)
            ahead, behind = ({**at, name: at[name] + s * step * u} for s in (1, -1))
            slope = (scalar(ahead) - scalar(behind)) / (2 * step)
            got = float((grad * u).sum())
            bound = tolerance * max(1.0, abs(slope), float(np.abs(grad * u).sum()))
            assert abs(got - slope) <= bound, f"{what}: {name}: gradient gives {got:.9g}, differences {slope:.9g}"


def _compare(got: Arrays, want: Arrays, names: Sequence[str], tolerance: float, what: str) -> None:
    for name in names:
        a, b = got[f"{name}.grad"].astype("f8"), want[f"{name}.grad"]
        assert a.shape == b.shape, f"{what}: {name}: shape {a.shape}, not {b.shape}"
        error = float(np.max(np.abs(a - b), initial=0))
        assert error <= tolerance * max(1.0, float(np.max(np.abs(b), initial=0))), f"{what}: {name}: off by {error:.3g}"
