"""Entry point of ``python -m solver``."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

import solver


def _ignore_working_directory() -> None:
    """Import nothing from the working directory, where ``-m`` looks first, unless this package lies there."""
    try:
        here = os.getcwd()  # noqa: PTH109 (nothing else may be imported yet)
    except OSError:
        return  # it is gone, and was not looked into
    if sys.path[0] == here and solver.__path__[0] != os.path.join(here, "solver"):  # noqa: PTH118
        del sys.path[0]


def _load_packages_beside() -> None:
    """Load this program's other packages from beside this one: the path may lead to others of their names."""
    beside = os.path.dirname(solver.__path__[0])  # noqa: PTH120
    for name in ("model", "specs"):
        spec = PathFinder.find_spec(name, [beside])
        if name not in sys.modules and spec is not None and spec.loader is not None:
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])


# Before any other import; processes that this one starts get its path, and import this module first.
if __name__ == "__main__" and not sys.flags.safe_path:
    _ignore_working_directory()
_load_packages_beside()

from collections.abc import Iterator, Sequence
from contextlib import suppress

from solver.exit_codes import EXIT_DEFECT, EXIT_INTERRUPTED

TRACEBACK = "TILEWRIGHT_TRACEBACK"
"""The environment variable that asks for tracebacks of internal errors."""

LACK_OF_MEMORY = ("failed to map segment", "annot allocate memory")
"""In the messages of imports that fail for lack of memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `solver.cli.main.main`; interrupts and internal errors, of imports too, leave no traceback."""
    occupy_standard_streams()
    try:
        from solver.cli.main import main as run  # noqa: PLC0415 (takes long enough to be interrupted)

        return run(arguments)
    except BaseException as error:
        if follows_interrupt(error):
            return EXIT_INTERRUPTED
        if not isinstance(error, Exception):
            raise
        _report(error)
        return EXIT_DEFECT


def _report(error: Exception) -> None:
    """Report an unforeseen error on stderr, if possible."""
    import traceback  # noqa: PLC0415 (rarely needed)

    if os.environ.get(TRACEBACK):
        text = "".join(traceback.format_exception(error))
    elif any(map(_lacks_memory, _errors_behind(error))):
        text = "error: there is not enough memory; --jobs 1 and a smaller --memory-limit need less\n"
    else:
        what = " ".join("".join(traceback.format_exception_only(error)).split())
        text = f"error: internal error, please report it ({TRACEBACK}=1 shows a traceback): {what}\n"
    with suppress(OSError):
        print(text.encode("ascii", "backslashreplace").decode(), end="", file=sys.stderr, flush=True)


def _lacks_memory(error: BaseException) -> bool:
    is_import = isinstance(error, ImportError | OSError)
    return isinstance(error, MemoryError) or (
        is_import and any(text in str(error) for text in LACK_OF_MEMORY)
    )


def occupy_standard_streams() -> None:
    """Replace streams that the caller has closed: files that are opened next would take their numbers."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            # The lowest free number is that of the stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(nowhere, "w", encoding="utf-8", errors="backslashreplace")


def follows_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt or was raised while handling one, as in class bodies."""
    return any(isinstance(each, KeyboardInterrupt) for each in _errors_behind(error))


def _errors_behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


if __name__ == "__main__":
    sys.exit(main())
