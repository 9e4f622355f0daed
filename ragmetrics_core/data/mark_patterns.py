"""What marks of citations look like in a text, as regular expressions.

``MARK`` finds the forms that are read. ``UNREAD`` and ``MAY_BE_A_MARK`` find forms that
are not read.
"""

import re
from collections.abc import Iterable

from ragmetrics_core.data.lazy_patterns import lazy_pattern

Span = tuple[int, int]
"""Where a part of a text begins, and the place behind its last sign."""

_LONGEST_MARK = 200  # characters between the brackets
SOURCE_WORD = (
    r"(?:sources?|documents?|docs?|passages?|contexts?|chunks?|citations?"
    r"|references?|refs?|cited?|snippets?|results?|excerpts?"
    r"|dokumente?|quellen?|fuentes?|documentos?|fontes?|来源|文档|资料|引用|出典|문서|출처)"
)
"""What languages call a source, as a regular expression that ignores case."""

PAGE_WORD = (
    r"(?:pp?\.?|pages?|pgs?\.?|p[aá]gs?\.?|p[aá]gin(?:as?|e)|seiten?|s\.|blz\.?"
    r"|sida|str\.|стр\.?)"
)
"""What languages call a page, as a regular expression that ignores case."""

OPENING = r"\[［〔"
CLOSING = r"\]］〕"
MARK = lazy_pattern(
    r"\[(?P<spread>(?P<letters>[A-Za-z]{0,3})\d{1,9}\][-–]\[(?P=letters)\d{1,9})\]"
    # as Markdown escapes brackets: \[1\]
    rf"|\\{{1,2}}\[(?P<escaped>[^\[\]\\\n]{{1,{_LONGEST_MARK}}})\\{{1,2}}\]"
    rf"|\[\[(?P<doubled>[^\[\]\n]{{1,{_LONGEST_MARK}}})\]\]"
    rf"|[{OPENING}]"
    rf"(?P<listed>[^{OPENING}{CLOSING}\n]{{1,{_LONGEST_MARK}}})[{CLOSING}]"
    r"|\((?:see |from )?"
    rf"(?P<named>{SOURCE_WORD}[ \t:#0-9][^()\n]{{0,{_LONGEST_MARK}}})\)"
    rf"|【(?P<provided>[^【】†\n]{{1,{_LONGEST_MARK}}})"
    rf"(?:†[^【】\n]{{0,{_LONGEST_MARK}}})?】",
    re.IGNORECASE,
)
"""A bracket that may be a mark, such as ``[1]``, ``(Source 2)`` or ``【3†source】``."""

NUMBER = lazy_pattern(r"\d{1,9}")
LINE = lazy_pattern(r"[^\n]+")
PARAGRAPH_BREAK = lazy_pattern(r"\n[ \t\r]*\n")
YEAR = r"(?:1[5-9]|20)\d\d"
LOOKBACK = 40
"""How many characters before a bracket or line are looked at."""

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_OF_BRACKETS = rf"{OPENING}{CLOSING}【】"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w* "
# Words in brackets that no author means as a source.
_NO_SOURCE = r"(?:\s*|x|sic!?|\.{3}|…|citation needed|emphasis (?:added|mine))"
# What joins the numbers in a bracket: [see 2], [1 to 3], [1, p. 3, 4], [^1].
AND_WORD = r"(?:and|und|et|y|e)"
"""What languages put between two labels, as a regular expression."""
_JOINS = rf"(?:[\s\d,;+&/\\^#–—-]|\b(?:see|cf|vgl|siehe|{AND_WORD}|to|bis|or|pp?)\b\.?)"
UNREAD = lazy_pattern(
    rf"[{OPENING}【「『](?=[^{_OF_BRACKETS}]*\d){_JOINS}{{1,80}}[{CLOSING}】」』]"
    r"|\[[ \t]*\d{1,3}[)}]|[({][ \t]*\d{1,3}[ \t]*\]"
    rf"|[{OPENING}【][\d,;:–† \t-]*\d[\d,;:–† \t-]*\Z"
    r"|</?(?:cite|citation|ref|source|footnote)\b|\bciteturn\d|&#91;"
    # <co: 0>what it cites for</co: 0>
    r"|</?[a-z]{1,12}[ \t]*:[ \t]*\d"
    # a number close after a full stop: "It is old.1 It fell.²"
    r"|(?<=[^\W\d_]{2}[.!?])(?<!\bN[or]\.)(?<!\bFig\.)"
    rf"(?:\d{{1,2}}(?=\s|\Z)|[{_SUPERSCRIPTS}]+(?![⁺⁻])|\^\d)",
    re.IGNORECASE,
)
"""A form that is not read, and that hardly means anything but a citation.

Such are numbers in a bracket (``[see 2]``, ``[1)``), also in one that was cut off.
"""

# Forms that may cite, and may be something else.
_NUMBER_OR_LETTER = r"(?:\d{1,2}|[a-h]|[ivx]{1,4})"
_ENDS = (
    r"(?=\s*(?:[.,;:!?)\]。，；！？]|\Z)|[ \t]*$)"  # what stands after most citations
)
_PLACE_WORD = (
    r"(?:pp?|pages?|seiten?|s|sections?|sect?|absatz|abschnitt|§|articles?|art|no|nr"
    r"|refs?|chapters?|kontext|siehe|vgl|see|cf|from|#)"
)
_DOUBTFUL_FORMS = (
    # [1 of 3], and any other bracket with a digit
    rf"[{OPENING}【][^{_OF_BRACKETS}]{{0,80}}\d[^{_OF_BRACKETS}]{{0,80}}[{CLOSING}】]",
    # superscripts, but not those of a number, a letter, a unit or an ion: 10², x², km²;
    # those of a year may cite: 1874³
    rf"(?<=\b1[5-9]\d\d)[{_SUPERSCRIPTS}]|(?<=\b20\d\d)[{_SUPERSCRIPTS}]",
    r"(?<![\d⁻)₀-₉])(?<!\b[^\W\d_])(?-i:(?<!\b[a-z][a-z]))"
    rf"[{_SUPERSCRIPTS}](?![⁺⁻])",
    r"(?<!\d)(?<!\b[^\W\d_])<sup>[ \t]*[\[(]?\d|<a[ \t]|[①-⒇❶-➓]|\d\ufe0f?\u20e3",
    r"[<⟨〈《⟦〖〘〚❲❮⟪][ \t]*\d{1,3}[ \t]*[>⟩〉》⟧〗〙〛❳❯⟫]",
    r"(?<=[^\W\d_]{2})\^\(?\d",
    # source 2, the second document, (source: report), a line "Sources: report"
    rf"\b{SOURCE_WORD}[ \t:#]*\d|\brefs?\.[ \t]*\d",
    rf"\b(?:first|second|third|fourth|fifth|1st|2nd|3rd)[ \t]+{SOURCE_WORD}\b",
    rf"[\[(（【](?!citation needed)[^\w()（）]{{0,3}}(?:as[ \t]+)?{SOURCE_WORD}\b",
    rf"^[ \t]*{SOURCE_WORD}[ \t]*:",
    # (2), (a), (1 and 2) after a word or a sentence
    r"(?:(?<=[^\W\d][\"”’)%])|(?<=[^\W\d])|(?<=[.!?])"
    r"|(?<=\b1[5-9]\d\d)|(?<=\b20\d\d))[ \t]?"
    rf"[(（]{_NUMBER_OR_LETTER}"
    rf"(?:[ \t]*(?:[,;/–-]|and|und|&)[ \t]*{_NUMBER_OR_LETTER})*[)）]{_ENDS}",
    r"(?<=[.!?])[ \t][(（]\d{1,2}[)）]",
    # (see 2), (Section 1), (Handbook, p. 3), (handbook.pdf)
    rf"[(（](?:[^()（）\n]{{0,40}}[ ,])?{_PLACE_WORD}\.?[ \t]*#?\d{{1,4}}(?:[-–]\d{{1,4}})?[)）]",
    r"\([^()\n]{1,60}\.(?:pdf|docx?|html?|txt|md)\b[^()\n]{0,20}\)",
    r"\{\d{1,3}(?:[,; ]+\d{1,3})*\}",
    r"https?://|\bwww\.|\bdoi:",
    # [Book A], [doc_a]
    rf"[{OPENING}](?!{_NO_SOURCE}[{CLOSING}])"
    rf"[^{OPENING}{CLOSING}\n]{{1,80}}[{CLOSING}]",
    # (Smith, 2020), (Smith 2020), (Smith et al. 2020), Smith et al. (2020), (ibid.)
    rf"\((?=[^()\d\n]*(?:,|&|\bet al\b|\band\b))[^()\d\n]{{3,80}}{YEAR}",
    rf"\((?:[^()\d\n]{{0,30}}\b)?(?!{_MONTH})(?-i:[^\W\d_a-zß-öø-ÿ])\w+ {YEAR}[a-z]?\)",
    rf"\bet al\.?,?[ \t]*\({YEAR}",
    r"\((?:ibid|idem|op\. ?cit|loc\. ?cit)\b",
    r"[†‡]",
)
MAY_BE_A_MARK = lazy_pattern("|".join(_DOUBTFUL_FORMS), re.IGNORECASE | re.MULTILINE)
"""A form that may cite, and may be something else, such as ``(2)`` or a link."""

SOURCES_HEADING = (
    r"(?:references?(?: list)?|sources?(?: used| cited)?|bibliography|works cited"
    r"|citations?|footnotes?|further reading|quellen(?:verzeichnis)?"
    r"|literatur(?:verzeichnis)?|bibliogra\w+|fuentes|referencias|références|fontes"
    r"|参考文献|参考资料|来源|出典)"
)
"""What heads a list of sources, as a regular expression that ignores case."""

_NO_LINE_END = lazy_pattern(r"[^\n]")


def blank(text: str, spans: Iterable[Span]) -> str:
    """Replace each character in some spans by a blank, except line breaks.

    "old [1]." without (4, 7) is "old    .": the text keeps its length, and indices into
    it stay valid.
    """
    pieces: list[str] = []
    end_of_last = 0
    for start, end in sorted(spans):
        start = max(start, end_of_last)  # of overlapping spans the part not blanked yet
        if start < end:
            pieces.append(text[end_of_last:start])
            pieces.append(_NO_LINE_END.sub(" ", text[start:end]))
            end_of_last = end
    pieces.append(text[end_of_last:])
    return "".join(pieces)
