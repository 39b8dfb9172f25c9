"""Mappings as Timeloop v4 targets."""

import math
from dataclasses import replace
from random import Random

import pytest
import yaml

from model.cost.nest import build_nest
from model.extents import ANY
from model.mapping import Loop, Mapping, StorageMapping
from solver.report.document import architecture_document
from solver.report.mapped import nest_lines
from solver.report.reading import as_value
from solver.report.timeloop_mapping import has_remainders, mapping_targets, mapping_yaml
from tests.model.cost.random_mappings import random_mapping
from tests.solver.examples import ARCHITECTURE, MAPPING, PROBLEM
from tests.solver.golden import assert_golden

TARGETS = mapping_targets(PROBLEM, ARCHITECTURE, MAPPING)


def test_yaml_of_a_mapping():
    text = mapping_yaml(TARGETS)
    assert yaml.safe_load(text) == {"mapping": TARGETS}
    assert_golden("mapping.yaml", text)


def test_every_loop_target_lists_every_dimension():
    for target in TARGETS:
        if target["type"] == "dataspace":
            continue
        assert sorted(target["permutation"]) == sorted(PROBLEM.dims)
        assert [text.split("=")[0] for text in target["factors"]] == list(PROBLEM.dims)


def test_factors_multiply_to_the_bounds():
    found = dict.fromkeys(PROBLEM.dims, 1)
    for target in TARGETS:
        for text in target.get("factors", ()):
            dim, factor = text.split("=")
            found[dim] *= int(factor)
    assert found == PROBLEM.bound
    assert math.prod(found.values()) == PROBLEM.computes


def test_the_split_divides_the_axes():
    column, pe = (target for target in TARGETS if target["type"] == "spatial")
    assert "C" in column["permutation"][: column["split"]]
    assert "R" in pe["permutation"][pe["split"] :]


def test_names_that_yaml_would_read_otherwise_are_quoted():
    target = {"target": "no", "type": "dataspace", "keep": ["on", "1"], "bypass": []}
    assert yaml.safe_load(mapping_yaml([target])) == {"mapping": [target]}


def test_two_loops_over_one_dimension_of_a_node_are_refused():
    dram = StorageMapping((Loop("M", 3), Loop("P", 2), Loop("M", 2)))
    with pytest.raises(ValueError, match="two loops over one dimension"):
        mapping_targets(PROBLEM, ARCHITECTURE, Mapping((dram, *MAPPING.nodes[1:])))


def test_remainders_stand_beside_their_factors():
    task = replace(
        PROBLEM, bounds=tuple(bound + 1 if dim == "P" else bound for dim, bound in PROBLEM.bound.items())
    )
    random = Random(5)
    mapping = random_mapping(random, task, ARCHITECTURE, ANY)
    while not build_nest(task, ARCHITECTURE, mapping).remainder_dims:
        mapping = random_mapping(random, task, ARCHITECTURE, ANY)
    targets = mapping_targets(task, ARCHITECTURE, mapping)
    assert has_remainders(targets)
    assert not has_remainders(TARGETS)
    last = dict.fromkeys(task.dims, 0)
    for target in targets:
        for text in target.get("factors", ()):
            dim, factor = text.split("=")
            bound, _, remainder = factor.partition(",")
            last[dim] = last[dim] * int(bound) + int(remainder or bound) - 1
    assert last == {dim: bound - 1 for dim, bound in task.bound.items()}
    for target in yaml.safe_load(mapping_yaml(targets))["mapping"]:
        factors = target.get("factors", [])
        assert isinstance(factors, str) is ("," in "".join(factors))
    read = as_value({"mapping": targets})["mapping"]
    lines = nest_lines(as_value(architecture_document(ARCHITECTURE)), read, "")
    shown = sum(", last [0:" in line for line in lines)
    short = sum(text.count(",") for target in targets for text in target.get("factors", ()))
    assert shown == short
