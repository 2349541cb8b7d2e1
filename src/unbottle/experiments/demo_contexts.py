"""Act one of the demo: contexts after which two words are equally likely, and heads trained on such contexts.

A head is trained for seconds on some words and sentences and tested on others, at the one position that is ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from random import Random
from statistics import fmean

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedTokenizerBase

from unbottle.data.analogy import RELATIONS, Analogy, WordPair, analogies, cases, own_pairs, rows, split, training_text
from unbottle.eval.bootstrap import RatioStatistic, Resampling, interval
from unbottle.experiments.presets import Json
from unbottle.hf.head_inputs import layers_of, states
from unbottle.hf.modeling import HeadMixin
from unbottle.progress import Progress

SHOWN = {  # pairs whose diagonal is drawn: never trained on, with any seed
    "family": (("king", "queen"), ("man", "woman")),
    "capital-common": (("Paris", "France"), ("Berlin", "Germany")),
}
SENTENCES = {  # of the test: the one of the paper, and ours for persons. Those of templates.tsv are trained on
    "place": "I went to {first} and {second} before, and I love one of the places more, which is",
    "person": "I met the {first} and the {second} before, and I like one of the two more, which is the",
}
FEWEST = 7  # pairs of a relation: two are shown, and two for each part make a diagonal
READ = 32  # contexts that the backbone reads at once


@dataclass(frozen=True, kw_only=True)
class ContextSettings:
    """Contexts, and how heads are trained on them: all of them alike, with one learning rate."""

    train: int = 320
    test: int = 160
    epochs: int = 4
    batch: int = 16
    lr: float = 3e-4


def one_token_pairs(tokenizer: PreTrainedTokenizerBase) -> dict[str, list[WordPair]]:
    """The word pairs of the package of which both words are one token each, where a relation has enough of them."""

    def is_token(word: str) -> bool:
        return len(tokenizer(f" {word}", add_special_tokens=False)["input_ids"]) == 1

    known = {relation: [pair for pair in pairs if all(map(is_token, pair))] for relation, pairs in own_pairs().items()}
    return {relation: pairs for relation, pairs in known.items() if len(pairs) >= FEWEST}


def ambiguous_contexts(
    pairs: Mapping[str, Sequence[WordPair]], settings: ContextSettings, *, seed: int
) -> dict[str, list[Analogy]]:
    """Contexts to train on and to test with, which share neither a word nor a sentence. The shown ones come first.

    Each context comes twice, with its answers in both orders.
    """
    rest = {
        relation: [pair for pair in known if pair not in SHOWN.get(relation, ())] for relation, known in pairs.items()
    }
    divided = split(rest, seed=seed)
    random = Random(f"demo {seed}")
    contexts: dict[str, list[Analogy]] = {"train": [], "test": shown_contexts()}
    for relation, parts in divided.items():
        about = RELATIONS[relation]  # a place or a person
        trained = [text for kind, text in rows("templates.tsv") if kind == about]
        tested = [*SHOWN.get(relation, ()), *parts["valid"], *parts["test"]]
        for part, words, sentences, total in (
            ("train", parts["train"], trained, settings.train),
            ("test", tested, [SENTENCES[about]], settings.test),
        ):
            possible = cases(words, "diagonal")
            number = len(possible) * len(sentences)
            for index in random.sample(range(number), min(total // (2 * len(divided)), number)):
                case, sentence = divmod(index, len(sentences))
                contexts[part] += both_orders(relation, part, sentences[sentence], *possible[case])
    return contexts


def both_orders(relation: str, part: str, template: str, answers: WordPair, others: WordPair) -> list[Analogy]:
    return [
        Analogy(
            relation=relation,
            kind="diagonal",
            part=part,
            prompt=template.format(first=ordered[0], second=ordered[1]),
            answers=ordered,
            distractors=others,
        )
        for ordered in (answers, answers[::-1])
    ]


def shown_contexts() -> list[Analogy]:
    """The contexts whose four words are drawn, one for each relation of SHOWN."""
    return [
        both_orders(relation, "test", SENTENCES[RELATIONS[relation]], (a, d), (b, c))[0]
        for relation, ((a, b), (c, d)) in SHOWN.items()
    ]


def sentences() -> list[str]:
    """Sentences to train on with all words, those of the test too, for a backbone that is trained from scratch.

    A pretrained one has seen all words as well; heads are tested on words that no head was trained on.
    """
    return training_text(analogies(kinds=("diagonal",), relations=tuple(SHOWN)))


@dataclass(frozen=True, kw_only=True)
class StoredContexts:
    """Contexts as hidden states of a frozen backbone, padded on the left; only heads are computed from here on."""

    layers: Tensor  # B T L D
    ids: Tensor  # B T
    mask: Tensor  # B T
    words: Tensor  # B 4: answers, then the two others

    @classmethod
    def read(
        cls, model: HeadMixin, tokenizer: PreTrainedTokenizerBase, contexts: Sequence[Analogy], progress: Progress
    ) -> StoredContexts:
        """Read all contexts once, with a model that has a head."""
        spelled = [tokenizer(context.prompt, add_special_tokens=False)["input_ids"] for context in contexts]
        words = [
            [
                tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0]
                for word in (*item.answers, *item.distractors)
            ]
            for item in contexts
        ]
        longest = max(map(len, spelled))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in spelled])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in spelled])
        layers = []
        with torch.no_grad():
            for start in range(0, len(ids), READ):
                part = slice(start, start + READ)
                positions = (mask[part].cumsum(1) - 1).clamp(min=0)
                inputs = {"input_ids": ids[part], "attention_mask": mask[part], "position_ids": positions}
                layers.append(layers_of(model, inputs))
                progress(min(start + READ, len(ids)), len(ids), "reading ambiguous contexts")
        return cls(layers=torch.cat(layers), ids=ids, mask=mask, words=torch.tensor(words))

    def log_probabilities(self, model: HeadMixin, chosen: Tensor) -> Tensor:
        """Of the four words of each chosen context, at its end: B 4."""
        here = states(self.layers[chosen], self.ids[chosen], self.mask[chosen], None, past=None)
        prediction = model._predict(here, past=None, labels=None, num_items=None, logits_to_keep=1, skip_logits=False)
        assert prediction.logits is not None
        return prediction.logits[:, -1].log_softmax(-1).gather(-1, self.words[chosen])


def train_head(
    model: HeadMixin, contexts: StoredContexts, settings: ContextSettings, *, seed: int, progress: Progress
) -> None:
    """Train the head alone: the mean of -log p of both answers, AdamW with a rate that falls linearly to 0."""
    model.requires_grad_(False)
    head = model.head.requires_grad_(True).train()
    optimizer = torch.optim.AdamW(head.parameters(), lr=settings.lr, weight_decay=0.0)
    size = len(contexts.ids)
    steps = settings.epochs * -(-size // settings.batch)
    schedule = LambdaLR(optimizer, lambda step: 1 - step / steps)
    order = torch.Generator().manual_seed(seed)
    for _ in range(settings.epochs):
        for chosen in torch.randperm(size, generator=order).split(settings.batch):
            loss = -contexts.log_probabilities(model, chosen)[:, :2].mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress(schedule.last_epoch, steps, f"loss {loss.item():.2f}")
    head.eval()


@torch.no_grad()
def evaluate_head(model: HeadMixin, contexts: StoredContexts, num_shown: int) -> Json:
    """Perplexity of the two answers, and the probability of the answers and of the words between them.

    The first `num_shown` contexts are only drawn: the four probabilities of each.
    """
    chosen = torch.arange(len(contexts.ids)).split(READ)
    log_probs = torch.cat([contexts.log_probabilities(model, part) for part in chosen]).double()
    losses = (-log_probs[num_shown:, :2].mean(1)).tolist()
    probabilities = log_probs.exp()
    around = interval(RatioStatistic.mean(losses), Resampling())
    return {
        "perplexity": exp(fmean(losses)),
        "interval": None if around is None else [exp(limit) for limit in around],
        "answers": float(probabilities[num_shown:, :2].sum(1).mean()),
        "between": float(probabilities[num_shown:, 2:].sum(1).mean()),
        "shown": [[round(value, 6) for value in row] for row in probabilities[:num_shown].tolist()],
    }
