"""Mappings in AccelForge's form: its own figures for them, what is written reads as the same, and errors."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.architecture import Architecture, Fanout
from model.cost import evaluate_in
from model.counting import ACCELFORGE, EXACT
from model.formats.cascade.loader import load_einsum
from model.formats.cascade.tree_nest import NotWrittenError
from model.formats.fused import accelforge_mapping, einsum_mapping, load_fused
from model.formats.fused.joined import read_mapping_tree
from model.formats.timeloop import AccelForgeOptions, LoadOptions, TimeloopOptions
from model.fused.cascade import Cascade
from model.fused.check import FusedMappingError
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored, leaves
from model.fused.report import FusedEvaluation
from model.fused.visits import slides
from model.mapping import FanoutMapping
from model.text.reader import read_files
from model.text.source import SpecError
from tests.conftest import REPOSITORY
from tests.model.fused.random_cascades import (
    COPIES,
    SHAPES,
    cascade_of,
    in_other_orders,
    random_architecture,
    random_cascade,
    random_fused,
    with_tolls,
)

DATA = Path(__file__).parent / "data"

FIGURES = {
    ("products", "fused", "tolled"): (6.803251182192199e-08, 1.087999976334686e-06, {"Buffer": 0.9375}),
    ("products", "unfused", "tolled"): (1.0793096660496715e-07, 1.3013333273192984e-06, {"Buffer": 0.78125}),
    ("attention", "fused", "tolled"): (3.378321057727633e-08, 5.226666601743091e-07, {"Buffer": 0.5}),
    ("copy", "fused", "plain"): (2.047283196955781e-08, 3.6800000025039026e-07, {"Buffer": 0.40625}),
    ("window", "unfused", "tolled"): (2.3527637403012017e-08, 2.293333380976037e-07, {"Buffer": 0.34375}),
    ("depthwise", "outside", "tolled"): (
        2.3265429302760533e-08,
        3.3733333282270905e-07,
        {"Buffer": 0.515625},
    ),
    ("depthwise", "between", "tolled"): (2.67217706243177e-08, 4.6266666231531417e-07, {"Buffer": 0.34375}),
}
"""Joules, seconds and shares of memories by AccelForge 1.0.467: of a workload, a mapping, an architecture."""


def files(workload: str, arch: str) -> list[Path]:
    return [DATA / f"{workload}.workload.yaml", DATA / f"{arch}.arch.yaml"]


@pytest.mark.parametrize(("workload", "mapping", "arch"), FIGURES)
def test_figures_are_those_of_accelforge(workload: str, mapping: str, arch: str):
    energy_j, latency_s, shares = FIGURES[workload, mapping, arch]
    loaded = load_fused(files(workload, arch), DATA / f"{workload}.{mapping}.yaml")
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    assert cost.energy_j == pytest.approx(energy_j, rel=1e-6)
    assert float(cost.latency_s) == pytest.approx(latency_s, rel=1e-6)
    for memory, share in shares.items():
        used = [room.size_words / room.usable_words for room in cost.rooms if room.memory == memory]
        assert max(used) == pytest.approx(share)


EXAMPLE = """
workload:
  rank_sizes: {M: 8, A: 8, B: 8, C: 8}
  bits_per_value: {All: 8}
  einsums: ["T1[m, b] = T0[m, a] * W0[a, b]", "T2[m, c] = T1[m, b] * W1[b, c]"]
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions: [{name: read, energy: 16, throughput: inf}, {name: write, energy: 16, throughput: inf}]
  - !Memory
    name: GLB
    size: 64 * 8
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 0.5, throughput: inf}, {name: write, energy: 0.5, throughput: inf}]
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def test_the_example_of_the_documentation(tmp_path: Path):
    page = (REPOSITORY / "docs" / "accelforge.md").read_text(encoding="utf-8")
    section = page[page.index("## Mappings both ways") : page.index("## Units")]
    (mapping,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "spec.yaml").write_text(EXAMPLE)
    (tmp_path / "mapping.yaml").write_text(mapping)
    loaded = load_fused([tmp_path / "spec.yaml"], tmp_path / "mapping.yaml")
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    most = max(room.size_words for room in cost.rooms if room.memory == "GLB")
    assert cost.energy_j == 67_584
    assert cost.latency_s == 1_024
    assert most == 37
    words = " ".join(section.split())
    assert f"{cost.energy_j:,.0f} J and {int(cost.latency_s):,} s, with {most} of the 64 values" in words


@pytest.mark.parametrize(
    ("workload", "einsum", "mapping"),
    [("window", "O", "unfused"), ("products", "T", "unfused"), ("products", "Z", "unfused")],
)
def test_one_einsum_is_priced_as_in_the_whole(workload: str, einsum: str, mapping: str):
    tree = DATA / f"{workload}.{mapping}.yaml"
    whole = load_fused(files(workload, "tolled"), tree)
    own = evaluate_fused(whole.cascade, whole.mapping).einsum(einsum)
    options = LoadOptions(
        accelforge=AccelForgeOptions(stored_outside=True),
        timeloop=TimeloopOptions(mapping_file=tree, require_mapping=True),
        refuse_unsearchable=False,
    )
    loaded = load_einsum(files(workload, "tolled"), einsum, {}, options)
    assert loaded.mapping is not None
    evaluation = evaluate_in(loaded.mapspace, loaded.mapping)
    units = evaluation.units_per_pj
    assert (
        evaluation.energy * whole.cascade.einsums[0].mapspace.architecture.units_per_pj == own.energy * units
    )
    assert evaluation.latency_s == own.unrounded * loaded.mapspace.architecture.cycle_s


def on_accelforge(cascade: Cascade) -> Cascade:
    """A cascade counted and with fanouts named as AccelForge does, without latencies of networks."""

    def named(architecture: Architecture) -> Architecture:
        nodes = tuple(
            replace(node, name=f"{node.name.partition('.')[0]}.X")
            if isinstance(node, Fanout)
            else replace(node, network_fill_latency=0, network_drain_latency=0)
            for node in architecture.nodes
        )
        return replace(architecture, nodes=nodes)

    einsums = tuple(
        replace(
            einsum,
            mapspace=replace(
                einsum.mapspace, counting=ACCELFORGE, architecture=named(einsum.mapspace.architecture)
            ),
        )
        for einsum in cascade.einsums
    )
    return replace(cascade, einsums=einsums)


def figures(cost: FusedEvaluation) -> tuple[object, ...]:
    return cost.energy, [einsum.unrounded or einsum.cycles for einsum in cost.einsums]


WINDOWS = ("window", "two windows", "depthwise", "residual", "plane")
"""Cascades whose mappings at random often keep what AccelForge would fetch again."""


def is_told_otherwise(cascade: Cascade, mapping: FusedMapping) -> bool:
    """Whether a loop is shared above nothing stored, while inner memories store something."""
    memories = {stored.memory for stored in mapping.stored}
    if memories <= {cascade.einsums[0].mapspace.architecture.on_chip[0].name}:
        return False
    for body, above in mapping.bodies:
        places = [cascade.place(leaf.einsum) for leaf in leaves(body)]
        spans = [cascade.users[s.tensor] for s in mapping.stored if s.depth >= above + len(body.loops)]
        if any(all(not own[0] <= cut < own[-1] for own in spans) for cut in places[:-1]):
            return True
    return False


@pytest.mark.parametrize("tolled", [False, True])
@pytest.mark.parametrize("name", [*(name for name in SHAPES if name not in WINDOWS), *COPIES])
def test_what_is_written_has_the_same_figures(name: str, tolled: bool, tmp_path: Path):
    random = Random(f"{name} {tolled}")
    written = 0
    for _ in range(40):
        cascade = on_accelforge(random_cascade(random, name))
        cascade = with_tolls(random, cascade) if tolled else cascade
        mapping = random_fused(random, cascade)
        if mapping is None or is_told_otherwise(cascade, mapping):
            continue
        file = tmp_path / "mapping.yaml"
        try:
            file.write_text(accelforge_mapping(cascade, mapping))
        except NotWrittenError:
            continue
        read = read_mapping_tree(read_files([file]).require("mapping"), cascade)[0]
        ours, theirs = evaluate_fused(cascade, mapping), evaluate_fused(cascade, read)
        assert figures(theirs) == figures(ours)
        sizes = zip(theirs.rooms, ours.rooms, strict=True)
        assert all(their.size_words <= our.size_words for their, our in sizes)
        written += 1
        if written == 6:
            return
    assert written


AHEAD = ("T[p,c] = A[p+r,c] W[r,c]", "Z[p,m] = T[p,c] V[c,m]")
"""A window of what no Einsum passes on."""


def test_what_keeps_its_overlap_has_the_same_figures(tmp_path: Path):
    random, written, file = Random("ahead"), 0, tmp_path / "mapping.yaml"
    while written < 6:
        bounds = {"p": 6, "r": 3, "c": random.choice((2, 4)), "m": 2}
        cascade = on_accelforge(cascade_of(AHEAD, bounds, random_architecture(random, False)))
        mapping = random_fused(random, cascade, shared=0)
        mapping = None if mapping is None else with_overlaps(cascade, mapping)
        if mapping is None or is_told_otherwise(cascade, mapping):
            continue
        try:
            ours = evaluate_fused(cascade, mapping)
            file.write_text(accelforge_mapping(cascade, mapping))
            read = read_mapping_tree(read_files([file]).require("mapping"), cascade)[0]
        except (FusedMappingError, NotWrittenError, SpecError):
            continue
        theirs = evaluate_fused(cascade, read)
        assert figures(theirs) == figures(ours)
        sizes = zip(theirs.rooms, ours.rooms, strict=True)
        assert all(their.size_words <= our.size_words for their, our in sizes)
        assert figures(ours) != figures(evaluate_fused(cascade, with_overlaps(cascade, mapping, False)))
        with pytest.raises(FusedMappingError, match="does not count held tiles that keep what overlaps"):
            evaluate_fused(cascade, mapping, EXACT)
        written += 1


def with_overlaps(cascade: Cascade, mapping: FusedMapping, keeps: bool = True) -> FusedMapping | None:
    """A mapping whose held tiles keep what overlaps wherever a shared loop slides them; None if none does."""
    slid: list[str] = []

    def changed(child: Body | Leaf) -> Body | Leaf:
        if isinstance(child, Body):
            return replace(child, children=tuple(map(changed, child.children)))
        place = cascade.place(child.einsum)
        loops = mapping.paths[place].loops
        held = []
        for tile in child.held:
            space = cascade.einsums[place].space(tile.dataspace)
            is_slid = tile.depth > 0 and slides(space, loops[tile.depth - 1].dim(child.einsum))
            slid.extend([tile.dataspace] * is_slid)
            held.append(replace(tile, keeps_overlap=is_slid and keeps))
        return replace(child, held=tuple(held))

    found = FusedMapping(tuple(map(changed, mapping.children)), mapping.stored)
    return found if slid else None


@pytest.mark.parametrize("name", ["products", "attention", "diamond"])
def test_nests_in_any_order_have_the_same_figures(name: str, tmp_path: Path):
    """AccelForge 1.0.467 priced 60 such mappings of two products the same."""
    random, written = Random(f"any order {name}"), 0
    while written < 4:
        cascade = on_accelforge(random_cascade(random, name))
        mapping = random_fused(random, cascade)
        if mapping is None or is_told_otherwise(cascade, mapping):
            continue
        mapping = in_other_orders(random, cascade, mapping)
        if not any(map(is_out_of_order, (nest for path in mapping.paths for nest in path.leaf.nests))):
            continue
        try:
            ours = evaluate_fused(cascade, mapping)
            text = accelforge_mapping(cascade, mapping)
        except (FusedMappingError, NotWrittenError):
            continue
        (tmp_path / "mapping.yaml").write_text(text)
        read = read_mapping_tree(read_files([tmp_path / "mapping.yaml"]).require("mapping"), cascade)[0]
        theirs = evaluate_fused(cascade, read)
        assert figures(theirs) == figures(ours)
        sizes = zip(theirs.rooms, ours.rooms, strict=True)
        assert all(their.size_words <= our.size_words for their, our in sizes)
        written += 1


def is_out_of_order(nest: PrivateNest) -> bool:
    """Whether the register has a tile above one in the buffer."""
    return nest.order is not None and "RF" in nest.order and "GLB" in nest.order[nest.order.index("RF") :]


def changed(tmp_path: Path, old: str, new: str, name: str = "products.fused") -> Path:
    text = (DATA / f"{name}.yaml").read_text()
    assert old in text
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


PASSED = """  - !Storage {tensors: [I], component: Buffer}
  - !Temporal {rank_variable: p, tile_shape: 1}
"""


def test_a_tile_below_the_shared_loop_that_slides_it_is_fetched_as_a_whole(tmp_path: Path):
    """AccelForge lowers the tile past the loop with one iteration, but nothing of it stays."""
    loop = PASSED.splitlines(keepends=True)[1]
    path = changed(tmp_path, PASSED, loop + PASSED, "depthwise.between")
    loaded = load_fused(files("depthwise", "tolled"), path)
    assert not any(tile.keeps_overlap for tile in loaded.mapping.paths[0].leaf.held)
    cost = evaluate_fused(loaded.cascade, loaded.mapping)
    assert cost.energy_j == pytest.approx(3.5069077745440195e-08, rel=1e-6)  # AccelForge 1.0.467
    assert max(room.size_words for room in cost.rooms if room.memory == "Buffer") == 44


def test_a_tile_below_a_loop_of_its_nest_that_slides_it_is_refused(tmp_path: Path):
    text = (DATA / "depthwise.between.yaml").read_text().replace(PASSED, "", 1)
    tile, loop = PASSED.splitlines(keepends=True)
    text = text.replace("      - !Compute {einsum: T,", f"    {loop}    {tile}      - !Compute {{einsum: T,")
    (tmp_path / "mapping.yaml").write_text(
        text.replace("      - !Compute {einsum: Z,", f"    {loop}      - !Compute {{einsum: Z,")
    )
    with pytest.raises(SpecError, match="nothing of `I` stays while the loop above its tile slides it"):
        load_fused(files("depthwise", "tolled"), tmp_path / "mapping.yaml")


def test_one_loop_slides_one_tile_that_stays_in_part():
    texts = ("T[p] = A[p+r] B[p+r] W[r]", "Z[p] = T[p]")
    architecture = random_architecture(Random(0), False)
    cascade = on_accelforge(cascade_of(texts, {"p": 4, "r": 2}, architecture))
    held = tuple(Held(name, 1, keeps_overlap=True) for name in "AB")
    loop = SharedLoop(2, (("T", "p"), ("Z", "p")))
    mapping = FusedMapping((Body((loop,), (Leaf("T", (), held), Leaf("Z", ()))),), (Stored("T", "GLB", 1),))
    with pytest.raises(NotWrittenError, match="one shared loop slides two tiles of Einsum `T`"):
        accelforge_mapping(cascade, mapping)


ERRORS = [
    ("- !Sequential", "- !Pipeline", "`!Pipeline` is not modelled", 8),
    ("- !Sequential", "- !Fork", "unknown node `!Fork`", 8),
    ("rank_variable: m, tile_shape: 4", "rank_variable: m, tile_shape: 3", "does not divide", 6),
    ("tile_shape: 4}", "tile_shape: 4, initial_tile_shape: 6}", "`initial_tile_shape`", 6),
    ("rank_variable: m, tile_shape: 4", "rank_variable: a, tile_shape: 4", "no rank variable `a`", 6),
    ("tensors: [T], component: Buffer", "tensors: [T], component: Store", "no memory `Store`", 7),
    ("tensors: [T], component: Buffer", "tensors: [Q], component: Buffer", "no tensor `Q`", 7),
    ("tensors: [T], component: Buffer", "tensors: [T], component: Buffer, persistent: true", "persistent", 7),
    ("name: X, component: Array", "name: Z, component: Array", "no fanout `Array.Z`", 14),
    ("component: MAC", "component: Adder", "runs on `MAC`", 19),
    ("{rank_variable: b, tile_shape: 1}", "{rank_variable: b, tile_shape: 2}", "leaves a tile of 1", 19),
    ("einsum: Z", "einsum: T", "mapped twice", 28),
    ("einsum: Z", "einsum: Y", "no Einsum `Y`", 28),
    ("tensors: [A, W, V, Z], component: Link", "tensors: [A, W, V], component: Link", "passes the toll", 28),
    (
        "tensors: [A, W, V, Z], component: Link",
        "tensors: [A, W, V, Z, T], component: Link",
        "pays no toll",
        4,
    ),
    ("[A], component: Buffer", "[T], component: Main", "a loop above a tile of `Main`", 13),
    ("[A], component: Buffer", "[W], component: Buffer", "kept twice", 13),
]


@pytest.mark.parametrize(("old", "new", "message", "line"), ERRORS)
def test_what_cannot_be_said_is_refused_at_its_line(
    old: str, new: str, message: str, line: int, tmp_path: Path
):
    with pytest.raises(SpecError) as caught:
        load_fused(files("products", "tolled"), changed(tmp_path, old, new))
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_einsums_without_the_same_loops_do_not_pass_tensors(tmp_path: Path):
    path = changed(
        tmp_path, "rank_variable: p, tile_shape: 2", "rank_variable: p, tile_shape: 4", "attention.fused"
    )
    with pytest.raises(SpecError, match="this one has 2 iterations"):
        load_fused(files("attention", "tolled"), path)


def test_one_einsum_cannot_store_what_others_use():
    options = LoadOptions(
        timeloop=TimeloopOptions(mapping_file=DATA / "products.fused.yaml", require_mapping=True),
        refuse_unsearchable=False,
    )
    with pytest.raises(SpecError, match="stored on chip"):
        load_einsum(files("products", "tolled"), "T", {}, options)


def test_the_nest_of_an_einsum_is_written(tmp_path: Path):
    options = LoadOptions(accelforge=AccelForgeOptions(stored_outside=True), refuse_unsearchable=False)
    given = replace(
        options,
        timeloop=TimeloopOptions(mapping_file=DATA / "window.unfused.yaml", require_mapping=True),
    )
    loaded = load_einsum(files("window", "tolled"), "O", {}, given)
    assert loaded.mapping is not None
    text = einsum_mapping(loaded.mapspace, "O", loaded.mapping)
    assert "!Spatial {rank_variable: m, tile_shape: 1, name: X, component: Array}" in text
    (tmp_path / "o.yaml").write_text(text)
    again = load_einsum(
        files("window", "tolled"),
        "O",
        {},
        replace(options, timeloop=TimeloopOptions(mapping_file=tmp_path / "o.yaml", require_mapping=True)),
    )
    assert again.mapping is not None
    first, second = (evaluate_in(own.mapspace, own.mapping) for own in (loaded, again))
    assert (second.energy, second.latency_s) == (first.energy, first.latency_s)
    fanouts = [entry for entry in again.mapping.nodes if isinstance(entry, FanoutMapping)]
    assert [loop.bound for entry in fanouts for loop in entry.spatial] == [2]
