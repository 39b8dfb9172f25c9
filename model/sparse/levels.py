"""One storage level: what compressed tiles take of it, and what accesses of each kind cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from model.architecture import Architecture, StorageLevel
from model.cost.limits import capacity_violations
from model.cost.prices import leaking_instances, paid_energy, paying_instances
from model.cost.report import Violation
from model.counting.cycles import Demand
from model.sparse.counting import Accesses, MetadataAccesses, Moved, RankWords
from model.sparse.occupancy import Holding
from model.sparse.report import SparseDataspaceCost, SparseLevelCost
from model.sparsity import SparseLevel

_BLOCK_LIMITS: dict[int, tuple[int, ...]] = {
    2: (251, 125, 84, 63, 51, 42, 36, 32, 28, 1),
    4: (375, 188, 125, 94, 75, 63, 54, 47, 42, 1),
    8: (438, 219, 146, 110, 88, 73, 63, 55, 49, 1),
    16: (469, 235, 157, 118, 94, 79, 67, 59, 52, 1),
    32: (485, 243, 162, 122, 97, 81, 70, 61, 52, 1),
}
"""By words of a block, and by tenths of the density: blocks of a tile from which on all are taken as full."""


@dataclass(frozen=True)
class CompressedTile:
    """One dataspace at a level.

    Parameters
    ----------
    dataspace, held, dense, moved
        Its name, its tile, and its accesses for dense and for sparse data.
    read_write
        Whether it is an output.
    decompressions, compressions
        Words that are unpacked when they come in, and packed when they go out.
    most_instances, used
        Instances in use at most, and on average.
    """

    dataspace: str
    held: Holding
    dense: Accesses
    moved: Moved
    read_write: bool
    decompressions: int
    compressions: int
    most_instances: int
    used: float


@dataclass(frozen=True)
class _Size:
    """What a tile takes of the level at most, in a share `confidence` of the cases."""

    values: int
    metadata_bits: int
    metadata: tuple[RankWords, ...]
    confidence: float


@dataclass(frozen=True)
class LevelRow:
    """A storage level with all that those of its instances hold that do the same.

    Parameters
    ----------
    position, level, sparse
        Where it is, and what it has.
    stored
        The dataspaces that it keeps, in the problem's order.
    defects
        Whether to count as Timeloop does where that is wrong.
    instances
        How many of them are in use for dense data.
    """

    position: int
    level: StorageLevel
    sparse: SparseLevel
    stored: tuple[CompressedTile, ...]
    defects: bool
    instances: int

    def of(self, dataspace: str) -> CompressedTile:
        """Return what is stored of a dataspace."""
        return next(stored for stored in self.stored if stored.dataspace == dataspace)

    @cached_property
    def sizes(self) -> dict[str, _Size]:
        """What each dataspace takes at most."""
        return {stored.dataspace: self._size(stored) for stored in self.stored}

    def _size(self, stored: CompressedTile) -> _Size:
        held = stored.held
        if held.tree is None:
            return _Size(held.words, 0, (), 1.0)
        packed = held.compressed or self.defects
        overbooks = self.sparse.allow_overbooking and self.level.usable_words is not None and packed
        confidence = self.sparse.confidence if overbooks else 1.0
        if overbooks and confidence < 1 and held.compressed:
            confidence = self._raised(stored, confidence)
        return self._at(held, confidence)

    def _at(self, held: Holding, confidence: float) -> _Size:
        units = held.metadata_at(confidence)
        packed = held.compressed or self.defects
        return _Size(
            values=held.distribution.most(held.tile, confidence) if packed else held.words,
            metadata_bits=math.ceil(held.bits(units)),
            metadata=tuple((math.ceil(unit.metadata), math.ceil(unit.payload)) for unit in units),
            confidence=confidence,
        )

    def _raised(self, stored: CompressedTile, least: float) -> float:
        """Return the greatest confidence, to one percent, with which a tile fits its share of the level."""
        usable = self.level.usable_words
        assert usable is not None
        total = sum(self._expected(other) for other in self.stored)
        share = self._expected(stored) / total if total else 1.0
        room = math.ceil(usable * share)
        bits = math.ceil(self._usable_bits * share)
        start = self._at(stored.held, least)
        if start.values >= room or start.metadata_bits >= bits:
            return least
        low, high = least, 1.0
        while high - low > 0.01:
            middle = 0.5 * (low + high)
            size = self._at(stored.held, middle)
            fits = size.values <= room and size.metadata_bits <= bits
            low, high = (middle, high) if fits else (low, middle)
        return low

    @staticmethod
    def _expected(stored: CompressedTile) -> float:
        return stored.held.expected if stored.held.compressed else stored.held.words

    @property
    def _usable_bits(self) -> int:
        return math.floor(self.sparse.metadata_size_bits / self.level.multiple_buffering)

    @property
    def size_words(self) -> int:
        """Words of the level that all tiles take."""
        return sum(self._size_words(stored) for stored in self.stored)

    def _size_words(self, stored: CompressedTile) -> int:
        packing = self.level.packing_of(stored.dataspace)
        return self.sizes[stored.dataspace].values * packing.size_per_value

    def violations(self) -> Iterator[Violation]:
        """Yield the limits that the tiles break."""
        yield from capacity_violations(self.level, self.size_words)
        bits = sum(size.metadata_bits for size in self.sizes.values())
        overbooked = self.sparse.allow_overbooking
        if self.level.usable_words is not None and not overbooked and bits > self._usable_bits:
            yield Violation(self.level.name, "metadata", bits, self._usable_bits)

    def demands(self) -> list[Demand]:
        """Return the words that bandwidths have to carry, metadata included, on average per instance."""
        return [
            (stored.dataspace, self._carried(stored, "read"), self._carried(stored, "fill", "update"))
            for stored in self.stored
        ]

    def _carried(self, stored: CompressedTile, *accesses: str) -> int:
        moved = stored.moved
        words = sum(_words_of(part, access) for part in (moved.data, moved.gated) for access in accesses)
        parts = (moved.metadata, moved.gated_metadata)
        bits = sum(self._bits(stored, part, access) for part in parts for access in accesses)
        words += bits // int(self.level.word_bits)
        if not stored.used or not stored.most_instances:
            return 0
        return math.ceil(words / (stored.most_instances / stored.used))

    @staticmethod
    def _bits(stored: CompressedTile, metadata: MetadataAccesses, access: str) -> int:
        return int(stored.held.bits(_metadata_of(metadata, access)))

    def _data_vectors(self, stored: CompressedTile, words: int) -> Fraction:
        """Blocks that are accessed: whole ones, and more of them the more thinly nonzeros are spread."""
        block = self.level.packing_of(stored.dataspace).block_size
        return -(-words // block) * self._spreads[stored.dataspace]

    @cached_property
    def _spreads(self) -> dict[str, Fraction]:
        """Blocks per block that would be full, by dataspace."""
        return {stored.dataspace: Fraction(self._spread(stored)) for stored in self.stored}

    def _spread(self, stored: CompressedTile) -> float:
        held, block = stored.held, self.level.packing_of(stored.dataspace).block_size
        if not held.compressed or block == 1 or not 0 < held.density < 1:
            return 1.0
        tenth = math.floor(held.density / 0.1) - 1 if held.density >= 0.1 else 0
        if block in _BLOCK_LIMITS and _BLOCK_LIMITS[block][tenth] <= held.words // block:
            return 1.0
        blocks = 0.0
        for number, chance in held.distribution.chances(held.tile):
            blocks += math.ceil(number / block) * chance
        return blocks / (held.words * held.density / block)

    def _metadata_vectors(self, stored: CompressedTile, metadata: MetadataAccesses, access: str) -> int:
        width = self.sparse.metadata_width_bits
        return math.ceil(self._bits(stored, metadata, access) / width) if width else 0

    def _access_energy(self, stored: CompressedTile) -> Fraction:
        """Energy of one instance's accesses of all kinds."""
        rows = self.level.packing_of(stored.dataspace).accesses_per_block
        price, further, moved = self.level.energy, self.sparse.energy, stored.moved
        total = Fraction(0)
        for access, full in (("read", price.read), ("fill", price.fill), ("update", price.update)):
            for kind, part in (("", moved.data), ("gated_", moved.gated), ("skipped_", moved.skipped)):
                each = further.get(kind + access, 0) if kind else full
                total += self._data_vectors(stored, _words_of(part, access)) * each * rows
            for kind, metadata in (
                ("", moved.metadata),
                ("gated_", moved.gated_metadata),
                ("skipped_", moved.skipped_metadata),
            ):
                each = further.get(f"{kind}metadata_{access}", 0)
                total += self._metadata_vectors(stored, metadata, access) * each
        total += stored.decompressions * further.get("decompression", 0)
        total += stored.compressions * further.get("compression", 0)
        return total * Fraction(self.sizes[stored.dataspace].confidence)

    def _overflow_energy(self, inner: LevelRow, stored: CompressedTile) -> Fraction:
        """Energy of reads that a next inner level's tile makes here when it does not fit."""
        missing = 1 - Fraction(inner.sizes[stored.dataspace].confidence)
        moved = stored.moved
        data = inner._data_vectors(stored, moved.data.reads) * self.level.energy.read
        metadata = inner._metadata_vectors(stored, moved.metadata, "read")
        return missing * (data + metadata * self.sparse.energy.get("metadata_read", 0))

    def cost(
        self,
        architecture: Architecture,
        alike: Sequence[LevelRow],
        used: Callable[[int], int],
        cycles: tuple[int, int],
        overflowing: Mapping[str, tuple[LevelRow, CompressedTile]],
    ) -> SparseLevelCost:
        """Return the figures of the level.

        Parameters
        ----------
        architecture
            The hardware.
        alike
            All instances of the level.
        used
            Instances of the node at a position that are in use for dense data.
        cycles
            That the level needs, and that the run takes without network latencies.
        overflowing
            By dataspace, the next inner level, and what it moves.
        """
        leaking = Fraction(leaking_instances(architecture, self.position, used))
        if self.level.gating_fanouts is None and self.stored:
            leaking = Fraction(max(1, *(stored.used for stored in self.stored)))
        return SparseLevelCost(
            name=self.level.name,
            instances=used(self.position),
            cycles=cycles[0],
            leak_energy=self.level.energy.leak_per_cycle * cycles[1] * leaking,
            dataspaces=tuple(
                self._dataspace_cost(architecture, alike, stored, overflowing.get(stored.dataspace))
                for stored in self.stored
            ),
            demands=tuple(self.demands()),
        )

    def _dataspace_cost(
        self,
        architecture: Architecture,
        alike: Sequence[LevelRow],
        stored: CompressedTile,
        inner: tuple[LevelRow, CompressedTile] | None,
    ) -> SparseDataspaceCost:
        size = self.sizes[stored.dataspace]
        missing = Fraction(0) if inner is None else self._overflow_energy(*inner)
        every = [(row.of(stored.dataspace), row) for row in alike]
        counts = [row.instances for row in alike] if len(alike) > 1 else [stored.most_instances]
        energies = [row._access_energy(own) + missing for own, row in every]
        most = stored.most_instances
        paying = paying_instances(self.level, architecture.instances_above(self.position), most)
        paid = paid_energy(zip(counts, energies, strict=True), paying)
        pairs = zip(counts, every, strict=True)
        reductions = stored.dense.reads if stored.read_write else 0
        made = stored.moved.data.updates
        return SparseDataspaceCost(
            dataspace=stored.dataspace,
            format=stored.held.format,
            density=stored.held.density,
            tile_words=stored.held.words,
            size_words=self._size_words(stored),
            expected_words=stored.held.expected,
            metadata_size=size.metadata,
            metadata_size_bits=size.metadata_bits,
            confidence=size.confidence,
            dense=stored.dense,
            moved=stored.moved,
            temporal_reductions=math.ceil(reductions * made / stored.dense.updates) if reductions else 0,
            decompressions=stored.decompressions,
            compressions=stored.compressions,
            instances=stored.used,
            energy=paid * Fraction(stored.used) / most if most else Fraction(0),
            loads=tuple((count * (stored.used / most), own.moved) for count, (own, _) in pairs)
            if most
            else (),
        )


def _words_of(accesses: Accesses, access: str) -> int:
    """Return the reads, fills or updates."""
    words: int = getattr(accesses, f"{access}s")
    return words


def _metadata_of(metadata: MetadataAccesses, access: str) -> Sequence[RankWords]:
    """Return the words of reads, fills or updates per rank."""
    words: Sequence[RankWords] = getattr(metadata, f"{access}s")
    return words
