"""Naive rules, which an assignment is compared with."""

from __future__ import annotations

from collections.abc import Callable

from model.network import FORBIDDEN, Layer, Network
from solver.assignment.result import Policy

CHEAPEST = "best method per layer, transitions ignored"


def naive_policies(network: Network) -> tuple[Policy, ...]:
    """Return what naive rules cost: each layer's cheapest method, and each single method everywhere.

    A layer that does not offer the single method takes its cheapest one; a method that no layer has to
    choose is no rule.
    """
    cheapest = [_cheapest(layer) for layer in network.layers]
    policies = [Policy(CHEAPEST, network.total(cheapest), len(cheapest))]
    open_layers = [layer for layer in network.layers if len(layer.methods) > 1]
    for method in dict.fromkeys(method for layer in open_layers for method in layer.methods):
        pick = _picker(method)
        picked = [pick(layer) for layer in network.layers]
        choice = [other if own is None else own for own, other in zip(picked, cheapest, strict=True)]
        followed = sum(own is not None for own in picked)
        policies.append(Policy(f"{method} everywhere", network.total(choice), followed))
    return tuple(policies)


def _picker(method: str) -> Callable[[Layer], int | None]:
    return lambda layer: layer.methods.index(method) if method in layer.methods else None


def _cheapest(layer: Layer) -> int:
    """Return the position of the cheapest allowed method; the first one where none is allowed."""
    costs = layer.costs.tolist()
    allowed = [k for k, cost in enumerate(costs) if cost != FORBIDDEN]
    return min(allowed, key=costs.__getitem__, default=0)
