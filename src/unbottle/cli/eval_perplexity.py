"""unbottle eval perplexity: how well models predict a text, and which of its tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbottle.cli.options import MODELS_HELP, TEXT_HELP, DryRun, OutputFolder, check_model
from unbottle.cli.output import show
from unbottle.cli.text_part import HELP, TextPart
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from unbottle.eval.perplexity import Perplexity

EXAMPLES = """
unbottle eval perplexity gpt2 runs/cpr/model --data wikitext-2 --output runs/perplexity
unbottle eval perplexity runs/demo/softmax/model runs/demo/cpr/model --data my-text.txt
unbottle eval perplexity runs/cpr/model --data test.jsonl --text-column body --reference runs/softmax/model
unbottle eval perplexity runs/cpr/model --data my-text.txt --part test --length 1024 --stride 512 --tagger rules
"""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How it is measured."""

    length: int
    stride: int
    k: int
    tagger: str
    reference: str | None
    batch: int


def eval_perplexity(
    model: Annotated[list[str], typer.Argument(metavar="MODEL...", help=MODELS_HELP)],
    data: Annotated[
        str,
        typer.Option(metavar="PATH", help=TEXT_HELP),
    ],
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The column that holds texts.")] = "text",
    part: Annotated[str | None, typer.Option(metavar="PART", help=HELP)] = None,
    length: Annotated[int, typer.Option(metavar="N", help="Tokens of a window.")] = 200,
    stride: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens from one window to the next; only new ones count. [length]")
    ] = None,
    k: Annotated[int, typer.Option(metavar="N", help="Words of W(k), the most likely ones.")] = 100,
    tagger: Annotated[
        str, typer.Option(metavar="TAGGER", help="Of proper nouns: auto, spacy, spacy:PATH, nltk, rules, or none.")
    ] = "auto",
    reference: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Whose W(k) it is, for all models. [each model's own]")
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Windows at once.")] = 4,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Perplexity of a text, and of its tokens by where they were: in the context, in W(k), or elsewhere.

    The first line says what was measured: which part, and how many tokens. The text is cut into windows; the first
    token of a window is read, not predicted. A token that stands in the window before its place counts as context, else
    as top if it is among the k most likely words, else as elsewhere. Proper nouns are what the tagger finds. Models
    that are compared need one tokenizer, and --reference makes their groups the same.
    """
    from unbottle.cli.output import config_of, prepare, write_run

    text = TextPart(data=data, column=text_column, part=part)
    measure = Measure(
        length=length, stride=length if stride is None else stride, k=k, tagger=tagger, reference=reference, batch=batch
    )  # fmt: skip
    config = config_of("eval perplexity", {"models": model, **vars(text), **vars(measure)})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    text.check()
    for path in (*model, reference):
        check_model(path)
    prepare(output)
    results, measured = evaluate(model, text, measure)
    show(document(results, measured))
    found = {"measured": measured, "models": {name: result.to_dict() for name, result in results.items()}}
    write_run(output, config, found)


def evaluate(models: Sequence[str], text: TextPart, measure: Measure) -> tuple[dict[str, Perplexity], str]:
    """The results, and what was measured. Only one model is in memory at a time, and the reference."""
    from unbottle.cli.models import causal_model, refuse_other_kind, short_names
    from unbottle.eval.inference import best_device
    from unbottle.eval.perplexity import Overlapping, perplexity
    from unbottle.eval.proper_nouns import tagger as tagger_of

    for path in (*models, *filter(None, [measure.reference])):  # before the first of them has worked for an hour
        refuse_other_kind(path, encoder_decoder=False)
    tagger = None if measure.tagger == "none" else tagger_of(measure.tagger)
    reference, vocabulary, excerpt = None, None, None
    if measure.reference is not None:
        reference, tokenizer = causal_model(measure.reference)
        reference, vocabulary = reference.to(best_device()), tokenizer.get_vocab()
    results: dict[str, Any] = {}
    for path, name in zip(models, short_names(models), strict=True):
        model, tokenizer = causal_model(path)
        if vocabulary is not None and tokenizer.get_vocab() != vocabulary:
            raise ValueError(f"model {path!r} has another tokenizer: perplexities of other tokens do not compare.")
        if excerpt is None:
            vocabulary, excerpt = tokenizer.get_vocab(), text.excerpt(tokenizer)
        windows = Overlapping(excerpt.ids, measure.length, measure.stride)
        with progress() as report:
            results[name] = perplexity(
                model.to(best_device()),
                windows,
                tokenizer=tokenizer,
                k=measure.k,
                tagger=tagger,
                reference=reference,
                batch=measure.batch,
                report=report,
            )
    return results, "" if excerpt is None else excerpt.about


def document(results: Mapping[str, Perplexity], measured: str) -> str:
    """What was measured; a row for each model: perplexity, and that of each group."""
    first = next(iter(results.values()))
    title = ["model", "tokens", "loss", "perplexity", *first.groups]
    rows = [
        [name, str(found.tokens), number(found.loss, 4), number(found.perplexity, 3)]
        + [number(group.perplexity, 3) for group in found.groups.values()]
        for name, found in results.items()
    ]
    shares = ", ".join(f"{name} {group.share:.1%}" for name, group in first.groups.items())
    stated = first.windowing
    notes = [
        f"{stated['windows']} windows of {stated['length']} tokens, {stated['stride']} apart; the first token of a "
        f"window is {stated['first token of a window']}; overlap: {stated['overlap']}.",
        f"Perplexity by where the true token was; W({first.k}) of {first.top_of}. Shares of the first model: {shares}.",
    ]
    if first.tagger:
        notes.append(f"Proper nouns by {first.tagger}.")
    return "\n\n".join([f"Measured: {measured}", Table(title, rows).markdown(), *notes])
