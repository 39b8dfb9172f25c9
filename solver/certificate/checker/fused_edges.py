"""Bounds on the Einsums of a cascade between two cuts: claims that are checked, and closed forms."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial, reduce
from itertools import chain, islice, pairwise, product
from math import inf, prod
from operator import ge, le
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import CannotCheckError, Json, Query, Refute, natural, need, remembered
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.fused_cascade import Cascade
from solver.certificate.checker.fused_einsums import Cut, Einsum, vectors
from solver.certificate.checker.fused_further import floor
from solver.certificate.checker.fused_visits import (
    UNLIMITED,
    Deep,
    HeldTile,
    Kind,
    Limits,
    Numbers,
    Rooms,
    Spread,
    Visits,
    satisfying,
)
from solver.certificate.checker.remainders import Access, Space

QUERIED = {"energy": "energy", "cycles": "latency"}
MOST_LEARNED, MOST_CORNERS = 256, 8  # edges of paths that are looked at; of the mappings of each
MOST_SPATIAL = 256  # choices of spatial factors of mapspaces that are looked at so
MOST_CUTS, MOST_POINTS = 64, 1 << 7  # by further shared loops that are looked at one by one; of their tables
Corners = tuple[tuple[Any, Any], ...]  # energies and cycles
Claim = tuple[Any, Corners, tuple[Any, ...]]  # room, corners, and the claim that it comes of
Left = dict[tuple[Any, ...], Any]  # what is left of claims that were checked
VisitKind = tuple[Numbers, Numbers]  # bounds of visits, and how many there are
Edge = tuple[Any, ...]  # of a path: Einsum, cut, ways, held tiles, room, least words of own tiles
Posed = Callable[[Kind], Json]
Settled = tuple[list[Claim], Any]  # claims that hold for further shared loops, and an array of their trips


class Given(NamedTuple):
    """What is known of an edge besides its tiles."""

    rooms: tuple[Any, ...]  # left of each on-chip memory
    shares: Spread = ()  # spatial loops that divide what is stored and held
    undivided: frozenset[int] = frozenset()  # like `Limits.undivided`
    fills: Rooms = ()  # words that own tiles take at the least, by number of the memory


class Way(NamedTuple):
    """How a tile is kept."""

    room: int = 0
    energy: int = 0
    reads: Any = 0
    writes: Any = 0
    passes: bool = False
    stored: int = 0  # the memory that a tensor waits in, of which the outermost one on chip is 1; or 0
    held: bool = False


class Floors:
    """Least costs of Einsums whose tiles are all on chip, as `least` of a certificate claims them.

    `used` has the claims that something rests on, `left` what is left of those that were checked.
    """

    def __init__(self, cascade: Cascade, claims: Iterable[Json], timed: bool, left: Left) -> None:
        self.cascade, self.timed, self.left = cascade, timed, left
        self.known: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
        self.used: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for claim in claims:
            einsum, exchanging = cascade.einsums[claim["einsum"]], frozenset(claim["exchanging"])
            numbers = tuple(claim[key] for key in ("free", "paid", "cycles"))
            whole = all(type(n) is int and n >= 0 for n in numbers)
            need(whole, "least costs are natural numbers")
            may_stay = exchanging <= {*einsum.stay} and not einsum.is_copy
            need(may_stay, "exchanged tiles are tiles that may be on chip")
            deep, visits = deep_of(cascade, einsum, claim), visits_of(einsum, claim)
            numbers = left.get((einsum.key, deep, exchanging, visits, numbers), numbers)
            self.known[einsum.key, deep, exchanging].append((visits, *numbers))

    def verify(self, refute: Refute) -> bool:
        """Check all claims that something rests on; whether they count for what they say."""
        is_whole = True
        for einsum, deep, exchanging, visits, *numbers in self.used.values():
            key, claimed = (einsum.key, deep, exchanging, visits), tuple(numbers)
            if (*key, claimed) not in self.left:
                found = self.check(einsum, visits, deep, exchanging, claimed, refute)
                self.left |= {(*key, claimed): found, (*key, found): found}
            is_whole &= self.left[*key, claimed] == claimed
        return is_whole

    def check(
        self,
        einsum: Einsum,
        visits: VisitKind,
        deep: Deep,
        exchanging: frozenset[int],
        numbers: Numbers,
        refute: Refute,
    ) -> Numbers:
        """Check a claim; what is left of it, where this program's own bounds are lower."""
        (free, paid, cycles), once = numbers, einsum.whole
        pairs = ((v, einsum.touched(v, once)) for v in sorted(exchanging) if self.timed)
        held = tuple((v, words, min(words, einsum.held(v, once)[2])) for v, words in pairs)
        # Bandwidths carry the words of all visits together, however these differ.
        is_even = all(
            size * count == whole for size, count, whole in zip(*visits, einsum.bounds, strict=True)
        )
        above = frozenset(einsum.stay).difference(v for v, _ in deep)
        kind = Kind(*visits, above, held, None, not is_even, deep)
        all_of_it, inside = (partial(self.problem, einsum, without=own) for own in (False, True))
        free = least(inside, einsum, kind, refute, energy=free)
        paid = least(all_of_it, einsum, kind, refute, energy=paid)
        return free, paid, least(inside, einsum, kind, refute, cycles=cycles)

    def problem(self, einsum: Einsum, kind: Kind, without: bool) -> Json:
        """The problem without rules for outermost loops, and `without` costs of the outermost memory.

        It has remainders wherever nests have any of which nothing is above.
        """
        given = einsum.doc_for(kind._replace(above=frozenset()))
        doc = unruled(einsum, einsum.visit(kind, None, is_relaxed=True, given=given))
        nodes, passing = doc["nodes"], [v for v in sorted(kind.above) if einsum.may_pass[v]]
        stores = [node for node in nodes[1:] if node["kind"] == "storage" and not is_toll(node)]
        homes = stores[: len(einsum.places)]
        for home in homes if passing else ():
            home["dataspaces"] = [
                self.cheaper(einsum, v) | {"size": own["size"]} if v in passing else own
                for v, own in enumerate(home["dataspaces"])
            ]
            home.update(UNLIMITED)
        if without:
            nodes[0]["dataspaces"] = [
                {**own, "read": 0, "fill": 0, "update": 0} for own in nodes[0]["dataspaces"]
            ]
        return doc

    @staticmethod
    def cheaper(einsum: Einsum, v: int) -> Json:
        """What the on-chip memory knows of a tile that may pass it by: the less of both energies.

        Nothing where their blocks differ, or where it exists several times: children may share accesses.
        """
        outside, inside = einsum.space.at[0][v], einsum.space.at[einsum.home][v]
        is_alike = inside["block"] == outside["block"] and not einsum.outside(1)
        keys = ("read", "fill", "update")
        return {**inside, **{key: min(inside[key], outside[key]) if is_alike else 0 for key in keys}}

    @remembered
    def least(self, j: int, exchanging: frozenset[int], cut: Cut, deep: Deep = ()) -> tuple[int, int, int]:
        """Least energy with and without what bypasses the on-chip memory; cycles but for networks.

        Visits that differ have claims of their own, kind by kind; whole vectors are rounded up for all.
        """
        einsum = self.cascade.einsums[j]
        kinds = [*einsum.kinds(cut)]
        wanted = exchanging if self.timed and len(kinds) == 1 else frozenset()
        found = [self.of_kind(einsum, deep, wanted, *kind) for kind in kinds]
        free, paid, cycles = (sum(column) for column in zip(*found, strict=True))
        spare = einsum.rounding() * (len(kinds) - 1)
        return max(0, free - spare), max(0, paid - spare), cycles

    @remembered
    def of_kind(
        self, einsum: Einsum, deep: Deep, wanted: frozenset[int], bounds: Numbers, trips: Numbers
    ) -> Numbers:
        """Least energy, twice, and cycles of visits with equal bounds, at least of their arithmetic.

        Claims on fewer trips hold as well: the other loops may be the outermost private ones.
        """
        pairs = [
            (own, many)
            for (*key, own), many in self.known.items()
            if key == [einsum.key, deep] and own <= wanted
        ]
        fitting = [
            (einsum, deep, own, *claim)
            for own, many in pairs
            for claim in many
            if all(map(holds, einsum.bounds, bounds, trips, *claim[0]))
        ]
        latency, computes = einsum.space.latency, prod(bounds) * prod(trips)
        energy = computes * einsum.doc["compute_energy"]
        costs = [(free, paid, cycles - latency * prod(own[1])) for *_, own, free, paid, cycles in fitting]
        best = [
            max(zip(column, fitting, strict=True), key=lambda pair: pair[0])
            for column in zip(*costs, strict=True)
        ]
        least = (energy, energy, -(-computes // einsum.units()))
        if not best:
            return least
        pairs = [*zip(best, least, strict=True)]
        self.used |= {(einsum.key, *claim[1:]): claim for (n, claim), own in pairs if n > own}
        return tuple(max(own, n) for (n, _), own in pairs)

    def arithmetic(self, j: int) -> tuple[int, int, int]:
        """What is paid and takes time however visits differ."""
        einsum = self.cascade.einsums[j]
        energy = einsum.space.computes * einsum.doc["compute_energy"]
        return energy, energy, -(-einsum.space.computes // einsum.units())


class Edges:
    """Bounds on the edges of a cascade: claims of a certificate, each checked, and closed forms."""

    def __init__(self, cascade: Cascade, doc: Json, left: Left, every: bool = True) -> None:
        self.cascade, self.counts_cycles = cascade, doc["objective"] != "energy"
        self.used: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        leaks = any(node.get("leak") for einsum in cascade.einsums for node in einsum.doc["nodes"])
        self.timed = timed = self.counts_cycles or leaks
        self.floors = Floors(cascade, [own for own in doc["least"] if every or is_once(own)], timed, left)
        self.claims: dict[tuple[Any, ...], list[Claim]] = defaultdict(list)
        self.settled: dict[tuple[Any, ...], list[Claim]] = defaultdict(list)
        self.left = left
        for claim in doc["edges"]:
            need(type(claim["ruled"]) is bool, "`ruled` is true or false")
            if every or claim["ruled"] or is_once(claim):
                self.add(cascade.einsums[claim["einsum"]], claim)
        for key, own in left.items():
            if key[0] == "learned":
                self.claims[key[1:3]].append((key[3], own, (None, *key[2:], Limits(), own, True)))
        self.filled: dict[tuple[Any, ...], list[Kind]] = defaultdict(list)
        for (key, kind), claims in self.claims.items():
            claims.sort(key=lambda claim: -claim[0])
            self.filled[key, kind._replace(fills=())].append(kind)

    def add(self, einsum: Einsum, claim: Json) -> None:
        """Add a claim, well formed."""
        above, room, homes = frozenset(claim["above"]), claim["room"], claim["homes"]
        held, corners = tuple(map(tuple, claim["held"])), tuple(map(tuple, claim["corners"]))
        lists = [[] if own is None else own for own in (homes, room if room is None else [room])]
        numbers = [*above, *claim["undivided"], *chain(*held, *corners, *lists)]
        need(all(type(n) is int and n >= 0 for n in numbers), "claims have natural numbers")
        need(type(claim["loose"]) is bool, "`loose` is true or false")
        need(
            not einsum.is_copy and above <= {*einsum.stay},
            "tiles above the nests are tiles that may be on chip",
        )
        need(room is not None or self.cascade.usable == inf, "claims state their space")
        homes = homes if homes is None else tuple(sorted(homes))
        deep, rooms = deep_of(self.cascade, einsum, claim), rooms_of(self.cascade, claim["rooms"], 2)
        fills, undivided = rooms_of(self.cascade, claim["fills"], 1), frozenset(claim["undivided"])
        need(undivided <= {*range(len(einsum.bounds))}, "undivided dimensions have numbers")
        limited = Limits(rooms, shares_of(einsum, claim), undivided)
        need(not above & dict(deep).keys(), "no tile is both above the nests and stored farther in")
        visits, held = visits_of(einsum, claim), held if self.timed else ()
        later, dims = claim["later"], range(len(einsum.bounds))
        need(all(type(d) is int and d in dims for d in later), "claims are about dimensions")
        kind = Kind(*visits, above, held, homes, claim["loose"], deep, frozenset(later), fills)
        most = inf if room is None else room
        # What is stored farther in may be moved by further shared loops, but not by private ones.
        ruled = claim["ruled"] and (bool(deep or fills) or einsum.is_any or not self.is_free(einsum))
        if claim["ruled"] or fills or einsum.doc_for(kind)["factors"] == "any":
            own = self.left.get((einsum.key, kind, room, limited, corners, True), corners)
            self.claims[einsum.key, kind].append((most, own, (einsum, kind, room, limited, own, True)))
        corners = self.left.get((einsum.key, kind, room, limited, corners, ruled), corners)
        stated = einsum, kind, room, limited, corners, ruled
        is_even = [a * b for a, b in zip(kind.bounds, kind.trips, strict=True)] == einsum.bounds
        is_even = is_even and homes is None and not (kind.loose or later or fills)
        is_whole = most >= self.cascade.usable and not rooms and not limited.shares
        if is_even and not ruled:
            self.settled[einsum.key, above, deep, is_whole].append((most, corners, stated))

    def verify(self, refute: Refute) -> bool:
        """Check all claims that something rests on; whether they count for what they say."""
        is_whole = self.floors.verify(refute)
        for key, stated in self.used.items():
            if key not in self.left:
                found = self.checked(*stated, refute)
                self.left |= {key: found, (*key[:-2], found, key[-1]): found}
        return is_whole and all(self.left[key] == key[-2] for key in self.used)

    def use(self, einsum: Einsum | None, *stated: Any) -> None:
        """Remember a claim that something rests on, unless it was found here."""
        if einsum is not None:
            self.used[einsum.key, *stated] = einsum, *stated

    def learn(self, edges: Iterable[Edge], refute: Refute) -> bool:
        """Find what edges of a path with remainders cost, first with all of the room; whether any is new."""
        is_new = False
        for j, cut, ways, held, room, fills in edges:
            for kind in self.visits(self.cascade.einsums[j], cut, ways, held, fills):
                is_new |= self.looked_at(self.cascade.einsums[j], kind, room, refute)
        return is_new

    def looked_at(self, einsum: Einsum, kind: Kind, room: Any, refute: Refute) -> bool:
        """Find what visits cost, unless that takes too much; whether it is new."""
        known = ("learned", einsum.key, kind)
        many = sum(key[0] == "learned" for key in self.left) > MOST_LEARNED
        if many or einsum.doc_for(kind)["factors"] == "perfect" or (*known, room) in self.left:
            return False
        most = self.cascade.usable if (*known, self.cascade.usable) not in self.left else room
        words = None if most == inf else int(most)
        space = Visits(einsum, kind, einsum.visit(kind, words))
        if not space.any or not is_small(space):
            return False
        self.left[(*known, most)] = front(space, self.counts_cycles, refute)
        return True

    def visits(
        self, einsum: Einsum, cut: Cut, ways: Sequence[Way], held: tuple[HeldTile, ...], fills: Rooms
    ) -> Iterator[Kind]:
        """Yield the kinds of visits that claims are about, with the outputs at each home if they differ."""
        above = frozenset(v for v, way in enumerate(ways) if way.stored == 1).union(v for v, *_ in held)
        deep, ((bounds, trips), *others) = deep_ways(ways), einsum.kinds(cut)
        if not others:
            yield Kind(bounds, trips, above, held if self.timed else (), deep=deep, fills=fills)
        for homes in einsum.all_homes(above, deep) if others else ():
            yield from einsum.unlike(cut, above, deep, homes, self.timed)

    def checked(self, einsum: Einsum, kind: Kind, *stated: Any) -> Corners:
        """What is left of a claim: nothing where a check takes too much, if others may do."""
        try:
            return self.check(einsum, kind, *stated)
        except CannotCheckError:
            if einsum.doc_for(kind)["factors"] == "perfect":
                raise
            return ((0, 0),)

    @staticmethod
    def check(
        einsum: Einsum,
        kind: Kind,
        room: int | None,
        limited: Limits,
        corners: Corners,
        ruled: bool,
        refute: Refute,
    ) -> Corners:
        """Check a claim: each mapping has the energy and the cycles of some corner; what is left of these."""

        def problem(kind: Kind) -> Json:
            doc = einsum.visit(kind, room, limited, is_relaxed=not ruled)
            return doc if ruled else unruled(einsum, doc)

        if not ruled and einsum.doc_for(kind)["factors"] == "any":
            energy, cycles = (corners[0][0], corners[-1][1]) if corners else (inf, inf)
            energy = least(problem, einsum, kind, refute, energy=energy)
            cycles = least(problem, einsum, kind, refute, cycles=cycles) if energy < inf else inf
            return ((energy, cycles),) if energy < inf else ()
        doc = problem(kind)
        ends = [(inf if not corners else corners[0][0], inf)]
        ends += [(other[0], own[1]) for own, other in pairwise(corners)]
        ends += [(inf, corners[-1][1])] if corners else []
        for energy, cycles in ends:
            if energy and cycles:
                query = Query(energy=energy - 1, latency=cycles - 1)
                found = satisfying(einsum, kind, doc, query, refute, limited.shares)
                what = f"{corners} (energy, cycles) in {prod(kind.trips):,} visits"
                need(not found, f"Einsum {einsum.number} costs at least {what}")
        return corners

    # Closed forms

    @remembered
    def fetched(self, j: int, v: int, cut: Cut) -> Way:
        """Ways of a tile that is neither stored nor held: what it exchanges with the outermost memory."""
        einsum = self.cascade.einsums[j]
        moved = einsum.touched(v, cut)
        first = min(moved, einsum.box(v, einsum.bounds)) if einsum.writes[v] else 0
        read, written = moved - first, moved if einsum.writes[v] else 0
        outside = einsum.space.at[0][v]

        def priced(p: int, action: str, words: int) -> int:
            return einsum.least_priced(Access(v, p, einsum.home, action, False), words)

        tolls = sum(
            priced(p, "read", read * down) + priced(p, "update", written * up)
            for p, down, up in einsum.tolls(v)
        )
        outer = tolls + priced(0, "read", read) + priced(0, "update", written)
        inner = priced(einsum.home, "fill", read)
        inner += priced(einsum.home, "read", written) if einsum.placed else 0
        energies = [outer + (inner if einsum.may_keep[v] else 0)]
        if einsum.may_pass[v] and einsum.may_keep[v]:
            cheap = self.floors.cheaper(einsum, v)
            more = [(n, outside[key] - cheap[key]) for n, key in ((read, "read"), (written, "update"))]
            energies.append(tolls + sum(n * own // outside["block"] for n, own in more))
        moves = self.loads(outside, read, written)
        return Way(0, max(0, min(energies)), *moves, not einsum.may_keep[v])

    def loads(self, outside: Json, read: int, written: int) -> tuple[Any, Any]:
        """What words load the bandwidths of the outermost memory, if cycles count."""
        up, down = outside["bandwidth_scale"] if self.counts_cycles else (0, 1)
        scale = up if down == 1 else Fraction(up, down)  # whole numbers are looked up faster
        return read * scale, written * scale

    @remembered
    def held(self, j: int, v: int, cut: Cut, shares: Spread = (), fetching: Cut | None = None) -> Way:
        """The way of a tile that is held below shared loops; `shares` says how fanouts divide it.

        All of it comes in each iteration of the `fetching` loops: all that cut it, unless others are given.
        """
        einsum = self.cascade.einsums[j]
        shift = einsum.held(v, fetching or cut, shares)
        words = [(own.kind, n) for own, n in einsum.shifted(shift, shares).items() if not own.p]
        read, written = (sum(n for own, n in words if own == kind) for kind in ("read", "write"))
        moves = self.loads(einsum.space.at[0][v], read, written)
        room = einsum.tile(v, cut, shares) * einsum.space.at[einsum.home][v]["size"]
        return Way(room, einsum.shift_energy((shift,), shares), *moves, held=True)

    def together(self, j: int, cut: Cut, ways: Sequence[Way], is_open: bool = False) -> tuple[int, int]:
        """Least energy and cycles of an Einsum, given per dataspace how its tile is kept.

        Where it `is_open`, further loops may cut dimensions into unequal parts.
        """
        einsum, deep = self.cascade.einsums[j], deep_ways(ways)
        exchanging = frozenset(v for v, way in enumerate(ways) if not way.passes and not way.stored)
        floors = self.floors
        free, paid, cycles = floors.arithmetic(j) if is_open else floors.least(j, exchanging, cut, deep)
        every = sum(way.energy for way in ways)
        energy = max(paid + every - sum(way.energy for way in ways if way.passes), free + every)
        if not self.counts_cycles:
            return energy, 0
        reads, writes = sum(way.reads for way in ways), sum(way.writes for way in ways)
        return energy, self.busy(einsum, cut, cycles, reads, writes)

    def busy(self, einsum: Einsum, cut: Cut, cycles: int, reads: Any, writes: Any) -> int:
        """Cycles, given those of all but the outermost memory, and the words that this moves."""
        visits = prod(sum(count for _, count in parts) for parts in cut)
        widths, latency = einsum.space.nodes[0]["bandwidths"], einsum.space.latency
        loads = {"read": reads, "write": writes, "shared": reads + writes}
        ported = [math.ceil(n / Fraction(*widths[kind])) for kind, n in loads.items() if widths[kind]]
        for port in einsum.space.nodes[0].get("ports", ()):
            ported.append(math.ceil(sum(loads[kind] * Fraction(*port[kind]) for kind in ("read", "write"))))
        return int(max([cycles, *ported])) + visits * int(latency)

    @remembered
    def least(self, j: int, cut: Cut, ways: tuple[Way, ...], is_open: bool = False) -> tuple[int, int]:
        """Least energy and cycles of an Einsum with such ways, by claims on fewer shared loops as well.

        These do not hold where it `is_open`: further loops may cut dimensions into unequal parts.
        """
        energy, cycles = self.together(j, cut, ways, is_open)
        if is_open:
            return energy, cycles
        above = frozenset(v for v, way in enumerate(ways) if way.stored == 1 or way.held)
        undivided = self.cascade.einsums[j].undivided(
            above, frozenset(v for v, way in enumerate(ways) if way.held)
        )
        corners = self.coarser(self.cascade.einsums[j], cut, above, deep_ways(ways), (), undivided)
        shift = sum(way.energy for way in ways if way.held)
        return max(energy, corners[0][0] + shift), max(cycles, corners[-1][1])

    @remembered
    def choices(
        self, j: int, cut: Cut, ways: tuple[Way, ...], held: tuple[HeldTile, ...], given: Given
    ) -> list[tuple[int, int, int]]:
        """Energy, cycles and room of own tiles: each mapping has all three of some choice at least."""
        einsum, deep = self.cascade.einsums[j], deep_ways(ways)
        energy, cycles = self.together(j, cut, ways)
        above = frozenset(v for v, way in enumerate(ways) if way.stored == 1).union(v for v, *_ in held)
        shift = einsum.shift_energy(held, given.shares)
        needed = max(einsum.least_words(above.union(v for v, _ in deep)), dict(given.fills).get(1, 0))
        coarser = self.coarser(einsum, cut, above, deep, held, given.undivided)
        closed = joint([(energy - shift, cycles)], coarser)
        claims = self.claims_on(einsum, cut, above, deep, held, given, closed)
        found, rooms = [], [*(room for room, _ in claims), -1]
        if not claims or claims[0][0] < self.cascade.usable:
            found += [(own, max(rooms[0] + 1, needed)) for own in closed]
        for (_, corners), below in zip(claims, rooms[1:], strict=True):
            found += [(own, max(below + 1, needed)) for own in corners]
        return [(energy + shift, cycles, words) for (energy, cycles), words in found]

    def claims_on(
        self,
        einsum: Einsum,
        cut: Cut,
        above: frozenset[int],
        deep: Deep,
        held: tuple[HeldTile, ...],
        given: Given,
        closed: Corners,
    ) -> list[tuple[Any, Corners]]:
        """Corners of all mappings of an edge, by falling room, as far as claims say more than closed forms.

        Words of held tiles only take more cycles.
        """
        ((bounds, trips), *others) = einsum.kinds(cut)
        if others:
            unlike = self.joined(einsum, cut, above, deep, given)
            return [(room, joint(closed, corners)) for room, corners in unlike]
        words = held if self.timed else ()
        kinds = [Kind(bounds, trips, above, own, deep=deep) for own in dict.fromkeys((words, ()))]
        known = [*chain.from_iterable(self.claims_with(einsum, kind, given.fills) for kind in kinds)]
        known += further(self.narrower((einsum.key, above, deep, False)), trips, words)
        known += self.of_fetched(einsum, kinds[0], [v for v, *_ in held], given)
        claims = sorted((own for own in known if is_about(own, given)), key=strength, reverse=True)
        found: dict[Any, Corners] = {}
        for room, corners, stated in claims:
            more = joint(closed, corners)
            if more != closed:
                closed = found[room] = more
                self.use(*stated)
        return [*found.items()]

    def of_fetched(self, einsum: Einsum, kind: Kind, held: Sequence[int], given: Given) -> Iterator[Claim]:
        """Yield claims that nothing fills memories farther in if a held tile is fetched instead.

        It would take no more room than it is held in.
        """
        if not given.fills or 1 in dict(given.fills) or self.cascade.instances(1) > 1:
            return
        for v in held:
            words = tuple(own for own in kind.held if own[0] != v)
            fetched = kind._replace(above=kind.above - {v}, held=words)
            claims = self.claims_with(einsum, fetched, given.fills)
            yield from (own for own in claims if not own[1] and own[0] >= self.cascade.usable)

    def claims_with(self, einsum: Einsum, kind: Kind, fills: Rooms) -> Iterator[Claim]:
        """Yield claims on visits whose own tiles take so many words of memories: on those that take fewer."""
        words = dict(fills)
        for own in self.filled.get((einsum.key, kind), ()):
            if all(least <= words.get(n, 0) for n, least in own.fills):
                yield from self.claims[einsum.key, own]

    def joined(
        self, einsum: Einsum, cut: Cut, above: frozenset[int], deep: Deep, given: Given
    ) -> list[tuple[Any, Corners]]:
        """Corners of visits that differ: the sum over their kinds, with the output in common memories.

        Bandwidths, which all visits load together, do not count; whole vectors are rounded up for all. The
        tiles of visits of some kind have to fill each memory.
        """
        kinds = [*einsum.unlike(cut, above, deep)]
        spare, options = einsum.rounding() * (len(kinds) - 1), []
        large = product(range(len(kinds)), repeat=len(given.fills))
        for homes, at in product(einsum.all_homes(above, deep), large):
            each = [kind._replace(homes=homes, loose=self.timed) for kind in kinds]
            shares = [
                tuple(own for own, k in zip(given.fills, at, strict=True) if k == n) for n in range(len(each))
            ]
            known = [self.claims_with(einsum, *own) for own in zip(each, shares, strict=True)]
            options.append([[own for own in claims if is_about(own, given)] for claims in known])
        found: list[tuple[Any, Corners]] = []
        for room in sorted({own[0] for many in chain(*options) for own in many}, reverse=True):
            open_ = [own for claims in options if (own := self.at_room(claims, room, spare))]
            best = (min(energy for energy, _ in open_), min(cycles for _, cycles in open_)) if open_ else None
            found.append((room, (best,) if best else ()))
        return found

    def at_room(self, claims: Sequence[Sequence[Claim]], room: Any, spare: int) -> tuple[int, int] | None:
        """Least energy and cycles of all kinds of visits with some room; None if one has no mapping."""
        energy = cycles = 0
        for many in claims:
            fitting = [(corners, stated) for most, corners, stated in many if most >= room]
            if not fitting:
                continue
            for _, stated in fitting:
                self.use(*stated)
            corners = reduce(joint, (corners for corners, _ in fitting))
            if not corners:
                return None
            energy, cycles = energy + corners[0][0], cycles + corners[-1][1]
        return max(0, energy - spare), cycles

    @remembered
    def coarser(
        self,
        einsum: Einsum,
        cut: Cut,
        above: frozenset[int],
        deep: Deep,
        held: tuple[HeldTile, ...],
        undivided: frozenset[int],
    ) -> Corners:
        """Corners by claims on fewer shared loops: the others may be the outermost private ones."""
        ((_, trips), *others) = einsum.kinds(cut)
        if others:
            return ((0, 0),)
        ranked = self.ranked((einsum.key, above, deep, True), undivided)
        best = [next(further(own, trips, held), None) for own in ranked]
        for claim in filter(None, best):
            self.use(*claim[2])
        return reduce(joint, (claim[1] or ((inf, inf),) for claim in best if claim), ((0, 0),))

    @remembered
    def ranked(self, key: tuple[Any, ...], undivided: frozenset[int]) -> list[Settled]:
        """Settled claims that say anything, by falling least energy, and by falling least cycles."""
        every, found = self.settled.get(key, []), []
        claims = [own for own in every if own[2][3].undivided <= undivided]
        for end, i in ((0, 0), (-1, 1)):
            pairs = [((own[1] or ((inf, inf),))[end][i] - i * waits(own), own) for own in claims]
            pairs = sorted(pairs, key=lambda pair: (pair[0], len(pair[1][1]) or 1), reverse=True)
            found.append(with_trips([own for least, own in pairs if least > 0]))
        return found

    @remembered
    def narrower(self, key: tuple[Any, ...]) -> Settled:
        """Settled claims on edges with less than all of the room."""
        return with_trips(self.settled.get(key, []))

    @staticmethod
    def is_free(einsum: Einsum) -> bool:
        """Whether the outermost memory may have any loops in any order."""
        groups = einsum.doc["nodes"][1 : einsum.home]
        groups = [node["factors"] for node in groups if node["kind"] == "temporal"]
        return groups == [[divisors(n) for n in einsum.bounds]] or einsum.space.computes == 1


def with_trips(claims: list[Claim]) -> Settled:
    """Claims with their trips."""
    return claims, np.array([own[2][1].trips for own in claims], np.int64)


def strength(claim: Claim) -> tuple[Any, ...]:
    """What claims are ordered by: room, and of those with as much the least energy and cycles."""
    room, corners, _ = claim
    return room, (corners[0][0], corners[-1][1]) if corners else (inf, inf)


def waits(claim: Claim) -> int:
    """Cycles of networks in all visits of a claim."""
    _, _, (einsum, kind, *_) = claim
    cycles: int = einsum.space.latency * prod(kind.trips)
    return cycles


def further(settled: Settled, trips: Numbers, held: Iterable[HeldTile]) -> Iterator[Claim]:
    """Yield claims on as many trips or fewer, and no more words of held tiles read or written.

    Networks take as long again in each further visit.
    """
    claims, every = settled
    if not claims:
        return
    moved = {v: (words, words - first) for v, words, first in held}
    for n in np.flatnonzero((np.array(trips, np.int64) % every == 0).all(axis=1)):
        most, corners, (einsum, kind, *_) = claims[n]
        less = (map(ge, moved.get(v, (0, 0)), (words, words - first)) for v, words, first in kind.held)
        if all(map(all, less)):
            more = einsum.space.latency * prod(trips) - waits(claims[n])
            yield most, tuple((energy, cycles + more) for energy, cycles in corners), claims[n][2]


def least(problem: Posed, einsum: Einsum, kind: Kind, refute: Refute, **claimed: int | float) -> Any:
    """The energy or the cycles that a claim on further shared loops says, or what is left of it.

    With perfect factors these may be the outermost private loops: then it holds or not. With remainders, it
    is looked at for all of them together, or for each way to cut, if there are few. `problem` makes one.
    """
    (most,) = claimed.values()
    if not most:
        return most
    doc = problem(kind)
    if doc["factors"] == "any":
        space = Visits(einsum, kind, doc)
        found = floor(space, **claimed, is_further=True)
        if found == most or not is_small(space):
            return found
        return max(found, least_of_cuts(problem, einsum, kind, refute, claimed))
    query = Query(**{QUERIED[key]: most - 1 for key in claimed})
    holds = not satisfying(einsum, kind, doc, query, refute)
    what = f"{most:,} {'units of energy' if 'energy' in claimed else 'cycles'}"
    need(holds, f"Einsum {einsum.number} costs at least {what} with all its tiles on chip")
    return most


def least_of_cuts(
    problem: Posed, einsum: Einsum, kind: Kind, refute: Refute, claimed: Mapping[str, int | float]
) -> Any:
    """What is left of a claim for each way to cut, by tables and then by a query; 0 if there are many.

    What networks take longer in further visits does not count.
    """
    cuts = [*vectors(kind.bounds)] if prod(map(len, map(divisors, kind.bounds))) <= MOST_CUTS else []
    (key, found), pairs = *claimed.items(), [*zip(kind.bounds, kind.trips, strict=True)]
    for cut in cuts:
        bounds = tuple(n // count for (n, _), count in zip(pairs, cut, strict=True))
        trips = tuple(n * count for (_, n), count in zip(pairs, cut, strict=True))
        own = kind._replace(bounds=bounds, trips=trips)
        space = Visits(einsum, own, problem(own))
        space.latency //= prod(cut)
        less = floor(space, found, inf) if key == "energy" else floor(space, inf, found)
        if less < found and not excludes(space, Query(**{QUERIED[key]: found - 1}), refute):
            found = less
    return found if cuts else 0


def is_small(space: Space) -> bool:
    """Whether a mapspace is small enough for queries that no claim asks for."""
    return prod(map(len, space.numbers)) <= MOST_POINTS and len(space.spatial) <= MOST_SPATIAL


def excludes(space: Space, query: Query, refute: Refute) -> bool:
    """Whether no mapping satisfies a query; False where that takes too much."""
    try:
        return not refute(space, query)
    except CannotCheckError:
        return False


def front(space: Space, counts_cycles: bool, refute: Refute) -> Corners:
    """Corners of all mappings of visits; as far as queries take little, those of the best ones."""
    limit = (1 << 62) - 1
    found: list[tuple[Any, Any] | None] = []
    floors = floor(space, energy=limit), floor(space, cycles=limit) if counts_cycles else 0
    with suppress(CannotCheckError):
        found += islice(best_of(space, counts_cycles, refute), MOST_CORNERS + 1)
    corners = tuple(own for own in found if own is not None)
    if len(corners) < len(found):
        return corners
    return (*corners, (max(floors[0], corners[-1][0] if corners else 0), floors[1]))


def best_of(space: Space, counts_cycles: bool, refute: Refute) -> Iterator[tuple[Any, Any] | None]:
    """Yield energy and cycles of mappings of which none is better in both; None after the last one."""
    cap = inf
    while (energy := optimum(space, "energy", {"latency": cap}, refute)) < inf:
        cycles = optimum(space, "latency", {"energy": energy}, refute) if counts_cycles else 0
        yield energy, cycles
        cap = cycles - 1
    yield None


def optimum(space: Space, key: str, limits: Mapping[str, int | float], refute: Refute) -> int | float:
    """The least energy or cycles within limits, found by queries."""
    least = inf
    while found := refute(space, Query(**{**limits, key: least - 1})):
        least = found[key]
    return least


def visits_of(einsum: Einsum, claim: Json) -> VisitKind:
    """Bounds of the visits that a claim is about, and how many there are, per dimension."""
    bounds, trips = tuple(claim["bounds"]), tuple(claim["trips"])
    whole = all(type(n) is int and n > 0 for n in (*bounds, *trips))
    need(whole and len(bounds) == len(trips) == len(einsum.bounds), "claims are about some visits")
    return bounds, trips


def deep_of(cascade: Cascade, einsum: Einsum, claim: Json) -> Deep:
    """What a claim has stored in memories farther in: dataspaces, and numbers of memories."""
    deep, known = tuple(map(tuple, claim["deeper"])), cascade.known
    need(
        all(len(own) == 2 and natural([*own]) for own in deep),
        "stored dataspaces and their memories have numbers",
    )
    need([v for v, _ in deep] == sorted(dict(deep)), "dataspaces are stored once, in order")
    places = range(len(einsum.tensors))
    may_store = all(v in places and n in known and n in einsum.may_store[v] for v, n in deep)
    need(may_store, "dataspaces are stored where they may be")
    return deep


def rooms_of(cascade: Cascade, pairs: Any, first: int) -> Rooms:
    """Words of on-chip memories that a claim is about, by number, from a `first` one on."""
    rooms: Rooms = tuple(map(tuple, pairs))
    numbers = range(first, len(cascade.rooms) + 1)
    whole = all(len(own) == 2 and {*map(type, own)} == {int} and own[1] >= 0 for own in rooms)
    need(whole and [n for n, _ in rooms] == sorted({n for n, _ in rooms}), "rooms have numbers, in order")
    need(all(n in numbers for n, _ in rooms), "rooms are those of on-chip memories")
    return rooms


def shares_of(einsum: Einsum, claim: Json) -> Spread:
    """Spatial loops of the mappings of a claim, by fanout."""
    shares = tuple((number, tuple(map(tuple, loops))) for number, loops in claim["shares"])
    numbers, dims = range(len(einsum.space.fans)), range(len(einsum.bounds))
    known = all(type(number) is int and number in numbers for number, _ in shares)
    need(known and len(dict(shares)) == len(shares), "fanouts have numbers")
    loops = [own for _, loops in shares for own in loops]
    whole = all(len(own) == 2 and {*map(type, own)} == {int} and own[0] in dims for own in loops)
    need(whole and all(n > 1 for _, n in loops), "fanouts have loops")
    return shares


def is_about(claim: Claim, given: Given) -> bool:
    """Whether a claim is about all mappings in the room, and with the spatial loops, that are known."""
    *_, (_, _, _, limited, *_) = claim
    known = dict(given.shares)
    roomy = all(own >= given.rooms[n - 1] for n, own in limited.rooms)
    return (
        roomy
        and all(known.get(n) == own for n, own in limited.shares)
        and limited.undivided <= given.undivided
    )


def joint(one: Iterable[tuple[Any, Any]], other: Iterable[tuple[Any, Any]]) -> Corners:
    """Corners of mappings that have the energy and the cycles of some corner of each of two lists."""
    kept: list[tuple[Any, Any]] = []
    for corner in sorted((max(a, c), max(b, d)) for (a, b), (c, d) in product(one, other)):
        if not kept or corner[1] < kept[-1][1]:
            kept.append(corner)
    return tuple(kept)


def deep_ways(ways: Iterable[Way]) -> Deep:
    """Dataspaces that wait in memories farther in, and the numbers of these."""
    return tuple((v, way.stored) for v, way in enumerate(ways) if way.stored > 1)


def holds(whole: int, size: int, count: int, own_size: int, own_count: int) -> bool:
    """Whether a claim on visits is one on others as well: along a dimension, with its extents and counts."""
    same = (size, count) == (own_size, own_count)
    return same or (size * count == own_size * own_count == whole and count % own_count == 0)


def undominated(ways: Iterable[Way]) -> list[Way]:
    """The ways to keep a tile of which no other one of its kind has no more of anything."""
    kept: list[Way] = []
    for way in sorted(ways):
        if not any(own[4:] == way[4:] and all(map(le, own[:4], way[:4])) for own in kept):
            kept.append(way)
    return kept


def is_toll(node: Json) -> bool:
    """Whether words only pass a node, for a toll."""
    return any("toll" in own for own in node["dataspaces"])


def is_once(claim: Json) -> bool:
    """Whether a claim is about an Einsum without shared loops."""
    return prod(claim["trips"]) == 1


def unruled(einsum: Einsum, doc: Json) -> Json:
    """A problem in which the outermost memory may have any loops in any order."""
    old = doc["nodes"]
    inner = [n for n, node in enumerate(old) if n and (n > einsum.home or node["kind"] != "temporal")]
    number = {0: 0} | {n: place + 2 for place, n in enumerate(inner)}
    memories = [
        {
            **own,
            "places": [number[p] for p in own["places"]],
            "groups": [[number[p] for p in group] for group in own["groups"]],
        }
        for own in doc.get("memories", [])
    ]
    is_any = doc["factors"] == "any"
    free = [[1, n] if is_any else divisors(n) for n in doc["bounds"]]
    every = {"kind": "temporal", "name": "", "factors": free}
    nodes = [dict(old[0]), every, *(dict(old[n]) for n in inner)]
    for node in nodes:
        if "leak_fanouts" in node:
            node["leak_fanouts"] = [number[p] for p in node["leak_fanouts"]]
    keep = ([[number[p] for p in kept] for kept in own["keep"]] for own in doc["dataspaces"])
    spaces = [{**own, "keep": sets} for own, sets in zip(doc["dataspaces"], keep, strict=True)]
    doc = {**doc, "nodes": nodes, "dataspaces": spaces}
    if "free_order" in doc:
        doc["free_order"] = [number[p] for p in doc["free_order"]]
    return {**doc, "memories": memories} if memories else doc
