"""Ask a served model with the OpenAI client. First start a server, for example:

vllm serve runs/cpr/model
transformers serve runs/cpr/model --trust-remote-code --continuous-batching
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI


def main(url: str, model: str, prompts: list[str], tokens: int = 20) -> list[str]:
    """All prompts at once, greedily: the server batches them."""
    with OpenAI(base_url=url, api_key="none") as client, ThreadPoolExecutor() as pool:

        def ask(prompt: str) -> str:
            answer = client.completions.create(model=model, prompt=prompt, max_tokens=tokens, temperature=0)
            return answer.choices[0].text

        texts = list(pool.map(ask, prompts))
    for prompt, text in zip(prompts, texts, strict=True):
        print(f"{prompt} ->{text}")
    return texts


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("prompts", nargs="*", default=["The king and the"])
    parser.add_argument("--url", default="http://localhost:8000/v1")
    parser.add_argument("--model", default="runs/cpr/model", help="The folder that is served.")
    arguments = parser.parse_args()
    main(arguments.url, arguments.model, arguments.prompts)
