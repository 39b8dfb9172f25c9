"""Instances of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism: JSON, compressed or not.

``problem.nodes`` has a list of costs and of usages for every node, one entry per strategy, and the interval
in which it is alive; ``problem.edges`` has pairs of nodes with a matrix each, row by row. A cost of 10^18 or
more forbids what it stands for. (https://github.com/google/iopddl)
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model.assignment.network import FORBIDDEN, LARGEST_TOTAL, CostArray, CostedLayer, CostedNetwork, Edge
from model.note import Note
from model.text.source import SpecError

FORBIDDING = 10**18
"""A cost from which on a choice counts as forbidden."""

MOST_BYTES = 1 << 30
"""Of a file, uncompressed."""

UNIT = "units"
SUFFIXES = (".json", ".json.gz")


def is_contest_file(path: Path) -> bool:
    """Whether a file is to be read as such an instance."""
    return path.name.lower().endswith(SUFFIXES)


def load_contest(path: Path) -> CostedNetwork:
    """Read an instance; nodes and strategies are named by their numbers.

    Raises
    ------
    SpecError
        The file cannot be read, or is no instance.
    """
    document = _read_json(path)
    problem = _object(document.get("problem"), "`problem`", path)
    _check_known_keys(document, ("problem",), "the file", path)
    _check_known_keys(problem, ("name", "nodes", "edges", "usage_limit"), "`problem`", path)
    nodes = _object(problem.get("nodes"), "`nodes`", path)
    edges = _object(problem.get("edges"), "`edges`", path)
    _check_known_keys(nodes, ("intervals", "costs", "usages"), "`nodes`", path)
    _check_known_keys(edges, ("nodes", "costs"), "`edges`", path)
    intervals, costs, usages = (
        _list(nodes.get(key), f"`nodes.{key}`", path) for key in ("intervals", "costs", "usages")
    )
    pairs, matrices = (_list(edges.get(key), f"`edges.{key}`", path) for key in ("nodes", "costs"))
    if not len(costs) == len(intervals) == len(usages):
        raise SpecError(f"{path}: `intervals`, `costs` and `usages` have one entry per node")
    if len(pairs) != len(matrices):
        raise SpecError(f"{path}: `edges` has as many `nodes` as `costs`")
    layers = [
        _costed_layer(number, *entry, path)
        for number, entry in enumerate(zip(costs, usages, intervals, strict=True))
    ]
    joined = [_edge_costs(ends, matrix, layers, path) for ends, matrix in zip(pairs, matrices, strict=True)]
    limit = problem.get("usage_limit")
    if limit is not None and not _is_count(limit):
        raise SpecError(f"{path}: `usage_limit` must be a whole number, not negative")
    name = problem.get("name", "")
    if not isinstance(name, str):
        raise SpecError(f"{path}: `name` must be a text")
    arrays = [
        *(layer.costs for layer in layers),
        *(edge.transition for edge in joined if edge.transition is not None),
    ]
    forbids = any((array == FORBIDDEN).any() for array in arrays)
    notes = (Note("costs of {:,} or more forbid what they stand for", (FORBIDDING,)),) if forbids else ()
    try:
        return CostedNetwork(name, UNIT, 1, tuple(layers), tuple(joined), notes, limit)
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            raw = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SpecError(f"cannot read {path}: {error}") from error
    if len(raw) > MOST_BYTES:
        raise SpecError(f"{path} has more than {MOST_BYTES:,} bytes")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path} is not valid JSON: {error}") from error
    return _object(document, "the file", path)


def _object(value: Any, what: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SpecError(f"{path}: {what} must be an object")
    return value


def _list(value: Any, what: str, path: Path) -> Sequence[Any]:
    if not isinstance(value, list):
        raise SpecError(f"{path}: {what} must be a list")
    return value


def _check_known_keys(found: Mapping[str, Any], known: Sequence[str], what: str, path: Path) -> None:
    for key in found:
        if key not in known:
            raise SpecError(f"{path}: {what} has an unknown key `{key}`; it may have {', '.join(known)}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number_array(values: Any, what: str, path: Path) -> CostArray:
    """Return whole numbers that are not negative."""
    if not isinstance(values, list) or not values:
        raise SpecError(f"{path}: {what} must be a list of whole numbers")
    if not all(type(value) is int and value >= 0 for value in values):
        raise SpecError(f"{path}: {what} must be whole numbers, none negative")
    return np.array(values, dtype=np.int64 if max(values) <= LARGEST_TOTAL else object)


def _cost_array(values: Any, what: str, path: Path) -> CostArray:
    costs = _number_array(values, what, path)
    return np.where(costs >= FORBIDDING, FORBIDDEN, costs).astype(np.int64)


def _costed_layer(number: int, costs: Any, usages: Any, interval: Any, path: Path) -> CostedLayer:
    what = f"node {number}"
    own, used = (
        _cost_array(costs, f"the costs of {what}", path),
        _number_array(usages, f"the usages of {what}", path),
    )
    if len(own) != len(used):
        raise SpecError(f"{path}: {what} has {len(own)} costs and {len(used)} usages")
    if not (isinstance(interval, list) and len(interval) == 2 and all(map(_is_count, interval))):
        raise SpecError(f"{path}: the interval of {what} must be two whole numbers")
    if max(interval) > LARGEST_TOTAL:
        raise SpecError(f"{path}: the interval of {what} must end at {LARGEST_TOTAL:,} at most")
    return CostedLayer(str(number), _strategy_names(len(own)), own, None, used, (interval[0], interval[1]))


_NAMES: dict[int, tuple[str, ...]] = {}


def _strategy_names(count: int) -> tuple[str, ...]:
    """Return the names of so many strategies."""
    return _NAMES.setdefault(count, tuple(map(str, range(count))))


def _edge_costs(ends: Any, costs: Any, layers: Sequence[CostedLayer], path: Path) -> Edge:
    if not (
        isinstance(ends, list) and len(ends) == 2 and all(map(_is_count, ends)) and max(ends) < len(layers)
    ):
        raise SpecError(
            f"{path}: an edge joins two nodes by their numbers, but `nodes` has {json.dumps(ends)[:60]}"
        )
    first, second = ends
    what = f"the edge of {first} and {second}"
    if first == second:
        raise SpecError(f"{path}: {what} joins a node to itself")
    matrix = _cost_array(costs, f"the costs of {what}", path)
    shape = (len(layers[first].methods), len(layers[second].methods))
    if matrix.size != shape[0] * shape[1]:
        raise SpecError(f"{path}: {what} has {matrix.size} costs, not {shape[0]} x {shape[1]}")
    if not matrix.any():
        return Edge(min(ends), max(ends))
    table = matrix.reshape(shape)
    # Edges have no direction here; ours go from lower to higher numbers.
    return Edge(first, second, table) if first < second else Edge(second, first, table.T)
