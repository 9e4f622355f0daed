"""``ragmetrics card``: what a judge is worth on labelled rows; two prompts compared; the band of a cascade."""

import argparse
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.agreement import lines_on_rival
from ragmetrics_core.cli.options import add, command, positive, show
from ragmetrics_core.data import (
    EMBEDDED,
    SettingError,
    read_text,
    wilson,
    write_text,
)
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.labelling.measured_judges import (
    ASKING,
    Ask,
    LabelledSamples,
    asking,
    judge_samples,
    measure_judge,
)
from ragmetrics_core.labelling.published import (
    LabelledSample,
    inputs_of,
    read_labelled,
)
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import (
    NAMED_METRICS,
    full_name,
    metrics_with_settings,
)
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.models.urls import public_address
from ragmetrics_core.page.render import check_page, write_html
from ragmetrics_core.reporting.judge_card import (
    CASCADED,
    Card,
    cell,
    reach,
    too_few_rows,
)
from ragmetrics_core.statistics.deciding import (
    Reach,
    fewest_rows,
    reach_of_chosen_band,
    reach_on_sources_left_out,
)
from ragmetrics_core.statistics.rater_agreement import Labelled

_LONGEST_SETTING = 60
_SHIPPED = Path("shipped")
_BANDS = (
    "take adherence or utilization, and as cheap judge the embedded one or an encoder"
)


def add_to(commands: Any) -> None:
    """Add the command ``card``, which measures a judge, with its options.

    Example: ``ragmetrics card --judge lexical --data labelled/ --out card.json``.

    Args:
        commands: The commands of the command line (argparse), to which it is added.
    """
    parser = command(commands, "card", _card)
    shared.add_judge(parser)
    help_text = (
        "labelled rows, a file or a folder: our own form, LLM-AggreFact or RAGTruth;"
        " see docs/agreement.md"
    )
    add(parser, "--data", help_text, unit="DIR", convert=Path, required=True)
    add(
        parser,
        "--limit",
        "at most N samples per question and source, drawn at random with seed 0",
        unit="N",
        convert=positive,
    )
    help_text = (
        "only what this metric asks; by default everything labelled, but adherence if"
        " --template or --band is given"
    )
    add(parser, "--metric", help_text, unit="NAME")
    add(
        parser,
        "--set",
        "a setting of a metric, e.g. adherence.polls=3; may be repeated",
        unit="METRIC.SETTING=VALUE",
        default=[],
        action="append",
        dest="settings",
    )
    add(
        parser,
        "--out",
        "write the card as JSON; reports quote those in RAGMETRICS_CARDS",
        unit="CARD.json",
        convert=Path,
    )
    add(
        parser,
        "--html",
        "write the card as an HTML page",
        unit="CARD.html",
        convert=Path,
    )
    add(
        parser,
        "--draws",
        "bootstrap resamples (500)",
        unit="N",
        convert=positive,
        default=500,
    )
    alternatives = parser.add_argument_group(
        "instead of a card"
    ).add_mutually_exclusive_group()
    add(
        alternatives,
        "--template",
        "compare this prompt with another one on the same rows",
        unit="FILE",
        convert=Path,
    )
    help_text = (
        "propose the band of a cascade: outside it this judge is wrong on at most this"
        " share of the verdicts, on each source"
    )
    add(alternatives, "--band", help_text, unit="LOSS", convert=shared.share)
    add(
        parser,
        "--against",
        "with --template: a file with the other prompt, or shipped (the default)",
        unit="PROMPT",
        convert=Path,
    )
    shared.add_calls(parser)
    shared.add_settings(parser.add_argument_group("limits"), Limits)


def _card(options: argparse.Namespace) -> int:
    """Make a judge's card, compare two prompts, or propose the band of a cascade.

    A card says how well a judge does on samples that people have labelled. ``--template
    my.txt`` compares two prompts, ``--band 0.02`` proposes a band; without both, a card
    is made. With ``--dry-run`` the calls are only counted.

    Returns:
        The exit code, 0.
    """
    judge = chosen_judges.judge_from(options.judge, options)
    limits = shared.settings_from(options, Limits)
    _check(options, judge)
    samples = _labelled_samples(options)
    if options.dry_run:
        return _count_calls(options, judge, samples)
    ask = asking(
        judge,
        store=shared.store(options),
        limits=limits,
        concurrency=options.concurrency,
        progress=options.progress,
    )
    lines = _measure_and_report(options, judge, samples, ask)
    show(*lines)
    return 0


def _makes_card(options: argparse.Namespace) -> bool:
    """Tell whether a card is made, and neither prompts compared nor a band proposed."""
    return options.template is None and options.band is None


def _measure_and_report(
    options: argparse.Namespace, judge: Judge, samples: LabelledSamples, ask: Ask
) -> list[str]:
    """Do what the options ask for, and return the lines to print.

    Args:
        options: What was typed.
        judge: The judge that a card describes.
        samples: The labelled samples.
        ask: Scores samples by that judge; in a dry run by one that counts its calls.
    """
    if _makes_card(options):
        return _make_card(options, judge, samples, ask)
    if options.template:
        return _two_prompts(options, samples, ask)
    return _propose_band(options, samples, ask)


def _count_calls(
    options: argparse.Namespace, judge: Judge, samples: LabelledSamples
) -> int:
    """Print how many calls of the judge the command would make; return exit code 0."""

    def do_work(counting_judge: Judge) -> object:
        """Do all the work, but ask a judge that counts, and replies with examples."""
        return _measure_and_report(options, judge, samples, asking(counting_judge))

    more = _calls_of_card_not_counted(judge) if _makes_card(options) else ""
    return chosen_judges.dry_run(judge, len(samples), "samples", do_work, more)


def _calls_of_card_not_counted(judge: Judge) -> str:
    """Say which calls of a card a dry run leaves out of its count.

    A card asks each sample again, to see how often the verdict is the same. A judge
    that answers true-or-false questions and choices ("typed" questions) is also asked
    each of them alone, to see whether its answers depend on the others.
    """
    note = "\nNot counted: each sample is asked once more."
    if isinstance(judge, DecisionJudge):
        note += " Each of its typed questions is also asked alone."
    return note


def _labelled_samples(options: argparse.Namespace) -> LabelledSamples:
    """Read the labelled samples; of one metric alone for --metric, --template, --band."""
    samples: LabelledSamples = read_labelled(options.data, options.limit)
    metric = options.metric or (None if _makes_card(options) else "adherence")
    if metric is None:
        return samples
    kind = NAMED_METRICS.get(full_name(metric))
    samples = [sample for sample in samples if ASKING[sample.question] is kind]
    if not samples:
        raise SettingError(
            f"nothing is labelled for {metric}; --metric names another metric"
        )
    return samples


def _metrics_to_measure(
    samples: LabelledSamples, options: argparse.Namespace
) -> Sequence[Metric]:
    """Return the metrics that ask what the samples are labelled for, with ``--set``."""
    kinds = {ASKING[sample.question] for sample in samples}
    names = [name for name, kind in NAMED_METRICS.items() if kind in kinds]
    return metrics_with_settings(names, options.settings)


def _check(options: argparse.Namespace, judge: Judge) -> None:
    """Refuse options that do not go together, or a page that cannot be written.

    Raises:
        SettingError: If there is such an option.
    """
    if options.against and not options.template:
        raise SettingError(
            "--against names the other prompt; the first one is --template FILE"
        )
    if (options.out or options.html) and not _makes_card(options):
        raise SettingError(
            "--out and --html are for a card; what --template and --band find is"
            " printed"
        )
    if options.template and options.settings:
        raise SettingError(
            "--set goes with a card or a band; --template compares prompts with the"
            " usual settings"
        )
    if options.template and judge.name == EMBEDDED:
        raise SettingError(
            "the embedded judge reads no prompt; name a model: --judge gpt-4o-mini"
        )
    if options.html:
        check_page(options.html)


def _make_card(
    options: argparse.Namespace, judge: Judge, samples: LabelledSamples, ask: Ask
) -> list[str]:
    """Measure a judge, write its card to the files that were named, and sum it up.

    A dry run writes no file. Example: ``--out card.json`` writes the card there, and
    the last line is "Card: card.json".

    Args:
        options: What was typed.
        judge: The judge.
        samples: The labelled samples that it is measured on.
        ask: Asks the judge; in a dry run it only counts.

    Returns:
        Lines with the figures over all sources, and with the files that the card is
        written to, or would be without ``--dry-run``.
    """
    # Intervals rest on so many resamples, drawn at random. A dry run shows none.
    draws = 0 if options.dry_run else options.draws
    # The metrics whose questions the samples' labels answer.
    metrics = _metrics_to_measure(samples, options)
    card = measure_judge(judge, samples, ask, draws=draws, metrics=metrics)
    origin = {"command": _command(options, judge), "inputs": inputs_of(options.data)}
    card = card.model_copy(update=origin)
    if not options.dry_run:
        _write_card(card, options)
    lines = list(_lines_on_card(card))
    for path in (options.out, options.html):
        if path is not None:
            lines.append(f"Card: {path}")
    return lines


def _write_card(card: Card, options: argparse.Namespace) -> None:
    """Write the card as JSON and as a page, where these are asked for."""
    if options.out:
        write_text(options.out, card.model_dump_json(indent=1) + "\n", "the card")
    if options.html:
        data = {"card": card, "cell": cell, "reach": reach}
        write_html(options.html, "card.html.j2", (), data)


def _lines_on_card(card: Card) -> list[str]:
    """Return lines with the figures over all sources for each question, and notes."""
    lines = [
        f"{card.judge}, 95 % intervals; n: sources, from abstained on answers. Each"
        " source: --html, --out"
    ]
    for question, figures in card.figures.items():
        lines.append(f"{question}, asked by {card.signatures[question]}")
        for figure in figures:
            if figure.source is None:
                lines.append(f"  {figure.measure:44} {cell(figure)}")
    return [*lines, *card.notes]


def _command(options: argparse.Namespace, judge: Judge) -> str:
    """Return the command line that makes the card again, as the card shows it.

    Cards are published. So the folder of the data is left out, the address is shown
    without keys, and a long setting, which may hold a text of a sample, is cut out.
    Example: ``ragmetrics card --judge lexical --data labels.jsonl --draws 500``.
    """
    words = ["--judge", options.judge or judge.name]
    words += ["--data", options.data.resolve().name, "--draws", options.draws]
    if options.api_base:
        words += ["--api-base", public_address(options.api_base)]
    if options.api_key_env:
        words += ["--api-key-env", options.api_key_env]
    if options.limit:
        words += ["--limit", options.limit]
    if options.metric:
        words += ["--metric", options.metric]
    for setting in options.settings:
        may_hold_text_of_sample = len(setting) > _LONGEST_SETTING
        words += ["--set", "…" if may_hold_text_of_sample else setting]
    return f"ragmetrics card {shlex.join(map(str, words))}"


def _two_prompts(
    options: argparse.Namespace, samples: LabelledSamples, ask: Ask
) -> list[str]:
    """Compare two prompts on the same samples, in lines of text.

    The lines say how the prompts differ in their agreement with people, and on which
    samples their verdicts differ. Only samples with verdicts by both prompts count.
    Example: "48 of 50 samples were scored by both prompts; …".

    Args:
        options: ``template`` is the first prompt, ``against`` the second; without it
            the second is the prompt that ships with the metric.
        samples: The labelled samples, all of one question.
        ask: Asks the judge.

    Raises:
        SettingError: If no sample was scored by both prompts.
    """
    metric_class = ASKING[samples[0].question]  # the metric that asks this question
    first_metric = _metric_of(metric_class, options.template)
    second_metric = _metric_of(metric_class, options.against or _SHIPPED)
    judged_by_first = judge_samples(ask, first_metric, samples)
    judged_by_second = judge_samples(ask, second_metric, samples)
    verdicts_by_sample = _verdicts_of_both(judged_by_first, judged_by_second)
    if not verdicts_by_sample:
        raise SettingError(
            "no sample was scored by both prompts, so nothing can be compared"
        )
    heading = (
        f"{len(verdicts_by_sample)} of {len(samples)} samples were scored by both"
        " prompts; the first less the second:"
    )
    # From a score of .5 on a verdict is a yes. Intervals rest on ``draws`` resamples.
    lines = lines_on_rival(verdicts_by_sample, threshold=0.5, draws=options.draws)
    return [heading, *lines]


def _verdicts_of_both(
    judged_by_first: LabelledSamples, judged_by_second: LabelledSamples
) -> list[list[Labelled]]:
    """Return the first judging's verdicts, with those of the second as its rival's.

    There is a list for each sample that has verdicts in both. Example: score .9 by the
    first prompt and .2 by the second: a verdict with the score .9 and the rival's .2.

    Args:
        judged_by_first: The samples with their verdicts in the first judging.
        judged_by_second: The same samples in the same order, in the second judging.
    """
    verdicts_by_sample = []
    for first, second in zip(judged_by_first, judged_by_second, strict=True):
        if first.verdicts and second.verdicts:
            verdicts = [
                replace(verdict, rival_score=rival.score, rival_verdict=rival.verdict)
                for verdict, rival in zip(first.verdicts, second.verdicts, strict=True)
            ]
            verdicts_by_sample.append(verdicts)
    return verdicts_by_sample


def _metric_of(kind: type[Metric], template: Path) -> Metric:
    """Make a metric with the prompt in a file, or with the shipped prompt."""
    if template == _SHIPPED:
        return kind()
    settings: dict[str, Any] = {"template": read_text(template)}
    return kind(**settings)


def _propose_band(
    options: argparse.Namespace, samples: LabelledSamples, ask: Ask
) -> list[str]:
    """Propose the band of a cascade, in lines of text; none in a dry run.

    A cascade asks a strong judge where this judge's score lies in the band. Example:
    with the band (.2, .8) a score of .5 goes to the strong judge, and .9 is a yes.

    Args:
        options: What was typed. ``--band`` holds no band, but the share of all verdicts
            that may be wrong, such as 0.02.
        samples: The labelled samples, all of one question.
        ask: Asks the judge.

    Raises:
        SettingError: If the judge gives no probabilities, or the samples are too few.
    """
    allowed_loss = options.band
    question = samples[0].question
    if question not in CASCADED:
        raise _error_without_probabilities(full_name(options.metric))
    _refuse_too_few_rows(len(samples), allowed_loss)
    scored_samples = _samples_with_probabilities(options, samples, ask)
    if options.dry_run:
        return []  # all calls are counted by now, and no score is a judge's own
    # Again, since the judge may give no verdict on some samples.
    _refuse_too_few_rows(len(scored_samples), allowed_loss)
    type_of_question = CASCADED[question]  # such as "Adherent", as a cascade is told
    return _lines_on_band(scored_samples, type_of_question, allowed_loss)


def _lines_on_band(
    scored_samples: Sequence[LabelledSample], type_of_question: str, allowed_loss: float
) -> list[str]:
    """Choose a band on scored samples, and say what it costs there and elsewhere.

    The first line is the band as the argument of a cascade, such as "band={'Adherent':
    (0.2, 0.8)}". Then follow how often the strong judge would be asked, how many
    verdicts would be wrong all the same, and why it may be more on other samples.
    """
    verdicts: list[Labelled] = []
    for sample in scored_samples:
        verdicts += sample.verdicts
    band = reach_of_chosen_band(
        goal="lost",  # the limit is on the share of wrong verdicts among all verdicts
        limit=allowed_loss,
        chosen_on=verdicts,
        measured_on=verdicts,
        source=None,  # no single source: its figures are means over all of them
    )
    n_scored_by_source = Counter(sample.source for sample in scored_samples)
    return [
        f"band={{{type_of_question!r}: ({band.low:g}, {band.high:g})}}",
        f"It {_cost_of_band_in_words(band)}, means over sources. Chosen on"
        f" {len(verdicts)} verdicts; the strong judge is taken to be always right.",
        *_lines_on_sources_left_out(verdicts, allowed_loss),
        *_warnings_on_band(verdicts, band, n_scored_by_source),
    ]


def _lines_on_sources_left_out(
    rows: Sequence[Labelled], allowed_loss: float
) -> list[str]:
    """Say what a band costs on a source when it is chosen on the other sources alone.

    Returns [] if all rows are of one source.
    """
    bands = reach_on_sources_left_out(rows, "lost", allowed_loss)
    if not bands:
        return []
    lines = [
        f"  {band.source}, with the band of the other sources"
        f" ({band.low:g}, {band.high:g}): {_cost_of_band_in_words(band)}"
        for band in bands
    ]
    mean_loss = fmean(band.lost for band in bands)
    lines.append(f"  Sources that the band does not know lose {mean_loss:.3f}.")
    return lines


def _error_without_probabilities(metric: str) -> SettingError:
    """Return the error that a metric's verdicts have no probabilities for a cascade."""
    return SettingError(
        f"a cascade sees no probability of these verdicts by {metric}; {_BANDS}"
    )


def _samples_with_probabilities(
    options: argparse.Namespace, samples: LabelledSamples, ask: Ask
) -> list[LabelledSample]:
    """Have a judge score samples by probabilities; return the samples with a score.

    The first sample is judged alone: if the judge gives no probability for it, the
    other samples are not paid for in vain. Example: for 3 of 100 samples the judge
    fails; the other 97 are returned.

    Raises:
        SettingError: If the judge gives no probability, or nothing is scored.
    """
    [metric] = _metrics_to_measure(samples, options)
    scored_samples: list[LabelledSample] = []
    for part in (samples[:1], samples[1:]):
        for sample in judge_samples(ask, metric, part):
            if not sample.verdicts:
                continue  # the judge failed on the sample
            scored_samples.append(sample)
            # ``verdict`` stays None where the judge gave no probability. A dry run asks
            # no judge: its replies are examples, and are not refused.
            lacks_probability = any(
                judged.verdict is None for judged in sample.verdicts
            )
            if lacks_probability and not options.dry_run:
                raise _error_without_probabilities(metric.name)
    if not scored_samples:
        # the band: the scores between which this judge leaves a row to another judge
        raise SettingError("nothing was scored, so no band is known")
    return scored_samples


def _refuse_too_few_rows(n_rows: int, allowed_loss: float) -> None:
    """Raise ``SettingError`` if the rows are too few to choose a band on them."""
    if allowed_loss == 0:
        raise SettingError(
            "--band 0: no number of rows shows that a judge loses nothing; allow a loss,"
            " e.g. --band 0.05"
        )
    if n_rows < fewest_rows(allowed_loss):
        raise SettingError(f"no band is known: {too_few_rows(n_rows, allowed_loss)}")


def _warnings_on_band(
    rows: Sequence[Labelled], band: Reach, n_scored_by_source: Mapping[str, int]
) -> list[str]:
    """Say why a band may lose more on other rows than on the rows it was chosen on.

    In a cascade the first judge decides a row if its score lies outside of the band;
    otherwise a strong judge does. The band loses the rows that the first judge decides
    wrongly. Example: "By chance alone, 100 verdicts may hide a loss of up to 4% (…)".

    Args:
        rows: The verdicts that the band was chosen on, with people's labels.
        band: The band, with the share of rows that it may lose (``limit``), and the
            share that it loses (``lost``).
        n_scored_by_source: How many samples of each source are scored.
    """
    n_rows_lost = round(band.lost * len(rows))
    _, highest_likely_loss = wilson(n_rows_lost, len(rows))
    lines = [
        f"  By chance alone, {len(rows)} verdicts may hide a loss of up to"
        f" {highest_likely_loss:.0%} (upper end of Wilson's 95 % interval)."
    ]
    if len(n_scored_by_source) == 1:
        lines.append(
            "  All rows are of one source: nothing shows what the band loses on another."
        )
    else:
        lines += _lines_on_small_sources(n_scored_by_source, band.limit)
    labels = {row.is_labelled_yes for row in rows}
    if len(labels) == 1:
        label = "yes" if labels == {True} else "no"
        lines.append(
            f'  People said "{label}" of all of them: nothing shows what the band loses'
            " on the others."
        )
    return lines


def _lines_on_small_sources(
    n_scored_by_source: Mapping[str, int], allowed_loss: float
) -> list[str]:
    """Return a line that names the sources with too few samples to know their loss.

    Returns [] if every source has enough.
    """
    n_needed = fewest_rows(allowed_loss)
    small_sources = [
        source
        for source, n_scored in sorted(n_scored_by_source.items())
        if n_scored < n_needed
    ]
    if not small_sources:
        return []
    return [
        f"  Too few to know a loss of {allowed_loss:.0%} of one source by itself (it"
        f" needs {n_needed}): {', '.join(small_sources)}."
    ]


def _cost_of_band_in_words(band: Reach) -> str:
    """Return how often a band asks the strong judge, and the share of wrong verdicts."""
    return f"asks for {1 - band.decided:.0%} of the verdicts and loses {band.lost:.3f}"
