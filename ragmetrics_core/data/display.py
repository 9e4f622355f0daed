"""What people read at a prompt and in a notebook's cell.

There is the judge in words, and HTML in which all text is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ragmetrics_core.data.embedded_judge import EMBEDDED
from ragmetrics_core.data.frozen import clean

_LONGEST = 2000
_LEFT = 'style="text-align:left"'

Shown = str | Sequence[str]


def judge_in_words(name: str) -> str:
    """The name of a judge, and of the embedded one what it is worth."""
    return (
        f"{name} (compares words; catches gross failures)" if name in EMBEDDED else name
    )


def judges_in_words(
    names: Iterable[str], addresses: Mapping[str, Sequence[str]]
) -> str:
    """Return the names of judges in words.

    Each name comes with the addresses that were asked, where they are known.
    """
    judges = []
    for name in names:
        addresses_of_judge = ", ".join(addresses.get(name, ()))
        judges.append(
            f"{judge_in_words(name)} at {addresses_of_judge}"
            if addresses_of_judge
            else judge_in_words(name)
        )
    return ", ".join(judges)


def element(tag: str, texts: Iterable[Shown]) -> str:
    """An element for each text, one with an ordered list in it for several.

    A long text is cut.
    """
    return "".join(f"<{tag}>{_inner(text)}</{tag.split()[0]}>" for text in texts)


def table(rows: Iterable[Sequence[Shown]], headings: Sequence[str] = ()) -> str:
    """A table whose first column names what stands in the others."""
    head = f"<thead><tr>{element('th', headings)}</tr></thead>" if headings else ""
    # notebooks put cells to the right, as for numbers
    cell = "td" if headings else f"td {_LEFT}"
    body = "".join(
        f"<tr>{element('th', row[:1])}{element(cell, row[1:])}</tr>" for row in rows
    )
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _inner(text: Shown) -> str:
    if not isinstance(text, str):
        return f"<ol {_LEFT}>{element('li', text)}</ol>"
    text = str(clean(text))
    return escape(
        text
        if len(text) <= _LONGEST
        else f"{text[:_LONGEST]} … ({len(text):,} characters)"
    )
