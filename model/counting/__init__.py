"""Counting rules for moved words and cycles; all that depends on a rule is a method of it."""

from model.counting.rules import (
    ACCELFORGE,
    COUNTINGS,
    EXACT,
    PRICED_COUNTINGS,
    TIMELOOP,
    Counting,
    CountingRule,
    Loops,
    Touched,
    rule_of,
)

__all__ = [
    "ACCELFORGE",
    "COUNTINGS",
    "EXACT",
    "PRICED_COUNTINGS",
    "TIMELOOP",
    "Counting",
    "CountingRule",
    "Loops",
    "Touched",
    "rule_of",
]
