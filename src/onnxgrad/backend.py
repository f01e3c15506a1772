"""onnxgrad as a backend of the onnx package: what `onnx.backend.test` and `onnx.backend.base` expect.

import onnxgrad.backend
rep = onnxgrad.backend.prepare(model_proto)
rep.run([x, y])
"""

from collections.abc import Sequence

import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from onnxgrad.engine.compile import CompiledFunction, compile
from onnxgrad.engine.runtime.providers import CUDA, why_not_cuda


class OnnxGradRep(BackendRep):
    """A compiled model; `function` is what compile() gives."""

    def __init__(self, function: CompiledFunction, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.function = function
        self._inputs = inputs

    def run(self, inputs: Sequence[object], **kwargs: object) -> tuple[object, ...]:
        """The outputs for inputs in the order of the model; None stands for an optional input left out."""
        del kwargs
        given = zip(self._inputs, inputs, strict=False)
        return tuple(self.function({name: value for name, value in given if value is not None}).values())


class OnnxGradBackend(Backend):
    """The class that onnx.backend.test is given."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: object) -> OnnxGradRep:
        """Compile `model` for a device, "CPU" or "CUDA:0"."""
        del kwargs
        where = Device(device)
        providers = [(CUDA, {"device_id": where.device_id})] if where.type == DeviceType.CUDA else ["cpu"]
        return OnnxGradRep(compile(model, providers=providers), tuple(value.name for value in model.graph.input))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this machine has the device, "CPU" or "CUDA"."""
        kind = Device(device).type
        return kind == DeviceType.CPU or (kind == DeviceType.CUDA and why_not_cuda() == "")


prepare = OnnxGradBackend.prepare
run_model = OnnxGradBackend.run_model
supports_device = OnnxGradBackend.supports_device
is_compatible = OnnxGradBackend.is_compatible
