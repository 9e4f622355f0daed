"""Lines that label a text, such as ``[Source 1] report.pdf``: their names and numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.prompt_numbers import numbers_with_numbering_in
from ragmetrics_core.data.label_shapes import is_key_with_pages
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import PAGE_WORD, SOURCE_WORD
from ragmetrics_core.data.marks import plain_label

IN_BRACKETS = "[]"
"""The numbering of the numbers in brackets, beside those of "source" or "chunk"."""

OF_FIELD = " id"
"""What ends the numbering of a number in a field: "document id" for ``document: 7``."""

_LONGEST_LINE = 300
_BRANCHES = "├└│"  # of a tree
_LONGEST_LABEL = 160
# "[a.pdf]", or with the brackets of Chinese and Japanese "【a.pdf】"
_BRACKETS = lazy_pattern(
    r"\[(?P<in_square>[^\[\]\n]+)\]|【(?P<in_lenticular>[^【】\n]+)】"
)
_TAG = lazy_pattern(r"<(?P<slash>/?)(?P<name>[A-Za-z][\w-]*)(?P<attributes>[^<>\n]*)>")
_ATTRIBUTE = lazy_pattern(
    r"""([\w-]+)\s*=\s*["']?([^"'<>\n]+?)["']?(?=\s+[\w-]+\s*=|\s*/?$)"""
)
# Keys whose number is the number of a source; a page's number is not.
KEY_OF_NUMBER = lazy_pattern(
    r"(?:(?:source|citation|document|doc|passage|reference|ref|chunk|context|result)[ _]?)?"
    r"(?:id|index|number|no|n)|source|citation|document|passage|reference|ref",
    re.IGNORECASE,
)
# "doc_id: 7", 'id="7"', "source number: 7"
_KEY_AND_NUMBER = lazy_pattern(
    r"""(?<![\w-])(?P<key>[A-Za-z][\w-]{0,30}(?:[ ](?:number|no|id|index))?)["']?\s{0,3}[:=]
    \s{0,3}["']?(?P<number>[0-9]{1,9})(?![\w.]*\w)""",
    re.IGNORECASE | re.VERBOSE,
)
_PAGE_NUMBER = lazy_pattern(
    rf"(?<!\w)(?!pp?\d){PAGE_WORD}[ \t]*#?[ \t]*([0-9]{{1,4}})(?!\w)", re.IGNORECASE
)
# "(page 3)", "Page 3 of 9"
_PAGE_OR_SCORE = lazy_pattern(
    r"\(?\s*(?:pages?|pp?\.|seite|página|score|similarity|relevance)\s*[:#]?\s*"
    r"[0-9][0-9.,%–-]*(?:\s*(?:of|/|von|de)\s*[0-9]+)?\s*\)?",
    re.IGNORECASE,
)
# An item of a list of instructions: "2. Cite each source that you use."
_ITEM = lazy_pattern(r"\s*[0-9]{1,2}[.)]\s+(?:\S+\s+){3,}\S+[.!?]\s*$")
# "key: value", as metadata and JSON write it.
_FIELD = lazy_pattern(r"""["']?([A-Za-z][\w \-]{0,40}?)["']?\s*[:=]\s*(.*)""")
# what divides a name into parts: "1 | report.pdf | Date: 2020"
_PART = lazy_pattern(r"\s[|–—-]\s|[|,;]")
# "report.pdf:", "**docs/report.pdf**", "report.pdf#page=2:"
_FILE_ALONE = lazy_pattern(
    r"""[#>*\-"'\s]*(?P<file>[^\s:"'*|]+\.[A-Za-z][A-Za-z0-9]{1,4}(?:\#page=[0-9]{1,5})?)["'*]*\s*[:|–—-]?["'*\s]*"""
)
# "doc1", and "doc-1" of "doc-1: report.pdf"
_ID_LIKE_A_NUMBER = lazy_pattern(
    rf"(?P<id>{SOURCE_WORD}[-_]?\d{{1,9}})(?:\Z|[ \t]*[:|,(])", re.IGNORECASE
)
# "sivu 3"; a page in a language whose word is known is read as one
_PLACE_IN_A_FILE = lazy_pattern(
    rf"(?!{PAGE_WORD}\s*\d)[^\W\d_]{{1,12}}\.?[ \t]*\d{{1,5}}", re.IGNORECASE
)
_NUMBER = lazy_pattern(r"[0-9]{1,4}")
_NUMBER_FIRST = lazy_pattern(r"([0-9]{1,4})(?:\Z|[ \t]*[:|,(–—-])")
# What may stand before a number in brackets: "Document [1]", "- [2]", "[[3]]", '{"[doc4]"'.
_BEFORE_A_NUMBER = lazy_pattern(
    rf"""[#>*\-{{"'\[]*\s*{SOURCE_WORD}?[\s#:]*""",
    re.IGNORECASE | re.VERBOSE,
)
# "Source 1:", "### Document 2 (a.pdf)", "3."
_NUMBERED = lazy_pattern(
    rf"""[#>*\-=\s]*{SOURCE_WORD}?
    [ \t]*\#?(?P<number>[0-9]{{1,4}})(?:[\s:.)|(,–—\-]|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
# "doc3.pdf", "Source 2-b.txt": a file, whose name holds a number
_NUMBERED_FILE = lazy_pattern(
    rf"[#>*\-=\s]*{SOURCE_WORD}[ \t]*\#?[0-9]{{1,4}}[\w\-]*"
    r"\.(?-i:[a-z][a-z0-9]{1,4})(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A line that labels a text, such as ``[Source 1] report.pdf``.

    Args:
        shape: The line without what differs from text to text. Lines of one shape are
            taken for labels of the same kind.
        names: What the line may call the text, such as ``report.pdf``; no numbers.
        number: The number that it gives the text; None if it gives none.
        is_heading: Whether nothing stands after its colon, as in ``Context:``.
        is_field: Whether it is a key and its value, as in ``doc_id: 7``.
        fields: Its numbers that have a key, as ("doc_id", "7") of ``doc_id: 7`` and
            ("page", "3") of ``(p. 3)``.
        numbers_with_numbering: All its numbers that stand after a word or in brackets,
            each with its numbering (see ``Labels``).
    """

    shape: str
    names: tuple[str, ...]
    number: str | None = None
    is_heading: bool = False
    is_field: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    numbers_with_numbering: tuple[tuple[str, str], ...] = ()


def label_line_of(raw: str) -> LabelLine | None:
    """Read a line that may label a text; None for any other line.

    Example: "[Source 2] a.pdf" gives the number 2 and the name "a.pdf"; "It fell." None.

    The line is tried as each kind of label, and the first kind that fits counts. Its
    ``numbers_with_numbering`` are pairs such as ("source", "2").
    """
    line = raw.strip()
    if line.startswith(tuple(_BRANCHES)):
        return _line_of_branch(line)
    if len(line) > _LONGEST_LINE:
        return None
    readers = (
        _line_of_page,
        _line_of_tags,
        _line_of_brackets,
        _line_of_number,
        _line_of_key_with_pages,
        _line_of_field,
        _line_of_file,
    )
    for read in readers:
        label_line = read(line)
        if label_line is not None:
            further_numbers = _numbers_behind_words(label_line, line)
            return replace(
                label_line,
                numbers_with_numbering=(
                    *label_line.numbers_with_numbering,
                    *further_numbers,
                ),
                fields=_fields_of(line),
            )
    return None


def _line_of_branch(line: str) -> LabelLine | None:
    """Read a line of a tree as RAGFlow draws it: "├── Title: a.pdf", "└── Content:".

    "Content:" without a tree may be the heading of a list. Here it stands directly above
    its text, and is no heading.
    """
    label_line = label_line_of(line.lstrip(_BRANCHES + "─ "))
    return None if label_line is None else replace(label_line, is_heading=False)


def _numbers_behind_words(label_line: LabelLine, line: str) -> list[tuple[str, str]]:
    """Return the numbers of a line that stand behind words, each with its numbering.

    "Document 7" has ("document", "7"). The field "document: 7" is another numbering: it
    has ("document id", "7"). In "file: doc-3" the 3 is part of a name: ("doc", "3").
    """
    is_number_of_field = label_line.is_field and label_line.number is not None
    suffix = OF_FIELD if is_number_of_field else ""
    return [
        (numbering + suffix, number)
        for numbering, number in numbers_with_numbering_in(line)
    ]


def _fields_of(line: str) -> tuple[tuple[str, str], ...]:
    """Return the keys in a line that have a number, each with its number.

    ``<doc index="1" id="3"> (p. 7)`` gives ("index", "1"), ("id", "3"), ("page", "7").
    """
    fields = [
        (match["key"].lower(), str(int(match["number"])))
        for match in _KEY_AND_NUMBER.finditer(line)
    ]
    pages = [("page", str(int(number))) for number in _PAGE_NUMBER.findall(line)]
    return (*fields, *pages)


def _line_of_page(line: str) -> LabelLine | None:
    """Read a line that tells a page or score, such as ``(page 3)``; it names no text."""
    if _PAGE_OR_SCORE.fullmatch(line) is None:
        return None
    return LabelLine(shape_of(line), ())


def _line_of_tags(line: str) -> LabelLine | None:
    """Read a line with tags, such as ``<doc id="3" file="report.pdf">``; None without.

    This line has the number 3, the name "report.pdf" and the shape ``<doc>``: the tags
    without attributes. ``<id>4</id>`` has the number 4.
    """
    tags = list(_TAG.finditer(line))
    if not tags:
        return None
    shape = "".join(f"<{tag['slash']}{tag['name']}>" for tag in tags)
    fields = _fields_of_tags(tags)  # ("id", "3") and ("file", "report.pdf")
    # the words around which a tag stands are a value as well: ("id", "4") of
    # "<id>4</id>"; the first tag is the one that opens
    text_beside_tags = _TAG.sub(" ", line).strip()
    fields.append((tags[0]["name"], text_beside_tags))
    numbers = [_number_of_field(key, value) for key, value in fields]
    first_number = next((number for number in numbers if number is not None), None)
    # any value may be a name, except a bare number
    names = _names_of_values([value for _, value in fields])
    return LabelLine(shape, names, first_number)


def _fields_of_tags(tags: Iterable[re.Match[str]]) -> list[tuple[str, str]]:
    """Return the names and values of all attributes of some tags."""
    fields: list[tuple[str, str]] = []
    for tag in tags:
        fields += _ATTRIBUTE.findall(tag["attributes"].strip())
    return fields


def _line_of_brackets(line: str) -> LabelLine | None:
    """Read a label line with brackets; None without brackets.

    "[Source 1] report.pdf" has the name "report.pdf" and the number 1, and "Document [2]"
    the number 2. "see Miller [1]" has no number: its 1 cites a source, and does not
    number the text below.
    """
    brackets = list(_BRACKETS.finditer(line))
    if not brackets:
        return None
    texts_in_brackets = [
        bracket["in_square"] or bracket["in_lenticular"] for bracket in brackets
    ]
    words_before = line[: brackets[0].start()]  # "Document" of "Document [2]"
    number = None
    if _may_stand_before_number(words_before):
        number = _number_in(texts_in_brackets)
    text_beside_brackets = _BRACKETS.sub(" ", line)
    # "[1]" is number 1 in brackets: "Source 1" may be another text's number
    numbers_in_brackets = () if number is None else ((IN_BRACKETS, number),)
    return LabelLine(
        # equal for lines of one format, "[a.pdf]" and "[b.pdf]": by equal shapes a
        # prompt's lines are recognised as labels
        shape=f"[{len(brackets)} in brackets]{shape_of(words_before)}",
        # the name of a file stands in brackets or beside them
        names=_names([*texts_in_brackets, text_beside_brackets]),
        number=number,
        numbers_with_numbering=numbers_in_brackets,
    )


def _may_stand_before_number(before: str) -> bool:
    """Whether a number in brackets after some words numbers a text.

    The 1 of "Document [1]" does; the 1 of "see Miller [1]" does not.
    """
    return _BEFORE_A_NUMBER.fullmatch(before) is not None


def _line_of_number(line: str) -> LabelLine | None:
    """Read a line that begins with a number, such as ``Source 1:`` or ``2. report.pdf``.

    None for other lines, for a file such as ``doc3.pdf``, and for an item of a list of
    instructions.
    """
    numbered = _NUMBERED.match(line)
    if numbered is None or _NUMBERED_FILE.match(line) or _ITEM.match(line):
        return None
    return LabelLine(
        shape=shape_of(numbered[0]),
        names=_names([line[numbered.end() :]]),
        number=str(int(numbered["number"])),
    )


def _line_of_key_with_pages(line: str) -> LabelLine | None:
    """Read a line such as ``Dubey2024 pages 3-4:``: it names the text so as a whole."""
    if not line.endswith(":") or not is_key_with_pages(line[:-1]):
        return None
    return LabelLine("a name and pages:", (line[:-1],))


def _line_of_field(line: str) -> LabelLine | None:
    """Read a line of a key and its value, such as ``file_name: report.pdf``."""
    pair = _FIELD.fullmatch(line.strip("#*>{}[]-, \t"))
    if pair is None:
        return None
    key = pair[1]
    value = pair[2].strip(" \"',")
    return LabelLine(
        shape=f"{key.lower()}:",
        names=_names_of_values([value]),
        number=_number_of_field(key, value),
        is_heading=not value,
        is_field=True,
    )


def _line_of_file(line: str) -> LabelLine | None:
    """Read a line that is the name of a file, such as ``report.pdf:``."""
    match = _FILE_ALONE.fullmatch(line)
    if match is None:
        return None
    file_name = match["file"]
    shape = line.replace(file_name, "a file").strip()
    return LabelLine(shape, _names([file_name]))


def _number_of_field(key: str, value: str) -> str | None:
    """Return the number of a source that stands under a key; None for other values."""
    if KEY_OF_NUMBER.fullmatch(key) is None:
        return None
    return str(int(value)) if _NUMBER.fullmatch(value) else None


def _number_in(texts_in_brackets: Iterable[str]) -> str | None:
    """Return the number that the first bracket with a number gives a text."""
    for inside in texts_in_brackets:
        number = _NUMBER_FIRST.match(plain_label(inside))
        if number is not None:
            return str(int(number[1]))
    return None


def shape_of(text: str) -> str:
    """Return a text without its numbers, to compare it with others."""
    return re.sub(r"[0-9]+", "#", text).strip().lower()


def _names(raw_names: Sequence[str]) -> tuple[str, ...]:
    """List the names in the words of a label: each whole, and each of its parts, once.

    "1 | report.pdf (draft) | Date: 2020" gives "report.pdf" and "Date: 2020" among
    others; a bare number such as "1" is no name.
    """
    names: list[str] = []
    for raw_name in raw_names:
        parts = [
            raw_name,
            *_parts_of_name(raw_name),
        ]  # divided by "|", ",", ";" or " - "
        parts += [part.partition(" (")[0] for part in parts]  # "report.pdf (draft)"
        parts += [part.rpartition(": ")[2] for part in parts]  # "Title: Bridges"
        names += [plain_label(part.strip(" \t:\"',{}()#*>-–—")) for part in parts]
    return tuple(name for name in dict.fromkeys(names) if _is_name(name))


def _names_of_values(values: Sequence[str]) -> tuple[str, ...]:
    """List the names in the values of fields, and ids such as "doc1" and "source-7".

    In a heading "doc1" is the number 1; the value of a field is an id.
    """
    ids = [_ID_LIKE_A_NUMBER.match(value.strip(" \"'[]")) for value in values]
    names = [found["id"] for found in ids if found is not None]
    return tuple(dict.fromkeys([*names, *_names(values)]))


def _parts_of_name(raw_name: str) -> list[str]:
    """Divide a name into its parts; without what tells a place in a file.

    "report.pdf, sivu 3" gives "report.pdf": "sivu 3" names no source, in no language.
    """
    parts = _PART.split(raw_name)
    if any(_FILE_ALONE.fullmatch(part.strip()) for part in parts):
        parts = [part for part in parts if not _PLACE_IN_A_FILE.fullmatch(part.strip())]
    return parts


def _is_name(name: str) -> bool:
    """Whether a part of a label may be a name; "7" and a bare "source" may not."""
    if not name or len(name) > _LONGEST_LABEL:
        return False
    is_number = _NUMBER.fullmatch(name) is not None
    is_key = KEY_OF_NUMBER.fullmatch(name) is not None
    return not is_number and not is_key
