"""Reads the cases in ../shared/reference/timeloop: mappings with the figures that Timeloop printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, Node, StorageLevel
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term
from tests.conftest import SHARED

CASES = SHARED / "reference" / "timeloop"
IMPERFECT = SHARED / "reference" / "imperfect"
UNITS_PER_PJ = 100

Json = dict[str, Any]


class Case(NamedTuple):
    """One mapping, and what Timeloop printed for it; where loops have remainders, those of all loops."""

    name: str
    problem: Problem
    architecture: Architecture
    mapping: Mapping
    expected: Json
    remainders: tuple[tuple[int, ...], ...]


def read_cases(file: str, folder: Path = CASES) -> list[Case]:
    """Return the cases of a file in `CASES` or another folder."""
    with (folder / file).open(encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(case: Json) -> Case:
    levels, mappings = case["levels_outer_to_inner"], case["mapping_outer_to_inner"]
    inner = [*levels[1:], case["compute"]]
    nodes = [
        node
        for level, own, below in zip(levels, mappings, inner, strict=True)
        for node in _nodes(level, own, below)
    ]
    compute = Compute("mac", _units(case["compute"]["energy_pj"]))
    architecture = Architecture(case["id"], tuple(node for node, _ in nodes), compute, UNITS_PER_PJ)
    mapping = Mapping(tuple(entry for _, entry in nodes))
    remainders = tuple(
        tuple(loop[-1] for loop in level[loops])
        for level, below in zip(mappings, inner, strict=True)
        for loops in ("temporal_inner_to_outer", "spatial_below_inner_to_outer")
        if loops == "temporal_inner_to_outer" or _mesh(levels[mappings.index(level)], below) != (1, 1)
    )
    return Case(case["id"], _problem(case), architecture, mapping, case["expected"], remainders)


def _mesh(level: Json, below: Json) -> tuple[int, int]:
    """Children of a level's instance along X and along Y."""
    return below["meshX"] // level["meshX"], below["meshY"] // level["meshY"]


def _problem(case: Json) -> Problem:
    dims = case["problem"]["dimensions"]
    spaces = tuple(
        Dataspace(
            space["name"],
            tuple(tuple(Term(dim, coefficient) for dim, coefficient in rank) for rank in space["projection"]),
            space["read_write"],
        )
        for space in case["problem"]["dataspaces"]
    )
    return Problem(case["id"], tuple(dims), tuple(dims.values()), spaces)


def _nodes(level: Json, mapping: Json, below: Json) -> Iterator[tuple[Node, NodeMapping]]:
    """Yield the storage level, and the fanout below it if there are more instances of what is inside."""
    flags = {name: frozenset(spaces) for name, spaces in mapping.get("flags", {}).items()}
    yield (
        _storage(level, flags),
        StorageMapping(
            tuple(Loop(*loop[:2]) for loop in mapping["temporal_inner_to_outer"]),
            frozenset(mapping["keep"]),
        ),
    )
    columns, rows = _mesh(level, below)
    if columns * rows == 1:
        return
    none: frozenset[str] = frozenset()
    yield (
        Fanout(
            f"below {level['name']}",
            columns,
            rows,
            no_multicast=flags.get("no_reuse_spatial", none),
            no_link_transfer=flags.get("no_link_transfer", none),
        ),
        FanoutMapping(tuple(SpatialLoop(*loop[:3]) for loop in mapping["spatial_below_inner_to_outer"])),
    )


def _storage(level: Json, flags: dict[str, frozenset[str]]) -> StorageLevel:
    energy = level["energy_pj"]
    none: frozenset[str] = frozenset()
    return StorageLevel(
        level["name"],
        size_words=level["capacity_words"],
        word_bits=level["word_bits"],
        block_size=level["block_size"],
        cluster_size=level["cluster_size"],
        read_bandwidth=_rate(level["read_bandwidth"]),
        write_bandwidth=_rate(level["write_bandwidth"]),
        shared_bandwidth=_rate(level["shared_bandwidth"]),
        energy=AccessEnergy(
            *(_units(energy[action]) for action in ("read", "fill", "update", "leak_per_cycle"))
        ),
        no_temporal_reuse=flags.get("no_reuse_temporal", none),
        rmw_first_update=flags.get("rmw_first_update", none),
        no_coalesce=flags.get("no_coalesce", none),
    )


def _units(picojoules: float) -> int:
    units = Decimal(str(picojoules)) * UNITS_PER_PJ
    assert units == int(units)
    return int(units)


def _rate(words_per_cycle: float | None) -> Fraction | None:
    return None if words_per_cycle is None else Fraction(str(words_per_cycle))
