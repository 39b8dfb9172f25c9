"""Orders of memories: which there are, and what nests of them cost, against the interpreter."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate, evaluate_in
from model.counting import ACCELFORGE, EXACT, TIMELOOP
from model.mapping import Mapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.orders import check_orders, in_order, orders, unrolled
from tests.model.cost.nests import MATMUL, across, conv1d, operands_of, problem, storage
from tests.orders import every_mapping, every_order, random_orders
from tests.slow import few
from tests.witness import execute


def small() -> Mapspace:
    """A matrix product; a buffer outside of four children keeps A and Z, each child has a memory for B."""
    names = frozenset("ABZ")
    nodes = (StorageLevel("dram"), StorageLevel("outer"), Fanout("array", 4), StorageLevel("inner"))
    kept = KeepRules(frozenset("AZ"), frozenset("B")), KeepRules(frozenset("B"), frozenset("AZ"))
    return Mapspace(
        problem=problem(MATMUL, M=4, N=4, K=4),
        architecture=Architecture("small", nodes, Compute("mac")),
        temporal=(TemporalRules(),) * 3,
        spatial=(SpatialRules(),),
        keep=(KeepRules(names), *kept),
        free_order=frozenset(("inner",)),
    )


@pytest.mark.parametrize("seed", few(range(40), 15))
def test_orders_are_all_allowed_permutations(seed: int):
    mapspace = random_orders(Random(seed))
    check_orders(mapspace)
    found = list(orders(mapspace))
    assert sorted(found) == sorted(every_order(mapspace))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("seed", few(range(60), 12))
@pytest.mark.parametrize("counting", [EXACT, ACCELFORGE])
def test_nests_cost_what_they_execute_and_what_their_loops_cost_alone(seed: int, counting):
    random = Random(seed)
    mapspace = random_orders(random, counting)
    order = random.choice(list(orders(mapspace)))
    own = in_order(mapspace, order)
    for mapping in random.sample(every := list(every_mapping(mapspace, order)), min(3, len(every))):
        try:
            cost = evaluate_in(own, mapping)
        except ValueError as error:
            assert "made of pieces" in str(error)
            continue
        _check_execution(own, mapping)
        nodes, architecture = mapping.nodes, own.architecture
        spatial = [nodes[position] for position in architecture.fanout_indices]
        factors = tuple({loop.dim: loop.bound for loop in part.spatial} for part in spatial)
        alone = Mapping(tuple(nodes[position] for position in architecture.storage_indices))
        part = evaluate_in(unrolled(own, factors), alone)
        assert (part.energy, part.cycles) == (cost.energy, cost.cycles)
        assert [level.size_words for level in part.levels] == [level.size_words for level in cost.levels]


def _check_execution(own: Mapspace, mapping: Mapping) -> None:
    """Compare the exact rule with what an execution moves."""
    cost = evaluate(own.problem, own.architecture, mapping, EXACT)
    seen = execute(own.problem, own.architecture, mapping, operands_of(own.problem))
    for places in own.architecture.memories:
        memory = own.architecture.levels[places[0]].component
        assert seen.room_words[memory] == sum(cost.levels[place].size_words for place in places)
    for level in cost.levels:
        for space in level.dataspaces:
            counts = seen.counts[level.name, space.dataspace]
            assert (counts.instances, counts.tile_words) == (level.instances, space.tile_words)
            words = space.total_reads, space.total_fills, space.total_updates
            assert (counts.reads, counts.fills, counts.updates) == words


HELD = ((2, "B"), (1, "A"), (1, "Z"))


def test_tiles_of_inner_memories_stay_above_those_of_outer_ones():
    """The children hold all of B, a quarter each, while rows of A and Z pass through the buffer outside."""
    own = in_order(small(), HELD)
    names = [node.name for node in own.architecture.nodes]
    assert names == ["dram", "array", "inner", "outer#1", "outer#2"]
    parts = (storage("", "ABZ"), across("N4"), storage("M4", "B"), storage("", "A"), storage("K4", "Z"))
    cost = evaluate(own.problem, own.architecture, Mapping(parts), EXACT)
    assert cost.valid
    figures = {
        (level.name, space.dataspace): (
            level.instances,
            space.tile_words,
            space.total_reads,
            space.total_fills,
        )
        for level in cost.levels
        for space in level.dataspaces
    }
    assert figures["inner", "B"] == (4, 4, 64, 16)  # each word of B comes once
    assert figures["outer#1", "A"] == (1, 4, 16, 16)  # one row, which all children read together
    assert figures["outer#2", "Z"] == (1, 4, 48, 0)  # the whole row of all children
    _check_execution(own, Mapping(parts))


def test_tiles_made_of_pieces_are_refused():
    own = in_order(small(), HELD)
    # A loop over N between the tiles: of each child's four columns of B, one at a time.
    parts = (storage("", "ABZ"), across("N2"), storage("N2 M4", "B"), storage("", "A"), storage("K4", "Z"))
    with pytest.raises(ValueError, match="made of pieces along 'N', which 'array' unrolls"):
        evaluate(own.problem, own.architecture, Mapping(parts), EXACT)
    # Below them it does no harm, and neither does one over a dimension that does not index B.
    parts = (storage("", "ABZ"), across("N2"), storage("M4", "B"), storage("", "A"), storage("N2 K4", "Z"))
    assert evaluate(own.problem, own.architecture, Mapping(parts), EXACT).valid
    _check_execution(own, Mapping(parts))


def test_a_tile_below_one_in_an_inner_memory_of_the_same_dataspace_is_refused():
    own = in_order(small(), HELD)
    parts = (storage("", "ABZ"), across(""), storage("", "AB"), storage("", "A"), storage("M4 K4 N4", "Z"))
    with pytest.raises(ValueError, match="'A' in 'outer#1' lies below one in a memory inside"):
        evaluate(own.problem, own.architecture, Mapping(parts), EXACT)


def test_what_is_not_counted_in_an_order_of_nests_is_refused():
    own = in_order(small(), HELD)
    parts = (storage("", "ABZ"), across("N2"), storage("M4", "B"), storage("", "A"), storage("N3 K4", "Z"))
    with pytest.raises(ValueError, match="remainders and link transfers"):
        evaluate(own.problem, own.architecture, Mapping(parts), EXACT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counting": TIMELOOP}, "are not counted by Timeloop's rule"),
        ({"factors": "any"}, "with remainders"),
        ({"temporal": (TemporalRules((FactorRule("M", "=", 2),)),) * 3}, "constraints on temporal loops"),
        ({"keep": (KeepRules(bypass=frozenset("A")),) + (KeepRules(),) * 2}, "need not keep all tensors"),
        ({"problem": conv1d(4, 3)}, "may unroll windows of I"),
    ],
)
def test_what_is_known_in_the_order_of_the_hardware_only_is_refused(changes: dict, message: str):
    mapspace = small()
    if "problem" in changes:
        names = frozenset(space.name for space in changes["problem"].dataspaces)
        changes = {**changes, "keep": (KeepRules(names), *mapspace.keep[1:])}
    with pytest.raises(ValueError, match=message):
        check_orders(replace(mapspace, **changes))


def test_fanouts_without_multicast_are_refused_where_it_matters():
    mapspace = small()
    nodes = tuple(
        replace(node, no_multicast=frozenset("B")) if isinstance(node, Fanout) else node
        for node in mapspace.architecture.nodes
    )
    with pytest.raises(ValueError, match="`array` may unroll B without multicast"):
        check_orders(replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes)))


def test_spatial_loops_of_a_memory_inside_stand_right_above_it():
    own = in_order(small(), ((1, "A"), (2, "B"), (1, "Z")))
    assert [node.name for node in own.architecture.nodes] == ["dram", "outer#1", "array", "inner", "outer#2"]
    assert own.architecture.memories == ((0,), (1, 3), (2,))
