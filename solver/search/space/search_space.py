"""The search space of one Einsum on one architecture, before bypass and spatial choices are fixed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.prices import network_latency
from model.extents import ANY, Extents
from model.mapspace import FactorRule, Mapspace, TemporalRules
from model.problem import Problem
from model.rules import Locality, Rule
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.counts import CountLattice, numbers_of_tiles
from solver.search.space.dataspaces import (
    DataspaceView,
    TileTables,
    box_words,
    tables,
    view,
)
from solver.search.space.keep_masks import Chain, KeepMask, allowed_masks, chain_of, most_masks
from solver.search.space.lattice import Lattice, Steps
from solver.search.space.prices import LevelAccess, Resource, level_accesses, resources
from solver.search.space.spatial import Factors, SpatialStage, fanout_choices, used_above
from solver.search.space.stages import StageRules
from solver.search.space.user_rules import ExtentsRule, TileRules, extents_rules, factors_allowed
from solver.search.space.windows import Unrolling
from solver.search.stopping import Stop, heeding, never

GRAINS = (1.15, 1.5, 2.5)
"""By how much the numbers of tiles of a cell may differ."""


@dataclass(frozen=True)
class SearchSpace:
    """What there is to choose.

    Levels are storage levels, outermost first. Stage l is what lies between the tile of level l and
    the tile of level l + 1 (or the compute): the temporal loops of level l, then the fanouts below.
    Dimensions of bound 1 are left out. Those in `coarse` have the tiles that their own steps make up. With
    remainders `numbered` has the numbers of tiles of each dimension, if not all extents matter. Where
    there may be very many keep masks or spatial choices, or rules on many tiles, `stop` is asked, and
    `Stopped` is raised.
    """

    mapspace: Mapspace
    coarse: tuple[tuple[str, Steps], ...] = ()
    stop: Stop = field(default=never, compare=False, repr=False)
    grains: tuple[float, ...] = ()
    numbered: tuple[tuple[int, ...], ...] = ()

    @property
    def problem(self) -> Problem:
        """The Einsum."""
        return self.mapspace.problem

    @property
    def architecture(self) -> Architecture:
        """The hardware."""
        return self.mapspace.architecture

    @cached_property
    def levels(self) -> tuple[StorageLevel, ...]:
        """Storage levels, outermost first."""
        return self.architecture.levels

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """All limited bandwidths."""
        return resources(self.architecture)

    @cached_property
    def latency(self) -> int:
        """Cycles that the networks add."""
        return network_latency(self.architecture)

    @cached_property
    def active(self) -> tuple[str, ...]:
        """Dimensions with a bound above 1."""
        return tuple(dim for dim in self.problem.dims if self.problem.bound[dim] > 1)

    @cached_property
    def lattice(self) -> Lattice:
        """All vectors of tile extents."""
        bounds = tuple(self.problem.bound[dim] for dim in self.active)
        if self.mapspace.factors == ANY:
            return CountLattice(bounds, grains=self.grains, numbered=self.numbered or self._numbered(bounds))
        return Lattice(bounds, tuple((self.active.index(dim), steps) for dim, steps in self.coarse))

    def _numbered(self, bounds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Numbers of tiles: single iterations, or all, where one node alone may have a loop."""
        return tuple(
            numbers_of_tiles(bound)
            if sum(not _has_no_loop(rules, dim) for rules in self.mapspace.factor_rules) > 1
            else (bound, 1)
            for dim, bound in zip(self.active, bounds, strict=True)
        )

    @cached_property
    def views(self) -> tuple[DataspaceView, ...]:
        """The dataspaces over the active dimensions."""
        return tuple(
            view(space, place, self.problem, self.active)
            for place, space in enumerate(self.problem.dataspaces)
        )

    @cached_property
    def tables(self) -> tuple[TileTables, ...]:
        """Tile sizes and traffic of each dataspace over the lattice."""
        return tuple(tables(space, self.lattice) for space in self.views)

    @cached_property
    def loop_factors(self) -> tuple[tuple[frozenset[int], ...], ...]:
        """The temporal factors that each level may have, per dimension."""
        return tuple(map(self._loop_factors, self.mapspace.temporal))

    def _loop_factors(self, rules: TemporalRules) -> tuple[frozenset[int], ...]:
        allowed = []
        for d, dim in enumerate(self.active):
            of_dim = [rule for rule in rules.factors if rule.dim == dim]
            factors = self.lattice.loop_factors(d)
            allowed.append(frozenset(f for f in factors if all(r.allows(f) for r in of_dim)))
        return tuple(allowed)

    @cached_property
    def is_unruled(self) -> bool:
        """Whether user-defined rules look at fanouts alone, and none binds places of a memory."""
        own = (rules.temporal for rules in self.mapspace.joint)
        return not (
            any(rules.factors or rules.inner or rules.outer for rules in own)
            or any(not part.is_spatial for rule in self.mapspace.rules for part in rule.parts)
        )

    @cached_property
    def excluded(self) -> bool:
        """Whether a rule forbids the factor 1 of a dimension of bound 1, or leaves no factor at all."""
        unit = set(self.problem.dims) - set(self.active)
        places = (own.temporal for own in self.mapspace.joint)
        rules = [rule for temporal in (*self.mapspace.temporal, *places) for rule in temporal.factors]
        if any(rule.dim in unit and not rule.allows(1) for rule in rules):
            return True
        return any(not allowed for own in self.loop_factors for allowed in own)

    @cached_property
    def fanouts_below(self) -> tuple[tuple[int, ...], ...]:
        """Per level, places in ``architecture.fanouts`` of the fanouts between it and the next level."""
        below: list[list[int]] = []
        for node in self.architecture.nodes:
            if isinstance(node, Fanout):
                below[-1].append(sum(map(len, below)))
            else:
                below.append([])
        return tuple(tuple(places) for places in below)

    @cached_property
    def stages(self) -> tuple[SpatialStage, ...]:
        """Per level, the classes of spatial choices below it."""
        return tuple(self._stage(places) for places in self.fanouts_below)

    @property
    def spatial_choices(self) -> int:
        """Combinations of the classes of all stages."""
        return math.prod(len(stage.places) for stage in self.stages)

    def _stage(self, places: Sequence[int]) -> SpatialStage:
        fanouts = [self.architecture.fanouts[number] for number in places]
        rules = [self.mapspace.spatial[number] for number in places]
        extents = [Extents(bound, self.mapspace.factors) for bound in self.lattice.bounds]
        options = [
            fanout_choices(
                fanout,
                own,
                self.problem.dims,
                self.active,
                extents,
                self.stop,
                factors_allowed(self.mapspace, fanout, self.active),
            )
            for fanout, own in zip(fanouts, rules, strict=True)
        ]
        gated = any(level.gating_fanouts in places[1:] for level in self.levels)
        sparse = self.mapspace.sparsity is not None
        told = StageRules(self.lattice, self.views, gated, self.mapspace.factors, sparse)
        return told.classes(fanouts, options, self.stop)

    @cached_property
    def reuse_classes(self) -> tuple[frozenset[int], ...]:
        """Sets of dataspaces that one innermost loop can leave in place.

        The innermost temporal loop above a boundary decides which dataspaces are reused there: those that it
        does not index. Of sets within others only those count that loops along windows leave: such a loop may
        cost less than one that leaves more in place. By AccelForge's rule only windows tell loops apart.
        """
        if not self.by_order and not self.window_dims:
            return (frozenset(),)
        signatures = {self.left_in_place(d) for d in range(len(self.active))}
        maximal = {s for s in signatures if not any(s < other for other in signatures)}
        sliding = {self.left_in_place(d) for d in self.window_dims}
        return tuple(sorted(maximal | sliding, key=sorted)) or (frozenset(),)

    def left_in_place(self, dim: int) -> frozenset[int]:
        """Places of the dataspaces that a loop over `dim` leaves in place."""
        return frozenset(view.place for view in self.views if dim in view.irrelevant)

    def leading(self, members: frozenset[int]) -> tuple[int, ...]:
        """Dimensions of the innermost loops that one of `reuse_classes` is about.

        They leave `members` in place and nothing else, or less where no other class has just that.
        """
        if not self.by_order and not self.window_dims:
            return tuple(range(len(self.active)))
        signatures = [self.left_in_place(d) for d in range(len(self.active))]
        classes = self.reuse_classes
        return tuple(
            d for d, own in enumerate(signatures) if own == members or (own < members and own not in classes)
        )

    @cached_property
    def instances(self) -> tuple[int, ...]:
        """Total instances of each level."""
        return tuple(map(self.architecture.instances_above, self.architecture.storage_indices))

    @cached_property
    def _allowed(self) -> dict[tuple[int, frozenset[int]], BoolArray]:
        return {}

    def allowed(self, level: int, kept: frozenset[int]) -> BoolArray:
        """Which tiles `level` and its rules allow when it keeps `kept`, shape (lattice size,)."""
        if (level, kept) not in self._allowed:
            self._allowed[level, kept] = self._fitting(level, kept)
        return self._allowed[level, kept]

    def _fitting(self, level: int, kept: frozenset[int]) -> BoolArray:
        within = self.within_capacity(level, kept)
        least = self.levels[level].least_words
        if least > 0 and self.levels[level].memory is None:
            within &= self._most_words(level, kept) >= least
        if not self._rules_at(level, kept):
            return within
        tiles = np.flatnonzero(within)
        if self.has_remainders:
            within[tiles] = self._that_rules_may_allow(level, kept, tiles)
        else:
            rules = self._tile_rules(self._rules_at(level, kept), level, kept, tiles)
            within[tiles] = rules.allow(len(tiles), self.stop)
        return within

    def _rules_at(self, level: int, kept: frozenset[int]) -> Sequence[Rule]:
        """The rules that say which tiles `level` may have when it keeps `kept`.

        Where memories have several places, those at the first one that ask for nothing farther in; branching
        knows all.
        """
        rules = self.mapspace.rules_on(Locality("tile", self.levels[level].component))
        if level == min(self.places_to[level]):
            names = {self.views[place].name for place in kept}
            return rules if self.levels[level].memory is None else [r for r in rules if r.dataspaces <= names]
        return ()

    def _that_rules_may_allow(self, level: int, kept: frozenset[int], tiles: IntArray) -> BoolArray:
        """Which of several numbers of tiles some extents have that the rules allow."""
        able, own = np.ones(len(tiles), dtype=np.bool_), self._rules_at(level, kept)
        for rule in (rule for rule in self.extents_rules[level] if rule.rule in own):
            able[able] = self.may_satisfy(rule, kept, tiles[able])
        return able

    def may_satisfy(self, rule: ExtentsRule, kept: frozenset[int], tiles: IntArray) -> BoolArray:
        """Which of several numbers of tiles have some extents that a rule allows where `kept` are kept."""
        lattice, names = self.lattice, frozenset(self.views[place].name for place in kept)
        along = [self.active.index(dim) for dim in rule.dims]
        least = [lattice.extents[tiles, d] for d in along]
        most = [lattice.largest_extents[tiles, d] for d in along]
        return rule.allow(len(tiles), least, most, names, self.stop)

    @cached_property
    def extents_rules(self) -> tuple[tuple[ExtentsRule, ...], ...]:
        """Rules of the user's own about the tile at each level, for numbers of tiles."""
        return extents_rules(self.mapspace)

    def _tile_rules(
        self, rules: Sequence[Rule], level: int, kept: frozenset[int], tiles: IntArray
    ) -> TileRules:
        """The rules about the tile at `level` when it keeps `kept`, on some tiles."""
        spread = self.lattice.spread
        words = {self.views[place].name: spread(self.tables[place].tile)[tiles] for place in kept}
        extents = {dim: self.lattice.extents[tiles, d] for d, dim in enumerate(self.active)}
        return TileRules(rules, self.levels[level], words, extents)

    def within_capacity(self, level: int, kept: frozenset[int]) -> BoolArray:
        """Which tiles `level` can hold of `kept`, shape (lattice size,)."""
        usable = self.levels[level].usable_words
        if usable is None:
            return np.ones(self.lattice.size, dtype=np.bool_)
        within: BoolArray = self.words_at(level, kept) <= usable
        return within

    def words_at(self, level: int, kept: frozenset[int]) -> IntArray:
        """What each tile takes of a limited `level`, shape (lattice size,)."""
        usable = self.levels[level].usable_words or 0
        none = np.zeros((1,) * len(self.active), dtype=np.int64)
        return self.lattice.spread(sum((self._size_words(v, self.levels[level], usable) for v in kept), none))

    def _most_words(self, level: int, kept: frozenset[int]) -> IntArray:
        """What each vector's largest extents take of a limited `level`, shape (lattice size,)."""
        return self.size_words(level, kept, self.lattice.largest_extents)

    def holds(self, level: int, kept: frozenset[int], extents: IntArray) -> BoolArray:
        """Whether a level can hold tiles of some extents, shape (tiles, dimensions), of `kept`."""
        usable = self.levels[level].usable_words
        if usable is None:
            return np.ones(len(extents), dtype=np.bool_)
        fits: BoolArray = self.size_words(level, kept, extents) <= usable
        return fits

    def size_words(self, level: int, kept: frozenset[int], extents: IntArray) -> IntArray:
        """What tiles of some extents take of a limited level; some number above that if they do not fit."""
        usable = self.levels[level].usable_words or 0
        total: IntArray = np.zeros(len(extents), dtype=np.int64)
        for place in kept:
            size = self.levels[level].packing_of(self.views[place].name).size_per_value
            words = box_words(self.views[place], extents)
            total += np.minimum(words, usable // max(1, size) + 1) * size
        return total

    def _size_words(self, place: int, level: StorageLevel, usable: int) -> IntArray:
        """What each tile takes of `level`, with axes; some number above `usable` where it does not fit."""
        size, words = level.packing_of(self.views[place].name).size_per_value, self.tables[place].tile
        # The products of all values need not fit 64 bits.
        return words if size == 1 else np.minimum(words, usable // max(1, size) + 1) * size

    def accesses(self, place: int, chain: Sequence[int]) -> Iterator[LevelAccess]:
        """All level_accesses to a dataspace that the levels of `chain` keep."""
        drains = self.mapspace.counting_rule.drains_are_reads
        return level_accesses(self.levels, self.problem.dataspaces[place], chain, drains)

    def tenants(self, mask: KeepMask, level: int) -> frozenset[int]:
        """Dataspaces whose tiles take room in `level`, at least as much as tiles of its extents would."""
        places = self.places_to[level]
        return frozenset(v.place for v in self.views if not places.isdisjoint(self.chain(mask, v.place)))

    @cached_property
    def places_to(self) -> tuple[frozenset[int], ...]:
        """Per level, and for the compute, it and the places of its memory outside: no tile is smaller."""
        by_level = [frozenset((level,)) for level in range(len(self.levels) + 1)]
        for rules in self.mapspace.joint:
            for number, level in enumerate(rules.levels):
                by_level[level] = frozenset(rules.levels[: number + 1])
        return tuple(by_level)

    def reuses(self, place: int, level: int) -> bool:
        """Whether dataspace `place` has temporal reuse at the boundary of `level` at all."""
        return self.by_order and self._keeps(place, level)

    def overlaps(self, place: int, level: int) -> bool:
        """Whether, by AccelForge's rule, the loop right outside of a tile may keep a part of it."""
        return not self.by_order and bool(self.views[place].window_dims) and self._keeps(place, level)

    def _keeps(self, place: int, level: int) -> bool:
        return self.views[place].name not in self.levels[level].no_temporal_reuse

    @property
    def by_order(self) -> bool:
        """Whether the order of loops decides what stays in place; by AccelForge's rule it does not."""
        return self.mapspace.counting_rule.by_order

    @cached_property
    def ticks_per_cycle(self) -> int:
        """Parts of a cycle that what leaks is counted in: AccelForge's rule does not round cycles up."""
        if self.mapspace.counting_rule.rounds_cycles:
            return 1
        names = [view.name for view in self.views]
        times = [own.besides(self.levels) for own in self.resources]
        for own, name in product(self.resources, names):
            scales = (self.levels[place].scale(name) for place in own.levels)
            times += [scale * cycles for scale in scales for cycles in (own.read_cycles, own.write_cycles)]
        return math.lcm(*(time.denominator for time in times))

    @cached_property
    def window_dims(self) -> frozenset[int]:
        """Active dimensions along which tiles of some dataspace overlap."""
        return frozenset(d for view in self.views for d in view.window_dims)

    @cached_property
    def no_unrolling(self) -> Unrolling:
        """The assumption on spatial factors that always holds."""
        ones = (1,) * len(self.active)
        return Unrolling(ones, ones, ones)

    def unrolling(self, stages: Sequence[Factors], least_used: Sequence[Factors] = ()) -> Unrolling:
        """Spatial factors of the window dimensions above a level, given those of all stages above it.

        With remainders it matters how many children have something to do, at least, by stage.
        """
        dims = range(len(self.active))
        above = [math.prod(s[d] for s in stages) if d in self.window_dims else 1 for d in dims]
        directly = [stages[-1][d] if d in self.window_dims else 1 for d in dims]
        every = used_above(least_used, len(self.active)) if self.has_remainders else ()
        used = tuple(own if d in self.window_dims else 1 for d, own in enumerate(every))
        return Unrolling(tuple(above), tuple(directly), used)

    @property
    def has_remainders(self) -> bool:
        """Whether loops may have remainders."""
        return self.mapspace.factors == ANY

    def chain(self, mask: KeepMask, place: int) -> Chain:
        """Levels that keep a dataspace, outermost first; `chain_of` tells which count."""
        return self.chains(mask)[place]

    @cached_property
    def _known_chains(self) -> dict[KeepMask, tuple[Chain, ...]]:
        return {}

    @cached_property
    def keep_masks(self) -> tuple[KeepMask, ...]:
        """All keep masks that the rules leave open, one of those with equal chains.

        Every dataspace is kept somewhere.
        """
        masks = allowed_masks(self.mapspace, self.views, self.stop)
        by_chains = {self.chains(mask): mask for mask in heeding(self.stop, reversed(masks))}
        return tuple(mask for chains, mask in reversed(by_chains.items()) if all(chains))

    @property
    def most_keep_masks(self) -> int:
        """Choices of what each level keeps, before those are left out that keep nothing or cost the same."""
        return most_masks(self.mapspace, self.views)

    def chains(self, mask: KeepMask) -> tuple[Chain, ...]:
        """The chain of each dataspace."""
        if mask not in self._known_chains:
            self._known_chains[mask] = tuple(chain_of(self.mapspace, mask, view) for view in self.views)
        return self._known_chains[mask]


def _has_no_loop(rules: Sequence[FactorRule], dim: str) -> bool:
    """Whether a node has no loop over a dimension."""
    return any(rule.dim == dim and rule.relation != ">=" and rule.value == 1 for rule in rules)
