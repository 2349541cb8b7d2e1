"""unbottle eval perplexity: how well models predict a text, and which of its tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.eval_options import Data, ModelsArgument, PartOption, TextColumn, TextPart
from unbottle.cli.options import DryRun, OutputFolder, check_model
from unbottle.cli.output import show
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
class PerplexityOptions:
    """Options of the evaluation."""

    length: int
    stride: int
    k: int
    tagger: str
    reference: str | None
    batch: int


def eval_perplexity(
    model: ModelsArgument,
    data: Data,
    text_column: TextColumn = "text",
    part: PartOption = None,
    length: Annotated[int, typer.Option(metavar="N", help="Number of tokens in a window.")] = 200,
    stride: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens from one window to the next; only new ones count. [length]")
    ] = None,
    k: Annotated[int, typer.Option(metavar="N", help="Number of most likely words in W(k).")] = 100,
    tagger: Annotated[
        str, typer.Option(metavar="TAGGER", help="Tagger of proper nouns: auto, spacy[:PATH], nltk, rules or none.")
    ] = "auto",
    reference: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model whose W(k) is used for all models. [each model's own]")
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Batch size.")] = 4,
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
    options = PerplexityOptions(
        length=length, stride=length if stride is None else stride, k=k, tagger=tagger, reference=reference, batch=batch
    )  # fmt: skip
    config = config_of("eval perplexity", {"models": model, **vars(text), **vars(options)})
    if dry_run:
        print(json.dumps(config, indent=1))
        return
    text.check()
    for path in (*model, reference):
        check_model(path)
    prepare(output)
    results, about = evaluate(model, text, options)
    show(document(results, about))
    by_model = {name: result.to_dict() for name, result in results.items()}
    write_run(output, config, {"measured": about, "models": by_model})


def evaluate(models: Sequence[str], text: TextPart, options: PerplexityOptions) -> tuple[dict[str, Perplexity], str]:
    """The results, and which text was evaluated. Only one model is in memory at a time, and the reference."""
    from unbottle.cli.models import causal_model, refuse_other_kind, short_names
    from unbottle.eval.inference import best_device
    from unbottle.eval.perplexity import Overlapping, perplexity
    from unbottle.eval.proper_nouns import tagger as tagger_of

    for path in (*models, *filter(None, [options.reference])):  # all of them, before the first is evaluated
        refuse_other_kind(path, encoder_decoder=False)
    tagger = None if options.tagger == "none" else tagger_of(options.tagger)
    reference, vocabulary, tokenized = None, None, None
    if options.reference is not None:
        reference, tokenizer = causal_model(options.reference)
        reference, vocabulary = reference.to(best_device()), tokenizer.get_vocab()
    results: dict[str, Perplexity] = {}
    for path, name in zip(models, short_names(models), strict=True):
        model, tokenizer = causal_model(path)
        if vocabulary is not None and tokenizer.get_vocab() != vocabulary:
            raise ValueError(f"model {path!r} has another tokenizer: perplexities of other tokens do not compare.")
        if tokenized is None:
            vocabulary, tokenized = tokenizer.get_vocab(), text.tokenize(tokenizer)
        windows = Overlapping(tokenized.ids, options.length, options.stride)
        with progress() as report:
            results[name] = perplexity(
                model.to(best_device()),
                windows,
                tokenizer=tokenizer,
                k=options.k,
                tagger=tagger,
                reference=reference,
                batch=options.batch,
                report=report,
            )
    return results, "" if tokenized is None else tokenized.about


def document(results: Mapping[str, Perplexity], about: str) -> str:
    """Which text was evaluated, and a row for each model: its perplexity, and that of each group of tokens."""
    first = next(iter(results.values()))
    title = ["model", "tokens", "loss", "perplexity", *first.groups]
    rows = [
        [name, str(result.tokens), number(result.loss, 4), number(result.perplexity, 3)]
        + [number(group.perplexity, 3) for group in result.groups.values()]
        for name, result in results.items()
    ]
    shares = ", ".join(f"{name} {group.share:.1%}" for name, group in first.groups.items())
    windowing = first.windowing
    notes = [
        f"{windowing['windows']} windows of {windowing['length']} tokens, {windowing['stride']} apart; the first token "
        f"of a window is {windowing['first token of a window']}; overlap: {windowing['overlap']}.",
        f"Perplexity by where the true token was; W({first.k}) of {first.top_of}. Shares of the first model: {shares}.",
    ]
    if first.tagger:
        notes.append(f"Proper nouns by {first.tagger}.")
    return "\n\n".join([f"Measured: {about}", Table(title, rows).markdown(), *notes])
