"""Numbers of a text in one spelling, so that equal numbers meet."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from decimal import Decimal

_LONGEST = 20  # digits of a number that a word such as million may follow
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUP = re.compile(r"[.,](?=\d{3}(?:[.,]|$))")
_CITATION = re.compile(r"\[\d{1,3}(?:[,;–-] ?\d{1,3}){0,20}\]")
_POINTER = re.compile(
    r"\b(?:passage|context|document|source|chunk)s? (?:id"
    r" )?#?\d{1,2}\b|(?<!\w)\(?\d\)(?=\s)",
    re.I,
)
_NUMBERING = re.compile(r"^[ \t*#]*\(?\d{1,2}[.)]\*{0,2}(?=\s)", re.MULTILINE)
_GAP = re.compile("(?<=\\d)[ \u00a0\u2009\u202f'’](?=\\d)")
_SCALES = {
    "hundred": 2,
    "hundr": 2,
    "thousand": 3,
    "million": 6,
    "mn": 6,
    "billion": 9,
    "bn": 9,
    "trillion": 12,
}
_WRITTEN = re.compile(
    "(\\d{1,3}(?:["
    " \u00a0\u2009\u202f'’]\\d{3})+(?!\\d)(?:[.,]\\d+)?|\\d+(?:[.,]\\d+)*)(?:["
    f" \u00a0-]?({'|'.join(_SCALES)})\\b|(['’]?s)\\b)?"
)
# The end of a span of years, written short: 2018–19. Dates such as 2018-11-05 are left
# alone.
_YEARS = re.compile(r"(?<![\d–—/-])(\d\d)(\d\d)([–—/-])(\d\d)(?![\d–—/-])")


def number(token: str) -> str:
    """One spelling for equal numbers: ASCII digits, no group separators, no idle zeros.

    Args:
        token: Digits with points and commas between them.

    Returns:
        The number, e.g. ``"1998"`` for ``"1,998"`` and ``"2.5"`` for ``"02.50"``.
    """
    if not token.isascii():
        token = "".join(
            str(unicodedata.decimal(sign, "")) if sign.isdecimal() else sign
            for sign in token
        )
    token = _GROUP.sub("", token).replace(",", ".")
    if token.count(".") == 1:
        token = token.rstrip("0").rstrip(".")
    return token.lstrip("0") if token[:2].isdecimal() and token.strip("0") else token


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text, as ``number`` writes them.

    Every spelling counts: ``2018–19``, ``1 149``, ``53 million``.
    """
    spans = " ".join(map(_years, _YEARS.finditer(text)))
    found = (
        way
        for part in (text, spans)
        for written in _WRITTEN.finditer(part)
        for way in _spellings(written)
    )
    return frozenset[str]().union(*found)


def _spellings(written: re.Match[str]) -> list[set[str]]:
    """Numbers that may stand for one that is written so; one set of them suffices."""
    one = number(_GAP.sub("", written[1]))
    ways = [{one}, {number(part) for part in _NUMBER.findall(written[1])}]
    if written[2] and len(one) <= _LONGEST and one.count(".") < 2:
        ways.append({number(f"{Decimal(one).scaleb(_SCALES[written[2]]):f}")})
    return ways


def _decade(written: re.Match[str]) -> list[set[str]]:
    """A decade is borne out by each of its years, and by its short name."""
    century, tens = written[1][:-2], written[1][-2:]
    if not written[3] or not tens.endswith("0") or len(century) not in (0, 2):
        return []
    centuries = [century] if century else ("18", "19", "20")
    years = (f"{before}{tens[0]}{year}" for before in centuries for year in range(10))
    return [{tens}, *({year} for year in years)]


def spelt(terms: Iterable[str]) -> Iterator[str]:
    """Numbers that terms of a sentence make together, e.g. ``20 1`` (*twenty-one*) and ``2 hundr 50``."""
    value = 0
    for term in terms:
        if term in _SCALES:
            value = max(value, 1) * 10 ** _SCALES[term]
        elif term.isdecimal() and len(term) < 3:
            value = int(term) + value * (
                value % 100 == 0 or (value % 10 == 0 and value % 100 > 10 > int(term))
            )
        else:
            value = 0
            continue
        yield str(value)


def _years(span: re.Match[str]) -> str:
    century, first, dash, last = span.groups()
    return f"{century}{first}{dash}{century if last > first else ''}{last}"


def unmarked(text: str) -> str:
    """Return the text without citation marks and the numbering of lists.

    Marks such as ``[12]`` and the numbering are no part of what a text says.
    """
    text = _CITATION.sub(" ", text) if "[" in text else text
    return _NUMBERING.sub(" ", text)


def strange(text: str, known: AbstractSet[str]) -> dict[str, None]:
    """Numbers of a text not known in any spelling, as they are written.

    None that point (*passage 2*) or list.
    """
    found = _WRITTEN.finditer(_YEARS.sub(_years, _POINTER.sub(" ", unmarked(text))))
    return {
        it[1]: None
        for it in found
        if not any(way <= known for way in (*_spellings(it), *_decade(it)))
    }
