"""The least box of rank variables that satisfies a set of affine constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from model.formats.accelforge.affine import Affine, Constraint
from model.text.source import Span, SpecError

# Bounds that constraints over several variables hand on to one another; real files need two rounds.
_ROUNDS = 50


@dataclass
class Interval:
    """The values of a variable.

    Parameters
    ----------
    low, high
        Both included; None where there is no bound.
    """

    low: int | None = None
    high: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None


Box = dict[str, Interval]


def tightened(variables: Iterable[str], constraints: Sequence[Constraint]) -> Box:
    """Return the intervals that the constraints leave to each variable.

    Exact for constraints over single variables. A constraint over several is applied to the
    intervals of the others, until nothing changes.

    Parameters
    ----------
    variables
        All that the constraints speak of.
    constraints
        Applied in this order: an error names the one that leaves no value, and the last before it that
        limited the variable.

    Returns
    -------
    Box
        One interval per variable, in this order. At least as wide as the set of points that satisfy
        all constraints.

    Raises
    ------
    SpecError
        Constraints that no value satisfies, naming two of them.
    """
    box: Box = {name: Interval() for name in variables}
    last: dict[str, Span] = {}
    for _ in range(_ROUNDS):
        changed = [_apply(constraint, box, last) for constraint in constraints]
        if not any(changed):
            break
    return box


def _apply(constraint: Constraint, box: Box, last: dict[str, Span]) -> bool:
    """Tighten the interval of each variable of one constraint; say whether that changed any."""
    affine, changed = constraint.affine, False
    if not affine.coefficients and affine.constant < 0:
        raise SpecError("this never holds", constraint.span)
    for name, coefficient in affine.coefficients.items():
        rest = _largest(affine, box, skip=name)
        if rest is None:
            continue
        interval = box[name]
        if coefficient > 0:
            bound = -(rest // coefficient)
            grows = interval.low is None or bound > interval.low
            interval.low = bound if grows else interval.low
        else:
            bound = rest // -coefficient
            grows = interval.high is None or bound < interval.high
            interval.high = bound if grows else interval.high
        if interval.low is not None and interval.high is not None and interval.low > interval.high:
            related = ((last[name], "together with this"),) if name in last else ()
            raise SpecError(f"no value of `{name}` is left", constraint.span, related)
        if grows:
            last[name] = constraint.span
            changed = True
    return changed


def _largest(affine: Affine, box: Mapping[str, Interval], skip: str | None = None) -> int | None:
    """Return the greatest value in a box, with the variable `skip` left out; None if unbounded."""
    total = affine.constant
    for name, coefficient in affine.coefficients.items():
        if name == skip:
            continue
        end = box[name].high if coefficient > 0 else box[name].low
        if end is None:
            return None
        total += coefficient * end
    return total


def may_bound_together(box: Mapping[str, Interval], constraints: Iterable[Constraint]) -> bool:
    """Whether constraints may bound a box that has open ends."""
    sums: dict[str, set[tuple[tuple[str, int], ...]]] = {}
    for terms in (sorted(constraint.affine.coefficients.items()) for constraint in constraints):
        opposite = [(name, -coefficient) for name, coefficient in terms]
        for name, _ in terms:
            sums.setdefault(name, set()).add(tuple(max(terms, opposite)))
    unbounded = [name for name, interval in box.items() if not interval.is_bounded]
    return bool(unbounded) and all(len(sums.get(name, ())) > 1 for name in unbounded)


def is_attained(box: Mapping[str, Interval], constraints: Iterable[Constraint]) -> bool:
    """Whether each end of a bounded box is known to be the value of some point that satisfies constraints.

    Intervals alone tell unless different sums of the same variables are limited. Then each end is
    tried with all other variables at their low ends, and at their high ends.
    """
    strictest: dict[frozenset[tuple[str, int]], Affine] = {}
    for constraint in constraints:
        affine = constraint.affine
        if len(affine.coefficients) < 2 or not cuts(constraint, box):
            continue
        known = strictest.setdefault(frozenset(affine.coefficients.items()), affine)
        if affine.constant < known.constant:
            strictest[frozenset(affine.coefficients.items())] = affine
    cutting = list(strictest.values())
    first: dict[str, Affine] = {}
    sharing = ((first.setdefault(name, affine), affine) for affine in cutting for name in affine.coefficients)
    if not any(_are_coupled(one, other) for one, other in sharing):
        return True
    lows = {name: interval.low for name, interval in box.items() if interval.low is not None}
    highs = {name: interval.high for name, interval in box.items() if interval.high is not None}
    return any(
        all(
            _holds(affine, {**corner, name: end})
            for ends in (lows, highs)
            for name, end in ends.items()
            for affine in cutting
        )
        for corner in (lows, highs)
    )


def _are_coupled(one: Affine, other: Affine) -> bool:
    """Whether two sums that share a variable are not one sum, or their limits leave it no value."""
    total = one.plus(other)
    if not total.coefficients:
        return total.constant < 0
    return one.coefficients != other.coefficients


def _holds(affine: Affine, point: Mapping[str, int]) -> bool:
    terms = (coefficient * point[name] for name, coefficient in affine.coefficients.items())
    return affine.constant + sum(terms) >= 0


def cuts(constraint: Constraint, box: Mapping[str, Interval]) -> bool:
    """Whether some point of a box does not satisfy a constraint; True where the box is open that way."""
    opposite = Affine().plus(constraint.affine, -1)
    largest = _largest(opposite, box)
    return largest is None or largest > 0
