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
_LAST_CHARACTER = 0x10FFFF
# stands between the streams of messages, wider than what is stepped over or joined
_BETWEEN = b"\0" * 128
# up to so many characters beyond ASCII are replaced one after the other, which is
# faster than a table
_FEW = 64
_LETTERS_AND_DIGITS = (string.ascii_letters + string.digits).encode()
_NO_LETTERS = bytes(set(_ASCII).difference(_LETTERS_AND_DIGITS))


def letters_of(text: str) -> bytes:
    """Return the letters and digits of a text in lower case, as UTF-8.

    Escapes and entities are decoded.
    """
    if "\\" in text:
        text = _CONTROL.sub(" ", text)  # by far the most frequent
    if "\\" in text or "&" in text:
        text = _ESCAPE.sub(lambda escape: _decode_escape(escape[0]), text)
    if not text.isascii():
        text = _fold_beyond_ascii(text)
    return text.encode().translate(_LOWER, _NO_LETTERS)


def _fold_beyond_ascii(text: str) -> str:
    """Put the letters beyond ASCII into lower case, and drop other signs beyond ASCII.

    ASCII characters stay as they are.
    """
    # half a surrogate pair cannot be encoded otherwise
    text_bytes = text.encode("utf-8", "surrogatepass")
    bytes_beyond_ascii = text_bytes.translate(None, delete=_ASCII)
    characters = set(bytes_beyond_ascii.decode("utf-8", "surrogatepass"))
    folded_by_character: dict[str, str] = {}
    for character in characters:
        folded = _fold_case(character)
        if folded != character:
            folded_by_character[character] = folded
    if len(folded_by_character) > _FEW:
        # one pass by a table is faster than many replacements
        folded_by_code = {ord(key): value for key, value in folded_by_character.items()}
        return text.translate(folded_by_code)
    for character, folded in folded_by_character.items():
        text = text.replace(character, folded)
    return text


@lru_cache(maxsize=4096)
def _decode_escape(escape: str) -> str:
    r"""Return the character that an escape or an entity stands for.

    An entity is such as ``&eacute;``, ``&#233;`` or ``&#xe9;``, an escape such as
    ``\u00e9``, ``\xe9`` or two ``\u`` of a surrogate pair. An entity of an unknown name
    stands for its name, and a code that no character has for nothing. An escape without
    a code, such as ``&amp;`` or ``\n``, is no letter: it stands for character 0.
    """
    match = _ESCAPE.match(escape)
    if match is None:
        return ""
    name, decimal, hexadecimal, high_surrogate, low_surrogate, *codes = match.groups()
    if name:
        character = html.unescape(f"&{name};")
        is_unknown = character.startswith("&")
        return name if is_unknown else character
    if high_surrogate:
        return bytes.fromhex(high_surrogate + low_surrogate).decode("utf-16-be")
    code = 0
    if decimal:
        code = int(decimal)
    else:
        # one for each way to write a hexadecimal code; at most one of them is set
        for hexadecimal_code in (hexadecimal, *codes):
            if hexadecimal_code:
                code = int(hexadecimal_code, 16)
    return chr(code) if code <= _LAST_CHARACTER else ""


@lru_cache(maxsize=4096)
def _fold_case(character: str) -> str:
    """The letters of a character in lower case; both small sigmas are one letter."""
    if not character.isalnum():
        return ""
    letters = [letter for letter in character.lower() if letter.isalnum()]
    return "".join(letters).replace("ς", "σ")


class Text:
    """A text and its stream, with the way back from the one to the other."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.letters = letters_of(raw)

    def offsets_of(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the text of the letters ``[start, end)`` of the stream.

        There is at least one such letter.
        """
        first_offset, _ = self._letter(start)
        _, end_offset = self._letter(end - 1)
        return first_offset, end_offset

    def gap_at(self, at: int) -> tuple[int, int]:
        """Offsets of what stands between the letters before and after a place of the stream."""
        gap_start = 0
        gap_end = len(self.raw)
        if at > 0:
            _, gap_start = self._letter(at - 1)
        if at < len(self.letters):
            gap_end, _ = self._letter(at)
        return gap_start, gap_end

    @cached_property
    def _pieces(self) -> list[tuple[int, int, int]]:
        """The text in pieces: each escape, and plain pieces of up to 256 characters.

        Each is told by where it begins in the stream, and by the offsets in the text
        where it begins and ends. Pieces without letters are left out.
        """
        pieces = []
        place = 0
        for piece in _PIECE.finditer(self.raw):
            size = len(letters_of(piece[0]))
            if size:
                pieces.append((place, *piece.span()))
            place += size
        return pieces

    @cached_property
    def _piece_starts(self) -> list[int]:
        """Where each piece begins in the stream."""
        return [place for place, _, _ in self._pieces]

    @cached_property
    def _stream_ends_by_piece(self) -> dict[int, list[int]]:
        """By the index of a piece: how far the stream has come behind each character.

        It is filled for pieces that were looked into.
        """
        return {}

    def _letter(self, index: int) -> tuple[int, int]:
        """Find which letter of the text a byte of the stream belongs to.

        The stream holds the text's letters as bytes. The text is kept in pieces; how
        the letters of a piece lie in the stream is worked out when it is first asked
        for.

        Args:
            index: The place of the byte in the stream.

        Returns:
            The offsets in the text where the letter begins and ends; those of the whole
            escape, such as an entity, that stands for the letter.
        """
        piece_index = bisect_right(self._piece_starts, index) - 1
        stream_end, start, end = self._pieces[piece_index]
        is_escape = self.raw[start] in "\\&"
        if is_escape:
            return start, end
        stream_ends = self._stream_ends_by_piece.get(piece_index)
        if stream_ends is None:
            stream_ends = []
            for character in self.raw[start:end]:
                # other characters than letters take no bytes of the stream
                stream_end += len(_fold_case(character).encode())
                stream_ends.append(stream_end)
            self._stream_ends_by_piece[piece_index] = stream_ends
        # the first character behind which the stream has gone past the byte
        offset = start + bisect_right(stream_ends, index)
        return offset, offset + 1


class Prompt:
    """The streams of a prompt's messages as one stream.

    They stand so far apart that nothing reaches from one message into the next.

    Args:
        messages: The texts of the messages.

    Attributes:
        messages: The messages.
        letters: Their streams as one.
        message_starts: Where the stream of each message begins in it.
    """

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = [Text(message) for message in messages]
        self.letters = _BETWEEN.join(message.letters for message in self.messages)
        self.message_starts: list[int] = []
        start = 0
        for message in self.messages:
            self.message_starts.append(start)
            start += len(message.letters) + len(_BETWEEN)

    def message_index_at(self, at: int) -> int:
        """Which message holds a place of the stream."""
        return bisect_right(self.message_starts, at) - 1

    def offsets_in_message(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in their message of the letters ``[start, end)`` of the stream."""
        index = self.message_index_at(start)
        message_start = self.message_starts[index]
        return self.messages[index].offsets_of(
            start - message_start, end - message_start
        )
