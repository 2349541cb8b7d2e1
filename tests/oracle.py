"""The paper's equations, word by word and position by position; shares no code with the library.

Logits are a dict from word to a float64 scalar, sets of words are Python sets, and autograd supplies the
gradients. Shape letters: B batch, T positions, N source tokens, D hidden, V vocabulary, L layers, W window.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Logits = dict[int, Tensor]
Written = dict[str, set[int]]


@dataclass(kw_only=True)
class Case:
    """One method, its parameters and one batch of inputs."""

    base: str
    letters: str = ""
    ks: tuple[int, ...] = ()
    mi: tuple[int, int] | None = None  # number of layers, window
    wbwr: int | None = None
    softmaxes: int = 1
    convention: str = "paper"
    neighbours: int = 4  # of K
    encoder_decoder: bool = False
    unit: bool = False  # Mi reads states of length sqrt(D)

    parameters: dict[str, Tensor]
    weight: Tensor  # V D
    bias: Tensor | None = None  # V
    scale: float = 1.0
    softcap: float | None = None

    layers: Tensor  # B T L D, the last layer first
    ids: list[list[int]]
    mask: list[list[bool]]
    readable: list[list[bool]]
    documents: list[list[int]]
    source_ids: list[list[int]] | None = None
    source_mask: list[list[bool]] | None = None  # None: every source token is real
    source_states: Tensor | None = None  # B N D_source
    candidates: Callable[[int, int, int, Tensor], Tensor] | None = None  # b, t, word, f_R -> L D

    def __post_init__(self) -> None:
        copies = self.base in ("pg", "ps", "copynet") or set("ep") & set(self.letters)
        meaningful = {
            "base": self.base in ("none", "softmax", "mos", "pg", "ps", "copynet"),
            "ks": bool(self.ks) == ("r" in self.letters) and list(self.ks) == sorted(set(self.ks)),
            "convention": self.convention in ("paper", "release"),
            "encoder_decoder": self.encoder_decoder or "e" not in self.letters,
            "source_ids": self.source_ids is not None or not (self.encoder_decoder and copies),
            "candidates": self.candidates is not None or self.wbwr is None,
        }
        for field, fine in meaningful.items():
            if not fine:
                value = getattr(self, field)
                raise ValueError(f"oracle: {self.base!r} + {self.letters!r} cannot have {field} = {value!r}")


def log_probs(case: Case) -> list[list[Tensor]]:
    """The V log-probabilities of each row and position."""
    return [[log_prob(case, b, t) for t in range(len(row))] for b, row in enumerate(case.ids)]


def first_stage(case: Case) -> list[list[Tensor]]:
    """The log-probabilities before wbwR."""
    return log_probs(replace(case, wbwr=None))


def sets(case: Case, b: int, t: int) -> Written:
    """The words each partition wrote at one position, in order of application: the last writer wins."""
    return partitioned(case, b, t)[1]


# ---- Inputs: q, projections, and the words a position can see


def linear(case: Case, name: str, x: Tensor) -> Tensor:
    y = case.parameters[f"{name}.weight"].double() @ x
    bias = case.parameters.get(f"{name}.bias")
    return y if bias is None else y + bias.double()


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum()


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form, the one of GPT-2."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def hidden(case: Case, b: int, t: int) -> Tensor:
    """h_t^M"""
    return case.layers[b, t, 0].double()


def state_seen_from(case: Case, b: int, t: int, position: int, m: int) -> Tensor:
    """h^{M-m} at a position, as t's Mi window sees it: zeros outside the row, the document, the mask."""
    if position < 0 or case.documents[b][position] != case.documents[b][t] or not case.mask[b][position]:
        return torch.zeros(case.layers.shape[-1], dtype=torch.float64)
    return case.layers[b, position, m].double()


def read(case: Case, state: Tensor) -> Tensor:
    """A state as Mi reads it."""
    return state / (dot(state, state) / len(state) + 1e-6).sqrt() if case.unit else state


def query(case: Case, b: int, t: int, candidate: Tensor | None = None) -> Tensor:
    """eq:multi-hidden: q_t = h_t^M ++ GELU(L_h(++_{m,i} h_{t-i}^{M-m})), m outer, i inner.

    With the layers (L D) of a candidate: q of that word appended after t, its window is itself, t, t-1, ...
    """
    state = hidden(case, b, t) if candidate is None else candidate[0].double()
    if case.mi is None:
        return state
    num_layers, window = case.mi
    block = []
    for m in range(num_layers):
        states = [read(case, state_seen_from(case, b, t, t - i, m)) for i in range(window)]
        block += states if candidate is None else [read(case, candidate[m].double()), *states[:-1]]
    return torch.cat([state, gelu(linear(case, "L_h", torch.cat(block)))])


def occurrences(case: Case, side: str, b: int, t: int) -> dict[int, list[int]]:
    """Where each word occurs: in c_t (side "D"; nothing if t is padding) or in the encoder's I (side "E")."""
    places: dict[int, list[int]] = {}
    if side == "E":
        for j, word in enumerate(case.source_ids[b]):
            if case.source_mask is None or case.source_mask[b][j]:
                places.setdefault(int(word), []).append(j)
    elif case.mask[b][t]:
        for i in range(t + 1 if case.convention == "paper" else t):
            same_document = case.documents[b][i] == case.documents[b][t]
            if same_document and case.mask[b][i] and case.readable[b][i]:
                places.setdefault(int(case.ids[b][i]), []).append(i)
    return places


def key(case: Case, side: str, b: int, position: int) -> Tensor:
    """L_LD(q_i) on the decoder side, L_LE(h_j) on the encoder side."""
    if side == "E":
        return linear(case, "L.LE", case.source_states[b, position].double())
    return linear(case, "L.LD", query(case, b, position))


# ---- Logits: eq:logit_general, one partition after the other


def score(case: Case, f: Tensor, word: int) -> Tensor:
    """f . w_x as the model's own LM head computes it: scaled, biased, soft-capped."""
    z = case.scale * dot(f, case.weight[word].double())
    if case.bias is not None:
        z = z + case.bias[word].double()
    if case.softcap is not None:
        z = case.softcap * torch.tanh(z / case.softcap)
    return z


def vocabulary_scores(case: Case, f: Tensor) -> Logits:
    return {word: score(case, f, word) for word in range(len(case.weight))}


def top(values: Logits, k: int) -> set[int]:
    """The k words with the highest values; of equal ones the lower ids. Only numbers: no gradient."""
    if k > len(values):
        raise ValueError(f"top {k} of {len(values)} words")
    return set(sorted(values, key=lambda word: (-values[word].item(), word))[:k])


def partitioned(case: Case, b: int, t: int) -> tuple[Logits, Written]:
    """eq:logit_general, again and again: the logits of the first softmax, and who wrote which words."""
    q = query(case, b, t)
    f = hidden(case, b, t) if case.base == "none" else linear(case, "L.V", q)
    logits = vocabulary_scores(case, f)
    written: Written = {}

    def write(name: str, scores: Logits) -> None:
        logits.update(scores)
        written[name] = set(scores)

    ranking = logits
    for j in range(len(case.ks), 0, -1):
        before = dict(logits)
        write(f"R{j}", reranked(case, j, q, ranking))
        if case.convention == "paper":
            ranking = {word: max(before[word].detach(), logits[word].detach()) for word in written[f"R{j}"]}
    if "e" in case.letters:
        write("E", global_scores(case, "E", q, occurrences(case, "E", b, t)))
    if "p" in case.letters and case.encoder_decoder:
        write("PE", local_scores(case, "E", b, t, logits))
    if "k" in case.letters:
        near = {x for word in occurrences(case, "D", b, t) for x in nearest(case, word)}
        write("K", global_scores(case, "K", q, {word: [] for word in near}))
    if "c" in case.letters:
        write("C", global_scores(case, "C", q, occurrences(case, "D", b, t)))
    if "p" in case.letters:
        write("PD", local_scores(case, "D", b, t, logits))
    if "i" in case.letters:
        for n in (1, 2):
            write(f"I{n}", induction_scores(case, n, b, t, q, logits))
    if case.base == "copynet":
        write("COPY", copynet_scores(case, b, t, logits))
    if case.wbwr is not None:
        write("WBWR", word_by_word_scores(case, b, t, logits))
    return logits, written


def reranked(case: Case, j: int, q: Tensor, ranking: Logits) -> Logits:
    """Rows R of eq:logit_CPR: f_Rj . w_x for x in W(k_j), the top k_j of a ranking.

    For j = n the ranking is the logits. Below, "paper": W(k_{j+1}) by max(logit before R_{j+1} wrote, after);
    "release": all logits as overwritten so far.
    """
    f = linear(case, f"L.R{j}", q)
    return {word: score(case, f, word) for word in top(ranking, case.ks[j - 1])}


def global_scores(case: Case, name: str, q: Tensor, places: dict[int, list[int]]) -> Logits:
    """Partitions C and E: f_C . w_x for x in c_t, f_E . w_x for x in I."""
    f = linear(case, f"L.{name}", q)
    return {word: score(case, f, word) for word in places}


def nearest(case: Case, word: int) -> set[int]:
    """Partition K: the words whose embeddings have the highest cosine with that of a word."""
    unit = [row.detach().double() / max(row.detach().double().norm().item(), 1e-12) for row in case.weight]
    cosines = {x: dot(unit[x], unit[word]) for x in range(len(unit)) if x != word}
    return top(cosines, min(case.neighbours, len(cosines)))


def local_scores(case: Case, side: str, b: int, t: int, now: Logits) -> Logits:
    """eq:logit_P: the logit now + f_P . e_x, with eq:local_emb: e_x = mean of the keys of x's occurrences."""
    f = linear(case, f"L.P{side}", query(case, b, t))
    scores = {}
    for word, positions in occurrences(case, side, b, t).items():
        e = sum(key(case, side, b, position) for position in positions) / len(positions)
        scores[word] = now[word] + dot(f, e)
    return scores


def induction_scores(case: Case, n: int, b: int, t: int, q: Tensor, now: Logits) -> Logits:
    """The logit now + f_I . w_x, for x that followed an earlier occurrence of the n tokens that end at t."""
    f = linear(case, f"L.I{n}", q)
    seen = {i for places in occurrences(case, "D", b, t).values() for i in places}
    current = [t - back for back in range(n)]
    scores = {}
    for j in sorted(seen):
        match = [j - back for back in range(n)]
        if j + 1 not in seen or not all(i in seen for i in match + current):
            continue
        if [case.ids[b][i] for i in match] == [case.ids[b][i] for i in current]:
            word = case.ids[b][j + 1]
            scores[word] = now[word] + case.scale * dot(f, case.weight[word].double())
    return scores


def copynet_scores(case: Case, b: int, t: int, now: Logits) -> Logits:
    """eq:CopyNet: log(exp(logit now) + sum_j 1[I^j = x] exp(f_P . key_j + b))."""
    side = pointer_side(case)
    f = linear(case, f"L.P{side}", query(case, b, t))
    scores = {}
    for word, positions in occurrences(case, side, b, t).items():
        copied = [dot(f, key(case, side, b, j)) + gate(case, "b").reshape(()) for j in positions]
        scores[word] = torch.logsumexp(torch.stack([now[word], *copied]), 0)
    return scores


def word_by_word_scores(case: Case, b: int, t: int, now: Logits) -> Logits:
    """eq:logit_w2wR: the logit now + f_R . L_LD(q_x) for x in W(k), q_x of x appended after t."""
    f = linear(case, "L.R", query(case, b, t))
    scores = {}
    for word in top(now, case.wbwr):
        q = query(case, b, t, case.candidates(b, t, word, f))
        scores[word] = now[word] + dot(f, linear(case, "L.LD", q))
    return scores


# ---- Distributions


def pointer_side(case: Case) -> str:
    """What PG, PS and CopyNet copy from: the encoder input, or c_t on decoder-only models."""
    return "E" if case.encoder_decoder else "D"


def gate(case: Case, name: str) -> Tensor:
    return case.parameters[f"gate.{name}"].double()


def log_softmax(logits: Logits) -> Tensor:
    """eq:softmax"""
    z = torch.stack([logits[word] for word in range(len(logits))])
    return z - torch.logsumexp(z, 0)


def log_prob(case: Case, b: int, t: int) -> Tensor:
    generator = log_softmax(partitioned(case, b, t)[0])
    if case.base == "mos":
        return mixture(case, b, t, generator)
    if case.base in ("pg", "ps"):
        return pointer(case, b, t, generator)
    return generator


def mixture(case: Case, b: int, t: int, first: Tensor) -> Tensor:
    """MoS: P(x) = sum_k prior_k softmax_k(x), prior = softmax(Linear(q)); partitions change the first."""
    q = query(case, b, t)
    prior = linear(case, "prior", q)
    log_prior = prior - torch.logsumexp(prior, 0)
    softmaxes = [first]
    for k in range(2, case.softmaxes + 1):
        softmaxes.append(log_softmax(vocabulary_scores(case, linear(case, f"L.V{k}", q))))
    return torch.logsumexp(torch.stack([log_prior[k] + softmaxes[k] for k in range(case.softmaxes)]), 0)


def pointer(case: Case, b: int, t: int, generator: Tensor) -> Tensor:
    """P(x) = gate P_V(x) + sum_j 1[I^j = x] P_copy(j), in log-space.

    PG, eq:Pointer:          gate = p_gen = sigmoid(q . h_t^M + b_ptr), 1 if there is nothing to copy;
                             P_copy(j) = (1 - p_gen) exp(v . tanh(f_P + key_j + b)) / Z_E
    PS, eq:Pointer_sentinel: gate = g = exp(q . h_t^M) / Z_p;  P_copy(j) = exp(f_P . tanh(key_j) + b) / Z_p
    """
    side = pointer_side(case)
    f = linear(case, f"L.P{side}", query(case, b, t))
    places = occurrences(case, side, b, t)
    if not places:
        return generator
    keys = {j: key(case, side, b, j) for positions in places.values() for j in positions}
    switch = dot(gate(case, "q"), hidden(case, b, t))
    if case.base == "pg":
        attention = {j: dot(gate(case, "v"), torch.tanh(f + keys[j] + gate(case, "b"))) for j in keys}
        log_z = torch.logsumexp(torch.stack(list(attention.values())), 0)
        switch = switch + gate(case, "b_ptr").reshape(())
        log_gate, log_copy = logsigmoid(switch), logsigmoid(-switch) - log_z
    else:
        attention = {j: dot(f, torch.tanh(keys[j])) + gate(case, "b").reshape(()) for j in keys}
        log_z = torch.logsumexp(torch.stack([switch, *attention.values()]), 0)
        log_gate, log_copy = switch - log_z, -log_z
    mixed = {word: log_gate + generator[word] for word in range(len(generator))}
    for word, positions in places.items():
        copied = [log_copy + attention[j] for j in positions]
        mixed[word] = torch.logsumexp(torch.stack([mixed[word], *copied]), 0)
    return torch.stack([mixed[word] for word in range(len(generator))])
