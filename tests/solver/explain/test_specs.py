"""Random specs that conflict, as text: the reported lines are removed and changed, and the search decides."""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest

from model.extents import PERFECT
from model.formats.timeloop import LoadOptions
from model.formats.timeloop.loader import load_node
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document
from solver.explain import Verdict, diagnose
from solver.result import Options, Status
from solver.search import map_by_bounds
from tests.slow import few

BOUNDS = {"R": 3, "P": 4, "C": 8, "M": 6}
HUGE = 3 * 4 * 8 * 6
PROBLEM = f"""\
problem:
  version: 0.4
  shape:
    name: conv1d
    dimensions: [R, P, C, M]
    data_spaces:
      - {{name: W, projection: [[[C]], [[M]], [[R]]]}}
      - {{name: I, projection: [[[C]], [[R], [P]]]}}
      - {{name: O, projection: [[[M]], [[P]]], read_write: true}}
  instance: {{{", ".join(f"{dim}: {bound}" for dim, bound in BOUNDS.items())}}}
architecture:
  version: 0.4
  nodes:
"""
ACTIONS = (
    "[{name: read, energy: 1}, {name: write, energy: 1}, {name: update, energy: 1}, {name: leak, energy: 0}]"
)

Line = tuple[str, ...]
"""What a line asks for: its kind, its node, and what the kind needs."""


def random_lines(rng: Random) -> dict[Line, str]:
    """Constraints, each with a line of its own, and its value."""
    lines: dict[Line, str] = {
        ("meshX", "array"): str(rng.choice([2, 3, 4])),
        ("meshY", "array"): str(rng.choice([2, 3])),
    }
    for level in ("buffer", "spad"):
        lines["depth", level] = str(rng.choice([2, 4, 8, 16, 48]))
        for dataspace in "WIO":
            verb = rng.choice(["keep", "keep", "bypass", ""])
            if verb == "keep" or (verb and dataspace != "W"):  # to bypass everything is refused
                lines[verb, level, dataspace] = ""
    for node in ("DRAM", "buffer", "array", "spad"):
        for dim, bound in BOUNDS.items():
            if rng.random() < 0.4:
                divisors = [n for n in range(1, bound + 1) if bound % n == 0]
                lines["factor", node, dim, rng.choice(["=", "<=", ">="])] = str(rng.choice(divisors))
    return lines


def spec_of(lines: dict[Line, str]) -> tuple[str, dict[int, Line]]:
    """The text, and what stands in which of its rows."""
    rows: list[tuple[str, Line | None]] = [(row, None) for row in PROBLEM.splitlines()]
    rows += _storage("DRAM", "DRAM", lines)
    rows += _storage("buffer", "SRAM", lines)
    rows += [("    - !Container", None), ("      name: array", None), ("      spatial:", None)]
    rows += [(f"        {mesh}: {lines[mesh, 'array']}", (mesh, "array")) for mesh in ("meshX", "meshY")]
    rows += _constraints("array", "spatial", lines)
    rows += _storage("spad", "SRAM", lines)
    rows.append((f"    - !Component {{name: mac, class: intmac, actions: {MAC_ACTIONS}}}", None))
    return "\n".join(text for text, _ in rows), {n: line for n, (_, line) in enumerate(rows, 1) if line}


MAC_ACTIONS = "[{name: compute, energy: 1}, {name: leak, energy: 0}]"


def _storage(name: str, kind: str, lines: dict[Line, str]) -> Iterator[tuple[str, Line | None]]:
    yield "    - !Component", None
    yield from (
        (f"      {text}", None) for text in (f"name: {name}", f"class: {kind}", f"actions: {ACTIONS}")
    )
    yield "      attributes:", None
    yield from ((f"        {key}: 8", None) for key in ("width", "datawidth"))
    if ("depth", name) in lines:
        yield f"        depth: {lines['depth', name]}", ("depth", name)
    yield from _constraints(name, "temporal", lines)


def _constraints(node: str, loops: str, lines: dict[Line, str]) -> Iterator[tuple[str, Line | None]]:
    factors = [line for line in lines if line[:2] == ("factor", node)]
    kept = {verb: [line for line in lines if line[:2] == (verb, node)] for verb in ("keep", "bypass")}
    if factors or any(kept.values()):
        yield "      constraints:", None
    if factors:
        yield f"        {loops}:", None
        yield "          factors:", None
        yield from ((f"            - {line[2]}{line[3]}{lines[line]}", line) for line in factors)
    if any(kept.values()):
        yield "        dataspace:", None
    for verb, own in kept.items():
        if own:
            yield f"          {verb}:", None
            yield from ((f"            - {line[2]}", line) for line in own)


def load(lines: dict[Line, str]):
    """The mapspace of a spec with these lines."""
    top = compose(Document.of("spec.yaml", spec_of(lines)[0]), Limits())
    return load_node(
        top, (Path("spec.yaml"),), LoadOptions(refuse_infeasible=False, factors=PERFECT)
    ).mapspace


def without(lines: dict[Line, str], dropped) -> dict[Line, str]:
    """The lines without some; hardware is made so large that it does not matter."""
    kept = {line: value for line, value in lines.items() if line not in dropped}
    hardware = [line for line in dropped if line[0] in ("depth", "meshX", "meshY")]
    return kept | dict.fromkeys(hardware, str(HUGE))


def allows_a_mapping(lines: dict[Line, str]) -> bool:
    """Whether the search finds one."""
    found: list[int] = []

    def listen(progress) -> None:
        found.extend([progress.incumbent] if progress.incumbent is not None else [])

    options = Options(objectives=("energy",), time_limit_s=math.inf)
    result = map_by_bounds(load(lines), options, listen, lambda: bool(found))
    assert result.status is not Status.UNKNOWN or found
    return result.status is not Status.INFEASIBLE


@cache
def conflicting() -> list[dict[Line, str]]:
    """Specs without a mapping."""
    rng = Random(11)
    found: list[dict[Line, str]] = []
    while len(found) < SPECS:
        lines = random_lines(rng)
        if diagnose(load(lines), with_reasons=False).verdict is Verdict.INFEASIBLE:
            found.append(lines)
    return found


SPECS = 2


@pytest.mark.parametrize("number", few(range(SPECS)))
def test_no_line_of_a_conflict_is_there_in_vain(number):
    lines = conflicting()[number]
    rows = spec_of(lines)[1]
    reasons = diagnose(load(lines)).reasons
    assert reasons
    for reason in reasons:
        assert all(statement.sources for statement in reason.constraints)
        blamed = {rows[source.line] for source in reason.sources}
        rest = [line for line in lines if line not in blamed]
        assert not allows_a_mapping(without(lines, rest))
        for line in blamed:
            assert allows_a_mapping(without(lines, [*rest, line]))


@pytest.mark.parametrize("number", range(SPECS))
def test_a_number_that_is_changed_as_proposed_suffices_and_nothing_nearer_does(number):
    lines = conflicting()[number]
    rows = spec_of(lines)[1]
    reasons = diagnose(load(lines)).reasons
    for reason in reasons:
        others = {rows[s.line] for other in reasons if other is not reason for s in other.sources}
        base = without(lines, others)
        for lever in (lever for lever in reason.levers if lever.needed is not None):
            (line,) = (rows[source.line] for source in lever.sources)
            assert lines[line] == str(lever.current)
            assert allows_a_mapping(base | {line: str(lever.needed)})
            if line[-1] != "=":
                nearer = lever.needed + (1 if lever.needed < lever.current else -1)
                assert not allows_a_mapping(base | {line: str(nearer)})
