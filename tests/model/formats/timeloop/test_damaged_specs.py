"""A damaged spec loads, or ends in an error with a place."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from model.formats.timeloop import LoadOptions
from model.formats.timeloop.loader import load_node
from model.sparse import MappingError, evaluate_sparse
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, MappingNode, Node, ScalarNode, SequenceNode, SpecError
from tests.model.formats.timeloop.support import DRAM, MAC, PROBLEM, SPAD, architecture, constrained, spec

Path = tuple[int, ...]

ARRAY = """\
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: 2}
    constraints: {spatial: {permutation: [K, C], split: 1, factors: [R=1, K<=4], no_reuse: [Weights]}}
"""
RULED_ARRAY = ARRAY.replace("[Weights]", "[Weights], rules: [K <= 2 * C + SIZE]")
SECTIONS = """\
mapper: {optimization_metrics: [edp], timeout: 5}
variables: {version: 0.4, SIZE: 2**5}
constraints: {targets: [{target: spad, type: temporal, permutation: R_P, factors: R=3}]}
mapping:
- {target: DRAM, type: temporal, factors: [P=16, C=4], permutation: [P, C]}
- {target: PE, type: spatial, factors: {K: 4}}
- {target: spad, type: temporal, factors: [R=3, K=2], permutation: [R, K]}
"""
SPAD_KEEPING = constrained(
    SPAD.replace("depth: 32", "depth: SIZE"),
    "{dataspace: {keep_only: ['*']}, tile: ['words(Weights) <= 0.5 * capacity']}",
)
RULES = 'mapspace: {template: uber, rules: ["instances(PE) / fanout(PE) >= 0.25"]}\n'
TEXT = spec(SECTIONS, RULES, arch=architecture(DRAM, RULED_ARRAY, SPAD_KEEPING, MAC))
WHOLE = compose(Document.of("spec.yaml", TEXT), Limits())
assert isinstance(WHOLE, MappingNode)

VALUES = (None, True, False, 0, -1, 2, 10**30, 0.5, float("inf"), float("nan"))
TEXTS = (
    "",
    "foo",
    "*",
    "R",
    "P=4",
    "P=4,3",
    "P<3",
    "P=inf",
    "1/0",
    "9**9**9",
    "RSP",
    "_",
    "spad",
    "1e400",
    "K % 0 == 1",
    "share(Outputs) < 1e400 mJ",
)
TAGS = (None, "!Component", "!Container", "!Parallel", "!Hierarchical", "!Nothing", "!Other")


def paths(node: Node, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    for place, child in enumerate(children(node)):
        yield from paths(child, (*path, place))


def children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, SequenceNode):
        return node.items
    return tuple(value for _, value in node.entries) if isinstance(node, MappingNode) else ()


def replaced(node: Node, path: Path, new: Node | None) -> Node | None:
    if not path:
        return new
    place, *rest = path
    inner = replaced(children(node)[place], tuple(rest), new)
    if isinstance(node, SequenceNode):
        items = [*node.items]
        items[place : place + 1] = [] if inner is None else [inner]
        return SequenceNode(tuple(items), node.span, node.tag)
    assert isinstance(node, MappingNode)
    entries = [*node.entries]
    entries[place : place + 1] = [] if inner is None else [(entries[place][0], inner)]
    return MappingNode(tuple(entries), node.span, node.tag)


def at(node: Node, path: Path) -> Node:
    for place in path:
        node = children(node)[place]
    return node


@st.composite
def damaged(draw: st.DrawFn, whole: MappingNode = WHOLE) -> Node:
    top: Node = whole
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(top)) or [()]))
        old = at(top, path)
        text = draw(st.sampled_from(TEXTS))
        value = draw(st.sampled_from(VALUES))
        other = at(top, draw(st.sampled_from(list(paths(top)) or [()])))
        new = draw(
            st.sampled_from(
                (
                    None,
                    ScalarNode(value, str(value), False, old.span, old.tag),
                    ScalarNode(text, text, draw(st.booleans()), old.span),
                    SequenceNode((), old.span, old.tag),
                    SequenceNode((old, old), old.span, old.tag),
                    MappingNode((), old.span, draw(st.sampled_from(TAGS))),
                    other,
                )
            )
        )
        changed = replaced(top, path, new)
        top = top if changed is None else changed
    return top


@settings(max_examples=150, derandomize=True)
@given(damaged())
def test_damage_ends_in_an_error_with_a_place(top):
    assert isinstance(top, MappingNode)
    try:
        loaded = load_node(top, (), LoadOptions())
    except SpecError as error:
        assert error.span is not None
        assert error.render().startswith("error: ")
    else:
        assert loaded.mapspace.problem.dims


def test_the_undamaged_spec_loads():
    assert load_node(WHOLE, (), LoadOptions()).mapping is not None


METADATA = (
    "metadata_storage_width: 16, metadata_datawidth: 4, metadata_storage_depth: 64, allow_overbooking: true"
)
SPARSE_SECTIONS = """\
sparse_optimizations:
  version: 0.4
  targets:
  - name: DRAM
    representation_format:
      data_spaces:
      - name: Weights
        rank_application_order: inner_to_outer
        ranks: [{format: UOP}, {format: CP, flattened_rankIDs: [[K, C]]}, {format: B}, {format: b}]
  - name: spad
    representation_format:
      data_spaces: [{name: Weights, ranks: [{format: B, payload_word_bits: 3}, {format: B}]}]
    action_optimization:
    - {type: gating, target: Inputs, condition_on: [Weights]}
    - type: skipping
      options: [{target: Outputs, condition_on: [Weights, Inputs]}, {target: Weights, condition_on: [Inputs]}]
  - {name: mac, compute_optimization: [{type: gating}, {type: skipping}]}
"""
DENSITIES = "{Weights: 0.5, Inputs: {distribution: hypergeometric, density: 0.3}, Outputs: {density: 0.9}}"
SPARSE_SPAD = constrained(
    SPAD.replace("{width: 16", f"{{{METADATA}, width: 16"), "{max_overbooked_proportion: {proportion: 0.1}}"
)
SPARSE_DRAM = DRAM.replace("{width: 64", f"{{{METADATA}, width: 64")
SPARSE_TEXT = spec(
    SECTIONS + SPARSE_SECTIONS,
    problem=PROBLEM.replace("K: 8}", f"K: 8, densities: {DENSITIES}}}"),
    arch=architecture(SPARSE_DRAM, ARRAY, SPARSE_SPAD, MAC),
)
SPARSE = compose(Document.of("spec.yaml", SPARSE_TEXT), Limits())
assert isinstance(SPARSE, MappingNode)


@settings(max_examples=150, derandomize=True)
@given(damaged(SPARSE))
def test_damage_of_sparse_specs_ends_in_an_error_with_a_place_or_is_priced(top):
    assert isinstance(top, MappingNode)
    try:
        loaded = load_node(top, (), LoadOptions(model_sparse=True))
    except SpecError as error:
        assert error.span is not None
        return
    mapspace = loaded.mapspace
    if loaded.mapping is None or mapspace.sparsity is None:
        return
    try:
        evaluation = evaluate_sparse(
            mapspace.problem, mapspace.architecture, mapspace.sparsity, loaded.mapping
        )
    except MappingError as error:
        assert error.level
    else:
        assert evaluation.energy >= 0
        assert evaluation.computes.actual <= evaluation.dense_computes


def test_the_undamaged_sparse_spec_is_priced():
    loaded = load_node(SPARSE, (), LoadOptions(model_sparse=True))
    mapspace = loaded.mapspace
    assert mapspace.sparsity is not None
    assert loaded.mapping is not None
    evaluate_sparse(mapspace.problem, mapspace.architecture, mapspace.sparsity, loaded.mapping)
