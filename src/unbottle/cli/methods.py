"""unbottle methods: every output layer with its equation, what it adds to a model, and the paper's numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from unbottle.cli.early import check_choice, check_method, check_model

if TYPE_CHECKING:
    from unbottle.spec import Method

EXAMPLES = """
unbottle methods
unbottle methods softmax+cpr:20,100+mi mos --shape smollm2-135m
unbottle methods --shape t5-small
unbottle methods s+cepr:20 --model t5-base
unbottle methods --markdown
"""
SHAPE = "gpt2"


def methods(
    method: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD...", help="Any method. [those of the paper]")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A folder, a hub model or smollm2; only its config is read.")
    ] = None,
    shape: Annotated[
        str, typer.Option(metavar="SHAPE", help="Instead of a model: gpt2, t5-small, bart-base, smollm2-135m, ...")
    ] = SHAPE,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As the tables of the README.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print methods: their equations, what they change, the parameters they add, and the numbers of the paper.

    A method is a base and parts: softmax (or s), mos:K, pg, ps, copynet; c, e, p, r:k1,k2, mi:LxW, wbwr:k. Parameters
    are those of a head for the model or shape, counted without weights: nothing is downloaded but a config.
    """
    from unbottle.bench.shape import SHAPES

    for name in method or ():
        check_method(name)
    check_model(model)
    check_choice("shape", shape, tuple(SHAPES))
    from unbottle.cli.method_sheet import Sheet
    from unbottle.cli.plain_model import plain_model
    from unbottle.head.equations import LEGEND  # and every partition registers its letter
    from unbottle.spec import PAPER_METHODS, Method

    wanted = [Method.parse(name) for name in method or PAPER_METHODS]
    plain = plain_model(model, shape)
    encoder = plain.config.is_encoder_decoder
    fitting = wanted if method else [each for each in wanted if fits(each, encoder_decoder=encoder)]
    sheets = [Sheet.of(each, plain) for each in fitting]
    if as_json:
        print(json.dumps([sheet.to_dict() for sheet in sheets], indent=1))
        return
    if as_markdown:
        from unbottle.cli.method_tables import methods as table
        from unbottle.cli.method_tables import parts

        print(f"{parts()}\n\n{table(sheets)}")
        return
    print("\n\n".join(map(str, sheets)))
    width = max(map(len, LEGEND))
    print("\nOf several lines of a logit the first that applies counts.")
    print("\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in LEGEND.items()))
    if left := [str(each) for each in wanted if each not in fitting]:
        print(f"\nNot for a model {'with' if encoder else 'without'} an encoder: {', '.join(left)}")


def fits(method: Method, *, encoder_decoder: bool) -> bool:
    """Whether a model of this kind can have it: e needs an encoder, and the second pass of wbwr none."""
    from unbottle.spec import LETTERS

    needs_encoder = any(LETTERS[letter].needs_source for letter in method.letters)
    return method.wbwr is None if encoder_decoder else not needs_encoder
