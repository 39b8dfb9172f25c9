"""A tiling as a mapping: valid, near the tiling, never below the optimum."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, Packing, StorageLevel
from model.cost import evaluate
from model.extents import ANY, FACTORS, PERFECT
from model.mapping import Mapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules, Mapspace, ParallelGroup, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from model.tiling.operators import InnerProduct
from solver import Options, map_einsum
from solver.heuristics.interface import Budget, MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.smaug.mapper import SmaugTiling, find_operator, find_scratchpads
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace

SPECS = REPOSITORY / "specs"
NAMES = ("Inputs", "Weights", "Outputs")


def _term(*dims, stride=1):
    return tuple(Term(dim, stride if number == 0 and len(dims) > 1 else 1) for number, dim in enumerate(dims))


def _convolution(stride=1, **bounds) -> Problem:
    dims = tuple("NPQKCRS")
    return Problem(
        "convolution",
        dims,
        tuple(bounds.get(dim, 1) for dim in dims),
        (
            Dataspace("Inputs", (_term("N"), _term("P", "R", stride=stride), _term("Q", "S"), _term("C"))),
            Dataspace("Weights", (_term("K"), _term("R"), _term("S"), _term("C"))),
            Dataspace("Outputs", (_term("N"), _term("P"), _term("Q"), _term("K")), read_write=True),
        ),
    )


def _shared(problem: Problem, words: int) -> Mapspace:
    """Two levels, all tensors in one buffer."""
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(200, 200, 200)),
        StorageLevel("buffer", words, energy=AccessEnergy(2, 2, 2)),
        Fanout("PE", mesh_x=4, mesh_y=2),
    )
    architecture = Architecture("shared", nodes, Compute("mac", 1))
    every = frozenset(NAMES)
    return Mapspace(
        problem,
        architecture,
        (TemporalRules(), TemporalRules()),
        (SpatialRules(),),
        (KeepRules(keep=every), KeepRules(keep=every)),
    )


def _separate(problem: Problem, words: int) -> Mapspace:
    """Two levels of tiles, a scratchpad per tensor."""
    every = frozenset(NAMES)
    pads = tuple(StorageLevel(name.lower(), words, energy=AccessEnergy(2, 2, 2)) for name in NAMES)
    nodes = (StorageLevel("DRAM", energy=AccessEnergy(200, 200, 200)), *pads, Fanout("PE", mesh_x=4))
    keeps = tuple(KeepRules(keep=frozenset({name}), bypass=every - {name}) for name in NAMES)
    return Mapspace(
        problem,
        Architecture("separate", nodes, Compute("mac", 1)),
        (TemporalRules(),) * 4,
        (SpatialRules(),),
        (KeepRules(keep=every), *keeps),
        parallel=(ParallelGroup((1, 2, 3)),),
    )


def _shipped(architecture: str, problem: str) -> Mapspace:
    return perfect_mapspace(SPECS / "architectures" / f"{architecture}.yaml", SPECS / f"{problem}.yaml")


def _priced(mapspace: Mapspace, mapper: SmaugTiling) -> tuple[Mapping, int]:
    mapping = mapper.find_mapping(mapspace, Pricing(mapspace, ("energy",), Budget(None)))
    evaluation = evaluate(mapspace.problem, mapspace.architecture, mapping)
    assert evaluation.valid
    return mapping, evaluation.energy


@settings(max_examples=25)
@given(
    st.builds(
        _convolution,
        stride=st.integers(1, 3),
        N=st.integers(1, 3),
        P=st.integers(1, 12),
        Q=st.integers(1, 8),
        K=st.integers(1, 16),
        C=st.integers(1, 16),
        R=st.integers(1, 3),
        S=st.integers(1, 3),
    ),
    st.sampled_from((24, 60, 200, 1000)),
    st.sampled_from((_shared, _separate)),
    st.sampled_from((1, 2, 4)),
    st.sampled_from(FACTORS),
)
def test_mappings_are_allowed_and_every_difference_is_said(problem, words, build, step, kind):
    mapspace = replace(build(problem, words), factors=kind)
    try:
        tiled = SmaugTiling(num_pes=step, num_maccs_per_pe=step).tile(mapspace)
    except MapperError:
        assume(False)
    pricing = Pricing(mapspace, ("energy",), Budget(None))
    assert pricing.offer(tiled.mapping) is None
    tensors = {"inputs": "Inputs", "weights": "Weights", "outputs": "Outputs"}
    said = {(rounding.dataspace, rounding.dim): rounding for rounding in tiled.roundings}
    for rounding in said.values():
        assert rounding.used < rounding.wanted
        assert kind == ANY or rounding.bound % rounding.used == 0
    outputs = tiled.tiling["outputs"].tile
    for dim, rank in (("N", 0), ("K", 3)):
        if kind == PERFECT and (tensors["outputs"], dim) not in said:
            assert problem.bound[dim] % outputs[rank] == 0


@settings(max_examples=8)
@given(
    st.builds(
        _convolution, P=st.integers(1, 4), K=st.integers(1, 4), C=st.integers(1, 4), R=st.integers(1, 2)
    ),
    st.sampled_from((16, 40)),
    st.sampled_from((_shared, _separate)),
)
def test_never_below_the_optimum(problem, words, build):
    mapspace = build(problem, words)
    try:
        _, energy = _priced(mapspace, SmaugTiling(1, 1))
    except MapperError:
        assume(False)
    result = map_einsum(mapspace, Options(objectives=("energy",), jobs=1))
    assert result.evaluation is not None
    assert energy >= result.evaluation.energy


def test_factors_are_the_tiles_where_these_divide():
    mapspace = _separate(_convolution(P=12, Q=4, K=8, C=16), 96)
    tiled = SmaugTiling(num_pes=4, num_maccs_per_pe=8).tile(mapspace)
    assert [tensor.tile for tensor in tiled.tiling.tensors] == [(1, 1, 4, 16), (4, 1, 1, 16), (1, 1, 4, 4)]
    assert tiled.roundings == ()
    outermost = tiled.mapping.nodes[0]
    assert isinstance(outermost, StorageMapping)
    assert [(loop.dim, loop.bound) for loop in outermost.temporal] == [("K", 2), ("P", 12)]


def test_each_dimension_lies_along_one_side_of_a_mesh():
    mapspace = _shared(_convolution(P=4, K=16, C=16), 4000)
    nodes = (*mapspace.architecture.nodes[:2], Fanout("columns", 2, 4), Fanout("rows", 4, 2))
    meshes = replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=nodes),
        spatial=(SpatialRules(), SpatialRules()),
    )
    tiled = SmaugTiling().tile(meshes)
    assert Pricing(meshes, ("energy",), Budget(None)).offer(tiled.mapping) is None
    assert [node.spatial for node in tiled.mapping.nodes[2:]] == [
        (SpatialLoop("K", 4, "y"),),
        (SpatialLoop("C", 4, "x"),),
    ]


def test_the_largest_divisor_that_fits_replaces_a_tile_that_does_not_divide():
    mapspace = _shipped("smv_like", "layers/vgg16/10_conv4_3")
    tiled = SmaugTiling().tile(mapspace)
    assert tiled.tiling["outputs"].tile == (1, 12, 28, 48)
    said = [str(rounding) for rounding in tiled.roundings]
    assert (
        "Outputs: 7 of P instead of 12 in a tile, the largest divisor that fits, as 12 does not divide 28"
        in said
    )
    assert len(said) == 4
    anyhow = SmaugTiling().tile(replace(mapspace, factors=ANY))
    outermost, wider = tiled.mapping.nodes[0], anyhow.mapping.nodes[0]
    assert {loop.dim: loop.bound for loop in outermost.temporal}["P"] == 4
    assert {loop.dim: loop.bound for loop in wider.temporal}["P"] == 3
    assert all(rounding.dim != "P" for rounding in anyhow.roundings)
    pricing = Pricing(mapspace, ("energy",), Budget(None))
    assert SmaugTiling().find_mapping(mapspace, pricing) == tiled.mapping
    assert pricing.notes == said


def test_weights_go_through_whole_inputs_channel_by_channel():
    tiled = SmaugTiling().tile(_shipped("smv_like", "layers/gpt3_6.7b/07_ffn_up"))
    inputs = tiled.mapping.nodes[1]
    assert isinstance(inputs, StorageMapping)
    assert [(loop.dim, loop.bound) for loop in inputs.temporal] == [("C", 128)]
    assert tiled.roundings == ()


def test_groups_are_loops_around_the_tiles():
    tiled = SmaugTiling().tile(_shipped("smv_like", "layers/alexnet/02_conv2"))
    outermost = tiled.mapping.nodes[0]
    assert isinstance(outermost, StorageMapping)
    assert (outermost.temporal[-1].dim, outermost.temporal[-1].bound) == ("G", 2)


@pytest.mark.parametrize(
    ("architecture", "problem", "message"),
    [
        ("eyeriss_like", "layers/vgg16/10_conv4_3", "Weights is first kept in weight_spad, below a fanout"),
        ("free_three_level", "problems/mttkrp", "convolutions and matrix products"),
        ("free_three_level", "problems/dilated_conv", "does not tile dilated convolutions"),
    ],
)
def test_what_it_cannot_map_is_said(architecture, problem, message):
    with pytest.raises(MapperError, match=message):
        SmaugTiling().tile(_shipped(architecture, problem))


@pytest.mark.parametrize(
    ("inputs", "weights", "outputs", "message"),
    [
        (["M", "C"], ["C", "K"], ["M"], "one dimension each"),
        (["A", "B", "C"], ["C", "K"], ["A", "B", "K"], "one dimension each"),
        (["M", "C"], ["C", "K"], ["M", "K", "X"], "one dimension each"),
        (["M+R", "K"], ["R+X", "K"], ["M", "X"], "both operands have ranks of more than one dimension"),
        (["M+R+X", "C"], ["R", "X", "C", "K"], ["M", "K"], "the place of a window plus an offset"),
    ],
)
def test_other_einsums_are_refused(inputs, weights, outputs, message):
    ranks = [tuple(_term(*rank.split("+")) for rank in space) for space in (inputs, weights, outputs)]
    dims = tuple("ABMCKRX")
    spaces = tuple(
        Dataspace(name, space, read_write=name == "Outputs") for name, space in zip(NAMES, ranks, strict=True)
    )
    used = {dim for space in spaces for dim in space.dims}
    problem = Problem("other", dims, tuple(3 if dim in used else 1 for dim in dims), spaces)
    with pytest.raises(MapperError, match=message):
        SmaugTiling().tile(_shared(problem, 1000))


def test_a_matrix_product_takes_its_weights_by_name_or_place():
    def product(*names):
        spaces = (
            Dataspace(names[0], (_term("A"), _term("B"))),
            Dataspace(names[1], (_term("B"), _term("C"))),
            Dataspace("Z", (_term("A"), _term("C")), read_write=True),
        )
        return find_operator(Problem("product", ("A", "B", "C"), (2, 3, 5), spaces))

    assert product("Filters", "X").operator == InnerProduct((5, 3), 2)
    assert product("X", "Y").operator == InnerProduct((2, 3), 5)


def test_scratchpads_that_are_too_small_are_said():
    with pytest.raises(MapperError, match="SMAUG cannot tile convolution: no "):
        SmaugTiling().tile(_shared(_convolution(P=30, Q=30, C=64, K=64, R=3, S=3), 30))


def test_half_of_a_doubly_buffered_scratchpad_is_used():
    mapspace = _shared(_convolution(P=12, Q=4, K=4, C=8), 600)
    outermost, buffer, fanout = mapspace.architecture.nodes
    doubled = replace(buffer, multiple_buffering=Fraction(2))
    architecture = replace(mapspace.architecture, nodes=(outermost, doubled, fanout))
    halved = replace(mapspace, architecture=architecture)
    assert [SmaugTiling().tile(each).tiling.backend.capacity for each in (mapspace, halved)] == [200, 100]
    _priced(halved, SmaugTiling())


@pytest.mark.parametrize(("build", "shares"), [(_shared, 3), (_separate, 1)])
def test_the_widest_values_decide_how_many_fit(build, shares):
    mapspace = build(_convolution(P=8, Q=8, K=8, C=8), 960)
    nodes = tuple(
        replace(node, packing=(Packing("Outputs", 1, 4, 4),)) if isinstance(node, StorageLevel) else node
        for node in mapspace.architecture.nodes
    )
    wide = replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
    assert find_scratchpads(mapspace).capacity == 960 // shares
    assert find_scratchpads(wide).capacity == 960 // shares // 4
    _priced(wide, SmaugTiling(num_pes=4, num_maccs_per_pe=4))


def test_options_are_checked():
    with pytest.raises(ValueError, match="at least 1"):
        SmaugTiling(num_pes=0)
