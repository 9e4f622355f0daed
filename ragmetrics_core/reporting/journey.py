"""The journey: where a run lost passages and facts on the way into the answers.

A passage is retrieved, kept by rerankers and filters, shown whole or in part, useful, and
cited. A fact of the reference is in a retrieved text or in none, and in a text that was
shown or in none. Capturing notes each passage's fate; metrics say which passages are
useful and which hold a fact; citations say what is cited. What nobody noted or judged is
None, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.data import (
    Cell,
    Context,
    FactMatrix,
    JudgedChunks,
    PassageNote,
    Sample,
    SampleResult,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.sample import is_captured_in_part
from ragmetrics_core.statistics.means import Interval, mean_interval

Loss = Literal[
    "not_retrieved", "not_kept", "not_shown", "cut", "not_useful", "not_cited"
]
"""How a passage or a fact may be lost, in the order of the stages."""
Showing = Literal["whole", "cut", "not shown"]
Unit = Literal["passages", "facts"]

LOSS_IN_WORDS: Mapping[Loss, str] = {
    "not_retrieved": "in no retrieved text",
    "not_kept": "dropped between search and prompt",
    "not_shown": "not shown to the model",
    "cut": "shown in part",
    "not_useful": "shown, and of no use",
    "not_cited": "shown, and not cited",
}
"""What happened to a passage or fact, in the order of the stages."""

_STAGES: tuple[tuple[Unit, Loss], ...] = (
    ("facts", "not_retrieved"),
    ("facts", "not_shown"),
    ("passages", "not_kept"),
    ("passages", "not_shown"),
    ("passages", "cut"),
    ("passages", "not_useful"),
    ("passages", "not_cited"),
)
_NOT_RETRIEVED = (
    "what was retrieved was not recorded: give the column retrieved, or capture the run"
)
_NOT_KEPT = "no step between search and prompt was recorded"
_NOT_SHOWN = "of some passages it was not recorded whether the model was shown them"
_NOT_JUDGED = "no metric judged whether passages are useful"
_NOT_CITED = "which passages the answer cites was not recorded"
_NOT_ASKED = "no metric asked which facts of a reference were retrieved"
_OTHER_TEXTS = "facts were judged over other texts than the sample holds"
_UNASKED = (
    "the model may have been shown texts of which nobody asked whether they hold the"
    " facts, such as a tool's or those of earlier turns"
)
_KNOWN_BY_IDS = (
    "of some retrieved documents only the ids were recorded; give their texts with"
    " resolve="
)
_SOME_TEXTS = "the texts of some retrieved documents were not recorded"
_UNTOLD = "of some passages the judge or the prompt does not tell"


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

    @property
    def was_shown(self) -> bool:
        """True if the model was shown it, or a part of it."""
        return self.shown in ("whole", "cut")

    @property
    def shows_all(self) -> bool | None:
        """Whether all of it was shown; None of a part, which may hold a fact or not."""
        if self.kept is False or self.shown == "not shown":
            return False
        return True if self.shown == "whole" else None


@dataclass(frozen=True, slots=True)
class FactOnItsWay:
    """A fact of the reference; None where something is not known of it.

    Args:
        number: Its number, from 1.
        passages: Ranks of the texts that hold it, from 1.
        retrieved: Whether a search found it.
        shown: Whether the model was shown it.
    """

    number: int
    passages: tuple[int, ...] = ()
    retrieved: bool | None = None
    shown: bool | None = None

    @property
    def lost(self) -> Loss | None:
        """The stage that lost it; None if it was shown, or too little is known."""
        if self.retrieved is False:
            return "not_retrieved"
        return "not_shown" if self.shown is False else None

    @property
    def known(self) -> bool:
        """Whether it is known what became of it."""
        return self.shown is True or self.lost is not None


@dataclass(frozen=True, slots=True)
class SampleJourney:
    """What became of the passages and facts of one sample.

    Args:
        passages: The retrieved ones in order; where these are not known, the contexts.
        facts: Those that RetrievalAccuracy asked about; () if nobody asked.
        unknown: By stage why something is not known of it: ``retrieved``, ``kept``,
            ``shown``, ``useful``, ``cited``, ``facts``.
    """

    passages: tuple[Passage, ...] = ()
    facts: tuple[FactOnItsWay, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


def journey_of(row: SampleResult) -> SampleJourney | None:
    """Follow the passages and facts of one row from the search to the answer.

    None for a row that is no sample, or whose application failed.
    Example: passage 1 shown, useful and cited; fact 2 lost as "not_retrieved".
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    # of the first metric that judged usefulness, and that asked about facts
    evidence = [result.evidence for result in row.results.values()]
    chunks = next((one for one in evidence if isinstance(one, JudgedChunks)), None)
    matrix = next((one for one in evidence if isinstance(one, FactMatrix)), None)
    judged = () if chunks is None else chunks.chunks
    useful_by_rank = {chunk.rank: chunk.useful for chunk in judged}
    passages = tuple(_passages(sample, useful_by_rank))
    facts: tuple[FactOnItsWay, ...] = ()
    why_facts_unknown = _NOT_ASKED
    if matrix is not None:
        facts, why_facts_unknown = _facts(matrix, sample, passages)

    # of which stages of passages something is not known, and why
    unknown: dict[str, str] = {}
    if sample.retrieved is None:
        unread = why_texts_are_unread(sample)
        unknown["retrieved"] = unread or _NOT_RETRIEVED
    if all(passage.kept is None for passage in passages):
        unknown["kept"] = _NOT_KEPT
    is_some_untold = any(passage.shown is None for passage in passages if passage.rank)
    if is_some_untold or not _is_showing_known(sample):
        unknown["shown"] = _NOT_SHOWN
    if chunks is None:
        unknown["useful"] = _NOT_JUDGED
    if sample.citations is None:
        unknown["cited"] = _NOT_CITED
    if why_facts_unknown:
        unknown["facts"] = why_facts_unknown
    return SampleJourney(passages, facts, unknown)


# The passages


def _passages(
    sample: Sample, useful_by_rank: Mapping[int, bool | None]
) -> Iterator[Passage]:
    """Yield a passage for each retrieved text; where these are not known, each context."""
    is_known = _is_showing_known(sample)
    ranks_cited: set[int] | None = None
    if sample.citations is not None:
        ranks_cited = {
            place + 1 for citation in sample.citations for place in citation.contexts
        }
    # a doubt in_part says that the prompt may hold the rest in other words
    is_doubted = sample.capture is not None and "in_part" in sample.capture.doubts
    texts = sample.known_contexts if sample.retrieved is None else sample.retrieved
    for place, note in _noted_places(sample):
        shown: Showing | None = None
        if is_known and note.share is not None:
            shown = None if is_doubted else "cut"
            if note.share == 0:
                shown = "not shown"
            elif note.share >= 1:
                shown = "whole"
        was_shown = shown in ("whole", "cut")
        context = None if note.context is None else note.context + 1
        rank_shown = context if was_shown else None
        yield Passage(
            rank=None if sample.retrieved is None else place + 1,
            id=texts[place].id,
            retriever=note.retriever,
            retriever_rank=note.rank,
            # what was shown was kept, whatever step dropped it on another way
            kept=True if was_shown and note.kept is not None else note.kept,
            rank_kept=note.rank_kept,
            dropped_by=None if was_shown else note.dropped_by,
            shown=shown,
            share=None if shown is None else note.share,
            context=context,
            useful=None if rank_shown is None else useful_by_rank.get(rank_shown),
            cited=None
            if rank_shown is None or ranks_cited is None
            else rank_shown in ranks_cited,
        )


def _noted_places(sample: Sample) -> Iterator[tuple[int, PassageNote]]:
    """Yield the place of each retrieved text, else context, with what was noted of it."""
    if sample.retrieved is None:
        for place, context in enumerate(sample.known_contexts):
            if not context.blank and _is_showing_known(sample):
                yield place, PassageNote(context=place, share=1.0)
        return
    noted = None if sample.capture is None else sample.capture.passages
    if noted is not None and len(noted) == len(sample.retrieved):
        yield from enumerate(noted)
        return
    # A row of a table: a passage that is no context was not shown only if each context
    # is another passage: else some context may be this passage in another form.
    texts = [context.text for context in sample.known_contexts]
    is_each_a_passage = set(texts) <= {passage.text for passage in sample.retrieved}
    not_shown = PassageNote(share=0.0 if is_each_a_passage else None)
    for place, passage in enumerate(sample.retrieved):
        if passage.text in texts:
            yield place, PassageNote(context=texts.index(passage.text), share=1.0)
        else:
            yield place, not_shown


def _is_showing_known(sample: Sample) -> bool:
    """Whether it is known which texts the model was shown."""
    notes = sample.capture
    # a row of a table may have notes that hold no more than why its marks are not read
    if notes is None or (notes.grade is None and notes.evidence_from is None):
        return sample.contexts is not None
    if notes.evidence_from in ("prompt", "named"):
        return True
    if notes.evidence_from == "flow" and not sample.contexts:
        return True  # nothing was found, or nothing was kept
    return bool(notes.passages) and all(one.share == 0 for one in notes.passages or ())


# The facts


def _facts(
    matrix: FactMatrix, sample: Sample, passages: Sequence[Passage]
) -> tuple[tuple[FactOnItsWay, ...], str]:
    """Say what became of each fact that was asked about, and why some is not known."""
    asked = sample.known_contexts if sample.retrieved is None else sample.retrieved
    # behind the retrieved texts stand those of other contexts, which were asked as well
    n_further = min((len(cells) for cells in matrix.cells), default=0) - len(asked)
    if n_further < 0 or (n_further > 0 and sample.retrieved is None):
        return (), _OTHER_TEXTS
    if n_further:
        asked = (*asked, *sample.known_contexts)
    why_unasked = why_texts_are_unread(sample) or _why_unasked(sample, passages, asked)
    facts: list[FactOnItsWay] = []
    why_unknown = ""
    for number, cells in enumerate(matrix.cells, start=1):
        fact = _fact(number, cells, sample, passages)
        if why_unasked and fact.lost is not None:
            fact = FactOnItsWay(number, fact.passages, fact.retrieved or None)
            why_unknown = why_unknown or why_unasked
        if not fact.known:
            why_unknown = why_unknown or _UNTOLD
        facts.append(fact)
    return tuple(facts), why_unknown


def _why_unasked(
    sample: Sample, passages: Iterable[Passage], asked: Iterable[Context]
) -> str:
    """Why a fact may stand in a text that nobody asked about; "" if there is no such text.

    A context that is a part of a retrieved passage was asked about with it.
    """
    texts = {context.text for context in asked}
    ranks_of_parts = {passage.context for passage in passages if passage.shown == "cut"}
    for rank, context in enumerate(sample.known_contexts, start=1):
        if context.text not in texts and rank not in ranks_of_parts:
            return _UNASKED
    ledger = sample.ledger
    for call in () if ledger is None else ledger.calls:
        if call.kind == "written":  # the words of a model are no evidence
            continue
        for place, item in enumerate(call.items):
            was_shown = call.shown is None or place in call.shown
            if was_shown and item.text not in texts:
                return _UNASKED
    return ""


def _fact(
    number: int, cells: Sequence[Cell], sample: Sample, passages: Sequence[Passage]
) -> FactOnItsWay:
    """Say how far a fact came: as far as the text that holds it and came farthest."""
    is_judged_on_all = all(cell.probability is not None for cell in cells)
    if sample.retrieved is None:
        holders = _ranks_of_holders(cells)
        is_shown = bool(holders)
        is_known = _is_showing_known(sample) and (is_shown or is_judged_on_all)
        return FactOnItsWay(number, holders, shown=is_shown if is_known else None)
    n_retrieved = len(sample.retrieved)
    if any(cell.covered for cell in cells[n_retrieved:]):
        return FactOnItsWay(number, retrieved=True, shown=True)
    holders = _ranks_of_holders(cells[:n_retrieved])
    if not holders:
        return FactOnItsWay(number, retrieved=False if is_judged_on_all else None)
    showings = [passage.shows_all for passage in passages if passage.rank in holders]
    is_undecided = True not in showings and None in showings
    shown = None if is_undecided else True in showings
    return FactOnItsWay(number, holders, retrieved=True, shown=shown)


def _ranks_of_holders(cells: Sequence[Cell]) -> tuple[int, ...]:
    """The ranks of the texts that hold a fact."""
    return tuple(rank for rank, cell in enumerate(cells, start=1) if cell.covered)


# A whole run


@dataclass(frozen=True, slots=True)
class StageLoss:
    """What one stage lost, over a run.

    Args:
        loss: The kind of loss.
        unit: What is counted.
        lost: How many were lost; of ``cut``, how many were shown in part.
        of: How many the stage before held, as far as that is known.
        interval: 95 % interval of the share, clustered by sample.
        by: Of ``not_kept``, how many passages each named step dropped.
    """

    loss: Loss
    unit: Unit
    lost: int
    of: int
    interval: Interval
    by: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share that was lost, of what the stage before held."""
        return self.lost / self.of

    def __str__(self) -> str:
        """Such as "passages not kept: 3 of 20 (15%, 95 % interval 5% to 36%), 3 by rank".

        "rank" is the name of the step that dropped them.
        """
        low, high = self.interval.low, self.interval.high
        names = "".join(f", {count} by {name}" for name, count in self.by.items())
        return (
            f"{self.unit} {LOSS_IN_WORDS[self.loss]}: {self.lost:,} of {self.of:,}"
            f" ({self.share:.0%}, 95 % interval {low:.0%} to {high:.0%}){names}"
        )


@dataclass(frozen=True, slots=True)
class Journey:
    """Where a run lost passages and facts, stage by stage.

    Args:
        samples: How many samples were followed.
        passages: How many passages they retrieved, as far as that is known.
        facts: How many facts of references were asked about.
        stages: What each stage lost, facts first, in the order of the stages. A stage
            is left out if nothing is known of it.
        unknown: By stage and reason, in how many samples something is not known of it.
        facts_unknown: Of how many facts it is not known what became of them.
    """

    samples: int
    passages: int
    facts: int
    stages: tuple[StageLoss, ...]
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)
    facts_unknown: int = 0

    def of(self, loss: Loss, unit: Unit = "passages") -> StageLoss | None:
        """One stage's loss; None if nothing is known of it."""
        for stage in self.stages:
            if (stage.loss, stage.unit) == (loss, unit):
                return stage
        return None

    def __str__(self) -> str:
        """Return a heading, a line for each stage, and what is unknown.

        The heading is, for example, "Journey of 20 samples, 60 retrieved passages".
        """
        parts = [
            count_in_words(self.samples, "sample"),
            count_in_words(self.passages, "retrieved passage"),
        ]
        if self.facts:
            parts.append(count_in_words(self.facts, "fact"))
        lines = [f"Journey of {', '.join(parts)}"]
        lines += [f"  {stage}" for stage in self.stages]
        lines += [
            f"Unknown in {count:,} of {count_in_words(self.samples, 'sample')}: {stage}"
            f" ({reason})"
            for (stage, reason), count in self.unknown.items()
        ]
        return "\n".join(lines)


def journey(rows: Iterable[SampleResult]) -> Journey:
    """Follow the passages and facts of a run.

    Args:
        rows: The results, in any order; each is looked at once.
    """
    followed = [found for found in map(journey_of, rows) if found is not None]
    # whether a stage lost a passage or a fact, and the number of its sample
    fates: dict[tuple[Unit, Loss], list[tuple[bool, int]]] = {
        stage: [] for stage in _STAGES
    }
    dropped_by = Counter[str]()
    unknown = Counter[tuple[str, str]]()
    for number, sample in enumerate(followed):
        unknown.update(sample.unknown.items())
        for passage in sample.passages:
            for loss, is_lost in _stages_of_passage(passage):
                fates["passages", loss].append((is_lost, number))
            if passage.kept is False and passage.dropped_by:
                dropped_by[passage.dropped_by] += 1
        for fact in sample.facts:
            if fact.retrieved is not None:
                fates["facts", "not_retrieved"].append((not fact.retrieved, number))
            if fact.shown is not None:
                fates["facts", "not_shown"].append((not fact.shown, number))

    stages = []
    for (unit, loss), fates_there in fates.items():
        if not fates_there:
            continue
        lost, samples = zip(*fates_there, strict=True)
        interval = mean_interval([float(is_lost) for is_lost in lost], samples)
        assert interval is not None  # noqa: S101  # at least one reached the stage
        by: dict[str, int] = {}
        if loss == "not_kept":
            by = dict(sorted(dropped_by.items(), key=lambda item: (-item[1], item[0])))
        stages.append(StageLoss(loss, unit, sum(lost), len(lost), interval, by))
    passages = [passage for sample in followed for passage in sample.passages]
    facts = [fact for sample in followed for fact in sample.facts]
    return Journey(
        samples=len(followed),
        passages=sum(passage.rank is not None for passage in passages),
        facts=len(facts),
        stages=tuple(stages),
        unknown=dict(sorted(unknown.items())),
        facts_unknown=sum(not fact.known for fact in facts),
    )


def _stages_of_passage(passage: Passage) -> Iterator[tuple[Loss, bool]]:
    """Yield the stages of which it is known whether they lost a passage, up to its loss.

    Example: a passage that was kept, shown in part and useful counts as lost at "cut".
    """
    if passage.kept is not None:
        yield "not_kept", not passage.kept
    if passage.kept is False:
        return
    # without a rank it is a context of a sample whose retrieval was not recorded
    was_retrieved = passage.rank is not None
    if was_retrieved and passage.shown is not None:
        yield "not_shown", not passage.was_shown
    if not passage.was_shown:
        return
    if was_retrieved:
        yield "cut", passage.shown == "cut"
    if passage.useful is not None:
        yield "not_useful", not passage.useful
    # A useless passage needs no citation. If its usefulness is not known, it is counted.
    if passage.useful is not False and passage.cited is not None:
        yield "not_cited", not passage.cited


def why_texts_are_unread(sample: Sample) -> str:
    """Say which texts the run may have found that the sample lacks; "" if none are known.

    Example: a vector store was asked by ids, so its texts were never seen. The sentence
    says what returns them, where the capture noted it. A sample that is incomplete for
    another reason, such as a run that broke off, may lack texts as well: then all that
    the capture warns of is said.
    """
    notes = sample.capture
    if notes is None:
        return ""
    reasons = [_KNOWN_BY_IDS] if notes.other else []  # documents without texts
    reasons += notes.unread_texts or ()
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    says_which_are_unread = notes.unread_texts is not None
    if notes.grade == "inferred" and not says_which_are_unread:
        return "; ".join(notes.warnings)  # a result of an older version
    # A whole run without an answer is incomplete for that reason, and lacks no text.
    only_lacks_answer = notes.complete and sample.answer is None
    if only_lacks_answer or not is_captured_in_part(sample):
        return ""
    return "; ".join(notes.warnings) or _SOME_TEXTS
