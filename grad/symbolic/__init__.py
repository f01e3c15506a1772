"""Gradients of variables of computing graphs: at once, or when the graph is compiled; custom ones; checks."""
