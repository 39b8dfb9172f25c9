"""What is printed, against what is expected, in ``tests/solver/golden``; ``UPDATE_GOLDEN=1`` rewrites it."""

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from solver.report.console import print_page
from solver.report.pages import page_of
from solver.report.reading import as_value

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compare `text` with the file called `name`."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def reported(document: Mapping[str, object], verbose: bool = False) -> str:
    """What a terminal shows of a document, without blanks at the ends of lines."""
    page = page_of(as_value(document))
    return printed(lambda console: print_page(console, page, verbose))


def printed(show: Callable[..., None], *arguments: object) -> str:
    """What a function prints on a console, without blanks at the ends of lines."""
    text = io.StringIO()
    show(Console(file=text, width=1000, color_system=None, highlight=False, markup=False), *arguments)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
