"""ONNX models to the canonical workload (the optional extra ``onnx``)."""

from model.formats.onnx.loader import BITS, SUFFIX, LoadedModel, load_onnx

__all__ = ["BITS", "SUFFIX", "LoadedModel", "load_onnx"]
