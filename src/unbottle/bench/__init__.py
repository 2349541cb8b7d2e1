"""Benchmark: time and memory of output layers beside the plain softmax of the same model."""
