"""Sessions of onnxruntime: for chosen providers, retried where its optimizer breaks a model, shared by equal calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onnxgrad.engine.errors import OnnxGradError, OptionError, ProviderError
from onnxgrad.engine.runtime.arena import use_shared_arena
from onnxgrad.engine.runtime.call_signature import CallSignature
from onnxgrad.engine.runtime.disk_cache import DiskCache, session_cache_folder, session_key, written_model
from onnxgrad.engine.runtime.failures import loading_error
from onnxgrad.engine.runtime.providers import (
    CPU,
    Device,
    Provider,
    ProviderChoice,
    captures_graphs,
    choose_providers,
    device_of,
)
from onnxgrad.engine.runtime.session_cache import SessionCache
from onnxgrad.engine.runtime.source import ModelLike, ModelSource, read_source
from onnxgrad.engine.runtime.values import to_ort
from onnxgrad.engine.runtime.wrong_rewrites import wrong_rewrites

if TYPE_CHECKING:
    import onnxruntime
    from onnxruntime import InferenceSession, OrtValue

_CACHE_LIMIT = 10**9  # bytes of a model whose optimized graph surely fits a file
LEVELS = ("none", "basic", "extended", "all")
"""How much onnxruntime's own optimizer may do, from nothing to everything."""
_EQUAL_NODES = ("CommonSubexpressionElimination",)


@dataclass(frozen=True)
class Tuning:
    """How a session lays out memory and orders nodes. All of it is onnxruntime's default unless it is said.

    memory_pattern: allocate the memory of a run at once, by what runs on the same shapes needed. reuse: values that are
    needed no more leave their memory to others. parallel: nodes that do not depend on each other may run at one time.
    keep_order: nodes run in the order of the model where that is possible. keep_equal_nodes: what is computed twice in
    the model is computed twice.
    """

    memory_pattern: bool = True
    reuse: bool = True
    parallel: bool = False
    keep_order: bool = False
    keep_equal_nodes: bool = False


DEFAULT_TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Session:
    """A session of onnxruntime with what is known about it. May be used by several threads.

    `level` is the optimization level in use; `lowered_because` says why it is not the one asked for, else "".
    """

    ort: "InferenceSession"
    signature: CallSignature
    device: Device
    level: str
    lowered_because: str
    weights: Mapping[str, "OrtValue"]
    run_options: "onnxruntime.RunOptions | None" = None
    """What a run must be given that is not to be captured as a CUDA graph; None where nothing is captured."""

    def direct_run(self) -> "Callable[..., list[object]]":
        """`run` of onnxruntime without its checks of names, for feeds that were checked: a fifth of a small call."""
        inner = getattr(self.ort, "_sess", None)  # not public: where it is missing, the public way does the same
        run: Callable[..., list[object]] = self.ort.run if inner is None else inner.run
        return run

    @property
    def providers(self) -> tuple[str, ...]:
        """onnxruntime's names of the providers that run the model, in order of preference."""
        return tuple(self.ort.get_providers())


def create_session(
    model: ModelLike | ModelSource,
    providers: Provider | Sequence[Provider] | None = None,
    threads: int | None = None,
    level: str = "all",
    spinning: bool = True,
    initializers: "Mapping[str, OrtValue] | None" = None,
    cached: bool = False,
    profile: str = "",
    shared_arena: bool = False,
    tuning: Tuning = Tuning(),  # frozen
) -> Session:
    """A session for `model`: an existing one where model and options are equal, unless `initializers` are given.

    threads: of one operator; None leaves it to onnxruntime. spinning: idle threads wait busily, which is faster while
    nothing else runs. initializers: values by name in the place of the model's own; they are shared, not copied, and
    stay constants for the optimizer. cached: the optimized graph is kept on disk for the next process (on the CPU, for
    models whose data is not in files). profile: the start of the path that a new session writes its profile to.
    shared_arena: memory of runs on the CPU is that of all such sessions, which then need as much as the greediest.

    Raises: ProviderError, ModelError, OpsetError, ExecutionError, OptionError.
    """
    if level not in LEVELS:
        raise OptionError(f"there is no optimization level {level!r}", fix=f"one of {', '.join(LEVELS)}")
    if threads is not None and threads < 1:
        raise OptionError(f"threads={threads} is not possible", fix="a number from 1 on, or None")
    source = model if isinstance(model, ModelSource) else read_source(model)
    plan = _Plan(choose_providers(providers), threads, level, spinning, profile, shared_arena, tuning=tuning)
    if initializers or profile:
        return _create(source, plan, initializers or {})
    digest, *rest = source.key()
    kept = replace(plan, cached=digest) if cached and isinstance(digest, bytes) else plan
    return SESSIONS.get((digest, *rest, plan), len(source.model), lambda: _create(source, kept, {}))


SESSIONS: SessionCache[Session] = SessionCache(entries=16, size=256 * 2**20)


@dataclass(frozen=True)
class _Plan:
    providers: tuple[ProviderChoice, ...]
    threads: int | None
    level: str
    spinning: bool
    profile: str = ""
    shared_arena: bool = False
    cached: bytes = b""  # the digest of the model, where its optimized graph is to be kept
    tuning: Tuning = DEFAULT_TUNING
    written: str = ""  # where to leave the optimized graph


def _create(source: ModelSource, plan: _Plan, initializers: "Mapping[str, OrtValue]") -> Session:
    model = _refer_to(source.model, initializers) if initializers else source.model
    weights = {name: to_ort(array, dtype) for name, (array, dtype) in source.weights.items()} | dict(initializers)
    if plan.cached and not (weights or source.files) and [choice.name for choice in plan.providers] == [CPU]:
        ort, level, why = _open_through_cache(model, plan)
    else:
        ort, level, why = _open(model, source.folder, weights, plan)
    _check_providers(ort, plan)
    ort._model_bytes = None  # onnxruntime keeps them only to start again with other providers, which is switched off
    options = graph_run_options(-1) if captures_graphs(plan.providers) else None
    return Session(ort, source.signature, device_of(plan.providers), level, why, weights, options)


def graph_run_options(number: int) -> "onnxruntime.RunOptions":
    """Options of runs that are captured as the CUDA graph of this number, and replayed; -1 captures nothing."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


def _open_through_cache(model: bytes, plan: _Plan) -> "tuple[InferenceSession, str, str]":
    """As `_open`, with the optimized graph taken from the disk, or left there; an empty entry is of no use."""
    key = session_key(plan.cached, plan.providers, plan.level)
    cache = DiskCache(session_cache_folder())
    found = cache.get(key)
    if found:
        try:
            return _open_at("none", found, "", {}, plan), plan.level, ""
        except Exception:  # onnxruntime cannot read what it wrote: the model itself is opened, and this not tried again
            cache.put(key, b"")
    if found is not None or len(model) > _CACHE_LIMIT:
        return _open(model, "", {}, plan)
    with written_model() as (path, read):
        ort, level, why = _open(model, "", {}, replace(plan, written=path))
        content = read()
    if content is not None and level == plan.level:
        cache.put(key, content)
    return ort, level, why


def _open(
    model: bytes, folder: str, weights: "Mapping[str, OrtValue]", plan: _Plan
) -> "tuple[InferenceSession, str, str]":
    """The session, its level, and why that is not the level of the plan.

    A model that is refused at a level and accepted at "none" was broken by the optimizer: the highest level that does
    not break it is taken.
    """
    try:
        return _open_at(plan.level, model, folder, weights, plan), plan.level, ""
    except Exception as error:  # onnxruntime raises Exception itself and RuntimeError for all that goes wrong
        if plan.level == "none":
            raise loading_error(error) from error
        refusal = error
    try:
        best = _open_at("none", model, folder, weights, plan)
    except Exception as error:
        raise _final_error(error, plan) from error
    why = f"onnxruntime's optimizer breaks the model at level {plan.level!r}: {loading_error(refusal).why}"
    for level in reversed(LEVELS[1 : LEVELS.index(plan.level)]):
        try:
            return _open_at(level, model, folder, weights, plan), level, why
        except Exception as error:  # the next level is tried: that the model itself is sound is known
            also = loading_error(error).why
            why = why if also in why else f"{why}; at level {level!r}: {also}"
    return best, "none", why


def _open_at(
    level: str, model: bytes, folder: str, weights: "Mapping[str, OrtValue]", plan: _Plan
) -> "InferenceSession":
    from onnxruntime import InferenceSession

    options = _session_options(level, plan)
    if plan.written:
        options.optimized_model_filepath = plan.written
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    if weights:
        # The first makes the optimizer see the values (alone it copies them), the second makes the session share them.
        options.add_external_initializers(list(weights), list(weights.values()))
        for name, value in weights.items():
            options.add_initializer(name, value)
    providers = [(choice.name, dict(choice.options)) for choice in plan.providers]
    left_out = (*wrong_rewrites(model), *(_EQUAL_NODES if plan.tuning.keep_equal_nodes else ()))
    return InferenceSession(model, options, providers=providers, enable_fallback=0, disabled_optimizers=left_out)


def _session_options(level: str, plan: _Plan) -> "onnxruntime.SessionOptions":
    import onnxruntime

    names = onnxruntime.GraphOptimizationLevel
    levels = (names.ORT_DISABLE_ALL, names.ORT_ENABLE_BASIC, names.ORT_ENABLE_EXTENDED, names.ORT_ENABLE_ALL)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = levels[LEVELS.index(level)]
    options.enable_mem_pattern, options.enable_mem_reuse = plan.tuning.memory_pattern, plan.tuning.reuse
    if plan.tuning.parallel:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    if plan.tuning.keep_order:
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    if plan.threads is not None:
        options.intra_op_num_threads = plan.threads
        options.inter_op_num_threads = 1
    if plan.shared_arena:
        use_shared_arena(options)
    if plan.profile:
        options.enable_profiling = True
        options.profile_file_prefix = plan.profile
    if not plan.spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _final_error(error: Exception, plan: _Plan) -> OnnxGradError:
    """A provider that refuses its options is told from a model that is refused."""
    text = str(error)
    for choice in plan.providers:
        if choice.options and "rovider option" in text:
            given = ", ".join(f"{key}={value}" for key, value in choice.options)
            return ProviderError(f"{choice.name} does not take these options: {given}", why=text)
    return loading_error(error)


def _check_providers(ort: "InferenceSession", plan: _Plan) -> None:
    """onnxruntime leaves a provider out without an error when it cannot be loaded."""
    got = ort.get_providers()
    lost = [choice.name for choice in plan.providers if choice.name not in got and choice.name != CPU]
    if lost:
        raise ProviderError(
            f"onnxruntime did not start {lost[0]}",
            why="its libraries are missing or do not fit; onnxruntime's log names them",
            fix='providers=["cpu"]',
        )


def _refer_to(model: bytes, initializers: "Mapping[str, OrtValue]") -> bytes:
    """The model with the data of these initializers taken out: onnxruntime only replaces what refers to a file."""
    import onnx

    proto = onnx.ModelProto.FromString(model)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, value in initializers.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise OptionError(f"the model has no initializer {name!r}", fix=f"one of {', '.join(sorted(tensors))}")
        if (tensor.data_type, list(tensor.dims)) != (value.element_type(), list(value.shape())):
            raise OptionError(
                f"initializer {name!r} is given with type {value.data_type()} and shape {list(value.shape())}",
                why=f"in the model it has element type {tensor.data_type} and shape {list(tensor.dims)}",
            )
        reference = onnx.TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)
        reference.data_location = onnx.TensorProto.EXTERNAL
        reference.external_data.add(key="location", value="weights")
        tensor.CopyFrom(reference)
    return bytes(proto.SerializeToString())
