"""Experiments: the tables and figures of the paper, comparisons on your own model and text, and the demo."""
