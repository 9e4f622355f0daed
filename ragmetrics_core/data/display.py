"""What people read at a prompt, in a notebook's cell and in a CI job's summary.

Text that comes from data (a row, a file of results, a judge's name) is foreign: it must
not be able to forge a line of a report. It reaches a terminal through ``one_line`` and
Markdown through ``markdown_text``; in HTML all text is escaped.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ragmetrics_core.data.frozen import replace_surrogates

# Characters that a terminal obeys: control characters, except line ends and tabs,
# separators of lines and paragraphs, and marks of the direction of writing.
_OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"
    "\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]"
)
# What Markdown and the HTML in it read. A "_" within a word marks nothing.
_MARKUP = re.compile(r"[\\`*{}\[\]<>|~&$!^]|(?<![^\W_])_|_(?![^\W_])")
# What becomes a mention, a reference or a link by itself: @name, #12, http://, www.
_LINKED = re.compile(r"[@#]|(?<=:)/|\bwww(?=\.)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "&#8203;"
_LONGEST_FOREIGN = 200
_LONGEST = 2000
_LEFT = 'style="text-align:left"'

_WORTH_OF_WORDS = "misses subtle failures, and some gross ones"
_CHANCE_ONLY = (
    "This covers chance, not a judge that is wrong in the same way each time."
)
_WORDS_ONLY = f"The judge only compares words: it {_WORTH_OF_WORDS}."

Shown = str | Sequence[str]


def is_terminal(stream: object) -> bool:
    """Tell whether a stream is a terminal; one that is missing, closed or bare is none."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # caught below
    except (AttributeError, OSError, ValueError):
        return False


def discard_output() -> None:
    """Throw away what is still to be printed, so that the interpreter ends quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def as_line(line: str) -> str:
    """Return a line of a report for a terminal, as it is laid out.

    A line end in it comes from data, and becomes a blank. Each character that a terminal
    obeys becomes its escape sequence in Unicode: such characters move the cursor or turn
    the direction of writing, so that a line would show something else than it holds.
    """
    on_one_line = " ".join(str(replace_surrogates(line)).splitlines())
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", on_one_line)


def one_line(text: str, longest: int = _LONGEST_FOREIGN) -> str:
    r"""Return text of data as a part of one line, for a terminal.

    Line ends and runs of blanks become one blank, so that the text begins no line.
    Characters that a terminal obeys become visible, and a long text is cut. Example:
    ``"a\n\nb"`` becomes ``"a b"``.

    Args:
        text: The text.
        longest: The most characters that are shown.
    """
    words = as_line(" ".join(text.split()))
    return words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…"


def markdown_text(text: str) -> str:
    r"""Return text of data, or a sentence that holds some, as a part of a Markdown line.

    It is on one line, marks nothing up, mentions nobody and links nowhere. It must not
    begin a line, where also a number or a dash would be read. Example: ``"**@ann**"``
    becomes ``"\*\*@&#8203;ann\*\*"``, which is shown as it was.
    """
    escaped = _MARKUP.sub(r"\\\g<0>", one_line(text, _LONGEST))
    return _LINKED.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", escaped)


def markdown_block(lines: Iterable[str]) -> str:
    """Return lines as a block of code in Markdown, which nothing in them can close."""
    text = "\n".join(map(as_line, lines))
    runs_of_ticks = re.findall("`+", text)
    fence = "`" * max(3, 1 + max(map(len, runs_of_ticks), default=0))
    return f"{fence}\n{text}\n{fence}"


def count_in_words(count: int, noun: str) -> str:
    """Return a count with its noun, e.g. ``1 row`` or ``2,000 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_in_words(names: Iterable[str], most: int = 5) -> str:
    """Join the first few names, and say how many more there are.

    Examples:
        >>> first_in_words(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    listed = list(names)
    words = ", ".join(listed[:most])
    n_more = len(listed) - most
    return f"{words} and {n_more} more" if n_more > 0 else words


def judge_in_words(name: str) -> str:
    """Return the name of a judge, and of the embedded one what it is worth."""
    if name != EMBEDDED:
        return name
    return f"words only ({name}: {_WORTH_OF_WORDS})"


def caution_about(judges: Iterable[str], *, has_range: bool = True) -> str:
    """Say what no interval and no test covers: mistakes that a judge repeats.

    It is "" where no range is given, and the judge is not the embedded one.
    """
    sentences = [_CHANCE_ONLY] if has_range else []
    if EMBEDDED in judges:
        sentences.append(_WORDS_ONLY)
    return " ".join(sentences)


def judges_in_words(
    names: Iterable[str], addresses: Mapping[str, Sequence[str]]
) -> str:
    """Return the names of judges in words.

    Each name comes with the addresses that were asked, where they are known.
    """
    return ", ".join(
        at_addresses(judge_in_words(name), addresses.get(name, ())) for name in names
    )


def at_addresses(judge: str, addresses: Sequence[str]) -> str:
    """Return a judge with the addresses that were asked, e.g. ``gpt at http://a, http://b``."""
    return f"{judge} at {', '.join(addresses)}" if addresses else judge


def element(tag: str, texts: Iterable[Shown]) -> str:
    """Return an element for each text, one with an ordered list in it for several.

    A long text is cut.
    """
    name = tag.split()[0]  # without attributes, e.g. td of "td style=…"
    elements: list[str] = []
    for text in texts:
        if isinstance(text, str):
            text = str(replace_surrogates(text))
            if len(text) > _LONGEST:
                text = f"{text[:_LONGEST]} … ({len(text):,} characters)"
            inner = escape(text)
        else:
            inner = f"<ol {_LEFT}>{element('li', text)}</ol>"
        elements.append(f"<{tag}>{inner}</{name}>")
    return "".join(elements)


def table(rows: Iterable[Sequence[Shown]], headings: Sequence[str] = ()) -> str:
    """Return a table whose first column names what stands in the others."""
    # notebooks put cells to the right
    name, cell = f"th {_LEFT}", f"td {_LEFT}"
    head = f"<thead><tr>{element(name, headings)}</tr></thead>" if headings else ""
    body = "".join(
        f"<tr>{element(name, row[:1])}{element(cell, row[1:])}</tr>" for row in rows
    )
    return f"<table>{head}<tbody>{body}</tbody></table>"


EMBEDDED = "lexical"
"""The name of the judge that needs no model."""


@dataclass(frozen=True, slots=True)
class AdherenceWorth:
    """How well the embedded judge tells supported answers from others.

    Args:
        auroc: Mean over sources; 0.5 is chance.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        answers: Number of labelled answers.
        sources: Number of sources.
        measured: When.
    """

    auroc: float
    low: float
    high: float
    answers: int
    sources: int
    measured: str


UNSEEN = AdherenceWorth(0.705, 0.69, 0.72, 3_169, 12, "November 2026")
"""On public sources that were never used for fitting; fit 3, the shipped one.

An earlier fit had 0.707 there. The rows are kept aside and were judged once for each.
"""
DEVELOPER = AdherenceWorth(0.85, 0.81, 0.88, 404, 4, "November 2026")
"""On the developer sources, each judged with weights fitted on the others.

From ``docs/cards/lexical.json``, rounded.
"""


_MODEL_BY_KEY = {
    "OPENAI_API_KEY": "gpt-4o-mini",
    "GEMINI_API_KEY": "gemini/gemini-2.0-flash",
    "MISTRAL_API_KEY": "mistral/mistral-small-latest",
    "GROQ_API_KEY": "groq/llama-3.1-8b-instant",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
}
OLLAMA_MODEL = "ollama/llama3.1"


def judge_of_this_machine() -> str:
    """The name of a judge that can be asked from here; "" where none is known.

    It is a model whose key is in the environment, else Ollama's where its program is.
    """
    for variable, model in _MODEL_BY_KEY.items():
        if os.environ.get(variable):
            return model
    return OLLAMA_MODEL if shutil.which("ollama") else ""


def way_to_a_judge() -> str:
    """Say how a judge that reads is named on this machine."""
    judge = judge_of_this_machine()
    if judge:
        return f'For real scores: --judge {judge} (in Python judge="{judge}").'
    return (
        'For real scores: --judge gpt-4o-mini or judge="gpt-4o-mini" (key in'
        f" OPENAI_API_KEY), or on this machine {OLLAMA_MODEL} (Ollama)."
    )


def unseen_worth() -> str:
    """Say how well the embedded judge does on sources that its weights never saw."""
    return (
        f"AUROC {UNSEEN.auroc:.3f} [{UNSEEN.low:.2f}, {UNSEEN.high:.2f}] on"
        f" {UNSEEN.sources} sources never used for fitting ({UNSEEN.answers:,} answers,"
        f" {UNSEEN.measured})"
    )


def adherence_worth() -> str:
    """Say what a score of adherence by words is worth, in two sentences."""
    return (
        "Adherence by words is a score of words, no probability."
        f" {unseen_worth()}, {DEVELOPER.auroc:.2f} [{DEVELOPER.low:.2f},"
        f" {DEVELOPER.high:.2f}] on {DEVELOPER.sources} developer sources."
    )
