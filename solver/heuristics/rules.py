"""The rules of a mapspace for many mappings at once: what is allowed, before any capacity is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import TypeGuard

import numpy as np

from model.architecture import Fanout
from model.choices import KeepChoice, SideOrder, keep_sets
from model.cost.batch import MappingBatch
from model.cost.batch.mappings import Booleans, Integers
from model.cost.batch.remainders import RemainderNest
from model.extents import ANY
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import JointRules, Mapspace, SpatialRules, TemporalRules
from solver.heuristics.interface import MapperError

TABLE_ENTRIES = 1 << 22
"""Entries of the table of arrangements that are looked at together."""

MOST_FREE = 14
"""Dimensions that may lie along either axis, at most; levels that may keep a dataspace or not in any way."""

FEW_LEVELS = 2
"""Of more such levels, so many at most keep the dataspace in the mappings that are drawn, or bypass it."""


class MapspaceRules:
    """What a mapspace allows.

    How the spatial loops of a fanout lie along X and Y changes no cost, so mappings are judged by their
    factors: they are allowed if some arrangement within the rules fits the mesh, and get the first one.
    """

    def __init__(self, mapspace: Mapspace) -> None:
        self.mapspace = mapspace
        problem, architecture = mapspace.problem, mapspace.architecture
        for dim, bound in problem.bound.items():
            if bound >= 1 << 63:
                raise MapperError(f"{dim} has 2^63 points or more, too many for 64 bits")
        names = [space.name for space in problem.dataspaces]
        self._choices = [KeepChoice.of(mapspace.keep, name) for name in names]
        self.keep_options = tuple(map(self._drawn_options, names, self._choices))  # what may be drawn
        self._nested = tuple(_nested_pairs(rules, problem.dims) for rules in mapspace.temporal)
        self.arrangements = tuple(
            Arrangements(fanout, _sets_along_x(rules, problem.dims, problem.bounds))
            for fanout, rules in zip(architecture.fanouts, mapspace.spatial, strict=True)
        )

    def keep_masks(self) -> Booleans:
        """Return all choices of what each level keeps, shape ``(masks, levels, dataspaces)``."""
        for space, choice in zip(self.mapspace.problem.dataspaces, self._choices, strict=True):
            if _is_sampled(choice):
                _check_choices(len(choice.free), f"levels may keep {space.name} or not")
        masks = [np.stack(chosen, axis=1) for chosen in product(*self.keep_options)]
        levels = len(self.mapspace.architecture.levels)
        return np.array(masks, dtype=np.bool_).reshape(len(masks), levels, len(self.keep_options))

    def arranged(self, batch: MappingBatch) -> MappingBatch:
        """Return a batch in which places of memories that keep nothing are the last ones, without loops.

        What inner places keep moves outwards to them; their loops go to the place outside.
        """
        if not self.mapspace.joint:
            return batch
        factors, keep = batch.factors.copy(), batch.keep.copy()
        positions = self.mapspace.architecture.storage_indices
        for rules in self.mapspace.joint:
            places, nodes = list(rules.levels), [positions[level] for level in rules.levels]
            empty = ~keep[:, places].any(axis=2)
            order = np.argsort(empty, axis=1, kind="stable")
            keep[:, places] = np.take_along_axis(keep[:, places], order[:, :, None], axis=1)
            used = (~empty).sum(axis=1)
            for place in reversed(range(1, len(places))):
                idle = used <= place
                factors[idle, nodes[place - 1]] *= factors[idle, nodes[place]]
                factors[idle, nodes[place]] = 1
        return MappingBatch(self._cut(factors), batch.order, keep)

    def _cut(self, factors: Integers) -> Integers:
        """Factors that leave out what lies beyond the bounds."""
        left = np.tile(np.array(self.mapspace.problem.bounds, dtype=np.int64), (len(factors), 1))
        for node in reversed(range(factors.shape[1])):
            factors[:, node] = np.minimum(factors[:, node], left)
            left = -(-left // factors[:, node])
        return factors

    def allows(self, batch: MappingBatch) -> Booleans:
        """Which mappings break no rule, shape ``(mappings,)``; capacities are left to the cost model."""
        allowed = np.ones(len(batch), dtype=np.bool_)
        for _, kept in self._verdicts(batch):
            allowed &= kept
        return allowed

    def broken(self, batch: MappingBatch, row: int) -> str | None:
        """Return the first rule that a mapping breaks, as a text for people; None if it breaks none."""
        verdicts = self._verdicts(batch.part(slice(row, row + 1)))
        return next((rule for rule, kept in verdicts if not kept[0]), None)

    def mapping(self, batch: MappingBatch, row: int) -> Mapping:
        """Return an allowed mapping of a batch, without loops of bound 1."""
        problem, architecture = self.mapspace.problem, self.mapspace.architecture
        names = [space.name for space in problem.dataspaces]
        level, fanout = iter(range(len(architecture.levels))), iter(self.arrangements)
        entries: list[NodeMapping] = []
        for node, factors in zip(architecture.nodes, batch.factors[row], strict=True):
            if isinstance(node, Fanout):
                entries.append(next(fanout).mapping(problem.dims, factors))
                continue
            number = next(level)
            keep = frozenset(name for name, kept in zip(names, batch.keep[row, number], strict=True) if kept)
            dims = [d for d in batch.order[row, number].tolist() if factors[d] > 1]
            loops = tuple(Loop(problem.dims[d], int(factors[d])) for d in dims)
            entries.append(StorageMapping(loops, keep))
        return Mapping(tuple(entries))

    def fits_meshes(self, factors: Integers) -> Booleans:
        """Which factors, shape ``(mappings, nodes, dims)``, find room on every mesh."""
        fits = np.ones(len(factors), dtype=np.bool_)
        positions = self.mapspace.architecture.fanout_indices
        for position, arrangements in zip(positions, self.arrangements, strict=True):
            fits &= arrangements.first_fitting(factors[:, position]) >= 0
        return fits

    def _drawn_options(self, dataspace: str, choice: KeepChoice | None) -> Booleans:
        """Return sets of levels that keep `dataspace`, shape ``(options, levels)``, if there are any."""
        found: Iterable[frozenset[int]] = keep_sets(self.mapspace, dataspace)
        if _is_sampled(choice):
            few = [
                frozenset(own) for size in range(FEW_LEVELS + 1) for own in combinations(choice.free, size)
            ]
            every = choice.forced.union(choice.free)
            sets = (choice.forced | own for own in few), (every - own for own in few)
            groups = self.mapspace.parallel
            found = (own for own in chain(*sets) if own and all(one.allows(dataspace, own) for one in groups))
        levels = range(len(self.mapspace.keep))
        rows = [[level in kept for level in levels] for kept in found]
        return np.array(rows, dtype=np.bool_).reshape(len(rows), len(levels))

    def _may_keep(self, kept: Booleans, number: int) -> Booleans:
        """Which sets of levels, shape ``(mappings, levels)``, may keep a dataspace."""
        name, choice = self.mapspace.problem.dataspaces[number].name, self._choices[number]
        assert choice is not None
        rows, places = np.unique(kept, axis=0, return_inverse=True)
        sets = [frozenset(np.flatnonzero(row).tolist()) for row in rows]
        allowed = [
            bool(own)
            and choice.forced <= own <= choice.forced.union(choice.free)
            and all(group.allows(name, own) for group in self.mapspace.parallel)
            for own in sets
        ]
        return np.array(allowed, dtype=np.bool_)[places]

    def _units_in_use(self, batch: MappingBatch) -> Integers:
        architecture = self.mapspace.architecture
        if self.mapspace.factors == ANY:
            nest = RemainderNest.of(self.mapspace.problem, architecture, batch)
            return nest.instances(len(architecture.nodes))
        units: Integers = np.prod(batch.factors[:, list(architecture.fanout_indices)], axis=(1, 2))
        return units

    def _verdicts(self, batch: MappingBatch) -> Iterator[tuple[str, Booleans]]:
        """Yield the rules by name, each with the mappings that keep it."""
        architecture, problem = self.mapspace.architecture, self.mapspace.problem
        for node, rules, factors in zip(
            architecture.nodes, self.mapspace.factor_rules, batch.factors.transpose(1, 2, 0), strict=True
        ):
            for rule in rules:
                holds = rule.allows(factors[problem.dims.index(rule.dim)])
                yield f"the factor {rule.dim}{rule.relation}{rule.value} of {node.name}", holds
        positions = np.argsort(batch.order, axis=2)
        for number, pairs in enumerate(self._nested):
            looping = batch.factors[:, architecture.storage_indices[number]] > 1
            name = f"the order of the loops of {architecture.levels[number].name}"
            yield name, _nests(pairs, positions[:, number], looping)
        for together in self.mapspace.joint:
            yield from self._verdicts_on_places(together, batch)
        for number, options in enumerate(self.keep_options):
            name = f"the levels that may keep {problem.dataspaces[number].name}"
            choice, kept = self._choices[number], batch.keep[:, :, number]
            sampled = _is_sampled(choice)
            yield name, self._may_keep(kept, number) if sampled else np.isin(_codes(kept), _codes(options))
        yield "the meshes and the split of the fanouts", self.fits_meshes(batch.factors)
        least = math.ceil(self.mapspace.min_parallelism)
        if least > 1:
            yield "the minimum number of compute units in use", self._units_in_use(batch) >= least
        most = self.mapspace.max_temporal_loops
        if most is not None:
            temporal = batch.factors[:, list(architecture.storage_indices)]
            yield "the maximum number of temporal loops", (temporal > 1).sum(axis=(1, 2)) <= most

    def _verdicts_on_places(self, rules: JointRules, batch: MappingBatch) -> Iterator[tuple[str, Booleans]]:
        """Yield what binds the loops of all places of a memory together."""
        architecture, dims = self.mapspace.architecture, self.mapspace.problem.dims
        name = f"{architecture.levels[rules.levels[0]].component} at all its places"
        loops = batch.factors[:, [architecture.storage_indices[level] for level in rules.levels]]
        for rule in rules.temporal.factors:
            holds = rule.allows(loops[:, :, dims.index(rule.dim)].prod(axis=1))
            yield f"the factor {rule.dim}{rule.relation}{rule.value} of {name}", holds
        ranks = np.array([rules.rank(dim) for dim in dims])
        lowest = np.where(loops > 1, ranks, len(dims) + 1).min(axis=2)
        highest = np.where(loops > 1, ranks, -1).max(axis=2)
        for outer, inner in combinations(range(len(rules.levels)), 2):
            yield f"the order of the loops of {name}", highest[:, inner] <= lowest[:, outer]


@dataclass(frozen=True, eq=False)
class Arrangements:
    """The sets of dimensions that may lie along X at a fanout, shape ``(sets, dims)``."""

    fanout: Fanout
    along_x: Booleans

    def first_fitting(self, factors: Integers) -> Integers:
        """For factors of shape ``(mappings, dims)``, the first set that fits the mesh, or -1."""
        step = max(1, TABLE_ENTRIES // max(1, len(self.along_x)))
        parts = [self._part(factors[start : start + step]) for start in range(0, len(factors), step)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _part(self, factors: Integers) -> Integers:
        # Logarithms of integers, compared half-way to the next integer: rounding cannot matter.
        logarithms = np.log(factors)
        columns = logarithms @ self.along_x.T.astype(np.float64)
        rows = logarithms.sum(axis=1)[:, None] - columns
        fits = (columns <= np.log(self.fanout.mesh_x + 0.5)) & (rows <= np.log(self.fanout.mesh_y + 0.5))
        return np.where(fits.any(axis=1), fits.argmax(axis=1), -1)

    def mapping(self, dims: Sequence[str], factors: Integers) -> FanoutMapping:
        """Arrange the loops of one mapping that fits."""
        chosen = self.along_x[int(self.first_fitting(factors[None, :])[0])]
        loops = [
            SpatialLoop(dim, int(factor), "x" if along_x else "y")
            for dim, factor, along_x in zip(dims, factors, chosen, strict=True)
            if factor > 1
        ]
        return FanoutMapping(tuple(sorted(loops, key=lambda loop: loop.axis)))


def _codes(keep: Booleans) -> Integers:
    """One number per row of booleans."""
    codes: Integers = keep @ (1 << np.arange(keep.shape[1], dtype=np.int64))
    return codes


def _nested_pairs(rules: TemporalRules, dims: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Pairs of dimensions of which the first must lie inside of the second."""
    middle = [dim for dim in dims if dim not in rules.inner and dim not in rules.outer]
    inner = [(a, b) for i, a in enumerate(rules.inner) for b in (*rules.inner[i + 1 :], *middle)]
    outer = [(a, b) for i, b in enumerate(rules.outer) for a in (*rules.inner, *middle, *rules.outer[:i])]
    place = {dim: index for index, dim in enumerate(dims)}
    return tuple((place[a], place[b]) for a, b in (*inner, *outer))


def _nests(pairs: Sequence[tuple[int, int]], positions: Integers, looping: Booleans) -> Booleans:
    """Whether all loops (of bound above 1) lie as `pairs` says."""
    kept = np.ones(len(positions), dtype=np.bool_)
    for inside, outside in pairs:
        swapped = positions[:, inside] > positions[:, outside]
        kept &= ~(swapped & looping[:, inside] & looping[:, outside])
    return kept


def _sets_along_x(rules: SpatialRules, dims: Sequence[str], bounds: Sequence[int]) -> Booleans:
    """Sets of dimensions that may lie along X, each once; dimensions of bound 1 are in none."""
    order = SideOrder.of(rules, dims)
    live = {dim for dim, bound in zip(dims, bounds, strict=True) if bound > 1}
    _check_choices(len(order.free(live)), "dimensions may lie along either axis of a fanout")
    sets = dict.fromkeys(tuple(dim in along_x for dim in dims) for along_x in order.sets_along_x(live))
    return np.array(list(sets), dtype=np.bool_).reshape(len(sets), len(dims))


def _check_choices(free: int, what: str) -> None:
    if free > MOST_FREE:
        raise MapperError(f"{free} {what}; heuristics enumerate all choices, for at most {MOST_FREE}")


def _is_sampled(choice: KeepChoice | None) -> TypeGuard[KeepChoice]:
    """Whether levels may keep a dataspace in more ways than are all drawn."""
    return choice is not None and len(choice.free) > MOST_FREE
