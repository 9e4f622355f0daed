"""The names under which a prompt showed sources, and where a text holds one. Pure.

A source that the prompt shows as "docs/report.pdf" may be named so, as "report.pdf" or
as "report".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCE_WORD
from ragmetrics_core.data.marks import plain_label

LETTERED_NUMBER = r"(?:[^\W\d_]{1,12}[_:#-]?\d{1,4}|[A-Z])(?!\w)"
"""A mark that is no mere number, such as the "S1", "doc_2" or "A" of "[S1]"."""

LABEL_IN_BRACKETS = (
    rf"(?:(?:(?i:{SOURCE_WORD})[ \t]*(?:n[or]\.?)?[ \t#:_-]*)?\#?\d{{1,4}}"
    rf"|{LETTERED_NUMBER})"
)
"""What stands in the brackets of a mark: "1", "Source 1", "ref:1", "S1"."""

_IS_LETTERED_NUMBER = lazy_pattern(LETTERED_NUMBER)
SAYS = (
    r"(?:says?|states?|notes?|reports?|gives?|writes?|shows?|tells?|mentions?"
    r"|describes?|explains?|puts it)\b(?!\s+(?:nothing|little|no)\b)"
)
"""What a source does, behind its name: "a.pdf says that it fell"."""

FILE_OR_ADDRESS = lazy_pattern(
    r"https?://[^\s<>()\[\]]+"
    r"|[^\s<>()\[\]/]{1,200}\.[A-Za-z][A-Za-z0-9]{1,4}(?!\w)"
)
"""Finds "report.pdf" or "https://example.org/1" in a text; of a path the last part."""

WEB_ADDRESS = lazy_pattern(r"https?://[^\s<>()\[\]]+", re.IGNORECASE)
"""A web address, as a text or as the metadata of a document holds it."""

PART_OF_NAME = lazy_pattern(r"[,;|()#§]|\s[-–—]\s")
"""What divides the name of a source into the file, the page and the section."""

KEY_OF_NAME = lazy_pattern(
    r"(?:(?:file|source|doc(?:ument)?|page|article)[ _-]?)?"
    r"(?:name|path|file|source|url|uri|link|title|document)",
    re.IGNORECASE,
)
"""A key of metadata whose value names a document."""

_SCHEME = lazy_pattern(r"https?://(?:www\.)?", re.IGNORECASE)
# What leads to the same page: a place in it, and where the reader came from.
_END_OF_ADDRESS = lazy_pattern(r"[?&]utm_source=[^&#]*|#.*|/+(?=[?#]|\Z)")
_FILE_ENDING = lazy_pattern(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
# "f2", "annual_report", "kb-27": letters beside a digit or a joining sign
_JOINED_NAME = lazy_pattern(r"\w*[^\W\d_][\w-]*[\d_-][\w-]*")
# what divides the words of a file's name: signs, and a change as in "AnnualReport2022"
_BETWEEN_WORDS = lazy_pattern(
    r"[\W_]+|(?<=[a-zß-öø-ÿ])(?=[A-Z])|(?<=[^\W\d_])(?=\d{4}(?!\d))"
)
_TWO_LETTERS = lazy_pattern(r"[^\W\d_]{2}")
_NAME_MAY_BEGIN = lazy_pattern(r"(?<!\w)\S")
_WORD_ENDS = lazy_pattern(r"(?<=\w)(?!\w)|(?<=[^\w\s])")
_LONGEST_NAME = 160
# a sign of a word, in a script that divides words by spaces
_JOINED_WORD_SIGN = r"[^\W\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
# a name ends before "." only if no word follows: "f1.txt" in "f1.txt.bak" is another name
_GOES_ON = lazy_pattern(r"[\w-]|\.\w")


@dataclass(frozen=True, slots=True)
class NameFound:
    """A name of sources that stands at a place of a text.

    Args:
        name: The name, as the text writes it.
        context_indexes: The indexes of the contexts with this name.
        end: Where the name ends in the text.
    """

    name: str
    context_indexes: frozenset[int]
    end: int


@dataclass(frozen=True, slots=True)
class SourceNames:
    """The names by which a text may name the contexts.

    Args:
        context_indexes_by_name: By a name in lower case: the indexes of the contexts
            that it may mean.
        longest: The number of characters of the longest name.
    """

    context_indexes_by_name: Mapping[str, frozenset[int]]
    longest: int

    @classmethod
    def of(cls, context_indexes_by_label: Mapping[str, Iterable[int]]) -> SourceNames:
        """Take the names among some labels, and the short forms of files.

        ``{"1": (0,), "docs/big_map.pdf": (0,)}`` gives "docs/big_map.pdf",
        "big_map.pdf", "big_map" and "big map". A short form that is a label itself
        keeps the label's meaning.

        Args:
            context_indexes_by_label: By a label of the prompt: the indexes of the
                contexts that it labels.
        """
        context_indexes_by_name: dict[str, frozenset[int]] = {}
        context_indexes_by_short_form: dict[str, frozenset[int]] = {}
        for label, context_indexes in context_indexes_by_label.items():
            if label.isdigit() or len(label) > _LONGEST_NAME:
                continue
            add_context_indexes(context_indexes_by_name, label.lower(), context_indexes)
            for short_form in _short_forms(label):
                add_context_indexes(
                    context_indexes_by_short_form, short_form, context_indexes
                )
        all_names = {**context_indexes_by_short_form, **context_indexes_by_name}
        return cls(all_names, longest=max(map(len, all_names), default=0))

    def longest_at(self, text: str, start: int) -> NameFound | None:
        """Find the longest name that begins at a place of a text, as a whole word.

        Of "Bridge" and "Bridge Report", "Bridge Report, p. 3" begins with the second.
        """
        region = text[start : start + self.longest]
        for word_end in reversed(
            [match.end() for match in _WORD_ENDS.finditer(region)]
        ):
            context_indexes = self.context_indexes_by_name.get(
                region[:word_end].lower()
            )
            end = start + word_end
            if context_indexes is not None and _GOES_ON.match(text, end) is None:
                return NameFound(region[:word_end], context_indexes, end)
        return None

    def found_in(self, text: str) -> Iterator[tuple[int, NameFound]]:
        """Yield where a name begins in a text, and the name; the longest at each place."""
        end_of_last = 0
        for place in _NAME_MAY_BEGIN.finditer(text):
            if place.start() < end_of_last:
                continue
            found = self.longest_at(text, place.start())
            if found is not None:
                end_of_last = found.end
                yield place.start(), found

    def longest_before(self, text: str, end: int) -> NameFound | None:
        """Find the longest name that ends at a place of a text; None without."""
        region = text[max(0, end - self.longest) : end]
        for word in _NAME_MAY_BEGIN.finditer(region):
            name = region[word.start() :]
            context_indexes = self.context_indexes_by_name.get(name.lower())
            if context_indexes is not None:
                return NameFound(name, context_indexes, end)
        return None


def _short_forms(label: str) -> set[str]:
    """Return other names of a file, in lower case; none of a label that is no file.

    "docs/Big_Map.pdf" may be called "big_map.pdf", "big_map" or "big map".
    """
    if not is_file(label):
        return set()
    forms = {file_name_of(label), stem_of(label), stem_in_words(label)}
    return {form.lower() for form in forms - {"", label}}


def add_context_indexes(
    context_indexes_by_name: dict[str, frozenset[int]],
    name: str,
    context_indexes: Iterable[int],
) -> None:
    """Add indexes to those of a name: several contexts may have one name."""
    context_indexes_by_name[name] = context_indexes_by_name.get(
        name, frozenset()
    ).union(context_indexes)


def with_addresses(
    context_indexes_by_name: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[int, ...]]:
    """Add the web addresses that stand inside of names.

    The name "HR Handbook (https://a.test/hr" adds "https://a.test/hr".
    """
    names_and_addresses = dict(context_indexes_by_name)
    for name, context_indexes in context_indexes_by_name.items():
        for address in WEB_ADDRESS.findall(name):
            earlier = names_and_addresses.get(address, ())
            both = dict.fromkeys([*earlier, *context_indexes])
            names_and_addresses[address] = tuple(both)
    return names_and_addresses


def is_mark_label(label: str) -> bool:
    """Whether a label is a number, or one with letters: "2", "S2", "doc_2", "B"."""
    return label.isdigit() or _IS_LETTERED_NUMBER.fullmatch(label) is not None


def mark_label_of(written: str) -> str:
    """Return the label of a mark as it is written: "Source 01" is 1, "¹" is 1, "S1" is S1."""
    plain = unicodedata.normalize("NFKC", written)
    return plain_label(plain.strip(" \t^#"))


def is_telling(name: str) -> bool:
    """Whether a name is a file, an address or several words: no word of any sentence."""
    has_letters = _TWO_LETTERS.search(name) is not None
    has_words = len(name.split()) > 1
    return has_letters and (has_words or is_file(name))


def is_distinctive(name: str) -> bool:
    """Whether a name is no common word: "report.pdf", "Opening day", "f2", "annual_report"."""
    return is_telling(name) or _JOINED_NAME.fullmatch(name) is not None


def is_file(name: str) -> bool:
    """Whether a name is a file's, such as "docs/a.pdf", or an address."""
    is_whole = FILE_OR_ADDRESS.fullmatch(name) is not None
    has_blank = any(map(str.isspace, name))
    is_path = not has_blank and FILE_OR_ADDRESS.fullmatch(file_name_of(name))
    return is_whole or bool(is_path)


def pattern_of_name(name: str) -> str:
    """Return a pattern that finds a name as whole words.

    Beside letters of a script without spaces, such as Chinese, a name may begin and end
    anywhere: "员工手册.pdf" in "根据员工手册.pdf和".
    """
    return rf"(?<!{_JOINED_WORD_SIGN}){re.escape(name)}(?!{_JOINED_WORD_SIGN})"


def stem_of(name: str) -> str:
    """Return a file's name without path and ending."""
    return _FILE_ENDING.sub("", file_name_of(name))


def stem_in_words(name: str) -> str:
    """Return a file's name as a title: "annual report 2022" for "AnnualReport_2022.pdf"."""
    return " ".join(_BETWEEN_WORDS.split(stem_of(name))).strip().lower()


def page_of(address: str) -> str:
    """Return the page that an address leads to: "https://a.test" of "https://a.test/#b"."""
    return _END_OF_ADDRESS.sub("", address.lower())


def without_scheme(text: str) -> str:
    """Return a text with "a.test/b" for "https://www.a.test/b"."""
    return _SCHEME.sub("", text)


def file_name_of(path: str) -> str:
    """Return what stands after the last slash of a path or an address."""
    return re.split(r"[/\\]", path.rstrip("/"))[-1]
