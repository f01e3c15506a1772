"""Every operator of the installed onnx is decided: differentiated by a rule or by its function body, or declared."""

import onnx.defs
import pytest

from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from onnxgrad.grad.registry import RULES
from tests.grad.test_rules import CASES

SCHEMAS = {(schema.domain, schema.name): schema for schema in onnx.defs.get_all_schemas()}

# Differentiated by the function body that the standard gives them: another one brings nothing.
BY_FUNCTION_BODY = {
    ("", "CausalConvWithState"),
    ("", "LinearAttention"),
    ("", "SequenceMap"),
    ("ai.onnx.preview", "FlexAttention"),
}

# Gone from the opsets that are differentiated: raising the opset of a model replaces them.
REPLACED = {("", "Scatter"), ("", "Upsample")}

# Smooth, and refused with an error.
NOT_DONE: dict[tuple[str, str], str] = {}


def test_every_operator_is_decided():
    decided = {*RULES, *BY_FUNCTION_BODY, *REPLACED, *NOT_DONE}
    undecided = sorted(set(SCHEMAS) - decided)
    assert not undecided, "write a rule in grad/rules, declare them with no_gradient, or list them here"


@pytest.mark.parametrize("key", sorted(BY_FUNCTION_BODY), ids="::".join)
def test_an_operator_left_to_its_function_body_is_checked(key):
    assert key not in RULES
    assert key in {(case.op_domain, case.op_type) for case in CASES}


def test_lists_name_no_operator_twice():
    assert not {*BY_FUNCTION_BODY, *REPLACED, *NOT_DONE} & set(RULES)
    assert not BY_FUNCTION_BODY & set(NOT_DONE)


def test_replaced_operators_are_deprecated():
    assert all(SCHEMAS[key].deprecated for key in REPLACED)


@pytest.mark.parametrize("key", sorted(k for k, found in RULES.items() if found[0].function is None), ids="::".join)
def test_an_operator_without_a_gradient_says_why(key):
    assert all(rule.reason for rule in RULES[key] if rule.function is None)
    assert len(RULES[key]) == 1, "declared and ruled"
