"""The searches that a network needs: one per problem, however many layers share it."""

from __future__ import annotations

from dataclasses import dataclass

from model.cascade import Layer, Network
from model.mapspace import Mapspace
from solver.network.cache import cache_key
from solver.network.naming import Renaming, by_position
from solver.result import Options


@dataclass(frozen=True)
class Task:
    """One search.

    Parameters
    ----------
    key
        Stands for the problem and the objectives, whatever their names.
    mapspace
        The problem under names that say positions only.
    layer
        The first layer that has it.
    """

    key: str
    mapspace: Mapspace
    layer: Layer


@dataclass(frozen=True)
class Plan:
    """What is to be searched for a network.

    Parameters
    ----------
    tasks
        By key, in the order of the layers that come first.
    keys
        The task of each layer, None for copies.
    """

    tasks: dict[str, Task]
    keys: tuple[str | None, ...]


def plan(network: Network, options: Options) -> Plan:
    """Return the searches of a network, identical ones once."""
    tasks: dict[str, Task] = {}
    keys: list[str | None] = []
    for layer in network.layers:
        if layer.is_copy:
            keys.append(None)
            continue
        own = naming_of(layer).mapspace(layer.mapspace)
        key = cache_key(own, options.objectives or own.objectives)
        tasks.setdefault(key, Task(key, own, layer))
        keys.append(key)
    return Plan(tasks, tuple(keys))


def naming_of(layer: Layer) -> Renaming:
    """Return the way from a layer's names to those of its task."""
    return by_position(layer.mapspace.problem)
