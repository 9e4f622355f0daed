"""The methods paragraph of a report.

It says what was measured, how, and by which judge, with references.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files

from ragmetrics_core.data import EMBEDDED, SampleResult, unseen_worth
from ragmetrics_core.data.metric_evidence import ProbabilityFrom
from ragmetrics_core.reporting.judge_card import cell, figures_of_cards
from ragmetrics_core.reporting.run_facts import RunFacts, kind_of_judge
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.rater_agreement import Measured

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(
    files("ragmetrics_core.page").joinpath("methods.toml").read_text("utf-8")
)
_METRICS, _COMBINATIONS, _REFERENCES = (
    _TEXTS[name] for name in ("definitions", "combinations", "references")
)

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

    The paragraphs are on metrics and intervals, on what is known of the judges' worth,
    on the exact settings, and the references. Empty ones are left out.

    Args:
        summary: The numbers.
        run: What is known of the run.
        rows: Its results, which say where probabilities come from.
    """
    sentences = [
        *_sentences_on_metrics(summary, run, rows),
        *_sentences_on_intervals(summary),
    ]
    text = " ".join(sentences)
    # a key is a citation, such as "Wilson 1927", that the sentences may hold
    references = [reference for key, reference in _REFERENCES.items() if key in text]
    signatures = "; ".join(map(str, run.metrics.values()))
    paragraphs_with_gaps = [
        text,
        " ".join(quotes_of_cards(run)),
        f"Signatures: {signatures}." if signatures else "",
        " ".join(references),
    ]
    return tuple(filter(None, paragraphs_with_gaps))


# Kinds of judges of which the report says where their probabilities come from: chat
# models, models that answer typed questions, and guard models.
_KINDS_WITH_PROBABILITIES = ("model", "typed", "guard")


def _sentences_on_metrics(
    summary: Summary, run: RunFacts, rows: Iterable[SampleResult]
) -> Iterator[str]:
    """Yield sentences on what was measured, by which judge and how.

    The metrics of this package are defined, the user's own are only named. Then come
    the metrics that failed on every row, and where the judges' probabilities come from.
    """
    names: list[str] = []
    only_failed: list[str] = []  # metrics that failed on every row
    for numbers in summary.metrics:
        if numbers.failed and not numbers.count:
            only_failed.append(numbers.metric)
        else:
            names.append(numbers.metric)
    kinds = _kinds_of_judges(run)
    yield _sentence_on_judges(summary, run)
    for name in _METRICS:
        if name in names:
            yield f"{_definition(name, run)}."
    if "cascade" in kinds:
        yield f"{_TEXTS['cascade']['cascade']}."
    own_metrics = [name for name in names if name not in _METRICS]
    if own_metrics:
        yield f"Also measured: {', '.join(own_metrics)}."
    if only_failed:
        yield f"Failed on every row that it applies to: {', '.join(only_failed)}."
    if any(kind in _KINDS_WITH_PROBABILITIES for kind in kinds):
        yield from _sentences_on_origins(rows, run)


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
    """What a metric measures, as each kind of judge of the run measures it."""
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

    The file ``methods.toml`` has a table of definitions for each kind of judge. Three
    settings of metrics have tables of their own, which come first. A metric that the
    table lacks has one definition for all kinds.

    Args:
        name: Name of the metric.
        kind: The kind of judge: "words" for the embedded judge, which compares words;
            else a kind of model, such as "model" or "encoder".
        settings: The metric's settings, as its signature names them.
    """
    compares_words = kind == "words"
    combination = settings.get("combination", "")
    if name == "retrieval_accuracy" and combination in _COMBINATIONS:
        table = "word_combinations" if compares_words else "combinations"
        return _TEXTS[table][combination]
    table = kind
    if settings.get("relevance") == "probability":
        table = "expected_words" if compares_words else "expected"
    elif kind == "model" and "verdict_tokens" in settings:
        table = "tokens"
    definition = _TEXTS.get(table, {}).get(name, _METRICS[name])
    if compares_words:
        # the embedded judge may split a reference into facts itself, which changes the score
        definition += _TEXTS["split"].get(name, "")
    return definition


def _sentences_on_origins(rows: Iterable[SampleResult], run: RunFacts) -> Iterator[str]:
    """Yield for each metric and judge how many probabilities come from each origin.

    The origin of a probability is the token of a verdict, the share of polls (the same
    question asked several times), or a model's answer to a typed question. Left out are
    the embedded judge, which gives no probabilities, and adherence by polls, whose
    definition names the origin.
    """
    counts_by_metric_and_judge: dict[tuple[str, str], Counter[ProbabilityFrom]] = {}
    for row in rows:
        for metric, result in row.results.items():
            # the embedded judge gives scores of words, and no probabilities
            if result.evidence is None or result.judge in EMBEDDED:
                continue
            counts = counts_by_metric_and_judge.setdefault(
                (metric, result.judge), Counter()
            )
            counts.update(result.evidence.probabilities_from())
    for (metric, judge), counts in counts_by_metric_and_judge.items():
        if metric == "context_adherence" and _is_adherence_polled(counts, run):
            continue  # the definition of adherence by polls says it already
        parts = [
            f"{counts[origin]} from {words}"
            for origin, words in _ORIGINS.items()
            if counts[origin]
        ]
        if parts:
            yield f"Probabilities of {metric} by {judge}: {', '.join(parts)}."


def _is_adherence_polled(counts: Counter[ProbabilityFrom], run: RunFacts) -> bool:
    """Whether adherence was judged by polls, as it is unless two things say otherwise.

    These are a judge of typed questions, and the setting to read the verdict's token.
    """
    if counts["typed questions"]:
        return False
    signature = run.metrics.get("context_adherence")
    return signature is None or "verdict_tokens" not in signature.settings


def _kinds_of_judges(run: RunFacts) -> tuple[str, ...]:
    """List the kinds of a run's judges, such as "words" or "model", each once."""
    kinds: dict[str, None] = {}
    for judge in run.judges:
        kinds |= dict.fromkeys(_kinds_of_judge(judge, run.details.get(judge, {})))
    return tuple(kinds) or ("model",)


def _kinds_of_judge(judge: str, details: Mapping[str, str]) -> tuple[str, ...]:
    """List the kinds of one judge; a cascade has the kinds of both its judges, too."""
    if judge in EMBEDDED:
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

    Further sentences say of how many scores the judge was uncertain, and how many
    undefined and failed results the means leave out.
    """
    methods = dict.fromkeys(
        numbers.interval.method for numbers in summary.metrics if numbers.interval
    )
    if methods:
        kind = "Intervals are at 95 %"
        # A run that stopped as soon as its gates were decided looked at its scores again
        # and again. Its numbers are bounds that stay true at each look.
        if summary.decisions:
            kind = "Bounds (Waudby-Smith & Ramdas 2024) are"
        yield f"{kind} for the {summary.caption}; method: {'; '.join(methods)}."
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

    A judge's card holds its agreement with people's labels, as it was measured. For each
    metric of the run the card's figures are quoted, with 95 % intervals. If no card fits
    the judge and its settings, the sentence says that nothing is measured. For judges
    that ship with the package, the agreement on sources not used in fitting is quoted
    as well.
    """
    sentences = []
    for judge in run.judges:
        phrases = []
        for signature, card_figures in figures_of_cards(judge, run).items():
            agreement = _means_over_sources(card_figures.figures)
            phrases.append(f"{signature.metric} {agreement}")
            # a judge of this package, which needs no model
            if judge in EMBEDDED and signature.metric == "context_adherence":
                # The judge's weights were fitted on the card's sources. So its agreement
                # with people on other sources is added.
                phrases.append(unseen_worth())
        if not phrases:
            phrases.append(
                "how well it agrees with people is not measured (ragmetrics card)"
            )
        sentences.append(f"{judge}, against labels of people: {'; '.join(phrases)}.")
    return sentences


def _means_over_sources(figures: Iterable[Measured]) -> str:
    """The two figures of a card that are quoted, as means over its sources."""
    cells = [
        f"{figure.measure} {cell(figure)} sources".replace(" n=", ", mean over ")
        for figure in figures
        if figure.source is None and figure.measure in _QUOTED_MEASURES
    ]
    return ", ".join(cells) or "one class only"
