"""Random user-defined rules, and what they mean by Python's arithmetic on the loops of a mapping."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from random import Random

from model.architecture import Architecture, StorageLevel
from model.cost import Evaluation, evaluate_in
from model.cost.judge import broken_rules
from model.cost.traffic import kept_positions
from model.counting.words import tile_words
from model.mapping import FanoutMapping, Mapping
from model.mapspace import Mapspace
from model.numbers import divisors
from model.places import gathered
from model.rules import Rule
from model.sparse import MappingError, SparseEvaluation, evaluate_sparse_in
from tests.bruteforce import enumerate_mappings, enumerate_sparse

TILE, SPATIAL, WIDE = "tile", "spatial", "wide"


def random_rule(random: Random, mapspace: Mapspace, kinds: Sequence[str] = (TILE, SPATIAL)) -> str:
    """Return the text of a rule about one tile, one fanout, or anything (`WIDE`)."""
    kind = random.choice(kinds if mapspace.architecture.fanouts else [k for k in kinds if k != SPATIAL])
    level = random.choice(mapspace.architecture.levels)
    fanout = random.choice([fanout.name for fanout in mapspace.architecture.fanouts] or [""])
    conditions = [_condition(random, mapspace, kind, level, fanout) for _ in range(random.choice((1, 1, 2)))]
    text = random.choice((" and ", " or ")).join(conditions)
    return f"not ({text})" if random.random() < 0.15 else text


def with_binding_rules(random: Random, mapspace: Mapspace, best: Mapping | None) -> Mapspace:
    """Return a mapspace with rules about tiles and fanouts, one of which `best` breaks and others do not.

    Where no such rule is drawn soon, or there is no mapping, any will do.
    """
    even = gathered(mapspace)  # rules name memories, not their places
    rules = even.where(*(random_rule(random, even) for _ in range(24))).rules
    valid = _valid(mapspace)
    others = random.sample(valid, min(8, len(valid)))
    judges = [_judge(mapspace, mapping) for mapping in others]
    mine = None if best is None else _judge(mapspace, best)
    binding = (rule for rule in rules if mine and not mine(rule) and any(judge(rule) for judge in judges))
    return replace(mapspace, rules=(next(binding, rules[0]), *rules[: random.choice((0, 0, 1))]))


def _valid(mapspace: Mapspace) -> list[Mapping]:
    if mapspace.sparsity is None:
        mappings = enumerate_mappings(mapspace, innermost_orders=False)
    else:
        mappings = enumerate_sparse(mapspace)
    return [mapping for mapping in islice(mappings, 400) if _is_valid(mapspace, mapping)]


def _is_valid(mapspace: Mapspace, mapping: Mapping) -> bool:
    try:
        return _evaluated(mapspace, mapping).valid
    except MappingError:
        return False


def _evaluated(mapspace: Mapspace, mapping: Mapping) -> Evaluation | SparseEvaluation:
    """What a mapping costs."""
    return (evaluate_in if mapspace.sparsity is None else evaluate_sparse_in)(mapspace, mapping)


def _judge(mapspace: Mapspace, mapping: Mapping) -> Callable[[Rule], bool]:
    """Return what tells whether a rule holds for a mapping."""
    evaluation = _evaluated(mapspace, mapping)
    return lambda rule: not broken_rules(replace(mapspace, rules=(rule,)), mapping, evaluation)


def _condition(random: Random, mapspace: Mapspace, kind: str, level: StorageLevel, fanout: str) -> str:
    space = random.choice(mapspace.problem.dataspaces).name
    dim, other = (random.choice(mapspace.problem.dims) for _ in range(2))
    bound = random.choice(divisors(mapspace.problem.bound[dim]))
    if kind == WIDE:
        kind = random.choice((TILE, SPATIAL, "temporal", "cost")) if fanout else random.choice((TILE, "cost"))
        level = random.choice(mapspace.architecture.levels)
    if kind == SPATIAL:
        of, another = f"spatial({fanout}, {dim})", f"spatial({fanout}, {other})"
        return random.choice(
            (
                f"{of} <= {bound}",
                f"{of} >= {another}",
                f"instances({fanout}) >= {random.choice(('0.25', '0.5', '0.75'))} * fanout({fanout})",
                f"{of} * {another} in [1, 2, 4]",
            )
        )
    if kind == "temporal":
        return random.choice(
            (
                f"temporal({level.name}, {dim}) >= 2",
                f"innermost({level.name}) in [{dim}, {other}]",
                f"innermost({level.name}) != {dim}",
            )
        )
    if kind == "cost":
        return random.choice((f"cycles % {bound + 1} != 0", f"energy > {bound} nJ", "cycles <= 1_00 cycles"))
    return _of_tile(random, level, dim, other, space, bound)


def _of_tile(random: Random, level: StorageLevel, dim: str, other: str, space: str, bound: int) -> str:
    of, another = f"tile({level.name}, {dim})", f"tile({level.name}, {other})"
    words = f"words({level.name}, {space})"
    limited = [f"{words} <= 0.5 * capacity({level.name})", f"share({level.name}, {space}) * 2 < 1 - 1/4"]
    return random.choice(
        (
            f"{of} % {bound} == 0",
            f"{of} == {another}",
            f"1 < {of} * {another} <= {4 * bound}",
            f"{of} // {another} >= 1",
            f"{words} >= {bound}",
            f"keeps({level.name}, {space})",
            f"{words} % ({of} - 1) != 1",  # divides by zero where the tile is 1
            *(limited if level.usable_words is not None else ()),
        )
    )


def means(text: str, mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether a rule holds, decided by Python; names stand for themselves.

    Tiles of memories with several places are those at each of them that keeps anything, and at the first.
    """
    architecture = mapspace.architecture
    kept = {at for space in mapspace.problem.dataspaces for at in _kept(mapspace, mapping, space.name)}
    places: list[list[tuple[str, int]]] = []
    for first, *inner in _memories(architecture).values():
        name = architecture.nodes[first].component
        places.append([(name, at) for at in (first, *inner) if at == first or at in kept])
    return all(_means_at(text, mapspace, mapping, dict(place)) for place in product(*places))


def _memories(architecture: Architecture) -> dict[str, list[int]]:
    """Positions of the places of each memory."""
    found: dict[str, list[int]] = {}
    for at in architecture.storage_indices:
        found.setdefault(architecture.nodes[at].component, []).append(at)
    return found


def _kept(mapspace: Mapspace, mapping: Mapping, space: str) -> list[int]:
    """Positions at which a dataspace is kept."""
    return list(kept_positions(mapspace.architecture, mapping, space))


def _means_at(text: str, mapspace: Mapspace, mapping: Mapping, place: dict[str, int]) -> bool:
    """Whether a rule holds for a mapping, by the tiles of each memory at the given places."""
    problem, architecture = mapspace.problem, mapspace.architecture
    free = replace(mapspace, rules=())
    evaluation = _evaluated(free, mapping)
    memories = _memories(architecture)
    fan = {own.name: at for own, at in zip(architecture.fanouts, architecture.fanout_indices, strict=True)}
    level_of = {level.component: level for level in architecture.levels}

    def factor(position: int, dim: str) -> int:
        node = mapping.nodes[position]
        loops = node.spatial if isinstance(node, FanoutMapping) else node.temporal
        return math.prod(loop.bound for loop in loops if loop.dim == dim)

    def tile(level: str, dim: str) -> Fraction:
        return Fraction(extent(place[level], dim))

    def extent(position: int, dim: str) -> int:
        inside = math.prod(factor(at, dim) for at in range(position, len(mapping.nodes)))
        return min(inside, problem.bound[dim])

    def keeps(level: str, space: str) -> bool:
        return not set(memories[level]).isdisjoint(_kept(mapspace, mapping, space))

    def words(level: str, space: str) -> Fraction:
        if not keeps(level, space):
            return Fraction(0)
        if isinstance(evaluation, SparseEvaluation):
            return Fraction(evaluation.level(level).dataspace(space).size_words)
        (at,) = set(memories[level]).intersection(_kept(mapspace, mapping, space))
        extents = {dim: extent(at, dim) for dim in problem.dims}
        size = level_of[level].packing_of(space).size_per_value
        return Fraction(tile_words(problem.dataspace(space), extents) * size)

    def innermost(level: str) -> str:
        loops = [loop for at in reversed(memories[level]) for loop in mapping.nodes[at].temporal]
        return next((loop.dim for loop in loops if loop.bound > 1), "")

    known = {
        "tile": tile,
        "words": words,
        "keeps": keeps,
        "capacity": lambda level: Fraction(level_of[level].usable_words),
        "share": lambda level, space: words(level, space) / level_of[level].usable_words,
        "temporal": lambda level, dim: Fraction(math.prod(factor(at, dim) for at in memories[level])),
        "innermost": innermost,
        "spatial": lambda fanout, dim: Fraction(factor(fan[fanout], dim)),
        "instances": lambda fanout: math.prod(factor(fan[fanout], dim) for dim in problem.dims),
        "fanout": lambda fanout: architecture.nodes[fan[fanout]].size,
        "energy": Fraction(evaluation.energy, evaluation.units_per_pj),
        "cycles": evaluation.cycles,
    }
    names = [*memories, *fan, *problem.dims, *(space.name for space in problem.dataspaces)]
    written = text.replace(" nJ", " * 1000").replace("1_00 cycles", "100")
    try:
        return bool(eval(written, {"__builtins__": {}}, {**{name: name for name in names}, **known}))
    except ZeroDivisionError:
        return False
