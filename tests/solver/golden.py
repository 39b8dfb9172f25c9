"""What is printed, against what is expected, in ``tests/solver/golden``; ``UPDATE_GOLDEN=1`` rewrites it."""

import io
import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compare `text` with the file called `name`."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def printed(show: Callable[..., None], *arguments: object) -> str:
    """What a function prints on a console, without blanks at the ends of lines."""
    text = io.StringIO()
    show(Console(file=text, width=1000, color_system=None, highlight=False, markup=False), *arguments)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
