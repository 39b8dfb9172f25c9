"""Why Einsums of networks have no mapping."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from model.architecture import AccessEnergy, Compute, Node, StorageLevel
from model.mapspace import Mapspace
from solver.explain import explain_infeasible, reasons_time_s
from solver.explain.constraints import constraints_of
from solver.explain.explanation import NOT_FOUND
from solver.network.result import LayerResult, NetworkResult
from solver.reasons import Reason
from solver.result import Status, StopCallback

MOST_SECONDS = 60.0
"""Time for the reasons of all layers together; what comes later is marked as not looked into."""

Listener = Callable[[LayerResult], None]


def with_reasons(
    results: Sequence[NetworkResult],
    should_stop: StopCallback,
    time_limit_s: float | None = None,
    on_layer: Listener | None = None,
) -> tuple[NetworkResult, ...]:
    """Return `results` with the reasons of their INFEASIBLE layers, each in the names of the layer.

    A layer that is identical to an earlier one of its network has no reasons of its own, and a copy has
    the violations of its transfer. The first layer of every network is looked into before the second of
    any: time may not suffice for all.

    Raises
    ------
    ContradictionError
        There is a mapping after all.
    """
    explainer = _Explainer(should_stop, time_limit_s)
    layers = [list(result.layers) for result in results]
    turns = ((turn, own, position) for own in layers for turn, position in enumerate(_unexplained(own)))
    for _, own, position in sorted(turns, key=lambda job: job[0]):
        if on_layer is not None:
            on_layer(own[position])
        own[position] = explainer.explained(own[position])
    return tuple(replace(result, layers=tuple(own)) for result, own in zip(results, layers, strict=True))


def _unexplained(layers: Sequence[LayerResult]) -> Iterator[int]:
    """Yield the positions of the INFEASIBLE layers, of identical ones that of the first."""
    seen: set[str] = set()
    for position, answer in enumerate(layers):
        if (
            answer.result is None
            or answer.result.status is not Status.INFEASIBLE
            or answer.searched_as in seen
        ):
            continue
        if answer.layer.overfull:
            continue
        seen.add(answer.searched_as)
        yield position


class _Explainer:
    """Explains each question once, as long as there is time."""

    def __init__(self, should_stop: StopCallback, time_limit_s: float | None) -> None:
        self._end = time.monotonic() + MOST_SECONDS
        self._should_stop = should_stop
        self._time_limit_s = time_limit_s
        self._known: dict[Hashable, tuple[Reason, ...]] = {}

    def explained(self, answer: LayerResult) -> LayerResult:
        """Return an INFEASIBLE layer with its reasons."""
        assert answer.result is not None  # copies are never searched
        time_s = reasons_time_s(self._time_limit_s, answer.result.statistics.seconds)
        reasons = self._reasons(answer.layer.mapspace, time_s)
        return replace(answer, result=replace(answer.result, reasons=reasons))

    def _reasons(self, mapspace: Mapspace, time_s: float) -> tuple[Reason, ...]:
        question = _question(mapspace)
        if question not in self._known:
            left = self._end - time.monotonic()
            if left <= 0 or self._should_stop():
                return (NOT_FOUND,)
            self._known[question] = explain_infeasible(mapspace, self._should_stop, min(left, time_s))
        return self._known[question]


def _question(mapspace: Mapspace) -> Hashable:
    """Return what decides which mappings are allowed, and where that is written: no price, no bandwidth."""
    architecture = mapspace.architecture
    unpriced = replace(
        architecture,
        nodes=tuple(map(_unpriced, architecture.nodes)),
        compute=Compute(architecture.compute.name),
        units_per_pj=1,
    )
    written = tuple((constraint, constraint.sources) for constraint in constraints_of(mapspace))
    return replace(mapspace, architecture=unpriced, notes=()), written


def _unpriced(node: Node) -> Node:
    if not isinstance(node, StorageLevel):
        return node
    return replace(
        node,
        energy=AccessEnergy(),
        area_um2=None,
        area_source="",
        read_bandwidth=None,
        write_bandwidth=None,
        shared_bandwidth=None,
        network_fill_latency=0,
        network_drain_latency=0,
    )
