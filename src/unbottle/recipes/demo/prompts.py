"""The prompts of the demo: the paper's, and one of the kind of text that the heads were trained on."""

from unbottle.eval.prompt import PROMPTS, Prompt

CODE = Prompt.parse("def overlap([start], [stop], [other]):\n    return max(")
DEMO_PROMPTS = (*PROMPTS, CODE)
