"""Order bias: how the order of a list changes which of its words a model predicts next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, factorial, log
from random import Random

from transformers import PreTrainedTokenizerBase as Tokenizer

from unbottle.eval.inference import LanguageModel
from unbottle.eval.next_words import PROMPTS, Prompt, word_probabilities
from unbottle.progress import Progress, silent

TriedOrder = tuple[tuple[str, ...], dict[str, float]]  # the options as listed, and log p of each


@dataclass(frozen=True, kw_only=True)
class OrderBiasRow:
    """One prompt, over all orders of its options that were tried.

    evenness       = mean of  - sum_i q_i log q_i / log n,    q_i = p_i / sum_j p_j over the n options    (1: all alike)
    mass           = mean of  sum_i p_i;    outside = 1 - mass
    winner         = the option that is most often the most likely
    winner_changes = share of the orders with another one
    by_position    = mean of q for what is listed first, second, ...
    by_option      = mean of q for each option, wherever it stands

    If the prompt is no list to choose from but one to go on (`repeats` is False), mass is what should not be repeated.
    """

    prompt: str
    options: tuple[str, ...]
    repeats: bool
    orders: int
    evenness: float
    mass: float
    outside: float
    winner: str
    winner_changes: float
    by_position: tuple[float, ...]
    by_option: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class OrderBias:
    """A row for each prompt that lists options."""

    rows: tuple[OrderBiasRow, ...]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def order_bias(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt] = PROMPTS,
    *,
    shuffles: int = 20,
    seed: int = 0,
    report: Progress = silent,
) -> OrderBias:
    """Each prompt with its options in `shuffles` different orders: as given, then random ones, all if there are fewer.

    An option of several tokens counts with the probability of the whole word. Prompts with less than two options have
    no order and no row.
    """
    by_prompt = tried_orders(model, tokenizer, prompts, shuffles=shuffles, seed=seed, report=report)
    return OrderBias(rows=tuple(order_bias_row(prompt, tried) for prompt, tried in by_prompt.items()))


def tried_orders(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    *,
    shuffles: int = 20,
    seed: int = 0,
    report: Progress = silent,
) -> dict[Prompt, list[TriedOrder]]:
    """For each prompt that lists options, the log-probabilities of the options in every order, the original first."""
    if shuffles < 1:
        raise ValueError(f"shuffles={shuffles}: expected a number from 1.")
    listed = list(dict.fromkeys(prompt for prompt in prompts if len(prompt.options) > 1))
    tried = [(prompt, order) for prompt in listed for order in orders(prompt.options, shuffles, seed=seed)]
    queries = [(prompt.text(order), option) for prompt, order in tried for option in prompt.options]
    words = iter(word_probabilities(model, tokenizer, queries, report=report))
    by_prompt: dict[Prompt, list[TriedOrder]] = {}
    for prompt, order in tried:
        by_prompt.setdefault(prompt, []).append(
            (order, {option: next(words).log_probability for option in prompt.options})
        )
    return by_prompt


def orders(options: tuple[str, ...], number: int, *, seed: int = 0) -> list[tuple[str, ...]]:
    """`number` different orders, or as many as there are; the original first."""
    random = Random(f"orders {seed} {' '.join(options)}")
    distinct = {options: None}
    while len(distinct) < min(number, factorial(len(options))):
        distinct[tuple(random.sample(options, len(options)))] = None
    return list(distinct)


def order_bias_row(prompt: Prompt, tried: Sequence[TriedOrder]) -> OrderBiasRow:
    """The means over all orders of one prompt."""
    masses = [sum(map(exp, log_probability.values())) for _, log_probability in tried]
    shares = [renormalised(log_probability) for _, log_probability in tried]
    winners = Counter(max(share, key=lambda option: share[option]) for share in shares)
    winner, wins = winners.most_common(1)[0]
    mass = _mean(masses)
    return OrderBiasRow(
        prompt=str(prompt),
        options=prompt.options,
        repeats=prompt.repeats,
        orders=len(tried),
        evenness=_mean([evenness(list(share.values())) for share in shares]),
        mass=mass,
        outside=1 - mass,
        winner=winner,
        winner_changes=1 - wins / len(tried),
        by_position=tuple(
            _mean([share[order[place]] for (order, _), share in zip(tried, shares, strict=True)])
            for place in range(len(prompt.options))
        ),
        by_option=tuple(_mean([share[option] for share in shares]) for option in prompt.options),
    )


def renormalised(log_probability: Mapping[str, float]) -> dict[str, float]:
    """q_i = p_i / sum_j p_j, however small the p are."""
    most = max(log_probability.values())
    above = {option: exp(value - most) for option, value in log_probability.items()}
    return {option: value / sum(above.values()) for option, value in above.items()}


def evenness(share: Sequence[float]) -> float:
    """The entropy of a distribution, divided by that of an even one."""
    return -sum(q * log(q) for q in share if q > 0) / log(len(share))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
