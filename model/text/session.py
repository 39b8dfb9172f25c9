"""What one reading of a spec has used of its limits, and where in the files it is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from model.text import files
from model.text.limits import Limits, raised_by
from model.text.source import SpecError


@dataclass(frozen=True)
class Scope:
    """The file that is read, and what its includes see.

    Parameters
    ----------
    path : Path
        The file.
    home : Path
        The directory of the top file.
    variables : mapping
        Template variables.
    added : tuple of Path
        Directories that templates added to the search path.
    environment : mapping
        What ``$NAME`` means in the paths of templates.
    chain : tuple of Path
        The files that included one another down to this one, resolved, this one last.
    """

    path: Path
    home: Path
    variables: Mapping[str, object] = field(default_factory=dict)
    added: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    chain: tuple[Path, ...] = ()

    @classmethod
    def top(cls, path: Path, variables: Mapping[str, object]) -> Scope:
        """Return the scope of a file that the user named.

        Parameters
        ----------
        path
            The file.
        variables
            Template variables.

        Raises
        ------
        SpecError
            Its symbolic links run in a circle.
        """
        return cls(path, path.parent, variables, chain=(files.resolved(path),))

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where this file's includes are looked for, in order."""
        return tuple(dict.fromkeys((self.path.parent, *self.added, self.home)))

    def enter(self, path: Path, limits: Limits) -> Scope:
        """Return the scope of a file that this one includes.

        Raises
        ------
        SpecError
            If that file is being read already, or the includes are nested too deep.
        """
        resolved = files.resolved(path)
        if resolved in self.chain:
            cycle = [*self.chain[self.chain.index(resolved) :], resolved]
            raise SpecError("files include one another: " + " -> ".join(map(files.display_name, cycle)))
        if len(self.chain) > limits.include_depth:
            raise SpecError(f"includes are nested more than {limits.include_depth} deep")
        return replace(self, path=path, chain=(*self.chain, resolved))


class Session:
    """The files that may be read, what is left of the limits, and the names that templates use.

    Parameters
    ----------
    limits
        For all files together. The time counts from here, as processor time of this thread.
    roots
        Where included files may lie.
    """

    def __init__(self, limits: Limits, roots: files.IncludeRoots) -> None:
        self.limits = limits
        self.roots = roots
        self.names: set[str] = set()
        self._bytes = 0
        self._includes = 0
        self._nodes = 0
        self._printed = 0
        self._work = 0
        # Processor time: a busy machine makes no spec unreadable.
        self._deadline = time.thread_time() + limits.seconds

    def read(self, path: Path) -> str:
        """Return the text of a file.

        Raises
        ------
        SpecError
            As for `model.text.files.read_text`, or when all files together are too long.
        """
        text = files.read_text(path, self.limits)
        self._bytes += len(text.encode())
        if self._bytes > self.limits.total_bytes:
            message = f"the spec files hold more than {self.limits.total_bytes} bytes in all"
            raise SpecError(message, hint=raised_by("total_bytes"))
        return text

    def count_nodes(self, nodes: int) -> None:
        """Count the values that a file holds.

        Raises
        ------
        SpecError
            All files together hold too many.
        """
        self._nodes += nodes
        if self._nodes > self.limits.nodes:
            message = f"the spec files hold more than {self.limits.nodes} values in all"
            raise SpecError(message, hint=raised_by("nodes"))

    def locate(self, wanted: str, scope: Scope) -> Path:
        """Return the file that a spec names.

        Raises
        ------
        SpecError
            There is none, it may not be read, or too many are included.
        """
        self._includes += 1
        if self._includes > self.limits.includes:
            raise SpecError(f"more than {self.limits.includes} files are included")
        path = files.require(wanted, scope.directories, self.roots)
        self.roots.check(path)
        return path

    def spend(self, characters: int) -> None:
        """Count text that a template prints.

        Raises
        ------
        SpecError
            It is too much in all, or the templates take too long.
        """
        self._printed += characters
        if self._printed > self.limits.rendered_characters:
            raise SpecError(f"templates print more than {self.limits.rendered_characters} characters")
        self.work(0)

    def work(self, size: int) -> None:
        """Count what a template makes or looks at.

        Raises
        ------
        SpecError
            It is too much in all, or the templates take too long.
        """
        self._work += size
        if self._work > self.limits.template_work:
            raise SpecError(f"templates make more than {self.limits.template_work} characters of values")
        if time.thread_time() > self._deadline:
            raise SpecError(f"templates take longer than {self.limits.seconds:g} s")

    def check_template(self, sizes: Iterable[int], path: Path) -> None:
        """Check that a template is not too large to be compiled, and that there is time left.

        Raises
        ------
        SpecError
            Otherwise.
        """
        self.work(0)
        if any(total > self.limits.template_bytes for total in accumulate(sizes)):
            name = files.display_name(path)
            most = self.limits.template_bytes
            raise SpecError(f"the template {name} has more than {most} bytes of statements and expressions")
