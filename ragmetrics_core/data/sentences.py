"""Splits texts into sentences, by rules alone.

Most callers want short pieces, for which a line's end and a length end a sentence.
Citations want whole sentences, which may go on in the next line.
"""

import re
from collections.abc import Container, Iterator
from itertools import pairwise

from ragmetrics_core.data.lazy_patterns import lazy_pattern

LONGEST_SENTENCE = 1000
"""Most characters of a sentence; a longer one is cut at white space.

So the work per sentence is bounded.
"""

_BREAK = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？｡।]+[」』”]*|\n+")
_ABBREVIATION = lazy_pattern(
    r"(?:(?m:^)|[\s(.])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Prof|Jr|Sra?|Dra|vs|Inc|Ltd|Co)\.$|(?m:^)["
    r" \t]*\d{1,2}\.$"
)
# A sentence may end in bold, or where a paragraph of HTML does.
_WHOLE_BREAK = lazy_pattern(
    r"(?<![.!?…])[.!?…]++(?:[\"'”’)\]*_]|</?[a-z]\w{0,9}>)*+(?=\s|<|\Z)"
    r"|[。！？｡।]+[」』”]*|</(?:p|li|div|td|h[1-6])>|<br ?/?>|\n+",
    re.IGNORECASE,
)
# A single letter after a noun, which ends a sentence and is no initial of a person:
# "World War I.", "vitamin C."
_LETTER_AFTER_A_NOUN = lazy_pattern(
    r"\b(?:war|vitamin|plan|type|class|group|hepatitis|grade|level|point|part|section"
    r"|figure|table|appendix|option)[ ]+[A-Za-z]\.\Z",
    re.IGNORECASE,
)
# After these a sentence goes on: after titles, and words that never end a sentence,
# always; after the others where a number, a bracket or a small letter follows.
_TITLE = lazy_pattern(
    r"(?:(?m:^)|[\s(.])(?:[A-Za-z]|Dra?|Mr|Mrs|Ms|St|Prof|Jr|Sra?|Gen|Col|Capt|Lt|Rev|Mt"
    r"|[Vv]s|[Ff]igs?|[Cc]a|bzw|Nr|Abb|[Vv]gl|ggf|evtl|inkl|sog)\.$"
    r"|(?m:^)[ \t]*\d{1,2}\.$"
)
_SHORTENED = lazy_pattern(
    r"(?:(?m:^)|[\s(.'’])(?:al|approx|ca|cf|etc|vs|incl|esp|resp|viz|est|Inc|Ltd|Co|Corp"
    r"|Nos?|Figs?|Eqs?|Secs?|Chs?|Vols?|pp?|Arts?|Refs?|Tabs?"
    r"|Nr|Abs|Bd|Kap|aprox|págs?|núm"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.$",
    re.IGNORECASE,
)
_GOES_ON = lazy_pattern(r"\s+[(\[]?[a-z0-9]")
# An ordinal number as German and the languages of the north write it: a number behind
# one of these words ("am 4. Mai", "im 19. Jahrhundert", "den 2. april"), a number before
# the name of a month that is no English word, or a king's number before a small letter
# ("Christian IX. eröffnete").
_ORDINAL = lazy_pattern(
    r"\b(?:am|vom|zum|im|dem|der|den|des|ab|bis|seit|d\.)[ \n]\d{1,2}\.\Z",
    re.IGNORECASE,
)
_NUMBER_OF_A_DAY = lazy_pattern(r"(?<![\w.,])\d{1,2}\.\Z")
_MONTH = lazy_pattern(
    r"\s+(?:Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
    r"|marts|maj|oktober|mars)\b"
)
_NUMBER_OF_A_KING = lazy_pattern(r"\b[A-ZÄÖÜ][a-zäöüß]+ [IVX]{1,5}\.\Z")
_SMALL_WORD = lazy_pattern(r"\s+[a-zäöüß]")
_LONGEST_NAME = 20
_LONGEST_ABBREVIATION = 12  # characters, with those around it
_LONGEST_ORDINAL = 20  # characters, with the word before it

# What a line begins with that is an item of a list, a heading, or a row of a table.
_LIST_SIGN = lazy_pattern(r"[ \t]*(?:[-*•+>#|]|\d{1,3}[.)]\s|[A-Za-z][.)]\s)")
_HEADING_OR_ROW = lazy_pattern(r"[#|].*|\*\*.*\*\*")
_ENDED_LINE = lazy_pattern(r"[.!?…:;|。！？｡।][\"'”’)\]*_」』”]*\Z")
# A line that ends so is not at its end.
_UNFINISHED = lazy_pattern(
    r"(?:,|\b(?:the|an?|of|by|in|on|at|to|for|from|with|and|or|as|is|was|are|were"
    r"|that|which|who|its|their|his|her|than))\Z",
    re.IGNORECASE,
)
_SMALL_LETTER = lazy_pattern(r"[ \t]*[a-zà-öø-ÿ,;)]")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in order, none longer than ``LONGEST_SENTENCE``.

    Returns:
        Sentences without surrounding white space; [] for a blank text.
    """
    sentences: list[str] = []
    start = 0
    for end_sign in _BREAK.finditer(text):
        if _ends_abbreviation(end_sign, text, start):
            continue
        sentences += _cut_long_sentence(text[start : end_sign.end()])
        start = end_sign.end()
    sentences += _cut_long_sentence(text[start:])
    return [sentence for sentence in sentences if sentence]


def _ends_abbreviation(end_sign: re.Match[str], text: str, start: int) -> bool:
    """Tell whether a full stop ends an abbreviation ("Dr.") or a list number ("2.")."""
    if end_sign[0] != ".":
        return False
    end = end_sign.end()
    abbreviation_start = max(start, end - _LONGEST_ABBREVIATION)
    if _ABBREVIATION.search(text, abbreviation_start, end):
        return True
    return _is_shortened(text, start, end) or _is_ordinal(text, start, end)


def _is_shortened(text: str, start: int, end: int) -> bool:
    """Tell whether a full stop belongs to a shortened word inside a sentence.

    "approx. 5" goes on after the stop, "etc. They" does not.

    Args:
        text: The text.
        start: Where the current sentence begins.
        end: Where the full stop ends.
    """
    abbreviation_start = max(start, end - _LONGEST_ABBREVIATION)
    if _SHORTENED.search(text, abbreviation_start, end) is None:
        return False
    return _GOES_ON.match(text, end) is not None


def _is_ordinal(text: str, start: int, end: int) -> bool:
    """Tell whether a full stop belongs to an ordinal number: "am 4. Mai", "Karl IX. fiel".

    Args:
        text: The text.
        start: Where the current sentence begins.
        end: Where the full stop ends.
    """
    ordinal_start = max(start, end - _LONGEST_ORDINAL)
    if _SMALL_WORD.match(text, end) and _NUMBER_OF_A_KING.search(
        text, ordinal_start, end
    ):
        return True
    if _MONTH.match(text, end) and _NUMBER_OF_A_DAY.search(text, ordinal_start, end):
        return True
    return _ORDINAL.search(text, ordinal_start, end) is not None


def whole_sentences(text: str, ends: Container[int] = ()) -> list[str]:
    """Split a text into its sentences, in order, without cutting a long one.

    Unlike with ``split_sentences``, a sentence may go on in the next line: the text
    "It stands", line break, "here." is one sentence, "It stands here.". ``ends`` are
    indices of full stops and line breaks that are known to end a sentence.
    """
    joined_text = join_lines(text, ends)  # as long as before: ``ends`` still fit
    sentences: list[str] = []
    start = 0
    for end_sign in _WHOLE_BREAK.finditer(joined_text):  # full stops and the like
        is_known_end = end_sign.start() in ends
        if is_known_end or not _stands_in_sentence(end_sign, joined_text, start):
            sentences.append(joined_text[start : end_sign.end()].strip())
            start = end_sign.end()
    sentences.append(joined_text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _stands_in_sentence(end_sign: re.Match[str], text: str, start: int) -> bool:
    """Tell whether a full stop stands inside a sentence instead of ending it.

    True in "Dr. Smith" and "Fig. 3", false after "lions, tigers etc." before "They".

    Args:
        end_sign: A full stop or the like, with a quotation mark or bracket after it.
        text: The text that it stands in.
        start: Where the current sentence begins.
    """
    if end_sign[0] in ("...]", "…]"):  # "[...]" may stand for words left out
        return _is_omission(end_sign, text, start)
    if end_sign[0] != ".":  # "!", "?" and the like end a sentence
        return False
    end = end_sign.end()
    # "vitamin C." ends a sentence; the initial of "C. Darwin" does not: see _TITLE
    if _LETTER_AFTER_A_NOUN.search(text, max(start, end - _LONGEST_NAME), end):
        return False
    abbreviation_start = max(start, end - _LONGEST_ABBREVIATION)
    if _TITLE.search(text, abbreviation_start, end):  # "Dr. Smith", "C. Darwin"
        return True
    return _is_shortened(text, start, end) or _is_ordinal(text, start, end)


def _is_omission(end_sign: re.Match[str], text: str, start: int) -> bool:
    """Tell whether a bracket holds only dots for words left out: "It fell [...] in May."."""
    return text.endswith("[", start, end_sign.start())


def join_lines(text: str, ends: Container[int] = ()) -> str:
    """Replace each line break inside a sentence by a space.

    The text keeps its length, so that indices into it stay valid.

    Args:
        text: Any text.
        ends: Indices of line breaks that are known to end a sentence.
    """
    lines = text.split("\n")
    pieces = lines[:1]
    line_break = len(lines[0])  # the index of the line break after the line
    for line, next_line in pairwise(lines):
        goes_on = _goes_on_in(line, next_line, is_known_end=line_break in ends)
        pieces += [" " if goes_on else "\n", next_line]
        line_break += 1 + len(next_line)
    return "".join(pieces)


def _goes_on_in(line: str, next_line: str, *, is_known_end: bool) -> bool:
    """Tell whether the sentence at a line's end continues on the next line.

    ``is_known_end`` says that the caller knows the line break to end a sentence. A small
    letter at the beginning of the next line overrules it.
    """
    line = line.strip()
    if not line or not next_line.strip() or _ENDED_LINE.search(line):
        return False
    if _HEADING_OR_ROW.fullmatch(line) or _LIST_SIGN.match(next_line):
        return False
    if _SMALL_LETTER.match(next_line):
        return True
    return _UNFINISHED.search(line) is not None and not is_known_end


def _cut_long_sentence(sentence: str) -> Iterator[str]:
    """Yield a sentence in pieces of at most ``LONGEST_SENTENCE`` characters.

    A piece ends at a space, or within a word if the piece has no space. A short sentence
    is yielded whole. Pieces may be empty.
    """
    sentence = sentence.strip()
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start + 1, start + LONGEST_SENTENCE)
        if end <= start:  # no space
            end = start + LONGEST_SENTENCE
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()
