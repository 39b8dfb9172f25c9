"""The cost model for many mappings at once, vectorised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass, fields, replace
from itertools import product
from operator import mul
from typing import Any

import numpy as np

from model.architecture import BANDWIDTHS, Architecture, StorageLevel
from model.cost.batch.counts import BatchTraffic, batch_traffic, index_space, kept_levels, most_words
from model.cost.batch.mappings import (
    BatchNest,
    Booleans,
    Doubles,
    Integers,
    MappingBatch,
    check_batch,
    decode,
    rows_with_remainders,
    unroll,
)
from model.cost.batch.remainders import RemainderNest, needs_one_by_one, words_with_remainders
from model.cost.batch.rules import BATCH_RULES, cycle_shares
from model.cost.plain import evaluate
from model.cost.prices import leaking_instances, most_paying_instances, network_latency
from model.cost.traffic import kept_positions
from model.counting import EXACT, Counting, rule_of
from model.counting.words import tile_words
from model.mapping import Mapping, StorageMapping
from model.problem import Problem

MAPPINGS_PER_CHUNK = 4096
"""Mappings that are priced together: their arrays stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class BatchEvaluation:
    """Costs of many mappings; figures as in `model.cost.report`.

    Parameters
    ----------
    valid, energy, cycles, compute_cycles
        Shape ``(mappings,)``. ``energy`` is in the architecture's unit, a double: exact below
        ``2**53`` units, and off by rounding above.
    instances, level_cycles
        Shape ``(mappings, storage levels)``.
    tile_words, reads, fills, updates
        Shape ``(mappings, storage levels, dataspaces)``, words per instance; 0 where bypassed.

    Where counts are rounded (see `BatchEvaluator`), all but ``valid`` and ``tile_words`` are doubles.
    """

    valid: Booleans
    energy: Doubles
    cycles: Integers
    compute_cycles: Integers
    instances: Integers
    level_cycles: Integers
    tile_words: Integers
    reads: Integers
    fills: Integers
    updates: Integers

    @property
    def edp(self) -> Doubles:
        """Energy units times cycles, shape ``(mappings,)``; doubles as ``energy`` is."""
        return self.energy * self.cycles


class BatchEvaluator:
    """Prices mappings of one problem on one architecture as `model.cost.evaluate` does.

    Link transfers are not modelled here. Some mappings with remainders are priced one by one: see
    `model.cost.batch.remainders.needs_one_by_one`.

    Parameters
    ----------
    problem, architecture, counting
        What is computed, on what, and how it is counted.
    rounded
        Whether counts of more than 2^53 may be off by rounding: they are doubles then, and problems may have
        nearly 2^62 words, but only by the exact rule. All mappings with remainders are priced one by one.

    Raises
    ------
    ValueError
        If `counting` is none of `model.counting.COUNTINGS`, or a level has a `model.architecture.Port`.
    OverflowError
        If the problem or the architecture is so large that the counts might not be exact in 64 bits;
        use `model.cost.evaluate` then.
    """

    def __init__(
        self,
        problem: Problem,
        architecture: Architecture,
        counting: Counting = EXACT,
        *,
        rounded: bool = False,
    ) -> None:
        rule = rule_of(counting)
        if not rule.is_general:
            raise ValueError(f"batches are not counted by the rule {counting!r}")
        if any(level.ports for level in architecture.levels):
            raise ValueError("batches know no ports at which reads and writes take different times")
        if rounded and not rule.rounds_counts:
            raise ValueError("counts by other rules than the exact one are not rounded")
        self.counting = counting
        self.rounded = rounded
        self.problem = problem
        self.architecture = architecture
        self._spaces = [(space, index_space(problem, space, rounded)) for space in problem.dataspaces]
        self._names = [space.name for space in problem.dataspaces]
        self._sizes = _value_words(problem, architecture)
        _check_instances(architecture)
        _check_rounding(architecture)
        if not rounded:
            _check_cycles(problem, architecture)

    def evaluate(self, batch: MappingBatch) -> BatchEvaluation:
        """Price all mappings of `batch`.

        Mappings that break a limit or keep a dataspace nowhere are not valid; the latter count no
        accesses to it.

        Parameters
        ----------
        batch
            Of any length, 0 included; chunks of `MAPPINGS_PER_CHUNK` mappings are priced together.

        Returns
        -------
        BatchEvaluation
            In the order of `batch`.

        Raises
        ------
        ValueError
            If the arrays do not describe mappings of the problem on the architecture, or remainders are to
            be counted by another rule than the exact one.
        """
        check_batch(self.problem, self.architecture, batch)
        remaining = rows_with_remainders(self.problem, batch)
        if not remaining.any():
            return _concatenated([self._chunk(part) for part in _chunks(batch)])
        if not rule_of(self.counting).remainders:
            raise ValueError(f"remainders are not counted by the rule {self.counting!r}")
        nest = RemainderNest.of(self.problem, self.architecture, batch)
        singly = remaining if self.rounded else remaining & needs_one_by_one(nest, self._spaces)
        whole, short, alone = map(np.flatnonzero, (~remaining, remaining & ~singly, singly))
        parts = [self.evaluate(batch.part(whole))] if len(whole) else []
        parts += map(self._chunk_with_remainders, _chunks(batch.part(short)) if len(short) else ())
        parts += [self._price_one(batch, int(row)) for row in alone]
        places = np.argsort(np.concatenate([whole, short, alone]))
        named = _field_values(_concatenated(parts))
        return BatchEvaluation(**{name: figures[places] for name, figures in named.items()})

    def estimate(self, batch: MappingBatch) -> BatchEvaluation:
        """Price mappings about as `evaluate` does, as fast with remainders as without.

        Words are counted as if the last pass of every loop were whole, and scaled by the share of these
        iterations that are executed. What is valid, tiles and the cycles of the arithmetic are exact, and
        without remainders all is. Parameters, result and errors are those of `evaluate`.
        """
        check_batch(self.problem, self.architecture, batch)
        return _concatenated([self._estimated(part) for part in _chunks(batch)])

    def _estimated(self, batch: MappingBatch) -> BatchEvaluation:
        if not rows_with_remainders(self.problem, batch).any():
            return self._chunk(batch)
        nest = unroll(self.problem, self.architecture, batch, self.rounded)
        iterations = nest.factors.astype(np.float64).prod(axis=(0, 1))
        share = self.problem.computes / iterations
        steps = RemainderNest.of(self.problem, self.architecture, batch).steps(len(self.architecture.nodes))
        traffic = [
            BatchTraffic(own.tile_words, *(np.ceil(words * share).astype(words.dtype) for words in own[1:]))
            for own in self._traffic(batch, nest)
        ]
        return self._priced(batch, nest, steps, traffic)

    def _price_one(self, batch: MappingBatch, row: int) -> BatchEvaluation:
        """Price one mapping, with the plain cost model; what it keeps nowhere is left out."""
        mapping = decode(self.problem, self.architecture, batch, row)
        spaces = [
            space
            for space in self.problem.dataspaces
            if kept_positions(self.architecture, mapping, space.name)
        ]
        problem = replace(self.problem, dataspaces=tuple(spaces))
        once = _kept_once(self.architecture, _without(mapping, problem))
        found = evaluate(problem, self.architecture, once, self.counting)
        limits = {violation.kind for violation in found.violations} - {"mesh_x", "mesh_y"}
        kept = len(spaces) == len(self.problem.dataspaces) and once == _without(mapping, problem)
        kind = np.float64 if self.rounded else np.int64
        words: Integers = np.zeros((4, 1, len(found.levels), len(self._names)), dtype=kind)
        for number, level in enumerate(found.levels):
            for own in level.dataspaces:
                column = self._names.index(own.dataspace)
                words[:, 0, number, column] = own.tile_words, own.reads, own.fills, own.updates
        children = dict(enumerate(batch.factors[row].prod(axis=1, keepdims=True)))
        meets = meshes_fit(self.architecture, children, _columns(batch, row))
        return BatchEvaluation(
            valid=np.array([kept and not limits]) & meets,
            energy=np.array([float(found.energy)]),
            cycles=np.array([found.cycles], dtype=kind),
            compute_cycles=np.array([found.compute_cycles], dtype=kind),
            instances=np.array([[level.instances for level in found.levels]], dtype=kind),
            level_cycles=np.array([[level.cycles for level in found.levels]], dtype=kind),
            tile_words=words[0],
            reads=words[1],
            fills=words[2],
            updates=words[3],
        )

    def _chunk(self, batch: MappingBatch) -> BatchEvaluation:
        nest = unroll(self.problem, self.architecture, batch, self.rounded)
        return self._priced(batch, nest, nest.steps, self._traffic(batch, nest))

    def _traffic(self, batch: MappingBatch, nest: BatchNest) -> list[BatchTraffic]:
        return [
            batch_traffic(nest, index, space, self._kept(batch, number), BATCH_RULES[self.counting])
            for number, (space, index) in enumerate(self._spaces)
        ]

    def _chunk_with_remainders(self, batch: MappingBatch) -> BatchEvaluation:
        nest = RemainderNest.of(self.problem, self.architecture, batch)
        pairs = [
            words_with_remainders(nest, index, space, batch.keep[:, :, number].T)
            for number, (space, index) in enumerate(self._spaces)
        ]
        steps = nest.steps(len(self.architecture.nodes))
        return self._priced(batch, nest, steps, [one for one, _ in pairs], [every for _, every in pairs])

    def _kept(self, batch: MappingBatch, number: int) -> Booleans:
        """Levels that keep a dataspace in effect, shape ``(storage levels, mappings)``."""
        space = self.problem.dataspaces[number]
        return kept_levels(self.architecture, space, batch.keep[:, :, number].T)

    def _priced(
        self,
        batch: MappingBatch,
        nest: BatchNest | RemainderNest,
        steps: Integers,
        traffic: Sequence[BatchTraffic],
        together: Sequence[BatchTraffic] | None = None,
    ) -> BatchEvaluation:
        """Price words of the first instances, or those of all instances `together` where they differ."""
        tiles, reads, fills, updates = (np.stack(words, axis=2) for words in zip(*traffic, strict=True))
        level_cycles = BATCH_RULES[self.counting].cycles
        sizes = tiles if (self._sizes == 1).all() else tiles * self._sizes[:, None, :]
        needed, taken = np.empty_like(reads[:, :, 0]), sizes.sum(axis=2)
        for places in self.architecture.memories:
            level, of_memory = self.architecture.levels[places[0]], slice(places[0], places[-1] + 1)
            read, written = reads[of_memory].sum(axis=0), (fills + updates)[of_memory].sum(axis=0)
            needed[of_memory] = level_cycles(level, self._names, steps, read, written)
            taken[of_memory] = taken[of_memory].sum(axis=0)
        busy = needed.max(axis=0)
        valid = fits(self.architecture, nest, taken, batch.columns)
        for number in range(len(self._spaces)):
            kept = self._kept(batch, number)
            valid &= kept.any(axis=0)
            for places in self.architecture.memories:
                valid &= kept[places[0] : places[-1] + 1].sum(axis=0) <= 1
        paid = traffic if together is None else together
        _, *words = (np.stack(own, axis=2) for own in zip(*paid, strict=True))
        return BatchEvaluation(
            valid=valid,
            energy=self._energy(nest, busy, words, alike=together is None),
            cycles=busy + network_latency(self.architecture),
            compute_cycles=steps,
            instances=np.stack([nest.instances(at) for at in self.architecture.storage_indices], axis=1),
            level_cycles=needed.T,
            tile_words=tiles.transpose(1, 0, 2),
            reads=reads.transpose(1, 0, 2),
            fills=fills.transpose(1, 0, 2),
            updates=updates.transpose(1, 0, 2),
        )

    def _energy(
        self,
        nest: BatchNest | RemainderNest,
        busy: Integers,
        words: Sequence[Integers],
        *,
        alike: bool,
    ) -> Doubles:
        """Energy of arithmetic, accesses and leakage, in the architecture's unit.

        Words are read, filled and updated, by one instance where all are `alike`, and by all together where
        they are not.
        """
        energy = np.full(len(busy), float(self.problem.computes * self.architecture.compute.energy))
        levels = zip(self.architecture.storage_indices, self.architecture.levels, strict=True)
        for number, (position, level) in enumerate(levels):
            accesses = level_energy(level, self._names, *(own[number] for own in words))
            used = nest.instances(position)
            available = self.architecture.instances_above(position)
            paying = np.minimum(used, most_paying_instances(level, available))
            energy += accesses * paying if alike else accesses
            leaking = leaking_instances(self.architecture, position, nest.instances)
            energy += float(level.energy.leak_per_cycle) * busy * leaking
        return energy


def _chunks(batch: MappingBatch) -> Iterator[MappingBatch]:
    """Yield the parts of a batch that are priced together: one at least, be it empty."""
    for start in range(0, max(1, len(batch)), MAPPINGS_PER_CHUNK):
        yield batch.part(slice(start, start + MAPPINGS_PER_CHUNK))


def _field_values(evaluation: BatchEvaluation) -> dict[str, Any]:
    return {field.name: getattr(evaluation, field.name) for field in fields(BatchEvaluation)}


def _concatenated(parts: Sequence[BatchEvaluation]) -> BatchEvaluation:
    """Put evaluations one after the other."""
    named = [_field_values(part) for part in parts]
    return BatchEvaluation(**{name: np.concatenate([own[name] for own in named]) for name in named[0]})


def _without(mapping: Mapping, problem: Problem) -> Mapping:
    """Keep the dataspaces of a problem only."""
    names = frozenset(space.name for space in problem.dataspaces)
    nodes = (
        replace(node, keep=node.keep & names) if isinstance(node, StorageMapping) else node
        for node in mapping.nodes
    )
    return Mapping(tuple(nodes))


def _kept_once(architecture: Architecture, mapping: Mapping) -> Mapping:
    """Keep each dataspace at the outermost place of a memory only, of those that keep it."""
    nodes = list(mapping.nodes)
    for places in architecture.memories:
        seen: frozenset[str] = frozenset()
        for position in (architecture.storage_indices[place] for place in places):
            node = nodes[position]
            assert isinstance(node, StorageMapping)
            nodes[position], seen = replace(node, keep=node.keep - seen), seen | node.keep
    return Mapping(tuple(nodes))


def _columns(batch: MappingBatch, row: int) -> Integers | None:
    return None if batch.columns is None else batch.columns[[row]]


def _value_words(problem: Problem, architecture: Architecture) -> Integers:
    """Words that a value takes, shape ``(storage levels, dataspaces)``."""
    sizes = [
        [level.packing_of(space.name).size_per_value for space in problem.dataspaces]
        for level in architecture.levels
    ]
    whole = [tile_words(space, problem.bound) for space in problem.dataspaces]
    if any(sum(map(mul, row, whole)) >= 2**63 for row in sizes):
        raise OverflowError("the tiles are too large for the batched cost model")
    return np.array(sizes, dtype=np.int64)


def _check_instances(architecture: Architecture) -> None:
    """Check that the instances of every level, all of which may leak, fit 64 bits."""
    for position, level in zip(architecture.storage_indices, architecture.levels, strict=True):
        if architecture.instances_above(position) >= 2**63:
            raise OverflowError(f"{level.name!r} has too many instances for the batched cost model")


def _check_cycles(problem: Problem, architecture: Architecture) -> None:
    """Check that the cycles that any bandwidth needs fit 64 bits, with all words in its smallest share."""
    names = [space.name for space in problem.dataspaces]
    # Words are read, filled and updated.
    most = [3 * most_words(problem, space) for space in problem.dataspaces]
    for level, kind in product(architecture.levels, BANDWIDTHS):
        if level.bandwidth(kind) is None:
            continue
        *shares, others, scale = cycle_shares(level, names, kind)
        if sum(map(mul, shares, most)) + others + scale * network_latency(architecture) >= 2**63:
            raise OverflowError(f"{level.name!r} takes too many cycles for the batched cost model")


def _check_rounding(architecture: Architecture) -> None:
    """Check that shares of free first touches are no finer than what 64 bits can round."""
    for level in architecture.levels:
        if any(share.denominator >= 2**30 for _, share in level.free_first_touches):
            raise OverflowError(f"{level.name!r} has too fine shares for the batched cost model")


def level_energy(
    level: StorageLevel, names: Sequence[str], reads: Integers, fills: Integers, updates: Integers
) -> Doubles:
    """Energy of one instance's accesses to all dataspaces."""
    price, packings = level.energy, [level.packing_of(name) for name in names]
    rows = np.array([float(packing.accesses_per_block) for packing in packings])
    energy = np.zeros(len(reads))
    for words, per_row in ((reads, price.read), (fills, price.fill), (updates, price.update)):
        vectors = _whole_blocks(words, [packing.block_size for packing in packings])
        accesses = vectors.sum(axis=1) if (rows == 1).all() else vectors @ rows
        energy += accesses * float(per_row)
    return energy


def _whole_blocks(words: Integers, blocks: Sequence[int]) -> Integers:
    """Whole blocks that hold words of all dataspaces (the last axis); dividing by one number is faster."""
    divisors: Integers = np.array(blocks if len(set(blocks)) > 1 else blocks[:1])
    return words if (divisors == 1).all() else -(-words // divisors)


def fits(
    architecture: Architecture,
    nest: BatchNest | RemainderNest,
    size_words: Integers,
    columns: Integers | None,
) -> Booleans:
    """Whether the mappings respect capacities and meshes.

    Parameters
    ----------
    architecture
        The hardware.
    nest
        The loops of the mappings.
    size_words
        What the tiles take of one instance, shape ``(storage levels, mappings)``.
    columns
        Children along X, shape ``(mappings, fanouts)``; None to look at the fanout's size only.

    Returns
    -------
    array
        Shape ``(mappings,)``.
    """
    valid = np.ones(size_words.shape[1], dtype=np.bool_)
    for level, words in zip(architecture.levels, size_words, strict=True):
        if level.usable_words is not None:
            valid &= (words <= level.usable_words) & (words >= level.least_words)
    children = {position: nest.children(position) for position in architecture.fanout_indices}
    return valid & meshes_fit(architecture, children, columns)


def meshes_fit(
    architecture: Architecture, children_at: Named[int, Integers], columns: Integers | None
) -> Booleans:
    """Whether the fanouts have enough children; parameters as of `fits`, and children in use by position."""
    valid: Booleans = np.array(True)
    for number, position in enumerate(architecture.fanout_indices):
        fanout = architecture.fanouts[number]
        children = children_at[position]
        if columns is None:
            valid = valid & (children <= fanout.size)
        else:
            along = columns[:, number]
            valid = valid & (along <= fanout.mesh_x) & (children // along <= fanout.mesh_y)
    return valid
