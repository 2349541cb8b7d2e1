"""unbottle app: a local web page to try models."""

from __future__ import annotations

import importlib.util
import ipaddress
import socket
import sys
import webbrowser
from threading import Event
from typing import TYPE_CHECKING, Annotated

from unbottle.cli.options import DryRun, argument, check_model, flag, option
from unbottle.cli.output import config_of

if TYPE_CHECKING:
    from unbottle.app.predictions import ShownModel

EXAMPLES = """
unbottle app gpt2 runs/cpr/model
unbottle app runs/softmax/model runs/cpr/model --open
unbottle app runs/cepr/model --port 8000
"""
LOCAL = "127.0.0.1"
MOST = 4  # columns that can be read side by side


def app(
    model: Annotated[list[str], argument("MODEL", "Up to 4 folders or hub models; or smollm2.")],
    host: Annotated[str, option("ADDRESS", "Address to listen on.")] = LOCAL,
    port: Annotated[int | None, option("N", "Port. [first free one from 7860]")] = None,
    open_page: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Open a local web page: next words, continuations, summaries and the order of lists, models side by side.

    Causal models and encoder-decoder models may be mixed; each gets the tabs it can fill. The page offers
    only the models named here, only to this machine, and loads nothing from the internet. Ctrl-C ends it.
    """
    if len(model) > MOST:
        raise ValueError(f"{len(model)} models: at most {MOST} fit side by side. Give fewer.")
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"--port {port}: expected a number from 1 to 65535.")
    config_of("app", {"models": model, "host": host, "port": port, "open": open_page}, dry_run=dry_run)
    check_model(*model)
    if not is_loopback(host):
        print(
            f"unbottle: warning: --host {host}: others in the network can use these models without a password. "
            f"The default is {LOCAL}.",
            file=sys.stderr,
        )
    show(model, host=host, port=port, open_page=open_page)


def show(paths: list[str], *, host: str, port: int | None, open_page: bool) -> None:
    """Load the models, serve the page, wait for Ctrl-C."""
    if importlib.util.find_spec("gradio") is None:
        raise ValueError("the page needs Gradio, which is not installed. Get it with: pip install 'unbottle[app]'")
    refuse_address(host, port)
    models = shown_models(paths)
    from unbottle.app.page import served  # after the models: their errors need not wait for Gradio

    print("Looking for examples", file=sys.stderr)
    with served(models, host=host, port=port) as address:
        print(f"Open {address} in a browser; Ctrl-C here ends it.", flush=True)
        if open_page:
            webbrowser.open(address)
        Event().wait()


def shown_models(paths: list[str]) -> list[ShownModel]:
    """The models, on the best device, and the one that their heads share."""
    from unbottle.app.predictions import ShownModel, with_base
    from unbottle.cli.models import any_model, short_names
    from unbottle.eval.inference import best_device

    models = []
    for name, path in zip(short_names(paths), paths, strict=True):
        print(f"Loading {path}", file=sys.stderr)
        network, tokenizer = any_model(path)
        models.append(ShownModel(name=name, model=network.to(best_device()).eval(), tokenizer=tokenizer))
    return with_base(models)


def refuse_address(host: str, port: int | None) -> None:
    """Raise OSError before a model is loaded if nothing can listen there; without a port, Gradio finds a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port or 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that just ended is no obstacle
            listener.bind(address)
    except OSError as error:
        where = f"--host {host}" + ("" if port is None else f" --port {port}")
        raise OSError(
            f"{where}: nothing can listen there ({error.strerror}). Give another, or leave it out."
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
