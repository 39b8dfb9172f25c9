#!/usr/bin/env python3
"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

The checker shares no code with the optimizer and trusts nothing in a certificate but the problem. It
prices the mapping anew (`prove_space.py`) and asks for a better one: each choice of keeping levels and
spatial factors is bounded (`prove_bounds.py`) and, where that is not enough, decided by tables and by
walking through the nests that they leave open (`prove_choice.py`). docs/certificates.md says why the
bounds hold.

Exit codes: 0 all certificates are VALID, 1 one is INVALID or cannot be checked, 2 one cannot be read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from prove_bounds import SLACK, Choices
from prove_choice import Choice, Query
from prove_space import CannotCheckError, InvalidError, Space, natural, need

FORMAT = "tilewright certificate 1"
KEYS = {
    *("format", "problem", "problem_sha256", "status", "objectives", "values", "bounds", "mapping", "cost"),
    *("covered", "versions", "seed", "command", "digest"),
}
FIGURES = {"energy": "energy", "latency": "cycles", "edp": "edp"}


def sha256(document: Any) -> str:
    """SHA-256 of a JSON value: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def refute(choices: Choices, query: Query, pivot: int = 0) -> Any:
    """Return the cost of a mapping that satisfies the query, None if the mapspace has none.

    `pivot` decides nothing: cycles at which it helps to tell slower mappings from faster ones.
    """
    space = choices.space
    kinds = ("read", "write", "shared")
    measures = [(p, kind) for p in space.levels for kind in kinds if space.nodes[p][f"{kind}_bandwidth"]]
    for mask in product(*map(space.keepers, range(len(space.names)))):
        energy, *slow = [
            sum(choices.floor(v, kept, measure) for v, kept in enumerate(mask))
            for measure in (None, *measures)
        ]
        energy = energy + float(space.computing) * (1 - SLACK)
        cycles = np.max([choices.steps + 0.0, *slow], axis=0) + space.latency
        left = (energy <= float(query.energy)) & (cycles * (1 - SLACK) <= float(query.cycles))
        for i in np.flatnonzero(left & (energy * cycles * (1 - SLACK) <= float(query.edp))).tolist():
            low = max(int(choices.steps[i]) + space.latency, math.ceil(cycles[i] * (1 - SLACK)))
            measure = measures[int(np.argmax([own[i] for own in slow]))] if slow else None
            found = Choice(choices, mask, i).decide(query, low, measure, pivot)
            if found:
                return found
    return None


def covered(space: Space, choices: Choices) -> dict[str, Any]:
    """Return what a proof has to cover, as certificates state it."""
    place = {p: i for i, p in enumerate(space.levels)}
    return {
        "spatial_choices": len(choices.steps),
        "least_cycles": int(choices.steps.min()) if len(choices.steps) else None,
        "keep_sets": [
            {
                "dataspace": name,
                "levels": [place[p] for p in kept],
                "tiles": [choices.tiles(v, p) for p in kept],
                "floor": choices.operands(v, kept[-1]) if len(choices.steps) else None,
            }
            for v, name in enumerate(space.names)
            for kept in space.keepers(v)
        ],
    }


def check(document: Any) -> str:
    """Return what a certificate proves; raise `InvalidError` with the first claim that fails."""
    need(isinstance(document, dict) and document.keys() == KEYS, "it has the keys of a certificate")
    need(document["format"] == FORMAT, f"its format is {FORMAT!r}")
    content = {key: value for key, value in document.items() if key != "digest"}
    need(document["digest"] == sha256(content), "the digest is that of the certificate")
    need(document["problem_sha256"] == sha256(document["problem"]), "the hash is that of the problem")
    status, objectives, bounds = document["status"], document["objectives"], document["bounds"]
    need(status in ("OPTIMAL", "FEASIBLE", "INFEASIBLE"), "the status is known")
    need(objectives and len(set(objectives)) == len(objectives) <= 3, "there are objectives, each once")
    need(
        set(objectives) <= set(FIGURES) and type(bounds) is list and natural(bounds),
        "objectives and bounds are known",
    )
    space = Space(document["problem"])
    values = None
    if status == "INFEASIBLE":
        need(
            document["mapping"] is document["cost"] is document["values"] is None and not bounds,
            "nothing is claimed",
        )
    else:
        loops, mask = space.read(document["mapping"])
        cost = space.price(loops, mask)
        need(cost.pop("fits"), "the mapping respects all capacities")
        need(sha256(document["cost"]) == sha256(cost), "the cost is that of the mapping")
        values = [cost[FIGURES[objective]] for objective in objectives]
        need(sha256(document["values"]) == sha256(values), "the values are those of the mapping")
        claimed = len(objectives) if status == "OPTIMAL" else 1
        need(len(bounds) == claimed and bounds <= values, "there are as many bounds as the status needs")
        need(status == "FEASIBLE" or bounds == values, "the bounds of an optimal mapping are its values")
    choices = Choices(space)
    need(sha256(document["covered"]) == sha256(covered(space, choices)), "the proof covers all choices")
    limits: dict[str, Any] = {}
    for objective, bound in zip(objectives, bounds, strict=False):
        figure = FIGURES[objective]
        better = refute(choices, Query(**{**limits, figure: bound - 1}), cost["cycles"]) if bound else None
        need(
            better is None,
            f"no mapping has {objective} below {bound}" + (f": one has {better[figure]}" if better else ""),
        )
        limits[figure] = bound
    if status == "INFEASIBLE":
        need(refute(choices, Query()) is None, "no mapping exists")
        return "no mapping exists"
    texts = ", then ".join(
        f"{objective} {bound}" for objective, bound in zip(objectives, bounds, strict=False)
    )
    return f"no mapping is below {texts}"


def verdict(path: Path) -> tuple[str, str]:
    """Return the verdict on a file, VALID, INVALID, CANNOT CHECK or UNREADABLE, and what it rests on."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return "UNREADABLE", str(error)
    try:
        return "VALID", check(document)
    except InvalidError as error:
        return "INVALID", f"this claim fails: {error}"
    except CannotCheckError as error:
        return "CANNOT CHECK", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return "INVALID", f"this claim fails: the document is well formed ({type(error).__name__}: {error})"


def main() -> int:
    """Check the certificates that the command line names, or the shipped layers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("certificates", nargs="*", type=Path, metavar="CERT.json")
    parser.add_argument("--suite", action="store_true", help="map, certify and check the shipped layers")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="of the suite, the cases with this text in the name"
    )
    options = parser.parse_args()
    if options.suite:
        try:
            from prove_suite import run_suite  # noqa: PLC0415 (rich is for tables only)
        except ImportError as error:
            parser.error(f"the suite needs a checkout of the project: {error}")
        return run_suite(options.only, verdict)
    if not options.certificates:
        parser.error("name a certificate, or --suite")
    results = []
    for path in options.certificates:
        start = time.perf_counter()
        result, reason = verdict(path)
        print(f"{result}: {path}: {reason} ({time.perf_counter() - start:.2f} s)")
        results.append(result)
    return 2 if "UNREADABLE" in results else int(set(results) != {"VALID"})


if __name__ == "__main__":
    sys.exit(main())
