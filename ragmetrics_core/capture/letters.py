r"""The letters of a text, the same in every form in which a prompt may hold it.

A **stream** is a text without everything that formatting changes: escapes and entities
are decoded, all but letters and digits of any script is dropped, the rest is in lower
case, as UTF-8. Both sides are decoded alike, so a text that itself holds ``\n`` or
``&lt;`` has the same stream plain and escaped.
"""

import html
import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

_HEX = r"[\da-fA-F]"
# Possessive: a run of backslashes or ampersands is read once, however long it is.
_SLASHES = r"\\ (?<!\\\\) \\*+"
_PATTERN = rf"""(?: & | {_SLASHES} (?: u0026 | x26 | U00000026 ) ) (?: amp; | \#38; | \#[xX]26; )*+
      (?: ([A-Za-z][A-Za-z0-9]{{1,31}}); | \#(\d{{1,7}}); | \#[xX]({_HEX}{{1,6}}); )?
    | {_SLASHES} (?: u([dD][89abAB]{_HEX}{{2}}) \\++ u([dD][c-fC-F]{_HEX}{{2}})
                   | u({_HEX}{{4}}) | U({_HEX}{{8}}) | x({_HEX}{{2}}) | [nrtfb] )"""
_ESCAPE = re.compile(_PATTERN, re.VERBOSE)
_CONTROL = re.compile(rf"{_SLASHES} [nrtfb]", re.VERBOSE)
_PIECE = re.compile(rf"{_PATTERN} | [^\\&]{{1,256}} | \\++", re.VERBOSE)
_ASCII = bytes(range(128))
_LOWER = bytes(range(256)).lower()
# stands between the streams of messages, wider than what is stepped over or joined
_BETWEEN = b"\0" * 128
# up to so many characters beyond ASCII are replaced one after the other, which is
# faster than a table
_FEW = 64
_OTHERS = bytes(set(_ASCII) - set((string.ascii_letters + string.digits).encode()))


def stream(text: str) -> bytes:
    """Return the letters and digits of a text in lower case, as UTF-8.

    Escapes and entities are decoded.
    """
    if "\\" in text:
        text = _CONTROL.sub(" ", text)  # by far the most frequent
    if "\\" in text or "&" in text:
        text = _ESCAPE.sub(lambda found: _decode_escape(found[0]), text)
    if not text.isascii():
        beyond = set(
            text.encode("utf-8", "surrogatepass")
            .translate(None, _ASCII)
            .decode("utf-8", "surrogatepass")
        )
        table = {
            char: folded for char in beyond if (folded := _fold_case(char)) != char
        }
        if len(table) > _FEW:
            text, table = (
                text.translate({ord(char): folded for char, folded in table.items()}),
                {},
            )
        for char, folded in table.items():
            text = text.replace(char, folded)
    return text.encode().translate(_LOWER, _OTHERS)


@lru_cache(maxsize=4096)
def _decode_escape(escape: str) -> str:
    """What an escape or an entity stands for; an unknown name stands for itself."""
    found = _ESCAPE.match(escape)
    name, decimal, hexadecimal, high, low, *codes = (
        found.groups() if found else [""] * 8
    )
    if name:
        named = html.unescape(f"&{name};")
        return name if named.startswith("&") else named
    if high:
        return bytes.fromhex(high + low).decode("utf-16-be")
    code = (
        int(decimal)
        if decimal
        else int(next(filter(None, (hexadecimal, *codes)), "0"), 16)
    )
    return chr(code) if code <= 0x10FFFF else ""


@lru_cache(maxsize=4096)
def _fold_case(char: str) -> str:
    """The letters of a character in lower case; both small sigmas are one letter."""
    return (
        "".join(one for one in char.lower() if one.isalnum()).replace("ς", "σ")
        if char.isalnum()
        else ""
    )


class Text:
    """A text and its stream, with the way back from the one to the other."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.stream = stream(raw)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the text of the letters ``[start, end)`` of the stream.

        There is at least one such letter.
        """
        return self._letter(start)[0], self._letter(end - 1)[1]

    def gap(self, at: int) -> tuple[int, int]:
        """Offsets of what stands between the letters before and after a place of the stream."""
        before = self._letter(at - 1)[1] if at else 0
        return before, self._letter(at)[0] if at < len(self.stream) else len(self.raw)

    @cached_property
    def _pieces(self) -> list[tuple[int, int, int]]:
        """Escapes, and plain pieces of up to 256 characters.

        Each is told by where it begins in the stream, and by its offsets in the text.
        Pieces without letters are left out.
        """
        pieces = [
            (len(stream(found[0])), *found.span())
            for found in _PIECE.finditer(self.raw)
        ]
        begins = accumulate((size for size, _, _ in pieces), initial=0)
        return [
            (at, start, end)
            for at, (size, start, end) in zip(begins, pieces, strict=False)
            if size
        ]

    @cached_property
    def _begins(self) -> list[int]:
        """Where each piece begins in the stream."""
        return [at for at, _, _ in self._pieces]

    @cached_property
    def _ends_by_piece(self) -> dict[int, list[int]]:
        """How far the stream has come behind each character of a piece.

        It is filled for pieces that were looked into.
        """
        return {}

    def _letter(self, index: int) -> tuple[int, int]:
        """Offsets in the text of the letter that holds a byte of the stream.

        Of the whole escape where it is one.
        """
        number = bisect_right(self._begins, index) - 1
        at, start, end = self._pieces[number]
        if self.raw[start] in "\\&":
            return start, end
        ends = self._ends_by_piece.get(number)
        if ends is None:
            sizes = (len(_fold_case(char).encode()) for char in self.raw[start:end])
            ends = self._ends_by_piece[number] = list(accumulate(sizes, initial=at))[1:]
        offset = start + bisect_right(ends, index)
        return offset, offset + 1


class Prompt:
    """The streams of a prompt's messages as one stream.

    They stand so far apart that nothing reaches from one message into the next.

    Args:
        messages: The texts of the messages.
    """

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = [Text(message) for message in messages]
        self.stream = _BETWEEN.join(message.stream for message in self.messages)
        sizes = (len(message.stream) + len(_BETWEEN) for message in self.messages)
        self.starts = list(accumulate(sizes, initial=0))[:-1]

    def message(self, at: int) -> int:
        """Which message holds a place of the stream."""
        return bisect_right(self.starts, at) - 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in their message of the letters ``[start, end)`` of the stream."""
        index = self.message(start)
        return self.messages[index].span(
            start - self.starts[index], end - self.starts[index]
        )
