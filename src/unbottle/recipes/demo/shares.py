"""How long each step takes, measured with two cores that had nothing else to do: the shares of the progress bar."""

SECONDS: dict[str, dict[str, float]] = {  # plan -> step -> seconds
    "full": {
        "model": 45,
        "states": 80,
        "train softmax": 30,
        "train cpr": 40,
        "perplexity": 10,
        "words": 8,
        "order": 30,
        "text": 5,
        "cost": 50,
    },
    "quick": {
        "model": 50,
        "states": 5,
        "train softmax": 5,
        "train cpr": 9,
        "perplexity": 2,
        "words": 1,
        "order": 2,
        "text": 1,
        "cost": 5,
    },
    "tiny": {
        "model": 3,
        "states": 1,
        "train softmax": 1,
        "train cpr": 1,
        "perplexity": 1,
        "words": 1,
        "order": 1,
        "text": 1,
        "cost": 1,
    },
}
