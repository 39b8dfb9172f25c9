"""The plain model: one mapping of sparse data, from dense counts to expected counts, energy and cycles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.judge import broken_rules
from model.cost.limits import mesh_violations
from model.cost.plain import evaluate, evaluate_in, loads_with_remainders
from model.cost.prices import network_latency
from model.cost.report import DataspaceCost, Evaluation, Violation, ViolationKind
from model.cost.traffic import Traffic
from model.counting import EXACT, Counting, rule_of
from model.mapping import Mapping as LoopMapping
from model.mapspace import Mapspace
from model.problem import Problem
from model.sparse.arithmetic import Computes, Operand, computes
from model.sparse.counting import (
    Accesses,
    Combined,
    MetadataAccesses,
    Moved,
    Unit,
    combine,
    metadata_accesses,
    represented,
)
from model.sparse.density import Distribution, distribution_of
from model.sparse.fibers import FiberTree, fiber_trees
from model.sparse.instances import Instances, SpatialSkip, dense_instances, needed_instances
from model.sparse.levels import CompressedTile, LevelRow
from model.sparse.nest import FullNest, MappingError, full_nest
from model.sparse.occupancy import Holding, holdings
from model.sparse.report import SparseEvaluation
from model.sparse.saving import Saved, chosen, empty_conditions, stronger, useless
from model.sparsity import Conditional, Optimization, Representation, SparseLevel, Sparsity


def evaluate_sparse(
    problem: Problem,
    architecture: Architecture,
    sparsity: Sparsity,
    mapping: LoopMapping,
    counting: Counting = EXACT,
    timeloop_defects: bool = False,
) -> SparseEvaluation:
    """Price `mapping` on sparse data: expected accesses by kind, metadata, energy, cycles and broken limits.

    Parameters
    ----------
    problem, architecture, mapping
        What is computed, and on what; the loops, and what every node keeps.
    sparsity
        Densities, formats, and what is gated or skipped.
    counting
        How the words of dense data are counted, see `model.counting`.
    timeloop_defects
        Whether to count as Timeloop does where that is wrong (docs/sparse.md lists the cases).

    Raises
    ------
    MappingError
        If formats cannot hold the tiles, or a level cannot unpack or pack what it exchanges.
    ValueError
        If `model.cost.evaluate` raises one, if the rule does not count sparse data, and if there are
        tolls, or given first values of outputs.
    """
    if not rule_of(counting).sparse:
        raise ValueError(f"sparse data are not counted by the rule {counting!r}")
    if any(space.given for space in problem.dataspaces):
        raise ValueError("sparse data are not counted where first values of outputs are given")
    if any(level.tolls for level in architecture.levels):
        raise ValueError("sparse data that pay tolls are not counted")
    dense = evaluate(problem, architecture, mapping, counting)
    nest = full_nest(problem, architecture, mapping)
    analysis = _MappingAnalysis(problem, architecture, sparsity, mapping, nest, dense, timeloop_defects)
    if nest.plain.remainder_dims and analysis.skips:
        where = architecture.nodes[analysis.skips[0].position].name
        raise MappingError(where, "loops with remainders are not priced where units skip its children")
    return _evaluation_of(analysis, mapping, counting)


def evaluate_sparse_in(
    mapspace: Mapspace, mapping: LoopMapping, timeloop_defects: bool = False
) -> SparseEvaluation:
    """Price a mapping of a mapspace of sparse data, with the rules that it breaks; see `evaluate_sparse`.

    Raises
    ------
    ValueError
        The data are dense.
    """
    if mapspace.sparsity is None:
        raise ValueError("the data is dense")
    parts = mapspace.problem, mapspace.architecture, mapspace.sparsity
    evaluation = evaluate_sparse(*parts, mapping, mapspace.counting, timeloop_defects)
    return replace(evaluation, broken_rules=broken_rules(mapspace, mapping, evaluation))


def evaluate_totals(mapspace: Mapspace, mapping: LoopMapping) -> Evaluation | None:
    """Price a mapping of dense or sparse data as searches compare it.

    Returns
    -------
    Evaluation or None
        Of sparse data `SparseEvaluation.totals`; None if formats cannot hold the mapping.
    """
    if mapspace.sparsity is None:
        return evaluate_in(mapspace, mapping)
    try:
        return evaluate_sparse_in(mapspace, mapping).totals
    except MappingError:
        return None


class LackOfPacking(NamedTuple):
    """Two levels, by position, that do not fit: the inner one cannot unpack or pack what they exchange."""

    outer: int
    inner: int
    cause: str

    def text(self, dataspace: str, outer: str) -> str:
        """Return it for people, given the names of the dataspace and of the outer level."""
        return self.cause.format(dataspace=dataspace, outer=outer)


def lack_of_packing(
    kept: Sequence[int], compressed: frozenset[int], support: Mapping[int, SparseLevel], read_write: bool
) -> LackOfPacking | None:
    """Return where a dataspace is to be unpacked or packed by a level that cannot; None if nowhere.

    Parameters
    ----------
    kept
        Positions of the levels that keep it, outermost first.
    compressed
        Those that keep it compressed.
    support
        By position, what levels have.
    read_write
        Whether it is an output.
    """
    for outer, inner in pairwise(kept):
        packed, level = inner in compressed, support[inner]
        if packed == (outer in compressed):
            continue
        if packed:
            return LackOfPacking(
                outer, inner, "`{dataspace}` is compressed, but not at {outer}, from which it comes"
            )
        if not level.decompresses:
            cause = "`{dataspace}` comes compressed from {outer}: `decompression_supported` is not set"
            return LackOfPacking(outer, inner, cause)
        if read_write and not level.compresses:
            cause = "`{dataspace}` goes compressed to {outer}: `compression_supported` is not set"
            return LackOfPacking(outer, inner, cause)
    return None


@dataclass(frozen=True)
class _MappingAnalysis:
    """Everything that follows from one mapping, step by step."""

    problem: Problem
    architecture: Architecture
    sparsity: Sparsity
    mapping: LoopMapping
    nest: FullNest
    dense: Evaluation
    defects: bool

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of the storage levels, outermost first."""
        return self.architecture.storage_indices

    @cached_property
    def distributions(self) -> dict[str, Distribution]:
        """By dataspace."""
        whole = self.problem.bound
        return {
            space.name: distribution_of(
                self.sparsity.density(space.name), self.nest.tile(space.name, whole), self.defects
            )
            for space in self.problem.dataspaces
        }

    @cached_property
    def trees(self) -> dict[str, dict[int, FiberTree]]:
        """Ranks of the tiles with metadata, by dataspace and position."""
        names = dict(zip(self.positions, (level.name for level in self.architecture.levels), strict=True))
        return {space.name: self._trees_of(space.name, names) for space in self.problem.dataspaces}

    def _trees_of(self, name: str, names: Mapping[int, str]) -> dict[int, FiberTree]:
        formats: dict[int, Representation] = {
            position: level.representations[name]
            for position, level in zip(self.positions, self.sparsity.levels, strict=True)
            if name in level.representations and position in self.nest.kept[name]
        }
        kept = self.nest.kept[name]
        compressed = frozenset(position for position, own in formats.items() if own.compressed)
        support = dict(zip(self.positions, self.sparsity.levels, strict=True))
        lack = lack_of_packing(kept, compressed, support, self.problem.dataspace(name).read_write)
        if lack is not None:
            raise MappingError(names[lack.inner], lack.text(name, names[lack.outer]))
        trees = fiber_trees(self.nest, name, dict(names), formats) if formats else {}
        return {position: trees[position] for position in formats}

    @cached_property
    def holdings(self) -> dict[str, dict[int, Holding]]:
        """What each level holds, by dataspace and position."""
        return {
            name: holdings(self.nest, name, trees, self.distributions[name], self.defects)
            for name, trees in self.trees.items()
        }

    @cached_property
    def loads(self) -> dict[int, list[tuple[int, dict[str, Accesses]]]]:
        """By position, the instances that do the same, and the accesses of one of them for dense data."""
        if self.nest.plain.remainder_dims:
            every = loads_with_remainders(self.problem, self.architecture, self.mapping, self.nest.plain)
            return {
                position: [(load.instances, dict(map(_named_accesses, load.traffic))) for load in loads]
                for position, loads in zip(self.positions, every, strict=True)
            }
        levels = zip(self.positions, self.dense.levels, strict=True)
        return {
            position: [
                (
                    self.instances_at(position),
                    dict(_named_accesses((own.dataspace, own)) for own in level.dataspaces),
                )
            ]
            for position, level in levels
        }

    def instances_at(self, position: int) -> int:
        """Instances of a node that are in use for dense data."""
        return self.nest.plain.instances(position)

    @cached_property
    def skips(self) -> tuple[SpatialSkip, ...]:
        """Units that skip instances, innermost first, each at the fanout that it is about."""
        found = [
            SpatialSkip(place, unit.options[0])
            for position, unit in self._optimizations("skipping_spatial")
            for place in self._fanouts_below(position)
        ]
        return tuple(sorted(found, key=lambda skip: -skip.position))

    def _fanouts_below(self, position: int) -> Iterator[int]:
        for place in range(position + 1, len(self.architecture.nodes)):
            if not isinstance(self.architecture.nodes[place], Fanout):
                return
            yield place

    @cached_property
    def instances(self) -> Instances:
        """Instances in use."""
        nodes = len(self.architecture.nodes)
        if not self.skips:
            return dense_instances(self.nest, nodes)
        announced = {name: frozenset(trees) for name, trees in self.trees.items()}
        return needed_instances(self.nest, nodes, self.skips, announced, self.distributions)

    def used(self, name: str, position: int) -> float:
        """Average instances in use of a level that keeps a dataspace."""
        if self.skips:
            return self.instances_at(position) * self.instances.expansions[name][position].share
        return self.instances_at(position) * self.holdings[name][position].arriving

    @cached_property
    def units(self) -> dict[str, dict[int, Unit]]:
        """What saves accesses, by dataspace and position of the level that keeps it."""
        saved: dict[str, dict[int, Saved]] = {space.name: {} for space in self.problem.dataspaces}
        for kind in ("gating", "skipping"):
            for position, unit in self._optimizations(kind):
                target, place, what = self._decided(position, unit)
                saved[target][place] = stronger(saved[target].get(place), what)
        units = {name: {place: Unit(what) for place, what in of.items()} for name, of in saved.items()}
        for name, shares in self.instances.savings.items():
            units[name] |= {place: Unit(None, share) for place, share in shares.items()}
        return units

    def _optimizations(self, kind: str) -> Iterator[tuple[int, Optimization]]:
        """Yield the units of one kind, innermost level first."""
        for position, level in reversed(list(zip(self.positions, self.sparsity.levels, strict=True))):
            yield from ((position, unit) for unit in level.optimizations if unit.kind == kind)

    def _decided(self, position: int, unit: Optimization) -> tuple[str, int, Saved]:
        """Return the target that a unit serves, the level that keeps it, and what is saved."""
        found = [self._option(position, option, unit.kind == "skipping") for option in unit.options]
        return found[chosen([value for _, value in found])][0]

    def _option(
        self, position: int, option: Conditional, skips: bool
    ) -> tuple[tuple[str, int, Saved], tuple[float, float]]:
        """Return what an option saves, and the value of its accesses with the share that is useless."""
        name = option.target
        place = self.nest.keeper(name, position)
        level = self.architecture.nodes[position]
        if place is None:
            message = f"no level from here outwards keeps `{name}`, which is to be gated or skipped"
            raise MappingError(level.name, message)
        keeper = self.architecture.level_at(place)
        block = keeper.packing_of(name).block_size
        empty = met = empty_conditions(
            self.nest, option, place, block, self.distributions, True, self.defects
        )
        if self.nest.plain.remainder_dims:
            met = empty_conditions(self.nest, option, place, block, self.distributions, False, self.defects)
        share = useless(empty.values())
        value = (
            keeper.energy.read / self.architecture.units_per_pj / block * self._occupied(name, place, keeper)
        )
        return (name, place, Saved(share, skips, tuple(met.items()), useless(met.values()))), (value, share)

    def _occupied(self, name: str, place: int, keeper: StorageLevel) -> float:
        """Expected words of a tile; metadata counts with the whole words that fit into one of the data."""
        child = self.nest.child(name, place)
        own, inner = self.holdings[name][place], self.holdings[name][place if child is None else child]
        level = self.sparsity.levels[self.positions.index(place)]
        ratio = level.metadata_word_bits // int(keeper.word_bits)
        return own.expected + ratio * sum(unit.metadata + unit.payload for unit in inner.metadata)

    @cached_property
    def _combined(self) -> dict[tuple[str, int], Combined]:
        return {}

    def combined(self, name: str, number: int = 0) -> Combined:
        """What moves of a dataspace in the instances of each level with the load of some number, if any."""
        if (name, number) not in self._combined:
            space = self.problem.dataspace(name)
            moved = {
                position: self._unsaved(name, position, self.dense_accesses(name, position, number))
                for position in self.holdings[name]
            }
            self._combined[name, number] = combine(moved, self.units[name], space.read_write, self.defects)
        return self._combined[name, number]

    def dense_accesses(self, name: str, position: int, number: int) -> Accesses:
        """Accesses of an instance for dense data, with the load of some number or the last one."""
        loads = self.loads[position]
        return loads[min(number, len(loads) - 1)][1][name]

    def _unsaved(self, name: str, position: int, dense: Accesses) -> Moved:
        held, read_write = self.holdings[name][position], self.problem.dataspace(name).read_write
        if held.tree is None:
            return Moved(dense, MetadataAccesses())
        data = represented(dense, held.density, read_write)
        return Moved(data, metadata_accesses(held.metadata, dense, held.words))

    @cached_property
    def computes(self) -> Computes:
        """Computations by kind."""
        operands = tuple(
            Operand(
                name=space.name,
                density=self.distributions[space.name].mean,
                announced=self.nest.kept[space.name][-1] in self.trees[space.name],
                unit=self.combined(space.name).unit,
            )
            for space in self.problem.dataspaces
            if not space.read_write
        )
        return computes(self.problem.computes, operands, self.sparsity.compute)

    def rows(self, position: int) -> list[LevelRow]:
        """Return what one level holds and moves, by the loads of its instances."""
        place = self.positions.index(position)
        level, sparse = self.architecture.levels[place], self.sparsity.levels[place]
        return [
            LevelRow(position, level, sparse, self._stored(position, number), self.defects, instances)
            for number, (instances, _) in enumerate(self.loads[position])
        ]

    def _stored(self, position: int, number: int) -> tuple[CompressedTile, ...]:
        spaces = (space for space in self.problem.dataspaces if position in self.nest.kept[space.name])
        return tuple(self._stored_of(space.name, position, number) for space in spaces)

    def _stored_of(self, name: str, position: int, number: int) -> CompressedTile:
        unpacked, packed = self._packing(name, position, number)
        most = self.instances.expansions[name][position]
        return CompressedTile(
            dataspace=name,
            held=self.holdings[name][position],
            dense=self.dense_accesses(name, position, number),
            moved=self.combined(name, number).moved[position],
            read_write=self.problem.dataspace(name).read_write,
            decompressions=unpacked,
            compressions=packed,
            most_instances=most.x * most.y if self.skips else self.instances_at(position),
            used=self.used(name, position),
        )

    def _packing(self, name: str, position: int, number: int) -> tuple[int, int]:
        """Words that a level unpacks when they come in, and packs when they go out."""
        parent = self.nest.parent(name, position)
        if parent is None or self.holdings[name][position].compressed:
            return 0, 0
        if not self.holdings[name][parent].compressed:
            return 0, 0
        moved, read_write = self.combined(name, number).moved, self.problem.dataspace(name).read_write
        return moved[position].data.fills, moved[parent].data.updates if read_write else 0

    @property
    def units_at_work(self) -> float:
        """Arithmetic units in use on average."""
        nodes = len(self.architecture.nodes)
        if self.nest.plain.remainder_dims:
            return self.problem.computes / self.nest.plain.steps()
        return self.instances.average(self.instances_at(nodes), nodes, tuple(self.nest.kept))


def _named_accesses(named: tuple[str, Traffic | DataspaceCost]) -> tuple[str, Accesses]:
    name, own = named
    return name, Accesses(own.reads, own.fills, own.updates)


def _evaluation_of(analysis: _MappingAnalysis, mapping: LoopMapping, counting: Counting) -> SparseEvaluation:
    """Return the figures of a mapping once all counts are known."""
    architecture, dense, made = analysis.architecture, analysis.dense, analysis.computes
    units = analysis.units_at_work
    steps = max(1, math.ceil((made.actual + made.gated) / units)) if units else 1
    every = {position: analysis.rows(position) for position in analysis.positions}
    rule = rule_of(counting)
    cycles_of = {
        p: [rule.cycles(own.level, steps, own.demands()) for own in rows] for p, rows in every.items()
    }
    needed = {position: max(cycles) for position, cycles in cycles_of.items()}
    busy = max(needed.values())
    rows = {position: own[cycles_of[position].index(needed[position])] for position, own in every.items()}
    levels = tuple(
        row.cost(
            architecture,
            every[position],
            analysis.instances_at,
            (needed[position], busy),
            _overflowing(analysis, rows, position),
        )
        for position, row in rows.items()
    )
    cycles = busy + network_latency(architecture)
    return SparseEvaluation(
        violations=(*(v for row in rows.values() for v in row.violations()), *_meshes(analysis, mapping)),
        levels=levels,
        computes=made,
        dense_computes=dense.computes,
        dense_energy=dense.energy,
        dense_cycles=dense.cycles,
        compute_cycles=steps,
        compute_instances=units,
        cycles=cycles,
        compute_energy=Fraction(_compute_energy(analysis, made)),
        utilization=made.actual / (architecture.compute_instances * cycles),
        units_per_pj=dense.units_per_pj,
    )


def _overflowing(
    analysis: _MappingAnalysis, rows: Mapping[int, LevelRow], position: int
) -> dict[str, tuple[LevelRow, CompressedTile]]:
    """Return, by dataspace, the next inner level, whose tiles may overflow, and what it moves."""
    found: dict[str, tuple[LevelRow, CompressedTile]] = {}
    for stored in rows[position].stored:
        child = analysis.nest.child(stored.dataspace, position)
        if child is not None:
            found[stored.dataspace] = rows[child], rows[child].of(stored.dataspace)
    return found


def _compute_energy(analysis: _MappingAnalysis, made: Computes) -> int:
    """Return the energy of the arithmetic; what has no price is free, or with defects as dear as any."""
    compute, full = analysis.sparsity.compute, analysis.architecture.compute.energy
    otherwise = full if analysis.defects else 0
    gated = compute.energy.get("gated_compute", otherwise)
    skipped = compute.energy.get("skipped_compute", compute.energy.get("gated_compute", otherwise))
    return made.actual * full + made.gated * gated + made.skipped * skipped


def _meshes(analysis: _MappingAnalysis, mapping: LoopMapping) -> Iterator[Violation]:
    """Yield the fanouts that have too few children, when those that are not needed are left out."""
    if not analysis.skips:
        yield from mesh_violations(analysis.architecture, mapping)
        return
    for position, node in enumerate(analysis.architecture.nodes):
        if isinstance(node, Fanout):
            yield from _crowded(analysis.instances, position, node)


def _crowded(instances: Instances, position: int, node: Fanout) -> Iterator[Violation]:
    kinds: tuple[ViolationKind, ViolationKind] = ("mesh_x", "mesh_y")
    for kind, limit in zip(kinds, (node.mesh_x, node.mesh_y), strict=True):
        axis = kind[-1]
        needed = max(
            getattr(of[position + 1], axis) // max(1, getattr(of[position], axis))
            for of in instances.expansions.values()
        )
        if needed > limit:
            yield Violation(node.name, kind, needed, limit)
