"""When a statement needs no judge, because a passage says it in the same words.

A sentence means in the answer what it means in the passage only where it stands alone.
The rule is ours, and careful: in doubt the judge is asked.
"""

import re

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.sentences import whole_sentences

_FEWEST_WORDS = 3  # "Yes." and "In 1903." answer what stands before them
# Words of English alone: of other languages the words that lean are not known here.
_ENGLISH = lazy_pattern(r"\b(?:the|and|with|from|has|were)\b", re.IGNORECASE)
# Words that take their meaning from another sentence.
_LEANING = lazy_pattern(
    r"\b(?:he|she|it|they|him|her|his|hers|its|them|their|theirs|himself|herself|itself"
    r"|themselves|i|we|you|me|us|my|our|your|this|that|these|those|here|there|such|same"
    r"|former|latter|other|others|another|both|either|neither|one|ones|none|so|then|thus"
    r"|therefore|hence|also|too|however|but|yet|still|instead|otherwise|nevertheless"
    r"|moreover|furthermore|likewise|again|later|earlier|meanwhile|today|now)\b",
    re.IGNORECASE,
)
_PLAIN_SENTENCE = lazy_pattern(r"[^\W\d_a-zß-öø-ÿ][^\"“”„«»‹›「」:;?!()\[\]*_#|…]*\.")
# A passage with such a word may call false what it says elsewhere.
_CALLS_FALSE = lazy_pattern(
    r"\b(?:false\w*|falsehoods?|myths?|wrong\w*|untrue|incorrect\w*|mistaken?|mistakes"
    r"|errors?|erroneous\w*|fake\w*|fiction\w*|novels?|legends?|rumou?rs?|hoax\w*|jokes?"
    r"|alleg\w+|claim\w*|suppos\w+|imagin\w+|hypothe\w+|pretend\w*|debunk\w*"
    r"|lie|lied|liars?|invent\w*|satir\w*|parod\w*|dream\w*|withdrawn|withdrew"
    r"|refut\w+|retract\w*|correct\w*|contradict\w*|contrary|disput\w+|doubt\w*|den(?:y|ies"
    r"|ied)|reject\w*|outdated|obsolete|superseded)\b",
    re.IGNORECASE,
)
# In its own paragraph such a word or sign may make the sentence a condition, a
# quotation, a question, an item of a list, or only half of what is said.
_QUALIFIES = lazy_pattern(
    r"\b(?:if|unless|would|could|might|(?-i:may)|perhaps|not|never|no|nor|cannot|but|however"
    r"|although|though|except|only|until|instead|actually|sa(?:y|ys|id)|tells?|told"
    r"|according|believe\w*|th(?:ink|inks|ought)|quot\w+|stor(?:y|ies)|examples?|true)\b"
    r"|n['’]t\b|[\"“”„«»‹›「」?]|:\s*$|^[ \t]*(?:[-*•+>|]|\d{1,3}[.)]\s)",
    re.IGNORECASE | re.MULTILINE,
)
_PARAGRAPHS = lazy_pattern(r"\n[ \t]*\n")


def holds_sentence(passage: str, statement: str) -> bool:
    """Tell whether a passage says a statement literally, so that no judge is needed.

    The statement must be a whole sentence that stands alone. White space does not
    matter. A passage that may deny or qualify the statement does not count.

    Examples:
        >>> holds_sentence("It is old. The tower of Faro fell in May.", "The tower of Faro fell in May.")
        True
        >>> holds_sentence("It is old. It fell.", "It fell.")
        False
    """
    words = statement.split()
    if len(words) < _FEWEST_WORDS or words[0] not in passage:
        return False
    if not _stands_alone(" ".join(words)) or _CALLS_FALSE.search(passage):
        return False
    return any(
        _holds_unqualified(paragraph, words) for paragraph in _PARAGRAPHS.split(passage)
    )


def _holds_unqualified(paragraph: str, words: list[str]) -> bool:
    """Whether the words are a sentence of a paragraph that quotes or denies nothing."""
    if words[0] not in paragraph or _QUALIFIES.search(paragraph):
        return False
    return any(sentence.split() == words for sentence in whole_sentences(paragraph))


def _stands_alone(sentence: str) -> bool:
    """Tell whether a sentence can be read without any other one."""
    is_plain = _PLAIN_SENTENCE.fullmatch(sentence) is not None
    is_english = _ENGLISH.search(sentence) is not None
    return is_plain and is_english and not _LEANING.search(sentence)
