"""Tiles that several costs together leave, by the lattice bounds of weighted sums of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from solver.search.bounds.lattice_bounds import LatticeBounds, Survivors
from solver.search.stopping import Stop
from solver.search.subproblems.mixes import Cost, MixedSubproblem

WEIGHTS = (Fraction(1, 64), Fraction(1, 16), Fraction(1, 4), Fraction(1))
"""Weights of a cost beside another one, which are tried in turn."""


@dataclass(frozen=True)
class Sifted:
    """Tiles that several costs together leave, and the least weighted sums of them that were found.

    Parameters
    ----------
    within
        As of `LatticeBounds`.
    sums
        Lower bounds, in units of each sum.
    """

    within: Survivors
    sums: tuple[tuple[MixedSubproblem, int], ...]


def sift(
    costs: Sequence[Cost],
    leading: int,
    within: Survivors,
    pairwise: bool,
    stop: Stop,
    enough: Callable[[MixedSubproblem, int], bool],
) -> Sifted | None:
    """Tiles out of `within` that several costs together leave; None if they leave no mapping that improves.

    References
    ----------
    docs/search.md, "Bandwidths": joint bounds.
    """
    origin = costs[0].sub
    others = frozenset(range(len(costs))) - {leading}
    singles = [frozenset((number,)) for number in sorted(others)]
    # The energy, which is the first cost where it counts, and all costs together tell the most.
    groups = dict.fromkeys((*singles[:1], others, *singles))
    sums = []
    for beside, weight in product(groups, WEIGHTS):
        weights = tuple(
            Fraction(1) if number == leading else weight if number in beside else Fraction(0)
            for number in range(len(costs))
        )
        mixed = MixedSubproblem(
            origin.space, origin.mask, origin.spatial, mixed=tuple(costs), weights=weights
        )
        bounds = LatticeBounds(mixed, mixed.limit, pairwise=pairwise, stop=stop, within=within)
        if bounds.empty or enough(mixed, bounds.least):
            return None
        within = bounds.survivors
        sums.append((mixed, bounds.least))
    return Sifted(within, tuple(sums))
