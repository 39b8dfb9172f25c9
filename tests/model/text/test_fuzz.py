"""A short run of ``scripts/fuzz_specs.py``; docs/fuzzing.md has a long one."""

import random
import sys

import pytest

from tests.conftest import REPOSITORY

COUNT = 250
FEW = 60
SLOWEST_S = 20.0


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    import fuzz_specs  # noqa: PLC0415 (scripts are found only now)

    yield fuzz_specs
    for name in ("fuzz_specs", "fuzz_readers", "fuzz_formats", "spec_mutation"):
        sys.modules.pop(name)


def test_damaged_specs_load_or_end_in_a_message(fuzzer):
    tally = fuzzer.fuzz(seed=7, numbers=range(COUNT), slowest_s=SLOWEST_S, map_every=100)
    assert tally.failures == []
    assert sum(tally.outcomes.values()) == COUNT
    assert tally.outcomes["loaded"] > COUNT // 100


def test_inputs_depend_on_seed_and_number_alone(fuzzer):
    first, same, other = (fuzzer.mutator_of("architecture", seed) for seed in (7, 7, 8))
    texts = [first.text(number) for number in range(50)]
    assert texts == [same.text(number) for number in reversed(range(50))][::-1]
    assert len({*texts, *(other.text(number) for number in range(50))}) > 90


@pytest.mark.parametrize(("text", "turned"), [("0..1", "1..0"), ('"bits[0..width-1]"', '"bits[width-1..0]"')])
def test_ranges_are_turned_around(fuzzer, text, turned):
    tree, new = (None, text), sys.modules["spec_mutation"]._new
    assert turned in [new(random.Random(number), tree, tree)[1] for number in range(20)]


def test_a_tree_that_is_nested_several_times_over_is_an_input_like_any_other(fuzzer):
    limit = sys.getrecursionlimit()
    text = fuzzer.mutator_of("architecture", 2611).text(23479)
    assert max(text.count("{"), text.count("[")) > 200
    assert sys.getrecursionlimit() == limit
    tally = fuzzer.fuzz(seed=2611, numbers=range(23479, 23480), slowest_s=SLOWEST_S, map_every=100)
    assert tally.failures == []


OTHERS = ("workload", "network", "methods", "backend")
FORMATS = ("older", "topology", "model", "fused", "document", "instance", "cached")


@pytest.mark.parametrize("reader", FORMATS)
def test_files_of_other_formats_too(fuzzer, reader):
    if reader == "model":
        pytest.importorskip("onnx")
    tally = fuzzer.fuzz(7, range(FEW), SLOWEST_S, map_every=50, reader=reader)
    assert tally.failures == []
    assert sum(tally.outcomes.values()) == FEW
    mutators = [fuzzer.mutator_of(reader, seed) for seed in (7, 7)]
    first, same = ([mutator.content(number) for number in range(20)] for mutator in mutators)
    assert first == same and len(set(first)) > 10


@pytest.mark.parametrize("reader", OTHERS)
def test_other_readers_refuse_damaged_specs_too(fuzzer, reader):
    tally = fuzzer.fuzz(7, range(FEW), SLOWEST_S, map_every=50, reader=reader)
    assert tally.failures == []
    assert sum(count for text, count in tally.outcomes.items() if text.startswith("loaded")) > FEW // 50


@pytest.mark.parametrize("reader", ["architecture", "workload", "network", "methods", "backend"])
def test_undamaged_texts_load(fuzzer, tmp_path, reader):
    path = tmp_path / "spec.yaml"
    for text in sorted(set(fuzzer.mutator_of(reader, 1).seeds)):
        path.write_text(text)
        assert fuzzer.examine(reader, path, search=False).startswith("loaded")


@pytest.mark.parametrize("failure", [ValueError("no"), RecursionError(), KeyError("x")])
def test_a_traceback_is_a_failure(fuzzer, monkeypatch: pytest.MonkeyPatch, failure: Exception):
    def broken(_paths):
        raise failure

    monkeypatch.setattr(sys.modules["fuzz_readers"], "load_timeloop", broken)
    tally = fuzzer.fuzz(seed=7, numbers=range(3), slowest_s=SLOWEST_S, map_every=100)
    assert [number for number, _ in tally.failures] == [0, 1, 2]
    assert type(failure).__name__ in tally.failures[0][1]


def test_a_hang_is_a_failure(fuzzer, monkeypatch: pytest.MonkeyPatch):
    def endless(_paths):
        while True:
            pass

    monkeypatch.setattr(sys.modules["fuzz_readers"], "load_timeloop", endless)
    assert "HangError" in fuzzer.fuzz(seed=7, numbers=range(1), slowest_s=0.2, map_every=100).failures[0][1]
