"""The executed loop nest: right results, and counts that the cost model must meet."""

from collections.abc import Mapping as Named

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from model.architecture import Architecture, Compute, Fanout, Node, StorageLevel
from model.cost import evaluate
from model.loopnest import AccessCounts, Execution, Layout, execute
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from tests.bruteforce import enumerate_mappings
from tests.model.window_moves import tile_moves
from tests.strategies import mapspaces

Case = tuple[Mapspace, Mapping, bool]


def rank(*terms: str | tuple[str, int]) -> tuple[Term, ...]:
    return tuple(Term(t) if isinstance(t, str) else Term(*t) for t in terms)


def space(name: str, *ranks: str | tuple[Term, ...], read_write: bool = False) -> Dataspace:
    return Dataspace(name, tuple(rank(r) if isinstance(r, str) else r for r in ranks), read_write)


def problem(spaces: tuple[Dataspace, ...], **bounds: int) -> Problem:
    return Problem("test", tuple(bounds), tuple(bounds.values()), spaces)


MATMUL = (space("A", "M", "K"), space("B", "K", "N"), space("Z", "M", "N", read_write=True))
DRAM = StorageLevel("dram")
BUFFER = StorageLevel("buffer")


def conv1d(p: int, r: int, stride: int = 1, dilation: int = 1) -> Problem:
    window = rank(("P", stride), ("R", dilation))
    return problem((space("W", "R"), space("I", window), space("O", "P", read_write=True)), P=p, R=r)


def storage(loops: str = "", keep: str = "") -> StorageMapping:
    """Loops such as ``"K3 M2"``, innermost first."""
    temporal = tuple(Loop(loop[0], int(loop[1:])) for loop in loops.split())
    return StorageMapping(temporal, frozenset(keep))


def across(loops: str) -> FanoutMapping:
    return FanoutMapping(tuple(SpatialLoop(loop[0], int(loop[1:]), "x") for loop in loops.split()))


def operands_of(task: Problem, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        s.name: random.integers(-9, 10, Layout.of(task, s).shape) for s in task.dataspaces if not s.read_write
    }


def run(task: Problem, *pairs: tuple[Node, NodeMapping]) -> Execution:
    nodes, parts = zip(*pairs, strict=True)
    return execute(task, Architecture("a", nodes, Compute("mac")), Mapping(parts), operands_of(task))


def both(
    task: Problem, level: str, name: str, *pairs: tuple[Node, NodeMapping]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Tile, reads and fills of a dataspace at a level: as counted by the rule, and as executed."""
    nodes, parts = zip(*pairs, strict=True)
    rule = (
        evaluate(task, Architecture("a", nodes, Compute("mac")), Mapping(parts)).level(level).dataspace(name)
    )
    seen = run(task, *pairs).counts[level, name]
    return (rule.tile_words, rule.reads, rule.fills), (seen.tile_words, seen.reads, seen.fills)


def fill_words(task: Problem, name: str, *pairs: tuple[Node, NodeMapping]) -> tuple[int, int]:
    """Words of an operand that come into the buffer: by the rule, and as executed."""
    rule, seen = both(task, "buffer", name, *pairs)
    return rule[2], seen[2]


# ------------------------------------------------------------------ right results


def test_matmul_equals_numpy():
    task = problem(MATMUL, M=4, N=6, K=12)
    result = run(
        task,
        (DRAM, storage("K2 M2", "ABZ")),
        (Fanout("rows", 2), across("K2")),
        (BUFFER, storage("N3", "BZ")),
        (Fanout("columns", 4), across("M2 N2")),
        (StorageLevel("registers"), storage("K3 N1 M1", "AZ")),
    )
    operands = operands_of(task)
    want = operands["A"] @ operands["B"]
    assert (result.outputs["Z"] == want).all()
    # K2, M2, N3 and K3; the arithmetic is used eightfold.
    assert result.steps == 2 * 2 * 3 * 3


def test_mttkrp_equals_einsum():
    spaces = (
        space("T", "I", "K", "L"),
        space("B", "K", "J"),
        space("C", "L", "J"),
        space("Z", "I", "J", read_write=True),
    )
    task = problem(spaces, I=2, J=4, K=3, L=2)
    result = run(
        task,
        (DRAM, storage("K3", "TBCZ")),
        (Fanout("array", 4), across("L2 J2")),
        (BUFFER, storage("I2 J2", "TBZ")),
    )
    operands = operands_of(task)
    want = np.einsum("ikl,kj,lj->ij", operands["T"], operands["B"], operands["C"])
    assert (result.outputs["Z"] == want).all()


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_convolution_equals_the_sum_over_windows(stride: int, dilation: int):
    task = conv1d(8, 3, stride, dilation)
    result = run(
        task,
        (DRAM, storage("P2", "WIO")),
        (Fanout("array", 6), across("R3 P2")),
        (BUFFER, storage("P2", "WIO")),
    )
    operands = operands_of(task)
    taps = range(0, 3 * dilation, dilation)
    want = [
        sum(int(operands["I"][stride * p + tap] * operands["W"][r]) for r, tap in enumerate(taps))
        for p in range(8)
    ]
    assert result.outputs["O"].tolist() == want


def test_negative_coefficient_runs_backwards():
    reversed_taps = rank("P", ("R", -1))
    spaces = (space("W", "R"), space("I", reversed_taps), space("O", "P", read_write=True))
    task = problem(spaces, P=4, R=3)
    result = run(task, (DRAM, storage("R3", "WIO")), (BUFFER, storage("P4", "WIO")))
    operands = operands_of(task)
    assert result.outputs["O"].tolist() == np.convolve(operands["I"], operands["W"], "valid").tolist()


# ------------------------------------------------ counts that can be told by hand


def test_partial_sums_come_back_once_per_outer_iteration():
    task = problem(MATMUL, M=2, N=1, K=3)
    # The 2 sums leave the one-word buffer 3 times each and come back twice: M runs inside K.
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 6, 2, 1)
    # Within the buffer a sum is read only if it has come back.
    assert result.counts["buffer", "Z"] == AccessCounts(4, 4, 6, 1, 1)
    assert result.counts["dram", "B"] == AccessCounts(3, 0, 0, 3, 1)


def test_rmw_first_update_reads_what_was_never_written():
    task = problem(MATMUL, M=2, N=1, K=3)
    buffer = StorageLevel("buffer", rmw_first_update=frozenset("Z"))
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (buffer, storage("", "ABZ")))
    assert result.counts["buffer", "Z"] == AccessCounts(6, 6, 6, 1, 1)
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 6, 2, 1)


def test_no_temporal_reuse_fetches_the_tile_at_every_step():
    task = problem(MATMUL, M=2, N=1, K=3)
    buffer = StorageLevel("buffer", no_temporal_reuse=frozenset("B"))
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (buffer, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 6


def test_multicast_reads_once_and_reduction_updates_once():
    task = problem(MATMUL, M=4, N=1, K=2)
    array = Fanout("array", 8)
    result = run(task, (DRAM, storage("", "ABZ")), (array, across("M4 K2")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 2
    assert result.counts["buffer", "B"] == AccessCounts(8, 8, 0, 1, 8)
    assert result.counts["dram", "Z"].updates == 4
    alone = Fanout("array", 8, no_multicast=frozenset("BZ"))
    result = run(task, (DRAM, storage("", "ABZ")), (alone, across("M4 K2")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 8
    # The second of the two partial sums finds a word that was touched before.
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 8, 4, 1)


def test_children_on_one_diagonal_share_a_read():
    pairs = ((DRAM, storage("", "WIO")), (Fanout("array", 6), across("P3 R2")), (BUFFER, storage("", "WIO")))
    # P + R takes the values 0 to 3 in the 6 children.
    assert both(conv1d(3, 2), "dram", "I", *pairs) == ((4, 4, 0), (4, 4, 0))


def test_bypassed_level_passes_the_inner_requests_on():
    task = problem(MATMUL, M=4, N=1, K=2)
    pairs = (
        (Fanout("outer", 2), across("K2")),
        (BUFFER, storage("", "AZ")),
        (Fanout("inner", 2), across("M2")),
    )
    result = run(task, (DRAM, storage("M2", "ABZ")), *pairs, (StorageLevel("registers"), storage("", "B")))
    # Each register file keeps its word of B, which reaches the two under one buffer by one multicast.
    assert result.counts["dram", "B"].reads == 2
    assert ("buffer", "B") not in result.counts
    result = run(task, (DRAM, storage("M2", "ABZ")), *pairs, (StorageLevel("registers"), storage("", "A")))
    # Without, the arithmetic asks for it in both steps.
    assert result.counts["dram", "B"].reads == 4


# ------------------------------- the witness against the cost model, on random mappings


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


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
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


# ------------------------- where the counting rule departs from an execution, case by case


def test_window_that_slides_along_its_innermost_loop_is_counted_as_it_runs():
    pairs = ((DRAM, storage("P8", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(conv1d(8, 3), "I", *pairs) == (10, 10)


def test_rule_keeps_no_overlap_when_an_outer_loop_wraps():
    task = problem(
        (space("W", "K", "R"), space("I", rank("P", "R")), space("O", "K", "P", read_write=True)),
        K=2,
        P=2,
        R=3,
    )
    # The window of 3 steps on by 1, then back by 1 when K advances: a run keeps 2 words of it.
    pairs = ((DRAM, storage("P2 K2", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(task, "I", *pairs) == (3 + 1 + 3 + 1, 3 + 1 + 1 + 1)


@pytest.mark.parametrize(("loops", "rule"), [("P2 P4", 10), ("P4 P2", 12)])
def test_rule_judges_a_split_window_by_its_second_iteration(loops: str, rule: int):
    # A run slides on by 1 all the way. The rule sees that only if the inner loop ends at its second step.
    pairs = ((DRAM, storage(loops, "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(conv1d(8, 3), "I", *pairs) == (rule, 10)


def test_rule_takes_a_wrap_for_standing_still():
    # One word of I at P + R: when P advances, R falls back from 2 to 0, which the rule takes for a move
    # by 1 - 1 = 0 and counts no word. A run fetches a word in each of the 12 steps.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert fill_words(conv1d(4, 3), "I", *pairs) == (1 + 2 * 4, 12)


def test_rule_takes_a_wrap_for_another_step_of_the_window():
    # With stride 2 the last tap of a window is the first of the next: a run fetches nothing. The rule
    # takes the wrap for a move by 2 - 1 = 1, like the step from tap to tap, and counts a word.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert fill_words(conv1d(4, 3, stride=2), "I", *pairs) == (12, 9)


def test_rule_counts_the_holes_between_strided_words():
    # Stride 3, two taps: 8 words are used, their bounding box has 11.
    pairs = ((DRAM, storage("", "WIO")), (BUFFER, storage("P4 R2", "WIO")))
    rule, seen = both(conv1d(4, 2, stride=3), "buffer", "I", *pairs)
    assert rule == (11, 8, 11)
    assert seen == (8, 8, 8)
    nodes, parts = zip(*pairs, strict=True)
    task, architecture = conv1d(4, 2, stride=3), Architecture("a", nodes, Compute("mac"))
    boxed = execute(task, architecture, Mapping(parts), operands_of(task), bounding_boxes=True)
    assert boxed.counts["buffer", "I"] == AccessCounts(8, 11, 0, 11, 1)


def test_rule_keeps_words_that_lie_in_holes():
    # Words 0 and 2, then 1 and 3: the boxes overlap, the words do not.
    pairs = ((DRAM, storage("R2", "WIO")), (BUFFER, storage("P2", "WIO")))
    assert fill_words(conv1d(2, 2, stride=2), "I", *pairs) == (3 + 1, 2 + 2)


# ------------------------------------------------------------------------- refusals


def test_refuses_what_it_cannot_execute():
    task = problem(MATMUL, M=2, N=1, K=3)
    inner = (BUFFER, storage("", "ABZ"))
    with pytest.raises(ValueError, match="loops cover"):
        run(task, (DRAM, storage("M2", "ABZ")), inner)
    with pytest.raises(ValueError, match="no level keeps Z"):
        run(task, (DRAM, storage("M2 K3", "AB")), (BUFFER, storage("", "AB")))
    streaming = StorageLevel("buffer", no_coalesce=frozenset("A"))
    with pytest.raises(ValueError, match="buffer keeps A without coalescing"):
        run(task, (DRAM, storage("M2 K3", "ABZ")), (streaming, storage("", "ABZ")))
    with pytest.raises(ValueError, match="not of its node's kind"):
        run(task, (DRAM, storage("M2 K3", "ABZ")), (BUFFER, across("")))
    architecture = Architecture("a", (DRAM,), Compute("mac"))
    whole = storage("M2 K3", "ABZ")
    with pytest.raises(ValueError, match="one entry per node"):
        execute(task, architecture, Mapping((whole, whole)), operands_of(task))
    wrong = operands_of(task) | {"A": np.zeros((3, 2), dtype=np.int64)}
    with pytest.raises(ValueError, match="A has the shape"):
        execute(task, architecture, Mapping((whole,)), wrong)
