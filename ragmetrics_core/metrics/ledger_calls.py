"""What an answer may rest on by its ledger, and what the calls there were good for.

Pure functions.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

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
from ragmetrics_core.metrics.retrieval_ranking import average_precision


class Groups(NamedTuple):
    """The texts that an answer may rest on, by where they come from.

    Args:
        evidence: The contexts, then the texts that calls of this turn returned beside
            them and that were shown to the model, or may have been.
        rank_of_each_text: A number for each text of ``evidence``, then for each of
            ``earlier``. The number of a context is its rank. The others go on counting.
        earlier: The texts that calls of earlier turns returned, without those of
            ``evidence``.
        user: What the user said in earlier turns, then the question.
        assistant: What the assistant said in earlier turns, and what models of the
            application wrote.
        n_earlier_shown_and_known: Of the texts of earlier turns how many were shown,
            and of how many that is known; None if it is known of none.
    """

    evidence: tuple[str, ...]
    rank_of_each_text: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    assistant: tuple[str, ...] = ()
    n_earlier_shown_and_known: tuple[int, int] | None = None


def groups_of_texts(sample: Sample) -> Groups:
    """Group the texts that an answer may rest on.

    Example: three contexts, a web page that a tool returned in this turn, and a page of
    an earlier turn. The contexts and the first page are the evidence, with the ranks 1
    to 4. The other page is earlier and has rank 5.
    """
    ledger = sample.ledger or Ledger()
    returned = _texts_of_calls(ledger, written=False)
    written = _texts_of_calls(ledger, written=True)
    # A summary by a model may stand among the contexts. It is no evidence; the other
    # contexts keep their ranks, such as 1 and 3.
    no_evidence = set(written).difference(returned)
    rank_by_text: dict[str, int] = {}  # of equal texts the first
    for rank, context in enumerate(sample.known_contexts, start=1):
        if not context.blank and context.text not in no_evidence:
            rank_by_text.setdefault(context.text_with_metadata, rank)
    contexts = [sample.known_contexts[rank - 1] for rank in rank_by_text.values()]
    if sample.ledger is None:
        return Groups(tuple(rank_by_text), tuple(rank_by_text.values()))
    beside_contexts: dict[str, None] = {}
    of_earlier_turns: dict[str, None] = {}
    was_shown_by_text: dict[str, bool] = {}  # of earlier turns, where that is known
    by_call, _ = _indices_of_items(sample, contexts)
    for call, indices in zip(ledger.calls, by_call, strict=True):
        for place, (item, became) in enumerate(zip(call.items, indices, strict=True)):
            if item.blank or call.kind == "written":
                continue
            was_shown = None if call.shown is None else place in call.shown
            is_earlier = call.turn < ledger.turn
            if is_earlier and was_shown is not None:
                was_shown_by_text[item.text] = was_shown or was_shown_by_text.get(
                    item.text, False
                )
            if became:
                continue
            if is_earlier:
                of_earlier_turns[item.text] = None
            elif was_shown is not False:
                beside_contexts[item.text] = None
    evidence = (*rank_by_text, *beside_contexts)
    texts = {context.text for context in contexts}
    earlier = tuple(
        text
        for text in of_earlier_turns
        if text not in texts and text not in beside_contexts
    )
    n_others = len(evidence) + len(earlier) - len(contexts)
    # behind 3 contexts come the numbers 4, 5, …
    numbers = range(
        len(sample.known_contexts) + 1, len(sample.known_contexts) + 1 + n_others
    )
    said_by_user = [turn.content for turn in sample.history if turn.role == "user"]
    said_by_others = [turn.content for turn in sample.history if turn.role != "user"]
    return Groups(
        evidence=evidence,
        rank_of_each_text=(*rank_by_text.values(), *numbers),
        earlier=earlier,
        user=(*said_by_user, *filter(None, [sample.question])),
        assistant=(*said_by_others, *written),
        n_earlier_shown_and_known=(
            (sum(was_shown_by_text.values()), len(was_shown_by_text))
            if was_shown_by_text
            else None
        ),
    )


def _texts_of_calls(ledger: Ledger, *, written: bool) -> list[str]:
    """Return the texts that models of the application wrote, or all other texts."""
    return [
        item.text
        for call in ledger.calls
        for item in call.items
        if not item.blank and (call.kind == "written") == written
    ]


def _indices_of_items(
    sample: Sample, contexts: Sequence[Context]
) -> tuple[list[list[list[int]]], bool]:
    """Return, by call and item, the indices of the contexts that the item became.

    It is the context with the same text, else the one with the same id, unless a call
    returned that context as it is: a step may have rewritten the text. A passage that
    was shown, and is no context itself, was cut into those that no call returned.

    Args:
        sample: The sample, with a ledger.
        contexts: The contexts, of the sample or further ones that were retrieved.

    Returns:
        The indices; and whether it is known which call each context belongs to. It is
        not where passages of several calls were cut.
    """
    calls = () if sample.ledger is None else sample.ledger.calls
    texts_returned = {item.text for call in calls for item in call.items}
    ids_returned = {item.id for call in calls for item in call.items} - {None}
    index_by_text: dict[str, int] = {}
    index_by_id: dict[str | None, int] = {}  # of contexts that no call returned as such
    pieces: list[int] = []
    for index, context in enumerate(contexts):
        if context.blank:
            continue
        index_by_text.setdefault(context.text, index)
        if context.text in texts_returned:
            continue
        if context.id in ids_returned:
            index_by_id.setdefault(context.id, index)
        else:
            pieces.append(index)
    texts = {context.text for context in sample.known_contexts}
    indices: list[list[list[int]]] = []
    numbers_of_cut: set[int] = set()
    for number, call in enumerate(calls):
        is_search = call.kind in ("retrieval", "given")
        indices.append([])
        for place, item in enumerate(call.items):
            its_context = index_by_text.get(item.text, index_by_id.get(item.id))
            became = [] if its_context is None else [its_context]
            is_cut = item.text not in texts and item.id not in index_by_id
            if pieces and is_search and is_cut and place in (call.shown or ()):
                became += pieces
                numbers_of_cut.add(number)
            indices[-1].append(became)
    return indices, len(numbers_of_cut) <= 1


def _calls_with_contexts(
    sample: Sample, contexts: Sequence[Context]
) -> list[tuple[int, EvidenceCall, tuple[int, ...]]]:
    """List the calls that searched in this turn or returned one of the contexts.

    Each has its number, and the indices of the contexts that it returned, each once, in
    order. Calls whose texts a model wrote are left out. None is listed where it is not
    known which call each context belongs to.
    """
    ledger = sample.ledger
    if ledger is None:  # nobody recorded the application's calls
        return []
    by_call, is_known = _indices_of_items(sample, contexts)
    if not is_known:
        return []
    calls: list[tuple[int, EvidenceCall, tuple[int, ...]]] = []
    for number, indices in enumerate(by_call):
        call = ledger.calls[number]
        distinct = tuple(dict.fromkeys(chain.from_iterable(indices)))
        is_search = call.kind == "retrieval" and call.turn == ledger.turn
        if call.kind != "written" and (distinct or is_search):
            calls.append((number, call, distinct))
    return calls


def call_table(
    sample: Sample, contexts: Sequence[Context], useful: Sequence[bool]
) -> CallTable | None:
    """Return a table of what each call of a sample was good for; None without a call.

    Contexts 1 and 2 are useful. Search A returned 1: useful. Search B returned 1 and 2:
    useful, for 2 is new. Search C returned 2 again: repeated. A third of them is wasted.

    Args:
        sample: The sample.
        contexts: The contexts that were judged.
        useful: For each of these contexts whether it is useful.
    """
    calls = _calls_with_contexts(sample, contexts)
    if not calls:
        return None
    lines: list[CallVerdict] = []
    precisions: list[float] = []  # of the calls with a useful context
    are_repeated: list[bool] = []  # by text that a call returned
    indices_so_far: set[int] = set()
    texts_so_far: set[str] = set()
    for number, call, indices in calls:
        useful_indices = {index for index in indices if useful[index]}
        verdict: CallUse = "useful"
        if useful_indices:
            if useful_indices <= indices_so_far:
                verdict = "repeated"
        elif indices:
            verdict = "noise"
        elif call.error is not None:
            verdict = "failed"
        else:
            verdict = "unread" if call.items else "empty"
        ranks = tuple(index + 1 for index in indices)
        lines.append(CallVerdict(call=number, verdict=verdict, ranks=ranks))
        if useful_indices:
            precisions.append(average_precision([useful[index] for index in indices]))
        are_repeated += [item.text in texts_so_far for item in call.items]
        indices_so_far.update(indices)
        texts_so_far.update(item.text for item in call.items)
    numbers_of_useful = [
        number for number, line in enumerate(lines, start=1) if line.verdict == "useful"
    ]
    return CallTable(
        calls=tuple(lines),
        wasted=1 - len(numbers_of_useful) / len(lines),
        repeats=fmean(are_repeated) if are_repeated else None,
        first_useful=min(numbers_of_useful, default=None),
        last_useful=max(numbers_of_useful, default=None),
        call_ap=fmean(precisions) if precisions else None,
    )


def curve_by_call(
    sample: Sample, contexts: Sequence[Context], value_of: Callable[[set[int]], float]
) -> tuple[CallGain, ...]:
    """Return what each call adds to the value of the contexts, in the calls' order.

    Example: the first call's contexts have the value .5, and with the second call's
    they have .75: the gains are .5 and .25.

    Args:
        sample: The sample, whose ledger has the calls.
        contexts: The contexts that are valued.
        value_of: Takes the indices of some contexts, from 0, and returns the value that
            they have together.
    """
    calls = _calls_with_contexts(sample, contexts)
    texts_of_calls = {
        contexts[index].text for _, _, indices in calls for index in indices
    }
    # the contexts that no call returned count from the beginning
    indices_so_far = {
        index
        for index, context in enumerate(contexts)
        if context.text not in texts_of_calls
    }
    gains: list[CallGain] = []
    total = value_of(indices_so_far)
    for number, _, indices in calls:
        before = total
        indices_so_far.update(indices)
        total = value_of(indices_so_far)
        alone = value_of(set(indices))
        gains.append(
            CallGain(call=number, alone=alone, gain=total - before, total=total)
        )
    return tuple(gains)
