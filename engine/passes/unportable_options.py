"""Options of other engines that say how memory is laid out: an ONNX file cannot hold them."""

from onnxgrad.engine.errors import OptionError

_RUNTIME = "onnxruntime lays memory out by itself when it makes a session"
_LAYOUTS = {
    "nchw": "it is the layout of every ONNX operator: there is nothing to change",
    "nchw4": f"it is for int8 kernels of NVIDIA's cuDNN; {_RUNTIME}, and `og.quantize` makes int8 models",
    "nchw32": f"it is for int8 tensor cores; {_RUNTIME}, and `og.quantize` makes int8 models",
    "nchw64": "it is for int4 tensor cores, for which no execution provider has kernels",
    "chwn4": f"it is for int8 kernels of old NVIDIA devices; {_RUNTIME}",
    "nhwcd4": "it is for images of OpenCL, which no execution provider uses",
    "nchw44": f"it is for ARM processors; {_RUNTIME}",
    "nchw44_dot": f"it is for ARM processors with dot products; {_RUNTIME}",
    "nchw88": f"it is for x86 processors with AVX; {_RUNTIME}, in blocks of 8 or 16 channels where that is faster",
    "nhwc": 'no standard operator has it; for CUDA ask for it when you run: the provider option "prefer_nhwc"',
}


def refuse_options(weight_preprocess: bool, layout: str | None) -> None:
    """Raises OptionError with the reason, if one of the options is used."""
    if weight_preprocess:
        raise OptionError(
            "weight_preprocess has no meaning for an ONNX file.",
            why="onnxruntime packs constant weights for its kernels when it makes a session, always",
            fix="leave it out",
        )
    if layout is not None:
        why = _LAYOUTS.get(layout.lower().removeprefix("use_").removeprefix("enable_"), "it is unknown")
        raise OptionError(f"The layout {layout!r} has no meaning for an ONNX file.", why=why, fix="leave it out")
