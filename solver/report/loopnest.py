"""A mapping as the loop nest it stands for, in plain text."""

from __future__ import annotations

from collections.abc import Iterator

from model.architecture import Architecture, Fanout, StorageLevel
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term

INDENT = "  "


def loop_nest(problem: Problem, architecture: Architecture, mapping: Mapping) -> tuple[str, ...]:
    """Return the lines of the loop nest, outermost loop first.

    A storage level heads its temporal loops with its name and the dataspaces it keeps; a fanout
    heads its spatial loops. Loops of bound 1 and fanouts without loops are left out.
    """
    lines: list[str] = []
    depth = 0
    for node, chosen in zip(architecture.nodes, mapping.nodes, strict=True):
        loops = tuple(_loops(chosen))
        if isinstance(node, StorageLevel) or loops:
            lines.append(INDENT * depth + _heading(problem, node, chosen))
        lines.extend(INDENT * (depth + 1 + step) + loop for step, loop in enumerate(loops))
        depth += len(loops)
    lines.append(f"{INDENT * depth}{architecture.compute.name}: {einsum_text(problem)}")
    return tuple(lines)


def einsum_text(problem: Problem) -> str:
    """Return the Einsum, such as ``Z[M][N] += A[M][K] * B[K][N]``."""
    outputs = [space_text(space) for space in problem.dataspaces if space.read_write]
    operands = [space_text(space) for space in problem.dataspaces if not space.read_write]
    return f"{', '.join(outputs)} += {' * '.join(operands)}"


def space_text(space: Dataspace) -> str:
    """Return a dataspace with the index expression of each rank."""
    return space.name + "".join(f"[{_index_text(rank)}]" for rank in space.ranks)


def _index_text(rank: tuple[Term, ...]) -> str:
    text = ""
    for term in rank:
        sign = "-" if term.coefficient < 0 else "+"
        factor = "" if abs(term.coefficient) == 1 else f"{abs(term.coefficient)}*"
        text += f" {sign} {factor}{term.dim}"
    return text.removeprefix(" + ").removeprefix(" ")


def _heading(problem: Problem, node: StorageLevel | Fanout, chosen: NodeMapping) -> str:
    if not isinstance(chosen, StorageMapping):
        return f"{node.name}:"
    kept = [space.name for space in problem.dataspaces if space.name in chosen.keep]
    return f"{node.name} keeps {', '.join(kept) or 'nothing'}:"


def _loops(chosen: NodeMapping) -> Iterator[str]:
    if isinstance(chosen, FanoutMapping):
        spatial = (loop for loop in reversed(chosen.spatial) if loop.bound > 1)
        yield from (f"parallel-for {_range(loop)} along {loop.axis.upper()}" for loop in spatial)
        return
    yield from (f"for {_range(loop)}" for loop in reversed(chosen.temporal) if loop.bound > 1)


def _range(loop: Loop | SpatialLoop) -> str:
    return f"{loop.dim} in [0:{loop.bound})"
