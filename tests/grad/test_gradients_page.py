"""docs/gradients.md says what the registry says."""

from tests.grad.gradients_page import PAGE, tables, with_tables


def test_the_tables_of_the_page_are_those_of_the_registry():
    text = PAGE.read_text()
    assert text == with_tables(text, tables().items()), "run python -m tests.grad.gradients_page"
