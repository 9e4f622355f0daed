"""Brackets that are, or may be, a part of code or of a formula: ``sys.argv[1]``, ``x = a[1]``.

Only code that nothing marks as such is told here; code in backticks holds no marks.
"""

import re

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LOOKBACK, MARK, SOURCE_WORD

# In a formula a bracket stands beside an operator: an index ("x = a[1]"), a list
# ("x = [1]"), or a class of signs ("[0-9]+"). A "+" close after a word is a part of the
# word: "C++", "18+". A "+" that begins a line is a sign of a list.
_OPERATOR_BEFORE = lazy_pattern(
    r"(?:=\s*(?:[^\W\d]\w*)?|\S[ \t]+\+\s*\w*|\w\+[^\W\d]\w*|\d\]\+)\Z"
)
_OPERATOR_BEHIND = lazy_pattern(r"\s*[=+]|\{")
# What stands before an index, outside of code that is marked as such: "sys.argv" of
# "sys.argv[1]", "len(rows" of "len(rows[1])". A domain does so, too; the file of
# "report.pdf[1]" is told by its ending.
_ENDINGS_OF_TEXTS = "pdf|txt|md|rst|docx?|pptx?|xlsx?|odt|epub|html?|xml|csv|jsonl?"
_OTHER_INDICES = r"(?:\[[^\[\]\n]{0,20}\])*+"  # "[0]" of "user_rows[0][1]"
_LIKE_CODE_BEFORE = lazy_pattern(
    rf"(?:(?<!\w)[^\W\d]\w*+\.(?!(?:{_ENDINGS_OF_TEXTS})\Z)[^\W\d]\w*"
    r"|(?<!\w)[A-Za-z_]\w*+\((?:[^()\n]*(?:[,=(\[]\s*|(?<!\w)[^\W\d]\w*))?"
    # "user_rows", "$row", "this->rows", "std::get", "read()", "at(x=1)"
    rf"|(?<!\w)[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+{_OTHER_INDICES}"
    rf"|\$[A-Za-z_]\w*+{_OTHER_INDICES}"
    rf"|\w(?:->|::)[A-Za-z_]\w*+{_OTHER_INDICES}"
    rf"|(?<!\w)[A-Za-z_]\w*\((?:[^()\n]*[=\"'][^()\n]*)?\){_OTHER_INDICES})\Z"
)
_CALL_BEHIND = lazy_pattern(r"(?:\[[^\[\]\n]{1,20}\])*+\.[A-Za-z_]\w*\(")
# What stands before an array of JSON: '"sizes": ' of '"sizes": [1, 2]', and
# '"sizes": [[1, 2], ' before the next row.
_KEY_BEFORE = lazy_pattern(
    r"(?P<quote>[\"'])(?P<key>[^\W\d][\w.-]*+)(?P=quote)[ \t]*:[ \t]*"
    r"(?:\[(?:[ \t]*\[[^\[\]\n]*\][ \t]*,)*[ \t]*)?\Z"
)
# A key whose array may well cite: "sources", "used_chunks", "source_ids".
_KEY_OF_SOURCES = lazy_pattern(
    rf"(?:[\w.-]*[_.-])?{SOURCE_WORD}(?:[_.-]?(?:used|ids?|numbers?))?", re.IGNORECASE
)
_NAME_BEFORE = lazy_pattern(rf"(?<!\w)([A-Za-z]\w*+){_OTHER_INDICES}\Z")
# "row" of 'row["name"]', "row[-1]", "row[i]" and "row[1:3]", which no mark is
_NAME_WITH_INDEX = lazy_pattern(
    r"(?<!\w)([A-Za-z]\w*+)\[(?:\"[^\"\n]*\"|'[^'\n]*'|-\d+|[ijk]|\d*:\d*)\]"
)
# "row" of "row[0]", where no mark is 0; in code also of "row[1]"
_NAME_WITH_0 = lazy_pattern(r"(?<!\w)([A-Za-z]\w*+)\[0\]")
_NAME_AND_BRACKET = lazy_pattern(r"(?<!\w)([A-Za-z]\w*+)\[")
# How a line of code begins, and signs that hardly stand in a sentence.
_STATEMENT_BEGINS = lazy_pattern(
    r"[ \t]*(?:(?:return|yield|del|assert|await|raise|print|echo|throw)\b"
    r"|(?:(?:let|var|const|int|str|float)[ \t]+)?[A-Za-z_][\w.]*(?:\[[^\[\]\n]*\])*"
    r"[ \t]*=[^=])"
)
_SIGN_OF_CODE = lazy_pattern(r"[=!]=|[-+*/:]=|&&")
_FIRST_WORD = lazy_pattern(r"\s*[a-z]+(?=[ \t])")
_WORDS_SIDE_BY_SIDE = lazy_pattern(r"\w[ \t]+\w")
_LONGEST = 120  # characters before and behind a bracket in its line that are looked at


def is_in_formula(bracket: re.Match[str], text: str) -> bool:
    """Tell whether an operator stands beside a bracket: ``x = a[1]`` or ``a[1] = 2``."""
    before = text[max(0, bracket.start() - LOOKBACK) : bracket.start()]
    if _OPERATOR_BEFORE.search(before):
        return True
    return _OPERATOR_BEHIND.match(text, bracket.end()) is not None


def may_be_of_code(
    bracket: re.Match[str], text: str, indexed_names: frozenset[str]
) -> bool:
    r"""Tell whether a bracket may be an index or an array of code.

    True for the index of ``sys.argv[1]`` or ``user_rows[1]``, and for the array of
    ``"sizes": [1, 2]``. True for ``a.test[1]`` as well: it looks like code, though it may
    be a domain with a mark. False for ``town[1]`` in a sentence, unless the text has
    ``town["name"]`` or the like elsewhere.

    Args:
        bracket: The bracket, as ``MARK`` matches it. Its group "escaped" is set for
            ``\[1\]``, its group "listed" for ``[1]``, none of both for ``[[1]]`` or
            ``(source 1)``.
        text: The text with it.
        indexed_names: The names that the text has before an index which cannot be a
            mark: "town" if ``town["name"]`` stands in it; see ``indexed_names_in``.
    """
    if _key_before(bracket, text) is not None:  # the array of ``"sizes": [1, 2]``
        return True
    is_escaped = bracket["escaped"] is not None
    if is_escaped:  # alone in its line ``\[1\]`` is a TeX formula, else Markdown
        return _is_alone_in_its_line(bracket, text)
    is_plain = bracket["listed"] is not None
    if not is_plain:
        return False
    start = max(0, bracket.start() - LOOKBACK)
    if _LIKE_CODE_BEFORE.search(text, start, bracket.start()):  # "sys.argv[1]"
        return True
    if _CALL_BEHIND.match(text, bracket.end()):  # "row[1].strip()"
        return True
    name = _NAME_BEFORE.search(text, start, bracket.start())
    if name is None:
        return False
    return name[1] in indexed_names or _is_in_line_of_code(bracket, text)


def _is_alone_in_its_line(bracket: re.Match[str], text: str) -> bool:
    """Tell whether nothing else stands in the line of a bracket."""
    before = text[max(0, bracket.start() - LOOKBACK) : bracket.start()]
    behind = text[bracket.end() : bracket.end() + LOOKBACK]
    words_before = before.rpartition("\n")[2]
    words_behind = behind.partition("\n")[0]
    return not (words_before.strip() or words_behind.strip())


def indexed_names_in(text: str) -> frozenset[str]:
    """Return the names that a text has before an index: "row" of ``row["name"]``."""
    return frozenset(_NAME_WITH_INDEX.findall(text))


def name_before(bracket_start: int, text: str) -> str | None:
    """Return the name that a bracket touches: "town" of "the town[1]"; None without."""
    start = max(0, bracket_start - LOOKBACK)
    name = _NAME_BEFORE.search(text, start, bracket_start)
    return None if name is None else name[1]


def names_sources(bracket: re.Match[str], text: str) -> bool:
    """Tell whether a bracket is an array such as ``"sources": [1]``, which may cite."""
    key = _key_before(bracket, text)
    return key is not None and _KEY_OF_SOURCES.fullmatch(key) is not None


def _key_before(bracket: re.Match[str], text: str) -> str | None:
    """Return the key of the array that a bracket is: "sizes" of ``"sizes": [1, 2]``."""
    start = max(0, bracket.start() - LOOKBACK)
    key = _KEY_BEFORE.search(text, start, bracket.start())
    return None if key is None else key["key"]


def _is_in_line_of_code(bracket: re.Match[str], text: str) -> bool:
    """Tell whether a bracket stands in a line of code, such as ``return row[1]``.

    Such a line begins like a statement, or has a sign of code, and no two words stand
    side by side in it, as they do in a sentence.
    """
    line = _line_around(bracket, text)
    if line is None:
        return False
    statement = _STATEMENT_BEGINS.match(line)
    if statement is None and _SIGN_OF_CODE.search(line) is None:
        return False
    # "return" of "return row[1]" is left out: a word of code may stand beside a name
    words = line if statement is None else _FIRST_WORD.sub("", line, count=1)
    words_without_marks = MARK.sub("", words)
    return _WORDS_SIDE_BY_SIDE.search(words_without_marks) is None


def _line_around(bracket: re.Match[str], text: str) -> str | None:
    """Return the line that a bracket stands in, cut off some way behind the bracket.

    None if the line begins too far before the bracket for a line of code.
    """
    farthest_start = max(0, bracket.start() - _LONGEST)
    # 0, the beginning of the text, if no line break is found
    line_start = text.rfind("\n", farthest_start, bracket.start()) + 1
    if line_start < farthest_start:
        return None
    farthest_end = bracket.end() + _LONGEST
    line_end = text.find("\n", bracket.end(), farthest_end)
    return text[line_start : line_end if line_end >= 0 else farthest_end]
