"""Table A of docs/semantics.md: the memory of parameters, copied in parts, shared, given out and exchanged."""

import gc
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.storage import Storage, all_locked
from onnxgrad.engine.runtime.memory import parse_device, shape_of
from onnxgrad.engine.runtime.values import allocate, from_dlpack, to_numpy

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def address(tensor):
    """Where the value is now; `data_ptr` would make it stay there."""
    return tensor.ort_value.data_ptr()


REGIONS = [  # axis, begin, end, step
    (0, 1, 3, 1),
    (1, 0, 4, 3),
    (1, 2, 2, 1),
    (2, 1, 2, 1),
    (None, 5, 17, 1),
    (None, 0, 24, 5),
]


def chosen(array, axis, begin, end, step):
    if axis is None:
        return array.reshape(-1)[begin:end:step]
    return array[(slice(None),) * axis + (slice(begin, end, step),)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4"])
@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_A13_a_part_is_copied_in(region, dtype):
    axis, begin, end, step = region
    tensor = og.SharedTensor(np.zeros((3, 4, 2)), dtype=dtype)
    wanted = tensor.get()
    part = og.SharedTensor(np.ones(chosen(wanted, *region).shape), dtype=dtype)
    chosen(wanted, *region)[...] = 1
    tensor.copy_to_sub(axis, begin, end, part, step)
    np.testing.assert_array_equal(tensor.get(), wanted)


def test_A13_shapes_must_match():
    with pytest.raises(InputError, match="does not fit"):
        og.SharedTensor(X).copy_to_sub(0, 0, 1, og.SharedTensor(X))


@pytest.mark.parametrize(("axis", "begin", "end"), [(2, 0, 1), (-1, 0, 1), (0, 0, 3), (0, 2, 1), (None, 0, 7)])
def test_A13_a_range_that_does_not_exist_is_refused(axis, begin, end):
    with pytest.raises(InputError, match=r"no axis|no range"):
        og.SharedTensor(X).copy_from_sub(og.SharedTensor(X), axis, begin, end)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4"])
@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_A14_a_part_is_copied_out(region, dtype):
    axis, begin, end, step = region
    source = og.SharedTensor(np.arange(24).reshape(3, 4, 2) % 8, dtype=dtype)
    tensor = og.SharedTensor(dtype=dtype)
    tensor.copy_from_sub(source, axis, begin, end, step)
    np.testing.assert_array_equal(tensor.get(), chosen(source.get(), *region))


def test_A14_in_place_keeps_the_memory_and_wants_the_same_shape():
    tensor = og.SharedTensor(np.zeros((2, 3)), dtype="float32")
    before = address(tensor)
    tensor.set(og.SharedTensor(X), inplace=True)
    np.testing.assert_array_equal(tensor.get(), X)
    assert address(tensor) == before
    with pytest.raises(InputError, match="in place"):
        tensor.set(og.SharedTensor(X.T), inplace=True)


def test_A14_not_in_place_takes_the_shape():
    tensor = og.SharedTensor([1.0])
    tensor.set(og.SharedTensor(X))
    np.testing.assert_array_equal(tensor.get(), X)


def test_A14_dtypes_must_match():
    with pytest.raises(InputError, match="dtypes differ"):
        og.SharedTensor(X).set(og.SharedTensor([1]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "float64"])
def test_A15_memory_is_shared_at_an_odd_offset(dtype):
    pack = og.SharedTensor(np.arange(9) % 2, dtype=dtype)
    part = og.SharedTensor(shape=(2, 3), dtype=dtype)
    part.share_memory_from(pack, 1)
    assert address(part) == address(pack) + pack.dtype.itemsize
    np.testing.assert_array_equal(part.get(), np.asarray(pack)[1:7].reshape(2, 3))
    part.set(np.zeros((2, 3)))
    assert not np.asarray(pack)[1:7].any()


def test_A15_shared_memory_outlives_its_owner():
    pack, part = og.SharedTensor(np.arange(1e5), dtype="float32"), og.SharedTensor(shape=(5,))
    part.share_memory_from(pack, 3)
    memory = weakref.ref(pack.ort_value)
    del pack
    gc.collect()
    assert memory() is not None
    np.testing.assert_array_equal(part.get(), [3, 4, 5, 6, 7])
    del part
    gc.collect()
    assert memory() is None


def test_A15_an_update_of_shared_memory_is_seen_by_all():
    pack, part = og.SharedTensor(np.zeros(4), dtype="float32"), og.SharedTensor(shape=(2,))
    part.share_memory_from(pack, 1)
    for value in ([1, 2], [3, 4]):
        spare = part.spare()
        to_numpy(spare)[:] = value
        part.commit(spare)
        np.testing.assert_array_equal(pack.get(), [0, *value, 0])


def test_A15_the_same_dtype_a_device_and_another_tensor_are_wanted():
    pack, part = og.SharedTensor(np.zeros(4)), og.SharedTensor(shape=(2,))
    with pytest.raises(InputError, match="dtypes differ"):
        part.share_memory_from(pack)
    with pytest.raises(GraphError, match="of itself"):
        part.share_memory_from(part)
    with pytest.raises(InputError, match="not inside"):
        og.SharedTensor(shape=(2,), dtype="float64").share_memory_from(pack, 3)
    with pytest.raises(GraphError, match="needs a shape"):
        og.SharedTensor(dtype="float64").share_memory_from(pack)


def test_A16_an_alias_is_the_same_tensor():
    p, q = og.SharedTensor(X), og.SharedTensor([1.0])
    q.reset_to(p)
    q.set([7.0, 8.0])
    np.testing.assert_array_equal(p.get(), [7, 8])
    with pytest.raises(InputError, match="dtypes differ"):
        q.reset_to(og.SharedTensor([1]))


def test_A17_the_address_stays_once_it_is_known():
    tensor = og.SharedTensor(X)
    pointer = tensor.data_ptr()
    spare = tensor.spare()
    to_numpy(spare)[:] = 3
    tensor.commit(spare)
    assert tensor.data_ptr() == pointer and np.asarray(tensor).min() == 3


def test_A17_a_commit_lets_two_buffers_take_turns():
    tensor = og.SharedTensor(X)
    first, second = tensor.ort_value, tensor.spare()
    tensor.commit(second)
    assert tensor.ort_value is second and tensor.spare() is first


def test_A17_a_commit_of_another_shape_is_refused():
    tensor = og.SharedTensor(X)
    with pytest.raises(GraphError, match="keep the shape"):
        tensor.commit(allocate((3,), tensor.element_type))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_A17_other_libraries_share_the_memory(dtype):
    import torch.utils.dlpack

    tensor = og.SharedTensor(np.ones((2, 3)), dtype=dtype)
    shared = torch.utils.dlpack.from_dlpack(tensor)
    assert str(shared.dtype) == f"torch.{dtype}" and shared.data_ptr() == tensor.data_ptr()
    shared[0] = 0
    np.testing.assert_array_equal(np.asarray(tensor).astype(int), [[0, 0, 0], [1, 1, 1]])


def test_A17_memory_given_to_another_library_outlives_the_tensor():
    part, pack = og.SharedTensor(shape=(3,)), og.SharedTensor(np.arange(1e5), dtype="float32")
    part.share_memory_from(pack, 1)
    shared = from_dlpack(part)
    del part, pack
    gc.collect()
    np.testing.assert_array_equal(to_numpy(shared), [1, 2, 3])


def test_A17_a_numpy_view_is_the_memory():
    tensor = og.SharedTensor(X, dtype="bfloat16")
    tensor.numpy()[0] = 5
    assert (np.asarray(tensor)[0] == 5).all()
    with pytest.raises(GraphError, match="cannot share"):
        og.SharedTensor([1], dtype="int4").numpy()


def test_locks_of_several_tensors_are_taken_in_one_order():
    taken: list[Storage] = []

    class Recorder:
        def __init__(self, storage):
            self.storage = storage

        def __enter__(self):
            taken.append(self.storage)

        def __exit__(self, *_):
            pass

    storages = [og.SharedTensor().storage for _ in range(3)]
    for storage in storages:
        storage.lock = Recorder(storage)  # type: ignore[assignment]
    for order in itertools.permutations(storages):
        with all_locked(*order, order[0]):
            pass
    assert taken == taken[:3] * 6


@pytest.fixture
def eager_switches():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_no_thread_sees_half_a_value():
    """Readers, writers, commits and copies both ways between two tensors, which wait for each other in no order."""
    a, b = (og.SharedTensor(np.zeros(4096), dtype="float32") for _ in range(2))
    torn: list[object] = []

    def write(tensor, number):
        for i in range(60):
            tensor.set(np.full(4096, number + i, np.float32))
            spare = allocate((4096,), tensor.element_type)
            to_numpy(spare)[:] = number - i
            tensor.commit(spare)

    def move(source, target):
        for _ in range(60):
            target.copy_from(source)
            value = target.get()
            torn.extend(() if value.min() == value.max() else (value,))

    jobs = [(write, a, 1), (write, b, 2), (move, a, b), (move, b, a)]
    threads = [threading.Thread(target=job, args=args, daemon=True) for job, *args in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads) and not torn


WRITES = {
    "set": lambda t: t.set([5.0, 6.0]),
    "zero": lambda t: t.zero(),
    "copy_to_sub": lambda t: t.copy_to_sub(0, 0, 1, og.SharedTensor([5.0])),
    "add_update": lambda t: og.add_update(t, [5.0, 6.0]),
    "commit": lambda t: t.commit(t.spare()) or t.spare().update_inplace(np.zeros(2, np.float32)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_a_run_reads_is_not_written_while_it_does(write):
    tensor = og.SharedTensor([1.0, 2.0])
    tensor.spare()
    read = tensor.storage.pin()
    write(tensor)
    np.testing.assert_array_equal(read.numpy(), [1, 2])
    tensor.storage.unpin(read)


def test_memory_is_freed_with_the_last_tensor():
    tensor = og.SharedTensor(X)
    storage = weakref.ref(tensor.storage)
    del tensor
    gc.collect()
    assert storage() is None


def test_a_storage_without_a_value_says_so():
    storage = Storage(og.SharedTensor().element_type, parse_device("cpu"))
    with pytest.raises(GraphError, match="has no value"):
        shape_of(storage.present())
