"""Table C of docs/semantics.md: callbacks."""

import logging
import threading

import numpy as np
import onnx_ir as ir
import pytest

import onnxgrad as og
from onnxgrad.engine.errors import GraphError, OptionError
from onnxgrad.engine.graph.callback import CallbackFunction, CallbackSlot, SlowCopyWatch, ValueProxy
from onnxgrad.engine.graph.worker import Worker
from onnxgrad.engine.ir.builder import Builder
from onnxgrad.engine.runtime.host_buffer import HostBuffer
from onnxgrad.engine.runtime.values import to_numpy, to_ort

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def double():
    """A graph with y = 2 x."""
    graph = og.Graph()
    x = graph.input("x", "float32", ("N", 3))
    return graph, x, x * 2.0


def run(callback, x=X):
    """Call a function once whose only output goes to `callback`."""
    graph, given, y = double()
    return graph.compile([given], (y, callback))(x)


READS = {
    "get": lambda value: value.get(),
    "shape": lambda value: value.shape,
    "dtype": lambda value: value.dtype,
    "device": lambda value: value.device,
    "ort_value": lambda value: value.ort_value(),
}


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("name", READS)
def test_C1_a_value_can_be_read_only_while_its_callback_runs(name, lazy):
    kept: list[og.ValueProxy] = []

    def callback(value):
        kept.append(value)
        value.get()

    run(og.lazy_callback(callback) if lazy else callback)
    with pytest.raises(GraphError, match="after the callback had returned"):
        READS[name](kept[0])


def test_C1_a_run_waits_until_the_callback_has_done_with_the_value_before():
    graph, x, y = double()
    opened, running = threading.Event(), []

    def callback(value):
        running.append(value.get()[0, 0])
        assert opened.wait(10)

    function = graph.compile([x], [(y, callback), og.copy_output(y)])
    pending = [function.start(np.full((1, 3), k, np.float32)) for k in range(5)]
    assert not pending[3].is_ready
    opened.set()
    function.wait()
    assert running == [0, 2, 4, 6, 8]


def test_C2_an_eager_callback_runs_on_a_worker_and_a_lazy_one_where_the_run_is():
    threads: list[int] = []

    def callback(value):
        threads.append(threading.get_ident())
        value.get()

    run(callback)
    run(og.lazy_callback(callback))
    assert threads[1] == threading.get_ident() != threads[0]


def test_Q5_lazy_callbacks_are_over_when_the_run_is_and_eager_ones_come_after():
    graph, x, y = double()
    order = []
    opened = threading.Event()

    def eager(value):
        assert opened.wait(10)
        order.append("eager")
        value.get()

    function = graph.compile([x], [(y, eager), (y + 1.0, og.lazy_callback(lambda value: order.append("lazy")))])
    function.start(X)
    function._execution.worker.drain()
    assert order == ["lazy"]
    opened.set()
    function.wait()
    assert order == ["lazy", "eager"]


def test_C3_an_eager_callback_that_does_not_read_its_value_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING, "onnxgrad.graph"):
        run(lambda value: value.shape)
    assert "did not read the value" in caplog.text


@pytest.mark.parametrize(
    "callback", [og.lazy_callback(lambda value: None), lambda value: value.get()], ids=["lazy", "read"]
)
def test_C3_nobody_is_warned_of_lazy_values_or_of_values_that_are_read(callback, caplog):
    with caplog.at_level(logging.WARNING, "onnxgrad.graph"):
        run(callback)
    assert caplog.text == ""


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self, until):
        self.now, self.until = 100.0, until

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now = min(self.now + seconds, self.until)
        return self.now >= self.until


def test_C4_a_slow_copy_is_warned_of_after_2_3_5_8_and_12_seconds(caplog):
    clock = Clock(until=113.0)
    with caplog.at_level(logging.WARNING, "onnxgrad.graph"):
        SlowCopyWatch("f", clock).wait(clock.wait)
    assert [record.args[1] for record in caplog.records] == [2, 3, 5, 8, 12]


def test_C4_a_quick_copy_is_not_warned_of(caplog):
    clock = Clock(until=101.5)
    with caplog.at_level(logging.WARNING, "onnxgrad.graph"):
        SlowCopyWatch("f", clock).wait(clock.wait)
    assert caplog.text == ""


def test_C5_get_copies_unless_memory_is_borrowed():
    kept = {}

    def callback(value):
        kept["copies"] = value.get() is not value.get()
        kept["borrows"] = value.get(borrow_mem=True) is value.get(borrow_mem=True)
        kept["value"] = value.get()

    run(callback)
    assert kept.pop("copies")
    assert kept.pop("borrows")
    np.testing.assert_array_equal(kept["value"], X * 2)


def test_C5_a_lazy_value_is_fetched_once():
    fetched = []

    def callback(value):
        fetched.extend([value.get(borrow_mem=True), value.get(borrow_mem=True)])

    run(og.lazy_callback(callback))
    assert fetched[0] is fetched[1]


def test_C6_a_value_has_shape_dtype_and_device():
    seen = []
    run(og.lazy_callback(lambda value: seen.append((value.shape, value.dtype, value.device))))
    assert seen == [((2, 3), np.dtype(np.float32), "cpu")]


def test_C6_the_tensor_of_a_value_may_outlive_the_callback():
    kept = []
    run(og.lazy_callback(lambda value: kept.append(value.ort_value())))
    np.testing.assert_array_equal(to_numpy(kept[0]), X * 2)


def test_C7_a_proxy_of_an_array_can_be_read_at_any_time_and_is_on_no_device():
    proxy = ValueProxy.of_array(X)
    np.testing.assert_array_equal(proxy.get(), X)
    assert (proxy.shape, proxy.dtype) == ((2, 3), np.dtype(np.float32))
    with pytest.raises(GraphError, match="on no device"):
        proxy.ort_value()
    with pytest.raises(GraphError, match="cannot be given another value"):
        proxy.begin(to_ort(X))


def test_C8_memory_on_the_host_is_used_again_and_grows_when_it_must():
    buffer = HostBuffer()
    first = buffer.take((2, 3), np.dtype(np.float32))
    assert buffer.take((6,), np.dtype(np.int32)).ctypes.data == first.ctypes.data
    assert buffer.take((1,), np.dtype(np.int8)).ctypes.data == first.ctypes.data
    assert buffer.take((100,), np.dtype(np.float64)).nbytes == 800


def test_C8_a_value_that_is_on_the_host_is_not_copied():
    value = to_ort(X)
    assert HostBuffer().read(value).ctypes.data == value.data_ptr()


def test_C9_a_callback_belongs_to_one_function():
    slot = CallbackSlot(CallbackFunction(print), ["y"])
    slot.attach(Worker("w"))
    with pytest.raises(GraphError, match="belongs to a function already"):
        slot.attach(Worker("w"))


def test_C9_a_callback_without_a_function_cannot_be_called():
    with pytest.raises(GraphError, match="belongs to no function"):
        CallbackSlot(CallbackFunction(print), ["y"]).fire([X])


def test_C9_what_cannot_be_called_is_no_callback():
    graph, x, y = double()
    with pytest.raises(OptionError, match="cannot be called"):
        graph.compile([x], (y, 3))


def test_C10_a_callback_of_one_value_gets_it_and_of_several_the_list():
    graph, x, y = double()
    seen = []
    one = graph.callback(y, lambda value: seen.append(value.get().sum()))
    both = graph.callback([x, one], lambda values: seen.append([value.get().sum() for value in values]))
    assert graph.compile([x], og.copy_output(both[1]))(X).sum() == 2 * X.sum()
    assert seen == [2 * X.sum(), [X.sum(), 2 * X.sum()]]


def test_C10_a_callback_is_called_in_every_function_that_needs_it():
    graph, x, y = double()
    seen = []
    watched = graph.callback(y, lambda value: seen.append(value.get()))
    first, second = (graph.compile([x], og.copy_output(watched + k)) for k in (1.0, 2.0))
    graph.compile([x], og.copy_output(y))(X)
    assert seen == []
    first(X)
    second(X)
    assert len(seen) == 2


def test_C10_gradients_flow_through_a_callback():
    graph, x, y = double()
    watched = graph.callback(y, lambda value: value.get())
    (grad,) = og.gradients((watched * watched).sum(), [x])
    np.testing.assert_array_equal(graph.compile([x], og.copy_output(grad))(X), 8 * X)


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_C11_values_are_over_when_a_callback_raises_and_the_call_raises_that(lazy):
    kept = []

    def callback(value):
        kept.append(value)
        raise ZeroDivisionError("in the callback")

    graph, x, y = double()
    function = graph.compile([x], (y, og.lazy_callback(callback) if lazy else callback))
    with pytest.raises(ZeroDivisionError, match="in the callback"):
        function(X)
    with pytest.raises(GraphError, match="had returned"):
        kept[0].get()
    with pytest.raises(ZeroDivisionError):
        function(X)  # and the function goes on
    assert len(kept) == 2


def test_C11_an_update_is_stored_although_a_callback_raises():
    graph = og.Graph()
    w = og.SharedTensor(np.zeros(1, np.float32))
    updated = og.add_update(graph.param(w), np.ones(1, np.float32))

    def callback(value):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        graph.compile([], (updated, callback))()
    assert w.get() == 1


def test_C12_callbacks_are_called_in_the_order_in_which_values_are_computed():
    graph, x, y = double()
    values, seen = [y], []
    for _ in range(5):
        values.append(values[-1] + 1.0)

    def callback(number):
        return lambda value: seen.append(int(value.get().size and number))

    function = graph.compile([x], [(value, callback(k)) for k, value in enumerate(values)][::-1])
    for _ in range(10):
        function.start(X)
    function.wait()
    assert seen == list(range(6)) * 10


def test_A9_a_parameter_can_be_set_from_the_value_of_a_lazy_callback():
    w = og.SharedTensor(np.zeros((2, 3), np.float32))
    run(og.lazy_callback(w.set))
    np.testing.assert_array_equal(w.get(), X * 2)


def test_A10_a_parameter_can_take_the_memory_of_the_value_of_a_callback():
    w = og.SharedTensor(np.zeros((2, 3), np.float32))
    pointers = []

    def callback(value):
        pointers.append(value.ort_value().data_ptr())
        w.set(value, share=True)

    run(og.lazy_callback(callback))
    assert w.ort_value.data_ptr() == pointers[0]
    np.testing.assert_array_equal(w.get(), X * 2)


def test_a_callback_in_a_body_is_refused():
    graph, x, _ = double()
    body = ir.Graph([], [], nodes=[], opset_imports={"": graph.opset})
    with graph.writing(Builder(body, parent=graph.builder)), pytest.raises(GraphError, match="cannot be in a body"):
        graph.callback(x, print)
