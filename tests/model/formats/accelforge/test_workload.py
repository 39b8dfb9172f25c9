"""Workloads: the forms of Einsums, bits, persistence, and what is refused."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from model.formats.accelforge import LoadedWorkload
from model.text.source import SpecError

Load = Callable[..., LoadedWorkload]
Refuse = Callable[..., SpecError]

HEAD = "workload:\n  bits_per_value: {All: 8}\n"
MATMUL = HEAD + "  rank_sizes: {M: 4, N: 5, K: 6}\n  einsums:\n"
VERBOSE = """
  - name: Z
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: {K: k, N: n}}
    - {name: Z, projection: [m, n], output: True}
"""


@pytest.mark.parametrize(
    "einsums",
    [
        '  - "Z[m, n] = A[m, k] * B[k, n]"\n',
        "  - Z[m,n] = A[m,k]*B[k,n]\n",
        '  - {einsum: "Z[ m , n ] = sum(A[m, K: k]) / 3 + B[k, N: n]"}\n',
        '  - - - "Z[m, n] = A[m, k] * B[k, n]"\n',
        '  - einsum: "Z[m, n] = A[m, k] * B[k, n]"\n    tensor_accesses: [{name: A, bits_per_value: 8}]\n',
        VERBOSE,
        VERBOSE.replace("{K: k, N: n}", "[k, N: n]"),
    ],
)
def test_the_forms_of_an_einsum(load: Load, einsums: str):
    (einsum,) = load(MATMUL + einsums).workload.einsums
    assert einsum.name == "Z"
    assert einsum.rank_variables == ("m", "k", "n")
    assert einsum.ranges == (range(4), range(6), range(5))
    assert [(a.tensor, a.output) for a in einsum.accesses] == [("A", False), ("B", False), ("Z", True)]
    assert [tuple(i.rank for i in a.indices) for a in einsum.accesses] == [("M", "K"), ("K", "N"), ("M", "N")]
    assert einsum.is_box


def test_a_tensor_that_appears_twice_is_accessed_twice(load: Load):
    (einsum,) = load(MATMUL + '  - "Z[m, n] = A[m, k] * A[M: n, k]"\n').workload.einsums
    assert [a.tensor for a in einsum.accesses] == ["A", "A", "Z"]
    assert einsum.bounds == {"m": 4, "k": 6, "n": 4}


def test_densities_are_refused_or_ignored(load: Load, refuse: Refuse):
    plain = load(MATMUL + VERBOSE)
    of_access = MATMUL + VERBOSE.replace("[m, k]", "[m, k], density: 0.5, density_distribution: structured")
    of_workload = MATMUL + VERBOSE + "  densities: {A: 0.5, B: 1}\n"
    for text, key in ((of_access, "density"), (of_workload, "densities")):
        error = refuse(text)
        assert error.message == f"`{key}`: this command does not support sparse data"
        assert "--ignore-sparse" in (error.hint or "")
        ignored = load(text, ignore_sparse=True)
        assert ignored.workload == plain.workload
        assert f"`{key}` is ignored; all data is treated as dense" in ignored.notes[0].text
    assert "`density_distribution` has no effect" in load(of_access, ignore_sparse=True).notes[1].text
    dense = load(of_workload.replace("0.5", "1.0"))
    assert (dense.workload, dense.notes) == (plain.workload, plain.notes)


def test_a_function_named_copy_is_noted(load: Load):
    text = MATMUL + '  - {einsum: "Z[m, n] = copy(A[m, n])"}\n'
    (note,) = (note for note in map(str, load(text).notes) if "copy" in note)
    assert note.endswith(
        "`copy` is computed like any other function; `is_copy_operation: true` makes it a move"
    )
    moved = load(text.replace('])"', '])", is_copy_operation: true'))
    assert not any("copy" in note.text for note in moved.notes)


def test_versions_of_older_files_are_noted(load: Load):
    text = MATMUL + '  - {einsum: "Z[m, n] = A[m, k] * B[k, n]"}\n'
    loaded = load(text + '  version: "0.5"\nrenames: {version: 0.5}\n')
    assert loaded.workload == load(text).workload
    assert ["`version` has no effect" in note.text for note in loaded.notes] == [True, True]


def test_named_operations_change_no_cost(load: Load):
    plain = load(MATMUL + '  - {einsum: "Z[m, n] = A[m, k] * B[k, n]"}\n')
    named = load(MATMUL + '  - {einsum: "Z[m, n] = A[m, k] * B[k, n]", map_op: add, reduce_op: max}\n')
    assert named.workload == plain.workload
    assert ["`map_op: add`" in named.notes[0].text, "`reduce_op: max`" in named.notes[1].text] == [True, True]


@pytest.mark.parametrize(
    "right",
    [
        "exp(A[m] - B[m]) / 3",
        "max(A[m], 1e-6) / sqrt(K)",
        "A[m] max B[m] * M",
        "ReLU (A[m]) + 2.5e3 * SCALE",
        "GELU(A[m])",
    ],
)
def test_words_between_tensors_are_functions_and_constants(load: Load, right: str):
    (einsum,) = load(f'{MATMUL}  - "Z[m] = {right}"\nvariables: {{SCALE: 2}}\n').workload.einsums
    assert einsum.rank_variables == ("m",)


@pytest.mark.parametrize(
    ("right", "word", "hint"),
    [
        ("A[m] * W", "W", "tensors have indices"),
        ("Q2(A[m]) + W0", "W0", "tensors have indices"),
        ("A[m] * a1", "a1", "give it indices, as in `a1[m, k]`"),
        ("A[m] * Xx", "Xx", "did you mean `XX`?"),
        ("XX(A[m])", "XX", "a single value is written `XX[]`"),
    ],
)
def test_a_tensor_without_indices_is_refused_at_its_place(refuse: Refuse, right: str, word: str, hint: str):
    line = f'  - "Z[m] = {right}"'
    error = refuse(f'{MATMUL}  - "XX[m] = a1[m]"\n{line}\n')
    assert f"`{word}`" in error.message
    assert hint in (error.hint or "")
    assert (error.span.line, error.span.column) == (6, line.index(word) + 1)
    assert error.span.end_column == error.span.column + len(word)


def test_a_scalar_has_no_ranks(load: Load):
    (einsum,) = load(MATMUL + '  - "Z[] = A[m] * B[m]"\n').workload.einsums
    assert einsum.accesses[-1].indices == ()
    assert einsum.size_values(einsum.accesses[-1]) == 1


def test_sizes_are_expressions_over_other_sizes_and_variables(load: Load):
    text = (
        "variables: {two: 2}\n" + HEAD + "  rank_sizes: {X: 8, M: ceil(27 / X) * two, N: M + 1}\n  einsums:\n"
    )
    loaded = load(text + '  - {einsum: "Z[m, n] = A[m, n]", rank_sizes: {N: N * 2}}\n')
    assert loaded.workload.einsums[0].bounds == {"m": 8, "n": 18}
    assert any("`X`; its size has no effect" in note.text for note in loaded.notes)


def test_quoted_numbers_are_numbers(load: Load):
    text = """
workload:
  rank_sizes: {M: "{{ROWS}}", K: '3'}
  bits_per_value: {All: "16"}
  n_instances: '2'
  einsums:
  - {einsum: "Z[m] = A[m, k]", tensor_accesses: [{name: A, persistent: "True"}]}
"""
    (einsum,) = load(text, ROWS=5).workload.einsums
    assert einsum.bounds == {"m": 5, "k": 3}
    assert einsum.n_instances == 2
    assert {access.bits_per_value for access in einsum.accesses} == {16}
    assert [access.persistent for access in einsum.accesses] == [True, False]


def test_what_is_empty_counts_as_not_given(load: Load):
    text = """
variables:
renames: {einsums: }
workload:
  rank_sizes:
  iteration_space_shape: {m: 0 <= m < 3}
  bits_per_value: {All: 8}
  n_instances:
  persistent_tensors:
  einsums:
  - {einsum: "Z[m] = A[m]", name: , renames: , rank_sizes: , iteration_space_shape: , n_instances: ,
     is_copy_operation: , tensor_accesses: }
  - name: Y
    tensor_accesses:
    - {name: Z, projection: [m], output: , persistent: }
    - {name: Y, projection: [m], output: 1}
    renames: [{name: in, source: Z, expected_count: }]
"""
    first, second = load(text).workload.einsums
    assert (first.name, first.bounds, first.n_instances, first.is_copy_operation) == ("Z", {"m": 3}, 1, False)
    assert second.tensor_renames == (("in", ("Z",)),)


def test_an_einsum_in_several_lines_has_its_errors_in_their_line(refuse: Refuse):
    text = MATMUL + "  - >-\n    Z[m, n] = A[m, k]\n      * B[k, n + 1]\n"
    error = refuse(text)
    line = text.splitlines()[error.span.line - 1]
    assert line[error.span.column - 1 : error.span.end_column - 1] == "n + 1"


def test_instances_multiply(load: Load):
    text = MATMUL.replace("workload:\n", "workload:\n  n_instances: 3\n")
    loaded = load(text + '  - {einsum: "Z[m] = A[m]", n_instances: 2 * 2}\n  - "Y[n] = B[n]"\n')
    assert [einsum.n_instances for einsum in loaded.workload.einsums] == [12, 3]


def test_bits_per_value(load: Load):
    text = MATMUL.replace("{All: 8}", "{Outputs: 32, weight: 4, Other: 16}")
    loaded = load(
        text
        + '  - {einsum: "Z[m, n] = A[m, k] * B[k, n]", renames: {weight: B}}\n'
        + '  - {einsum: "Y[m] = C[m] * D[m]", renames: {weight: D},'
        + " tensor_accesses: [{name: D, bits_per_value: 2}]}\n"
    )
    bits = [{a.tensor: a.bits_per_value for a in e.accesses} for e in loaded.workload.einsums]
    assert bits == [{"A": 16, "B": 4, "Z": 32}, {"C": 16, "D": 2, "Y": 32}]


def test_persistence_and_scale(load: Load):
    text = MATMUL.replace("workload:\n", "workload:\n  persistent_tensors: Inputs - A\n")
    loaded = load(
        text
        + '  - einsum: "Z[m, n] = A[m, k] * B[k, n] * C[k]"\n'
        + "    tensor_accesses:\n    - {name: A, persistent: True, backing_storage_size_scale: 0.5}\n"
        + "    - {name: C, persistent: False}\n"
    )
    accesses = loaded.workload.einsums[0].accesses
    assert [a.persistent for a in accesses] == [True, True, False, False]
    assert accesses[0].backing_storage_size_scale == Fraction(1, 2)


def test_einsums_may_stand_before_those_that_they_read_from(load: Load):
    einsums = '  - "Z[m] = Y[m]"\n  - "Y[m] = X[m]"\n  - "V[m] = Y[m]"\n'
    workload = load(MATMUL + einsums).workload
    assert [e.name for e in workload.einsums] == ["Z", "Y", "V"]
    assert workload.intermediates == {"Y"}
    assert [einsum.name for einsum in workload.einsums if "Y" in einsum.outputs] == ["Y"]
    assert workload.einsum("V").inputs == ("Y",)


def test_template_errors_have_the_templates_line(refuse: Refuse):
    error = refuse("{% set A = 1 %}\nworkload:\n  rank_sizes: {M: {{N_TOKENS}}}\n")
    assert error.span.line == 3
    assert "--set N_TOKENS=VALUE" in (error.hint or "")


BAD = {
    "rank `N` is undefined": '  rank_sizes: {M: 4}\n  einsums: ["Z[m, n] = A[m]"]\n',
    "there is no size": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[H: m + r]"]\n',
    "no value of `m` is left": '  iteration_space_shape: {m: 4 <= m < 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "lies outside of rank": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[M: 4] * B[m]"]\n',
    "is not a rank variable of Einsum": "  rank_sizes: {M: 4, N: 2}\n"
    '  einsums: ["Y[n] = B[n]", {einsum: "Z[m] = A[m]", iteration_space_shape: [n < 1]}]\n',
    "does not mention `m`": '  iteration_space_shape: {m: 0 <= n < 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "a comparison such as": '  iteration_space_shape: {m: m + 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "at least 1": '  rank_sizes: {M: 0}\n  einsums: ["Z[m] = A[m]"]\n',
    "whole number": '  rank_sizes: {M: 7 / 2}\n  einsums: ["Z[m] = A[m]"]\n',
    "`m` is not the name of a rank": '  rank_sizes: {m: 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "depend on each other": '  rank_sizes: {M: N, N: M}\n  einsums: ["Z[m] = A[m]"]\n',
    "with one `=`": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[m] = B[m]"]\n',
    "there must be one tensor": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] + Y[m] = A[m]"]\n',
    "on the right": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = 3"]\n',
    "`[` does not belong to a tensor": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[m] + [m"]\n',
    "`{` does not belong to a tensor": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A{m} * B[m]"]\n',
    "is not a rank variable": '  rank_sizes: {M: 4}\n  einsums: ["Z[M] = A[m]"]\n',
    "not the name of a rank": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[m: m]"]\n',
    "indexed twice": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[m, M: m]"]\n',
    "two Einsums are named": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = A[m]", "Z[m] = B[m]"]\n',
    "produced by two Einsums": "  rank_sizes: {M: 4}\n"
    '  einsums: ["Z[m] = A[m]", {name: Y, einsum: "Z[m] = B[m]"}]\n',
    "cyclic dependency between Einsums: `X` -> `Z` -> `Y` -> `X`": "  rank_sizes: {M: 4}\n"
    '  einsums: ["X[m] = Z[m]", "Y[m] = X[m]", "Z[m] = Y[m]"]\n',
    "cyclic dependency: Einsum `Z` reads `Z`": '  rank_sizes: {M: 4}\n  einsums: ["Z[m] = Z[m] + A[m]"]\n',
    "inconsistent rank sizes: `m` is 0..7": "  rank_sizes: {M: 4}\n"
    '  einsums: ["Y[m] = A[m]", {einsum: "Z[m] = B[m]", rank_sizes: {M: 8}}]\n',
    "inconsistent rank sizes: rank `M` of tensor `Y` is 8": "  rank_sizes: {M: 4}\n"
    '  einsums: ["Y[m] = A[m]", {einsum: "Z[p] = Y[M: p]", rank_sizes: {M: 8, P: 8}}]\n',
    "inconsistent rank sizes: rank `M` of tensor `Y` is 0..7 here": "  rank_sizes: {N: 4}\n"
    "  iteration_space_shape: {m: 0 <= m < 4, p: 0 <= p < 8}\n"
    '  einsums: ["Y[m] = A[m]", "Z[M: p] = Y[M: p]"]\n',
    "inconsistent rank sizes: rank `M` of tensor `Y` is 1..8 here": "  rank_sizes: {P: 4}\n"
    "  iteration_space_shape: {p: 1 <= p <= 8, m: 0 <= m < 4}\n"
    '  einsums: [{einsum: "Y[m] = A[m]", rank_sizes: {M: 4}}, "Z[Q: p] = Y[M: p]"]\n',
    "has 1 ranks here, but 2 before": "  rank_sizes: {M: 4, N: 4}\n"
    '  einsums: ["Y[m, n] = A[m]", "Z[m] = Y[m]"]\n',
    "covers tensor `A` of Einsum `Z` twice": "  rank_sizes: {M: 4}\n  bits_per_value: {Inputs: 8, A: 4}\n"
    '  einsums: ["Z[m] = A[m]"]\n',
    "has no bits_per_value": "  rank_sizes: {M: 4}\n"
    '  bits_per_value: {Inputs: 8}\n  einsums: ["Z[m] = A[m]"]\n',
    "`bits_per_value` of tensor `Y` is 8 here, but 4": "  rank_sizes: {M: 4}\n"
    "  bits_per_value: {Inputs: 8, Outputs: 4}\n"
    '  einsums: ["Y[m] = A[m]", "Z[m] = Y[m]"]\n',
    "`persistent` of tensor `Y` is True here, but False": "  rank_sizes: {M: 4}\n"
    "  persistent_tensors: Inputs\n"
    '  einsums: ["Y[m] = A[m]", "Z[m] = Y[m]"]\n',
    "`A` has two values of `persistent`": "  rank_sizes: {M: 4}\n  einsums: [{name: Z, tensor_accesses:"
    " [{name: A, projection: [m], persistent: True}, {name: A, projection: [m], persistent: False},"
    " {name: Z, projection: [m], output: True}]}]\n",
    "a copy operation has one input": "  rank_sizes: {M: 4}\n"
    '  einsums: [{einsum: "Z[m] = A[m] * B[m]", is_copy_operation: true}]\n',
    "unknown key `rank_size`": '  rank_size: {M: 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "unknown key `sizes`": '  rank_sizes: {M: 4}\n  einsums: [{einsum: "Z[m] = A[m]", sizes: 3}]\n',
    "unknown key `bits`": "  rank_sizes: {M: 4}\n  einsums: [{name: Z, tensor_accesses:"
    " [{name: A, projection: [m], bits: 3}]}]\n",
    "unknown tag": '  rank_sizes: !Memory {M: 4}\n  einsums: ["Z[m] = A[m]"]\n',
    "writes no tensor": "  rank_sizes: {M: 4}\n  einsums: [{name: Z, tensor_accesses:"
    " [{name: A, projection: [m]}]}]\n",
    "needs a `name`": "  rank_sizes: {M: 4}\n  einsums: [{tensor_accesses:"
    " [{name: A, projection: [m], output: True}]}]\n",
    "needs `einsum` or": "  rank_sizes: {M: 4}\n  einsums: [{name: Z}]\n",
    "already given by `einsum`": "  rank_sizes: {M: 4}\n"
    '  einsums: [{einsum: "Z[m] = A[m]", tensor_accesses: [{name: A, projection: [m]}]}]\n',
    "is not a tensor of this Einsum": "  rank_sizes: {M: 4}\n"
    '  einsums: [{einsum: "Z[m] = A[m]", tensor_accesses: [{name: B, persistent: True}]}]\n',
    "must be a list or a mapping": "  rank_sizes: {M: 4}\n"
    "  einsums: [{name: Z, tensor_accesses: [{name: A, projection: m, output: True}]}]\n",
    "must not be empty": "  rank_sizes: {M: 4}\n  einsums: []\n",
    "is missing the key `einsums`": "  rank_sizes: {M: 4}\n",
    "must be positive": "  rank_sizes: {M: 4}\n"
    '  einsums: [{einsum: "Z[m] = A[m]", tensor_accesses: [{name: A, backing_storage_size_scale: 0}]}]\n',
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_refused_with_its_place(refuse: Refuse, message: str):
    body = BAD[message]
    bits = "" if "bits_per_value: {" in body else "  bits_per_value: {All: 8}\n"
    error = refuse("workload:\n" + bits + body)
    assert message in error.message
    assert "^" in error.render()


@pytest.mark.parametrize(
    ("message", "notes"),
    [
        ("produced by two Einsums", 1),
        ("inconsistent rank sizes: rank `M` of tensor `Y` is 8", 1),
        ("inconsistent rank sizes: `m` is 0..7", 1),
        ("cyclic dependency between Einsums: `X` -> `Z` -> `Y` -> `X`", 2),
        ("`bits_per_value` of tensor `Y` is 8 here, but 4", 1),
    ],
)
def test_contradictions_name_both_places(refuse: Refuse, message: str, notes: int):
    bits = "" if "bits_per_value: {" in BAD[message] else "  bits_per_value: {All: 8}\n"
    error = refuse("workload:\n" + bits + BAD[message])
    assert len(error.related) == notes


def test_an_einsum_that_needs_quotes_is_told_so(refuse: Refuse):
    error = refuse(MATMUL + "  - Z[m] = A[M: m, d] * B[d]\n")
    assert "`Z[m] = A[M` is read as a key: the Einsum has `: ` and no quotes" in error.message
    assert "in quotes" in (error.hint or "")


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("arch: {}\n", "`arch` of AccelForge is not read"),
        ("mapper: {}\n", "`mapper` of AccelForge"),
        ("workloads: {}\n", "unknown top-level key"),
        ("renames: {einsum: []}\n", "unknown key `einsum`"),
        ("variables: 3\n", "must be a mapping"),
    ],
)
def test_top_level_keys(refuse: Refuse, top: str, message: str):
    assert message in refuse(top + MATMUL + '  - "Z[m] = A[m]"\n').message


def test_ranks_of_other_names_are_compared_by_position_and_noted(load: Load):
    loaded = load(MATMUL + '  - "Y[m, n] = A[m, n]"\n  - "Z[m, n] = Y[P: m, Q: n]"\n')
    assert any("ranks `P` and `Q` here, but `M` and `N`" in note.text for note in loaded.notes)
