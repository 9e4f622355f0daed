"""What is weak in judges of typed questions: a line of a card for each known weakness.

The typed questions of a metric are asked once more: each alone, then all in company,
negated, and with their options in two orders. Foreign contexts take the place of a
sample's own, and a text is padded to more than models read.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Literal

from pydantic import Field

from ragmetrics_core.data import (
    Asked,
    Batch,
    Decided,
    Evidence,
    FactMatrix,
    JudgedChunks,
    MetricResult,
    NotAnswered,
    Option,
    Question,
    Replies,
    Sample,
    Scored,
    SilentData,
    Typed,
    ask,
    wilson,
)
from ragmetrics_core.data.typed import Chances, State
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.metric import Metric, metric
from ragmetrics_core.statistics.rater_agreement import Measured

AskAgain = Callable[[Metric, Sequence[Sample], int], Sequence[MetricResult]]
"""Gives a result per sample; a number above 0 is that of an independent repetition."""

PADDED_CHARACTERS = 1_000_000
"""About 250,000 tokens: more than most models of typed questions read."""

# Repetitions of their own, so that no answer of another company is taken from the store.
_ALONE, _IN_COMPANY = 2, 3

_ROUND = (0.0, 0.5, 1.0)
_FILLER = (
    "The office is closed on public holidays. Parcels can be left with the neighbours on"
    " the ground floor. "
)
_TRUE, _FALSE = "the statement is true", "the statement is not true"

ACCEPTED = {
    "relevant": "accepted: foreign chunks",
    "present": "accepted: foreign facts",
    "adherent": "accepted: answers on foreign contexts",
}
"""The line of what is accepted, by the question of the labels."""
NEGATION = "negation: mean of |p + p(not) - 1|"
COMPANY = "company: largest change of p beside other questions"
ORDER = "flipped: options in reverse order"
ROUNDED = "rounded: p of 0, 0.5 or 1"
PADDED = "answered: padded to 1,000,000 characters"
LOST = "no answer to a probe"


class ProbeReply(SilentData):
    """The probabilities of all typed questions of a probe."""

    chances: tuple[tuple[float, ...], ...]


class Probe(Question[ProbeReply]):
    """The typed questions of another question, asked in another way."""


class ProbeEvidence(Evidence, extra="ignore"):
    """What a judge said to the probes of a sample."""

    kind: Literal["typed probes"] = "typed probes"
    chances: tuple[tuple[tuple[float, ...], ...] | None, ...] = Field(
        description="By probe, the probabilities by typed question; None: no answer."
    )


def weaknesses(
    question: str, asked: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> list[Measured]:
    """Measure what is weak in a judge of typed questions.

    Args:
        question: What people were asked, which names the lines.
        asked: The metric that asks it.
        rows: The labelled samples.
        ask_again: The judge.

    Returns:
        A figure of each weakness, over all sources and of each. Those that nothing was
        answered to are left out.
    """
    figures: list[Measured] = []
    if question in ACCEPTED:
        accepted = _ask_about_foreign(asked, rows, ask_again)
        figures += _shares(ACCEPTED[question], accepted)
    probed = _probe_company(asked, rows, ask_again)
    figures += _shares(ORDER, _values(probed, _flips))
    figures += _over_sources(NEGATION, _values(probed, _negations), fmean)
    figures += _over_sources(COMPANY, _values(probed, _changes_by_company), max)
    figures += _shares(ROUNDED, _values(probed, _are_round))
    figures += _shares(PADDED, _ask_padded(asked, rows, ask_again))
    lost = [(row.source, float(probes is None)) for row, probes in probed]
    if any(value for _, value in lost):
        figures += _shares(LOST, lost)
    return figures


_BySource = list[tuple[str, float]]
"""Values, each with the source of its sample."""


# Foreign contexts


def _ask_about_foreign(
    asked: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _BySource:
    """Of each verdict on foreign contexts whether it is positive."""
    foreign = [(row, _with_foreign_contexts(row, rows)) for row in rows]
    changed = [(row, sample) for row, sample in foreign if sample is not None]
    results = ask_again(asked, [sample for _, sample in changed], 0)
    accepted: _BySource = []
    for (row, _), result in zip(changed, results, strict=True):
        accepted += [(row.source, verdict) for verdict in _positive_verdicts(result)]
    return accepted


def _with_foreign_contexts(
    row: LabelledSample, rows: Sequence[LabelledSample]
) -> Sample | None:
    """The sample with the contexts of the next one of its source that shares no text.

    None if there is no such sample.
    """
    of_source = [other for other in rows if other.source == row.source]
    place = of_source.index(row)
    own_texts = {context.text for context in row.sample.contexts}
    for other in [*of_source[place + 1 :], *of_source[:place]]:
        contexts = other.sample.contexts
        if contexts and own_texts.isdisjoint(context.text for context in contexts):
            changed = {"contexts": contexts, "retrieved": None, "ledger": None}
            name = f"{row.sample.id or place} | foreign contexts"
            return row.sample.model_copy(update={**changed, "id": name})
    return None


def _positive_verdicts(result: MetricResult) -> Iterator[float]:
    """Of each chunk, fact or answer whether the judge accepts it, as 0 or 1."""
    evidence = getattr(result, "evidence", None)
    if isinstance(evidence, JudgedChunks):
        for chunk in evidence.chunks:
            if chunk.useful is not None:
                yield float(chunk.useful)
    elif isinstance(evidence, FactMatrix):
        for cells in evidence.cells:
            for cell in cells:
                if cell.probability is not None:
                    yield float(cell.probability > 0.5)
    elif isinstance(evidence, AdherenceEvidence) and result.status != "failed":
        # an answer that is said to claim nothing is not accepted
        yield float(result.value is not None and result.value > 0.5)


# Probes


@dataclass(frozen=True, slots=True)
class _Probes:
    """What a judge said to one typed question.

    Args:
        alone: Its probabilities in a request of its own.
        in_company: Those beside all other probes.
        negated: p of its negation; None where it is no predicate.
        forward: The probabilities of its options, as a choice.
        backward: The same with the options in reverse order.
    """

    alone: Chances
    in_company: Chances
    negated: float | None
    forward: Chances
    backward: Chances


_Probed = list[tuple[LabelledSample, list[_Probes] | None]]
"""What was said to the typed questions of each row; None if one was not answered."""


def _probe_company(
    asked: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _Probed:
    """Ask the typed questions of each row alone, and all of them in company."""
    samples = [row.sample for row in rows]
    apart_form = partial(_probes_of_form, _batches_of_one)
    joint_form = partial(_probes_of_form, _all_together)
    alone = ask_again(_probing(asked, apart_form), samples, _ALONE)
    together = ask_again(_probing(asked, joint_form), samples, _IN_COMPANY)
    return [
        (row, _read(_chances(apart), _chances(joined)))
        for row, apart, joined in zip(rows, alone, together, strict=True)
    ]


_Form = Callable[[Sequence[Typed]], list[list[Typed]]]
"""How typed questions are asked: a request for each list."""


def _batches_of_one(typed: Sequence[Typed]) -> list[list[Typed]]:
    return [[single] for single in typed]


def _all_together(typed: Sequence[Typed]) -> list[list[Typed]]:
    """Each as it is, negated, and as a choice in both orders, in one request."""
    probes: list[Typed] = []
    for single in typed:
        negated = [_negate_question(single)] if single.kind == "predicate" else []
        probes += [single, *negated, *_choices_in_both_orders(single)]
    return [probes]


def _negate_question(typed: Typed) -> Typed:
    return Typed("predicate", f"It is not the case that: {typed.wording}")


def _choices_in_both_orders(typed: Typed) -> list[Typed]:
    """A typed question as a choice, and with its options in reverse order."""
    meanings = [option.meaning for option in typed.options]
    wording = typed.wording
    if typed.kind == "predicate":
        meanings = [_TRUE, _FALSE]
        wording = f"Which is right of this statement? {typed.wording}"
    return [
        Typed("choice", wording, _options_by_letter(meanings)),
        Typed("choice", wording, _options_by_letter(meanings[::-1])),
    ]


def _options_by_letter(meanings: Sequence[str]) -> tuple[Option, ...]:
    return tuple(
        Option(chr(ord("A") + place), meaning) for place, meaning in enumerate(meanings)
    )


_Probing = Callable[[Question[Any], Decided[Any]], list["Probe"]]
"""The probes of one question of a metric."""


def _probes_of_form(
    form: _Form, question: Question[Any], decided: Decided[Any]
) -> list[Probe]:
    """A probe for each request of a form, about the question's own texts."""
    state = decided.state(question)
    requests = form(list(decided.asks(question)))
    return [_probe(question, state, request) for request in requests]


def _probing(asked: Metric, probes_of: _Probing, *, most: int | None = None) -> Metric:
    """A metric that asks probes of the questions that another one asks first.

    With ``most`` there are no more probes of a sample than that.
    """

    def probe(sample: Sample) -> Generator[Batch, Replies, Scored]:
        chances: list[Any] = []
        probes: list[Probe] = []
        for question in _first_questions(asked, sample):
            if question.decided is not None:
                probes += probes_of(question, question.decided)
        for single in probes[:most]:
            (reply,) = yield from ask([single])
            chances.append(_chances_of(reply))
        evidence = ProbeEvidence(chances=tuple(chances))
        reason = f"{len(chances)} probes were asked."
        return Scored(metric=asked.name, value=1.0, reason=reason, evidence=evidence)

    return metric(name=asked.name)(probe)


def _first_questions(asked: Metric, sample: Sample) -> Batch:
    """What a metric asks of a sample first; nothing if it asks nothing."""
    return next(asked.plan(sample), ())


def _probe(question: Question[Any], state: State, typed: Sequence[Typed]) -> Probe:
    decided: Decided[ProbeReply] = Decided(
        state=lambda _: state,
        asks=lambda _: typed,
        reads=lambda _, answers: Asked((ProbeReply(chances=tuple(answers)),)),
    )
    return Probe(
        parts=question.parts,
        instructions=question.instructions,
        Reply=ProbeReply,
        decided=decided,
    )


def _chances_of(
    reply: Asked[ProbeReply] | NotAnswered,
) -> tuple[tuple[float, ...], ...] | None:
    return None if isinstance(reply, NotAnswered) else reply.reply.chances


def _chances(result: MetricResult) -> list[tuple[float, ...]] | None:
    """All probabilities of a sample's probes, in order; None if one has no answer."""
    evidence = getattr(result, "evidence", None)
    if not isinstance(evidence, ProbeEvidence) or None in evidence.chances:
        return None
    return [chances for probe in evidence.chances for chances in probe or ()]


def _read(
    alone: Sequence[Chances] | None, together: Sequence[Chances] | None
) -> list[_Probes] | None:
    """What was said to each typed question; None if one was not answered."""
    if alone is None or together is None:
        return None
    answers = iter(together)
    probes: list[_Probes] = []
    for chances in alone:
        in_company = next(answers)
        is_predicate = len(chances) == 1
        negated = next(answers)[0] if is_predicate else None
        forward, backward = next(answers), next(answers)
        probes.append(_Probes(chances, in_company, negated, forward, backward))
    return probes


def _values(
    probed: _Probed, measure: Callable[[_Probes], Iterable[float]]
) -> _BySource:
    """What a measure says of each typed question that was answered."""
    values: _BySource = []
    for row, probes in probed:
        for single in probes or ():
            values += [(row.source, value) for value in measure(single)]
    return values


def _flips(probes: _Probes) -> Iterator[float]:
    """Whether another option is the likeliest where their order is reversed."""
    likeliest = _likeliest(probes.forward)
    likeliest_in_reverse = _likeliest(probes.backward[::-1])
    yield float(likeliest.isdisjoint(likeliest_in_reverse))  # a tie is no flip


def _likeliest(chances: Chances) -> set[int]:
    """The places of the options with the highest probability."""
    highest = max(chances)
    return {place for place, chance in enumerate(chances) if chance == highest}


def _negations(probes: _Probes) -> Iterator[float]:
    """How far p of a predicate and p of its negation are from summing to one.

    Both were asked in one request, so that company plays no part.
    """
    if probes.negated is not None:
        yield abs(probes.in_company[0] + probes.negated - 1)


def _changes_by_company(probes: _Probes) -> Iterator[float]:
    """How much the probabilities change beside other questions."""
    for alone, in_company in zip(probes.alone, probes.in_company, strict=True):
        yield abs(alone - in_company)


def _are_round(probes: _Probes) -> Iterator[float]:
    """Of each probability whether it is 0, 0.5 or 1."""
    for chance in probes.alone:
        yield float(chance in _ROUND)


# Padding


def _ask_padded(
    asked: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _BySource:
    """Of one row of each source whether it is answered though it is far too long."""
    first_by_source: dict[str, LabelledSample] = {}
    for row in rows:
        first_by_source.setdefault(row.source, row)
    firsts = list(first_by_source.values())
    padding = _probing(asked, _probes_of_padding, most=1)
    results = ask_again(padding, [row.sample for row in firsts], 0)
    answered: _BySource = []
    for row, result in zip(firsts, results, strict=True):
        evidence = getattr(result, "evidence", None)
        if isinstance(evidence, ProbeEvidence) and evidence.chances:
            answered.append((row.source, float(evidence.chances[0] is not None)))
    return answered


def _probes_of_padding(question: Question[Any], decided: Decided[Any]) -> list[Probe]:
    """The first typed question of a question, about padded texts."""
    state = _between_fillers(decided.state(question))
    return [_probe(question, state, list(decided.asks(question))[:1])]


def _between_fillers(state: State) -> Mapping[str, Any]:
    """A state between two texts of half the padding each, so that either end may be cut."""
    half = _FILLER * (PADDED_CHARACTERS // 2 // len(_FILLER))
    return {"before": half, **state, "after": half}


# Figures


def _shares(measure: str, values: _BySource) -> Iterator[Measured]:
    """How often something holds, over all sources and of each, with Wilson's interval."""
    for source, flags in _by_source(values).items():
        interval = wilson(round(sum(flags)), len(flags))
        yield Measured(measure, source, len(flags), fmean(flags), interval)


def _over_sources(
    measure: str, values: _BySource, summary: Callable[[Iterable[float]], float]
) -> Iterator[Measured]:
    """A summary of numbers, over all sources and of each."""
    for source, numbers in _by_source(values).items():
        yield Measured(measure, source, len(numbers), summary(numbers), None)


def _by_source(values: _BySource) -> dict[str | None, list[float]]:
    """The values of all sources under None, then those of each."""
    by_source: dict[str | None, list[float]] = {}
    for source, value in values:
        by_source.setdefault(None, []).append(value)
        by_source.setdefault(source, []).append(value)
    return by_source
