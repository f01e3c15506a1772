"""Rewrites of several nodes into fewer, one file a family; `engine/optimize.py` lists them."""
