"""The checker's reading of rules of the user's own: their language, and what they say of mappings.

A rule is a condition on a mapping (docs/constraints.md). Its parts are tuples: ("number", n), ("name", text)
for a number that goes by a name, ("dimension", name), ("ask", quantity, ...) for what a mapping has, and
operators with their operands. Nothing here is taken from the program whose claims are checked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, floor, prod
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import Array, CannotCheckError, Cost, Json, Loops, Mask, Query, need

MOST_RULES, MOST_TEXT = 256, 1 << 16
MOST_CASES = 1 << 20  # combinations of values for which a rule is decided at a time

PICOJOULES = {
    unit: Fraction(10) ** power
    for unit, power in zip(("fJ", "pJ", "nJ", "uJ", "mJ", "J"), range(-3, 15, 3), strict=True)
}
ARGUMENTS = {
    "tile": ("level", "dimension"),
    "words": ("level", "dataspace"),
    "share": ("level", "dataspace"),
    "keeps": ("level", "dataspace"),
    "capacity": ("level",),
    "temporal": ("level", "dimension"),
    "innermost": ("level",),
    "spatial": ("fanout", "dimension"),
    "instances": ("fanout",),
    "fanout": ("fanout",),
    "energy": (),
    "cycles": (),
}
TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<sign>//|[=!<>]=|[-+*/%<>()\[\],]))"
)
COMPARED = ("==", "!=", "<", "<=", ">", ">=")

Part = tuple[Any, ...]  # of a rule: an operator with its operands
Ask = tuple[Any, ...]  # a quantity with its arguments
ValueOf = Callable[[Ask], Any]  # the value of a quantity, None if it is open
Pinned = dict[tuple[int, ...], Any]


class RulePlace(NamedTuple):
    """The constraint that a rule stands in, and the node that has it."""

    kind: str
    node: str


class Reader:
    """Reads the text of one rule, of a whole mapspace or at a place of it."""

    def __init__(self, text: str, place: RulePlace | None, dims: Sequence[str]) -> None:
        need(len(text) <= MOST_TEXT, "a rule is too long", CannotCheckError)
        self.place, self.dims, self.i = place, dims, 0
        self.tokens: list[tuple[str, str]] = []
        text, at = " ".join(text.split("\n")).rstrip(), 0
        while at < len(text):
            found = TOKEN.match(text, at)
            need(found, "rules are written in their language")
            assert found is not None and found.lastgroup is not None
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def whole(self) -> Part:
        """The condition of the whole text."""
        found = self.joined("or")
        need(self.i == len(self.tokens), "rules are written in their language")
        return found

    def peek(self, *values: str) -> bool:
        """Whether the next token is a sign or a word out of `values`."""
        return self.i < len(self.tokens) and self.tokens[self.i][1] in values and self.kind() != "text"

    def kind(self) -> str | None:
        """The kind of the next token, None at the end."""
        return self.tokens[self.i][0] if self.i < len(self.tokens) else None

    def take(self, *values: str) -> str:
        """The next token, which is one of `values` if there are any."""
        need(
            self.i < len(self.tokens) and (not values or self.peek(*values)),
            "rules are written in their language",
        )
        self.i += 1
        return self.tokens[self.i - 1][1]

    def joined(self, word: str) -> Part:
        """Conditions joined by `or`, or by `and`, which binds closer."""
        one: Callable[[], Part] = (lambda: self.joined("and")) if word == "or" else self.denied
        parts = [one()]
        while self.peek(word):
            self.take()
            parts.append(one())
        return (word, *parts) if len(parts) > 1 else parts[0]

    def denied(self) -> Part:
        """A comparison, perhaps after `not`."""
        if not self.peek("not"):
            return self.compared()
        self.take()
        return "not", self.denied()

    def compared(self) -> Part:
        """A comparison, or a chain of them, which hold together; without any its first side."""
        left = self.sum()
        parts: list[Part] = []
        while self.peek(*COMPARED, "in", "not"):
            sign = self.take()
            if sign in COMPARED:
                right = self.side(left)
                parts.append((sign, left, right))
                left = right
                continue
            if sign == "not":
                self.take("in")
            equal: list[Part] = [("==", left, item) for item in self.listed(left)]
            found = equal[0] if len(equal) == 1 else ("or", *equal)
            parts.append(("not", found) if sign == "not" else found)
        return left if not parts else parts[0] if len(parts) == 1 else ("and", *parts)

    def side(self, left: Part) -> Part:
        """What is compared with `left`: the name of a dimension beside an innermost one."""
        if left[:2] != ("ask", "innermost"):
            return self.sum()
        return "dimension", self.named()

    def listed(self, left: Part) -> list[Part]:
        """The items of a list that `left` is looked for in."""
        closing = {"[": "]", "(": ")"}[self.take("[", "(")]
        items = [self.side(left)]
        while not self.peek(closing):
            self.take(",")
            if not self.peek(closing):
                items.append(self.side(left))
        self.take(closing)
        return items

    def named(self) -> str:
        """A name, perhaps in quotes."""
        need(self.kind() in ("name", "text"), "rules are written in their language")
        kind, found = self.kind(), self.take()
        if kind == "name":
            return found
        need(not re.search(r"\\[^\\'\"]", found), "a name is written with escapes", CannotCheckError)
        return re.sub(r"\\(.)", r"\1", found[1:-1])

    def sum(self, signs: tuple[str, ...] = ("+", "-")) -> Part:
        """Terms with signs between them; factors, which bind closer, have other signs."""
        one: Callable[[], Part] = (lambda: self.sum(("*", "/", "//", "%"))) if "+" in signs else self.signed
        found = one()
        while self.peek(*signs):
            found = (self.take(), found, one())
        return found

    def signed(self) -> Part:
        """What stands alone, perhaps after a sign."""
        if not self.peek("+", "-"):
            return self.alone()
        sign, found = self.take(), self.signed()
        if sign == "+":
            return found
        return ("number", -found[1]) if found[0] == "number" else ("minus", found)

    def alone(self) -> Part:
        """A number with its unit, a quantity, or an expression in parentheses."""
        if self.peek("("):
            self.take()
            found = self.joined("or")
            self.take(")")
            return found
        if self.kind() == "number":
            number = self.number(self.take())
            return "number", number * (
                PICOJOULES.get(self.take(), 1) if self.peek(*PICOJOULES, "cycles") else 1
            )
        need(self.kind() == "name", "rules are written in their language")
        return self.quantity(self.take())

    @staticmethod
    def number(text: str) -> Fraction:
        """A number, exactly."""
        digits, _, exponent = text.replace("_", "").lower().partition("e")
        need(len(digits) <= 1 << 12 and len(exponent) <= 4, "a number is too long", CannotCheckError)
        return Fraction(digits) * Fraction(10) ** int(exponent or 0)

    def quantity(self, name: str) -> Part:
        """What a name stands for, with its arguments; a dimension alone is the one of the place."""
        if self.place and name in self.dims and not self.peek("("):
            return "ask", self.place.kind, self.place.node, name
        if name not in ARGUMENTS:
            need(not self.peek("("), "rules ask for known quantities")
            return "name", name
        given = self.arguments() if self.peek("(") else []
        wanted = ARGUMENTS[name]
        if len(given) < len(wanted):
            place = self.place or RulePlace("", "")
            kind = {"": "", "spatial": "fanout"}.get(place.kind, "level")
            need(kind == wanted[0], "quantities have their arguments")
            given.insert(0, place.node)
        need(len(given) == len(wanted), "quantities have their arguments")
        if name == "share":
            return "/", ("ask", "words", *given), ("ask", "capacity", given[0])
        return ("ask", name, *given)

    def arguments(self) -> list[str]:
        """The names in parentheses after a quantity."""
        self.take("(")
        given = []
        while not self.peek(")"):
            given.append(self.named())
            if not self.peek(")"):
                self.take(",")
        self.take(")")
        return given


def alike(written: Part, condition: Part) -> bool:
    """Whether a rule as it is written says what a condition says; numbers may go by names there."""
    if written[0] == "name":
        return bool(condition[0] == "number")
    parts = [*zip(written, condition, strict=False)]
    return len(written) == len(condition) and all(
        alike(one, other) if isinstance(one, tuple) and isinstance(other, tuple) else one == other
        for one, other in parts
    )


def asked(part: Part) -> set[Ask]:
    """All quantities that a part of a rule asks for."""
    if part[0] == "ask":
        return {part[1:]}
    return set().union(*(asked(own) for own in part[1:] if isinstance(own, tuple)))


def asking(part: Part, at: Callable[..., Part]) -> Part:
    """A part of a rule with other quantities: `at` returns them."""
    if part[0] == "ask":
        return "ask", *at(*part[1:])
    return tuple(asking(own, at) if isinstance(own, tuple) else own for own in part)


OPERATORS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a) / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "minus": lambda a: -a,
    "not": lambda a: not a,
}


def settled(part: Part, known: ValueOf) -> Part:
    """A part of a rule with values for what is `known`: ("value", v) once it has one.

    Conditions are looked at from the left, as far as they matter. What divides by zero stays as it is.
    """
    if part[0] in ("number", "dimension"):
        return "value", part[1]
    if part[0] == "ask":
        found = known(part[1:])
        return part if found is None else ("value", found)
    if part[0] in ("and", "or"):
        return connected(part[0], [settled(own, known) for own in part[1:]])
    need(part[0] in ("value", *OPERATORS), "rules are conditions")
    if part[0] == "value":
        return part
    operands = [settled(own, known) for own in part[1:]]
    if all(own[0] == "value" for own in operands):
        try:
            return "value", OPERATORS[part[0]](*(own[1] for own in operands))
        except ZeroDivisionError:
            pass
    return part[0], *operands


def connected(word: str, parts: Iterable[Part]) -> Part:
    """Settled conditions, connected: those that change nothing go, and none follows one that decides."""
    left, decides = [], word == "or"
    for own in parts:
        if own == ("value", decides):
            left.append(own)
            break
        left += [] if own == ("value", not decides) else [own]
    return ("value", not decides) if not left else left[0] if len(left) == 1 else (word, *left)


def conjuncts(part: Part) -> list[Part]:
    """Parts that hold together just where a rule does."""
    return [own for each in part[1:] for own in conjuncts(each)] if part[0] == "and" else [part]


def cost_limit(part: Part) -> tuple[str, Any, bool] | None:
    """The quantity that a part limits from above, the limit, whether costs stay below; None without one."""
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    if part[0] not in mirrored:
        return None
    sign, left, right = part
    if right[0] == "ask":
        sign, left, right = mirrored[sign], right, left
    if sign not in ("<", "<=") or left not in (("ask", "energy"), ("ask", "cycles")) or right[0] != "value":
        return None
    return left[1], right[1], sign == "<"


class Rules:
    """The rules of a problem, whose names are numbers from here on: nodes, dimensions and dataspaces.

    Quantities are ("tile", level, dimension), ("words" or "keeps", level, dataspace), ("temporal", level,
    dimension), ("innermost", level), ("spatial", fanout, dimension), ("instances", fanout), ("energy",) and
    ("cycles",). What is known of the hardware is settled.
    """

    def __init__(self, doc: Json, problem: Any) -> None:
        self.problem, self.units, texts = problem, doc["units_per_pj"], doc.get("rules", [])
        self.known: dict[tuple[int, Mask], list[Allowed]] = {}
        need(type(texts) is list and {*map(type, texts)} <= {str}, "rules are texts")
        need(len(texts) <= MOST_RULES, "there are too many rules", CannotCheckError)
        self.dims, nodes = doc["dims"], [*enumerate(problem.nodes)]
        self.places = {
            "dimension": {name: d for d, name in enumerate(doc["dims"])},
            "dataspace": {space["name"]: v for v, space in enumerate(doc["dataspaces"])},
            "level": {node["name"]: p for p, node in nodes if node["kind"] == "storage"}
            | {nodes[own.places[0]][1]["name"].removesuffix("#1"): own.places[0] for own in problem.memories},
            "fanout": {node["name"]: p for p, node in nodes if node["kind"] == "spatial"},
        }
        self.read = {text: Reader(text, None, doc["dims"]).whole() for text in texts}
        found = [settled(self.numbered(own), self.of_hardware) for own in self.read.values()]
        self.parts = [part for own in found for part in conjuncts(own)]
        self.memory = {own.places[0]: own for own in problem.memories}
        self.of_masks: dict[Mask, list[Part]] = {}
        loops = [ask for part in self.parts for ask in asked(part) if ask[0] in ("temporal", "innermost")]
        known = not any(p in self.memory for _, p, *_ in loops)
        need(known, "rules on loops at several places of a memory are not known", CannotCheckError)

    def numbered(self, part: Part) -> Part:
        """A part of a rule with numbers in the place of names."""
        if part[0] != "ask":
            need(part[0] != "name", "rules ask for known quantities")
            return tuple(self.numbered(own) if isinstance(own, tuple) else own for own in part)
        pairs = [*zip(part[2:], ARGUMENTS[part[1]], strict=True)]
        need(all(name in self.places[kind] for name, kind in pairs), "rules name what there is")
        return *part[:2], *(self.places[kind][name] for name, kind in pairs)

    def of_hardware(self, ask: Ask) -> int | None:
        """What is known whatever the mapping is."""
        if ask[0] == "capacity":
            return int(self.problem.nodes[ask[1]]["most_size"])
        if ask[0] == "fanout":
            return int(self.problem.nodes[ask[1]]["mesh_x"] * self.problem.nodes[ask[1]]["mesh_y"])
        return None

    def written(self, rules: Sequence[Json]) -> None:
        """Check that rules as they are written, with their places, say what the problem's rules say."""
        known = set()
        for rule in rules:
            condition, text, place = (rule[key] for key in ("condition", "text", "place"))
            need(condition in self.read and len(rule) == 3, "all rules are those of the problem")
            known.add(condition)
            if text:
                at = RulePlace(*place) if place else None
                same = alike(Reader(text, at, self.dims).whole(), self.read[condition])
                need(same, f"the rule {text!a} is one of the problem's")
        need(known == self.read.keys(), "all rules are written down")

    def of_mask(self, mask: Mask) -> list[Part]:
        """The parts for some keep sets: about the tiles at the places of memories that are in use."""
        if not self.memory:
            return self.parts
        key = tuple(mask)
        if key not in self.of_masks:
            self.of_masks[key] = [own for part in self.parts for own in self.at_places(part, mask)]
        return self.of_masks[key]

    def at_places(self, part: Part, mask: Mask) -> Iterator[Part]:
        """A part with the places at which tiles are looked at, and at which dataspaces are kept."""
        tiled = {ask[1] for ask in asked(part) if ask[0] == "tile" and ask[1] in self.memory}
        used = {
            p: [q for q in self.memory[p].places if q == p or any(q in own for own in mask)] for p in tiled
        }
        for places in product(*used.values()):
            chosen = dict(zip(used, places, strict=True))

            def at(kind: str, p: int | None = None, *of: int, chosen: Mapping[int, int] = chosen) -> Part:
                if p is None:
                    return (kind,)
                if kind == "tile":
                    return kind, chosen.get(p, p), *of
                if kind not in ("words", "keeps") or p not in self.memory:
                    return kind, p, *of
                return kind, next((q for q in self.memory[p].places if q in mask[of[0]]), p), *of

            yield asking(part, at)

    def case(self, mask: Mask, known: ValueOf) -> list[Part] | None:
        """The parts that are left once some quantities are known; None if one of them is broken."""
        parts = [own for part in self.of_mask(mask) for own in conjuncts(settled(part, known))]
        left = [part for part in parts if part != ("value", True)]
        return None if any(not asked(part) for part in left) else left

    def limited(self, query: Query, parts: Iterable[Part]) -> Query:
        """A query that asks for the limits on costs among some parts as well."""
        for name, limit, strict in filter(None, map(cost_limit, parts)):
            most = Fraction(limit) * (self.units if name == "energy" else 1)
            key, whole = (
                ("energy" if name == "energy" else "latency"),
                ceil(most) - 1 if strict else floor(most),
            )
            query = query._replace(**{key: min(getattr(query, key), whole)})
        return query

    @property
    def are_spatial(self) -> bool:
        """Whether all rules are about the factors of fanouts."""
        return {ask[0] for part in self.parts for ask in asked(part)} <= {"spatial", "instances"}

    def broken(self, loops: Loops, mask: Mask, cost: Cost | None = None) -> bool:
        """Whether a mapping breaks a rule; those about costs are left out if these are not known."""
        if not self.parts:
            return False

        def facts(ask: Ask) -> Any:
            if ask[0] in ("energy", "cycles"):
                return cost and (
                    Fraction(cost["energy"], self.units) if ask[0] == "energy" else cost["latency"]
                )
            return self.fact(ask, loops, mask)

        left = self.case(mask, facts)
        return left is None or bool(cost and left)

    def fact(self, ask: Ask, loops: Loops, mask: Mask) -> Any:
        """The value of a quantity that does not depend on costs, given the loops of each node."""
        kind, p, *of = ask
        if kind in ("spatial", "instances"):
            return loops[p].get(of[0], 1) if of else prod(loops[p].values())
        if kind == "tile":
            return self.extent(p, of[0], loops)
        if kind in ("keeps", "words"):
            extents = [self.extent(p, d, loops) for d in self.problem.every]
            return p in mask[of[0]] if kind == "keeps" else self.words(p, of[0], extents, mask)
        own = [loops[q] for q in self.loops_of(p)]
        if kind == "temporal":
            return prod(node.get(of[0], 1) for node in own)
        inner = next(filter(None, reversed(own)), {})
        return self.dims[next(iter(inner))] if inner else ""

    def extent(self, p: int, d: int, loops: Loops) -> int:
        """Iterations of a dimension that a tile of level `p` has."""
        return min(int(self.problem.bounds[d]), prod(own.get(d, 1) for own in loops[p:]))

    def words(self, p: int, v: int, extents: Sequence[Any], mask: Mask) -> Any:
        """Words of level `p` that the tile of a dataspace takes."""
        return self.problem.spaces[v].tile(extents) * self.problem.at[p][v]["size"] if p in mask[v] else 0

    def loops_of(self, p: int) -> list[int]:
        """The nodes with the loops of level `p`, outermost first."""
        found = []
        for q in range(p + 1, len(self.problem.nodes)):
            if self.problem.nodes[q]["kind"] != "temporal":
                break
            found.append(q)
        return found

    @cached_property
    def open(self) -> Array:
        """Which choices of spatial factors rules about these alone allow."""
        spatial, fans = self.problem.spatial, self.problem.fans
        kinds: dict[str, Callable[..., Array]] = {
            "spatial": lambda own, d: own[:, d],
            "instances": lambda own: own.prod(axis=1),
        }
        allowed = np.ones(len(spatial), dtype=bool)
        for part in self.parts:
            asks = sorted(asked(part))
            if asks and all(ask[0] in kinds for ask in asks):
                columns = [kinds[kind](spatial[:, fans.index(p)], *of) for kind, p, *of in asks]
                allowed &= decided(part, asks, columns)
        return allowed

    @cached_property
    def asks_order(self) -> bool:
        """Whether rules ask for the order of loops."""
        return any(ask[0] == "innermost" for part in self.parts for ask in asked(part))

    def tiles(self, p: int, mask: Mask) -> list["Allowed"]:
        """For each rule about the tile at level `p`, if it is not too large, the extents that it allows."""
        if (p, mask) not in self.known:
            self.known[p, mask] = [*self.tiles_of(p, mask)] if self.parts else []
        return self.known[p, mask]

    def tiles_of(self, p: int, mask: Mask) -> Iterator["Allowed"]:
        """Yield the extents that each rule about the tile at level `p` allows, if it is not too large."""
        for part in self.case(mask, self.kept(mask)) or ():
            asks = sorted(asked(part))
            if any(ask[:2] not in (("tile", p), ("words", p)) for ask in asks):
                continue
            spaces = [self.problem.spaces[of].relevant if kind == "words" else {of} for kind, _, of in asks]
            sizes = [n if d in set().union(*spaces) else 1 for d, n in enumerate(self.problem.bounds)]
            if prod(sizes) <= MOST_CASES:
                extents = np.ix_(*(np.arange(1, n + 1) for n in sizes))
                values = (
                    extents[of] if kind == "tile" else self.words(p, of, extents, mask)
                    for kind, _, of in asks
                )
                yield Allowed(decided(part, asks, [*values]), sizes)

    def kept(self, mask: Mask) -> ValueOf:
        """What is known once it is known which levels keep what."""

        def known(ask: Ask) -> bool | int | None:
            if ask[0] in ("keeps", "words") and ask[1] not in mask[ask[2]]:
                return 0 if ask[0] == "words" else False
            return True if ask[0] == "keeps" else None

        return known


def decided(part: Part, asks: Sequence[Ask], columns: Sequence[Any]) -> Array:
    """Whether a part holds, for arrays of values of what it asks for, of one shape."""
    columns = np.broadcast_arrays(*columns)
    code, first = np.zeros(columns[0].size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for column in columns:
        values, index = np.unique(column.ravel(), return_inverse=True)
        need(len(first) * len(values) < 1 << 62, "a rule has too many cases", CannotCheckError)
        _, first, code = np.unique(code * len(values) + index, return_index=True, return_inverse=True)
    need(len(first) <= MOST_CASES, "a rule has too many cases", CannotCheckError)
    rows = zip(*(column.ravel()[first].tolist() for column in columns), strict=True)
    holds = [settled(part, dict(zip(asks, row, strict=True)).get) == ("value", True) for row in rows]
    return np.array(holds, dtype=bool)[code].reshape(columns[0].shape)


class Allowed:
    """Which extents a rule about one tile allows, along the dimensions that matter to it."""

    def __init__(self, holds: Array, sizes: Sequence[int]) -> None:
        self.dims = [d for d, n in enumerate(sizes) if n > 1]
        grid = np.broadcast_to(holds, sizes).reshape([sizes[d] for d in self.dims])
        self.sums = grid.astype(np.int64)
        for axis in range(len(self.dims)):
            ahead = [(1, 0) if own == axis else (0, 0) for own in range(len(self.dims))]
            self.sums = np.pad(self.sums.cumsum(axis=axis), ahead)

    def any_between(self, small: Sequence[Any], large: Sequence[Any]) -> Any:
        """Whether it allows some extents between two, per dimension."""
        ends = [[(large[d], 1), (small[d] - 1, -1)] for d in self.dims]
        corners = product(*ends)
        return (
            sum(prod(sign for _, sign in own) * self.sums[tuple(at for at, _ in own)] for own in corners) > 0
        )


class Case:
    """What rules ask of the temporal loops of one choice of keep sets and spatial factors.

    `parts` is None if they allow none. A tile's extent along a dimension, (level, dimension), and the
    dimension of a level's innermost loop, (level,), may be `pinned` to a value. In this way a rule about
    several levels becomes one about a single tile.
    """

    def __init__(self, space: Any, mask: Mask, i: int, pinned: Pinned) -> None:
        self.rules, self.space, self.mask, self.pinned = space.rules, space, mask, pinned
        self.judged: dict[tuple[Any, ...], bool] = {}
        self.parts: list[Part] | None = []
        self.local: dict[int, list[tuple[Part, list[Ask]]]] = {}
        self.wide: list[Part] = []
        self.first: dict[int, int | None] = {}
        if not self.rules.parts:
            return
        self.used = dict(zip(space.fans, space.spatial[i].tolist(), strict=True))
        self.inside = [
            n // prod(own[d] for own in self.used.values()) for d, n in enumerate(space.bounds)
        ]  # iterations of the temporal loops
        self.parts = self.rules.case(mask, self.known)
        self.first = {
            q: n for own, name in pinned.items() if len(own) == 1 for q, n in self.begun(*own, name)
        }
        for part in self.parts or ():
            asks = sorted(asked(part))
            levels = {ask[1] for ask in asks if ask[0] in ("tile", "words")}
            if len(levels) == 1 and all(ask[0] in ("tile", "words") for ask in asks):
                self.local.setdefault(levels.pop(), []).append((part, asks))
            elif not cost_limit(part):
                self.wide.append(part)
        self.asks = sorted({ask for part in self.wide for ask in asked(part) if len(ask) > 1})
        self.prices = any(len(ask) == 1 for part in self.wide for ask in asked(part))

    def known(self, ask: Ask) -> Any:
        """The value of a quantity that this choice fixes, None if loops decide it."""
        kind, *of = ask
        if kind in ("spatial", "instances"):
            factors = self.used[of[0]]
            return factors[of[1]] if kind == "spatial" else prod(factors)
        if kind == "innermost":
            return self.pinned.get((of[0],))
        if kind in ("tile", "temporal"):
            return self.extent(*of) if kind == "tile" else self.factor(*of)
        if kind == "words" and of[0] in self.mask[of[1]]:
            extents = [self.extent(of[0], d) for d in self.relevant(of[1])]
            if None not in extents:
                whole = dict(zip(self.relevant(of[1]), extents, strict=True))
                return self.rules.words(*of, [whole.get(d, 1) for d in self.space.every], self.mask)
        return self.rules.kept(self.mask)(ask)

    def relevant(self, v: int) -> list[int]:
        """The dimensions that index a dataspace."""
        return sorted(self.space.spaces[v].relevant)

    def unrolled(self, p: int, d: int, end: int | None = None) -> int:
        """Product of the factors of a dimension in the fanouts inside of node `p`, and outside of `end`."""
        return prod(own[d] for q, own in self.used.items() if q > p and (end is None or q < end))

    def extent(self, p: int, d: int) -> int | None:
        """The extent of the tiles of a level, None if it is open."""
        return self.pinned.get((p, d), self.unrolled(p, d) if self.inside[d] == 1 else None)

    def below(self, p: int) -> int | None:
        """The level inside of a level, None for the innermost one."""
        return next((q for q in self.space.stores if q > p), None)

    def factor(self, p: int, d: int) -> int | None:
        """The factor of a level's loop, None if it is open."""
        inner, outside = self.below(p), self.extent(p, d)
        within = 1 if inner is None else self.extent(inner, d)
        return None if within is None or outside is None else outside // (within * self.unrolled(p, d, inner))

    def begun(self, p: int, name: str) -> Iterator[tuple[int, int | None]]:
        """The innermost loop of each node of a level: a dimension, or none; (node, dimension) pairs."""
        d = self.rules.dims.index(name) if name else None
        for q in reversed(self.rules.loops_of(p)):
            if d is not None and max(self.space.factors[q][d]) > 1:
                yield q, d
                return
            yield q, None

    def possible(self, p: int) -> list[str]:
        """The dimensions that the innermost loop of a level may have; an empty name for none."""
        lists = [self.space.factors[q] for q in self.rules.loops_of(p)]
        own = [any(max(factors[d]) > 1 for factors in lists) for d in self.space.every]
        names = [
            name for name, free, n in zip(self.rules.dims, own, self.inside, strict=True) if free and n > 1
        ]
        return ["", *names]

    def coordinates(self, ask: Ask) -> list[tuple[int, ...]]:
        """What has to be pinned until the value of a quantity is known."""
        kind, p, *of = ask
        if kind == "innermost":
            return [(p,)] if (p,) not in self.pinned else []
        levels = [p, self.below(p)] if kind == "temporal" and self.below(p) is not None else [p]
        dims = self.relevant(*of) if kind == "words" else of
        return [(q, d) for q in levels for d in dims if self.extent(q, d) is None]

    def next(self) -> tuple[tuple[int, ...], Sequence[Any]] | None:
        """What to pin next, and its values; None if that helps no more."""
        best = None
        for part in self.wide:
            found = {own for ask in asked(part) if len(ask) > 1 for own in self.coordinates(ask)}
            by_level = [{own for own in found if own[0] == p} for p in {own[0] for own in found}]
            least = min(by_level, key=lambda own: (len(own), sorted(own)), default=())
            if found and (best is None or len(found) < best[0]):
                best = len(found), min(least)
        if best is None:
            return None
        p, *of = best[1]
        if not of:
            return best[1], self.possible(p)
        rest = self.inside[of[0]]
        return best[1], [self.unrolled(p, *of) * n for n in range(1, rest + 1) if rest % n == 0]

    def allows(self, p: int, extents: Sequence[Any]) -> Any:
        """Whether level `p` may have tiles of these extents, which are numbers or arrays."""
        pins = [extents[own[1]] == n for own, n in self.pinned.items() if own[0] == p and len(own) == 2]
        found = [decided(part, asks, self.columns(p, asks, extents)) for part, asks in self.local.get(p, ())]
        return np.all(np.broadcast_arrays(True, *pins, *found), axis=0)

    def columns(self, p: int, asks: Iterable[Ask], extents: Sequence[Any]) -> list[Any]:
        """Values of the quantities of a tile."""
        words = {of: self.rules.words(p, of, extents, self.mask) for kind, _, of in asks if kind == "words"}
        return [extents[of] if kind == "tile" else words[of] for kind, _, of in asks]

    def allows_one(self, p: int, extents: Sequence[int]) -> bool:
        """Whether level `p` may have one tile of these extents; what was found is remembered."""
        key = p, tuple(extents)
        if key not in self.judged:
            self.judged[key] = bool(self.allows(p, extents))
        return self.judged[key]

    def recalled(self, loops: Loops) -> tuple[Any, ...]:
        """What the rules that are left ask of loops so far: nests that differ in it are not compared."""
        return tuple(self.rules.fact(ask, loops, self.mask) for ask in self.asks) if self.wide else ()
