"""Certificates of fused mappings whose tiles keep what overlaps, by AccelForge's rule: proven, and forged."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solver.certificate.canonical import canonical_sha256
from solver.certificate.checker import fused_cascade, fused_edges, fused_paths
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.fusion.space import FusionSpace
from solver.result import Status
from tests.overlaps import depthwise_and_pointwise
from tests.solver.certificate.checker import digested, verdict


def certified(folder: Path, *sizes: int, objective: str = "energy") -> Any:
    result = fuse_cascade(depthwise_and_pointwise(folder, *sizes), objective)
    assert result.status is Status.OPTIMAL
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


def resealed(document: Any, folder: Path) -> str:
    """The verdict on a certificate with its hashes computed anew."""
    document["problem_sha256"] = canonical_sha256(document["problem"])
    return verdict(digested(document), folder)[0]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Of six rows of outputs, with two words per window."""
    return certified(tmp_path_factory.mktemp("kept"), 6, 2, 1, 1, 6)


@pytest.mark.parametrize(
    "sizes, energy_j, held",
    [((6, 2, 1, 1, 6), 1682, [0, 1, 0]), ((6, 3, 2, 1, 14), 3252, [0, 2, 1]), ((4, 3, 1, 1, 10), 1478, None)],
)
def test_the_optima_of_accelforges_mapper_are_proven(
    sizes: tuple[int, ...], energy_j: int, held: list[int] | None, tmp_path: Path
):
    document = certified(tmp_path, *sizes)
    bound = document["bound"]
    assert bound == energy_j * 10**12 * document["problem"]["einsums"][0]["mapspace"]["units_per_pj"]
    assert verdict(document, tmp_path)[0] == "VALID"
    leaves = document["mapping"]["tree"][0].get("children", [])
    assert held is None or held in leaves[0]["held"]
    # The dynamic program does not leave the optimum out, and knows what it costs.
    edges = fused_edges.Edges(fused_cascade.Cascade(document["problem"]), document, {})
    assert fused_paths.Paths(edges.cascade, edges, "energy", bound + 1).least() == bound


def test_a_search_that_knows_no_such_tiles_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FusionSpace, "kept_dims", lambda *_: frozenset())
    assert verdict(certified(tmp_path, 6, 3, 1, 1, 8), tmp_path)[0] == "CANNOT CHECK"


def with_tile(place: int, *numbers: int) -> Callable[[Any], None]:
    """Replace the tile that the first Einsum keeps, or another one, by one with other loops."""

    def forge(document: Any) -> None:
        held = document["mapping"]["tree"][0]["children"][0]["held"]
        held[:] = [*(own for own in held if own[0] != place), [place, *numbers]]

    return forge


def less_room(document: Any) -> None:
    document["problem"]["rooms"] = [document["problem"]["rooms"][0] - 1]
    for einsum in document["problem"]["einsums"]:
        for node in (own for own in einsum["mapspace"]["nodes"][1:] if own["kind"] == "storage"):
            node["most_size"] -= 1


def raised_bound(document: Any) -> None:
    document["bound"] += 1


def raised_cost(document: Any) -> None:
    document["bound"] += 1
    document["cost"]["energy"] += 1


def counted_exactly(document: Any) -> None:
    for einsum in document["problem"]["einsums"]:
        einsum["mapspace"]["counting"] = "exact"


@pytest.mark.parametrize(
    "forge",
    [
        *(less_room, raised_bound, raised_cost, counted_exactly),
        pytest.param(with_tile(0, 1, 1), id="fetched as a whole below all loops"),
        pytest.param(with_tile(0, 0, 0), id="held as a whole"),
        pytest.param(with_tile(0, 2, 1), id="below more loops than there are"),
        pytest.param(with_tile(0, 1, 2), id="fetched by more loops than are above"),
        pytest.param(with_tile(1, 1, 0), id="weights that no loop slides"),
    ],
)
def test_forged_certificates_are_refused(forge: Callable[[Any], None], kept: Any, tmp_path: Path):
    document = copy.deepcopy(kept)
    forge(document)
    assert resealed(document, tmp_path) in ("INVALID", "CANNOT CHECK")


def test_tiles_that_are_fetched_twice_are_refused(kept: Any, tmp_path: Path):
    """A tile that keeps what overlaps lies right below the loop that slides it, and no other one."""
    for number in range(2):
        document = copy.deepcopy(kept)
        document["mapping"]["tree"][0]["children"][number]["held"] = [[0, 1, 0], [0, 1, 0]]
        assert resealed(document, tmp_path) == "INVALID"


def test_claims_that_are_higher_by_one_are_refuted(kept: Any, tmp_path: Path):
    edges = [
        {**own, "corners": [[energy + 1, cycles] for energy, cycles in own["corners"]]}
        for own in kept["edges"]
    ]
    least = [{**own, "paid": own["paid"] + 1, "free": own["free"] + 1} for own in kept["least"]]
    for forged in ({"edges": edges}, {"least": least}, {"edges": edges, "least": least}):
        assert verdict(digested({**copy.deepcopy(kept), **forged}), tmp_path)[0] != "VALID"


def test_nothing_is_proven_where_shared_loops_may_have_remainders(kept: Any, tmp_path: Path):
    document = copy.deepcopy(kept)
    document["problem"]["shared_factors"] = "any"
    assert resealed(document, tmp_path) == "CANNOT CHECK"


def test_latency_and_edp_of_what_is_kept_are_proven(tmp_path: Path):
    for objective in ("latency", "edp"):
        document = certified(tmp_path, 6, 2, 1, 1, 6, objective=objective)
        assert verdict(document, tmp_path)[0] == "VALID"


def test_without_shared_loops_nothing_is_kept(tmp_path: Path):
    cascade = depthwise_and_pointwise(tmp_path, 6, 2, 1, 1, 6)
    result = fuse_cascade(cascade, "energy", limits=FusionLimits(max_loops=0))
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert verdict(document, tmp_path)[0] == "VALID"
    document["problem"]["most_loops"] = None
    assert resealed(document, tmp_path) == "CANNOT CHECK"
