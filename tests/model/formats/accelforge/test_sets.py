"""Set expressions and renames."""

from collections.abc import Callable

import pytest

from model.formats.accelforge import LoadedWorkload
from model.text.source import SpecError

Load = Callable[..., LoadedWorkload]
Refuse = Callable[..., SpecError]

CASCADE = """
variables: {two: 2}
workload:
  rank_sizes: {M: 4, N: 4, K: 4, J: 4}
  bits_per_value: {All: 8}
  persistent_tensors: B
  einsums:
  - einsum: "T[m, n] = A[m, k] * B[k, n]"
    renames: RENAMES
  - einsum: "Z[m, j] = T[m, n] * C[n, j]"
"""


def renamed(load: Load, source: str) -> set[str]:
    loaded = load(CASCADE.replace("RENAMES", f"{{x: {source}}}"))
    einsum = loaded.workload.einsums[0]
    return set(dict((*einsum.tensor_renames, *einsum.rank_variable_renames))["x"])


@pytest.mark.parametrize(
    ("source", "members"),
    [
        ("All", "ABT"),
        ("Tensors", "ABT"),
        ("Nothing", ""),
        ("~Nothing", "ABT"),
        ("Inputs", "AB"),
        ("Inputs()", "AB"),
        ("Outputs()", "T"),
        ("~Outputs", "AB"),
        ("Intermediates", "T"),
        ("Shared", "T"),
        ("Persistent", "B"),
        ("A", "A"),
        ("C", ""),
        ("~C", "ABT"),
        ("A | T", "AT"),
        ("Inputs & B", "B"),
        ("Inputs - B", "A"),
        ("Inputs ^ (B | T)", "AT"),
        ("~(A | B) & All", "T"),
        ("A if len(Inputs) == 2 else B", "A"),
        ("A if len(Intermediates) > two else B", None),
        ("B if len(All) == 3 and not len(Nothing) else A", "B"),
        ("m", "m"),
        ("j", ""),
        ("~m", "kn"),
        ("A.rank_variables", "mk"),
        ("Inputs.rank_variables - Outputs.rank_variables", "k"),
        ("(m | n).tensors", "ABT"),
        ("k.tensors", "AB"),
        ("A if A.bits_per_value == 8 else B", "A"),
        ("Intermediates & Inputs or Inputs", "AB"),
        ("B if Intermediates and A else A", "B"),
        ("A if Inputs & Intermediates == Nothing else B", "A"),
        ("B if C != Nothing else A", "A"),
        ("A if A | B == Inputs else B", "A"),
    ],
)
def test_what_set_expressions_mean(load: Load, source: str, members: str | None):
    if members is None:
        with pytest.raises(SpecError, match="not a tensor"):
            renamed(load, source)
    else:
        assert renamed(load, source) == set(members)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Q", "`Q` is not a tensor"),
        ("A | m", "joins tensors with rank variables"),
        ("3", "does not give a set"),
        ("len(All)", "does not give a set"),
        ("A + B", "does not take"),
        ("~3", "a set is needed"),
        ("A.size", "there is no `.size`"),
        ("All.bits_per_value", "takes one tensor, not 3"),
        ("Above", "not a tensor"),
        ("Other", "not a tensor"),
        ("min(A)", "a list is needed, not a set of tensors"),
        ("m <= All", "a number is needed, not a set of rank variables"),
        ("A |", "is not an expression"),
        ("x", "depend on each other: x -> x"),
        ("__import__('os')", "no function"),
        ("[A for A in All]", "not allowed"),
    ],
)
def test_what_is_wrong_with_them(load: Load, refuse: Refuse, source: str, message: str):
    error = refuse(CASCADE.replace("RENAMES", f'{{x: "{source}"}}'))
    assert message in error.message
    assert error.span.line == 9


def test_the_caret_stands_under_the_unknown_name(refuse: Refuse):
    error = refuse(CASCADE.replace("RENAMES", "{x: A | Bb}"))
    assert error.render() == (
        "error: Einsum `T`: `Bb` is not a tensor, rank variable, rename or set\n"
        " --> w.yaml:9:22\n"
        "  |\n"
        "9 |     renames: {x: A | Bb}\n"
        "  |                      ^^\n"
        "help: did you mean `B`?"
    )


@pytest.mark.parametrize(
    ("renames", "hint"),
    [("", "has no renames"), ("\n    renames: {input: T}", "has the renames `input`")],
)
def test_a_rename_that_one_einsum_lacks(refuse: Refuse, renames: str, hint: str):
    text = CASCADE.replace("RENAMES", "{weight: B}").replace("tensors: B", "tensors: weight")
    error = refuse(text.replace('C[n, j]"', f'C[n, j]"{renames}'))
    assert error.message == "Einsum `Z`: `weight` is not a tensor, rank variable, rename or set"
    assert error.hint == f"this is evaluated for Einsum `Z`, which {hint}"


def test_a_tensor_named_like_a_set_is_noted(load: Load):
    text = CASCADE.replace("RENAMES", "{x: Inputs}").replace("B[k, n]", "Inputs[k, n]")
    loaded = load(text.replace("persistent_tensors: B\n", "\n"))
    assert dict(loaded.workload.einsums[0].tensor_renames)["x"] == ("A", "Inputs")
    (note,) = map(str, loaded.notes)
    assert note.endswith("in set expressions `Inputs` means the set, not the tensor of that name")


RENAMES = """
workload:
  rank_sizes: {M: 4, N: 4, K: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m, n] = A[m, k] * B[k, n]", renames: OWN}
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: weight, source: ~(input | output)}
    - {name: input, source: A, expected_count: 1}
    - {name: output, source: Outputs, expected_count: 2 - len(Outputs)}
    rank_variables: {reduced: ~output.rank_variables}
  - name: T
    tensor_accesses: TOP
"""


@pytest.mark.parametrize(
    ("own", "top", "expected"),
    [
        ("{}", "{}", {"input": "A", "weight": "B", "output": "T"}),
        ("{input: B}", "{}", {"input": "B", "weight": "A", "output": "T"}),
        ("{}", "{input: B}", {"input": "B", "weight": "A", "output": "T"}),
        ("{input: A}", "{input: B}", {"input": "A", "weight": "B", "output": "T"}),
        ("[{name: weight, source: Nothing}]", "{}", {"input": "A", "weight": "", "output": "T"}),
        ("{}", "{input: Inputs}", {"input": "AB", "weight": "", "output": "T"}),
        ("{other: weight}", "{}", {"input": "A", "weight": "B", "output": "T", "other": "B"}),
        ("{bits_per_value: A}", "{}", {"input": "A", "weight": "B", "output": "T", "bits_per_value": "A"}),
    ],
)
def test_own_renames_go_before_top_ones_and_these_before_the_default(
    load: Load, own: str, top: str, expected: dict[str, str]
):
    einsum = load(RENAMES.replace("OWN", own).replace("TOP", top)).workload.einsums[0]
    assert {name: "".join(members) for name, members in einsum.tensor_renames} == expected
    assert einsum.rank_variable_renames == (("reduced", ("k",)),)


@pytest.mark.parametrize(
    ("own", "top", "message"),
    [
        ("[{name: i, source: Inputs, expected_count: 1}]", "{}", "matches 2 (`A`, `B`)"),
        ("[{name: i, source: Inputs, expected_count: A}]", "{}", "whole number"),
        ("[{name: i, source: Inputs}, {name: i, source: A}]", "{}", "given twice"),
        ("{T: A}", "{}", "shadows the tensor"),
        ("{m: A}", "{}", "shadows a rank variable"),
        ("{Inputs: A}", "{}", "is reserved"),
        ("{a b: A}", "{}", "cannot be a name"),
        ("{a: weight, weight: a}", "{}", "depend on each other"),
        ("{}", "{reduced: m}", "has two sources"),
        ("{}", "{weight: m}", "gives rank variables"),
        ("{i: [A]}", "{}", "single value"),
        ("3", "{}", "must be a list"),
    ],
)
def test_bad_renames(refuse: Refuse, own: str, top: str, message: str):
    text = RENAMES.replace("OWN", own).replace("TOP", top)
    if top == "{reduced: m}":
        text += "    rank_variables: {reduced: n}\n  - {name: T, rank_variables: {reduced: m}}\n"
        text = text.replace("tensor_accesses: {reduced: m}\n", "tensor_accesses: {}\n")
    error = refuse(text)
    rendered = error.render()
    assert message.replace(" (`A`, `B`)", "") in error.message
    assert "^" in rendered


def test_expected_count_shows_what_matched(refuse: Refuse):
    error = refuse(
        RENAMES.replace("OWN", "[{name: i, source: Inputs, expected_count: 1}]").replace("TOP", "{}")
    )
    rendered = error.render()
    assert "matches 2 (`A` and `B`), but expected_count is 1" in error.message
    assert "A (input), B (input), T (output)" in rendered


def test_renames_of_an_unknown_einsum(refuse: Refuse):
    text = RENAMES.replace("OWN", "{}").replace("TOP", "{}") + "  - {name: Tt, tensor_accesses: {}}\n"
    assert "unknown Einsum `Tt`" in refuse(text).message


def test_the_same_default_may_come_from_two_files(load: Load):
    text = RENAMES.replace("OWN", "{}").replace("TOP", "{}")
    again = text + "  - name: default\n    tensor_accesses:\n    - {name: output, source: Outputs, COUNT}\n"
    load(again.replace("COUNT", "expected_count: 2 - len(Outputs)"))
    with pytest.raises(SpecError, match="two sources"):
        load(again.replace("COUNT", "expected_count: 7"))


@pytest.mark.parametrize("count", [40, 400, 3000])
def test_a_chain_of_renames_ends_in_a_message(load: Load, refuse: Refuse, count: int):
    links = ", ".join(f"r{number}: {'~' * 40}r{number + 1}" for number in range(count))
    own = f"tensor_accesses: {{{links}, r{count}: A}}"
    text = CASCADE.replace("RENAMES", "{}") + f"renames: {{einsums: [{{name: T, {own}}}]}}\n"
    if count < 50:
        einsum = load(text).workload.einsums[0]
        assert dict(einsum.tensor_renames)["r0"] == ("A",)
        return
    assert "a chain of more than 50" in refuse(text).message
