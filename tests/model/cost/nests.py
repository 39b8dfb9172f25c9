"""Small problems, loop nests on them, and both ways to count the words that move."""

import numpy as np

from model.architecture import Architecture, Compute, Node, StorageLevel
from model.cost import evaluate
from model.counting import EXACT, Counting
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term
from tests.witness import Execution, Layout, execute


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
        s.name: random.integers(-9, 10, Layout.of(task, s).shape)
        for s in task.dataspaces
        if s.given or not s.read_write
    }


def nest(*pairs: tuple[Node, NodeMapping]) -> tuple[Architecture, Mapping]:
    """Nodes with their parts of the mapping."""
    nodes, parts = zip(*pairs, strict=True)
    return Architecture("a", nodes, Compute("mac")), Mapping(parts)


def run(task: Problem, *pairs: tuple[Node, NodeMapping]) -> Execution:
    return execute(task, *nest(*pairs), operands_of(task))


def both(
    task: Problem, level: str, name: str, *pairs: tuple[Node, NodeMapping], counting: Counting = EXACT
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Tile, reads and fills of a dataspace at a level: as counted by a rule, and as executed."""
    rule = evaluate(task, *nest(*pairs), counting).level(level).dataspace(name)
    seen = run(task, *pairs).counts[level, name]
    return (rule.tile_words, rule.reads, rule.fills), (seen.tile_words, seen.reads, seen.fills)


def fill_words(
    task: Problem, name: str, *pairs: tuple[Node, NodeMapping], counting: Counting = EXACT
) -> tuple[int, int]:
    """Words of an operand that come into the buffer: by a rule, and as executed."""
    rule, seen = both(task, "buffer", name, *pairs, counting=counting)
    return rule[2], seen[2]
