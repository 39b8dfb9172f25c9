"""Heuristic mappers on the same cost model, so that a proven optimum says how far from it they stop."""
