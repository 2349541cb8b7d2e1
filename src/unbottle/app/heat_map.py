"""heat_map: what the order of a list does, as HTML; a row for each order, a column for each option."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from unbottle.app.shuffling import Shuffled

STRONGEST = 70  # per cent of the colour behind a share of 1: the number on it stays readable


def heat_map(found: Sequence[Shuffled], waiting: Sequence[str] = ()) -> str:
    """A map for each model."""
    maps = "".join(map(_map, found))
    maps += "".join(
        f'<section class="ub-card ub-waiting"><h3>{escape(name)}</h3><p>shuffling…</p></section>' for name in waiting
    )
    note = (
        '<p class="ub-note">A row is one order of the list, a column one option: its share among the options, and '
        "the place it was listed at. <b>Bold</b>: the most likely of its row. If order did not matter, all rows would "
        "look the same. Evenness is 1 if all options are equally likely.</p>"
    )
    return f'<div class="ub-columns ub-wide">{maps}</div>{note}'


def _map(each: Shuffled) -> str:
    options = each.row.options
    head = "".join(f'<th scope="col">{escape(option)}</th>' for option in options)
    body = "".join(
        f'<tr><th scope="row">{number}</th>{_cells(order, share, options)}</tr>'
        for number, (order, share) in enumerate(zip(each.orders, each.shares, strict=True), 1)
    )
    row = each.row
    facts = {
        "evenness": f"{row.evenness:.3f}",
        "winner": escape(row.winner),
        "winner changes": f"{row.winner_changes:.0%}",
        "all options": f"{row.mass:.1%}",
    }
    told = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return (
        f'<section class="ub-card"><h3>{escape(each.model)} <small>{escape(each.method)}</small></h3>'
        f'<dl class="ub-facts">{told}</dl><div class="ub-scroll" tabindex="0" role="region" '
        f'aria-label="Heat map of {escape(each.model)}"><table class="ub-heat"><thead><tr><th scope="col">order</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _cells(order: Sequence[str], share: dict[str, float], options: Sequence[str]) -> str:
    best = max(share, key=lambda option: share[option])
    listed = ", ".join(order)
    return "".join(
        f'<td style="--ub-heat: {STRONGEST * share[option]:.1f}%" title="{escape(listed)}"'
        f"{' class=ub-best' if option == best else ''}>{share[option]:.0%}<sub>{order.index(option) + 1}</sub></td>"
        for option in options
    )
