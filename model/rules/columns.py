"""A rule on many mappings at a time, given as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from model.rules.language import Quantity, Rule, Value

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

LARGEST_CODE = 1 << 62


def holds_in_rows(
    rule: Rule,
    columns: Sequence[Integers],
    meaning: Callable[[Quantity, int], Value],
    pause: Callable[[], None] = lambda: None,
) -> Booleans:
    """Decide a rule exactly for many mappings: once for each combination of the numbers that matter.

    Parameters
    ----------
    rule
        What is to hold.
    columns
        Per quantity of the rule, in the order of `Rule.quantities`, a number for each mapping: of one
        dimension and the same length.
    meaning
        Value of a quantity that such a number stands for.
    pause
        Called before every combination; it may raise an exception to end this.

    Returns
    -------
    Booleans
        For which mappings the rule holds, in their order.
    """
    codes, firsts = _numbered_rows(columns)
    verdicts = np.empty(len(firsts), dtype=np.bool_)
    for number, row in enumerate(firsts.tolist()):
        pause()
        facts = {
            asked: meaning(asked, int(column[row]))
            for asked, column in zip(rule.quantities, columns, strict=True)
        }
        verdicts[number] = rule.holds(facts.__getitem__)
    held: Booleans = verdicts[codes]
    return held


def _numbered_rows(columns: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Number the combinations; return the number of each row, and a row of each combination."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    firsts = np.zeros(min(1, len(codes)), dtype=np.int64)
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        assert len(firsts) * len(values) < LARGEST_CODE  # each is at most the number of rows
        joined = codes * len(values) + places
        _, firsts, codes = np.unique(joined, return_index=True, return_inverse=True)
    return codes, firsts
