"""Curves of least traffic as JSON documents and CSV; docs/bound.md lists the keys."""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from model.extents import Factors
from model.mapping import Loop, StorageMapping
from solver.curves.design import BUFFER, MEMORY
from solver.curves.einsum import Point
from solver.curves.fused import FusedCurve, FusedPoint
from solver.curves.network import LayerCurve, NetworkCurve, Part, Step
from solver.report.document import Document
from solver.report.figures import einsum_text
from solver.result import Status, Termination


@dataclass(frozen=True)
class Roofline:
    """What a machine does in a unit of time: bytes between memory and buffer, and multiply-accumulates."""

    bandwidth: Fraction
    macs: Fraction

    def traffic_bits(self, computes: int) -> Fraction:
        """Return the bits that move while so much is computed."""
        return 8 * self.bandwidth * computes / self.macs


@dataclass(frozen=True)
class CurveQuestion:
    """What is asked of curves.

    Parameters
    ----------
    range_bits
        Least and most capacity that are shown; None where the curves decide.
    at_bits, traffic_bits
        Capacities at which the traffic is asked for, and the other way round.
    """

    factors: Factors
    range_bits: tuple[int | None, int | None] = (None, None)
    at_bits: tuple[int, ...] = ()
    traffic_bits: tuple[int, ...] = ()
    roofline: Roofline | None = None


@dataclass(frozen=True)
class InputCurve:
    """The curve of one input, and that of its fused cascade where it was asked for."""

    name: str
    curve: NetworkCurve
    fused: FusedCurve | None = None

    @property
    def status(self) -> Status:
        """UNKNOWN where curves of layers are missing, FEASIBLE where fused points are not proven."""
        if self.curve.missing or (self.fused is not None and not self.fused.points):
            return Status.UNKNOWN
        statuses = {point.status for point in self.fused.points} if self.fused else set()
        return next((own for own in (Status.UNKNOWN, Status.FEASIBLE) if own in statuses), Status.OPTIMAL)


def status_of(found: Iterable[InputCurve]) -> Status:
    """Return the status of several inputs: the worst one."""
    statuses = {own.status for own in found}
    return next((own for own in (Status.UNKNOWN, Status.FEASIBLE) if own in statuses), Status.OPTIMAL)


def in_bytes(bits: int) -> int | float:
    """Return a number of bits in bytes."""
    return bits / 8 if bits % 8 else bits // 8


def bound_document(
    found: Sequence[InputCurve],
    question: CurveQuestion,
    termination: Termination,
    seconds: float,
    notes: Sequence[str] = (),
) -> Document:
    """Return the JSON document of ``bound``."""
    return {
        "kind": "bound",
        "status": status_of(found).value,
        "termination": termination.value,
        "seconds": seconds,
        "factors": question.factors,
        "range_bytes": [None if end is None else in_bytes(end) for end in question.range_bits],
        "curves": [_curve_document(own, question) for own in found],
        "notes": list(notes),
    }


def _curve_document(found: InputCurve, question: CurveQuestion) -> Document:
    curve = found.curve
    steps = list(curve.steps()) if curve.layers else []
    return {
        "name": found.name,
        "status": found.status.value,
        "computes": curve.computes,
        "minimum": None
        if not steps
        else {
            "traffic_bytes": in_bytes(steps[-1].traffic_bits),
            "capacity_bytes": in_bytes(steps[-1].capacity_bits),
        },
        "steps": [
            {"capacity_bytes": in_bytes(own.capacity_bits), "traffic_bytes": in_bytes(own.traffic_bits)}
            for own in steps
        ],
        "at": [
            _at_document(curve, capacity, capacity in question.at_bits)
            for capacity in (_shown_capacities(steps, question) if steps else ())
        ],
        "within": [_within_document(steps, traffic) for traffic in question.traffic_bits if steps],
        "roofline": None
        if question.roofline is None or not steps
        else _roofline_document(curve, question.roofline),
        "layers": [_layer_document(layer, question.roofline) for layer in curve.layers],
        "missing": [
            {"name": part.name, "einsum": einsum_text(part.problem), "reason": reason}
            for part, reason in curve.missing
        ],
        "fused": None if found.fused is None else _fused_document(curve, found.fused),
    }


MOST_SHOWN = 12
"""Capacities that are shown where none are asked for."""


def _shown_capacities(steps: Sequence[Step], question: CurveQuestion) -> list[int]:
    """Return the capacities asked for, powers of two between them, and the one with the least traffic."""
    ends, last = question.range_bits, steps[-1].capacity_bits
    least = ends[0] or next((own.capacity_bits for own in steps if own.capacity_bits), 8)
    most = ends[1] or last
    powers = [8 << power for power in range(LARGEST_POWER) if least <= 8 << power <= most]
    every = max(1, -(-len(powers) // MOST_SHOWN))
    lasts = [last] if (ends[0] or 0) <= last <= most else []
    shown: list[int] = []
    for capacity in sorted({*filter(None, ends), *powers[::every], *lasts, *question.at_bits}):
        is_same = bool(shown) and _step_at(steps, capacity) == _step_at(steps, shown[-1])
        if not is_same or capacity in question.at_bits:
            shown.append(capacity)
    return shown


def _step_at(steps: Sequence[Step], capacity_bits: int) -> Step:
    return steps[bisect_right(steps, capacity_bits, key=lambda own: own.capacity_bits) - 1]


def _at_document(curve: NetworkCurve, capacity_bits: int, is_asked: bool) -> Document:
    """What is known at a capacity; of a single layer, its mapping, too."""
    single = curve.layers[0] if len(curve.layers) == 1 else None
    taken = _step_at(list(curve.steps()), capacity_bits).capacity_bits
    return {
        "capacity_bytes": in_bytes(capacity_bits),
        "asked": is_asked,
        "taken_bytes": in_bytes(taken),
        "traffic_bytes": in_bytes(curve.traffic_bits(capacity_bits)),
        "layers": [
            {"name": layer.name, "share": float(share)} for layer, share in curve.deciding(capacity_bits)
        ],
        "point": None
        if single is None
        else _point_document(single, single.curve.at(capacity_bits // single.curve.design.unit_bits)),
    }


def _within_document(steps: Sequence[Step], traffic_bits: int) -> Document:
    least = next((own.capacity_bits for own in steps if own.traffic_bits <= traffic_bits), None)
    return {
        "traffic_bytes": in_bytes(traffic_bits),
        "capacity_bytes": None if least is None else in_bytes(least),
    }


def _roofline_document(curve: NetworkCurve, roofline: Roofline) -> Document:
    """Layers run one after the other: all are limited by arithmetic once the last one is."""
    rooms = [_balanced_room_bits(layer, roofline) for layer in curve.layers]
    known = [room for room in rooms if room is not None]
    return {
        "bandwidth": float(roofline.bandwidth),
        "macs": float(roofline.macs),
        "macs_per_byte": float(roofline.macs / roofline.bandwidth),
        "capacity_bytes": in_bytes(max(known)) if known and len(known) == len(rooms) else None,
        "never": len(rooms) - len(known),
    }


def _balanced_room_bits(layer: LayerCurve, roofline: Roofline) -> int | None:
    """The least buffer with which a layer waits for its arithmetic only; None if there is none."""
    return layer.least_room_bits(roofline.traffic_bits(layer.part.computes))


def _layer_document(layer: LayerCurve, roofline: Roofline | None) -> Document:
    part, design, last = layer.part, layer.curve.design, layer.curve.points[-1]
    balanced = None if roofline is None else _balanced_room_bits(layer, roofline)
    return {
        **_part_document(part),
        "same_as": layer.same_as or None,
        "word_bits": design.unit_bits,
        "minimum": {
            "traffic_bytes": in_bytes(part.n_instances * design.unit_bits * last.traffic),
            "capacity_bytes": in_bytes(design.unit_bits * last.capacity),
        },
        "compute_bound_bytes": None if balanced is None else in_bytes(balanced),
        "points": None if layer.same_as else [_point_document(layer, point) for point in layer.curve.points],
    }


def _part_document(part: Part) -> Document:
    return {
        "name": part.name,
        "n_instances": part.n_instances,
        "einsum": einsum_text(part.problem),
        "shape": part.problem.bound,
        "bits": dict(part.bits),
        "computes": part.computes,
    }


def _point_document(layer: LayerCurve, point: Point) -> Document:
    return {
        "capacity_words": point.capacity,
        "traffic_words": point.traffic,
        "tile": _tile_extents(layer, point),
        "loops": [[loop.dim, loop.bound] for loop in reversed(_loops_around_tile(point))],
        "keep": _buffered(layer, point),
    }


LARGEST_POWER = 63
"""Of two: bytes beyond it are in no buffer."""


def _loops_around_tile(point: Point) -> Sequence[Loop]:
    """Loops around the tile, innermost first."""
    return _mapping_of_level(point, MEMORY).temporal


def _mapping_of_level(point: Point, level: int) -> StorageMapping:
    own = point.mapping.nodes[level]
    assert isinstance(own, StorageMapping)  # the design has no fanouts
    return own


def _tile_extents(layer: LayerCurve, point: Point) -> dict[str, int]:
    """Extents of the tile, without dimensions along which there is but one iteration."""
    bound = layer.curve.design.problem.bound
    extents = {loop.dim: loop.bound for loop in _mapping_of_level(point, BUFFER).temporal}
    return {dim: extents.get(dim, 1) for dim in bound if bound[dim] > 1}


def _buffered(layer: LayerCurve, point: Point) -> list[str]:
    kept = _mapping_of_level(point, BUFFER).keep
    return [space.name for space in layer.curve.design.problem.dataspaces if space.name in kept]


def _fused_document(curve: NetworkCurve, fused: FusedCurve) -> Document:
    return {
        "restrictions": list(fused.restrictions),
        "points": [_fused_point_document(curve, point) for point in fused.points],
    }


def _fused_point_document(curve: NetworkCurve, point: FusedPoint) -> Document:
    room, value = point.room_bits, point.value_bits
    return {
        "capacity_bytes": in_bytes(point.capacity_bits),
        "status": point.status.value,
        "traffic_bytes": None if value is None else in_bytes(value),
        "bound_bytes": in_bytes(point.bound_bits),
        "gap": point.gap,
        "room_bytes": None if room is None else in_bytes(room),
        "unfused_bytes": None if curve.missing else in_bytes(curve.traffic_bits(point.capacity_bits)),
    }


COLUMNS = (
    *("curve", "layer", "runs", "capacity_bytes", "traffic_bytes"),
    *("capacity_words", "traffic_words", "tile", "loops", "keep"),
)


def bound_csv(found: Sequence[InputCurve]) -> str:
    """Return every step of every curve, and every breakpoint of one run of each distinct layer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for own in found:
        writer.writerows(_csv_rows(own))
    return text.getvalue()


def _csv_rows(found: InputCurve) -> Iterator[Sequence[object]]:
    for step in found.curve.steps():
        yield (found.name, "", "", in_bytes(step.capacity_bits), in_bytes(step.traffic_bits), *[""] * 5)
    for layer in (own for own in found.curve.layers if not own.same_as):
        unit = layer.curve.design.unit_bits
        for point in layer.curve.points:
            sizes = in_bytes(point.capacity * unit), in_bytes(point.traffic * unit)
            loops = " ".join(f"{loop.dim}{loop.bound}" for loop in reversed(_loops_around_tile(point)))
            tile = " ".join(f"{dim}{extent}" for dim, extent in _tile_extents(layer, point).items())
            words = point.capacity, point.traffic
            kept = " ".join(_buffered(layer, point))
            yield (found.name, layer.name, layer.n_instances, *sizes, *words, tile, loops, kept)
