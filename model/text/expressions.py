"""Arithmetic expressions in attributes, such as ``16384*2`` or ``ceil(log2(depth))``, with their places."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from model.syntax import DEEPEST, LONGEST, NESTED, ExpressionError, extent_of, shortened, syntax_tree
from model.text.arithmetic import (
    FUNCTIONS,
    calculate,
    container,
    float_of,
    item,
    number,
    ordered,
    short_enough,
    type_name,
)
from model.text.source import ScalarNode, SourceText, Span, SpecError
from model.wording import did_you_mean

_FLOW_HINT = "a comma ends a value in `{...}` and `[...]`; write the mapping on separate lines"
_WITH_UNIT = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)? ?([A-Za-zµ%][\w/%]*)")
_MESH = re.compile(r"\d+ ?[xX] ?\d+")
UNITS_HINT = (
    "convert it to the unit of the attribute (depth: rows; bandwidths: words per cycle and instance; "
    "times: seconds), and write the number alone"
)
_IN_GROUPS = re.compile(r"\d{1,3}(?:[ ,']\d{3})+")

_QUOTES = ("'", '"')
_BLOCKS = ("|", ">")

_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "inf": math.inf}
_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_UNARY: Mapping[type[ast.unaryop], Callable[[object], object]] = {
    ast.UAdd: lambda value: +number(value),
    ast.USub: lambda value: -number(value),
    ast.Not: operator.not_,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: ordered(operator.lt),
    ast.LtE: ordered(operator.le),
    ast.Gt: ordered(operator.gt),
    ast.GtE: ordered(operator.ge),
    ast.In: lambda left, right: left in container(right),
    ast.NotIn: lambda left, right: left not in container(right),
}


def evaluate_expression(
    text_or_node: str | ScalarNode, names: Mapping[str, object]
) -> int | float | str | bool:
    """Return the value of an expression; SpecError at the part that is wrong.

    Expressions consist of numbers, texts, names, ``+ - * / // % **``, comparisons, ``and or not``,
    ``a if c else b``, ``in``, lists, indices and keys (``sizes[0]``, ``sizes["glb"]``), and calls of
    `model.text.arithmetic.FUNCTIONS`. A name with dots is looked up as a whole first, then from mapping to
    mapping; `names` take precedence over `pi` and `inf`. ``node.get_fanout()`` is the number of instances in
    the mesh of a node. A node whose value is not text is returned unchanged; quoted text is evaluated, too.
    """
    if isinstance(text_or_node, str):
        return Evaluator(text_or_node, None, names).result()
    node = text_or_node
    if node.value is None:
        raise SpecError("a value is missing here", node.span)
    return Evaluator(node.value, node.span, names).result() if isinstance(node.value, str) else node.value


def evaluate_any(node: ScalarNode, names: Mapping[str, object]) -> object:
    """Return the value of an expression as `evaluate_expression` does; it may also be a list or a mapping."""
    if not isinstance(node.value, str):
        return node.value
    evaluator = Evaluator(node.value, node.span, names)
    value = evaluator.value()
    if isinstance(value, (list, tuple)) and len(value) <= LONGEST:
        return list(value)
    return value if isinstance(value, Mapping) else evaluator.checked(value)


class Evaluator:
    """Walks the syntax tree of one expression; a subclass may accept more kinds of nodes."""

    def __init__(self, text: str, span: Span | None, names: Mapping[str, object]) -> None:
        self._text = ExpressionText(text, span)
        self._names = names

    def result(self) -> int | float | str | bool:
        """Return the value of the expression; SpecError at the part that is wrong."""
        return self.checked(self.value())

    def value(self) -> object:
        """Return the value of the expression, of any type."""
        return self._value(self._text.parse(), 0)

    def checked(self, value: object) -> int | float | str | bool:
        """Return a value that is a number or a text of bounded length; SpecError otherwise."""
        span = self._text.span
        if isinstance(value, (list, tuple)) and len(value) > LONGEST:
            raise SpecError(f"the expression gives a list of more than {LONGEST} items", span)
        if not isinstance(value, (int, float, str)):
            raise SpecError(f"the expression gives {type_name(value)}, not a number or a text", span)
        if isinstance(value, str) and len(value) > LONGEST:
            raise SpecError(f"the expression gives a text of more than {LONGEST} characters", span)
        return value

    def _value(self, node: ast.expr, depth: int) -> object:
        if depth > DEEPEST:
            raise SpecError(NESTED, self._text.at(node))
        try:
            return self._known_value(node, depth + 1)
        except (ArithmeticError, TypeError, ValueError) as error:
            place, hint = self._text.at(node), self._texts_in(node)
            raise SpecError(f"cannot calculate this: {error}", place, hint=hint) from None

    def _known_value(self, node: ast.expr, depth: int) -> object:  # noqa: PLR0911 (one case per kind of node)
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as constant):
                return (
                    float_of(self._text.of(node)) if isinstance(constant, float) else short_enough(constant)
                )
            case ast.Name() | ast.Attribute() if path := _dotted_name(node):
                return self._led_to(path, node, depth)
            case ast.Attribute(value=held, attr=key) if _first_name(held):
                return self._item(node, held, key, depth)
            case ast.Subscript(value=held, slice=place) if not isinstance(place, ast.Slice):
                return self._item(node, held, self._value(place, depth), depth)
            case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in _BINARY:
                return calculate(_BINARY[type(symbol)], self._value(left, depth), self._value(right, depth))
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
                return _UNARY[type(sign)](self._value(operand, depth))
            case ast.BoolOp(op=junction, values=values):
                return self._junction(isinstance(junction, ast.Or), values, depth)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self._value(body if self._value(test, depth) else otherwise, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, depth) for item in items]
            case ast.Call(func=ast.Name(id=name) as function, args=arguments, keywords=[]):
                return self._called(name, function, [self._value(argument, depth) for argument in arguments])
            case ast.Call(func=ast.Attribute() as method) if _first_name(method):
                return self._of_node(node, method, depth)
        has_caret = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor)
        hint = "powers are written `**`" if has_caret else None
        raise SpecError("this is not allowed in an expression", self._text.at(node), hint=hint)

    def _texts_in(self, node: ast.expr) -> str | None:
        """Return a hint with the names whose values are texts: these may be misspelt expressions."""
        names = dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        values = {name: self._names[name] for name in names if name in self._names}
        texts = [
            f"`{name}` is the text `{value}`" for name, value in values.items() if isinstance(value, str)
        ]
        return ", ".join(texts) or None

    def _named(self, name: str, node: ast.expr) -> object:
        if name in self._names:
            return _usable(self._names[name], name)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in FUNCTIONS:
            raise SpecError(f"`{name}` is a function and needs arguments in parentheses", self._text.at(node))
        known = (*self._names, *_CONSTANTS)
        hint = did_you_mean(name, known) or did_you_mean(name.partition(".")[0], known)
        raise SpecError(f"`{name}` is not defined here", self._text.at(node), hint=hint)

    def _led_to(self, path: str, node: ast.Name | ast.Attribute, depth: int) -> object:
        """Return the value of a name with dots, as a whole or from the mapping that it begins with."""
        stem = path.partition(".")[0]
        leads = path not in self._names and isinstance(self._names.get(stem), Mapping)
        if isinstance(node, ast.Attribute) and leads:
            return self._item(node, node.value, node.attr, depth)
        return self._named(path, node)

    def _item(self, node: ast.expr, held: ast.expr, key: object, depth: int) -> object:
        values = self._value(held, depth)
        if isinstance(values, Mapping) and isinstance(key, str) and key not in values:
            hint = did_you_mean(key, [str(name) for name in values])
            raise SpecError(f"there is no `{key}` here", self._text.at(node), hint=hint)
        return _usable(item(values, key), str(key))

    def _of_node(self, call: ast.Call, method: ast.Attribute, depth: int) -> object:
        """Return the fanout of a node of the architecture: the instances in its mesh."""
        if method.attr != "get_fanout" or call.args or call.keywords:
            hint = f"write `{method.attr}`" if method.attr in FUNCTIONS else None
            shown = _dotted_name(method) or method.attr
            raise SpecError(f"there is no function `{shown}`", self._text.at(method), hint=hint)
        node = self._value(method.value, depth)
        mesh = node.get("spatial", node) if isinstance(node, Mapping) else None
        if not isinstance(mesh, Mapping) or not {"meshX", "meshY"} <= mesh.keys():
            raise SpecError("only a node of the architecture has a fanout", self._text.at(method.value))
        return calculate("*", mesh["meshX"], mesh["meshY"])

    def _called(self, name: str, function: ast.expr, arguments: list[object]) -> object:
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS)
            raise SpecError(f"there is no function `{name}`", self._text.at(function), hint=hint)
        return short_enough(FUNCTIONS[name](name, arguments))

    def _junction(self, is_or: bool, values: list[ast.expr], depth: int) -> object:
        """Return the value that decides an ``or`` or ``and``; later operands are not evaluated."""
        value: object = not is_or
        for operand in values:
            value = self._value(operand, depth)
            if bool(value) is is_or:
                break
        return value

    def _comparison(self, node: ast.Compare, depth: int) -> bool:
        left = self._value(node.left, depth)
        for symbol, operand in zip(node.ops, node.comparators, strict=True):
            if type(symbol) not in _COMPARISONS:
                raise SpecError("this comparison is not allowed in an expression", self._text.at(node))
            right = self._value(operand, depth)
            if not _COMPARISONS[type(symbol)](left, right):
                return False
            left = right
        return True


def _dotted_name(node: ast.expr) -> str:
    """Return a name with dots, such as ``spec.problem.instance``, or an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def _first_name(node: ast.expr) -> str:
    """Return the name at the start of keys and indices, such as ``sizes`` of ``sizes[0].glb``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _usable(value: object, name: str) -> object:
    if isinstance(value, (int, float, str, list, tuple, Mapping)):
        return value
    raise TypeError(f"`{name}` is {type_name(value)}")


class ExpressionText:
    """The text of one expression, line ends as blanks, and its place, if it has one."""

    def __init__(self, text: str, span: Span | None) -> None:
        self.text = " ".join(text.split("\n")).strip()
        self.span = span

    def parse(self) -> ast.expr:
        """Return the syntax tree; SpecError at the part that is no expression, or if it is too large."""
        try:
            return syntax_tree(self.text)
        except ExpressionError as error:
            slip = self._slip() if error.is_syntax else None
            hint = _FLOW_HINT if "never closed" in error.message else error.hint
            whole = error.start is None
            place = self.span if whole else part_of(self.span, self.text, error.start or 0, error.end)
            raise slip or SpecError(error.message, place, hint=hint) from None

    def at(self, node: ast.expr) -> Span | None:
        """Return the place of a part of the tree."""
        return part_of(self.span, self.text, *extent_of(self.text, node))

    def of(self, node: ast.expr) -> str:
        """Return the text of a part of the tree."""
        return self.text.encode()[node.col_offset : node.end_col_offset].decode()

    def _slip(self) -> SpecError | None:
        """Return the error for a common slip, for which Python's own message would be misleading."""
        followed = _WITH_UNIT.fullmatch(self.text)
        if _MESH.fullmatch(self.text):
            product = re.sub(" ?[xX] ?", " * ", self.text)
            problem, hint = "these are two numbers", f"their product is written `{product}`"
        elif followed:
            problem, hint = f"a number is followed by `{followed[1]}`", UNITS_HINT
        elif _IN_GROUPS.fullmatch(self.text):
            problem, hint = "digits cannot be grouped", f"write {re.sub('[^0-9]', '', self.text)}"
        else:
            return None
        return SpecError(f"`{shortened(self.text)}` is not an expression: {problem}", self.span, hint=hint)


def called_functions(node: ScalarNode) -> list[tuple[str, Span | None]]:
    """Return the functions that an expression calls with arguments, and where; none of other texts."""
    text = ExpressionText(node.text, node.span)
    try:
        parts = ast.walk(text.parse())
    except SpecError:
        return []
    calls = [part for part in parts if isinstance(part, ast.Call) and part.args]
    return [(call.func.id, text.at(call.func)) for call in calls if isinstance(call.func, ast.Name)]


def part_of(span: Span | None, text: str, start: int, end: int | None = None) -> Span | None:
    """Return the place of ``text[start:end]``, given the place of all of `text`.

    That is `span` itself where the file spells the text differently (escapes). A part that is empty or has no
    end is one character wide.
    """
    if span is None:
        return None
    if span.rendered is not None:
        return replace(span, rendered=part_of(span.rendered, text, start, end))
    line = None if span.source is None else span.source.line(span.line)
    offset = -1 if line is None else line.find(text, span.column - 1, span.end_column - 1)
    if span.end_line != span.line or offset < 0:
        return _part_of_lines(span, text, start, end)
    start = min(start, max(len(text) - 1, 0))
    end = max(start + 1, min(start + 1 if end is None else end, len(text)))
    return Span(span.file, span.line, offset + start + 1, span.line, offset + end + 1, span.source)


def _part_of_lines(span: Span, text: str, start: int, end: int | None) -> Span:
    """Return the place of a part of a text that the file has in several lines, apart from blanks as it is."""
    if span.source is None or len(text) > LONGEST:
        return span
    wanted = [(place, character) for place, character in enumerate(text) if not character.isspace()]
    written = list(islice(_characters(span, span.source), len(wanted)))
    if [character for _, character in wanted] != [character for _, _, character in written]:
        return span
    last = start + 1 if end is None else max(start + 1, end)
    inside = [at for at, (place, _) in zip(written, wanted, strict=True) if start <= place < last]
    if not inside:
        return span
    (line, column, _), (end_line, end_column, _) = inside[0], inside[-1]
    return Span(span.file, line, column, end_line, end_column + 1, span.source)


def _characters(span: Span, source: SourceText) -> Iterator[tuple[int, int, str]]:
    """Yield the characters of a scalar with line and column, without blanks and its opening mark."""
    for row in range(span.line, span.end_line + 1):
        line = source.line(row) or ""
        first = span.column - 1 if row == span.line else 0
        if row == span.line and line[first : first + 1] in _QUOTES:
            first += 1
        elif row == span.line and line[first : first + 1] in _BLOCKS:
            continue
        characters = enumerate(line[first:], first + 1)
        yield from ((row, column, c) for column, c in characters if not c.isspace())
