"""unbottle generate and unbottle summarize: models continue prompts or summarize documents of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.eval_options import Batch, Beams, JsonColumn, MaxNewTokens, ModelsArgument, OutputFile, Sampling, TopK
from unbottle.cli.options import STDIN, Dropped, DryRun, SamplingSeed, check_choice, check_file, check_model
from unbottle.cli.output import show_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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


def generate(
    model: ModelsArgument,
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="Text to continue.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instead: a text, a jsonl file, or - for a text on stdin.")
    ] = None,
    sampling: Sampling = "greedy",
    top_k: TopK = 10,
    beams: Beams = 4,
    max_new_tokens: MaxNewTokens = 50,
    prompt_length: Annotated[
        int, typer.Option(metavar="N", help="Maximum number of prompt tokens; the last ones are kept.")
    ] = 1024,
    batch: Batch = 8,
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
        for path in model:
            check_model(path)
    from unbottle.eval.generation import Decoding, continue_prompts

    decoding = Decoding(
        sampling=sampling, top_k=top_k, beams=beams, max_length=max_new_tokens, source_length=prompt_length,
        batch=batch, seed=seed,
    )  # fmt: skip
    job = GenerationJob(
        command="generate", decoding=decoding, column=text_column, output=output, read="prompt", written="text",
        dropped_at="beginning",
    )  # fmt: skip

    def load() -> Generators:
        from unbottle.cli.models import causal_model, short_names
        from unbottle.eval.inference import best_device

        loaded: dict[str, tuple[PreTrainedModel, Generate]] = {}
        for path, name in zip(model, short_names(model), strict=True):
            network, tokenizer = causal_model(path)
            network = network.to(best_device())
            loaded[name] = (network, partial(continue_prompts, network, tokenizer, decoding=decoding))
        return loaded

    settings = {"models": model, "prompt": prompt, "file": file, "text_column": text_column}
    job.run(file, prompt, load, settings, dry_run=dry_run)


def summarize(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A text, a jsonl file, or - for a text on stdin.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="An encoder-decoder model, with a head or without.")],
    sampling: Sampling = "top-k",
    top_k: TopK = 10,
    beams: Beams = 4,
    max_new_tokens: MaxNewTokens = 128,
    source_length: Annotated[int, typer.Option(metavar="N", help="Maximum number of document tokens.")] = 1024,
    batch: Batch = 8,
    text_column: JsonColumn = "document",
    prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text before each document. [the prefix in the model's config, or nothing]"),
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
    job = summary_job(decoding, text_column, output)
    job.run(file, None, lambda: {model: load_summarizer(model, decoding)}, settings, dry_run=dry_run)


def summary_job(decoding: Decoding, column: str, output: Path | None) -> GenerationJob:
    return GenerationJob(
        command="summarize", decoding=decoding, column=column, output=output, read="document", written="summary",
        dropped_at="end",
    )  # fmt: skip


def load_summarizer(path: str, decoding: Decoding) -> tuple[PreTrainedModel, Generate]:
    """An encoder-decoder model, and a function that summarizes with it."""
    from unbottle.cli.models import seq2seq_model
    from unbottle.eval.generation import predictions
    from unbottle.eval.inference import best_device

    network, tokenizer = seq2seq_model(path)
    network = network.to(best_device())
    return network, partial(predictions, network, tokenizer, decoding=decoding)


Load = Callable[[], "Generators"]


@dataclass(frozen=True, kw_only=True)
class GenerationJob:
    """What a command generates, from which column of a jsonl file, where to, and how messages call it."""

    command: str
    decoding: Decoding
    column: str
    output: Path | None  # a file; None: stdout
    read: str
    written: str
    dropped_at: str  # the end of the input that is cut off if it is too long

    def run(
        self, file: str | None, text: str | None, load: Load, settings: Mapping[str, object], *, dry_run: bool
    ) -> None:
        """Generate for a text, a text file, stdin or a jsonl file. Errors come before models are loaded if possible."""
        from unbottle.cli.output import config_of
        from unbottle.progress import one_line_warnings

        if dry_run:
            output = None if self.output is None else str(self.output)
            config = config_of(self.command, {**settings, "output": output, **self.decoding.to_dict()})
            print(json.dumps(config, indent=1))
            return
        with one_line_warnings():
            if file is None:
                self.one(str(text), load)
            elif file.endswith((".jsonl", ".jsonl.gz")):
                self.many(self.documents(Path(file)), load)
            else:
                self.one(self.text_of(file), load)
            if self.output is not None:
                print(f"Written to {self.output}", file=sys.stderr)

    def one(self, text: str, load: Load) -> None:
        """The output of a single model alone; of several, each after its name."""
        from unbottle.cli.output import prepare_file
        from unbottle.files import write_text

        prepare_file(self.output)
        texts = {}
        generators, counts = self.counted(load())
        for (name, (_, generate)), dropped in zip(generators.items(), counts, strict=True):
            (prediction,) = generate([text])
            dropped.tell()
            texts[name] = prediction.text
        joined = "\n".join(texts.values() if len(texts) == 1 else (f"{k}:\n{v.strip()}\n" for k, v in texts.items()))
        if self.output is None:
            show_text(joined)
        else:
            write_text(self.output, joined + "\n")

    def many(self, documents: Documents, load: Load, *, prediction_column: str = "prediction") -> None:
        """A prediction for each document, to the output file or stdout."""
        from unbottle.cli.output import prepare_file
        from unbottle.eval.generation import write_predictions
        from unbottle.progress import progress

        prepare_file(self.output)
        generators, counts = self.counted(load())
        with progress() as report:
            try:
                write_predictions(
                    generators, documents, self.decoding, self.output,
                    column=prediction_column, what=self.read, report=report,
                )  # fmt: skip
            finally:
                for dropped in counts:
                    dropped.tell()

    def counted(self, generators: Generators) -> tuple[Generators, list[Dropped]]:
        """The generators, and counters of what they drop."""
        counts = [
            Dropped(self.read, self.written, self.dropped_at, name=name if len(generators) > 1 else "")
            for name in generators
        ]
        pairs = zip(generators.items(), counts, strict=True)
        return {name: (model, partial(_counted, run, count)) for (name, (model, run)), count in pairs}, counts

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


def _counted(
    generate: Generate, dropped: Dropped, texts: Iterable[str], *, first_batch: int = 0
) -> Iterator[Prediction]:
    return dropped.watch(generate(texts, first_batch=first_batch))


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
