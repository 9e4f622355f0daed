"""The journey: where passages and facts were lost on the way into the answer.

A passage is retrieved, kept by rerankers and filters, shown whole or in part, useful,
and cited. A fact of the reference is in a retrieved text or in none, and in a text that
was shown or in none. All is read from what was recorded and judged; no judge is asked.
What nobody recorded, and no judge looked at, is left out with its reason.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Literal, get_args

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import (
    Context,
    FactMatrix,
    Frozen,
    JudgedChunks,
    PassageNote,
    Sample,
    SampleResult,
)
from ragmetrics_core.reporting.passage_matching import parts_shown, sentences_resting
from ragmetrics_core.reporting.summary import counted
from ragmetrics_core.statistics.means import Interval, mean_interval

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
Unit = Literal["passages", "facts"]

WHOLE = 0.98
"""From this share of its letters on, a passage counts as shown whole."""

_LOSSES: tuple[Loss, ...] = get_args(Loss)
_LOSSES_OF_PASSAGES: tuple[Loss, ...] = _LOSSES[2:]
_LOSSES_OF_FACTS: tuple[Loss, ...] = _LOSSES[:5]
_BY_PASSAGES = (
    " It is not known whether what was lost was needed: for that give references, or"
    " facts, and let RetrievalAccuracy ask."
)
# How contexts must be known for it to be known what was shown.
_SEEN_IN_PROMPT = ("prompt", "undivided", "named")


class Advice(Frozen):
    """A loss in words."""

    title: str = Field(description="what happened, in a few words")
    stage: str = Field(description="the stage of the pipeline to mend")
    remedy: str = Field(description="what to try")


ADVICE: Mapping[Loss, Advice] = TypeAdapter(dict[Loss, Advice]).validate_python(
    tomllib.loads(
        files("ragmetrics_core.reporting").joinpath("journey.toml").read_text("utf-8")
    )
)
"""What each loss means, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage on its way; None where something is not known.

    Args:
        rank: Among the retrieved, from 1; None if what was retrieved is not known, or
            for one that a retriever found inside and did not hand on.
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

    @property
    def was_shown(self) -> bool:
        """True if the model was shown it, or a part of it."""
        return self.shown in ("whole", "cut")

    @property
    def lost(self) -> Loss | None:
        """At which stage it was lost; None if it passed all of which something is known.

        One that was cut goes on.
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


@dataclass(frozen=True, slots=True)
class FactOnItsWay:
    """A fact of the reference.

    Args:
        number: Its number, from 1.
        lost: Where it was lost: ``cut`` if only passages hold it of which a part was
            shown, and nobody asked whether that part holds it; None if it was shown, or
            nothing is known.
        known: Whether it is known what became of it.
        passages: Ranks of the passages that hold it, from 1.
    """

    number: int
    lost: Loss | None
    known: bool
    passages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleJourney:
    """What became of the passages and facts of one sample.

    Args:
        passages: The retrieved ones in order; where these are not known, the contexts.
        facts: Those that RetrievalAccuracy asked about; () if nobody asked.
        unknown: By stage why nothing is known of it: ``retrieved``, ``kept``,
            ``shown``, ``useful``, ``cited``, ``facts``.
    """

    passages: tuple[Passage, ...] = ()
    facts: tuple[FactOnItsWay, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost_at(self) -> Loss | None:
        """The stage to look at first for this sample; None if nothing was lost.

        Where facts were asked about, only what lost one of them counts; then what is of
        no use, and what is not cited.
        """
        return _first_to_mend([self])


def journey_of(row: SampleResult) -> SampleJourney | None:
    """Follow the passages and facts of one row.

    None for a row that is no sample, or whose application failed.
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    unknown: dict[str, str] = {}
    passages = _on_their_way(sample, unknown)
    useful = _useful_by_rank(row, unknown)
    cited = _cited_ranks(sample, unknown)
    resting = sentences_resting(row)
    judged = tuple(
        replace(
            passage,
            useful=useful.get(passage.context) if passage.was_shown else None,
            cited=passage.context in cited
            if passage.was_shown and cited is not None
            else None,
            sentences=resting.get(passage.context or 0, ()),
        )
        for passage in passages
    )
    return SampleJourney(judged, _facts(row, sample, judged, unknown), unknown)


# Of one sample: what was recorded


def _on_their_way(sample: Sample, unknown: dict[str, str]) -> list[Passage]:
    """The passages as far as the run recorded them."""
    why_not_seen = _why_not_seen(sample)
    if why_not_seen:
        unknown["shown"] = why_not_seen
    if sample.retrieved is None:
        unknown["retrieved"] = (
            "what was retrieved was not recorded: give the column retrieved, or capture"
            " the run"
        )
        unknown["kept"] = unknown["retrieved"]
        return [] if why_not_seen else list(_shown_contexts(sample))
    passages = [
        _passage(rank, document, note)
        for rank, (document, note) in enumerate(
            zip(sample.retrieved, _notes(sample), strict=True), start=1
        )
    ]
    if why_not_seen:
        passages = [replace(one, shown=None, share=None) for one in passages]
    elif any(passage.shown is None for passage in passages):
        unknown["shown"] = "of some passages the prompt does not tell"
    dropped = _dropped_inside(sample)
    through = {one.dropped_by for one in dropped}
    passages = [
        replace(one, kept=True)
        if one.kept is None and one.retriever in through
        else one
        for one in passages
    ]
    passages += dropped
    if passages and all(passage.kept is None for passage in passages):
        unknown["kept"] = "no step between search and prompt was recorded"
    return passages


def _why_not_seen(sample: Sample) -> str:
    """Why it is not known what the model was shown, in words; "" if it is."""
    if sample.capture is None:
        recorded = "contexts" in sample.model_fields_set
        return "" if recorded else "what the model was shown was not recorded"
    if sample.capture.evidence_from == "none_found":
        return ""
    if sample.capture.evidence_from not in _SEEN_IN_PROMPT:
        return "no prompt tells what the model was shown"
    return ""


def _shown_contexts(sample: Sample) -> Iterable[Passage]:
    """The contexts, which were shown in the words that they hold."""
    for rank, context in enumerate(sample.contexts, start=1):
        if not context.blank:
            yield Passage(id=context.id, shown="whole", context=rank)


def _notes(sample: Sample) -> Sequence[PassageNote]:
    """What is known of each retrieved passage: recorded, else read off the texts."""
    retrieved = sample.retrieved or ()
    recorded = sample.capture.passages if sample.capture is not None else None
    if recorded is not None and len(recorded) == len(retrieved):
        return recorded
    return [
        PassageNote(context=context, share=share)
        for context, share in parts_shown(retrieved, sample.contexts)
    ]


def _passage(rank: int, document: Context, note: PassageNote) -> Passage:
    shown = _showing(note.share)
    was_shown = shown in ("whole", "cut")
    return Passage(
        rank=rank,
        id=document.id,
        retriever=note.retriever,
        retriever_rank=note.rank,
        # what was shown was kept, whatever step dropped it on another way
        kept=True if was_shown and note.kept is not None else note.kept,
        rank_kept=note.rank_kept,
        dropped_by=None if was_shown else note.dropped_by,
        shown=shown,
        share=note.share,
        context=None if note.context is None else note.context + 1,
    )


def _showing(share: float | None) -> Showing | None:
    if share is None:
        return None
    if share == 0:
        return "not shown"
    return "whole" if share >= WHOLE else "cut"


def _dropped_inside(sample: Sample) -> list[Passage]:
    """Passages that a retriever found inside and did not hand on: nothing else is known of them."""
    counts = sample.capture.dropped_inside if sample.capture is not None else None
    return [
        Passage(kept=False, dropped_by=name)
        for name, count in (counts or {}).items()
        for _ in range(count)
    ]


# Of one sample: what was judged


def _useful_by_rank(
    row: SampleResult, unknown: dict[str, str]
) -> Mapping[int | None, bool | None]:
    """By rank of a context whether it was judged useful."""
    for result in row.results.values():
        if isinstance(result.evidence, JudgedChunks):
            return {chunk.rank: chunk.useful for chunk in result.evidence.chunks}
    unknown["useful"] = "no metric judged whether passages are useful"
    return {}


def _cited_ranks(sample: Sample, unknown: dict[str, str]) -> set[int | None] | None:
    """Ranks of the contexts that the answer cites; None if that is not known."""
    if sample.citations is None:
        unknown["cited"] = sample.citations_unknown
        return None
    return {place + 1 for one in sample.citations for place in one.contexts}


def _facts(
    row: SampleResult,
    sample: Sample,
    passages: Sequence[Passage],
    unknown: dict[str, str],
) -> tuple[FactOnItsWay, ...]:
    """What became of each fact of the reference."""
    matrices = (result.evidence for result in row.results.values())
    matrix = next((one for one in matrices if isinstance(one, FactMatrix)), None)
    if matrix is None:
        unknown["facts"] = "no metric asked which facts of a reference were retrieved"
        return ()
    searched = sample.retrieved if sample.retrieved is not None else sample.contexts
    if any(len(cells) != len(searched) for cells in matrix.cells):
        unknown["facts"] = "facts were judged over other texts than the sample holds"
        return ()
    by_rank = {passage.rank: passage for passage in passages}
    droppers = [
        one.dropped_by for one in passages if one.rank is None and one.dropped_by
    ]
    facts: list[FactOnItsWay] = []
    for number, cells in enumerate(matrix.cells, start=1):
        holding = tuple(rank for rank, cell in enumerate(cells, 1) if cell.covered)
        answered = all(cell.probability is not None for cell in cells)
        if sample.retrieved is None:
            known, lost = _in_contexts(bool(holding), answered, unknown)
        else:
            holders = [by_rank[rank] for rank in holding]
            known, lost = _through_stages(holders, answered)
            if lost == "not_retrieved" and droppers:
                known, lost = False, None
                unknown["facts"] = (
                    "nobody asked whether a fact stood in what searches inside"
                    f" {droppers[0]} found and it did not hand on"
                )
        facts.append(FactOnItsWay(number, lost, known, holding))
    return tuple(facts)


def _in_contexts(
    is_held: bool, answered: bool, unknown: Mapping[str, str]
) -> tuple[bool, Loss | None]:
    """Whether it is known what became of a fact that was sought in the contexts, and its loss."""
    if "shown" in unknown or not (is_held or answered):
        return False, None
    return True, None if is_held else "missing"


def _through_stages(
    holders: Sequence[Passage], answered: bool
) -> tuple[bool, Loss | None]:
    """Whether it is known what became of a fact that these passages hold, and its loss."""
    if not holders:
        return answered, "not_retrieved" if answered else None
    showings = {passage.shown for passage in holders}
    if "whole" in showings:
        return True, None
    if None in showings and any(one.kept is not False for one in holders):
        return False, None
    if "cut" in showings:
        return True, "cut"
    if all(passage.kept is False for passage in holders):
        return True, "not_kept"
    return True, "not_shown"


# Of one row, as columns of a table

COUNTS = (
    "passages_retrieved",
    "passages_kept",
    "passages_shown",
    "passages_cut",
    "passages_useful",
    "passages_cited",
    "facts_asked",
    "facts_retrieved",
    "facts_shown",
)
COLUMNS = (*COUNTS, "lost_at")
"""Names of the columns that a table has of the journey of each row."""


def counts_of(row: SampleResult) -> dict[str, int | str | None]:
    """Count what passed each stage of one row, by ``COLUMNS``; None: not known."""
    followed = journey_of(row)
    if followed is None:
        return dict.fromkeys(COLUMNS)
    passages, facts, unknown = followed.passages, followed.facts, followed.unknown
    retrieved = [one for one in passages if one.rank is not None]
    shown = [one for one in passages if one.was_shown]
    found = [one for one in facts if one.lost not in ("not_retrieved", "missing")]
    counts: dict[str, int | None] = {
        "passages_retrieved": None if "retrieved" in unknown else len(retrieved),
        "passages_kept": sum(one.kept is not False for one in retrieved),
        "passages_shown": len(shown),
        "passages_cut": sum(one.shown == "cut" for one in shown),
        "passages_useful": sum(one.useful is True for one in shown),
        "passages_cited": sum(one.cited is True for one in shown),
        "facts_asked": len(facts),
        "facts_retrieved": len(found),
        "facts_shown": sum(one.lost is None for one in facts),
    }
    is_unknown = {
        "passages_kept": "kept" in unknown,
        "passages_shown": "shown" in unknown,
        "passages_cut": "shown" in unknown,
        "passages_useful": "useful" in unknown or "shown" in unknown,
        "passages_cited": "cited" in unknown or "shown" in unknown,
        "facts_asked": "facts" in unknown,
        "facts_retrieved": "facts" in unknown or "retrieved" in unknown,
        "facts_shown": "facts" in unknown or not all(one.known for one in facts),
    }
    for name, is_missing in is_unknown.items():
        if is_missing:
            counts[name] = None
    return {**counts, "lost_at": followed.lost_at}


# Of a run


@dataclass(frozen=True, slots=True)
class StageLoss:
    """What one stage lost, over a run.

    Args:
        loss: The kind of loss.
        unit: What is counted.
        lost: How many were lost; of ``cut``, how many were shown in part.
        of: How many the stage before held, as far as that is known.
        interval: 95 % interval of the share, clustered by sample.
        samples: In how many samples something is known of the stage.
        by: Of ``not_kept``, how many passages each named step dropped.
    """

    loss: Loss
    unit: Unit
    lost: int
    of: int
    interval: Interval
    samples: int
    by: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share that was lost, of what the stage before held."""
        return self.lost / self.of

    def __str__(self) -> str:
        low, high = self.interval.low, self.interval.high
        names = "".join(f", {count} by {name}" for name, count in self.by.items())
        return (
            f"{self.unit} {ADVICE[self.loss].title}: {self.lost:,} of {self.of:,}"
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
            of which nothing is known is left out.
        mend: The loss to mend first; None if nothing was lost, or nothing is known.
        mend_by: What was counted to name it: facts, which are needed, or passages, which
            may have been dropped for good reason; None without ``mend``.
        unknown: By stage and reason, in how many samples nothing is known of it.
    """

    samples: int
    passages: int
    facts: int
    stages: tuple[StageLoss, ...]
    mend: Loss | None
    mend_by: Unit | None = None
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def advice(self) -> Advice | None:
        """The stage to mend first, and how; None without ``mend``."""
        return None if self.mend is None else ADVICE[self.mend]

    def of(self, loss: Loss, unit: Unit = "passages") -> StageLoss | None:
        """One stage's loss; None if nothing is known of it."""
        for stage in self.stages:
            if (stage.loss, stage.unit) == (loss, unit):
                return stage
        return None

    @property
    def sentence(self) -> str:
        """The stage to mend first, with its numbers and remedy; "" without ``mend``."""
        if self.mend is None:
            return ""
        advice = ADVICE[self.mend]
        stage = self.of(self.mend, self.mend_by or "passages")
        caution = "" if self.mend_by == "facts" or self._is_settled else _BY_PASSAGES
        return f"Mend {advice.stage} first: {stage}. {advice.remedy}{caution}"

    @property
    def _is_settled(self) -> bool:
        """Whether it is known of all facts that none was lost."""
        return bool(self.facts) and not any(
            stage == "facts" for stage, _ in self.unknown
        )

    def __str__(self) -> str:
        known = [
            counted(self.samples, "sample"),
            counted(self.passages, "retrieved passage"),
        ]
        if self.facts:
            known.append(counted(self.facts, "fact"))
        lines = [f"Journey of {', '.join(known)}"]
        lines += [f"  {stage}" for stage in self.stages]
        if self.sentence:
            lines.append(self.sentence)
        lines += [
            f"Unknown in {count:,} of {counted(self.samples, 'sample')}: {stage}"
            f" ({reason})"
            for (stage, reason), count in self.unknown.items()
        ]
        return "\n".join(lines)


def journey(rows: Iterable[SampleResult]) -> Journey:
    """Follow the passages and facts of a run.

    Args:
        rows: The results, in any order; each is looked at once.
    """
    followed = [one for one in map(journey_of, rows) if one is not None]
    unknown = Counter(
        (stage, reason)
        for sample in followed
        for stage, reason in sample.unknown.items()
    )
    counts = _counts(followed)
    mend = _first_to_mend(followed)
    by_facts = any(
        tallied.n_lost for (_, unit), tallied in counts.items() if unit == "facts"
    )
    mend_by: Unit = "facts" if by_facts else "passages"
    return Journey(
        samples=len(followed),
        passages=sum(
            passage.rank is not None for one in followed for passage in one.passages
        ),
        facts=sum(len(one.facts) for one in followed),
        stages=tuple(
            _stage(loss, unit, tallied) for (loss, unit), tallied in counts.items()
        ),
        mend=mend,
        mend_by=None if mend is None else mend_by,
        unknown=dict(sorted(unknown.items())),
    )


@dataclass(slots=True)
class _Tallied:
    """One stage over samples: of each unit whether it was lost, and its sample."""

    lost: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    by: Counter[str] = field(default_factory=Counter)

    @property
    def n_lost(self) -> int:
        return sum(self.lost)

    def add(self, is_lost: bool, sample: int, name: str | None = None) -> None:
        self.lost.append(int(is_lost))
        self.samples.append(sample)
        if is_lost and name:
            self.by[name] += 1


_Counts = Mapping[tuple[Loss, Unit], _Tallied]


def _counts(followed: Sequence[SampleJourney]) -> _Counts:
    """What each stage was given and lost, facts first; stages that nothing is known of are left out."""
    facts = {loss: _Tallied() for loss in _LOSSES_OF_FACTS}
    passages = {loss: _Tallied() for loss in _LOSSES_OF_PASSAGES}
    for number, sample in enumerate(followed):
        for fact in sample.facts:
            if fact.known:
                _add_fact(facts, fact, sample, number)
        for passage in sample.passages:
            _add_passage(passages, passage, number)
    counts: dict[tuple[Loss, Unit], _Tallied] = {}
    counts.update({(loss, "facts"): own for loss, own in facts.items() if own.lost})
    counts.update(
        {(loss, "passages"): own for loss, own in passages.items() if own.lost}
    )
    return counts


def _add_fact(
    tallies: Mapping[Loss, _Tallied],
    fact: FactOnItsWay,
    sample: SampleJourney,
    number: int,
) -> None:
    """Count a fact at each stage up to the one that lost it."""
    stages: list[Loss] = ["not_retrieved", "not_shown", "cut"]
    if "kept" not in sample.unknown:
        stages.insert(1, "not_kept")
    if "retrieved" in sample.unknown:
        stages = ["missing"]
    for stage in stages:
        is_lost = fact.lost == stage
        tallies[stage].add(is_lost, number)
        if is_lost:
            return


def _add_passage(
    tallies: Mapping[Loss, _Tallied], passage: Passage, number: int
) -> None:
    """Count a passage at each stage that it reached and that is known."""
    if passage.kept is not None:
        tallies["not_kept"].add(passage.kept is False, number, passage.dropped_by)
    if passage.kept is False:
        return
    if passage.shown is not None and passage.rank is not None:
        tallies["not_shown"].add(passage.shown == "not shown", number)
    if not passage.was_shown:
        return
    if passage.rank is not None:
        tallies["cut"].add(passage.shown == "cut", number)
    if passage.useful is not None:
        tallies["not_useful"].add(not passage.useful, number)
    if passage.useful is not False and passage.cited is not None:
        tallies["not_cited"].add(not passage.cited, number)


def _stage(loss: Loss, unit: Unit, tallied: _Tallied) -> StageLoss:
    interval = mean_interval([float(one) for one in tallied.lost], tallied.samples)
    if interval is None:
        raise AssertionError("a stage that nothing is known of was counted")
    return StageLoss(
        loss=loss,
        unit=unit,
        lost=tallied.n_lost,
        of=len(tallied.lost),
        interval=interval,
        samples=len(set(tallied.samples)),
        by=dict(sorted(tallied.by.items(), key=lambda item: (-item[1], item[0]))),
    )


def _is_settled(followed: Iterable[SampleJourney]) -> bool:
    """Whether facts were asked about, and it is known of each what became of it."""
    facts = [fact for sample in followed for fact in sample.facts]
    return bool(facts) and all(fact.known for fact in facts)


def _first_to_mend(followed: Sequence[SampleJourney]) -> Loss | None:
    """The loss to mend first; of equal ones that of the earlier stage.

    Where facts were lost, the stage that lost most of them. If it is settled that none
    was, no passage was lost that was needed, and only what is of no use or not cited
    counts. Else the stage that lost the largest share of its passages.
    """
    counts = _counts([_without_what_follows(sample) for sample in followed])
    settled = _is_settled(followed)
    n_lost_by_loss = {
        loss: tallied.n_lost
        for (loss, unit), tallied in counts.items()
        if unit == "facts"
    }
    if any(n_lost_by_loss.values()):
        return max(n_lost_by_loss, key=lambda loss: n_lost_by_loss[loss])
    share_by_loss = {
        loss: tallied.n_lost / len(tallied.lost)
        for (loss, unit), tallied in counts.items()
        if unit == "passages" and not (settled and loss in _LOSSES_OF_FACTS)
    }
    if not any(share_by_loss.values()):
        return None
    return max(share_by_loss, key=lambda loss: share_by_loss[loss])


def _without_what_follows(sample: SampleJourney) -> SampleJourney:
    """A sample without verdicts that may follow from an earlier loss.

    Where passages were lost on the way and none that was shown is useful, the useful
    ones may be among the lost.
    """
    lost_before = any(one.lost in ("not_kept", "not_shown") for one in sample.passages)
    is_useful = any(one.useful for one in sample.passages)
    if not lost_before or is_useful or _is_settled([sample]):
        return sample
    passages = (replace(one, useful=None, cited=None) for one in sample.passages)
    return replace(sample, passages=tuple(passages))
