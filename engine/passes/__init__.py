"""Passes: rewrites and cleanings of graphs, one a file; they share pattern, match, rewrite, scope, queries and edit."""
