"""What all pictures share: the formats, the extra that they need, and how figures are made and saved."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from solver.saving import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
SIZE_INCHES = (8.0, 5.0)
DOTS_PER_INCH = 150

MOST_STEPS = 4
"""Steps between the ticks of an axis, which leave room for long cycle counts."""


class PlotError(Exception):
    """A picture cannot be drawn; the message says why."""


def check_plot(path: Path | None) -> None:
    """Check before a long search whether a picture can be drawn.

    Parameters
    ----------
    path
        Where it is to be written; None if none is asked for.

    Raises
    ------
    PlotError
        The path is stdout or has another suffix than `FORMATS`, or matplotlib is missing.
    """
    if path is None:
        return
    if path == Path("-"):
        raise PlotError("a picture is not written to stdout")
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path}: a picture's name ends in {', '.join(FORMATS)}")
    try:
        import matplotlib  # noqa: F401, PLC0415 (an optional extra)
    except ImportError:
        raise PlotError("--plot needs matplotlib: pip install 'tilewright[plot]'") from None


def blank_figure(rows: int = 1, columns: int = 1) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its panels, row by row, each of the usual size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    wide, high = SIZE_INCHES
    figure = Figure(figsize=(wide * columns, high * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def verbatim(name: str) -> str:
    """Return a name of the user's for a picture, where a pair of dollar signs would begin a formula.

    What is no text in it, as in names of files, is escaped.
    """
    return name.encode("utf-8", "backslashreplace").decode("utf-8").replace("$", r"\$")


def write_numbers_out(axes: Axes, whole_across: bool = True) -> None:
    """Label ticks as tables do: counts with commas, figures without powers or offsets.

    Logarithmic axes have ticks of their own.
    """
    from matplotlib.ticker import MaxNLocator, ScalarFormatter, StrMethodFormatter  # noqa: PLC0415 (an extra)

    linear = [axis for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "linear"]
    for axis in linear:
        plain = ScalarFormatter(useOffset=False)
        plain.set_scientific(False)
        axis.set_major_formatter(plain)
    if axes.xaxis in linear and whole_across:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_STEPS, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def save_figure(figure: Figure, path: Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Write a figure once all of it is drawn.

    Raises
    ------
    PlotError
        It cannot be written.
    """
    drawn = BytesIO()
    with warnings.catch_warnings():
        # Names in scripts that the font lacks are seen as boxes, and the warning shows lines of this program.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=dots_per_inch)
    try:
        save(path, drawn.getvalue())
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror}") from error
