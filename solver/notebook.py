"""One import for scripts and notebooks: specs in any form, and results that render inline."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from model.architecture import Architecture
from model.cascade import Network
from model.counting import EXACT, Counting, rule_of
from model.extents import ANY, PERFECT, Factors
from model.formats.cascade.loader import load_einsum, load_network
from model.formats.fused import fused_yaml, load_cascade
from model.formats.fused.loader import CONSTRAINTS_NOTE
from model.formats.timeloop import LoadOptions, TimeloopOptions, load_timeloop
from model.fused.cascade import Cascade
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.note import Note
from model.objective import UNITS, in_reported_unit
from model.places import spread
from model.problem import Problem
from model.text.source import SpecError
from solver import stages
from solver.cli.curve_inputs import DEFAULT_BITS, Bits, Reading, parts_of, read_subject, read_texts
from solver.cli.einsum_text import is_einsum, workload_of
from solver.cli.options import SHIPPED, input_path
from solver.cli.sparse import UNASKED_NOTE, with_sparse_data
from solver.curves.network import NetworkCurve, Part, network_curve
from solver.fusion import fuse_cascade
from solver.fusion import result as fused
from solver.fusion.limits import FusionLimits
from solver.heartbeat import regular
from solver.network import run
from solver.report.curves import CurveQuestion, InputCurve, bound_document
from solver.report.document import Document, headed, result_document
from solver.report.fused import fused_result_document
from solver.report.network import network_document
from solver.report.pages import report_fragment, report_html
from solver.report.reading import as_value
from solver.report.sparse import sparse_result_document
from solver.result import (
    Clock,
    Options,
    Phase,
    Progress,
    ProgressCallback,
    Result,
    Status,
    StopCallback,
    Termination,
    WithTotals,
)
from solver.sparse_search import lack_of_remainders

if TYPE_CHECKING:
    from pandas import DataFrame

Spec = str | Path | Mapping[str, object] | Problem
"""An Einsum as text, the path of a spec file, what stands in one, or a problem."""

COMPUTE_ROW, LEAKAGE_ROW = "(compute)", "(leakage)"
"""What stands for a dataspace in the rows of tables about energy that no dataspace causes."""

K = TypeVar("K")
S = TypeVar("S", Progress, fused.FusionProgress)


class ShownResult:
    """A result that renders inline in a notebook, and becomes a page, a document or a table."""

    def document(self) -> Document:
        """Return the result as ``--json`` writes it."""
        raise NotImplementedError

    def to_frame(self) -> DataFrame:
        """Return the figures as a table of pandas, which must be installed."""
        raise NotImplementedError

    def report(self, path: str | Path) -> None:
        """Write a report with figures as one HTML page.

        Parameters
        ----------
        path
            Of the page.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        Path(path).write_text(report_html(as_value(headed(self.document()))), encoding="utf-8")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._verdict()})"

    def _verdict(self) -> str:
        """Return status, values and gap in one line."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return report_fragment(as_value(headed(self.document())))


def _verdict_line(status: Status, objective: str, value: float | None, gap: float | None) -> str:
    """Return status, value and gap of one search in one line."""
    if value is None:
        return status.value
    known = "no bound" if gap is None else f"gap {gap:.3g}"
    return f"{status.value}, {objective} {value:.5g} {UNITS[objective]}, {known}"


@dataclass(frozen=True, repr=False)
class EinsumResult(ShownResult, Result):
    """The result of the search for one Einsum, with its mapspace."""

    mapspace: Mapspace | None = None

    def document(self) -> Document:
        """Return the result as ``map --json`` writes it; docs/json.md lists the keys."""
        assert self.mapspace is not None  # `map_einsum` sets it
        document = result_document if self.mapspace.sparsity is None else sparse_result_document
        return document(self.mapspace, self)

    def to_frame(self) -> DataFrame:
        """Return a row per level and dataspace, and rows for compute and leakage.

        Returns
        -------
        pandas.DataFrame
            Tiles and accesses in words of one instance, energies of all instances in picojoules, which add up
            to the total. Of sparse data, expected words of accesses that are made and saved. No dataspace
            causes the energy of compute and leakage: these rows have "(compute)" or "(leakage)" in its
            place, and 0 words.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        assert self.mapspace is not None  # `map_einsum` sets it
        row = _dense_row if self.mapspace.sparsity is None else _sparse_row
        document: Any = self.document()
        levels = document["levels"] or ()
        if not levels:
            return _frame([])
        rows = [row(level, name, of) for level in levels for name, of in level["dataspaces"].items()]
        return _frame([*rows, *_rows_without_dataspace(document, rows[0])])

    def _verdict(self) -> str:
        return _verdict_line(self.status, self.objective, self.reported_value, self.gap)


def _rows_without_dataspace(
    document: Mapping[str, Any], like: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Yield rows for the energy of compute and leakage, with the columns of another row, all words 0."""
    empty = {column: "" if isinstance(value, str) else 0 for column, value in like.items()}
    own = {"instances": document["compute_instances"], "energy_pj": document["compute_energy_pj"]}
    name = document["architecture"]["compute"]["name"]
    yield {**empty, "level": name, "dataspace": COMPUTE_ROW, **own}
    for level in document["levels"]:
        if level["leak_energy_pj"]:
            own = {"instances": level["instances"], "energy_pj": level["leak_energy_pj"]}
            yield {**empty, "level": level["name"], "dataspace": LEAKAGE_ROW, **own}


def _dense_row(level: Mapping[str, Any], name: str, of: Mapping[str, Any]) -> dict[str, object]:
    columns = ("tile_words", "reads", "fills", "updates", "energy_pj")
    named = {"level": level["name"], "dataspace": name, "instances": level["instances"]}
    return {**named, **{column: of[column] for column in columns}}


def _sparse_row(level: Mapping[str, Any], name: str, of: Mapping[str, Any]) -> dict[str, object]:
    columns = ("format", "density", "tile_words", "size_words", "reads", "fills", "updates", "energy_pj")
    saved = {f"saved_{kind}": of["gated"][kind] + of["skipped"][kind] for kind in ("reads", "updates")}
    named = {"level": level["name"], "dataspace": name, "instances": of["instances"]}
    return {**named, **{column: of[column] for column in columns}, **saved}


@dataclass(frozen=True, repr=False)
class NetworkResult(ShownResult, run.NetworkResult):
    """The results of a network's Einsums."""

    def document(self) -> Document:
        """Return the result as ``network --json`` writes it; docs/network.md lists the keys."""
        return network_document(self)

    def to_frame(self) -> DataFrame:
        """Return a row per Einsum.

        Returns
        -------
        pandas.DataFrame
            Energies in picojoules and cycles of all instances of an Einsum.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = ("name", "n_instances", "status", "energy_pj", "cycles", "limited_by", "origin")
        layers: Any = self.document()["layers"]
        return _frame([{column: layer[column] for column in columns} for layer in layers])

    def _verdict(self) -> str:
        parts = [self.status.value, f"{self.proven} of {len(self.network.layers)} Einsums proven"]
        if self.energy_pj is not None:
            parts.append(f"{self.energy_pj:.5g} pJ")
        return ", ".join((*parts, *(() if self.cycles is None else (f"{self.cycles} cycles",))))


@dataclass(frozen=True)
class FusedCase:
    """A cascade of Einsums to fuse on an architecture, and remarks about their specs."""

    cascade: Cascade
    notes: tuple[Note, ...] = ()

    def __repr__(self) -> str:
        """Return the size in one line; notebooks print it."""
        architecture = self.cascade.einsums[0].mapspace.architecture.name
        return f"FusedCase({len(self.cascade.einsums)} Einsums on {architecture})"


@dataclass(frozen=True, repr=False)
class FusedResult(WithTotals, ShownResult, fused.FusedResult):
    """The result of a search for a fused mapping, with remarks about the specs."""

    notes: tuple[Note, ...] = ()

    @property
    def reported_value(self) -> float | int | None:
        """`value` in pJ, cycles or pJ * cycles."""
        return self._reported(self.value)

    @property
    def reported_bound(self) -> float | int | None:
        """`bound` in pJ, cycles or pJ * cycles."""
        return self._reported(self.bound)

    def _reported(self, quantity: int | None) -> float | int | None:
        if quantity is None:
            return None
        return in_reported_unit(self.objective, quantity, self.units_per_pj)

    def _verdict(self) -> str:
        return _verdict_line(self.status, self.objective, self.reported_value, self.gap)

    def document(self) -> Document:
        """Return the result as ``network --fuse --json`` writes it; docs/json.md lists the keys."""
        text = None if self.mapping is None else fused_yaml(self.cascade, self.mapping)
        return fused_result_document(self, self.notes, text)

    def to_frame(self) -> DataFrame:
        """Return a row per Einsum, over all visits of one instance; none if no mapping was found.

        Returns
        -------
        pandas.DataFrame
            Energies in picojoules, and cycles.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = ("einsum", "visits", "n_instances", "energy_pj", "cycles", "limited_by")
        einsums: Any = self.document().get("einsums", ())
        return _frame([{column: einsum[column] for column in columns} for einsum in einsums])


@dataclass(frozen=True, repr=False)
class TrafficCurve(ShownResult):
    """The least traffic between a memory and one buffer by the size of the buffer, proven at every size.

    Parameters
    ----------
    name
        Of what it is about.
    curve
        Of all layers, one after the other; those that there was no time for, or that are too large, are
        missing.
    factors
        Out of `model.extents.FACTORS`.
    termination
        Why the work ended.
    seconds
        That it took.
    notes
        Remarks about the specs.
    """

    name: str
    curve: NetworkCurve
    factors: Factors
    termination: Termination
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """OPTIMAL, or UNKNOWN where layers are missing."""
        return self._found.status

    @property
    def _found(self) -> InputCurve:
        return InputCurve(self.name, self.curve)

    def traffic_bytes(self, buffer_bytes: int) -> float:
        """Return the least traffic with a buffer of so many bytes, over the layers that are not missing."""
        return self.curve.traffic_bits(8 * buffer_bytes) / 8

    def buffer_bytes(self, traffic_bytes: float) -> float | None:
        """Return the least buffer with which at most so much moves; None if no buffer is enough."""
        steps = self.curve.steps()
        return next((own.capacity_bits / 8 for own in steps if own.traffic_bits <= 8 * traffic_bytes), None)

    def document(self) -> Document:
        """Return the curve as ``bound --json`` writes it; docs/json.md lists the keys."""
        return bound_document(
            [self._found], CurveQuestion(self.factors), self.termination, self.seconds, self.notes
        )

    def to_frame(self) -> DataFrame:
        """Return a row per size of the buffer at which the traffic falls.

        Returns
        -------
        pandas.DataFrame
            Sizes and traffic in bytes, and multiply-accumulates per byte.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return _frame(
            [
                {
                    "buffer_bytes": step.capacity_bits / 8,
                    "traffic_bytes": step.traffic_bits / 8,
                    "macs_per_byte": 8 * self.curve.computes / step.traffic_bits,
                }
                for step in self.curve.steps()
            ]
        )

    def _verdict(self) -> str:
        parts, missing = [self.status.value], len(self.curve.missing)
        if self.curve.layers:
            *_, last = self.curve.steps()
            least = f"at least {last.traffic_bits / 8:,.0f} bytes"
            parts.append(f"{least}, reached with a buffer of {last.capacity_bits / 8:,.0f} bytes")
        if missing:
            parts.append(f"{missing} of {missing + len(self.curve.layers)} layers missing")
        return ", ".join(parts)


def _frame(rows: Sequence[Mapping[str, object]]) -> DataFrame:
    try:
        import pandas  # noqa: PLC0415 (optional, and slow to import)
    except ImportError:
        raise ImportError("to_frame() needs pandas: pip install pandas") from None
    return pandas.DataFrame(list(rows))


def load(
    *specs: Spec,
    arch: str | Path | Mapping[str, object] | Architecture | None = None,
    einsum: str | None = None,
    variables: Mapping[str, object] | None = None,
    counting: Counting | None = None,
    factors: Factors | None = None,
    uneven: bool | None = None,
    bits: int = 8,
    fuse: bool = False,
    **bounds: int,
) -> Any:
    """Read a problem and the architecture to map it onto.

    Parameters
    ----------
    *specs
        Paths of spec files (those that begin with ``specs/`` find what ships with Tilewright); dictionaries
        with their content, where ``{"!Component": {...}}`` is a node with that tag; one
        `model.problem.Problem`; or one dense Einsum such as ``"Z[m,n] = A[m,k] * B[k,n]"``, whose indices
        have the sizes of `bounds`. Of its operands the first counts as `Inputs`, the others as `Weights`
        where an architecture names those.
    arch
        The architecture, if `specs` have none: a path, a dictionary, an `Architecture` (for a `Problem`), or
        the name of a shipped one such as ``"eyeriss_like"``.
    einsum
        The Einsum of a workload to load; by default, all Einsums form a network.
    variables
        Template variables.
    counting
        The counting rule for words and cycles, out of `model.counting.PRICED_COUNTINGS`; default:
        ``accelforge`` on AccelForge architectures, ``exact`` on all others.
    factors
        The factors that loops may have, out of `model.extents.FACTORS`; None: as the specs say, otherwise
        any, or perfect where remainders are not supported, and for sparse data.
    uneven
        Whether all memories may have several places; None: only those that the specs mark as uneven.
    bits
        Bits of every value of an Einsum that is given as text.
    fuse
        Whether the Einsums of a workload may share loops; then use `map_fused`.
    **bounds
        Sizes of the indices of an Einsum that is given as text.

    Returns
    -------
    Mapspace, Network or FusedCase
        A mapspace for `map_einsum`; a network for `map_network` where the specs have a workload; a case for
        `map_fused` with `fuse`.

    Raises
    ------
    SpecError
        For every kind of invalid input, with its location.

    Examples
    --------
    >>> load("Z[m,n] = A[m,k] * B[k,n]", m=197, n=768, k=768, arch="eyeriss_like").problem.computes
    116195328
    """
    if len(specs) == 1 and isinstance(specs[0], Problem):
        own = _free_mapspace(specs[0], arch, counting or EXACT, factors or (PERFECT if uneven else None))
        return spread(own) if uneven else own
    options = LoadOptions(
        timeloop=TimeloopOptions(skip_mapping=True),
        counting=counting,
        factors=factors,
        has_places=uneven,
        all_rules=True,
    )
    text = specs[0] if len(specs) == 1 and isinstance(specs[0], str) and is_einsum(specs[0]) else None
    if bounds and text is None:
        raise SpecError(f"`{min(bounds)}` is the size of an index, but no Einsum is given as text")
    with tempfile.TemporaryDirectory() as folder:
        if text is not None:
            workload = workload_of([text], bounds, {"All": bits}, "load(..., {}=64)")
            paths = _spec_paths((workload, *_given_architecture(arch)), Path(folder))
            return load_einsum(paths, workload["workload"]["einsums"][0]["name"], variables, options).mapspace
        paths = _spec_paths((*specs, *_given_architecture(arch)), Path(folder))
        if fuse:
            cascade, notes = load_cascade(paths, variables, options)
            # Searches keep to the constraints.
            return FusedCase(cascade, tuple(note for note in notes if note.sentence != CONSTRAINTS_NOTE))
        if einsum is not None:
            return load_einsum(paths, einsum, variables, options).mapspace
        if _is_network(paths):
            network = load_network(paths, variables, replace(options, model_sparse=True))
            return with_sparse_data(network, None if factors == ANY else UNASKED_NOTE)
        loaded = load_timeloop(paths, variables, replace(options, model_sparse=True))
        return _as_searched(loaded.mapspace, factors == ANY)


def map_einsum(
    mapspace: Mapspace | Spec | Sequence[Spec],
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> EinsumResult:
    """Find the best mapping of an Einsum and prove it; if there is none, find the reasons.

    For sparse data, costs are expected values.

    Parameters
    ----------
    mapspace
        The mapspace to search, as returned by `load`, or what `load` reads: a path, or a list of them.
    options
        Objectives, limits, workers.
    on_progress, should_stop
        Called during the search: with a progress snapshot, at least every second and then perhaps from
        another thread, and to check whether the search must stop.

    Returns
    -------
    EinsumResult
        Status, value, bound and mapping; renders inline in a notebook.

    Raises
    ------
    SpecError
        For invalid specs, and for those that are no single Einsum.
    ValueError
        If the search does not support the mapspace, see `solver.stages.map_einsum`.
    """
    own = _as_loaded(mapspace, Mapspace, "map_einsum")
    first = Progress(Phase.SURVEY, 0.0, options.objectives_for(own)[0])
    with regular(on_progress, first, _after) as told:
        result = stages.map_einsum(own, options, told, should_stop)
    searched = own if result.mapspace is None else replace(result.mapspace, notes=own.notes)
    return EinsumResult(**_field_values(replace(result, mapspace=searched)))


def map_network(
    network: Network | Spec | Sequence[Spec],
    options: Options = Options(),
    how: run.Run = run.Run(),
    on_progress: Callable[[run.NetworkProgress], None] | None = None,
    should_stop: StopCallback | None = None,
) -> NetworkResult:
    """Find and prove the best mapping of every Einsum of a network; identical ones are searched once.

    Parameters
    ----------
    network
        The network, as returned by `load`, or what `load` reads: a path, or a list of them.
    options
        Objectives, limits, workers of each search.
    how
        The cache for results and the place of searches; by default, no cache and one search at a time.
    on_progress, should_stop
        Instead of those in `how`. The first is called at least every second, perhaps from another thread.

    Returns
    -------
    NetworkResult
        The results of all Einsums and their totals; renders inline in a notebook.

    Raises
    ------
    SpecError
        For invalid specs, and for those that are no network.
    """
    own = _as_loaded(network, Network, "map_network")
    how = replace(how, should_stop=should_stop or how.should_stop)
    with regular(on_progress or how.on_progress, None, lambda progress, _: progress) as told:
        result = run.map_network(own, options, replace(how, on_progress=told))
    return NetworkResult(**_field_values(result))


def map_fused(
    case: FusedCase | Cascade | Spec | Sequence[Spec],
    objective: str | Options | None = None,
    options: Options = Options(),
    limits: FusionLimits = FusionLimits(),
    on_progress: Callable[[fused.FusionProgress], None] | None = None,
    should_stop: StopCallback | None = None,
) -> FusedResult:
    """Find the best fused mapping of a cascade, whose Einsums may share loops, and prove it.

    Parameters
    ----------
    case
        The cascade, as returned by `load` with `fuse`, or what `load` reads: a path, or a list of them.
    objective
        "energy", "latency" or "edp"; None: that of `options`, then that of the specs, then EDP. The options
        may stand here, as of `map_einsum`.
    options
        The time limit applies to the whole search.
    limits
        Limits on shared loops and stored tensors.
    on_progress, should_stop
        See `map_einsum`.

    Returns
    -------
    FusedResult
        Status, value, bound and mapping; renders inline in a notebook.

    Raises
    ------
    SpecError
        For invalid specs.
    ValueError
        If the search does not support the cascade, or there are several objectives.
    """
    if isinstance(objective, Options):
        options = objective
    named = objective if isinstance(objective, str) else None
    own = FusedCase(case) if isinstance(case, Cascade) else _as_loaded(case, FusedCase, "map_fused")
    aim = _one_objective(own.cascade, named, options)
    first = fused.FusionProgress(0.0, aim, "starting", 0, len(own.cascade.einsums), 0, None, None)
    with regular(on_progress, first, _after) as told:
        result = fuse_cascade(own.cascade, aim, options, limits, told, should_stop)
    return FusedResult(**_field_values(result), notes=own.notes)


def traffic_curve(
    spec: Spec,
    bits: Bits = None,
    factors: Factors = ANY,
    time_limit_s: float | None = None,
    on_layer: Callable[[str], object] = str,
    should_stop: StopCallback | None = None,
    variables: Mapping[str, object] | None = None,
    **bounds: int,
) -> TrafficCurve:
    """Find the least traffic between a memory and one buffer for all sizes of the buffer, and prove it.

    Parameters
    ----------
    spec
        An Einsum as text, whose indices have the sizes of `bounds`; a path of a layer, a workload or a model;
        a dictionary; or a problem.
    bits
        Bits of a value, one number for all tensors or numbers by tensor; default: those of the spec, or 8.
    factors
        The factors that loops may have, out of `model.extents.FACTORS`.
    time_limit_s
        Seconds after which the search stops; the layers that remain are `missing` in the curve.
    on_layer, should_stop
        Called with the name of each layer before it is searched, and to check whether to stop.
    variables
        Template variables.
    **bounds
        Sizes of the indices of an Einsum that is given as text.

    Returns
    -------
    TrafficCurve
        Every size at which the traffic falls; renders inline in a notebook.

    Raises
    ------
    SpecError
        For invalid specs.

    Examples
    --------
    >>> traffic_curve("Z[m,n] = A[m,k] * B[k,n]", m=64, n=64, k=64).traffic_bytes(1024)
    24576.0
    """
    is_text = isinstance(spec, str) and is_einsum(spec)
    if bounds and not is_text:
        raise SpecError(f"`{min(bounds)}` is the size of an index, but no Einsum is given as text")
    name, parts, notes = _parts_of(spec, Reading(bits, factors, variables or {}), bounds)
    clock = Clock(time_limit_s, should_stop)
    curve = network_curve(parts, factors, clock.stop, lambda part: on_layer(part.name))
    ended = Termination.TOO_LARGE if curve.missing else Termination.PROVEN
    return TrafficCurve(name, curve, factors, clock.termination or ended, clock.seconds, notes)


def _parts_of(
    spec: Spec, reading: Reading, bounds: Mapping[str, int]
) -> tuple[str, list[Part], tuple[str, ...]]:
    """Return the name, the layers and the notes of what a curve is about."""
    if isinstance(spec, Problem):
        known = reading.bits if isinstance(reading.bits, Mapping) else {}
        every = reading.bits if isinstance(reading.bits, int) else DEFAULT_BITS
        own = {space.name: known.get(space.name, every) for space in spec.dataspaces}
        return spec.name, [Part(spec.name, spec, own)], ()
    if isinstance(spec, str) and is_einsum(spec):
        subject = read_texts([spec], bounds, reading, "traffic_curve(..., {}=64)")
        return subject.name, parts_of(subject, reading.bits), subject.notes
    with tempfile.TemporaryDirectory() as folder:
        subject = read_subject(_spec_paths([spec], Path(folder))[0], reading)
    return subject.name, parts_of(subject, reading.bits), subject.notes


def _one_objective(cascade: Cascade, objective: str | None, options: Options) -> str:
    """Return what a fused search minimises: it has one objective."""
    if objective is not None and options.objectives is not None:
        raise ValueError("the objective is given twice: as `objective` and in `options`")
    known = Options((objective,)) if objective is not None else options
    names = known.objectives or cascade.einsums[0].mapspace.objectives
    if len(names) > 1:
        raise ValueError(f"fused mappings have one objective, not {', '.join(names)}")
    return names[0]


def _as_loaded(thing: object, kind: type[K], caller: str) -> K:
    """Return what `load` makes of specs, or has made of them already; it must be of the right kind."""
    if isinstance(thing, str | Path | Mapping):
        thing = load(thing, fuse=kind is FusedCase)
    elif isinstance(thing, list | tuple):
        thing = load(*thing, fuse=kind is FusedCase)
    if isinstance(thing, kind):
        return thing
    if isinstance(thing, Network) and kind is Mapspace:
        hint = f"`{_TAKES[Network]}` maps all of its Einsums, `load(..., einsum=NAME)` loads one"
        raise SpecError(f"{caller} needs one Einsum, and this is a network", hint=hint)
    if type(thing) in _TAKES:
        raise SpecError(f"{caller} does not take {type(thing).__name__}: use {_TAKES[type(thing)]}")
    raise SpecError(f"{caller} takes what `load` returns, or a path, and no {type(thing).__name__}")


_TAKES: dict[type, str] = {Mapspace: "map_einsum", Network: "map_network", FusedCase: "map_fused"}


def _after(progress: S, seconds: float) -> S:
    """Return a snapshot of progress as it is after so many seconds."""
    return replace(progress, seconds=seconds)


def _as_searched(mapspace: Mapspace, remainders: bool) -> Mapspace:
    """Return a mapspace without densities that change no count; sparse data have remainders if asked for."""
    if mapspace.sparsity is None or not mapspace.sparsity.optimized:
        return replace(mapspace, sparsity=None)
    known = remainders and lack_of_remainders(mapspace) is None
    return mapspace if known else replace(mapspace, factors=PERFECT)


def _field_values(result: Result | run.NetworkResult | fused.FusedResult) -> dict[str, Any]:
    return {field.name: getattr(result, field.name) for field in fields(result)}


def _given_architecture(arch: object) -> tuple[Spec, ...]:
    """Return the architecture as one of the specs; a name is that of a shipped one."""
    if arch is None:
        return ()
    if isinstance(arch, str) and arch.isidentifier():
        path = SHIPPED / "architectures" / f"{arch}.yaml"
        if not path.exists():
            known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
            raise SpecError(f"no architecture {arch!r} ships with Tilewright; known are {known}")
        return (path,)
    if isinstance(arch, str | Path | Mapping):
        return (arch,)
    raise SpecError("an `Architecture` needs a `Problem`; with specs, give a path or a dictionary")


def _spec_paths(specs: Sequence[Spec], folder: Path) -> list[Path]:
    """Return the paths of specs; those that are dictionaries are written into a folder."""
    paths = []
    for number, spec in enumerate(specs, 1):
        if isinstance(spec, Problem):
            raise SpecError("a `Problem` needs an `Architecture`, and takes no other specs")
        if isinstance(spec, Mapping):
            path = folder / f"dictionary{number}.yaml"
            text = yaml.dump(_tagged(spec), Dumper=_Dumper, sort_keys=False)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        else:
            paths.append(input_path(str(spec)))
    return paths


class _Tagged(dict[str, object]):
    """A mapping with a tag of YAML."""

    tag = ""


class _Dumper(yaml.SafeDumper):
    """Writes dictionaries, some of them with tags."""


_Dumper.add_representer(_Tagged, lambda dumper, value: dumper.represent_mapping(value.tag, value))


def _tagged(thing: object) -> object:
    """Return a dictionary as a node, ``{"!Component": {...}}`` as a mapping with this tag."""
    if isinstance(thing, Mapping):
        (key, value), *others = [*thing.items(), (None, None)]
        if isinstance(key, str) and key.startswith("!") and isinstance(value, Mapping) and len(others) == 1:
            tagged = _Tagged((str(name), _tagged(inner)) for name, inner in value.items())
            tagged.tag = key
            return tagged
        return {name: _tagged(inner) for name, inner in thing.items()}
    return list(map(_tagged, thing)) if isinstance(thing, list | tuple) else thing


def _is_network(paths: Sequence[Path]) -> bool:
    """Whether specs are a network, and no single problem: they have a workload, a model or a directory."""
    return any(
        path.is_dir()
        or path.suffix == ".onnx"
        or (path.is_file() and re.search(rb"^(workload|renames)\s*:", path.read_bytes(), re.MULTILINE))
        for path in paths
    )


def _free_mapspace(problem: Problem, arch: object, counting: Counting, factors: Factors | None) -> Mapspace:
    """Return all mappings of a problem onto an architecture; the outermost level keeps everything."""
    if not isinstance(arch, Architecture):
        raise SpecError("a `Problem` needs an `Architecture`: load(problem, arch=architecture)")
    names = frozenset(space.name for space in problem.dataspaces)
    levels, fanouts = len(arch.levels), len(arch.fanouts)
    return Mapspace(
        problem,
        arch,
        temporal=(TemporalRules(),) * levels,
        spatial=(SpatialRules(),) * fanouts,
        keep=(KeepRules(names), *(KeepRules(),) * (levels - 1)),
        counting=counting,
        factors=factors or (ANY if rule_of(counting).remainders else PERFECT),
    )
