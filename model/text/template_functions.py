"""The functions that spec templates call: including files, and asking for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from string import Template as StringTemplate
from types import MappingProxyType

from jinja2 import pass_context
from jinja2.runtime import Context

from model.text.composer import INCLUDED_TAG
from model.text.files import display_name, find
from model.text.line_marks import without_marks
from model.text.session import Scope, Session
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError, did_you_mean

_ANY_DEPTH = "**"
_WILDCARD = re.compile(r"[*?\[]")


class IncludedTrees:
    """The trees that the templates of one document include, by the text that stands for each."""

    def __init__(self) -> None:
        self._trees: list[Node] = []

    def add(self, tree: Node) -> str:
        """Keep a tree; return the YAML text for it, which ``.key`` may follow."""
        self._trees.append(tree)
        return f"{INCLUDED_TAG} {len(self._trees) - 1}"

    def resolve(self, node: ScalarNode) -> Node:
        """Return the tree, or the part of it, that a node's text stands for.

        Raises
        ------
        SpecError
            Its text is of another form, or a key is missing; at the node.
        """
        number, _, key = node.text.partition(".")
        if not number.isdecimal() or int(number) >= len(self._trees):
            raise SpecError(f"`{INCLUDED_TAG}` is no tag of a spec", node.span)
        try:
            return subtree(self._trees[int(number)], key)
        except SpecError as error:
            raise error.included_at(node.span) from None


def subtree(tree: Node, key: str) -> Node:
    """Return what a key with dots names below a tree.

    Raises
    ------
    SpecError
        A part of it is missing, or looked for in what is no mapping.
    """
    for part in filter(None, key.split(".")):
        if not isinstance(tree, MappingNode):
            raise SpecError(f"`{part}` of `{key}` is looked for here, but this is not a mapping", tree.span)
        child = tree.get(part)
        if child is None:
            hint = did_you_mean(part, tree.keys())
            raise SpecError(f"`{part}` of `{key}` is looked for here, but missing", tree.span, hint=hint)
        tree = child
    return tree


class TemplateFunctions:
    """What a template can call, bound to the file it stands in.

    Parameters
    ----------
    scope
        That file; ``add_to_path`` and ``setenv`` change what further calls see.
    session
        What is left of the limits.
    trees
        Takes the trees that are included.
    load, splice
        Return the tree of an included file, and the rendered text of one.
    """

    def __init__(
        self,
        scope: Scope,
        session: Session,
        trees: IncludedTrees,
        load: Callable[[Scope], Node],
        splice: Callable[[Scope], str],
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
        """Set a name that the paths of this template may use as ``$NAME``; the process does not see it."""
        if not isinstance(name, str) or not name.isidentifier():
            raise SpecError(f"`{name}` cannot name a variable")
        self._scope = replace(self._scope, environment={**self._scope.environment, name: str(value)})
        return ""

    def _path_exists(self, path: str) -> bool:
        return find(self._path_text(path), self._scope.directories, self._session.roots) is not None

    def _locate(self, path: str) -> Path:
        return self._session.locate(self._path_text(path), self._scope)

    def _locate_all(self, pattern: str) -> list[Path]:
        """Return all files that match, in the order of their names, from the first place that has any."""
        wanted = self._path_text(pattern)
        for directory in self._scope.directories:
            paths = self._matches(directory / wanted)
            if paths:
                return [self._locate(str(path.absolute())) for path in paths]
        raise SpecError(f"no file matches `{wanted}`")

    def _matches(self, pattern: Path) -> list[Path]:
        """Return the paths that match and may be included; nothing else is searched."""
        wild = next((i for i, part in enumerate(pattern.parts) if _WILDCARD.search(part)), len(pattern.parts))
        base, rest = Path(*pattern.parts[:wild]), pattern.parts[wild:]
        self._session.roots.check(base)
        if ".." in rest or rest.count(_ANY_DEPTH) > 1:
            raise SpecError(f"a pattern has no `..` behind a wildcard, and `{_ANY_DEPTH}` only once")
        try:
            paths: Iterable[Path] = [base] if base.exists() else []
            for part in rest:
                paths = self._inside(paths, part)
            return sorted(islice(paths, self._session.limits.includes + 1))
        except OSError as error:
            raise SpecError(f"cannot search {display_name(base)}: {error.strerror}") from None

    def _inside(self, directories: Iterable[Path], part: str) -> Iterator[Path]:
        """Yield what matches one part of a pattern; links that lead elsewhere are as if not there."""
        for path in (path for directory in directories for path in directory.glob(part)):
            self._session.work(1)
            if self._session.roots.permits(path):
                yield path

    def _enter(
        self,
        path: Path,
        context: Context,
        inherit: bool = True,
        variables: Mapping[str, object] = MappingProxyType({}),
    ) -> Scope:
        """Return the scope of an included file, which sees the variables set so far if it inherits them."""
        inherited = {**self._scope.variables, **context.get_exported()} if inherit else {}
        return replace(self._scope.enter(path, self._session.limits), variables={**inherited, **variables})

    def _path_text(self, path: object) -> str:
        if not isinstance(path, str) or not without_marks(path).strip():
            raise SpecError(f"a path is expected, not `{path}`")
        return StringTemplate(without_marks(path).strip()).safe_substitute(self._scope.environment)
