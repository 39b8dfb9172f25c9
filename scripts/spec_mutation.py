"""Damages spec texts, shipped ones and small ones that use every feature, as texts and as trees."""

from __future__ import annotations

import copy
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, MappingNode, Node, ScalarNode, SequenceNode

SPECS = Path(__file__).resolve().parents[1] / "specs"

SMALL = """\
variables: {version: 0.4, technology: 45nm, global_cycle_seconds: 1e-9, SIZE: 2**5}
problem:
  version: 0.4
  instance: {C: 4, K: 4, P: 6, R: 3, Ps: 1}
  shape:
    name: conv
    dimensions: [C, K, P, R]
    coefficients: [{name: Ps, default: 1}]
    data-spaces:
    - {name: Weights, projection: [[[C]], [[K]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[R], [P, Ps]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read-write: true}
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {type: LPDDR4, width: 64, datawidth: 8, shared_bandwidth: 4}
  - !Container {name: system, attributes: {technology: 45nm, rows: 8}}
  - !Component
    name: buffer
    class: SRAM
    attributes: &storage
      {depth: SIZE * rows, width: 32, datawidth: 8, read_bandwidth: 2.5, multiple_buffering: 2}
    constraints:
      dataspace: {keep: [Inputs], bypass: [Weights]}
      temporal: {factors: "R=3, P<=6", permutation: RP_K}
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: ceil(log2(rows))}
    constraints: {spatial: {permutation: [K, C], split: 1, factors: [R=1, K<=4], no_reuse: [Weights]}}
  - !Parallel
    nodes:
    - !Component
      name: weights
      class: storage
      subclass: cell
      attributes: {<<: *storage, depth: 16, entries: 64, power_gated_at: PE}
      constraints: {dataspace: {keep_only: [Weights]}}
    - !Nothing {constraints: {dataspace: {keep_only: [Inputs, Outputs]}}}
  - !Component {name: mac, class: intmac, attributes: {multiplier_width: 8, adder_width: 16}, energy: 0.5}
components:
  version: 0.4
  classes:
  - name: cell
    attributes: {depth: must_specify, width: 8, technology: must_specify}
    subcomponents:
    - {name: "bits[0..width-1]", class: register, attributes: {width: 1, depth: depth}, area_scale: 1.5}
    actions:
    - &access
      name: read
      arguments: {lane: 0..1}
      subcomponents: [{name: "bits[0..width-1]", actions: [{name: read}]}]
    - {<<: *access, name: write}
    - {<<: *access, name: leak}
mapper: {optimization_metrics: [energy, delay], timeout: 5}
"""
TABLES = """\
problem: {shape: gemm, instance: {M: 8, N: 4, K: 6}}
architecture:
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component
    name: buffer
    class: SRAM
    attributes: {sizeKB: 0.125, width: 8, datawidth: 8, min_utilization: 0.1}
  - !Component {name: mac, class: compute}
ERT:
  version: 0.4
  tables:
  - name: top.DRAM[1..1]
    actions: [{name: read, energy: 512}, {name: write, arguments: {}, energy: 5.12e+2}]
  - name: top.buffer[1..1]
    actions: [{name: read, energy: 1.5}, {name: update, energy: 2}, {name: write, energy: 1}]
  - {name: "top.mac[1..1]", actions: [{name: compute, energy: 0.5}]}
ART: {version: 0.4, tables: [{name: "top.buffer[1..1]", area: 1e3}]}
mapspace: {template: uber}
constraints:
  targets: [{target: buffer, type: temporal, maximize_dims: [[M, N]], maximize_dims_capacity: 16}]
mapping:
- {target: DRAM, type: temporal, factors: [M=1, N=2, K=6], permutation: [K, N]}
- {target: buffer, type: temporal, factors: {M: 8, N: 2}, permutation: "M,N"}
- {target: buffer, type: dataspace, keep: ['*']}
"""
TEMPLATE = """\
{% set sizes = {'M': 8, 'N': 4} %}
{% macro storage(name, depth) -%}
- !Component
  name: {{ name }}
  class: SRAM
  attributes: {depth: {{ depth }}, width: 8, datawidth: 8, technology: 45}
{%- endmacro %}
problem:
  shape: gemm
  instance:
    K: {{ 2 ** 3 }}
{% for key, value in sizes | dictsort %}
    {{ key }}: {{ value if value > 1 else 1 }}
{% endfor %}
architecture:
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {type: LPDDR4, width: 8, datawidth: 8}}
  {{ storage('buffer' ~ [1, 2] | join('_'), [64, 32] | max) | indent(2) }}
{% if path_exists('none.yaml') %}
  - !include none.yaml
{% endif %}
  - !Component {name: mac, class: intmac, attributes: {multiplier_width: 8, adder_width: 16, technology: 45}}
"""

VALUES = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "2",
        "7",
        "64",
        "0.5",
        "1e-9",
        "1e300",
        "1e400",
        "1e-999999999",
    ),
    *(".inf", ".nan", "0b1", "yes"),
)
HUGE = tuple(str(number) for number in (10**9, 10**18, 10**30, 2**300, 10**99))
EXPRESSIONS = """\
10**10**10
2**(2**40)
1/0
9**9**9
ceil(log2(0))
'a'+'b'
range(10000)
[1,2]+[3]
depth
width*width
SIZE if 1 else 0
max([])
int('9'*99)
round(1,-300)
a.b
__import__
1if 1else
{{
{{ 1 }}
{{ 'x' * 10**9 }}
{% for i in range(99999) %}x{% endfor %}
${x}
%s%s%n""".splitlines()
WORDS = (
    *("*", "~", "R", "P=4", "P=4,3", "P<3", "P<=", "P=inf", "RSP", "_", "DRAM", "buffer", "gemm"),
    *("../x", "/dev/zero", "[bold]x[/bold]", ":smile:"),
)
STRANGE = (
    *("", "\x1b[31mred", "\x07", "\u202ereverse", "a\u0000b", "\ud800", "\ufeff", "x" * 300, "\u00e9" * 20),
    *("(" * 50, "not " * 60 + "1", "-" * 90 + "1", "0x" + "f" * 90),
)
TEXTS = (*WORDS, *EXPRESSIONS, *STRANGE, *HUGE)
MARKS = """\
{{
}}
{% if %}
{% endif %}
{% set x = [1] %}
{{ x }}
{{ [1] | map('abs') | list }}
{#
#}
*storage
&storage\x20
*a
&a\x20
<<:\x20
<<<:\x20
!include x.yaml
!Component\x20
!Parallel\x20
!!int\x20
!<x>\x20
%YAML 1.1""".splitlines()
CONTROLS = ("? ", ": ", "- ", "|\n", ">\n", "---\n", "...\n", "\x00", "\x1b[2J", "\u2028", "\x85", "\ufeff")
SNIPPETS = (*MARKS, *CONTROLS, *"[]{},#'\\@`\"\t\n\r", *VALUES, *HUGE)
TAGS = (
    None,
    "!Component",
    "!Container",
    "!Parallel",
    "!Hierarchical",
    "!Nothing",
    "!Other",
    "!!int",
    "!!python/object:os.system",
)

SMALL_SHARE = 5
DEEP = 10_000
"""Frames for the deepest tree: 120 levels on top of twice those before, four times over, two frames each."""
_RANGE = re.compile(r"([\w+*-]+)\.\.([\w+*-]+)")
_FLOW = re.compile(r"[][{},\n]")

Tree = tuple[str | None, object]
"""A tag, and the YAML text of a scalar, a list of trees, or `Pairs` of key text and tree."""


class Pairs(list[tuple[str, Tree]]):
    """The entries of a mapping."""


def architecture_seeds() -> tuple[str, ...]:
    """Return the small specs, repeated, and each shipped architecture with a layer."""
    layers = sorted((SPECS / "layers").rglob("*.yaml"))
    whole = [
        (path.read_text() + "\n" + layers[0].read_text())
        for path in sorted(SPECS.glob("architectures/*.yaml"))
    ]
    return (*[SMALL, TABLES, TEMPLATE] * SMALL_SHARE, *whole)


class Mutator:
    """Damages texts; the result depends only on the seed and the number."""

    def __init__(self, seed: int, seeds: tuple[str, ...]) -> None:
        self._seed = seed
        self.seeds = seeds
        self._trees = [
            _tree(compose(Document.of("seed", text), Limits())) for text in self.seeds if "{%" not in text
        ]

    def text(self, number: int) -> str:
        """Return input `number`."""
        rng = random.Random(f"{self._seed}:{number}")
        with _deep_stack():
            return self._damaged_tree(rng) if rng.random() < 0.6 else self._damaged_text(rng)

    def _damaged_text(self, rng: random.Random) -> str:
        text = rng.choice(self.seeds)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            place = rng.randrange(len(text) + 1)
            end = min(len(text), place + rng.choice((0, 0, 1, 2, 10, 200)))
            text = text[:place] + _inserted(rng, text) + text[end:]
        return text

    def _damaged_tree(self, rng: random.Random) -> str:
        tree = rng.choice(self._trees)
        for _ in range(rng.choice((1, 1, 2, 4))):
            places = _places(tree)
            other = _at(tree, rng.choice(places))
            tree = _changed(tree, rng.choice(places), lambda old, other=other: _new(rng, old, other))
        return emitted(tree)

    def content(self, number: int) -> bytes:
        """Return input `number` as the bytes of a file."""
        return self.text(number).encode("utf-8", "surrogatepass")


STRANGE = (None, True, -1, 0, 1e308, 10**400, "", "\x1b[31m", "x" * 300, [], {}, [[]], "ö\u202e", 0.5, -0.0)
"""Values that stand where they are not expected in JSON."""


class JsonMutator:
    """Damages JSON so that most of it stays JSON; the result depends only on the seed and the number."""

    def __init__(self, seed: int, seeds: tuple[str, ...]) -> None:
        self._seed, self._seeds = seed, seeds

    def content(self, number: int) -> bytes:
        """Return input `number` as the bytes of a file."""
        rng = random.Random(f"{self._seed}:{number}")
        text = rng.choice(self._seeds)
        if rng.random() < 0.1:
            place = rng.randrange(len(text))
            return (text[:place] + _inserted(rng, text) + text[place:]).encode("utf-8", "surrogatepass")
        document = json.loads(text)
        for _ in range(rng.choice((1, 1, 2, 4))):
            _damage(rng, document)
        return json.dumps(document).encode()


def _damage(rng: random.Random, document: object) -> None:
    """Change one member of an object or a list."""
    holders = list(_holders(document))
    if not holders:
        return
    holder = rng.choice(holders)
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    other = rng.choice(holders)
    kind = rng.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(other) if kind == 2 else copy.copy(rng.choice(STRANGE))


def _holders(document: object) -> Iterator[dict[str, object] | list[object]]:
    """Yield the objects and lists that have members."""
    if not isinstance(document, dict | list):
        return
    if document:
        yield document
    for member in document.values() if isinstance(document, dict) else document:
        yield from _holders(member)


class BytesMutator:
    """Damages files that are no texts; the result depends only on the seed and the number."""

    def __init__(self, seed: int, seeds: tuple[bytes, ...]) -> None:
        self._seed, self._seeds = seed, seeds

    def content(self, number: int) -> bytes:
        """Return input `number`."""
        rng = random.Random(f"{self._seed}:{number}")
        content = rng.choice(self._seeds)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            place = rng.randrange(len(content) + 1)
            end = min(len(content), place + rng.choice((0, 0, 1, 1, 2, 10, 200)))
            start = rng.randrange(max(1, len(content)))
            copied = content[start : start + rng.choice((1, 4, 40))]
            new = rng.choice((rng.randbytes(1), rng.randbytes(4), b"\xff" * rng.choice((1, 9)), b"", copied))
            end = place + len(new) if rng.random() < 0.7 else end
            content = content[:place] + new + content[end:]
        return content


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Allow deeply nested trees here, but not in the readers."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _inserted(rng: random.Random, text: str) -> str:
    start = rng.randrange(max(1, len(text)))
    choices: Sequence[Callable[[], str]] = (
        lambda: "",
        lambda: rng.choice(SNIPPETS),
        lambda: rng.choice(TEXTS),
        lambda: chr(rng.choice((rng.randrange(128), rng.randrange(0xD800)))),
        lambda: text[start : start + rng.choice((1, 5, 50, 300))],
        lambda: rng.choice(SNIPPETS) * rng.choice((2, 50, 3000)),
    )
    return rng.choice(choices)()


def _tree(node: Node | None) -> Tree:
    assert node is not None
    if isinstance(node, ScalarNode):
        return node.tag, json.dumps(node.text) if node.quoted or _FLOW.search(node.text) else node.text
    if isinstance(node, SequenceNode):
        return node.tag, [_tree(item) for item in node.items]
    assert isinstance(node, MappingNode)
    return node.tag, Pairs((key.text, _tree(value)) for key, value in node.entries)


def _children(tree: Tree) -> list[Tree]:
    content = tree[1]
    if isinstance(content, Pairs):
        return [value for _, value in content]
    return content if isinstance(content, list) else []


def _places(tree: Tree, place: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    found = [place]
    for number, child in enumerate(_children(tree)):
        found += _places(child, (*place, number))
    return found


def _at(tree: Tree, place: tuple[int, ...]) -> Tree:
    for number in place:
        tree = _children(tree)[number]
    return tree


def _changed(tree: Tree, place: tuple[int, ...], change: Callable[[Tree], Tree]) -> Tree:
    if not place:
        return change(tree)
    tag, content = tree
    first, rest = place[0], place[1:]
    if isinstance(content, Pairs):
        pairs = Pairs(content)
        pairs[first] = (pairs[first][0], _changed(pairs[first][1], rest, change))
        return tag, pairs
    assert isinstance(content, list)
    items = list(content)
    items[first] = _changed(items[first], rest, change)
    return tag, items


def _new(rng: random.Random, old: Tree, other: Tree) -> Tree:
    """Return what takes the place of `old`; `other` is some part of the same tree."""
    tag, content = old
    deep: Tree = old
    for _ in range(rng.choice((1, 5, 90, 120))):
        deep = (None, [deep]) if rng.random() < 0.5 else (None, Pairs([("x", deep)]))
    choices: list[Tree] = [
        (tag, rng.choice(VALUES)),
        (tag, rng.choice(TEXTS)),
        (tag, json.dumps(rng.choice(TEXTS))),
        (rng.choice(TAGS), content),
        (None, []),
        (tag, [old] * rng.choice((2, 3, 40))),
        (tag, Pairs()),
        other,
        deep,
    ]
    if isinstance(content, Pairs) and content:
        place = rng.randrange(len(content))
        kept = Pairs(content[:place] + content[place + 1 :])
        choices += [(tag, kept), (tag, kept)]
        choices += [
            (tag, Pairs([*kept, (key, content[place][1])])) for key in (rng.choice(TEXTS), "x", "name")
        ]
        choices += [(tag, Pairs([*content, (content[rng.randrange(len(content))][0], other)]))]
    elif isinstance(content, list) and content:
        place = rng.randrange(len(content))
        choices += [(tag, content[:place] + content[place + 1 :]), (tag, [*content, content[place]])]
        choices += [(tag, rng.sample(content, len(content))), (tag, [*content, other])]
    elif isinstance(content, str) and _RANGE.search(content):
        choices += [(tag, _RANGE.sub(r"\2..\1", content))] * len(choices)
    return rng.choice(choices)


def emitted(tree: Tree) -> str:
    """Return a tree as YAML text in flow style; texts stay plain or quoted."""
    tag, content = tree
    prefix = "" if tag is None else f"{tag} "
    if isinstance(content, Pairs):
        return prefix + "{" + ", ".join(f"{key}: {emitted(value)}" for key, value in content) + "}"
    if isinstance(content, list):
        return prefix + "[" + ", ".join(map(emitted, content)) + "]"
    assert isinstance(content, str)
    return prefix + content
