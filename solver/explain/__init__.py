"""Why nothing fits, and what each constraint costs."""

from solver.explain.explanation import explain_infeasible, explained

__all__ = ["explain_infeasible", "explained"]
