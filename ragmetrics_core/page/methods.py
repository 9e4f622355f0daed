"""The methods paragraph of a report.

It says what was measured, how, and by which judge, with references.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files

from ragmetrics_core.data import EMBEDDED, SampleResult, unseen_worth
from ragmetrics_core.data.metric_evidence import ProbabilityFrom
from ragmetrics_core.reporting.judge_card import cell, figures_of_cards
from ragmetrics_core.reporting.run_facts import RunFacts, kind_of_judge
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.statistics.rater_agreement import Measured

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(
    files("ragmetrics_core.page").joinpath("methods.toml").read_text("utf-8")
)
_METRICS = _TEXTS["definitions"]
_REFERENCES = _TEXTS["references"]
_WHEN_A_CASCADE_ASKS_ITS_SECOND_JUDGE = _TEXTS["cascade"]["cascade"]

_QUOTED_MEASURES = ("AUROC", "balanced accuracy")
_ORIGINS: dict[ProbabilityFrom, str] = {
    "tokens": "the token of a verdict",
    "polls": "the share of polls",
    "typed questions": "typed questions",
}


def paragraphs(
    summary: Summary, run: RunFacts, rows: Iterable[SampleResult] = ()
) -> tuple[str, ...]:
    """Describe how the numbers of a report came about, for a paper or a protocol.

    A judge's card says how far the judge agreed with people, as measured on labelled
    samples. Example: a run of one metric, by a judge without a card, gives what was
    measured and how, the signature, and the references.

    Args:
        summary: The numbers.
        run: What is known of the run.
        rows: Its results, which say where probabilities come from.

    Returns:
        Paragraphs on metrics and intervals, on the worth of the judges (quoted from
        their cards), on the exact settings, and the references; without empty ones.
    """
    sentences = [
        *_sentences_on_metrics(summary, run, rows),
        *_sentences_on_intervals(summary),
    ]
    text = " ".join(sentences)
    worth_of_judges = " ".join(quotes_of_cards(run))
    signatures = "; ".join(map(str, run.metrics.values()))
    settings = f"Signatures: {signatures}." if signatures else ""
    references = " ".join(_references_cited_in(text))
    every_paragraph = (text, worth_of_judges, settings, references)
    return tuple(paragraph for paragraph in every_paragraph if paragraph)


def _references_cited_in(text: str) -> list[str]:
    """The references whose citation, such as "Wilson 1927", stands in a text."""
    return [
        reference for citation, reference in _REFERENCES.items() if citation in text
    ]


# The report says where the probabilities of these kinds of judges come from: chat
# models, and models that answer typed questions.
_KINDS_WITH_PROBABILITIES = ("model", "typed")


def _sentences_on_metrics(
    summary: Summary, run: RunFacts, rows: Iterable[SampleResult]
) -> Iterator[str]:
    """Yield sentences on what was measured, by which judge and how.

    For each metric of this package a sentence says what it measures. The user's own
    metrics are only named: "Also measured: politeness." So are metrics that failed on
    every row: "Failed on every row that it applies to: context_recall."
    """
    only_failed = [
        numbers.metric for numbers in summary.metrics if _has_only_failed(numbers)
    ]
    names = [
        numbers.metric for numbers in summary.metrics if not _has_only_failed(numbers)
    ]
    kinds = _kinds_of_judges(run)
    yield _sentence_on_judges(summary, run)
    for name in _METRICS:
        if name in names:
            yield f"{_definition(name, run)}."
    if "cascade" in kinds:
        yield f"{_WHEN_A_CASCADE_ASKS_ITS_SECOND_JUDGE}."
    own_metrics = [name for name in names if name not in _METRICS]
    if own_metrics:
        yield f"Also measured: {', '.join(own_metrics)}."
    if only_failed:
        yield f"Failed on every row that it applies to: {', '.join(only_failed)}."
    # where the probabilities came from, such as the tokens of a verdict; only judges of
    # these kinds give any
    if any(kind in _KINDS_WITH_PROBABILITIES for kind in kinds):
        yield from _sentences_on_origins(rows)


def _has_only_failed(numbers: MetricSummary) -> bool:
    """Whether a metric failed on every row that it applies to."""
    return bool(numbers.failed) and numbers.count == 0


def _sentence_on_judges(summary: Summary, run: RunFacts) -> str:
    """Say how many samples were evaluated, with which version and by which judges."""
    judges = ", ".join(run.judges) or "not recorded"
    if summary.usage.models:
        judges += f" (returned as {', '.join(summary.usage.models)})"
    version = run.version or "of unknown version"
    return (
        f"{summary.judged} samples were evaluated with ragmetrics {version}; the judge"
        f" was {judges}."
    )


def _definition(name: str, run: RunFacts) -> str:
    """What a metric measures, as each kind of judge of the run measures it.

    Example: with a model as judge and 5 polls the definition ends with ", 5 polls at
    most".
    """
    settings = run.metrics[name].settings if name in run.metrics else {}
    polls = settings.get("polls")
    by_kind = []
    for kind in _kinds_of_judges(run):
        if kind == "cascade":
            continue
        definition = _definition_for_kind(name, kind, settings)
        if kind == "model" and polls:
            definition += f", {polls} polls at most"
        by_kind.append(definition)
    return ". ".join(dict.fromkeys(by_kind))


def _definition_for_kind(name: str, kind: str, settings: Mapping[str, str]) -> str:
    """Look up the definition of a metric for one kind of judge and the metric's settings.

    Example: for "context_adherence" and "words", a score "of how much of the answer's
    wording stands in the contexts".

    Args:
        name: Name of the metric.
        kind: The kind of judge: "words" for the embedded judge, which compares words;
            else a kind of model, such as "model" or "encoder".
        settings: The metric's settings, as its signature names them.
    """
    compares_words = kind == "words"
    definitions = _TEXTS.get(_table_of_definitions(kind, settings), {})
    definition = definitions.get(name, _METRICS[name])
    # "; where the embedded judge split the reference itself, the mean of …"
    how_facts_are_split = _TEXTS["split"].get(name, "") if compares_words else ""
    return definition + how_facts_are_split


def _table_of_definitions(kind: str, settings: Mapping[str, str]) -> str:
    """The table of ``methods.toml`` with the definitions for one kind of judge."""
    if settings.get("relevance") == "probability":
        return "expected_words" if kind == "words" else "expected"
    return kind


def _sentences_on_origins(rows: Iterable[SampleResult]) -> Iterator[str]:
    """Yield for each metric and judge how many probabilities come from each origin.

    For example "Probabilities of context_recall by gpt: 40 from the token of a
    verdict."
    """
    counts_by_metric_and_judge: defaultdict[
        tuple[str, str], Counter[ProbabilityFrom]
    ] = defaultdict(Counter)
    for row in rows:
        for metric, result in row.results.items():
            # The embedded judge compares words, without a model: no probabilities.
            may_have_probabilities = result.judge != EMBEDDED
            if result.evidence is not None and may_have_probabilities:
                counts_by_metric_and_judge[metric, result.judge].update(
                    result.evidence.probabilities_from()
                )
    for (metric, judge), counts in counts_by_metric_and_judge.items():
        is_typed = bool(counts["typed questions"])
        if metric == "context_adherence" and not is_typed:
            continue  # the page's definition of polled adherence has said the origin
        parts = [
            f"{counts[origin]} from {words}"
            for origin, words in _ORIGINS.items()
            if counts[origin]
        ]
        if parts:
            yield f"Probabilities of {metric} by {judge}: {', '.join(parts)}."


def _kinds_of_judges(run: RunFacts) -> tuple[str, ...]:
    """List the kinds of a run's judges, such as "words" or "model", each once."""
    kinds: dict[str, None] = {}
    for judge in run.judges:
        kinds |= dict.fromkeys(_kinds_of_judge(judge, run.details.get(judge, {})))
    return tuple(kinds) or ("model",)


def _kinds_of_judge(judge: str, details: Mapping[str, str]) -> tuple[str, ...]:
    """List the kinds of one judge; a cascade has the kinds of both its judges, too."""
    if judge == EMBEDDED:
        return ("words",)
    if not judge.startswith("cascade("):
        return (kind_of_judge(details),)
    # The settings of a cascade's judges begin with their roles.
    cheap_judge = judge.removeprefix("cascade(").partition(",")[0]
    cheap_settings = _settings_of_role("cheap", details)
    strong_settings = _settings_of_role("strong", details)
    kinds_of_cheap_judge = _kinds_of_judge(cheap_judge, cheap_settings)
    return ("cascade", *kinds_of_cheap_judge, kind_of_judge(strong_settings))


def _settings_of_role(role: str, details: Mapping[str, str]) -> dict[str, str]:
    """The settings of one judge of a cascade."""
    return {
        setting.removeprefix(f"{role} "): value
        for setting, value in details.items()
        if setting.startswith(f"{role} ")
    }


def _sentences_on_intervals(summary: Summary) -> Iterator[str]:
    """Say by which methods the intervals of the means were made.

    Then say of how many scores the judge was uncertain, and how many results the means
    leave out. Example: "The judge is uncertain of 3 of 40 scores of context_adherence."
    """
    methods = dict.fromkeys(
        numbers.interval.method for numbers in summary.metrics if numbers.interval
    )
    if methods:
        yield f"Intervals are at 95 % for the {summary.caption}; method: {'; '.join(methods)}."
    for numbers in summary.metrics:
        if numbers.uncertain:
            yield (
                f"The judge is uncertain of {numbers.uncertain} of {numbers.count}"
                f" scores of {numbers.metric}."
            )
    n_without_score = 0
    for numbers in summary.metrics:
        n_without_score += sum(numbers.undefined.values())
        n_without_score += sum(numbers.failed.values())
    if n_without_score:
        yield (
            f"Undefined and failed results ({n_without_score}) stand outside the means"
            " and are counted."
        )


def quotes_of_cards(run: RunFacts) -> list[str]:
    """Say of each judge of a run how well it agrees with people.

    The figures are those of the judge's card, where its agreement with people's labels
    was measured.
    """
    sentences = []
    for judge in run.judges:
        phrases = _measured_agreement(judge, run)
        if not phrases:
            phrases.append(
                "how well it agrees with people is not measured (ragmetrics card)"
            )
        sentences.append(f"{judge}, against labels of people: {'; '.join(phrases)}.")
    return sentences


def _measured_agreement(judge: str, run: RunFacts) -> list[str]:
    """Quote the judge's card for each metric of the run; empty if no card fits."""
    phrases = []
    for signature, card_figures in figures_of_cards(judge, run).items():
        agreement = _means_over_sources(card_figures.figures)
        phrases.append(f"{signature.metric} {agreement}")
        if judge == EMBEDDED and signature.metric == "context_adherence":
            # its weights were fitted on the card's sources: add the worth on others
            phrases.append(unseen_worth())
    return phrases


def _means_over_sources(figures: Iterable[Measured]) -> str:
    """The two figures of a card that are quoted, as means over its sources."""
    cells = [
        f"{figure.measure} {cell(figure)} sources".replace(" n=", ", mean over ")
        for figure in figures
        if figure.source is None and figure.measure in _QUOTED_MEASURES
    ]
    return ", ".join(cells) or "one class only"
