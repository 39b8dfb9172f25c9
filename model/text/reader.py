"""Spec files to one tree of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path

from model.note import Note
from model.text.composer import (
    INCLUDE_DIRECTORY_TAG,
    INCLUDE_TAG,
    INCLUDED_TAG,
    Resolver,
    compose,
    node_extent,
    plain_value,
)
from model.text.files import SPEC_SUFFIXES, FileScope, Session, display_name, files_of, include_roots
from model.text.limits import Limits
from model.text.merging import join_included, join_specs
from model.text.source import Document, MappingNode, Node, ScalarNode, SpecError, note_at
from model.wording import did_you_mean

_TEMPLATE_SUFFIXES = (".jinja", ".jinja2")
_TEMPLATE_MARKS = ("{{", "{%")
_REPEATED = "the key `{}` is given twice, with the same value"


def read_files(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    allow_include: Iterable[str | Path] = (),
    levels_above: int = 0,
    names: set[str] | None = None,
    notes: list[Note] | None = None,
) -> MappingNode:
    """Read spec files and join them by top-level key (`model.text.merging.join_specs`).

    Parameters
    ----------
    paths : iterable of path
        YAML files. One whose name ends in ``.jinja`` or ``.jinja2``, or whose text contains ``{{`` or ``{%``,
        is rendered as a Jinja2 template first.
    variables : mapping, optional
        Of templates. One that names a file also permits includes from its directory and the one above.
    levels_above : int
        How many directories above a file's own shared spec files may be included from.
    names : set of str, optional
        Receives the names that templates use, for `unused_notes`.
    notes : list of Note, optional
        Receives a note for each key that is given once more with the same value; without it such keys are
        refused.

    Raises
    ------
    SpecError
        For every kind of bad input.
    """
    return reduce(join_specs, read_each(paths, variables, limits, allow_include, levels_above, names, notes))


def read_each(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    allow_include: Iterable[str | Path] = (),
    levels_above: int = 0,
    names: set[str] | None = None,
    notes: list[Note] | None = None,
) -> list[MappingNode]:
    """Read spec files as `read_files` does, without joining them; a template that prints nothing is empty."""
    tops = [Path(path) for path in paths]
    if not tops:
        raise SpecError("no spec file is given")
    values = dict(variables or {})
    roots = include_roots(tops, values, [Path(path) for path in allow_include], levels_above)
    session = Session(limits or Limits(), roots)
    reader = _Reader(session, accepts_repeated=notes is not None)
    found = [reader.top(path, values) for path in tops]
    if notes is not None:
        notes += [note_at(key.span, _REPEATED, key.text) for key in session.used.repeated]
    if names is not None:
        names.update(session.used.names)
    return found


def unused_notes(variables: Iterable[str], names: Iterable[str]) -> list[Note]:
    """Return a note for each variable that nothing uses: `names` are those of templates or of a model.

    SpecError for one that no template could use, because its name is no identifier.
    """
    known = sorted(names)
    notes = []
    for name in (name for name in variables if name not in known):
        similar = did_you_mean(name, known)
        if not name.isidentifier():
            message = f"`{name}` is not the name of a variable"
            raise SpecError(message, hint=similar or "write NAME=VALUE")
        hint = "" if similar is None else f"; {similar}"
        notes.append(note_at(None, "no template uses the variable `{}`{}", name, hint))
    return notes


def parse_assignments(assignments: Iterable[str]) -> dict[str, object]:
    """Return template variables from texts ``NAME=VALUE``; the last one of a name counts.

    A value that is a YAML boolean or float, or an integer in its usual form, becomes one; anything else stays
    text (``01`` is a name, not a number). Names that no template could use, such as those of sizes in ONNX
    models, are refused later, by `unused_notes`.
    """
    variables: dict[str, object] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise SpecError(f"`{assignment}` does not set a variable", hint="write NAME=VALUE")
        if not text.strip():
            raise SpecError(f"`{assignment}` has no value", hint="write NAME=VALUE")
        value = plain_value(text)
        is_text = value is None or (isinstance(value, int) and str(value).lower() != text.lower())
        variables[name] = text if is_text else value
    return variables


def is_template(path: Path, text: str) -> bool:
    """Whether a file is a template: by its suffix, or for ``{{`` or ``{%`` in its text."""
    return path.name.endswith(_TEMPLATE_SUFFIXES) or any(mark in text for mark in _TEMPLATE_MARKS)


class _Reader:
    def __init__(self, session: Session, accepts_repeated: bool = False) -> None:
        self._session = session
        self._on_repeated = self._keep_repeated if accepts_repeated else None

    def top(self, path: Path, variables: Mapping[str, object]) -> MappingNode:
        document, node = self._read(FileScope.top(path, variables))
        return _top_mapping(node, document, display_name(path))

    def load(self, scope: FileScope) -> Node:
        """Return the root of an included file."""
        document, node = self._read(scope)
        if node is None:
            raise _nothing(document, display_name(scope.path))
        return node

    def _read(self, scope: FileScope) -> tuple[Document, Node | None]:
        text = self._session.read(scope.path)
        resolvers: dict[str, Resolver] = {
            INCLUDE_TAG: lambda node: self._include(node, scope),
            INCLUDE_DIRECTORY_TAG: lambda node: self._include_directory(node, scope),
        }
        document = Document.of(display_name(scope.path), text)
        if is_template(scope.path, text):
            document, resolvers[INCLUDED_TAG] = self._render(text, scope)
        node = compose(document, self._session.limits, resolvers, self._on_repeated)
        self._session.count_nodes(0 if node is None else node_extent(node).nodes)
        return document, node

    def _keep_repeated(self, key: ScalarNode) -> None:
        # Looked up each time: rendering a template replaces what is used.
        self._session.used.repeated.append(key)

    def _render(self, text: str, scope: FileScope) -> tuple[Document, Resolver]:
        from model.text.templates import TemplateEngine  # noqa: PLC0415 (Jinja2 only where it is needed)

        return TemplateEngine(self._session, self.load).render(text, scope)

    def _include(self, node: ScalarNode, scope: FileScope) -> Node:
        _check_one_path(node)
        try:
            return self.load(scope.enter(self._session.locate(node.text, scope), self._session.limits))
        except SpecError as error:
            raise error.included_at(node.span) from None

    def _include_directory(self, node: ScalarNode, scope: FileScope) -> Node:
        """Return the spec files of a directory, joined in the order of their names."""
        _check_one_path(node)
        try:
            directory = self._session.locate(node.text, scope)
            paths = [path for path in files_of(directory) if path.name.endswith(SPEC_SUFFIXES)]
            if not paths:
                raise SpecError(f"{display_name(directory)} contains no spec files")
            located = [self._session.locate(str(path.absolute()), scope) for path in paths]
            return reduce(
                join_included, [self.load(scope.enter(path, self._session.limits)) for path in located]
            )
        except SpecError as error:
            raise error.included_at(node.span) from None


def _check_one_path(node: ScalarNode) -> None:
    """Check that an include has one path: YAML reads includes below one another as a single text."""
    words = node.text.split()
    if not words:
        raise SpecError(f"`{node.tag}` needs a path", node.span)
    if len(words) == 1 or (node.span.end_line == node.span.line and node.tag not in words):
        return
    message = f"`{node.tag}` takes one path, but more text follows `{words[0]}`"
    hint = (
        f"write one include per key, as in `name: {node.tag} {words[0]}`, or, for lines of their own, "
        f"`{{{{ include_text('{words[0]}') }}}}` for each"
    )
    raise SpecError(message, node.span, hint=hint)


def _top_mapping(node: Node | None, document: Document, name: str) -> MappingNode:
    if node is None and document.origins is not None:
        return MappingNode((), document.span(1, 1, 1, 2))  # A template may hold assertions alone.
    if node is None:
        raise _nothing(document, name)
    if not isinstance(node, MappingNode):
        raise SpecError("a spec file is a mapping of sections such as `problem:` at its top level", node.span)
    return node


def _nothing(document: Document, name: str) -> SpecError:
    return SpecError(f"{name} contains nothing but comments", document.span(1, 1, 1, 2))
