"""What an answer may rest on by its ledger, and what the calls there were good for.

Pure functions.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ragmetrics_core.data import (
    CallGain,
    CallTable,
    CallVerdict,
    Context,
    EvidenceCall,
    Ledger,
    Sample,
)
from ragmetrics_core.data.metric_evidence import CallUse
from ragmetrics_core.metrics.average_precision import average_precision


@dataclass(frozen=True, slots=True)
class Groups:
    """The texts that an answer may rest on.

    Args:
        evidence: Contexts, then items of the turn's calls that are not known to be
            hidden.
        ranks: One for each text of ``evidence`` and then of ``earlier``: the rank of a
            context, for every other text a number behind the last rank.
        earlier: Items of earlier turns' calls, shown or not, that are not among the
            evidence.
        user: What the user said in earlier turns, then the question.
        assistant: What the assistant said in earlier turns, and what models of the
            application wrote.
        earlier_shown: Of the items of earlier turns how many were shown, and of how
            many that is known; None if it is known of none.
    """

    evidence: tuple[str, ...]
    ranks: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    assistant: tuple[str, ...] = ()
    earlier_shown: tuple[int, int] | None = None

    @property
    def go_beyond_this_turn(self) -> bool:
        """True if a claim may rest on more than this turn's evidence and question."""
        return bool(self.earlier or self.assistant or len(self.user) > 1)


IdAndText = tuple[str | None, str]
"""What tells a text that a call brought from others."""


@dataclass(frozen=True, slots=True)
class _Brought:
    """A text that a call brought.

    ``was_shown`` says whether the answering call was shown it; None is unknown.
    """

    context: Context
    turn: int
    was_shown: bool | None


def groups_of_texts(sample: Sample) -> Groups:
    """What an answer may rest on, in groups.

    The groups are the evidence of this turn, that of earlier turns, the user's words,
    and the assistant's own. The ledger lists the calls that brought evidence. Without a
    ledger the contexts are all, as nothing is known of earlier turns.
    """
    if sample.ledger is None:
        context_by_rank = _context_by_rank(sample.contexts)
        return Groups(
            _texts_of_contexts(context_by_rank.values()), tuple(context_by_rank)
        )
    brought = _evidence_of_ledger(sample.ledger)
    all_brought = ids_and_texts(sample.ledger)
    written_texts = _texts_of_models(sample.ledger)
    # What a model of the application wrote is no evidence, unless a call brought it too.
    only_written = set(written_texts) - {entry.context.text for entry in brought}
    context_by_rank = _context_by_rank(sample.contexts, without=only_written)
    contexts = list(context_by_rank.values())

    turn = sample.ledger.turn
    of_this_turn = [entry for entry in brought if entry.turn >= turn]
    of_earlier_turns = [entry for entry in brought if entry.turn < turn]
    not_hidden = [entry for entry in of_this_turn if entry.was_shown is not False]
    beside_contexts = _further_texts(not_hidden, contexts, all_brought)
    evidence = (*_texts_of_contexts(contexts), *beside_contexts)
    # a text of this turn and of an earlier one belongs to this turn
    earlier = _further_texts(
        of_earlier_turns, contexts, all_brought, known_texts=evidence
    )

    # A text that is none of the contexts is ranked behind all of them.
    n_beside_contexts = len(beside_contexts) + len(earlier)
    behind_last_rank = _numbers_behind(len(sample.contexts), n_beside_contexts)
    return Groups(
        evidence=evidence,
        ranks=(*context_by_rank, *behind_last_rank),
        earlier=tuple(earlier),
        user=_user_words(sample),
        assistant=(*_assistant_words(sample), *written_texts),
        earlier_shown=_count_shown(of_earlier_turns),
    )


def _context_by_rank(
    contexts: Sequence[Context], without: Container[str] = ()
) -> dict[int, Context]:
    """Contexts that are not blank, without those of certain texts."""
    return {
        rank: context
        for rank, context in enumerate(contexts, start=1)
        if not context.blank and context.text not in without
    }


def _evidence_of_ledger(ledger: Ledger) -> list[_Brought]:
    """Every text that is evidence: not blank, and not of a call that is ``written``."""
    brought: list[_Brought] = []
    for call in ledger.calls:
        if call.kind == "written":
            continue
        for place, context in enumerate(call.items):
            was_shown = None if call.shown is None else place in call.shown
            if not context.blank:
                brought.append(_Brought(context, call.turn, was_shown))
    return brought


def _texts_of_models(ledger: Ledger) -> list[str]:
    """What models of the application wrote, in order."""
    texts: list[str] = []
    for call in ledger.calls:
        if call.kind == "written":
            texts += _texts_of_contexts(call.items)
    return texts


def _further_texts(
    brought: Iterable[_Brought],
    contexts: Sequence[Context],
    all_brought: Container[IdAndText],
    known_texts: Container[str] = (),
) -> list[str]:
    """Texts that stand neither among the contexts nor the known texts, each once."""
    texts = [
        entry.context.text
        for entry in brought
        if place_of_text(entry.context, contexts, all_brought) is None
    ]
    return [text for text in dict.fromkeys(texts) if text not in known_texts]


def _numbers_behind(rank: int, count: int) -> range:
    """So many numbers that follow on a rank."""
    return range(rank + 1, rank + 1 + count)


def _user_words(sample: Sample) -> tuple[str, ...]:
    """What the user said in earlier turns, then the question."""
    earlier = tuple(turn.content for turn in sample.history if turn.role == "user")
    return (*earlier, sample.question) if sample.question else earlier


def _assistant_words(sample: Sample) -> list[str]:
    """What the assistant said in earlier turns, in order."""
    return [turn.content for turn in sample.history if turn.role != "user"]


def _count_shown(brought: Sequence[_Brought]) -> tuple[int, int] | None:
    """How many texts were shown, and of how many that is known; None if of none."""
    known = {entry.context.text for entry in brought if entry.was_shown is not None}
    shown = {entry.context.text for entry in brought if entry.was_shown}
    return (len(shown), len(known)) if known else None


def _texts_of_contexts(contexts: Iterable[Context]) -> tuple[str, ...]:
    """The texts of contexts that are not blank, in order."""
    return tuple(context.text for context in contexts if not context.blank)


def originals_by_place(contexts: Sequence[Context]) -> list[int]:
    """By place, that of the first context with the same text."""
    original_places: dict[str, int] = {}
    return [
        original_places.setdefault(context.text, place)
        for place, context in enumerate(contexts)
    ]


def ids_and_texts(ledger: Ledger) -> set[IdAndText]:
    """The id and the text of all that the calls brought."""
    pairs: set[IdAndText] = set()
    for call in ledger.calls:
        pairs.update((context.id, context.text) for context in call.items)
    return pairs


def place_of_text(
    brought: Context, contexts: Sequence[Context], all_brought: Container[IdAndText]
) -> int | None:
    """Where a text that a call brought stands among contexts.

    That is the place of its text, else of its id, if nothing was brought that has the
    context's text under that id: two stores may give one id to different texts. None if
    it stands nowhere.

    Args:
        brought: What a call brought.
        contexts: The contexts.
        all_brought: What all calls brought, as ``ids_and_texts`` gives it.
    """
    if not brought.blank:
        for place, context in enumerate(contexts):
            if context.text == brought.text:
                return place
    if brought.id is not None:
        for place, context in enumerate(contexts):
            was_brought = (context.id, context.text) in all_brought
            if context.id == brought.id and not was_brought:
                return place
    return None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that retrieved in this turn or brought one of the contexts.

    Args:
        number: The call's place in the ledger, from 0.
        call: The call.
        places: Those of the contexts that it brought, each once, in its own order.
    """

    number: int
    call: EvidenceCall
    places: tuple[int, ...]


def calls_with_contexts(sample: Sample, contexts: Sequence[Context]) -> list[Arrival]:
    """List the calls that retrieved in this turn or brought one of the contexts.

    Calls of kind ``written`` are left out.
    """
    if sample.ledger is None:
        return []
    arrived: list[Arrival] = []
    all_brought = ids_and_texts(sample.ledger)
    for number, call in enumerate(sample.ledger.calls):
        if call.kind == "written":
            continue
        places = [place_of_text(item, contexts, all_brought) for item in call.items]
        # each place once; an item that is none of the contexts has no place
        distinct_places = dict.fromkeys(place for place in places if place is not None)
        is_search = call.kind == "retrieval" and call.turn == sample.ledger.turn
        if distinct_places or is_search:
            arrived.append(Arrival(number, call, tuple(distinct_places)))
    return arrived


def call_table(
    sample: Sample, contexts: Sequence[Context], useful: Sequence[bool]
) -> CallTable | None:
    """Return what each call of a sample was good for.

    Only calls that retrieved in this turn, or brought one of the contexts, are looked
    at. Returns None where there is no such call.

    Args:
        sample: The sample.
        contexts: The contexts that were judged.
        useful: For each of these contexts whether it is useful.
    """
    arrived = calls_with_contexts(sample, contexts)
    if not arrived:
        return None
    verdicts = _call_verdicts(arrived, useful)
    # counted from 1 among the calls that were looked at
    useful_calls = [
        number
        for number, call_verdict in enumerate(verdicts, start=1)
        if call_verdict.verdict == "useful"
    ]
    is_repeated = _are_repeated(arrived)
    precisions = _precisions_inside(arrived, useful)
    return CallTable(
        calls=tuple(verdicts),
        wasted=1 - len(useful_calls) / len(verdicts),
        repeats=fmean(is_repeated) if is_repeated else None,
        first_useful=useful_calls[0] if useful_calls else None,
        last_useful=useful_calls[-1] if useful_calls else None,
        call_ap=fmean(precisions) if precisions else None,
    )


def _call_verdicts(
    arrived: Sequence[Arrival], useful: Sequence[bool]
) -> list[CallVerdict]:
    """What each call was good for, given the calls before it.

    A call is useful if it brought a useful context that no call before it had brought.
    It is repeated if calls before it had brought all its useful contexts.

    Args:
        arrived: The calls, with the places of the contexts that each brought.
        useful: By place whether a context is useful.
    """
    verdicts: list[CallVerdict] = []
    places_so_far: set[int] = set()
    for arrival in arrived:
        useful_places = {place for place in arrival.places if useful[place]}
        verdict: CallUse
        if not useful_places:
            verdict = _verdict_on_useless(arrival)
        elif useful_places <= places_so_far:
            verdict = "repeated"
        else:
            verdict = "useful"
        ranks = tuple(place + 1 for place in arrival.places)
        verdicts.append(CallVerdict(call=arrival.number, verdict=verdict, ranks=ranks))
        places_so_far.update(arrival.places)
    return verdicts


def _verdict_on_useless(arrival: Arrival) -> CallUse:
    """What a call that brought no useful context did instead."""
    if arrival.places:
        return "noise"
    if arrival.call.error is not None:
        return "failed"
    return "unread" if arrival.call.items else "empty"


def _are_repeated(arrived: Sequence[Arrival]) -> list[bool]:
    """Of each text that a call brought, whether an earlier call had brought it."""
    are_repeated: list[bool] = []
    arrived_texts: set[str] = set()
    for arrival in arrived:
        texts = [context.text for context in arrival.call.items]
        are_repeated += [text in arrived_texts for text in texts]
        arrived_texts.update(texts)
    return are_repeated


def _precisions_inside(
    arrived: Sequence[Arrival], useful: Sequence[bool]
) -> list[float]:
    """Average precision inside each call that brought a useful context."""
    verdicts_by_call = [
        [useful[place] for place in arrival.places] for arrival in arrived
    ]
    return [
        average_precision(verdicts) for verdicts in verdicts_by_call if any(verdicts)
    ]


def curve_by_call(
    sample: Sample, contexts: Sequence[Context], value: Callable[[set[int]], float]
) -> tuple[CallGain, ...]:
    """What each call adds to the value of the contexts, in the order of the calls.

    A context that no call brought counts from the start.

    Args:
        sample: The sample with its calls.
        contexts: The contexts.
        value: Gives the value that some of the contexts have together, by the places of
            these contexts, counted from 0.
    """
    arrived = calls_with_contexts(sample, contexts)
    # of contexts with equal texts the first counts
    counted_places = set(originals_by_place(contexts))
    for arrival in arrived:
        counted_places -= set(arrival.places)
    gains: list[CallGain] = []
    for arrival in arrived:
        value_before = value(counted_places)
        counted_places = counted_places.union(arrival.places)
        total = value(counted_places)
        gain = CallGain(
            call=arrival.number,
            alone=value(set(arrival.places)),
            gain=total - value_before,
            total=total,
        )
        gains.append(gain)
    return tuple(gains)
