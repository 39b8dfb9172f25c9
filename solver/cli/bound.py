"""The command ``bound``: curves of least traffic between a memory and one buffer."""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

from model.fused.cascade import Cascade
from model.text.reader import parse_assignments
from model.wording import printable
from solver.cli.arguments import FUSED_TIME_LIMIT_S
from solver.cli.certificates import UNCHECKED, check_checked, checked
from solver.cli.curve_inputs import CurveSubject, Reading, parts_of, read_subject, read_texts
from solver.cli.einsum_text import indices_of, is_einsum
from solver.cli.options import input_path, quantity, shown
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    plot_steps,
    result_steps,
    write_output,
    write_stderr,
    write_stdout,
)
from solver.cli.progress import interruptible, logged
from solver.cli.running import EXIT_OF_STATUS
from solver.curves.fused import FusedCurve, FusedPoint, fused_curve
from solver.curves.network import LayerCurve, NetworkCurve, network_curve
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.fusion import NotSearchedError
from solver.report.curves import CurveQuestion, InputCurve, Roofline, bound_csv, bound_document, status_of
from solver.report.figures import bytes_text
from solver.report.pictures import check_plot
from solver.result import Clock, Status, Termination, TooLargeError

LEAST_FUSED, MOST_FUSED = 1024, 12
"""Bytes from which on fused cascades are searched, and at how many capacities, unless the user says."""

SIZE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
SIZE_DIGITS = 9
"""Of an index."""


def bound_command(arguments: argparse.Namespace) -> int:
    """Find curves of least traffic, write and print them."""
    texts, sizes, paths = _sorted_inputs(arguments.inputs)
    arguments.specs = paths
    _check_options(arguments, texts, sizes)
    outputs = (arguments.json, arguments.csv, arguments.plot, arguments.report, arguments.certificate)
    check_outputs(outputs, paths)
    check_plot(arguments.plot)
    inputs = list(_read_inputs(arguments, texts, sizes))
    parts = [parts_of(own, arguments.bits) for own in inputs]
    _check_bits(arguments.bits, {name for layers in parts for part in layers for name in part.bits})
    question = _question(arguments)
    limit_s = arguments.time_limit
    clock_s = FUSED_TIME_LIMIT_S if arguments.fuse and limit_s is None else limit_s
    with interruptible() as stop, _told(arguments.quiet) as tell:
        clock = Clock(clock_s, stop.is_set)
        found = []
        for own, layers in zip(inputs, parts, strict=True):
            curve = network_curve(layers, arguments.factors, clock.stop, lambda part: tell(part.name))
            fused = None if own.cascade is None else _fused(own.cascade, curve, question, clock, tell)
            found.append(InputCurve(own.name, curve, fused))
    reasons = [reason for own in found for _, reason in own.curve.missing]
    if reasons and clock.termination is None and not any(own.curve.layers for own in found):
        raise TooLargeError(reasons[0])
    notes = list(dict.fromkeys(note for own in inputs for note in own.notes))
    document = partial(bound_document, found, question, _termination(found, clock), clock.seconds, notes)
    steps = [*result_steps(document, arguments, arguments.csv)]
    if arguments.csv is not None:
        steps.append(lambda: write_output(arguments.csv, bound_csv(found)))
    lack = "" if any(own.curve.layers for own in found) else "curve"
    steps += plot_steps(arguments.plot, document, lack)
    code = _certified(steps, found, arguments, clock)
    return code or EXIT_OF_STATUS[status_of(found)]


def _certified(
    steps: list[Step], found: Sequence[InputCurve], arguments: argparse.Namespace, clock: Clock
) -> int:
    """Take all steps, write the certificate and have it checked, as requested; return the checker's code."""
    if arguments.certificate is None and not arguments.check:
        deliver(steps)
        return EXIT_OPTIMAL
    from solver.curves.certificate import certified_points

    curves = [layer for own in found for layer in own.curve.layers]
    points: list[tuple[str, FusedPoint]] = []
    for own in (each for each in found if each.fused is not None):
        assert own.fused is not None
        certified, others = certified_points(own.fused.points)
        points += [(own.name, point) for point in certified]
        steps += [partial(write_stderr, _without_proof(own.name, *each)) for each in others]
    if not curves and not points:
        deliver([*steps, lambda: write_stderr("note: no certificate is written: no curve is known\n")])
        return EXIT_OPTIMAL
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.certificate or Path(folder) / "certificate.json"
        deliver([*steps, lambda: _certify(path, curves, points, arguments)])
        return _verdict(path, arguments, clock) if arguments.check else EXIT_OPTIMAL


def _without_proof(name: str, point: FusedPoint, reason: str) -> str:
    size = bytes_text(point.capacity_bits / 8)
    return f"note: the certificate leaves out {printable(name)}, fused, at {size}: {reason}\n"


def _certify(
    path: Path,
    curves: Sequence[LayerCurve],
    points: Sequence[tuple[str, FusedPoint]],
    arguments: argparse.Namespace,
) -> None:
    """Write the certificate of all curves."""
    from solver.certificate.document import certificate_text
    from solver.curves.certificate import curves_certificate

    command = ["python", "-m", "solver", *arguments.words]
    write_output(path, certificate_text(curves_certificate(curves, command, points)))


def _verdict(path: Path, arguments: argparse.Namespace, clock: Clock) -> int:
    """Have a certificate checked, and print the verdict; return the exit code of the checker."""
    if clock.termination is Termination.INTERRUPTED:
        write_stderr(f"note: {UNCHECKED}\n")
        return EXIT_UNCHECKED
    code, verdict = checked([path], None)
    taken = STDOUT in (arguments.json, arguments.csv, arguments.report) or arguments.quiet
    named = f"{printable(str(path))}: " if arguments.certificate else ""
    (write_stderr if taken else write_stdout)(verdict.replace(f"{path}: ", named))
    return code


def _sorted_inputs(inputs: Sequence[str]) -> tuple[list[str], dict[str, int], list[Path]]:
    """Return Einsums, sizes of indices, and paths."""
    texts: list[str] = []
    sizes: dict[str, int] = {}
    paths: list[Path] = []
    for text in inputs:
        size = SIZE.fullmatch(text)
        if is_einsum(text):
            texts.append(text)
        elif "[" in text and "=" in text and not Path(text).exists():
            raise OutputError(f"{shown(text)} is not an Einsum, such as 'Z[m,n] = A[m,k] * B[k,n]'")
        elif size is None or Path(text).exists():
            paths.append(_given_path(text))
        elif size[1] in sizes:
            raise OutputError(f"the size of {size[1]} is given twice")
        else:
            sizes[size[1]] = _index_size(size[1], size[2])
    return texts, sizes, paths


def _given_path(text: str) -> Path:
    try:
        return input_path(text)
    except argparse.ArgumentTypeError as error:
        raise OutputError(str(error)) from None


def _index_size(name: str, text: str) -> int:
    """Read the size of an index."""
    try:
        size = quantity(text)
    except argparse.ArgumentTypeError:
        size = Fraction(0)
    if size.denominator != 1 or not 1 <= size < 10**SIZE_DIGITS:
        most = 10**SIZE_DIGITS - 1
        raise OutputError(f"{name}={text}: the size of {name} must be an integer from 1 to {most:,}")
    return int(size)


def _check_options(arguments: argparse.Namespace, texts: Sequence[str], sizes: Mapping[str, int]) -> None:
    """Refuse options and sizes that go with others only."""
    known = set[str]().union(*map(indices_of, texts))
    for name in sizes:
        if not texts:
            raise OutputError(f"{name}={sizes[name]} is the size of an index, but no Einsum is given as text")
        if name not in known:
            raise OutputError(f"no Einsum has an index {name}; known indices are {', '.join(sorted(known))}")
    if (arguments.bandwidth is None) != (arguments.macs is None):
        raise OutputError(
            "--bandwidth and --macs must be given together: bytes and multiply-accumulates per unit of time"
        )
    check_checked(arguments)
    if arguments.fuse and arguments.specs and arguments.bits is not None:
        raise OutputError("--bits cannot be combined with --fuse: set `bits_per_value` in the workload")


def _check_bits(bits: int | Mapping[str, int] | None, known: set[str]) -> None:
    """Refuse bits of tensors that there are not."""
    for name in bits if isinstance(bits, Mapping) else ():
        if name not in known:
            raise OutputError(
                f"--bits: there is no tensor {name}; known tensors are {', '.join(sorted(known))}"
            )


def _question(arguments: argparse.Namespace) -> CurveQuestion:
    roofline = None if arguments.macs is None else Roofline(arguments.bandwidth, arguments.macs)
    return CurveQuestion(
        arguments.factors,
        arguments.capacity,
        tuple(sorted(set(arguments.at))),
        tuple(sorted(set(arguments.traffic), reverse=True)),
        roofline,
    )


def _read_inputs(
    arguments: argparse.Namespace, texts: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[CurveSubject]:
    """Yield what each curve is about; with --fuse, all Einsums that are given as text are one cascade."""
    reading = Reading(
        arguments.bits, arguments.factors, parse_assignments(arguments.variables), arguments.fuse
    )
    groups = [texts] if arguments.fuse and texts else [[text] for text in texts]
    for group in groups:
        yield read_texts(group, sizes, reading, "{}=64, after the Einsum")
    for path in arguments.specs:
        yield read_subject(path, reading)


def _fused(
    cascade: Cascade, curve: NetworkCurve, question: CurveQuestion, clock: Clock, tell: Callable[[str], None]
) -> FusedCurve:
    """Search the fused cascade at the capacities asked for, or at powers of two."""
    capacities = question.at_bits or _powers(curve, question)
    try:
        return fused_curve(cascade, capacities, clock, lambda bits: tell(f"fused, {bytes_text(bits / 8)}"))
    except (NotSearchedError, TooLargeError) as error:
        raise OutputError(f"--fuse: {error}") from None


def _powers(curve: NetworkCurve, question: CurveQuestion) -> list[int]:
    """Return powers of two, up to where everything has room unless the user says."""
    least, most = question.range_bits
    if most is None:
        whole = min((step.traffic_bits for step in curve.steps()), default=1)
        most = 1 << (max(8 * LEAST_FUSED, whole) - 1).bit_length()
    if least is None:
        least = min(most, 8 * LEAST_FUSED)
    powers = [1 << power for power in range((least - 1).bit_length(), most.bit_length())] or [most]
    every = -(-len(powers) // MOST_FUSED)
    return powers[::-1][::every]


@contextmanager
def _told(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield what takes the name of what is looked at, which is shown on stderr."""
    text = "starting"

    def tell(name: str) -> None:
        nonlocal text
        text = printable(name)

    if quiet:
        yield tell
        return
    if not sys.stderr.isatty():
        with logged(lambda: text):
            yield tell
        return
    from rich.console import Console

    with Console(stderr=True, markup=False).status(text) as status:
        yield status.update


def _termination(found: Sequence[InputCurve], clock: Clock) -> Termination:
    """Why the work ended."""
    if clock.termination is not None or all(own.status is Status.OPTIMAL for own in found):
        return clock.termination or Termination.PROVEN
    if any(own.curve.missing for own in found):
        return Termination.TOO_LARGE
    left_s = clock.left_s
    return Termination.BOUND if left_s in (None, math.inf) else Termination.TIME_LIMIT
