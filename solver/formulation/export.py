"""A formulation for other solvers: as CP-SAT's own protocol buffer, as MPS, or as FlatZinc.

MPS knows sums alone, FlatZinc has clauses as well. What a format cannot hold is written as sums; what none of
them can be is refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solver.formulation.model import Formulation, Scaled
from solver.saving import save

UNLIMITED = 1 << 62
"""Bounds of CP-SAT beyond which a sum is not limited."""

SUFFIXES = (".pb", ".mps", ".fzn")
"""Formats, by the ends of file names: a protocol buffer of OR-tools (``CpModelProto``), MPS, and FlatZinc."""


class ExportError(ValueError):
    """A model cannot be written in a format."""


@dataclass(frozen=True)
class LinearRow:
    """A sum of ``coefficient * variable`` between two limits, None where there is none."""

    terms: tuple[tuple[int, int], ...]
    least: int | None
    most: int | None


def export_model(formulation: Formulation, scale: Scaled, path: Path) -> None:
    """Write a formulation with its objective into a file.

    Parameters
    ----------
    formulation
        With an objective.
    scale
        What the objective's quanta stand for, which a comment says where the format has comments.
    path
        Its name ends in one of `SUFFIXES`.

    Raises
    ------
    ExportError
        There is no such format, or it cannot hold the model.
    OSError
        The file cannot be written.
    """
    proto = formulation.program.model.proto
    if path.suffix == ".pb":
        save(path, _protocol_buffer(formulation))
    elif path.suffix == ".mps":
        save(path, "\n".join(_mps(proto, _remark(formulation, scale))).encode())
    elif path.suffix == ".fzn":
        save(path, "\n".join(_flatzinc(proto, _remark(formulation, scale))).encode())
    else:
        raise ExportError(f"models are written as {', '.join(SUFFIXES)}, not {path.suffix or path.name!r}")


def _protocol_buffer(formulation: Formulation) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.pb"
        if not formulation.program.model.export_to_file(str(place)):
            raise ExportError("OR-tools does not write its model")
        return place.read_bytes()


def _remark(formulation: Formulation, scale: Scaled) -> list[str]:
    return [
        f"the mapping problem of {formulation.mapspace.problem.name or 'an Einsum'}",
        f"cost >= {scale.base} + {scale.quantum} * objective",
    ]


# --------------------------------------------------------------------------- rows


def rows_of(proto: Any) -> Iterator[LinearRow]:
    """Yield the constraints of a model as sums.

    Raises
    ------
    ExportError
        A constraint is no sum and no clause.
    """
    domains = [_domain_ends(own) for own in proto.variables]
    for constraint in proto.constraints:
        for row in _linear_rows(constraint):
            yield _enforced(row, list(constraint.enforcement_literal), domains)


def _domain_ends(variable: Any) -> tuple[int, int]:
    domain = list(variable.domain)
    return domain[0], domain[-1]


def _linear_rows(constraint: Any) -> Iterator[LinearRow]:
    """A constraint without its enforcement literals."""
    if constraint.has_linear():
        linear = constraint.linear
        domain = list(linear.domain)
        if len(domain) != 2:
            raise ExportError("a sum may take values with gaps between")
        least = None if domain[0] <= -UNLIMITED else domain[0]
        most = None if domain[1] >= UNLIMITED else domain[1]
        yield LinearRow(tuple(zip(linear.coeffs, linear.vars, strict=True)), least, most)
    elif constraint.has_bool_or():
        yield _count_of_literals(constraint.bool_or.literals, 1, None)
    elif constraint.has_at_most_one():
        yield _count_of_literals(constraint.at_most_one.literals, None, 1)
    elif constraint.has_exactly_one():
        yield _count_of_literals(constraint.exactly_one.literals, 1, 1)
    elif constraint.has_bool_and():
        yield from (_count_of_literals([literal], 1, None) for literal in constraint.bool_and.literals)
    else:
        raise ExportError("a constraint is neither a sum nor a clause")


def _count_of_literals(literals: Iterable[int], least: int | None, most: int | None) -> LinearRow:
    """How many of some literals hold; CP-SAT writes the negation of variable v as -v - 1."""
    every = list(literals)
    negated = sum(literal < 0 for literal in every)
    terms = tuple((-1, -literal - 1) if literal < 0 else (1, literal) for literal in every)
    return LinearRow(
        terms,
        None if least is None else least - negated,
        None if most is None else most - negated,
    )


def _enforced(row: LinearRow, literals: Sequence[int], domains: Sequence[tuple[int, int]]) -> LinearRow:
    """A row that need not hold unless all literals do: each lifts it by as much as it can be violated."""
    if not literals:
        return row
    if row.least is not None and row.most is not None:
        raise ExportError("an equation depends on a literal")
    ends = [sorted((c * domains[v][0], c * domains[v][1])) for c, v in row.terms]
    if row.most is None:
        assert row.least is not None
        slack, sign = max(0, row.least - sum(low for low, _ in ends)), 1
    else:
        slack, sign = max(0, sum(high for _, high in ends) - row.most), -1
    terms, shift = list(row.terms), 0
    for literal in literals:
        positive = literal >= 0
        # A literal that does not hold adds `slack` to what the row may lack.
        terms.append((-sign * slack if positive else sign * slack, literal if positive else -literal - 1))
        shift += sign * slack if positive else 0
    lifted = [None if own is None else own - shift for own in (row.least, row.most)]
    return LinearRow(tuple(terms), *lifted)


def _coefficients(row: LinearRow) -> dict[int, int]:
    """Coefficients by variable."""
    found: dict[int, int] = {}
    for coefficient, variable in row.terms:
        found[variable] = found.get(variable, 0) + coefficient
    return found


# ---------------------------------------------------------------------------- MPS


def _mps(proto: Any, remarks: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a free-format MPS file."""
    yield from (f"* {remark}" for remark in remarks)
    yield "NAME tilewright"
    rows = list(rows_of(proto))
    yield "ROWS"
    yield " N cost"
    yield from (f" {_row_letter(row)} r{number}" for number, row in enumerate(rows))
    columns: list[list[str]] = [[] for _ in proto.variables]
    for coefficient, variable in zip(proto.objective.coeffs, proto.objective.vars, strict=True):
        columns[variable].append(f"cost {coefficient}")
    for number, row in enumerate(rows):
        for variable, coefficient in _coefficients(row).items():
            columns[variable].append(f"r{number} {coefficient}")
    yield "COLUMNS"
    yield " M 'MARKER' 'INTORG'"
    for number, entries in enumerate(columns):
        yield from (f" x{number} {entry}" for entry in entries or ["cost 0"])
    yield " M 'MARKER' 'INTEND'"
    yield "RHS"
    for number, row in enumerate(rows):
        side = row.most if row.least is None else row.least
        if side:
            yield f" RHS r{number} {side}"
    yield "RANGES"
    for number, row in enumerate(rows):
        if row.least is not None and row.most is not None and row.least != row.most:
            yield f" RANGES r{number} {row.most - row.least}"
    yield "BOUNDS"
    for number, variable in enumerate(proto.variables):
        least, most = _domain_ends(variable)
        yield f" LO BOUND x{number} {least}"
        yield f" UP BOUND x{number} {most}"
    yield "ENDATA"


def _row_letter(row: LinearRow) -> str:
    if row.least is None:
        return "N" if row.most is None else "L"
    return "E" if row.least == row.most else "G"


# ----------------------------------------------------------------------- FlatZinc


def _flatzinc(proto: Any, remarks: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a FlatZinc model, of integers and linear constraints alone."""
    yield from (f"% {remark}" for remark in remarks)
    for number, variable in enumerate(proto.variables):
        least, most = _domain_ends(variable)
        yield f"var {least}..{most}: x{number}:: output_var;"
    total = {v: c for c, v in zip(proto.objective.coeffs, proto.objective.vars, strict=True) if c}
    domains = [_domain_ends(own) for own in proto.variables]
    ends = [sorted((c * domains[v][0], c * domains[v][1])) for v, c in total.items()]
    yield f"var {sum(low for low, _ in ends)}..{sum(high for _, high in ends)}: cost:: output_var;"
    for row in rows_of(proto):
        yield from _linear(_coefficients(row), row.least, row.most)
    yield f"constraint int_lin_eq({_vector([*total.values(), -1])},{_variable_names(total, 'cost')},0);"
    yield "solve minimize cost;"
    yield ""


def _linear(terms: dict[int, int], least: int | None, most: int | None) -> Iterator[str]:
    variables = _variable_names(terms)
    if least is not None and least == most:
        yield f"constraint int_lin_eq({_vector(terms.values())},{variables},{least});"
        return
    if most is not None:
        yield f"constraint int_lin_le({_vector(terms.values())},{variables},{most});"
    if least is not None:
        yield f"constraint int_lin_le({_vector(-own for own in terms.values())},{variables},{-least});"


def _vector(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _variable_names(variables: Iterable[int], *more: str) -> str:
    return f"[{','.join([*(f'x{number}' for number in variables), *more])}]"
