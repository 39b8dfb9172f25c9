"""Given mappings of one Einsum on an architecture of AccelForge."""

from pathlib import Path

import pytest

from model.cost import evaluate_in
from model.formats.cascade.loader import load_einsum
from model.formats.timeloop import LoadedSpec, LoadOptions, TimeloopOptions
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.text.source import SpecError
from tests.model.formats.accelforge.arches import ARCH, WORKLOAD

pytestmark = pytest.mark.usefixtures("working_directory")

MAPPING = """
mapping:
- {target: Main, type: temporal, factors: [m=2, k=1], permutation: [m, n, k]}
- {target: Array.X, type: spatial, factors: [m=4], permutation: [m]}
- {target: Buffer, type: temporal, factors: {k: 4, n: 6}, permutation: "k, n"}
- {target: Buffer, type: dataspace, keep: [W], bypass: [A, T]}
"""
ARCHES = {"plain": ARCH, "fused": ARCH.replace("{keep: All}", "{keep: ~Intermediates, may_keep: All}")}


def load(text: str = MAPPING, arch: str = ARCH, einsum: str = "T") -> Mapping:
    mapping = load_spec(text, arch, einsum).mapping
    assert mapping is not None
    return mapping


def load_spec(text: str, arch: str, einsum: str = "T") -> LoadedSpec:
    for name, content in (("w.yaml", WORKLOAD), ("a.yaml", arch), ("m.yaml", text)):
        Path(name).write_text(content, encoding="utf-8")
    options = LoadOptions(
        timeloop=TimeloopOptions(require_mapping=True, mapping_file=Path("m.yaml")),
        refuse_unsearchable=False,
        has_places=False,
    )
    return load_einsum(["w.yaml", "a.yaml"], einsum, {}, options)


def test_is_read():
    assert load().nodes == (
        StorageMapping((Loop("m", 2),), frozenset("AWT")),
        FanoutMapping((SpatialLoop("m", 4, "x"),)),
        StorageMapping((Loop("k", 4), Loop("n", 6)), frozenset("W")),
    )


def test_what_is_not_mentioned_is_kept():
    text = MAPPING.replace("keep: [W], bypass: [A, T]", "bypass: [A]")
    assert load(text).nodes[2].keep == {"W", "T"}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "m=2",
            "m=4",
            "the mapping's factors of m multiply to 4 (Main) * 4 (Array.X) = 16, but its",
        ),
        ("m=2", "m=1", "the mapping's factors of m multiply to 4 (Array.X) = 4, but its bound is 8"),
        ("[m=4]", "[m=5]", "the mapping's factors leave remainders"),
        ("m=2", "q=2", "unknown dimension `q`"),
        ("k=1", "q=1", "unknown dimension `q`"),
        ("m=2", "m<=2", "`m<=2`: a mapping fixes its factors with `=`"),
        ("m=2", "m=-2", "`m=-2`: a factor is at least 1"),
        ("m=2", "m=2, m=3", "`m=3` conflicts with `m=2`"),
        ("target: Main", "target: Mane", "unknown level `Mane`"),
        ("type: temporal", "type: spatial", "two different permutations for one node"),
        (
            "Array.X, type: spatial",
            "Array.X, type: temporal",
            "has no effect on `Array.X`: a container stores",
        ),
        (', permutation: "k, n"', "", "the order of the loops over `k` and `n` of `Buffer` is not given"),
        ('"k, n"', '"k, n, k"', "dimension `k` is listed twice"),
        ('"k, n"', '"k, q"', "unknown dimension `q`"),
        ("keep: [W], bypass: [A, T]", "bypass: [W]", "`Buffer` cannot both keep and bypass `W`"),
        ("keep: [W], bypass: [A, T]", "keep: [T], bypass: [T]", "`Buffer` cannot both keep and bypass `T`"),
        ("keep: [W]", "no_coalesce: [W], keep: [W]", "no_coalesce of `W` belongs to the architecture"),
        ("m=2, k=1]", "m=2], no_reuse: [W]", "no_reuse of `W` belongs to the architecture"),
        ("mapping:", "maping:", "there is no key `mapping`"),
    ],
)
def test_is_refused(before: str, after: str, message: str):
    with pytest.raises(SpecError) as caught:
        load(MAPPING.replace(before, after, 1))
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.file == "m.yaml"


def test_trees_of_accelforge_end_with_a_compute():
    with pytest.raises(SpecError, match="a branch of a mapping ends without a `!Compute`"):
        load("mapping: {nodes: []}\n")


def test_constraints_hold():
    arch = ARCH.replace("fanout: 4}", "fanout: 4, reuse: A}")
    with pytest.raises(SpecError, match=r"m=4 at `Array\.X` violates the constraint `m=1`") as caught:
        load(arch=arch)
    ((place, text),) = caught.value.related
    assert (place.file, place.line, text) == ("a.yaml", 12, "the constraint")


def test_what_follows_from_what_is_kept_farther_out():
    arch = ARCHES["fused"].replace("keep: weight, may_keep: All", "keep: ~Main")
    bypassing = MAPPING + "- {target: Main, type: dataspace, bypass: [T]}\n"
    onchip = bypassing.replace("keep: [W], bypass: [A, T]", "keep: [T]")
    nodes = load(onchip, arch).nodes
    assert [node.keep for node in nodes if isinstance(node, StorageMapping)] == [{"A", "W"}, {"T"}]
    with pytest.raises(SpecError, match="`Buffer` cannot both keep and bypass `T`"):
        load(MAPPING.replace("keep: [W], bypass: [A, T]", "keep: [T]"), arch)
    with pytest.raises(SpecError, match="no memory keeps `T`"):
        load(bypassing.replace("keep: [W], bypass", "bypass"), arch)


def test_enough_arithmetic_units_are_in_use():
    full = ARCH.replace("fanout: 4}", "fanout: 4, min_usage: 1}")
    assert load(arch=full)
    wide = MAPPING.replace("m=2, k=1", "m=4, k=1").replace("[m=4]", "[m=2]")
    spec = load_spec(wide, full)
    assert spec.mapping is not None
    (broken,) = evaluate_in(spec.mapspace, spec.mapping).broken_rules
    assert "4" in str(broken)


def test_einsums_without_a_mapping():
    with pytest.raises(SpecError, match="there is no Einsum `S`"):
        load(einsum="S")
