"""A local page to play with: words and numbers out of models (no Gradio), HTML out of those, and page.py around it."""
