"""How long each step took, in seconds on a busy machine: only the proportions count, for the progress bar."""

SECONDS: dict[str, dict[str, float]] = {  # plan -> step -> seconds
    "full": {
        "model": 110,
        "states": 610,
        "train softmax": 253,
        "train cpr": 276,
        "perplexity": 87,
        "words": 9,
        "order": 18,
        "text": 11,
        "cost": 120,
    },
    "quick": {
        "model": 290,
        "states": 20,
        "train softmax": 19,
        "train cpr": 36,
        "perplexity": 9,
        "words": 2,
        "order": 4,
        "text": 1,
        "cost": 15,
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
