"""How a command ends: its exit code, and errors as one line on stderr."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from unbottle.cli.output import show_text
from unbottle.progress import is_first, process_number, processes

OK, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
PATIENCE = 30.0  # seconds; if the first process fails with the same error, the launcher ends the others by then


@dataclass
class End:
    code: int = OK


@contextmanager
def ending(*, debug: bool, resumes: bool = False) -> Iterator[End]:
    """Errors become an exit code and one line on stderr; the traceback only if asked for."""
    end = End()
    try:
        yield end
        sys.stdout.flush()
        if group := process_group():
            group.barrier()  # no process leaves while another still needs it
    except (KeyboardInterrupt, typer.Abort):
        end.code = INTERRUPTED
    except SystemExit as stop:  # a preempted training: its message is not an error
        end.code = stop.code if isinstance(stop.code, int) else FAILED
        if is_first() and (message := getattr(stop, "message", "")):
            print(f"unbottle: {message}", file=sys.stderr)
    except BrokenPipeError:  # as in unbottle ... | head
        end.code = FAILED
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        end.code = exit_code(error)
        if not is_first():
            time.sleep(PATIENCE)
        if debug:
            traceback.print_exc()
        if message := one_line(error):
            who = "" if is_first() else f"process {process_number()}: "
            show_text(f"unbottle: {who}error: {message}", sys.stderr)
    if end.code == INTERRUPTED and is_first():
        print(f"Interrupted.{' Rerun the same command to resume.' if resumes else ''}", file=sys.stderr)
    if group := process_group():
        group.end_group()


def process_group() -> Any:
    """The module of distributed training, if this is one of several processes and it was imported."""
    return sys.modules.get("unbottle.train.distributed") if processes() > 1 else None


def exit_code(error: Exception) -> int:
    """REFUSED for a ValueError or OSError, which are about user input; FAILED for anything else."""
    known = getattr(error, "exit_code", None)  # typer's own: Exit, wrong options
    return known if isinstance(known, int) else REFUSED if isinstance(error, (ValueError, OSError)) else FAILED


def one_line(error: Exception) -> str:
    """The message of an error, on one line and without control characters."""
    if isinstance(error, typer.Exit):
        return ""
    formatted = getattr(error, "format_message", None)
    text = formatted() if formatted else str(error)
    if isinstance(error, OSError) and error.strerror:  # of the system: the file first, no error number
        reason = error.strerror.rstrip(".") + "."
        text = reason if error.filename is None else f"{error.filename}: {reason}"
    if not isinstance(error, (ValueError, OSError)) and not formatted:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
