"""Whether an answer names a source in its own words, beside or without marks. Pure.

"According to report.pdf, it fell." names a source, and may cite it. "The Eiffel Tower is
high." only speaks of what a text with the title "Eiffel Tower" is about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ragmetrics_core.capture.source_names import (
    PART_OF_NAME,
    SAYS,
    add_context_indexes,
    is_distinctive,
    is_file,
    pattern_of_name,
    stem_of,
)
from ragmetrics_core.data.label_shapes import is_key_with_pages
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import AND_WORD

_SENTENCE_ENDS = r"(?=[\"'”*`]{0,2}\s*(?:[.,;:!?)]|$))"
_QUOTE_SIGNS = r"[\"'“”„‘’*_`《》「」『』]{0,3}"
_WORDS_BEFORE = (
    # "according to", "Source:"
    r"(?:\b(?:according to|as per|per|quoted from|sources?:|reference:|laut|gemäß)"
    # ", see", "(see", "(title:"
    r"|[,;(（]\s*(?:see|cf\.?|title:|source:|from)"
    # "according to", "see", "source:" in Chinese and Japanese
    r"|根据|根據|依据|依據|据|按照|参见|參見|参照|来源[:：]|來源[:：]|出典[:：])\s*(?:the\s+)?"
)
# "according to" in Japanese and Korean
_WORDS_BEHIND = r"\s*(?:によると|によれば|に基づ|에 따르면|에 의하면)"
# What stands in round brackets; the address of a link, "[words](address)", does not count.
_IN_ROUND_BRACKETS = lazy_pattern(r"(?<!\])\((?P<inside>[^()\n]{3,200})\)")
_BEFORE_A_NAME = lazy_pattern(
    r"(?:(?:see|from|in|cf\.?|title|file|name|url|link|as in|according to)\b[ \t:]*)+",
    re.IGNORECASE,
)
_AND = lazy_pattern(rf"\s{AND_WORD}\s")
_AROUND_NAME = " \t\"'“”„‘’`*"


def with_file_marks(answer: str, names: Collection[str]) -> str:
    """Return an answer with "(report.pdf)" written as "[report.pdf]", which is a mark.

    "(see report.pdf, p. 2)" becomes "[    report.pdf, p. 2]". Each character keeps its
    place.

    Args:
        answer: The answer.
        names: The names of the sources. Only a file among them is written so. If one of
            them is a key with pages, such as "Dubey2024 pages 3-4", all such keys are
            written so, even "(Smith2020 pages 1-2)" that no source has.
    """
    are_keys_marks = any(map(is_key_with_pages, names))

    def with_square_brackets(bracket: re.Match[str]) -> str:
        """Return "[    a.pdf]" for "(see a.pdf)"; a bracket without a source as it is."""
        inside = bracket["inside"]  # "see a.pdf"
        name, n_before = _name_in(inside)  # "a.pdf", and 4 characters before it
        is_file_of_source = name in names and is_file(name)
        is_key = are_keys_marks and _begins_with_key(name, names)
        if not is_file_of_source and not is_key:
            return bracket[0]
        blanks = " " * n_before  # in place of "see "
        return f"[{blanks}{inside[n_before:]}]"

    return _IN_ROUND_BRACKETS.sub(with_square_brackets, answer)


def _begins_with_key(name: str, names: Collection[str]) -> bool:
    """Whether a name is a key with pages, such as "Smith2020 pages 1-2", or several.

    Of "Smith2020 pages 1-2 and Lee2021 page 3" the first one decides. "Section 4 page 3",
    with two words before the page, may be a place in any source: it counts only if it
    is one of the names of sources.
    """
    first_key = _AND.split(name)[0]
    if not is_key_with_pages(first_key):
        return False
    has_one_word_before_pages = first_key.count(" ") == 2
    return has_one_word_before_pages or first_key in names


def names_unknown_file(answer: str, names: Collection[str]) -> bool:
    """Whether a round bracket names a file, "(f9.pdf)", that is none of the shown files.

    Args:
        answer: The answer, with ``with_file_marks`` around the files that are shown.
        names: The names of the contexts. Without a file among them False is returned.
    """
    if not any(map(is_file, names)):
        return False
    return any(
        is_file(_name_in(found["inside"])[0])
        for found in _IN_ROUND_BRACKETS.finditer(answer)
    )


def _name_in(inside: str) -> tuple[str, int]:
    """Return the name in a bracket, and how many characters stand before it, as "see "."""
    before = _BEFORE_A_NAME.match(inside)
    n_before = 0 if before is None else before.end()
    return PART_OF_NAME.split(inside[n_before:])[0].strip(_AROUND_NAME), n_before


def cites_in_words(
    answer: str,
    context_indexes_by_name: Mapping[str, Collection[int]],
    *,
    cited: Collection[int],
    question_and_passages: str,
) -> bool:
    """Whether an answer cites a context in words that none of its marks cites.

    "It is old [1]. According to b.pdf, it fell." does, if b.pdf is not number 1. "b.pdf
    says nothing on it" and "see b.pdf for more" only speak of the file.

    Args:
        answer: The answer, without its lists of sources.
        context_indexes_by_name: By each name of a context the indexes of its contexts.
        cited: The indexes of the contexts that the marks cite.
        question_and_passages: The question and the texts of the contexts, in lower case.
            A title that stands there is what the answer speaks of.
    """
    for name, context_indexes in _names_in(answer, context_indexes_by_name):
        if not context_indexes.isdisjoint(cited):
            continue
        if _stands_after_citing_words(name, answer):
            return True
        may_be_subject = (
            not is_distinctive(name) or name.lower() in question_and_passages
        )
        if not may_be_subject and _stands_like_a_source(name, answer):
            return True
    return False


def names_a_source(
    answer: str,
    context_indexes_by_name: Mapping[str, Collection[int]],
    *,
    question_and_passages: str,
) -> bool:
    """Whether an answer without marks names a source in words.

    True for "According to report.pdf, it fell.". False for "The Eiffel
    Tower is high." if a context is named "Eiffel Tower", but the question is about the
    tower: then its name is the subject of the answer, and no source. "According to
    Eiffel Tower" names a source in any case.

    Args:
        answer: The answer.
        context_indexes_by_name: By each name of a context the indexes of its contexts.
        question_and_passages: The question and the texts of the contexts, in lower case.
    """
    for name, _ in _names_in(answer, context_indexes_by_name):
        if _stands_after_citing_words(name, answer):
            return True
        if _stands_like_a_source(name, answer):
            return True
        # "report.pdf" anywhere in the answer, but not in the question or a context
        may_be_subject = (
            not is_distinctive(name) or name.lower() in question_and_passages
        )
        if not may_be_subject and re.search(pattern_of_name(name), answer):
            return True
    return False


def _names_in(
    answer: str, context_indexes_by_name: Mapping[str, Collection[int]]
) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the names that an answer holds, "report" of "report.pdf" too, each with its contexts."""
    names: dict[str, frozenset[int]] = {}
    for name, context_indexes in context_indexes_by_name.items():
        for form in {name, stem_of(name)} if is_file(name) else {name}:
            if form and form in answer:
                add_context_indexes(names, form, context_indexes)
    yield from names.items()


def _stands_after_citing_words(name: str, answer: str) -> bool:
    """Whether an answer says "according to NAME", "(see NAME)" or the like."""
    pattern = pattern_of_name(name)
    places = (
        rf"(?i:{_WORDS_BEFORE}){_QUOTE_SIGNS}{pattern}",
        rf"{pattern}{_QUOTE_SIGNS}{_WORDS_BEHIND}",
    )
    return any(re.search(place, answer) for place in places)


def _stands_like_a_source(name: str, answer: str) -> bool:
    """Whether an answer says "NAME says", "(NAME)", "… — NAME." or "… NAME, p. 3"."""
    quoted_name = rf"{_QUOTE_SIGNS}{pattern_of_name(name)}{_QUOTE_SIGNS}"
    places = (
        rf"{quoted_name}\s+(?:also\s+)?{SAYS}",
        rf"[(（]{quoted_name}(?:,[^()\n]*)?[)）]",
        rf"\S[ \t]+[-–—]{{1,2}}\s*{quoted_name}\.?\s*$",
        rf"{quoted_name},\s*(?:pp?\.|page)\s*\d",
    )
    return any(re.search(place, answer, re.MULTILINE) for place in places)
