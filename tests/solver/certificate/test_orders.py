"""Certificates of mappings whose memories lie in any order."""

import json
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from model.mapspace import Mapspace
from model.orders import orders, rearranged
from model.places import spread
from solver.certificate.canonical import canonical, canonical_sha256
from solver.certificate.checker.claims import CannotCheckError, InvalidError
from solver.certificate.checker.orders import Orders
from solver.certificate.checker.prove import check
from solver.certificate.checker.prove import mapspace as read_mapspace
from solver.certificate.document import certificate
from solver.result import Options, Result, Status
from solver.search.mapper import map_by_bounds
from solver.search.orders import map_orders, spatial_choices
from tests.orders import random_orders
from tests.slow import few

MOST_PARTS = 40


def few_parts(random: Random) -> Mapspace:
    while True:
        mapspace = random_orders(random, dims=random.choice((2, 3)))
        if len(list(orders(mapspace))) * len(list(spatial_choices(mapspace))) <= MOST_PARTS:
            return mapspace


def document(mapspace: Mapspace, result: Result) -> dict:
    return json.loads(json.dumps(certificate(mapspace, result, ["map"])))


def resealed(doc: dict) -> dict:
    doc["problem_sha256"] = canonical_sha256(doc["problem"])
    return {**doc, "digest": canonical_sha256({key: doc[key] for key in doc if key != "digest"})}


@pytest.mark.parametrize("seed", few(range(40), 8))
def test_results_are_proven_again(seed: int):
    mapspace = few_parts(Random(seed))
    problem = json.loads(json.dumps(canonical(mapspace)))
    read = Orders(problem, lambda doc, _: read_mapspace(doc))
    assert sum(len(list(read.orders(tiles))) for tiles in read.kept()) == len(list(orders(mapspace)))
    for objectives in (("energy",), ("edp",), ("latency", "energy")):
        result = map_orders(mapspace, Options(objectives=objectives))
        assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
        assert check(document(mapspace, result)).startswith("no mapping")


@cache
def gaining() -> tuple[Mapspace, Result]:
    """A mapspace in which another order than the hardware's is better, and the best mapping."""
    mapspace = few_parts(Random(115))  # the first one of them
    result = map_orders(mapspace, Options(objectives=("energy",)))
    assert result.hardware_order.value > result.value
    return mapspace, result


def test_the_best_mapping_in_the_order_of_the_hardware_is_not_taken_for_the_best():
    mapspace, result = gaining()
    places = spread(replace(mapspace, free_order=frozenset()))
    known = map_by_bounds(places, Options(objectives=("energy",)))
    own, mapping = rearranged(mapspace, places, known.mapping)
    claim = replace(
        result,
        value=known.value,
        bound=known.value,
        mapping=mapping,
        evaluation=known.evaluation,
        mapspace=own,
    )
    with pytest.raises(InvalidError, match=f"no mapping has energy below {known.value:,}"):
        check(document(mapspace, claim))


def test_claims_that_are_not_so_are_found():
    mapspace, result = gaining()
    doc = document(mapspace, result)
    assert check(resealed(doc)) == check(doc)
    cheaper = {**doc, "cost": {**doc["cost"], "energy": doc["cost"]["energy"] - 1}}
    with pytest.raises(InvalidError, match="the cost matches the mapping"):
        check(resealed(cheaper))
    order = doc["mapping"]["order"]
    other = {**doc, "mapping": {**doc["mapping"], "order": order[::-1]}}
    with pytest.raises(InvalidError):
        check(resealed(other))
    bound = {**doc, "problem": {**doc["problem"], "free_order": []}}
    with pytest.raises(InvalidError, match="the order is allowed"):
        check(resealed(bound))


def test_what_fanouts_do_besides_multiplying_is_not_checked():
    mapspace, result = gaining()
    doc = document(mapspace, result)
    nodes = [dict(node) for node in doc["problem"]["nodes"]]
    temporal = next(node for node in nodes if node["kind"] == "temporal")
    temporal["factors"] = [own[:-2] or own for own in temporal["factors"]]
    with pytest.raises(CannotCheckError, match="temporal loops are free"):
        check(resealed({**doc, "problem": {**doc["problem"], "nodes": nodes}}))
    with pytest.raises(InvalidError, match="memories in any order have the format"):
        check(resealed({**doc, "format": "tilewright certificate 9"}))
