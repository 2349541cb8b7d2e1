"""Output layers on a model and a text of one's own."""
