"""Jinja2 templates in spec files: what they can call, and the places of what they print.

Each line of a template begins with a private-use character that stands for its number. These marks survive
loops, conditions and spliced text; after rendering, they say where each line came from, and are removed.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from string import Template as StringTemplate
from traceback import clear_frames
from types import MappingProxyType

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes, pass_context
from jinja2.runtime import Context

from model.text.composer import INCLUDED_TAG, Resolver
from model.text.files import FileScope, Session, Usage, display_name, find
from model.text.limits import MEBI, Limits, raised_by
from model.text.sandbox import CODE_NAME, SpecEnvironment, StoppedError, foreign_statement, run_confined
from model.text.source import (
    Document,
    LineOrigin,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourceText,
    Span,
    SpecError,
    whole_line_span,
)
from model.wording import did_you_mean

_FIRST_MARK = 0xF0000
_LAST_MARK = 0x10FFFD
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]")
_LAST = re.compile(rf".*({_MARK.pattern})", re.DOTALL)
"""The last mark of a text; a list of all may take much memory."""

_LINE_START = re.compile(rf"(?:\s|{_MARK.pattern})*")
_ANY_DEPTH = "**"
_WILDCARD = re.compile(r"[*?\[]")
_UNDEFINED_NAME = re.compile(r"'(\w+)' is undefined")
_KEEPING = (nodes.AssignBlock, nodes.CallBlock, nodes.FilterBlock, nodes.Macro)
_FAILURES = (
    *(TemplateError, ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


class TemplateEngine:
    """Renders the template of one document, with the files that it includes; `load` returns their trees."""

    def __init__(self, session: Session, load: Callable[[FileScope], Node]) -> None:
        self._session = session
        self._load = load
        self._environment = SpecEnvironment()
        self._marks = LineMarks()
        self._trees = IncludedTrees()

    def render(self, text: str, scope: FileScope) -> tuple[Document, Resolver]:
        """Return the rendered document, and the resolver of the included trees, which are tags in it."""
        session, source = self._session, SourceText.of(display_name(scope.path), text)
        if session.confined:  # what it includes is rendered in the same child
            return self._document(text, scope), self._trees.resolve
        left_s = session.limits.seconds - session.used.seconds
        if left_s <= 0:
            raise _too_slow(session.limits, whole_line_span(source, 1))
        try:
            answer, spent_s = run_confined(
                lambda: self._confined(text, scope), left_s, session.limits.template_memory
            )
        except StoppedError as stopped:
            raise _stopped_error(stopped, source, session.limits) from None
        except OSError as error:
            message = f"no process can be started to render the template: {error.strerror}"
            raise SpecError(message, whole_line_span(source, 1)) from None
        document, trees, session.used = answer
        session.used.seconds += spent_s
        return document, trees.resolve

    def _confined(self, text: str, scope: FileScope) -> tuple[Document, IncludedTrees, Usage]:
        """Return what the parent of this child process needs to go on."""
        self._session.confined = True
        try:
            return self._document(text, scope), self._trees, self._session.used
        except MemoryError as error:  # for the lines of a text that had room
            clear_frames(error.__traceback__)
            source = SourceText.of(display_name(scope.path), text)
            raise _too_large(self._session.limits, whole_line_span(source, 1)) from None

    def _document(self, text: str, scope: FileScope) -> Document:
        return self._marks.document(display_name(scope.path), self._rendered(text, scope))

    def _rendered(self, text: str, scope: FileScope) -> str:
        """Return the rendered text with its marks."""
        source = SourceText.of(display_name(scope.path), text)
        first = self._marks.register(scope.path, source)
        functions = TemplateFunctions(scope, self._session, self._trees, self._load, self._spliced)
        try:
            template = self._compiled(text, source, first, functions.by_name)
            # Not `Template.render`, which would look for the lines of tracebacks once more.
            pieces = template.root_render_func(template.new_context(dict(scope.variables)))
            return self._marks.mark(first) + "".join(map(self._session.count_text, pieces))
        except SpecError as error:
            raise error.included_at(_failing_line(error, source)) from None
        except TemplateSyntaxError as error:
            raise SpecError(f"template: {error.message}", whole_line_span(source, error.lineno)) from None
        except UndefinedError as error:
            known = (*scope.variables, *functions.by_name, *self._environment.globals)
            hint = _undefined_hint(str(error), tuple(scope.variables), known)
            raise SpecError(f"template: {error}", _failing_line(error, source), hint=hint) from None
        except NameError as error:
            # Jinja2 compiles an infinite constant to the name `inf`, which is undefined.
            raise SpecError("template: a number is not finite", _failing_line(error, source)) from None
        except MemoryError as error:
            line = _failing_line(error, source)
            clear_frames(error.__traceback__)  # they hold what fills the memory
            raise _too_large(self._session.limits, line) from None
        except (RecursionError, SyntaxError) as error:
            raise SpecError("template: nested too deep", _failing_line(error, source)) from None
        except _FAILURES as error:
            raise SpecError(f"template: {error}", _failing_line(error, source)) from None

    def _spliced(self, scope: FileScope) -> str:
        return self._rendered(self._session.read(scope.path), scope)

    def _compiled(
        self, text: str, source: SourceText, first: int, functions: Mapping[str, Callable[..., object]]
    ) -> Template:
        environment, file = self._environment, CODE_NAME + source.name
        tree = environment.parse(text, source.name, file)
        self._session.used.names.update(used.name for used in tree.find_all(nodes.Name))
        foreign = foreign_statement(tree)
        if foreign is not None:
            message = f"`{{% {type(foreign).__name__.lower()} %}}` is not supported; use `include_text`"
            raise SpecError(message, whole_line_span(source, foreign.lineno))
        self._mark_lines(tree, first)
        code = environment.compile(tree, source.name, file)
        return Template.from_code(environment, code, environment.make_globals(dict(functions)))

    def _mark_lines(self, tree: nodes.Template, first: int) -> None:
        """Mark the lines of a parsed template; text in a variable gets no mark at its start."""
        kept = {id(data) for block in tree.find_all(_KEEPING) for data in block.find_all(nodes.TemplateData)}
        for data in tree.find_all(nodes.TemplateData):
            number = first + data.lineno - 1
            start = "" if id(data) in kept else self._marks.mark(number)
            data.data = start + self._marks.marked(data.data, number)


def _failing_line(error: BaseException, source: SourceText) -> Span:
    """Return the innermost line of a template in an error's traceback."""
    line = 1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == CODE_NAME + source.name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return whole_line_span(source, line)


def _stopped_error(stopped: StoppedError, source: SourceText, limits: Limits) -> SpecError:
    """Return the error for a child that ended early, at the innermost template that is known."""
    name = source.name.encode("ascii", "backslashreplace").decode()
    place = whole_line_span(source, next((line for file, line in stopped.frames if file == name), 1))
    inner, line = stopped.frames[0] if stopped.frames else (name, place.line)
    span = place if inner == name else Span(inner, line, 1, line, 2)
    if stopped.number == signal.SIGPROF:
        error = _too_slow(limits, span)
    elif stopped.number == 0:
        error = _too_large(limits, span)
    else:
        error = SpecError(
            f"the process that renders the template ended: {signal.strsignal(stopped.number)}", span
        )
    return error if span is place else error.included_at(place)


def _too_slow(limits: Limits, span: Span) -> SpecError:
    return SpecError(f"templates take longer than {limits.seconds:g} s", span, hint=raised_by("seconds"))


def _too_large(limits: Limits, span: Span) -> SpecError:
    message = f"templates take more than {limits.template_memory / MEBI:g} MiB of memory"
    return SpecError(message, span, hint=raised_by("template_memory"))


def _undefined_hint(message: str, given: tuple[str, ...], known: tuple[str, ...]) -> str | None:
    """Return a hint for an undefined name; the slip may be in the name that was given a value."""
    match = _UNDEFINED_NAME.search(message)
    if match is None:
        return None
    name = match.group(1)
    slip = did_you_mean(name, given)
    if slip is not None:
        return f"{slip} that is the variable that was set"
    return did_you_mean(name, known) or f"give it a value with `--set {name}=VALUE`"


class TemplateFunctions:
    """What a template can call, bound to the file that contains it."""

    def __init__(
        self,
        scope: FileScope,
        session: Session,
        trees: IncludedTrees,
        load: Callable[[FileScope], Node],
        splice: Callable[[FileScope], str],
    ) -> None:
        self._scope = scope
        self._session = session
        self._trees = trees
        self._load = load
        self._splice = splice
        self.by_name: dict[str, Callable[..., object]] = {
            "add_to_path": self._add_to_path,
            "cwd": self._cwd,
            "find_path": self._find_path,
            "find_paths": self._find_paths,
            "include": self._include,
            "include_all": self._include_all,
            "include_text": self._include_text,
            "path_exists": self._path_exists,
            "setenv": self._setenv,
        }

    @pass_context
    def _include(
        self,
        context: Context,
        path: str,
        key: str = "",
        inherit_parse_data: bool = True,
        **variables: object,
    ) -> str:
        inner = self._enter(self._locate(path), context, inherit_parse_data, variables)
        return self._trees.add(subtree(self._load(inner), key))

    @pass_context
    def _include_all(
        self,
        context: Context,
        pattern: str,
        key: str = "",
        inherit_parse_data: bool = True,
        **variables: object,
    ) -> str:
        paths = self._locate_all(pattern)
        scopes = (self._enter(path, context, inherit_parse_data, variables) for path in paths)
        trees = [subtree(self._load(scope), key) for scope in scopes]
        parts = [tree.items if isinstance(tree, SequenceNode) else (tree,) for tree in trees]
        items = tuple(item for part in parts for item in part)
        return self._trees.add(SequenceNode(items, trees[0].span))

    @pass_context
    def _include_text(self, context: Context, path: str) -> str:
        return self._splice(self._enter(self._locate(path), context))

    def _add_to_path(self, path: str) -> str:
        directory = self._locate(path)
        if not directory.is_dir():
            raise SpecError(f"`{path}` is not a directory")
        self._scope = replace(self._scope, added=(*self._scope.added, directory))
        return ""

    def _cwd(self) -> str:
        return str(self._scope.path.parent.absolute())

    def _find_path(self, path: str) -> str:
        return str(self._locate(path).absolute())

    def _find_paths(self, pattern: str) -> list[str]:
        return [str(path.absolute()) for path in self._locate_all(pattern)]

    def _setenv(self, name: str, value: str) -> str:
        """Set ``$NAME`` for the paths of this template, not in the environment."""
        if not isinstance(name, str) or not name.isidentifier():
            raise SpecError(f"`{name}` cannot name a variable")
        self._scope = replace(self._scope, environment={**self._scope.environment, name: str(value)})
        return ""

    def _path_exists(self, path: str) -> bool:
        return find(self._path_text(path), self._scope.directories, self._session.roots) is not None

    def _locate(self, path: str) -> Path:
        return self._session.locate(self._path_text(path), self._scope)

    def _locate_all(self, pattern: str) -> list[Path]:
        """Return all matching files by name, from the first directory that has any."""
        wanted = self._path_text(pattern)
        for directory in self._scope.directories:
            paths = self._matches(directory / wanted)
            if paths:
                return [self._locate(str(path.absolute())) for path in paths]
        raise SpecError(f"no file matches `{wanted}`")

    def _matches(self, pattern: Path) -> list[Path]:
        """Return the matching paths that may be included; nothing else is searched."""
        wild = next((i for i, part in enumerate(pattern.parts) if _WILDCARD.search(part)), len(pattern.parts))
        base, rest = Path(*pattern.parts[:wild]), pattern.parts[wild:]
        self._session.roots.check(base)
        if ".." in rest or rest.count(_ANY_DEPTH) > 1:
            raise SpecError(f"a pattern may have no `..` after a wildcard, and only one `{_ANY_DEPTH}`")
        try:
            paths: Iterable[Path] = [base] if base.exists() else []
            for part in rest:
                paths = self._inside(paths, part)
            return sorted(islice(paths, self._session.limits.includes + 1))
        except OSError as error:
            raise SpecError(f"cannot search {display_name(base)}: {error.strerror}") from None

    def _inside(self, directories: Iterable[Path], part: str) -> Iterator[Path]:
        """Yield the matches of one part of a pattern, without links that lead elsewhere."""
        for path in (path for directory in directories for path in directory.glob(part)):
            if self._session.roots.permits(path):
                yield path

    def _enter(
        self,
        path: Path,
        context: Context,
        inherit: bool = True,
        variables: Mapping[str, object] = MappingProxyType({}),
    ) -> FileScope:
        """Return the scope of an included file, with the variables set so far if it inherits them."""
        inherited = {**self._scope.variables, **context.get_exported()} if inherit else {}
        return replace(self._scope.enter(path, self._session.limits), variables={**inherited, **variables})

    def _path_text(self, path: object) -> str:
        if not isinstance(path, str) or not without_marks(path).strip():
            raise SpecError(f"a path is expected, not `{path}`")
        return StringTemplate(without_marks(path).strip()).safe_substitute(self._scope.environment)


class IncludedTrees:
    """The trees that the templates of one document include; the rendered text refers to them by tags."""

    def __init__(self) -> None:
        self._trees: list[Node] = []

    def add(self, tree: Node) -> str:
        """Keep a tree; return the YAML text that refers to it, which ``.key`` may follow."""
        self._trees.append(tree)
        return f"{INCLUDED_TAG} {len(self._trees) - 1}"

    def resolve(self, node: ScalarNode) -> Node:
        """Return the tree, or the part of it, that a node refers to; SpecError if there is none."""
        number, _, key = node.text.partition(".")
        if not number.isdecimal() or int(number) >= len(self._trees):
            raise SpecError(f"unknown tag `{INCLUDED_TAG}`", node.span)
        try:
            return subtree(self._trees[int(number)], key)
        except SpecError as error:
            raise error.included_at(node.span) from None


def subtree(tree: Node, key: str) -> Node:
    """Return the value at a key with dots; SpecError if there is none."""
    for part in filter(None, key.split(".")):
        if not isinstance(tree, MappingNode):
            raise SpecError(f"no `{part}` of `{key}` here: this is not a mapping", tree.span)
        child = tree.get(part)
        if child is None:
            raise SpecError(f"no `{part}` of `{key}` here", tree.span, hint=did_you_mean(part, tree.keys()))
        tree = child
    return tree


def without_marks(text: str) -> str:
    """Return `text` without the marks that it may hold."""
    return _MARK.sub("", text)


class LineMarks:
    """The lines of the templates that make up one document, numbered."""

    def __init__(self) -> None:
        self._origins: list[LineOrigin] = []
        self._first: dict[Path, int] = {}

    def register(self, path: Path, source: SourceText) -> int:
        """Number the lines of a template and return the first number; SpecError if it has marks itself."""
        for number, line in enumerate(source.lines, start=1):
            if _MARK.search(line):
                message = "private-use characters are not allowed in a template"
                raise SpecError(message, whole_line_span(source, number))
        if path not in self._first:
            self._first[path] = len(self._origins)
            self._origins += [LineOrigin(source, number) for number in range(1, len(source.lines) + 1)]
        if len(self._origins) > _LAST_MARK - _FIRST_MARK:
            raise SpecError("the templates have too many lines", whole_line_span(source, 1))
        return self._first[path]

    @staticmethod
    def mark(number: int) -> str:
        """Return the mark of a line."""
        return chr(_FIRST_MARK + number)

    @classmethod
    def marked(cls, text: str, number: int) -> str:
        """Return a text with a mark at the start of each line but the first."""
        first, *others = text.split("\n")
        return "\n".join([first, *(cls.mark(number + i) + line for i, line in enumerate(others, start=1))])

    def document(self, name: str, marked: str) -> Document:
        """Return a rendered text without its marks, with the origins of its lines."""
        origins = []
        current = 0
        for line in SourceText.of(name, marked).lines:
            start = _LINE_START.match(line)
            current = self._last_number(start.group() if start else "", current)
            origins.append(self._origins[current])
            current = self._last_number(line, current)
        text = without_marks(marked)
        return Document(text, SourceText.of(name, text), tuple(origins))

    def _last_number(self, text: str, otherwise: int) -> int:
        """Return the number of the last mark; false ones, which a template printed, do not count."""
        last = _LAST.match(text)
        number = ord(last[1]) - _FIRST_MARK if last else otherwise
        return number if number < len(self._origins) else otherwise
