"""Networks: names of the workload in an architecture, layers of Timeloop's form, what is refused."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from model.architecture import Packing
from model.cascade import Network
from model.formats.accelforge import load_workload
from model.formats.cascade import layers, load_network
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapspace import FactorRule
from model.text.reader import read_files
from model.text.source import SpecError
from tests.conftest import REPOSITORY
from tests.model.formats.cascade.architecture import ARCHITECTURE
from tests.small_network import write_specs

SPECS = REPOSITORY / "specs"
EYERISS = SPECS / "architectures" / "eyeriss_like.yaml"
Load = Callable[..., Network]

WORKLOAD = """
workload:
  rank_sizes: {M: 8, K: 4, N: 6}
  bits_per_value: {All: 8}
  persistent_tensors: W | V
  einsums:
  - {einsum: "T[m, n] = A[m, k] * W[k, n]", renames: {weight: W, input: A, output: T, rows: m, all: m | n}}
  - {einsum: "Z[m, k] = T[m, n] * V[K: k, n]", n_instances: 3}
  - {einsum: "Y[m, k] = Z[m, k]", renames: {weight: Nothing, input: Z}}
  - {einsum: "X[m, k] = Y[m, k]", is_copy_operation: True}
"""


@pytest.fixture
def load(working_directory: Path) -> Load:
    def loaded(
        constraints: str = "{}", spatial: str = "{}", workload: str = WORKLOAD, dram: str = "block_size: 8"
    ) -> Network:
        text = ARCHITECTURE.replace("CONSTRAINTS", constraints).replace("SPATIAL", spatial)
        return load_network(write_specs(workload, text.replace("DRAM_ATTRIBUTES", dram)))

    return loaded


def kept(network: Network) -> list[set[str]]:
    return [set(layer.mapspace.keep[1].keep) for layer in network.layers]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[weight]", [{"W"}, set(), set(), set()]),
        ("[Weights]", [{"W"}, set(), set(), set()]),
        ("weight", [{"W"}, set(), set(), set()]),
        ("[T]", [{"T"}, {"T"}, set(), set()]),
        ("[input, Intermediates]", [{"A", "T"}, {"T", "Z"}, {"Z", "Y"}, {"Y"}]),
        ("[Outputs]", [{"T"}, {"Z"}, {"Y"}, {"X"}]),
        ("[Persistent, W]", [{"W"}, {"V"}, set(), set()]),
        ("[Shared]", [{"T"}, {"T", "Z"}, {"Z", "Y"}, {"Y"}]),
        ('["*"]', [{"A", "W", "T"}, {"T", "V", "Z"}, {"Z", "Y"}, {"Y", "X"}]),
        ("[Nothing]", [set(), set(), set(), set()]),
    ],
)
def test_tensors_in_constraints_are_resolved_for_each_einsum(
    load: Load, given: str, expected: list[set[str]]
):
    assert kept(load(f"{{dataspace: {{keep: {given}}}}}")) == expected


def test_densities_of_a_workload_are_left_out_where_asked(load: Load):
    text = WORKLOAD.replace("  persistent", "  densities: {W: 0.5}\n  persistent")
    with pytest.raises(SpecError, match="this command does not support sparse data"):
        load(workload=text)
    network = load_network(["w.yaml", "a.yaml"], options=LoadOptions(ignore_sparse=True))
    assert [note for note in network.notes if "`densities` is ignored" in note.text]
    assert len(network.layers) == 4


def test_a_level_may_keep_nothing_of_an_einsum(load: Load):
    network = load("{dataspace: {keep_only: [weight]}}")
    assert network.layers[2].mapspace.keep[1].bypass == {"Z", "Y"}


def test_no_reuse_is_resolved(load: Load):
    network = load("{temporal: {no_reuse: [input]}}", "{spatial: {no_reuse: [weight]}}")
    assert [set(x.mapspace.architecture.levels[1].no_temporal_reuse) for x in network.layers] == [
        {"A"},
        set(),
        {"Z"},
        set(),
    ]
    assert network.layers[0].mapspace.architecture.fanouts[0].no_multicast == {"W"}


def factors(network: Network, layer: int = 0) -> set[tuple[str, str, int]]:
    rules: tuple[FactorRule, ...] = network.layers[layer].mapspace.spatial[0].factors
    return {(rule.dim, rule.relation, rule.value) for rule in rules}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("{m: 2}", {("m", "=", 2)}),
        ("{rows: 2}", {("m", "=", 2)}),
        ("[rows=2, k<=2]", {("m", "=", 2), ("k", "<=", 2)}),
        ("rows2", {("m", "=", 2)}),
        ("[all=1]", {("m", "=", 1), ("n", "=", 1)}),
        ("{R: 1, m: 2}", {("R", "=", 1), ("m", "=", 2)}),
    ],
)
def test_rank_variables_in_constraints(load: Load, given: str, expected: set[tuple[str, str, int]]):
    network = load(spatial=f"{{spatial: {{factors: {given}}}}}")
    assert factors(network) == expected
    assert network.layers[0].mapspace.problem.bound.get("R", 1) == 1
    assert any("`R`" in note.text for note in network.notes) is ("R" in given)


@pytest.mark.parametrize("given", ["[R, rows, k]", "'R,rows,k'", "R rows k"])
def test_absent_dimensions_keep_their_place_in_a_permutation(load: Load, given: str):
    network = load(spatial=f"{{spatial: {{permutation: {given}, split: 2}}}}")
    rules = network.layers[0].mapspace.spatial[0]
    assert rules.inner == ("R", "m", "k")
    assert rules.split == 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("{factors: {M: 1}}", "m"),
        ("{factors: {ROWS: 1}}", "rows"),
        ("{permutation: [M, K, N]}", "m"),
        ("{permutation: [R, m], factors: [M<=4]}", "m"),
        ("{permutation: [R, m], factors: [N=0]}", "n"),
    ],
)
def test_dimensions_in_another_case_are_no_others(load: Load, given: str, meant: str):
    with pytest.raises(SpecError, match="case matters") as caught:
        load(spatial=f"{{spatial: {given}}}")
    assert f"did you mean `{meant}`?" in (caught.value.hint or "")
    assert "a.yaml:18:" in caught.value.render()


def test_renames_join_the_names_of_an_architecture_with_those_of_a_workload(load: Load):
    spatial = "{spatial: {permutation: [M, K, N], factors: {M: 2, N: 1}}}"
    with pytest.raises(SpecError) as caught:
        load(spatial=spatial.replace("M: 2, ", ""))
    suggested = "rank_variables: {M: m, K: k, N: n}"
    assert suggested in (caught.value.hint or "")
    renames = f"renames: {{einsums: [{{name: default, {suggested}}}]}}\n"
    network = load(spatial=spatial, workload=WORKLOAD + renames)
    assert factors(network) == {("m", "=", 2), ("n", "=", 1)}
    assert network.layers[0].mapspace.spatial[0].inner == ("m", "k", "n")


def test_the_key_of_a_factor_is_marked(load: Load):
    with pytest.raises(SpecError) as caught:
        load(spatial="{spatial: {factors: {m: 2, K: 4}}}")
    line = "    constraints: {spatial: {factors: {m: 2, K: 4}}}"
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (18, line.index("K") + 1)


def test_constraints_of_another_kind_of_problem_are_noted(load: Load):
    network = load(spatial="{spatial: {factors: [R=1, M=1], permutation: [R, S, M]}}")
    assert network.layers[0].mapspace.problem.bound["M"] == 1
    (note,) = (note for note in map(str, network.notes) if "no rank variable" in note)
    assert "`R`, `M` and `S`: no rank variable has this name (case matters: `M` is not `m`)" in note


def test_variables_that_no_file_uses_are_noted(tmp_path: Path):
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("M: 8", "M: {{ rows }}"), encoding="utf-8")
    network = load_network([tmp_path / "w.yaml", EYERISS], {"rows": 4, "row": 8})
    assert [note.text for note in network.notes if "variable `" in note.text] == [
        "no template uses the variable `row`; did you mean `rows`?"
    ]


def test_a_name_of_several_rank_variables_takes_no_factor_above_one(load: Load):
    with pytest.raises(SpecError, match="only factors of 1 and -1") as caught:
        load(spatial="{spatial: {factors: [all=2]}}")
    assert "a.yaml:18" in caught.value.render()


def test_what_only_a_later_einsum_runs_into_names_it(load: Load):
    text = WORKLOAD.replace("all: m | n", "all: m")
    text = text.replace('V[K: k, n]"', 'V[K: k, n]", renames: {all: m | n}')
    with pytest.raises(SpecError, match="only factors of 1 and -1") as caught:
        load(spatial="{spatial: {factors: [all=2]}}", workload=text)
    assert caught.value.message.startswith("Einsum `Z`: `all` means")


def test_a_name_of_several_rank_variables_may_be_left_free(load: Load):
    network = load(spatial="{spatial: {factors_only: [all=-1]}}")
    rules = network.layers[0].mapspace.spatial[0].factors
    assert [(rule.dim, rule.relation, rule.value) for rule in rules] == [("k", "=", 1)]


def test_an_unknown_tensor_is_an_error(load: Load):
    with pytest.raises(SpecError, match="`weigth` is not a tensor") as caught:
        load("{dataspace: {keep: [weigth]}}")
    assert caught.value.hint == "did you mean `weight`?"
    assert "^^^^^^" in caught.value.render()


def test_instances_and_copies(load: Load):
    network = load()
    assert [layer.n_instances for layer in network.layers] == [1, 3, 1, 1]
    assert [layer.is_copy for layer in network.layers] == [False, False, False, True]
    assert network.layers[3].transfer is None


def test_bits_per_value_set_the_words(load: Load):
    network = load(workload=WORKLOAD.replace("{All: 8}", "{All: 16}"))
    buffer = network.layers[0].mapspace.architecture.levels[1]
    assert (buffer.size_words, buffer.block_size, buffer.word_bits) == (256, 4, 16)
    assert not any("`register`" in note.text for note in network.notes)
    wide = load(workload=WORKLOAD.replace("{All: 8}", "{All: 200}"))
    assert any("`register` is too small" in note.text for note in wide.notes)


def test_values_of_several_sizes_are_packed(load: Load):
    mixed = load(workload=WORKLOAD.replace("{All: 8}", "{W: 4, Other: 16}"))
    buffer = mixed.layers[0].mapspace.architecture.levels[1]
    assert (buffer.size_words, buffer.block_size, buffer.word_bits) == (1024, 16, 4)
    assert set(buffer.packing) == {Packing("A", 4, 4), Packing("W", 16), Packing("T", 4, 4)}
    register = mixed.layers[0].mapspace.architecture.levels[2]
    assert (register.size_words, register.block_size, register.word_bits) == (32, 2, 4)
    assert set(register.packing) == {Packing("A", 1, 4, 2), Packing("W", 2), Packing("T", 1, 4, 2)}
    assert all(not level.packing for level in mixed.layers[2].mapspace.architecture.levels)
    (note,) = mixed.notes
    assert note.values == ("4 or 16 bits", "8 bits")


def test_persistent_tensors_take_their_part_of_the_outermost_level(load: Load):
    network = load(dram="depth: 100, block_size: 8")
    words = [layer.mapspace.architecture.levels[0].size_words for layer in network.layers]
    weights = 24
    assert words == [800 - 3 * weights, 800 - 3 * weights, 800 - 4 * weights, 800 - 4 * weights]
    for dram in ("depth: 8, block_size: 8", "sizeKB: 0.0625, block_size: 8"):
        layers = load(dram=dram).layers
        (overfull,) = layers[0].overfull
        text = "persistent tensors take 72 words of `DRAM`, which holds 64 of 8 bits"
        assert overfull.text == f"while Einsum `{layers[0].name}` runs, {text}"
        assert overfull.size_source is not None


def test_persistent_tensors_take_room_where_they_are_stored(load: Load):
    dram = "depth: 100, block_size: 8}\n    constraints: {dataspace: {bypass: [V]}"
    levels = [layer.mapspace.architecture.levels for layer in load(dram=dram).layers]
    assert [own[0].size_words for own in levels] == [800, 800 - 24, 800 - 24, 800 - 24]
    # V of the second Einsum, which runs three times, lies in the buffer.
    assert [own[1].size_words for own in levels] == [512 - 72, 512 - 48, 512 - 72, 512 - 72]
    with pytest.raises(SpecError, match="stored at `register`, which exists 8 times"):
        load(constraints="{dataspace: {bypass: [V]}}", dram=dram)


def test_persistent_tensors_take_the_rows_of_their_own_values(load: Load):
    """24 values of W, five in a row; 72 of V, two in a row: what others leave is in words of their own."""
    sizes = WORKLOAD.replace("{All: 8}", "{W: 12, V: 24, Other: 8}")
    network = load(workload=sizes, dram="depth: 100, block_size: 8")
    words = [layer.mapspace.architecture.levels[0].size_words for layer in network.layers]
    rows_of_w, rows_of_v = Fraction(24, 5), 36
    assert words[0] == (100 - rows_of_v) * 40
    assert words[1] == 800 - math.ceil((rows_of_w + Fraction(2, 3) * rows_of_v) * 8)
    assert words[2] == 800 - math.ceil((rows_of_w + rows_of_v) * 8)


def test_layer_files_are_mapped_as_by_map():
    layer = SPECS / "layers" / "resnet18" / "02_conv2_block1_a.yaml"
    network = load_network([layer, EYERISS])
    assert network.layers[0].name == "02_conv2_block1_a"
    alone = load_timeloop([EYERISS, layer]).mapspace
    own = network.layers[0].mapspace
    assert (own.problem, own.architecture, own.temporal) == (
        alone.problem,
        alone.architecture,
        alone.temporal,
    )


def test_layers_are_named_by_their_file_or_their_directories(tmp_path: Path):
    layers = SPECS / "layers"
    first, second = layers / "resnet18" / "02_conv2_block1_a.yaml", layers / "alexnet" / "02_conv2.yaml"
    alone = tmp_path / "net" / "layer.yaml"
    alone.parent.mkdir()
    alone.write_text(first.read_text(encoding="utf-8"), encoding="utf-8")
    titles = {
        "02_conv2_block1_a": [first],
        "layer": [alone],
        "net": [alone.parent],
        "resnet18": [first, first],
        "resnet18 and alexnet": [first, second],
    }
    assert {load_network([*named, EYERISS]).name: named for named in titles.values()} == titles


def test_a_directory_stands_for_its_layers():
    network = load_network([SPECS / "layers" / "resnet18", EYERISS])
    assert network.name == "resnet18"
    assert [layer.name[:2] for layer in network.layers] == [f"{n:02}" for n in range(1, 22)]


def test_layers_of_a_directory_may_include_what_lies_beside_it(tmp_path: Path):
    (tmp_path / "net").mkdir()
    (tmp_path / "base.yaml").write_text("problem: {shape: cnn-layer}\n", encoding="utf-8")
    text = "problem:\n  <<<: {{include('../base.yaml', 'problem')}}\n"
    text += "  instance: {R: 1, S: 1, P: 4, Q: 1, C: 2, K: 2, N: 1}\n"
    (tmp_path / "net" / "1.yaml").write_text(text, encoding="utf-8")
    assert len(load_network([tmp_path / "net", EYERISS]).layers) == 1
    with pytest.raises(SpecError, match="lies outside"):
        load_network([tmp_path / "net" / "1.yaml", EYERISS])


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a/x.yaml", "b/x.yaml"], ["a/x", "b/x"]),
        (["a/x.yaml", "a/x.yaml"], ["x#1", "x#2"]),
        (["a/x.yaml", "b/x.yaml", "a/x.yaml"], ["a/x#1", "b/x", "a/x#3"]),
        (["a/x.yaml", "a/x.yml", "b/y.yaml"], ["x#1", "x#2", "y"]),
        (["c/a/x.yaml", "d/a/x.yaml"], ["c/a/x", "d/a/x"]),
    ],
)
def test_layers_of_one_name_are_told_apart(tmp_path: Path, files: list[str], expected: list[str]):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SPECS / "layers" / "gemm" / "1024.yaml", tmp_path / name)
    network = load_network([*(tmp_path / name for name in files), EYERISS])
    assert [layer.name for layer in network.layers] == expected


def test_the_workload_has_the_mapspaces_of_the_layer_files():
    """ResNet-18 as a workload is the same problem as its layer files, but for names."""
    workload = load_network([SPECS / "workloads" / "resnet18.yaml", EYERISS], {"BITS": 16})
    layers = load_network([SPECS / "layers" / "resnet18", EYERISS])
    for own, other in zip(workload.layers, layers.layers, strict=True):
        assert sorted(own.mapspace.problem.bounds) == sorted(other.mapspace.problem.bounds)
        assert own.mapspace.architecture.levels[1:] != ()
        sizes = [(x.size_words, x.block_size, x.shared_bandwidth) for x in own.mapspace.architecture.levels]
        expected = [
            (x.size_words, x.block_size, x.shared_bandwidth) for x in other.mapspace.architecture.levels
        ]
        assert sizes == expected


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["workloads/attention.yaml"], "no architecture is given"),
        (["architectures/eyeriss_like.yaml"], "no workload and no layers"),
        (["layers/gemm/1024.yaml"], "no architecture is given"),
        (
            ["layers/gemm/1024.yaml", "workloads/attention.yaml", "architectures/eyeriss_like.yaml"],
            "one network at a time",
        ),
        (["layers/nowhere", "architectures/eyeriss_like.yaml"], "there is no file"),
    ],
)
def test_what_is_missing(files: list[str], message: str):
    with pytest.raises(SpecError, match=message):
        load_network([SPECS / name for name in files])


def test_a_mapping_of_the_architecture_is_left_out(load: Load, tmp_path: Path):
    load()
    (tmp_path / "m.yaml").write_text("mapping: []\n", encoding="utf-8")
    network = load_network(["w.yaml", "a.yaml", "m.yaml"])
    assert any("`mapping`" in note.text for note in network.notes)


def test_more_einsums_than_can_be_read_in_time_are_refused(load: Load):
    load()
    workload = load_workload(["w.yaml"]).workload
    many = replace(workload, einsums=workload.einsums * 2501)
    with pytest.raises(SpecError, match="10,004 Einsums; at most 10,000 are mapped") as caught:
        layers.network_of(many, read_files([Path("a.yaml")]), (), LoadOptions())
    assert caught.value.span.file == "w.yaml"


def test_an_unknown_section_is_refused(load: Load):
    with pytest.raises(SpecError, match="unknown top-level key `archs`"):
        load(workload=WORKLOAD + "archs: {}\n")


def test_architectures_of_both_kinds_are_refused(load: Load):
    with pytest.raises(SpecError, match=r"two architectures: `arch` of w\.yaml, and a\.yaml"):
        load(workload=WORKLOAD + "arch: {}\n")
