"""Which sentences of an answer claim something.

Greetings, offers, lead-ins and sentences that only decline claim nothing. They are
recognised by fixed phrases that go on in nothing but a few harmless words. Whatever
holds a word beside these is a claim: in doubt a sentence is judged. English; in other
languages every sentence with a word is a claim.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from ragmetrics_core.data import Asked
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.declining import declines, user_question_of
from ragmetrics_core.lexical.text import content_terms
from ragmetrics_core.metrics.declined import Declined, DeclinedJudgement

# With what a phrase may go on, in any order: nothing of this claims a fact.
_OFFER_WORDS = """
    a | about | additional | any | anything | ask | assist you | clarification | concerns
    | contact me | contact us | don't hesitate to | do not hesitate to | details | doubts
    | else | examples | explain | feel free to | further | get in touch | happy to | glad
    to | have | help | i | i can | i'd be | i'll be | i'm | i am | i would be | if | in |
    information | just | know | let me | like | me | more | need | on | or | other | out |
    please | questions? | question | reach out | something | than | that | the | there's |
    this | to | want | we can | we'll be | with | would like | you | you'd | your
"""
_LEAD_IN_WORDS = """
    a | above | all | an | and | answers? | below | brief | complete | contexts? | data |
    detailed | details | documents? | examples? | explanation | facts | few | findings |
    first | following | for | found | from | full | given | guide | how | i | information |
    instructions | in | key | know | list | main | most | my | need | of | on | overview |
    passages? | points | provided | quick | relevant | response | results? | retrieved |
    short | some | sources? | step-by-step | steps? | summary | texts? | that | the | them
    | these | things | this | tips | to | ways | what | with | you | your
"""


def _any_of(wordings: str) -> str:
    """A pattern of any number of these wordings, each behind a space."""
    return f"(?: (?:{'|'.join(' '.join(wordings.split()).split(' | '))}))*"


_AGREEMENT = (
    "(?:sure|certainly|absolutely|of course|no problem|sure thing|you(?:'re| are)"
    " welcome)"
)
_THANKS = (
    "(?:thanks|thank you)(?: (?:so|very) much| a lot)?"
    "(?: for (?:asking|reaching out|(?:the|your|this) (?:great |good )?question|your"
    " (?:message|patience|interest)))?"
)
_PHRASES = (
    # a greeting may name one person
    r"(?:hi|hello|hey|dear)(?: [^\W\d_]+)?(?: (?:and )?welcome(?: back)?)?",
    "(?:good (?:morning|afternoon|evening)|welcome(?: back)?)",
    _THANKS,
    "(?:that(?:'s| is) |what )?(?:a |an )?(?:very |really )?"
    "(?:great|good|excellent|interesting|fair) (?:question|point)",
    "(?:i(?:'d| would|'m| am) )?(?:be )?(?:happy|glad) to (?:help|assist)"
    "(?: you)?(?: with (?:that|this))?",
    "(?:i |we )?hope (?:this|that|it) (?:helps|helped|answers (?:your|the) questions?)",
    "(?:good luck|best of luck)(?: with (?:that|this|it))?",
    "(?:(?:best|kind|warm) (?:regards|wishes)|cheers|have a (?:great|good|nice) day)",
    f"(?:please |just )?(?:let me know|feel free to){_any_of(_OFFER_WORDS)}",
    f"(?:please )?(?:do not|don't) hesitate to{_any_of(_OFFER_WORDS)}",
    f"if (?:you(?:'d like)?|there(?:'s| is)){_any_of(_OFFER_WORDS)}",
    f"(?:would you like|do you (?:have|need|want)|(?:can|may|shall) i help|is there"
    f" (?:anything|something)|(?:does|did) (?:this|that) (?:help|answer))"
    f"{_any_of(_OFFER_WORDS)}",
)
_CLAIMS_NOTHING = re.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES))
_AGREES = re.compile(_AGREEMENT)
_LEAD_IN = re.compile(
    r"(?:here(?:'s| is| are)|below (?:is|are)|(?:these|the following) are"
    r"|follow (?:these|the)|to (?:summari[sz]e|answer|sum up)|in (?:short|summary|brief)"
    rf"|(?:based on|according to) (?:the|these|your)){_any_of(_LEAD_IN_WORDS)}"
)
_UP_TO_COLON = re.compile(r"[^:]{1,120}:")
# behind these words a lead-in may name what was asked for
_TASK = re.compile(
    r"^(.*\b(?:how|steps|ways|instructions|tips|guide)) (?:to|for) (.*)$"
)
_TASK_WORDS = frozenset({"a", "an", "and", "for", "in", "of", "on", "the", "your"})
# at the end of an answer: a heading, alone or before a list of short lines
_SOURCES = re.compile(
    r"\n[ \t]*(?:[#*_]+[ \t]*)?(?:sources?|references?|citations?|further reading)[*_]*:?[*_]*"
    r"(?:[ \t]*\n[ \t]*(?:[-*•\d\[(]|https?:)|:[ \t]*\S)[^\n]*(?:\n[^\n]*)*\Z",
    re.IGNORECASE,
)
_MOST_WORDS_OF_SOURCE = 12
_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|should|may|must|will"
    r"|would)\b(?! you\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:['-]\w+)*")
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
    """Divide an answer into parts that claim something and parts that claim nothing.

    Greetings, offers and lead-ins such as "Here are the steps:" claim nothing, and so
    does an answer that only declines. Parts without a word are left out.

    Args:
        answer: The answer.
        question: What was asked; None where it is not known. It tells whether an answer
            declines, and which words of a lead-in only repeat the question.

    Examples:
        >>> parts_of("Great question! Here are the steps: press the button. Good luck!").claims
        ('press the button.',)
    """
    if declines(answer, question):
        return AnswerParts((), (answer,))
    claims: list[str] = []
    others: list[str] = []
    for sentence in split_sentences(answer):
        lead_in, rest = _without_lead_in(sentence, question)
        if lead_in:
            others.append(lead_in)
        if not _has_words(rest):
            continue
        words = _words(rest)
        if _CLAIMS_NOTHING.fullmatch(words):
            is_claim = False
        elif _AGREES.fullmatch(words):  # said to a yes-or-no question, it means yes
            is_claim = question is not None and _YES_OR_NO.match(question) is not None
        else:
            is_claim = not declines(rest, question)
        if is_claim:
            claims.append(rest)
        else:
            others.append(rest)
    return AnswerParts(tuple(claims), tuple(others))


def without_sources(answer: str) -> str:
    r"""The answer without a list of sources below it; a list of sentences stays.

    Examples:
        >>> without_sources("It opened in 1882.\n\nSources:\n- docs/lamps.md\n- [2] The old mill")
        'It opened in 1882.'
    """
    sources = _SOURCES.search(answer)
    if sources is None or not answer[: sources.start()].strip():
        return answer
    for line in sources[0].split("\n"):
        is_sentence = line.rstrip().endswith((".", "!", "?")) and len(line.split()) > 3
        if is_sentence or len(line.split()) > _MOST_WORDS_OF_SOURCE:
            return answer
    return answer[: sources.start()].rstrip()


# asked again with each chunk of a row
@lru_cache(maxsize=64)
def claims_nothing(answer: str, question: str | None = None) -> bool:
    """True if an answer declines, or only greets, thanks or asks back.

    Examples:
        >>> claims_nothing("You're welcome! Which lamp?"), claims_nothing("In 1882.")
        (True, False)
    """
    parts = parts_of(answer, question)
    asks_back = all(claim.rstrip().endswith(("?", "？", "؟")) for claim in parts.claims)
    return asks_back and bool(parts.claims or parts.others)


def judge_declining(question: Declined) -> Asked[DeclinedJudgement]:
    """Judge whether an answer declines or claims nothing, by known phrases."""
    answer = question["answer"]
    declined = not _has_words(answer) or claims_nothing(
        answer, user_question_of(question)
    )
    return Asked((DeclinedJudgement(declined=declined),))


def _without_lead_in(sentence: str, question: str | None) -> tuple[str, str]:
    """Divide a sentence into its lead-in, up to the colon, and the rest.

    A **lead-in** only announces what follows: "Here are the steps:". It may name a task,
    as in "the steps to …:", if the question asked for that task. Example: "Here are the
    steps: open the lid." gives ("Here are the steps:", "open the lid."). A sentence
    without a lead-in gives "" in its place.
    """
    up_to_colon = _UP_TO_COLON.match(sentence)
    if up_to_colon is None:
        return "", sentence
    words = _words(up_to_colon[0])
    announced_task = _TASK.match(words)
    if announced_task is not None:
        words_before_task, task = announced_task.groups()
        # was the task, as "reset the password", in the words of the question?
        asked_terms = frozenset(content_terms(question or ""))
        was_asked = True
        for word in task.split():
            terms = content_terms(word)
            is_known = bool(terms) and asked_terms.issuperset(terms)
            if not is_known and word not in _TASK_WORDS:
                was_asked = False
        if was_asked:
            words = words_before_task
    if not _LEAD_IN.fullmatch(words):
        return "", sentence
    return up_to_colon[0], sentence[up_to_colon.end() :].strip()


def _words(sentence: str) -> str:
    """The words of a sentence in lower case, without any other sign."""
    return " ".join(_WORD.findall(sentence.translate(_CURLY).casefold()))


def _has_words(sentence: str) -> bool:
    return any(sign.isalnum() for sign in sentence)
