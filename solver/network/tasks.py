"""The searches that networks need: one per problem, however many layers share it."""

from __future__ import annotations

from collections.abc import Sequence
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
    """What is to be searched for networks.

    Parameters
    ----------
    tasks
        By key, in the order of the layers that come first.
    keys
        The task of each layer of each network, None for copies and layers that cannot run.
    """

    tasks: dict[str, Task]
    keys: tuple[tuple[str | None, ...], ...]


def plan(networks: Sequence[Network], options: Options) -> Plan:
    """Return the searches of networks, identical ones once."""
    tasks: dict[str, Task] = {}
    keys = tuple(tuple(_key(layer, options, tasks) for layer in network.layers) for network in networks)
    return Plan(tasks, keys)


def _key(layer: Layer, options: Options, tasks: dict[str, Task]) -> str | None:
    """Return the key of a layer's task, which is added where it is new."""
    if layer.is_copy or layer.overfull:
        return None
    renamed = naming_of(layer).mapspace(layer.mapspace)
    key = cache_key(renamed, options.objectives or renamed.objectives)
    tasks.setdefault(key, Task(key, renamed, layer))
    return key


def naming_of(layer: Layer) -> Renaming:
    """Return the way from a layer's names to those of its task."""
    return by_position(layer.mapspace.problem)
