"""What an answer may rest on by its ledger, and what the calls there were good for.

Pure functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ragmetrics_core.data import (
    CallGain,
    CallTable,
    CallVerdict,
    Context,
    EvidenceCall,
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
        ranks: The ranks of those contexts, then the numbers behind the last rank.
        earlier: Items of earlier turns' calls, shown or not, that are not among the
            evidence.
        user: What the user said in earlier turns, then the question.
        own: What the assistant said in earlier turns, and what models of the
            application wrote.
        kept: Of the items of earlier turns how many were shown, and of how many that is
            known; None of none.
    """

    evidence: tuple[str, ...]
    ranks: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    kept: tuple[int, int] | None = None

    @property
    def several(self) -> bool:
        """True if a claim may rest on more than this turn's evidence and question."""
        return bool(self.earlier or self.own or len(self.user) > 1)


def groups(sample: Sample) -> Groups:
    """What an answer may rest on.

    Without a ledger the contexts alone, as nothing is known of earlier turns.
    """
    ranked = [
        (rank, context)
        for rank, context in enumerate(sample.contexts, 1)
        if not context.blank
    ]
    if sample.ledger is None:
        return Groups(_texts(sample.contexts), tuple(rank for rank, _ in ranked))
    calls = sample.ledger.calls
    written = [item for call in calls if call.kind == "written" for item in call.items]
    evident = [
        (call, at, item)
        for call in calls
        if call.kind != "written"
        for at, item in enumerate(call.items)
    ]
    brought = [(call, at, item) for call, at, item in evident if not item.blank]
    alone = {item.text for item in written} - {item.text for _, _, item in brought}
    ranked = [(rank, context) for rank, context in ranked if context.text not in alone]
    evidence, earlier, known = (
        [context for _, context in ranked],
        list[Context](),
        dict[str, bool](),
    )
    texts, ids = {one.text for one in evidence}, {one.id for one in evidence} - {None}
    # a text of both belongs to this turn
    for late, group in ((True, evidence), (False, earlier)):
        for call, at, item in brought:
            hidden = call.shown is not None and at not in call.shown
            if (call.turn >= sample.ledger.turn) != late or (late and hidden):
                continue
            if item.text not in texts and item.id not in ids:
                group.append(item)
                texts.add(item.text)
            if not late and call.shown is not None:
                known[item.text] = known.get(item.text, False) or not hidden
    user = tuple(turn.content for turn in sample.history if turn.role == "user")
    behind = range(
        len(sample.contexts) + 1,
        len(sample.contexts) + len(evidence) + len(earlier) + 1,
    )
    return Groups(
        evidence=_texts(evidence),
        ranks=(*(rank for rank, _ in ranked), *behind),
        earlier=_texts(earlier),
        user=(*user, sample.question) if sample.question else user,
        own=(
            *(turn.content for turn in sample.history if turn.role != "user"),
            *_texts(written),
        ),
        kept=(sum(known.values()), len(known)) if known else None,
    )


def _texts(items: Sequence[Context]) -> tuple[str, ...]:
    return tuple(item.text for item in items if not item.blank)


def originals(contexts: Sequence[Context]) -> list[int]:
    """By place, that of the first context with the same text."""
    first: dict[str, int] = {}
    return [
        first.setdefault(context.text, place) for place, context in enumerate(contexts)
    ]


def place_of(item: Context, contexts: Sequence[Context]) -> int | None:
    """Where an item stands among contexts: with its text, else under its id; None if nowhere."""
    same = (
        place
        for place, one in enumerate(contexts)
        if one.text == item.text and not item.blank
    )
    named = (
        place
        for place, one in enumerate(contexts)
        if one.id == item.id and None not in (one.id, item.id)
    )
    return next(same, next(named, None))


def arrivals(
    sample: Sample, contexts: Sequence[Context]
) -> list[tuple[int, EvidenceCall, tuple[int, ...]]]:
    """List the calls that retrieved in this turn or brought one of the contexts.

    Each entry is the call's place in the ledger, the call, and the places of its
    contexts. Calls of kind ``written`` are left out.
    """
    found = []
    for number, call in enumerate(sample.ledger.calls if sample.ledger else ()):
        places = (place_of(item, contexts) for item in call.items)
        brought = tuple(dict.fromkeys(place for place in places if place is not None))
        now = (
            sample.ledger is not None
            and call.kind == "retrieval"
            and call.turn == sample.ledger.turn
        )
        if call.kind != "written" and (brought or now):
            found.append((number, call, brought))
    return found


def call_table(
    sample: Sample, contexts: Sequence[Context], useful: Sequence[bool]
) -> CallTable | None:
    """Return the table of calls; None if no call retrieved or brought a context.

    ``useful`` is the verdict on each context.
    """
    verdicts: list[CallVerdict] = []
    precisions: list[float] = []  # of the calls that brought a useful context
    is_repeated: list[bool] = []  # of each item that a call brought
    arrived_places: set[int] = set()
    arrived_texts: set[str] = set()
    for number, call, places in arrivals(sample, contexts):
        useful_places = {place for place in places if useful[place]}
        if useful_places:
            is_new = bool(useful_places - arrived_places)
            verdict: CallUse = "useful" if is_new else "repeated"
            precisions.append(average_precision([useful[place] for place in places]))
        else:
            verdict = _verdict_on_useless(call, places)
        ranks = tuple(place + 1 for place in places)
        verdicts.append(CallVerdict(call=number, verdict=verdict, ranks=ranks))
        is_repeated += [item.text in arrived_texts for item in call.items]
        arrived_places.update(places)
        arrived_texts.update(item.text for item in call.items)
    if not verdicts:
        return None
    useful_calls = [
        number for number, line in enumerate(verdicts, 1) if line.verdict == "useful"
    ]
    return CallTable(
        calls=tuple(verdicts),
        wasted=1 - len(useful_calls) / len(verdicts),
        repeats=fmean(is_repeated) if is_repeated else None,
        first_useful=useful_calls[0] if useful_calls else None,
        last_useful=useful_calls[-1] if useful_calls else None,
        call_ap=fmean(precisions) if precisions else None,
    )


def _verdict_on_useless(call: EvidenceCall, places: Sequence[int]) -> CallUse:
    """What a call that brought no useful context did instead."""
    if places:
        return "noise"
    if call.error is not None:
        return "failed"
    return "unread" if call.items else "empty"


def curve(
    sample: Sample, contexts: Sequence[Context], value: Callable[[set[int]], float]
) -> tuple[CallGain, ...]:
    """The value of the contexts by call.

    A context that no call brought counts from the start.
    """
    found = arrivals(sample, contexts)
    known, gains = (
        set(originals(contexts)).difference(*(block for _, _, block in found)),
        list[CallGain](),
    )
    for number, _, block in found:
        before, known = value(known), known.union(block)
        total = value(known)
        gains.append(
            CallGain(
                call=number, alone=value(set(block)), gain=total - before, total=total
            )
        )
    return tuple(gains)
