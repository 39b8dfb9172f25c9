"""The claim of a certificate about a cascade: what no fused mapping is below."""

from contextlib import suppress
from itertools import chain
from math import inf

from solver.certificate.checker.claims import CannotCheckError, Json, Query, Refute, able, need
from solver.certificate.checker.fused_cascade import Cascade
from solver.certificate.checker.fused_edges import Edges, Left
from solver.certificate.checker.fused_paths import MOST_LABELS, Paths, Rests
from solver.certificate.checker.fused_tree import Tree

FEW_LABELS = 1 << 14  # that a check looks at first, by few claims


def check_fused(doc: Json, mapspace: object, refute: Refute) -> tuple[int | None, int]:
    """The value that no fused mapping is below, None if there is none, and its unit; raises unless shown."""
    objective, status, bound = doc["objective"], doc["status"], doc["bound"]
    need(objective in Query._fields, "the objective is known")
    cascade, rests = Cascade(doc["problem"]), Rests()
    if status == "INFEASIBLE":
        need(
            doc["mapping"] is doc["cost"] is bound is None,
            "INFEASIBLE claims no mapping, no cost and no bound",
        )
    else:
        need(type(bound) is int and bound >= 0, "the bound is a natural number")
        tree = Tree(cascade, doc["mapping"])
        need(doc["cost"] == tree.price(), "the cost matches the mapping")
        rests = tree.rests()
        cost = doc["cost"][objective]
        need(
            {"OPTIMAL": bound == cost, "FEASIBLE": bound <= cost}.get(status), "the bound matches the status"
        )
    limit = inf if bound is None else bound
    least = confirmed(cascade, doc, rests, limit, refute) if limit else limit
    text = "no fused mapping exists" if limit == inf else f"no fused mapping has {objective} below {limit:,}"
    able(least >= limit, f"{text}: the listed claims do not exclude values from {least:,} on")
    return bound, cascade.einsums[0].doc["units_per_pj"]


def confirmed(cascade: Cascade, doc: Json, rests: Rests, limit: int | float, refute: Refute) -> int | float:
    """The limit, if claims that hold show that nothing is below; else what they leave open.

    Claims without shared loops alone are often enough, and are quickly checked. How stored and held tiles are
    divided among memories that exist several times is left open first, and tiles need not fill memories.
    """
    left: Left = {}
    with suppress(CannotCheckError):
        if left_open(cascade, doc, limit, refute, left, rests, FEW_LABELS, every=False) >= limit:
            return limit
    several = any(cascade.instances(n) > 1 for n in {1, *chain(*cascade.storable.values())})
    filled = any(einsum.fills for einsum in cascade.einsums)
    for is_spread, is_filled in dict.fromkeys(((False, False), (False, filled), (several, filled))):
        least = left_open(cascade, doc, limit, refute, left, rests, is_spread=is_spread, is_filled=is_filled)
        if least >= limit:
            break
    return least


def left_open(
    cascade: Cascade,
    doc: Json,
    limit: int | float,
    refute: Refute,
    left: Left,
    rests: Rests | None = None,
    most: int = MOST_LABELS,
    every: bool = True,
    is_spread: bool = False,
    is_filled: bool = False,
) -> int | float:
    """The least value of all paths that claims leave open below a limit, or the limit; claims are checked.

    Claims of which less is `left`, as this program's own bounds are lower, are used as that. Where a path is
    left open whose nests may have remainders, its edges are looked at, which adds to what is known.
    """
    while True:
        edges = Edges(cascade, doc, left, every)
        paths = Paths(cascade, edges, doc["objective"], limit, most, is_spread, is_filled, rests)
        least = paths.least()
        if every and least < limit and edges.learn(paths.open_edges, refute):
            continue
        if (least < limit and not every) or edges.verify(refute) or least < limit:
            return least
