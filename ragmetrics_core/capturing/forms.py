r"""The letters of a text, the same in every form in which a prompt may hold it.

A **stream** is a text without everything that formatting changes: escapes and entities are decoded, all but letters and
digits of any script is dropped, the rest is in lower case, as UTF-8. Both sides are decoded alike, so a text that
itself holds ``\n`` or ``&lt;`` has the same stream plain and escaped.
"""

from __future__ import annotations

import html
import json
import re
import string
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

_AMPERSAND = r"(?:amp;|\#38;|\#[xX]26;)*+ (?: ([A-Za-z][A-Za-z0-9]{1,31}); | \#(\d{1,7}); | \#[xX]([\da-fA-F]{1,6}); )?"
_HEX = r"[\da-fA-F]"
# Possessive: a run of backslashes or ampersands is read once, however long it is.
_ESCAPE = re.compile(
    rf"""& {_AMPERSAND} | \\ (?<!\\\\) \\*+ (?:
        (?: u0026 | x26 | U00000026 ) {_AMPERSAND}
      | u([dD][89abAB]{_HEX}{{2}}) \\++ u([dD][c-fC-F]{_HEX}{{2}})
      | (?: u({_HEX}{{4}}) | U({_HEX}{{8}}) | x({_HEX}{{2}}) )
      | [nrtfb] )""",
    re.VERBOSE,
)
_CONTROL = re.compile(r"\\(?<!\\\\)\\*+[nrtfb]")
_ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
_ASCII = bytes(range(128))
_OTHERS = bytes(code for code in range(128) if code not in _ALPHANUMERIC)
_LOWER = bytes(range(256)).lower()
_STEP = 256
"""Characters between two marks of a text whose offsets are asked for."""
_FEW = 64
"""Up to so many different characters beyond ASCII are replaced one after the other, which is faster than a table."""


def stream(text: str) -> bytes:
    """Return the letters and digits of a text in lower case, as UTF-8, with escapes and entities decoded."""
    if "\\" in text:
        text = _CONTROL.sub(" ", text)  # by far the most frequent
    return _folded(_ESCAPE.sub(lambda found: _decoded(found[0]), text) if "\\" in text or "&" in text else text)


@lru_cache(maxsize=4096)
def _decoded(escape: str) -> str:
    """What an escape or an entity stands for; an unknown name stands for itself."""
    found = _ESCAPE.match(escape)
    name, decimal, hexadecimal, name2, decimal2, hexadecimal2, high, low, *codes = (
        found.groups() if found else [""] * 11
    )
    if name or name2:
        named = html.unescape(f"&{name or name2};")
        return (name or name2) if named.startswith("&") else named
    if high:
        return bytes.fromhex(high + low).decode("utf-16-be")
    if decimal or decimal2:
        code = int(decimal or decimal2)
    else:
        code = int(next(filter(None, (hexadecimal, hexadecimal2, *codes)), "0"), 16)
    return chr(code) if code <= 0x10FFFF else ""


def _folded(text: str) -> bytes:
    if not text.isascii():
        beyond = set(_encoded(text).translate(None, _ASCII).decode("utf-8", "surrogatepass"))
        table = {char: folded for char in beyond if (folded := _folded_char(char)) != char}
        if len(table) <= _FEW:
            for char, folded in table.items():
                text = text.replace(char, folded)
        else:
            text = text.translate({ord(char): folded for char, folded in table.items()})
    return text.encode("utf-8").translate(_LOWER, _OTHERS)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4096)
def _folded_char(char: str) -> str:
    """The letters of a character in lower case; both small sigmas are one letter."""
    return "".join(one for one in char.lower() if one.isalnum()).replace("ς", "σ") if char.isalnum() else ""


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    return len(_folded_char(char).encode())


def letters(part: bytes) -> int:
    """How many letters and digits a part of a stream has."""
    return len(part) if part.isascii() else len(part.decode("utf-8", "ignore"))


class Text:
    """A text and its stream, with the way back from the one to the other.

    Args:
        raw: The text as it is.
    """

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.stream = stream(raw)

    @cached_property
    def backwards(self) -> bytes:
        """The stream from its end to its beginning."""
        return self.stream[::-1]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the text of the letters ``[start, end)`` of the stream, of which there is at least one."""
        return self._letter(start)[0], self._letter(end - 1)[1]

    def gap(self, at: int) -> tuple[int, int]:
        """Offsets of what stands between the letters before and after a place of the stream."""
        before = self._letter(at - 1)[1] if at else 0
        return before, self._letter(at)[0] if at < len(self.stream) else len(self.raw)

    def at(self, offset: int) -> int:
        """How many bytes of the stream stand before an offset of the text."""
        return len(stream(self.raw[:offset]))

    @cached_property
    def _marks(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Starts in the stream of pieces of the text, and the pieces: escapes, and plain ones of up to 256."""
        starts, pieces, at = [], [], 0
        for start, end, folded in self._pieces():
            if folded:
                starts.append(at)
                pieces.append((start, end))
                at += folded
        return starts, pieces

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        at = 0
        for found in _ESCAPE.finditer(self.raw):
            yield from self._plain(at, found.start())
            at = found.end()
            yield found.start(), at, len(_folded(_decoded(found[0])))
        yield from self._plain(at, len(self.raw))

    def _plain(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        for at in range(start, end, _STEP):
            until = min(at + _STEP, end)
            yield at, until, len(_folded(self.raw[at:until]))

    def _letter(self, index: int) -> tuple[int, int]:
        """Offsets in the text of the letter that holds a byte of the stream; of the whole escape where it is one."""
        starts, pieces = self._marks
        mark = bisect_right(starts, index) - 1
        (start, end), at = pieces[mark], starts[mark]
        if self.raw[start] in "\\&" and _ESCAPE.match(self.raw, start):
            return start, end
        for offset in range(start, end):
            at += _width(self.raw[offset])
            if at > index:
                return offset, offset + 1
        return start, end


def _spaced(text: str) -> str:
    return " ".join(text.split())


_FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "spaced": _spaced,
    "repr": lambda text: repr(text)[1:-1],
    "json": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "ascii json": lambda text: json.dumps(text)[1:-1],
    "html": html.escape,
}


def form(text: str, shown: str) -> str:
    """Name the form in which a text is shown, for a reader.

    Args:
        text: The text, from its first letter to its last.
        shown: What the prompt holds of it, likewise.

    Returns:
        ``plain``, ``spaced`` (other white space), ``repr``, ``json``, ``ascii json``, ``html``, ``lower case``,
        ``escaped`` (any other or several of these), ``marked`` (other signs: bullets, bold, quotes) or ``edited``
        (letters put in or left out).
    """
    for name, formed in _FORMS.items():
        if shown == formed(text) or (name == "spaced" and _spaced(shown) == formed(text)):
            return name
    if _spaced(shown).lower() == _spaced(text).lower():
        return "lower case"
    if stream(text) != stream(shown):
        return "edited"
    return "escaped" if len(_ESCAPE.findall(shown)) > len(_ESCAPE.findall(text)) else "marked"
