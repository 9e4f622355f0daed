"""What the embedded judge says about its verdicts: sizes and terms, in a line."""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet

from ragmetrics_core.lexical.features import MOST_SENTENCES, Match
from ragmetrics_core.lexical.numerals import strange
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
    answer: Passage, contexts: Sequence[Passage], matches: Sequence[Match], known: AbstractSet[str]
) -> tuple[SentenceSupport, ...]:
    """Per aligned sentence of the answer, what of it stands where; ``known`` are the contexts' numbers."""
    found = frozenset[str]().union(*(answer.terms & context.terms for context in contexts))
    return tuple(
        SentenceSupport(
            sentence=sentence.text,
            rank=None if match.context is None else match.context + 1,
            evidence="" if match.context is None else contexts[match.context].sentences[match.sentence].text,
            coverage=len(found.intersection(sentence.terms)) / len(set(sentence.terms)),
            uncovered=words(sentence.text, frozenset(sentence.terms) - found),
            numbers=tuple(strange(sentence.text, known)),
        )
        for sentence, match in zip(answer.sentences[:MOST_SENTENCES], matches, strict=True)
    )


def unsupported(sentences: Sequence[SentenceSupport], matches: Sequence[Match], *, adherent: bool) -> tuple[str, ...]:
    """Sentences that the contexts do not bear out; for a negative verdict at least the weakest one."""
    pairs = zip(sentences, matches, strict=True)
    weak = tuple(it.sentence for it, match in pairs if it.coverage < _UNSUPPORTED or it.numbers or match.denied)
    if weak or adherent or not sentences:
        return weak
    return (min(sentences, key=lambda item: item.coverage).sentence,)


def on_adherence(
    answer: str, covered: str, sentences: Sequence[SentenceSupport], matches: Sequence[Match], alien: Collection[str]
) -> str:
    """Reason of an adherence verdict: the numbers in no context, what is denied, or how much is found and what not."""
    if alien:
        return f"{'number' if len(alien) == 1 else 'numbers'} in no context: {_listed(alien)}"
    if denied := frozenset[str]().union(*(match.denied for match in matches)):
        return f"negated in the answer, not in the contexts: {_listed(words(answer, denied))}"
    missing = dict.fromkeys(word for item in sentences for word in item.uncovered)
    reason = f"{covered} terms found in the contexts" + (f"; not found: {_listed(missing)}" if missing else "")
    apart = words(answer, frozenset[str]().union(*(match.apart for match in matches)))
    return f"{reason}; not where the rest of its sentence stands: {_listed(apart)}" if apart else reason


def on_coverage(whose: str, text: str, passage: Passage, missing: frozenset[str]) -> str:
    """Reason that counts terms found and lists those that are not, of a text such as the ``reference``."""
    reason = f"{len(passage.terms) - len(missing)} of {len(passage.terms)} terms of the {whose} found"
    return f"{reason}; not found: {_listed(words(text, missing))}" if missing else reason
