"""Execution providers: which ones were asked for, which ones work here, and why one does not."""

import contextlib
import ctypes
import difflib
import functools
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxgrad.engine.errors import OptionError, ProviderError
from onnxgrad.engine.runtime.cuda_options import CudaOptions, cuda_options

Provider = str | tuple[str, Mapping[str, object] | CudaOptions]

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
_ON_CUDA_MEMORY = (CUDA, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")
_SUFFIX = "ExecutionProvider"


@dataclass(frozen=True)
class ProviderChoice:
    """A provider by onnxruntime's name, with its options as strings in the order of their names."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Device:
    """Where a tensor's memory is: "cpu", or "cuda" with a number."""

    kind: str = "cpu"
    index: int = 0


def choose_providers(wanted: Provider | Sequence[Provider] | None = None) -> tuple[ProviderChoice, ...]:
    """The providers to use in order of preference; the CPU is always the last.

    `wanted` holds "cpu", "cuda" or onnxruntime's own names, each alone or with its options:
    `["cuda"]`, `[("cuda", {"device": 1, "tf32": False})]` (see CudaOptions). None means CUDA where it
    works, and the CPU elsewhere.

    Raises: OptionError for a name that does not exist; ProviderError for a provider that cannot be used here.
    """
    if wanted is None:
        cuda = (ProviderChoice(CUDA),) if why_not_cuda() == "" else ()
        return (*cuda, ProviderChoice(CPU))
    if isinstance(wanted, str) or (isinstance(wanted, tuple) and len(wanted) == 2 and isinstance(wanted[1], Mapping)):
        wanted = [wanted]
    chosen = [_choose(provider) for provider in wanted]
    if not chosen:
        raise OptionError("the list of providers is empty", fix='providers=None, ["cpu"] or ["cuda"]')
    names = [choice.name for choice in chosen]
    if len(set(names)) != len(names):
        raise OptionError(f"a provider is given twice: {', '.join(names)}")
    return tuple(chosen) if CPU in names else (*chosen, ProviderChoice(CPU))


def device_of(providers: Sequence[ProviderChoice]) -> Device:
    """The device whose memory the first of `providers` works on."""
    first = providers[0]
    if first.name in _ON_CUDA_MEMORY:
        return Device("cuda", int(dict(first.options).get("device_id", "0")))
    return Device()


def captures_graphs(providers: Sequence[ProviderChoice]) -> bool:
    """Whether sessions of these providers capture CUDA graphs."""
    return any(dict(choice.options).get("enable_cuda_graph") == "1" for choice in providers if choice.name == CUDA)


@functools.cache
def why_not_cuda() -> str:
    """Why CUDA cannot be used here, or "" if it can. Found out once: driver, device, libraries, a session that runs."""
    import onnxruntime

    if CUDA not in onnxruntime.get_available_providers():
        return "the installed onnxruntime was built without CUDA (the package onnxruntime-gpu has it)"
    problem = _driver_problem()
    if problem:
        return problem
    said = io.StringIO()
    with contextlib.redirect_stdout(said):  # it prints what it cannot find; that belongs into our error
        onnxruntime.preload_dlls()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(_tiny_model(), options, providers=[CUDA, CPU], enable_fallback=0)
        if CUDA in session.get_providers():
            session.run(None, {})
            return ""
    except Exception as error:  # whatever it is, it is the reason why CUDA cannot be used
        return str(error).strip() or type(error).__name__
    return "; ".join(filter(None, (_library_problem(), *said.getvalue().splitlines())))


def _choose(provider: Provider) -> ProviderChoice:
    name, options = (provider, {}) if isinstance(provider, str) else provider
    full = _full_name(name)
    if full == CUDA:
        options = cuda_options(options)
        problem = why_not_cuda()
    else:
        problem = _absent(full)
    if problem:
        install = 'pip install "onnxgrad[cuda]" and a CUDA driver, or ' if full == CUDA else ""
        what = f"the provider {name!r} cannot be used on this machine"
        raise ProviderError(what, why=problem, fix=f'{install}providers=["cpu"]')
    return ProviderChoice(full, tuple(sorted((str(key), str(value)) for key, value in options.items())))


def _full_name(name: str) -> str:
    import onnxruntime

    short: dict[str, str] = {full.removesuffix(_SUFFIX).lower(): full for full in onnxruntime.get_all_providers()}
    full = short.get(name.removesuffix(_SUFFIX).lower())
    if full is None:
        near = ["cuda"] if name.lower() == "gpu" else difflib.get_close_matches(name.lower(), short, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"there is no provider {name!r}", fix=f"{hint}known are {', '.join(sorted(short))}")
    return full


def _absent(full: str) -> str:
    import onnxruntime

    available = onnxruntime.get_available_providers()
    return "" if full in available else f"the installed onnxruntime has only {', '.join(available)}"


def _driver_problem() -> str:
    """Ask the driver itself: a wheel with CUDA loads without one, and says so only in its log."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return f"there is no NVIDIA driver ({library} cannot be loaded)"
    status = driver.cuInit(0)
    if status != 0:
        return f"the NVIDIA driver cannot start (cuInit gave {status})"
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver shows no device"
    return ""


def _library_problem() -> str:
    """Load the provider's library by hand: the error names the library that is missing."""
    import onnxruntime

    if sys.platform == "win32":
        return "the CUDA or cuDNN libraries are missing, or have another version than onnxruntime wants"
    folder = Path(os.fspath(onnxruntime.__file__)).parent / "capi"
    try:
        ctypes.CDLL(str(folder / "libonnxruntime_providers_shared.so"), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / "libonnxruntime_providers_cuda.so"))
    except OSError as error:
        return str(error)
    return "onnxruntime did not register the CUDA provider, without saying why"


def _tiny_model() -> bytes:
    from onnx import helper

    one = helper.make_tensor("one", 1, [1], [1.0])
    graph = helper.make_graph(
        [helper.make_node("RandomUniformLike", ["one"], ["x"]), helper.make_node("Add", ["x", "x"], ["y"])],
        "probe",
        [],
        [helper.make_tensor_value_info("y", 1, [1])],
        [one],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
