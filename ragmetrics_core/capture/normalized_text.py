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
from functools import lru_cache
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
# a tag, such as "<em>" or '<span class="hit">'
_TAG = lazy_pattern(r"</?[A-Za-z][^<>]{0,300}>")
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
