"""Several places of one memory, with joint room and ports: hand-derived figures, and the execution."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel, with_places
from model.cost import evaluate
from model.cost.batch import BatchEvaluator
from model.cost.batch.mappings import encode
from model.cost.slack import slacks
from model.extents import FACTORS, PERFECT, Factors
from model.mapping import Mapping, StorageMapping
from model.problem import Problem
from solver.report.document import violation_document
from solver.report.einsum_page import violation_text
from solver.report.reading import as_value
from tests.model.cost.nests import DRAM, MATMUL, conv1d, operands_of, problem, storage
from tests.model.cost.random_mappings import random_mapping
from tests.slow import few
from tests.witness import Execution, execute

GEMM = problem(MATMUL, M=8, N=4, K=4)
BUFFER = StorageLevel(
    "buffer",
    size_words=28,
    shared_bandwidth=Fraction(2),
    network_fill_latency=5,
    energy=AccessEnergy(read=1, fill=1, update=1, leak_per_cycle=3),
)
PLAIN = Architecture("a", (DRAM, BUFFER), Compute("mac"))
UNEVEN = with_places(PLAIN, {"buffer": 2})


def test_places_are_levels_of_one_memory():
    assert [level.name for level in UNEVEN.levels] == ["dram", "buffer#1", "buffer#2"]
    assert UNEVEN.memories == ((0,), (1, 2))
    assert PLAIN.memories == ((0,), (1,))
    assert [component.name for component, _ in UNEVEN.components] == ["dram", "buffer", "mac"]
    assert with_places(PLAIN, {"buffer": 1}) == PLAIN


def test_unknown_memories_and_places_apart_are_refused():
    with pytest.raises(KeyError):
        with_places(PLAIN, {"cache": 2})
    apart = replace(UNEVEN, nodes=(*UNEVEN.nodes[:2], Fanout("array", 2), UNEVEN.nodes[2]))
    with pytest.raises(ValueError, match="different fanouts"):
        _ = apart.memories


def test_room_and_ports_are_joint():
    """All of B (16 words) waits at the outer place; at the inner one, rows of A (4) and of Z (4) pass by."""
    mapping = Mapping((storage("", "ABZ"), storage("M8", "B"), storage("K4 N4", "AZ")))
    cost = evaluate(GEMM, UNEVEN, mapping)
    assert [level.size_words for level in cost.levels[1:]] == [16, 8]
    assert cost.valid
    # B: 16 filled, 128 read; A: 32 filled, 128 read; Z: 32 written first without a read, 128 updates.
    words = (16 + 128) + (32 + 128) + (128 + 128 - 32)
    assert cost.cycles == words // 2 + 5
    assert cost.leak_energy == 3 * (words // 2)
    (room, port) = slacks(UNEVEN, cost)
    assert (room.level, room.used, room.limit) == ("buffer", 24, 28)
    assert (port.level, port.used) == ("buffer", 2)


def test_tiles_that_fit_alone_but_not_together_are_a_violation():
    small = with_places(replace(PLAIN, nodes=(DRAM, replace(BUFFER, size_words=20))), {"buffer": 2})
    mapping = Mapping((storage("", "ABZ"), storage("M8", "B"), storage("K4 N4", "AZ")))
    (violation,) = evaluate(GEMM, small, mapping).violations
    assert violation[:4] == ("buffer", "capacity", 24, 20)
    assert violation_text(as_value(violation_document(violation))) == (
        "buffer: B 16 at the outer place, A 4 at the inner place and Z 4 at the inner place exceed 20"
    )
    assert execute(GEMM, small, mapping, operands_of(GEMM)).overfull == {"buffer"}


def test_a_dataspace_at_two_places_is_refused():
    mapping = Mapping((storage("", "ABZ"), storage("M8", "B"), storage("K4 N4", "ABZ")))
    with pytest.raises(ValueError, match="several places of 'buffer'"):
        evaluate(GEMM, UNEVEN, mapping)
    batch = BatchEvaluator(GEMM, UNEVEN).evaluate(encode(GEMM, UNEVEN, [mapping]))
    assert not batch.valid[0]


def _random_case(random: Random, factors: Factors) -> tuple[Problem, Architecture, Mapping]:
    small = problem(MATMUL, M=5, N=3, K=7), conv1d(7, 3)
    even = GEMM, conv1d(6, 3), problem(MATMUL, M=4, N=3, K=6)
    task = random.choice(even if factors == PERFECT else (*even, *small))
    size, least = random.choice((12, 20, 40)), Fraction(random.choice((0, 1)), 4)
    buffer = replace(BUFFER, size_words=size, min_utilization=least, block_size=random.choice((1, 4)))
    nodes = (DRAM, buffer, Fanout("array", 4), StorageLevel("registers", size_words=6))
    places = {"buffer": random.randint(1, 3), "registers": random.randint(1, 2)}
    architecture = with_places(Architecture("a", nodes, Compute("mac", energy=1)), places)
    mapping = random_mapping(random, task, architecture, factors)
    return task, architecture, _once_per_memory(random, architecture, mapping)


def _once_per_memory(random: Random, architecture: Architecture, mapping: Mapping) -> Mapping:
    """Keep each dataspace at one place of a memory at most."""
    nodes = list(mapping.nodes)
    for places in architecture.memories:
        positions = [architecture.storage_indices[place] for place in places]
        kept = {name for at in positions for name in nodes[at].keep}
        home = {name: random.choice(positions) for name in kept}
        for at in positions:
            own = frozenset(name for name in kept if home[name] == at)
            nodes[at] = StorageMapping(nodes[at].temporal, own)
    return Mapping(tuple(nodes))


@pytest.mark.parametrize("seed", few(range(40), 15))
@pytest.mark.parametrize("factors", FACTORS)
def test_the_execution_and_batches_bear_joint_room_out(seed: int, factors: Factors):
    task, architecture, mapping = _random_case(Random(seed), factors)
    cost = evaluate(task, architecture, mapping)
    seen = execute(task, architecture, mapping, operands_of(task))
    for places in architecture.memories:
        memory = architecture.levels[places[0]]
        assert seen.room_words[memory.component] == sum(cost.levels[place].size_words for place in places)
        levels = [architecture.levels[place] for place in places]
        assert {cost.levels[place].cycles for place in places} == {_cycles(memory, levels, seen)}
    assert seen.overfull == {v.node for v in cost.violations if v.kind == "capacity"}
    for level in cost.levels:
        for space in level.dataspaces:
            counts = seen.counts[level.name, space.dataspace]
            assert (counts.instances, counts.tile_words) == (level.instances, space.tile_words)
            assert counts.reads == space.total_reads
            assert counts.fills == space.total_fills
            assert counts.updates == space.total_updates
    batch = BatchEvaluator(task, architecture).evaluate(encode(task, architecture, [mapping]))
    assert bool(batch.valid[0]) == cost.valid
    assert (int(batch.energy[0]), int(batch.cycles[0])) == (cost.energy, cost.cycles)


def _cycles(memory: StorageLevel, places: Sequence[StorageLevel], seen: Execution) -> int:
    """Cycles that the busiest instance of a memory needs for the words of all its places."""
    if memory.shared_bandwidth is None:
        return seen.steps
    counts = [own for (name, _), own in seen.counts.items() if name in {place.name for place in places}]
    of_instances = zip(*(own.of_instances for own in counts), strict=True)
    most = max((sum(map(sum, words)) for words in of_instances), default=0)
    return max(seen.steps, math.ceil(most / memory.shared_bandwidth))
