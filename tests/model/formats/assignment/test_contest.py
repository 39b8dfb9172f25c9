"""Instances of the iopddl contest: the published example, its evaluation, and what is refused."""

import copy
import gzip
import json
from itertools import product

import pytest

from model.formats.assignment.contest import FORBIDDING, load_contest
from model.text.source import SpecError
from solver.assignment import assign
from solver.result import Status

EXAMPLE = {
    "problem": {
        "name": "example",
        "nodes": {
            "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]],
        },
        "edges": {
            "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
            "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
        },
        "usage_limit": 50,
    }
}
"""``example.json`` of google/iopddl, 8a61c43."""


def written(tmp_path, document, name="example.json"):
    path = tmp_path / name
    text = json.dumps(document).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def evaluated(document, choice):
    """The contest's ``Evaluate``: the cost of a solution, None if it exceeds the limit at any time."""
    problem = document["problem"]
    nodes, edges = problem["nodes"], problem["edges"]
    cost = sum(own[k] for own, k in zip(nodes["costs"], choice, strict=True))
    used = [0] * max(end for _, end in nodes["intervals"])
    for (start, end), own, k in zip(nodes["intervals"], nodes["usages"], choice, strict=True):
        for time in range(start, end):
            used[time] += own[k]
    for (i, j), own in zip(edges["nodes"], edges["costs"], strict=True):
        cost += own[choice[i] * len(nodes["costs"][j]) + choice[j]]
    return None if max(used, default=0) > problem.get("usage_limit", max(used)) else cost


@pytest.mark.parametrize("name", ["example.json", "example.json.gz"])
@pytest.mark.parametrize("limit", [45, 50, 55, None])
def test_the_example_costs_what_the_contest_says(tmp_path, name, limit):
    document = copy.deepcopy(EXAMPLE)
    problem = document["problem"]
    problem["edges"]["nodes"] += [[3, 1], [1, 3]]
    problem["edges"]["costs"] += [[1, FORBIDDING, 3, 4], [5, 6, 7, 8]]
    if limit is None:
        del problem["usage_limit"]
    else:
        problem["usage_limit"] = limit
    network = load_contest(written(tmp_path, document, name))
    choices = list(product(*(range(len(own)) for own in problem["nodes"]["costs"])))
    costs = [evaluated(document, choice) for choice in choices]
    costs = [None if cost is None or cost >= FORBIDDING else cost for cost in costs]
    assert [network.total(choice) for choice in choices] == costs
    best = min((cost for cost in costs if cost is not None), default=None)
    result = assign(network)
    assert result.total == result.bound == best
    assert result.status is (Status.INFEASIBLE if best is None else Status.OPTIMAL)


def changed(path, value):
    document = copy.deepcopy(EXAMPLE)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be an object"),
        ({"problem": {}, "more": 1}, "unknown key `more`"),
        (changed(("problem", "limit"), 3), "unknown key `limit`"),
        (changed(("problem", "usage_limit"), -1), "not negative"),
        (changed(("problem", "usage_limit"), 1.5), "whole number"),
        (changed(("problem", "name"), 3), "must be a text"),
        (changed(("problem", "nodes", "costs"), [[1]]), "one entry per node"),
        (changed(("problem", "nodes", "costs", 0), [1, 2]), "2 costs and 1 usages"),
        (changed(("problem", "nodes", "costs", 0), [-1]), "none negative"),
        (changed(("problem", "nodes", "costs", 0), [1.5]), "whole numbers"),
        (changed(("problem", "nodes", "costs", 0), [True]), "whole numbers"),
        (changed(("problem", "nodes", "intervals", 0), [1]), "interval of node 0"),
        (changed(("problem", "nodes", "intervals", 0), [1, 10**30]), "must end at"),
        (changed(("problem", "edges", "nodes", 0), [0, 0]), "joins a node to itself"),
        (changed(("problem", "edges", "nodes", 0), [0, 9]), "joins two nodes"),
        (changed(("problem", "edges", "nodes", 0), [0, 1, 2]), "joins two nodes"),
        (changed(("problem", "edges", "costs", 0), [1]), "1 costs, not 1 x 2"),
        (changed(("problem", "edges", "costs"), []), "as many `nodes` as `costs`"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, document, message):
    with pytest.raises(SpecError, match=message):
        load_contest(written(tmp_path, document))


@pytest.mark.parametrize(
    ("name", "content"), [("a.json", b"{"), ("a.json.gz", b"no gzip"), ("a.json", b"[" * 10**5)]
)
def test_what_is_no_json_is_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"a\.json"):
        load_contest(path)
