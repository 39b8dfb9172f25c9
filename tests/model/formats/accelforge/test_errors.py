"""Errors within an Einsum name it."""

from collections.abc import Callable

import pytest

from model.formats.accelforge import LoadedWorkload
from model.text.source import SpecError

Refuse = Callable[..., SpecError]

LAYERS = """workload:
  rank_sizes: {M: 8, N: 4}
  bits_per_value: {All: 8}
  einsums:
  {% for value in [FIRST, FIRST, LAST] %}
  - {einsum: "T{{ loop.index }}[m, n] = T{{ loop.index0 }}[m, n]", KEY: {{ value }}}
  {% endfor %}
"""


def layers(key: str, first: str, last: str) -> str:
    return LAYERS.replace("KEY", key).replace("FIRST", first).replace("LAST", last)


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("is_copy_operation", ("false", "5"), "Einsum `T3`: `is_copy_operation` must be"),
        ("n_instances", ("1", "0"), "Einsum `T3`: `n_instances` must be at least 1"),
        ("rank_sices", ("1", "1"), "unknown key `rank_sices` in Einsum `T1`"),
    ],
)
def test_of_einsums_that_a_template_writes(refuse: Refuse, key: str, values: tuple[str, str], message: str):
    assert refuse(layers(key, *values)).message.startswith(message)


def test_what_is_right_stays(load: Callable[..., LoadedWorkload]):
    loaded = load(layers("n_instances", "2", "1"))
    assert [own.n_instances for own in loaded.workload.einsums] == [2, 2, 1]


@pytest.mark.parametrize(
    ("einsum", "message"),
    [
        ('"Y[m] = A[m, q]"', "Einsum `Y`: rank `Q` is undefined"),
        ('"Y[m] = A[M]"', "Einsum `Y`: `M` is not a rank variable"),
        ('"  Y[m] = A[m] = B[m]"', "Einsum `Y`: an Einsum is written"),
        ("{name: last, einsum: 'Y[m] = A[m]', n_instances: 0}", "Einsum `last`: `n_instances` must be"),
        ("{name: last}", "Einsum `last`: an Einsum needs `einsum` or `tensor_accesses`"),
        ("{name: last, tensor_accesses: [{name: A, projection: m}]}", "Einsum `last`: `projection` must be"),
        ("{einsum: 'Y[m] = A[m]', renames: {x: Bb}}", "Einsum `Y`: `Bb` is not a tensor"),
        ("{einsum: 'Y[m] = A[m]', rank_sizes: {M: 0}}", "Einsum `Y`: the size of rank `M` must be"),
        ("{einsum: 'Y[m] = A[m]', iteration_space_shape: {m: 9 < m}}", "Einsum `Y`: no value of `m` is left"),
        ('"Y[m] = X * Z[m, n]"', "Einsum `Y`: `X` is not a rank, variable or function"),
        ('"Y[m] = Z[m]"', "Einsum `Y`: tensor `Z` has 1 ranks here"),
        ("'Z[m] = A[m]'", "two Einsums are named `Z`"),
        ("[]", "`einsums` must not be empty"),
        ("7", "an Einsum is written"),
    ],
)
def test_of_einsums_that_are_written_out(refuse: Refuse, einsum: str, message: str):
    others = "" if einsum == "[]" else '\n  - "Z[m, n] = I[m, n]"'
    sizes = "  rank_sizes: {M: 8, N: 4}\n  bits_per_value: {All: 8}\n"
    assert refuse(f"workload:\n{sizes}  einsums:{others}\n  - {einsum}\n").message.startswith(message)
