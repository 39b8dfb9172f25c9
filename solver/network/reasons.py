"""Why Einsums of a network have no mapping."""

from __future__ import annotations

import time
from dataclasses import replace

from solver.explain import explain_infeasible
from solver.network.result import LayerResult, NetworkResult
from solver.result import Status, StopCallback

MOST_SECONDS = 60.0
"""Time for the reasons of all layers together; what comes later is marked as not looked into."""


def with_reasons(result: NetworkResult, should_stop: StopCallback) -> NetworkResult:
    """Return `result` with the reasons of its INFEASIBLE layers, each in the names of the layer.

    A layer that is identical to another one has no reasons of its own, and a copy has the violations of
    its transfer.

    Raises
    ------
    ContradictionError
        There is a mapping after all.
    """
    end = time.monotonic() + MOST_SECONDS
    return replace(result, layers=tuple(_explained(own, should_stop, end) for own in result.layers))


def _explained(own: LayerResult, should_stop: StopCallback, end: float) -> LayerResult:
    if own.result is None or own.result.status is not Status.INFEASIBLE or own.origin == "identical":
        return own
    reasons = explain_infeasible(own.layer.mapspace, should_stop, end - time.monotonic())
    return replace(own, result=replace(own.result, reasons=reasons))
