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
        evidence: The contexts, then the texts that calls of this turn returned beside
            them and that were shown to the model, or may have been.
        rank_of_each_text: A number for each text of ``evidence``, then for each of
            ``earlier``. The number of a context is its rank. The others go on counting.
        earlier: The texts that calls of earlier turns returned, without those of
            ``evidence``.
        user: What the user said in earlier turns, then the question.
        assistant: What the assistant said in earlier turns, and what models of the
            application wrote.
        n_earlier_shown_and_known: Of the items of earlier turns how many were shown,
            and of how many that is known; None if it is known of none.
    """

    evidence: tuple[str, ...]
    rank_of_each_text: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    assistant: tuple[str, ...] = ()
    n_earlier_shown_and_known: tuple[int, int] | None = None

    @property
    def go_beyond_this_turn(self) -> bool:
        """True if a claim may rest on more than this turn's evidence and question."""
        return bool(self.earlier or self.assistant or len(self.user) > 1)


IdAndText = tuple[str | None, str]
"""What tells a text that a call returned from others."""


@dataclass(frozen=True, slots=True)
class _ReturnedText:
    """A text that a call returned.

    Attributes:
        item: The text, with its id.
        turn: The turn of the call.
        was_shown: Whether the answering call was shown it; None if that is not known.
    """

    item: Context
    turn: int
    was_shown: bool | None


def groups_of_texts(sample: Sample) -> Groups:
    """Group the texts that an answer may rest on, by where they come from.

    - ``evidence``: the contexts, then other texts that calls of this turn returned;
    - ``earlier``: other texts that calls of earlier turns returned;
    - ``user``: what the user said;
    - ``assistant``: what the assistant said, and what models of the application wrote.

    Example: three contexts, a web page that a tool returned in this turn, and a page of
    an earlier turn. The contexts and the first page are the evidence, with the ranks 1
    to 4. The other page is earlier and has rank 5.
    """
    context_by_rank = _context_by_rank(sample.known_contexts)
    ledger = sample.ledger  # the record of what the application's calls returned
    if ledger is None:
        return Groups(
            evidence=_texts_of_contexts(context_by_rank.values()),
            rank_of_each_text=tuple(context_by_rank),
        )
    returned = _texts_returned_by_calls(ledger)
    written_by_models = _texts_of_models(ledger)
    # A summary by a model may stand among the contexts. It is no evidence; the other
    # contexts keep their ranks, such as 1 and 3.
    for rank, context in tuple(context_by_rank.items()):
        was_returned = any(text.item.text == context.text for text in returned)
        if context.text in written_by_models and not was_returned:
            del context_by_rank[rank]
    contexts = list(context_by_rank.values())
    evidence = _texts_of_contexts(contexts)
    others = _without_contexts(returned, ledger, contexts)
    evidence += _texts_of_this_turn(others, ledger)
    earlier = _texts_of_earlier_turns(others, ledger, without=evidence)
    # the other texts go on counting: behind 3 contexts come the numbers 4, 5, …
    n_others = len(evidence) + len(earlier) - len(contexts)
    first_number = len(sample.known_contexts) + 1
    return Groups(
        evidence=evidence,
        rank_of_each_text=(
            *context_by_rank,
            *range(first_number, first_number + n_others),
        ),
        earlier=earlier,
        user=_user_words(sample),
        assistant=(*_assistant_words(sample), *written_by_models),
        # (0, 1): of 1 text of an earlier turn the model was shown 0 again
        n_earlier_shown_and_known=_count_shown_and_known(
            [text for text in returned if text.turn < ledger.turn]
        ),
    )


def _without_contexts(
    returned: Sequence[_ReturnedText], ledger: Ledger, contexts: Sequence[Context]
) -> list[_ReturnedText]:
    """Leave out the texts that became contexts, as they are or rewritten."""
    known_pairs = ids_and_texts(ledger)  # these contexts are not rewritten
    return [
        text
        for text in returned
        if index_of_context(text.item, contexts, known_pairs) is None
    ]


def _texts_of_this_turn(
    returned: Sequence[_ReturnedText], ledger: Ledger
) -> tuple[str, ...]:
    """Return what calls of this turn returned, each text once.

    A text that the answering call was not shown is left out; one of which that is not
    known may have been used.
    """
    texts = [
        text.item.text
        for text in returned
        if text.turn >= ledger.turn and text.was_shown is not False
    ]
    return tuple(dict.fromkeys(texts))


def _texts_of_earlier_turns(
    returned: Sequence[_ReturnedText], ledger: Ledger, without: Container[str]
) -> tuple[str, ...]:
    """Return what calls of earlier turns returned, each text once, shown or not."""
    texts = [text.item.text for text in returned if text.turn < ledger.turn]
    return tuple(dict.fromkeys(text for text in texts if text not in without))


def _context_by_rank(contexts: Sequence[Context]) -> dict[int, Context]:
    """Return the contexts that are not blank, by rank; of equal texts the first."""
    originals = indices_of_originals(contexts)
    return {
        original + 1: contexts[original]
        for original in dict.fromkeys(originals)
        if not contexts[original].blank
    }


def _texts_returned_by_calls(ledger: Ledger) -> list[_ReturnedText]:
    """Return the texts of a ledger's calls: not blank, and not written by a model."""
    ledger_texts: list[_ReturnedText] = []
    for call in ledger.calls:
        if call.kind == "written":
            continue
        for index, context in enumerate(call.items):
            was_shown = None if call.shown is None else index in call.shown
            if not context.blank:
                ledger_texts.append(_ReturnedText(context, call.turn, was_shown))
    return ledger_texts


def _texts_of_models(ledger: Ledger) -> list[str]:
    """Return what models of the application wrote, in order."""
    texts: list[str] = []
    for call in ledger.calls:
        if call.kind == "written":
            texts += _texts_of_contexts(call.items)
    return texts


def _user_words(sample: Sample) -> tuple[str, ...]:
    """Return what the user said in earlier turns, then the question."""
    earlier = tuple(turn.content for turn in sample.history if turn.role == "user")
    return (*earlier, sample.question) if sample.question else earlier


def _assistant_words(sample: Sample) -> list[str]:
    """Return what the assistant said in earlier turns, in order."""
    return [turn.content for turn in sample.history if turn.role != "user"]


def _count_shown_and_known(
    ledger_texts: Sequence[_ReturnedText],
) -> tuple[int, int] | None:
    """Count the texts that were shown, and all texts for which that is known.

    Example: of 5 texts 2 were shown, and 1 was not: (2, 3). None if nothing is known.
    """
    known_texts = {
        text.item.text for text in ledger_texts if text.was_shown is not None
    }
    shown_texts = {text.item.text for text in ledger_texts if text.was_shown}
    return (len(shown_texts), len(known_texts)) if known_texts else None


def _texts_of_contexts(contexts: Iterable[Context]) -> tuple[str, ...]:
    """Return the texts of contexts that are not blank, in order."""
    return tuple(context.text for context in contexts if not context.blank)


def indices_of_originals(contexts: Sequence[Context]) -> list[int]:
    """Return for each context the index of the first context with the same text."""
    index_by_text: dict[str, int] = {}
    return [
        index_by_text.setdefault(context.text, index)
        for index, context in enumerate(contexts)
    ]


def ids_and_texts(ledger: Ledger) -> set[IdAndText]:
    """Return id and text of everything that the calls of a ledger returned."""
    pairs: set[IdAndText] = set()
    for call in ledger.calls:
        pairs.update((context.id, context.text) for context in call.items)
    return pairs


def index_of_context(
    item: Context, contexts: Sequence[Context], known_pairs: Container[IdAndText]
) -> int | None:
    """Return the index of the context that an item of a call became; None if none.

    It is the context with the same text, else the one with the same id: a step may have
    rewritten the text.

    Args:
        item: A document that a call returned.
        contexts: The contexts.
        known_pairs: Id and text of everything that calls returned. A context is
            not rewritten if a call returned its id and text, also where another store
            has the same id.
    """
    if not item.blank:
        for index, context in enumerate(contexts):
            if context.text == item.text:
                return index
    if item.id is not None:
        for index, context in enumerate(contexts):
            is_rewritten = (context.id, context.text) not in known_pairs
            if context.id == item.id and is_rewritten:
                return index
    return None


@dataclass(frozen=True, slots=True)
class CallWithContexts:
    """A call that searched in this turn or returned one of the contexts.

    Args:
        number: The call's index in the ledger, from 0.
        call: The call.
        context_indices: The contexts that it returned, each once, in the call's order.
    """

    number: int
    call: EvidenceCall
    context_indices: tuple[int, ...]


def calls_with_contexts(
    sample: Sample, contexts: Sequence[Context]
) -> list[CallWithContexts]:
    """List the calls that searched in this turn or returned one of the contexts.

    Call 0, a search, returned the first and third context: ``(0, call, (0, 2))``.
    A search without any of the contexts has (). Calls of kind "written", whose texts a
    model wrote, are left out.
    """
    if sample.ledger is None:  # nobody recorded the application's calls
        return []
    calls: list[CallWithContexts] = []
    # Tells contexts that stand there as a call returned them from rewritten ones: only
    # a rewritten context is recognized by its id alone.
    returned_ids_and_texts = ids_and_texts(sample.ledger)
    for number, call in enumerate(sample.ledger.calls):
        if call.kind == "written":
            continue
        indices: list[int] = []
        for item in call.items:
            index = index_of_context(item, contexts, returned_ids_and_texts)
            if index is not None and index not in indices:
                indices.append(index)
        is_search = call.kind == "retrieval" and call.turn == sample.ledger.turn
        if indices or is_search:
            calls.append(CallWithContexts(number, call, tuple(indices)))
    return calls


def call_table(
    sample: Sample, contexts: Sequence[Context], useful: Sequence[bool]
) -> CallTable | None:
    """Return a table of what each call of a sample was good for.

    It has the calls that searched in this turn or returned one of the contexts: if 3 of
    4 such calls returned a useful context, a share of .25 is wasted. Returns None if
    there is no such call.

    Args:
        sample: The sample.
        contexts: The contexts that were judged.
        useful: For each of these contexts whether it is useful.
    """
    calls = calls_with_contexts(sample, contexts)
    if not calls:
        return None
    verdicts = _call_verdicts(calls, useful)
    numbers_of_useful_calls = [
        number
        for number, call_verdict in enumerate(verdicts, start=1)
        if call_verdict.verdict == "useful"
    ]
    return CallTable(
        calls=tuple(verdicts),
        wasted=1 - len(numbers_of_useful_calls) / len(verdicts),
        repeats=_share_repeated(calls),
        first_useful=min(numbers_of_useful_calls, default=None),
        last_useful=max(numbers_of_useful_calls, default=None),
        call_ap=_mean_average_precision(calls, useful),
    )


def _call_verdicts(
    calls: Sequence[CallWithContexts], useful: Sequence[bool]
) -> list[CallVerdict]:
    """Say what each call was good for, given the calls before it.

    Contexts 1 and 2 are useful. Search A returned 1: useful. Search B returned 1 and 2:
    useful, for 2 is new. Search C returned 2 again: repeated.

    Args:
        calls: The calls, in order.
        useful: For each context whether it is useful.
    """
    verdicts: list[CallVerdict] = []
    contexts_so_far: set[int] = set()
    for call in calls:
        useful_indices = {index for index in call.context_indices if useful[index]}
        verdict: CallUse
        if not useful_indices:
            verdict = _verdict_on_useless(call)
        elif useful_indices <= contexts_so_far:
            verdict = "repeated"
        else:
            verdict = "useful"
        ranks = tuple(index + 1 for index in call.context_indices)
        verdicts.append(CallVerdict(call=call.number, verdict=verdict, ranks=ranks))
        contexts_so_far.update(call.context_indices)
    return verdicts


def _verdict_on_useless(call: CallWithContexts) -> CallUse:
    """Say what a call that returned no useful context did instead."""
    if call.context_indices:
        return "noise"
    if call.call.error is not None:
        return "failed"
    return "unread" if call.call.items else "empty"


def _share_repeated(calls: Sequence[CallWithContexts]) -> float | None:
    """Share of the texts returned by calls that an earlier call had returned.

    None if the calls returned no texts.
    """
    are_repeated: list[bool] = []
    texts_so_far: set[str] = set()
    for call in calls:
        texts = [context.text for context in call.call.items]
        are_repeated += [text in texts_so_far for text in texts]
        texts_so_far.update(texts)
    return fmean(are_repeated) if are_repeated else None


def _mean_average_precision(
    calls: Sequence[CallWithContexts], useful: Sequence[bool]
) -> float | None:
    """How well calls ranked their own contexts: the mean over calls with a useful one.

    None if no call returned a useful context.
    """
    precisions: list[float] = []
    for call in calls:
        verdicts = [useful[index] for index in call.context_indices]
        if any(verdicts):
            precisions.append(average_precision(verdicts))
    return fmean(precisions) if precisions else None


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
    calls = calls_with_contexts(sample, contexts)
    indices_so_far = _indices_that_no_call_returned(calls, contexts)
    gains: list[CallGain] = []
    for call in calls:
        value_before = value_of(indices_so_far)
        indices_so_far = indices_so_far.union(call.context_indices)
        total = value_of(indices_so_far)
        gain = CallGain(
            call=call.number,
            alone=value_of(set(call.context_indices)),
            gain=total - value_before,
            total=total,
        )
        gains.append(gain)
    return tuple(gains)


def _indices_that_no_call_returned(
    calls: Sequence[CallWithContexts], contexts: Sequence[Context]
) -> set[int]:
    """Return the indices of the contexts that no call returned.

    Of contexts with equal texts only the first one counts; it is also the one that a
    call has among its ``context_indices``.
    """
    indices = set(indices_of_originals(contexts))
    for call in calls:
        indices -= set(call.context_indices)
    return indices
