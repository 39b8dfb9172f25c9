"""ONNX models to the canonical workload (the optional extra ``onnx``)."""

from model.formats.onnx.loader import SUFFIX, LoadedModel, load_onnx

__all__ = ["SUFFIX", "LoadedModel", "load_onnx"]
