"""Which numbers of a text stand beside the name of a source, as in "[1] report.pdf". Pure.

Such a number means the source with this name, in whatever list or sentence it stands. A
prompt that shows "[2] report.pdf" gives it another number: then nobody knows what "[1]"
means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from ragmetrics_core.capture.model_words import without_spans
from ragmetrics_core.capture.prompt_numbers import CHUNK, numbers_with_numbering_in
from ragmetrics_core.capture.source_names import (
    LABEL_IN_BRACKETS,
    LETTERED_NUMBER,
    SAYS,
    NameFound,
    SourceNames,
    is_distinctive,
    is_file,
    mark_label_of,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LINE, LOOKBACK, SOURCE_WORD, Span
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
_EQUALS = lazy_pattern(
    rf"{_QUOTES_AND_STARS}{{0,8}}+(?:=>?|→|->){_QUOTES_AND_STARS}{{0,8}}+"
)
# "[1]: a.pdf", "| [1] | a.pdf |", "[1] – *a.pdf*"
_BEHIND_SIGNS = lazy_pattern(r"[ \t*_`\"'“”„«»‘’\[<:|(>–—-]{0,20}+")
# "[1] – File: a.pdf", "[1] The source is a.pdf", "[1] see a.pdf", "number 1 for a.pdf"
_LINKING_WORDS = (
    r"(?:see|from|in|the|is|was|means|denotes|refers to|stands for|for|to|file|document"
    r"|source|title|datei|quelle|titel|siehe|aus|die|ist|meint|bezeichnet|steht für|für"
    r"|désigne|est|es|significa|è|indica|é)(?!\w)"
)
_LINKING_WORD = lazy_pattern(
    rf"{_LINKING_WORDS}[ \t]*[:=]?[ \t]*{_QUOTES_AND_STARS}{{0,4}}+", re.IGNORECASE
)
_MOST_LINKING_WORDS = 4
# what stands before a number that a clause explains: "…, where [1] is report.pdf"
_BEGINS_A_CLAUSE = lazy_pattern(
    r"(?:\A|[.;:,(|{!?–—>*-]|\b(?:where|and|here|while|wobei|und|où|donde|dove|onde|(?:foot)?note))"
    r"[ \t*_(`]*\Z",
    re.IGNORECASE,
)
_PATH = lazy_pattern(r"(?:https?://)?(?:[\w.~-]{1,60}[/\\]){1,12}|[/\\]")
_AROUND_NAME = " \t*_`\"'“”«»(|:–—-"
# "a.pdf = [1]", "| a.pdf | [1] |", "I cite a.pdf as [1]."
_NAME_IS_NUMBER = lazy_pattern(
    r"[*_`\"'”»)]*[ \t]*(?:[=|→]|->|\b(?:is|as|ist|als))[ \t*_`(]*\Z"
)
_NUMBER_ENDS = lazy_pattern(r"[*_`)\]]*[ \t]*(?:\Z|[.,;|)]|(?:and|und)\b)")
# "### a.pdf [1]", "- **a.pdf** [1]: …", "It fell (a.pdf, p. 3 [1]).", "- from docs/a.pdf [1]":
# what stands before a name that no sentence leads to
_SETS_A_NAME_OFF = lazy_pattern(
    r"(?:\A[^\w\n]*+(?:\d{1,3}[.)][^\w\n]*+)?"
    r"|[.;:!?|(。：；！？（—–]|[ \t]-[ \t]|,(?=[ \t]*" + _LINKING_WORDS + r"))"
    r"[ \t*_`\"'“”„«»‘’《「(<\[]*+"
    rf"(?:{_LINKING_WORDS}[ \t]*[:=]?[ \t*_`\"'“”„«»‘’《「(<\[]*+){{0,4}}"
    r"(?:(?:https?://)?(?:[\w.~-]{1,60}[/\\]){1,12})?\Z",
    re.IGNORECASE,
)
# A title may be what the answer speaks of, unless signs mark it as a name.
_MARKS_A_TITLE = lazy_pattern(r"\A[ \t]*\#+[ \t][^\w\n]*\Z|[*_`\"'“„«‘《「(（\[]\Z")
_PAGE_AT_THE_END = lazy_pattern(
    r"(?<!\w)(?:pp?\.?|pages?|seiten?|s\.)[ \t]*\d{1,4}\Z", re.IGNORECASE
)
_BETWEEN_NAME_AND_NUMBER = " \t*_`\"'“”«»‘’》」(（|:：,，–—-"
_ENDS_THE_CLAUSE_OR_SAYS = lazy_pattern(
    rf"[*_`)\]）]*[ \t]*(?:\Z|[.,;:|)。，；：）–—-]|(?:and|und)\b|(?:also[ \t]+)?{SAYS})",
    re.IGNORECASE,
)
# After the name of an entry no sentence goes on: "[1] Opening day was" is no entry.
_TITLE_ENDS = lazy_pattern(
    r"\]\(|[*_`\"'“”»)\]} \t]{0,8}+"
    r"(?:\Z|[|<;.\0]|,?[ \t]*(?:pp?\.|pages?\b|and\b|und\b)"
    r"|,?[ \t]*(?:[\[\"']\d|source))",
    re.IGNORECASE,
)
_PAGE_OR_PART = lazy_pattern(
    r"(?:pages?|pp?\.?|seite|chunk|part|score|section)\b", re.I
)


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """A number of a text that stands beside the name of a source.

    Args:
        number: The number.
        context_indexes: The indexes of the contexts that the name means.
        start: Where the number begins in the text.
        numbering: The word before the number, such as "source", if the name tells of
            numbers behind this word alone; "" if it tells of any such number.
    """

    number: str
    context_indexes: frozenset[int]
    start: int
    numbering: str = ""


def numbers_beside_names(text: str, names: SourceNames) -> Iterator[NamedNumber]:
    """Yield each number of a text that stands for the source named beside it.

    The number 1 stands for a.pdf in "[1] a.pdf", "where [1] is a.pdf", "| [1] | a.pdf |",
    "- **a.pdf** [1]: It is old.", and where "[1]" stands above a line "a.pdf". In "Edit
    a.pdf [1]." it does not: there [1] is cited for what the sentence says of a.pdf.

    Args:
        text: An answer, or a prompt without its contexts.
        names: The names of the contexts.
    """
    lines = list(LINE.finditer(text))
    for line, line_below in zip_longest(lines, lines[1:]):
        yield from _numbers_in_line(line[0], line.start(), names)
        if line_below is not None:
            number = _number_alone_above(line_below[0], line, names)
            if number is not None:
                yield number


def _number_alone_above(
    line_below: str, line: re.Match[str], names: SourceNames
) -> NamedNumber | None:
    """Return the number in "[1]", a whole line, if the line below it names a source."""
    number = _NUMBER.fullmatch(line[0].strip(" \t*_:-"))
    if number is None:
        return None
    name = _name_of_entry(line_below, 0, names)
    if name is None:
        return None
    return NamedNumber(_label(number), name.context_indexes, line.start())


def _numbers_in_line(
    words: str, line_start: int, names: SourceNames
) -> Iterator[NamedNumber]:
    """Yield the numbers of a line that stand for a source named before or behind them.

    "a.pdf = [1]" names it before the number, "[1] a.pdf" and "[1] is a.pdf" behind it. A
    number with a source on both sides is yielded with each of them.

    Args:
        words: The line.
        line_start: Where it begins in its text.
        names: The names of the contexts.
    """
    # "chunk 2 (a.pdf)" counts the pieces of one document
    numbers = [
        number for number in _NUMBER.finditer(words) if _numbering_of(number) != CHUNK
    ]
    # "a.pdf [1], b.pdf [2]" begins with a name, so that its numbers stand behind their
    # names: b.pdf, which follows [1], is not the name of 1
    are_names_first = bool(numbers) and _stands_behind_a_name(numbers[0], words, names)
    for number in numbers:
        named_before = _named_before(number, words, names)
        if named_before is not None:
            yield replace(named_before, start=line_start + number.start())
        named_behind = _named_behind(
            number, words, names, are_names_first=are_names_first
        )
        if named_behind is not None:
            yield replace(named_behind, start=line_start + number.start())


def _named_before(
    number: re.Match[str], words: str, names: SourceNames
) -> NamedNumber | None:
    """Return a number of a line with what a name before it means; None without a name.

    "a.pdf = Source 1" explains every 1, also "[1]": the number has no numbering. "###
    a.pdf (Source 1)" explains only "Source 1": its numbering is "source".
    """
    context_indexes = _named_before_a_link(number, words, names)
    if context_indexes:
        return NamedNumber(_label(number), context_indexes, number.start())
    context_indexes = _named_by_itself_before(number, words, names)
    if not context_indexes:
        return None
    numbering = _numbering_of(number)
    return NamedNumber(
        _label(number), context_indexes, number.start(), numbering=numbering
    )


def _named_behind(
    number: re.Match[str], words: str, names: SourceNames, *, are_names_first: bool
) -> NamedNumber | None:
    """Return a number of a line with what a name behind it means; None without a name.

    "Source 1 = a.pdf" explains every 1, also "[1]": the number has no numbering.
    "Source 1: a.pdf" explains only "Source 1": its numbering is "source".

    Args:
        number: The number.
        words: The line.
        names: The names of the contexts.
        are_names_first: Whether the line names sources before their numbers. Then only a
            sign such as "=" links a number to the name behind it.
    """
    # whatever follows the name in "[1] = Opening day, which …"
    name = _name_behind(_EQUALS, words, number.end(), names, must_end_clause=False)
    if name is not None:
        return NamedNumber(_label(number), name.context_indexes, number.start())
    if are_names_first:
        return None
    name = _name_directly_after(number, words, names)
    if name is None:
        return None
    numbering = _numbering_of(number)
    return NamedNumber(
        _label(number), name.context_indexes, number.start(), numbering=numbering
    )


def _label(found: re.Match[str]) -> str:
    """Return the number of a match, without zeros before it; "S1" where it has letters."""
    groups = found.groupdict()
    words = groups.pop("behind_word", None)
    if words is not None:
        return str(int(re.sub(r"\D", "", words)))
    return mark_label_of(next(filter(None, groups.values())))


def _numbering_of(number: re.Match[str]) -> str:
    """Return the word before a number, such as "source"; "" for "[1]"."""
    numberings = [numbering for numbering, _ in numbers_with_numbering_in(number[0])]
    return numberings[0] if numberings else ""


def _stands_behind_a_name(
    number: re.Match[str], words: str, names: SourceNames
) -> bool:
    """Whether the name of a source stands directly before a number of a line."""
    nearest = max(0, number.start() - names.longest - LOOKBACK)
    before = words[nearest : number.start()].rstrip(_AROUND_NAME)
    return names.longest_before(before, len(before)) is not None


def _begins_a_clause(number: re.Match[str], words: str) -> bool:
    """Whether a number of a line begins a clause; in "the file in [1]" it does not."""
    before = words[max(0, number.start() - LOOKBACK) : number.start()]
    return _BEGINS_A_CLAUSE.search(before) is not None


def _named_before_a_link(
    number: re.Match[str], words: str, names: SourceNames
) -> frozenset[int]:
    """Return the contexts named in "a.pdf = [1]" or "I cite a.pdf as [1]."; empty without."""
    nearest = max(0, number.start() - names.longest - LOOKBACK)
    link = _NAME_IS_NUMBER.search(words[nearest : number.start()])
    if link is None or _NUMBER_ENDS.match(words, number.end()) is None:
        return frozenset()
    found = names.longest_before(words[nearest:], link.start())
    return frozenset() if found is None else found.context_indexes


def _named_by_itself_before(
    number: re.Match[str], words: str, names: SourceNames
) -> frozenset[int]:
    """Return the contexts whose name and number stand together, outside of a sentence.

    They do in "- **a.pdf** [1]: It is old.", in "It is old (a.pdf [1])." and in the row
    "| a.pdf | It is old. | [1] |". Empty for "Edit a.pdf [1]." and "a.pdf [1] is old",
    which speak of the file: [1] may be the source of what they say.

    Args:
        number: The number.
        words: The line in which it stands.
        names: The names of the contexts.
    """
    # "[1]" or "Source 1"; no other form, such as "1 =" or "S1"
    is_mark = number["in_brackets"] is not None or number["behind_word"] is not None
    # "a.pdf [1].", "a.pdf [1] and"; "a.pdf [1] says", as only a source does
    is_end_of_name = _ENDS_THE_CLAUSE_OR_SAYS.match(words, number.end()) is not None
    if not is_mark or not is_end_of_name:
        return frozenset()
    is_row_of_a_table = words.lstrip().startswith("|")
    if is_row_of_a_table and _is_alone_in_its_cell(number, words):
        # the name stands in another cell
        return _file_that_a_row_is_about(words, names)
    name = _name_directly_before(number, words, names)
    if name is None or not is_distinctive(name.name) or not _is_set_off(name, words):
        return frozenset()
    return name.context_indexes


def _name_directly_before(
    number: re.Match[str], words: str, names: SourceNames
) -> NameFound | None:
    """Find the name before a number, with signs and a page between: "a.pdf, p. 3 [1]"."""
    n_signs_and_page = 2 * LOOKBACK  # a bound keeps it linear
    nearest = max(0, number.start() - names.longest - n_signs_and_page)
    before = words[nearest : number.start()].rstrip(_BETWEEN_NAME_AND_NUMBER)
    before = _PAGE_AT_THE_END.sub("", before).rstrip(_BETWEEN_NAME_AND_NUMBER)
    name = names.longest_before(before, len(before))
    return None if name is None else replace(name, end=nearest + name.end)


def _is_set_off(name: NameFound, words: str) -> bool:
    """Whether no sentence leads to a name in a line: it begins a line, clause or bracket.

    A title may be what the sentence speaks of: it must begin a heading or a bracket, or
    have quotes or stars around it.
    """
    name_start = name.end - len(name.name)
    before = words[max(0, name_start - LOOKBACK) : name_start]
    is_title = any(map(str.isspace, name.name))
    if is_title and _MARKS_A_TITLE.search(before) is None:
        return False
    return _SETS_A_NAME_OFF.search(before) is not None


def _is_alone_in_its_cell(number: re.Match[str], row: str) -> bool:
    """Whether a number stands alone in a cell of a table, as in "| a.pdf | old | [1] |"."""
    before = row[: number.start()].rstrip(" \t*_`")
    behind = row[number.end() :].lstrip(" \t*_`")
    return before.endswith("|") and behind[:1] in ("", "|")


def _file_that_a_row_is_about(row: str, names: SourceNames) -> frozenset[int]:
    """Return the contexts of the one name that stands alone in a cell of a row.

    Empty if there are several such names, and for a title: it may be the row's subject.
    """
    cells = (cell.strip(" \t*_`") for cell in row.split("|"))
    meanings = {
        names.context_indexes_by_name[cell.lower()]
        for cell in cells
        if cell.lower() in names.context_indexes_by_name
        and is_distinctive(cell)
        and not any(map(str.isspace, cell))
    }
    return meanings.pop() if len(meanings) == 1 else frozenset()


def _name_directly_after(
    number: re.Match[str], words: str, names: SourceNames
) -> NameFound | None:
    """Find the name after a number, as in "[1] a.pdf", "[1]: a.pdf" and "[1] is a.pdf".

    None for "These files are needed [1]: a.pdf", where the mark ends a clause.
    """
    name = _name_behind(_CLOSE_BY, words, number.end(), names)
    if name is not None:
        return name
    is_entry = (
        number["worded"] is not None  # "Use the number 1 for a.pdf."
        or _begins_a_clause(number, words)
        or _stands_behind_a_name(number, words, names)
    )
    return _name_of_entry(words, number.end(), names) if is_entry else None


def _name_of_entry(words: str, start: int, names: SourceNames) -> NameFound | None:
    """Find the name of an entry after its number, as in "| 1 | File: a.pdf".

    Before the name stand signs, and then a few linking words at most: "The source is
    a.pdf". But "The Bridge Book" may be a name as a whole.
    """
    signs = _BEHIND_SIGNS.match(words, start)
    place = start if signs is None else signs.end()
    for _ in range(_MOST_LINKING_WORDS):
        name = _name_at(words, place, names)
        linking_word = _LINKING_WORD.match(words, place)
        if name is not None or linking_word is None:
            return name
        place = linking_word.end()
    return _name_at(words, place, names)


def _name_behind(
    link: re.Pattern[str],
    words: str,
    start: int,
    names: SourceNames,
    *,
    must_end_clause: bool = True,
) -> NameFound | None:
    """Find the name of a source behind what links it to a number; None without."""
    found_link = link.match(words, start)
    if found_link is None:
        return None
    return _name_at(words, found_link.end(), names, must_end_clause=must_end_clause)


def _name_at(
    words: str, start: int, names: SourceNames, *, must_end_clause: bool = True
) -> NameFound | None:
    """Find the name of a source that begins at a place of a line; None without.

    Args:
        words: The line.
        start: The place.
        names: The names of the contexts.
        must_end_clause: Whether a title counts only where its clause ends behind it, as
            "Opening day" in "[1] Opening day." It does not in "[1] Opening day was in
            May.", which tells of the day. The name of a file counts in any case.
    """
    name = names.longest_at(words, start)
    if name is None:  # "docs/a.pdf", where "a.pdf" is known
        path = _PATH.match(words, start)
        name = None if path is None else names.longest_at(words, path.end())
    if name is None or not is_distinctive(name.name):
        return None
    # a context may be labelled "page 3"; but in "[1] (page 3)" this names no source
    if _PAGE_OR_PART.match(name.name):
        return None
    if is_file(name.name) or not must_end_clause:
        return name
    ends_clause = _TITLE_ENDS.match(words, name.end) is not None
    return name if ends_clause else None


def numbers_in_short_lines(text: str, names: SourceNames) -> Iterator[NamedNumber]:
    """Yield the numbers of lines that hold names of sources, and no sentence.

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
    """Yield each number of an entry, with the contexts that the entry names.

    "1 – a.pdf" yields the number 1 with the contexts of a.pdf; "Source 1: a.pdf" yields
    it with the numbering "source". A sentence yields nothing.

    Args:
        entry: The entry.
        line_start: Where its line begins in the text.
        names: The names of the contexts.
    """
    if not is_reference(entry):
        return
    context_indexes: set[int] = set()
    spans_of_names: list[Span] = []
    for start, found in names.found_in(entry):
        context_indexes.update(found.context_indexes)
        spans_of_names.append((start, found.end))
    if not context_indexes:
        return
    # a name may hold a number, as "report 2.pdf"
    words_left = without_spans(entry, spans_of_names)
    # "a.pdf, p. 1" and "a.pdf (3 pages)" have no number of an entry
    words_left = _MEASURE.sub(" ", _PLACE_IN_SOURCE.sub(" ", words_left))
    numbering_by_number = {
        number: numbering for numbering, number in numbers_with_numbering_in(words_left)
    }
    for found_number in _NUMBER_OF_ENTRY.finditer(words_left):
        number = _label(found_number)
        numbering = numbering_by_number.get(number, "")
        yield NamedNumber(
            number, frozenset(context_indexes), line_start, numbering=numbering
        )
