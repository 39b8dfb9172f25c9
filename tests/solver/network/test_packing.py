"""An Einsum with operands of 8 bits and sums of 32, counted by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model.architecture import Packing
from model.cascade import Network
from model.cost import evaluate
from model.cost.batch import BatchEvaluator
from model.formats.cascade import load_network
from model.mapping import Loop, Mapping, StorageMapping
from model.mapspace import Mapspace
from model.renaming import by_position
from solver.explain import explain_infeasible
from solver.network import ResultCache, Run, Serial, map_network
from solver.network.cache import cache_key
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.bruteforce import optimum
from tests.small_network import write_specs

ARCHITECTURE = """
architecture:
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {datawidth: 8, width: 64, shared_bandwidth: 8}
    energy: {read: 1000, write: 900, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 16, width: 64, depth: DEPTH, read_bandwidth: 6}
    energy: {read: 60, write: 50, update: 70, leak: 0}
    constraints: {dataspace: {keep: [A, W, Z]}}
  - !Component
    name: register
    class: regfile
    attributes: {datawidth: 8, width: 8, depth: 4}
    energy: {read: 3, write: 2, update: 5, leak: 0}
    constraints: {dataspace: {keep: [Z], bypass: [A, W]}}
  - !Component
    name: mac
    class: intmac
    energy: {compute: 1}
"""

WORKLOAD = """
workload:
  rank_sizes: {M: 4, K: 8, N: 4}
  bits_per_value: BITS
  einsums:
  - {einsum: "Z[m, n] = A[m, k] * W[k, n]"}
"""

ENERGY = Options(objectives=("energy",))
EVERYTHING = frozenset("AWZ")
TILE = Mapping(
    (
        StorageMapping((), EVERYTHING),
        StorageMapping((Loop("k", 8), Loop("m", 4), Loop("n", 4)), EVERYTHING),
        StorageMapping((), frozenset("Z")),
    )
)
"""Everything is brought into the buffer at once, and each sum stays in the register until it is complete."""

Load = Callable[..., Network]


@pytest.fixture
def load(working_directory: Path) -> Load:
    def loaded(depth: int = 16, bits: str = "{Z: 32, Other: 8}", workload: str = WORKLOAD) -> Network:
        own = workload.replace("BITS", bits), ARCHITECTURE.replace("DEPTH", str(depth))
        return load_network(write_specs(*own))

    return loaded


def only(network: Network) -> Mapspace:
    (layer,) = network.layers
    return layer.mapspace


def test_a_row_holds_eight_operands_or_two_sums(load: Load):
    dram, buffer, register = only(load()).architecture.levels
    assert {own.packing_of("A") for own in (dram, buffer)} == {Packing("A", 8)}
    assert {own.packing_of("Z") for own in (dram, buffer)} == {Packing("Z", 2, 4)}
    assert register.packing_of("Z") == Packing("Z", 1, 4, 4)
    assert (buffer.size_words, buffer.word_bits, buffer.block_size) == (16 * 8, 8, 8)
    assert (register.size_words, register.word_bits, register.block_size) == (4, 8, 1)


def test_the_sums_decide_what_fits(load: Load):
    """32 operands take 4 rows each time, the 16 sums 8: 16 rows in all."""
    for depth, fits in ((16, True), (15, False)):
        space = only(load(depth))
        found = evaluate(space.problem, space.architecture, TILE)
        assert found.valid == fits
        assert found.level("buffer").size_words == 16 * 8
        assert found.level("buffer").dataspace("Z").tile_words == 16
        assert found.level("buffer").dataspace("Z").size_words == 64


def test_energy_counts_rows(load: Load):
    space = only(load())
    found = evaluate(space.problem, space.architecture, TILE)
    energy = {
        (level.name, own.dataspace): own.energy // found.units_per_pj
        for level in found.levels
        for own in level.dataspaces
    }
    rows_of_operands, rows_of_sums = 32 // 8, 16 // 2
    assert energy["DRAM", "A"] == energy["DRAM", "W"] == 1000 * rows_of_operands
    assert energy["DRAM", "Z"] == 900 * rows_of_sums
    assert energy["buffer", "A"] == energy["buffer", "W"] == 50 * rows_of_operands + 60 * 128 // 8
    assert energy["buffer", "Z"] == 70 * rows_of_sums
    # A sum lies in four rows of the register. The first of eight updates needs no read of it.
    assert energy["register", "Z"] == (3 * (128 - 16) + 5 * 128) * 4


def test_bandwidths_keep_their_bits(load: Load):
    """The DRAM moves 64 bits per cycle, the buffer hands out 96: 128 + 128 operands of 8 bits."""
    space = only(load())
    found = evaluate(space.problem, space.architecture, TILE)
    assert found.compute_cycles == 128
    assert found.level("DRAM").cycles == 128
    assert (32 * 8 + 32 * 8 + 16 * 32) // 64 < 128
    narrow = only(load(bits="{Z: 32, Other: 72}"))
    found = evaluate(narrow.problem, narrow.architecture, TILE)
    assert found.level("buffer").cycles == 2 * 128 * 72 // 96
    assert found.level("buffer").dataspace("A").energy == (50 * 32 + 60 * 128) * 2 * found.units_per_pj


@pytest.mark.parametrize("objective", ["energy", "latency"])
@pytest.mark.parametrize("depth", [16, 9, 5])
def test_the_optimum_is_that_of_complete_enumeration(load: Load, objective: str, depth: int):
    network = load(depth)
    (layer,) = map_network(network, Options(objectives=(objective,))).layers
    assert layer.result is not None
    assert layer.result.status is Status.OPTIMAL
    assert layer.result.value == optimum(only(network), objective)[0]


def test_the_widest_size_is_not_taken_for_all(load: Load):
    """With 32 bits for all, what fits into 16 rows is less, and costs more."""
    mixed, wide, narrow = (
        map_einsum(only(load(bits=bits)), ENERGY).value
        for bits in ("{Z: 32, Other: 8}", "{All: 32}", "{All: 8}")
    )
    assert narrow < mixed < wide


def test_sizes_without_a_small_common_multiple(load: Load, monkeypatch: pytest.MonkeyPatch):
    """A word is a tiny part of a row here, and tiles are too many words for an integer of 64 bits."""
    monkeypatch.setitem(
        globals(), "ARCHITECTURE", ARCHITECTURE.replace("width: 64, depth", "width: 2097152, depth")
    )
    big = WORKLOAD.replace("{M: 4, K: 8, N: 4}", "{M: 268435456, K: 2, N: 2}")
    space = only(load(depth=8, bits="{A: 8, W: 10, Z: 17}", workload=big))
    buffer = space.architecture.levels[1]
    assert buffer.packing_of("A").size_per_value * 2 * 268435456 > 1 << 63
    result = map_einsum(space, ENERGY)
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.evaluation.level("buffer").size_words <= buffer.size_words
    with pytest.raises(OverflowError, match="tiles are too large"):
        BatchEvaluator(space.problem, space.architecture)
    tight = replace(space.architecture.nodes[1], size_words=buffer.packing_of("Z").size_per_value)
    nodes = (space.architecture.nodes[0], tight, *space.architecture.nodes[2:])
    none = replace(space, architecture=replace(space.architecture, nodes=nodes))
    assert map_einsum(none, ENERGY).status is Status.INFEASIBLE
    assert explain_infeasible(none)[0].complete


def test_equal_sizes_need_no_packing(load: Load):
    for bits in ("{All: 8}", "{All: 16}", "{All: 24}", "{All: 100}"):
        assert not any(level.packing for level in only(load(bits=bits)).architecture.levels)


TWO = WORKLOAD + '  - {einsum: "Y[m, n] = B[m, k] * V[k, n]"}\n'


def test_einsums_of_other_sizes_are_other_problems(load: Load, tmp_path: Path):
    one, other = load(workload=TWO, bits="{Z: 32, Other: 8}").layers
    assert cache_key(one.mapspace, ("energy",)) != cache_key(other.mapspace, ("energy",))
    # The architecture keeps A, W and Z by name, so that nothing but names and sizes differs elsewhere.
    free = ARCHITECTURE.replace("keep: [A, W, Z]", "keep: All").replace(
        "{keep: [Z], bypass: [A, W]}", "{keep: Outputs, bypass: Inputs}"
    )
    Path("a.yaml").write_text(free.replace("DEPTH", "16"), encoding="utf-8")
    for sizes, origins in (
        ("{Z | Y: 32, Other: 8}", ["searched", "identical"]),
        ("{Z: 32, Other: 8}", ["searched", "searched"]),
        ("{A | V: 32, Other: 8}", ["searched", "searched"]),
    ):
        Path("w.yaml").write_text(TWO.replace("BITS", sizes), encoding="utf-8")
        network = load_network(["w.yaml", "a.yaml"])
        result = map_network(network, ENERGY, Run(cache=ResultCache(tmp_path / "cache"), executor=Serial()))
        assert [layer.origin for layer in result.layers] == origins
        for layer, own in zip(network.layers, result.layers, strict=True):
            space = layer.mapspace
            assert own.result is not None
            assert own.result.value == map_einsum(space, ENERGY).value
            assert evaluate(space.problem, space.architecture, own.result.mapping) == own.result.evaluation


def test_renamed_mapspaces_keep_the_sizes(load: Load):
    space = only(load())
    renamed = by_position(space.problem).mapspace(space)
    assert renamed.architecture.levels[1].packing_of("t2").size_per_value == 4
    assert map_einsum(renamed, ENERGY).value == map_einsum(space, ENERGY).value


def test_what_does_not_fit_is_explained_in_words_of_the_level(load: Load, monkeypatch: pytest.MonkeyPatch):
    fixed = "constraints: {dataspace: {keep: [A, W, Z]}, temporal: {factors: [m=4, n=4, k=8]}}"
    monkeypatch.setitem(
        globals(),
        "ARCHITECTURE",
        ARCHITECTURE.replace("constraints: {dataspace: {keep: [A, W, Z]}}", fixed),
    )
    space = only(load(depth=15))
    assert map_einsum(space, ENERGY).status is Status.INFEASIBLE
    (reason,) = explain_infeasible(space)
    assert reason.text == "A 32 + W 32 + Z 16 x 4 = at least 128 words, `buffer` holds 120: 8 too few"
    assert "`buffer` with 128 words instead of 120 (depth 16)" in [lever.text for lever in reason.levers]
