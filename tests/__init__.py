"""The tests mirror the folders of the code. Shared checks are modules here: `from tests.gradient_check import ...`."""
