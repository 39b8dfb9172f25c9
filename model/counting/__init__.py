"""Rules by which moved words and cycles are counted: what depends on one is asked of it."""

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
