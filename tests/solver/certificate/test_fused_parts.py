"""Certificates of fused results whose shared loops have remainders: priced, proven, and forged."""

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest
from model.fused.visits import Visits, path_dims
from model.mapping import Loop, Mapping, StorageMapping
from solver.certificate.checker import fused_cascade, fused_loops, fused_tree, fused_verdict, prove
from solver.fusion import FusedResult, FusionLimits, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.fusion.result import FusionStatistics
from solver.result import Options, Status, Termination
from tests.fused_bruteforce import trees, with_stored
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.slow import few
from tests.solver.certificate.checker import verdict
from tests.solver.certificate.test_fused import resealed
from tests.solver.fusion.test_remainders import UNLIKE, with_remainders

# ------------------------------------------------------------------------------------------ prices

BOUNDS = {
    "products": {"m": 5, "a": 2, "b": 3, "c": 2},
    "attention": {"m": 3, "e": 2, "f": 2, "p": 3},
    "window": {"q": 5, "r": 2, "p": 6, "c": 2},
}


def large(random: Random) -> Architecture:
    """Two memories with room for everything, perhaps with blocks and bandwidths."""
    energy = AccessEnergy(random.randint(1, 90), 0, random.randint(1, 90), random.choice((0, 2)))
    shared, block = random.choice((None, 1, 3)), random.choice((1, 4))
    own = AccessEnergy(*(random.randint(1, 9) for _ in range(3)))
    main = StorageLevel("Main", energy=energy, shared_bandwidth=shared, block_size=block)
    buffer = StorageLevel("GLB", size_words=500, energy=own, block_size=block, network_fill_latency=3)
    return Architecture("large", (main, buffer), Compute("MAC", energy=1))


def with_nests(random: Random, cascade: Cascade, tree: FusedMapping) -> FusedMapping:
    """A tree with private loops of the outermost memory in any order, and tiles held somewhere."""
    visits = Visits(cascade, tree)

    def leaf(name: str) -> Leaf:
        place, einsum = cascade.place(name), cascade.einsums[cascade.place(name)]
        path = tree.paths[place]
        dims, held = path_dims(path, len(path.loops)), []
        through = [access for access in einsum.accesses if access.tensor not in tree.stored_at]
        for access in (own for own in through if random.random() < 0.5):
            writer = cascade.writers.get(access.tensor, -1)
            others = cascade.readers(access.tensor) if writer == place else [writer] if writer >= 0 else []
            least = max((path.shared(tree.paths[other]) for other in others), default=0)
            if least < len(path.loops):
                held.append(Held(access.dataspace, random.randrange(least, len(path.loops))))
        outside = frozenset(access.dataspace for access in through)
        inside = outside - {tile.dataspace for tile in held}
        nests = []
        for chosen in product(*(visits.extents(place, dim, len(path.loops)) for dim in dims)):
            bounds = {**einsum.problem.bound, **dict(zip(dims, chosen, strict=True))}
            loops = [Loop(dim, size) for dim, size in bounds.items() if size > 1]
            outer = StorageMapping(tuple(random.sample(loops, len(loops))), outside)
            nests.append(PrivateNest(Mapping((outer, StorageMapping((), inside)))))
        return Leaf(name, tuple(nests), tuple(held))

    def below(children: Sequence[Body | Leaf]) -> tuple[Body | Leaf, ...]:
        pairs = ((child, isinstance(child, Body)) for child in children)
        return tuple(
            replace(child, children=below(child.children)) if is_body else leaf(child.einsum)  # type: ignore[union-attr]
            for child, is_body in pairs
        )

    return replace(tree, children=below(tree.children))


def claimed(cascade: Cascade, mapping: FusedMapping):
    """The certificate of a mapping, with a bound that says nothing."""
    cost = evaluate_fused(cascade, mapping)
    assert cost.valid
    result = FusedResult(
        *(Status.FEASIBLE, Termination.TIME_LIMIT, "energy", cascade, cost.value("energy"), 0),
        *(mapping, cost, None, FusionStatistics(0, 0, 0, 0, 0, 0, 0, 0, ()), (), UNLIKE),
    )
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("seed", few(range(8), 2))
def test_visits_with_remainders_cost_what_the_model_says(name: str, seed: int):
    """Also where they differ along a rank that is summed up: later ones touch nothing first."""
    random = Random(f"{name} {seed}")
    cascade = with_remainders(cascade_of(SHAPES[name], BOUNDS[name], large(random)))
    for tree in random.sample([*islice(trees(cascade, ragged=True), 300)], 6):
        stored = random.choice([*islice(with_stored(cascade, tree, None, True), 8)])
        document = claimed(cascade, with_nests(random, cascade, stored))
        found = fused_tree.Tree(fused_cascade.Cascade(document["problem"]), document["mapping"])
        assert found.price() == document["cost"]


# ------------------------------------------------------------------------------------------ loops


def test_loops_cut_every_part_into_tiles_of_one_extent():
    assert fused_cascade.parts(7, (2,)) == ((4, 1), (3, 1))
    assert fused_cascade.parts(7, (2, 2)) == ((2, 3), (1, 1))
    assert fused_cascade.parts(10, (2, 2)) == ((3, 2), (2, 2))
    assert fused_cascade.parts(10, (4, 3)) == ((1, 10),)
    assert sorted(fused_loops.chains(7, 2)) == [(2, 2), (3, 2), (4,)]
    assert fused_loops.chains(7, 7) == ((),)


@pytest.mark.parametrize("extent", [6, 7, 10, 12])
def test_loops_that_one_can_replace_cut_as_it_does(extent: int):
    for tile in range(1, extent):
        for trips in fused_loops.chains(extent, tile):
            own = dict(fused_cascade.parts(extent, trips))
            alone = dict(fused_cascade.parts(extent, fused_loops.single(extent, tile)))
            assert max(own) == tile
            assert sum(own.values()) >= sum(alone.values())
            assert own == alone or len(trips) > 1
            if len(trips) == 2 and not fused_loops.is_single(extent, trips):
                assert own == alone


# ------------------------------------------------------------------------------------------ proofs


def rows() -> Cascade:
    """Five rows, of which three and then two share the weights (docs/fusion.md has seven)."""
    nodes = (
        StorageLevel("Main", energy=AccessEnergy(200, 0, 200)),
        StorageLevel("GLB", size_words=9, energy=AccessEnergy(2, 2, 2)),
    )
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    return with_remainders(cascade_of(SHAPES["products"], {"m": 5, "a": 2, "b": 2, "c": 2}, architecture))


def certified(limits: FusionLimits):
    """The certificate of the best mapping."""
    result = fuse_cascade(rows(), "energy", Options(time_limit_s=math.inf), limits)
    return json.loads(json.dumps(fused_certificate(result, ["python"])))


@pytest.fixture(scope="module")
def document():
    """The certificate of an optimum whose shared loop has a remainder."""
    return certified(UNLIKE)


@pytest.fixture(scope="module")
def dearer():
    """That of the best mapping whose shared loops divide."""
    return certified(FusionLimits())


def test_the_optimum_is_proven_and_is_the_least_that_claims_leave_open(document, tmp_path):
    assert (document["status"], document["bound"]) == ("OPTIMAL", 7572)
    assert [loop["trips"] for loop in document["mapping"]["tree"][0]["loops"]] == [2]
    assert verdict(document, tmp_path)[0] == "VALID"
    cascade, limit = fused_cascade.Cascade(document["problem"]), document["bound"] + 1
    assert fused_verdict.left_open(cascade, document, limit, prove.refute, {}) == document["bound"]


def with_claims_of_its_own(doc, other):
    doc["least"], doc["edges"] = other["least"], [{**claim, "later": []} for claim in other["edges"]]


def with_all_claims(doc, other):
    pass


def without_claims(doc, other):
    doc["least"], doc["edges"] = [], []


def with_raised_floors(doc, other):
    for claim in doc["least"]:
        claim["free"], claim["paid"] = 9 * claim["free"], 9 * claim["paid"]


def with_raised_corners(doc, other):
    for claim in doc["edges"]:
        claim["corners"] = [[energy + 1, cycles] for energy, cycles in claim["corners"]]


def with_corners_for_further_loops(doc, other):
    for claim in doc["edges"]:
        claim["corners"] = [[9 * energy, cycles] for energy, cycles in claim["corners"]]
        claim["ruled"] = False


def without_mappings(doc, other):
    for claim in doc["edges"]:
        claim["corners"] = []


DEARER = {
    with_claims_of_its_own: "CANNOT CHECK",
    with_all_claims: "CANNOT CHECK",
    without_claims: "CANNOT CHECK",
    with_raised_floors: "INVALID CANNOT CHECK",
    with_raised_corners: "INVALID",
    with_corners_for_further_loops: "INVALID CANNOT CHECK",
    without_mappings: "INVALID",
}


@pytest.mark.parametrize("forge", DEARER)
def test_a_dearer_mapping_is_never_proven(forge, document, dearer, tmp_path):
    forged = copy.deepcopy(document)
    forged |= {key: copy.deepcopy(dearer[key]) for key in ("mapping", "cost", "bound")}
    assert forged["bound"] > document["bound"]
    forge(forged, copy.deepcopy(dearer))
    assert resealed(forged, tmp_path)[0] in DEARER[forge]


def a_higher_bound(doc):
    doc["bound"] += 1


def no_remainders_allowed(doc):
    doc["problem"]["shared_factors"] = "perfect"


def other_factors(doc):
    doc["problem"]["shared_factors"] = "some"


def an_empty_tile(doc):
    """Four trips over five rows are tiles of two, of which three are enough."""
    doc["mapping"]["tree"][0]["loops"][0]["trips"] = 4


def a_kind_of_visits_less(doc):
    doc["mapping"]["tree"][0]["children"][0]["nests"].pop()


@pytest.mark.parametrize(
    "forge", [a_higher_bound, no_remainders_allowed, other_factors, an_empty_tile, a_kind_of_visits_less]
)
def test_forged_certificates_are_refused(forge, document, tmp_path):
    forged = copy.deepcopy(document)
    forge(forged)
    assert resealed(forged, tmp_path)[0] == "INVALID"
