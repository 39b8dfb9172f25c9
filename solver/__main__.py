"""Entry point of ``python -m solver``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from solver.exit_codes import EXIT_DEFECT, EXIT_INTERRUPTED

TRACEBACK = "TILEWRIGHT_TRACEBACK"
"""The environment variable that asks for tracebacks of defects."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what `solver.cli.main.main` does; interrupts and defects leave no traceback, imports included.

    Raises
    ------
    SystemExit
        As of `solver.cli.main.main`.
    """
    occupy_standard_streams()
    try:
        from solver.cli.main import main as run  # noqa: PLC0415 (takes long enough to be interrupted)

        return run(arguments)
    except BaseException as error:
        if follows_interrupt(error):
            return EXIT_INTERRUPTED
        if not isinstance(error, Exception):
            raise
        _tell(error)
        return EXIT_DEFECT


def _tell(error: Exception) -> None:
    """Say on stderr what went wrong that nobody has foreseen, if that can be."""
    import traceback  # noqa: PLC0415 (only where it is needed)

    if os.environ.get(TRACEBACK):
        text = "".join(traceback.format_exception(error))
    elif isinstance(error, MemoryError):
        text = "error: there is not enough memory; --jobs 1 and a smaller --memory-limit take less\n"
    else:
        what = " ".join("".join(traceback.format_exception_only(error)).split())
        text = f"error: a defect of tilewright, please report it ({TRACEBACK}=1 shows where): {what}\n"
    with suppress(OSError):
        print(text.encode("ascii", "backslashreplace").decode(), end="", file=sys.stderr, flush=True)


def occupy_standard_streams() -> None:
    """Let streams that the caller has closed lead nowhere: what is opened next would take their places.

    That a result cannot be written to a closed stdout is still an error; messages for stderr are dropped.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            # The lowest free number is that of the stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(nowhere, "w", encoding="utf-8", errors="backslashreplace")


def follows_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt or came of one: class bodies and `argparse` raise others then."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


if __name__ == "__main__":
    sys.exit(main())
