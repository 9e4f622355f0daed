"""Whether a place of a text lies inside of a word or a number. Pure.

"12" is no part of what "125" or "12.50" says, nor "four" of "fourteen". So a text that is
looked for in another one must not begin or end inside of a word or number of it.
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import category, name

from ragmetrics_core.data.lazy_patterns import lazy_pattern

# a number goes on behind its first digits: "12.50", "12,50", "12,500" and "12:30", but
# not "1874,0.83", which are two cells of a table
REST_OF_NUMBER = r"(?:\.\d|,\d{3}(?!\d)|,\d{1,2}(?!\d|\.\d)|:[0-5]\d(?!\d))"
_REST_OF_NUMBER = lazy_pattern(REST_OF_NUMBER)
_SIGNS_IN_NUMBERS = ".,:"
# scripts that write no blanks between words, by the first word of their letters' names
_SCRIPTS_WITHOUT_BLANKS = frozenset(
    {
        "BOPOMOFO",
        "CJK",
        "HALFWIDTH",
        "HIRAGANA",
        "KATAKANA",
        "KATAKANA-HIRAGANA",
        "KHMER",
        "LAO",
        "MYANMAR",
        "THAI",
        "TIBETAN",
    }
)
_NEAR = 200  # characters beyond a text in which another word is looked for
_MOST_MARKS = 8  # on one letter, such as accents that are written behind it


def divides_word(text: str, offset: int) -> bool:
    """Whether an offset of a text divides a word or a number of it.

    A word has letters of one script. It ends where a capital letter follows a small
    one, as in "northBridge", since texts are joined so. A script without blanks, such
    as Chinese, has no borders of words: False.

    Args:
        text: The text.
        offset: An offset in it; 0 and its length lie inside of no word.

    Examples:
        >>> divides_word("fourteen", 4), divides_word("12.50", 2)
        (True, True)
        >>> divides_word("four teen", 4), divides_word("in 12.", 5)
        (False, False)
    """
    left_end = _before_marks(text, offset)
    right_start = _behind_marks(text, offset)
    if left_end == 0 or right_start >= len(text):
        return False
    left = text[left_end - 1]
    right = text[right_start]
    if left.isdigit() and right.isdigit():
        return True
    if left.isalpha() and right.isalpha():
        return _are_of_one_word(left, right)
    return _is_at_sign_in_number(text, offset)


def holds_as_words(host: str, text: str) -> bool:
    """Whether a text stands in another one, and is not merely part of its words there.

    Example: "is 12" stands so in "It is 12.", and not in "It is 125.". A piece that was
    cut out by characters may begin or end within a word, if further words stand beyond
    it: "It rises in the hi" stands so in "It rises in the hills and falls." A number is
    never cut.

    Args:
        host: The text that may hold the other.
        text: The other text; it is not empty.
    """
    start = host.find(text)
    while start >= 0:
        end = start + len(text)
        begins_well = _is_border_or_cut(
            host, start, host[max(start - _NEAR, 0) : start]
        )
        if begins_well and _is_border_or_cut(host, end, host[end : end + _NEAR]):
            return True
        start = host.find(text, end)
    return False


def _is_border_or_cut(host: str, offset: int, beyond: str) -> bool:
    """Whether a text ends at a border of words, or was cut out of a longer text.

    Args:
        host: The longer text.
        offset: Where the text begins or ends in it.
        beyond: What the longer text has beyond that place.
    """
    if not divides_word(host, offset):
        return True
    cuts_number = host[offset - 1].isdigit() or host[offset].isdigit()
    return not cuts_number and len(beyond.split()) > 1


def _are_of_one_word(left: str, right: str) -> bool:
    """Whether two letters that touch belong to one word."""
    if left.islower() and right.isupper():
        return False
    script = _script(left)
    return script == _script(right) and script not in _SCRIPTS_WITHOUT_BLANKS


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the first word of a letter's name, such as "LATIN"; "" without a name."""
    if letter.isascii():
        return "LATIN"
    return name(letter, "").partition(" ")[0]


def _is_at_sign_in_number(text: str, offset: int) -> bool:
    """Whether an offset lies before or after the sign in a number such as "12.50"."""
    before = text[max(offset - 2, 0) : offset]
    if before[-1:].isdigit():
        return _REST_OF_NUMBER.match(text, offset) is not None
    if before[:1].isdigit() and before[-1:] in _SIGNS_IN_NUMBERS:
        return _REST_OF_NUMBER.match(text, offset - 1) is not None
    return False


def _before_marks(text: str, offset: int) -> int:
    """Return where the marks begin that are written on the letter before an offset."""
    start = offset
    while start > max(offset - _MOST_MARKS, 0) and _is_mark(text[start - 1]):
        start -= 1
    return start


def _behind_marks(text: str, offset: int) -> int:
    """Return where the marks end that begin at an offset."""
    end = offset
    while end < min(offset + _MOST_MARKS, len(text)) and _is_mark(text[end]):
        end += 1
    return end


def _is_mark(character: str) -> bool:
    """Whether a character is written on the letter before it, such as an accent."""
    return not character.isascii() and category(character).startswith("M")
