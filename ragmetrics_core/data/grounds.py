"""What an answer may rest on, by the ledger of its sample: groups of texts, and which call brought which context."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmetrics_core.data.sample import Context, EvidenceCall, Sample


@dataclass(frozen=True, slots=True)
class Groups:
    """The texts that an answer may rest on.

    Args:
        evidence: Contexts, then items of the turn's calls that are not known to be hidden.
        ranks: The ranks of those contexts, then the numbers behind the last rank.
        earlier: Items of earlier turns' calls, shown or not, that are not among the evidence.
        user: What the user said in earlier turns, then the question.
        own: What the assistant said in earlier turns, and what models of the application wrote.
        kept: Of the items of earlier turns how many were shown, and of how many that is known; None of none.
    """

    evidence: tuple[str, ...]
    ranks: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    kept: tuple[int, int] | None = None

    @property
    def several(self) -> bool:
        """True where a claim may rest on more than the evidence of this turn and the question."""
        return bool(self.earlier or self.own or len(self.user) > 1)


def groups(sample: Sample) -> Groups:
    """What an answer may rest on; without a ledger the contexts alone, as nothing is known of earlier turns."""
    ranked = [(rank, context) for rank, context in enumerate(sample.contexts, 1) if not context.blank]
    if sample.ledger is None:
        return Groups(_texts(sample.contexts), tuple(rank for rank, _ in ranked))
    calls = sample.ledger.calls
    written = [item for call in calls if call.kind == "written" for item in call.items]
    evident = [(call, at, item) for call in calls if call.kind != "written" for at, item in enumerate(call.items)]
    brought = [(call, at, item) for call, at, item in evident if not item.blank]
    alone = {item.text for item in written} - {item.text for _, _, item in brought}
    ranked = [(rank, context) for rank, context in ranked if context.text not in alone]
    evidence, earlier, known = [context for _, context in ranked], list[Context](), dict[str, bool]()
    texts, ids = {one.text for one in evidence}, {one.id for one in evidence} - {None}
    for late, group in ((True, evidence), (False, earlier)):  # a text of both belongs to this turn
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
    behind = range(len(sample.contexts) + 1, len(sample.contexts) + len(evidence) + len(earlier) + 1)
    return Groups(
        evidence=_texts(evidence),
        ranks=(*(rank for rank, _ in ranked), *behind),
        earlier=_texts(earlier),
        user=(*user, sample.question) if sample.question else user,
        own=(*(turn.content for turn in sample.history if turn.role != "user"), *_texts(written)),
        kept=(sum(known.values()), len(known)) if known else None,
    )


def _texts(items: Sequence[Context]) -> tuple[str, ...]:
    return tuple(item.text for item in items if not item.blank)


def place_of(item: Context, contexts: Sequence[Context]) -> int | None:
    """Where an item stands among contexts: with its text, else under its id; None if nowhere."""
    same = (place for place, one in enumerate(contexts) if one.text == item.text and not item.blank)
    named = (place for place, one in enumerate(contexts) if one.id == item.id and None not in (one.id, item.id))
    return next(same, next(named, None))


def arrivals(sample: Sample, contexts: Sequence[Context]) -> list[tuple[int, EvidenceCall, tuple[int, ...]]]:
    """Calls that retrieved in this turn or brought a context: place in the ledger, the call, places of its contexts."""
    found = []
    for number, call in enumerate(sample.ledger.calls if sample.ledger else ()):
        places = (place_of(item, contexts) for item in call.items)
        brought = tuple(dict.fromkeys(place for place in places if place is not None))
        now = sample.ledger is not None and call.kind == "retrieval" and call.turn == sample.ledger.turn
        if call.kind != "written" and (brought or now):
            found.append((number, call, brought))
    return found
