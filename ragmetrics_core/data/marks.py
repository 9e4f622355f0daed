"""Marks of citations in an answer: ``[1]``, ``[1, 2]``, ``[1-3]`` and ``[1][2]``, nothing else.

What may cite in another notation makes the citations unknown: nobody takes it for
"cites nothing".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[int, int]
"""Where a part of a text begins, and the place behind its last sign."""

WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span; a wider one is not read."""

_NUMBERS = r"[0-9]{1,3}(?:[ \t]?[-–][ \t]?[0-9]{1,3})?"
_MARK = re.compile(rf"\[[ \t]?{_NUMBERS}(?:[ \t]?,[ \t]?{_NUMBERS})*[ \t]?\]")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
# "<think>…</think>"; all before a "</think>" whose beginning the prompt wrote. A tag in
# backticks is only spoken of.
_TAG = "(?:think|thinking|thought|reasoning)"
_REASONING = re.compile(
    r"(?<!`)<(think|thinking|thought|reasoning)>.*?</\1>"
    rf"|\A(?:(?!<{_TAG}).)*?(?<!`)</{_TAG}>",
    re.DOTALL | re.IGNORECASE,
)
_NO_LINE_END = re.compile(r"[^\n]")
# A bracket that may be an index, a list or a class of signs: "rows_of[1]",
# "sys.argv[1]", "x = a[1]", "[0-9]+", "a[i]".
_MAY_BE_CODE = re.compile(
    r"(?:[A-Za-z](?:\.|->|::|\()[A-Za-z_]\w{0,40}|_\w{0,40}|\$\w{1,40}|\b[A-Za-z]"
    r"|=[ \t]?\w{0,40}|\w\([^()\s]{0,40}\))\[[ \t]?[0-9]|[0-9][ \t]?\][ \t]?[=+*{]"
)
_BEHIND_A_WORD = re.compile(r"\w\[[ \t]?[0-9]")
# A mark at the beginning of a line, behind a colon, or under a heading: it may belong
# to what follows, or be an entry in a list of sources.
_MAY_LIST_SOURCES = re.compile(
    r"^[^\w\n\[]*(?:\d{1,2}[.)])?[ \t]*\[[ \t]?[0-9]|[:：][ \t*_]*\[[ \t]?[0-9]"
    r"|^[^\w\n]*(?:sources?|references?|citations?|bibliography|footnotes?|quellen|literatur"
    r"|fuentes|referencias|références|fontes|来源|参考文献|出典)[^\w\n\[]*(?:\[|$)",
    re.MULTILINE | re.IGNORECASE,
)
_SOURCE = (
    r"(?:sources?|documents?|docs?|passages?|contexts?|chunks?|citations?|references?"
    r"|refs?|snippets?|excerpts?|dokumente?|quellen?|fuentes?|documentos?|来源|文档|出典)"
)
_OTHER_NOTATION = re.compile(
    # any other bracket, and one that was cut off
    r"\[(?!sic\]|\.\.\.\]|…\]|[ x]?\])|[【［〔〖⟦「『][^】］〕〗⟧」』]{0,80}\d"
    r"|[({<⟨〈《（][ \t]*(?:see |cf\.? |siehe )?(?:\d{1,3}|[a-h])[ \t]*[])}>⟩〉》）]"
    # signs: ², ①, † and ^1, but no unit, ion or power
    r"|(?:(?<=[^\W\d_]{3})|(?<=[\s.,;:!?)\"”])|(?<=\b[12]\d\d\d))[⁰¹²³⁴-⁹]"
    r"|[①-⒇❶-➓†‡]|\d\ufe0f?\u20e3"
    r"|(?<=[^\W\d_]{2})\^\(?\d|(?<=[^\W\d_]{2}[.!?])\d{1,2}(?=\s|\Z)"
    # tags, and reasoning that is never closed
    r"|</?(?:cite|citation|ref|source|footnote|sup|a|co)\b|\bciteturn\d"
    r"|&#91;|[<◁]/?(?:\w{1,20}:)?(?:think|thought|reasoning|scratch_?pad)"
    # words: "source 2", "(source: report)", "(Handbook, p. 3)", "(guide.pdf)"
    rf"|\b{_SOURCE}[ \t:#]*\d|[(（][^\w()（）]{{0,3}}(?:as |see |the \w+ )?{_SOURCE}\b"
    rf"|^[ \t]*{_SOURCE}[ \t]*:"
    r"|[(（][^()（）\n]{0,60}\b(?:pp?|pages?|seiten?|s|sections?|§)\.?[ \t]*\d"
    r"|\([^()\n]{1,60}\.(?:pdf|docx?|html?|txt|md)\b|https?://|\bwww\.|\bdoi:"
    # authors and years: "(Smith, 2020)", "et al. (2020)", "(ibid.)"
    r"|\((?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))(?-i:[A-Z])[^()\d\n]{1,80}"
    r"(?:1[5-9]|20)\d\d[a-z]?\b|\bet al\.?,?[ \t]*\(|\((?:ibid|op\. ?cit|loc\. ?cit)\b",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in an answer, such as ``[1, 2]``.

    Args:
        start: Where its bracket opens.
        end: The place after the bracket that closes.
        labels: The numbers that it names, each once, as texts: ``("1", "2")``.
    """

    start: int
    end: int
    labels: tuple[str, ...]


def marks_in(answer: str) -> list[Mark]:
    """List the marks of an answer, in order; those in code and in reasoning cite nothing.

    Args:
        answer: Any text.

    Examples:
        >>> [mark.labels for mark in marks_in("It is old [1, 3-5]. `rows[2]`")]
        [('1', '3', '4', '5')]
    """
    text = blank_spans(without_reasoning(answer), _CODE)
    marks: list[Mark] = []
    for bracket in _MARK.finditer(text):
        labels = _labels_in(bracket[0][1:-1])
        if labels:
            marks.append(Mark(bracket.start(), bracket.end(), labels))
    return marks


def _labels_in(inside: str) -> tuple[str, ...]:
    """Return the numbers in a bracket; () if a range runs backwards or is too wide."""
    labels: list[str] = []
    for part in inside.split(","):
        ends = [int(number) for number in re.findall("[0-9]+", part)]
        first, last = ends[0], ends[-1]
        if not first <= last < first + WIDEST_RANGE:
            return ()
        labels += map(str, range(first, last + 1))
    return tuple(dict.fromkeys(labels))


def may_cite(answer: str) -> bool:
    """Tell whether an answer has anything that may be a citation, in whatever notation."""
    return bool(marks_in(answer)) or cites_otherwise(answer)


def cites_otherwise(answer: str) -> bool:
    """Tell whether an answer may cite by something else than the marks that are read.

    So it does in another notation, such as ``(2)``, ``[Guide]`` or a link; by a mark
    that may belong to the text behind it, or that may be an entry of a list of sources;
    and by a bracket that may be code.

    Args:
        answer: Any text.
    """
    plain = without_reasoning(answer)
    text = blank_spans(plain, _CODE)
    if _MAY_BE_CODE.search(text) or _MAY_LIST_SOURCES.search(text):
        return True
    code = "\n".join(match[0] for match in _CODE.finditer(plain))
    if code and (_BEHIND_A_WORD.search(text) or _has_marks_like_text(code)):
        return True
    spans = [(mark.start, mark.end) for mark in marks_in(text)]
    return _OTHER_NOTATION.search(blank(text, spans)) is not None


def _has_marks_like_text(code: str) -> bool:
    """Tell whether code has brackets behind a blank, as a text in a fence has."""
    return any(code[mark.start() - 1].isspace() for mark in _MARK.finditer(code))


def without_reasoning(answer: str) -> str:
    """Return an answer with blanks in place of its reasoning, ``<think>…</think>``.

    Each character keeps its place. Reasoning weighs what the answer may say: a mark in
    it cites nothing.

    Examples:
        >>> without_reasoning("<think>[2]?</think>It fell [1].")
        '                   It fell [1].'
    """
    return blank_spans(answer, _REASONING)


def blank_spans(text: str, pattern: re.Pattern[str]) -> str:
    """Replace what a pattern finds by blanks, as ``blank`` does."""
    return blank(text, [match.span() for match in pattern.finditer(text)])


def blank(text: str, spans: Iterable[Span]) -> str:
    """Replace each character in some spans by a blank, except line breaks.

    "old [1]." without (4, 7) is "old    .": places in the text stay valid.

    Args:
        text: The text.
        spans: The spans; they may overlap.
    """
    pieces: list[str] = []
    end_of_last = 0
    for start, end in sorted(spans):
        start = max(start, end_of_last)
        if start < end:
            pieces.append(text[end_of_last:start])
            pieces.append(_NO_LINE_END.sub(" ", text[start:end]))
            end_of_last = end
    pieces.append(text[end_of_last:])
    return "".join(pieces)
