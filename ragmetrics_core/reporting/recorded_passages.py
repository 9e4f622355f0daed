"""The passages of one sample: how each was found, kept and shown, as far as it was recorded.

They are the retrieved passages. Where these are not known, they are the contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragmetrics_core.data import (
    CaptureNotes,
    Context,
    CutPassage,
    PassageNote,
    Sample,
)
from ragmetrics_core.data.undivided import tools_with_undivided_text
from ragmetrics_core.data.unread import why_texts_are_unread
from ragmetrics_core.reporting.passage_matching import parts_shown
from ragmetrics_core.reporting.shown_parts import (
    BETWEEN_PIECES,
    join_pieces,
    with_small_gaps_filled,
)

Loss = Literal[
    "not_retrieved",
    "missing",
    "not_kept",
    "not_shown",
    "cut",
    "not_useful",
    "not_cited",
]
"""How a passage or a fact may be lost, in the order of the stages."""
Showing = Literal["whole", "cut", "not shown"]

WHOLE = 1.0
"""The share of a passage that is shown whole; one that lacks a word was cut."""

_NOT_RETRIEVED = (
    "what was retrieved was not recorded: give the column retrieved, or capture the run"
)
_NO_PROMPT_TELLS = (
    "no recorded prompt of the answer holds a retrieved text, so that no prompt tells what"
    " the model was shown; see whether the prompt has a place for the contexts"
)
_REWRITTEN = (
    "{} gave documents in other words than those that it took, so that it is not known"
    " what became of each"
)
NO_RANK = 0  # of a passage that no context shows; ranks begin with 1
# How contexts must be known for it to be known what was shown.
_SEEN_IN_PROMPT = ("prompt", "named")


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage on its way; None where something is not known.

    Args:
        rank: Among the retrieved, from 1; None if what was retrieved is not known, or
            for one that was found inside a retriever and that it did not hand on.
        id: The store's own id.
        retriever: The call that found it first.
        retriever_rank: Its rank there, from 1.
        kept: Whether rerankers and filters handed it on.
        rank_kept: Its rank behind the last of them, from 1.
        dropped_by: The name of the one that did not.
        shown: Whether the model was shown it, whole or cut.
        share: The share of its letters that was shown.
        context: Rank of the context that shows it, from 1.
        useful: Whether it was judged useful.
        cited: Whether the answer cites it.
        sentences: Numbers of the answer's sentences that rest on it, from 1, where
            adherence was judged by words.
        may_be_whole: Of a passage shown in part: whether only a few words lack, in whose
            place the prompt may have others. Then it is not known that it was cut.
        holds_uncited_words: Whether it is not cited, and most words of a sentence of
            the answer stand in it and in no cited passage.
        cut_by: The name of the retriever that handed on a part of what a search inside
            it found. The passage is this part.
        is_part_shown_whole: Whether this part was shown whole. The passage counts as
            cut.
    """

    rank: int | None = None
    id: str | None = None
    retriever: str | None = None
    retriever_rank: int | None = None
    kept: bool | None = None
    rank_kept: int | None = None
    dropped_by: str | None = None
    shown: Showing | None = None
    share: float | None = None
    context: int | None = None
    useful: bool | None = None
    cited: bool | None = None
    sentences: tuple[int, ...] = ()
    may_be_whole: bool = False
    holds_uncited_words: bool = False
    cut_by: str | None = None
    is_part_shown_whole: bool = False

    @property
    def was_shown(self) -> bool:
        """True if the model was shown it, or a part of it."""
        return self.shown in ("whole", "cut")

    @property
    def lost(self) -> Loss | None:
        """The stage that lost the passage; None if it passed all stages that are known.

        A passage that was cut is not lost.
        """
        if self.kept is False:
            return "not_kept"
        if self.shown == "not shown":
            return "not_shown"
        if self.useful is False:
            return "not_useful"
        if self.cited is False:
            return "not_cited"
        return None


def recorded_passages(sample: Sample, why_unknown: dict[str, str]) -> list[Passage]:
    """Collect the passages of a sample: how each was ranked, kept and shown.

    They are the retrieved passages. If these are not known, they are the contexts.
    Example: ranks 1 to 3, where a reranker kept 1 and 3, and the model was shown 3.

    Args:
        sample: The sample.
        why_unknown: Is filled: by stage ("retrieved", "kept" or "shown"), the reason why
            something is not known of the stage.
    """
    why_no_prompt = why_prompt_unknown(sample)  # "" if it is known what was shown
    if why_no_prompt:
        why_unknown["shown"] = why_no_prompt
    if sample.retrieved is None:
        why_retrieval_unknown = _why_retrieval_unknown(sample)
        why_unknown["retrieved"] = why_retrieval_unknown
        why_unknown["kept"] = why_retrieval_unknown
        return [] if why_no_prompt else list(_passages_of_contexts(sample))
    passages = _retrieved_passages(sample)
    if why_no_prompt:
        passages = [_without_showing(passage) for passage in passages]
    elif any(passage.shown is None for passage in passages):
        # such as: a step between search and prompt has rewritten them
        why_unknown["shown"] = _why_showing_unknown(sample)
    # A retriever may have found more than it handed on. Passages of which it handed on
    # a part are marked as cut, and those that it dropped are added.
    passages = _with_cuts_by_retrievers(passages, sample)
    passages = _with_passages_dropped_by_retrievers(passages, sample)
    if passages and all(passage.kept is None for passage in passages):
        why_unknown["kept"] = _why_dropping_unknown(sample)
    return passages


def _without_showing(passage: Passage) -> Passage:
    """A passage of which it is not known whether, and how much of it, was shown."""
    return replace(passage, shown=None, share=None)


def _retrieved_passages(sample: Sample) -> list[Passage]:
    """Make a passage of each retrieved document, as its note tells what became of it."""
    documents_and_notes = zip(
        sample.retrieved or (), notes_on_passages(sample), strict=True
    )
    passages = [
        _passage(rank, document, note)
        for rank, (document, note) in enumerate(documents_and_notes, start=1)
    ]
    return [
        replace(passage, may_be_whole=_may_be_whole(passage, sample))
        for passage in passages
    ]


def _may_be_whole(passage: Passage, sample: Sample) -> bool:
    """Whether a passage of which a part is shown may lack nothing but a few words.

    Example: of "It was opened on 4 May 1874 by Holm." the part "It was opened on … by
    Holm." is shown: the prompt may write the date in another form.
    """
    if passage.shown != "cut":
        return False
    text = retrieved_text_of(passage, sample)
    shown_part = shown_part_of(passage, sample)
    filled = with_small_gaps_filled(text, shown_part)
    return shown_part != text and filled.split() == text.split()


def _why_dropping_unknown(sample: Sample) -> str:
    """Why it is known of no passage whether it was kept between search and prompt."""
    rewriters = rewriters_of(sample)
    if rewriters:
        return _REWRITTEN.format(rewriters[0])
    return "no step between search and prompt was recorded"


def _why_retrieval_unknown(sample: Sample) -> str:
    """Why it is not known which passages were retrieved."""
    notes = sample.capture
    if tools_with_undivided_text(sample):
        return "a tool returned one text, which nobody divided into passages"
    unread = why_texts_are_unread(sample)
    if unread:
        return f"what was found was not recorded: {unread}"
    if _has_searched_in_vain(sample):
        return "a search was recorded, and it brought no text"
    if notes is not None and notes.grade is not None:
        return "the run recorded no search"
    return _NOT_RETRIEVED


def _has_searched_in_vain(sample: Sample) -> bool:
    """Whether the ledger has searches of this turn, and none of them brought a text."""
    ledger = sample.ledger
    if ledger is None:
        return False
    searches = [
        call
        for call in ledger.calls
        if call.kind == "retrieval" and call.turn == ledger.turn
    ]
    return bool(searches) and not any(search.items for search in searches)


def _why_showing_unknown(sample: Sample) -> str:
    """Why it is not known of some passages whether they were shown."""
    rewriters = rewriters_of(sample)
    if rewriters:
        return _REWRITTEN.format(rewriters[0])
    for note in notes_on_passages(sample):
        if note.why_unknown:
            return f"of some passages: {note.why_unknown}"
    return "of some passages the prompt does not tell"


def why_prompt_unknown(sample: Sample) -> str:
    """Why it is not known what the model was shown, in words; "" if it is."""
    notes = sample.capture
    # a row of a table may have notes that hold no more than why its marks are not read
    if notes is None or (notes.grade is None and notes.evidence_from is None):
        recorded = sample.contexts is not None
        return "" if recorded else "what the model was shown was not recorded"
    if notes.evidence_from == "flow" and not sample.contexts:
        return ""  # nothing was found, or nothing was kept
    if notes.evidence_from in _SEEN_IN_PROMPT or _is_nothing_shown(notes):
        return ""
    return _NO_PROMPT_TELLS


def _is_nothing_shown(notes: CaptureNotes) -> bool:
    """Whether the capture noted of each retrieved passage that no prompt shows it."""
    passages = notes.passages or ()
    return bool(passages) and all(passage.share == 0 for passage in passages)


def _passages_of_contexts(sample: Sample) -> Iterable[Passage]:
    """Make a passage of each context, for a sample whose retrieval is not known."""
    for rank, context in enumerate(sample.known_contexts, start=1):
        if not context.blank:
            yield Passage(id=context.id, shown="whole", context=rank)


def notes_on_passages(sample: Sample) -> Sequence[PassageNote]:
    """Return a note on each retrieved passage: which context shows it, and how much.

    The notes are those of the capture. Without any, ids and texts are compared.
    """
    retrieved = sample.retrieved or ()
    recorded = sample.capture.passages if sample.capture is not None else None
    if recorded is not None and len(recorded) == len(retrieved):
        return recorded
    return [
        PassageNote(context=context, share=share)
        for context, share in parts_shown(retrieved, sample.known_contexts)
    ]


def _passage(rank: int, document: Context, note: PassageNote) -> Passage:
    showing = _showing(note.share)
    was_shown = showing in ("whole", "cut")
    return Passage(
        rank=rank,
        id=document.id,
        retriever=note.retriever,
        retriever_rank=note.rank,
        # what was shown was kept, whatever step dropped it on another way
        kept=True if was_shown and note.kept is not None else note.kept,
        rank_kept=note.rank_kept,
        dropped_by=None if was_shown else note.dropped_by,
        shown=showing,
        share=note.share,
        context=None if note.context is None else note.context + 1,
    )


def _showing(share: float | None) -> Showing | None:
    if share is None:
        return None
    if share == 0:
        return "not shown"
    return "whole" if share >= WHOLE else "cut"


def _with_cuts_by_retrievers(
    passages: Sequence[Passage], sample: Sample
) -> list[Passage]:
    """Mark the passages that are parts of what a search inside a retriever found.

    Example: the search found "It is old. It fell.", an extractor handed on "It fell.",
    and the prompt shows this: the passage was cut, and about half of it was shown.
    """
    cut_passages = () if sample.capture is None else sample.capture.passages_cut_inside
    marked = list(passages)
    for cut_passage in cut_passages or ():
        share = _share_shown_of_cut(cut_passage, passages, sample)
        for place in cut_passage.parts:
            if place < len(passages):
                marked[place] = _with_cut(marked[place], cut_passage.cut_by, share)
    return marked


def _with_cut(passage: Passage, cut_by: str, share: float | None) -> Passage:
    """Mark a passage as a part of what was found; ``share`` of the latter was shown."""
    passage = replace(passage, cut_by=cut_by, kept=passage.kept is not False)
    if not passage.was_shown:
        return passage
    return replace(
        passage,
        shown="cut",
        share=share,
        is_part_shown_whole=passage.shown == "whole",
        may_be_whole=False,
    )


def _share_shown_of_cut(
    cut_passage: CutPassage, passages: Sequence[Passage], sample: Sample
) -> float | None:
    """Return the share of what a search found that the model was shown; None if unknown."""
    if cut_passage.text is None:
        return None
    n_letters = _count_letters(cut_passage.text)
    shown_text = text_shown_of_cut(cut_passage, passages, sample)
    return _count_letters(shown_text) / n_letters if n_letters else None


def text_shown_of_cut(
    cut_passage: CutPassage, passages: Sequence[Passage], sample: Sample
) -> str:
    """Join what was shown of a passage that its retriever cut; "" if nothing was."""
    pieces = []
    for passage in parts_of_cut(cut_passage, passages):
        if passage.was_shown:
            is_context = passage.context is not None
            shown_part = shown_part_of(passage, sample) if is_context else ""
            pieces.append(shown_part or retrieved_text_of(passage, sample))
    return join_parts(cut_passage.text or "", pieces)


def parts_of_cut(cut_passage: CutPassage, passages: Sequence[Passage]) -> list[Passage]:
    """List the retrieved passages that are parts of a passage that its retriever cut.

    Example: ``parts`` is (0, 2), since the parts are the first and the third retrieved
    passage: these two.
    """
    ranks = {index + 1 for index in cut_passage.parts}
    return [passage for passage in passages if passage.rank in ranks]


def join_parts(text: str, pieces: Sequence[str]) -> str:
    """Join pieces of a text in its order; in their own order if it lacks one of them."""
    if all(piece in text for piece in pieces):
        return join_pieces(text, pieces)
    return BETWEEN_PIECES.join(pieces)


def _count_letters(text: str) -> int:
    """Count the letters and digits of a text."""
    return sum(map(str.isalnum, text))


def _with_passages_dropped_by_retrievers(
    passages: Sequence[Passage], sample: Sample
) -> list[Passage]:
    """Add the passages that a retriever found inside itself and did not return.

    The passages that such a retriever returned are marked as kept. Example: "Fusion"
    returned 3 passages, and dropped 2 that "bm25" inside it had found: 3 with ``kept``
    True, then 2 of "bm25" with ``dropped_by`` "Fusion".
    """
    dropped_passages = list(_passages_dropped_inside(sample.capture))
    droppers = {passage.dropped_by for passage in dropped_passages}
    all_passages = []
    for passage in passages:
        if passage.kept is None and passage.retriever in droppers:
            all_passages.append(replace(passage, kept=True))
        else:
            all_passages.append(passage)
    return [*all_passages, *dropped_passages]


def _passages_dropped_inside(notes: CaptureNotes | None) -> Iterator[Passage]:
    """Yield the passages that retrievers found inside themselves and did not return.

    Older results files only hold their number.
    """
    if notes is None:
        return
    for noted in notes.passages_dropped_inside or ():
        yield Passage(
            id=noted.id,
            retriever=noted.retriever,
            retriever_rank=noted.rank,
            kept=False,
            dropped_by=noted.dropped_by,
        )
    if not notes.passages_dropped_inside:
        for name, n_dropped in (notes.dropped_inside or {}).items():
            yield from [Passage(kept=False, dropped_by=name)] * n_dropped


def rewriters_of(sample: Sample) -> list[str]:
    """Names of steps that rewrote documents: a passage may be one of the new texts now."""
    names = [note.written_anew_by for note in notes_on_passages(sample)]
    return [name for name in dict.fromkeys(names) if name is not None]


def shown_part_of(passage: Passage, sample: Sample) -> str:
    """The text of the contexts that show a passage; "" if it is not recorded.

    A step may have divided the passage. Then the contexts that are pieces of it are
    joined in the order of the passage.
    """
    rank = passage.context or NO_RANK
    is_recorded = NO_RANK < rank <= len(sample.known_contexts)
    if not is_recorded:
        return ""
    shown_text = sample.known_contexts[rank - 1].text
    text = retrieved_text_of(passage, sample)
    pieces = [context.text for context in sample.known_contexts if context.text in text]
    if not text or shown_text not in pieces:
        return shown_text
    return join_pieces(text, pieces)


def retrieved_text_of(passage: Passage, sample: Sample) -> str:
    """The text of a passage as it was retrieved; "" if it is not known."""
    retrieved = sample.retrieved or ()
    if passage.rank is None:
        return ""
    return retrieved[passage.rank - 1].text
