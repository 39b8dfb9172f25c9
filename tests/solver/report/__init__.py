"""Tests of solver.report."""
