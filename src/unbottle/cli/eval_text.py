"""unbottle eval perplexity and unbottle eval completion: how well models predict a text, and continue it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbottle.cli.options import (
    MODEL_HELP,
    TEXT_HELP,
    BatchSize,
    DryRun,
    ModelsArgument,
    OutputFolder,
    SampledBatch,
    TaggerOption,
    argument,
    check_choice,
    check_file,
    check_model,
    check_place,
    flag,
    option,
)
from unbottle.cli.output import by_implementation, config_of, prepare, show, write_run
from unbottle.progress import progress
from unbottle.tables import Table, number

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

    from unbottle.data.sources import Part
    from unbottle.data.tokens import TokenIds
    from unbottle.eval.completion import Completion
    from unbottle.eval.perplexity import Perplexity

PERPLEXITY_EXAMPLES = """
unbottle eval perplexity gpt2 runs/cpr/model --data wikitext-2 --output runs/perplexity
unbottle eval perplexity runs/demo/softmax/model runs/demo/cpr/model --data my-text.txt
unbottle eval perplexity runs/cpr/model --data test.jsonl --text-column body --reference runs/softmax/model
unbottle eval perplexity runs/cpr/model --data my-text.txt --part test --length 1024 --stride 512 --tagger rules
"""
COMPLETION_EXAMPLES = """
unbottle eval completion runs/cpr/model --data wikitext-2 --output runs/completion
unbottle eval completion runs/cpr/model --data my-text.txt --prompts 20,70 --samples 100 --seed 1
unbottle eval completion --from runs/completion/completions.jsonl --tagger rules
"""
WHOLE = "all"
PARTS = ("test", "valid", "train", WHOLE)

TextColumn = Annotated[str, option("NAME", "Column of texts.")]
PartOption = Annotated[
    str | None,
    option("PART", "test, valid, train or all; data without parts is split 96/2/2. [its own test part, or all]"),
]


def eval_perplexity(
    model: ModelsArgument,
    data: Annotated[str, option("PATH", TEXT_HELP)],
    text_column: TextColumn = "text",
    part: PartOption = None,
    length: Annotated[int, option("N", "Number of tokens in a window.")] = 200,
    stride: Annotated[
        int | None, option("N", "Tokens from one window to the next; only new ones count. [length]")
    ] = None,
    k: Annotated[int, option("N", "Number of most likely words in W(k).")] = 100,
    tagger: Annotated[
        str, option("TAGGER", "Tagger of proper nouns: auto, spacy[:PATH], nltk, rules or none.")
    ] = "auto",
    reference: Annotated[
        str | None, option("MODEL", "Model whose W(k) is used for all models. [each model's own]")
    ] = None,
    batch: BatchSize = 4,
    output: OutputFolder = None,
    dry_run: DryRun = False,
) -> None:
    """Perplexity of a text, and of its tokens by where they were: in the context, in W(k), or elsewhere.

    The first line says what was measured: which part, and how many tokens. The text is cut into windows; the first
    token of a window is read, not predicted. A token that stands in the window before its place counts as context, else
    as top if it is among the k most likely words, else as elsewhere. Proper nouns are what the tagger finds. Models
    that are compared need one tokenizer, and --reference makes their groups the same.
    """
    text = TextPart(data=data, column=text_column, part=part)
    stride = length if stride is None else stride
    options: dict[str, Any] = {"k": k, "tagger": tagger, "reference": reference, "batch": batch}
    settings = {"models": model, **vars(text), "length": length, "stride": stride, **options}
    config = config_of("eval perplexity", settings, dry_run=dry_run)
    text.check()
    check_model(*model, reference)
    prepare(output)
    from unbottle.cli.models import causal_models, config_of_model
    from unbottle.eval.perplexity import Overlapping, perplexity
    from unbottle.eval.proper_nouns import tagger as tagger_of

    for path in model:  # all of them, before the reference is loaded
        config_of_model(path, encoder_decoder=False)
    options["tagger"] = None if tagger == "none" else tagger_of(tagger)
    vocabulary, ids, about = None, None, ""
    if reference is not None:
        ((_, options["reference"], tokenizer),) = causal_models([reference])
        vocabulary = tokenizer.get_vocab()
    results: dict[str, Perplexity] = {}
    for path, (name, network, tokenizer) in zip(model, causal_models(model), strict=True):  # one in memory at a time
        if vocabulary is not None and tokenizer.get_vocab() != vocabulary:
            raise ValueError(f"model {path!r} has another tokenizer: perplexities of other tokens do not compare.")
        if ids is None:
            vocabulary, (ids, about) = tokenizer.get_vocab(), text.tokenize(tokenizer)
        windows = Overlapping(ids, length, stride)
        with progress() as report:
            results[name] = perplexity(network, windows, tokenizer=tokenizer, report=report, **options)
    show(perplexity_document(results, about))
    by_model = {name: result.to_dict() for name, result in results.items()}
    write_run(output, config, {"measured": about, "models": by_model})


def perplexity_document(results: Mapping[str, Perplexity], about: str) -> str:
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


def eval_completion(
    model: Annotated[str | None, argument("MODEL", MODEL_HELP)] = None,
    data: Annotated[str | None, option("PATH", TEXT_HELP)] = None,
    text_column: TextColumn = "text",
    part: PartOption = None,
    prompts: Annotated[str, option("N,N", "Number of words in a prompt.")] = "20,70,120",
    words: Annotated[int, option("N", "Number of words to generate.")] = 50,
    top_k: Annotated[int, option("N", "Number of words to sample from.")] = 5,
    samples: Annotated[int, option("N", "Number of excerpts; each is used with all lengths of prompts.")] = 1000,
    draws: Annotated[int, option("N", "Number of continuations of each prompt.")] = 3,
    seed: Annotated[int, option("N", "Random seed for excerpts and sampling.")] = 0,
    batch: SampledBatch = 16,
    tagger: TaggerOption = "auto",
    stemmer: Annotated[
        bool, flag("--stemmer", "Compare word stems in R1, R1C and R2, as ROUGE of summaries does.")
    ] = False,
    from_file: Annotated[
        Path | None, option("FILE", "Score existing completions again, without a model.", "--from")
    ] = None,
    output: Annotated[Path | None, option("DIR", "Folder for completions.jsonl, config.json and result.json.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Compare a model's continuations of texts with the true ones.

    R1 and R2 are ROUGE against the true continuation, R1C against the prompt, R1P and R1PC the same for proper nouns
    alone; P Ratio is the number of generated proper nouns divided by that in the true continuations. With --output,
    continuations are written as they come; if interrupted, rerun the same command to resume.
    """
    settings: dict[str, Any] = {"prompts": numbers(prompts), "words": words, "top_k": top_k, "samples": samples}
    settings |= {"draws": draws, "seed": seed, "batch": batch}
    files = {"data": data, "column": text_column, "part": part, "from": from_file}
    whole = {"model": model, **files, **settings, "tagger": tagger, "stemmer": stemmer}
    config = config_of("eval completion", whole, dry_run=dry_run)
    if from_file is not None and (model or data):
        raise ValueError("--from scores existing completions: give it without MODEL and --data.")
    check_file(from_file)
    check_model(model)
    text = TextPart(data=str(data), column=text_column, part=part)
    if from_file is None:
        if model is None or data is None:
            raise ValueError("nothing to complete. Give MODEL and --data PATH, or --from FILE.")
        text.check()
    prepare(output)
    from unbottle.cli.models import causal_models
    from unbottle.eval.completion import CompletionConfig, completion, read_completions, rescore
    from unbottle.eval.proper_nouns import tagger as tagger_of

    scoring: dict[str, Any] = {"tagger": tagger_of(tagger), "stemmer": stemmer}
    if from_file is not None:
        result = rescore(*read_completions(from_file), **scoring)
    else:
        protocol = CompletionConfig(**settings)
        ((_, network, tokenizer),) = causal_models([str(model)])
        texts = text.texts(tokenizer)
        with progress() as report:
            result = completion(network, tokenizer, texts, config=protocol, output=output, report=report, **scoring)
    show(completion_document(result))
    write_run(output, config, result.to_dict())


def numbers(text: str) -> tuple[int, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise ValueError(f"prompts {text!r}: expected numbers of words, as in 20,70,120.") from error


def completion_document(result: Completion) -> str:
    """A Markdown table with a row for each length of prompts and one for all, then the implementations."""
    names = [*result.implementations]
    rows = [[prompt, *(number(scores[name], 3) for name in names)] for prompt, scores in result.scores.items()]
    count = f"{result.continuations} continuations of {result.mean_words:.1f} words in the mean."
    table = Table(["words read", *names], rows).markdown()
    return "\n\n".join([table, count, by_implementation(result.implementations)])


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """A part of a text. A hub data set, or a folder with files train, valid and test, has parts of its own; any other
    text is split 96/2/2 and not shuffled. None: its own test part, or all of it if it has none."""

    data: str
    column: str
    part: str | None

    def check(self) -> None:
        if self.part is not None:
            check_choice("part", self.part, PARTS)
        check_place(self.data)

    def tokenize(self, tokenizer: Tokenizer) -> tuple[TokenIds, str]:
        """Token ids in one row, and a sentence that says which part of which text they are."""
        from unbottle.data import tokens_of
        from unbottle.experiments.corpora import Corpus

        part, locations = self._locations()
        if locations is None:
            corpus = Corpus.read(self.data, tokenizer, column=self.column)
            ids, total = getattr(corpus, part), sum(map(len, (corpus.train, corpus.valid, corpus.test)))
            about = (
                f"the part {part!r} of {self.data}, cut 96/2/2: {len(ids):,} of {total:,} tokens. --part all takes all"
            )
        else:
            ids = tokens_of(({"text": text} for text in self._texts(locations)), tokenizer)
            about = f"{'all' if part == WHOLE else f'the part {part!r}'} of {self.data}: {len(ids):,} tokens"
        if len(ids) < 2:
            raise ValueError(f"{about}, and 2 are the least. Give more text.")
        return ids, f"{about}."

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The texts of the part. A part of a split is decoded from its tokens, as one text."""
        _, locations = self._locations()
        if locations is not None:
            return self._texts(locations)
        ids, _ = self.tokenize(tokenizer)
        return [str(tokenizer.decode(ids.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False))]

    def _locations(self) -> tuple[str, list[Part] | None]:
        """The name of the part, and where it can be read; None if the text has to be split."""
        from unbottle.data.sources import PARTS as ALL
        from unbottle.data.sources import Part, parts_of

        locations = parts_of(self.data)
        part = self.part or ("test" if "test" in locations else WHOLE)
        if part == WHOLE:
            local = Path(self.data).expanduser().exists()
            return part, [Part(self.data)] if local else [*locations.values()]
        own = part in locations and (part != "train" or len(locations) == len(ALL))
        return part, [locations[part]] if own else None

    def _texts(self, locations: list[Part]) -> list[str]:
        from unbottle.data import TextSource, read_texts

        sources = [TextSource(path=place.path, column=self.column, split=place.split) for place in locations]
        return [row["text"] for source in sources for row in read_texts(source)]
