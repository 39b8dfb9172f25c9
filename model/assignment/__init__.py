"""Assignments: networks whose layers can be carried out by several methods, and what those cost."""

from model.assignment.arrays import PricedArrays, arrays_within, price
from model.assignment.build import Cost, EdgeCosts, LayerCosts, build_network
from model.assignment.costed import FORBIDDEN, LARGEST_TOTAL, CostArray, CostedLayer, CostedNetwork, Edge
from model.assignment.shapes import Convolution, ShapedEdge, ShapedLayer, ShapedNetwork, Tensor
from model.assignment.systolic import Hardware, SystolicModel, method_times, transition_ms

__all__ = [
    "FORBIDDEN",
    "LARGEST_TOTAL",
    "Convolution",
    "Cost",
    "CostArray",
    "CostedLayer",
    "CostedNetwork",
    "Edge",
    "EdgeCosts",
    "Hardware",
    "LayerCosts",
    "PricedArrays",
    "ShapedEdge",
    "ShapedLayer",
    "ShapedNetwork",
    "SystolicModel",
    "Tensor",
    "arrays_within",
    "build_network",
    "method_times",
    "price",
    "transition_ms",
]
