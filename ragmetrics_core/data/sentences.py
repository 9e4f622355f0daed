"""Splits texts into sentences, by rules alone.

Most callers want short pieces, for which a line's end and a length end a sentence.
Citations want whole sentences, which may go on in the next line.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise

LONGEST_SENTENCE = 1000
"""Most characters of a sentence; a longer one is cut at white space.

So the work per sentence is bounded.
"""

# A run of signs is tried at its first alone.
_BREAK = re.compile(
    r"[.!?…。！？｡।\n](?:(?<=[.!?…])(?<![.!?…].)[.!?…]*+[\"'”’)\]]*+(?=\s)"
    r"|(?<=[。！？｡।])[。！？｡।]*[」』”]*|(?<=\n)\n*)"
)
# After these a sentence goes on. The first are those that the embedded judge's weights
# were fitted with.
_ABBREVIATION = re.compile(
    r"(?:(?m:^)|[\s(.])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Prof|Jr|Sra?|Dra|vs|Inc|Ltd|Co)\.$|(?m:^)["
    r" \t]*\d{1,2}\.$"
)
_TITLE = re.compile(
    r"(?:(?m:^)|[\s(.])(?:[A-Za-z]|Dra?|Mr|Mrs|Ms|St|Prof|Jr|Sra?|Gen|Col|Capt|Lt|Rev|Mt"
    r"|[Vv]s|[Ff]igs?|[Cc]a)\.$|(?m:^)[ \t]*\d{1,2}\.$"
)
# A sentence may end in bold, or where a paragraph of HTML does.
# "[...]" stands for words left out.
_WHOLE_BREAK = re.compile(
    r"(?<![.!?…\[])[.!?…]++(?:[\"'”’)\]*_]|</?[a-z]\w{0,9}>)*+(?=\s|<|\Z)"
    r"|[。！？｡।]+[」』”]*|</(?:p|li|div|td|h[1-6])>|<br ?/?>|\n+",
    re.IGNORECASE,
)
# After these a sentence goes on where a number, a bracket or a small letter follows.
_SHORTENED = re.compile(
    r"(?:(?m:^)|[\s(.'’])(?:al|approx|ca|cf|etc|vs|incl|esp|resp|viz|est|Inc|Ltd|Co|Corp"
    r"|Nos?|Figs?|Eqs?|Secs?|Chs?|Vols?|pp?|Arts?|Refs?|Tabs?"
    r"|Nr|Abs|Bd|Kap|aprox|págs?|núm"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\s+[(\[]?[a-z0-9]")
# An ordinal number as German and the languages of the north write it: a number behind
# one of these words ("am 4. Mai", "im 19. Jahrhundert", "den 2. april"), a number before
# the name of a month that is no English word, or a king's number before a small letter
# ("Christian IX. eröffnete").
_ORDINAL = re.compile(
    r"\b(?:am|vom|zum|im|dem|der|den|des|ab|bis|seit|d\.)[ \n]\d{1,2}\.\Z",
    re.IGNORECASE,
)
_NUMBER_OF_A_DAY = re.compile(r"(?<![\w.,])\d{1,2}\.\Z")
_MONTH = re.compile(
    r"\s+(?:Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
    r"|marts|maj|oktober|mars)\b"
)
_NUMBER_OF_A_KING = re.compile(r"\b[A-ZÄÖÜ][a-zäöüß]+ [IVX]{1,5}\.\Z")
_SMALL_WORD = re.compile(r"\s+[a-zäöüß]")
_LONGEST_ABBREVIATION = 12  # characters, with those around it
_LONGEST_ORDINAL = 20  # characters, with the word before it

# What a line begins with that is an item of a list, a heading, or a row of a table.
_LIST_SIGN = re.compile(r"[ \t]*(?:[-*•+>#|]|\d{1,3}[.)]\s|[A-Za-z][.)]\s)")
_HEADING_OR_ROW = re.compile(r"[#|].*|\*\*.*\*\*")
_ENDED_LINE = re.compile(r"[.!?…:;|。！？｡।][\"'”’)\]*_」』”]*\Z")
# A line that ends so is not at its end.
_UNFINISHED = re.compile(
    r"(?:,|\b(?:the|an?|of|by|in|on|at|to|for|from|with|and|or|as|is|was|are|were"
    r"|that|which|who|its|their|his|her|than))\Z",
    re.IGNORECASE,
)
_SMALL_LETTER = re.compile(r"[ \t]*[a-zà-öø-ÿ,;)]")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in order, none longer than ``LONGEST_SENTENCE``.

    Returns:
        Sentences without surrounding white space; [] for a blank text.
    """
    pieces = map(_cut_long_sentence, _pieces_of(text, _BREAK, _ABBREVIATION))
    return [sentence for sentence in chain.from_iterable(pieces) if sentence]


def _pieces_of(
    text: str, breaks: re.Pattern[str], abbreviation: re.Pattern[str]
) -> Iterator[str]:
    """Yield a text in pieces, cut at the breaks that no sentence goes on behind."""
    start = 0
    for end_sign in breaks.finditer(text):
        if not _goes_on_behind(end_sign, text, start, abbreviation):
            yield text[start : end_sign.end()]
            start = end_sign.end()
    yield text[start:]


def _goes_on_behind(
    end_sign: re.Match[str], text: str, start: int, abbreviation: re.Pattern[str]
) -> bool:
    """Tell whether a full stop stands inside a sentence: "Dr. Smith", "approx. 5", "2."."""
    if end_sign[0] != ".":
        return False
    end = end_sign.end()
    abbreviation_start = max(start, end - _LONGEST_ABBREVIATION)
    if abbreviation.search(text, abbreviation_start, end):
        return True
    # "approx. 5" goes on after the stop, "etc. They" does not
    is_shortened = _SHORTENED.search(text, abbreviation_start, end) is not None
    if is_shortened and _GOES_ON.match(text, end):
        return True

    # an ordinal number: "am 4. Mai", "Karl IX. fiel"
    ordinal_start = max(start, end - _LONGEST_ORDINAL)
    if _SMALL_WORD.match(text, end) and _NUMBER_OF_A_KING.search(
        text, ordinal_start, end
    ):
        return True
    if _MONTH.match(text, end) and _NUMBER_OF_A_DAY.search(text, ordinal_start, end):
        return True
    return _ORDINAL.search(text, ordinal_start, end) is not None


def whole_sentences(text: str) -> list[str]:
    """Split a text into its sentences, in order, without cutting a long one.

    Unlike with ``split_sentences``, a sentence may go on in the next line: the text
    "It stands", line break, "here." is one sentence, "It stands here.".
    """
    pieces = map(str.strip, _pieces_of(join_lines(text), _WHOLE_BREAK, _TITLE))
    return [sentence for sentence in pieces if sentence]


def join_lines(text: str) -> str:
    """Replace each line break inside a sentence by a space.

    The text keeps its length, so that places in it stay valid.
    """
    lines = text.split("\n")
    pieces = lines[:1]
    for line, next_line in pairwise(lines):
        pieces += [" " if _goes_on_in(line, next_line) else "\n", next_line]
    return "".join(pieces)


def _goes_on_in(line: str, next_line: str) -> bool:
    """Tell whether the sentence at a line's end continues on the next line."""
    line = line.strip()
    if not line or not next_line.strip() or _ENDED_LINE.search(line):
        return False
    if _HEADING_OR_ROW.fullmatch(line) or _LIST_SIGN.match(next_line):
        return False
    is_unfinished = _UNFINISHED.search(line) is not None
    return is_unfinished or _SMALL_LETTER.match(next_line) is not None


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
