"""ONNX models to the canonical workload (the optional extra ``onnx``)."""

from model.formats.onnx.loader import BITS, LoadedModel, load_onnx

__all__ = ["BITS", "LoadedModel", "load_onnx"]
