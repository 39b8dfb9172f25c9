"""Reading spec files: which may be read, where they are looked for, and what is left of the limits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.text.limits import Limits, raised_by
from model.text.source import ScalarNode, SpecError
from model.wording import did_you_mean, nearest, printable

SHIPPED_SPECS = Path(__file__).resolve().parents[2] / "specs"
STDIN_HINT = "specs are read from files, not from stdin"
SPEC_SUFFIXES = (".yaml", ".yml", ".jinja", ".jinja2")


@dataclass(frozen=True, slots=True)
class IncludeRoots:
    """The directory trees that specs may include files from, resolved."""

    directories: tuple[Path, ...]
    collections: tuple[Path, ...] = ()  # of which only files that are marked as shared may be included

    def permits(self, path: Path) -> bool:
        """Whether a file may be included: its resolved path lies in one of the trees."""
        target = resolved(path)
        if any(target.is_relative_to(directory) for directory in self.directories):
            return True
        return any(_may_share(target, tree) for tree in self.collections if target.is_relative_to(tree))

    def check(self, path: Path) -> None:
        """Check that a file may be included; SpecError otherwise."""
        if self.permits(path):
            return
        hint = f"`--allow-include {display_name(path.parent)}` permits it"
        raise SpecError(f"{display_name(path)} lies outside the directories of the spec files", hint=hint)


def _may_share(target: Path, tree: Path) -> bool:
    """Whether a file of `tree` is marked as shared, or a directory may hold such files."""
    if is_directory(target):
        return True
    return _is_marked(target.relative_to(tree).parts) and target.name.endswith(SPEC_SUFFIXES)


def is_fragment(path: Path, levels_above: int) -> bool:
    """Whether a file is part of others: its name, or a folder's in its collection, is marked as shared."""
    return _is_marked(resolved(path).parts[-levels_above - 1 :])


def _is_marked(parts: Iterable[str]) -> bool:
    return any(part.startswith("_") for part in parts)


def include_roots(
    paths: Iterable[Path],
    variables: Mapping[str, object],
    allow_include: Iterable[Path],
    levels_above: int = 0,
) -> IncludeRoots:
    """Return the directories that files may be included from.

    These are the directories of the spec files, the shipped specs, those of `allow_include`, and for each
    variable that names an existing file (relative to the working directory or to a spec file) outside of them
    its directory and the one above: layer files share a base file beside their folder. If that file is a
    symbolic link, its own location counts: the author of the specs may have planted it. The root of the file
    system is excluded unless `allow_include` names it. `levels_above` directories above the spec files are
    collections.
    """
    homes = [home for path in paths for home in (resolved(path.parent), resolved(path).parent)]
    trees = [*homes, SHIPPED_SPECS]
    for value in variables.values():
        named = _named_file(value, [Path.cwd(), *homes])
        if named is not None and not any(named.is_relative_to(home) for home in homes if home != home.parent):
            trees += [named.parent, named.parent.parent]
    kept = [tree for tree in trees if tree != tree.parent]
    kept += [resolved(path) for path in allow_include]
    above = [tree for home in homes for tree in home.parents[:levels_above] if tree != tree.parent]
    return IncludeRoots(tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(above)))


def _named_file(value: object, bases: Iterable[Path]) -> Path | None:
    if not isinstance(value, (str, Path)) or not str(value):
        return None
    candidates = (base / value for base in bases)
    return next((resolved(path.parent) / path.name for path in candidates if is_file(path)), None)


def _test_holds(test: Callable[[], bool]) -> bool:
    """Return what a test of a path says, False where the path cannot be looked at."""
    try:
        return test()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether there is such a file that can be looked at."""
    return _test_holds(path.is_file)


def is_directory(path: Path) -> bool:
    """Whether there is such a directory that can be looked at."""
    return _test_holds(path.is_dir)


def resolved(path: Path) -> Path:
    """Return a path without symbolic links; SpecError if they form a cycle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SpecError(f"cannot read {display_name(path)}: {error}") from None


def find(wanted: str, directories: Iterable[Path], roots: IncludeRoots) -> Path | None:
    """Return the first existing path: `wanted` itself if absolute, else below each directory.

    If none exists and some lie outside of `roots`, that is a SpecError: whether these exist stays secret.
    """
    outside: list[Path] = []
    for directory in directories:
        path = directory / wanted
        if not roots.permits(path):
            outside.append(path)
        elif _test_holds(path.exists):
            return path
    if outside:
        roots.check(outside[0])
    return None


def require(wanted: str, directories: tuple[Path, ...], roots: IncludeRoots) -> Path:
    """Return the path that `find` returns; SpecError with the searched places if there is none."""
    path = find(wanted, directories, roots)
    if path is not None:
        return path
    places = ", ".join(dict.fromkeys(display_name(directory) for directory in directories))
    searched = "" if Path(wanted).is_absolute() else f" in {places}"
    hint = _working_directory_hint(wanted, directories[0], roots) or _neighbour_hint(wanted, directories)
    raise SpecError(f"there is no file `{wanted}`{searched}", hint=hint)


def files_of(directory: Path) -> list[Path]:
    """Return the entries of a directory by name; SpecError if it is none or cannot be read."""
    if not directory.is_dir():
        raise SpecError(f"{display_name(directory)} is not a directory")
    try:
        return sorted(directory.iterdir())
    except OSError as error:
        raise SpecError(f"cannot read {display_name(directory)}: {error.strerror}") from None


def read_text(path: Path, limits: Limits) -> str:
    """Return the text of a spec file, without a byte order mark; SpecError for what is none."""
    name = display_name(path)
    try:
        content = _read_bytes(path, name, limits)
    except FileNotFoundError:
        hint = STDIN_HINT if str(path) == "-" else _shipped_hint(path)
        hint = hint or _path_hint(path)
        raise SpecError(f"there is no file {name}", hint=hint) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(f"cannot read {name}: {reason}") from None
    if not content.strip():
        raise SpecError(f"{name} is empty")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise SpecError(f"{name} is not UTF-8 text: byte 0x{byte:02x} in line {line}") from None


def _read_bytes(path: Path, name: str, limits: Limits) -> bytes:
    if path.is_dir():
        hint = "the command `network` maps the layers in a directory"
        raise SpecError(f"{name} is a directory, not a spec file", hint=hint)
    if path.exists() and not path.is_file():
        raise SpecError(f"{name} is not a regular file")
    with path.open("rb") as stream:
        content = stream.read(limits.file_bytes + 1)
    if len(content) > limits.file_bytes:
        raise SpecError(f"{name} is larger than {limits.file_bytes} bytes", hint=raised_by("file_bytes"))
    return content


def _working_directory_hint(wanted: str, home: Path, roots: IncludeRoots) -> str | None:
    """Return a hint for a path relative to the working directory instead of the including file."""
    path = Path.cwd() / wanted
    if not roots.permits(path) or not is_file(path):
        return None
    called = os.path.relpath(resolved(path.parent) / path.name, resolved(home))
    return f"paths are relative to the including file: from there it is `{printable(called)}`"


def _neighbour_hint(wanted: str, directories: Iterable[Path]) -> str | None:
    """Return a hint with a file whose name is close to that of the missing one."""
    parents = {(directory / wanted).parent for directory in directories}
    try:
        names = [entry.name for parent in sorted(parents) if parent.is_dir() for entry in parent.iterdir()]
    except (OSError, ValueError):
        return None
    return did_you_mean(Path(wanted).name, sorted(names))


def _path_hint(path: Path) -> str | None:
    """Return a hint with the path that a missing one is a slip of; it may be that of a shipped file."""
    bases = [Path(path.anchor)]
    first = path.parts[:1]
    if first and SHIPPED_SPECS.name in (*first, nearest(first[0], [SHIPPED_SPECS.name])):
        bases.append(SHIPPED_SPECS.parent)
    found = (_nearest_path(path, base) for base in bases)
    return next((f"did you mean `{printable(str(meant))}`?" for meant in found if meant is not None), None)


def _nearest_path(path: Path, base: Path) -> Path | None:
    """Return the path below a directory that is closest to another one, part by part; None if none is."""
    known = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        if part == os.pardir or _test_holds((base / known / part).exists):
            known /= part
            continue
        try:
            meant = nearest(part, sorted(entry.name for entry in (base / known).iterdir()))
        except (OSError, ValueError):
            return None
        if meant is None:
            return None
        known /= meant
    return known


def _shipped_hint(path: Path) -> str | None:
    """Return a hint with the shipped file that a path below ``specs`` means: it is installed elsewhere."""
    shipped = SHIPPED_SPECS.parent / path
    is_shipped = path.parts[:1] == (SHIPPED_SPECS.name,) and resolved(shipped).is_relative_to(SHIPPED_SPECS)
    return (
        f"the shipped one is {display_name(shipped)}" if is_shipped and _test_holds(shipped.exists) else None
    )


def display_name(path: Path) -> str:
    """Return the shorter of the absolute path and the one relative to the working directory, printable."""
    absolute = os.path.abspath(path)  # noqa: PTH100 (keeps symbolic links as the user wrote them)
    try:
        relative = os.path.relpath(absolute)
    except ValueError:
        return printable(absolute)
    return printable(min(relative, absolute, key=len))


@dataclass(frozen=True)
class FileScope:
    """The file that is read, and what its includes see."""

    path: Path
    home: Path  # the directory of the top file
    variables: Mapping[str, object] = field(default_factory=dict)  # of templates
    added: tuple[Path, ...] = ()  # directories that templates added to the search path
    environment: Mapping[str, str] = field(default_factory=dict)  # of `$NAME` in the paths of templates
    chain: tuple[Path, ...] = ()  # files that included one another, resolved, this one last

    @classmethod
    def top(cls, path: Path, variables: Mapping[str, object]) -> FileScope:
        """Return the scope of a file that the user named."""
        return cls(path, path.parent, variables, chain=(resolved(path),))

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where this file's includes are looked for, in order."""
        return tuple(dict.fromkeys((self.path.parent, *self.added, self.home)))

    def enter(self, path: Path, limits: Limits) -> FileScope:
        """Return the scope of an included file; SpecError if it is being read already, or nested too deep."""
        target = resolved(path)
        if target in self.chain:
            cycle = [*self.chain[self.chain.index(target) :], target]
            raise SpecError("files include one another: " + " -> ".join(map(display_name, cycle)))
        if len(self.chain) > limits.include_depth:
            raise SpecError(f"includes are nested more than {limits.include_depth} deep")
        return replace(self, path=path, chain=(*self.chain, target))


@dataclass(slots=True)
class Usage:
    """What one reading of a spec has used of its limits, and what it has found.

    That is the names that its templates use, and keys that are given once more with the same value.
    """

    bytes: int = 0
    includes: int = 0
    nodes: int = 0
    rendered: int = 0
    seconds: float = 0.0
    names: set[str] = field(default_factory=set)
    repeated: list[ScalarNode] = field(default_factory=list)


class Session:
    """One reading of spec files: its limits, for all files together, and where included files may lie."""

    def __init__(self, limits: Limits, roots: IncludeRoots) -> None:
        self.limits = limits
        self.roots = roots
        self.used = Usage()
        self.confined = False  # whether this is the process that templates are confined to

    def read(self, path: Path) -> str:
        """Return the text of a file; SpecError as for `read_text`, or when all files are too long."""
        text = read_text(path, self.limits)
        self.used.bytes += len(text.encode())
        if self.used.bytes > self.limits.total_bytes:
            message = f"the spec files hold more than {self.limits.total_bytes} bytes in total"
            raise SpecError(message, hint=raised_by("total_bytes"))
        return text

    def count_nodes(self, nodes: int) -> None:
        """Count the values that a file holds; SpecError when all files hold too many."""
        self.used.nodes += nodes
        if self.used.nodes > self.limits.nodes:
            message = f"the spec files hold more than {self.limits.nodes} values in total"
            raise SpecError(message, hint=raised_by("nodes"))

    def count_text(self, text: str) -> str:
        """Return a text that a template renders to; SpecError when it is too much in all."""
        self.used.rendered += len(text)
        if self.used.rendered > self.limits.rendered_characters:
            message = f"templates render to more than {self.limits.rendered_characters} characters"
            raise SpecError(message, hint=raised_by("rendered_characters"))
        return text

    def locate(self, wanted: str, scope: FileScope) -> Path:
        """Return the file that a spec names; SpecError if there is none, or it may not be included."""
        self.used.includes += 1
        if self.used.includes > self.limits.includes:
            message = f"more than {self.limits.includes} files are included"
            raise SpecError(message, hint=raised_by("includes"))
        path = require(wanted, scope.directories, self.roots)
        self.roots.check(path)
        return path
