"""Compares assignments with all assignments of random graphs; has certificates checked, and forged ones.

Graphs have up to seven layers of up to four methods, parallel edges, forbidden methods and pairs, costs of
very different sizes, and half of them a limit on what layers occupy over time. Each is assigned as it is, and
once more without bucket elimination, so that rests are searched. Value, status and bound have to agree with
the enumeration of all assignments. The checker, which shares no code with the search, has to find every
certificate VALID, and none of those that claim a lower total, a higher bound, an assignment that costs more
than it says, or that there is none. The exit code is 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from model.assignment import FORBIDDEN, CostArray, CostedLayer, CostedNetwork, Edge
from solver.assignment import assign, assigner
from solver.assignment.elimination import reduce_instance
from solver.assignment.result import AssignResult
from solver.certificate.assignment import assignment_certificate
from solver.certificate.canonical import CertificateError, canonical_sha256
from solver.certificate.checker.prove import verdict
from solver.result import Status

LARGEST_COSTS = (1, 20, 10**6, 10**12, 10**22)


def drawn(seed: int) -> CostedNetwork:
    """Return a random network."""
    source = Random(seed)
    count, largest = source.randint(2, 7), source.choice(LARGEST_COSTS)
    sizes = [source.randint(1, 4 if count < 6 else 3) for _ in range(count)]
    forbidden = source.choice((0.0, 0.05, 0.3))

    def costs(*shape: int) -> CostArray:
        numbers = [
            FORBIDDEN if source.random() < forbidden else source.randint(0, largest)
            for _ in range(int(np.prod(shape)))
        ]
        return np.array(numbers, dtype=np.int64 if largest < 1 << 60 else object).reshape(shape)

    pairs = [(i, j) for j in range(count) for i in range(j)]
    joined = [pair for pair in pairs if source.random() < source.choice((0.5, 1.0))]
    joined += source.choices(joined, k=source.randint(0, 3)) if joined else []
    edges = tuple(Edge(i, j, costs(sizes[i], sizes[j])) for i, j in joined)
    layers = tuple(
        CostedLayer(f"l{i}", tuple(f"m{k}" for k in range(size)), costs(size)) for i, size in enumerate(sizes)
    )
    network = CostedNetwork("random", "steps", 1, layers, edges)
    return crowded(network, source) if source.random() < 0.5 else network


def crowded(network: CostedNetwork, source: Random) -> CostedNetwork:
    """Return the network with a limit on what layers occupy together."""
    layers = []
    for layer in network.layers:
        first, largest = source.randint(0, 5), source.choice((3, 10**9))
        usages = np.array([source.randint(0, largest) for _ in layer.methods], dtype=np.int64)
        layers.append(replace(layer, usages=usages, interval=(first, first + source.randint(0, 4))))
    moments = [[own for own in layers if own.interval[0] <= m < own.interval[1]] for m in range(10)]
    least = max(sum(int(own.usages.min()) for own in alive) for alive in moments)
    most = max(sum(int(own.usages.max()) for own in alive) for alive in moments)
    limit = max(0, source.choice((least - 1, least, least + 1, (least + most) // 2, most)))
    return replace(network, layers=tuple(layers), usage_limit=limit)


def least(network: CostedNetwork) -> int | None:
    """Return the least total of all assignments that are allowed and fit."""
    choices = product(*(range(len(layer.methods)) for layer in network.layers))
    totals = (network.total(choice) for choice in choices if network.fits(choice))
    return min((total for total in totals if total is not None), default=None)


def disagreements(network: CostedNetwork, result: AssignResult, best: int | None) -> Iterator[str]:
    """Yield what a result has wrong."""
    expected = Status.INFEASIBLE if best is None else Status.OPTIMAL
    if result.status is not expected:
        yield f"status {result.status.name}, not {expected.name}"
    if result.total != best or result.bound != best:
        yield f"total {result.total} and bound {result.bound}, not {best}"
    if result.best is not None and not network.fits(result.best.choice):
        yield "the assignment does not fit"


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate with its digest computed anew."""
    content = {key: value for key, value in document.items() if key != "digest"}
    return {**content, "digest": canonical_sha256(content)}


def forgeries(document: dict[str, Any], best: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield certificates that claim what is wrong."""
    if best is None:
        costs = [len(own) for own in document["problem"]["layers"]]
        some = {"status": "OPTIMAL", "choice": [0] * len(costs), "total": 0, "bound": 0}
        yield "an assignment where there is none", {**document, **some}
        return
    total = document["total"]
    yield (
        "no assignment",
        {
            **document,
            **{"status": "INFEASIBLE", "choice": None, "total": None, "bound": None},
        },
    )
    yield "a higher bound", {**document, "status": "FEASIBLE", "bound": total + 1}
    lower = {"total": total - 1, "bound": min(document["bound"], total - 1)}
    yield "a lower total", {**document, **lower}
    if document["status"] != "OPTIMAL":
        return
    for layer, own in enumerate(document["problem"]["layers"]):
        choice = list(document["choice"])
        choice[layer] = (choice[layer] + 1) % len(own)
        above = {"total": total + 1, "bound": total + 1}
        yield "another total", {**document, "choice": choice, **above}


def checked(result: AssignResult, best: int | None, folder: Path, counts: Counter[str]) -> Iterator[str]:
    """Have the certificate of a result checked, and forged ones; yield what is wrong."""
    try:
        document = json.loads(json.dumps(assignment_certificate(result, ["agree_assign"])))
    except CertificateError:
        counts["by the word of a library that there is none"] += 1
        return
    path = folder / "certificate.json"
    path.write_text(json.dumps(document))
    counts[f"certificates {document['status']}"] += 1
    if (said := verdict(path))[0] != "VALID":
        yield f"the certificate is {said}"
    for what, forged in forgeries(document, best):
        path.write_text(json.dumps(sealed(forged)))
        counts["forged claims"] += 1
        if (said := verdict(path))[0] != "INVALID":
            yield f"{what}: the forged certificate is {said}"


def few_eliminations(instance: Any, most_entries: int = 0, kept: Any = frozenset()) -> Any:
    """Eliminate what has two neighbours at most alone."""
    return reduce_instance(instance, 0, kept)


def compared(seed: int, folder: Path, counts: Counter[str]) -> int:
    """Assign a random network in both ways; print what is wrong, and return how much is."""
    network = drawn(seed)
    best = least(network)
    pairs = {(edge.source, edge.target) for edge in network.edges}
    counts["graphs"] += 1
    counts["with a limit"] += network.usage_limit is not None
    counts["with parallel edges"] += len(pairs) < len(network.edges)
    counts["without assignment"] += best is None
    results = [assign(network)]
    with patch.object(assigner, "reduce_instance", few_eliminations):
        results.append(assign(network))
    failures = 0
    for result in results:
        counts[f"by {result.method_used}"] += 1
        for text in (*disagreements(network, result, best), *checked(result, best, folder, counts)):
            print(f"seed {seed}: {text}")
            failures += 1
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=500, help="random graphs (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default 0)")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        seeds = range(given.seed, given.seed + given.count)
        failures = sum(compared(seed, Path(folder), counts) for seed in seeds)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    print(f"{failures} disagreements")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
