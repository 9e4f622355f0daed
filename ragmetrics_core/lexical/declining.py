"""Recognises answers that only decline to answer.

They make no claim, so there is nothing to check against the contexts.
"""

import re
from typing import Any

from ragmetrics_core.data import Question
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.text import content_terms

_LONGEST = 600  # characters; an answer that only declines is short

# Spelt out first: "don't" and "do not" are one wording.
_SPELT = {
    "’": "'",
    "can't": "can not",
    "cannot": "can not",
    "n't": " not",
    "'m ": " am ",
    "there's": "there is",
    "unfortunately ": "unfortunately, ",
}

_THEM = (
    "(?:(?:the|this|these|those|any|my|your|given|provided|available|supplied|retrieved|above|following|contexts?|"
    "documents?|texts?|passages?|excerpts?|sources?|articles?|information|data|materials?|search|results?|knowledge|"
    "base|i|we|was|were|am|have|has|had|of|in|you|that) ?)+"
)
_ADVERB = "(?:really |currently |directly |explicitly |specifically |confidently )?"
_DECLINES = (
    rf"(?:i|we) {_ADVERB}(?:(?:do|can|could) not|(?:am|are|was|were) (?:not"
    rf" able|unable) to) {_ADVERB}"
    "(?:know|answer|say|tell|find|determine|locate|help|assist|provide|give|confirm|have)",
    "(?:i am|we are|i|we)? ?(?:not (?:sure|certain)|unsure|uncertain)",
    (
        "(?:i|we) (?:have|found|find|see) (?:no|not enough|insufficient)"
        " (?:idea|clue|information|answer|details?)"
    ),
    (
        "(?:there (?:is|was) )?(?:no|not enough|insufficient) (?:relevant |specific"
        " |further )?(?:idea|clue|information|answer|mention|results?|documents?|context)"
    ),
    rf"{_THEM}(?:do|does|did) not {_ADVERB}"
    "(?:contain|provide|mention|say|state|include|specify|give|have|answer|address|tell|offer|cover|hold)",
    (
        "(?:(?:it|this|that|(?:(?:the|this) )?(?:answer|information)) (?:is |was )?)?not"
        " (?:mentioned|stated|specified|provided)"
    ),
    "(?:(?:the|this) )?(?:answer|information) (?:is |was )?not (?:found|available|in)",
    (
        "(?:(?:it|this|that) (?:is|was) )?not (?:found )?in (?:the|any|these|your)"
        " (?:given |provided )?(?:contexts?|documents?|texts?|sources?)"
    ),
    "(?:(?:it|this|that|(?:the|this|your) question) )?(?:can|could) not be answered",
    "(?:can not|unable to) (?:answer|say|tell)",
    "(?:unknown|unanswerable|n/a|empty response)$",
)
_ASKED_FOR = (
    r"\b(?=$| (?:\w+"
    r" ){0,3}(?:answers?|questions?|information|details?|data|mention|idea|sure|what|when|where|who|whom|"
    "whose|which|why|how|whether|if|it|this|that|these|those|about|from|in the|found|"
    "available|provided|contexts?|documents?|texts?|sources?)\\b)"
)
_DECLINING = re.compile(f"(?:{'|'.join(_DECLINES)}){_ASKED_FOR}")
_POLITE = re.compile(
    "(?:so )?(?:(?:i am|we are) )?(?:very |so |really )?sorry|(?:i|we) (?:do"
    " )?apologi[sz]e|apologies|"
    "unfortunately|regrettably|at this time|at the moment|therefore|"
    "as an? (?:ai|large)?(?: ?language)?(?: model| assistant)?|"
    rf"(?:based on|according to|given|from|in|with) {_THEM}|"
    "(?:please|kindly)"
    " (?:provide|share|give|rephrase|clarify|try|check|consult|contact|ask|let).*|"
    "(?:could|can|would|if) you"
    " .*(?:provide|share|clarify|rephrase|have|give|need|like).*|"
    "(?:let me know|feel free) .*|(?:i|we)(?:'ll|'d| will| would) be (?:happy|glad) to"
    " help.*"
)
_PARTS = re.compile(
    r"[,;:()]|\s[-–—]+\s|—|\b(?:but|however|though|although|because|since|so|i am"
    r" afraid|while|except|yet)\b"
)

# What a declining part may speak of besides what was asked.
_GENERIC = frozenset(
    content_terms(
        "answer question know sure certain information detail context document text"
        " passage source article data material result knowledge idea clue mention"
        " enough sufficient insufficient relevant specific further provide given"
        " available supplied retrieved contain say state specify specified find found"
        " tell determine help confirm able unable really regarding concerning related"
        " topic subject exact exactly address include give base search excerpt"
        " requested request need necessary based directly explicitly precise unknown"
        " access mentioned assist anything unanswerable empty response"
    )
)

_WORDINGS = """
    ich weiss es nicht | das weiss ich nicht | weiss ich nicht | keine ahnung | das kann ich nicht beantworten
    | das kann ich nicht sagen | je ne sais pas | aucune idée | no lo sé | no sé | no lo se | no se | ni idea
    | non lo so | non so | não sei | eu não sei | ik weet het niet | geen idee | nie wiem | jag vet inte
    | jeg ved det ikke | jeg vet ikke | en tiedä | nevím | nu știu | bilmiyorum | không biết | tôi không biết | не знаю
    | я не знаю | не знам | δεν ξέρω | لا أعرف | لا أعلم | मुझे नहीं पता | 我不知道 | 不知道 | 无法回答 | 我无法回答
    | わかりません | 分かりません | 知りません | 모르겠습니다 | 모릅니다
"""
_ELSEWHERE = frozenset(wording.strip() for wording in _WORDINGS.split("|"))


def declines(answer: str, question: str | None = None) -> bool:
    """True if an answer says only that it cannot answer what was asked.

    The answer may name the words of the question again.

    Examples:
        >>> declines("Sorry, I don't know."), declines("I don't know, but it may be Paris.")
        (True, False)
    """
    if len(answer) > _LONGEST:
        return False
    parts: list[str] = []
    for sentence in split_sentences(answer):
        text = " ".join(sentence.casefold().split())
        for contraction, wording in _SPELT.items():
            text = text.replace(contraction, wording)
        for part in _PARTS.split(text):
            bare_part = part.strip(" .!?…。！？؟।\"'“”*_-")
            if bare_part:
                parts.append(bare_part)
    if not any(_is_declining(part) for part in parts):
        return False

    # each part declines, is polite, or speaks of what was asked alone
    speakable = _GENERIC.union(content_terms(question or ""))
    for part in parts:
        if part in _ELSEWHERE or _POLITE.fullmatch(part):
            continue
        if not _is_declining(part) or not speakable.issuperset(content_terms(part)):
            return False
    return True


def user_question_of(question: Question[Any]) -> str | None:
    """The user's question behind a question to a judge; None where it is not shown.

    It is the application's own rewrite where there is one.
    """
    part = question.parts.get("question")
    if part is None:
        return None
    return part.rewrite or "".join(part.texts) or None


def _is_declining(part: str) -> bool:
    return part in _ELSEWHERE or _DECLINING.match(part) is not None
