"""Bounds on many subproblems at a time."""
