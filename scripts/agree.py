"""Asks enumeration, bounds and CP-SAT for optima of random mapspaces, and counts those on which all agree.

Each is asked for the least energy, the least cycles and the least product of both; to find that nothing
fits is an answer as well. A third of the mapspaces have user-defined constraints, which their optima break if
such rules are soon drawn. Half of them may have remainders, a fifth has memories with several places, a fifth
sparse data, and a fifth is counted by AccelForge's rule. CP-SAT is not asked about these three fifths, which
the formulation does not state (docs/formulation.md).

The search by bounds also runs with time limits, and is interrupted at once or after a while: its bound may
not be above the optimum, nor its value below. The exit code is 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, repeat
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from solver.formulation import map_by_formulation
from solver.formulation.model import check_formulated
from solver.result import Options, Result, Search, Status
from solver.search import map_einsum
from solver.sparse_search import lack_of_remainders, map_totals
from tests.bruteforce import Optimum, optima, sparse_optima
from tests.random_rules import with_binding_rules
from tests.random_sparsity import random_sparse_mapspace, random_sparse_mapspace_with_remainders
from tests.reference import OBJECTIVES
from tests.strategies import (
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
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


def answers(mapspace: Mapspace) -> dict[str, list[object]]:
    """What each witness says of each objective."""
    searches: dict[str, Search] = {"bounds": by_bounds(mapspace)}
    if is_formulated(mapspace):
        searches["cp-sat"] = map_by_formulation
    found = {
        witness: [answer(search(mapspace, Options((name,), time_limit_s=math.inf))) for name in OBJECTIVES]
        for witness, search in searches.items()
    }
    return {"enumeration": [NOTHING if best is None else best[0] for best in enumerated(mapspace)], **found}


def by_bounds(mapspace: Mapspace) -> Search:
    """The search by bounds for a mapspace."""
    return map_einsum if mapspace.sparsity is None else map_totals


def is_formulated(mapspace: Mapspace) -> bool:
    """Whether CP-SAT can be asked."""
    try:
        check_formulated(mapspace)
    except ValueError:
        return False
    return True


def answer(result: Result) -> object:
    """The value of a proven optimum, or why there is none."""
    if result.status is Status.INFEASIBLE:
        return NOTHING
    return result.value if result.status is Status.OPTIMAL and result.value is not None else UNPROVEN


def stopped(mapspace: Mapspace, objective: str) -> Iterator[tuple[str, Result]]:
    """Searches that may end before the proof, each with what ends it."""
    search = by_bounds(mapspace)
    for limit_s in LIMITS_S:
        yield f"{limit_s} s", search(mapspace, Options((objective,), time_limit_s=limit_s))
    for most in QUESTIONS:
        told = partial(next, repeat(False, most), True)
        yield f"question {most}", search(mapspace, Options((objective,)), None, told)


def contradicts(result: Result, optimum: object) -> bool:
    """Whether what is known at the end of a search cannot be so."""
    proven = answer(result)
    if proven != UNPROVEN or not isinstance(optimum, int):
        return proven not in (UNPROVEN, optimum) or (optimum == NOTHING and result.value is not None)
    too_low = result.value is not None and result.value < optimum
    return too_low or (result.bound is not None and result.bound > optimum)


def disagreements(mapspace: Mapspace, found: dict[str, list[object]]) -> tuple[int, list[str]]:
    """How many searches ended without a proof, and where witnesses or ends of searches contradict."""
    told = [] if len(set(map(tuple, found.values()))) == 1 else [str(found)]
    ended = [
        (objective, optimum, end, result)
        for objective, optimum in zip(OBJECTIVES, found["enumeration"], strict=True)
        for end, result in stopped(mapspace, objective)
    ]
    told += (
        f"{objective}, ended at {end}: {result.status.name} {result.bound} .. {result.value}, not {optimum}"
        for objective, optimum, end, result in ended
        if contradicts(result, optimum)
    )
    return sum(answer(result) == UNPROVEN for *_, result in ended), told


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
        found = answers(mapspace)
        unproven, told = disagreements(mapspace, found)
        for text in told:
            console.print(f"mapspace {number} ({kind}): {text}")
        is_empty, has_remainders = NOTHING in found["enumeration"], mapspace.factors != PERFECT
        facts = (1, not told, "cp-sat" in found, is_empty, bool(mapspace.rules), has_remainders, unproven)
        for row in (kind, ALL):
            counts.update({(row, name): int(n) for name, n in zip(COLUMNS, facts, strict=True)})
    console.print(report(counts))
    return 0 if counts[ALL, "agree"] == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
