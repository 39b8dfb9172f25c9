"""Naive rules, which an assignment is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.assignment import FORBIDDEN, CostedLayer, CostedNetwork
from solver.assignment.result import Policy

CHEAPEST = "best method per layer, transitions ignored"


def naive_policies(network: CostedNetwork) -> tuple[Policy, ...]:
    """Return what naive rules cost: each layer's cheapest method, and each single method everywhere.

    A layer that does not offer the single method takes its cheapest one; a method that no layer has to
    choose is no rule.
    """
    open_layers = [layer for layer in network.layers if len(layer.methods) > 1]
    singles = list(dict.fromkeys(method for layer in open_layers for method in layer.methods))
    kinds = {layer.methods for layer in network.layers}
    offers = {methods: _offered(methods, singles) for methods in kinds}
    picks = [_picks(layer, offers[layer.methods]) for layer in network.layers]
    followed = [sum(method in layer.methods for layer in network.layers) for method in singles]
    names = [CHEAPEST, *(f"{method} everywhere" for method in singles)]
    counts = [len(network.layers), *followed]
    totals = _totals(network, picks)
    return tuple(Policy(*parts) for parts in zip(names, totals, counts, strict=True))


def _offered(methods: Sequence[str], singles: Sequence[str]) -> NDArray[np.int64]:
    """Return where a layer has each rule's method: -1 for the cheapest one, and for what it lacks."""
    return np.array([-1, *(methods.index(method) if method in methods else -1 for method in singles)])


def _picks(layer: CostedLayer, offered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of the method that each rule takes."""
    costs = layer.costs.tolist()
    allowed = [k for k, cost in enumerate(costs) if cost != FORBIDDEN]
    cheapest = min(allowed, key=costs.__getitem__, default=0)
    return np.where(offered < 0, cheapest, offered)


def _totals(network: CostedNetwork, picks: Sequence[NDArray[np.int64]]) -> list[int | None]:
    """Return the total of each rule in steps, None where it takes something forbidden."""
    parts = [layer.costs[pick] for layer, pick in zip(network.layers, picks, strict=True)]
    parts += [
        edge.transition[picks[edge.source], picks[edge.target]]
        for edge in network.edges
        if edge.transition is not None
    ]
    table = np.stack(parts)
    # Summed up as Python's integers: 64 bits need not be enough.
    sums = table.sum(axis=0, dtype=object).tolist()
    forbidden = (table == FORBIDDEN).any(axis=0).tolist()
    return [None if barred else total for total, barred in zip(sums, forbidden, strict=True)]
