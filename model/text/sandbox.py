"""A Jinja2 environment for templates that nobody has read: no Python objects, bounded work and text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from model.text.arithmetic import FUNCTIONS, OPERATORS, bounded, calculate, total
from model.text.files import Session
from model.text.limits import Limits

SIZED = (str, list, tuple, Mapping)
_BITS_OF_A_CHARACTER = 32


def parts(value: object, limit: int) -> Iterator[object]:
    """Yield a value and all that it holds.

    Raises
    ------
    OverflowError
        It is more, or holds an integer of more than 4096 bits.
    """
    weight = 0
    pending = [value]
    while pending:
        part = pending.pop()
        weight += 1
        if isinstance(part, int):
            weight += bounded(part).bit_length() // _BITS_OF_A_CHARACTER
        if isinstance(part, SIZED):
            weight += len(part)
        if weight > limit:
            raise too_large(limit)
        yield part
        if isinstance(part, (list, tuple)):
            pending += part
        elif isinstance(part, Mapping):
            pending += [*part.keys(), *part.values()]


def too_large(limit: int) -> OverflowError:
    """Return the error for a value of more than `limit` characters."""
    return OverflowError(f"a value of more than {limit} characters")


_LARGEST_PRECISION = 300
_PLAIN_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last"),
    *("length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "title", "upper"),
)
_TEXT_ATTRIBUTES = (
    *("capitalize", "count", "endswith", "find", "isdigit", "lower", "lstrip", "rsplit", "rstrip", "split"),
    *("splitlines", "startswith", "strip", "title", "upper"),
)
_LOOP_ATTRIBUTES = (
    *("changed", "cycle", "depth", "depth0", "first", "index", "index0", "last", "length", "nextitem"),
    *("previtem", "revindex", "revindex0"),
)
_SAFE_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    str: _TEXT_ATTRIBUTES,
    dict: ("get", "items", "keys", "values"),
    list: ("count", "index"),
    tuple: ("count", "index"),
    LoopContext: _LOOP_ATTRIBUTES,
}
_PRINTABLE = (str, int, float, list, tuple, Mapping, type(None))
_CHARGED_AT_ONCE = 10_000
_COMPARED_AT_ONCE = 64
_FOREIGN_NODES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class SpecEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 with the filters, attributes and operators that spec templates need, and no others.

    Every loop pass, call and printed value is charged to the session, and so is the size of every value
    that an operator, a filter, a call or a slice makes or compares. Values are bounded in size where they
    arise, so that no template can fill the memory or the time between two charges. Methods that templates
    call raise what `model.text.templates` turns into a SpecError.
    """

    intercepted_binops = OPERATORS

    def __init__(self, session: Session) -> None:
        super().__init__(
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            finalize=self._printed,
            cache_size=0,
            extensions=(AssertStatement,),
        )
        self._session = session
        self._limits: Limits = session.limits
        self.globals = {"range": self._range, "dict": _dict, "namespace": Namespace, **_functions()}
        filters: dict[str, Callable[..., object]] = {name: FILTERS[name] for name in _PLAIN_FILTERS}
        filters |= {"indent": self._indent, "replace": self._replace, "round": _round, "sum": _sum}
        filters |= {"join": self._join, "string": self._text, "trim": self._trim, "unique": self._unique}
        self.filters = {name: self._charged(function) for name, function in filters.items()}
        self.tests = {name: self._charged(function) for name, function in self.tests.items()}

    def compiled_sizes(self, text: str) -> Iterator[int]:
        """Yield the characters of each part of a template that is neither text nor a comment.

        Raises
        ------
        TemplateSyntaxError
            While it is iterated, for what Jinja2 cannot take apart.
        """
        return (len(part) for _, kind, part in self.lex(text) if kind != "data" and "comment" not in kind)

    def instrument(self, template: nodes.Template) -> nodes.Template:
        """Put the charges and size checks into a parsed template.

        Raises
        ------
        ForeignStatementError
            For a statement that would load another template.
        """
        for foreign in template.find_all(_FOREIGN_NODES):
            statement = type(foreign).__name__.lower()
            message = f"`{{% {statement} %}}` is not for specs; use `include_text`"
            raise ForeignStatementError(message, foreign.lineno)
        repeated: list[nodes.For | nodes.Macro | nodes.CallBlock] = [
            *template.find_all(nodes.For),
            *template.find_all(nodes.Macro),
            *template.find_all(nodes.CallBlock),
        ]
        for part in repeated:
            length = sum(len(data.data) for data in part.find_all(nodes.TemplateData))
            part.body.insert(0, nodes.ExprStmt(_call("charge", nodes.Const(length)), lineno=part.lineno))
        _check_children(template)
        template.set_environment(self)
        return template

    def charge(self, characters: int) -> None:
        """Count text that is printed; called from templates by what `instrument` adds.

        Raises
        ------
        SpecError
            It is too much, or takes too long.
        """
        self._session.spend(characters)

    def sized(self, value: object) -> object:
        """Return a value after its size is checked and charged.

        Raises
        ------
        OverflowError
            It has more characters and items than ``rendered_characters``, or a number of more than 4096 bits.
        SpecError
            All values together are too much, or take too long.
        """
        size = 0
        for part in parts(value, self._limits.rendered_characters):
            size += len(part) + 1 if isinstance(part, SIZED) else 1
            if size >= _CHARGED_AT_ONCE:
                self._session.work(size)
                size = 0
        self._session.work(size)
        return value

    def call(self, __context: Context, __obj: object, *args: object, **kwargs: object) -> object:
        """Call what a template calls, and check and charge what that returns."""
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            self._compare(owner, *args, *kwargs.values())
        return self.sized(super().call(__context, __obj, *args, **kwargs))

    def _compare(self, text: str, *others: object) -> None:
        """Charge for a text that is searched for others: `rsplit` and `strip` take quadratic time."""
        for other in others:
            if isinstance(other, str):
                self._session.work(len(text) * len(other) // _COMPARED_AT_ONCE)

    def _charged(self, function: Any) -> Callable[..., object]:
        """Return a filter or test whose operands and result are checked and charged."""

        @functools.wraps(function)
        def charged(*arguments: object, **options: object) -> object:
            for argument in arguments:
                if not isinstance(argument, Context):
                    self.sized(argument)
            return self.sized(function(*arguments, **options))

        return charged

    def concatenated(self, *parts: object) -> str:
        """Return the texts of `parts` one after the other (the operator ``~``).

        Raises
        ------
        TypeError
            A part is a function or an iterator.
        OverflowError
            The text is too long.
        """
        return self._join(parts)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Calculate with bounded operands and results.

        Raises
        ------
        ArithmeticError, TypeError
            As for `model.text.arithmetic.calculate`.
        SpecError
            As for `sized`.
        """
        return self.sized(calculate(operator, _defined(left), _defined(right)))

    def fail(self, message: object) -> str:
        """Stop with the message of an ``assert`` whose condition does not hold.

        Raises
        ------
        AssertionError
            Always.
        """
        raise AssertionError(self._text(message))

    def wrap_str_format(self, value: object) -> Callable[..., str] | None:
        """Know no string formatting: its widths are not bounded."""
        return None

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Whether a template may read an attribute: a few of the plain types, and of namespaces."""
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return any(isinstance(obj, kind) and attr in allowed for kind, allowed in _SAFE_ATTRIBUTES.items())

    def _printed(self, value: object) -> object:
        """Return what is printed for a value: YAML writes None as null."""
        if isinstance(value, Undefined):
            return value
        text = "null" if value is None else self._text(value)
        self._session.spend(len(text))
        return text

    def _text(self, value: object) -> str:
        """Return the text of a plain value; TypeError for a function or an iterator."""
        for part in parts(value, self._limits.rendered_characters):
            if not isinstance(_defined(part), _PRINTABLE):
                raise TypeError(f"a {type(part).__name__} cannot be printed")
        return str(value)

    def _range(self, *bounds: int) -> range:
        result = range(*bounds)
        if len(result) > self._limits.range_length:
            raise OverflowError(f"a range of more than {self._limits.range_length}")
        return result

    def _join(self, values: Iterable[object], separator: str = "") -> str:
        return str(separator).join(self._joinable(values, len(str(separator))))

    def _joinable(self, values: Iterable[object], separator_length: int) -> Iterator[str]:
        length = 0
        for value in values:
            text = self._text(value)
            length += len(text) + separator_length
            if length > self._limits.rendered_characters:
                raise too_large(self._limits.rendered_characters)
            yield text

    def _indent(self, text: str, width: int = 4, first: bool = False) -> str:
        start, *others = str(_defined(text)).split("\n")
        if width < 0 or width * (len(others) + 1) > self._limits.rendered_characters:
            raise OverflowError("the indentation is too wide")
        margin = " " * width
        lines = [margin + start if first else start, *(margin + line if line else line for line in others)]
        return "\n".join(lines)

    def _trim(self, text: str, characters: str | None = None) -> str:
        text = str(_defined(text))
        self._compare(text, characters)
        return text.strip(characters)

    def _unique(self, values: Iterable[object], *arguments: object, **options: object) -> Iterator[object]:
        return FILTERS["unique"](self, self._watched(values), *arguments, **options)  # type: ignore[no-any-return]

    def _watched(self, values: Iterable[object]) -> Iterator[object]:
        """Yield values as long as there is time: numbers may be chosen so that all have the same hash."""
        for value in values:
            self._session.work(1)
            yield value

    def _replace(self, text: str, old: str, new: str) -> str:
        text, old, new = (str(_defined(part)) for part in (text, old, new))
        if len(text) + text.count(old) * len(new) > self._limits.rendered_characters:
            raise too_large(self._limits.rendered_characters)
        return text.replace(old, new)


class AssertStatement(Extension):
    """The statement ``{% assert condition, "message" %}``."""

    tags = {"assert"}  # noqa: RUF012 (Jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        """Turn the statement into a condition whose failure raises the message."""
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        message: nodes.Expr = nodes.Const("an assertion does not hold")
        if parser.stream.skip_if("comma"):
            message = parser.parse_expression()
        failure = nodes.ExprStmt(_call("fail", message), lineno=line)
        return nodes.If(nodes.Not(condition), [failure], [], [], lineno=line)


class ForeignStatementError(Exception):
    """A template statement that specs do not have, with its line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _functions() -> dict[str, Callable[..., object]]:
    """Return the functions of expressions that templates may call; `range` is the environment's own."""
    return {name: _template_function(name) for name in FUNCTIONS if name != "range"}


def _template_function(name: str) -> Callable[..., object]:
    return lambda *arguments: bounded(FUNCTIONS[name](name, [_defined(part) for part in arguments]))


def _call(name: str, *arguments: nodes.Node) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None)


def _check_children(node: nodes.Node) -> None:
    """Pass every list, dict, slice, comparison and ``~`` of a template through the size checks."""
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, name, _checked(value))
        elif isinstance(value, list):
            setattr(node, name, [_checked(item) if isinstance(item, nodes.Node) else item for item in value])


def _checked(node: nodes.Node) -> nodes.Node:
    _check_children(node)
    if isinstance(node, nodes.Compare):
        node.expr = _sized(node.expr)
        node.ops = [nodes.Operand(operand.op, _sized(operand.expr)) for operand in node.ops]
        return node
    if isinstance(node, nodes.Concat):
        return _call("concatenated", *node.nodes).set_lineno(node.lineno)
    is_slice = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    is_tuple = isinstance(node, nodes.Tuple) and node.ctx == "load"
    return _sized(node) if is_slice or is_tuple or isinstance(node, (nodes.List, nodes.Dict)) else node


def _sized(node: nodes.Node) -> nodes.Call:
    call = _call("sized", node)
    call.set_lineno(node.lineno)
    return call


def _defined(value: object) -> object:
    """Return `value`; an undefined one raises its error here."""
    if isinstance(value, Undefined):
        str(value)
    return value


def _dict(*given: Any, **entries: object) -> dict[Any, object]:
    return dict(*given, **entries)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > _LARGEST_PRECISION:
        raise OverflowError("the precision is too large")
    return FILTERS["round"](_defined(value), precision, method)  # type: ignore[no-any-return]


def _sum(values: Iterable[object], start: float = 0) -> object:
    return total((_defined(value) for value in values), start)
