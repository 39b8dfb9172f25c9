"""Compares curves of least traffic with searches at single capacities on random Einsums, and counts.

Einsums are drawn from all kinds that the tests have, windows included. A search maps each onto a memory and a
buffer of a random capacity. It agrees if its value is that of the curve, or, where it ends at the time limit
before the proof, if no bound is above the curve and no value below it. Half of the capacities lie one word
below a point of the curve. Besides, the checker of certificates, which shares no code with either, has to
find the curve VALID. The exit code is 1 if anything disagrees.

    python scripts/agree_curves.py --enumerate 350

compares curves of so many small Einsums with all their mappings instead, priced one by one by the cost model.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from model.extents import FACTORS
from model.problem import Problem
from solver.certificate.checker.prove import verdict
from solver.certificate.document import certificate_text
from solver.curves.certificate import curves_certificate
from solver.curves.design import Design
from solver.curves.einsum import Curve, traffic_curve
from solver.curves.network import LayerCurve, Part
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.curves import enumerated_steps, small_design, steps_of
from tests.strategies import CONVOLUTIONS, EINSUMS

LARGEST = {True: 24, False: 200}
"""Sizes of dimensions, at most: of convolutions, and of other Einsums."""

LONG = 4
"""Dimensions of an Einsum that are that large; the others have few iterations."""

BITS = (8, 8, 8, 16, 32)
"""Of a value."""


@dataclass
class Agreement:
    """What came of one Einsum: searches by how they compare with the curve, and processor seconds."""

    design: Design
    curve: Curve
    curve_s: float
    search_s: float = 0.0
    checker_s: float = 0.0
    equal: int = 0
    open: int = 0
    wrong: list[str] = field(default_factory=list)


def drawn(seed: int) -> Design:
    """Draw an Einsum, sizes of its values, and whether loops may have remainders."""
    random = Random(seed)
    einsum = EINSUMS[seed % len(EINSUMS)]
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    long = random.sample(dims, min(LONG, len(dims)))
    most = LARGEST[einsum in CONVOLUTIONS]
    bounds = tuple(random.randint(2, most) if dim in long else random.randint(1, 3) for dim in dims)
    bits = {space.name: random.choice(BITS) for space in spaces}
    return Design(Problem(einsum.__name__, dims, bounds, spaces), bits, FACTORS[seed // len(EINSUMS) % 2])


def capacities(seed: int, curve: Curve, count: int) -> Iterator[int]:
    """Draw capacities: up to beyond the last point, small ones more often; or just too small for a point."""
    random, most = Random(seed), 2 * max(curve.points[-1].capacity, 1)
    for number in range(count):
        if number % 2 and len(curve.points) > 1:
            yield random.choice(curve.points[1:]).capacity - 1
        else:
            yield int(math.exp(random.uniform(0, math.log(most))))


def compared(seed: int, count: int, limit_s: float) -> Agreement:
    """Compare the curve of an Einsum with searches at some capacities."""
    design, started = drawn(seed), time.process_time()
    curve = traffic_curve(design)
    found = Agreement(design, curve, time.process_time() - started)
    started = time.process_time()
    for capacity in capacities(seed, curve, count):
        _compare(found, capacity, limit_s)
    found.search_s, started = time.process_time() - started, time.process_time()
    _check(found)
    found.checker_s = time.process_time() - started
    return found


def _check(found: Agreement) -> None:
    """Have the certificate checked."""
    part = Part("Einsum", found.design.problem, found.design.bits)
    document = curves_certificate([LayerCurve(part, found.curve)], ["agree_curves.py"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        path.write_text(certificate_text(document), encoding="utf-8")
        word, reason = verdict(path)
    if word != "VALID":
        found.wrong.append(f"the checker: {word}, {reason}")


def _compare(found: Agreement, capacity: int, limit_s: float) -> None:
    """Search at one capacity."""
    least = found.curve.at(capacity).traffic
    result = map_einsum(found.design.with_capacity(capacity), Options(time_limit_s=limit_s))
    value, bound = result.value, result.bound
    if result.status is Status.OPTIMAL and value == least:
        found.equal += 1
        return
    contradicts = (value is not None and value < least) or (bound is not None and bound > least)
    if result.status in (Status.OPTIMAL, Status.INFEASIBLE) or contradicts:
        found.wrong.append(
            f"{capacity} words: the curve has {least}, the search {result.status.name} {bound} .. {value}"
        )
        return
    found.open += 1


def enumerated(count: int, first: int, console: Console) -> int:
    """Compare curves of small Einsums with all their mappings; return how many disagree."""
    wrong = steps = 0
    for seed in range(first, first + count):
        design = small_design(seed, FACTORS[seed % 2])
        wanted, found = enumerated_steps(design), steps_of(traffic_curve(design))
        steps += len(wanted)
        if wanted != found:
            wrong += 1
            console.print(f"seed {seed}, {design.problem.bound}: {found}, by enumeration {wanted}")
    console.print(
        f"{count - wrong} of {count} curves are those of all mappings, {steps} steps; {wrong} are not"
    )
    return wrong


def report(seeds: range, found: list[Agreement]) -> Table:
    """A row per Einsum."""
    table = Table(title="Curves and searches at single capacities", title_justify="left")
    for name in ("seed", "Einsum", "factors"):
        table.add_column(name)
    for name in ("points", "equal", "open", "wrong", "curve, CPU s", "searches, CPU s", "checker, CPU s"):
        table.add_column(name, justify="right")
    for seed, own in zip(seeds, found, strict=True):
        sizes = " ".join(f"{dim}{bound}" for dim, bound in own.design.problem.bound.items())
        counts = (len(own.curve.points), own.equal, own.open, len(own.wrong))
        seconds = (f"{own.curve_s:.2f}", f"{own.search_s:.1f}", f"{own.checker_s:.2f}")
        name = f"{own.design.problem.name} {sizes}"
        table.add_row(str(seed), name, own.design.factors, *map(str, counts), *seconds)
    return table


def main() -> int:
    """Draw and compare, print counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20, metavar="N", help="Einsums (default: 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first one (default: 0)")
    parser.add_argument(
        "--capacities", type=int, default=100, metavar="N", help="of each Einsum (default: 100)"
    )
    parser.add_argument(
        "--time-limit", type=float, default=10.0, metavar="S", help="of each search (default: 10)"
    )
    parser.add_argument(
        "--enumerate", type=int, metavar="N", help="compare so many small Einsums with all their mappings"
    )
    options = parser.parse_args()
    console, found = Console(width=140), list[Agreement]()
    if options.enumerate is not None:
        return 1 if enumerated(options.enumerate, options.seed, console) else 0
    seeds = range(options.seed, options.seed + options.count)
    for seed in seeds:
        found.append(compared(seed, options.capacities, options.time_limit))
        for text in found[-1].wrong:
            console.print(f"seed {seed}, {found[-1].design.problem.name}: {text}")
    console.print(report(seeds, found))
    wrong, total = sum(len(own.wrong) for own in found), options.count * options.capacities
    equal = sum(own.equal for own in found)
    unproven = sum(own.open for own in found)
    console.print(f"{equal} of {total} searches equal the curve, {unproven} are open; {wrong} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
