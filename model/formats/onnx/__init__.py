"""ONNX models to the canonical workload (the optional extra ``onnx``)."""
