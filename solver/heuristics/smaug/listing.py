"""The tiles of sliding-window operators as SMAUG lists them.

SMAUG's lists are not always complete or exact, see `missing`; the schedule of this package goes through
tiles that are (`model.tiling.cuts`). Both are kept: the one to compare with SMAUG, the other to compute.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from model.tiling.cuts import NO_WINDOW, Cut, Grid, Span, windowed_cut
from model.tiling.operators import Convolution, Shape, Window


def listed_inputs(shape: Shape, tile: Shape, windows: tuple[Window, Window]) -> Grid:
    """Return the tiles of NHWC inputs: the first tile is not made smaller if it holds one window only."""
    along = (NO_WINDOW, *windows, NO_WINDOW)
    return Grid(
        tuple(
            windowed_cut(extent, size, window, _first_size(size, window))
            for extent, size, window in zip(shape, tile, along, strict=True)
        )
    )


def listed_rowwise_outputs(operator: Convolution, inputs: Grid, weights: Grid) -> Grid:
    """Return the tiles of outputs that are cut along rows: what each of the listed inputs computes.

    The first tile has the padding in front alone, even if it is the last one as well. The last tile is
    left out if it does not hold a window.
    """
    window = operator.windows[0]
    sizes = [span.size for span in inputs.cuts[1]]
    if sizes[-1] + window.after < window.field:
        sizes.pop()
    rows = [_rows(size, window) for size in sizes]
    if len(rows) > 1:
        rows[-1] = _rows(sizes[-1] + window.after, window)
    if rows:
        rows[0] = _rows(sizes[0] + window.before, window)
    columns = operator.windows[1].positions(operator.input[2])
    return Grid((inputs.cuts[0], _stacked(rows), (Span(0, columns),), weights.cuts[0]))


def missing(what: str, listed: Grid, scheduled: Grid) -> tuple[str, ...]:
    """Return a remark where SMAUG's list of a tensor's tiles is not the schedule's, else nothing."""
    if listed == scheduled:
        return ()
    return (
        f"{what}: count, first and last are those of SMAUG's list of {listed.count} tiles, which does not "
        f"cover what the operator computes; the schedule goes through {scheduled.count} tiles that do",
    )


def _first_size(tile: int, window: Window) -> int:
    steps = (tile + window.before - window.field) // window.stride
    return tile if steps <= 0 else window.field + steps * window.stride - window.before


def _rows(size: int, window: Window) -> int:
    return (size - window.field) // window.stride + 1


def _stacked(sizes: list[int]) -> Cut:
    ends = accumulate(sizes, initial=0)
    return tuple(Span(start, stop) for start, stop in pairwise(ends))
