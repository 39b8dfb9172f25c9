"""Architectures of AccelForge: one canonical architecture and mapspace per Einsum."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from model.architecture import Architecture, Packing, Port, StorageLevel
from model.cascade import Network
from model.formats.cascade import load_network
from model.formats.timeloop import AccelForgeOptions, FileOptions, LoadOptions
from model.formats.timeloop.overrides import parse_setting
from model.mapspace import FactorRule, Mapspace
from model.text.source import SpecError
from tests.model.formats.accelforge.arches import ARCH, WORKLOAD, load, with_node
from tests.reference import SHARED

pytestmark = pytest.mark.usefixtures("working_directory")

ARCHES = SHARED / "reference" / "accelforge_arches"
SIZE = "size: 64 * 8"
FANOUT = "[{name: X, fanout: 4}]"


def mapspaces(network: Network) -> list[Mapspace]:
    return [layer.mapspace for layer in network.layers]


def first(before: str = "nodes:", after: str = "nodes:", arch: str = ARCH) -> Mapspace:
    return mapspaces(load(with_node(before, after, arch)))[0]


def buffer(mapspace: Mapspace) -> StorageLevel:
    return mapspace.architecture.levels[1]


def energies_pj(architecture: Architecture) -> list[tuple[Fraction, ...]]:
    units = architecture.units_per_pj
    return [
        tuple(
            Fraction(figure, units) for figure in (level.energy.read, level.energy.fill, level.energy.update)
        )
        for level in architecture.levels
    ]


def test_units():
    architecture = first().architecture
    assert [node.name for node in architecture.nodes] == ["Main", "Array.X", "Buffer"]
    assert architecture.cycle_s == Fraction(1, 10**9)
    assert energies_pj(architecture) == [(64, 72, 72), (8, 16, 16)]
    assert Fraction(architecture.compute.energy, architecture.units_per_pj) == Fraction(1, 2)
    level = architecture.levels[1]
    assert (level.size_words, level.word_bits, level.shared_bandwidth) == (64, 8, Fraction(1, 4))
    assert architecture.levels[0].unlimited


def test_leakage_of_all_components_is_paid():
    architecture = first().architecture
    main, own = (level.energy.leak_per_cycle for level in architecture.levels)
    # In a cycle of 1 ns each buffer leaks 1 pJ, whether it is used or not, and each of the four MACs 2 pJ.
    assert (main, own) == (8 * architecture.units_per_pj, architecture.units_per_pj)
    assert [level.gating_fanouts for level in architecture.levels] == [0, 0]
    assert dict(architecture.levels[0].energy.sources)["leak"].endswith(", and of `MAC`")


def test_sets_are_evaluated_for_each_einsum():
    keep = [mapspace.keep[1].keep for mapspace in mapspaces(load())]
    assert keep == [{"W"}, frozenset()]
    never = with_node("may_keep: All", "may_keep: Nothing")
    assert [mapspace.keep[1].bypass for mapspace in mapspaces(load(never))] == [{"A", "T"}, {"T", "Z"}]


def test_what_a_memory_farther_out_keeps_decides():
    arch = with_node("keep: weight, may_keep: All", "keep: ~Main")
    assert first(arch=arch).keep[1].bypass == {"A", "W", "T"}
    arch = with_node("keep: All", "keep: T", arch)
    assert first(arch=arch).keep[1].keep == {"A", "W"}
    assert first(arch=arch.replace("~Main", "~Main.tensors & ~Above")).keep[1].keep == {"A", "W"}


def test_sizes_depend_on_the_einsum():
    arch = with_node(SIZE, "size: weight.bits_per_value * 3 if weight else 0")
    assert [buffer(mapspace).size_words for mapspace in mapspaces(load(arch))] == [3, 0]


def test_variables_are_evaluated_for_each_einsum():
    arch = with_node("  nodes:", "  variables: {depth: rows * 2, rows: len(All)}\n  nodes:")
    arch = with_node(SIZE, "size: depth * width * 8", arch) + "variables: {width: 4}\n"
    assert [buffer(mapspace).size_words for mapspace in mapspaces(load(arch))] == [24, 16]


def test_values_of_several_sizes_share_a_memory():
    arch = with_node(SIZE, "size: 64 * 8\n    bits_per_value: {output: 3 * output.bits_per_value, input: 12}")
    level = buffer(first(arch=arch))
    assert (level.size_words, level.word_bits) == (128, 4)
    assert set(level.packing) == {Packing("T", 1, 6, 6), Packing("A", 1, 3, 3), Packing("W", 1, 2, 2)}
    assert dict(level.bandwidth_scale) == {"T": 6, "A": 3, "W": 2}


def test_actions_move_bits_or_values():
    by_bits = first(SIZE, "size: 512\n    bits_per_action: 64")
    assert energies_pj(by_bits.architecture)[1] == (Fraction(1, 8), Fraction(1, 4), Fraction(1, 4))
    by_values = first(SIZE, "size: 512\n    bits_per_value: {output: 24}\n    values_per_action: {All: 2}")
    assert energies_pj(by_values.architecture)[1] == (Fraction(1, 2), 1, 1)
    level = buffer(by_values)
    assert {packing.accesses_per_block for packing in level.packing} == {1}
    assert level.shared_bandwidth == 4


def test_scales_multiply_what_is_given():
    scales = "energy_scale: 2, throughput_scale: 3"
    read = "{name: read, energy: 1e-12, throughput: 2e9"
    arch = with_node(read, f"{read}, {scales}", with_node("2e-12, throughput: 2e9", "2e-12, throughput: 6e9"))
    more = "actions_scale: 5\n    n_parallel_instances: 7\n    leak_power_scale: 2"
    architecture = first(SIZE, f"{SIZE}\n    {more}", arch).architecture
    assert energies_pj(architecture)[1] == (80, 80, 80)
    assert architecture.levels[1].shared_bandwidth == Fraction(6 * 7, 5 * 8)
    assert architecture.levels[1].energy.leak_per_cycle == 14 * architecture.units_per_pj


@pytest.mark.parametrize(
    ("expression", "read", "write", "shared", "ports"),
    [
        ("sum(a.n_calls / a.throughput for a in actions)", None, None, Fraction(1, 4), ()),
        ("max(a.n_calls / a.throughput for a in actions)", Fraction(1, 4), Fraction(1, 4), None, ()),
        ("sum(a.n_calls for a in actions) / 32 / 200e6", None, None, Fraction(4, 5), ()),
        ("sum(a.n_calls for a in actions if a.name == 'read') / 1e9", Fraction(1, 8), None, None, ()),
        ("actions['write'].n_calls * 1e-9 * (2 if weight else 1)", None, Fraction(1, 16), None, ()),
        (
            "max(actions['read'].n_calls + 2 * actions['write'].n_calls, 3 * actions['read'].n_calls) / 1e9",
            Fraction(1, 24),
            None,
            None,
            (Port(Fraction(8), Fraction(16)),),
        ),
    ],
)
def test_latencies(
    expression: str,
    read: Fraction | None,
    write: Fraction | None,
    shared: Fraction | None,
    ports: tuple[Port, ...],
):
    arch = with_node(SIZE, f"{SIZE}\n    total_latency: {expression}").replace("weight else", "1 else")
    level = buffer(mapspaces(load(arch, options=LoadOptions(refuse_unsearchable=False)))[0])
    assert (level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth) == (read, write, shared)
    assert level.ports == ports


def test_constraints_of_a_fanout():
    bound = "loop_bounds: [{expression: m, operator: <, value: 4}]"
    (rules,) = first(FANOUT, f"[{{name: X, fanout: 4, reuse: weight, {bound}}}]").spatial
    assert {(rule.dim, rule.relation, rule.value) for rule in rules.factors} == {
        ("n", "=", 1),
        ("k", "=", 1),
        ("m", "<=", 3),
    }
    assert first(FANOUT, "[{name: X, fanout: 4, reuse: weight}]").architecture.fanouts[0].no_multicast == {
        "A",
        "T",
    }
    fanout = first(FANOUT, "[{name: X, fanout: 4, may_reuse: input}]").architecture.fanouts[0]
    assert fanout.no_multicast == {"W", "T"}


def test_a_bound_with_a_name_that_is_not_defined_has_no_effect():
    bounds = "loop_bounds: [{expression: ~q, operator: ==, value: 1}, {expression: k, operator: <, value: 4}]"
    network = load(with_node(FANOUT, f"[{{name: X, fanout: 4, {bounds}}}]"))
    (rules,) = mapspaces(network)[0].spatial
    assert [(rule.dim, rule.relation, rule.value) for rule in rules.factors] == [("k", "<=", 3)]
    notes = [note for note in network.notes if "not defined" in note.sentence]
    assert [note.values for note in notes] == [("~q", "Array.X")]


@pytest.mark.parametrize(
    ("fanout", "usage", "least"), [(4, "1", 4), (4, "0.4", 2), (6, "1", 4), (3, "1", 2), (16, "0.75", 8)]
)
def test_least_use_of_a_fanout_is_the_share_that_can_be_reached(fanout: int, usage: str, least: int):
    dimension = f"[{{name: X, fanout: {fanout}, reuse: weight, min_usage: {usage}}}]"
    (rules,) = mapspaces(
        load(with_node(FANOUT, dimension), options=LoadOptions(accelforge=AccelForgeOptions(einsum="T")))
    )[0].spatial
    assert FactorRule("m", ">=", least) in [replace(rule, source=None) for rule in rules.factors]


def test_nothing_is_asked_of_a_fanout_that_no_loop_can_use():
    (rules,) = first(FANOUT, "[{name: X, fanout: 4, reuse: All, min_usage: 1}]").spatial
    assert {rule.relation for rule in rules.factors} == {"="}


TWO_COMPUTES = ARCH.replace(
    "    name: MAC\n",
    "    name: Scalar\n    enabled: len(All) == 2\n    leak_power: 1e-3\n"
    "    actions: [{name: compute, energy: 0, throughput: 4e9}]\n"
    "  - !Memory\n    name: Register\n    size: 8\n    component_class: Dummy\n    tensors: {keep: weight}\n"
    "  - !Compute\n    name: MAC\n    enabled: len(All) == 3\n",
)


def test_each_einsum_has_the_compute_that_is_enabled_for_it():
    found = [mapspace.architecture for mapspace in mapspaces(load(TWO_COMPUTES))]
    assert [architecture.compute.name for architecture in found] == ["MAC", "Scalar"]
    assert [len(architecture.levels) for architecture in found] == [3, 2]
    assert [architecture.cycle_s for architecture in found] == [Fraction(1, 10**9), Fraction(1, 4 * 10**9)]
    # The compute that an Einsum does not use leaks as well: 4 * (1 + 2) mW.
    leaks = [Fraction(a.levels[0].energy.leak_per_cycle, a.units_per_pj) for a in found]
    assert leaks == [12, 3]


TOLL = ARCH.replace(
    "  - !Compute\n",
    """  - !Toll
    name: Converter
    direction: {input | weight: down, output: up_and_down}
    leak_power: 1e-3
    bits_per_action: 4
    tensors: {keep: weight | output}
    actions: [{name: read, energy: 3e-12, throughput: 1e9}]
  - !Compute
""",
)


def test_tolls_are_paid_in_passing():
    mapspace, other = mapspaces(load(TOLL))
    level = mapspace.architecture.levels[2]
    assert (level.name, level.size_words, dict(level.tolls)) == (
        "Converter",
        None,
        {"W": "down", "T": "both"},
    )
    assert energies_pj(mapspace.architecture)[2] == (6, 0, 6)
    assert level.shared_bandwidth == Fraction(1, 2)
    assert level.energy.leak_per_cycle == mapspace.architecture.units_per_pj
    assert (mapspace.keep[2].keep, mapspace.keep[2].bypass) == ({"W", "T"}, {"A"})
    assert {(rule.relation, rule.value) for rule in mapspace.temporal[2].factors} == {("=", 1)}
    assert dict(other.architecture.levels[2].tolls) == {"Z": "both"}


def test_a_toll_that_nothing_passes_only_leaks():
    _, other = mapspaces(load(TOLL.replace("keep: weight | output", "keep: weight")))
    assert [level.name for level in other.architecture.levels] == ["Main", "Buffer"]
    # The outermost memory leaks for four compute units of 2 mW, and for the converters.
    assert other.architecture.levels[0].energy.leak_per_cycle == 12 * other.architecture.units_per_pj


def test_what_may_pass_a_toll_does_not():
    network = load(TOLL.replace("{keep: weight | output}", "{keep: weight, may_keep: All}"))
    assert dict(mapspaces(network)[0].architecture.levels[2].tolls) == {"W": "down"}
    assert any("`A` and `T` may pass `Converter`, but need not" in note.text for note in network.notes)
    # Nor does what no memory farther out keeps: there is nowhere to go.
    arch = TOLL.replace("tensors: {keep: All}", "tensors: {keep: input}")
    paying = mapspaces(load(arch, options=LoadOptions(refuse_unsearchable=False)))[0].architecture.levels[-1]
    assert dict(paying.tolls) == {"W": "down"}


FORK = ARCH.replace(
    "  - !Compute\n",
    "  - !Fork\n    nodes:\n    - !Container\n      name: Side\n      spatial: [{name: Y, fanout: 2}]\n"
    "    - !Compute\n      name: Scalar\n      enabled: len(All) == 2\n      leak_power: 0\n"
    "      actions: [{name: compute, energy: 0, throughput: 1e9}]\n"
    "  - !Hierarchical\n    nodes:\n    - !Memory\n      name: Register\n      size: 8\n"
    "      component_class: Dummy\n"
    "  - !Compute\n    enabled: len(All) == 3\n",
)


def test_forks_are_for_their_computes_only():
    found = [mapspace.architecture for mapspace in mapspaces(load(FORK))]
    assert [[node.name for node in architecture.nodes] for architecture in found] == [
        ["Main", "Array.X", "Buffer", "Register"],
        ["Main", "Array.X", "Buffer", "Side.Y"],
    ]


def test_a_memory_may_be_disabled():
    arch = with_node(SIZE, f"{SIZE}\n    enabled: len(All) == 3")
    found = mapspaces(load(arch))
    assert [len(mapspace.architecture.levels) for mapspace in found] == [2, 1]
    leaks = [
        Fraction(m.architecture.levels[0].energy.leak_per_cycle, m.architecture.units_per_pj) for m in found
    ]
    assert leaks == [8, 12]


def test_power_gates_are_counted():
    arch = with_node(FANOUT, "[{name: X, fanout: 4, power_gateable: True}]", ARCH.replace("2e-3", "0"))
    assert [level.gating_fanouts for level in first(arch=arch).architecture.levels] == [0, 1]
    with pytest.raises(SpecError, match="power gating of `MAC`, which leaks, is not modelled"):
        load(with_node(FANOUT, "[{name: X, fanout: 4, power_gateable: True}]"))


def test_without_time_energy_is_what_is_left():
    arch = ARCH.replace("2e9", "inf").replace("1e9", "inf")
    mapspace = first(arch=arch)
    assert (mapspace.architecture.cycle_s, mapspace.objectives) == (0, ("energy",))
    with pytest.raises(SpecError, match="nothing takes time here, so all mappings have the same edp"):
        load(arch, options=LoadOptions(objectives=("edp",)))
    with pytest.raises(SpecError, match="`Buffer` takes time, but compute takes none"):
        load(ARCH.replace("1e9", "inf"))


FUSED = ARCH.replace("{keep: All}", "{keep: ~Intermediates, may_keep: All}")


def test_fusion_that_is_left_open_is_not_searched():
    with pytest.raises(
        SpecError, match="whether `Main` keeps `T`, and so whether Einsums are fused"
    ) as caught:
        load(FUSED)
    assert "--no-fuse" in caught.value.render()
    assert first(arch=ARCH).keep[0].keep == {"A", "W", "T"}
    unfused = mapspaces(load(FUSED, options=LoadOptions(accelforge=AccelForgeOptions(stored_outside=True))))
    assert [mapspace.keep[0].keep for mapspace in unfused] == [{"A", "W", "T"}, {"T", "Z"}]
    read = load(FUSED, options=LoadOptions(refuse_unsearchable=False))
    assert [mapspace.keep[0].keep for mapspace in mapspaces(read)] == [{"A", "W"}, {"Z"}]
    assert any("fused mappings are not searched" in note.text for note in read.notes)


def test_what_follows_from_a_free_choice_is_not_searched():
    arch = FUSED.replace("keep: weight, may_keep: All", "keep: ~Main, may_keep: All")
    read = mapspaces(load(arch, options=LoadOptions(refuse_unsearchable=False)))[0]
    assert (read.keep[1].keep, read.keep[1].bypass) == (frozenset(), frozenset())
    unfused = mapspaces(load(arch, options=LoadOptions(accelforge=AccelForgeOptions(stored_outside=True))))[0]
    assert unfused.keep[1].keep == frozenset()


def test_sets_that_depend_on_what_a_buffer_keeps_are_not_searched():
    arch = with_node(
        "  - !Compute\n",
        "  - !Memory\n    name: Register\n    size: 8\n    component_class: Dummy\n"
        "    tensors: {may_keep: ~Buffer}\n  - !Compute\n",
    )
    with pytest.raises(
        SpecError,
        match="the set of tensors that `Register` keeps depends on the tensors "
        "that outer memories keep in the mapping",
    ):
        load(arch)
    bank = "  - !Container\n    name: Bank\n    spatial: [{name: Y, fanout: 2, reuse: Buffer}]\n"
    message = r"`reuse` of `Bank\.Y` depends on the tensors that outer memories keep in the mapping"
    with pytest.raises(SpecError, match=message):
        load(with_node("  - !Compute\n", f"{bank}  - !Compute\n"))


@pytest.mark.parametrize(
    ("dimensions", "least"),
    [
        ("[{name: X, fanout: 12, min_usage: 1}]", {"Array.X": 12}),
        ("[{name: X, fanout: 12, min_usage: 0.7}]", {"Array.X": 9}),
        # No product of divisors of 8, 4 and 6 is 10 or 11: the largest within the fanout counts.
        ("[{name: X, fanout: 11, min_usage: 1}]", {"Array.X": 8}),
        ("[{name: X, fanout: 12, min_usage: 1}, {name: Y, fanout: 2}]", {"Array.X": 12}),
        (
            "[{name: X, fanout: 8, reuse: weight, min_usage: 1}, {name: Y, fanout: 24, min_usage: 1}]",
            {"Array.Y": 24},
        ),
    ],
)
def test_least_use_over_several_rank_variables(dimensions: str, least: dict[str, int]):
    mapspace = mapspaces(
        load(with_node(FANOUT, dimensions), options=LoadOptions(accelforge=AccelForgeOptions(einsum="T")))
    )[0]
    asked = [next(iter(rule.quantities)) for rule in mapspace.rules]
    assert [(own.kind, own.node) for own in asked] == [("instances", name) for name in least]
    assert [
        str(rule).endswith(f" >= {number}")
        for rule, number in zip(mapspace.rules, least.values(), strict=True)
    ] == [True] * len(least)


def test_least_uses_that_compete_are_not_searched():
    arch = with_node(FANOUT, "[{name: X, fanout: 48, min_usage: 1}, {name: Y, fanout: 16, min_usage: 1}]")
    with pytest.raises(SpecError, match=r"`min_usage` of `Array\.X` is out of reach together with"):
        load(arch, options=LoadOptions(accelforge=AccelForgeOptions(einsum="T")))
    network = load(
        arch, options=LoadOptions(accelforge=AccelForgeOptions(einsum="T"), refuse_unsearchable=False)
    )
    assert any("out of reach together" in note.text for note in network.notes)
    # Only the Einsum that is searched has to be searchable.
    only = "[{name: X, fanout: 48, min_usage: 1 if weight else 0}, {name: Y, fanout: 16, min_usage: 1}]"
    assert load(with_node(FANOUT, only), options=LoadOptions(accelforge=AccelForgeOptions(einsum="Z")))


def test_a_table_of_costs():
    Path("c.yaml").write_text(
        "Buffer:\n  leak_power_w: 0.25\n  area_m2: 1e-6\n  actions:\n"
        "    read: {energy_j: 3e-12, throughput_per_s: .inf, bits_per_action: 1}\n"
        "    write: {energy_j: 4e-12, throughput_per_s: 1e9, bits_per_action: 1}\n",
        encoding="utf-8",
    )
    options = LoadOptions(accelforge=AccelForgeOptions(costs=Path("c.yaml")), refuse_unsearchable=False)
    lacking = ARCH.replace("    leak_power: 1e-3\n", "").replace(
        "energy: 2e-12, throughput: 2e9", "energy_scale: 9"
    )
    architecture = mapspaces(load(lacking, options=options))[0].architecture
    level = architecture.levels[1]
    # What the architecture says itself comes first; what the table says is not scaled again.
    assert energies_pj(architecture)[1] == (8, 32, 32)
    assert level.area_um2 == pytest.approx(1e6)
    assert level.energy.leak_per_cycle == 250 * architecture.units_per_pj
    assert dict(level.energy.sources) == {
        "read": "given at a.yaml:17",
        "fill": "c.yaml:6",
        "update": "c.yaml:6",
        "leak": "c.yaml:1",
    }
    # A read takes 8 / 2e9 s, a write 8 / 1e9 s.
    assert level.ports == (Port(Fraction(4), Fraction(8)),)


def test_a_table_of_several_architectures():
    entry = "{actions: {read: {energy_j: 1, throughput_per_s: 1}, write: {energy_j: 2, throughput_per_s: 1}}}"
    Path("c.yaml").write_text(f"a: {{Buffer: {entry}}}\nb: {{Buffer: {entry}}}\n", encoding="utf-8")
    assert load(options=LoadOptions(accelforge=AccelForgeOptions(costs=Path("c.yaml"))))
    Path("c.yaml").write_text(f"b: {{Buffer: {entry}}}\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"c\.yaml has no costs of the architecture `a`"):
        load(options=LoadOptions(accelforge=AccelForgeOptions(costs=Path("c.yaml"))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Buffer: {actions: {red: {}}}", "unknown action `red` of `Buffer`"),
        ("Buffer: {actions: {}, leek: 3}", "unknown key `leek` in the costs of `Buffer`"),
        (
            "Buffer: {actions: {read: {energy_j: 1}}}",
            "`read` of `Buffer` is missing the key `throughput_per_s`",
        ),
        ("Buffer: {actions: {read: {energy_j: 1, throughput_per_s: 0}}}", "must be above 0"),
        ("Buffer: {actions: {read: {energy_j: -1, throughput_per_s: 1}}}", "must not be negative"),
        (
            "Buffer: {actions: {read: {energy_j: 1, throughput_per_s: 1, bits_per_action: 64}}}",
            "the table prices `read` of `Buffer` for 64 bits, but here it moves 1",
        ),
    ],
)
def test_a_bad_table(text: str, message: str):
    Path("c.yaml").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(options=LoadOptions(accelforge=AccelForgeOptions(costs=Path("c.yaml"))))
    assert message in caught.value.message
    assert caught.value.span is not None


def test_the_estimator_fills_in_energies():
    lacking = (
        ARCH.replace("energy: 1e-12, ", "")
        .replace("energy: 2e-12, ", "")
        .replace("    leak_power: 1e-3\n", "")
    )
    arch = with_node(SIZE, f"{SIZE}\n    component_class: SmartBufferSRAM\n    bits_per_action: 32", lacking)
    arch = with_node(
        "  nodes:", "  extra_attributes_for_all_component_models: {tech_node: 45e-9}\n  nodes:", arch
    )
    network = load(arch)
    level = buffer(mapspaces(network)[0])
    assert set(dict(level.energy.sources).values()) == {"estimated"}
    assert level.energy.read == level.energy.fill > 0
    assert any("`Buffer` are estimated by Tilewright" in note.text for note in network.notes)
    with pytest.raises(
        SpecError, match=r"cannot estimate `leak_power` of `Buffer`: .* needs the attribute `technology`"
    ):
        load(arch.replace("tech_node", "node"))


def test_other_settings_of_accelforge_are_noted():
    network = load(ARCH + "mapper: {metrics: ENERGY}\nconfig: {expression_custom_functions: []}\n")
    assert any("`mapper` configures AccelForge's own programs" in note.text for note in network.notes)


def test_keys_beside_an_arch_may_hold_anchors():
    arch = "figures: &figures {leak_power: 2e-3}\n" + ARCH.replace("leak_power: 2e-3", "<<: *figures")
    network = load(arch)
    leaks = [own.architecture.levels[0].energy.leak_per_cycle for own in mapspaces(network)]
    assert leaks == [own.architecture.levels[0].energy.leak_per_cycle for own in mapspaces(load(ARCH))]
    assert any(leaks)
    assert any("`figures` is not a known section and is ignored" in note.text for note in network.notes)


def test_latencies_may_have_their_older_names():
    def bandwidths(expression: str) -> tuple[object, ...]:
        level = buffer(first(SIZE, f"{SIZE}\n    total_latency: {expression}"))
        return level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth, level.ports

    now = bandwidths("max(a.n_calls / a.throughput for a in actions)")
    assert bandwidths("max(read_latency, write_latency)") == now
    assert bandwidths("max(read_actions, write_actions) / 2e9") == now
    assert bandwidths("read_latency + write_latency") != now


@pytest.mark.parametrize(
    ("tensors", "noted"),
    [("{keep: weight, may_keep: All}", True), ("{keep: weight, may_keep: Nothing}", False)],
)
def test_places_at_other_heights_are_noted(tensors: str, noted: bool):
    """They matter where a memory may keep several tensors."""
    network = load(with_node("{keep: weight, may_keep: All}", tensors))
    assert any("one place in the loop nest" in note.text for note in network.notes) is noted


def test_other_values_of_a_sweep():
    settings = [
        parse_setting(text)[0] for text in ("Buffer.size=32", "Array.X.fanout=2", "Buffer.read.energy=0")
    ]
    mapspace = mapspaces(load(options=LoadOptions(files=FileOptions(settings=tuple(settings)))))[0]
    assert buffer(mapspace).size_words == 4
    assert mapspace.architecture.fanouts[0].mesh_x == 2
    assert buffer(mapspace).energy.read == 0
    for text, message in (
        ("Bufer.size=3", "the architecture has no `Bufer`"),
        ("Buffer.depth=3", "`Buffer` does not set `depth`"),
    ):
        with pytest.raises(SpecError, match=message):
            load(options=LoadOptions(files=FileOptions(settings=parse_setting(text))))


def test_persistent_tensors_take_room():
    workload = WORKLOAD.replace("8, }", "8}\n  persistent_tensors: weight").replace(
        "rank_sizes: {M: 8", "rank_sizes: {M: 2"
    )
    arch = ARCH.replace("keep: All", "keep: ~weight").replace(FANOUT, "[]").replace("64 * 8", "30 * 8")
    read = mapspaces(load(arch, workload))
    assert [buffer(mapspace).size_words for mapspace in read] == [30, 6]


@pytest.mark.skipif(not ARCHES.exists(), reason="no reference data in ../shared")
@pytest.mark.parametrize("path", sorted(ARCHES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_public_architectures_are_read(path: Path):
    if path.stem == "costs":
        return
    Path("w.yaml").write_text(WORKLOAD, encoding="utf-8")
    options = LoadOptions(
        accelforge=AccelForgeOptions(
            costs=ARCHES / "costs.yaml" if path.stem == "eyeriss" else None, stored_outside=True
        )
    )
    if path.stem in ("nvdla", "eyeriss"):
        options = replace(options, accelforge=replace(options.accelforge, einsum="T"))
    network = load_network(["w.yaml", path], {}, options)
    assert [layer.name for layer in network.layers] == ["T", "Z"]
