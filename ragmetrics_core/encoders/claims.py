"""Which sentences of an answer claim something.

Greetings, offers, lead-ins, questions and sentences that only decline claim nothing.
English; in other languages every sentence with a word is a claim.
"""

import re
from dataclasses import dataclass

from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.text import split_sentences

_GREETING = re.compile(
    r"(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|welcome)\b[^.:;]{0,30}"
    r"|(?:thanks|thank you)\b[^.:;]{0,60}"
    r"|(?:that(?:'s| is) )?(?:a |an )?(?:very )?"
    r"(?:great|good|excellent|interesting|fair) (?:question|point)"
    r"|(?:sure|certainly|absolutely|of course|no problem|you(?:'re| are) welcome)"
    r"(?: thing)?"
    r"|(?:i(?:'d| would| am|'m) )?(?:be )?(?:happy|glad) to (?:help|assist)[^.:;]{0,40}"
)
_OFFER = re.compile(
    r"(?:please |just )?(?:let me know|feel free|do(?:n't| not) hesitate)\b.*"
    r"|if you (?:have|need|want|would like|'d like)\b.*"
    r"\b(?:let me know|ask|feel free|reach out|contact me|happy to|glad to)\b.*"
    r"|(?:i |we )?hope (?:this|that|it) (?:helps|helped|answers)\b.*"
    r"|(?:good luck|best of luck|(?:best|kind|warm) (?:regards|wishes)|cheers)\b.*"
)
_LEAD_IN = re.compile(
    r"(?:here(?:'s| is| are)|below (?:is|are)|(?:these|the following) are"
    r"|follow (?:these|the)|to (?:summari[sz]e|answer)|in (?:short|summary|brief)"
    r"|(?:based on|according to) (?:the|these|your))\b[^:.\d]{0,80}:",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"^\W*\w+")
_CAPITAL = re.compile(r"\b[A-Z]")
_CURLY = str.maketrans("’", "'")


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """An answer, taken apart.

    Args:
        claims: Its parts that claim something, in order.
        others: Its parts that claim nothing, in order.
    """

    claims: tuple[str, ...]
    others: tuple[str, ...]


def parts_of(answer: str, question: str | None = None) -> AnswerParts:
    """Take an answer apart into what claims something, and what does not.

    Args:
        answer: The answer.
        question: What was asked: to decline it claims nothing.

    Examples:
        >>> parts_of("Great question! Here are the steps: press the button. Good luck!").claims
        ('press the button.',)
    """
    if declines(answer, question):
        return AnswerParts((), (answer,))
    claims: list[str] = []
    others: list[str] = []
    for sentence in split_sentences(answer):
        lead_in, rest = _without_lead_in(sentence)
        if lead_in:
            others.append(lead_in)
        if not _has_words(rest):
            continue
        (claims if _claims(rest, question) else others).append(rest)
    return AnswerParts(tuple(claims), tuple(others))


def _without_lead_in(sentence: str) -> tuple[str, str]:
    """The lead-in of a sentence, up to its colon, and the rest.

    A lead-in that names somebody may claim something: it stays.
    """
    match = _LEAD_IN.match(sentence)
    if match is None or _CAPITAL.search(_FIRST_WORD.sub("", match[0], count=1)):
        return "", sentence
    return match[0], sentence[match.end() :].strip()


def _claims(sentence: str, question: str | None) -> bool:
    """Whether a sentence says something that may be true or false of the contexts."""
    if sentence.rstrip().endswith(("?", "？", "؟")):
        return False
    plain = " ".join(sentence.translate(_CURLY).casefold().split())
    plain = plain.strip(" .!,…*_-")
    if _GREETING.fullmatch(plain) or _OFFER.fullmatch(plain):
        return False
    return not declines(sentence, question)


def _has_words(sentence: str) -> bool:
    return any(sign.isalnum() for sign in sentence)
