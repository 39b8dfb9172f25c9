"""Asks enumeration, bounds and CP-SAT for optima of random mapspaces, and counts those on which all agree.

Each is asked for the least energy, the least cycles and the least product of both; to find that nothing
fits is an answer as well. A third of the mapspaces have user-defined constraints, which their optima break if
such rules are soon drawn. Half of them may have remainders, a sixth has memories with several places, a sixth
sparse data, a sixth is counted by AccelForge's rule, and a sixth adds to given values of outputs. CP-SAT is
not asked about the first three sixths, which the formulation does not state (docs/formulation.md).

The search by bounds is also interrupted at once and after a while, and has rising time limits up to the
proof: no bound may be above the optimum, and no value below. The exit code is 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, repeat
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from solver.formulation import map_by_formulation
from solver.formulation.model import check_formulated
from solver.result import Options, Result, Status
from solver.search import map_by_bounds
from solver.sparse_search import lack_of_remainders
from solver.stages import map_einsum
from tests.bruteforce import Optimum, optima, sparse_optima
from tests.random_rules import with_binding_rules
from tests.random_sparsity import random_sparse_mapspace, random_sparse_mapspace_with_remainders
from tests.reference import OBJECTIVES
from tests.strategies import (
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
    with_first_values,
    with_tolls,
)

Draw = Callable[[int, int], Mapspace]
"""A mapspace of at most so many mappings, from a seed."""

NOTHING, UNPROVEN, ALL = "nothing fits", "unproven", "all"

LIMITS_S = (0.05, 0.2, 1.0)
"""Time limits of searches whose bounds are held against the optimum."""

QUESTIONS = (0, 10, 100)
"""Questions whether to stop after which a search is interrupted; most ask from 20 to 1,000."""

WITH_TOLLS, WITH_PLACES = 1 / 3, 1 / 2
"""Shares of mapspaces with tolls, and of those by AccelForge's rule with several places."""


def one_place(seed: int, most: int) -> Mapspace:
    return _tolled(seed, random_mapspaces(seed, 1, most)[0])


def one_place_remainders(seed: int, most: int) -> Mapspace:
    return _tolled(seed, random_mapspaces_with_remainders(seed, 1, most)[0])


def _tolled(seed: int, mapspace: Mapspace) -> Mapspace:
    random = Random(seed)
    return with_tolls(random, mapspace) if random.random() < WITH_TOLLS else mapspace


def places(seed: int, most: int) -> Mapspace:
    return random_mapspaces_with_places(seed, 1, 4 * most)[0]


def places_remainders(seed: int, most: int) -> Mapspace:
    return random_mapspaces_with_places(seed, 1, 4 * most, ANY)[0]


def sparse(seed: int, most: int) -> Mapspace:
    return random_sparse_mapspace(seed, most // 2, in_space=Random(seed).random() < 1 / 2)


def sparse_remainders(seed: int, most: int) -> Mapspace:
    """Sparse data whose loops are searched with remainders."""
    drawn = (random_sparse_mapspace_with_remainders(seed + 10**6 * more, most // 2) for more in count())
    return next(mapspace for mapspace in drawn if lack_of_remainders(mapspace) is None)


def accelforge(seed: int, most: int) -> Mapspace:
    random = Random(seed)
    if random.random() < WITH_PLACES:
        return counted_as_accelforge(random_mapspaces_with_places(seed, 1, 4 * most)[0], random)
    return counted_as_accelforge(random_mapspaces(seed, 1, most, packed_share=0)[0], random)


def onto_values(seed: int, most: int) -> Mapspace:
    return _onto_values(seed, one_place(seed, most))


def onto_values_remainders(seed: int, most: int) -> Mapspace:
    return _onto_values(seed, one_place_remainders(seed, most))


def _onto_values(seed: int, mapspace: Mapspace) -> Mapspace:
    return replace(mapspace, problem=with_first_values(Random(seed), mapspace.problem))


KINDS: tuple[tuple[str, Draw], ...] = (
    ("one place", one_place),
    ("one place, remainders", one_place_remainders),
    ("one place, remainders", one_place_remainders),
    ("one place, remainders", one_place_remainders),
    ("several places", places),
    ("several places, remainders", places_remainders),
    ("sparse", sparse),
    ("sparse, remainders", sparse_remainders),
    ("AccelForge's rule", accelforge),
    ("AccelForge's rule", accelforge),
    ("onto given values", onto_values),
    ("onto given values, remainders", onto_values_remainders),
)
"""Drawn one after the other."""

RULED = 3
"""One mapspace of so many has rules."""

COLUMNS = ("mapspaces", "agree", "CP-SAT", "nothing fits", "rules", "remainders", "unproven bounds")


def drawn(number: int, most: int) -> tuple[str, Mapspace]:
    """A kind and a mapspace of it; some have a rule that the best mapping for one objective breaks."""
    kind, draw = KINDS[number % len(KINDS)]
    mapspace = draw(number, most)
    if number % RULED:
        return kind, mapspace
    random = Random(number)
    best = random.choice(enumerated(mapspace))
    return kind, with_binding_rules(random, mapspace, None if best is None else best[1])


def enumerated(mapspace: Mapspace) -> list[Optimum]:
    """Value and mapping of the optimum of each objective."""
    return (optima if mapspace.sparsity is None else sparse_optima)(mapspace, OBJECTIVES)


def is_formulated(mapspace: Mapspace) -> bool:
    """Whether CP-SAT can be asked."""
    try:
        check_formulated(mapspace)
    except ValueError:
        return False
    return True


class End(NamedTuple):
    """How a search ended, and whether that may be before the proof."""

    search: str
    result: Result
    may_be_open: bool = False

    @property
    def answer(self) -> object:
        """The value of a proven optimum, or why there is none."""
        if self.result.status is Status.INFEASIBLE:
            return NOTHING
        return self.result.value if self.result.status is Status.OPTIMAL else UNPROVEN

    def contradicts(self, optimum: object) -> bool:
        """Whether it cannot be so, or has no proof and should."""
        if self.answer != UNPROVEN:
            return self.answer != optimum
        value, bound = self.result.value, self.result.bound
        if not self.may_be_open or not isinstance(optimum, int):
            return not self.may_be_open or value is not None
        return (value is not None and value < optimum) or (bound is not None and bound > optimum)


def ends(mapspace: Mapspace, objective: str, asks_cp_sat: bool) -> Iterator[End]:
    """All searches for the best mapping, by bounds with rising limits up to the proof."""
    unlimited = Options((objective,), time_limit_s=math.inf)
    by_bounds = map_by_bounds if mapspace.sparsity is None else partial(map_einsum, reasons=False)
    if asks_cp_sat:
        yield End("CP-SAT", map_by_formulation(mapspace, unlimited))
    for most in QUESTIONS:
        told = partial(next, repeat(False, most), True)
        yield End(f"bounds, {most} questions", by_bounds(mapspace, unlimited, None, told), True)
    for limit_s in LIMITS_S:
        limited = End(f"bounds, {limit_s} s", by_bounds(mapspace, Options((objective,), limit_s)), True)
        yield limited
        if limited.answer != UNPROVEN:
            return
    yield End("bounds", by_bounds(mapspace, unlimited))


def print_wrong(console: Console, asked: str, optimum: object, wrong: Sequence[End]) -> None:
    """Say which searches contradict the enumeration."""
    for end in wrong:
        told = end.result
        console.print(
            f"{asked}: {optimum}, but {end.search}: {told.status.name} {told.bound} .. {told.value}"
        )


def report(counts: Counter[tuple[str, str]]) -> Table:
    """Counts by kind, and of all together."""
    table = Table(title=f"Objectives: {', '.join(OBJECTIVES)}", title_justify="left")
    for name in ("kind", *COLUMNS):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in (*dict(KINDS), ALL):
        table.add_row(kind, *(str(counts[kind, name]) for name in COLUMNS))
    return table


def main() -> int:
    """Draw and ask, print counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60, metavar="N", help="mapspaces (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first one (default: 0)")
    parser.add_argument(
        "--most", type=int, default=150, metavar="N", help="mappings of each, about at most (default: 150)"
    )
    options = parser.parse_args()
    console, counts = Console(width=140), Counter[tuple[str, str]]()
    for number in range(options.seed, options.seed + options.count):
        kind, mapspace = drawn(number, options.most)
        optima_found = [NOTHING if best is None else best[0] for best in enumerated(mapspace)]
        asks_cp_sat, unproven, agree = is_formulated(mapspace), 0, True
        for objective, optimum in zip(OBJECTIVES, optima_found, strict=True):
            found = list(ends(mapspace, objective, asks_cp_sat))
            unproven += sum(end.answer == UNPROVEN for end in found)
            wrong = [end for end in found if end.contradicts(optimum)]
            agree &= not wrong
            print_wrong(console, f"mapspace {number} ({kind}), {objective}", optimum, wrong)
        is_empty, has_remainders = NOTHING in optima_found, mapspace.factors != PERFECT
        facts = (1, agree, asks_cp_sat, is_empty, bool(mapspace.rules), has_remainders, unproven)
        for row in (kind, ALL):
            counts.update({(row, name): int(n) for name, n in zip(COLUMNS, facts, strict=True)})
    console.print(report(counts))
    return 0 if counts[ALL, "agree"] == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
