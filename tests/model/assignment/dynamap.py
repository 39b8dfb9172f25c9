"""The published reference figures, and the notebook's use of the published formulas."""

from dataclasses import replace
from fractions import Fraction

import pytest
import yaml

from model.assignment import ConvolutionShape, ShapedLayer, ShapedNetwork, SystolicModel, method_times
from model.assignment.network import IM2COL, KN2ROW, WINOGRAD
from tests.conftest import SHARED

PATH = SHARED / "reference" / "dynamap" / "reference.yaml"

NOTEBOOK = SystolicModel(cycles_per_ms=Fraction(300_000))
TWO_DATAFLOWS = replace(NOTEBOOK, dataflows=("non_stationary", "weight_stationary"))

# Input channels, side, 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
MODULES = (
    (192, 28, 64, 96, 128, 16, 32, 32),
    (256, 28, 128, 128, 192, 32, 96, 64),
    (480, 14, 192, 96, 208, 16, 48, 64),
    (512, 14, 160, 112, 224, 24, 64, 64),
    (512, 14, 128, 128, 256, 24, 64, 64),
    (512, 14, 112, 144, 288, 32, 64, 64),
    (528, 14, 256, 160, 320, 32, 128, 128),
    (832, 7, 256, 160, 320, 32, 128, 128),
    (832, 7, 384, 192, 384, 48, 128, 128),
)


# One input channel where GoogLeNet has three, and no classifier.
STEM = (
    ConvolutionShape(1, 64, 112, 112, (7, 7)),
    ConvolutionShape(64, 64, 56, 56),
    ConvolutionShape(64, 192, 56, 56, (3, 3)),
)


def reference():
    """The reference file; skips the test where it is absent."""
    if not PATH.exists():
        pytest.skip("../shared is absent")
    return yaml.safe_load(PATH.read_text(encoding="utf-8"))


def module_blocks(module):
    """Convolutions of an inception module."""
    inputs, side, one, reduce3, three, reduce5, five, pool = module
    yield ConvolutionShape(inputs, one, side, side)
    yield ConvolutionShape(inputs, reduce3, side, side)
    yield ConvolutionShape(reduce3, three, side, side, (3, 3))
    yield ConvolutionShape(inputs, reduce5, side, side)
    yield ConvolutionShape(reduce5, five, side, side, (5, 5))
    yield ConvolutionShape(inputs, pool, side, side)


def unfolded(shape):
    """The shape whose depth is what only im2col's is: kn2row and Winograd are charged the window twice."""
    return replace(shape, in_channels=shape.in_channels * shape.window)


def notebook_cost(shape, rows, columns, model=NOTEBOOK, kn2row_model=None, counts_window_twice=True):
    """Least time of a convolution over all methods, counted as the notebook does."""
    lowered = unfolded(shape) if counts_window_twice else shape
    entries = [*method_times(IM2COL, shape, model), *method_times(KN2ROW, lowered, kn2row_model or model)]
    if shape.window > 1:
        entries += method_times(WINOGRAD, lowered, model)
    return min(entry.milliseconds(rows, columns) for entry in entries)


def module_sum(module, rows, columns):
    """Sum of one module; its first block takes im2col's time where kn2row's input-stationary one belongs."""
    first, *others = module_blocks(module)
    total = notebook_cost(first, rows, columns, kn2row_model=TWO_DATAFLOWS)
    return total + sum(notebook_cost(shape, rows, columns) for shape in others)


def notebook_sum(rows, columns):
    """Sum over the network; the convolutions before the modules know two dataflows only."""
    first, *others = STEM
    total = notebook_cost(first, rows, columns, TWO_DATAFLOWS, counts_window_twice=False)
    total += sum(notebook_cost(shape, rows, columns, TWO_DATAFLOWS) for shape in others)
    return total + sum(module_sum(module, rows, columns) for module in MODULES)


def notebook_network():
    """A layer per block and method, so that a sum over layers is one over all methods, as in its search.

    There, the convolutions before the modules are charged their window once.
    """
    layers = []
    blocks = [*STEM, *(shape for module in MODULES for shape in module_blocks(module))]
    for number, shape in enumerate(blocks):
        methods = (IM2COL, KN2ROW, WINOGRAD) if shape.window > 1 else (IM2COL, KN2ROW)
        for method in methods:
            own = shape if method == IM2COL or number < len(STEM) else unfolded(shape)
            layers.append(ShapedLayer(f"{number}_{method}", own, (method,)))
    return ShapedNetwork("notebook", tuple(layers), ())
