"""What certificates claim, as their checker reads it: the problem, legal mappings, queries, verdicts."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise, product
from math import inf, prod
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

EXACT = 1 << 53  # sums of whole doubles compare rightly with numbers up to here
SLACK = 1e-9  # relative; doubles, here and in the definition of cycles, err far less
MOST_DIMS, MOST_BOUND, MOST_STATES = 20, 1 << 30, 1 << 21
MOST_CHOICES, MOST_CHILDREN, MOST_MASKS, MOST_PAIRS = 1 << 21, 1 << 20, 1 << 18, 1 << 28
MOST_PARTS, MOST_NUMBERS = 1 << 12, 1 << 26  # nodes, dataspaces and ranks; entries of an array of choices
MOST_ENTRIES, MOST_NESTS = 1 << 28, 1 << 20  # of the tables of a choice; nests that one walk visits
MOST_PLACES = 1 << 22  # of a tile, where they are listed to count distinct words
NAMES = {"name", "kind", "dims", "objective", "ranks", "counting", "factors", "rules", "solved_by"}
WHOLE = {"storage": ("least_size", "most_size", "most_paying", "leak"), "spatial": ("mesh_x", "mesh_y")}
HELD, TRUTHS = (
    ("size", "block", "read", "fill", "update"),
    ("temporal_reuse", "first_write_reads", "passes_on"),
)
TOTALS = ("compute_energy", "network_latency", "least_units")

Own = TypeVar("Own")
Found = TypeVar("Found")
Given = ParamSpec("Given")

Json = dict[str, Any]  # an object of a certificate
Levels = tuple[int, ...]  # nodes that keep a dataspace, outermost first
Mask = tuple[Levels, ...]  # those of each dataspace
State = tuple[int | None, ...]  # per dataspace since which level its tile is in place (None: no longer)
Loops = Sequence[Mapping[int, int]]  # per node its factors by dimension, innermost first
Cost = dict[str, Any]  # energy, latency, edp, and whether a mapping fits
Array = NDArray[Any]
Number: TypeAlias = Any  # an integer, or an array of them for many points at once


class Query(NamedTuple):
    """Asks for a mapping within all of these limits."""

    energy: int | float = inf
    latency: int | float = inf
    edp: int | float = inf


def satisfies(cost: Cost, query: Query) -> bool:
    """Whether a cost is that of a mapping that fits and is within all limits."""
    return cost["fits"] and all(cost[key] <= most for key, most in query._asdict().items())


Refute = Callable[[Any, Query], Cost | None]  # the cost of a mapping that satisfies a query, if there is any


class remembered(Generic[Own, Given, Found]):  # noqa: N801 (a decorator)
    """A method whose results each object remembers by its arguments."""

    def __init__(self, method: Callable[Concatenate[Own, Given], Found]) -> None:
        self.method = method

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, own: Own, owner: type) -> Callable[Given, Found]:
        found: Callable[Given, Found] = lru_cache(1 << 18)(MethodType(self.method, own))  # type: ignore[assignment]
        own.__dict__[self.name] = found  # where it is looked for first from now on
        return found


def ceiling(number: Number, by: Number) -> Number:
    """The quotient, rounded up."""
    return -(-number // by)


class InvalidError(Exception):
    """A claim that does not hold."""


class UnreadableError(Exception):
    """A file that is no certificate."""


class CannotCheckError(Exception):
    """More work than this program takes on."""


def need(condition: object, claim: str, error: type[Exception] = InvalidError) -> None:
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error(claim)


def natural(value: object) -> bool:
    """Whether a JSON value has no other numbers than natural ones; names and ranks are left out."""
    if isinstance(value, dict):
        return all(natural(entry) for key, entry in value.items() if key not in NAMES)
    if isinstance(value, list):
        return all(map(natural, value))
    return value is None or isinstance(value, bool) or (type(value) is int and value >= 0)


def formed(node: Json, count: int) -> bool:
    """Whether a node has whole numbers, truth values and fractions where it should; `count` dataspaces."""
    lists, held, truths = node.get("factors", []), node.get("dataspaces", []), node.get("multicast", [])
    if node["kind"] == "storage":
        truths = [space[key] for space in held for key in TRUTHS]
        widths = [node["bandwidths"][key] for key in ("read", "write", "shared")]
        pairs = [*filter(None, widths), *(space["bandwidth_scale"] for space in held)]
        pairs += [port[kind] for port in node.get("ports", []) for kind in ("read", "write")]
        tolls = [space["toll"] for space in held if "toll" in space]
        truths += [*chain(*tolls)]
        fits = len(held) == count and all(len(pair) == 2 for pair in (*pairs, *tolls))
        fits = fits and all(own for _, own in pairs) and all(own for own, _ in filter(None, widths))
        lists = [*pairs, node["leak_fanouts"], *([space[key] for key in HELD] for space in held)]
    elif node["kind"] == "spatial":
        fits, lists = len(truths) == count, [*lists, *node["along_x"]]
    else:
        fits = not held and not truths
    numbers = [*(node[key] for key in WHOLE.get(node["kind"], ())), *chain(*lists)]
    return fits and {*map(type, numbers)} <= {int} and {*map(type, truths)} <= {bool}


class Memory:
    """Places of one memory, outermost first: they share room and ports, and rules bind all their loops.

    `groups` are the nodes of each place's loops, outermost first. Where `factors` has a list for a dimension,
    the factors of all these nodes multiply to one of it, or with remainders to a number between the two that
    it has (null: no upper limit); and loops of one group lie outside of no loop of an
    earlier group at a place farther in. A place that keeps nothing, but for the first one, has no loops, and
    none that keeps anything lies inside of it.
    """

    def __init__(self, doc: Json, problem: "Problem") -> None:
        self.places, self.groups, self.factors = doc["places"], doc["groups"], doc["factors"]
        nodes = [p for place, own in zip(self.places, self.groups, strict=True) for p in (place, *own)]
        need(len(self.groups) == len(self.places) > 1, "memories have several places")
        need(len({*map(len, self.groups)}) == 1, "places of a memory have loops alike")
        need(nodes == sorted({*nodes}), "places of a memory are in order")
        need(nodes[0] >= 0 and nodes[-1] < len(problem.nodes), "places of a memory are nodes")
        between = {problem.nodes[p]["kind"] for p in range(nodes[0], nodes[-1])}
        need("spatial" not in between, "places of a memory lie under the same fanouts")
        pairs = zip(self.places, self.groups, strict=True)
        near = all(own == [*range(place + 1, place + 1 + len(own))] for place, own in pairs)
        need(near, "the loops of a place are right below it")
        kinds = {p: "storage" if p in self.places else "temporal" for p in nodes}
        need(
            all(problem.nodes[p]["kind"] == kind for p, kind in kinds.items()), "places of a memory are nodes"
        )
        need(len(self.factors) == len(problem.bounds), "a memory has factors for each dimension")
        self.any = problem.any
        if self.any:
            ends = [own for own in self.factors if own is not None]
            need(all(len(own) == 2 and own[0] for own in ends), "factors lie between two numbers")
        self.binds = len(self.groups[0]) > 1 or any(own is not None for own in self.factors)

    def outside(self, p: int) -> list[int]:
        """The places from the outermost one to `p`."""
        return [place for place in self.places if place <= p]

    def kept(self, mask: Mask) -> list[int]:
        """How many dataspaces each place keeps."""
        return [sum(place in levels for levels in mask) for place in self.places]

    def arranged(self, mask: Mask) -> bool:
        """Whether places that keep nothing are the last ones."""
        kept = self.kept(mask)
        return all(own or not any(kept[i:]) for i, own in enumerate(kept))

    def idle(self, mask: Mask) -> list[int]:
        """Nodes that have no loops as their place keeps nothing."""
        pairs = zip(self.kept(mask)[1:], self.groups[1:], strict=True)
        return [p for own, group in pairs if not own for p in group]

    def ordered(self, loops: Loops) -> bool:
        """Whether the loops of inner places may lie inside of those of outer ones."""
        live = [[i for i, p in enumerate(own) if loops[p]] for own in self.groups]
        ends = [(own[0], own[-1]) for own in live if own]
        return all(last <= first for (_, last), (first, _) in pairwise(ends))

    def allow(self, loops: Loops) -> bool:
        """Whether rules allow the loops of all places together."""
        nodes = [p for own in self.groups for p in own]
        products = [prod(loops[p].get(d, 1) for p in nodes) for d in range(len(self.factors))]
        return self.ordered(loops) and all(map(self.multiplies, self.factors, products))

    def multiplies(self, own: list[int] | None, number: int) -> bool:
        """Whether factors may multiply to a number, given what the memory says of the dimension."""
        if own is None or not self.any:
            return own is None or number in own
        least, most = own
        return least <= number and (most is None or number <= most)


class Problem:
    """The canonical problem of a certificate, well formed; dimensions, dataspaces and nodes are numbers.

    Node 0 is the outermost. `lists` holds what the document says of the factors of each node, dimension by
    dimension; storage levels have no loops of their own. Who builds on it reads the dataspaces (`spaces`).
    """

    spaces: list[Any]
    spatial: Array  # choices of spatial factors

    def __init__(self, doc: Json) -> None:
        self.bounds, self.nodes, self.every = doc["bounds"], doc["nodes"], range(len(doc["bounds"]))
        kinds = [node["kind"] for node in self.nodes]
        pairs = zip(self.nodes, kinds, strict=True)
        self.lists = [None if kind == "storage" else node["factors"] for node, kind in pairs]
        given = [lists for lists in self.lists if lists is not None]
        ranks = [rank for space in doc["dataspaces"] for rank in space["ranks"]]
        whole = all(type(c) is int and d in self.every for d, c in chain(*ranks))
        whole = whole and natural(doc) and natural(given) and all(map(all, [self.bounds, *chain(*given)]))
        need(whole, "numbers are non-negative integers")
        need(all(len(dict(rank)) == len(rank) for rank in ranks), "no rank names a dimension twice")
        need({*map(len, given)} <= {len(self.bounds)}, "nodes have factors for each dimension")
        small = len(ranks) + len(self.nodes) + len(doc["dataspaces"]) <= MOST_PARTS
        small = small and all(abs(c) < EXACT for _, c in chain(*ranks))
        small = small and len(self.bounds) <= MOST_DIMS and max(self.bounds) < MOST_BOUND
        need(small, "the problem is too large", CannotCheckError)
        self.stores = [p for p, kind in enumerate(kinds) if kind == "storage"]
        self.fans = [p for p, kind in enumerate(kinds) if kind == "spatial"]
        need(
            0 in self.stores and {*kinds} <= {"storage", "temporal", "spatial"}, "all nodes have a known kind"
        )
        formal = all(formed(node, len(doc["dataspaces"])) for node in self.nodes)
        numbers = [*self.bounds, *(doc[key] for key in TOTALS)]
        truths = {type(space["read_write"]) for space in doc["dataspaces"]}
        need(formal and {*map(type, numbers)} <= {int} and truths <= {bool}, "all values have the right type")
        need(len(doc["dims"]) == len(self.bounds), "each dimension has a name")
        sets = [tuple(kept) for space in doc["dataspaces"] for kept in space["keep"]]
        need(
            all(kept and [p for p in self.stores if p in kept] == [*kept] for kept in sets),
            "keep sets name storage levels in order",
        )
        self.at = {p: self.nodes[p]["dataspaces"] for p in self.stores}
        self.sizes = {p: (self.nodes[p]["least_size"], self.nodes[p]["most_size"]) for p in self.stores}
        self.any, self.least_units = doc["factors"] == "any", int(doc["least_units"])
        self.factors = [self.allowed(lists) for lists in self.lists]
        self.memories = [Memory(own, self) for own in doc.get("memories", [])]
        self.home = {p: p for p in self.stores}  # the place whose limits hold for all of a memory
        self.home |= {p: own.places[0] for own in self.memories for p in own.places}
        self.homes = [p for p, home in self.home.items() if p == home]
        places = [*chain(*(own.places for own in self.memories))]
        need(len({*places}) == len(places), "no place is one of two memories")
        self.computes: int = prod(self.bounds)
        self.latency: int = doc["network_latency"]
        self.arithmetic: int = self.computes * doc["compute_energy"]
        masks = prod(len(space["keep"]) for space in doc["dataspaces"]) <= MOST_MASKS
        need(masks, "the problem is too large", CannotCheckError)

    def allowed(self, lists: Any) -> Sequence[Any]:
        """The factors that a node may have by dimension: lists in ascending order, with remainders ranges."""
        if lists is None:
            return [range(1, 2) if self.any else [1]] * len(self.bounds)
        if not self.any:
            pairs = chain(*map(pairwise, lists))
            need(all(small < large for small, large in pairs), "factors are in ascending order")
            return list(lists)
        need(all(len(own) == 2 for own in lists), "factors lie between two numbers")
        ends = zip(lists, self.bounds, strict=True)
        return [range(least, min(most, n) + 1) for (least, most), n in ends]

    def choices(self) -> Array:
        """All choices of spatial factors: (choice, fanout, dimension)."""
        rows = np.ones((1, len(self.fans), len(self.bounds)), dtype=np.int64)
        left = np.array([self.bounds], dtype=np.int64)
        for i, p in reversed([*enumerate(self.fans)]):
            mesh_x, mesh_y = self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]
            sides = len(self.nodes[p]["along_x"])
            need(sides <= MOST_MASKS, "too many sets of dimensions along X", CannotCheckError)
            for d, own in enumerate(self.factors[p]):
                number = bisect_right(own, mesh_x * mesh_y)
                most = max(rows.size, len(rows) * max(number, sides))
                need(most <= MOST_NUMBERS, "too many spatial choices", CannotCheckError)
                factors = np.array(own[:number], dtype=np.int64)
                fits = self.splits(left[:, d, None], factors)
                fits &= np.outer(rows[:, i].prod(axis=1), factors) <= mesh_x * mesh_y
                row, index = np.nonzero(fits)
                need(len(row) <= MOST_CHOICES, "too many spatial choices", CannotCheckError)
                rows, left = rows[row], left[row]
                rows[:, i, d] = factors[index]
                left[:, d] = ceiling(left[:, d], factors[index])
            wide = [rows[:, i, x].prod(axis=1) for x in self.nodes[p]["along_x"]]
            fitting = [(n <= mesh_x) & (rows[:, i].prod(axis=1) // n <= mesh_y) for n in wide]
            kept = np.any(fitting, axis=0)
            rows, left = rows[kept], left[kept]
        return np.asarray(rows[rows.prod(axis=(1, 2)) >= self.least_units])

    def splits(self, left: Number, factor: Number) -> Number:
        """Whether a loop may split what is left of a dimension: it divides it, or leaves a remainder."""
        return left >= factor if self.any else left % factor == 0

    def read(self, mapping: Json) -> tuple[list[dict[int, int]], Mask]:
        """The factors of each node's loops, innermost first, and the levels of each dataspace, if legal."""
        loops, mask = self.written(mapping), tuple(map(tuple, mapping["keep"]))
        left = [*self.bounds]
        for own in reversed(loops):
            fits = all(self.splits(left[d], n) for d, n in own.items())
            need(fits, "no loop goes beyond its dimension, and perfect factors divide it")
            left = [ceiling(n, own.get(d, 1)) for d, n in enumerate(left)]
        need({*left} <= {1}, "loops cover the bounds")
        pairs = zip(loops, self.factors, strict=True)
        allowed = all(own.get(d, 1) in choices for own, lists in pairs for d, choices in enumerate(lists))
        need(allowed, "factors are allowed")
        rows = [[loops[p].get(d, 1) for d in self.every] for p in self.fans]
        fans = np.array(rows, dtype=np.int64).reshape(-1, len(self.bounds))
        need((self.spatial == fans).all(axis=(1, 2)).any(), "the spatial factors fit their meshes")
        kept = len(mask) == len(self.spaces) and all(
            own in space.keep for own, space in zip(mask, self.spaces, strict=True)
        )
        need(kept and self.arranged(mask), "dataspaces are kept where they may be")
        need(self.go_together(loops, mask), "loops of several places of a memory go together")
        return loops, mask

    def masks(self) -> Iterator[Mask]:
        """Yield the keep sets that have to be looked at, one for each dataspace."""
        every = product(*(space.keep for space in self.spaces))
        return (mask for mask in every if self.arranged(mask, single=True))

    def written(self, mapping: Json) -> list[dict[int, int]]:
        """The factors of each node's loops, innermost first, as a mapping has them."""
        pairs = [*chain(*mapping["loops"])]
        known = all(d in self.every and type(n) is int and n > 1 for d, n in pairs)
        loops = [dict(pairs) for pairs in mapping["loops"]] if known else []  # any keys may share a hash
        once = len(loops) == len(self.nodes) and sum(map(len, loops)) == len(pairs)
        need(once, "no node has two loops over a dimension")
        return loops

    def arranged(self, mask: Mask, single: bool = False) -> bool:
        """Whether places that keep nothing are the last ones of their memories; `single`: none keeps two.

        One at each place is enough: places with equal tiles have no loops between them.
        """
        crowded = single and any(max(own.kept(mask)) > 1 for own in self.memories)
        return not crowded and all(own.arranged(mask) for own in self.memories)

    def go_together(self, loops: Loops, mask: Mask) -> bool:
        """Whether the loops of each memory with several places may go together."""
        idle = [p for own in self.memories for p in own.idle(mask)]
        return not any(loops[p] for p in idle) and all(own.allow(loops) for own in self.memories)

    def bounded(self, spaces: Sequence[Any]) -> None:
        """Check that no count can leave the numbers that doubles hold exactly."""
        pairs = [pair for docs in self.at.values() for pair in zip(spaces, docs, strict=True)]
        most = [space.most * max(1, doc["size"]) for space, doc in pairs]
        small = len(spaces) * max([self.computes, self.latency, *most]) < EXACT
        need(small, "the problem is too large", CannotCheckError)
