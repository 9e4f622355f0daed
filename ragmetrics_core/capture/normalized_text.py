r"""Texts normalized: the same bytes in every form in which a prompt may hold a text.

A text is **normalized** to its letters and digits in lower case, without accents, as
UTF-8 bytes. Everything else is dropped, and escapes and entities are decoded first. So
``Caf&eacute; No. 7``, ``"Café\nNo. 7"`` and ``**café no 7**`` are normalized to the
same bytes, ``cafeno7``. A text that itself holds ``\n`` or ``&lt;`` is decoded as well,
so it is the same plain and escaped.
"""

from __future__ import annotations

import html
import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple
from unicodedata import normalize

from ragmetrics_core.data.lazy_patterns import lazy_pattern

_HEX = r"[\da-fA-F]"
# Possessive: a run of backslashes or ampersands is read once, however long it is.
_SLASHES = r"\\ (?<!\\\\) \\*+"
_PATTERN = rf"""(?: & | {_SLASHES} (?: u0026 | x26 | U00000026 ) ) (?: amp; | \#38; | \#[xX]26; )*+
      (?: (?P<name>[A-Za-z][A-Za-z0-9]{{1,31}}); | \#(?P<decimal>\d{{1,7}});
         | \#[xX](?P<hexadecimal>{_HEX}{{1,6}}); )?
    | {_SLASHES}
      (?: u(?P<high_surrogate>[dD][89abAB]{_HEX}{{2}}) \\++ u(?P<low_surrogate>[dD][c-fC-F]{_HEX}{{2}})
        | u(?P<four_digits>{_HEX}{{4}}) | U(?P<eight_digits>{_HEX}{{8}})
        | x(?P<two_digits>{_HEX}{{2}}) | [nrtfb] )"""
_ESCAPE = lazy_pattern(_PATTERN, re.VERBOSE)
_CONTROL = lazy_pattern(rf"{_SLASHES} [nrtfb]", re.VERBOSE)
_PIECE = lazy_pattern(rf"{_PATTERN} | [^\\&]{{1,512}} | \\++", re.VERBOSE)
_ASCII = bytes(range(128))
_LOWER = bytes(range(256)).lower()
_LAST_CHARACTER = 0x10FFFF
# a number at the beginning of a line, perhaps after a word: "12 ", "12| ", "Line 12: "
BEGINNING_OF_LINE = lazy_pattern(
    r"\n[^\w\n]*(?:[^\W\d]{1,16}[ \t#]?)?(?P<number>[0-9]{1,4})(?=\W)"
)
# a tag, such as "<em>" or '<span class="hit">'
_TAG = lazy_pattern(r"</?[A-Za-z][^<>]{0,300}>")
# stands between two normalized messages; it is wider than any gap that locating
# steps over or joins
_BETWEEN_MESSAGES = b"\0" * 128
# the most different characters that are replaced one after the other; for more of them
# one pass with a table is faster
_FEW_CHARACTERS = 64
# the most characters whose letters are kept for the next text
_MOST_KEPT = 20_000
_LETTERS_AND_DIGITS = (string.ascii_letters + string.digits).encode()
_LOWER_LETTERS_AND_DIGITS = string.ascii_lowercase + string.digits
# the parts of Korean syllables, into which the decomposed normal forms divide them
_FIRST_OF_HANGUL = "\u1100"
_LAST_OF_HANGUL = "\u11ff"
_NO_LETTERS = bytes(set(_ASCII).difference(_LETTERS_AND_DIGITS))


def normalize_text(text: str) -> bytes:
    """Return the letters and digits of a text in lower case, as UTF-8 bytes.

    Escapes and entities are decoded. Example: "Caf&eacute; No. 7" gives ``b"cafeno7"``.
    """
    if "\\" in text:
        text = _CONTROL.sub(" ", text)  # by far the most frequent
    if "\\" in text or "&" in text:
        text = _ESCAPE.sub(_decode_escape, text)
    if not text.isascii():
        text = _fold_beyond_ascii(text)
    return text.encode().translate(_LOWER, _NO_LETTERS)


def decode_escapes(text: str) -> str:
    r"""Decode the escapes and entities of a text; an escaped line end becomes one."""
    if "\\" not in text and "&" not in text:
        return text
    return _ESCAPE.sub(_decode_escape, _CONTROL.sub("\n", text))


def _fold_beyond_ascii(text: str) -> str:
    """Replace letters beyond ASCII by lower-case ones without accents, and drop signs.

    ASCII stays as it is. Example: "ÉTÉ… OK" becomes "eTe OK".
    """
    # half a surrogate pair needs "surrogatepass"
    text_bytes = text.encode("utf-8", "surrogatepass")
    # A Chinese or a Korean text has three bytes a letter, and many different letters:
    # one pass with a table is faster than replacing each character.
    if len(text_bytes) > 2 * len(text):
        return text.translate(_FOLDED_BY_CODE)
    bytes_beyond_ascii = text_bytes.translate(None, delete=_ASCII)  # fast
    characters = set(bytes_beyond_ascii.decode("utf-8", "surrogatepass"))
    if len(characters) > _FEW_CHARACTERS:
        return text.translate(_FOLDED_BY_CODE)
    for character in characters:
        folded = _FOLDED_BY_CODE[ord(character)]  # "" for a sign
        if folded != character:
            text = text.replace(character, folded)
    return text


def _decode_escape(escape: re.Match[str]) -> str:
    r"""Return the character that an escape or an entity stands for.

    Example: the entities ``&eacute;`` and ``&#233;`` and the escape ``\u00e9`` stand
    for "é". For ``\n`` and a bare ``&``, which stand for no letter, a NUL is returned.
    """
    form = escape.lastgroup
    if form is None:
        return "\0"
    if form == "name":
        return _character_of_name(escape["name"])
    if form == "low_surrogate":
        pair = escape["high_surrogate"] + escape["low_surrogate"]
        return bytes.fromhex(pair).decode("utf-16-be")
    base = 10 if form == "decimal" else 16
    return _character_of_code(int(escape[form], base))


@lru_cache(maxsize=4096)
def _character_of_name(name: str) -> str:
    """Return the character of an entity's name, such as ``eacute``.

    The name itself if no entity has it.
    """
    character = html.unescape(f"&{name};")
    is_unknown = character.startswith("&")
    return name if is_unknown else character


def _character_of_code(code: int) -> str:
    """Return the character of a code; empty if no character has it."""
    return chr(code) if code <= _LAST_CHARACTER else ""


def _fold_case(character: str) -> str:
    """Return the letters of a character in lower case; empty if it is no letter.

    Accents are dropped and ligatures taken apart, so that all Unicode normal forms of a
    text have the same letters.
    """
    decomposed = normalize("NFKD", normalize("NFKD", character).casefold())
    letters = [_plain_letter(part) for part in decomposed if part.isalnum()]
    return "".join(letters)


def _plain_letter(letter: str) -> str:
    """Return an ASCII sign for a part of a Korean syllable; other letters as they are.

    A syllable takes about as many bytes as in UTF-8.
    """
    if not _FIRST_OF_HANGUL <= letter <= _LAST_OF_HANGUL:
        return letter
    sign_index = ord(letter) % len(_LOWER_LETTERS_AND_DIGITS)
    return _LOWER_LETTERS_AND_DIGITS[sign_index]


class _FoldedByCode(dict[int, str]):
    """The letters of characters in lower case, by the code of each character.

    Example: the code of "É" has "e", and of "…" it has "". A character is folded when it
    is first looked up, and then kept, so that the next text finds it.
    """

    def __missing__(self, code: int) -> str:
        """Fold the character of a code, and keep its letters while there is room."""
        folded = _fold_case(chr(code))
        if len(self) < _MOST_KEPT:
            self[code] = folded
        return folded


_FOLDED_BY_CODE = _FoldedByCode()


class Text:
    """A text and its normalized form, with the way back from a byte of it to the text.

    Args:
        raw: The text as it is written.

    Attributes:
        raw: The text as it is written.
        normalized: Its letters and digits in lower case, as bytes; see
            ``normalize_text``.
    """

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.normalized = normalize_text(raw)

    def offsets_of(self, start: int, end: int) -> tuple[int, int]:
        """Return where some normalized bytes stand in the text as it is written.

        Args:
            start: The first byte in ``normalized``.
            end: The end in ``normalized``; after ``start``.

        Returns:
            The offsets in ``raw`` where they begin and end.
        """
        first_offset, _ = self._offsets_of_character(start)
        _, end_offset = self._offsets_of_character(end - 1)
        return first_offset, end_offset

    def raw_end_before(self, byte_index: int) -> int:
        """Return where the character before a byte ends in the text as written.

        Example: "It fell." is normalized to ``itfell``. Its byte 2 is "f", and the "t"
        before it ends at 2 in the text. The first byte has none before it: 0.

        Args:
            byte_index: The index of the byte in ``normalized``; ``len(normalized)`` for
                the end.
        """
        if byte_index == 0:
            return 0
        _, end = self._offsets_of_character(byte_index - 1)
        return end

    def raw_start_at(self, byte_index: int) -> int:
        """Return where the character of a byte begins in the text as written.

        Example: "It fell." is normalized to ``itfell``. Its byte 2 is "f", which begins
        at 3 in the text.

        Args:
            byte_index: The index of the byte in ``normalized``. For ``len(normalized)``
                the end of the text is returned.
        """
        if byte_index == len(self.normalized):
            return len(self.raw)
        start, _ = self._offsets_of_character(byte_index)
        return start

    def written_around(self, start: int, end: int) -> str:
        """Return some bytes as they are written, with the signs on both sides.

        Escapes are decoded. Example: the bytes 2 to 5 of "It [2] is." are written " [2]
        is.".

        Args:
            start: The first byte in ``normalized``.
            end: The end in ``normalized``.
        """
        raw_start = self.raw_end_before(start)
        raw_end = self.raw_start_at(end)
        return decode_escapes(self.raw[raw_start:raw_end])

    @cached_property
    def _pieces(self) -> list[_Piece]:
        """The text in pieces: each escape, and plain pieces of up to 512 characters.

        Pieces without letters are left out.
        """
        pieces = []
        first_byte = 0
        for match in _PIECE.finditer(self.raw):
            # a bare "&" and the escape of a line's end; many, so this must be fast
            if match.lastgroup is None and match[0][0] in "\\&":
                continue
            n_bytes = len(normalize_text(match[0]))
            if n_bytes:
                pieces.append(_Piece(first_byte, *match.span()))
            first_byte += n_bytes
        return pieces

    @cached_property
    def _first_bytes_of_pieces(self) -> list[int]:
        """Where in ``normalized`` each piece begins, to look pieces up."""
        return [piece.first_byte for piece in self._pieces]

    @cached_property
    def _byte_ends_by_piece(self) -> dict[int, list[int]]:
        """By the index of a piece: where in ``normalized`` each of its characters ends.

        It is filled when a piece is first looked into.
        """
        return {}

    def _offsets_of_character(self, byte_index: int) -> tuple[int, int]:
        """Return where the character to which a byte belongs stands in the text.

        Example: "Le caf&eacute;" is normalized to ``lecafe``. The "f" is byte 4, and
        stands at the offsets (5, 6); the last "e" is byte 5, and stands at (6, 14).

        Args:
            byte_index: The index of the byte in ``normalized``.

        Returns:
            The offsets in ``raw`` where the character begins and ends. If it is written
            as an escape, such as ``&eacute;``, those of the whole escape.
        """
        piece_index = bisect_right(self._first_bytes_of_pieces, byte_index) - 1
        piece = self._pieces[piece_index]
        is_escape = self.raw[piece.start] in "\\&"  # "&eacute;", a piece of its own
        if is_escape:
            return piece.start, piece.end
        # the byte belongs to the first character that ends after it
        n_characters_before = bisect_right(self._byte_ends(piece_index), byte_index)
        offset = piece.start + n_characters_before
        return offset, offset + 1

    def _byte_ends(self, piece_index: int) -> list[int]:
        """Return where in ``normalized`` each character of a plain piece ends.

        A character that is no letter adds no bytes. Example: in the piece "It is", the
        characters end at 1, 2, 2, 3 and 4, if the piece is the first one.
        """
        if piece_index not in self._byte_ends_by_piece:
            piece = self._pieces[piece_index]
            characters = self.raw[piece.start : piece.end]
            # an ASCII letter is one byte, and True counts as 1
            count_bytes = (
                str.isalnum if characters.isascii() else _count_normalized_bytes
            )
            n_bytes = map(count_bytes, characters)
            _, *byte_ends = accumulate(n_bytes, initial=piece.first_byte)
            self._byte_ends_by_piece[piece_index] = byte_ends
        return self._byte_ends_by_piece[piece_index]


def _count_normalized_bytes(character: str) -> int:
    """Count the bytes of a normalized character; 0 if it is no letter or digit."""
    return len(_FOLDED_BY_CODE[ord(character)].encode())


class _Piece(NamedTuple):
    """A piece of a text as it is written.

    Attributes:
        first_byte: Where it begins in the normalized text.
        start: Where it begins in the text as it is written.
        end: Where it ends there.
    """

    first_byte: int
    start: int
    end: int


class Prompt:
    """A prompt's messages, normalized and joined.

    NUL bytes stand between two messages, so many that no match reaches from one message
    into the next.

    Args:
        messages: The texts of the messages.

    Attributes:
        messages: The messages.
        normalized: All messages normalized, with NUL bytes between them.
        message_starts: Where each message begins in ``normalized``.
    """

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = [Text(message) for message in messages]
        self.normalized = _BETWEEN_MESSAGES.join(
            message.normalized for message in self.messages
        )
        self.message_starts: list[int] = []
        start = 0
        for message in self.messages:
            self.message_starts.append(start)
            start += len(message.normalized) + len(_BETWEEN_MESSAGES)

    @cached_property
    def is_blank(self) -> bool:
        """Whether no message has any character but blanks."""
        return not any(message.raw.strip() for message in self.messages)

    def message_index_at(self, prompt_offset: int) -> int:
        """Return the index of the message that holds a byte of ``normalized``."""
        return bisect_right(self.message_starts, prompt_offset) - 1

    def message_at(self, prompt_offset: int) -> Text:
        """Return the message that holds a byte of ``normalized``."""
        return self.messages[self.message_index_at(prompt_offset)]

    def index_in_message(self, prompt_offset: int) -> int:
        """Return the index of a byte of ``normalized`` in its normalized message."""
        message_index = self.message_index_at(prompt_offset)
        return prompt_offset - self.message_starts[message_index]

    def written_around(self, start: int, end: int) -> str:
        """Return the bytes ``[start, end)`` of one message as they are written.

        The signs on both sides of them are included; see ``Text.written_around``.
        """
        return self.message_at(start).written_around(
            self.index_in_message(start), self.index_in_message(end)
        )
