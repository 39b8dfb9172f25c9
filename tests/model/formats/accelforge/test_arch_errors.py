"""What is wrong with an architecture of AccelForge, or not modelled: one message, its place and caret."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.text.source import SpecError
from tests.model.formats.accelforge.arches import ARCH, WORKLOAD, load, with_node

pytestmark = pytest.mark.usefixtures("working_directory")


def refused(before: str, after: str) -> tuple[str, str]:
    """Return the message, and what its caret is under."""
    with pytest.raises(SpecError) as caught:
        load(with_node(before, after))
    span = caught.value.span
    assert span is not None
    assert span.file == "a.yaml"
    rendered = caught.value.render().splitlines()
    carets = next(line for line in rendered if line.strip(" |").startswith("^"))
    above = rendered[rendered.index(carets) - 1]
    return caught.value.message, above[carets.index("^") : carets.rindex("^") + 1]


SIZE, BUFFER = "size: 64 * 8", "    name: Buffer\n"
FANOUT = "[{name: X, fanout: 4}]"
COMPUTE = "    name: MAC\n"
READ = "{name: read, energy: 1e-12, throughput: 2e9}"
PRICED = """  - !Toll
    name: ADC
    direction: up
    leak_power: 0
    tensors: {keep: output}
    actions: [{name: read, energy: 3e-12, throughput: 1e9}]
  - !Compute
"""
TOLL = "  - !Toll\n    name: ADC\n    direction: up\n    size: 8\n  - !Compute\n"


@pytest.mark.parametrize(
    ("before", "after", "message", "at"),
    [
        # Unknown keys and nodes
        (SIZE, "sice: 512", "unknown key `sice` in `!Memory` `Buffer`", "sice"),
        (SIZE, "leek: 3\n    size: 8", "unknown key `leek` in `!Memory` `Buffer`", "leek"),
        ("keep: weight", "kept: weight", "unknown key `kept` in `tensors` of `Buffer`", "kept"),
        ("fanout: 4", "fan: 4, fanout: 4", "unknown key `fan` in a dimension of `Array`", "fan"),
        (READ, "{name: read, enery: 1}", "unknown key `enery` in an action of `Buffer`", "enery"),
        (READ, "{name: red, energy: 1}", "unknown action `red` of `Buffer`", "red"),
        ("!Container", "!Containr", "unknown node `!Containr`", None),
        ("!Container", "", "a node among `nodes` has no type", None),
        ("  nodes:", "  name: chip\n  nodes:", "unknown key `name` in `arch`", "name"),
        # Sizes that are no bits
        (SIZE, "size: -8", "Einsum `T`: the size of `Buffer` in bits must not be negative, but is -8", "-8"),
        (
            SIZE,
            "size: true",
            "Einsum `T`: the size of `Buffer` in bits must be a number, but is `true",
            "true",
        ),
        (SIZE, "size: weight", "Einsum `T`: the size of `Buffer` in bits must be a number", "weight"),
        (SIZE, "size: .nan", "Einsum `T`: the size of `Buffer` in bits must be a number", ".nan"),
        (
            SIZE,
            "size: 64 kB",
            "Einsum `T`: `64 kB` is not an expression: a number is followed by `kB`",
            "64 kB",
        ),
        (SIZE, "size: [8]", "Einsum `T`: the size of `Buffer` in bits must be a single value", "[8]"),
        # Sets that name nothing
        ("keep: weight", "keep: wait", "Einsum `T`: `wait` is not a tensor, rank variable, rename", "wait"),
        ("keep: weight", "keep: ~Bufer", "Einsum `T`: `Bufer` is not a tensor, rank variable", "Bufer"),
        ("keep: weight", "keep: m", "Einsum `T`: `keep` of `Buffer` gives rank variables, but tensors", "m"),
        ("keep: weight", "keep: 3", "Einsum `T`: the expression does not give a set", "3"),
        (FANOUT, "[{name: X, fanout: 4, reuse: inputs}]", "Einsum `T`: `inputs` is not a tensor", "inputs"),
        # A compute for no Einsum, or two
        (
            COMPUTE,
            COMPUTE + "    enabled: len(All) == 4\n",
            "no compute is enabled for Einsum `T`",
            "len(All) == 4",
        ),
        (
            COMPUTE,
            COMPUTE + "    leak_power: 0\n    actions: [{name: compute, energy: 1, throughput: 1}]\n"
            "  - !Compute\n    name: Scalar\n",
            "`MAC` and `Scalar` are both enabled for Einsum",
            "Scalar",
        ),
        # Throughputs
        (
            "energy: 5e-13, throughput: 1e9",
            "energy: 0, throughput: 0",
            "Einsum `T`: the throughput of `compute` of `MAC` must be above 0, or `inf`",
            "0",
        ),
        (
            "throughput: 2e9}",
            "throughput: 1 - 1}",
            "the throughput of `read` of `Buffer` must be above 0",
            "1 - 1",
        ),
        (
            "throughput: 2e9}",
            "throughput: -1}",
            "the throughput of `read` of `Buffer` must not be negative",
            "-1",
        ),
        # Latencies
        (
            SIZE,
            "size: 8\n    total_latency: 1e-9",
            "`total_latency` is not an expression over the actions",
            "1e-9",
        ),
        (SIZE, "size: 8\n    total_latency: size / 2", "`size` is not defined here", "size"),
        (
            SIZE,
            "size: 8\n    total_latency: sum(a.calls for a in actions)",
            "an action has no `calls`",
            "a.calls",
        ),
        (
            SIZE,
            "size: 8\n    total_latency: min(a.n_calls for a in actions)",
            "the least of several latencies is not modelled",
            "min(a.n_calls for a in actions)",
        ),
        (
            SIZE,
            "size: 8\n    total_latency: sum(a.n_calls for a in nodes)",
            "a loop runs over `actions`",
            "nodes",
        ),
        (
            SIZE,
            "size: 8\n    total_latency: 1e-9 + sum(a.n_calls for a in actions)",
            "`total_latency` adds a time",
            "1e-9 + sum(a.n_calls for a in actions)",
        ),
        (
            SIZE,
            "size: 8\n    total_latency: actions['red'].n_calls",
            "there is no action `red`",
            "actions['red']",
        ),
        # A missing cost
        ("    leak_power: 1e-3\n", "", "`leak_power` of `Buffer` is missing", "Buffer"),
        (READ, "{name: read, throughput: 2e9}", "the energy of `read` of `Buffer` is missing", "Buffer"),
        (READ, "{name: read, energy: 1}", "the throughput of `read` of `Buffer` is missing", "Buffer"),
        (
            "    leak_power: 1e-3\n",
            "    component_class: ADC\n",
            "`leak_power` is missing for `Buffer`, whose class is `ADC`",
            "ADC",
        ),
        # Tolls
        ("  - !Compute\n", TOLL, "a `!Toll` has no size: it stores nothing", "size"),
        ("  - !Compute\n", TOLL.replace("size: 8", ""), "`leak_power` of `ADC` is missing", "ADC"),
        ("  - !Compute\n", TOLL.replace("up", "upp"), "a `!Toll` has no size", "size"),
        ("  - !Compute\n", PRICED.replace("up", "upwards"), "unknown direction `upwards`", "upwards"),
        (
            "  - !Compute\n",
            PRICED.replace("up", "{input: up}"),
            "`direction` of `ADC` does not mention `T`",
            "{input: up}",
        ),
        (
            "  - !Compute\n",
            PRICED.replace("up", "{All: up, output: down}"),
            "`direction` of `ADC` covers `T` twice",
            "output",
        ),
        ("  - !Compute\n", PRICED.replace("up", "{outputs: up}"), "`outputs` is not a tensor", "outputs"),
        (
            "  - !Compute\n",
            PRICED.replace("{name: read, ", "{name: write, "),
            "unknown action `write` of `ADC`",
            "write",
        ),
        ("  - !Compute\n", PRICED.replace("    direction: up\n", ""), "is missing the key `direction`", None),
        # Other things that are not modelled
        ("!Container", "!Array", "`!Array` is not modelled: it is a grid of nodes", None),
        ("!Container", "!Network", "`!Network` is not modelled: it is a network that is paid", None),
        ("keep: weight", "tile_shape: [], keep: weight", "`tile_shape` is not modelled", "tile_shape"),
        (
            "keep: weight",
            "no_refetch_from_above: weight, keep: weight",
            "`no_refetch_from_above` is not modelled: it is the demand that each value",
            "no_refetch_from_above",
        ),
        (FANOUT, "[{name: X, fanout: 4, usage_scale: 2}]", "`usage_scale` of `Array.X` is not modelled", "2"),
        (
            COMPUTE,
            COMPUTE + "    skip_initial_output_write: False\n",
            "`skip_initial_output_write: False` is not modelled",
            "False",
        ),
        (
            SIZE,
            "size: 8\n    component_model: x",
            "`component_model` is not modelled: it is a model in Python",
            "component_model",
        ),
        # Fanouts
        ("fanout: 4", "fanout: 2.5", "the fanout `Array.X` must be a whole number", "2.5"),
        ("fanout: 4", "fanout: 0", "the fanout `Array.X` must be above 0", "0"),
        (
            FANOUT,
            "[{name: X, fanout: 4, min_usage: 2}]",
            "`min_usage` of `Array.X` is a share from 0 to 1",
            "2",
        ),
        (FANOUT, "[{name: X, fanout: 4}, {name: X, fanout: 2}]", "`Array` has two dimensions `X`", "X"),
        (
            FANOUT,
            "[{name: X, fanout: 4, loop_bounds: [{expression: m, operator: =, value: 1}]}]",
            "unknown operator `=`",
            "=",
        ),
        (
            FANOUT,
            "[{name: X, fanout: 4, loop_bounds: [{expression: m | n, operator: product<=, value: 4}]}]",
            "a bound on the product of loops",
            "product<=",
        ),
        (
            FANOUT,
            "[{name: X, fanout: 4, loop_bounds: [{expression: weight, operator: ==, value: 1}]}]",
            "gives tensors, but rank variables",
            "weight",
        ),
        (
            FANOUT,
            "[{name: X, fanout: 4, loop_bounds: [{expression: my, operator: ==, value: 1}]}]",
            "`my` is not a tensor, rank variable, rename, set or variable",
            "my",
        ),
        # The tree
        ("    name: Array\n", "    name: Buffer\n", "two nodes are named `Buffer`", "Buffer"),
        ("    name: Array\n", "", "`!Container` is missing the key `name`", None),
        ("    name: Array\n", "    name: my array\n", "`my array` cannot be a name", "my array"),
    ],
)
def test_is_refused(before: str, after: str, message: str, at: str | None):
    found, marked = refused(before, after)
    assert message in found
    assert at is None or marked == at


def test_python_functions_are_refused():
    with pytest.raises(SpecError, match="functions in Python are not read") as caught:
        load(ARCH + "config:\n  expression_custom_functions: [_include_functions.py]\n")
    assert "specs never run code" in caught.value.render()


def test_what_is_not_defined_comes_before_slips():
    wrong = ARCH.replace("size: inf", "sise: inf")
    with pytest.raises(SpecError, match="functions in Python are not read"):
        load(wrong + "config:\n  expression_custom_functions: [_include_functions.py]\n")
    with pytest.raises(SpecError, match="`!Array` is not modelled"):
        load(wrong + "  - !Array {name: Grid}\n")
    calls = "arch:\n  variables: {a: log1p(2), f: a, b: f(a), c: 2 * parallel(spec)}\n"
    again = WORKLOAD.replace("M: 8", "M: 7")
    with pytest.raises(SpecError, match="the function `parallel` is not defined") as caught:
        load(wrong.replace("arch:\n", calls) + again)
    assert caught.value.render().count("^") == len("parallel")
    with pytest.raises(SpecError, match="unknown top-level key `varables`") as caught:
        load(ARCH + "varables: {X: 1}\n")
    assert "did you mean `variables`?" in caught.value.render()


def test_the_outermost_node_is_a_memory():
    with pytest.raises(
        SpecError, match="the outermost node is `Array`: it must be a memory that exists once"
    ):
        load(
            with_node(
                "nodes:\n",
                "nodes:\n  - !Container\n    name: Array\n    spatial: [{name: X, fanout: 2}]\n",
                ARCH.replace("name: Array", "name: Other"),
            )
        )


def test_an_arch_needs_a_workload_of_its_own_kind(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(ARCH, encoding="utf-8")
    (tmp_path / "p.yaml").write_text("problem: {}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="has an `arch` of AccelForge, but no workload"):
        load_network([tmp_path / "a.yaml", tmp_path / "p.yaml"])
