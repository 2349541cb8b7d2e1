"""Metrics of generated texts: each a function of texts, each with a line that says whose implementation it is."""
