"""Why nothing fits, and what each constraint costs."""

from solver.explain.costs import CostReport, constraint_costs
from solver.explain.explanation import Diagnosis, diagnose, explain_infeasible, reasons_time_s
from solver.explain.feasibility import Verdict
from solver.explain.sparse import explain_sparse

__all__ = [
    "CostReport",
    "Diagnosis",
    "Verdict",
    "constraint_costs",
    "diagnose",
    "explain_infeasible",
    "explain_sparse",
    "reasons_time_s",
]
