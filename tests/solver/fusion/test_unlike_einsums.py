"""Einsums that use a chip differently: clocks and computes of their own, least use of arrays, windows."""

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.counting import ACCELFORGE, EXACT, Counting
from model.formats.fused import accelforge_mapping, fused_yaml, load_cascade, load_fused
from model.formats.timeloop import AccelForgeOptions, LoadOptions
from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.fused.mapping import Held
from model.mapspace import KeepRules
from model.text.source import SpecError
from solver.certificate.canonical import canonical_sha256
from solver.fusion import FusedResult, fuse_cascade
from solver.fusion.certificate import fused_certificate
from solver.fusion.edges import EdgeKind
from solver.fusion.least import EdgePricer, Effort
from solver.fusion.limits import FusionLimits, NotSearchedError
from solver.fusion.space import FusionSpace
from solver.fusion.unrolling import UnrolledVisits
from solver.result import Clock, Options, Status
from tests.fused_bruteforce import BruteForce
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.model.fused.reference import FUSED
from tests.reference import SHARED
from tests.slow import few
from tests.solver.certificate.checker import digested, verdict
from tests.solver.fusion.test_optimum import OBJECTIVES, by_place, drawn, windowed
from tests.solver.fusion.test_stores import deep

ARCHES = SHARED / "reference" / "accelforge_arches"

PRODUCT_AND_COPY = """
workload:
  rank_sizes: {M: 64, A: 64, B: 64}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T1[m, b] = T0[m, a] * W0[a, b]", renames: {input: T0, output: T1, weight: W0}}
  - {einsum: "T2[m, b] = T1[m, b]", renames: {input: T1, output: T2, weight: Nothing}}
"""

ATTENTION = """
workload:
  rank_sizes: {M: 64, P: 64, E: 128, F: 128}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "QK[m, p] = Q[m, e] * K[p, e]", renames: {input: Q, output: QK, weight: K}}
  - {einsum: "SM[m, p] = QK[m, p]", renames: {input: QK, output: SM, weight: Nothing}}
  - {einsum: "AV[m, f] = SM[m, p] * V[p, f]", renames: {input: SM, output: AV, weight: V}}
"""

# With the sizes and figures of a TPU v4i, whose elementwise unit lies beside the array.
TWO_COMPUTES = """
arch:
  nodes:
  - !Memory
    {name: Main, size: inf, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 7.03e-12, throughput: 4912e9},
      {name: write, energy: 7.03e-12, throughput: 4912e9}]}
  - !Memory
    {name: Global, size: 1073741824, leak_power: 0, tensors: {keep: ~Main.tensors, may_keep: All},
     total_latency: max(a.n_calls / a.throughput for a in actions), actions: [
      {name: read, energy: 1.88e-12, throughput: 16384e9},
      {name: write, energy: 2.36e-12, throughput: 8192e9}]}
  - !Memory
    {name: Local, size: 33554432, leak_power: 0, tensors: {keep: input | output},
     spatial: [{name: Z, fanout: 4, may_reuse: Nothing, min_usage: 1}], actions: [
      {name: read, energy: 0.249e-12, throughput: inf}, {name: write, energy: 0.293e-12, throughput: inf}]}
  - !Compute
    {name: Scalar, leak_power: 0, enabled: len(All) == 2, actions: [
      {name: compute, energy: 0, throughput: 1.05e9 * 128}]}
  - !Container
    {name: Array, spatial: [{name: X, fanout: 128, reuse: input, min_usage: 1},
                            {name: Y, fanout: 128, reuse: output, min_usage: 1}]}
  - !Memory
    {name: Register, size: weight.bits_per_value if weight else 0, leak_power: 0, tensors: {keep: weight},
     actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Compute
    {name: MAC, leak_power: 0, enabled: len(All) == 3, actions: [
      {name: compute, energy: 0.084e-12, throughput: 1.05e9}]}
"""


def read(folder: Path, workload: str, arch: str | Path, costs: Path | None = None) -> Cascade:
    """Read a cascade from texts, or from files."""
    files = [folder / "workload.yaml", folder / "arch.yaml"]
    files[0].write_text(workload, encoding="utf-8")
    if isinstance(arch, Path):
        files[1] = arch
    else:
        files[1].write_text(arch, encoding="utf-8")
    return load_cascade(files, options=LoadOptions(accelforge=AccelForgeOptions(costs=costs)))[0]


def with_own_clocks(cascade: Cascade) -> Cascade:
    """Give the Einsums of a cascade cycles of different lengths."""
    lengths = (1 + sum(own.problem.bounds) % 4 for own in cascade.einsums)
    pairs = zip(cascade.einsums, lengths, strict=True)
    return replace(cascade, einsums=tuple(replace(own, cycle_length=length) for own, length in pairs))


def with_least_use(cascade: Cascade) -> Cascade:
    """Require each Einsum to use two instances of the array, or one dimension alone."""
    einsums = []
    for place, einsum in enumerate(cascade.einsums):
        own, dim = einsum.mapspace, sorted(einsum.problem.dims)[-1]
        (array, *_) = (fanout.name for fanout in own.architecture.fanouts)
        odd = f"spatial({array}, {dim}) == instances({array})"
        even = f"instances({array}) >= 2" if any(size % 2 == 0 for size in own.problem.bounds) else odd
        einsums.append(replace(einsum, mapspace=own.where(odd if place % 3 == 1 else even)))
    return replace(cascade, einsums=tuple(einsums))


def on_array(seed: int, name: str) -> Cascade:
    """A cascade on an array of registers, which keep one tensor."""
    random = Random(f"array {name} {seed}")
    main = StorageLevel("Main", energy=AccessEnergy(60, 0, 70), shared_bandwidth=random.choice((None, 1)))
    buffer = StorageLevel("GLB", size_words=11, energy=AccessEnergy(6, 7, 8))
    registers = StorageLevel("RF", size_words=4, energy=AccessEnergy(1, 2, 2))
    nodes = (main, buffer, Fanout("PE", random.choice((2, 3, 4))), registers)
    bounds = {dim: random.choice((2, 3, 4)) for dim in "mabcpef"}
    texts, architecture = SHAPES[name], Architecture("small", nodes, Compute("MAC", 1))
    used = {char for text in texts for char in text if char.islower()}
    cascade = cascade_of(texts, {dim: bounds[dim] for dim in sorted(used)}, architecture, 1)
    einsums = []
    for einsum in cascade.einsums:
        others = frozenset(own.dataspace for own in einsum.accesses if own.tensor not in ("W", "K"))
        rules = (KeepRules(), KeepRules(), KeepRules(bypass=others))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, keep=rules)))
    return replace(cascade, einsums=tuple(einsums))


def check(cascade: Cascade, objective: str, tmp_path: Path, **how: bool) -> FusedResult:
    """Compare the search with enumeration, and have its certificate checked."""
    (optimum,) = BruteForce(cascade, **how).optima((objective,)).values()
    result = fuse_cascade(cascade, objective, Options(time_limit_s=math.inf))
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == optimum.value
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert verdict(document, tmp_path)[0] == "VALID"
    return result


@pytest.mark.parametrize("name, objective", few([("attention", "edp"), ("products", "latency")], 2))
def test_clocks_of_their_own(name: str, objective: str, tmp_path: Path):
    cascade = with_own_clocks(drawn(Random(f"clocks {name}"), name))
    assert len({own.cycle_length for own in cascade.einsums}) > 1
    result = check(cascade, objective, tmp_path, even=True)
    assert result.mapping is not None
    assert not disagreements(cascade, result.mapping, seed=0)
    plain = replace(cascade, einsums=tuple(replace(own, cycle_length=1) for own in cascade.einsums))
    assert result.value is not None
    other = evaluate_fused(plain, result.mapping)
    assert other.value(objective) < result.value


@pytest.mark.parametrize("name, seed, objective", few([("products", 0, "energy"), ("attention", 1, "edp")]))
def test_rules_on_the_use_of_an_array(name: str, seed: int, objective: str, tmp_path: Path):
    free = on_array(seed, name)
    result = check(with_least_use(free), objective, tmp_path, even=True)
    alone = fuse_cascade(free, objective)
    assert result.value is not None
    assert alone.value is not None
    assert alone.value < result.value


def test_a_nest_that_breaks_a_rule_is_no_claim(tmp_path: Path):
    free, ruled = on_array(0, "products"), with_least_use(on_array(0, "products"))
    document, other = (
        json.loads(json.dumps(fused_certificate(fuse_cascade(own, "energy"), ["python"])))
        for own in (ruled, free)
    )
    parts = ("mapping", "cost", "bound", "least", "edges")
    forged = digested({**document, **{key: other[key] for key in parts}})
    assert verdict(forged, tmp_path) == (
        "INVALID",
        "this claim fails: the nests satisfy all user-defined constraints",
    )


def test_rules_about_tiles_are_refused():
    cascade = drawn(Random("tiles"), "products")
    first, *others = cascade.einsums
    ruled = replace(first, mapspace=first.mapspace.where("words(GLB, W) <= 3"))
    with pytest.raises(NotSearchedError, match="constraints are about the factors of one fanout"):
        fuse_cascade(replace(cascade, einsums=(ruled, *others)), "energy")


@pytest.mark.parametrize(
    "name, seed, objectives",
    few([("window", 1, OBJECTIVES), ("two windows", 0, ("latency",)), ("depthwise", 5, ("energy",))], 3),
)
def test_windows_by_accelforges_rule(name: str, seed: int, objectives: tuple[str, ...], tmp_path: Path):
    cascade = by_place(windowed(Random(f"{name} {seed}"), name))
    optima = BruteForce(cascade, divided=True).optima(objectives)
    for objective, optimum in optima.items():
        result = fuse_cascade(cascade, objective)
        assert result.status is Status.OPTIMAL
        assert result.value == result.bound == optimum.value
        assert "shared loops slide no windows of tensors that are passed on" in result.restrictions
        document = json.loads(json.dumps(fused_certificate(result, ["python"])))
        assert verdict(document, tmp_path)[0] == "VALID"
        if objective == "latency":
            raised = [{**own, "cycles": own["cycles"] + 1} for own in document["least"]]
            assert verdict(digested({**document, "least": raised}), tmp_path)[0] == "INVALID"


TWO_MEMORIES = """
arch:
  nodes:
  - !Memory
    {name: Main, size: inf, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 100, throughput: inf}, {name: write, energy: 100, throughput: inf}]}
  - !Memory
    {name: Buffer, size: 24, leak_power: 0, tensors: {keep: ~Main, may_keep: All}, actions: [
      {name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""

DEPTHWISE = """
workload:
  rank_sizes: {C: 2, M: 2, P: 8, R: 3, S: 2}
  bits_per_value: {All: 1}
  einsums:
  - {einsum: "T1[c, p] = T0[c, H: p + r] * W0[c, r]", renames: {input: T0, output: T1, weight: W0}}
  - {einsum: "T2[m, p] = T1[c, p] * W1[m, c]", renames: {input: T1, output: T2, weight: W1}}
"""


@pytest.mark.parametrize(
    "old, new, counting, may_keep",
    [
        ("", "", ACCELFORGE, True),
        ("H: p + r", "H: p", ACCELFORGE, False),
        ("[c, H: p + r] * W0[c, r]", "[c, p, H: r + s] * W0[c, r, s]", ACCELFORGE, False),
        ("", "", EXACT, False),
    ],
)
def test_tiles_keep_what_overlaps_where_a_shared_loop_slides_them_by_accelforges_rule(
    old: str, new: str, counting: Counting, may_keep: bool, tmp_path: Path
):
    cascade = read(tmp_path, DEPTHWISE.replace(old, new), TWO_MEMORIES)
    spaces = (replace(own.mapspace, counting=counting) for own in cascade.einsums)
    einsums = (replace(own, mapspace=space) for own, space in zip(cascade.einsums, spaces, strict=True))
    space = FusionSpace(replace(cascade, einsums=tuple(einsums)), FusionLimits())
    assert bool(space.overlapping(0, 2)) == may_keep


def test_what_the_outermost_memory_leaves_is_stored_in_the_next_one(tmp_path: Path):
    open_arch = TWO_COMPUTES.replace("{keep: ~Main.tensors, may_keep: All}", "{may_keep: All}")
    spaces = [
        FusionSpace(read(tmp_path, ATTENTION, arch), FusionLimits()) for arch in (TWO_COMPUTES, open_arch)
    ]
    assert [space.homes for space in spaces] == [{"QK": (1,), "SM": (1,)}, {"QK": (1, 2), "SM": (1, 2)}]


def test_attention_on_a_tpu_takes_the_energy_of_accelforges_optimum(tmp_path: Path):
    result = fuse_cascade(read(tmp_path, ATTENTION, TWO_COMPUTES), "energy")
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.evaluation.energy_j == pytest.approx(3.6458987843421263e-6, rel=1e-7)


def test_visits_have_to_fill_an_array(tmp_path: Path):
    cascade = read(tmp_path, ATTENTION, TWO_COMPUTES)
    visits = UnrolledVisits(cascade)
    whole = [dict(einsum.problem.bound) for einsum in cascade.einsums]
    assert all(visits.may_be(place, own) for place, own in enumerate(whole))
    pricer = EdgePricer(FusionSpace(cascade, FusionLimits()), "energy", Options(), Clock(None))
    for trips in ({"m": 32}, {"m": 16}, {"p": 2}, {"m": 16, "p": 2}, {"e": 2}):
        own = {dim: size // trips.get(dim, 1) for dim, size in whole[0].items()}
        kind = EdgeKind(0, tuple(sorted(trips.items())))
        found = pricer.least(kind, Effort.ONE_STEP)
        assert visits.may_be(0, own) is any(choice.point is not None for choice in found)


def test_searches_that_are_cut_short_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cascade = read(tmp_path, PRODUCT_AND_COPY, TWO_COMPUTES)
    at_once = fuse_cascade(cascade, "energy")
    monkeypatch.setattr("solver.fusion.bounds.UNHURRIED_S", 1e-4)
    in_steps = fuse_cascade(cascade, "energy")
    assert in_steps.statistics.searches > at_once.statistics.searches
    assert (
        (in_steps.status, in_steps.value)
        == (at_once.status, at_once.value)
        == (Status.OPTIMAL, at_once.bound)
    )


def test_shared_loops_that_move_windows_have_no_price():
    cascade = windowed(Random("window 2"), "window")
    mapping = fuse_cascade(cascade, "energy").mapping
    assert mapping is not None
    with pytest.raises(
        ValueError, match="does not count shared loops that slide windows of what is handed over, as `q`"
    ):
        evaluate_fused(by_place(cascade), mapping)


@pytest.mark.skipif(not FUSED.exists(), reason="needs the reference figures")
def test_a_cascade_of_windows_costs_what_accelforge_says(tmp_path: Path):
    rows = map(json.loads, (FUSED / "cases.jsonl").read_text().splitlines())
    row = next(own for own in rows if own["name"] == "conv2_S64" and not own["unfused"])
    result = fuse_cascade(read(tmp_path, row["workload"], row["arch"]), "energy")
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.evaluation.energy_j == pytest.approx(row["energy"], rel=1e-6)


@pytest.mark.skipif(not ARCHES.exists(), reason="needs AccelForge's architectures")
def test_registers_that_hold_nothing_of_an_einsum(tmp_path: Path):
    cascade = read(tmp_path, PRODUCT_AND_COPY, ARCHES / "nvdla.yaml", ARCHES / "costs.yaml")
    assert len({own.mapspace.architecture.levels[2].size_words for own in cascade.einsums}) == 1
    result = fuse_cascade(cascade, "energy")
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    # AccelForge's own optimum.
    assert result.evaluation.energy_j == pytest.approx(7.926415e-7, rel=1e-6)
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert verdict(document, tmp_path)[0] == "VALID"


def test_elementwise_einsums_run_beside_the_array(tmp_path: Path):
    cascade = read(tmp_path, ATTENTION, TWO_COMPUTES)
    assert [own.cycle_length for own in cascade.einsums] == [128, 1, 128]
    assert len({tuple(node.name for node in own.mapspace.architecture.nodes) for own in cascade.einsums}) == 1
    result = fuse_cascade(cascade, "latency")
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    # AccelForge 1.0.467: 6.0987127e-8 s.
    assert float(result.evaluation.latency_s or 0) == pytest.approx(6.0987127e-8, rel=1e-7)


def test_values_of_several_sizes(tmp_path: Path):
    """Words are the same in all Einsums; registers that hold larger values of one of them store nothing."""
    sizes = ATTENTION.replace("{All: 8}", "{V: 16, All - V: 8}")
    cascade = read(tmp_path, sizes, TWO_COMPUTES)
    registers = [own.mapspace.architecture.on_chip[-1] for own in cascade.einsums]
    assert [own.word_bits for own in registers] == [8, 8, 8]
    assert [own.size_words for own in registers] == [1, 1, 2]
    result = fuse_cascade(cascade, "latency", Options(time_limit_s=0.5))
    assert "`Register` stores nothing for several Einsums, as its size differs between them" in str(
        result.restrictions
    )


def resized(cascade: Cascade, name: str, sizes: Sequence[int]) -> Cascade:
    """Give a memory a different size for each Einsum."""
    einsums = []
    for einsum, size in zip(cascade.einsums, sizes, strict=True):
        architecture = einsum.mapspace.architecture
        nodes = (replace(n, size_words=size) if n.name == name else n for n in architecture.nodes)
        architecture = replace(architecture, nodes=tuple(nodes))
        einsums.append(replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture)))
    return replace(cascade, einsums=tuple(einsums))


@pytest.mark.parametrize("sizes, objective", [((1, 4), "energy"), ((4, 1), "edp")])
def test_registers_of_several_sizes_have_certificates(sizes: tuple[int, int], objective: str, tmp_path: Path):
    cascade = resized(deep(Random("products 10"), "products"), "RF", sizes)
    result = check(cascade, objective, tmp_path, even=True)
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert document["problem"]["rooms"][1] is None
    none = copy.deepcopy(document)
    for einsum in none["problem"]["einsums"]:
        for node in einsum["mapspace"]["nodes"]:
            if node["kind"] == "storage" and node["name"] == "RF":
                node["most_size"] = 0
    none["problem_sha256"] = canonical_sha256(none["problem"])
    assert verdict(digested(none), tmp_path)[0] == "INVALID"


def test_an_outermost_on_chip_memory_has_one_size():
    with pytest.raises(NotSearchedError, match="`GLB` has different sizes for some Einsums"):
        fuse_cascade(resized(drawn(Random("unlike 0"), "products"), "GLB", (8, 14)), "energy")


def test_what_einsums_must_have_in_common(tmp_path: Path):
    other = TWO_COMPUTES.replace("size: 1073741824", "size: 1073741824 if weight else 65536")
    with pytest.raises(
        SpecError, match="Einsum `SM` differs from the Einsums before it in the size of `Global`"
    ):
        read(tmp_path, ATTENTION, other)
    still = TWO_COMPUTES.replace("throughput: 1.05e9 * 128", "throughput: inf")
    still = still.replace("throughput: 4912e9", "throughput: inf").replace(
        "throughput: 8192e9", "throughput: inf"
    )
    with pytest.raises(SpecError, match="nothing takes time there"):
        read(tmp_path, ATTENTION, still.replace("throughput: 16384e9", "throughput: inf"))


WINDOW_BEFORE = """
workload:
  rank_sizes: {P0: 10, P1: 8, C: 2, K: 2}
  bits_per_value: {All: 1}
  einsums:
  - name: A
    tensor_accesses:
    - {name: T0, projection: {P0: p1 + r0, C: c}}
    - {name: W0, projection: [c, r0]}
    - {name: T1, projection: [p1, c], output: True}
    iteration_space_shape: [0 <= r0 < 3]
  - name: B
    tensor_accesses:
    - {name: T1, projection: [p1, c]}
    - {name: W1, projection: [c, k]}
    - {name: T2, projection: [p1, k], output: True}
"""

ONE_BUFFER = """
arch:
  nodes:
  - !Memory
    {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 100, throughput: inf}, {name: write, energy: 100, throughput: inf}]}
  - !Memory
    {name: GLB, size: 16, leak_power: 0, area: 0, tensors: {keep: ~Main, may_keep: All}, actions: [
      {name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def test_shared_loops_move_windows_of_what_is_not_handed_over(tmp_path: Path):
    result = fuse_cascade(read(tmp_path, WINDOW_BEFORE, ONE_BUFFER), "energy")
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert result.mapping is not None
    assert {loop.dim("A") for loop in result.mapping.paths[0].loops} == {"p1"}
    assert result.evaluation.energy_j == 6226  # as AccelForge's `evaluate_mapping` says
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    assert verdict(document, tmp_path)[0] == "VALID"
    raised = [{**own, "paid": own["paid"] + 1} for own in document["least"]]
    assert verdict(digested({**document, "least": raised}), tmp_path)[0] == "INVALID"
    alone = fuse_cascade(result.cascade, "energy", limits=FusionLimits(max_loops=0))
    other = json.loads(json.dumps(fused_certificate(alone, ["python"])))
    parts = ("mapping", "cost", "bound", "least", "edges")
    forged = digested({**document, **{key: other[key] for key in parts}})
    assert alone.value > result.value
    assert verdict(forged, tmp_path)[0] in ("INVALID", "CANNOT CHECK")


def test_no_certificate_says_that_a_tile_keeps_what_overlaps(tmp_path: Path):
    result = fuse_cascade(read(tmp_path, WINDOW_BEFORE, ONE_BUFFER), "energy")
    document = json.loads(json.dumps(fused_certificate(result, ["python"])))
    tree = copy.deepcopy(document["mapping"])
    leaf = tree["tree"][0]["children"][0]
    leaf["held"] = [[0, 1, True], *leaf["held"]]
    assert verdict(digested({**document, "mapping": tree}), tmp_path)[0] == "INVALID"


SLID = """
fused_mapping:
- body:
  - {loop: {A: p1, B: p1}, trips: 8}
  - {store: T1, memory: GLB}
  - {einsum: A, nest: [{keep: [T0], memory: GLB}, {loop: c, trips: 2}, {loop: r0, trips: 3}]}
  - {einsum: B, nest: [{loop: c, trips: 2}, {loop: k, trips: 2}]}
"""


def test_what_stays_while_a_shared_loop_slides_it_is_read_and_written(tmp_path: Path):
    cascade = read(tmp_path, WINDOW_BEFORE, ONE_BUFFER)
    files, own, other = (
        [tmp_path / "workload.yaml", tmp_path / "arch.yaml"],
        tmp_path / "own",
        tmp_path / "af",
    )
    own.write_text(SLID)
    slid = load_fused(files, own).mapping
    other.write_text(accelforge_mapping(cascade, slid))
    whole = (slid, load_fused(files, other).mapping)
    assert [evaluate_fused(cascade, own).energy_j for own in whole] == [17888] * 2  # as AccelForge says
    assert whole[1].paths[0].leaf.held == ()
    other.write_text(accelforge_mapping(cascade, load_fused(files, _within(own)).mapping))
    assert evaluate_fused(cascade, load_fused(files, other).mapping).valid
    lines = other.read_text().splitlines(keepends=True)
    tile = next(line for line in lines if "[T0], component: GLB" in line)
    lines.remove(tile)
    lines.insert(next(n for n, line in enumerate(lines) if "p1, tile_shape" in line), f"  {tile.lstrip()}")
    other.write_text("".join(lines))
    kept = load_fused(files, other).mapping
    assert kept.paths[0].leaf.held == (Held("T0", 1, keeps_overlap=True),)
    assert evaluate_fused(cascade, kept).energy_j == 15060  # as AccelForge's `evaluate_mapping` says
    other.write_text(accelforge_mapping(cascade, kept))
    assert load_fused(files, other).mapping == kept
    own.write_text(fused_yaml(cascade, kept))
    assert load_fused(files, own).mapping == kept


def _within(file: Path) -> Path:
    """Put the tile of T0 below the loop over c."""
    tile, loop = "{keep: [T0], memory: GLB}, ", "{loop: c, trips: 2}, "
    file.write_text(SLID.replace(tile + loop, loop + tile, 1))
    return file
