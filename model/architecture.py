"""The canonical architecture: storage levels and spatial fanouts, outermost first, then the compute."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, assert_never

from model.source_ref import SourceRef

Bandwidth = Literal["read_bandwidth", "write_bandwidth", "shared_bandwidth"]
BANDWIDTHS: tuple[Bandwidth, ...] = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")


@dataclass(frozen=True, slots=True)
class AccessEnergy:
    """Energy of one vector access (``block_size`` words), and where the figures come from.

    Parameters
    ----------
    read, fill, update
        Per vector access, in the architecture's energy unit: integers, ``1 / units_per_pj`` picojoule each.
    leak_per_cycle
        Per instance and cycle, in the same unit.
    sources
        Pairs of an action (``read``, ``fill``, ``update``, ``leak``) and a text for people, such as
        ``ERT.yaml:12`` or ``estimator: SRAM``.
    given
        Actions whose figures stand in the spec; others are estimated, or count as zero.
    """

    read: int = 0
    fill: int = 0
    update: int = 0
    leak_per_cycle: int = 0
    sources: tuple[tuple[str, str], ...] = ()
    given: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Packing:
    """How the values of one dataspace lie in the rows of a storage level.

    Parameters
    ----------
    dataspace
        Name of the dataspace.
    block_size
        Values per vector access (a row holds so many whole values).
    size_per_value
        Share of the level's capacity that one value takes, in the level's words.
    accesses_per_block
        Row accesses that one vector access stands for; above one where a value is wider than a row.
    """

    dataspace: str
    block_size: int = 1
    size_per_value: int = 1
    accesses_per_block: int = 1


@dataclass(frozen=True)
class StorageLevel:
    """A storage level as the cost model sees it.

    Parameters
    ----------
    name
        The component's name, unique in the architecture.
    size_words
        Capacity of one instance in words, None when unlimited (DRAM).
    word_bits, block_size, cluster_size
        Bits per word (for people only), words per vector access, and instances that share one vector
        access.
    multiple_buffering, min_utilization
        The usable capacity is ``floor(size_words / multiple_buffering)``; at least the share
        ``min_utilization`` of it must be used.
    read_bandwidth, write_bandwidth, shared_bandwidth
        Words per cycle and instance, None when unlimited.
    bandwidth_scale
        Per dataspace, the factor by which its words count towards the bandwidths.
    packing
        Dataspaces whose values are no single words, at most one entry each. A word is the unit then in
        which the size of every value is a whole number.
    network_fill_latency, network_drain_latency
        Cycles added once to the total latency.
    gating_fanouts
        Number of fanouts above the node that gates this level's power, None when the level gates
        itself: only used instances leak then; otherwise all instances under a used gate do.
    energy, area_um2, area_source
        Price of the actions; area of one instance, if known, and its source.
    no_temporal_reuse, rmw_first_update, no_coalesce
        Names of dataspaces whose accesses at this level are counted differently (model.cost).
    reserved_words
        Words of the component that are taken already, beside those of `size_words`. For people only.
    rows_per_word
        Rows that a word takes, if the capacity is given in rows, and None if in words. For people only.
    size_source, buffering_source, utilization_source
        Where capacity, multiple buffering and least utilization are written, if they are.
    """

    name: str
    size_words: int | None = None
    word_bits: int | Fraction = 8
    block_size: int = 1
    cluster_size: int = 1
    multiple_buffering: Fraction = Fraction(1)
    min_utilization: Fraction = Fraction(0)
    read_bandwidth: Fraction | None = None
    write_bandwidth: Fraction | None = None
    shared_bandwidth: Fraction | None = None
    bandwidth_scale: tuple[tuple[str, Fraction], ...] = ()
    packing: tuple[Packing, ...] = ()
    network_fill_latency: int = 0
    network_drain_latency: int = 0
    gating_fanouts: int | None = None
    energy: AccessEnergy = field(default_factory=AccessEnergy)
    area_um2: float | None = None
    area_source: str = ""
    no_temporal_reuse: frozenset[str] = frozenset()
    rmw_first_update: frozenset[str] = frozenset()
    no_coalesce: frozenset[str] = frozenset()
    reserved_words: int = 0
    rows_per_word: Fraction | None = field(default=None, compare=False)
    size_source: SourceRef | None = field(default=None, compare=False)
    buffering_source: SourceRef | None = field(default=None, compare=False)
    utilization_source: SourceRef | None = field(default=None, compare=False)

    @cached_property
    def usable_words(self) -> int | None:
        """Words that tiles may take in one instance, None when unlimited."""
        if self.size_words is None:
            return None
        return math.floor(self.size_words / self.multiple_buffering)

    def bandwidth(self, kind: Bandwidth) -> Fraction | None:
        """Return one of the bandwidths, in words per cycle; None when unlimited."""
        match kind:
            case "read_bandwidth":
                return self.read_bandwidth
            case "write_bandwidth":
                return self.write_bandwidth
            case "shared_bandwidth":
                return self.shared_bandwidth
            case _:
                assert_never(kind)

    def with_bandwidth(self, kind: Bandwidth, rate: Fraction | None) -> StorageLevel:
        """Return the level with one of its bandwidths changed.

        Parameters
        ----------
        kind
            Which one.
        rate
            Words per cycle and instance, above 0; None for unlimited.
        """
        match kind:
            case "read_bandwidth":
                return replace(self, read_bandwidth=rate)
            case "write_bandwidth":
                return replace(self, write_bandwidth=rate)
            case "shared_bandwidth":
                return replace(self, shared_bandwidth=rate)
            case _:
                assert_never(kind)

    def scale(self, dataspace: str) -> Fraction:
        """Bandwidth consumption scale of `dataspace`: 1 unless ``bandwidth_scale`` has an entry for it."""
        return dict(self.bandwidth_scale).get(dataspace, Fraction(1))

    def packing_of(self, dataspace: str) -> Packing:
        """How the values of `dataspace` lie here: one word each unless ``packing`` says otherwise."""
        for packing in self.packing:
            if packing.dataspace == dataspace:
                return packing
        return Packing(dataspace, self.block_size)


@dataclass(frozen=True)
class Fanout:
    """A spatial fanout: what lies below exists ``mesh_x * mesh_y`` times per instance above.

    Parameters
    ----------
    name
        The node's name.
    mesh_x, mesh_y
        Children along each axis, at least 1.
    no_multicast
        Names of dataspaces that are delivered to every child on their own (Timeloop: spatial ``no_reuse``).
    no_link_transfer
        Names of dataspaces that children do not hand on to their neighbours, see `model.cost.links`.
    mesh_sources
        Places of the X and the Y axis, or of the node where an axis is not written.
    """

    name: str
    mesh_x: int = 1
    mesh_y: int = 1
    no_multicast: frozenset[str] = frozenset()
    no_link_transfer: frozenset[str] = frozenset()
    mesh_sources: tuple[SourceRef, SourceRef] | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Number of children per instance."""
        return self.mesh_x * self.mesh_y


@dataclass(frozen=True)
class Compute:
    """The arithmetic unit.

    Parameters
    ----------
    name
        The component's name.
    energy
        Per multiply-accumulate, in the architecture's energy unit.
    energy_source, area_source
        Where the figures come from, for people.
    is_given
        Whether `energy` stands in the spec; otherwise it is estimated, or counts as zero.
    area_um2
        Area of one unit, None if unknown.
    """

    name: str
    energy: int = 0
    energy_source: str = ""
    is_given: bool = False
    area_um2: float | None = None
    area_source: str = ""


Node = StorageLevel | Fanout


@dataclass(frozen=True)
class Architecture:
    """Nodes from the outermost to the innermost, then the compute.

    Parameters
    ----------
    name
        For people.
    nodes
        Storage levels and fanouts, outermost first; the first one is a storage level. Children of a
        Timeloop ``!Parallel`` are consecutive levels here.
    compute
        The arithmetic units below all nodes.
    units_per_pj
        Number of energy units in a picojoule, a power of ten, see `model.energy.figures`.
    """

    name: str
    nodes: tuple[Node, ...]
    compute: Compute
    units_per_pj: int = 1

    @cached_property
    def storage_indices(self) -> tuple[int, ...]:
        """Positions of the storage levels in ``nodes``, outermost first."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node, StorageLevel))

    @cached_property
    def fanout_indices(self) -> tuple[int, ...]:
        """Positions of the fanouts in ``nodes``, outermost first."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node, Fanout))

    @cached_property
    def levels(self) -> tuple[StorageLevel, ...]:
        """The storage levels, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, StorageLevel))

    @cached_property
    def fanouts(self) -> tuple[Fanout, ...]:
        """The fanouts, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, Fanout))

    @property
    def components(self) -> tuple[tuple[StorageLevel | Compute, int], ...]:
        """The storage levels, outermost first, and the compute, each with the number of its instances."""
        levels = zip(self.storage_indices, self.levels, strict=True)
        return (
            *((level, self.instances_above(position)) for position, level in levels),
            (self.compute, self.compute_instances),
        )

    def instances_above(self, position: int) -> int:
        """Total instances of a node in the hardware, in use or not.

        Parameters
        ----------
        position
            Of the node in ``nodes``; ``len(nodes)`` for the compute.
        """
        return math.prod(node.size for node in self.nodes[:position] if isinstance(node, Fanout))

    @property
    def compute_instances(self) -> int:
        """Total number of arithmetic units."""
        return self.instances_above(len(self.nodes))
