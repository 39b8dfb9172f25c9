"""Mappers by name, and errors in names."""

import sys
from importlib.metadata import EntryPoint

import pytest

import solver.heuristics.registry
from solver.heuristics.interface import MapperError
from solver.heuristics.registry import BUILT_IN, imported_mapper, known_mappers, make_mapper, named_mapper
from solver.heuristics.timeloop_mappers import RandomSearch

RANDOM = "solver.heuristics.timeloop_mappers:RandomSearch"


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_mappers_are_made_without_options(name):
    assert callable(make_mapper(name, named_mapper(name), {}).find_mapping)


def test_entry_points_are_mappers(monkeypatch):
    point = EntryPoint("own", RANDOM, "tilewright.mappers")
    monkeypatch.setattr(solver.heuristics.registry, "entry_points", lambda group: (point,))
    assert known_mappers() == (*BUILT_IN, "own")
    assert named_mapper("own") is RandomSearch


def test_an_entry_point_that_fails_is_named(monkeypatch):
    point = EntryPoint("own", "no.such.module:Class", "tilewright.mappers")
    monkeypatch.setattr(solver.heuristics.registry, "entry_points", lambda group: (point,))
    with pytest.raises(MapperError, match=r"mapper 'own': cannot import 'no\.such\.module'"):
        named_mapper("own")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("random", "not of the form"),
        ("solver:", "not of the form"),
        (":Class", "not of the form"),
        ("no.such.module:Class", "ModuleNotFoundError"),
        ("solver.heuristics.timeloop_mappers:Nothing", "has no 'Nothing'"),
        ("solver.heuristics.timeloop_mappers:MAPPINGS_PER_CHUNK", "is not a mapper"),
        ("solver.heuristics.sampling:Sampler", "needs a method find_mapping"),
    ],
)
def test_what_is_no_mapper_is_refused(reference, message):
    with pytest.raises(MapperError, match=message):
        imported_mapper(reference)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os\nos.nothing", "cannot import 'broken_mapper': AttributeError: module 'os'"),
        ("raise SystemExit('bye')", "cannot import 'broken_mapper': SystemExit: bye"),
        ("class Mine:\n    find_mapping = None", "is not a mapper"),
    ],
)
def test_modules_that_fail_are_named_with_their_failure(code, message, tmp_path, monkeypatch):
    (tmp_path / "broken_mapper.py").write_text(code)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(MapperError, match=message):
        imported_mapper("broken_mapper:Mine")
    sys.modules.pop("broken_mapper", None)


@pytest.mark.parametrize("failure", [RuntimeError("boom"), SystemExit("boom")])
def test_a_class_that_fails_is_named_with_its_failure(failure):
    def create():
        raise failure

    with pytest.raises(MapperError, match=f"mapper 'own': {type(failure).__name__}: boom"):
        make_mapper("own", create, {})


def test_modules_of_the_working_directory_are_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_mapper.py").write_text("class Mine:\n    def find_mapping(self, m, p): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert imported_mapper("my_own_mapper:Mine").__name__ == "Mine"


def test_unknown_names_come_with_a_hint():
    with pytest.raises(MapperError, match="did you mean 'greedy'"):
        named_mapper("gredy")
    with pytest.raises(MapperError, match="known mappers are random"):
        named_mapper("simulated evolution")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiemout": 3}, "no option 'tiemout'; it has victory_condition, timeout"),
        ({"timeout": "soon"}, "is an integer, not 'soon'"),
        ({"timeout": 1.5}, "is an integer"),
        ({"timeout": -1}, "must not be negative"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(MapperError, match=message):
        make_mapper("random", RandomSearch, options)
