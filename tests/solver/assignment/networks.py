"""Two networks in files; random ones of every kind of graph, and their optima by complete enumeration."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import strategies as st

from model.assignment import EdgeCosts, LayerCosts, build_network
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "tests" / "solver" / "cli" / "data"
TINY = DATA / "tiny_network.yaml"
CONFLICT = DATA / "network_without_assignment.yaml"

CHAIN, TREE, SERIES_PARALLEL, GENERAL = KINDS = ("chain", "tree", "series-parallel", "general")

LARGEST_COSTS = (1, 20, 10**6, 10**18, 10**30)
"""Few values make ties; the last two need several digits, and more than 64 bits."""


@st.composite
def graphs(draw, kind, most_layers):
    """Edges of a graph of the kind, from lower to higher numbers; the layers' count."""
    count = draw(st.integers(1, most_layers))
    if kind == CHAIN:
        return count, [(layer, layer + 1) for layer in range(count - 1)]
    if kind == TREE:
        return count, [(draw(st.integers(0, layer - 1)), layer) for layer in range(1, count)]
    if kind == SERIES_PARALLEL:
        edges = [(0, 1)] if count > 1 else []
        for layer in range(2, count):
            start, end = draw(st.sampled_from(edges))
            if draw(st.booleans()):
                edges.remove((start, end))
            edges += [(start, layer), (end, layer)]
        return count, edges
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if draw(st.booleans()):
        # Four layers that no reduction takes apart, and others hung onto them.
        core = [(i, j) for i, j in pairs if j < 4]
        hung = st.sets(st.integers(0, 3), min_size=1, max_size=2)
        return count, core + [(i, j) for j in range(4, count) for i in sorted(draw(hung))]
    return count, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@st.composite
def networks(draw, kind=None, most_layers=5, most_methods=3):
    """A network with exact costs, some of them infinite, and edges in both orders of the layers."""
    kind = kind or draw(st.sampled_from(KINDS))
    count, edges = draw(graphs(kind, most_layers))
    largest = draw(st.sampled_from(LARGEST_COSTS))
    finite = st.builds(Fraction, st.integers(0, largest), st.sampled_from((1, 1, 3, 8)))
    is_forbidding = draw(st.booleans())
    cost = st.one_of(finite, finite, finite, st.none()) if is_forbidding else finite
    methods = [[f"m{k}" for k in range(draw(st.integers(1, most_methods)))] for _ in range(count)]
    order = draw(st.permutations(range(count)))
    layers = [LayerCosts(f"l{i}", {name: draw(cost) for name in methods[i]}) for i in order]
    return build_network(
        kind,
        "ms",
        layers,
        [
            EdgeCosts(f"l{i}", f"l{j}", {pair: draw(cost) for pair in product(methods[i], methods[j])})
            for i, j in edges
        ],
    )


def totals(network):
    """Totals of all allowed assignments in steps, ascending."""
    choices = product(*(range(len(layer.methods)) for layer in network.layers))
    return sorted(total for choice in choices if (total := network.total(choice)) is not None)


@st.composite
def crowded_networks(draw, most_layers=5):
    """A network with parallel edges whose layers occupy room, which may be too small."""
    network = draw(networks(most_layers=most_layers))
    repeated = draw(st.lists(st.sampled_from(network.edges), max_size=3)) if network.edges else []
    layers = []
    for layer in network.layers:
        first, length = draw(st.integers(0, 6)), draw(st.integers(0, 4))
        largest = draw(st.sampled_from((3, 10**12)))
        usages = [draw(st.integers(0, largest)) for _ in layer.methods]
        layers.append(replace(layer, usages=np.array(usages), interval=(first, first + length)))
    least = max(
        sum(int(own.usages.min()) for own in layers if own.interval[0] <= moment < own.interval[1])
        for moment in range(10)
    )
    limit = draw(st.sampled_from((least - 1, least, least + 1, least + 2, 2 * least + 3)))
    edges = (*network.edges, *repeated)
    return replace(network, layers=tuple(layers), edges=edges, usage_limit=max(0, limit))
