"""Densities, formats, gating and skipping as specs write them, and errors at their places."""

from fractions import Fraction

import pytest

from model.mapspace import Mapspace
from model.sparsity import Conditional, Density, Optimization, Rank, Representation
from tests.model.formats.timeloop.support import BUFFER, DRAM, MAC, PROBLEM, architecture, load, marked, spec
from tests.model.formats.timeloop.support import failure as refusal

METADATA = "metadata_storage_width: 16, metadata_datawidth: 4, metadata_storage_depth: 64"
WIDE_DRAM = DRAM.replace("datawidth: 16}", f"datawidth: 16, {METADATA}}}")
WIDE_BUFFER = BUFFER.replace("datawidth: 16}", f"datawidth: 16, {METADATA}}}")
NODES = architecture(WIDE_DRAM, WIDE_BUFFER, MAC)


def sparse(text: str) -> Mapspace:
    return load(text, model_sparse=True).mapspace


def failure(text: str):
    with pytest.raises(Exception) as caught:
        sparse(text)
    return caught.value


def dense_but(densities: str) -> str:
    return PROBLEM.replace("K: 8}", f"K: 8, {densities}}}")


def section(target: str, key: str, value: str) -> str:
    return f"sparse_optimizations: {{targets: [{{name: {target}, {key}: {value}}}]}}\n"


def with_format(ranks: str, more: str = "") -> str:
    entry = f"{{data_spaces: [{{name: Weights, ranks: {ranks}{more}}}]}}"
    return spec(section("buffer", "representation_format", entry), arch=NODES)


def with_actions(actions: str, target: str = "buffer", key: str = "action_optimization") -> str:
    return spec(section(target, key, actions), arch=NODES)


@pytest.mark.parametrize(
    ("written", "density"),
    [
        ("0.25", Density(share=Fraction(1, 4))),
        ("{distribution: fixed, density: 0.25}", Density(share=Fraction(1, 4))),
        ("{distribution: hypergeometric, density: 0.1}", Density("hypergeometric", Fraction(1, 10))),
    ],
)
def test_densities(written, density):
    for text in (f"densities: {{Weights: {written}}}", f"commonDensity: {written}"):
        sparsity = sparse(spec(problem=dense_but(text))).sparsity
        assert sparsity is not None
        assert sparsity.density("Weights") == density
        assert sparsity.density("Inputs") == (density if "common" in text else Density())
        assert not sparsity.optimized


def test_densities_of_one_are_dense():
    assert sparse(spec(problem=dense_but("densities: {Weights: 1}"))).sparsity is None


def test_densities_alone_change_nothing_and_a_note_says_so():
    notes = load(spec(problem=dense_but("densities: {Weights: 0.5}")), model_sparse=True).notes
    assert any("densities have no effect" in note.text for note in notes)


def test_a_band_needs_a_square_matrix():
    square = PROBLEM.replace("projection: [[[R]], [[C]], [[K]]]", "projection: [[[C]], [[P]]]")
    bands = "{distribution: diagonal, band_width: 2}"
    text = square.replace("C: 4, K: 8}", f"C: 16, K: 8, densities: {{Weights: {bands}}}}}")
    sparsity = sparse(spec(problem=text)).sparsity
    assert sparsity is not None
    assert sparsity.density("Weights") == Density("banded", Fraction(1), 2)
    error = failure(spec(problem=dense_but(f"densities: {{Weights: {bands}}}")))
    assert error.message == "a band needs a square matrix, and `Weights` is 3 x 4 x 8"
    assert marked(error) == bands


@pytest.mark.parametrize(
    ("written", "message", "mark"),
    [
        ("densities: {Weights: 1.5}", "density of `Weights` must be between 0 and 1, but is 1.5", "1.5"),
        ("densities: {Weights: -1}", "must be between 0 and 1", "-1"),
        ("densities: {Weight: 0.5}", "unknown dataspace `Weight`", "Weight"),
        ("densities: {Weights: {distribution: normal, density: 0.5}}", "unknown distribution", "normal"),
        ("densities: {Weights: {distribution: fixed}}", "density", None),
        ("densities: {Weights: {density: 0.5, band_width: 2}}", "does not apply", "band_width"),
        ("densities: {Weights: 0.5}, commonDensity: 0.5", "second place of densities", "commonDensity"),
    ],
)
def test_wrong_densities_are_marked(written, message, mark):
    error = failure(spec(problem=dense_but(written)))
    assert message in error.message
    assert mark is None or marked(error) == mark


def test_formats():
    ranks = (
        "[{format: UOP, payload_word_bits: 5}, {format: cp, flattened_rankIDs: [[R, C], [K]]}, {format: B}]"
    )
    sparsity = sparse(with_format(ranks, ", rank_application_order: inner_to_outer")).sparsity
    assert sparsity is not None
    lowest, middle, top = Rank("B", 1, 4), Rank("CP", 4, 4, (("R", "C"), ("K",))), Rank("UOP", 4, 8)
    buffer = sparsity.levels[1]
    assert buffer.representations == {"Weights": Representation((lowest, middle, top), inner_to_outer=True)}
    assert (buffer.metadata_width_bits, buffer.metadata_size_bits) == (16, 1024)


def test_formats_on_a_component_are_the_same():
    entry = "{name: Weights, ranks: [{format: CP}]}"
    own = f"    sparse_optimizations: {{representation_format: {{data_spaces: [{entry}]}}}}\n"
    text = spec(arch=architecture(WIDE_DRAM, WIDE_BUFFER + own, MAC))
    assert sparse(text).sparsity == sparse(with_format("[{format: CP}]")).sparsity


@pytest.mark.parametrize(
    ("ranks", "message", "mark"),
    [
        ("[{format: CP}, {format: UOP}]", "CP cannot lie above one of format UOP", "{format: CP}"),
        ("[{format: CSR}]", "unknown format `CSR`", "CSR"),
        ("[]", "`ranks` must not be empty", "[]"),
        ("[{format: CP, metadata_word_bits: 17}]", "does not fit into a row of 16 bits", "17"),
        ("[{format: CP, bits: 17}]", "unknown key `bits`", "bits"),
        ("[{format: CP, flattened_rankIDs: [[r]]}]", "unknown dimension `r`", "r"),
    ],
)
def test_wrong_formats_are_marked(ranks, message, mark):
    error = failure(with_format(ranks))
    assert message in error.message
    assert marked(error) == mark


def test_actions():
    one, other = (
        "{target: Weights, condition_on: [Inputs]}",
        "{target: Inputs, condition_on: [Weights]}",
    )
    gating = "{type: gating, target: Outputs, condition_on: [Weights, Inputs]}"
    text = with_actions(f"[{gating}, {{type: skipping, options: [{one}, {other}]}}]")
    sparsity = sparse(text).sparsity
    assert sparsity is not None
    assert sparsity.levels[1].optimizations == (
        Optimization("gating", (Conditional("Outputs", ("Weights", "Inputs")),)),
        Optimization("skipping", (Conditional("Weights", ("Inputs",)), Conditional("Inputs", ("Weights",)))),
    )


def test_arithmetic():
    compute = "[{type: gating}, {type: skip_on_not_aligned_operands}]"
    sparsity = sparse(with_actions(compute, "mac", "compute_optimization")).sparsity
    assert sparsity is not None
    assert sparsity.compute.gates_zeros
    assert sparsity.compute.skips_unaligned


@pytest.mark.parametrize(
    ("actions", "message", "mark"),
    [
        ("[{type: gate, target: Weights, condition_on: [Inputs]}]", "unknown type `gate`", "gate"),
        ("[{type: gating, target: Weight, condition_on: [Inputs]}]", "unknown dataspace `Weight`", "Weight"),
        ("[{type: gating, target: Weights, condition_on: [Input]}]", "unknown dataspace `Input`", "Input"),
        ("[{type: gating, target: Weights, condition_on: []}]", "must name a dataspace", "[]"),
        ("[{type: gating, target: Weights, condition_on: Inputs}]", "must be a list", "Inputs"),
        ("[{type: gating, target: Weights, condition_on: [Weights]}]", "a condition of itself", "Weights"),
        ("[{type: gating, target: Weights}]", "is missing the key `condition_on`", None),
        ("[{type: gating, options: []}]", "must not be empty", "[]"),
        ("[{type: gating, options: [], target: Weights}]", "stands beside `options`", "target"),
    ],
)
def test_wrong_actions_are_marked(actions, message, mark):
    error = failure(with_actions(actions))
    assert message in error.message
    assert mark is None or marked(error) == mark


@pytest.mark.parametrize(
    ("target", "key", "message"),
    [
        ("mac", "action_optimization", "belongs on a storage, but `mac` is not one"),
        ("buffer", "compute_optimization", "belongs on the compute component, but `buffer` is not one"),
        ("bufer", "action_optimization", "unknown component `bufer`"),
    ],
)
def test_optimizations_belong_on_their_components(target, key, message):
    assert message in failure(with_actions("[{type: gating}]", target, key)).message


@pytest.mark.parametrize(
    ("attributes", "message", "mark"),
    [
        ("tile_partition_supported: true", "tiles are not partitioned", "true"),
        ("metadata_storage_width: 10, metadata_datawidth: 4", "whole number of words of 4 bits", "10"),
    ],
)
def test_wrong_attributes_are_marked(attributes, message, mark):
    buffer = BUFFER.replace("datawidth: 16}", f"datawidth: 16, {attributes}}}")
    actions = "[{type: gating, target: Weights, condition_on: [Inputs]}]"
    part = section("buffer", "action_optimization", actions)
    error = failure(spec(part, arch=architecture(DRAM, buffer, MAC)))
    assert message in error.message
    assert marked(error) == mark


def test_support_and_overbooking():
    attributes = "decompression_supported: true, compression_supported: true, allow_overbooking: true"
    buffer = BUFFER.replace("datawidth: 16}", f"datawidth: 16, {attributes}}}")
    buffer += "    constraints: {max_overbooked_proportion: {proportion: 0.1}}\n"
    actions = "[{type: gating, target: Weights, condition_on: [Inputs]}]"
    part = section("buffer", "action_optimization", actions)
    sparsity = sparse(spec(part, arch=architecture(DRAM, buffer, MAC))).sparsity
    assert sparsity is not None
    level = sparsity.levels[1]
    assert level.decompresses
    assert level.compresses
    assert level.allow_overbooking
    assert level.max_overbooked == Fraction(1, 10)


def test_energies_by_kind():
    energies = (
        "energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005, gated_read: 0.5, metadata_read: 0.25}"
    )
    buffer = WIDE_BUFFER.replace("energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005}", energies)
    actions = "[{type: gating, target: Weights, condition_on: [Inputs]}]"
    part = section("buffer", "action_optimization", actions)
    mapspace = sparse(spec(part, arch=architecture(DRAM, buffer, MAC)))
    assert mapspace.sparsity is not None
    units = mapspace.architecture.units_per_pj
    assert mapspace.sparsity.levels[1].energy == {"gated_read": units // 2, "metadata_read": units // 4}


def test_sections_are_refused_where_nothing_models_them():
    error = refusal(with_format("[{format: CP}]"))
    assert error.message == "`sparse_optimizations`: this command does not support sparse data"
    assert "--ignore-sparse" in (error.hint or "")
