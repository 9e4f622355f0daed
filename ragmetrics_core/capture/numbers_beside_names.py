"""Which numbers of a text stand beside the name of a source, as in "[1] report.pdf". Pure.

Such a number means the source with this name, in whatever list or sentence it stands. A
prompt that shows "[2] report.pdf" gives it another number: then nobody knows what "[1]"
means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragmetrics_core.capture.prompt_numbers import CHUNK, numbers_by_kind_in
from ragmetrics_core.capture.source_names import (
    LABEL_IN_BRACKETS,
    LETTERED_NUMBER,
    NameFound,
    SourceNames,
    is_file,
    is_no_common_word,
    mark_label_of,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LINE, LOOKBACK, SOURCE_WORD
from ragmetrics_core.data.source_lists import is_reference

# "[1]", "Source 1", '"1":', "1 =": a number that names a source wherever it stands
_NUMBER = lazy_pattern(
    rf"""[\[［〔【]\^?[ ]?(?P<in_brackets>{LABEL_IN_BRACKETS})[ ]?[\]］〕】]
    |(?<![^\W_])(?P<behind_word>{SOURCE_WORD}\.?[ \t]*(?:\#|n[or]\.?|numbers?)?[ \t]*
      \d{{1,4}})(?![\w.]*\w)
    |["'](?P<quoted>\d{{1,4}})["'](?=[ \t]*:)
    |\bnumber[ \t]+(?P<worded>\d{{1,4}})(?=[ \t]+(?:for|to|means|is)\b)
    |(?<![\w.])(?P<equal>\d{{1,4}})(?=[ \t]*(?:=|→|->))
    |(?<![\w.])(?P<lettered>{LETTERED_NUMBER})(?![\w.]*\w)""",
    re.IGNORECASE | re.VERBOSE,
)
# "1.", "(1)", "| 1 |": a number that begins a line of a prompt may count what follows
_NUMBER_OF_LINE = lazy_pattern(
    r"[^\w\n\[(]*+(?:\((?P<in_brackets>\d{1,4})\)|(?P<bare>\d{1,4})(?:[.):|]|(?=[ \t])))"
)
# "1", "[1]", "¹" and "①", but no measure such as "3 pages"
_NUMBER_OF_ENTRY = lazy_pattern(
    r"(?:\A[^\w]*|(?<![\w.,/-]))(?P<digits>\d{1,4})(?!\w|[.,/-]\d)"
    rf"|(?<![\w.,/-])(?P<lettered>{LETTERED_NUMBER})"
    r"|(?P<raised>[⁰¹²³⁴-⁹]{1,3}|[①-⑳])"
)
_MEASURE = lazy_pattern(r"(?:(?<=\()|(?<=\w[ \t]))\d+[ \t]+[^\W\d_]+")
# "1: a.pdf, 2: b.pdf" and "<s n='1'>a.pdf</s><s n='2'>b.pdf</s>" have two entries
_ENTRY_IN_A_LINE = lazy_pattern(r"(?:(?!</)[^,;{}])+")
_PLACE_IN_SOURCE = lazy_pattern(
    r"(?<!\w)(?:pp?\.?|pages?:?|seiten?|s\.|section|chapter|chunk|part|lines?|vol\.?|§)"
    r"[ \t]*\d[\d ,–-]*",
    re.IGNORECASE,
)
_QUOTES_AND_STARS = r"[ \t*_`\"'“”„«»‘’\[<]"
# "[1] a.pdf", "[1](a.pdf)"
_CLOSE_BY = lazy_pattern(rf"{_QUOTES_AND_STARS}{{0,20}}+\(?{_QUOTES_AND_STARS}?")
# "[1]: a.pdf", "| [1] | a.pdf", "[1] – *a.pdf*"
_SIGNS = r"[ \t*_`\"'“”„«»‘’\[<:|(>–—-]"
_BEHIND_A_SIGN = lazy_pattern(rf"{_SIGNS}{{0,20}}+")
# "[1] – File: a.pdf", "[1] The source is a.pdf", "[1] see a.pdf"
_BEHIND_WORDS = lazy_pattern(
    rf"{_SIGNS}{{0,20}}+"
    r"(?:(?:see|from|in|the|is|was|file|document|source|title|datei|quelle|titel|siehe|aus"
    r"|die|ist)\b[ \t]*[:=]?[ \t]*){0,4}"
    rf"{_QUOTES_AND_STARS}{{0,4}}+",
    re.IGNORECASE,
)
_EQUALS = lazy_pattern(
    rf"{_QUOTES_AND_STARS}{{0,8}}+(?:=>?|→|->){_QUOTES_AND_STARS}{{0,8}}+"
)
# "the number 1 for a.pdf"
_FOR = lazy_pattern(
    r"[ \t]+(?:for|to|means|is)[ \t]+(?:(?:the )?(?:file|source|document)[ \t]+)?"
    rf"{_QUOTES_AND_STARS}{{0,8}}+",
    re.IGNORECASE,
)
_IS = lazy_pattern(
    r"[ \t*_`)]{0,8}+(?:is|means|denotes|refers to|stands for|ist|meint|bezeichnet"
    r"|steht für|für|désigne|est|es|significa|è|indica|é)[ \t]+(?:(?:the|die) (?:file|datei)[ \t]+)?[*_`\"'“„«]{0,4}+",
    re.IGNORECASE,
)
# what stands before a number that a clause explains: "…, where [1] is report.pdf"
_BEGINS_A_CLAUSE = lazy_pattern(
    r"(?:\A|[.;:,(|{!?–—>*-]|\b(?:where|and|here|while|wobei|und|où|donde|dove|onde|(?:foot)?note))"
    r"[ \t*_(`]*\Z",
    re.IGNORECASE,
)
_PATH = lazy_pattern(r"(?:https?://)?(?:[\w.~-]{1,60}[/\\]){1,12}|[/\\]")
_AROUND_NAME = " \t*_`\"'“”«»(|:–—-"
# "a.pdf = [1]", "I cite a.pdf as [1]."
_NAME_IS_NUMBER = lazy_pattern(
    r"[*_`\"'”»)]*[ \t]*(?:=|→|->|\b(?:is|as|ist|als))[ \t*_`(]*\Z"
)
_NUMBER_ENDS = lazy_pattern(r"[*_`)\]]*[ \t]*(?:\Z|[.,;|)]|(?:and|und)\b)")
# After the name of an entry no sentence goes on: "[1] Opening day was" is no entry.
_TITLE_ENDS = lazy_pattern(
    r"\]\(|[*_`\"'“”»)\]} \t]{0,8}+"
    r"(?:\Z|[|<;.\0]|,?[ \t]*(?:pp?\.|pages?\b|and\b|und\b)"
    r"|,?[ \t]*(?:[\[\"']\d|source))",
    re.IGNORECASE,
)
_FILE_ENDS = lazy_pattern(
    r"[ \t]*(?:\Z|[^\s\w]|(?:pp?|pages?|and|und)\b)", re.IGNORECASE
)
_PAGE_OR_PART = lazy_pattern(
    r"(?:pages?|pp?\.?|seite|chunk|part|score|section)\b", re.I
)


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """A number of a text that stands beside the name of a source.

    Args:
        number: The number.
        indexes: The indexes of the contexts that the name means.
        start: Where the number begins in the text.
        may_count: Whether the number may only count lines, as the 1 of "1. a.pdf".
        kind: The word before the number, such as "source"; "" without a word, and in
            "Source 1 = a.pdf", which tells of any 1.
    """

    number: str
    indexes: frozenset[int]
    start: int
    may_count: bool = False
    kind: str = ""


def numbers_beside_names(text: str, names: SourceNames) -> Iterator[NamedNumber]:
    """Yield each number of a text that the name of a source explains.

    "[1] a.pdf", "where [1] is a.pdf", "| 1 | a.pdf |", and "[1]" above a line "a.pdf"
    do. "Edit a.pdf [1]." does not: there the mark cites a source of the sentence.

    Args:
        text: An answer, or a prompt without its contexts.
        names: The names of the contexts.
    """
    lines = list(LINE.finditer(text))
    for line_index, line in enumerate(lines):
        words = line[0]
        yield from _numbers_in_line(words, line.start(), names)
        # "1. a.pdf" and "| 1 | a.pdf |": the number may only count the lines
        counting = _NUMBER_OF_LINE.match(words)
        name = None
        if counting is not None:
            name = _name_of_entry(words, counting.end(), names)
        if counting is not None and name is not None:
            yield NamedNumber(
                _label(counting), name.indexes, line.start(), may_count=True
            )
        yield from _numbers_of_row(words, line.start(), names)
        # "[1]" alone in its line, and "a.pdf" in the next
        alone = _NUMBER.fullmatch(words.strip(" \t*_:-"))
        if alone is not None and line_index + 1 < len(lines):
            name = _name_of_entry(lines[line_index + 1][0], 0, names)
            if name is not None:
                yield NamedNumber(_label(alone), name.indexes, line.start())


def _numbers_of_row(
    words: str, line_start: int, names: SourceNames
) -> Iterator[NamedNumber]:
    """Yield the number of a table's row such as "| a.pdf | [1] |".

    Only a row with one cell that is a number and one that is a name has such a number.
    """
    cells = [cell.strip(" \t*_`") for cell in words.strip(" \t|").split("|")]
    if len(cells) == 1:
        return  # no row
    numbers = [number for cell in cells if (number := _NUMBER.fullmatch(cell))]
    names_of_cells = [
        found
        for cell in cells
        if (found := names.longest_at(cell, 0)) and found.end == len(cell)
    ]
    if len(numbers) == 1 and len(names_of_cells) == 1:
        yield NamedNumber(_label(numbers[0]), names_of_cells[0].indexes, line_start)


def _numbers_in_line(
    words: str, line_start: int, names: SourceNames
) -> Iterator[NamedNumber]:
    """Yield the numbers of a line that a source's name explains.

    "[1] a.pdf" and "Source 1: a.pdf" do, where the name follows the number; also "[1]
    is a.pdf" and "a.pdf = [1]". None of "a.pdf [1], b.pdf [2]", where each mark only
    cites the name before it.

    Args:
        words: The line.
        line_start: Where it begins in its text.
        names: The names of the contexts.
    """
    # "chunk 2 (a.pdf)" counts the pieces of one document
    numbers = [
        number for number in _NUMBER.finditer(words) if _kind_of(number) != CHUNK
    ]
    # In "a.pdf [1], b.pdf [2]" the name that follows [1] is not its name.
    is_name_first = bool(numbers) and _stands_behind_a_name(numbers[0], words, names)
    for number in numbers:
        start = line_start + number.start()
        kind = ""  # "Source 1 = a.pdf" explains any 1, so it has no kind
        name = _name_behind_equals(number, words, names)
        # "a.pdf = [1]"
        indexes_before = _named_before_a_link(number, words, names)
        if indexes_before:
            yield NamedNumber(_label(number), indexes_before, start)
        # "Source 1: a.pdf" explains only a 1 of the kind "source"
        if name is None and not is_name_first:
            name = _name_directly_after(number, words, names)
            kind = _kind_of(number)
        if name is not None:
            yield NamedNumber(_label(number), name.indexes, start, kind=kind)


def _label(found: re.Match[str]) -> str:
    """Return the number of a match, without zeros before it; "S1" where it has letters."""
    groups = found.groupdict()
    words = groups.pop("behind_word", None)
    if words is not None:
        return str(int(re.sub(r"\D", "", words)))
    return mark_label_of(next(filter(None, groups.values())))


def _kind_of(number: re.Match[str]) -> str:
    """Return the word before a number, such as "source"; "" for "[1]"."""
    kinds = [kind for kind, _ in numbers_by_kind_in(number[0])]
    return kinds[0] if kinds else ""


def _stands_behind_a_name(
    number: re.Match[str], words: str, names: SourceNames
) -> bool:
    """Whether the name of a source stands directly before a number of a line."""
    nearest = max(0, number.start() - names.longest - LOOKBACK)
    before = words[nearest : number.start()].rstrip(_AROUND_NAME)
    return bool(names.longest_before(before, len(before)))


def _begins_a_clause(number: re.Match[str], words: str) -> bool:
    """Whether a number of a line begins a clause; in "the file in [1]" it does not."""
    before = words[max(0, number.start() - LOOKBACK) : number.start()]
    return _BEGINS_A_CLAUSE.search(before) is not None


def _name_behind_equals(
    number: re.Match[str], words: str, names: SourceNames
) -> NameFound | None:
    """Find the name in "[1] = a.pdf" or "[1] is a.pdf"; None without such words.

    In "the file in [1] is a.pdf" the mark cites what tells of the file.
    """
    if number["worded"] is not None:  # "the number 1 for a.pdf"
        return _name_at(_FOR, words, number.end(), names, must_end=False)
    name = _name_at(_EQUALS, words, number.end(), names, must_end=False)
    if name is None and _begins_a_clause(number, words):
        name = _name_at(_IS, words, number.end(), names, must_end=False)
    return name


def _named_before_a_link(
    number: re.Match[str], words: str, names: SourceNames
) -> frozenset[int]:
    """Return the contexts named in "a.pdf = [1]" or "I cite a.pdf as [1]."; empty without."""
    nearest = max(0, number.start() - names.longest - LOOKBACK)
    link = _NAME_IS_NUMBER.search(words[nearest : number.start()])
    if link is None or _NUMBER_ENDS.match(words, number.end()) is None:
        return frozenset()
    return names.longest_before(words[nearest:], link.start())


def _name_directly_after(
    number: re.Match[str], words: str, names: SourceNames
) -> NameFound | None:
    """Find the name directly after a number, as in "[1] a.pdf" and "[1]: a.pdf".

    None for "These files are needed [1]: a.pdf", where the mark ends a clause.
    """
    name = _name_at(_CLOSE_BY, words, number.end(), names)
    if name is not None:
        return name
    is_entry = _begins_a_clause(number, words) or _stands_behind_a_name(
        number, words, names
    )
    return _name_of_entry(words, number.end(), names) if is_entry else None


def _name_of_entry(words: str, start: int, names: SourceNames) -> NameFound | None:
    """Find the name of an entry after its number, as in "| 1 | File: a.pdf"."""
    name = _name_at(_BEHIND_A_SIGN, words, start, names)
    # "The source is a.pdf"; but "The Bridge Book" is a name as a whole
    return name or _name_at(_BEHIND_WORDS, words, start, names)


def _name_at(
    between: re.Pattern[str],
    words: str,
    start: int,
    names: SourceNames,
    *,
    must_end: bool = True,
) -> NameFound | None:
    """Find the name of a source after a number; None if other words stand there.

    Args:
        between: What may stand between the number and the name.
        words: The line.
        start: Where the number ends in it.
        names: The names of the contexts.
        must_end: Whether a name with more words after it is rejected: "[1] a.pdf says".
    """
    link = between.match(words, start)
    if link is None:
        return None
    found = names.longest_at(words, link.end())
    if found is None:  # "docs/a.pdf", where "a.pdf" is known
        path = _PATH.match(words, link.end())
        found = None if path is None else names.longest_at(words, path.end())
    if found is None or not is_no_common_word(found.name):
        return None
    if _PAGE_OR_PART.match(found.name):
        return None  # "[1] (page 3)" names no source
    closing = _FILE_ENDS if is_file(found.name) else _TITLE_ENDS
    goes_on = closing.match(words, found.end) is None
    return None if must_end and goes_on else found


def numbers_in_short_lines(text: str, names: SourceNames) -> Iterator[NamedNumber]:
    """Yield the bare numbers of lines that hold names of sources, and no sentence.

    "1 – a.pdf", "¹ a.pdf", "| a.pdf | 1 |" and "Footnote 1: a.pdf" do. The number of a
    page, as in "a.pdf, p. 1", does not count.

    Args:
        text: An answer after its last mark, or a paragraph of a prompt.
        names: The names of the contexts.
    """
    for line in LINE.finditer(text):
        for entry in _ENTRY_IN_A_LINE.findall(line[0].replace("|", " ")):
            yield from _numbers_of_entry(entry, line.start(), names)


def _numbers_of_entry(
    entry: str, line_start: int, names: SourceNames
) -> Iterator[NamedNumber]:
    """Yield the bare numbers of an entry such as "1 – a.pdf"; none of a sentence.

    Args:
        entry: The entry.
        line_start: Where its line begins in the text.
        names: The names of the contexts.
    """
    if not is_reference(entry):
        return
    indexes: set[int] = set()
    words_left = entry  # without the names, which may hold numbers
    for start, found in names.found_in(entry):
        indexes.update(found.indexes)
        blanks = " " * (found.end - start)
        words_left = words_left[:start] + blanks + words_left[found.end :]
    # "a.pdf, p. 1" and "a.pdf (3 pages)" have no number of an entry
    words_left = _MEASURE.sub(" ", _PLACE_IN_SOURCE.sub(" ", words_left))
    if not indexes:
        return
    kinds = {number: kind for kind, number in numbers_by_kind_in(words_left)}
    for found_number in _NUMBER_OF_ENTRY.finditer(words_left):
        number = _label(found_number)
        kind = kinds.get(number, "")  # "source" in "Source 1: a.pdf"
        yield NamedNumber(number, frozenset(indexes), line_start, kind=kind)
