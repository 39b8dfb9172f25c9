"""Bounds on one subproblem, or on a group, by dynamic programming over the divisor lattice."""
