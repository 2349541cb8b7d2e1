"""What a head computes, in plain text."""

from __future__ import annotations

from unbottle.head.head import Head
from unbottle.head.mixtures import PointerGenerator, PointerSentinel
from unbottle.head.projection import Projection

LEGEND = {
    "h": "the last hidden state",
    "q": "what is projected: h, or with Mi h and a block of hidden states",
    "f_A": "L_A(q), a projection of q of its own; if it is learnt as a difference, f_V + L_A(q)",
    "w_x": "the output embedding of word x",
    "c_t": "the words of the context",
    "I": "the words of the encoder input",
    "W(k)": "the k words with the highest logits so far; W'(k): after all other parts",
    "e_x,LD": "the local embedding of x: the mean of L_LD(q_i) over the places i of x in the context",
    "e_x,LE": "the same of L_LE(h_j) over the places j of x in the encoder input",
    "now": "what the lines below give",
    "sum_j": "over the places j of x where it can be copied from: the encoder input, or the context",
}
ELSE = "else"


def equations(head: Head) -> list[str]:
    """From the hidden state to the distribution. Of several lines of a logit the first that applies counts."""
    method = head.config.method
    if method.base == "none":
        return ["P(x) = that of the model: nothing is attached"]
    lines = []
    if method.mi:
        layers, window = head.config.block
        lines.append(f"q = h ++ GELU(L_h(the last {window} states of the last {layers} layers))")
    return [*lines, *differences(head), *_logit(_cases(head)), *_distribution(head)]


def differences(head: Head) -> list[str]:
    """The projections that this head learns as what they add to that of the vocabulary; of separate ones, none."""
    return [f"f_{name} = f_V + L_{name}(q)" for name in reversed([*head.L]) if name in head.differences]


def _cases(head: Head) -> list[tuple[str, str]]:
    """Where and what, the last writer first."""
    cases = [(ELSE, "f_V . w_x")]
    for partition in head.partitions:
        where, what = partition.where, partition.what
        same = cases[0][0] in (where, ELSE)  # now is one line, not several
        what = what.replace("now", cases[0][1]) if same else what
        cases = [(where, what), *(case for case in cases if case[0] != where)]
    return cases


def _logit(cases: list[tuple[str, str]]) -> list[str]:
    if len(cases) == 1:
        return [f"Logit(x) = {cases[0][1]}"]
    width = max(len(what) for _, what in cases)
    return [
        f"{'Logit(x) = ' if place == 0 else '':<11}{what:<{width}}   {where if where == ELSE else f'if {where}'}"
        for place, (where, what) in enumerate(cases)
    ]


def _distribution(head: Head) -> list[str]:
    special = head.prior or (head.gate if isinstance(head.gate, (PointerGenerator, PointerSentinel)) else None)
    text = "P(x) = softmax(Logit)(x)" if special is None else special.equation
    return text.split(",   ")


def parameterisation(head: Head) -> list[str]:
    """How this head learns what its equations say: differences, divisors, what Mi reads."""
    lines = [*differences(head)]
    skips = [name for name, part in head.L.items() if isinstance(part, Projection) and part.skip]
    lines += [f"f_{name} = h + L_{name}(q)" for name in skips]
    if head.L_h is not None and head.L_h.unit:
        lines.append("L_h reads states of length sqrt(D)")
    if head.config.learnt.scaled and head.L:
        lines.append("every L is divided by the square root of its width")
        if (lead := head.config.learnt.lead) != 1.0:
            lines.append(f"L_V and L_h are divided by {lead:g} times less")
    elif divided := [name for name, part in head.L.items() if isinstance(part, Projection) and part.divisor != 1.0]:
        names, are = ", ".join(f"L_{name}" for name in sorted(divided)), "are" if len(divided) > 1 else "is"
        lines.append(f"{names} {are} divided by D^(1/4)")
    return lines
