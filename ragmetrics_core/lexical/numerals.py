"""Numbers of a text in one spelling, so that equal numbers meet."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_GROUP = re.compile(r"[.,](?=\d{3}(?:[.,]|$))")
_CITATION = re.compile(r"\[\d{1,3}(?:[,;–-] ?\d{1,3}){0,20}\]")
_NUMBERING = re.compile(r"^[ \t]*\(?\d{1,2}[.)](?=\s)", re.MULTILINE)
# The end of a span of years, written short: 2018–19. Dates such as 2018-11-05 are left alone.
_YEARS = re.compile(r"(?<![\d–—/-])(\d\d)(\d\d)([–—/-])(\d\d)(?![\d–—/-])")


def number(token: str) -> str:
    """One spelling for equal numbers: ASCII digits, no group separators, no idle zeros.

    Args:
        token: Digits with points and commas between them.

    Returns:
        The number, e.g. ``"1998"`` for ``"1,998"`` and ``"2.5"`` for ``"02.50"``.
    """
    if not token.isascii():
        token = "".join(str(unicodedata.decimal(sign, "")) if sign.isdecimal() else sign for sign in token)
    token = _GROUP.sub("", token).replace(",", ".")
    if token.count(".") == 1:
        token = token.rstrip("0").rstrip(".")
    return token.lstrip("0") if token[:2].isdecimal() and token.strip("0") else token


def numbers(text: str) -> frozenset[str]:
    """Numbers of a text, written as ``number`` returns them, with both spellings of ``2018–19``."""
    found = set(_NUMBER.findall(text)).union(_NUMBER.findall(" ".join(map(_years, _YEARS.finditer(text)))))
    return frozenset(map(number, found))


def _years(span: re.Match[str]) -> str:
    century, first, dash, last = span.groups()
    return f"{century}{first}{dash}{century if last > first else ''}{last}"


def unmarked(text: str) -> str:
    """Text without citation marks such as ``[12]`` and the numbering of lists, which are no part of what it says."""
    text = _CITATION.sub(" ", text) if "[" in text else text
    return _NUMBERING.sub(" ", text)


def long_numbers(text: str) -> dict[str, str]:
    """Numbers of two or more digits, without citation marks such as ``[12]`` and the numbering of lists.

    Returns:
        The number as ``number`` returns it, and how it is written, in order of appearance.
    """
    found: dict[str, str] = {}
    for written in _NUMBER.findall(_YEARS.sub(_years, unmarked(text))):
        if sum(sign.isdecimal() for sign in written) >= 2:
            found.setdefault(number(written), written)
    return found
