"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

Shares no code with the optimizer and trusts nothing in a certificate but the problem. It prices the mapping
itself, then looks for a better one under every choice of keeping levels and spatial factors: floors exclude
most choices, tables over temporal loops bound the others, and an enumeration decides the nests that the
tables leave open. docs/certificates.md explains why this is a proof.

Exit codes: 2 if a certificate cannot be read; otherwise 1 if one is INVALID, 6 if one cannot be checked, 0.
"""

import argparse
import hashlib
import json
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import permutations
from math import inf
from pathlib import Path
from typing import Any

from solver.certificate.checker.assignments import FORMAT as ASSIGNMENT
from solver.certificate.checker.assignments import KEYS as ASSIGNMENT_KEYS
from solver.certificate.checker.assignments import check_assignment
from solver.certificate.checker.bounds import refute_dense
from solver.certificate.checker.claims import (
    CannotCheckError,
    Cost,
    InvalidError,
    Json,
    Query,
    UnreadableError,
    able,
    natural,
    need,
)
from solver.certificate.checker.common_claims import check_common
from solver.certificate.checker.curves import FORMAT as CURVES
from solver.certificate.checker.curves import WITH_FUSED as CURVES_WITH_FUSED
from solver.certificate.checker.curves import check_curves
from solver.certificate.checker.fused_verdict import check_fused
from solver.certificate.checker.orders import check_orders
from solver.certificate.checker.remainders import Space
from solver.certificate.checker.sparse import Sparse
from solver.certificate.checker.sparse_bounds import refute_sparse

MOST_BYTES = 1 << 26  # of a file
FORMAT, WITH_PLACES, WITH_RULES = (f"tilewright certificate {n}" for n in (9, 10, 11))
SPARSE, ORDERS = "tilewright certificate sparse 2", "tilewright certificate orders 1"
INFORMATION = {"format", "versions", "seed", "command", "digest"}
KEYS = INFORMATION | {
    *["problem", "problem_sha256", "status", "objectives", "bounds", "mapping", "cost", "spatial_choices"]
}
# Certificates of more than one Einsum: what they are about, their other keys, and what checks them.
BEYOND: dict[str, tuple[str, str, Callable[..., tuple[int | None, int]]]] = {
    "tilewright certificate fused 6": (
        "fused mapping",
        "problem problem_sha256 status objective bound mapping cost least edges",
        check_fused,
    ),
    "tilewright certificate same 1": (
        "common unrolling",
        "problem problem_sha256 status objective bound loops mappings cost regions claims",
        check_common,
    ),
}
EXITS = {"UNREADABLE": 2, "INVALID": 1, "CANNOT CHECK": 6, "VALID": 0}  # the worst first
ENERGY_UNITS = (10**12, "J"), (10**9, "mJ"), (10**6, "uJ"), (10**3, "nJ")


def mapspace(problem: Json) -> Space:
    """The mapspace of a canonical problem: its loops have perfect factors, or any."""
    need(problem["factors"] in ("perfect", "any"), "loops have factors of a known kind")
    if "sparse" in problem:
        need(problem["factors"] == "perfect", "loops over sparse data have perfect factors")
        return Sparse(problem)
    return Space(problem)


def refute(space: Any, query: Query) -> Cost | None:
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    query = space.rules.limited(query, space.rules.parts)
    return (refute_sparse if space.is_sparse else refute_dense)(space, query)


def sha256(document: object) -> str:
    """SHA-256 of a JSON value: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(doc: Json, known: str, keys: Collection[str]) -> None:
    """Check the keys of a certificate of a `known` format, and its hashes."""
    need(doc.keys() == keys and doc["format"] == known, f"it has the keys of the format {known!r}")
    content = {key: doc[key] for key in doc if key != "digest"}
    need(doc["digest"] == sha256(content), "`digest` is the hash of the certificate")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "`problem_sha256` is the hash of the problem")


def check(doc: Json) -> str:
    """What a certificate proves; raises `InvalidError` with the first claim that fails."""
    if doc["format"] in BEYOND:
        what, claims, check_claims = BEYOND[doc["format"]]
        sealed(doc, doc["format"], INFORMATION | {*claims.split()})
        bound, units = check_claims(doc, mapspace, refute)
        return (
            f"no {what} exists"
            if bound is None
            else f"no {what} is below {shown(doc['objective'], bound, units)}"
        )
    if doc["format"] == ORDERS:
        sealed(doc, ORDERS, KEYS - {"spatial_choices"})
        lowest, units = check_orders(doc, mapspace, refute), doc["problem"]["units_per_pj"]
        return "no mapping exists" if lowest is None else below(doc["objectives"], lowest, units)
    if doc["format"] == ASSIGNMENT:
        sealed(doc, ASSIGNMENT, ASSIGNMENT_KEYS)
        status, bound, unit, steps = check_assignment(doc)
        return (
            "no assignment exists"
            if bound is None
            else f"{'the assignment is best: ' * (status == 'OPTIMAL')}no assignment is below "
            f"{bound / steps:.7g} {unit}".rstrip()
        )
    if doc["format"] in (CURVES, CURVES_WITH_FUSED):
        return check_curves(doc, sha256, mapspace, check)
    need("free_order" not in doc["problem"], f"memories in any order have the format {ORDERS!r}")
    ruled = bool(doc["problem"].get("rules"))
    known = WITH_RULES if ruled else WITH_PLACES if doc["problem"].get("memories") else FORMAT
    known = SPARSE if "sparse" in doc["problem"] else known
    need(not (ruled and known == SPARSE), "certificates of sparse data have no user-defined constraints")
    sealed(doc, known, KEYS | {"rules"} if ruled else KEYS)
    space, units = mapspace(doc["problem"]), doc["problem"]["units_per_pj"]
    need(type(units) is int and units > 0, "energies have a unit")
    units = units * doc["problem"]["sparse"]["unit"] if known == SPARSE else units
    status, names, bounds = doc["status"], doc["objectives"], doc["bounds"]
    need(names in [[*x] for n in (1, 2, 3) for x in permutations(Query._fields, n)], "objectives are known")
    need(type(bounds) is list and natural(bounds), "bounds are non-negative integers")
    need(
        doc["spatial_choices"] == len(space.spatial),
        "`spatial_choices` is the number of choices of spatial factors",
    )
    space.rules.written(doc.get("rules", []))
    if status == "INFEASIBLE":
        need(
            doc["mapping"] is doc["cost"] is None and not bounds,
            "INFEASIBLE claims no mapping, no cost and no bound",
        )
        need(refute(space, Query()) is None, "no mapping exists")
        return "no mapping exists"
    mapping = space.read(doc["mapping"])
    cost = space.price(*mapping)
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(
        not (ruled and space.rules.broken(*mapping, cost)),
        "the mapping satisfies all user-defined constraints",
    )
    need(doc["cost"] == cost, "the cost matches the mapping")
    values = [cost[name] for name in names]
    proven = {"OPTIMAL": bounds == values, "FEASIBLE": len(bounds) == 1 and bounds <= values}
    need(proven.get(status, False), "the bounds match the status")
    limits: dict[str, int] = {}
    for name, bound in zip(names, bounds, strict=False):
        better = refute(space, Query(**{**limits, name: bound - 1})) if bound else None
        found = f": one has {better[name]:,}" if better else ""
        need(better is None, f"no mapping has {name} below {bound:,}{found}")
        limits[name] = bound
    return below(names, bounds, units)


def below(names: Sequence[str], bounds: Sequence[int], units: int) -> str:
    """What bounds on objectives, one after the other, come to."""
    return "no mapping is below " + ", then ".join(
        shown(*bound, units) for bound in zip(names, bounds, strict=False)
    )


def shown(name: str, value: int, units_per_pj: int) -> str:
    """A value of an objective for people, to five digits: the certificate has it exactly."""
    if name == "latency":
        return f"{name} {value:,} cycles"
    size, unit = 1, "pJ*cycles"
    if name == "energy":
        size, unit = next((unit for unit in ENERGY_UNITS if value >= unit[0] * units_per_pj), (1, "pJ"))
    return f"{name} {value / (size * units_per_pj):#.5g} {unit}".replace("e+", "e")


def distinct(pairs: Sequence[tuple[str, Any]]) -> Json:
    """A JSON object, unless a key repeats."""
    need(len(dict(pairs)) == len(pairs), "no key occurs twice")
    return dict(pairs)


@contextmanager
def within_time(seconds: float) -> Iterator[None]:
    """Raise `CannotCheckError` after that many seconds, whatever is at work."""

    def stop(*_: object) -> None:
        raise CannotCheckError("the time limit was reached")

    if seconds == inf:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    # Once more every second: an exception that is raised while an object is finalized is lost.
    signal.setitimer(signal.ITIMER_REAL, min(max(seconds, 1e-6), 1e8), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def read(path: Path) -> Any:
    """The JSON object in a file."""
    with path.open("rb") as file:  # perhaps a device or a pipe, whose size nobody knows
        content = file.read(MOST_BYTES + 1)
    able(len(content) <= MOST_BYTES, f"it is larger than {MOST_BYTES >> 20} MiB")
    doc = json.loads(content.decode(), object_pairs_hook=distinct)
    if (
        isinstance(doc, dict)
        and {"version", "status"} <= doc.keys()
        and not {"format", "digest"} & doc.keys()
    ):
        raise UnreadableError("it is a result that `--json` wrote; `--certificate` writes certificates")
    return doc


def verdict(path: Path, seconds: float = inf) -> tuple[str, str]:
    """The verdict on a file, VALID, INVALID, CANNOT CHECK or UNREADABLE, and what it rests on."""
    try:
        with within_time(seconds):
            return "VALID", check(read(path))
    except json.JSONDecodeError as error:
        return "UNREADABLE", f"it is not JSON: {error}"
    except (OSError, UnicodeDecodeError, UnreadableError) as error:
        return "UNREADABLE", str(error)
    except InvalidError as error:
        return "INVALID", f"this claim fails: {error}"
    except (CannotCheckError, MemoryError, RecursionError) as error:
        return "CANNOT CHECK", str(error) or type(error).__name__
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return "INVALID", f"this claim fails: the document is well formed ({error!a})"


def nonnegative(text: str) -> float:
    """A number of seconds on the command line."""
    number = float(text)
    if not number >= 0:
        raise ValueError
    return number


def parser(description: str | None) -> argparse.ArgumentParser:
    """The command line: certificates, and a time limit."""
    found = argparse.ArgumentParser(description=description, allow_abbrev=False)
    found.add_argument("certificates", nargs="*", type=Path, metavar="CERT.json")
    found.add_argument(
        "--time-limit", type=nonnegative, default=inf, metavar="S", help="seconds per certificate"
    )
    return found


def printed(paths: Iterable[Path], seconds: float) -> set[str]:
    """Check files, print the verdict on each, and return the verdicts."""
    if isinstance(sys.stdout, TextIOWrapper):  # file names may be any bytes
        sys.stdout.reconfigure(errors="backslashreplace")
    found = set()
    for path in paths:
        start = time.perf_counter()
        result, reason = verdict(path, seconds)
        print(f"{result}: {path}: {reason} ({time.perf_counter() - start:.2f} s)", flush=True)
        found.add(result)
    return found


def exit_code(verdicts: Collection[str]) -> int:
    """The code of the worst of several verdicts."""
    return next((code for result, code in EXITS.items() if result in verdicts), 0)


def main() -> int:
    """Check the certificates that the command line names."""
    line = parser(__doc__)
    options = line.parse_args()
    if not options.certificates:
        line.error("give a certificate")
    try:
        return exit_code(printed(options.certificates, options.time_limit))
    except KeyboardInterrupt:
        return 130
