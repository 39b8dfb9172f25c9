"""Files that are parts of larger workloads, marked by an underscore."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.formats.accelforge import LoadedWorkload, load_workload
from model.text.source import SpecError

LoadAt = Callable[[str, str], LoadedWorkload]

TOP = """
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs & Intermediates, expected_count: 1}
    - {name: weight, source: ~(input | Outputs), expected_count: 1}
workload:
  rank_sizes: {B: 2, M: 3, K: 4, N: 5, P: 6}
  bits_per_value: {weight: 4, Other: 8}
  persistent_tensors: weight
  einsums:
"""
CHAIN = TOP + '  - "Y[b, m, n] = X[b, m, k] * W[k, n]"\n  - "Z[b, m, p] = Y[b, m, n] * V[n, p]"\n'
ALONE = TOP + '  - "Y[m, n] = A[m, k] * B[k, n]"\n'


@pytest.fixture
def load_at(working_directory: Path) -> LoadAt:
    def loaded(path: str, text: str) -> LoadedWorkload:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
        return load_workload([path])

    return loaded


@pytest.mark.parametrize("path", ["_w.yaml", "_parts/w.yaml", "_parts/inner/w.yaml"])
def test_what_feeds_a_fragment_counts_as_an_intermediate(load_at: LoadAt, path: str):
    loaded = load_at(path, CHAIN)
    first, second = loaded.workload.einsums
    assert dict(first.tensor_renames) == {"input": ("X",), "weight": ("W",)}
    assert dict(second.tensor_renames) == {"input": ("Y",), "weight": ("V",)}
    assert [(a.bits_per_value, a.persistent) for a in first.accesses] == [(8, False), (4, True), (8, False)]
    (note,) = map(str, loaded.notes)
    assert note.startswith(f"{path}:13:6: `X` counts as an intermediate in Einsum `Y`")


@pytest.mark.parametrize("path", ["w.yaml", "parts_/w.yaml", "_far/a/b/c/w.yaml"])
def test_a_whole_workload_meets_its_counts(load_at: LoadAt, path: str):
    with pytest.raises(SpecError, match="rename `input` of Einsum `Y` matches none, but expected_count is 1"):
        load_at(path, CHAIN)


def test_where_nothing_tells_what_feeds_a_fragment_its_renames_are_left_out(load_at: LoadAt):
    loaded = load_at("_w.yaml", ALONE)
    assert dict(loaded.workload.einsums[0].tensor_renames) == {"input": (), "weight": ()}
    assert [access.bits_per_value for access in loaded.workload.einsums[0].accesses] == [8, 8, 8]
    short, over = map(str, loaded.notes[:2])
    assert "_w.yaml:6:29: rename `input` of Einsum `Y` matches none, but expected_count is 1" in short
    assert "_w.yaml:7:30: rename `weight` of Einsum `Y` matches 2 (`A` and `B`)" in over
    assert "it is taken as empty" in over


def test_too_many_matches_stay_an_error(load_at: LoadAt):
    with pytest.raises(SpecError, match=r"matches 2 \(`A` and `B`\), but expected_count is 1"):
        load_at("_w.yaml", ALONE.replace("Inputs & Intermediates", "Inputs"))


def test_the_file_with_the_einsums_decides(load_at: LoadAt):
    renames, workload = CHAIN.split("workload:")
    Path("_renames.yaml").write_text(renames, encoding="utf-8")
    Path("w.yaml").write_text(f"workload:{workload}", encoding="utf-8")
    with pytest.raises(SpecError, match="matches none"):
        load_workload(["_renames.yaml", "w.yaml"])
    Path("_w.yaml").write_text(f"workload:{workload}", encoding="utf-8")
    assert load_workload(["_renames.yaml", "_w.yaml"]).workload.name == "_w"
    with pytest.raises(SpecError) as caught:
        load_workload(["_renames.yaml"])
    assert caught.value.message == "`renames` without a `workload`"
    assert "together with" in (caught.value.hint or "")


def test_a_template_of_assertions_is_a_file_without_sections(load_at: LoadAt):
    Path("check.yaml").write_text('{% assert 1 < 2, "never" %}\n', encoding="utf-8")
    Path("w.yaml").write_text(ALONE.replace("Inputs & Intermediates", "A"), encoding="utf-8")
    assert len(load_workload(["check.yaml", "w.yaml"]).workload.einsums) == 1
    with pytest.raises(SpecError, match="no `workload` is given"):
        load_workload(["check.yaml"])
    Path("check.yaml").write_text('{% assert 1 > 2, "but not so" %}\n', encoding="utf-8")
    with pytest.raises(SpecError, match="but not so") as caught:
        load_workload(["check.yaml", "w.yaml"])
    assert caught.value.span is not None
    assert caught.value.span.line == 1
