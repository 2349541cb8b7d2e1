"""What the paper reports, to stand beside our own numbers. Keys are canonical methods."""

from __future__ import annotations

# tb:perplexity: size (millions), time of a batch (ms), test perplexity on OpenWebText and on Wikipedia 2021
PERPLEXITY_COLUMNS = ("Size", "Time", "OWT", "Wiki")
PERPLEXITY_SMALL = {
    "softmax": (125.0, 82.9, 18.96, 24.28),
    "softmax+mi": (130.9, 85.6, 18.74, 24.08),
    "mos": (126.2, 130.2, 18.97, 24.10),
    "mos+mi": (133.3, 133.2, 18.68, 23.82),
    "pg": (126.2, 106.0, 18.67, 23.70),
    "ps": (126.2, 94.1, 18.70, 23.79),
    "softmax+r:20+mi": (132.1, 90.4, 18.67, 24.03),
    "softmax+r:20,100+mi": (133.3, 101.1, 18.69, 23.93),
    "softmax+c+mi": (132.1, 94.8, 18.48, 23.56),
    "softmax+p+mi": (133.3, 99.1, 18.58, 23.66),
    "pg+mi": (133.3, 111.2, 18.43, 23.43),
    "ps+mi": (133.3, 98.0, 18.48, 23.53),
    "softmax+cr:20,100+mi": (134.5, 113.3, 18.46, 23.48),
    "softmax+cpr:20,100+mi": (136.8, 119.9, 18.43, 23.42),
    "mos+cpr:20,100+mi": (139.2, 165.1, 18.39, 23.29),
}
PERPLEXITY_MEDIUM = {
    "softmax": (355.9, 207.8, 15.81, 20.12),
    "softmax+mi": (366.4, 213.8, 15.71, 20.07),
    "mos": (358.0, 262.9, 15.71, 19.95),
    "mos+mi": (370.6, 268.2, 15.61, 19.86),
    "pg": (358.0, 237.8, 15.72, 19.95),
    "ps": (358.0, 218.3, 15.72, 19.95),
    "softmax+r:20+mi": (368.5, 203.6, 15.64, 19.94),
    "softmax+r:20,100+mi": (370.6, 228.5, 15.61, 19.89),
    "softmax+c+mi": (368.5, 222.7, 15.60, 19.83),
    "softmax+p+mi": (370.6, 214.7, 15.63, 19.90),
    "pg+mi": (370.6, 242.5, 15.60, 19.89),
    "ps+mi": (370.6, 224.6, 15.60, 19.87),
    "softmax+cr:20,100+mi": (372.7, 234.5, 15.54, 19.75),
    "softmax+cpr:20,100+mi": (376.9, 249.9, 15.53, 19.71),
    "mos+cpr:20,100+mi": (381.1, 300.6, 15.44, 19.57),
}

# tb:reranker: validation perplexity on Wikipedia 2021 after 0.15 epochs
RERANKER_COLUMNS = ("Wiki",)
RERANKER = {
    "softmax+mi": (29.33,),
    "softmax+wbwr:100+mi": (28.89,),
    "softmax+cpr:20,100+mi": (28.46,),
    "softmax+cpr:20,100+wbwr:100+mi": (28.40,),
}

# tb:gpt2_gen_other; tb:dynamic_partition_rouge_1 is a part of it
COMPLETION_COLUMNS = ("R1", "R1C", "R1P", "R1PC", "R2", "P Ratio", "CIDEr", "NIST")
COMPLETION = {
    "softmax": (22.668, 23.548, 7.323, 14.340, 3.219, 0.885, 0.182, 1.792),
    "softmax+mi": (22.903, 24.036, 7.493, 14.840, 3.289, 0.877, 0.190, 1.829),
    "mos": (22.965, 24.233, 7.760, 15.762, 3.260, 0.885, 0.188, 1.846),
    "mos+mi": (22.876, 23.979, 7.703, 15.493, 3.270, 0.889, 0.188, 1.829),
    "pg": (23.055, 24.872, 8.052, 17.830, 3.311, 0.889, 0.193, 1.856),
    "ps": (23.007, 24.444, 7.677, 16.146, 3.302, 0.873, 0.189, 1.840),
    "softmax+r:20+mi": (22.941, 23.970, 7.467, 14.733, 3.303, 0.896, 0.188, 1.833),
    "softmax+r:20,100+mi": (22.909, 23.938, 7.537, 15.066, 3.280, 0.870, 0.190, 1.829),
    "softmax+c+mi": (23.116, 25.027, 7.894, 17.048, 3.372, 0.917, 0.197, 1.873),
    "softmax+p+mi": (23.015, 25.080, 7.895, 17.184, 3.346, 0.877, 0.196, 1.847),
    "pg+mi": (22.827, 24.759, 8.049, 17.874, 3.289, 0.914, 0.191, 1.819),
    "ps+mi": (22.846, 25.008, 8.159, 18.208, 3.307, 0.921, 0.194, 1.823),
    "softmax+cr:20,100+mi": (23.017, 25.056, 8.089, 17.798, 3.328, 0.894, 0.198, 1.858),
    "softmax+cpr:20,100+mi": (23.053, 25.361, 8.160, 17.921, 3.363, 0.882, 0.197, 1.863),
    "mos+cpr:20,100+mi": (23.047, 25.173, 8.187, 18.198, 3.314, 0.902, 0.198, 1.868),
}

# tb:context_example: these four methods
EXAMPLE_METHODS = ("softmax+mi", "mos+mi", "ps+mi", "softmax+cpr:20,100+mi")

# tb:analogy: perplexity, diagonal then edge: valid, capital-common, capital-world, city-in-state, family
ANALOGY_COLUMNS = tuple(
    f"{kind} {relation}"
    for kind in ("diagonal", "edge")
    for relation in ("valid", "capital-common", "capital-world", "city-in-state", "family")
)
ANALOGY = {
    "softmax+mi": (2.27, 3.36, 1.94, 2.32, 3.09, 2.13, 2.61, 1.90, 2.21, 2.49),
    "mos+mi": (1.86, 2.62, 1.66, 1.86, 3.59, 1.87, 2.24, 1.66, 1.90, 3.10),
    "softmax+c+mi": (1.78, 2.19, 1.62, 1.87, 2.17, 1.79, 2.13, 1.63, 1.88, 2.07),
    "softmax+cpr:20,100+mi": (1.69, 2.03, 1.54, 1.81, 2.09, 1.69, 2.01, 1.55, 1.81, 1.97),
}

# Title, columns, rows: all of the above that is told by method
TABLES = (
    ("perplexity, GPT-2 Small", PERPLEXITY_COLUMNS, PERPLEXITY_SMALL),
    ("perplexity, GPT-2 Medium", PERPLEXITY_COLUMNS, PERPLEXITY_MEDIUM),
    ("validation perplexity after a short training", RERANKER_COLUMNS, RERANKER),
    ("text completion", COMPLETION_COLUMNS, COMPLETION),
    ("ambiguous contexts", ANALOGY_COLUMNS, ANALOGY),
)
