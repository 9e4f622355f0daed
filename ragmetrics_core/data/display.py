"""What people read at a prompt and in a notebook's cell.

There is the judge in words, and HTML in which all text is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ragmetrics_core.data.embedded_judge import EMBEDDED
from ragmetrics_core.data.frozen import replace_surrogates

_LONGEST = 2000
_LEFT = 'style="text-align:left"'

_WORTH_OF_WORDS = "misses subtle failures, and some gross ones"
_CHANCE_ONLY = (
    "This covers chance, not a judge that is wrong in the same way each time."
)
_WORDS_ONLY = f"The judge only compares words: it {_WORTH_OF_WORDS}."

Shown = str | Sequence[str]


def count_in_words(count: int, noun: str) -> str:
    """Return a count with its noun, e.g. ``1 row`` or ``2,000 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def judge_in_words(name: str) -> str:
    """Return the name of a judge, and of the embedded one what it is worth."""
    if name not in EMBEDDED:
        return name
    return f"{name} (compares words; {_WORTH_OF_WORDS})"


def caution_about(judges: Iterable[str], *, has_range: bool = True) -> str:
    """Say what no interval and no test covers: mistakes that a judge repeats.

    It is "" where no range is given, and the judge is not the embedded one.
    """
    sentences = [_CHANCE_ONLY] if has_range else []
    if not set(judges).isdisjoint(EMBEDDED):
        sentences.append(_WORDS_ONLY)
    return " ".join(sentences)


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
    """Return an element for each text, one with an ordered list in it for several.

    A long text is cut.
    """
    name = tag.split()[0]  # without attributes, e.g. td of "td style=…"
    return "".join(f"<{tag}>{_inner(text)}</{name}>" for text in texts)


def table(rows: Iterable[Sequence[Shown]], headings: Sequence[str] = ()) -> str:
    """Return a table whose first column names what stands in the others."""
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
    text = str(replace_surrogates(text))
    return escape(
        text
        if len(text) <= _LONGEST
        else f"{text[:_LONGEST]} … ({len(text):,} characters)"
    )
