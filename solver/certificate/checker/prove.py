#!/usr/bin/env python3
"""Checks certificates: no mapping in the stated mapspace is better than the one that is claimed.

Shares no code with the optimizer and believes nothing in a certificate but the problem. It prices the
mapping anew, then asks for a better one under every choice of keeping levels and spatial factors: floors
exclude most choices, tables over what temporal loops may iterate bound the others, and a walk through the
nests that the tables leave open decides. docs/certificates.md has the argument.

Exit codes: 2 one certificate cannot be read, else 1 one is INVALID, else 6 one cannot be checked, else 0.
"""

import argparse
import hashlib
import json
import math
import sys
import time
from itertools import permutations, product
from math import inf
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # which `python -P` leaves out
from prove_nests import Query, decide
from prove_space import SLACK, CannotCheckError, InvalidError, Space, natural, need

FORMAT = "tilewright certificate 4"
CLAIMS = "problem problem_sha256 status objectives bounds mapping cost spatial_choices evidence"
KEYS = {"format", "versions", "seed", "command", "digest", *CLAIMS.split()}
EXITS = {"UNREADABLE": 2, "INVALID": 1, "CANNOT CHECK": 6, "VALID": 0}  # the worst first
ENERGY_UNITS = (10**12, "J"), (10**9, "mJ"), (10**6, "uJ"), (10**3, "nJ")


def refute(space, query):
    """The cost of a mapping that satisfies the query, None if the mapspace has none."""
    choices = floored(space, query)
    costs = (decide(query, *cycles, measures, space, *choice) for cycles, measures, choice in choices)
    return next(filter(None, costs), None)


def floored(space, query):
    """The choices that floors do not exclude, with the cycles they may take and what may limit these."""
    kinds = [(p, kind) for p in space.stores for kind, width in space.nodes[p]["bandwidths"].items() if width]
    for mask in product(*(dataspace.keep for dataspace in space.spaces)):
        space.in_time()
        floors = [[space.floor(v, kept, kind) for v, kept in enumerate(mask)] for kind in (None, *kinds)]
        energy, *slow = [sum(floor) * (1 - SLACK) for floor in floors]
        energy = energy + space.arithmetic * (1 - SLACK)
        cycles = np.max([space.steps, *slow], axis=0) * (1 - SLACK) + space.latency
        within = (energy <= query.energy) & (cycles <= query.latency) & (energy * cycles <= query.edp)
        for i in np.flatnonzero(within):
            low, counted = max(int(space.steps[i]) + space.latency, math.ceil(cycles[i])), query.edp < inf
            most = int(query.edp / energy[i] * (1 + SLACK)) + 1 if counted and energy[i] > 0 else inf
            high = min(query.latency, most, inf if kinds else low)
            loads = {kind: load[i] for kind, load in zip(kinds, slow) if min(query.latency, query.edp) < inf}
            measures = (None, *sorted(loads, key=loads.get, reverse=True))
            yield (low, high), measures, (mask, i)


def sha256(document):
    """SHA-256 of a JSON value: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def covered(doc, status, names):
    """Check what the search says of itself: no objective, keep set or class of choices is left out."""
    evidence = doc["evidence"]
    named = names[: {"OPTIMAL": None, "INFEASIBLE": 1}.get(status, len(evidence))]
    searched = natural(evidence) and [search["objective"] for search in evidence]
    need(searched == named, "objectives were searched")
    sets = sorted(map(list, product(*(space["keep"] for space in doc["problem"]["dataspaces"]))))
    bounds = doc["bounds"] if status == "OPTIMAL" else [0] * len(evidence)
    for masks, bound in zip([search["masks"] for search in evidence], bounds):
        need(sorted(mask["keep"] for mask in masks) == sets, "all keep sets were searched")
        classes = [sum(n for step, n in mask.items() if step.startswith("by_")) for mask in masks]
        need(classes == classes[:1] * len(classes), "all keep sets have the same classes")
        least = [mask["survey_bound"] for mask in masks if mask["survey_bound"] is not None]
        need(all(n >= bound for n in least), "what the survey excludes is not better")


def check(doc, seconds=inf):
    """What a certificate proves; raises `InvalidError` with the first claim that fails."""
    need(doc.keys() == KEYS and doc["format"] == FORMAT, f"it has the keys of a {FORMAT!r}")
    need(doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}), "the digest is right")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "the hash is that of the problem")
    space, units = Space(doc["problem"], seconds), doc["problem"]["units_per_pj"]
    need(type(units) is int and units > 0, "energies have a unit")
    status, names, bounds = doc["status"], doc["objectives"], doc["bounds"]
    need(names in [[*x] for n in (1, 2, 3) for x in permutations(Query._fields, n)], "objectives are known")
    need(type(bounds) is list and natural(bounds), "bounds are natural")
    need(doc["spatial_choices"] == len(space.steps), "all choices are covered")
    covered(doc, status, names)
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is None and not bounds, "nothing is claimed")
        need(refute(space, Query()) is None, "no mapping exists")
        return "no mapping exists"
    cost = space.price(*space.read(doc["mapping"]))
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(doc["cost"] == cost, "the cost is that of the mapping")
    values = [cost[name] for name in names]
    proven = {"OPTIMAL": bounds == values, "FEASIBLE": len(bounds) == 1 and bounds <= values}
    need(proven.get(status, False), "the bounds are what the status needs")
    limits = {}
    for name, bound in zip(names, bounds):
        better = refute(space, Query(**{**limits, name: bound - 1})) if bound else None
        found = f": one has {better[name]:,}" if better else ""
        need(better is None, f"no mapping has {name} below {bound:,}{found}")
        limits[name] = bound
    return "no mapping is below " + ", then ".join(shown(*bound, units) for bound in zip(names, bounds))


def shown(name, value, units_per_pj):
    """A value of an objective for people, to five digits: the certificate has it exactly."""
    if name == "latency":
        return f"{name} {value:,} cycles"
    size, unit = 1, "pJ*cycles"
    if name == "energy":
        size, unit = next((unit for unit in ENERGY_UNITS if value >= unit[0] * units_per_pj), (1, "pJ"))
    return f"{name} {value / (size * units_per_pj):#.5g} {unit}".replace("e+", "e")


def distinct(pairs):
    """A JSON object, unless a key repeats."""
    need(len(dict(pairs)) == len(pairs), "keys are told apart")
    return dict(pairs)


def verdict(path, seconds=inf):
    """The verdict on a file, VALID, INVALID, CANNOT CHECK or UNREADABLE, and what it rests on."""
    try:
        text = path.read_text(encoding="utf-8")
        return "VALID", check(json.loads(text, object_pairs_hook=distinct), seconds)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        return "UNREADABLE", str(error)
    except InvalidError as error:
        return "INVALID", f"this claim fails: {error}"
    except (CannotCheckError, MemoryError, RecursionError) as error:
        return "CANNOT CHECK", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return "INVALID", f"this claim fails: the document is well formed ({error!a})"


def main():
    """Check the certificates that the command line names, or the shipped layers."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("certificates", nargs="*", type=Path, metavar="CERT.json")
    parser.add_argument("--suite", action="store_true", help="map, certify and check the shipped layers")
    parser.add_argument("--time-limit", type=float, default=inf, metavar="S", help="seconds per certificate")
    parser.add_argument("--only", default="", metavar="TEXT", help="of the suite, cases with this name")
    options = parser.parse_args()
    found = set()
    if options.suite:
        from prove_suite import run_suite  # noqa: PLC0415 (rich is for tables only)

        found = run_suite(options.only, lambda path: verdict(path, options.time_limit))
    elif not options.certificates:
        parser.error("name a certificate, or --suite")
    sys.stdout.reconfigure(errors="backslashreplace")  # file names may be any bytes
    for path in options.certificates:
        start = time.perf_counter()
        result, reason = verdict(path, options.time_limit)
        print(f"{result}: {path}: {reason} ({time.perf_counter() - start:.2f} s)")
        found.add(result)
    return next((code for result, code in EXITS.items() if result in found), 0)


if __name__ == "__main__":
    sys.exit(main())
