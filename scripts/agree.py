"""Asks enumeration, bounds and CP-SAT for optima of random mapspaces, and counts those on which all agree.

Each is asked for the least energy, the least cycles and the least product of both; to find that nothing
fits is an answer as well. A third of the mapspaces have rules of the user's own, which their optima break if
such rules are soon drawn; half of them may have remainders. The exit code is 1 if any two disagree.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from model.mapspace import Mapspace
from solver.formulation import map_by_formulation
from solver.result import Options, Result, Status
from solver.search import map_einsum
from tests.bruteforce import optima
from tests.random_rules import with_binding_rules
from tests.reference import OBJECTIVES
from tests.strategies import random_mapspaces, random_mapspaces_with_remainders, with_tolls

Draw = Callable[[int, int], Mapspace]
"""A mapspace of at most so many mappings, from a seed."""

NOTHING, UNPROVEN = "nothing fits", "unproven"


def perfect(seed: int, most: int) -> Mapspace:
    return random_mapspaces(seed, 1, most)[0]


def uneven(seed: int, most: int) -> Mapspace:
    return random_mapspaces_with_remainders(seed, 1, most)[0]


def tolled(seed: int, most: int) -> Mapspace:
    return with_tolls(Random(seed), perfect(seed, most))


def ruled(draw: Draw) -> Draw:
    """The same with rules that the best mapping for one of the objectives breaks."""

    def drawn(seed: int, most: int) -> Mapspace:
        mapspace, random = draw(seed, most), Random(seed)
        best = random.choice(optima(mapspace, OBJECTIVES))
        return with_binding_rules(random, mapspace, None if best is None else best[1])

    return drawn


KINDS: dict[str, Draw] = {
    "perfect factors": perfect,
    "remainders": uneven,
    "perfect factors, rules": ruled(perfect),
    "perfect factors, tolls": tolled,
    "more remainders": uneven,
    "remainders, rules": ruled(uneven),
}
"""Drawn one after the other."""

COLUMNS = ("mapspaces", "agree", "without any mapping", "with rules", "with remainders")


def answers(mapspace: Mapspace) -> dict[str, list[int | str]]:
    """What each witness says of each objective."""
    searches = {"bounds": map_einsum, "cp-sat": map_by_formulation}
    enumerated = [NOTHING if best is None else best[0] for best in optima(mapspace, OBJECTIVES)]
    searched = {
        witness: [answer(search(mapspace, Options((name,), time_limit_s=math.inf))) for name in OBJECTIVES]
        for witness, search in searches.items()
    }
    return {"enumeration": enumerated, **searched}


def answer(result: Result) -> int | str:
    """The value of a proven optimum, or why there is none."""
    if result.status is Status.INFEASIBLE:
        return NOTHING
    return result.value if result.status is Status.OPTIMAL and result.value is not None else UNPROVEN


def main() -> int:
    """Draw and ask, print counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60, metavar="N", help="mapspaces (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first one (default: 0)")
    parser.add_argument(
        "--most", type=int, default=150, metavar="N", help="mappings of each, at most (default: 150)"
    )
    options = parser.parse_args()
    console, counts = Console(width=120), Counter[tuple[str, str]]()
    for number in range(options.seed, options.seed + options.count):
        kind = list(KINDS)[number % len(KINDS)]
        mapspace = KINDS[kind](number, options.most)
        found = answers(mapspace)
        agree = len(set(map(tuple, found.values()))) == 1
        if not agree:
            console.print(f"mapspace {number} ({kind}): {found}")
        facts = (True, agree, NOTHING in found["enumeration"], mapspace.rules, mapspace.factors == "any")
        counts.update(
            (row, name) for name, holds in zip(COLUMNS, facts, strict=True) if holds for row in (kind, "")
        )
    table = Table(title=f"Objectives: {', '.join(OBJECTIVES)}", title_justify="left")
    for name in ("kind", *COLUMNS):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in (*KINDS, ""):
        table.add_row(kind or "all", *(str(counts[kind, name]) for name in COLUMNS))
    console.print(table)
    return 0 if counts["", "agree"] == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
