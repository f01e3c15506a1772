"""Every rule against central differences; the cases stand in tests/grad/cases/, a file a family."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from onnxgrad.engine.ir.functions import DOMAIN
from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from onnxgrad.grad.registry import RULES
from tests.grad import cases
from tests.grad.checks import Case, check_gradient

CASES: list[Case] = [
    case for module in iter_modules(cases.__path__) for case in import_module(f"tests.grad.cases.{module.name}").CASES
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_matches_finite_differences(case):
    check_gradient(case)


def test_every_rule_has_a_case():
    ruled = {key for key, found in RULES.items() if any(rule.function is not None for rule in found)}
    ruled = {key for key in ruled if key[0] != DOMAIN}  # of computing graphs only: see tests/grad/test_symbolic.py
    assert {(case.op_domain, case.op_type) for case in CASES} >= ruled
