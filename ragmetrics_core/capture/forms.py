r"""The canonical form of a text: letters and digits alone, with their places. Pure.

Prompts show texts with other spaces, quotes, bullets and escapes than they were found
with. Two texts are compared by what is left without these: ``"It\u2019s <b>old</b>"``
and "It's old" differ, and ``{"text": "caf\u00e9 &amp; bar"}`` holds "Café & bar".
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate

SHORTEST = 16  # letters of a text that stands nowhere by chance

_WORD = r"[^\W_]+"
_ENTITY = r"&(?:amp;)?(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
_SURROGATES = r"u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = (
    rf"\\+(?:{_SURROGATES}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|x[0-9a-fA-F]{{2}}"
    r"|[abfnrtv])"
)
_TOKEN = re.compile(rf"{_ENTITY}|{_ESCAPE}|{_WORD}")
_PLAIN_WORD = re.compile(r"[0-9A-Za-z]+")
_NO_WORD = re.compile(r"[^0-9A-Za-z]+")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{2,8}")

# Letters of scripts that put no space between words: each may begin a word. From Thai
# on, without Georgian, Hangul and Ethiopic, which have spaces.
_FIRST_WITHOUT_SPACES = "\u0e00"
_SCRIPTS_WITH_SPACES = (("\u10a0", "\u177f"), ("\uac00", "\ud7a3"))


class Form:
    """A text by its letters and digits.

    Attributes:
        source: The text as it is.
    """

    __slots__ = ("__dict__", "source")

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def letters(self) -> str:
        """Its letters and digits, decoded and without case."""
        if self._is_plain:
            return _NO_WORD.sub("", self.source).lower()
        return self._letters_and_runs[0]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether nothing in it has to be decoded."""
        source = self.source
        return source.isascii() and "&" not in source and "\\" not in source

    @cached_property
    def _letters_and_runs(self) -> tuple[str, list[tuple[int, int, int]]]:
        """The letters, and for each run of them its place there and in the source."""
        if self._is_plain:
            spans = [word.span() for word in _PLAIN_WORD.finditer(self.source)]
            lengths = [end - start for start, end in spans]
            positions = accumulate(lengths, initial=0)
            return self.letters, [
                (position, *span)
                for position, span in zip(positions, spans, strict=False)
            ]
        letters: list[str] = []
        runs: list[tuple[int, int, int]] = []
        position = 0
        for token in _TOKEN.finditer(self.source):
            start = token.start()
            for part, length in _decoded(token.group()):
                if part:
                    letters.append(part)
                    runs.append((position, start, start + length))
                    position += len(part)
                start += length
        return "".join(letters), runs

    @property
    def _runs(self) -> list[tuple[int, int, int]]:
        return self._letters_and_runs[1]

    @cached_property
    def _run_starts(self) -> list[int]:
        return [start for start, _, _ in self._runs]

    def is_edge(self, position: int) -> bool:
        """Whether a word ends or begins before the letter at a position."""
        if position in (0, len(self.letters)):
            return True
        if _stands_alone(self.letters[position]) or _stands_alone(
            self.letters[position - 1]
        ):
            return True
        index = bisect_left(self._run_starts, position)
        if index == len(self._runs) or self._run_starts[index] != position:
            return False
        end_of_run_before = self._runs[index - 1][2]
        return self._runs[index][1] > end_of_run_before

    def text_between(self, start: int, end: int) -> str:
        """Return the source of some letters, with the signs around a text's edges."""
        first, last = self.place_in_source(start, end)
        if start == 0:
            first = 0
        if end == len(self.letters):
            last = len(self.source)
        return self.source[first:last]

    def place_in_source(self, start: int, end: int) -> tuple[int, int]:
        """Return where letters stand in the source.

        Args:
            start: The first letter.
            end: Behind the last letter.
        """
        first = self._offset(start, at_end=False)
        last = self._offset(end - 1, at_end=True)
        return first, last

    def _offset(self, position: int, *, at_end: bool) -> int:
        index = bisect_right(self._run_starts, position) - 1
        run_start, source_start, source_end = self._runs[index]
        is_last = index + 1 == len(self._runs)
        run_end = len(self.letters) if is_last else self._runs[index + 1][0]
        n_letters_a_sign, rest = divmod(run_end - run_start, source_end - source_start)
        if rest:
            return source_end if at_end else source_start
        return source_start + (position - run_start) // n_letters_a_sign + at_end


class _RecentForms:
    """The forms of the texts that were asked for last, by number of characters.

    A run asks for a text many times. Between runs little is kept, however long texts are.
    There is no lock, which a forked child might find held: threads that come between each
    other make a form twice.
    """

    def __init__(self, most_characters: int) -> None:
        self._most_characters = most_characters
        self._n_recent = 0  # characters
        self._recent: dict[str, Form] = {}
        self._before: dict[str, Form] = {}

    def form_of(self, text: str) -> Form:
        """Return the form of a text; the same object for texts seen lately."""
        form = self._recent.get(text)
        if form is None:
            form = self._before.get(text) or Form(text)
            if len(text) > self._most_characters:
                return form
            self._recent[text] = form
            self._n_recent += len(text)
            if 2 * self._n_recent > self._most_characters:
                self._before, self._recent, self._n_recent = self._recent, {}, 0
        return form


form_of = _RecentForms(most_characters=400_000).form_of


def letters_of(text: str | None) -> str:
    """Return a text's letters and digits, decoded and without case."""
    return form_of(text).letters if text else ""


def _decoded(token: str) -> list[tuple[str, int]]:
    """Return the letters of a token, in parts with their lengths in the source."""
    if token[0] == "&":
        decoded = html.unescape(html.unescape(token))
        if decoded == token:
            return [("", 1), *_decoded(token[1:-1]), ("", 1)]
        return [("".join(map(_folded, decoded)), len(token))]
    if token[0] == "\\":
        return [("".join(map(_folded, _unescaped(token))), len(token))]
    if token.isascii():
        return [(token.lower(), len(token))]
    parts = [_folded(character) for character in token]
    if len(set(map(len, parts))) == 1:
        return [("".join(parts), len(token))]
    return [(part, 1) for part in parts]


def _unescaped(token: str) -> str:
    """Return the character of an escape; "" for escapes of white space."""
    codes = _HEXADECIMAL.findall(token.replace("\\", " "))
    if not codes:
        return ""
    try:
        if len(codes) == 2:  # two halves of one character
            return bytes.fromhex("".join(codes)).decode("utf-16-be")
        return chr(int(codes[0], 16))
    except (ValueError, OverflowError):
        return ""


@lru_cache(maxsize=8192)
def _folded(character: str) -> str:
    """Return a character without case and marks; "" for other than letters and digits."""
    if not character.isalnum():
        return ""
    is_composed = character < "\u2000" or character >= "\uf900"
    if is_composed:
        character = unicodedata.normalize("NFKD", character)
    folded = character.casefold()
    letters = "".join(letter for letter in folded if letter.isalnum())
    # a sign of Chinese says as much as three letters of an alphabet
    return letters * 3 if "\u3040" <= letters < "\ua000" else letters


def _stands_alone(letter: str) -> bool:
    """Whether a letter is of a script without spaces between words."""
    if letter < _FIRST_WITHOUT_SPACES:
        return False
    return not any(first <= letter <= last for first, last in _SCRIPTS_WITH_SPACES)


_LINE_BREAK = r"(?:\n|\\+[nrt]|\t)"
_BEFORE_ENTRY = re.compile(
    rf"(?:\A|{_LINE_BREAK}|[\"'“”„«»‘’`|:\[({{<>•*#=–—-])\s*"
    r"(?:[\[(]?\d{1,3}[.)\]]\s*)?[$€£¥]?\Z"
)
_AFTER_ENTRY = re.compile(
    rf"\s*[%€$£¥]?[.,;!?]?\s*(?:\Z|{_LINE_BREAK}|[\"'“”„«»‘’`|\])}}<])"
)
_DOTS = r"(?:\.{3}|…)"
_BEFORE_CUT = re.compile(rf"{_DOTS}[\])]?\s*\Z")
_AFTER_CUT = re.compile(rf"[^\w\n]{{0,4}}{_DOTS}")
_LONGEST_SIGNS = 12


def _begins_entry(source: str, start: int) -> bool:
    """Whether a place in a text begins a line, an entry, a cell or words behind a label."""
    before = source[max(0, start - _LONGEST_SIGNS) : start]
    if start > _LONGEST_SIGNS:
        before = "." + before  # so that the pattern's beginning is no line's
    return _BEFORE_ENTRY.search(before) is not None


def ends_entry(source: str, end: int) -> bool:
    """Whether a place in a text ends a line, an entry, a cell or words in quotes."""
    after = source[end : end + _LONGEST_SIGNS]
    if end + _LONGEST_SIGNS < len(source):
        after += "."
    return _AFTER_ENTRY.match(after) is not None


def is_entry(source: str, start: int, end: int) -> bool:
    """Whether a place in a text is a line, an entry, a cell, in quotes or behind a label."""
    return _begins_entry(source, start) and ends_entry(source, end)


def is_cut_before(source: str, start: int) -> bool:
    """Whether what stood before a place in a text was cut off: dots, or an entry begins."""
    before = source[max(0, start - _LONGEST_SIGNS) : start]
    return _BEFORE_CUT.search(before) is not None or _begins_entry(source, start)


def is_cut_behind(source: str, end: int) -> bool:
    """Whether what stood behind a place in a text was cut off: dots, or the entry ends."""
    after = source[end : end + _LONGEST_SIGNS]
    return _AFTER_CUT.match(after) is not None or ends_entry(source, end)
