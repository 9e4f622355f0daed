"""What the embedded judge says about its verdicts: sizes and terms, in a line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ragmetrics_core.lexical.features import MOST_SENTENCES, Match
from ragmetrics_core.lexical.numerals import long_numbers
from ragmetrics_core.lexical.text import Passage, words
from ragmetrics_core.metrics.polls import SentenceSupport

_UNCERTAIN = 0.1  # within this distance of one half
_UNSUPPORTED = 0.5  # a sentence with a smaller share of its terms found in the contexts
_MOST_LISTED = 5
_LONGEST_LISTED = 40


def _listed(terms: Iterable[str]) -> str:
    """The first few terms, and how many more there are."""
    terms = list(terms)
    shown = ", ".join(term[:_LONGEST_LISTED] for term in terms[:_MOST_LISTED])
    return shown + (f" and {len(terms) - _MOST_LISTED} more" if len(terms) > _MOST_LISTED else "")


def hedged(probability: float, reason: str) -> str:
    """A reason for a verdict of this probability, which says *uncertain* near the threshold."""
    return f"uncertain: {reason}" if abs(probability - 0.5) < _UNCERTAIN else reason


def support(
    answer: Passage, contexts: Sequence[Passage], matches: Sequence[Match], alien: Collection[str]
) -> tuple[SentenceSupport, ...]:
    """Per aligned sentence of the answer, what of it stands where; ``alien`` are the long numbers in no context."""
    found = frozenset[str]().union(*(answer.terms & context.terms for context in contexts))
    return tuple(
        SentenceSupport(
            sentence=sentence.text,
            rank=None if match.context is None else match.context + 1,
            evidence="" if match.context is None else contexts[match.context].sentences[match.sentence].text,
            coverage=len(found.intersection(sentence.terms)) / len(set(sentence.terms)),
            uncovered=words(sentence.text, frozenset(sentence.terms) - found),
            numbers=tuple(written for key, written in long_numbers(sentence.text).items() if key in alien),
        )
        for sentence, match in zip(answer.sentences[:MOST_SENTENCES], matches, strict=True)
    )


def unsupported(sentences: Sequence[SentenceSupport], *, adherent: bool) -> tuple[str, ...]:
    """Sentences that the contexts do not bear out; for a negative verdict at least the weakest one."""
    weak = tuple(item.sentence for item in sentences if item.coverage < _UNSUPPORTED or item.numbers)
    if weak or adherent or not sentences:
        return weak
    return (min(sentences, key=lambda item: item.coverage).sentence,)


def on_adherence(answer: Passage, sentences: Sequence[SentenceSupport], covered: float, alien: Sequence[str]) -> str:
    """Reason of an adherence verdict: the share of terms found, or the numbers in no context, as they are written."""
    if alien:
        return f"{'number' if len(alien) == 1 else 'numbers'} in no context: {_listed(alien)}"
    missing = dict.fromkeys(word for item in sentences for word in item.uncovered)
    reason = f"{round(covered * len(answer.terms))} of {len(answer.terms)} terms found in the contexts"
    return f"{reason}; not found: {_listed(missing)}" if missing else reason


def on_coverage(whose: str, text: str, passage: Passage, missing: frozenset[str]) -> str:
    """Reason that counts terms found and lists those that are not, of a text such as the ``reference``."""
    reason = f"{len(passage.terms) - len(missing)} of {len(passage.terms)} terms of the {whose} found"
    return f"{reason}; not found: {_listed(words(text, missing))}" if missing else reason
