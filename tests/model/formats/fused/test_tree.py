"""Fused mappings as YAML: what is written reads as the same, and errors point at their place."""

from pathlib import Path
from random import Random

import pytest

from model.formats.fused import fused_yaml, load_fused
from model.formats.fused.tree import SECTION, read_fused_tree
from model.fused.cost import evaluate_fused
from model.text.reader import read_files
from model.text.source import SpecError
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, random_cascade, random_fused

DATA = Path(__file__).parents[2] / "fused" / "data"
PRODUCTS = (DATA / "products.workload.yaml", DATA / "arch.yaml")


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_written_reads_as_the_same(name: str, tmp_path: Path):
    random = Random(name)
    cascade = random_cascade(random, name)
    for _ in range(8):
        mapping = random_fused(random, cascade)
        if mapping is None:
            continue
        file = tmp_path / "mapping.yaml"
        file.write_text(fused_yaml(cascade, mapping))
        read, _ = read_fused_tree(read_files([file]).require(SECTION), cascade)
        assert fused_yaml(cascade, read) == file.read_text()
        # Places without tiles and loops are not written, and held tiles come in order of their depths.
        theirs, ours = evaluate_fused(cascade, read), evaluate_fused(cascade, mapping)
        assert (theirs.energy, theirs.cycles) == (ours.energy, ours.cycles)
        assert [room.size_words for room in theirs.rooms] == [room.size_words for room in ours.rooms]


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = (DATA / "products.fused.yaml").read_text()
    assert old in text
    file = tmp_path / "changed.yaml"
    file.write_text(text.replace(old, new, 1))
    return file


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("trips: 2}", "trips: 0}", "must be at least 1", (3, 35)),
        ("{T1: m, T2: m}", "{T1: m, T3: m}", "unknown Einsum `T3`", (3, 20)),
        ("{T1: m, T2: m}", "{T1: m, T2: a}", "unknown rank variable of `T2` `a`", (3, 24)),
        ("store: T1", "store: T9", "unknown tensor `T9`", (4, 13)),
        ("memory: GLB}", "memory: GBL}", "unknown memory `GBL`", (4, 25)),
        ("keep: [T0]", "keep: [T2]", "unknown dataspace of `T1` `T2`", (8, 15)),
        ("keep: [W0], memory: GLB", "keep: [W0], memory: Main", "leave it out", (10, 7)),
        ("{loop: a, trips: 8}", "{loop: a, trip: 8}", "unknown key `trip`", (7, 17)),
        ("{loop: a, trips: 8}", "{fanout: PE, loops: []}", "unknown fanout `PE`", (7, 16)),
        ("einsum: T2", "einsum: T1", "appears twice in the tree", (12, 5)),
        ("- {store: T1, memory: GLB}", "- {einsum: T2, nest: []}", "`einsum`|after an Einsum|twice", None),
        ("fused_mapping:", "fused_maping:", "unknown key `fused_maping`", (1, 1)),
        ("  - einsum: T2", "- body:\n  - einsum: T2", "`T2` is not in this fused group", (4, 5)),
        ("- {store: T1, memory: GLB}\n", "- {hold: W1, einsum: T3}\n", "unknown Einsum `T3`", (4, 24)),
    ],
)
def test_errors_of_reading(old: str, new: str, message: str, place: tuple[int, int] | None, tmp_path: Path):
    with pytest.raises(SpecError, match=message) as caught:
        load_fused(PRODUCTS, changed(tmp_path, old, new))
    assert caught.value.span is not None
    if place is not None:
        assert (caught.value.span.line, caught.value.span.column) == place


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("{T1: m, T2: m}", "{T1: m, T2: c}", "does not index", 3),
        ("{T1: m, T2: m}", "{T1: a, T2: m}", "does not index a rank of `T1` by itself", 3),
        ("{loop: a, trips: 8}", "{loop: a, trips: 4}", "no nest for its visits", 5),
        ("keep: [T0]", "keep: [T0, T1]", "has a tile above the nest", 7),
        ("  - {store: T1, memory: GLB}\n", "", "keeps all|`T1`", None),
    ],
)
def test_mappings_that_are_none_of_the_cascade(
    old: str, new: str, message: str, line: int | None, tmp_path: Path
):
    loaded = load_fused(PRODUCTS, changed(tmp_path, old, new))
    if line is None:  # T1 goes through the main memory instead
        with loaded.located():
            assert evaluate_fused(loaded.cascade, loaded.mapping).valid
        return
    with pytest.raises(SpecError, match=message) as caught, loaded.located():
        evaluate_fused(loaded.cascade, loaded.mapping)
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_private_loops_may_have_remainders(tmp_path: Path):
    """The visits of a loop with 3 trips have 3, 3 and 2 rows; 8 columns in tiles of 3 take 3 passes."""
    text = (DATA / "products.fused.yaml").read_text()
    assert text.count("{loop: m, trips: 4}") == text.count("{loop: b, trips: 8}") == 2
    text = text.replace("}, trips: 2}", "}, trips: 3}").replace("{loop: m, trips: 4}", "{loop: m, trips: 3}")
    before, _, after = text.partition("{loop: b, trips: 8}")
    inner = after.replace("- {keep: [W0]", "- {loop: b, trips: 3}\n    - {keep: [W0]", 1)
    text = f"{before}{{loop: b, trips: 3}}{inner}"
    path = tmp_path / "fused.yaml"
    path.write_text(text)
    loaded = load_fused(PRODUCTS, path)
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    assert [(own.visits, own.steps) for own in cost.einsums] == [(3, 512)] * 2
    assert not disagreements(loaded.cascade, loaded.mapping, seed=0)
    path.write_text(text.replace("nest:\n", "nest:\n    - {bounds: {m: 3, b: 8}}\n", 1))
    bounded = load_fused(PRODUCTS, path)
    with pytest.raises(SpecError, match="`T1` has no nest for its visits with m=2"), bounded.located():
        evaluate_fused(bounded.cascade, bounded.mapping)
    path.write_text(fused_yaml(bounded.cascade, bounded.mapping))
    assert load_fused(PRODUCTS, path).mapping == bounded.mapping
    late = text.replace("- {loop: a", "- {loop: a, trips: 1}\n    - {bounds: {m: 3}}\n    - {loop: a")
    path.write_text(late)
    with pytest.raises(SpecError, match="`bounds` must come first"):
        load_fused(PRODUCTS, path)


def test_words_are_those_of_the_whole_cascade(tmp_path: Path):
    """T1 has 16 bits, all else 8: a word of the buffer is one byte, T1 takes two of them in each Einsum."""
    workload = tmp_path / "workload.yaml"
    text = (DATA / "products.workload.yaml").read_text()
    workload.write_text(text.replace("{All: 8}", "{T1: 16, ~T1: 8}"))
    loaded = load_fused((workload, DATA / "arch.yaml"), DATA / "products.fused.yaml")
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    assert [cost.room(einsum, "GLB").size_words for einsum in ("T1", "T2")] == [64 + 4 + 1] * 2
    assert [einsum for einsum, _ in cost.violations] == ["T1", "T2"]
    (violation, _) = (violation for _, violation in cost.violations)
    assert (violation.node, violation.demand, violation.limit) == ("GLB", 69, 64)


def test_a_workload_and_an_architecture_are_needed():
    with pytest.raises(SpecError, match="no architecture is given"):
        load_fused(PRODUCTS[:1], DATA / "products.fused.yaml")
    with pytest.raises(SpecError, match="no workload is given"):
        load_fused(PRODUCTS[1:], DATA / "products.fused.yaml")
