"""The searches that networks need: one per canonical problem, however many layers share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.cascade import Layer, Network
from model.mapspace import Mapspace
from model.renaming import by_position
from solver.network.cache import cache_key
from solver.result import Options


@dataclass(frozen=True)
class Task:
    """One search."""

    key: str  # of the problem and the objectives, whatever their names
    mapspace: Mapspace  # with names that say positions only
    layer: Layer  # the first that needs it


@dataclass(frozen=True)
class Plan:
    """The searches for networks."""

    tasks: dict[str, Task]  # by key, in the order of the layers that come first
    keys: tuple[tuple[str | None, ...], ...]  # per layer; None for copies and layers without room


def plan(networks: Sequence[Network], options: Options) -> Plan:
    """Return the searches of networks, identical ones once."""
    tasks: dict[str, Task] = {}
    known: dict[Mapspace, str] = {}
    keys = tuple(
        tuple(_task_key(layer, options, tasks, known) for layer in network.layers) for network in networks
    )
    return Plan(tasks, keys)


def _task_key(
    layer: Layer, options: Options, tasks: dict[str, Task], known: dict[Mapspace, str]
) -> str | None:
    """Return the key of a layer's task, and add the task if it is new; `known` saves most of the work."""
    if layer.is_copy or layer.overfull:
        return None
    mapspace = replace(layer.mapspace, problem=replace(layer.mapspace.problem, name=""), notes=())
    if mapspace.sparsity is not None:  # it has tables, by which none can be found
        return _key_of_new_task(mapspace, layer, options, tasks)
    if mapspace not in known:
        known[mapspace] = _key_of_new_task(mapspace, layer, options, tasks)
    return known[mapspace]


def _key_of_new_task(mapspace: Mapspace, layer: Layer, options: Options, tasks: dict[str, Task]) -> str:
    """Add the task of a layer if it is new; return its key."""
    renamed = by_position(mapspace.problem).mapspace(mapspace)
    key = cache_key(renamed, options.objectives_for(renamed))
    tasks.setdefault(key, Task(key, renamed, layer))
    return key
