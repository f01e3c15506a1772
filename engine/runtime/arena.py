"""One arena for the CPU memory of many sessions: each with its own would keep the most that it ever used."""

import functools
from typing import TYPE_CHECKING

from onnxgrad.engine.ir.once import once

if TYPE_CHECKING:
    from onnxruntime import SessionOptions


def use_shared_arena(options: "SessionOptions") -> None:
    """Let a session take the memory of its runs on the CPU from the arena that all such sessions share."""
    _register()
    options.add_session_config_entry("session.use_env_allocators", "1")


def shrink_shared_arena() -> None:
    """Give back to the system what no session uses at the moment."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    _smallest_session().run(None, {"x": np.zeros(1, np.float32)}, options)


@once
def _register() -> None:
    from onnxruntime.capi import _pybind_state as native

    place = native.OrtMemoryInfo("Cpu", native.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, native.OrtMemType.DEFAULT)
    growth = {"arena_extend_strategy": 1, "max_mem": 0, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
    native.create_and_register_allocator(place, native.OrtArenaCfg(growth))


@functools.cache
def _smallest_session() -> "onnxruntime.InferenceSession":  # type: ignore[name-defined]  # noqa: F821
    import onnx
    import onnxruntime

    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [1])
    ports = [onnx.helper.make_value_info(name, kind) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "shrink", ports[:1], ports[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    use_shared_arena(options)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
