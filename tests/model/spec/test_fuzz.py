"""A short run of ``scripts/fuzz_specs.py``; docs/fuzzing.md has a long one."""

import sys

import pytest

from tests.conftest import REPOSITORY

COUNT = 400
SLOWEST_S = 20.0


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    import fuzz_specs  # noqa: PLC0415 (scripts are found only now)

    yield fuzz_specs
    for name in ("fuzz_specs", "spec_mutation"):
        sys.modules.pop(name)


def test_damaged_specs_load_or_end_in_a_message(fuzzer):
    tally = fuzzer.fuzz(seed=7, numbers=range(COUNT), slowest_s=SLOWEST_S, map_every=100)
    assert tally.failures == []
    assert sum(tally.outcomes.values()) == COUNT
    assert tally.outcomes["loaded"] > COUNT // 100


def test_inputs_depend_on_seed_and_number_alone(fuzzer):
    first, same, other = fuzzer.Mutator(7), fuzzer.Mutator(7), fuzzer.Mutator(8)
    texts = [first.text(number) for number in range(50)]
    assert texts == [same.text(number) for number in reversed(range(50))][::-1]
    assert len({*texts, *(other.text(number) for number in range(50))}) > 90


def test_undamaged_texts_load(fuzzer, tmp_path):
    path = tmp_path / "spec.yaml"
    for text in fuzzer.Mutator(1).seeds:
        path.write_text(text)
        assert fuzzer.examine(path, search=False).startswith("loaded")


@pytest.mark.parametrize("failure", [ValueError("no"), RecursionError(), KeyError("x")])
def test_a_traceback_is_a_failure(fuzzer, monkeypatch: pytest.MonkeyPatch, failure: Exception):
    def broken(_paths):
        raise failure

    monkeypatch.setattr(fuzzer, "load_timeloop", broken)
    tally = fuzzer.fuzz(seed=7, numbers=range(3), slowest_s=SLOWEST_S, map_every=100)
    assert [number for number, _ in tally.failures] == [0, 1, 2]
    assert type(failure).__name__ in tally.failures[0][1]


def test_a_hang_is_a_failure(fuzzer, monkeypatch: pytest.MonkeyPatch):
    def endless(_paths):
        while True:
            pass

    monkeypatch.setattr(fuzzer, "load_timeloop", endless)
    assert "HangError" in fuzzer.fuzz(seed=7, numbers=range(1), slowest_s=0.2, map_every=100).failures[0][1]
