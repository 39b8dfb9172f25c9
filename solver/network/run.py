"""Mapping all layers of a network, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from model.cascade import Layer, Network
from model.cost import evaluate
from model.mapspace import Mapspace
from solver.network.cache import ResultCache, cache_key
from solver.network.naming import Renaming, by_position
from solver.network.result import LayerResult, NetworkResult
from solver.result import Options, Progress, Result, StopCallback, Termination
from solver.search import map_einsum

Searcher = Callable[..., Result]


@dataclass(frozen=True)
class NetworkProgress:
    """How far a run is: layers done, the layer that is being searched, and its search's report."""

    done: int
    layers: int
    layer: Layer
    search: Progress | None = None


ProgressCallback = Callable[[NetworkProgress], None]


def map_network(
    network: Network,
    options: Options = Options(),  # noqa: B008 (frozen)
    cache: ResultCache | None = None,
    resume: bool = False,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    search: Searcher = map_einsum,
) -> NetworkResult:
    """Map each layer of a network to its optimum.

    Layers that are the same problem but for names are searched once. Copies need no mapping.

    Parameters
    ----------
    network
        The layers.
    options
        As for a single Einsum; the time limit is that of each search.
    cache
        Where proven answers are kept as they are found.
    resume
        Whether answers that are kept already are used.
    on_progress
        Called before and during each search.
    should_stop
        Once it answers True, the search at hand ends with its incumbent and no other one begins.
    search
        What maps one Einsum.

    Returns
    -------
    NetworkResult
        With fewer layers than the network if it was stopped.
    """
    start = time.monotonic()
    known: dict[str, tuple[str, Result]] = {}
    done: list[LayerResult] = []
    for layer in network.layers:
        if should_stop is not None and should_stop():
            break
        report = _reporter(network, len(done), layer, on_progress)
        if layer.is_copy:
            done.append(LayerResult(layer, None, "copy"))
            continue
        naming = by_position(layer.mapspace.problem)
        anonymous = naming.mapspace(layer.mapspace)
        key = cache_key(anonymous, options.objectives or anonymous.objectives)
        if key in known:
            name, result = known[key]
            done.append(LayerResult(layer, _named(result, layer, naming), "identical", name))
            continue
        kept = cache.find(key, anonymous) if cache is not None and resume else None
        result = kept or search(anonymous, options, on_progress=report, should_stop=should_stop)
        if cache is not None and kept is None:
            cache.store(key, result)
        if result.termination is not Termination.INTERRUPTED:
            known[key] = (layer.name, result)
        done.append(LayerResult(layer, _named(result, layer, naming), "cached" if kept else "searched"))
    return NetworkResult(network, tuple(done), time.monotonic() - start)


def _reporter(
    network: Network, done: int, layer: Layer, on_progress: ProgressCallback | None
) -> Callable[[Progress], None] | None:
    if on_progress is None:
        return None
    on_progress(NetworkProgress(done, len(network.layers), layer))
    return lambda progress: on_progress(NetworkProgress(done, len(network.layers), layer, progress))


def _named(result: Result, layer: Layer, naming: Renaming) -> Result:
    """Return an answer with the layer's own names."""
    if result.mapping is None:
        return result
    mapspace: Mapspace = layer.mapspace
    mapping = naming.inverse.mapping(result.mapping)
    return replace(
        result,
        mapping=mapping,
        evaluation=evaluate(mapspace.problem, mapspace.architecture, mapping),
    )
