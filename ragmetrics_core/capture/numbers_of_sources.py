"""Whether a number of an answer may name a source. Pure.

An answer may cite by any number that its prompt shows beside a passage: "(row 14)", "on
slide 8", "根据文档2". No list of words tells such numbers from those of the text, as in
"a ticket is 2 euros". What tells is where else the number stands, and beside which words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ragmetrics_core.data.lazy_patterns import lazy_pattern

# words, and numbers such as "9.3" and "00:02:30"
_TOKEN = lazy_pattern(r"[^\W\d]+|(?P<number>\d+(?:[.,:]\d+)*)")
_NUMBER = lazy_pattern(r"\d+(?:[.,:]\d+)*")
_LEADING_ZEROS = lazy_pattern(r"(?<![\d.,])0+(?=\d)")
# "(…)", "[…]", "<doc …>", and signs for private use, by which some models cite
_BRACKETS = lazy_pattern(
    r"[\[(【「『〔{][^\n\[\]()【】「」『』〔〕{}]{1,200}[\])】」』〕}]"
    r"|</?[^\W\d_][^<>\n]{0,200}>|[\ue000-\uf8ff][^\s\ue000-\uf8ff]{1,80}"
)
# "2. The bridge", "**2. The bridge**"
_NUMBER_OF_ITEM = lazy_pattern(
    r"^[ \t>#*_-]{0,12}(?P<number>\d{1,3})[.)][*_]*[ \t]+\S", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _NumberBesideWords:
    """A number in a text.

    Args:
        value: The number, without leading zeros: "9.3", "0:2:30".
        before: The word or number before it, in lower case; "" without.
        behind: The word or number behind it; "" without.
        start: Where it begins in the text.
    """

    value: str
    before: str
    behind: str
    start: int


class SpokenNumbers:
    """The numbers that some texts speak of, each with the words beside it."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read the numbers of texts."""
        self.values: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        for text in texts:
            for number in _numbers_in(_plain(text)):
                self.values.add(number.value)
                self._pairs.update(_pairs_of(number))

    def have_beside_same_word(self, number: _NumberBesideWords) -> bool:
        """Whether a text has the number beside one of its two words: "2 euros"."""
        return not self._pairs.isdisjoint(_pairs_of(number))


def has_number_of_a_source(
    answer: str, passages: Iterable[str], prompts: Iterable[str]
) -> bool:
    r"""Whether an answer has a number that may name a source.

    Two kinds of numbers name none: the 2 of "2 euros", if a passage says so as well,
    and the 1 of "1. Open the lid.", which counts the answer's items. Any other number
    may name a source if

    - a prompt shows it beside a passage: "row 14", as the prompt has "Row: 14";
    - a prompt numbers its passages by the same word: "row 99", as it has "Row: 7" and
      "Row: 14";
    - it stands in brackets, "(99)", and in no passage.

    Args:
        answer: The answer.
        passages: What the answer may speak of: the question, and the passages without
            the labels above them.
        prompts: The messages that the model was shown.

    Examples:
        >>> prompts = ["Row: 7\nA ticket is 2 euros.", "Row: 14\nDogs are free."]
        >>> passages = ["A ticket is 2 euros.", "Dogs are free."]
        >>> has_number_of_a_source("Dogs are free (row 14).", passages, prompts)
        True
        >>> has_number_of_a_source("It is 2 euros.", passages, prompts)
        False
    """
    numbers_of_passages = SpokenNumbers(passages)
    labels = _NumbersOfLabels(prompts, numbers_of_passages)
    text = _plain(answer)
    starts_in_brackets = _starts_in_brackets(text)
    starts_of_items = _starts_of_items(text)
    for number in _numbers_in(text):
        counts_an_item = number.start in starts_of_items
        # "2 euros", as a passage says
        is_of_a_passage = numbers_of_passages.have_beside_same_word(number)
        if counts_an_item or is_of_a_passage:
            continue
        if labels.have(number) or labels.are_numbered_by(number.before):
            return True
        # "(2)" may repeat the 2 of a passage's "2 euros"; "(99)" repeats none
        is_in_a_passage = number.value in numbers_of_passages.values
        if number.start in starts_in_brackets and not is_in_a_passage:
            return True
    return False


def _starts_in_brackets(text: str) -> set[int]:
    """Return where the numbers begin that stand in brackets or tags: "(row 14)"."""
    starts: set[int] = set()
    for bracket in _BRACKETS.finditer(text):
        numbers = _NUMBER.finditer(text, *bracket.span())
        starts.update(number.start() for number in numbers)
    return starts


class _NumbersOfLabels:
    """The numbers that prompts show beside the passages."""

    def __init__(self, prompts: Iterable[str], spoken: SpokenNumbers) -> None:
        """Read the numbers of prompts that are none of a passage."""
        self._values: set[str] = set()
        self._values_by_word: dict[str, set[str]] = {}
        for prompt in prompts:
            for number in _numbers_in(_plain(prompt)):
                if not spoken.have_beside_same_word(number):
                    self._add(number)

    def _add(self, number: _NumberBesideWords) -> None:
        """Add a number: "0:2:30" is "2:30", too, and that of "page_label" one of a page."""
        parts = number.value.split(":")
        self._values.update(":".join(parts[index:]) for index in range(len(parts)))
        for word in filter(None, number.before.split("_")):
            self._values_by_word.setdefault(word, set()).add(number.value)

    def have(self, number: _NumberBesideWords) -> bool:
        """Whether the prompts show a number of an answer beside a passage."""
        return number.value in self._values

    def are_numbered_by(self, word: str) -> bool:
        """Whether a word stands before several of the numbers: "Page: 7", "Page: 12"."""
        return len(self._values_by_word.get(word, ())) > 1


def _starts_of_items(text: str) -> set[int]:
    """Return where the numbers stand that count the items of a text: 1., 2., 3."""
    starts: set[int] = set()
    next_number = 1
    for item in _NUMBER_OF_ITEM.finditer(text):
        number = int(item["number"])
        if number in (1, next_number):
            starts.add(item.start("number"))
            next_number = number + 1
    return starts


def _numbers_in(text: str) -> Iterator[_NumberBesideWords]:
    """Yield the numbers of a plain text, each with the words beside it."""
    tokens = [None, *_TOKEN.finditer(text), None]
    for (before, number), (_, behind) in pairwise(pairwise(tokens)):
        if number is not None and number["number"] is not None:
            yield _NumberBesideWords(
                _LEADING_ZEROS.sub("", number[0]),
                _word(before),
                _word(behind),
                number.start(),
            )


def _word(token: re.Match[str] | None) -> str:
    """Return a word or number as it is compared; "" at the end of a text."""
    return "" if token is None else _LEADING_ZEROS.sub("", token[0].lower())


def _pairs_of(number: _NumberBesideWords) -> Iterator[tuple[str, str]]:
    """Yield a number with the word before it, and with the word behind it."""
    if number.before:
        yield number.before, number.value
    if number.behind:
        yield number.value, number.behind


def _plain(text: str) -> str:
    """Return a text with the digits 0 to 9 for those of any script: "２" and "٢" are 2."""
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text
    )
