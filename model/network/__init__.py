"""Networks of layers that can be carried out by several methods."""

from model.network.arrays import PricedArrays, arrays_within, price
from model.network.build import Cost, EdgeCosts, LayerCosts, build_network
from model.network.network import FORBIDDEN, LARGEST_TOTAL, CostArray, Edge, Layer, Network
from model.network.shapes import Convolution, ShapedEdge, ShapedLayer, ShapedNetwork, Tensor
from model.network.systolic import Hardware, SystolicModel, method_times, transition_ms

__all__ = [
    "FORBIDDEN",
    "LARGEST_TOTAL",
    "Convolution",
    "Cost",
    "CostArray",
    "Edge",
    "EdgeCosts",
    "Hardware",
    "Layer",
    "LayerCosts",
    "Network",
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
