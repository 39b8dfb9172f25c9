"""The canonical architecture: storage levels and spatial fanouts, outermost first, then the compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal

from model.source_ref import SourceRef

Bandwidth = Literal["read_bandwidth", "write_bandwidth", "shared_bandwidth"]
BANDWIDTHS: tuple[Bandwidth, ...] = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")

Direction = Literal["down", "up", "both"]
"""Where words are on their way to that pay a toll: to the arithmetic, from it, or either."""


@dataclass(frozen=True, slots=True)
class AccessEnergy:
    """Energy of one vector access (``block_size`` words), and where the figures come from.

    Parameters
    ----------
    read, fill, update, leak_per_cycle
        In units of ``1 / units_per_pj`` picojoule; leakage is per instance.
    sources
        Pairs of an action, or ``leak``, and a text for people, such as ``ERT.yaml:12``.
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
    block_size
        Values per vector access (a row holds so many whole values).
    size_per_value
        Words of the level's capacity that one value takes; 0 where the room is counted elsewhere.
    accesses_per_block
        Row accesses per vector access; above one where a value is wider than a row.
    """

    dataspace: str
    block_size: int = 1
    size_per_value: int = 1
    accesses_per_block: int = 1


@dataclass(frozen=True, slots=True)
class Port:
    """A port that reads and writes share, in cycles per word of each; the cost model alone knows it."""

    read_cycles: Fraction
    write_cycles: Fraction


@dataclass(frozen=True)
class StorageLevel:
    """A storage level: a place in the loop nest at which a memory holds tiles of some dataspaces.

    A memory has one place unless `with_places` or an order of memories (`model.orders`) gives it more. All
    its places lie under the same fanouts of the hardware, and share its capacity, its least utilization and
    its bandwidths.

    Parameters
    ----------
    memory
        Name of the memory that the level is one of several places of; None where it is the only one. What
        counts once for a memory (leakage, area, latencies of networks) stands at its outermost place.
    fanouts_above
        How many fanouts, from the outermost, the memory lies under in hardware; None where these are the
        fanouts above the level among the nodes, as they are unless nests have an order of their own.
    size_words, multiple_buffering, min_utilization
        Capacity of one instance, None when unlimited (DRAM). ``floor(size_words / multiple_buffering)`` words
        are usable, of which at least the share `min_utilization` must be used.
    word_bits, block_size, cluster_size
        Bits per word (for people), words per vector access, and instances that share one vector access.
    read_bandwidth, write_bandwidth, shared_bandwidth, bandwidth_scale
        Words per cycle and instance, None when unlimited; by dataspace, how much its words count.
    ports
        Ports at which reads and writes take different times; searches do not know them.
    packing
        Dataspaces whose values are no single words; sizes of all values are whole words then.
    network_fill_latency, network_drain_latency
        Cycles added once to the total latency.
    gating_fanouts
        Number of fanouts above the node that gates this level's power: all instances under a used gate leak.
        None when the level gates itself: only used instances leak then.
    no_temporal_reuse, rmw_first_update, no_coalesce
        Dataspaces whose accesses at this level are counted differently (`model.cost`).
    tolls
        Dataspaces that pass through a level without room, such as a converter, and in which direction they
        pay: each word that goes down is a read, each that goes up an update, and nothing is filled. The level
        must keep just these, and has no loops.
    free_first_touches
        Share of a dataspace's first touches that need neither a read nor a fill, 1 unless listed: less where
        a problem stands for several parts of an execution that touch the same words.
    other_reads, other_writes
        Words, times their scales, that load the bandwidths of one instance besides those of the problem.
    reserved_words, rows_per_word
        For people: words taken beside `size_words`, and rows that a word takes where capacity is in rows.
    size_source, buffering_source, utilization_source
        Where capacity, multiple buffering and least utilization are written.
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
    ports: tuple[Port, ...] = ()
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
    tolls: tuple[tuple[str, Direction], ...] = ()
    free_first_touches: tuple[tuple[str, Fraction], ...] = ()
    other_reads: Fraction = Fraction(0)
    other_writes: Fraction = Fraction(0)
    reserved_words: int = 0
    rows_per_word: Fraction | None = field(default=None, compare=False)
    size_source: SourceRef | None = field(default=None, compare=False)
    buffering_source: SourceRef | None = field(default=None, compare=False)
    utilization_source: SourceRef | None = field(default=None, compare=False)
    memory: str | None = None
    fanouts_above: int | None = None

    @property
    def component(self) -> str:
        """Name of the memory whose place this is."""
        return self.memory or self.name

    @cached_property
    def passing(self) -> frozenset[str]:
        """Dataspaces whose stream goes on to the level outside: not coalesced, or passing a toll."""
        return self.no_coalesce.union(dict(self.tolls))

    def charges(self, dataspace: str, direction: Literal["down", "up"]) -> bool:
        """Whether words of a dataspace that go in a direction cost something here: tolls ask for one only."""
        return not self.tolls or dict(self.tolls).get(dataspace) in (direction, "both")

    @cached_property
    def usable_words(self) -> int | None:
        """Words that the tiles of all places of the memory may take in one instance, None when unlimited."""
        if self.size_words is None:
            return None
        return math.floor(self.size_words / self.multiple_buffering)

    @cached_property
    def least_words(self) -> int:
        """Words that the tiles of all places of the memory must take together in one instance."""
        return math.ceil((self.usable_words or 0) * self.min_utilization)

    @property
    def unlimited(self) -> bool:
        """Whether no bandwidth is limited."""
        rates = (self.read_bandwidth, self.write_bandwidth, self.shared_bandwidth)
        return not self.ports and all(rate is None for rate in rates)

    def bandwidth(self, kind: Bandwidth) -> Fraction | None:
        """Return one of the bandwidths, in words per cycle; None when unlimited."""
        rate: Fraction | None = getattr(self, kind)
        return rate

    def with_bandwidth(self, kind: Bandwidth, rate: Fraction | None) -> StorageLevel:
        """Return the level with one of its bandwidths changed; `rate` is above 0, None for unlimited."""
        changed: dict[str, Any] = {kind: rate}
        return replace(self, **changed)

    def scale(self, dataspace: str) -> Fraction:
        """Bandwidth consumption scale of `dataspace`: 1 unless ``bandwidth_scale`` has an entry for it."""
        return dict(self.bandwidth_scale).get(dataspace, Fraction(1))

    def free_share(self, dataspace: str) -> Fraction:
        """Share of the first touches of `dataspace` that are free, see ``free_first_touches``."""
        return dict(self.free_first_touches).get(dataspace, Fraction(1))

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
    no_multicast
        Dataspaces that are delivered to every child on their own (Timeloop: spatial ``no_reuse``).
    no_link_transfer
        Dataspaces that children do not pass on to their neighbours, see `model.cost.links`.
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
    """The arithmetic unit; `energy` is per multiply-accumulate, in the architecture's energy unit."""

    name: str
    energy: int = 0
    energy_source: str = ""
    is_given: bool = False  # whether the energy stands in the spec; else it is estimated, or counts as zero
    area_um2: float | None = None
    area_source: str = ""


Node = StorageLevel | Fanout


@dataclass(frozen=True)
class Architecture:
    """Nodes from the outermost to the innermost, then the compute.

    Parameters
    ----------
    nodes
        The first one is a storage level. Children of a Timeloop ``!Parallel`` are consecutive levels here.
    units_per_pj
        Number of energy units in a picojoule, a power of ten, see `model.energy.figures`.
    cycle_s
        Seconds that a cycle takes, 0 where nothing takes time; None where nobody says.
    is_accelforge
        Whether it was written as an ``arch`` of AccelForge, whose mappings and rules are its own.
    """

    name: str
    nodes: tuple[Node, ...]
    compute: Compute
    units_per_pj: int = 1
    cycle_s: Fraction | None = field(default=None, compare=False)
    is_accelforge: bool = field(default=False, compare=False)

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

    def level_at(self, position: int) -> StorageLevel:
        """Return the storage level at a position of ``nodes``, where there must be one."""
        level = self.nodes[position]
        assert isinstance(level, StorageLevel)
        return level

    @cached_property
    def on_chip(self) -> tuple[StorageLevel, ...]:
        """The memories inside of the outermost one, outermost first; tolls, which have no room, are none."""
        return tuple(level for level in self.levels[1:] if not level.tolls)

    @cached_property
    def outer_tolls(self) -> tuple[StorageLevel, ...]:
        """The tolls between the outermost memory and the next one, outermost first."""
        return tuple(takewhile(lambda level: level.tolls, self.levels[1:]))

    @cached_property
    def fanouts(self) -> tuple[Fanout, ...]:
        """The fanouts, outermost first."""
        return tuple(node for node in self.nodes if isinstance(node, Fanout))

    @cached_property
    def memories(self) -> tuple[tuple[int, ...], ...]:
        """Places of each memory as positions in ``levels``, outermost first.

        Raises
        ------
        ValueError
            If the places of one memory lie under different fanouts.
        """
        memories: dict[object, list[int]] = {}
        for number, level in enumerate(self.levels):
            memories.setdefault(number if level.memory is None else level.memory, []).append(number)
        for places in memories.values():
            if len({self.fanouts_above(self.storage_indices[place]) for place in places}) > 1:
                name = self.levels[places[0]].component
                raise ValueError(f"the places of the memory {name!r} lie under different fanouts")
        return tuple(map(tuple, memories.values()))

    def fanouts_above(self, position: int) -> int:
        """Number of fanouts that a node lies under in hardware; ``len(nodes)`` is the compute."""
        node = self.nodes[position] if position < len(self.nodes) else None
        if isinstance(node, StorageLevel) and node.fanouts_above is not None:
            return node.fanouts_above
        return sum(index < position for index in self.fanout_indices)

    @cached_property
    def has_own_order(self) -> bool:
        """Whether nodes are in an order of nests, in which memories may lie above those outside of them."""
        return any(level.fanouts_above is not None for level in self.levels)

    @property
    def components(self) -> tuple[tuple[StorageLevel | Compute, int], ...]:
        """The memories, outermost first, and the compute, each with the number of its instances."""
        firsts = [places[0] for places in self.memories]
        return (
            *(
                (
                    replace(self.levels[number], name=self.levels[number].component),
                    self.instances_above(self.storage_indices[number]),
                )
                for number in firsts
            ),
            (self.compute, self.compute_instances),
        )

    def instances_above(self, position: int) -> int:
        """Total instances of a node in the hardware, in use or not; ``len(nodes)`` is the compute."""
        return math.prod(fanout.size for fanout in self.fanouts[: self.fanouts_above(position)])

    @property
    def compute_instances(self) -> int:
        """Total number of arithmetic units."""
        return self.instances_above(len(self.nodes))


def with_places(architecture: Architecture, places: Mapping[str, int]) -> Architecture:
    """Give memories several places in the loop nest.

    Parameters
    ----------
    architecture
        Each of its memories has one place.
    places
        Number of places, at least 1, by name of a memory; the others keep their one.

    Returns
    -------
    Architecture
        The places of ``buffer`` are the levels ``buffer#1``, the outermost one, ``buffer#2``, and so on.

    Raises
    ------
    KeyError
        If there is no memory of a name.
    ValueError
        If a number is below 1.
    """
    unknown = places.keys() - {level.name for level in architecture.levels}
    if unknown:
        raise KeyError(min(unknown))
    if any(count < 1 for count in places.values()):
        raise ValueError("a memory has at least one place")
    nodes: list[Node] = []
    for node in architecture.nodes:
        count = places.get(node.name, 1) if isinstance(node, StorageLevel) else 1
        nodes += [node] if count == 1 or isinstance(node, Fanout) else places_of(node, count)
    return replace(architecture, nodes=tuple(nodes))


def places_of(level: StorageLevel, count: int) -> list[StorageLevel]:
    """Return several places of the memory of a level: what counts once for it stands at the first one."""
    outermost = replace(level, name=f"{level.name}#1", memory=level.name)
    inner = replace(
        outermost,
        network_fill_latency=0,
        network_drain_latency=0,
        energy=replace(level.energy, leak_per_cycle=0),
        area_um2=None,
        other_reads=Fraction(0),
        other_writes=Fraction(0),
    )
    return [outermost, *(replace(inner, name=f"{level.name}#{place}") for place in range(2, count + 1))]


def with_order(architecture: Architecture, memories: Sequence[str]) -> Architecture:
    """Return the nodes of a nest in which memories lie in an order of its own.

    Parameters
    ----------
    architecture
        Each of its memories has one place, and none is a toll.
    memories
        Names of those on chip, with one entry per place, from the outermost place of the nest. Memories that
        are not named follow where the hardware has them, without a use.

    Returns
    -------
    Architecture
        Each fanout stands right above the first place inside of it.
    """
    names = [level.name for level in architecture.levels]
    numbers = [0, *map(names.index, memories)]
    for level in (own for own in range(1, len(names)) if own not in numbers):
        place = next((n for n, own in enumerate(numbers) if own > level), len(numbers))
        numbers.insert(place, level)
    return replace(architecture, nodes=tuple(_with_fanouts(architecture, _in_order(architecture, numbers))))


def _in_order(architecture: Architecture, numbers: Sequence[int]) -> Iterator[StorageLevel]:
    """Yield the levels of a nest, given those of the hardware that they belong to."""
    for place, number in enumerate(numbers):
        count, first = numbers.count(number), numbers.index(number)
        position = architecture.storage_indices[number]
        level = replace(architecture.levels[number], fanouts_above=architecture.fanouts_above(position))
        if count == 1:
            yield level
            continue
        outermost, *inner = places_of(level, count)
        yield outermost if place == first else inner[numbers[first + 1 : place].count(number)]


def _with_fanouts(architecture: Architecture, levels: Iterable[StorageLevel]) -> Iterator[Node]:
    """Yield levels with each fanout right above the first one inside of it."""
    left: list[Fanout] = list(architecture.fanouts)
    for level in levels:
        passed = len(architecture.fanouts) - len(left)
        entered = max(0, (level.fanouts_above or 0) - passed)
        yield from left[:entered]
        del left[:entered]
        yield level
    yield from left
