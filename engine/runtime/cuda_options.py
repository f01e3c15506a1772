"""Options of the CUDA provider: names and values that people can remember, checked before onnxruntime sees them."""

import difflib
from collections.abc import Callable, Mapping
from typing import Literal, TypedDict

from onnxgrad.engine.errors import OptionError


class CudaOptions(TypedDict, total=False):
    """What `providers=[("cuda", {...})]` takes. onnxruntime's own names are taken too, with onnxruntime's values."""

    device: int
    """Which GPU, from 0 on."""
    memory_limit: int
    """Bytes that the arena of the session may take."""
    cudnn_search: Literal["exhaustive", "heuristic", "default"]
    """How the convolution algorithm is chosen: "exhaustive" times all of them at the first call of each shape."""
    tf32: bool
    """Whether float32 products may be rounded to 10 bits of mantissa on the way (onnxruntime's default: yes)."""
    nhwc: bool
    """Whether convolutions run with the channels last."""
    cuda_graph: bool
    """Capture `run.bind(...)` as a CUDA graph and replay it: static shapes, every node on CUDA, no If, Loop or Scan."""


def _size(value: object) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _switch(value: object) -> str | None:
    return str(int(value)) if isinstance(value, bool) else None


def _search(value: object) -> str | None:
    return value.upper() if value in ("exhaustive", "heuristic", "default") and isinstance(value, str) else None


_OURS: Mapping[str, tuple[str, Callable[[object], str | None], str]] = {
    "device": ("device_id", _size, "the number of a GPU"),
    "memory_limit": ("gpu_mem_limit", _size, "a number of bytes"),
    "cudnn_search": ("cudnn_conv_algo_search", _search, '"exhaustive", "heuristic" or "default"'),
    "tf32": ("use_tf32", _switch, "True or False"),
    "nhwc": ("prefer_nhwc", _switch, "True or False"),
    "cuda_graph": ("enable_cuda_graph", _switch, "True or False"),
}
_OF_ONNXRUNTIME = frozenset([
    "device_id", "gpu_mem_limit", "arena_extend_strategy", "cudnn_conv_algo_search", "cudnn_conv_use_max_workspace",
    "cudnn_conv1d_pad_to_nc1d", "do_copy_in_default_stream", "user_compute_stream", "has_user_compute_stream",
    "gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache", "enable_cuda_graph", "tunable_op_enable",
    "tunable_op_tuning_enable", "tunable_op_max_tuning_duration_ms", "enable_skip_layer_norm_strict_mode",
    "prefer_nhwc", "use_ep_level_unified_stream", "use_tf32", "fuse_conv_bias", "sdpa_kernel", "enable_cudnn",
])  # fmt: skip


def cuda_options(given: Mapping[str, object]) -> dict[str, str]:
    """`given` as onnxruntime wants it. Raises: OptionError for an unknown name, a wrong value, one setting twice."""
    options: dict[str, str] = {}
    for name, value in given.items():
        if name in _OURS:
            theirs, spell, wanted = _OURS[name]
            text = spell(value)
            if text is None:
                raise OptionError(f"{name}={value!r} is not possible for the CUDA provider", fix=f"{name} is {wanted}")
        elif name in _OF_ONNXRUNTIME:
            theirs, text = name, str(int(value)) if isinstance(value, bool) else str(value)
        else:
            known = (*_OURS, *sorted(_OF_ONNXRUNTIME))
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise OptionError(
                f"the CUDA provider has no option {name!r}",
                fix=f"{hint}known are {', '.join(_OURS)}, and onnxruntime's own",
            )
        if theirs in options:
            raise OptionError(f"the CUDA option {theirs} is given twice: also as {name!r}", fix="give one of them")
        options[theirs] = text
    return options
