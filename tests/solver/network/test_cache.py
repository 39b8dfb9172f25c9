"""Results on disk: their keys, and which files are accepted."""

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.cascade import Network
from model.extents import ANY
from model.mapping import Mapping as LoopNest
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from model.renaming import by_position
from solver.network import ResultCache, map_network
from solver.network.cache import cache_key, sources_digest
from solver.result import Options, Result, Statistics, Status, Termination
from solver.stages import map_einsum
from tests.mapspaces import free_mapspace, matmul
from tests.strategies import with_first_values

ENERGY = Options(objectives=("energy",))


def test_rules_are_renamed_with_what_they_are_about():
    mapspace = free_mapspace(matmul(4, 4, 4), StorageLevel("DRAM"), StorageLevel("buffer", size_words=24))
    ruled = mapspace.where("tile(buffer, K) == 2", "innermost(buffer) == M or words(buffer, A) < 5")
    names = by_position(ruled.problem)
    assert [str(rule) for rule in names.mapspace(ruled).rules] == [
        "tile(buffer, d2) == 2",
        "(innermost(buffer) == d0) or (words(buffer, t0) < 5)",
    ]
    assert names.inverse.mapspace(names.mapspace(ruled)).rules == ruled.rules
    local = mapspace.where("tile(buffer, K) == 2")
    assert map_einsum(names.mapspace(local), ENERGY).value == map_einsum(local, ENERGY).value


def test_what_is_not_the_same_problem_has_another_key(network: Network):
    space = network.layers[1].mapspace
    own = by_position(space.problem).mapspace(space)
    levels = space.architecture.nodes
    larger = replace(levels[1], size_words=levels[1].size_words + 1)
    changed = [
        replace(own, architecture=replace(own.architecture, nodes=(levels[0], larger, *levels[2:]))),
        replace(own, problem=replace(own.problem, bounds=(4, 6, 2))),
        replace(own, max_temporal_loops=3),
        replace(own, factors=ANY),
        own.where("cycles > 1"),
        replace(own, keep=(own.keep[0], replace(own.keep[1], keep=frozenset()))),
    ]
    keys = {cache_key(mapspace, ("energy",)) for mapspace in (own, *changed)}
    assert len(keys | {cache_key(own, ("latency",)), cache_key(own, ("energy", "latency"))}) == 9
    other = network.layers[3].mapspace
    assert cache_key(by_position(other.problem).mapspace(other), ("energy",)) in keys


def test_dimensions_that_may_lie_along_either_side_have_a_key_however_many_they_are():
    dims = tuple("ABCDEFGHIJKLMNOPQ")
    space = Dataspace("Z", tuple((Term(dim),) for dim in dims), read_write=True)
    problem = Problem("wide", dims, (2,) * len(dims), (space,))
    architecture = Architecture("array", (StorageLevel("Main"), Fanout("PE", 2, 2)), Compute("mac"))
    rules = [*(SpatialRules(split=split) for split in (None, 1, 2)), SpatialRules(split=2, inner=("A",))]
    spaces = [Mapspace(problem, architecture, (TemporalRules(),), (own,), (KeepRules(),)) for own in rules]
    assert len({cache_key(mapspace, ("energy",)) for mapspace in (*spaces, spaces[0])}) == 4


def test_what_a_stopped_search_found_is_not_kept(network: Network, tmp_path: Path):
    found = map_network(network, ENERGY).layers[1].result
    cache = ResultCache(tmp_path)
    cache.store("k", replace(found, status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, bound=0))
    assert list(tmp_path.glob("*.json")) == []


@pytest.fixture
def kept(network: Network, tmp_path: Path) -> tuple[ResultCache, str, Mapspace, Result]:
    """A cache, and what is kept in it under a key for a mapspace."""
    space = network.layers[1].mapspace
    own = by_position(space.problem).mapspace(space)
    cache, key, result = ResultCache(tmp_path / "cache"), cache_key(own, ("energy",)), map_einsum(own, ENERGY)
    cache.store(key, result)
    assert result.evidence  # what a certificate is made of is kept as well
    assert cache.find(key, own) == result
    return cache, key, own, result


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"OPTIMAL"', '"MAYBE"'),
        lambda text: text.replace('"OPTIMAL"', '"INFEASIBLE"'),
        lambda text: text.replace('"seconds": 0', '"seconds": 1'),
        lambda text: text.replace("4", "4.0"),
        lambda text: text.replace("d0", "q"),
    ],
)
def test_a_damaged_file_counts_as_absent(kept, damage):
    cache, key, space, _ = kept
    path = next(cache.directory.glob("*.json"))
    text = path.read_text(encoding="utf-8")
    assert damage(text) != text
    path.write_text(damage(text), encoding="utf-8")
    assert cache.find(key, space) is None


def test_a_file_under_another_name_counts_as_absent(kept):
    cache, _key, space, result = kept
    path = next(cache.directory.glob("*.json"))
    cache.store("0" * 64, result)
    (other,) = {*cache.directory.glob("*.json")} - {path}
    assert cache.find("0" * 64, space) == result
    path.replace(other)
    assert cache.find("0" * 64, space) is None


def test_a_forged_file_counts_as_absent(kept):
    """All but the key is known to those who forge: another directory's checksums are of another one."""
    cache, key, space, result = kept
    path = next(cache.directory.glob("*.json"))
    forger = ResultCache(cache.directory.parent / "forger")
    forger.store(key, replace(result, statistics=Statistics(seconds=9.0)))
    (forged,) = forger.directory.glob("*.json")
    assert forged.name != path.name
    path.write_bytes(forged.read_bytes())
    assert cache.find(key, space) is None
    _head, content = path.read_bytes().split(b'"result"')
    path.write_bytes(b'{"hmac_sha256": "%064d", "result"' % 0 + content)
    assert cache.find(key, space) is None
    cache.store(key, result)
    assert cache.find(key, space) == result


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_key_that_others_may_read_or_write_is_replaced(kept, mode):
    cache, key, space, result = kept
    secret = cache.directory / ".key"
    before = secret.read_bytes()
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.chmod(mode)
    assert cache.find(key, space) is None
    cache.store(key, result)
    assert secret.read_bytes() != before
    assert secret.stat().st_mode & 0o777 == 0o600
    assert cache.find(key, space) == result


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_what_is_no_key_is_replaced(kept, content):
    cache, key, space, result = kept
    secret = cache.directory / ".key"
    secret.write_bytes(content)
    assert cache.find(key, space) is None
    cache.store(key, result)
    assert cache.find(key, space) == result


def test_a_key_of_another_user_is_not_used(kept, monkeypatch: pytest.MonkeyPatch):
    cache, key, space, _ = kept
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.find(key, space) is None


def test_a_file_of_200_mb_is_not_read(kept):
    cache, key, space, _ = kept
    path = next(cache.directory.glob("*.json"))
    with path.open("ab") as stream:
        stream.truncate(200 << 20)
    tracemalloc.start()
    try:
        assert cache.find(key, space) is None
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_result_that_would_not_be_read_is_not_kept(kept, monkeypatch: pytest.MonkeyPatch):
    cache, _key, _space, result = kept
    monkeypatch.setattr("solver.network.cache.MOST_BYTES", 100)
    cache.store("0" * 64, result)
    assert len([*cache.directory.glob("*.json")]) == 1
    assert cache.failure is None


@pytest.mark.parametrize(
    "lie",
    [
        lambda own: {"value": own.value - 1, "bound": own.bound - 1},
        lambda own: {"objectives": ("latency",)},
        lambda own: {"objectives": ("energy", "latency"), "later_bounds": (1,)},
        lambda own: {"mapping": LoopNest(own.mapping.nodes[:-1])},
    ],
)
def test_an_answer_that_its_mapping_contradicts_counts_as_absent(kept, lie):
    cache, key, space, result = kept
    cache.store(key, replace(result, **lie(result)))
    assert cache.find(key, space) is None


def test_another_version_has_other_keys(network: Network, monkeypatch: pytest.MonkeyPatch):
    space = network.layers[1].mapspace
    own = cache_key(space, ("energy",))
    assert cache_key(space, ("energy",)) == own
    monkeypatch.setattr("solver.network.cache.VERSION", "0.0.0")
    assert cache_key(space, ("energy",)) != own


def test_what_other_sources_answered_is_not_found(kept, monkeypatch: pytest.MonkeyPatch):
    cache, key, space, result = kept
    monkeypatch.setattr("solver.network.cache.sources_digest", lambda: "0" * 64)
    assert cache.find(key, space) is None
    monkeypatch.undo()
    assert cache.find(key, space) == result


def test_any_change_of_the_sources_changes_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.network.cache.ROOT", tmp_path)
    (tmp_path / "model" / "cost").mkdir(parents=True)
    (tmp_path / "solver").mkdir()
    found = set()
    for name, text in [("a", "1"), ("a", "2"), ("b", ""), ("cost/a", ""), ("cost/a", "1"), ("b", "1")]:
        (tmp_path / "model" / f"{name}.py").write_text(text, encoding="utf-8")
        found.add(sources_digest.__wrapped__())
    assert len(found) == 6
    assert sources_digest.__wrapped__() in found


def test_a_plan_needs_no_digest(network: Network, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.network.cache.sources_digest", pytest.fail)
    assert map_network(network, ENERGY).status is Status.OPTIMAL


def test_infeasibility_is_kept(network: Network, tmp_path: Path):
    space = network.layers[1].mapspace
    cache = ResultCache(tmp_path)
    result = Result(Status.INFEASIBLE, Termination.PROVEN, ("energy",), space.architecture.units_per_pj)
    cache.store("k", result)
    assert cache.find("k", space) == result
    assert cache.find("other", space) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_in_place_of_an_answer_is_not_waited_for(kept: tuple[ResultCache, str, Mapspace, Result]):
    cache, key, own, _ = kept
    path = next(cache.directory.glob("*.json"))
    path.unlink()
    os.mkfifo(path)
    assert cache.find(key, own) is None


def test_what_killed_runs_left_is_removed_once_it_is_old(kept):
    cache, key, space, result = kept
    fresh, old = (cache.directory / f".{key[:16]}-{name}.tmp" for name in ("fresh", "old"))
    for path in (fresh, old):
        path.write_text("{", encoding="utf-8")
    os.utime(old, (0, 0))
    cache.remove_leftovers()
    assert (fresh.exists(), old.exists()) == (True, False)
    assert cache.find(key, space) == result


def test_problems_onto_given_values_are_others():
    mapspace = free_mapspace(matmul(2, 3, 4), StorageLevel("main"))
    onto = replace(mapspace, problem=with_first_values(Random(0), mapspace.problem))
    renamed = [by_position(own.problem).mapspace(own) for own in (mapspace, onto)]
    given = [[space.name for space in own.problem.dataspaces if space.given] for own in renamed]
    assert given == [[], ["t2"]]
    assert cache_key(renamed[0], ("energy",)) != cache_key(renamed[1], ("energy",))
