"""The least shares of dense accesses that sparse data leave, tile by tile, and the room that tiles take.

Every figure is a lower bound on what the model of sparse data counts: it rounds the words that are left up,
so that bounds leave rounding out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

import numpy as np

from model.architecture import Fanout
from model.mapspace import Mapspace
from model.rules import Locality
from model.sparse.arithmetic import Computes, Operand, computes
from model.sparse.counting import Unit
from model.sparse.density import Banded, Distribution, FixedStructured, distribution_of
from model.sparse.saving import Saved
from model.sparsity import (
    METADATA_FILL,
    METADATA_READ,
    METADATA_UPDATE,
    Conditional,
    Rank,
    Representation,
    Sparsity,
)
from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.space.prices import LevelAccess, Resource, resources
from solver.search.space.user_rules import TileRules
from solver.sparse_search.chances import Chances, Sizes, cut
from solver.sparse_search.choices import Chain, Chains
from solver.sparse_search.grid import Cells, TensorGrid, TileGrid, Vector

ROUNDING = 1e-6
"""Shares that the arithmetic sees are whole millionths."""

MORE = 1 + 1e-12
"""Far more than sums of some dozen doubles err by, as a factor."""

METADATA = {"read": METADATA_READ, "fill": METADATA_FILL, "update": METADATA_UPDATE}


@dataclass(frozen=True)
class Saver:
    """A unit that may gate or skip accesses to one dataspace.

    Parameters
    ----------
    place
        Level that keeps the dataspace.
    option
        Target and conditions.
    skips
        Whether useless accesses take no time.
    certain
        Whether the unit has no other target that it may serve instead.
    """

    place: int
    option: Conditional
    skips: bool
    certain: bool


@dataclass(frozen=True, eq=False)
class Parts:
    """What a word of dense data costs at a level, at least, by the tile inside of a boundary.

    Parameters
    ----------
    whole, saved
        Energy units where no access is saved, and where all are, as tables.
    load
        Words that a bandwidth carries where no access is skipped, metadata included, likewise.
    outer, own
        Units that may save accesses: those of levels farther out, and the level's own.
    rounded
        Energy units by which rounding may leave out more, in each instance.
    lost
        Words by which it may load a bandwidth less, in each instance.
    """

    whole: FloatArray
    saved: FloatArray
    load: FloatArray
    outer: tuple[Saver, ...]
    own: tuple[Saver, ...]
    rounded: float
    lost: float

    @cached_property
    def most_whole(self) -> float:
        """Energy units of the dearest tiles."""
        return float(self.whole.max())

    @cached_property
    def most_load(self) -> float:
        """Words of the tiles that take up most of a bandwidth."""
        return float(self.load.max())


def skips_instances(mapspace: Mapspace) -> bool:
    """Whether any unit saves instances: the children of a fanout right below its level."""
    assert mapspace.sparsity is not None
    nodes, places = mapspace.architecture.nodes, mapspace.architecture.storage_indices
    levels = zip(places, mapspace.sparsity.levels, strict=True)
    above = (own for place, own in levels if isinstance(next(iter(nodes[place + 1 :]), None), Fanout))
    return any(unit.kind == "skipping_spatial" for own in above for unit in own.optimizations)


class LeastShares:
    """Figures of some tiles of a mapspace of sparse data, those of a grid or others.

    Parameters
    ----------
    mapspace
        Its data are sparse.
    grid
        Its tiles.
    """

    def __init__(self, mapspace: Mapspace, grid: TileGrid) -> None:
        assert mapspace.sparsity is not None
        self.mapspace = mapspace
        self.sparsity: Sparsity = mapspace.sparsity
        self.grid = grid
        self._architecture = mapspace.architecture
        self.levels = mapspace.architecture.levels
        self.tensors = {
            space.name: TensorGrid(grid, space, grid.every) for space in mapspace.problem.dataspaces
        }
        self.distributions: dict[str, Distribution] = {
            name: distribution_of(self.sparsity.density(name), tensor.whole)
            for name, tensor in self.tensors.items()
        }
        self.chances = {name: Chances(own) for name, own in self.distributions.items()}
        self._densities: dict[str, float] = {}
        self._savers: dict[tuple[str, Chain], tuple[Saver, ...]] = {}
        self._between: dict[tuple[int, int], list[int]] = {}
        self._forget()

    def _forget(self) -> None:
        """Begin with the figures of tiles."""
        self._empty: dict[str, FloatArray] = {}
        self._idle: dict[str, FloatArray] = {}
        self._sizes: dict[tuple[int, str], FloatArray] = {}

    def of(self, cells: Cells) -> LeastShares:
        """The figures of other tiles."""
        other = copy(self)
        other.tensors = {name: replace(own, cells=cells) for name, own in self.tensors.items()}
        other._forget()
        return other

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """All limited bandwidths."""
        return resources(self._architecture)

    @cached_property
    def skips_instances(self) -> bool:
        """Whether any unit saves instances: the children of a fanout right below it."""
        return skips_instances(self.mapspace)

    def empty(self, name: str) -> FloatArray:
        """Chance of each whole tile of a dataspace to be empty, at most what that of any smaller one is."""
        if name not in self._empty:
            tensor, distribution = self.tensors[name], self.distributions[name]
            if isinstance(distribution, Banded):
                self._empty[name] = self._band_empty(name)
            elif self.grid.divides:
                self._empty[name] = tensor.table(distribution.empty)
            else:
                self._empty[name] = self.chances[name].empty(tensor.words)
        return self._empty[name]

    def idle(self, name: str) -> FloatArray:
        """Chance of the tile that an iteration is in to be empty, at most: the last one may be short."""
        if self.grid.divides:
            return self.empty(name)
        if name not in self._idle:
            self._idle[name] = self.mean_empty(name, self._cuts(name))
        return self._idle[name]

    def _cuts(self, name: str) -> dict[int, Sizes]:
        """Sizes of the tiles of a dataspace that an iteration is in, by dimension."""
        cells = self.tensors[name].cells
        return {
            d: cut(self.grid.bounds[d], cells.numbers[d], cells.least[d], cells.longest[d])
            for d in self.tensors[name].axes
        }

    def mean_empty(self, name: str, sizes: dict[int, Sizes]) -> FloatArray:
        """Chance of what some iterations touch to be empty, at most, given the sizes by dimension."""
        tensor, chances = self.tensors[name], self.chances[name]
        ones: FloatArray = np.ones(
            (1,) * max((own[0].ndim for each in sizes.values() for own in each), default=0)
        )
        total: FloatArray = 0 * ones
        for chosen in product(*sizes.values()):
            weight: FloatArray = reduce(np.multiply, (share for _, share in chosen), ones)
            if not weight.any():
                continue
            iterations = [ones.astype(np.int64)] * len(self.grid.dims)
            for d, (own, _) in zip(sizes, chosen, strict=True):
                iterations[d] = own
            total = total + weight * chances.empty(tensor.words_of(tuple(iterations)))
        return np.minimum(total * MORE, 1.0)

    def _band_empty(self, name: str) -> FloatArray:
        """Chance of tiles of a band to be empty: counted on grids, larger ones may be so more often."""
        tensor, distribution = self.tensors[name], self.distributions[name]
        shapes = tensor.shapes
        chances = np.array([distribution.empty(tuple(shape)) for shape in shapes.tolist()])
        return tensor.table(
            lambda tile: float(chances[(shapes >= np.array(tile)).all(axis=1)].max(initial=0.0))
        )

    def one_empty(self, name: str) -> float:
        """Chance of a single word to be zero, at least what that of any tile is."""
        distribution = self.distributions[name]
        if isinstance(distribution, Banded):
            return float(self.empty(name).max())
        return distribution.empty((1,) * len(self.tensors[name].space.ranks))

    def representation(self, level: int, name: str) -> Representation | None:
        """How a level stores a dataspace, if it has metadata."""
        return self.sparsity.levels[level].representations.get(name)

    def without_rank(self, name: str, level: int) -> set[int]:
        """Dimensions of a dataspace whose loops find no rank in a level's format."""
        representation = self.representation(level, name)
        if representation is None or not all(rank.flattened for rank in representation.ranks):
            return set()
        taken = {dim for rank in representation.ranks for group in rank.flattened for dim in group}
        return {axis for axis in self.tensors[name].axes if self.grid.dims[axis] not in taken}

    # ------------------------------------------------------------------------------------------ room

    def within(self, level: int, kept: Iterable[str]) -> BoolArray:
        """Which tiles a level can hold, and fill enough, as far as their data go; rules allow them."""
        usable, names = self.levels[level].usable_words, sorted(kept)
        allowed = self._allowed(level, names)
        if usable is None:
            return allowed
        fits: BoolArray = allowed & (self._all_words(level, names) <= usable)
        least = self.levels[level].least_words
        if least and not any(self._overbooks(level, name) for name in names):
            fits = fits & (self._largest._all_words(level, names) >= least)
        return fits

    def _all_words(self, level: int, names: Sequence[str]) -> FloatArray:
        none: FloatArray = np.zeros((1,) * len(self.grid.dims))
        return sum((self._size(level, name) for name in names), none)

    @cached_property
    def _largest(self) -> LeastShares:
        """Figures of the largest tiles of which there are as many."""
        every = self.grid.every
        return self if self.grid.divides else self.of(replace(every, least=every.longest))

    def _allowed(self, level: int, names: Sequence[str]) -> BoolArray:
        """Which tiles rules about a level may allow; those on tiles that may overflow are left out."""
        if not self.grid.divides:  # some extents of a cell may be allowed, and others not
            return np.ones((1,) * len(self.grid.dims), dtype=np.bool_)
        rules = self.mapspace.rules_on(Locality("tile", self.levels[level].component))
        open_ones = {name for name in names if self._overbooks(level, name)}
        settled = [rule for rule in rules if open_ones.isdisjoint(rule.sized)]
        shape = self.grid.shape
        words = {name: self._rows(self._values(level, name).astype(np.int64)) for name in names}
        extents = dict(zip(self.grid.dims, map(self._rows, self.grid.every.least), strict=True))
        return TileRules(settled, self.levels[level], words, extents).allow(math.prod(shape)).reshape(shape)

    def _rows(self, table: IntArray) -> IntArray:
        return np.broadcast_to(table, self.grid.shape).reshape(-1)

    def _size(self, level: int, name: str) -> FloatArray:
        """Words of a level that each tile takes at least."""
        key = level, name
        if key not in self._sizes:
            per_value = self.levels[level].packing_of(name).size_per_value
            self._sizes[key] = self._values(level, name) * per_value
        return self._sizes[key]

    def _values(self, level: int, name: str) -> FloatArray:
        representation = self.representation(level, name)
        if representation is None or not representation.compressed:
            return self.tensors[name].words
        confidence = self._confidence(level, name)
        distribution, tensor = self.distributions[name], self.tensors[name]
        if not self.grid.divides and confidence < 1:
            # Shares of cases are known of some tiles only, and may err for large ones.
            return np.zeros((1,) * len(self.grid.dims))
        return tensor.table(lambda tile: distribution.most(tile, confidence))

    def _overbooks(self, level: int, name: str) -> bool:
        sparse, representation = self.sparsity.levels[level], self.representation(level, name)
        limited = self.levels[level].usable_words is not None
        packed = representation is not None and representation.compressed
        return sparse.allow_overbooking and limited and packed

    def _confidence(self, level: int, name: str) -> float:
        """Share of cases in which a tile fits, at least."""
        return self.sparsity.levels[level].confidence if self._overbooks(level, name) else 1.0

    # ---------------------------------------------------------------------------------------- shares

    def savers(self, name: str, chain: Chain) -> tuple[Saver, ...]:
        """Units that may save accesses to a dataspace that the levels of `chain` keep."""
        key = name, chain
        if key not in self._savers:
            self._savers[key] = tuple(self._found_savers(name, chain))
        return self._savers[key]

    def _found_savers(self, name: str, chain: Chain) -> Iterator[Saver]:
        for level, sparse in enumerate(self.sparsity.levels):
            places = [keeper for keeper in chain if keeper <= level]
            units = (unit for unit in sparse.optimizations if unit.kind != "skipping_spatial")
            pairs = ((unit, option) for unit in units for option in unit.options if option.target == name)
            for unit, option in pairs if places else ():
                certain = all(other.target == name for other in unit.options)
                yield Saver(places[-1], option, unit.kind == "skipping", certain)

    def meeting(self, saver: Saver, chain: Chain) -> tuple[int, list[int]]:
        """The next inner level, and the dimensions along which its instances share an access."""
        child = next((level for level in chain if level > saver.place), len(self.levels))
        met = {axis for c in saver.option.conditions for axis in self.tensors[c].axes}
        return child, sorted(met.difference(self.tensors[saver.option.target].axes))

    def splits(self, saver: Saver, chain: Chain) -> Vector:
        """Dimensions along which an access may meet less than a tile."""
        return self.tensors[saver.option.target].axes if self._may_split(saver, chain) else ()

    def _is_scalar(self, child: int) -> bool:
        """Whether a level that serves a child, or the arithmetic, does so in each iteration in time."""
        depth = len(self.levels)
        return child == depth and not self.fanouts_between(depth - 1, depth)

    def in_blocks(self, saver: Saver, condition: str) -> bool:
        """Whether blocks of words meet a band, which may be empty in any shape."""
        return self.is_blocked(saver) and isinstance(self.distributions[condition], Banded)

    def is_blocked(self, saver: Saver) -> bool:
        """Whether a unit sees whole blocks of its target's words."""
        return self.levels[saver.place].packing_of(saver.option.target).block_size > 1

    def _may_split(self, saver: Saver, chain: Chain) -> bool:
        """Whether less than a tile may meet an access: with several dimensions in common in space."""
        child = next((level for level in chain if level > saver.place), len(self.levels))
        if not self.fanouts_between(saver.place, child):
            return False
        own = set(self.tensors[saver.option.target].axes)
        return any(len(own & set(self.tensors[c].axes)) > 1 for c in saver.option.conditions)

    def fanouts_between(self, outer: int, inner: int) -> list[int]:
        """Numbers of the fanouts between two levels; the level after the last one is the arithmetic."""
        key = outer, inner
        if key not in self._between:
            architecture = self.mapspace.architecture
            places = (*architecture.storage_indices, len(architecture.nodes))
            self._between[key] = [
                number
                for number, place in enumerate(architecture.fanout_indices)
                if places[outer] < place < places[inner]
            ]
        return self._between[key]

    def arriving(self, name: str, level: int, chain: Chain) -> FloatArray:
        """Share of whole tiles that come to a level, at least, by the tile there or one inside it."""
        return 1 - self.empty(name) if self._announced(name, level, chain) else np.array(1.0)

    def coming(self, name: str, level: int, chain: Chain) -> FloatArray:
        """Share of all tiles that come to a level, short ones too, each as often as it has iterations."""
        return 1 - self.idle(name) if self._announced(name, level, chain) else np.array(1.0)

    def _announced(self, name: str, level: int, chain: Chain) -> bool:
        """Whether the next outer level that keeps a dataspace knows which tiles are empty."""
        parent = max((keeper for keeper in chain if keeper < level), default=None)
        return parent is not None and self.representation(parent, name) is not None

    def _density(self, name: str) -> float:
        """Share of nonzeros in the tiles of all instances, empty ones included, at least."""
        if name not in self._densities:
            self._densities[name] = self._least_density(name)
        return self._densities[name]

    def _least_density(self, name: str) -> float:
        distribution = self.distributions[name]
        if not isinstance(distribution, Banded):
            return distribution.mean
        shapes = self.tensors[name].shapes.tolist()
        nonzeros = (math.fsum(k * chance for k, chance in distribution.chances(tuple(own))) for own in shapes)
        # Wide bands count some tiles twice: docs/sparse.md.
        return float(min(1.0, *(own / math.prod(shape) for own, shape in zip(nonzeros, shapes, strict=True))))

    def _metadata_bits(self, name: str, access: LevelAccess, chain: Chain) -> FloatArray:
        """Bits of metadata per word of a dense tile, at least, empty tiles included."""
        level = access.level
        representation = self.representation(level, name)
        if representation is None:
            return np.array(0.0)
        density, arriving = self._density(name), self.arriving(name, level, chain)
        single = len(representation.ranks) == 1
        whole = self.tensors[name].simple and all(
            rank.format != "UOP" and self._takes_any_loop(rank, name) for rank in representation.ranks
        )
        # Fibers of a rank with others above it count by chances that seem independent: docs/sparse.md.
        nonzeros = density if single or whole else density * density
        masked = 1 - self.empty(name) if single else np.array(density)
        full = np.array(nonzeros)
        bits = [_covered_bits(rank, full, masked, arriving) for rank in representation.ranks]
        least: FloatArray = reduce(np.minimum, bits)
        if single or not self._copies_tile(representation, name, access, chain):
            return least
        filled = self._filled(name)
        lowest = _covered_bits(representation.ranks[0], density * filled, filled, arriving)
        if level == 0 and self.grid.divides:  # tiles overlap, and all of their words are in the tree
            lowest = lowest * self.tensors[name].covered
        return np.where(self.tensors[name].words > 1, np.maximum(lowest, least), least)

    def _takes_any_loop(self, rank: Rank, name: str) -> bool:
        """Whether a rank is never left out as it flattens other dimensions than the next loop's."""
        flattened = {dim for group in rank.flattened for dim in group}
        return not rank.flattened or self.tensors[name].space.dims <= flattened

    def _copies_tile(
        self, representation: Representation, name: str, access: LevelAccess, chain: Chain
    ) -> bool:
        """Whether the lowest rank of a level has the whole tile of the next inner one as its fiber."""
        child = next((level for level in chain if level > access.level), None)
        if child is None or access.boundary != child or not representation.compressed:
            return False
        return self.representation(child, name) is None

    def _filled(self, name: str) -> FloatArray:
        """Chance of each tile not to be empty, given the nonzeros of any tile around, at least."""
        if not isinstance(self.distributions[name], FixedStructured):
            return 1 - self.empty(name)
        nonzeros = self.tensors[name].words * self._density(name)
        return np.clip(nonzeros - 1, 0.0, 1.0)

    # ----------------------------------------------------------------------------------------- terms

    def parts(self, name: str, chain: Chain, access: LevelAccess) -> Parts:
        """What a word of an access costs, by the levels that keep its dataspace."""
        level, sparse = self.levels[access.level], self.sparsity.levels[access.level]
        packing = level.packing_of(name)
        savers = self.savers(name, chain)
        outer = tuple(saver for saver in savers if saver.place < access.level)
        here = (saver for saver in savers if saver.place == access.level)
        own = () if access.name == "fill" else tuple(here)
        stored = self._stored(name, chain, access)
        spread = self.coming(name, access.level, chain) if packing.block_size > 1 else np.array(1.0)
        per_word = packing.accesses_per_block / packing.block_size
        price = getattr(level.energy, access.name) * per_word
        idle = 0.0
        if not self.skips_instances:
            idle = min(price, self._idle_price(name, chain, access) * per_word)
        bits = self._metadata_bits(name, access, chain)
        metadata = sparse.energy.get(METADATA[access.name], 0) if sparse.metadata_width_bits else 0
        of_bits = bits * metadata / max(1, sparse.metadata_width_bits)
        fits = self._confidence(access.level, name)
        is_rounded = access.name == "read" and self.tensors[name].space.read_write and bool(own)
        return Parts(
            whole=np.asarray((stored * spread * price + of_bits) * fits),
            saved=np.asarray(stored * spread * idle * fits),
            load=np.asarray(stored + bits / int(level.word_bits)),
            outer=outer,
            own=own,
            rounded=float(price) if is_rounded else 0.0,
            lost=float(bool(bits.any())) + float(is_rounded),
        )

    def _stored(self, name: str, chain: Chain, access: LevelAccess) -> FloatArray:
        """Share of the dense words that are there at a level, of all instances."""
        if self.representation(access.level, name) is not None:
            return np.array(self._density(name))
        if self.skips_instances:  # then instances are counted apart
            return np.array(1.0)
        return self.coming(name, access.level, chain)

    def _idle_price(self, name: str, chain: Chain, access: LevelAccess) -> int:
        """Energy of an access that is saved, at least."""
        savers = [saver for saver in self.savers(name, chain) if saver.place <= access.level]
        if any(saver.place < access.level for saver in savers):
            return 0
        further = self.sparsity.levels[access.level].energy
        kinds = {"skipped" if saver.skips else "gated" for saver in savers}
        return min((further.get(f"{kind}_{access.name}", 0) for kind in kinds), default=0)

    # ----------------------------------------------------------------------------------- computations

    def innermost(self, chains: Chains) -> dict[str, tuple[Saver, ...]]:
        """By operand, the units that may be the innermost ones that save accesses to it."""
        return {
            space.name: self._innermost(space.name, chains[space.name])
            for space in self.mapspace.problem.dataspaces
            if not space.read_write
        }

    def _innermost(self, name: str, chain: Chain) -> tuple[Saver, ...]:
        savers = self.savers(name, chain)
        surely = max((saver.place for saver in savers if saver.certain), default=0)
        return tuple(saver for saver in savers if saver.place >= surely)

    def computes(self, chains: Chains, useless: dict[str, float]) -> Computes:
        """Computations, at least, if the innermost units save no more than some shares, by operand."""
        savers = self.innermost(chains)
        operands = [
            self._operand(space.name, chains, savers[space.name], useless.get(space.name, 0.0))
            for space in self.mapspace.problem.dataspaces
            if not space.read_write
        ]
        made = computes(self.mapspace.problem.computes, operands, self.sparsity.compute)
        settled = all(self._is_settled(chains, name, own, len(operands)) for name, own in savers.items())
        if settled and not self.skips_instances:
            return made
        left = math.prod(1 - min(1.0, ROUNDING / max(ROUNDING, 1 - share)) for share in useless.values())
        # Three kinds are rounded apart.
        actual, gated = (max(0, math.floor(count * left) - 3) for count in (made.actual, made.gated))
        return Computes(actual, gated, 0)

    def _is_settled(self, chains: Chains, name: str, savers: Sequence[Saver], operands: int) -> bool:
        """Whether all mappings have the same computations, as far as units of one operand go.

        That is so where units surely see single words.
        """
        last = chains[name][-1]
        if not savers:
            return True
        if len(savers) > 1 and operands != 2:  # the stronger one's conditions count alone
            return False
        words = self.levels[last].packing_of(name).block_size == 1
        scalar = self._is_scalar(len(self.levels))
        return words and scalar and all(own.certain and own.place == last for own in savers)

    def _operand(self, name: str, chains: Chains, savers: Sequence[Saver], useless: float) -> Operand:
        conditions = {c for saver in savers for c in saver.option.conditions}
        empty = tuple((condition, self.one_empty(condition)) for condition in sorted(conditions))
        unit = Unit(Saved(useless, any(s.skips for s in savers), empty)) if savers or useless else None
        announced = self.representation(chains[name][-1], name) is not None
        return Operand(name, self.distributions[name].mean, announced, unit)


def _covered_bits(rank: Rank, nonzeros: FloatArray, masked: FloatArray, arriving: FloatArray) -> FloatArray:
    """Bits of a rank per word that its fibers cover together, if it is the lowest one with any."""
    words = {"UOP": 0 * masked, "CP": nonzeros, "RLE": nonzeros, "B": masked, "UB": arriving}
    return rank.metadata_bits * words[rank.format]
