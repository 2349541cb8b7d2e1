"""A local web page to try models: predictions (no Gradio), their HTML, and the Gradio page around them."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # Gradio reads it once, when it is imported
