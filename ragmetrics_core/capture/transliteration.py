"""Words that are the same in another script or spelling, such as "Маяк" and "Mayak". Pure.

An application may write a text in Latin letters before it shows it to a model: "ö"
becomes "oe", and "Норвик" becomes "Norvik". There are many such spellings. They differ
most in the vowels, so words are compared by their consonants, and similar consonants
count as equal. That is rough: it may only say that a text is perhaps shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from unicodedata import name, normalize

from ragmetrics_core.data.lazy_patterns import lazy_pattern

_WORD = lazy_pattern(r"[^\W\d_]+")
# consonants that one spelling has for the other; "h", "w" and "y" are left out, because
# many spellings add them
_SIMILAR_CONSONANTS = ("bfpv", "cgjkqsxz", "dt", "l", "mn", "r")
_CLASS_BY_CONSONANT = {
    consonant: similar[0] for similar in _SIMILAR_CONSONANTS for consonant in similar
}
_LEAST_CONSONANTS = 2  # a word of fewer is equal to many others


def keys_of_foreign_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the index and the key of each word with letters beyond ASCII.

    Example: "Die Tür ist größer" yields (1, "dr") and (3, "crcr"). Words of fewer than
    two consonants are left out.
    """
    for index, match in enumerate(_WORD.finditer(text)):
        if not match[0].isascii():
            key = _consonant_key(match[0])
            if len(key) >= _LEAST_CONSONANTS:
                yield index, key


def keys_of_ascii_words(text: str) -> Iterator[str]:
    """Yield a key of each word in ASCII letters: "Die Tuer" yields "d" and "dr"."""
    for match in _WORD.finditer(text):
        if match[0].isascii():
            yield _consonant_key(match[0])


@lru_cache(maxsize=4096)
def _consonant_key(word: str) -> str:
    """Return the consonants of a word, the similar ones as one, without repetitions.

    Example: "Tür" and "Tuer" have the key "dr", "Норвика" and "Norvika" have "mrbc".
    """
    letters = normalize("NFKD", word.casefold())
    classes = [_consonant_class(letter) for letter in letters]
    return "".join(consonant for consonant, _ in groupby(filter(None, classes)))


@lru_cache(maxsize=4096)
def _consonant_class(letter: str) -> str:
    """Return the first of the consonants that are similar to a letter; "" for a vowel."""
    latin = letter if letter.isascii() else _latin_letter(letter)
    return _CLASS_BY_CONSONANT.get(latin, "")


def _latin_letter(letter: str) -> str:
    """Return the consonant with which a letter's name begins; "" without a name.

    Example: "в" is the "CYRILLIC SMALL LETTER VE": "v". The names "EM" and "EN" begin
    with a vowel: "m" and "n".
    """
    _, _, letter_name = name(letter, "").partition(" LETTER ")
    # "FINAL SIGMA" is a sigma, and "L WITH STROKE" an "l"
    words = letter_name.partition(" WITH ")[0].split()
    if not words or words[-1] == "SIGN":  # a "HARD SIGN" is not spoken
        return ""
    last_word = words[-1].lower()
    begins_with_vowel = len(last_word) == 2 and last_word[0] == "e"
    return last_word[1] if begins_with_vowel else last_word[0]
