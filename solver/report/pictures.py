"""Pictures in files: which names they may have, and how a document or a graph becomes one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solver.report.reading import Value

FORMATS = (".png", ".svg", ".pdf")

PAINTED = (".png", ".pdf")
"""Formats that need matplotlib; this program writes SVG itself."""


class PlotError(Exception):
    """A picture cannot be drawn; the message says why."""


def check_plot(path: Path | None) -> None:
    """Check before a long search whether a picture, if one is requested, can be drawn; `PlotError` if not."""
    if path is None:
        return
    if path == Path("-"):
        raise PlotError("pictures cannot be written to stdout")
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")
    if path.suffix.lower() in PAINTED and find_spec("matplotlib") is None:
        needs = f"--plot needs matplotlib for {', '.join(PAINTED)}"
        raise PlotError(f"{needs}: pip install 'tilewright[plot]'")


def draw_plot(document: Value, path: Path) -> None:
    """Draw what ``--plot`` shows of a document; `PlotError` if that fails."""
    from solver.report.drawing import save_scene
    from solver.report.plots import plot_scene
    from solver.report.reading import DocumentError

    try:
        save_scene(plot_scene(document), path)
    except DocumentError as error:
        raise PlotError(str(error)) from error
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror}") from error
