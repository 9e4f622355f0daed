"""Measures a judge on labelled samples: how well it agrees with people, and what sways it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ragmetrics_core.data import (
    EMBEDDED,
    FactMatrix,
    JudgedChunks,
    MetricResult,
    Sample,
    Signature,
    Usage,
    wilson,
)
from ragmetrics_core.data.errors import InputError, JudgeUnavailable
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.labelling.edits import EDITS, ORDERS, add_order, edit_answer
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.labelling.typed_weaknesses import measure_weaknesses
from ragmetrics_core.metrics.citation_quality import (
    CitationEvidence,
    CitationQuality,
)
from ragmetrics_core.metrics.context_adherence import (
    AdherenceEvidence,
    ContextAdherence,
)
from ragmetrics_core.metrics.context_recall import ContextRecall
from ragmetrics_core.metrics.context_utilization import ContextUtilization
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import MemoryStore, StoreLike
from ragmetrics_core.reporting.judge_card import CASCADED, Card
from ragmetrics_core.statistics.deciding import Reach, measure_reach
from ragmetrics_core.statistics.rater_agreement import (
    Labelled,
    Measured,
    auroc,
    human_kappa,
    measure_all,
    measures,
    spearman,
)
from ragmetrics_core.statistics.weakest_claim import (
    ClaimCorrection,
    WeakestClaim,
    describe_judge,
    fit_correction,
    shares_rejected,
)

ASKING: dict[str, type[Metric]] = {
    "relevant": ContextUtilization,
    "adherent": ContextAdherence,
    "other": ContextRecall,
    "present": RetrievalAccuracy,
    "supported": CitationQuality,
}
"""The metric that asks each question."""

LabelledSamples = Sequence[LabelledSample]
Ask = Callable[[Metric, Sequence[Sample], int], Sequence[MetricResult]]
"""Gives a result per sample; a number above 0 is that of an independent repetition.

The stored replies of one repetition are not those of another.
"""

_PLAIN_RULE = "weakest claim"
_CORRECTED_RULE = "weakest claim, corrected"

Observation = tuple[str, str, bool]
"""Name of a measure, source of a sample, and whether what it names holds there."""


def asking(
    judge: JudgeLike,
    *,
    store: StoreLike = None,
    limits: Limits | None = None,
    concurrency: int = 32,
    progress: Show = False,
) -> Ask:
    """A way to ask one judge everything, within common limits.

    Arguments are those of ``evaluate``.

    The function that is returned raises ``JudgeUnavailable`` if a limit or a judge that
    answers no more ends the run early, because a card needs all verdicts.
    """
    budget = Budget(limits)

    def ask(
        metric: Metric, samples: Sequence[Sample], repetition_number: int
    ) -> Sequence[MetricResult]:
        judge_of_run = judge
        store_of_run = store
        if repetition_number:
            repetition = _repetition(resolve_judge(judge), repetition_number)
            if repetition is None:
                # an empty store, so that no reply of an earlier repetition is taken
                store_of_run = MemoryStore()
            else:
                judge_of_run = repetition
        run = Run([metric], judge_of_run, concurrency, store_of_run, budget)
        run.check_prices()
        rows = list(stream(run, samples, progress=progress, columns={}))
        if run.interrupted:
            raise KeyboardInterrupt
        if run.stopped:
            raise JudgeUnavailable(
                f"not all was judged, and a part makes no card: {run.stopped}"
            )
        return [row.results[metric.name] for row in rows]

    return ask


def _repetition(judge: Judge, number: int) -> Judge | None:
    """The same judge whose stored replies are those of an independent repetition.

    So a card that is made anew does not pay twice for what it asks twice. None for a
    judge of which no repetition can be told from the first replies.
    """
    if isinstance(judge, ModelJudge):
        return replace(judge, replicate=judge.replicate + number)
    if isinstance(judge, CascadeJudge):
        parts = [_repetition(part, number) for part in (judge.cheap, judge.strong)]
        if None not in parts:
            return judge.with_parts(lambda part: _repetition(part, number) or part)
    return judge if judge.free else None


def judge_samples(
    ask: Ask, metric: Metric, labelled: LabelledSamples, *, again: bool = False
) -> list[LabelledSample]:
    """Have a judge score labelled samples.

    Args:
        ask: The judge, from ``asking``.
        metric: The metric whose question the labels answer.
        labelled: The samples, all of one question.
        again: Whether stored replies are left aside, so that the judge answers anew.

    Returns:
        The same samples in the same order, each with the judge's result and verdicts,
        and what they cost. Where two answers are compared, the result is that of the
        sample itself, and the cost is that of both.
    """
    results = ask(metric, [row.sample for row in labelled], again)
    rivals = [row.other for row in labelled if row.other is not None]
    rival_results = iter(ask(metric, rivals, again) if rivals else ())
    judged_rows = []
    for row, result in zip(labelled, results, strict=True):
        rival_result = next(rival_results) if row.other is not None else None
        verdicts = tuple(_verdicts(row, result, rival_result))
        usage = result.usage
        if rival_result is not None:
            usage += rival_result.usage
        judged_rows.append(replace(row, result=result, usage=usage, verdicts=verdicts))
    return judged_rows


def measure_judge(
    judge: JudgeLike,
    labelled: LabelledSamples,
    ask: Ask,
    *,
    draws: int = 500,
    metrics: Iterable[Metric] = (),
) -> Card:
    """Measure a judge on labelled samples and return its card.

    Args:
        judge: The judge, for its name, version and settings.
        labelled: The samples, of one or several questions.
        ask: The same judge, from ``asking``.
        draws: How many bootstrap resamples the intervals rest on. Intervals of shares
            are Wilson's and need none.
        metrics: Metrics with settings of their own, each in place of the shipped one of
            its class, which has the settings that are usual.

    Raises:
        InputError: If the judge scored nothing: an empty card would pass for a
            measurement.
    """
    asking_metrics = _asking_metrics(labelled, metrics)
    run = Run([*asking_metrics.values()], judge, 1, MemoryStore())
    by_question: dict[str, _MeasuredQuestion] = {}
    for question, metric in asking_metrics.items():
        of_question = [row for row in labelled if row.question == question]
        rows, seconds = _judge_and_time(run.judges[0], ask, metric, of_question)
        if question == "adherent":
            measured = _measure_adherence(run.judges[0], ask, metric, rows, draws=draws)
        else:
            measured = _measure_question(ask, metric, rows, draws=draws)
        figures = list(_spent(rows, seconds))
        if isinstance(run.judges[0], DecisionJudge):
            figures += measure_weaknesses(question, metric, rows, ask)
        by_question[question] = measured.with_figures(figures)
    all_rows: list[LabelledSample] = []
    for measured in by_question.values():
        all_rows += measured.rows
    _refuse_nothing_scored(run.facts.judges[0], all_rows)
    signatures = {name: metric.signature for name, metric in asking_metrics.items()}
    return _card(run, signatures, by_question)


@dataclass(frozen=True, slots=True)
class _MeasuredQuestion:
    """What a judge is worth on one question.

    Args:
        rows: The labelled samples with its verdicts.
        figures: What was measured.
        correction: Of adherence, the correction for the number of claims.
        notes: Of adherence, what a reader must know of that correction.
    """

    rows: tuple[LabelledSample, ...]
    figures: tuple[Measured, ...] = ()
    correction: ClaimCorrection | None = None
    notes: tuple[str, ...] = ()

    def with_figures(self, more: Iterable[Measured]) -> "_MeasuredQuestion":
        """The same with more figures."""
        return replace(self, figures=(*self.figures, *more))


def _card(
    run: Run,
    signatures: dict[str, Signature],
    by_question: Mapping[str, _MeasuredQuestion],
) -> Card:
    """The card of what was measured."""
    adherence = by_question.get("adherent", _MeasuredQuestion(()))
    return Card(
        judge=run.facts.judges[0],
        details=run.judges[0].details,
        version=run.facts.version,
        made=run.facts.started,
        signatures=signatures,
        figures={
            question: _drop_undefined(measured.figures)
            for question, measured in by_question.items()
        },
        decided=_find_reach(by_question),
        notes=adherence.notes,
        claim_correction=adherence.correction,
    )


def _asking_metrics(
    labelled: LabelledSamples, metrics: Iterable[Metric]
) -> dict[str, Metric]:
    """The metric that asks each question that is labelled."""
    questions = {row.question for row in labelled}
    own_metrics = {type(metric): metric for metric in metrics}
    return {
        question: own_metrics.get(kind) or kind()
        for question, kind in ASKING.items()
        if question in questions
    }


def _measure_question(
    ask: Ask, metric: Metric, rows: LabelledSamples, *, draws: int
) -> _MeasuredQuestion:
    """How well a judge agrees with labels, and how often it gives no verdict."""
    figures = _agreement(rows, draws=draws)
    figures += _shares(_outcomes(ask, metric, rows))
    return _MeasuredQuestion(tuple(rows), tuple(figures))


def _measure_adherence(
    judge: Judge, ask: Ask, metric: Metric, rows: LabelledSamples, *, draws: int
) -> _MeasuredQuestion:
    """The same, with what sways the judge, and what its weakest claims reject."""
    plain = _measure_question(ask, metric, rows, draws=draws)
    answers = _weakest_claims(rows) if judge.takes_correction else []
    rejections = tuple(_measure_rejection(answers))
    swayed = _shares(_observe_swaying(ask, metric, rows))
    return replace(
        plain.with_figures([*swayed, *rejections]),
        correction=_correction_of(judge, answers),
        notes=tuple(_both_sides_of_the_correction(rejections)),
    )


def _find_reach(
    by_question: Mapping[str, _MeasuredQuestion],
) -> dict[str, tuple[Reach, ...]]:
    """What the judge may decide alone, of the questions that a cascade asks."""
    decided_alone: dict[str, tuple[Reach, ...]] = {}
    for question, measured in by_question.items():
        verdicts = _verdicts_with_probability(measured.rows)
        if question in CASCADED and verdicts:
            decided_alone[question] = measure_reach(verdicts)
    return decided_alone


def _judge_and_time(
    judge: Judge, ask: Ask, metric: Metric, labelled: LabelledSamples
) -> tuple[list[LabelledSample], float]:
    """Have a judge score samples, and take the seconds that it needs."""
    # What else the machine does is no time of a judge that computes on it.
    clock = time.process_time if judge.free else time.monotonic
    started = clock()
    rows = judge_samples(ask, metric, labelled)
    return rows, clock() - started


def _verdicts_with_probability(rows: LabelledSamples) -> list[Labelled]:
    """The verdicts on rows; an empty list if the judge gave no probability for one."""
    verdicts: list[Labelled] = []
    for row in rows:
        verdicts += row.verdicts
    if any(verdict.verdict is None for verdict in verdicts):
        return []
    return verdicts


def _refuse_nothing_scored(judge_name: str, rows: LabelledSamples) -> None:
    if any(row.verdicts for row in rows):
        return
    reason = next(row.result.reason for row in rows if row.result)
    raise InputError(
        f"{judge_name} scored none of {len(rows)} samples, which makes no card:"
        f" {reason}"
    )


def _drop_undefined(figures: Iterable[Measured]) -> tuple[Measured, ...]:
    return tuple(figure for figure in figures if figure.value is not None)


def _agreement(rows: LabelledSamples, *, draws: int) -> list[Measured]:
    """How well the judge agrees with the labels, and people with each other."""
    scored = [row for row in rows if row.verdicts]
    verdicts = [row.verdicts for row in scored]
    votes = [[Labelled(0, row.people, row.source)] for row in scored]
    of_judge = measure_all(verdicts, _MEASURES, draws=draws)
    of_people = measure_all(votes, {"kappa of people": human_kappa}, draws=draws)
    return [*of_judge, *of_people]


def _spent(rows: LabelledSamples, seconds: float) -> Iterator[Measured]:
    """Time, calls and money per 1,000 samples.

    Nothing if any reply came from the store: then neither time nor money is known.
    """
    usage = Usage()
    for row in rows:
        usage += row.usage
    if usage.stored:
        return
    spent_by_unit = {
        "seconds": seconds,
        "calls": usage.calls,
        "US dollars": usage.cost,
    }
    for unit, spent in spent_by_unit.items():
        if spent is None:  # nobody knows the price
            continue
        per_thousand = 1000 * spent / len(rows)
        yield Measured(f"{unit} per 1,000 samples", None, len(rows), per_thousand, None)


def _verdicts(
    row: LabelledSample, result: MetricResult, rival_result: MetricResult | None
) -> Iterator[Labelled]:
    """The judge's score of each label of a sample; nothing where a result has no score.

    Each carries minus the length of the text that it is about as its rival's score: a
    rival judge that likes short texts.
    """
    if result.value is None:
        return
    if row.other is not None:
        if rival_result is not None and rival_result.value is not None:
            yield _preference(row, result.value, rival_result.value)
        return
    evidence = result.evidence
    if isinstance(evidence, JudgedChunks):
        yield from _of_chunks(row, evidence)
    elif isinstance(evidence, FactMatrix):
        yield from _of_facts(row, evidence)
    elif isinstance(evidence, CitationEvidence):
        yield _of_citations(row, evidence)
    else:
        says = None
        if isinstance(evidence, AdherenceEvidence) and evidence.probability is not None:
            # Of a judge that gives a probability the verdict is its own.
            says = evidence.yes > 0
        length = len(row.sample.answer or "")
        for label in row.labels:
            yield _verdict(row, result.value, label, length, says)


def _preference(row: LabelledSample, score: float, rival_score: float) -> Labelled:
    """Which of two answers is better: a score above one half is for the second."""
    second = row.other.answer if row.other is not None else None
    extra_length = len(second or "") - len(row.sample.answer or "")
    (label,) = row.labels
    return _verdict(row, (1 + rival_score - score) / 2, label, extra_length)


def _of_chunks(row: LabelledSample, evidence: JudgedChunks) -> Iterator[Labelled]:
    """A verdict per context: is it useful?"""
    contexts = row.sample.contexts
    for chunk, context, label in zip(
        evidence.chunks, contexts, row.labels, strict=True
    ):
        length = len(context.text)
        if chunk.probability is None:
            yield _verdict(row, float(bool(chunk.useful)), label, length)
        else:
            yield _verdict(row, chunk.probability, label, length, chunk.useful)


def _of_citations(row: LabelledSample, evidence: CitationEvidence) -> Labelled:
    """Is all of the answer supported by what it cites? Its weakest sentence decides."""
    weakest = min(
        statement.support for statement in evidence.statements if statement.claims
    )
    is_supported = evidence.supported == evidence.claims
    (label,) = row.labels
    length = len(row.sample.answer or "")
    return _verdict(row, weakest, label, length, is_supported)


def _of_facts(row: LabelledSample, evidence: FactMatrix) -> Iterator[Labelled]:
    """A verdict per fact: is it present in any context?"""
    facts = [fact.text for fact in row.sample.facts or ()]
    label_by_fact = dict(zip(facts, row.labels, strict=True))
    for fact, cells in zip(evidence.facts, evidence.cells, strict=True):
        score = max(cell.probability or 0.0 for cell in cells)
        yield _verdict(row, score, label_by_fact[fact.text], len(fact.text))


def _verdict(
    row: LabelledSample,
    score: float,
    label: bool,
    length: int,
    says: bool | None = None,
) -> Labelled:
    return Labelled(score, (label,), row.source, -length, row.sample.id or "-", says)


def _follows_length(rows: Sequence[Labelled]) -> float | None:
    """Spearman's ρ of score and length among texts of one label, mean of both labels.

    None if neither label has three texts of different lengths and scores.
    """
    correlations = []
    for label in (True, False):
        pairs = [(row.score, -(row.rival or 0.0)) for row in rows if row.yes is label]
        correlation = spearman(pairs) if len(pairs) > 2 else None
        if correlation is not None:
            correlations.append(correlation)
    return fmean(correlations) if correlations else None


def _is_constant(rows: Sequence[Labelled]) -> float:
    """1.0 if the judge gives one verdict on all rows; kappa and MCC are 0 then."""
    return float(len({row.says() for row in rows}) == 1)


def _shortness_auroc(rows: Sequence[Labelled]) -> float | None:
    """How well labels follow from the length of the text alone."""
    return auroc([(row.rival or 0.0, row.yes) for row in rows])


_CARD_MEASURES = (
    "AUROC",
    "balanced accuracy",
    "kappa",
    "MCC",
    "Brier",
    "slope",
    "intercept",
    "calibration error",
    "prevalence",
)
_MEASURES = {name: measures(0.5)[name] for name in _CARD_MEASURES} | {
    "one verdict throughout": _is_constant,
    "AUROC of shortness alone": _shortness_auroc,
    "correlation with length": _follows_length,
}


def _weakest_claims(rows: LabelledSamples) -> list[WeakestClaim]:
    """The weakest claim of each answer, of a judge that judges claims by themselves."""
    answers: list[WeakestClaim] = []
    for row in rows:
        evidence = getattr(row.result, "evidence", None)
        if not isinstance(evidence, AdherenceEvidence):
            continue
        probabilities = [
            claim.probability
            for claim in evidence.claims
            if claim.probability is not None
        ]
        if probabilities:
            weakest = min(probabilities)
            answers.append(
                WeakestClaim(weakest, len(probabilities), row.labels[0], row.source)
            )
    return answers


def _correction_of(
    judge: Judge, answers: Sequence[WeakestClaim]
) -> ClaimCorrection | None:
    """The correction for the number of claims, which names the judge that it is for."""
    correction = fit_correction(answers)
    if correction is None:
        return None
    return replace(correction, fitted_for=describe_judge(judge.name, judge.details))


def _measure_rejection(answers: Sequence[WeakestClaim]) -> Iterator[Measured]:
    """What is rejected with and without the correction for the number of claims.

    The correction of a source is fitted on the others; of a single source on itself.
    """
    sources = dict.fromkeys(answer.source for answer in answers)
    by_measure: dict[str, list[float]] = {}
    for source in sources:
        of_source = [answer for answer in answers if answer.source == source]
        of_others = [answer for answer in answers if answer.source != source]
        correction = fit_correction(of_others or of_source)
        rules = {_PLAIN_RULE: None, _CORRECTED_RULE: correction}
        for rule, applied in rules.items():
            if rule == _CORRECTED_RULE and correction is None:
                continue
            shares = shares_rejected(of_source, applied)
            for label, share in zip(("supported", "unsupported"), shares, strict=True):
                if share is not None:
                    measure = _name_of_rejection(label, rule)
                    by_measure.setdefault(measure, []).append(share)
    for measure, values in by_measure.items():
        yield Measured(measure, None, len(values), fmean(values), None)


def _name_of_rejection(label: str, rule: str) -> str:
    return f"rejected of {label} answers by the {rule}"


def _both_sides_of_the_correction(rejections: Sequence[Measured]) -> Iterator[str]:
    """What the correction for the number of claims gives back, and what it lets pass.

    Nothing where the rows do not show both.
    """
    shares = {figure.measure: figure.value for figure in rejections}
    changes = []
    for label in ("supported", "unsupported"):
        plain = shares.get(_name_of_rejection(label, _PLAIN_RULE))
        corrected = shares.get(_name_of_rejection(label, _CORRECTED_RULE))
        if plain is None or corrected is None:
            return
        changes.append(f"of {label} answers from {plain:.2f} to {corrected:.2f}")
    yield (
        "The correction for the number of claims changes the share that is rejected"
        f" {' and '.join(changes)}: fewer good answers are lost, and more false ones"
        " may pass."
    )


def _outcomes(ask: Ask, metric: Metric, rows: LabelledSamples) -> Iterator[Observation]:
    """Whether samples had no score, and why; whether verdicts repeat when asked again."""
    rows_again = judge_samples(ask, metric, rows, again=True)
    for row, row_again in zip(rows, rows_again, strict=True):
        outcome = getattr(row.result, "status", "")
        if getattr(row.result, "code", "") == "abstained":
            outcome = "abstained"
        for name in ("abstained", "undefined", "failed"):
            yield name, row.source, outcome == name
        if row.says:
            yield "same when asked again", row.source, row.says == row_again.says


def _observe_swaying(
    ask: Ask, metric: Metric, rows: LabelledSamples
) -> Iterator[Observation]:
    """Whether the verdict changes when the sample does.

    It should change where a supported answer was made wrong ("caught"). It should not
    where a context gives the judge orders, or the contexts stand in another order
    ("flipped").
    """
    changed: list[tuple[str, LabelledSample, Sample]] = []
    for place, row in enumerate(rows):
        if row.result is None or not row.verdicts:
            continue
        if row.result.judge in EMBEDDED:
            yield "uncertain", row.source, row.result.uncertain
        # A name of its own for each changed sample, by which a judge's draws differ.
        name = f"row {place}" if row.sample.id is None else row.sample.id
        for measure, sample in _changes(row):
            named = sample.model_copy(update={"id": f"{name} | {measure}"})
            changed.append((measure, row, named))
    changed_rows = [replace(row, sample=sample) for _, row, sample in changed]
    judged_rows = judge_samples(ask, metric, changed_rows)
    for (measure, row, _), changed_row in zip(changed, judged_rows, strict=True):
        # A judge that loses its verdict is swayed, but has caught nothing.
        if changed_row.says or measure.startswith("flipped"):
            yield measure, row.source, row.says != changed_row.says
    if not all(row.says for row in judged_rows):
        for row in judged_rows:
            yield "no verdict after a change", row.source, not row.says


def _changes(row: LabelledSample) -> Iterator[tuple[str, Sample]]:
    """The sample after each change that is tried on it, with the measure of that."""
    sample = row.sample
    (says,) = row.says
    if says and row.labels[0]:  # only an answer that is accepted, and rightly so
        for kind in EDITS:
            answer = edit_answer(kind, sample)
            if answer is not None:
                yield f"caught: {kind}", sample.model_copy(update={"answer": answer})
    for kind in ORDERS:
        yield f"flipped: {kind}", add_order(kind, sample, says)
    if len(sample.contexts) > 1:
        turned = sample.model_copy(update={"contexts": sample.contexts[::-1]})
        yield "flipped: contexts reversed", turned


def _shares(observations: Iterable[Observation]) -> list[Measured]:
    """How often each measure holds, over all samples and per source."""
    flags_by_measure: dict[tuple[str, str | None], list[bool]] = {}
    for name, source, holds in observations:
        flags_by_measure.setdefault((name, None), []).append(holds)
        flags_by_measure.setdefault((name, source), []).append(holds)
    shares = []
    for (name, source_or_all), flags in flags_by_measure.items():
        interval = wilson(sum(flags), len(flags))
        shares.append(Measured(name, source_or_all, len(flags), fmean(flags), interval))
    return shares
