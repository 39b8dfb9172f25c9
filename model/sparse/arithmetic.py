"""Computations by kind: made, gated, skipped, and those that do not exist."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from model.sparse.counting import Unit
from model.sparsity import SparseCompute


class Computes(NamedTuple):
    """Computations of the whole run.

    Parameters
    ----------
    actual, gated, skipped
        Those that are made, and those that the arithmetic gates or skips. Those that storages have cut, and
        those without any operand, are in none.
    """

    actual: int
    gated: int
    skipped: int


@dataclass(frozen=True)
class Operand:
    """What the arithmetic sees of one operand.

    Parameters
    ----------
    name
        Of the dataspace.
    density
        Share of nonzeros.
    announced
        Whether its innermost level has metadata: a zero is not there then.
    unit
        The innermost unit that saves accesses to it, if any.
    """

    name: str
    density: float
    announced: bool
    unit: Unit | None


State = str
NONZERO, ZERO, ABSENT = "nonzero", "zero", "absent"


def _rounded(share: float) -> float:
    """Round to a millionth, as Timeloop does with densities and probabilities here."""
    return _half_away(share * 1_000_000) / 1_000_000


def _half_away(value: float) -> int:
    return math.floor(value + 0.5)


def computes(total: int, operands: Sequence[Operand], compute: SparseCompute) -> Computes:
    """Return the computations of each kind.

    Parameters
    ----------
    total
        Those of dense data.
    operands
        The dataspaces that are only read, in the problem's order.
    compute
        What the arithmetic gates and skips.

    Notes
    -----
    With two operands as in Timeloop. Timeloop refuses other numbers; here each condition of all units counts
    once, and an operand is nonzero more often once a unit has seen that its tile is not empty.
    """
    if len(operands) == 2:
        left = _left_of_two(total, operands)
        seen = _seen_of_two(operands)
    else:
        empty = _empty_by_condition(operands)
        effectual = math.prod(1 - chance for chance in empty.values())
        left = total - math.floor(total * (1 - effectual))
        seen = {name: 1 - chance for name, chance in empty.items()}
    return _by_state(left, operands, seen, compute)


def _left_of_two(total: int, operands: Sequence[Operand]) -> int:
    for operand in operands:
        if operand.unit is not None:
            total -= math.floor(total * operand.unit.computed)
    return total


def _seen_of_two(operands: Sequence[Operand]) -> dict[str, float]:
    """By operand, the share of cases that the other one's unit lets through."""
    pairs = zip(operands, reversed(operands), strict=True)
    return {
        operand.name: 1 - _rounded(other.unit.computed) for operand, other in pairs if other.unit is not None
    }


def _empty_by_condition(operands: Sequence[Operand]) -> dict[str, float]:
    """By condition, how often the innermost units see that it is empty: the most that one of them sees."""
    empty: dict[str, float] = {}
    for operand in operands:
        saved = None if operand.unit is None else operand.unit.saved
        for name, chance in () if saved is None else saved.empty:
            empty[name] = max(chance, empty.get(name, 0.0))
    return empty


def _by_state(
    total: int, operands: Sequence[Operand], seen: Mapping[str, float], compute: SparseCompute
) -> Computes:
    skipped = gated = absent = 0.0
    for states, chance in _joint(operands, seen).items():
        share = total * chance
        if set(states) == {ABSENT}:
            absent += share
        elif ABSENT in states and compute.skips_unaligned:
            skipped += share
        elif set(states) != {NONZERO} and compute.gates_zeros:
            gated += share
    gone = (math.floor(skipped), math.floor(gated), math.floor(absent))
    return Computes(total - sum(gone), gone[1], gone[0])


def _joint(operands: Sequence[Operand], seen: Mapping[str, float]) -> dict[tuple[State, ...], float]:
    """Probabilities of the operands' states together, whichever operand is in which."""
    joint: dict[tuple[State, ...], float] = {}
    for states in product((NONZERO, ZERO, ABSENT), repeat=len(operands)):
        pairs = zip(operands, states, strict=True)
        chance = math.prod(_chance(operand, seen.get(operand.name), state) for operand, state in pairs)
        key = tuple(sorted(states))
        joint[key] = joint.get(key, 0.0) + chance
    return joint


def _chance(operand: Operand, seen: float | None, state: State) -> float:
    """Probability of an operand's state, of the cases that units let through where there are some."""
    nonzero = _rounded(operand.density)
    if seen is not None:
        nonzero = min(1.0, nonzero / seen) if seen else 1.0
    if state == NONZERO:
        return nonzero
    return 1 - nonzero if operand.announced == (state == ABSENT) else 0.0
