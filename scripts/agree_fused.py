"""Compares the search for fused mappings with complete enumeration on random small cascades, and counts.

A search agrees if its value is that of its mapping by the plain cost model, if the execution of this mapping
on arrays counts the same, if no value is below the optimum and no bound above it, and if the status says no
more than that. The optimum has to be proven, except where visits may differ and bandwidths count. With
`--check` the certificate of each proven optimum has to be VALID, if there is one. One search of each cascade
is stopped at random besides, for the bound and the value that it has by then. The exit code
is 1 if anything disagrees. An enumeration that takes too long is counted as skipped, and a cascade with a
search that does, as on a busy machine, as late: its results need not be proven.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.cost import evaluate_fused
from model.mapspace import KeepRules, SpatialRules
from solver.certificate.canonical import CertificateError
from solver.certificate.checker import prove
from solver.fusion import FusedResult, FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.result import Options, Status, Termination
from tests.fused_bruteforce import BruteForce, Optimum
from tests.fused_orders import OrderedBruteForce, ordered_cascade
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import COPIED_WINDOWS, COPIES, SHAPES, cascade_of, with_tolls
from tests.solver.fusion.test_optimum import by_place, uneven
from tests.solver.fusion.test_remainders import with_remainders
from tests.solver.fusion.test_unlike_einsums import with_least_use, with_own_clocks

OBJECTIVES = ("energy", "latency", "edp")
PRODUCTS = ("products", "attention", "skip", "projections", "three", "diamond")
WINDOWS = ("window", "depthwise", "residual", "two windows", "plane")
STRIDES = {
    "strides": ("U[q,n] = T[2*q+r] V[r,n]", "Z[q,m] = U[q,n] X[n,m]"),
    "holes": ("U[q,n] = T[2*q+r]", "Z[q] = U[q,n]"),
}
BEFORE = {
    "window before": ("U[q,n] = T[q+r,n] V[r]", "Z[q,m] = U[q,n] X[n,m]"),
    "window before both": ("U[q] = T[q+r] V[r]", "W[q] = U[q]", "Z[q] = W[q] U[q]"),
}
KEPT = {
    "window of each": ("U[q,n] = T[q+r,n] V[r,n]", "Z[q,m] = U[q,n] X[n,m]"),
    "window and all before": ("U[q,m] = T[q+r,n] V[r,n,m]", "Z[q] = U[q,m] X[m]"),
    "stride before": ("U[q,n] = T[2*q+r,n] V[r]", "Z[q] = U[q,n] X[n]"),
    "two windows before": ("U[q] = T[q+r] V[r]", "Z[q] = U[q] S[q+s] Y[s]"),
    "one window for both": ("U[q] = T[q+r] V[r]", "Z[q] = U[q] T[q+r]"),
    "plane before": ("U[q,x] = T[q+r,x+s] V[r,s]", "Z[q,x] = U[q,x] X"),
    "window between": ("T[p,n] = A[p,n]", "U[q,n] = T[q+r,n] V[r]", "Z[q] = U[q,n] X"),
    "window before three": ("U[q,n] = T[q+r,n] V[r]", "W[q,n] = U[q,n]", "Z[q] = W[q,n] X[n]"),
}
"""Windows of which what overlaps is kept, by AccelForge's rule."""
GAPS = {"gaps": ("U[q,n] = T[3*q,m] V[m,n]", "Z[q,k] = U[q,n] X[n,k]")}
ALL = SHAPES | COPIES | COPIED_WINDOWS | STRIDES | GAPS | BEFORE | KEPT
SEARCH_S = 90


@dataclass(frozen=True)
class Kind:
    """What cascades are drawn.

    `inner`: what is inside of the buffer: nothing, registers, an array of them, or one of arithmetic units.
    `cores`: whether the buffer exists several times; `fills`: whether memories have a least utilization.
    `sizes`: those of dimensions, if others than `SIZES`. `any_order`: whether memories lie in any order.
    """

    shapes: tuple[str, ...] = PRODUCTS
    inner: str = ""
    changes: tuple[Callable[[Cascade], Cascade], ...] = ()
    tolls: bool = False
    cores: bool = False
    fills: bool = False
    sizes: tuple[int, ...] = ()
    any_order: bool = False

    @property
    def remainders(self) -> bool:
        """Whether nests may have remainders."""
        return with_remainders in self.changes


def one_tensor(cascade: Cascade) -> Cascade:
    """Add registers to a cascade for at most one tensor of each Einsum, so that one place suffices."""
    chosen: list[str] = []
    for tensor in cascade.intermediates:
        users = set(cascade.users[tensor])
        chosen += [tensor] if all(users.isdisjoint(cascade.users[own]) for own in chosen) else []
    einsums = []
    for einsum in cascade.einsums:
        others = frozenset(own.dataspace for own in einsum.accesses if own.tensor not in chosen)
        rules = (KeepRules(), KeepRules(), KeepRules(bypass=others))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=rules)))
    return replace(cascade, einsums=tuple(einsums))


def in_unlike_orders(cascade: Cascade) -> Cascade:
    """Add rules on the order of spatial loops to a cascade, which few orders of two loops satisfy."""
    einsums = []
    for place, einsum in enumerate(cascade.einsums):
        dims = sorted(einsum.problem.dims)
        odd = (SpatialRules(), SpatialRules(outer=(dims[0],)))[math.prod(einsum.problem.bounds) % 3 == 0]
        rules = odd if place % 2 else SpatialRules(inner=tuple(dims))
        spatial = (rules,) * len(einsum.mapspace.spatial)
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, spatial=spatial)))
    return replace(cascade, einsums=tuple(einsums))


KINDS = {
    "two memories": Kind(),
    "two memories, uneven": Kind(changes=(uneven,)),
    "two memories, accelforge": Kind(changes=(by_place,)),
    "registers": Kind(inner="registers"),
    "registers, uneven": Kind(inner="registers", changes=(uneven,)),
    "registers, accelforge": Kind(inner="registers", changes=(one_tensor, by_place)),
    "registers, tolls": Kind(inner="registers", tolls=True),
    "array of registers": Kind(inner="array"),
    "array of registers, uneven": Kind(inner="array", changes=(uneven,)),
    "array of registers, accelforge": Kind(inner="array", changes=(one_tensor, by_place)),
    "array of registers, rules on orders": Kind(inner="array", changes=(in_unlike_orders,)),
    "array of registers, rules on use": Kind(inner="array", changes=(with_least_use,)),
    "array of registers, rules on use, accelforge": Kind(
        inner="array", changes=(one_tensor, with_least_use, by_place)
    ),
    "cores, rules on use": Kind(("products", "attention"), cores=True, changes=(with_least_use,)),
    "cores, registers, rules on use": Kind(
        ("products", "attention"), "registers", cores=True, changes=(with_least_use,)
    ),
    "windows, rules on use": Kind(WINDOWS, "array", changes=(with_least_use,)),
    "clocks": Kind(changes=(with_own_clocks,)),
    "clocks, registers, accelforge": Kind(inner="registers", changes=(one_tensor, with_own_clocks, by_place)),
    "clocks, windows": Kind(WINDOWS, changes=(with_own_clocks,)),
    "windows": Kind(WINDOWS),
    "windows, uneven": Kind(WINDOWS, changes=(uneven,)),
    "windows, accelforge": Kind(WINDOWS, changes=(by_place,)),
    "windows, registers, accelforge": Kind(WINDOWS, "registers", changes=(one_tensor, by_place)),
    "windows, array of registers, accelforge": Kind(WINDOWS, "array", changes=(one_tensor, by_place)),
    "strides, accelforge": Kind((*STRIDES,), changes=(by_place,)),
    "windows before, accelforge": Kind((*BEFORE,), changes=(by_place,)),
    "windows before, registers, accelforge": Kind((*BEFORE,), "registers", changes=(one_tensor, by_place)),
    "overlaps": Kind((*KEPT,), changes=(by_place,)),
    "overlaps, registers": Kind((*KEPT,), "registers", changes=(one_tensor, by_place)),
    "overlaps, array of registers": Kind((*KEPT,), "array", changes=(one_tensor, by_place)),
    "overlaps, tolls": Kind((*KEPT,), changes=(by_place,), tolls=True),
    "overlaps, clocks": Kind((*KEPT,), changes=(with_own_clocks, by_place)),
    "overlaps, cores": Kind((*KEPT,), changes=(by_place,), cores=True),
    "overlaps, least utilization": Kind((*KEPT,), changes=(by_place,), fills=True),
    "windows, registers": Kind(WINDOWS, "registers"),
    "windows, array of registers": Kind(WINDOWS, "array"),
    "strides": Kind((*STRIDES,)),
    "gaps": Kind((*GAPS,)),
    "cores": Kind(cores=True),
    "cores, gaps": Kind((*GAPS,), cores=True),
    "cores, uneven": Kind(cores=True, changes=(uneven,)),
    "cores, accelforge": Kind(cores=True, changes=(by_place,)),
    "cores, registers": Kind(inner="registers", cores=True),
    "cores, tolls": Kind(cores=True, tolls=True),
    "cores, rules on orders": Kind(("products", "attention"), cores=True, changes=(in_unlike_orders,)),
    "cores, windows": Kind(WINDOWS, cores=True),
    "least utilization": Kind(fills=True),
    "least utilization, uneven": Kind(fills=True, changes=(uneven,)),
    "least utilization, registers": Kind(inner="registers", fills=True),
    "least utilization, windows": Kind(WINDOWS, fills=True),
    "least utilization, cores": Kind(cores=True, fills=True),
    "least utilization, copies": Kind((*COPIES,), fills=True),
    "least utilization, copies, registers": Kind((*COPIES,), "registers", fills=True),
    "least utilization, copies, uneven": Kind((*COPIES,), fills=True, changes=(uneven,)),
    "remainders": Kind(changes=(with_remainders,)),
    "remainders, array of units": Kind(inner="units", changes=(with_remainders,)),
    "remainders, registers": Kind(inner="registers", changes=(with_remainders,)),
    "remainders, windows": Kind(WINDOWS, changes=(with_remainders,)),
    "remainders, windows, registers": Kind(WINDOWS, "registers", (with_remainders,)),
    "remainders, strides": Kind((*STRIDES,), changes=(with_remainders,)),
    "remainders, least utilization": Kind(fills=True, changes=(with_remainders,)),
    "long ranks": Kind(("products", "attention"), sizes=(4, 6, 8, 9, 10, 12)),
    "copies": Kind((*COPIES,)),
    "copies, uneven": Kind((*COPIES,), changes=(uneven,)),
    "copies, accelforge": Kind((*COPIES,), changes=(by_place,)),
    "copies, registers": Kind((*COPIES,), "registers"),
    "copies, array of registers": Kind((*COPIES,), "array"),
    "copies, tolls": Kind((*COPIES,), tolls=True),
    "copies, cores": Kind((*COPIES,), cores=True),
    "copies, cores, accelforge": Kind((*COPIES,), cores=True, changes=(by_place,)),
    "copies, cores, registers": Kind((*COPIES,), "registers", cores=True),
    "copies, cores, tolls": Kind((*COPIES,), cores=True, tolls=True),
    "copies, remainders": Kind((*COPIES,), changes=(with_remainders,)),
    "copied windows": Kind((*COPIED_WINDOWS,)),
    "copied windows, registers": Kind((*COPIED_WINDOWS,), "registers"),
    "copied windows, remainders": Kind((*COPIED_WINDOWS,), changes=(with_remainders,)),
    "any order of memories": Kind(("products", "products", "attention", "three"), any_order=True),
}

SIZES: dict[str, tuple[int, ...]] = {
    "products": (2, 3, 4, 6, 8),
    "attention": (2, 3, 4),
    "projections": (2, 2, 3),
    "three": (2, 2, 3),
    "skip": (2, 3),
    "diamond": (2, 3, 4),
    "copied input": (2, 2, 3),
    "projections of a copy": (2, 2),
}

COLUMNS = (
    *("cascades", "agree", "skipped", "late", "nothing fits"),
    *("proven", "in bodies", "stored inside", "keeps overlap"),
)


def drawn(random: Random, kind: Kind) -> tuple[str, Cascade]:
    """The name of a shape, and a cascade."""
    name = random.choice(kind.shapes)
    if kind.any_order:
        return name, ordered_cascade(random, name)
    architecture = Architecture("small", nodes_of(random, kind), Compute("MAC", energy=1))
    cascade = cascade_of(ALL[name], bounds_of(random, name, kind), architecture, random.choice((1, 1, 3)))
    cascade = replace(cascade, einsums=tuple(map(with_own_names, cascade.einsums)))
    for change in kind.changes:
        cascade = change(cascade)
    return name, with_tolls(random, cascade) if kind.tolls else cascade


def with_own_names(einsum: CascadeEinsum) -> CascadeEinsum:
    """Put an Einsum on an architecture that names no dataspaces of others."""
    names = {own.name for own in einsum.problem.dataspaces}
    architecture = einsum.mapspace.architecture
    nodes = tuple(
        replace(node, no_multicast=node.no_multicast & names) if isinstance(node, Fanout) else node
        for node in architecture.nodes
    )
    architecture = replace(architecture, nodes=nodes)
    return replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture))


def nodes_of(random: Random, kind: Kind) -> tuple[StorageLevel | Fanout, ...]:
    main = StorageLevel(
        "Main",
        energy=AccessEnergy(random.choice((9, 30, 90)), 0, random.choice((10, 80)), random.choice((0, 0, 2))),
        shared_bandwidth=random.choice((None, 1)),
    )
    dear = 30 if kind.inner in ("registers", "array") and random.random() < 0.6 else 9
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((5, 6, 8, 11, 14)),
        energy=AccessEnergy(*(random.randint(1, dear) for _ in range(3))),
        read_bandwidth=random.choice((None, 2)),
        network_fill_latency=random.choice((0, 0, 3)),
    )
    registers = StorageLevel(
        "RF",
        size_words=random.choice((3, 4, 5, 8, 12)),
        energy=AccessEnergy(*(random.randint(1, 4) for _ in range(3))),
    )
    if kind.fills:
        shares = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(4, 5), Fraction(1))
        buffer = replace(buffer, min_utilization=random.choice(shares[not kind.inner :]))
        registers = replace(registers, min_utilization=random.choice(shares))
    array = Fanout("PE", random.choice((2, 2, 3, 4)))
    inner = {"": (), "registers": (registers,), "array": (array, registers), "units": (array,)}
    apart = frozenset(random.choice(((), (), (), ("A",), ("Z",), ("T", "V"))))
    cores = (Fanout("core", random.choice((2, 2, 3, 4)), no_multicast=apart),) if kind.cores else ()
    return main, *cores, buffer, *inner[kind.inner]


def bounds_of(random: Random, name: str, kind: Kind) -> dict[str, int]:
    letters = sorted({char for text in ALL[name] for char in text if char.islower()})
    sizes = kind.sizes or SIZES.get(name, (2, 3, 4))
    if kind.cores or kind.fills:
        sizes = (2, 2, 3, 4) if name == "products" else (1, 2, 2, 3 if name == "attention" else 2)
    if kind.remainders:
        sizes = tuple({2, 3, 5} if name in ("products", "diamond") else {2, 3})
    bounds = {dim: random.choice(sizes) for dim in letters}
    q, r = random.choice((2, 3, 4)), random.choice((1, 2, 3))
    kept = {"q": random.choice((4, 4, 6)), "r": max(2, r), "m": 2, "n": random.choice((1, 2))}
    special = {
        "projections": {"p": bounds.get("m", 1)},
        "skip": {"d": bounds.get("b", 1)},
        "window": {"q": q, "r": r, "p": q + r - 1 + random.choice((0, 0, 1)), "c": 2},
        "depthwise": {"q": q, "r": r, "p": q + r - 1 + random.choice((0, 0, 1)), "c": 2, "k": 2},
        "residual": {"q": q, "r": r, "p": q + r - 1},
        "two windows": {"x": 2, "y": 2, "q": 3, "r": r, "s": 2, "p": 4 + r + random.choice((0, 1))},
        "projections of a copy": {"p": bounds.get("m", 1)},
        "copy around": {"b": random.choice((4, 6)), "o": 1},
        "plane": {"x": random.choice((2, 4)), "y": 2, "r": 2, "s": 2, "q": 3},
        **{name: {"q": random.choice((3, 5, 6)), "r": random.choice((1, 1, 2))} for name in STRIDES},
        "gaps": {"q": random.choice((4, 4, 6))},
        **dict.fromkeys(KEPT, kept),
        "stride before": {"q": 4, "r": 3, "n": random.choice((1, 2))},
        "plane before": {"q": random.choice((2, 4)), "x": 2, "r": 2, "s": 2},
        "window between": {"q": 4, "r": 2, "p": 5, "n": 2},
        "window before three": kept | {"q": 4},
    }
    bounds |= special.get(name, {"q": q, "r": r, "p": q + r - 1} if name in COPIED_WINDOWS else {})
    return bounds | ({"p": bounds["x"] + 1} if name == "plane" else {})


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds."""

    def ended(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, ended)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def enumerated(cascade: Cascade, kind: Kind, limits: FusionLimits) -> dict[str, Optimum]:
    """The optima of the space that the search has."""
    several = uneven in kind.changes or by_place in kind.changes
    brute = (OrderedBruteForce if kind.any_order else BruteForce)(
        cascade,
        once_per_rank=limits.max_loops_per_rank == 1,
        even=not several,
        divided=True,
        remainders=kind.remainders,
        ragged=kind.remainders,
        memories=limits.memories,
    )
    return brute.optima(OBJECTIVES)


def objections(
    cascade: Cascade, kind: Kind, result: FusedResult, optimum: Optimum | None, complete: bool
) -> Iterator[str]:
    """What is wrong with a result."""
    if optimum is None:
        if result.mapping is not None or (complete and result.status is not Status.INFEASIBLE):
            yield f"{result.status.value} where nothing fits"
        return
    if result.bound is not None and result.bound > optimum.value:
        yield f"bound {result.bound} above {optimum.value}"
    if result.status is Status.INFEASIBLE:
        yield f"infeasible, but {optimum.value} is possible"
    if result.status is Status.OPTIMAL and not result.value == result.bound == optimum.value:
        yield f"optimal at {result.value} (bound {result.bound}) instead of {optimum.value}"
    slides = kind.shapes in (WINDOWS, (*COPIED_WINDOWS,))
    alike = not slides and not kind.remainders
    exact = alike or (result.objective == "energy" and not leaks(cascade))
    if complete and exact and result.status is not Status.OPTIMAL:
        yield f"{result.status.value} at {result.value}, bound {result.bound}; the optimum is {optimum.value}"
    if result.mapping is None or result.value is None:
        return
    if result.value < optimum.value:
        yield f"{result.value} below {optimum.value}"
    cost = evaluate_fused(cascade, result.mapping)
    if not cost.valid or cost.value(result.objective) != result.value:
        yield f"priced at {cost.value(result.objective)} instead of {result.value}: {cost.violations}"
    if by_place not in kind.changes and not kind.any_order:
        yield from disagreements(cascade, result.mapping, seed=0)


def doubts(result: FusedResult, check_s: float) -> Iterator[str]:
    """What the checker says of the certificate of an optimum that it does not find valid."""
    if not check_s or result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
        return
    try:
        certificate = fused_certificate(result, sys.argv)
    except CertificateError:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        path.write_text(json.dumps(certificate))
        verdict, reason = prove.verdict(path, check_s)
    if verdict != "VALID":
        yield f"the certificate is {verdict}: {reason}"


def leaks(cascade: Cascade) -> bool:
    return any(level.energy.leak_per_cycle for level in cascade.einsums[0].mapspace.architecture.levels)


@dataclass
class Comparison:
    """A cascade that was compared, the columns that count it, and what was wrong."""

    name: str
    cascade: Cascade
    kind: Kind
    limits: FusionLimits
    check_s: float = 0
    columns: set[str] = field(default_factory=lambda: {"cascades"})
    wrong: list[str] = field(default_factory=list)

    def search(self, random: Random, optima: dict[str, Optimum]) -> None:
        """Search for each objective, to the end and to a stop at random."""
        proven = [self._search(objective, optima.get(objective)) for objective in OBJECTIVES]
        objective = random.choice(OBJECTIVES)
        self._stop(objective, random.choice((10, 100, 1000)) * random.randint(1, 9), optima.get(objective))
        mappings = [optimum.mapping for optimum in optima.values()]
        stored = [tile.memory for mapping in mappings for tile in mapping.stored]
        facts = {
            "agree": not self.wrong,
            "nothing fits": not optima,
            "proven": all(proven),
            "in bodies": any(list(mapping.bodies) for mapping in mappings),
            "stored inside": "RF" in stored,
            "keeps overlap": any(
                own.keeps_overlap for m in mappings for path in m.paths for own in path.leaf.held
            ),
        }
        self.columns.update(name for name, holds in facts.items() if holds)

    def _search(self, objective: str, optimum: Optimum | None) -> bool:
        """Whether an optimum is proven."""
        return self._checked(objective, optimum, True, options=Options(time_limit_s=SEARCH_S))

    def _stop(self, objective: str, asked: int, optimum: Optimum | None) -> None:
        """Stop a search once it has asked so often whether to stop."""
        left = iter(range(asked))
        self._checked(objective, optimum, False, should_stop=lambda: next(left, None) is None)

    def _checked(self, objective: str, optimum: Optimum | None, complete: bool, **how: Any) -> bool:
        try:
            with at_most(2 * SEARCH_S):
                result = fuse_cascade(self.cascade, objective, limits=self.limits, **how)
            is_late = complete and result.termination is Termination.TIME_LIMIT
            self.columns |= {"late"} if is_late else set()
            found = [*objections(self.cascade, self.kind, result, optimum, complete and not is_late)]
            found += doubts(result, self.check_s)
        except Exception as error:
            self.wrong.append(f"{objective}: {type(error).__name__}: {error}")
            return False
        self.wrong += [
            f"{objective}: {text}" if complete else f"{objective}, stopped: {text}" for text in found
        ]
        return result.status is Status.OPTIMAL


def compared(seed: int, kind: Kind, limit_s: int, check_s: float = 0) -> Comparison:
    """Draw a cascade, enumerate and search it."""
    random = Random(seed)
    name, cascade = drawn(random, kind)
    limits = FusionLimits(
        max_loops_per_rank=1 if random.random() < 0.15 else None,
        memories=frozenset(["GLB"]) if random.random() < 0.15 or _spreads(kind, cascade) else None,
        equal_parts=not kind.remainders,
    )
    comparison = Comparison(name, cascade, kind, limits, check_s)
    try:
        with at_most(limit_s):
            optima = enumerated(cascade, kind, limits)
    except TimeoutError:
        comparison.columns = {"skipped"}
        return comparison
    comparison.search(random, optima)
    return comparison


def _spreads(kind: Kind, cascade: Cascade) -> bool:
    """Whether tensors in registers would be spread over an array: that is not enumerated."""
    return kind.any_order and bool(cascade.einsums[0].mapspace.architecture.fanouts)


def main() -> int:
    """Draw, enumerate, search, and print counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=38, metavar="N", help="cascades (default: 38)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first one (default: 0)")
    parser.add_argument("--kind", choices=KINDS, help="cascades of one kind only")
    parser.add_argument(
        "--limit", type=int, default=30, metavar="SECONDS", help="for each enumeration (default: 30)"
    )
    parser.add_argument(
        "--check", type=float, default=0, metavar="SECONDS", help="for the check of each certificate"
    )
    parser.add_argument("--time-limit", type=float, default=math.inf, metavar="SECONDS", help="for all of it")
    options, begin = parser.parse_args(), time.monotonic()
    console, counts = Console(width=140), Counter[tuple[str, str]]()
    names = [options.kind] if options.kind else list(KINDS)
    for number in range(options.seed, options.seed + options.count):
        if time.monotonic() - begin > options.time_limit:
            break
        kind = names[number % len(names)]
        found = compared(number, KINDS[kind], options.limit, options.check)
        counts.update((row, column) for column in found.columns for row in (kind, "all"))
        for text in found.wrong:
            console.print(f"{kind}, seed {number} ({found.name}): {text}")
    table = Table()
    for name in ("kind", *COLUMNS):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in (*names, "all"):
        table.add_row(kind, *(str(counts[kind, name]) for name in COLUMNS))
    console.print(table)
    return 0 if counts["all", "agree"] == counts["all", "cascades"] else 1


if __name__ == "__main__":
    sys.exit(main())
