"""compile(): a model becomes a function that can be called with arrays."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from onnxgrad.engine.errors import ModelError
from onnxgrad.engine.partition.report import Explanation
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.batches import run_over
from onnxgrad.engine.runtime.bound import BoundFunction, run_on_device
from onnxgrad.engine.runtime.call_signature import CallSignature
from onnxgrad.engine.runtime.feeds import FeedReader
from onnxgrad.engine.runtime.plan import Plan
from onnxgrad.engine.runtime.profile import Profile, profile_plan
from onnxgrad.engine.runtime.providers import Provider
from onnxgrad.engine.runtime.source import ModelLike, read_source
from onnxgrad.engine.runtime.values import Array, DeviceValue
from onnxgrad.importers.onnx import load


class CompiledFunction:
    """A model that can be called: `run(x)`, `run(x=x)` or `run({"input name": x})`; may be used by several threads.

    The result is a dict from output name to numpy array, in the order of the outputs; a sequence is a list, an absent
    optional is None. Arrays must have the dtype of the input; Python numbers and lists take it where no kind of number
    changes; tensors of other libraries are read through `__array__` or DLPack.

    Raises (when called): InputError for inputs that do not fit; ExecutionError when a node fails.
    """

    def __init__(
        self,
        plan: Plan,
        signature: CallSignature,
        name: str = "",
        *,
        explain: Callable[[], Explanation],
        profiled: Callable[[str], Plan],
    ) -> None:
        self.plan = plan
        self.name = name
        self._explain = explain
        self._profiled = profiled
        self._signature = signature
        self._reader = FeedReader(signature)

    def __call__(self, *args: object, **named: object) -> dict[str, Array]:
        """The outputs for these inputs, given by position, by name, or as one dict."""
        outputs: dict[str, Array] = self.plan.run(self._reader.read(args, named))  # type: ignore[assignment]  # or lists
        return outputs

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs in the order of positional arguments; those with a default value come last."""
        return tuple(port.name for port in self._signature.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The keys of the result, in its order."""
        return tuple(port.name for port in self._signature.outputs)

    @property
    def signature(self) -> str:
        """Inputs and outputs with type and shape: `(x: float32[N, 3]) -> (y: float32[N, 10])`; `?` means optional."""
        return str(self._signature)

    @property
    def providers(self) -> tuple[str, ...]:
        """onnxruntime's names of the providers that run the model, in order of preference."""
        return tuple(dict.fromkeys(name for region in self.plan.regions for name in region.providers))

    def bind(self, *args: object, **named: object) -> BoundFunction:
        """The function with these inputs and its outputs bound in place, for calls that allocate and copy nothing.

        Runs the model once. `bound()` reads the arrays that were given again and writes the same outputs; how arrays
        are shared is told by BoundFunction. Raises: as a call; OptionError for an output that is no tensor.
        """
        return BoundFunction(self.plan, self._signature, self._reader.read(args, named))

    def map(
        self, items: Iterable[object], *, batch_size: int | None = None, workers: int = 1
    ) -> Iterator[dict[str, Array]]:
        """The outputs for each of `items`, lazily and in order. An item is an array, a dict by name, or a tuple.

        batch_size: items come without the batch axis; up to so many neighbours of equal shapes run as one batch, and
        nothing is padded. workers: calls at a time, with `2 * workers` batches read ahead. An error of an item is
        raised in its turn and ends the iteration. Raises: OptionError, at once; what a call raises, while iterating.
        """
        results: Iterator[dict[str, Array]] = run_over(self.plan.run, self._reader, items, batch_size, workers)  # type: ignore[assignment]  # or lists, as in a call
        return results

    def on_device(self, *args: object, **named: object) -> dict[str, DeviceValue]:
        """A call whose outputs stay in the memory of the device: OrtValues, which other libraries read by DLPack.

        `torch.from_dlpack(value)`, `cupy.from_dlpack(value)`; an OrtValue is an input for the next call as it is.
        """
        return run_on_device(self.plan, self._reader.read(args, named))

    def explain(self) -> Explanation:
        """Where each part of the model runs, why there, and what was done so that it runs; has str() and to_dict()."""
        return self._explain()

    def profile(self, *args: object, runs: int = 10, **named: object) -> Profile:
        """Time per node for these inputs, after one run to warm up; has str() and to_dict().

        The model is compiled once more for it: from its file, if it was given as one. Nodes are those that run, after
        onnxruntime's optimizer. Raises: as `compile` and a call; ModelError for a file that has changed.
        """
        return profile_plan(self._profiled, self._reader.read(args, named), runs)

    def __repr__(self) -> str:
        providers = ", ".join(name.removesuffix("ExecutionProvider") for name in self.providers)
        return f"<CompiledFunction {self.name}{self.signature} on {providers}>"


def compile(
    model: ModelLike,
    providers: Provider | Sequence[Provider] | None = None,
    outputs: Sequence[str] | None = None,
    optimize: bool = True,
    threads: int | None = None,
    cache: bool = False,
) -> CompiledFunction:
    """Make `model` (path, bytes, ModelProto or ir.Model) a function; the model itself is not changed.

    providers: "cpu", "cuda" or onnxruntime's names, with options as `("cuda", {"device": 1})`; None takes CUDA where
    it works. outputs: which values to give, outputs or others of the main graph; None gives the model's outputs.
    threads: of one operator; None leaves it to onnxruntime. Equal models and options share one session.
    cache: keep what onnxruntime's optimizer makes of the model in `$ONNXGRAD_CACHE`, for later processes.

    Raises: ModelError, ProviderError, OpsetError, ExecutionError, OptionError.
    """
    state = _file_state(model)
    loaded = load(model)
    source = read_source(loaded, outputs)
    options = SessionOptions(providers, threads, "all" if optimize else "none", cache)
    plan, explain = assemble(source, loaded, outputs, options)

    def plan_again(profile: str) -> Plan:
        if _file_state(model) != state:
            raise ModelError(
                "The model file is not the one that was compiled.", where=str(model), fix="compile it again"
            )
        fresh = load(model)
        return assemble(read_source(fresh, outputs), fresh, outputs, replace(options, profile=profile))[0]

    return CompiledFunction(plan, source.signature, explain=explain, profiled=plan_again)


def _file_state(model: ModelLike) -> tuple[int, int] | None:
    """Size and time of a model that is a file."""
    if not isinstance(model, str | os.PathLike) or not os.path.isfile(model):
        return None
    status = os.stat(model)
    return status.st_size, status.st_mtime_ns
