"""Random programs on a computing graph do what numpy does: parameters, aliases, updates in chains, callbacks, parts."""

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import onnxgrad as og

SIZE = 3
BINARY = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum}
UNARY = {"Neg": np.negative, "Tanh": np.tanh, "Abs": np.abs}

pick = st.integers(0, 1000)
coefficient = st.sampled_from([0.0, 1.0, -0.5])
programs = st.fixed_dictionaries(
    {
        "steps": st.lists(st.tuples(st.sampled_from([*BINARY, *UNARY]), pick, pick), min_size=1, max_size=10),
        "updates": st.lists(st.tuples(pick, pick, coefficient, coefficient, coefficient), max_size=4),
        "outputs": st.lists(pick, min_size=1, max_size=4),
        "watched": st.lists(pick, max_size=2),
        "volatile": st.lists(st.booleans(), min_size=3, max_size=3),
        "has_alias": st.booleans(),
        "level": st.sampled_from([0, 2]),
    }
)


class Program:
    """A program as variables, and as what it does to arrays. The last of three tensors may be an alias of the first."""

    def __init__(self, spec):
        self.spec, self.seen = spec, dict[int, np.ndarray]()
        self.tensors = [og.SharedTensor(np.full(SIZE, k + 1, np.float32)) for k in range(3)]
        if spec["has_alias"]:
            self.tensors[2].reset_to(self.tensors[0])
        self.memory = [0, 1, 0 if spec["has_alias"] else 2]
        self.state = [np.full(SIZE, k + 1, np.float32) for k in range(3)]
        self.graph = og.Graph()
        self.graph.set_option("graph_opt_level", spec["level"])
        self.x = self.graph.input("x", "float32", (SIZE,))
        params = [self.graph.param(w, volatile=v) for w, v in zip(self.tensors, spec["volatile"], strict=True)]
        self.vars = self.followed([self.x, *params], {name: getattr(og.op, name) for name in (*BINARY, *UNARY)})
        self.changes = {}
        for dest, delta, *rest in spec["updates"]:
            place, var = dest % 3, self.vars[delta % len(self.vars)]
            update = og.add_update(params[place], var, *rest)
            self.changes[update] = (place, self.vars.index(var), rest)  # of equal ones the last counts

    def followed(self, values, table):
        """All values of the program, from its inputs on."""
        for name, first, second in self.spec["steps"]:
            places = (first, second) if name in BINARY else (first,)
            values.append(table[name](*(values[k % len(values)] for k in places)))
        return values

    def chosen(self, key):
        """The places of the values that a key of the program names."""
        return [k % len(self.vars) for k in self.spec[key]]

    def see(self, number, value):
        """Keep what a callback is given; callbacks come in the order in which their values are computed."""
        self.seen[number] = value.get()

    def outspec(self):
        """All that the program asks for."""
        watched = [(self.vars[k], partial(self.see, number)) for number, k in enumerate(self.chosen("watched"))]
        return [*(og.copy_output(self.vars[k]) for k in self.chosen("outputs")), *watched, *self.changes]

    def expected(self, x):
        """The outputs and what is watched in a run of numpy, which changes the state."""
        values = self.followed([x, *(self.state[k] for k in self.memory)], {**BINARY, **UNARY})
        after = dict(enumerate(self.state))
        for place, delta, (alpha, beta, bias) in self.changes.values():
            at = self.memory[place]
            after[at] = alpha * after[at] + beta * values[delta] + np.float32(bias)
        self.state = list(after.values())
        return [[values[k] for k in self.chosen(key)] for key in ("outputs", "watched")]

    def check_run(self, run):
        """One run of the function does what numpy does."""
        x = np.linspace(-1, 1, SIZE, dtype=np.float32)
        outputs, watched = self.expected(x)
        self.seen.clear()
        found = run(x)
        for got, want in zip([*found, *(self.seen[k] for k in sorted(self.seen))], [*outputs, *watched], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        for tensor, place in zip(self.tensors, self.memory, strict=True):
            np.testing.assert_allclose(np.asarray(tensor), self.state[place], rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(programs, st.sampled_from([False, False, True]))
def test_a_function_does_what_numpy_does(spec, for_inference):
    program = Program(spec)
    run = program.graph.compile(None, program.outspec(), optimize_for_inference=for_inference)
    named = bool(run.inputs)
    for _ in range(2):
        program.check_run((lambda x: run(x=x)) if named else (lambda _: run()))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(programs)
def test_values_first_and_updates_in_a_second_part_do_what_numpy_does(spec):
    program = Program(spec)
    outspec = program.outspec()
    count = len(outspec) - len(program.changes)
    tail = outspec[count:] or [og.copy_output(program.vars[-1])]
    first, second = program.graph.compile_multi_part([(None, outspec[:count]), (None, tail)])

    def run(x):
        found = first(x=x) if first.inputs else first()
        _ = second(x=x) if second.inputs else second()
        return found

    for _ in range(2):
        program.check_run(run)
