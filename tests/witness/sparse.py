"""Runs a mapping on real sparse tensors, with compressed tiles, gating and skipping, and counts.

An independent check of `model.sparse`, with which it shares no code. Nothing is computed from densities:
tensors are drawn, every tile is looked at while it stays in place, and an access is saved where the words of
a condition that meet it are all zero. Tiles must have no holes, and children of a fanout that need the same
words share one access. What loops with remainders leave beyond a dimension's bound is not executed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from model.architecture import Architecture
from model.mapping import FanoutMapping, StorageMapping
from model.mapping import Mapping as LoopMapping
from model.problem import Dataspace, Problem
from model.sparsity import Density, Optimization, Rank, Representation, Sparsity

Mask = NDArray[np.bool_]
Words = frozenset[int]


def tensor_shape(problem: Problem, space: Dataspace) -> tuple[int, ...]:
    """Return the extents of a tensor."""
    return tuple(
        1 + sum(abs(term.coefficient) * (problem.bound[term.dim] - 1) for term in rank)
        for rank in space.ranks
    )


def draw(shape: tuple[int, ...], density: Density, random: np.random.Generator) -> Mask:
    """Draw where a tensor has nonzeros.

    Parameters
    ----------
    shape
        Its extents. With the distribution ``fixed_structured`` the words of the last rank form blocks, as
        long as the denominator of the density; each has its share of nonzeros, anywhere in it.
    density
        How they are distributed.
    random
        The source of chance.

    Raises
    ------
    ValueError
        If the last rank is not a whole number of blocks.
    """
    words = math.prod(shape)
    if density.distribution == "banded":
        row, column = np.indices(shape)
        band: Mask = np.abs(row - column) <= density.band_width
        return band
    if density.distribution == "hypergeometric":
        nonzeros = math.ceil(float(density.share) * words)
        return (random.permutation(words) < nonzeros).reshape(shape)
    block = density.share.denominator
    if shape[-1] % block:
        raise ValueError(f"a rank of {shape[-1]} words is no whole number of blocks of {block}")
    order = random.permuted(np.tile(np.arange(block), (words // block, 1)), axis=1)
    return (order < density.share.numerator).reshape(shape)


@dataclass
class Tally:
    """Words of one dataspace at one level, over all instances: made accesses, and saved ones.

    Parameters
    ----------
    reads, fills, updates
        That are made.
    saved_reads, saved_updates
        That are gated or skipped here.
    """

    reads: int = 0
    fills: int = 0
    updates: int = 0
    saved_reads: int = 0
    saved_updates: int = 0


@dataclass(frozen=True)
class SparseExecution:
    """What came out of a run.

    Parameters
    ----------
    tallies
        By name of a level and of a dataspace that it keeps.
    metadata
        By the same, words of metadata and of payloads of one tile per rank, the lowest first: averages over
        all tiles that come.
    actual, gated, skipped
        Computations by kind.
    """

    tallies: dict[tuple[str, str], Tally]
    metadata: dict[tuple[str, str], tuple[tuple[float, float], ...]]
    actual: int
    gated: int
    skipped: int


@dataclass(frozen=True, slots=True)
class _Loop:
    node: int
    dim: str
    bound: int
    stride: int
    spatial: bool


@dataclass(frozen=True)
class _Stay:
    """A tile that stays in one instance of a place for some steps of the loops outside.

    Parameters
    ----------
    first, last
        Of the steps.
    instance
        Where it is.
    words, fresh, leaving
        All of its words, those that the tile before lacks, and those that the next one lacks.
    """

    first: int
    last: int
    instance: int
    words: Words
    fresh: Words
    leaving: Words


def execute_sparse(
    problem: Problem,
    architecture: Architecture,
    sparsity: Sparsity,
    mapping: LoopMapping,
    tensors: Mapping[str, Mask],
) -> SparseExecution:
    """Execute a mapping and count.

    Parameters
    ----------
    problem, architecture, sparsity, mapping
        What to execute. Each unit must have a single option, and none may skip instances.
    tensors
        Where each dataspace has nonzeros, see `draw`.

    Raises
    ------
    ValueError
        If a unit has several options or skips instances, ranks and loops do not match one to one, or first
        values of outputs are given.
    """
    if any(space.given for space in problem.dataspaces):
        raise ValueError("executions of sparse data know no given first values of outputs")
    run = _Run(problem, architecture, sparsity, mapping, tensors)
    for space in problem.dataspaces:
        _move(run, space)
    return SparseExecution(run.tallies, _metadata(run), *_compute(run))


@dataclass
class _Run:
    problem: Problem
    architecture: Architecture
    sparsity: Sparsity
    mapping: LoopMapping
    tensors: Mapping[str, Mask]
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    # By dataspace and place, whether units farther out let the tile come, per step outside and instance
    alive: dict[tuple[str, int], Mask] = field(default_factory=dict)

    @cached_property
    def loops(self) -> list[_Loop]:
        """All loops, outermost first."""
        stride = dict.fromkeys(self.problem.dims, 1)
        found: list[_Loop] = []
        for node in reversed(range(len(self.mapping.nodes))):
            entry = self.mapping.nodes[node]
            own = entry.temporal if isinstance(entry, StorageMapping) else entry.spatial
            for loop in own:
                spatial = isinstance(entry, FanoutMapping)
                found.append(_Loop(node, loop.dim, loop.bound, stride[loop.dim], spatial))
                stride[loop.dim] *= loop.bound
        return found[::-1]

    def size(self, place: int, spatial: bool, inside: bool) -> int:
        """Return the product of the temporal or spatial bounds inside or outside of a place."""
        chosen = (loop for loop in self.loops if loop.spatial == spatial and (loop.node >= place) == inside)
        return math.prod(loop.bound for loop in chosen)

    @cached_property
    def _indices(self) -> dict[str, NDArray[np.int64]]:
        """Per dimension, the iteration of each step and arithmetic unit."""
        at = {dim: np.zeros((1, 1), dtype=np.int64) for dim in self.problem.dims}
        steps, units = self.size(0, False, True), self.size(0, True, True)
        below = {False: steps, True: units}
        for loop in self.loops:
            below[loop.spatial] //= loop.bound
            count = units if loop.spatial else steps
            index = np.arange(count) // below[loop.spatial] % loop.bound * loop.stride
            at[loop.dim] = at[loop.dim] + (index[None, :] if loop.spatial else index[:, None])
        return {dim: np.broadcast_to(index, (steps, units)) for dim, index in at.items()}

    @cached_property
    def executed(self) -> Mask:
        """Whether each step and arithmetic unit has an iteration."""
        within = [index < self.problem.bound[dim] for dim, index in self._indices.items()]
        executed: Mask = np.logical_and.reduce(within)
        return executed

    @cached_property
    def flat(self) -> dict[str, NDArray[np.int64]]:
        """Per dataspace, the word of each step and arithmetic unit; -1 without an iteration."""
        return {own.name: np.where(self.executed, self._words(own), -1) for own in self.problem.dataspaces}

    def _words(self, space: Dataspace) -> NDArray[np.int64]:
        flat = np.zeros(self.executed.shape, dtype=np.int64)
        for rank, extent in zip(space.ranks, tensor_shape(self.problem, space), strict=True):
            index = np.zeros(self.executed.shape, dtype=np.int64)
            for term in rank:
                back = -min(0, term.coefficient) * (self.problem.bound[term.dim] - 1)
                index = index + term.coefficient * self._indices[term.dim] + back
            flat = flat * extent + index
        return flat

    @cached_property
    def nonzero(self) -> dict[str, Mask]:
        """Per dataspace, whether the word of each step and arithmetic unit is one, and needed."""
        return {name: self.tensors[name].ravel()[flat] & self.executed for name, flat in self.flat.items()}

    def words(self, name: str, place: int, step: int, instance: int) -> Words:
        """Return the words that an instance of a place needs in a step of the loops outside."""
        needed = np.unique(self.flat[name][self.block(place, step, step, instance)])
        return frozenset(needed[needed >= 0].tolist())

    def comes_anew(self, name: str, place: int, before: int, after: int) -> bool:
        """Whether a tile comes whole after a step: a loop that moves it has ended in a single iteration."""
        outside = [loop for loop in self.loops if loop.node < place and not loop.spatial and loop.bound > 1]
        digits = []
        for step in (before, after):
            own, rest = [], step
            for loop in reversed(outside):
                rest, digit = divmod(rest, loop.bound)
                own.append(digit)
            digits.append(own[::-1])
        first = next(n for n, pair in enumerate(zip(*digits, strict=True)) if pair[0] != pair[1])
        dims = self.problem.dataspace(name).dims - {outside[first].dim}
        inside = enumerate(outside[first + 1 :], first + 1)
        return any(loop.dim in dims and not digits[0][n] for n, loop in inside)

    def kept(self, name: str) -> list[int]:
        """Return the levels that keep a dataspace, outermost first."""
        nodes = enumerate(self.mapping.nodes)
        return [place for place, entry in nodes if isinstance(entry, StorageMapping) and name in entry.keep]

    def level_name(self, place: int) -> str:
        """Return the name of a node."""
        return self.architecture.nodes[place].name

    def sparse_level(self, place: int) -> int:
        """Return the number of a storage level."""
        return self.architecture.storage_indices.index(place)

    def representation(self, name: str, place: int) -> Representation | None:
        """Return how a level stores a dataspace."""
        return self.sparsity.levels[self.sparse_level(place)].representations.get(name)

    def block(self, place: int, first: int, last: int, instance: int) -> tuple[slice, slice]:
        """Return the steps and compute units that a stay at a place serves."""
        steps, units = self.size(place, False, True), self.size(place, True, True)
        return slice(first * steps, (last + 1) * steps), slice(instance * units, (instance + 1) * units)

    def stays(self, name: str, place: int) -> Iterator[_Stay]:
        """Yield what each instance of a place holds, one tile after the other."""
        count = self.size(place, False, False)
        reuses = place < len(self.architecture.nodes)
        for instance in range(self.size(place, True, False)):
            tiles = [(step, self.words(name, place, step, instance)) for step in range(count)]
            tiles = [(step, words) for step, words in tiles if words]
            none: Words = frozenset()
            # What each tile finds there: nothing at first, and where it comes anew.
            found = [none] * len(tiles)
            for n in range(1, len(tiles) if reuses else 0):
                (before, old), (after, _) = tiles[n - 1 : n + 1]
                found[n] = none if self.comes_anew(name, place, before, after) else old
            starts = [n for n, (_, words) in enumerate(tiles) if words != found[n]]
            for first, end in pairwise([*starts, len(tiles)]):
                words, left = tiles[first][1], found[end] if end < len(tiles) else none
                last, stays = tiles[end - 1][0], tiles[end][1] if left else none
                yield _Stay(tiles[first][0], last, instance, words, words - found[first], words - stays)

    def conditions(self, name: str, place: int) -> tuple[str, ...]:
        """Return on what accesses to a dataspace at a level depend, of all units."""
        found: list[str] = []
        for number, level in zip(self.architecture.storage_indices, self.sparsity.levels, strict=True):
            for unit in level.optimizations:
                target, conditions = _single(unit)
                keeper = max((p for p in self.kept(target) if p <= number), default=-1)
                found += conditions if (target, keeper) == (name, place) else ()
        return tuple(dict.fromkeys(found))


def _single(unit: Optimization) -> tuple[str, tuple[str, ...]]:
    if unit.kind == "skipping_spatial" or len(unit.options) != 1:
        raise ValueError("only units with a single option that save accesses are executed")
    return unit.options[0].target, unit.options[0].conditions


def _move(run: _Run, space: Dataspace) -> None:
    """Move one dataspace between all levels that keep it, and to the arithmetic."""
    kept, name = run.kept(space.name), space.name
    outermost = (run.size(kept[0], False, False), run.size(kept[0], True, False))
    run.alive[name, kept[0]] = np.ones(outermost, dtype=bool)
    for place in kept:
        run.tallies[run.level_name(place), name] = Tally()
    for parent, child in zip(kept, [*kept[1:], len(run.architecture.nodes)], strict=True):
        _exchange(run, space, parent, child)


def _exchange(run: _Run, space: Dataspace, parent: int, child: int) -> None:
    """Count what moves between a level and the next inner one, in the order of the steps."""
    name = space.name
    alive = np.zeros((run.size(child, False, False), run.size(child, True, False)), dtype=bool)
    run.alive[name, child] = alive
    stays = sorted(run.stays(name, child), key=lambda stay: stay.first)
    served: dict[int, set[int]] = {}
    arrived: dict[int, set[int]] = {}
    groups = (
        part
        for _, together in groupby(stays, key=lambda stay: stay.first)
        for part in _sharing(run, list(together), parent, child)
    )
    for instance, group in groups:
        step = group[0].first * run.size(child, False, True) // run.size(parent, False, True)
        reaches = bool(run.alive[name, parent][step, instance])
        useless = _useless(run, name, parent, child, group)
        for stay in group:
            alive[stay.first : stay.last + 1, stay.instance] = reaches and not useless
        held = reaches and _held(run, name, parent, step, instance)
        _count_parent(run, space, parent, group, held, useless, served.setdefault(instance, set()))
        _count_child(run, space, child, group, arrived)


def _sharing(run: _Run, stays: list[_Stay], parent: int, child: int) -> Iterator[tuple[int, list[_Stay]]]:
    """Group the stays of one moment that one access of a parent's instance serves."""
    share = run.size(child, True, False) // run.size(parent, True, False)
    groups: dict[tuple[int, Words], list[_Stay]] = {}
    for stay in stays:
        groups.setdefault((stay.instance // share, stay.words), []).append(stay)
    for (instance, _), group in groups.items():
        yield instance, group


def _useless(run: _Run, name: str, parent: int, child: int, group: Sequence[_Stay]) -> bool:
    """Whether a condition of a unit is zero wherever it meets the tiles of an access."""
    blocks = [run.block(child, stay.first, stay.last, stay.instance) for stay in group]
    return any(
        not any(run.nonzero[condition][block].any() for block in blocks)
        for condition in run.conditions(name, parent)
    )


def _held(run: _Run, name: str, place: int, step: int, instance: int) -> bool:
    """Whether a level holds its tile: neither it nor one farther out is empty where that is known."""
    at, unit = step * run.size(place, False, True), instance * run.size(place, True, True)
    return all(
        _present(run, name, p, at // run.size(p, False, True), unit // run.size(p, True, True))
        for p in run.kept(name)
        if p <= place
    )


def _present(run: _Run, name: str, place: int, step: int, instance: int) -> bool:
    """Whether a tile comes: an empty one does not where the next outer level has metadata."""
    outer = [p for p in run.kept(name) if p < place]
    if not outer or run.representation(name, outer[-1]) is None or place == len(run.architecture.nodes):
        return True
    return bool(run.nonzero[name][run.block(place, step, step, instance)].any())


def _stored_words(run: _Run, name: str, place: int, words: Words) -> int:
    """Return how many of some words a level moves: with metadata the nonzeros alone."""
    if run.representation(name, place) is None:
        return len(words)
    return int(run.tensors[name].ravel()[list(words)].sum()) if words else 0


def _count_parent(
    run: _Run,
    space: Dataspace,
    place: int,
    group: Sequence[_Stay],
    held: bool,
    useless: bool,
    served: set[int],
) -> None:
    """Count the access of a level that serves some stays, and of an output the one that ends them."""
    fresh = frozenset[int]().union(*(stay.fresh for stay in group))
    leaving = frozenset[int]().union(*(stay.leaving for stay in group))
    again = fresh & served if space.read_write else fresh
    served |= fresh
    if not held:
        return
    tally = run.tallies[run.level_name(place), space.name]
    read = _stored_words(run, space.name, place, frozenset(again))
    written = _stored_words(run, space.name, place, leaving) if space.read_write else 0
    tally.reads += 0 if useless else read
    tally.updates += 0 if useless else written
    tally.saved_reads += read if useless else 0
    tally.saved_updates += written if useless else 0


def _count_child(
    run: _Run, space: Dataspace, child: int, group: Sequence[_Stay], arrived: dict[int, set[int]]
) -> None:
    """Count what comes into the children."""
    if child == len(run.architecture.nodes):
        return
    tally = run.tallies[run.level_name(child), space.name]
    for stay in group:
        known = arrived.setdefault(stay.instance, set())
        words = stay.fresh & known if space.read_write else stay.fresh
        known |= stay.fresh
        alive = run.alive[space.name, child][stay.first, stay.instance]
        if alive and _held(run, space.name, child, stay.first, stay.instance):
            tally.fills += _stored_words(run, space.name, child, frozenset(words))


def _compute(run: _Run) -> tuple[int, int, int]:
    """Count the computations: made, gated and skipped."""
    operands = [space.name for space in run.problem.dataspaces if not space.read_write]
    arithmetic = len(run.architecture.nodes)
    reached = np.logical_and.reduce([run.executed, *(run.alive[name, arithmetic] for name in operands)])
    nonzero = np.array([run.nonzero[name][reached] for name in operands])
    announced = np.array([[run.representation(name, run.kept(name)[-1]) is not None] for name in operands])
    absent = ~nonzero & announced
    exists = ~absent.all(axis=0)
    compute = run.sparsity.compute
    skipped = exists & absent.any(axis=0) & compute.skips_unaligned
    gated = exists & ~skipped & ~nonzero.all(axis=0) & compute.gates_zeros
    made = exists & ~skipped & ~gated
    return int(made.sum()), int(gated.sum()), int(skipped.sum())


def _metadata(run: _Run) -> dict[tuple[str, str], tuple[tuple[float, float], ...]]:
    """Count the metadata of all tiles that levels with formats hold."""
    stored = (
        (space, place, run.representation(space.name, place))
        for space in run.problem.dataspaces
        for place in run.kept(space.name)
    )
    return {
        (run.level_name(place), space.name): _average_metadata(run, space, place, representation.ranks)
        for space, place, representation in stored
        if representation is not None
    }


def _average_metadata(
    run: _Run, space: Dataspace, place: int, ranks: Sequence[Rank]
) -> tuple[tuple[float, float], ...]:
    """Return the words of metadata and payloads per rank of an average tile."""
    inside = [o for o in run.loops if o.node >= place and o.bound > 1 and o.dim in space.dims]
    if len(inside) != len(ranks):
        raise ValueError(f"{len(ranks)} ranks for {len(inside)} loops of {space.name}")
    tiles = [
        _coordinates(run, space, place, inside, stay)
        for stay in run.stays(space.name, place)
        if _present(run, space.name, place, stay.first, stay.instance)
    ]
    counted = [_tile_metadata(tile, inside, ranks) for tile in tiles]
    average = np.mean(np.array(counted, dtype=float), axis=0) if counted else np.zeros((len(ranks), 2))
    return tuple((float(metadata), float(payload)) for metadata, payload in average[::-1])


def _coordinates(
    run: _Run, space: Dataspace, place: int, inside: Sequence[_Loop], stay: _Stay
) -> set[tuple[int, ...]]:
    """Return the loop indices of the nonzeros of a tile, outermost loop first."""
    steps, units = run.block(place, stay.first, stay.first, stay.instance)
    below = {False: run.size(place, False, True), True: run.size(place, True, True)}
    local = {False: np.arange(steps.stop - steps.start), True: np.arange(units.stop - units.start)}
    columns: list[NDArray[np.int64]] = []
    shape = (len(local[False]), len(local[True]))
    for loop in (loop for loop in run.loops if loop.node >= place):
        below[loop.spatial] //= loop.bound
        index = local[loop.spatial] // below[loop.spatial] % loop.bound
        if loop in inside:
            spread = index[None, :] if loop.spatial else index[:, None]
            columns.append(np.broadcast_to(spread, shape))
    nonzero = run.nonzero[space.name][steps, units]
    return set(zip(*(column[nonzero].tolist() for column in columns), strict=True))


def _tile_metadata(
    tile: set[tuple[int, ...]], inside: Sequence[_Loop], ranks: Sequence[Rank]
) -> list[tuple[int, int]]:
    """Return the words of each rank of one tile, the top rank first, without the data itself."""
    words: list[tuple[int, int]] = []
    fibers, all_fibers = 1 if tile else 0, 1
    for depth, (loop, rank) in enumerate(zip(inside, reversed(ranks), strict=True)):
        filled = len({point[: depth + 1] for point in tile})
        words.append(
            {
                "UOP": (0, fibers * (loop.bound + 1)),
                "CP": (filled, filled),
                "RLE": (filled, filled),
                "B": (fibers * loop.bound, filled),
                "UB": (all_fibers * loop.bound, all_fibers * loop.bound),
            }[rank.format]
        )
        fibers, all_fibers = filled, all_fibers * loop.bound
    lowest = next((depth for depth in reversed(range(len(words))) if words[depth] != (0, 0)), None)
    return [(metadata, 0 if depth == lowest else payload) for depth, (metadata, payload) in enumerate(words)]
