"""Whether an answer names a source in its own words, without a mark. Pure.

"According to report.pdf, it fell." names a source, and may cite it. "The Eiffel Tower is
high." only speaks of what a text with the title "Eiffel Tower" is about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ragmetrics_core.capture.source_names import (
    is_file,
    is_no_common_word,
    pattern_of_name,
    stem_of,
)

_SENTENCE_ENDS = r"(?=[\"'”*`]{0,2}\s*(?:[.,;:!?)]|$))"
# "according to", "see", "Source:"
_CITES = r"according to|as per|per|quoted from|sources?:|reference:|laut|gemäß"
_WORDS_BEFORE_A_SOURCE = rf"\b(?:{_CITES}|see|cf\.?)"
_SAYS = (
    r"(?:says?|states?|notes?|reports?|gives?|writes?|shows?|tells?|mentions?"
    r"|describes?|explains?|puts it)\b(?!\s+(?:nothing|little|no)\b)"
)
_QUOTE_SIGNS = r"[\"'“”„‘’*_`]{0,3}"
# "#2", "^2^", "/2/", "|2|", "(Q2)" after a sentence; rows of a table begin with "|"
_NUMBER_IN_SIGNS = re.compile(
    r"(?:(?<=\s)\#(?P<hash>\d{1,3})|\^(?P<raised>\d{1,3})\^|(?<=\s)/(?P<slashes>\d{1,3})/"
    r"|(?<=[\w.][ \t])\|(?P<bars>\d{1,3})\||\([A-Z](?P<letter>\d{1,3})\))"
    + _SENTENCE_ENDS,
    re.MULTILINE,
)


def names_a_source(
    answer: str,
    names: Collection[str],
    *,
    numbers: Collection[str],
    subject_texts: Iterable[str],
) -> bool:
    """Whether an answer names a source in words, or by a number such as "#2".

    True for "According to report.pdf, it fell." and "It fell #2.". False for "The Eiffel
    Tower is high." if a context is named "Eiffel Tower", but the question is about the
    tower: then its name is the subject of the answer, and no source. "According to
    Eiffel Tower" names a source in any case.

    Args:
        answer: The answer.
        names: The names of the contexts, such as "report.pdf".
        numbers: The numbers that the contexts have in the prompt.
        subject_texts: The question and the texts of the contexts.
    """
    # "report.pdf" may be cited as "report"
    all_names = {*names, *map(stem_of, filter(is_file, names))}
    names_there = [name for name in all_names if name and name in answer]
    # "according to report", "(report)"
    if any(_stands_like_a_source(name, answer) for name in names_there):
        return True
    subjects = [text.lower() for text in subject_texts]
    # "#2", "^2^", "/2/" or "|2|", unless the question says "#2" as well
    if _has_number_in_signs(answer, numbers, subjects):
        return True
    # "report.pdf" anywhere in the answer, but not in the question or a context
    return any(
        is_no_common_word(name)
        and re.search(pattern_of_name(name), answer)
        and not any(name.lower() in subject for subject in subjects)
        for name in names_there
    )


def names_cited_beside_marks(answer: str, names: Iterable[str]) -> list[str]:
    """List the names by which an answer cites sources in words, beside its marks.

    "It is old [1]. According to b.pdf, it fell." cites b.pdf so. A file that the answer
    only speaks of, as in "b.pdf says nothing on it" and "see b.pdf", is not cited.

    Args:
        answer: The answer, without its lists of sources.
        names: The names of the contexts.
    """
    return [
        name
        for name in names
        if is_no_common_word(name)
        and name in answer
        and _is_cited_in_words(name, answer)
    ]


def _is_cited_in_words(name: str, answer: str) -> bool:
    """Whether an answer says "according to NAME", "NAME says", "(NAME)" or "… — NAME."."""
    quoted_name = rf"{_QUOTE_SIGNS}{pattern_of_name(name)}{_QUOTE_SIGNS}"
    places = (
        rf"\b(?i:{_CITES})\s*(?:the\s+)?{quoted_name}",
        rf"{quoted_name}\s+(?:also\s+)?{_SAYS}",
        rf"[(（](?:from |source: )?{quoted_name}(?:,[^()\n]*)?[)）]",
        rf"\w[.]?[ \t]+[-–—]{{1,2}}[ \t]*{quoted_name}\.?[ \t]*$",
    )
    return any(re.search(place, answer, re.MULTILINE) for place in places)


def _has_number_in_signs(
    answer: str, numbers: Collection[str], subjects: Iterable[str]
) -> bool:
    """Whether an answer cites a context's number by signs: "#2", "^2^", "/2/", "|2|".

    True for "It fell #2." if a context is number 2. False if the question is "What is
    issue #2?", and in a row of a table, "| Lanes |2|".

    Args:
        answer: The answer.
        numbers: The numbers that the contexts have in the prompt.
        subjects: The question and the texts of the contexts, in lower case.
    """
    subject_words = "\n".join(subjects)
    for found in _NUMBER_IN_SIGNS.finditer(answer):
        number = next(filter(None, found.groupdict().values()))
        line_start = answer.rfind("\n", 0, found.start()) + 1
        # "| Lanes |2|" is a row of a table
        is_in_table = answer[line_start:].startswith("|")
        # "What is issue #2?" asks about "#2"
        is_of_subject = found[0].lower() in subject_words
        if str(int(number)) in numbers and not is_in_table and not is_of_subject:
            return True
    return False


def _stands_like_a_source(name: str, answer: str) -> bool:
    """Whether a name stands where sources are named.

    That is "according to NAME", "NAME says", "(NAME)", "… — NAME." or "… NAME, p. 3".
    """
    quoted_name = rf"{_QUOTE_SIGNS}{pattern_of_name(name)}{_QUOTE_SIGNS}"
    places = (
        rf"(?i:{_WORDS_BEFORE_A_SOURCE})\s*(?:the\s+)?{quoted_name}",
        rf"{quoted_name}\s+(?:also\s+)?{_SAYS}",
        rf"[(（](?:see |from |source: )?{quoted_name}(?:,[^()\n]*)?[)）]",
        rf"\S[ \t]+[-–—]{{1,2}}\s*{quoted_name}\.?\s*$",
        rf"{quoted_name},\s*(?:pp?\.|page)\s*\d",
    )
    return any(re.search(place, answer, re.MULTILINE) for place in places)
