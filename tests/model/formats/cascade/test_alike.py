"""Many layers that differ in names only: read once, and as if each were read alone."""

from collections import Counter

import pytest

import model.formats.cascade.layers as layers_module
import model.formats.cascade.loader as loader_module
from model.formats.cascade.loader import load_network
from model.renaming import Renaming
from tests.conftest import REPOSITORY

SIMBA = REPOSITORY / "specs/architectures/simba_like.yaml"
LAYER = "- {{name: {name}, shape: gemm, instance: {{M: {rows}, N: 8, K: 8}}}}\n"
OPERANDS = "renames: {{weight: W{0}, input: A{0}, output: Z{0}}}"
EINSUM = f'  - {{{{einsum: "Z{{0}}[m, n] = A{{0}}[m, k] * W{{0}}[k, n]", {OPERANDS}}}}}\n'
WORKLOAD = "workload:\n  rank_sizes: {M: 8, N: 8, K: 8}\n  bits_per_value: {All: 8}\n  einsums:\n"


@pytest.fixture
def reads(monkeypatch):
    """How often the specs of layers, and of Einsums, are read."""
    counts: Counter[str] = Counter()
    for module in (layers_module, loader_module):
        read = module.load_node

        def counted(*words, name=module.__name__, read=read):
            counts[name] += 1
            return read(*words)

        monkeypatch.setattr(module, "load_node", counted)
    return counts


def test_layers_that_differ_in_names_are_read_once(tmp_path, reads):
    path = tmp_path / "layers.yaml"
    rows = [8] * 20 + [4]
    each = (LAYER.format(name=f"own{place}", rows=own) for place, own in enumerate(rows))
    path.write_text("problem:\n" + "".join(each), encoding="utf-8")
    network = load_network([path, SIMBA])
    assert sum(reads.values()) == 2
    assert [layer.mapspace.problem.name for layer in network.layers] == [f"own{n}" for n in range(21)]
    assert [layer.mapspace.problem.bound["M"] for layer in network.layers] == rows


def test_einsums_that_differ_in_tensors_are_read_once(tmp_path, reads):
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD + "".join(map(EINSUM.format, range(20))), encoding="utf-8")
    together = load_network([path, SIMBA]).layers
    assert sum(reads.values()) == 1
    for number in (0, 7, 19):
        path.write_text(WORKLOAD + EINSUM.format(number), encoding="utf-8")
        (alone,) = load_network([path, SIMBA]).layers
        assert together[number].mapspace == alone.mapspace
        own, other = (one.mapspace.keep for one in (together[number], alone))
        assert [rules.sources for rules in own] == [rules.sources for rules in other]


PRODUCT = (
    "  - {{einsum: 'T{1}[m, n{1}] = T{0}[m, n{0}] * W{0}[n{0}, n{1}]', "
    "renames: {{weight: W{0}, input: T{0}, output: T{1}}}}}\n"
)
SIZES = ", ".join(f"N{n}: 8" for n in range(7))
CHAIN = WORKLOAD.replace("N: 8, K: 8", SIZES) + "".join(PRODUCT.format(n, n + 1) for n in range(6))


@pytest.mark.parametrize(("rule", "count"), [("C<=8", 1), ("n2<=2", 3)])
def test_einsums_that_differ_in_dimensions_are_read_once(tmp_path, monkeypatch, reads, rule, count):
    """But for dimensions that a constraint names: here the second one writes, and the third one reads it."""
    path, arch = tmp_path / "workload.yaml", tmp_path / "arch.yaml"
    rules = f"mapspace_constraints:\n- {{target: weight_buffer, type: temporal, factors: [{rule}]}}\n"
    arch.write_text(SIMBA.read_text(encoding="utf-8") + rules, encoding="utf-8")
    path.write_text(CHAIN, encoding="utf-8")
    together = load_network([path, arch]).layers
    assert sum(reads.values()) == count
    as_they_are = lambda problem, _: Renaming(  # noqa: E731
        {dim: dim for dim in problem.dims}, {space.name: space.name for space in problem.dataspaces}
    )
    monkeypatch.setattr(layers_module, "numbered", as_they_are)
    apart = load_network([path, arch]).layers
    assert sum(reads.values()) == count + 6
    assert [layer.mapspace for layer in together] == [layer.mapspace for layer in apart]
