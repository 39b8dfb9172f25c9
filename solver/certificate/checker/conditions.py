"""The checker's reading of user-defined rules: their language, and what they say of mappings.

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

from solver.certificate.checker.claims import Array, Cost, Json, Loops, Mask, Query, able, need, remembered
from solver.certificate.checker.dataspaces import divisors

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
Used = tuple[tuple[int, tuple[int, ...]], ...]  # fanouts and their factors, as far as they are known
Pins = tuple[
    tuple[tuple[int, int], int], ...
]  # levels and dimensions, and extents of tiles that are looked at


class RulePlace(NamedTuple):
    """The constraint that a rule stands in, and the node that has it."""

    kind: str
    node: str


class Reader:
    """Reads the text of one rule, of a whole mapspace or at a place of it."""

    def __init__(self, text: str, place: RulePlace | None, dims: Sequence[str]) -> None:
        able(len(text) <= MOST_TEXT, "a rule is too long")
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
        able(not re.search(r"\\[^\\'\"]", found), "a name is written with escapes")
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
        able(len(digits) <= 1 << 12 and len(exponent) <= 4, "a number is too long")
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
        need(type(texts) is list and {*map(type, texts)} <= {str}, "rules are texts")
        able(len(texts) <= MOST_RULES, "there are too many user-defined constraints")
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
        able(known, "the checker does not know constraints on loops of a memory with several places")

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
        """Whether all the checker knows only constraints on factors of fanouts in fused mappings."""
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

    @remembered
    def sorted_out(self, mask: Mask, used: Used = (), pins: Pins = ()) -> tuple[list["Allowed"], list[Part]]:
        """The extents that rules about one tile allow, if these are few; other rules but limits of costs."""
        parts = [
            *(self.case(mask, self.kept(mask, used, pins)) or ()),
            *(("==", ("ask", "tile", *own), ("value", n)) for own, n in pins),
        ]
        allowed = [(part, self.allowed(part, mask)) for part in parts if not cost_limit(part)]
        return [own for _, own in allowed if own], [part for part, own in allowed if not own]

    def pin(self, parts: Iterable[Part], pins: Pins) -> tuple[tuple[int, int], Sequence[int]] | None:
        """A level and a dimension whose extent some parts ask for, and its values; None without one."""
        found = []
        for part in parts:
            asks = {
                (p, *of) for kind, p, *of in (ask for ask in asked(part) if len(ask) > 2) if kind == "tile"
            }
            for _, p, d in (ask for ask in asked(part) if ask[0] == "temporal"):
                asks |= {(q, d) for q in (p, self.below(p)) if q is not None}
            found.append(sorted((p, d) for p, d in asks if p and (p, d) not in dict(pins)))
        best = min(filter(None, found), key=len, default=None)
        return None if best is None else (best[0], divisors(self.problem.bounds[best[0][1]]))

    def below(self, p: int) -> int | None:
        """The level inside of a level, None for the innermost one."""
        return next((q for q in self.problem.stores if q > p), None)

    @remembered
    def allowed(self, part: Part, mask: Mask) -> "Allowed | None":
        """The extents that a rule about one tile allows; None if it is about more, or there are too many."""
        asks = sorted(asked(part))
        if {kind for kind, *_ in asks} - {"tile", "words"} or len({ask[1] for ask in asks}) != 1:
            return None
        spaces = [self.problem.spaces[of].relevant if kind == "words" else {of} for kind, _, of in asks]
        bounds = [n if d in set().union(*spaces) else 1 for d, n in enumerate(self.problem.bounds)]
        values = [range(1, n + 1) if self.problem.any else divisors(n) for n in bounds]
        if prod(map(len, values)) > MOST_CASES:
            return None
        extents = np.ix_(*(np.array(own) for own in values))
        columns = [
            extents[of] if kind == "tile" else self.words(p, of, extents, mask) for kind, p, of in asks
        ]
        return Allowed(asks[0][1], decided(part, asks, columns), values)

    def kept(self, mask: Mask, used: Used = (), pins: Pins = ()) -> ValueOf:
        """What is known once it is known which levels keep what, what fanouts do, and some extents."""
        fans, extents = dict(used), dict(pins)

        def extent(p: int | None, d: int) -> int | None:
            return 1 if p is None else int(self.problem.bounds[d]) if p == 0 else extents.get((p, d))

        def known(ask: Ask) -> Any:
            kind, *of = ask
            if kind in ("spatial", "instances") and of[0] in fans:
                return fans[of[0]][of[1]] if kind == "spatial" else prod(fans[of[0]])
            if kind == "tile":
                return extents.get((*of,))
            if kind == "temporal" and extents:
                below = self.below(of[0])
                outer, inner = extent(*of), extent(below, of[1])
                unrolled = prod(own[of[1]] for p, own in used if of[0] < p and (below is None or p < below))
                return outer and inner and outer // (inner * unrolled)
            if kind in ("keeps", "words") and of[0] not in mask[of[1]]:
                return 0 if kind == "words" else False
            return True if kind == "keeps" else None

        return known

    def so_far(self, p: int, loops: Loops, mask: Mask) -> ValueOf:
        """What is known of a nest that has all loops of level `p`, all inside of it, and all spatial ones."""

        def known(ask: Ask) -> Any:
            is_open = len(ask) == 1 or (ask[0] not in ("spatial", "instances") and ask[1] < p)
            return None if is_open else self.fact(ask, loops, mask)

        return known


def decided(part: Part, asks: Sequence[Ask], columns: Sequence[Any]) -> Array:
    """Whether a part holds, for arrays of values of what it asks for, of one shape."""
    columns = np.broadcast_arrays(*columns)
    code, first = np.zeros(columns[0].size, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for column in columns:
        values, index = np.unique(column.ravel(), return_inverse=True)
        able(
            len(first) * len(values) < 1 << 62,
            "a user-defined constraint has too many combinations of values",
        )
        _, first, code = np.unique(code * len(values) + index, return_index=True, return_inverse=True)
    able(len(first) <= MOST_CASES, "a user-defined constraint has too many combinations of values")
    rows = zip(*(column.ravel()[first].tolist() for column in columns), strict=True)
    holds = [settled(part, dict(zip(asks, row, strict=True)).get) == ("value", True) for row in rows]
    return np.array(holds, dtype=bool)[code].reshape(columns[0].shape)


class Allowed:
    """Which extents, out of lists of `values`, a rule about the tile at level `p` allows."""

    def __init__(self, p: int, holds: Array, values: Sequence[Sequence[int]]) -> None:
        self.p = p
        self.values = {d: np.array(own) for d, own in enumerate(values) if len(own) > 1}
        grid = np.broadcast_to(holds, [*map(len, values)]).reshape([*map(len, self.values.values())])
        self.sums = grid.astype(np.int64)
        for axis in range(grid.ndim):
            ahead = [(1, 0) if own == axis else (0, 0) for own in range(grid.ndim)]
            self.sums = np.pad(self.sums.cumsum(axis=axis), ahead)

    def any_between(self, small: Sequence[Any], large: Sequence[Any]) -> Any:
        """Whether it allows some extents between two, per dimension."""
        ends = [
            [(np.searchsorted(own, large[d], "right"), 1), (np.searchsorted(own, small[d]), -1)]
            for d, own in self.values.items()
        ]
        corners = product(*ends)
        return (
            sum(prod(sign for _, sign in own) * self.sums[tuple(at for at, _ in own)] for own in corners) > 0
        )
