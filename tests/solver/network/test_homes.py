"""Inner levels store tensors as a whole: optima, conflicts and levers."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from model.mapping import Mapping, SpatialLoop
from model.mapspace import Mapspace
from solver.explain import constraint_costs
from solver.explain.constraints import without_parts
from solver.formulation.requirements import Constraint, TileCapacity, Whole, constraints_of
from solver.network import NetworkResult, map_network
from solver.result import Options, Reason, Status
from solver.stages import map_einsum
from tests.bruteforce import count_mappings, optimum, valid_mappings
from tests.slow import few
from tests.small_network import HOMES, write_specs

pytestmark = pytest.mark.usefixtures("working_directory")

ENERGY = Options(objectives=("energy",))
CHAIN = """
workload:
  rank_sizes: {M: 4, K: 2, N: 4, L: 4, J: 2}
  bits_per_value: {All: 8}
  einsums:
  - "T[m, n] = A[m, k] * W[k, n]"
  - "U[m, l] = T[m, n] * V[n, l]"
  - "Z[m, j] = U[m, l] * X[l, j]"
"""
PAIR = CHAIN.replace('  - "U[m, l] = T[m, n] * V[n, l]"\n', "").replace("U[m, l] * X[l", "T[m, n] * X[n")


def loaded(
    workload: str = PAIR,
    outer: str = "[Intermediates]",
    inner: str = "{keep_only: [Intermediates]}",
    depth: int = 16,
    width: int = 1,
    more: tuple[str, str] = ("", ""),
) -> Network:
    text = HOMES.replace(*more) if more[0] else HOMES
    for name, value in {"OUTER": outer, "INNER": inner, "DEPTH": depth, "WIDTH": width}.items():
        text = text.replace(name, str(value))
    return load_network(write_specs(workload, text))


def mapped(*args: object, **options: object) -> NetworkResult:
    return map_network(loaded(*args, **options), ENERGY)


def statuses(result: NetworkResult) -> list[str]:
    return [layer.status.value for layer in result.layers]


def reason_of(result: NetworkResult, layer: int = 0) -> Reason:
    found = result.layers[layer].result
    assert found is not None
    (reason,) = found.reasons
    return reason


def test_an_intermediate_that_fits_exactly():
    """Operands come from the DRAM for each of 32 products; T is added up in the buffer, and read there."""
    result = mapped()
    first, second = result.layers
    # 32 products: all but the first of each of 16 sums are added to what is read.
    assert first.energy_units == (2 * 32 * 100 + 32 * 8 + 16 * 6 + 32) * result.units_per_pj
    assert second.energy_units == (32 * 6 + 32 * 100 + 32 * 120 + 24 * 100 + 32) * result.units_per_pj
    assert [first.cycles, second.cycles] == [32, 32]


def test_one_word_less_is_too_little():
    result = mapped(depth=15)
    assert statuses(result) == ["INFEASIBLE", "INFEASIBLE"]
    reason = reason_of(result)
    assert reason.text == "T needs at least 16 words, `buffer` holds 15: 1 too few"
    assert [(own.text, [(at.line, at.column) for at in own.sources]) for own in reason.constraints] == [
        ("`buffer` stores T as a whole, as `DRAM` bypasses it", [(9, 40)]),
        ("`buffer` holds 15 words", [(16, 49)]),
    ]
    assert reason.irreducible
    assert [lever.text for lever in reason.levers] == [
        "`DRAM` keeping T",
        "`buffer` with 16 words instead of 15",
    ]
    assert mapped(depth=15, outer="[]", inner="{}").status is Status.OPTIMAL
    assert mapped(depth=16).status is Status.OPTIMAL


def test_both_intermediates_of_an_einsum_in_the_middle():
    assert statuses(mapped(CHAIN, depth=32)) == ["OPTIMAL"] * 3
    result = mapped(CHAIN, depth=31)
    assert statuses(result) == ["OPTIMAL", "INFEASIBLE", "OPTIMAL"]
    reason = reason_of(result, 1)
    assert reason.text == "T 16 + U 16 = at least 32 words, `buffer` holds 31: 1 too few"
    assert [lever.text for lever in reason.levers] == [
        "`DRAM` keeping T",
        "`DRAM` keeping U",
        "`buffer` with 32 words instead of 31",
    ]
    assert statuses(mapped(CHAIN, "[T]", "{keep_only: [T]}", depth=31)) == ["OPTIMAL"] * 3


def test_instances_hold_a_part_each():
    """Half of T in either buffer: what is split is a dimension of T, not the one that is summed."""
    result = mapped(depth=8, width=2)
    assert statuses(result) == ["OPTIMAL", "OPTIMAL"]
    first = result.layers[0].result
    assert first is not None
    assert first.mapping is not None
    assert [loop.dim in "mn" for loop in first.mapping.nodes[1].spatial] == [True]
    reason = reason_of(mapped(depth=7, width=2))
    assert reason.text == "T needs at least 8 words, `buffer` holds 7: 1 too few"
    assert reason.constraints[1].text == (
        "the instances of `buffer` together store T as a whole, as `DRAM` bypasses it"
    )
    assert "`buffer` with 8 words instead of 7" in [lever.text for lever in reason.levers]
    assert "meshX 4 instead of 2 of `tile`" in [lever.text for lever in reason.levers]
    assert mapped(depth=7, width=4).status is Status.OPTIMAL


def test_a_factor_against_a_tensor_that_is_at_rest():
    constrained = "bypass: OUTER}, temporal: {factors: [m=2]}"
    result = mapped(more=("bypass: OUTER}", constrained))
    reason = reason_of(result)
    assert [own.text for own in reason.constraints] == [
        "m=2 in the temporal loops of `DRAM`",
        "`buffer` stores T as a whole, as `DRAM` bypasses it",
    ]
    assert [lever.text for lever in reason.levers] == [
        "m=1 instead of m=2 in the temporal loops of `DRAM`",
        "`DRAM` keeping T",
    ]


SHARED = """
  - !Component
    name: shared
    class: SRAM
    attributes: {datawidth: 8, width: 8, depth: SHARED}
    energy: {read: 20, write: 20, leak: 0}
    constraints: {dataspace: {bypass: [T]}}
  - !Container
    name: tile
"""
BETWEEN = ("\n  - !Container\n    name: tile\n", SHARED)


@pytest.mark.parametrize(("shared", "lever"), [(20, "`shared` keeping T"), (4, "`DRAM` keeping T")])
def test_the_nearest_level_outside_that_makes_room(shared: int, lever: str):
    more = (BETWEEN[0], BETWEEN[1].replace("SHARED", str(shared)))
    reason = reason_of(mapped(inner="{}", depth=9, more=more))
    assert reason.constraints[0].text == "`buffer` stores T as a whole, as `DRAM` and `shared` bypass it"
    assert [own.text for own in reason.levers] == [lever, "`buffer` with 16 words instead of 9"]
    if shared == 20:
        eased = more[0], more[1].replace("bypass: [T]", "keep: [T]")
        assert mapped(inner="{}", depth=9, more=eased).status is Status.OPTIMAL
    else:
        assert mapped(inner="{}", outer="[]", depth=9, more=more).status is Status.OPTIMAL


BRANCH = """
    - !Component
      name: NAME
      class: SRAM
      attributes: {datawidth: 8, width: 8, depth: SIZE}
      energy: {read: 20, write: 20, leak: 0}
      constraints: {dataspace: {keep: [KEPT]}}
"""


@pytest.mark.parametrize(("left", "levers"), [(24, ["`left` keeping T"]), (8, ["`DRAM` keeping T"])])
def test_a_branch_of_a_parallel_stores_a_tensor(left: int, levers: list[str]):
    branches = [("left", left, "A, W, X"), ("right", 15, "T")]
    texts = [
        BRANCH.replace("NAME", name).replace("SIZE", str(size)).replace("KEPT", kept).strip("\n")
        for name, size, kept in branches
    ]
    more = BETWEEN[0], "\n".join(["\n  - !Parallel\n    nodes:", *texts, BETWEEN[0].lstrip("\n")])
    reason = reason_of(mapped(inner="{keep_only: [X]}", more=more))
    assert reason.constraints[0].text == "`right` stores T as a whole, as `DRAM` and `left` bypass it"
    assert [own.text for own in reason.levers] == [*levers, "`right` with 16 words instead of 15"]


MAC = "\n  - !Component\n    name: mac\n"
LEVELS = """
  - !Component
    name: register
    class: regfile
    attributes: {datawidth: 8, width: 8, depth: REGISTER}
    energy: {read: 2, write: 1, leak: 0}
    constraints: {dataspace: {bypass: INMOST}}
  - !Component
    name: mac
"""
PERSISTENT = PAIR.replace("  einsums:", "  persistent_tensors: W | X\n  einsums:")


def test_persistent_tensors_are_counted_once():
    """W and X have 8 values each; the one of the running Einsum is held, room is made for the other."""
    assert mapped(PERSISTENT, "[W, X]", "{keep_only: [W, X]}", depth=16).status is Status.OPTIMAL
    reason = reason_of(mapped(PERSISTENT, "[W, X]", "{keep_only: [W, X]}", depth=15))
    assert reason.text == "W needs at least 8 words, `buffer` holds 7: 1 too few"
    assert "`buffer` with 16 words instead of 15" in [lever.text for lever in reason.levers]


def test_a_level_that_only_passes_on_stores_nothing():
    registers = LEVELS.replace("REGISTER", "16").replace("INMOST", "[]")
    network = loaded(inner="{no_coalesce: [Intermediates]}", more=(MAC, registers))
    assert [layer.mapspace.keep[2].whole for layer in network.layers] == [{"T"}, {"T"}]
    assert statuses(map_network(network, ENERGY)) == ["OPTIMAL", "OPTIMAL"]


def test_without_it_all_that_was_added_is_gone():
    layer = loaded(inner="{}").layers[0]
    plain = loaded(outer="[]", inner="{}").layers[0].mapspace
    wholes = [own for own in constraints_of(layer.mapspace) if isinstance(own, Whole)]
    assert [(own.level, own.dataspace) for own in wholes] == [(1, "T")]
    (freed,) = without_parts(layer.mapspace, wholes)
    assert [rules.factors for rules in freed.temporal] == [rules.factors for rules in plain.temporal]
    assert freed.keep[1] == plain.keep[1]
    (held,) = without_parts(
        layer.mapspace, [own for own in constraints_of(layer.mapspace) if isinstance(own, TileCapacity)]
    )
    assert (held.temporal, held.keep) == (layer.mapspace.temporal, layer.mapspace.keep)


def test_bypassing_has_the_price_of_what_follows_from_it():
    mapspace = loaded(inner="{keep_only: [T, A]}", depth=20).layers[0].mapspace
    report = constraint_costs(mapspace, ENERGY, map_einsum)
    texts = {cost.statement.text: cost for cost in report.clauses}
    line = texts["`DRAM` bypasses T; `buffer` stores T as a whole, as `DRAM` bypasses it"]
    assert line.proven
    found = [least(space) for space in without_parts(mapspace, line_of(mapspace))]
    assert line.result.value == min(found)
    assert report.baseline.value == least(mapspace)


def line_of(mapspace: Mapspace) -> list[Constraint]:
    return [own for own in constraints_of(mapspace) if (9, 40) in [(s.line, s.column) for s in own.sources]]


def least(mapspace: Mapspace) -> int:
    best = optimum(mapspace, "energy")
    assert best is not None
    return best[0]


# ------------------------------------------------------------------ enumeration

FORMS = [
    '"T[m, n] = A[m, k] * W[k, n]"\n  - "Z[m, j] = T[m, n] * X[n, j]"',
    '"T[p] = A[P: p + r] * W[r]"\n  - "Z[q] = T[P: q + s] * X[s]"',
    '"T[m, n] = A[m] * W[n]"\n  - "Z[m] = T[m, n] * X[n]"',
]


def random_spec(seed: int) -> tuple[dict[str, object], list[str]]:
    """What `loaded` takes, and which tensors the levels bypass from the outside inwards."""
    draw = random.Random(seed)
    sizes = {name: draw.choice((1, 2, 2, 3, 4)) for name in "MKNJ"}
    shape = f"  rank_sizes: {{{', '.join(f'{name}: {size}' for name, size in sizes.items())}}}\n"
    windows = f"p: 0 <= p < {draw.choice((3, 4))}, r: 0 <= r < 2, q: 0 <= q < 2, s: 0 <= s < 2"
    shape += f"  iteration_space_shape: {{{windows}}}\n"
    workload = f"workload:\n{shape}  bits_per_value: {{All: 8}}\n  einsums:\n  - {draw.choice(FORMS)}\n"
    stored = draw.choice(("T", "T", "T, A", "T, Z", "W, X"))
    inmost = draw.choice(("[]", "[]", f"[{stored}]"))
    registers = LEVELS.replace("REGISTER", str(draw.randint(2, 16)))
    home = "{}" if inmost != "[]" or draw.random() < 0.6 else f"{{bypass: [{stored}]}}"
    options = {
        "workload": workload,
        "outer": f"[{stored}]",
        "inner": home,
        "depth": draw.randint(2, 20),
        "width": draw.choice((1, 2, 4)),
        "more": (MAC, registers.replace("INMOST", inmost)),
    }
    return options, stored.split(", ")


def without_homes(options: dict[str, object], stored: list[str]) -> Network:
    """The network whose outermost level bypasses what is `stored`, with no other consequence."""
    home = str(options["inner"]).replace("{bypass: [", "[").replace("]}", "]")
    inner = {"{}": "{}"}.get(home, f"{{bypass: {home}}}")
    network = loaded(**(options | {"outer": "[]", "inner": inner}))
    layers = []
    for layer in network.layers:
        own = {space.name for space in layer.mapspace.problem.dataspaces}
        first, *others = layer.mapspace.keep
        bypassing = replace(first, bypass=frozenset(own.intersection(stored)), keep=first.keep - set(stored))
        layers.append(replace(layer, mapspace=replace(layer.mapspace, keep=(bypassing, *others))))
    return replace(network, layers=tuple(layers))


def holds_all(mapspace: Mapspace, mapping: Mapping) -> bool:
    """Whether the outermost level that may keep a tensor keeps it, each in a part or as a whole."""
    architecture, problem = mapspace.architecture, mapspace.problem
    for space in problem.dataspaces:
        level = next(i for i, rules in enumerate(mapspace.keep) if space.name not in rules.bypass)
        home = architecture.storage_indices[level]
        if space.name not in mapping.nodes[home].keep:
            return False
        nodes = enumerate(mapping.nodes)
        loops = [
            loop
            for place, node in nodes
            for loop in (node.spatial if place in architecture.fanout_indices else node.temporal)
            if place >= home or isinstance(loop, SpatialLoop)
        ]
        for dim in space.dims:
            if math.prod(loop.bound for loop in loops if loop.dim == dim) != problem.bound[dim]:
                return False
    return True


def energies(mapspace: Mapspace) -> Iterator[int]:
    for own in valid_mappings(mapspace, innermost_orders=False):
        if holds_all(mapspace, own.mapping):
            yield own.energy


@pytest.mark.parametrize("seed", few(range(28), 10))
def test_enumeration_agrees(seed: int):
    options, stored = random_spec(seed)
    result = map_network(loaded(**options), ENERGY)
    plain = without_homes(options, stored)
    for own, layer in zip(result.layers, plain.layers, strict=True):
        if count_mappings(layer.mapspace, 6_000, innermost_orders=False) > 6_000:
            continue
        least = min(energies(layer.mapspace), default=None)
        assert own.result is not None
        assert own.result.value == least
        assert own.status is (Status.INFEASIBLE if least is None else Status.OPTIMAL)
