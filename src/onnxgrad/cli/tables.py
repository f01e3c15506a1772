"""Tables on standard output."""

from collections.abc import Sequence


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header; the first column to the left, the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for index, title in enumerate(header):
        table.add_column(title, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
