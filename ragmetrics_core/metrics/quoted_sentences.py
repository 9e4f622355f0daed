"""When a statement needs no judge, because a passage says it in the same words.

A sentence means in the answer what it means in the passage only where it stands alone.
The rule is ours, and careful: in doubt the judge is asked.
"""

import re

from ragmetrics_core.data.sentences import whole_sentences

_FEWEST_WORDS = 5  # "Yes." and "In 1903." answer what stands before them
# Words of English alone: of other languages the words that lean are not known here.
_ENGLISH = re.compile(r"\b(?:the|and|with|from|has|were)\b", re.IGNORECASE)
# Words that take their meaning from another sentence.
_LEANING = re.compile(
    r"\b(?:he|she|it|they|him|her|his|hers|its|them|their|theirs|himself|herself|itself"
    r"|themselves|i|we|you|me|us|my|our|your|this|that|these|those|here|there|such|same"
    r"|former|latter|other|others|another|both|either|neither|one|ones|none|so|then|thus"
    r"|therefore|hence|also|too|however|but|yet|still|instead|otherwise|nevertheless"
    r"|moreover|furthermore|likewise|again|later|earlier|meanwhile|today|now)\b",
    re.IGNORECASE,
)
_PLAIN_SENTENCE = re.compile(r"[^\W\d_a-zß-öø-ÿ][^\"“”„«»‹›「」:;?!()\[\]*_#|…]*\.")


def holds_sentence(passage: str, statement: str) -> bool:
    """Whether a passage says a statement in the same words, so that nobody need be asked.

    It does where the passage is that sentence and nothing else, whatever the white
    space: what stands beside a sentence may take it back. The sentence stands alone: it
    has five words or more, is English, and holds no word that leans on another
    sentence, such as "it".

    Examples:
        >>> holds_sentence("The tower of Faro fell in May.", "The tower of Faro fell in May.")
        True
        >>> holds_sentence("A dream. The tower of Faro fell in May.", "The tower of Faro fell in May.")
        False
    """
    words = statement.split()
    if len(words) < _FEWEST_WORDS or passage.split() != words:
        return False
    return _stands_alone(" ".join(words)) and len(whole_sentences(statement)) == 1


def _stands_alone(sentence: str) -> bool:
    """Whether a sentence can be read without any other one."""
    is_plain = _PLAIN_SENTENCE.fullmatch(sentence) is not None
    is_english = _ENGLISH.search(sentence) is not None
    return is_plain and is_english and not _LEANING.search(sentence)
