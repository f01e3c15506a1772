"""The tables of docs/gradients.md, from the registry and from what the cases of the rules give gradients to.

`python -m tests.grad.gradients_page` writes them into the page; a test compares.
"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import onnx.defs

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.functions import DOMAIN
from onnxgrad.exporters import to_proto
from onnxgrad.grad import rules  # noqa: F401  (fills the table)
from onnxgrad.grad.gradient_model import gradient_model
from onnxgrad.grad.registry import RULES
from tests.grad.checks import Case, build
from tests.grad.test_decisions import BY_FUNCTION_BODY, NOT_DONE
from tests.grad.test_rules import CASES
from tests.sources import ROOT

PAGE = ROOT / "docs" / "gradients.md"
OLDEST = 7  # opset that is raised

Key = tuple[str, str]

SCHEMAS: dict[Key, list[onnx.defs.OpSchema]] = defaultdict(list)
for _schema in onnx.defs.get_all_schemas_with_history():
    SCHEMAS[_schema.domain, _schema.name].append(_schema)


def tables() -> dict[str, str]:
    """The name of each table and its rows, in Markdown."""
    of_files = {
        key: found for key, found in RULES.items() if key[0] != DOMAIN
    }  # not what computing graphs are made with
    ruled = sorted(key for key, found in of_files.items() if any(rule.function for rule in found))
    lines = ["| operator | opsets | differentiable inputs | conventions |", "| --- | --- | --- | --- |"]
    lines += [_row(key, "; ".join(dict.fromkeys(r.note for r in RULES[key] if r.note))) for key in ruled]
    lines += [_row(key, "by the function body of the standard") for key in sorted(BY_FUNCTION_BODY)]
    reasons: dict[str, list[Key]] = defaultdict(list)
    for key, found in of_files.items():
        if key not in ruled:
            reasons[found[0].reason].append(key)
    without = ["| operators | why |", "| --- | --- |"]
    without += sorted(f"| {', '.join(sorted(map(_spelled, keys)))} | {reason} |" for reason, keys in reasons.items())
    refused = ["| operator | why |", "| --- | --- |"]
    refused += [f"| {_spelled(key)} | {reason} |" for key, reason in sorted(NOT_DONE.items())]
    refused = refused if NOT_DONE else ["None at present."]
    return {"rules": "\n".join(lines), "without": "\n".join(without), "refused": "\n".join(refused)}


def _row(key: Key, note: str) -> str:
    escaped = note.replace("|", r"\|")
    return f"| {_spelled(key)} | {_opsets(key)} | {', '.join(_differentiable(key))} | {escaped} |"


def _spelled(key: Key) -> str:
    domain, op_type = key
    return f"{domain}::{op_type}" if domain else op_type


def _opsets(key: Key) -> str:
    versions = [schema.since_version for schema in SCHEMAS.get(key, ())]
    first = min(versions, default=1)
    return f"{first if key[0] else max(first, OLDEST)}+"


def _differentiable(key: Key) -> list[str]:
    """The inputs that get a gradient in some case of the operator."""
    cases = [case for case in CASES if (case.op_domain, case.op_type) == key]
    found: set[int] = set()
    for case in cases:
        if not case.nodes and not _floats(case) <= found:
            found |= _given(case)
    if not found:
        return ["floating-point operands"]
    schemas = SCHEMAS.get(key)
    if schemas is None:
        return [f"inputs {', '.join(map(str, sorted(found)))}"]
    formals = list(max(schemas, key=lambda schema: schema.since_version).inputs)
    if len(formals) == 1 and formals[0].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        return ["all"]
    return [formals[min(i, len(formals) - 1)].name for i in sorted(found)]


def _floats(case: Case) -> set[int]:
    """The positions of inputs that a case differentiates by."""
    given = [(i, spec) for i, spec in enumerate(case.inputs) if spec is not None and i not in case.fixed]
    return {i for i, spec in given if not isinstance(spec, np.ndarray) or spec.dtype.kind == "f"}


def _given(case: Case) -> set[int]:
    model, _ = build(case, np.float64, symbolic=False)
    try:
        outputs = to_proto(gradient_model(model)).graph.output
    except GradientError:
        return set()
    return {int(value.name[1 : -len(".grad")]) for value in outputs if value.name.endswith(".grad")}


def with_tables(text: str, found: Iterable[tuple[str, str]]) -> str:
    """The page with these tables between their marks `<!-- NAME -->` and `<!-- end -->`."""
    for name, table in found:
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        assert mark, f"the page has no place for the table {name}"
        text = f"{before}{mark}{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(), tables().items()))
