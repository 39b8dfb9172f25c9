"""One Einsum between two cuts: the mapspace of its visits, and mappings of it with their costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple

from model.architecture import Architecture, Bandwidth, Fanout, Packing, StorageLevel
from model.cost.order import seen_by
from model.cost.prices import access_energy, paid_energy, paying_instances
from model.counting.words import tile_words
from model.extents import ANY, PERFECT
from model.fused.cascade import CascadeEinsum, lone_dims
from model.fused.mapping import PrivateNest, nest_in_order
from model.fused.nests import nest_bounds
from model.mapping import FanoutMapping, Loop, NodeMapping, SpatialLoop, StorageMapping
from model.mapping import Mapping as LoopNest
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.orders import Order, in_order, with_first_places
from model.places import spread
from model.problem import Dataspace, Problem, Term
from solver.fusion.amounts import Amount

VISIT = "visit"
"""The dimension of visits; primes are added where an Einsum has one of that name."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What a held tile exchanges with the outermost memory in the whole execution, in words.

    `first` of them are touched there for the first time, if they are an output's.
    """

    dataspace: str
    moved: Amount
    first: Amount = 0

    @property
    def fetched(self) -> Amount:
        """Words that are read outside and filled inside."""
        return self.moved - self.first


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """All that the cost of an Einsum depends on, but the room that is left for its own tiles.

    Parameters
    ----------
    place
        In the cascade.
    trips
        By how much shared loops divide its dimensions, where that is more than 1; sorted by name.
    above
        Dataspaces that are stored or held in the outermost on-chip memory, above the nests.
    shifts
        One per held tile.
    parts
        Of dimensions whose parts are not alike, the extents and how many there are of each; sorted by name.
    homes
        Levels at which the nests keep the outputs; None leaves that open.
    remainders
        Whether loops of the nests may have remainders.
    deeper
        Dataspaces that are stored in memories farther in, and the numbers of these among the on-chip ones,
        of which the outermost one is 1; sorted by name.
    shares
        Spatial loops of fanouts that spread what is stored farther in, if that is known: by fanout, the
        dimensions and children.
    rooms
        Words that are left of memories farther in for own tiles, by number; all that they have, without one.
    least
        Words that own tiles have to take of a memory at the least, by number, where that is more than none.
    undivided
        Dimensions that no spatial loop outside of the outermost on-chip memory parts, for the sake of what
        is above; sorted.
    later
        Dimensions along which visits of other bounds come before these: what does not depend on them all, is
        not touched first in any.
    """

    place: int
    trips: tuple[tuple[str, int], ...] = ()
    above: frozenset[str] = frozenset()
    shifts: tuple[Shift, ...] = ()
    parts: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    homes: frozenset[int] | None = None
    remainders: bool = False
    deeper: tuple[tuple[str, int], ...] = ()
    rooms: tuple[tuple[int, int], ...] = ()
    shares: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
    least: tuple[tuple[int, int], ...] = ()
    undivided: tuple[str, ...] = ()
    later: frozenset[str] = frozenset()

    @property
    def at_home(self) -> frozenset[str]:
        """Dataspaces that have their tile above the nests, in whatever memory."""
        return self.above | {name for name, _ in self.deeper}

    @property
    def is_mixed(self) -> bool:
        """Whether visits have different bounds: then each kind of them has a nest of its own."""
        return any(len(sizes) > 1 for _, sizes in self.parts)

    def renamed(self, place: int, dims: Mapping[str, str], dataspaces: Mapping[str, str]) -> EdgeKind:
        """Return the kind of an Einsum that differs in names alone."""
        return replace(
            self,
            place=place,
            trips=tuple(sorted((dims[dim], count) for dim, count in self.trips)),
            above=frozenset(dataspaces[name] for name in self.above),
            shifts=tuple(replace(own, dataspace=dataspaces[own.dataspace]) for own in self.shifts),
            parts=tuple(sorted((dims[dim], sizes) for dim, sizes in self.parts)),
            deeper=tuple(sorted((dataspaces[name], level) for name, level in self.deeper)),
            shares=tuple((n, tuple((dims[dim], count) for dim, count in own)) for n, own in self.shares),
            undivided=tuple(sorted(dims[dim] for dim in self.undivided)),
            later=frozenset(dims[dim] for dim in self.later),
        )

    def alike(self) -> Iterator[EdgeKind]:
        """Yield the kinds of visits, each as if it were all, with nothing held."""
        names = [dim for dim, _ in self.parts]
        for chosen in product(*(sizes for _, sizes in self.parts)):
            counts = {dim: count for dim, (_, count) in zip(names, chosen, strict=True)}
            trips = tuple((dim, counts.get(dim, number)) for dim, number in self.trips)
            parts = tuple((dim, (own,)) for dim, own in zip(names, chosen, strict=True))
            firsts = ((dim, sizes[0], own) for (dim, sizes), own in zip(self.parts, chosen, strict=True))
            later = frozenset(dim for dim, first, own in firsts if own != first)
            yield replace(self, trips=trips, shifts=(), parts=parts, later=later)

    @property
    def visits(self) -> int:
        """How often the Einsum runs."""
        return math.prod(trips for _, trips in self.trips)


class Point(NamedTuple):
    """A mapping: energy and cycles without held tiles' energy, room of its own tiles, and its loop nests.

    There is a nest for each kind of visits. Where energy and cycles are bounds, `paid` has those of the
    nests: kinds of visits cost no more together than one by one, or there was no time for a closer bound.
    `inner_words` are needed of memories farther in that may store tensors; `homes` are the levels at which
    all kinds of visits keep outputs. With less than `room_words` for own tiles, bounds may be closer.
    `order` is that of the memories, where the nest may have one of its own.
    """

    energy: int
    cycles: int
    need_words: int
    nests: tuple[LoopNest, ...]
    paid: tuple[int, int] | None = None
    inner_words: tuple[int, ...] = ()
    homes: frozenset[int] | None = None
    room_words: int = 0
    order: Order | None = None

    def as_paid(self) -> Point:
        """With the costs of the nests."""
        return self if self.paid is None else self._replace(energy=self.paid[0], cycles=self.paid[1])


class Left(NamedTuple):
    """Room that is left for own tiles: of the outermost on-chip memory, and of those farther in."""

    words: int | None
    inner: tuple[int | None, ...]

    def has_room(self, point: Point) -> bool:
        """Whether a mapping has enough of it."""
        pairs = zip((self.words, *self.inner), (point.need_words, *point.inner_words), strict=True)
        return all(room is None or need <= room for room, need in pairs)


class Choice(NamedTuple):
    """What an edge costs, or at the least, where at least `need_words` are left for its own tiles.

    `point` is the mapping that does so; without one, it is a bound.
    """

    energy: int
    cycles: int
    need_words: int
    point: Point | None

    @property
    def room_words(self) -> int:
        """Words that have to be left; where bounds may be closer with less, more than are needed."""
        return self.need_words if self.point is None else max(self.need_words, self.point.room_words)


def dense(space: Dataspace, whole: Mapping[str, int]) -> Dataspace:
    """Return a dataspace of no more words than are touched: where factors leave holes, without them.

    Sums of indices take no fewer values than without factors.

    Parameters
    ----------
    whole
        Extents of the dimensions that no shared loop cuts.
    """
    seen, ranks = set[str](), []
    for terms in space.ranks:
        if seen.isdisjoint(term.dim for term in terms):
            used = tuple(term for term in terms if term.coefficient)
            plain = tuple(replace(term, coefficient=1) for term in used)
            ranks.append(used if _is_gapless(used, whole) else plain)
        seen.update(term.dim for term in terms)
    return replace(space, ranks=tuple(ranks))


def _is_gapless(terms: Sequence[Term], whole: Mapping[str, int]) -> bool:
    """Whether sums of indices leave no value out, however loops cut the other dimensions."""
    reach = 0
    for term in sorted(terms, key=lambda own: abs(own.coefficient)):
        if abs(term.coefficient) > reach + 1:
            return False
        reach += abs(term.coefficient) * (whole.get(term.dim, 1) - 1)
    return True


@dataclass(frozen=True)
class EdgeSpace:
    """An edge as a mapspace of one Einsum: all of its visits, one after the other.

    The visits are the outermost loop, over a dimension of their own that indexes all dataspaces, so that
    nothing stays from one to the next. What is stored or held above the nests comes from the outermost
    on-chip memory, without room; bandwidths carry the words of held tiles besides. Of visits with several
    bounds it is one kind.

    Parameters
    ----------
    timed
        Whether words of held tiles matter to cycles.
    unlimited
        Whether no bandwidth limits anything.
    is_relaxed
        Whether loops outside may move what is stored in memories farther in: as if further loops were shared.
    """

    einsum: CascadeEinsum
    kind: EdgeKind
    timed: bool = True
    unlimited: bool = False
    is_relaxed: bool = False

    @cached_property
    def visit(self) -> str:
        """Name of the dimension of visits."""
        name = VISIT
        while name in self.einsum.problem.dims:
            name += "'"
        return name

    @property
    def _many(self) -> bool:
        return self.kind.visits > 1

    @cached_property
    def extents(self) -> dict[str, int]:
        """Bounds of a visit."""
        trips = dict(self.kind.trips)
        sizes = {dim: size for dim, ((size, _), *_) in self.kind.parts}
        bounds = self.einsum.problem.bound
        return {dim: sizes.get(dim, bound // trips.get(dim, 1)) for dim, bound in bounds.items()}

    def mapspace(self, room_words: int | None) -> Mapspace:
        """The mapspace where own tiles may take so much room of the outermost on-chip memory."""
        return with_places_of(self.einsum, self.even_mapspace(room_words), self.kind.above)

    def even_mapspace(self, room_words: int | None) -> Mapspace:
        """The mapspace of `mapspace`, but with one place for each memory."""
        own = self.einsum.mapspace
        return replace(
            own,
            problem=self.problem,
            architecture=self._architecture(room_words),
            temporal=tuple(self._temporal(level, rules) for level, rules in enumerate(own.temporal)),
            spatial=tuple(self._spatial(number, rules) for number, rules in enumerate(own.spatial)),
            keep=tuple(self._keep(level, rules) for level, rules in enumerate(own.keep)),
            notes=(),
            factors=ANY if self.kind.remainders else PERFECT,
        )

    @cached_property
    def problem(self) -> Problem:
        """The Einsum in one visit, with the dimension of visits."""
        problem = self.einsum.problem
        if not self._many:
            return replace(problem, name="", bounds=tuple(self.extents.values()))
        rank = ((Term(self.visit),),)
        return Problem(
            "",
            (*problem.dims, self.visit),
            (*self.extents.values(), self.kind.visits),
            tuple(replace(space, ranks=(*space.ranks, *rank)) for space in problem.dataspaces),
        )

    def _architecture(self, room_words: int | None) -> Architecture:
        architecture = self.einsum.mapspace.architecture
        places = architecture.storage_indices
        nodes = list(architecture.nodes)
        for number, position in enumerate(places):
            level = nodes[position]
            assert isinstance(level, StorageLevel)
            nodes[position] = self._level(number, level, room_words)
        return replace(architecture, nodes=tuple(nodes))

    def _level(self, number: int, level: StorageLevel, room_words: int | None) -> StorageLevel:
        level = replace(
            level,
            min_utilization=Fraction(0),
            free_first_touches=tuple(self._free()),
            network_fill_latency=level.network_fill_latency * self.kind.visits,
            network_drain_latency=level.network_drain_latency * self.kind.visits,
        )
        if self.unlimited:
            level = unlimited(level)
        if number > self._home_number:
            return self._inner_level(number, level)
        level = self._loaded(number, level) if self.timed else level
        return level if number < self._home_number else self._roomy(1, level, self.kind.above, room_words)

    def _inner_level(self, number: int, level: StorageLevel) -> StorageLevel:
        """A memory farther in: what it stores takes no room, and leaves some."""
        stored = frozenset(name for name, home in self._deeper if home == number)
        memory = next((m for m, own in enumerate(self._numbers, start=1) if own == number), 0)
        room, least = dict(self.kind.rooms).get(memory), dict(self.kind.least)
        if room is not None or memory in least:
            return self._roomy(memory, level, stored, level.usable_words if room is None else room)
        return replace(level, packing=self._packing(level, stored)) if stored else level

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        """Numbers among the levels of the on-chip memories."""
        levels = self.einsum.mapspace.architecture.levels
        return tuple(number for number, level in enumerate(levels) if number and not level.tolls)

    def _number(self, memory: int) -> int:
        """Number among the levels of an on-chip memory."""
        return self._numbers[memory - 1]

    @cached_property
    def _deeper(self) -> tuple[tuple[str, int], ...]:
        """What is stored farther in, with numbers among the levels."""
        return tuple((name, self._number(memory)) for name, memory in self.kind.deeper)

    def _free(self) -> Iterator[tuple[str, Fraction]]:
        """Yield the share of visits that are the first to touch their part of an output."""
        for space in (own for own in self.einsum.problem.dataspaces if own.read_write):
            again = math.prod(trips for dim, trips in self.kind.trips if dim not in space.dims)
            if self.kind.later - space.dims:
                yield space.name, Fraction(0)
            elif again > 1:
                yield space.name, Fraction(1, again)

    def _loaded(self, number: int, level: StorageLevel) -> StorageLevel:
        reads = writes = Fraction(0)
        for shift in self.kind.shifts:
            scale = level.scale(shift.dataspace)
            read, fill, update = self._exchanged(shift, number, level)
            reads, writes = reads + read * scale, writes + (fill + update) * scale
        if not self._is_parted:
            position = self.einsum.mapspace.architecture.storage_indices[number]
            instances = self.einsum.mapspace.architecture.instances_above(position)
            reads, writes = reads / instances, writes / instances
        return replace(level, other_reads=reads, other_writes=writes)

    @cached_property
    def _home_number(self) -> int:
        """Number of the outermost on-chip memory among the levels."""
        return 1 + len(self.einsum.mapspace.architecture.outer_tolls)

    def _exchanged(self, shift: Shift, number: int, level: StorageLevel) -> tuple[int, int, int]:
        """Reads, fills and updates of a held tile's words: outside, where they pay tolls, and on chip.

        Those of one instance; at the least of all together, where it is open how spatial loops part it.
        """
        shift = self._of_instance(shift, number)
        if number == self._home_number:
            return self._drained(shift), shift.fetched, 0
        name = shift.dataspace
        if level.tolls and name not in level.passing:
            return 0, 0, 0
        written = shift.moved if self.einsum.space(name).read_write else 0
        return shift.fetched * level.charges(name, "down"), 0, written * level.charges(name, "up")

    @cached_property
    def _outside(self) -> tuple[int, ...]:
        """Fanouts outside of the outermost on-chip memory."""
        return fanouts_outside(self.einsum.mapspace.architecture, 1)

    @cached_property
    def _is_parted(self) -> bool:
        """Whether the spatial loops outside of the outermost on-chip memory are known."""
        return dict(self.kind.shares).keys() >= set(self._outside)

    def _of_instance(self, shift: Shift, number: int) -> Shift:
        """What one instance of a level exchanges, which serves several ones of the on-chip memory."""
        if not self._outside or not self._is_parted:
            return shift
        space, architecture = self.einsum.space(shift.dataspace), self.einsum.mapspace.architecture
        position, moved, first = architecture.storage_indices[number], shift.moved, shift.first
        for fanout in self._outside:
            loops = dict(self.kind.shares)[fanout]
            parts = math.prod(count for dim, count in loops if dim in space.dims)
            if architecture.fanout_indices[fanout] < position:
                moved, first = moved // parts, first // parts
            elif space.name in architecture.fanouts[fanout].no_multicast:
                moved *= math.prod(count for dim, count in loops if dim not in space.dims)
        return replace(shift, moved=moved, first=first)

    def _used(self, number: int) -> tuple[int, int]:
        """Instances of a level that are in use, and those that pay."""
        architecture = self.einsum.mapspace.architecture
        level, position = architecture.levels[number], architecture.storage_indices[number]
        outside = [n for n in self._outside if architecture.fanout_indices[n] < position]
        used = 1
        if self._is_parted:
            loops = dict(self.kind.shares)
            used = math.prod(count for fanout in outside for _, count in loops[fanout])
        elif outside and level.cluster_size > 1:
            return 1, 0  # what instances share may cost less
        return used, paying_instances(level, architecture.instances_above(position), used)

    def _drained(self, shift: Shift) -> int:
        """Words that the on-chip memory reads to hand them outside."""
        counted = self.einsum.mapspace.counting_rule.drains_are_reads
        return shift.moved if counted and self.einsum.space(shift.dataspace).read_write else 0

    def _roomy(
        self, memory: int, level: StorageLevel, above: frozenset[str], room_words: int | None
    ) -> StorageLevel:
        words = dict(self.kind.least).get(memory, 0)
        if room_words == 0 < words:
            room_words = 1  # no share of nothing is more than nothing: one word does not do either
            words += 1
        least = Fraction(words, room_words or 1)
        return replace(
            level,
            size_words=room_words,
            multiple_buffering=Fraction(1),
            min_utilization=least,
            packing=self._packing(level, above),
        )

    def _packing(self, level: StorageLevel, above: frozenset[str]) -> tuple[Packing, ...]:
        """How values lie in a memory where some dataspaces take no room."""
        return tuple(
            replace(own, size_per_value=0 if own.dataspace in above else own.size_per_value)
            for own in (level.packing_of(space.name) for space in self.einsum.problem.dataspaces)
        )

    @property
    def visit_rules(self) -> TemporalRules:
        """Rules of the outermost memory for the loop of visits alone."""
        return self._temporal(0, TemporalRules())

    def _temporal(self, level: int, rules: TemporalRules) -> TemporalRules:
        inside = [name for name, home in self._deeper if level < home and not self.is_relaxed]
        if inside:
            waiting = {dim for name in inside for dim in self.einsum.space(name).dims}
            still = (FactorRule(dim, "=", 1) for dim in self.einsum.problem.dims if dim in waiting)
            rules = replace(rules, factors=(*rules.factors, *still))
        if not self._many:
            return rules
        trips = FactorRule(self.visit, "=", self.kind.visits if level == 0 else 1)
        outer = (*rules.outer, self.visit) if level == 0 else rules.outer
        return replace(rules, factors=(*rules.factors, trips), outer=outer)

    def _spatial(self, number: int, rules: SpatialRules) -> SpatialRules:
        rules = replace(rules, factors=(*rules.factors, *self._shares(number)))
        if not self._many:
            return rules
        factors = (*rules.factors, FactorRule(self.visit, "=", 1))
        return replace(rules, factors=factors, uncounted=rules.uncounted | {self.visit})

    def _shares(self, fanout: int) -> Iterator[FactorRule]:
        """Yield the rules of what is stored inside of a fanout: only its own ranks are spread."""
        fixed = dict(self.kind.shares)
        dims = self.einsum.problem.dims
        if fanout in fixed:
            counts = dict(fixed[fanout])
            yield from (FactorRule(dim, "=", counts.get(dim, 1)) for dim in dims)
            return
        architecture = self.einsum.mapspace.architecture
        if fanout in self._outside:
            yield from (FactorRule(dim, "=", 1) for dim in self.kind.undivided)
        for name, level in self.kind.deeper:
            lone = lone_dims(self.einsum, self.einsum.access(name)).values()
            if fanout in fanouts_outside(architecture, level):
                yield from (FactorRule(dim, "=", 1) for dim in dims if dim not in lone)

    def _keep(self, level: int, rules: KeepRules) -> KeepRules:
        above = self.kind.above
        own = self.einsum.mapspace.architecture.levels[level]
        if level and self.kind.homes is not None and not own.tolls:
            rules = self._at_home(level, rules)
        here = frozenset(name for name, home in self._deeper if level == home)
        farther = frozenset(name for name, home in self._deeper if level < home)
        if level == 0:
            return KeepRules(rules.keep - above - farther, rules.bypass | above | farther)
        if own.tolls:
            return KeepRules(rules.keep, rules.bypass)
        here |= above if level == self._home_number else frozenset()
        return KeepRules(rules.keep | here, rules.bypass | farther)

    @cached_property
    def _outputs(self) -> frozenset[str]:
        return frozenset(space.name for space in self.einsum.problem.dataspaces if space.read_write)

    def _at_home(self, level: int, rules: KeepRules) -> KeepRules:
        """The rules with every output where all visits keep it."""
        assert self.kind.homes is not None
        outputs = self._outputs - self.kind.above if level == self._home_number else self._outputs
        outputs -= {name for name, home in self._deeper if level <= home}
        if level in self.kind.homes:
            return KeepRules(rules.keep | outputs, rules.bypass)
        return KeepRules(rules.keep, rules.bypass | outputs)

    def homes(self) -> Iterator[frozenset[int]]:
        """Yield the sets of on-chip levels that all visits may keep the outputs at, besides what is above."""
        choices: list[tuple[tuple[int, ...], ...]] = []
        levels = self.einsum.mapspace.architecture.levels
        for level, rules in enumerate(self.einsum.mapspace.keep):
            if level == 0 or levels[level].tolls:
                continue
            if level == self._home_number and self._outputs & self.kind.above:
                continue
            if any(name in self._outputs and level <= home for name, home in self._deeper):
                continue
            kept, left_out = not self._outputs & rules.bypass, not self._outputs & rules.keep
            choices.append((((level,),) if kept else ()) + (((),) if left_out else ()))
        for chosen in product(*choices):
            yield frozenset(level for levels in chosen for level in levels)

    def rounding_energy(self) -> int:
        """Energy that whole vectors of one kind of visits may take beyond those of all visits together."""
        architecture, total = self.einsum.mapspace.architecture, 0
        for position, level in zip(architecture.storage_indices, architecture.levels, strict=True):
            for space in self.einsum.problem.dataspaces:
                packing = level.packing_of(space.name)
                own = access_energy(level, packing, 1, 1, 1) if packing.block_size > 1 else 0
                total += own * architecture.instances_above(position)
        return total

    def nest(self, mapping: LoopNest, order: Order | None = None) -> PrivateNest:
        """The nest of one visit, out of a mapping of this mapspace, with memories in an order of its own."""
        outermost, *inner = mapping.nodes
        assert isinstance(outermost, StorageMapping)
        temporal = tuple(loop for loop in outermost.temporal if loop.dim != self.visit or not self._many)
        held = frozenset(shift.dataspace for shift in self.kind.shifts)
        entries: list[NodeMapping] = [replace(outermost, temporal=temporal, keep=outermost.keep | held)]
        places, memories = Counter[str](), list[str]()
        for node, entry in zip(self._placed(order).nodes[1:], inner, strict=True):
            if isinstance(node, Fanout) or isinstance(entry, FanoutMapping):
                entries.append(entry)
                continue
            own = replace(entry, keep=entry.keep - self._above_at(node.component))
            needed = own.keep or any(loop.bound > 1 for loop in own.temporal)
            if needed or not places[node.component]:
                places[node.component] += 1
                entries.append(own)
                memories.append(node.component)
        if order is not None and memories != sorted(memories, key=self._depth):
            architecture = self.einsum.mapspace.architecture
            stores = [own for own in entries if isinstance(own, StorageMapping)]
            fanouts = [own for own in entries if isinstance(own, FanoutMapping)]
            names = [fanout.name for fanout in architecture.fanouts]
            pairs = [*zip((architecture.levels[0].name, *memories), stores, strict=True)]
            return nest_in_order(architecture, pairs, dict(zip(names, fanouts, strict=True)))
        several = tuple((name, count) for name, count in places.items() if count > 1)
        nest = PrivateNest(LoopNest(tuple(entries)), several)
        # Of several nests, each says for which visits it is where its loops go beyond them.
        beyond = self.kind.parts and nest_bounds(self.einsum.problem, nest) != tuple(self.extents.values())
        return replace(nest, bounds=tuple(self.extents.items())) if beyond else nest

    def _depth(self, memory: str) -> int:
        """Number of a memory, from the outermost."""
        return [level.name for level in self.einsum.mapspace.architecture.levels].index(memory)

    def shifted_cycles(self, number: int, bandwidth: Bandwidth) -> Fraction:
        """Cycles that words of held tiles take of one bandwidth of a level."""
        level = self.einsum.mapspace.architecture.levels[number]
        rate = level.bandwidth(bandwidth)
        if number > self._home_number or not self.kind.shifts or rate is None:
            return Fraction(0)
        own = self._loaded(number, level)
        words = {"read_bandwidth": own.other_reads, "write_bandwidth": own.other_writes}
        return words.get(bandwidth, own.other_reads + own.other_writes) / rate

    @property
    def _home(self) -> StorageLevel:
        """The outermost on-chip memory."""
        return self.einsum.mapspace.architecture.on_chip[0]

    def _placed(self, order: Order | None) -> Architecture:
        """The architecture with all places of memories."""
        if order is not None:
            return in_order(self.even_mapspace(None), order).architecture
        return self._in_hardware_order

    @cached_property
    def _in_hardware_order(self) -> Architecture:
        own = self.einsum.mapspace
        return (self.mapspace(None) if _has_places(self.einsum) else own).architecture

    def _above_at(self, memory: str) -> frozenset[str]:
        """Dataspaces that have their tile above the nests in a memory."""
        levels = self.einsum.mapspace.architecture.levels
        deeper = frozenset(name for name, home in self._deeper if levels[home].name == memory)
        return self.kind.above if memory == self._home.name else deeper

    def own_words(self, mapping: LoopNest, number: int = 1, order: Order | None = None) -> int:
        """Room that the nest's own tiles take of an on-chip memory, by default of the outermost one."""
        memory = self.einsum.mapspace.architecture.on_chip[number - 1]
        placed = self._placed(order)
        positions = [
            position
            for position, node in enumerate(placed.nodes)
            if isinstance(node, StorageLevel) and node.component == memory.name
        ]
        if order is None:
            return sum(self._words_at(mapping, position, memory) for position in positions)
        names = (space.name for space in self.einsum.problem.dataspaces)
        seen = {name: seen_by(placed, mapping, name) for name in names}
        return sum(
            self._words_at(own.mapping, own.positions.index(position), memory, name)
            for name, own in seen.items()
            for position in positions
        )

    def _words_at(
        self, mapping: LoopNest, position: int, memory: StorageLevel, only: str | None = None
    ) -> int:
        """Room of the nest's own tiles at one place: of all dataspaces, or of one only."""
        entry = mapping.nodes[position]
        assert isinstance(entry, StorageMapping)
        extents = dict.fromkeys(self.einsum.problem.dims, 1)
        for loop in (x for node in mapping.nodes[position:] for x in _loops(node)):
            if loop.dim in extents:
                extents[loop.dim] = min(extents[loop.dim] * loop.bound, self.extents[loop.dim])
        own = entry.keep - self._above_at(memory.name)
        kept = (s for s in self.einsum.problem.dataspaces if s.name in own and only in (None, s.name))
        return sum(tile_words(s, extents) * memory.packing_of(s.name).size_per_value for s in kept)

    @cached_property
    def shift_energy(self) -> int:
        """Energy of the words of held tiles; at the least where it is open how spatial loops part them."""
        total = 0
        for number, level in enumerate(self.einsum.mapspace.architecture.levels[: self._home_number + 1]):
            used, paying = self._used(number)
            for shift in self.kind.shifts:
                words = self._exchanged(shift, number, level)
                energy = access_energy(level, level.packing_of(shift.dataspace), *words)
                total += paid_energy([(used, energy)], paying)
        return total


def unlimited(level: StorageLevel) -> StorageLevel:
    """Return a level whose bandwidths limit nothing."""
    return replace(level, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None, ports=())


def level_number(architecture: Architecture, memory: int) -> int:
    """Return the number among the levels of an on-chip memory, of which the outermost one is 1."""
    numbers = [number for number, level in enumerate(architecture.levels) if number and not level.tolls]
    return numbers[memory - 1]


def fanouts_outside(architecture: Architecture, memory: int) -> tuple[int, ...]:
    """Return the fanouts outside of an on-chip memory that have several children, by number."""
    position = architecture.storage_indices[level_number(architecture, memory)]
    pairs = zip(architecture.fanout_indices, architecture.fanouts, strict=True)
    return tuple(n for n, (at, fanout) in enumerate(pairs) if at < position and fanout.size > 1)


def with_places_of(
    einsum: CascadeEinsum, mapspace: Mapspace, above: frozenset[str] = frozenset()
) -> Mapspace:
    """Let memories have several places, by AccelForge's rule all.

    Dataspaces `above` the nests are at the first place of the outermost on-chip memory.
    """
    if not _has_places(einsum):
        return mapspace
    spread_memories = None if mapspace.counting_rule.has_places else einsum.memories_with_places
    return with_first_places(spread(mapspace, spread_memories), above)


def _has_places(einsum: CascadeEinsum) -> bool:
    """Whether memories may have several places: where they lie in any order, each order has its own."""
    own = einsum.mapspace
    return not own.free_order and (own.counting_rule.has_places or bool(einsum.memories_with_places))


def _loops(node: NodeMapping) -> Sequence[Loop | SpatialLoop]:
    return node.spatial if isinstance(node, FanoutMapping) else node.temporal
