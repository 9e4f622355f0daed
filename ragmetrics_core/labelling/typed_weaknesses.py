"""What is weak in judges of typed questions: a line of a card for each known weakness.

A typed question is a predicate, a number or a choice that a decision model answers with
probabilities. The typed questions that a metric asks of a labelled sample are asked once
more, as *probes*:

- each in a request of its own ("alone");
- all in one request ("in company"), as they are, negated, and as a choice with its
  options in two orders;
- about the same text, padded to more than models read.

Besides, the metric judges each sample with the contexts of another sample ("foreign
contexts"), which nothing should be grounded in.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from pydantic import Field

from ragmetrics_core.data import (
    Asked,
    Batch,
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
    TypedForm,
    TypedQuestion,
    ask,
    wilson,
)
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.typed import Chances, State
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.metrics.adherence_evidence import AdherenceEvidence
from ragmetrics_core.metrics.metric import Metric, metric
from ragmetrics_core.statistics.rater_agreement import Measured

AskAgain = Callable[[Metric, Sequence[Sample], int], Sequence[MetricResult]]
"""Gives a result per sample; a number above 0 is that of an independent repetition."""

PADDED_CHARACTERS = 1_000_000
"""About 250,000 tokens: more than most models of typed questions read."""

# Numbers of repetitions, see ``AskAgain``. A repetition takes no reply of another one
# from the store: so what is asked alone and what is asked in company are both asked.
_NO_REPETITION = 0
_REPETITION_ALONE = 2
_REPETITION_IN_COMPANY = 3

_ROUND = (0.0, 0.5, 1.0)
_FILLER = (
    "The office is closed on public holidays. Parcels can be left with the neighbours on"
    " the ground floor. "
)
_TRUE = "the statement is true"
_FALSE = "the statement is not true"

NAME_OF_ACCEPTED = {
    "relevant": "accepted: foreign chunks",
    "present": "accepted: foreign facts",
    "adherent": "accepted: answers on foreign contexts",
}
"""By the question of the labels, the name of the share that a judge accepts on foreign contexts."""
NEGATION = "negation: mean of |p + p(not) - 1|"
COMPANY = "company: largest change of p beside other questions"
ORDER = "flipped: options in reverse order"
ROUNDED = "rounded: p of 0, 0.5 or 1"
PADDED = "answered: padded to 1,000,000 characters"
LOST = "no answer to a probe"


class ProbeReply(SilentData):
    """What a judge said to a probe: the probabilities of each of its typed questions."""

    probabilities: tuple[tuple[float, ...], ...]


class Probe(Question[ProbeReply]):
    """Typed questions of a metric's question, asked once more in another way."""


class ProbeEvidence(Evidence, extra="ignore"):
    """What a judge said to the probes of a sample."""

    kind: Literal["typed probes"] = "typed probes"
    replies: tuple[ProbeReply | None, ...] = Field(
        description="The reply to each probe; None for one without an answer."
    )


def measure_weaknesses(
    question: str, metric: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> list[Measured]:
    """Measure the known weaknesses of a judge that answers with probabilities.

    How often does it say yes about the contexts of another sample ("foreign")? How much
    do its probabilities change if a question is asked in another way, as a probe:
    negated, in another order, or beside other questions? How often does it answer about
    a text that is too long for it? Example: p = .9 for a statement and .4 for its
    negation: .3 off the sum of 1.

    Args:
        question: What people were asked: "relevant", "present", "adherent" or "other".
        metric: The metric that asks the judge the same.
        rows: The labelled samples.
        ask_again: Asks the judge.

    Returns:
        A figure of each weakness over all sources, and one for each source.
    """
    figures: list[Measured] = []
    # On these questions, all but "other", a judge must say no to foreign contexts.
    if question in NAME_OF_ACCEPTED:
        # 1.0 for each yes on foreign contexts, which is an error of the judge
        acceptances = _judge_on_foreign_contexts(metric, rows, ask_again)
        figures += _shares(NAME_OF_ACCEPTED[question], acceptances)
    # A metric asks of a sample typed questions, such as "Is this statement true?". Each
    # is asked in a request of its own. Then all are asked in one request: as they are,
    # negated, and as choices with the options in two orders.
    probed_rows = _probe_alone_and_in_company(metric, rows, ask_again)
    figures += _figures_of_probes(probed_rows)
    # texts that are made too long for the judge: how many does it answer all the same?
    figures += _shares(PADDED, _judge_padded_texts(metric, rows, ask_again))
    # 1.0 for each row with a probe that got no answer
    lost_flags = [(row.source, float(answers is None)) for row, answers in probed_rows]
    if any(flag for _, flag in lost_flags):
        figures += _shares(LOST, lost_flags)
    return figures


_SourcedValues = list[tuple[str, float]]
"""Values, each behind the source of its sample."""


# Foreign contexts


def _judge_on_foreign_contexts(
    metric: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _SourcedValues:
    """Judge each sample on the contexts of another one, which should not support it.

    Example: an answer about a bridge is judged on contexts about a ferry. The judge
    says yes all the same: ("faq", 1.0).

    Args:
        metric: Asks the judge about a sample.
        rows: The labelled samples.
        ask_again: Has the judge answer the metric's questions on some samples.

    Returns:
        For each verdict the source of its sample, and 1.0 if the judge says yes, else
        0.0. Samples for which no foreign contexts were found are left out.
    """
    changed_rows: list[LabelledSample] = []
    changed_samples: list[Sample] = []
    for row in rows:
        changed_sample = _with_foreign_contexts(row, rows)
        if changed_sample is not None:
            changed_rows.append(row)
            changed_samples.append(changed_sample)
    results = ask_again(metric, changed_samples, _NO_REPETITION)
    acceptances: _SourcedValues = []
    for row, result in zip(changed_rows, results, strict=True):
        for acceptance in _acceptances(result):
            acceptances.append((row.source, acceptance))
    return acceptances


def _with_foreign_contexts(
    row: LabelledSample, rows: Sequence[LabelledSample]
) -> Sample | None:
    """Return the row's sample with the contexts of another sample in place of its own.

    Row 3 of five tries rows 4 and 5, then 1 and 2. The other sample is of the same
    source, and shares no context with the row. None if there is no such sample.
    """
    of_source = [other for other in rows if other.source == row.source]
    row_index = of_source.index(row)
    rows_behind = of_source[row_index + 1 :]
    rows_before = of_source[:row_index]
    texts_of_row = {context.text for context in row.sample.known_contexts}
    for other in [*rows_behind, *rows_before]:
        foreign_contexts = other.sample.known_contexts
        foreign_texts = {context.text for context in foreign_contexts}
        if foreign_texts and texts_of_row.isdisjoint(foreign_texts):
            changed_fields = {
                "id": f"{row.sample.id or row_index} | foreign contexts",
                "contexts": foreign_contexts,
                # both would still show the contexts of the row's own
                "retrieved": None,
                "ledger": None,
            }
            return row.sample.model_copy(update=changed_fields)
    return None


def _acceptances(result: MetricResult) -> Iterator[float]:
    """Yield 1.0 for each verdict of a result that is a yes, and 0.0 for each no.

    The verdicts are on each context, on each fact in each context, or on the answer.
    Example: of three contexts one is useful, one is not, and one was not judged: 1.0
    and 0.0.
    """
    evidence = getattr(result, "evidence", None)
    if isinstance(evidence, JudgedChunks):
        for chunk in evidence.chunks:
            if chunk.useful is not None:
                yield float(chunk.useful)
    elif isinstance(evidence, FactMatrix):
        for cells in evidence.cells:
            for cell in cells:
                if cell.probability is not None:
                    yield float(is_yes(cell.probability))
    elif isinstance(evidence, AdherenceEvidence) and result.status != "failed":
        # an answer that is said to claim nothing is not accepted
        yield float(result.value is not None and is_yes(result.value))


# Probes


@dataclass(frozen=True, slots=True)
class _ProbeAnswers:
    """What a judge said to one typed question, asked in several ways.

    Args:
        alone: Its probabilities in a request of its own.
        in_company: Its probabilities in one request with all other probes.
        negated: p of its negation; None where it is no predicate.
        forward: The probabilities of its options, as a choice.
        backward: The same with the options in reverse order.
    """

    alone: Chances
    in_company: Chances
    negated: float | None
    forward: Chances
    backward: Chances


_ProbedRows = list[tuple[LabelledSample, list[_ProbeAnswers] | None]]
"""Each row with what was said to its typed questions; None if one was not answered."""


def _probe_alone_and_in_company(
    metric: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _ProbedRows:
    """Ask each row's typed questions again: each in its own request, then all in one.

    "Alone" a question stands in a request of its own. "In company" it stands in one
    request with all others, in four forms: as it is, negated, and as a choice in both
    orders. Example: two true-or-false questions are two requests alone, then one
    request with 2 × 4 = 8 questions.

    Returns:
        Each row with the probabilities that its questions were answered with; with None
        if a request was not answered.
    """
    samples = [row.sample for row in rows]
    # metrics that ask the same typed questions as ``metric``, in other requests
    metric_alone = _metric_of_probes(metric, _probes_alone)
    metric_in_company = _metric_of_probes(metric, _probe_in_company)
    # The numbers of the repetitions differ: each is asked anew, none is answered by
    # stored replies to the other.
    results_alone = ask_again(metric_alone, samples, _REPETITION_ALONE)
    results_in_company = ask_again(metric_in_company, samples, _REPETITION_IN_COMPANY)
    probed_rows: _ProbedRows = []
    for row, result_alone, result_in_company in zip(
        rows, results_alone, results_in_company, strict=True
    ):
        answers = _read_answers(
            _probabilities_in(result_alone), _probabilities_in(result_in_company)
        )
        probed_rows.append((row, answers))
    return probed_rows


def _probes_alone(question: Question[Any], typed_form: TypedForm[Any]) -> list[Probe]:
    """Return a probe for each typed question of a question: each is a request."""
    state = typed_form.state(question)
    return [
        _probe(question, state, [typed])
        for typed in typed_form.typed_questions(question)
    ]


def _probe_in_company(
    question: Question[Any], typed_form: TypedForm[Any]
) -> list[Probe]:
    """Return one probe, which is one request, with all forms of all typed questions.

    For each typed question these are: the question as it is; its negation, if it is a
    predicate; and the question as a choice in both orders. ``_read_answers`` reads the
    answers in this order.
    """
    all_forms: list[TypedQuestion] = []
    for typed in typed_form.typed_questions(question):
        all_forms.append(typed)
        if typed.kind == "predicate":
            all_forms.append(_negate_question(typed))
        all_forms += _choices_in_both_orders(typed)
    return [_probe(question, typed_form.state(question), all_forms)]


def _negate_question(typed: TypedQuestion) -> TypedQuestion:
    return TypedQuestion("predicate", f"It is not the case that: {typed.wording}")


def _choices_in_both_orders(typed: TypedQuestion) -> list[TypedQuestion]:
    """Return a typed question as a choice, and with its options in reverse order."""
    meanings = [option.meaning for option in typed.options]
    wording = typed.wording
    if typed.kind == "predicate":
        meanings = [_TRUE, _FALSE]
        wording = f"Which is right of this statement? {typed.wording}"
    return [
        TypedQuestion("choice", wording, _options_by_letter(meanings)),
        TypedQuestion("choice", wording, _options_by_letter(meanings[::-1])),
    ]


def _options_by_letter(meanings: Sequence[str]) -> tuple[Option, ...]:
    return tuple(
        Option(chr(ord("A") + index), meaning) for index, meaning in enumerate(meanings)
    )


_ProbesOfQuestion = Callable[[Question[Any], TypedForm[Any]], list["Probe"]]
"""Makes the probes of one question of a metric.

It is given the question and its typed form: the typed questions that say the same, and
the texts that they are about.
"""


def _metric_of_probes(
    probed_metric: Metric,
    probes_of: _ProbesOfQuestion,
    *,
    most_probes: int | None = None,
) -> Metric:
    """Make a metric that asks another metric's questions in another way, as probes.

    Example: the other metric asks which of three facts a context covers. The probes may
    be three requests, each about one fact.

    Args:
        probed_metric: The other metric.
        probes_of: Makes the probes of one question, such as a probe for each fact.
        most_probes: How many probes of a sample are asked, the first ones; None: all.

    Returns:
        A metric whose evidence has the judge's replies to the probes. Its score is
        always 1.0 and says nothing.
    """

    def ask_probes(sample: Sample) -> Generator[Batch, Replies, Scored]:
        """Ask the probes of a sample one after the other, and keep the replies."""
        probes = _probes_of_sample(probed_metric, sample, probes_of)
        replies: list[ProbeReply | None] = []
        for probe in probes[:most_probes]:
            (reply,) = yield from ask([probe])
            replies.append(None if isinstance(reply, NotAnswered) else reply.reply)
        return Scored(
            metric=probed_metric.name,
            value=1.0,
            reason=f"{len(replies)} probes were asked.",
            evidence=ProbeEvidence(replies=tuple(replies)),
        )

    return metric(name=probed_metric.name)(ask_probes)


def _probes_of_sample(
    probed_metric: Metric, sample: Sample, probes_of: _ProbesOfQuestion
) -> list[Probe]:
    """Make the probes of the questions that a metric asks first of a sample.

    A question has probes if it can be asked as typed questions, such as "fact 1 is
    covered", which is true or false.
    """
    probes: list[Probe] = []
    for question in _first_questions(probed_metric, sample):
        typed_form = question.typed_form
        if typed_form is not None:
            probes += probes_of(question, typed_form)
    return probes


def _first_questions(probed_metric: Metric, sample: Sample) -> Batch:
    """Return what a metric asks of a sample first; nothing if it asks nothing."""
    return next(probed_metric.plan(sample), ())


def _probe(
    question: Question[Any], state: State, typed_questions: Sequence[TypedQuestion]
) -> Probe:
    """Typed questions about a state, in one request.

    The parts and the instructions are those of the question that they are from.
    """
    typed_form: TypedForm[ProbeReply] = TypedForm(
        state=lambda _: state,
        typed_questions=lambda _: typed_questions,
        read_reply=lambda _, answers: Asked(
            (ProbeReply(probabilities=tuple(answers)),)
        ),
    )
    return Probe(
        parts=question.parts,
        instructions=question.instructions,
        Reply=ProbeReply,
        typed_form=typed_form,
    )


def _probabilities_in(result: MetricResult) -> list[Chances] | None:
    """Return the probabilities by typed question of all probes of a sample, in order.

    None if one probe has no answer.
    """
    evidence = getattr(result, "evidence", None)
    if not isinstance(evidence, ProbeEvidence):
        return None
    probabilities: list[Chances] = []
    for reply in evidence.replies:
        if reply is None:
            return None
        probabilities += reply.probabilities
    return probabilities


def _read_answers(
    chances_alone: Sequence[Chances] | None,
    chances_in_company: Sequence[Chances] | None,
) -> list[_ProbeAnswers] | None:
    """Group the probabilities of a sample's probes by the question that was probed.

    Example: a true-or-false question asked alone has ``[(.9,)]``. Asked in one request
    with others it has ``[(.8,), (.1,), (.7, .3), (.4, .6)]``: as it is, negated, as a
    choice, and as a choice in reverse order. These five make one group. A question that
    is a choice already has no negation: it is asked in three forms with others.

    Args:
        chances_alone: For each question the probabilities in a request of its own; None
            if a request was not answered.
        chances_in_company: The same in one request with all others: the forms of the
            first question, then those of the second, and so on.
    """
    if chances_alone is None or chances_in_company is None:
        return None
    remaining = iter(chances_in_company)
    answers: list[_ProbeAnswers] = []
    for alone in chances_alone:
        in_company = next(remaining)
        negated = None
        is_predicate = len(alone) == 1  # one probability: that the statement is true
        if is_predicate:
            (negated,) = next(remaining)
        forward = next(remaining)  # as a choice
        backward = next(remaining)  # as a choice, options in reverse order
        answers.append(_ProbeAnswers(alone, in_company, negated, forward, backward))
    return answers


def _figures_of_probes(probed_rows: _ProbedRows) -> Iterator[Measured]:
    """Yield how the probabilities change if a question is asked in another way."""
    yield from _shares(ORDER, _measure_probes(probed_rows, _flips))
    negation_errors = _measure_probes(probed_rows, _negation_errors)
    yield from _summaries(NEGATION, negation_errors, fmean)
    changes = _measure_probes(probed_rows, _changes_by_company)
    yield from _summaries(COMPANY, changes, max)
    yield from _shares(ROUNDED, _measure_probes(probed_rows, _are_round))


def _measure_probes(
    probed_rows: _ProbedRows, measure: Callable[[_ProbeAnswers], Iterable[float]]
) -> _SourcedValues:
    """Return the values of a measure for each typed question that was answered."""
    values: _SourcedValues = []
    for row, answers_of_row in probed_rows:
        for answers in answers_of_row or ():
            for value in measure(answers):
                values.append((row.source, value))
    return values


def _flips(answers: _ProbeAnswers) -> Iterator[float]:
    """1.0 if another option is the likeliest where their order is reversed, else 0.0."""
    likeliest = _likeliest(answers.forward)
    likeliest_in_reverse = _likeliest(answers.backward[::-1])
    yield float(likeliest.isdisjoint(likeliest_in_reverse))  # a tie is no flip


def _likeliest(chances: Chances) -> set[int]:
    """Return the indices of the options with the highest probability."""
    highest = max(chances)
    return {index for index, chance in enumerate(chances) if chance == highest}


def _negation_errors(answers: _ProbeAnswers) -> Iterator[float]:
    """Yield how far p of a predicate and p of its negation are from summing to one.

    Both were asked in one request, so that the other questions beside them are the
    same. Nothing for what is no predicate.
    """
    if answers.negated is not None:
        yield abs(answers.in_company[0] + answers.negated - 1)


def _changes_by_company(answers: _ProbeAnswers) -> Iterator[float]:
    """Yield how much the probabilities change beside other questions."""
    for alone, in_company in zip(answers.alone, answers.in_company, strict=True):
        yield abs(alone - in_company)


def _are_round(answers: _ProbeAnswers) -> Iterator[float]:
    """1.0 for each probability that is 0, 0.5 or 1, and 0.0 for each other one."""
    for chance in answers.alone:
        yield float(chance in _ROUND)


# Padding


def _judge_padded_texts(
    metric: Metric, rows: Sequence[LabelledSample], ask_again: AskAgain
) -> _SourcedValues:
    """Find the sources on which a judge answers although the text is far too long.

    It must have cut the text off then, and has not said so. Of each source one question
    about one row is asked, with so much text around it that no model reads it all.

    Args:
        metric: Asks the judge about a sample.
        rows: The labelled samples.
        ask_again: Has the judge answer a metric's questions on some samples.

    Returns:
        For each source its name, and 1.0 if the judge answered, else 0.0, such as
        ``[("HotpotQA", 1.0), ("MS MARCO", 0.0)]``. A source is left out if its row has
        no question that can be asked so.
    """
    first_rows = _first_row_of_each_source(rows)
    padded_metric = _metric_of_probes(metric, _probes_about_padded_text, most_probes=1)
    samples = [row.sample for row in first_rows]
    results = ask_again(padded_metric, samples, _NO_REPETITION)
    answered: _SourcedValues = []
    for row, result in zip(first_rows, results, strict=True):
        evidence = getattr(result, "evidence", None)
        if isinstance(evidence, ProbeEvidence) and evidence.replies:
            (reply,) = evidence.replies
            is_answered = reply is not None  # else the judge refused the text
            answered.append((row.source, float(is_answered)))
    return answered


def _first_row_of_each_source(rows: Sequence[LabelledSample]) -> list[LabelledSample]:
    """Return the first row of each source, in order."""
    first_row_by_source: dict[str, LabelledSample] = {}
    for row in rows:
        first_row_by_source.setdefault(row.source, row)
    return list(first_row_by_source.values())


def _probes_about_padded_text(
    question: Question[Any], typed_form: TypedForm[Any]
) -> list[Probe]:
    """Return the first typed question of a question, about padded texts."""
    padded_state = _pad(typed_form.state(question))
    first_typed = list(typed_form.typed_questions(question))[:1]
    return [_probe(question, padded_state, first_typed)]


def _pad(state: State) -> Mapping[str, Any]:
    """Put half the padding before a state and half behind, so either may be cut."""
    half = _FILLER * (PADDED_CHARACTERS // 2 // len(_FILLER))
    return {"before": half, **state, "after": half}


# Figures


def _shares(measure: str, flags: _SourcedValues) -> Iterator[Measured]:
    """The share of flags that are 1.0, over all sources and for each, with Wilson's interval."""
    for source, flags_of_source in _values_by_source(flags).items():
        n_flags = len(flags_of_source)
        interval = wilson(round(sum(flags_of_source)), n_flags)
        yield Measured(measure, source, n_flags, fmean(flags_of_source), interval)


def _summaries(
    measure: str, values: _SourcedValues, summarise: Callable[[Iterable[float]], float]
) -> Iterator[Measured]:
    """Yield one number that sums up all sources, then one for each source."""
    for source, numbers in _values_by_source(values).items():
        yield Measured(measure, source, len(numbers), summarise(numbers), None)


def _values_by_source(values: _SourcedValues) -> dict[str | None, list[float]]:
    """Group values by source, and all of them under None."""
    values_by_source: dict[str | None, list[float]] = {}
    for source, value in values:
        values_by_source.setdefault(None, []).append(value)
        values_by_source.setdefault(source, []).append(value)
    return values_by_source
