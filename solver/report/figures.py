"""How numbers and Einsums are written for people."""

from __future__ import annotations

import math
from fractions import Fraction

from model.objective import ENERGY, LATENCY, UNITS, in_reported_unit
from model.problem import Dataspace, Problem, Term

NOTHING = "-"
"""In place of a figure that does not exist."""

SIGNIFICANT_DIGITS = 5
_ENERGY_UNITS = ((10**12, "J"), (10**9, "mJ"), (10**6, "uJ"), (10**3, "nJ"), (1, "pJ"))
_SCIENTIFIC_FROM = 10**12
_TOO_LONG_FROM = 10**200
_COST_DIGITS = 7
_COST_SCIENTIFIC_FROM = 10**15


def energy_unit(picojoules: float | Fraction) -> tuple[int, str]:
    """Return the size in pJ, and the name, of the largest unit that an energy reaches."""
    return next((unit for unit in _ENERGY_UNITS if picojoules >= unit[0]), _ENERGY_UNITS[-1])


def energy_text(picojoules: float | Fraction) -> str:
    """Return an energy with five significant digits, in the largest unit that it reaches."""
    size, unit = energy_unit(picojoules)
    return f"{significant(picojoules / size)} {unit}"


def significant(number: float | Fraction) -> str:
    """Return `number` rounded to five significant digits, trailing zeros kept; 0 as ``0``."""
    value = float(number)
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")
    decimals = SIGNIFICANT_DIGITS - 1 - int(exponent)
    if not 0 <= decimals <= SIGNIFICANT_DIGITS + 3:
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{decimals}f}"


def bytes_text(number: float, beside: float = 0) -> str:
    """Return bytes with four significant digits, in the largest unit that they or those `beside` reach."""
    power = next((power for power in (4, 3, 2, 1) if max(number, beside) >= 1024**power), 0)
    return f"{number / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def count_text(number: int) -> str:
    """Return an exact integer with commas between groups of three digits."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with what it counts, such as ``1 mapping`` and ``2 mappings``."""
    return f"{count_text(number)} {one if number == 1 else many or f'{one}s'}"


def large_count_text(number: int) -> str:
    """Return an exact integer with its order of magnitude; of one too long for a line, only the latter."""
    if number < _SCIENTIFIC_FROM:
        return count_text(number)
    if number >= _TOO_LONG_FROM:
        return f"about 1e{math.floor(math.log10(number))}"
    digits = str(number)
    return f"{number:,} (about {digits[0]}.{digits[1]}e{len(digits) - 1})"


def percent(share: float | Fraction) -> str:
    """Return a share (1 is 100 %) with two decimals; tiny but positive shares do not read 0."""
    if 0 < share < Fraction(1, 20_000):
        return "<0.01 %"
    return f"{float(share) * 100:.2f} %"


def seconds_text(seconds: float) -> str:
    """Return a duration in seconds."""
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def objective_text(objective: str, quantity: int | None, units_per_pj: int) -> str:
    """Return an exact value of an objective (energy units, cycles, or their product) for people."""
    if quantity is None:
        return NOTHING
    reported = in_reported_unit(objective, quantity, units_per_pj)
    if objective == ENERGY:
        return energy_text(reported)
    figure = count_text(quantity) if objective == LATENCY else significant(reported)
    return f"{figure} {UNITS[objective]}"


def cost_text(cost: Fraction) -> str:
    """Return a cost with up to seven significant digits, without trailing zeros; or in whole units."""
    if 10**_COST_DIGITS <= cost < _COST_SCIENTIFIC_FROM:
        return count_text(round(cost))
    return f"{float(cost):,.{_COST_DIGITS}g}"


def einsum_text(problem: Problem) -> str:
    """Return the Einsum, such as ``Z[M][N] += A[M][K] * B[K][N]``."""
    outputs = [space_text(space) for space in problem.dataspaces if space.read_write]
    operands = [space_text(space) for space in problem.dataspaces if not space.read_write]
    return f"{', '.join(outputs)} += {' * '.join(operands)}"


def space_text(space: Dataspace) -> str:
    """Return a dataspace with the index expression of each rank."""
    return space.name + "".join(f"[{rank_text(rank)}]" for rank in space.ranks)


def rank_text(rank: tuple[Term, ...]) -> str:
    """Return the index expression of a rank."""
    text = ""
    for term in rank:
        sign = "-" if term.coefficient < 0 else "+"
        factor = "" if abs(term.coefficient) == 1 else f"{abs(term.coefficient)}*"
        text += f" {sign} {factor}{term.dim}"
    return text.removeprefix(" + ").removeprefix(" ")
