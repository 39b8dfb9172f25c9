"""Copy operations: values that move from the level that stores a tensor to those that store its copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from model.architecture import Architecture, StorageLevel
from model.cost.limits import capacity_violations
from model.cost.prices import access_energy, leaking_instances, paying_instances
from model.cost.report import Violation
from model.counting.cycles import scaled_words, transfer_cycles
from model.counting.words import tile_words
from model.mapspace import Mapspace

Children = Mapping[int, int]
"""By number of a fanout, over how many of its children the tensors of a copy are spread; others have one."""

UNSPREAD: Children = MappingProxyType({})


@dataclass(frozen=True)
class Transfer:
    """What a copy costs whose tensors are stored at different levels.

    Parameters
    ----------
    source, targets
        Names of the levels that are read and written.
    energy
        Accesses and leakage, in the architecture's unit.
    cycles
        What the slowest of the levels' bandwidths needs, zero if none is limited.
    limited_by
        The level with that bandwidth, None if none is limited.
    violations
        Levels that do not hold the tensors that they store.
    moves
        What each dataspace moves, those of one level together.
    """

    source: str
    targets: tuple[str, ...]
    energy: int
    cycles: int
    limited_by: str | None = None
    violations: tuple[Violation, ...] = ()
    moves: tuple[CopyMove, ...] = ()


@dataclass(frozen=True)
class CopyMove:
    """Words of one dataspace that an instance of a level stores, and those that a copy reads or writes there.

    `level` is its position in ``architecture.levels``, and so many `instances` are in use. Words that pay a
    toll are reads inwards and updates outwards, and nothing is stored there.
    """

    level: int
    dataspace: str
    stored: int
    reads: int = 0
    fills: int = 0
    updates: int = 0
    instances: int = 1


def backing_levels(mapspace: Mapspace) -> dict[str, int]:
    """Return where each dataspace is stored: the outermost level that does not bypass it.

    With nothing kept farther out, a level that passes its stream on counts as bypassing.

    Parameters
    ----------
    mapspace
        No dataspace is bypassed by all its levels.

    Returns
    -------
    dict of str to int
        Positions in ``architecture.levels``.
    """
    storages = zip(mapspace.keep, mapspace.architecture.levels, strict=True)
    passed = [rules.bypass | level.passing for rules, level in storages]
    return {
        space.name: next(level for level, names in enumerate(passed) if space.name not in names)
        for space in mapspace.problem.dataspaces
    }


def transfer_of(
    mapspace: Mapspace, stored: Mapping[str, int] | None = None, children: Children = UNSPREAD
) -> Transfer | None:
    """Price a copy: its input is read once where it is stored, each output written once where that is.

    Writes into a level farther in are fills, those into one farther out updates; whole vectors are
    paid. What lies where the input does stays there. Each word pays the tolls between once: inwards as
    the input, outwards as the output. Memories between do not take part, and neither do arithmetic and
    the latencies of networks. Where tensors are spread over the instances of a level, each moves its share.
    A copy takes as long as the slowest level needs for its words; during that time the instances in use
    leak, one of each level at the least, and those that share their power.

    Parameters
    ----------
    mapspace
        Of an Einsum with one input.
    stored
        Where each dataspace is stored, as positions in ``architecture.levels``; `backing_levels` by default.
    children
        How tensors are spread over the instances of levels.

    Returns
    -------
    Transfer or None
        None if all tensors are stored at the same level: nothing moves.

    Raises
    ------
    ValueError
        If the Einsum has no input, or several.
    """
    homes = backing_levels(mapspace) if stored is None else stored
    spaces, levels = mapspace.problem.dataspaces, mapspace.architecture.levels
    (source,) = (homes[space.name] for space in spaces if not space.read_write)
    targets = sorted({homes[space.name] for space in spaces if space.read_write} - {source})
    if not targets:
        return None
    moves: dict[int, list[CopyMove]] = {level: [] for level in (source, *targets)}
    used = _used_by_level(mapspace.architecture, children)
    for space in spaces:
        home = homes[space.name]
        words = -(-tile_words(space, mapspace.problem.bound) // used[home])
        moves[home].append(
            CopyMove(
                level=home,
                dataspace=space.name,
                stored=words,
                reads=0 if space.read_write else words,
                fills=words if home > source else 0,
                updates=words if home < source else 0,
                instances=used[home],
            )
        )
    for move in _paid_on_the_way(mapspace, homes, used):
        moves.setdefault(move.level, []).append(move)
    cycles = {level: move_cycles(levels[level], at_level) for level, at_level in moves.items()}
    slowest = max(cycles, key=lambda level: cycles[level])
    every = [move for at_level in moves.values() for move in at_level]
    accesses = sum(move_energy(mapspace.architecture, move) for move in every)
    return Transfer(
        source=levels[source].name,
        targets=tuple(levels[level].name for level in targets),
        energy=accesses + cycles[slowest] * sum(leakage_by_level(mapspace.architecture, children)),
        cycles=cycles[slowest],
        limited_by=levels[slowest].name if cycles[slowest] else None,
        violations=tuple(
            violation
            for level, at_level in moves.items()
            for violation in _violations(levels[level], at_level)
        ),
        moves=tuple(every),
    )


def least_transfer(
    mapspace: Mapspace, stored: Mapping[str, int], children: Children, open_: Children
) -> tuple[int, int]:
    """Return energy and cycles of a copy at the least, where it is open how its tensors are spread.

    All instances share the words, or those that pay for whole vectors are few; all share the time, and few
    leak.

    Parameters
    ----------
    children, open_
        By number of a fanout, the children that are in use, and those that may be.
    """
    architecture = mapspace.architecture
    few, many = (transfer_of(mapspace, stored, own) for own in (children, {**children, **open_}))
    if few is None or many is None:
        return 0, 0
    pairs = zip(few.moves, many.moves, strict=True)
    accesses = sum(min(move_energy(architecture, move) for move in pair) for pair in pairs)
    return accesses + many.cycles * sum(leakage_by_level(architecture, children)), many.cycles


def _used_by_level(architecture: Architecture, children: Children) -> list[int]:
    """Return how many instances of each level are in use."""
    return [_used_at(architecture, children, position) for position in architecture.storage_indices]


def _used_at(architecture: Architecture, children: Children, position: int) -> int:
    """Return how many instances of a node are in use."""
    return math.prod(children.get(number, 1) for number in range(architecture.fanouts_above(position)))


def _paid_on_the_way(mapspace: Mapspace, homes: Mapping[str, int], used: Sequence[int]) -> Iterator[CopyMove]:
    """Yield what pays tolls: one stream of words inwards, and one outwards."""
    spaces, bounds = mapspace.problem.dataspaces, mapspace.problem.bound
    (source,) = (space for space in spaces if not space.read_write)
    at, innermost = homes[source.name], max(homes.values())
    for number, level in enumerate(mapspace.architecture.levels):
        if not level.tolls:
            continue
        if at < number < innermost and level.charges(source.name, "down"):
            words = -(-tile_words(source, bounds) // used[number])
            yield CopyMove(number, source.name, 0, reads=words, instances=used[number])
        outwards = [s for s in spaces if homes[s.name] < number < at and level.charges(s.name, "up")]
        if outwards:
            space = max(outwards, key=lambda own: tile_words(own, bounds))
            words = -(-tile_words(space, bounds) // used[number])
            yield CopyMove(number, space.name, 0, updates=words, instances=used[number])


def move_energy(architecture: Architecture, move: CopyMove) -> int:
    """Return the energy of a move's accesses in all instances that pay, in the architecture's unit."""
    level, position = architecture.levels[move.level], architecture.storage_indices[move.level]
    energy = access_energy(level, level.packing_of(move.dataspace), move.reads, move.fills, move.updates)
    return energy * paying_instances(level, architecture.instances_above(position), move.instances)


def move_cycles(level: StorageLevel, moves: Sequence[CopyMove]) -> int:
    """Return the cycles that the level's bandwidths need for all moves."""
    demands = ((move.dataspace, move.reads, move.fills + move.updates) for move in moves)
    return transfer_cycles(level, *scaled_words(level, demands))


def leakage_of_one(architecture: Architecture) -> int:
    """Return what leaks per cycle while one instance of each level is in use, in the architecture's unit."""
    return sum(leakage_by_level(architecture))


def leakage_by_level(architecture: Architecture, children: Children = UNSPREAD) -> Iterator[int]:
    """Yield what leaks per cycle at each level while tensors of a copy are spread so."""
    used = partial(_used_at, architecture, children)
    for position, level in zip(architecture.storage_indices, architecture.levels, strict=True):
        yield level.energy.leak_per_cycle * leaking_instances(architecture, position, used)


def _violations(level: StorageLevel, moves: list[CopyMove]) -> list[Violation]:
    size_words = sum(move.stored * level.packing_of(move.dataspace).size_per_value for move in moves)
    return [violation for violation in capacity_violations(level, size_words) if violation.kind == "capacity"]
