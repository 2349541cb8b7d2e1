"""unbottle generate and unbottle summarize: models continue prompts or summarize documents of a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbottle.cli.options import (
    STDIN,
    DryRun,
    ModelsArgument,
    SampledBatch,
    argument,
    check_choice,
    check_file,
    check_model,
    option,
)
from unbottle.cli.output import config_of, prepare_file, show_text
from unbottle.files import write_text
from unbottle.progress import one_line_warnings, progress

if TYPE_CHECKING:
    from unbottle.eval.generation import Decoding, Documents, Generate, Generators, Prediction

SAMPLING = ("greedy", "top-k", "beams")
EXAMPLES = """
unbottle generate runs/cpr/model --prompt "There are plates, keys and balls in front of me, and I pick up the"
unbottle generate gpt2 runs/cpr/model --prompt "The king and the woman" --max-new-tokens 20
unbottle generate runs/cpr/model --file story.txt --sampling beams
unbottle generate gpt2 runs/cpr/model --file prompts.jsonl --text-column prompt --output runs/generated.jsonl
"""
SUMMARIZE_EXAMPLES = """
unbottle summarize letter.txt --model runs/cepr/model
unbottle summarize - --model runs/cepr/model --sampling beams
unbottle summarize test.jsonl --model runs/cepr/model --text-column dialogue --output runs/predictions.jsonl
"""

OutputFile = Annotated[Path | None, option("FILE", "Output file. [stdout, with nothing else on it]")]
Sampling = Annotated[str, option("HOW", "greedy, top-k or beams.")]
TopK = Annotated[int, option("N", "Number of words to sample from, for --sampling top-k.", min=1)]
Beams = Annotated[int, option("N", "Number of beams, for --sampling beams.", min=1)]
MaxNewTokens = Annotated[int, option("N", "Maximum number of tokens to generate.", min=1)]
JsonColumn = Annotated[str, option("NAME", "Column of texts in a jsonl file.")]
SamplingSeed = Annotated[int, option("N", "Random seed for sampling.")]


def generate(
    model: ModelsArgument,
    prompt: Annotated[str | None, option("TEXT", "Text to continue.")] = None,
    file: Annotated[str | None, option("FILE", "Instead: a text, a jsonl file, or - for a text on stdin.")] = None,
    sampling: Sampling = "greedy",
    top_k: TopK = 10,
    beams: Beams = 4,
    max_new_tokens: MaxNewTokens = 50,
    prompt_length: Annotated[int, option("N", "Maximum number of prompt tokens; the last ones are kept.")] = 1024,
    batch: SampledBatch = 8,
    text_column: JsonColumn = "prompt",
    seed: SamplingSeed = 0,
    output: OutputFile = None,
    dry_run: DryRun = False,
) -> None:
    """Continue a text, or each prompt of a jsonl file, with one model or several side by side.

    The prompt is not repeated. Each line of a jsonl file is written with all its fields and `prediction`, or
    `predictions` by the names of several models, in order. With --output, lines are written as they come; if
    interrupted, rerun the same command to resume. A prompt that is too long loses its beginning, with a warning.
    """
    check_choice("sampling", sampling, SAMPLING)
    if not dry_run:
        if (prompt is None) == (file is None):
            raise ValueError("give either --prompt TEXT or --file FILE (- for stdin).")
        check_file(file)
        check_model(*model)
    from unbottle.eval.generation import Decoding, continue_prompts

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_new_tokens, source_length=prompt_length,
        batch=batch, seed=seed,
    )  # fmt: skip

    def load() -> Generators:
        from unbottle.cli.models import causal_models

        return {
            name: (network, partial(continue_prompts, network, tokenizer, decoding=decoding))
            for name, network, tokenizer in causal_models(model)
        }

    settings = {"models": model, "prompt": prompt, "file": file, "text_column": text_column}
    job = GenerationJob(command="generate", decoding=decoding, column=text_column, output=output)
    job.run(file, prompt, load, settings, dry_run=dry_run)


def summarize(
    file: Annotated[str, argument("FILE", "A text, a jsonl file, or - for a text on stdin.")],
    model: Annotated[str, option("MODEL", "An encoder-decoder model, with a head or without.")],
    sampling: Sampling = "top-k",
    top_k: TopK = 10,
    beams: Beams = 4,
    max_new_tokens: MaxNewTokens = 128,
    source_length: Annotated[int, option("N", "Maximum number of document tokens.")] = 1024,
    batch: SampledBatch = 8,
    text_column: JsonColumn = "document",
    prefix: Annotated[
        str | None, option("TEXT", "Text before each document. [the prefix in the model's config, or nothing]")
    ] = None,
    seed: SamplingSeed = 0,
    output: OutputFile = None,
    dry_run: DryRun = False,
) -> None:
    """Summarize a text, or each document of a jsonl file.

    Each line of a jsonl file is written with all its fields and `prediction`, in order. With --output, lines are
    written as they come; if interrupted, rerun the same command to resume with the same result. A document that is too
    long is cut, with a warning; an empty document has an empty summary.
    """
    check_choice("sampling", sampling, SAMPLING)
    if not dry_run:
        check_file(file)
        check_model(model)
    from unbottle.eval.generation import Decoding

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_new_tokens, source_length=source_length,
        batch=batch, prefix=prefix, seed=seed,
    )  # fmt: skip
    settings = {"file": file, "model": model, "text_column": text_column}
    job = GenerationJob(command="summarize", decoding=decoding, column=text_column, output=output)
    job.run(file, None, lambda: load_summarizer(model, decoding), settings, dry_run=dry_run)


def load_summarizer(path: str, decoding: Decoding) -> Generators:
    """An encoder-decoder model, and a function that summarizes with it."""
    from unbottle.cli.models import any_model
    from unbottle.eval.generation import predictions
    from unbottle.eval.inference import best_device

    model, tokenizer = any_model(path, encoder_decoder=True)
    model = model.to(best_device())
    return {path: (model, partial(predictions, model, tokenizer, decoding=decoding))}


Load = Callable[[], "Generators"]
WORDING = {  # of messages: what a command reads and writes, and which end of it is dropped if it is too long
    "generate": ("prompt", "text", "beginning"),
    "summarize": ("document", "summary", "end"),
}


@dataclass(frozen=True, kw_only=True)
class GenerationJob:
    """What a command generates, from which column of a jsonl file, and where to."""

    command: str
    decoding: Decoding
    column: str
    output: Path | None  # a file; None: stdout

    def run(
        self, file: str | None, text: str | None, load: Load, settings: Mapping[str, object], *, dry_run: bool
    ) -> None:
        """Generate for a text, a text file, stdin or a jsonl file. Errors come before models are loaded if possible."""
        config_of(self.command, {**settings, "output": self.output, **self.decoding.to_dict()}, dry_run=dry_run)
        with one_line_warnings():
            if file is not None and file.endswith((".jsonl", ".jsonl.gz")):
                self.many(self.documents(Path(file)), load)
            else:
                self.one(str(text) if file is None else self.text_of(file), load)
            if self.output is not None:
                print(f"Written to {self.output}", file=sys.stderr)

    def one(self, text: str, load: Load) -> None:
        """The output of a single model alone; of several, each after its name."""
        prepare_file(self.output)
        texts = {}
        with self.counted(load()) as generators:
            for name, (_, generate) in generators.items():
                (prediction,) = generate([text])
                texts[name] = prediction.text
        joined = "\n".join(texts.values() if len(texts) == 1 else (f"{k}:\n{v.strip()}\n" for k, v in texts.items()))
        if self.output is None:
            show_text(joined)
        else:
            write_text(self.output, joined + "\n")

    def many(self, documents: Documents, load: Load, *, prediction_column: str = "prediction") -> None:
        """A prediction for each document, to the output file or stdout."""
        from unbottle.eval.generation import write_predictions

        prepare_file(self.output)
        what, _, _ = WORDING[self.command]
        with self.counted(load()) as generators, progress() as report:
            write_predictions(
                generators, documents, self.decoding, self.output, column=prediction_column, what=what, report=report
            )

    @contextmanager
    def counted(self, generators: Generators) -> Iterator[Generators]:
        """The generators; what they drop is counted, and said at the end."""
        counts = {name: Dropped(*WORDING[self.command], name if len(generators) > 1 else "") for name in generators}
        try:
            yield {name: (model, partial(counts[name].watch, run)) for name, (model, run) in generators.items()}
        finally:
            for dropped in counts.values():
                dropped.tell()

    def text_of(self, file: str) -> str:
        """The text of a plain file, or of stdin."""
        if file == STDIN:
            try:
                return sys.stdin.buffer.read().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise ValueError(f"stdin: not a text in UTF-8 ({error.reason}).") from error
        from unbottle.data.sources import TABLES, file_type, read_text

        if (suffix := file_type(Path(file))) in TABLES:
            raise ValueError(
                f"{file}: {self.command} does not read {suffix}. Give a text, or a .jsonl or .jsonl.gz file."
            )
        return read_text(Path(file))

    def documents(self, path: Path) -> Documents:
        """The rows of a jsonl file, all of which are checked; texts are not kept in memory."""
        from unbottle.eval.generation import Documents

        if self.output is not None and self.output.resolve() == path.resolve():
            raise ValueError(f"--output {self.output}: that is the file to read. Give another one.")
        documents = Documents.of(partial(_rows, path, self.column), self.column)
        if not documents.total:
            raise ValueError(f"{path}: the file is empty.")
        return documents


class Dropped:
    """Counts texts that were truncated or empty. `model` is the name of the model, where there are several."""

    def __init__(self, read: str, written: str, end: str, model: str) -> None:
        self.read, self.written, self.end = read, written, end
        self.model = f"{model}: " if model else ""
        self.documents = self.cut = self.tokens = self.empty = 0

    def watch(self, generate: Generate, texts: Iterable[str], *, first_batch: int = 0) -> Iterator[Prediction]:
        """The predictions, counted as they pass."""
        for prediction in generate(texts, first_batch=first_batch):
            self.documents += 1
            self.cut += prediction.dropped > 0
            self.tokens += prediction.dropped
            self.empty += prediction.empty
            yield prediction

    def tell(self) -> None:
        """Print the counts on stderr, if there are any."""
        for kind, count, what in (
            ("warning", self.cut, f"too long: {self.tokens:,} tokens at the {self.end} were dropped."),
            ("note", self.empty, f"empty, and so is the {self.written}."),
        ):
            if count:
                one = f"the {self.read} is"
                subject = one if self.documents == 1 else f"{count} of {self.documents} {self.read}s are"
                print(f"unbottle: {kind}: {self.model}{subject} {what}", file=sys.stderr)


def _rows(path: Path, column: str, start: int = 0) -> Iterator[dict[str, object]]:
    """The rows of a jsonl file from number `start` on; a text may be null, which is empty."""
    from unbottle.data.sources import iter_jsonl

    for index, (number, row) in enumerate(iter_jsonl(path)):
        if column not in row:
            raise ValueError(
                f"{path}, line {number}: no field {column!r}. There are: {', '.join(row)}. Name it with --text-column."
            )
        if not isinstance(row[column], (str, type(None))):
            raise ValueError(f"{path}, line {number}: {column!r} is {type(row[column]).__name__}, not a text.")
        if index >= start:
            yield row
