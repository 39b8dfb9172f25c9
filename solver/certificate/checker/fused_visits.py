"""Visits of an Einsum that are alike as one mapspace; nothing stays from one visit to the next."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from solver.certificate.checker.claims import EXACT, Cost, Json, Mask, Query, Refute, able
from solver.certificate.checker.orders import Orders
from solver.certificate.checker.remainders import Space

if TYPE_CHECKING:
    from solver.certificate.checker.fused_einsums import Einsum

Numbers = tuple[int, ...]
HeldTile = tuple[int, int, int]  # dataspace, words moved, words that are touched first
Deep = tuple[tuple[int, int], ...]  # dataspaces, and numbers of memories, of which the outermost on chip is 1
Rooms = tuple[tuple[int, int], ...]  # numbers of memories, and their room
Spread = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]  # by fanout, spatial loops


class Kind(NamedTuple):
    """Visits of an Einsum that are alike."""

    bounds: Numbers  # of each
    trips: Numbers  # how many there are, per dimension
    above: frozenset[int]  # dataspaces above the nests
    held: tuple[HeldTile, ...]
    homes: Numbers | None = None  # on-chip levels that keep the outputs (None: any)
    loose: bool = False  # bandwidths are left out
    deep: Deep = ()  # what is stored in memories farther in
    fills: tuple[tuple[int, int], ...] = ()  # least words of own tiles, by number of the memory


class Limits(NamedTuple):
    """What limits the nests of visits besides the room of the outermost on-chip memory."""

    rooms: Rooms = ()  # of memories farther in
    shares: Spread = ()  # spatial loops that are known
    undivided: frozenset[int] = frozenset()  # dimensions that no fanout outside of that memory divides


NO_LIMITS = Limits()
UNLIMITED = {"bandwidths": dict.fromkeys(("read", "write", "shared")), "ports": []}


class Visits(Space):
    """Visits as one mapspace, of which nothing stays in between.

    Dataspaces `above` the nests come from the on-chip memory, without room. Bandwidths carry the words of
    held tiles besides: at the least, unless `shares` says how fanouts divide these. Words of an output that
    an earlier visit has touched are not touched for the first time: only the trips over its own dimensions
    bring new ones. In an order of its own, `memories` has the number of each level's memory, and there is a
    place for each tile.
    """

    def __init__(
        self,
        einsum: "Einsum",
        kind: Kind,
        doc: Json,
        memories: Sequence[int] = (),
        shares: Spread = (),
    ) -> None:
        super().__init__(doc)
        above = frozenset[int]() if memories else kind.above.union(v for v, _ in kind.deep)
        self.visits, self.outside = prod(kind.trips), above
        self.fresh = [prod(n for d, n in enumerate(kind.trips) if d in dims) for dims in einsum.dims]
        self.computes, self.arithmetic = self.computes * self.visits, self.arithmetic * self.visits
        self.latency = self.latency * self.visits
        most = max([self.computes, self.latency, *(space.most * self.visits for space in self.spaces)])
        able(most * len(self.spaces) < EXACT, "the problem is too large")
        stores = [einsum.space.stores[n] for n in memories] or einsum.space.stores
        self.place_of = dict(zip(stores[::-1], self.stores[::-1], strict=True))  # by memory the first one
        for access, words in chain(*(einsum.shifted(own, shares).items() for own in kind.held)):
            p, v = self.place_of[access.p], access.v
            own, other = (
                Fraction(*at[v]["bandwidth_scale"]) for at in (self.at[p], einsum.space.at[access.p])
            )
            self.loads[p, v, access.kind] += words if own == other else words * other / own

    def arranged(self, mask: Mask, single: bool = False) -> bool:
        """Whether places that keep nothing are the last ones; any number of tiles may be above the nests."""
        own = tuple(() if v in self.outside else kept for v, kept in enumerate(mask))
        crowded = single and any(max(memory.kept(own)) > 1 for memory in self.memories)
        return not crowded and super().arranged(mask)


def in_any_order(einsum: "Einsum", kind: Kind, doc: Json, shares: Spread = ()) -> Orders:
    """Visits whose memories may stand in any order."""
    return Orders(doc, partial(Visits, einsum, kind, shares=shares))


def satisfying(
    einsum: "Einsum", kind: Kind, doc: Json, query: Query, refute: Refute, shares: Spread = ()
) -> Cost | None:
    """The cost of visits that satisfy a query, None if there are none."""
    if "free_order" in doc:
        return in_any_order(einsum, kind, doc, shares).refuted(query, refute)
    return refute(Visits(einsum, kind, doc, shares=shares), query)
