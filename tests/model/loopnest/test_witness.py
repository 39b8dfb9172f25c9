"""The execution as an independent check of the cost model, on random mappings."""

from collections.abc import Mapping as Named

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.architecture import Architecture, Compute, Fanout, Node, StorageLevel
from model.cost import evaluate
from model.loopnest import Layout, execute
from model.mapping import Mapping, StorageMapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem
from tests.bruteforce import enumerate_mappings
from tests.model.loopnest.nests import BUFFER, DRAM, operands_of, problem, rank, space
from tests.model.loopnest.window_moves import tile_moves
from tests.strategies import mapspaces

Case = tuple[Mapspace, Mapping, bool]


def reference_result(task: Problem, operands: Named[str, np.ndarray], output: Dataspace) -> np.ndarray:
    """Sum the products of all operands over the whole iteration space at once."""
    index = np.indices(task.bounds).reshape(len(task.dims), -1)

    def ranks(s: Dataspace) -> tuple[np.ndarray, ...]:
        return tuple(sum(t.coefficient * index[task.dims.index(t.dim)] for t in terms) for terms in s.ranks)

    terms = np.prod([operands[s.name][ranks(s)] for s in task.dataspaces if not s.read_write], axis=0)
    result = np.zeros(Layout.of(task, output).shape, dtype=np.int64)
    np.add.at(result, ranks(output), terms)
    return result


def next_kept(mapping: Mapping, name: str, position: int) -> int:
    """Position of the next node inwards that keeps `name`, or of the arithmetic."""
    for node in range(position + 1, len(mapping.nodes)):
        part = mapping.nodes[node]
        if isinstance(part, StorageMapping) and name in part.keep:
            return node
    return len(mapping.nodes)


def check_moved(case: Case, name: str, position: int, rule: int, seen: int) -> None:
    """Compare the words of `name` that move to or from the tiles of the node at `position`.

    The rule and the run may differ only as the geometry of the tile says, and in that direction.
    """
    mapspace, mapping, boxes = case
    moves = tile_moves(mapspace.problem, mapping, mapspace.problem.dataspace(name), position)
    node = mapspace.architecture.nodes[position] if position < len(mapping.nodes) else None
    if moves.has_holes and not boxes:
        return
    savings = moves.savings()
    if node is None or name in level_of(node).no_temporal_reuse:
        savings = []
    if all(by_rule == by_run for by_rule, by_run in savings):
        assert rule == seen
    elif all(by_rule <= by_run for by_rule, by_run in savings):
        assert rule > seen
    elif all(by_rule >= by_run for by_rule, by_run in savings):
        assert rule < seen


def level_of(node: Node) -> StorageLevel:
    assert isinstance(node, StorageLevel)
    return node


@st.composite
def mapped(draw: st.DrawFn) -> Case:
    """A mapspace, one of its mappings, and whether to execute it with bounding boxes."""
    mapspace = draw(mapspaces(max_mappings=300))
    assume(mapspace.problem.computes <= 300)
    mappings = list(enumerate_mappings(mapspace))
    assume(mappings)
    mapping = draw(st.sampled_from(mappings))
    assume(not any(level.no_coalesce for level in mapspace.architecture.levels))
    return mapspace, mapping, draw(st.booleans())


@st.composite
def windows(draw: st.DrawFn) -> Case:
    """A mapping of a convolution whose windows slide in two levels' loops and a fanout."""
    bounds = {
        "K": st.sampled_from((1, 2, 3)),
        "P": st.sampled_from((2, 3, 4, 6, 8)),
        "R": st.sampled_from((1, 2, 3, 4)),
    }
    stride, dilation = draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 2), (3, 2))))
    window = rank(("P", stride), ("R", dilation))
    spaces = (space("W", "K", "R"), space("I", window), space("O", "K", "P", read_write=True))
    task = problem(spaces, **{dim: draw(bound) for dim, bound in bounds.items()})
    architecture = Architecture(
        "a", (DRAM, BUFFER, Fanout("array", 6), StorageLevel("registers")), Compute("mac")
    )
    everything = KeepRules(frozenset("WIO"))
    mapspace = Mapspace(task, architecture, (TemporalRules(),) * 3, (SpatialRules(),), (everything,) * 3)
    mapping = draw(st.sampled_from(list(enumerate_mappings(mapspace, innermost_orders=False))))
    return mapspace, mapping, draw(st.booleans())


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.one_of(mapped(), mapped(), windows()))
def test_execution_bears_the_cost_model_out(case: Case):
    mapspace, mapping, boxes = case
    task, architecture = mapspace.problem, mapspace.architecture
    operands = operands_of(task)
    result = execute(task, architecture, mapping, operands, bounding_boxes=boxes)
    cost = evaluate(task, architecture, mapping)
    for s in task.dataspaces:
        if s.read_write:
            assert (result.outputs[s.name] == reference_result(task, operands, s)).all()
    assert result.steps == cost.compute_cycles
    assert sum(len(level.dataspaces) for level in cost.levels) == len(result.counts)
    for position, level in zip(architecture.storage_indices, cost.levels, strict=True):
        for rule in level.dataspaces:
            name, used = rule.dataspace, level.instances
            seen = result.counts[level.name, name]
            holes = tile_moves(task, mapping, task.dataspace(name), position).has_holes and not boxes
            assert seen.instances == used
            assert rule.tile_words > seen.tile_words if holes else rule.tile_words == seen.tile_words
            check_moved(case, name, next_kept(mapping, name, position), rule.reads * used, seen.reads)
            assert rule.updates * used == seen.updates
            if any(
                name in part.keep for part in mapping.nodes[:position] if isinstance(part, StorageMapping)
            ):
                check_moved(case, name, position, rule.fills * used, seen.fills)
            else:
                assert rule.fills == seen.fills == 0
