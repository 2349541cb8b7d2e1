"""Recipes: the experiments of the paper, each from one command."""
