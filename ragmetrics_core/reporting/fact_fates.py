"""At which stage a fact was lost: the rules, from what holds it and what was shown of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragmetrics_core.data import CutPassage, Sample
from ragmetrics_core.reporting.recorded_passages import (
    Loss,
    Passage,
    join_parts,
    parts_of_cut,
    retrieved_text_of,
    shown_part_of,
    text_shown_of_cut,
    why_prompt_unknown,
)
from ragmetrics_core.reporting.shown_parts import are_words_cut_away, lacks_words_of
from ragmetrics_core.reporting.unasked_texts import states_word_by_word


class Fate(NamedTuple):
    """What became of a fact.

    Attributes:
        is_known: Whether it is known.
        lost: The stage that lost it; None if it was shown whole, or nothing is known.
    """

    is_known: bool
    lost: Loss | None


UNKNOWN = Fate(is_known=False, lost=None)
SHOWN = Fate(is_known=True, lost=None)
_NOT_RETRIEVED = Fate(is_known=True, lost="not_retrieved")
_NOT_KEPT = Fate(is_known=True, lost="not_kept")
_NOT_SHOWN = Fate(is_known=True, lost="not_shown")
_CUT = Fate(is_known=True, lost="cut")
_FROM_FARTHEST = (SHOWN, UNKNOWN, _CUT, _NOT_SHOWN, _NOT_KEPT, _NOT_RETRIEVED)
"""Of several passages that hold a fact, the one that came farthest decides.

Shown to the model is farthest. One of which nothing is known may have been shown.
"""


def fate_in_contexts(sample: Sample, *, is_held: bool, is_judged_on_all: bool) -> Fate:
    """Find out what became of a fact that was looked for in the contexts alone.

    Args:
        sample: The sample.
        is_held: Whether any context holds the fact.
        is_judged_on_all: Whether the judge said of each context if it holds the fact.
    """
    if why_prompt_unknown(sample):
        return UNKNOWN
    if is_held:
        return SHOWN
    if is_judged_on_all:
        return Fate(is_known=True, lost="missing")
    return UNKNOWN


def fate_of_retrieved(fact: str, holders: Sequence[Passage], sample: Sample) -> Fate:
    """Find out at which stage a fact was lost that retrieved passages hold.

    The passage that came farthest decides. Example: of two holders a filter dropped
    both: "not_kept"; it dropped one, and the other was not shown: "not_shown".

    Args:
        fact: The fact in words.
        holders: The retrieved passages that hold the fact, at least one.
        sample: The sample.
    """
    if any(_is_shown_in(passage, fact, sample) for passage in holders):
        return SHOWN
    if all(passage.kept is False for passage in holders):
        return _NOT_KEPT
    # such a passage may have been shown, and the fact with it
    if any(passage.shown is None for passage in holders):
        return UNKNOWN
    cut_holders = [passage for passage in holders if passage.shown == "cut"]
    if not cut_holders:
        return _NOT_SHOWN
    # The shown part of a cut passage may still say the fact in other words. Only if the
    # words of the fact are gone from all shown parts is the fact lost there.
    are_words_cut = all(
        are_words_cut_away(
            retrieved_text_of(passage, sample), shown_part_of(passage, sample), fact
        )
        for passage in cut_holders
    )
    return _CUT if are_words_cut else UNKNOWN


def _is_shown_in(passage: Passage, fact: str, sample: Sample) -> bool:
    """Whether a passage that holds a fact shows it: whole, or in the part that is left."""
    if passage.shown == "cut" and not passage.is_part_shown_whole:
        return states_word_by_word(shown_part_of(passage, sample), fact)
    return passage.was_shown


# Facts that no retrieved passage holds, and perhaps what a retriever dropped or cut


class PassageDroppedOrCut(NamedTuple):
    """A passage that was found inside a retriever, and that it did not hand on whole.

    Attributes:
        retriever: The name of this retriever.
        holds_fact: Whether the passage holds a fact; None if that is not known.
        cut_passage: The passage, if parts of it were handed on; None if it was dropped.
    """

    retriever: str
    holds_fact: bool | None
    cut_passage: CutPassage | None


def passages_dropped_or_cut(fact: str, sample: Sample) -> list[PassageDroppedOrCut]:
    """Say of each passage that a retriever dropped or cut whether it holds a fact.

    Example: a search inside a reranking retriever found three passages, and it handed on
    one. The other two are listed. One that states the fact word by word holds it.

    Args:
        fact: The fact in words.
        sample: The sample.
    """
    notes = sample.capture
    if notes is None:
        return []
    passages: list[PassageDroppedOrCut] = []
    for passage in notes.passages_dropped_or_cut:
        holds_fact = _holds(passage.text, fact)
        if isinstance(passage, CutPassage):
            passages.append(PassageDroppedOrCut(passage.cut_by, holds_fact, passage))
        else:
            passages.append(PassageDroppedOrCut(passage.dropped_by, holds_fact, None))
    is_each_dropped_passage_known = bool(notes.passages_dropped_inside)
    if is_each_dropped_passage_known:
        return passages
    # An older results file has only the number that each retriever dropped, such as
    # {"reranker": 2}. One entry stands for these two: either may hold the fact.
    for retriever in notes.dropped_inside or {}:
        passages.append(
            PassageDroppedOrCut(retriever, holds_fact=None, cut_passage=None)
        )
    return passages


def _holds(text: str | None, fact: str) -> bool | None:
    """Tell whether a passage holds a fact by its words; None if unknown."""
    if text is not None and states_word_by_word(text, fact):
        return True
    return None


def fate_of_unretrieved(
    fact: str,
    dropped_or_cut: Sequence[PassageDroppedOrCut],
    passages: Sequence[Passage],
    sample: Sample,
) -> Fate:
    """Find out what became of a fact that stands in no retrieved passage.

    A retriever may have found it, and not handed it on. Example: its reranker dropped
    the one passage that holds the fact: "not_kept". Its extractor took the fact's
    sentence out of a passage: "cut". Nothing that it found holds it: "not_retrieved".

    Args:
        fact: The fact in words.
        dropped_or_cut: What the retrievers dropped or cut, and whether it holds the fact.
        passages: The passages of the sample.
        sample: The sample.
    """
    dropped = [passage for passage in dropped_or_cut if passage.cut_passage is None]
    fates = [_fate_in_dropped(dropped)]
    for passage in dropped_or_cut:
        if passage.cut_passage is None:
            continue
        if passage.holds_fact is None:
            fates.append(UNKNOWN)
        elif passage.holds_fact:
            cut_passage = passage.cut_passage
            fates.append(_fate_of_cut_words(fact, cut_passage, passages, sample))
    # The passage that came farthest decides. Example: "cut", if the fact was cut out of
    # one passage, and another that holds it was dropped as a whole.
    return min(fates, key=_FROM_FARTHEST.index)


def _fate_in_dropped(dropped: Sequence[PassageDroppedOrCut]) -> Fate:
    """Find out whether a fact was lost with a passage that a retriever dropped.

    Example: one of three dropped passages surely holds the fact: "not_kept", whatever
    the others hold, since they were dropped as well.
    """
    verdicts = [passage.holds_fact for passage in dropped]
    if any(verdicts):
        return _NOT_KEPT
    return UNKNOWN if None in verdicts else _NOT_RETRIEVED


def _fate_of_cut_words(
    fact: str, cut_passage: CutPassage, passages: Sequence[Passage], sample: Sample
) -> Fate:
    """Find out what became of a fact that a cut passage held, and no part of it alone.

    Example: of "It is old. It was red. It fell." a retriever handed on two parts, "It is
    old." and "It fell.". The fact "It was red." was cut away.

    Args:
        fact: The fact in words.
        cut_passage: The passage as a search found it; its parts are retrieved passages,
            and the judge said of each that it does not hold the fact.
        passages: The passages of the sample.
        sample: The sample.
    """
    parts = parts_of_cut(cut_passage, passages)
    if not parts:
        return UNKNOWN
    if all(part.kept is False for part in parts):
        return _NOT_KEPT
    if any(part.shown is None for part in parts):
        return UNKNOWN
    if not any(part.was_shown for part in parts):
        return _NOT_SHOWN
    # Parts may state together what none states alone. Example: the fact "It was red and
    # heavy." from the parts "It was red" and "and heavy.", one after the other.
    shown_parts_joined = text_shown_of_cut(cut_passage, passages, sample)
    if states_word_by_word(shown_parts_joined, fact):
        return SHOWN
    if len(parts) == 1:  # by the judge it does not hold the fact
        return _CUT
    # They may also do so in other words. Surely not if they lack words of the fact.
    text = cut_passage.text or ""
    handed_on = join_parts(text, [retrieved_text_of(part, sample) for part in parts])
    return _CUT if lacks_words_of(text, handed_on, fact) else UNKNOWN
