"""How the pages are put together.

Jinja2 renders them with autoescape. Figures and script are within the file, and nothing
comes from elsewhere.
"""

from base64 import b64encode
from collections.abc import Collection, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragmetrics_core.data import (
    SampleResult,
    adherence_worth,
    judge_in_words,
    replace_surrogates,
    write_text,
)
from ragmetrics_core.data.scalars import ONE_HALF
from ragmetrics_core.page.sample_rows import (
    cut,
    detail_lines,
    entry_of,
    facets_of,
    json_text,
    pack_lines,
)
from ragmetrics_core.reporting.answering import answerings_of
from ragmetrics_core.reporting.diagnosis import RULES, diagnose
from ragmetrics_core.reporting.gates import all_in_words
from ragmetrics_core.reporting.glance import Glance
from ragmetrics_core.reporting.judge_card import (
    corrected_means,
    figures_of_cards,
    quotes_of_cards,
)
from ragmetrics_core.reporting.run_facts import RunFacts, date_of, question_of
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.reporting.what_if import what_if_known

_HERE = files("ragmetrics_core.page")
TO_LABEL = "to label"
"""The filter of the rows that were drawn for people to label."""

_SCRIPTS = tuple(
    f"{name}.js"
    for name in ("table", "filters", "people", "claims", "detail", "figures")
)


def write_page(
    path: str | Path,
    rows: Sequence[SampleResult],
    summary: Summary,
    run_facts: RunFacts,
    glance: Glance,
    *,
    to_label: Collection[str] = (),
) -> None:
    """Write the report as one HTML file that opens offline.

    The file asks nothing of any network. See ``Report.to_html``.

    Args:
        path: The file.
        rows: The results.
        summary: Their numbers.
        run_facts: The facts of the run.
        glance: What a person should see first.
        to_label: Ids of the samples that were drawn for people to label.
    """
    judges_by_metric: dict[str, dict[str, None]] = {}  # their names are the keys
    for row in rows:
        for metric, result in row.results.items():
            if result.judge:
                judges_by_metric.setdefault(metric, {})[result.judge] = None

    # each judge whose card says something of adherence, with the figures of it
    figures_on_adherence = []
    for judge in run_facts.judges:
        for question, figures in figures_of_cards(judge, run_facts).values():
            if question == "adherent":
                figures_on_adherence.append((judge, figures))

    data = {
        "glance": glance,
        "verdict": all_in_words(glance.decisions),
        "date": date_of(run_facts),
        "screen_rows": len(rows),
        "summary": summary,
        "n_to_label": len(to_label),
        "run": run_facts,
        # by metric the mean that people would give, beside the judge's
        "by_people": corrected_means(run_facts),
        "explanations": EXPLANATIONS,
        "answerings": answerings_of(rows, summary),
        "what_if": what_if_known(rows),
        "quoted": quotes_of_cards(run_facts),
        "figures": figures_on_adherence,
        "has_interval": any(numbers.interval for numbers in summary.shown),
        "formulas": FORMULAS,
        "judges_by_metric": judges_by_metric,
        **_script_data(rows, summary, run_facts, glance, to_label),
    }
    write_html(path, "report.html.j2", _SCRIPTS, data)


def write_html(
    path: str | Path, template: str, scripts: Sequence[str], data: dict[str, Any]
) -> None:
    """Render a template of this folder into an HTML file that needs no other file.

    Example: the template "comparison.html.j2" without scripts writes a page of HTML and
    style alone.

    Args:
        path: The file.
        template: Name of the template.
        scripts: Names of the scripts, which are joined into one. The page allows only
            a script with this content's hash to run.
        data: What the template shows.
    """
    page_template = _environment().get_template(template)
    script = "\n".join(_text(name) for name in scripts)
    shared_data = {
        "style": _as_markup(_text("report.css")),
        "script": _as_markup(script),
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }
    pieces = page_template.generate(**shared_data, **data)
    # a lone surrogate, which a text of a sample may hold, cannot be written as UTF-8
    write_text(path, (str(replace_surrogates(piece)) for piece in pieces), "the page")


def _script_data(
    rows: Sequence[SampleResult],
    summary: Summary,
    run_facts: RunFacts,
    glance: Glance,
    to_label: Collection[str],
) -> dict[str, Any]:
    """Collect what the page's script reads: the table's rows, their details, and more.

    The arguments are those of ``write_page``.
    """
    metrics = [numbers.metric for numbers in summary.metrics]
    diagnoses = [diagnose(row) for row in rows]
    table_entries = [
        entry_of(row, metrics, diagnosis)
        for row, diagnosis in zip(rows, diagnoses, strict=True)
    ]
    ids_to_label = set(to_label)
    drawn = [row.label_id in ids_to_label for row in rows]

    # The page may not hold the texts of all rows: first come those that were drawn,
    # then rows without a score, then those with the lowest.
    lowest_scores = []
    for entry in table_entries:
        outcomes = entry[3]  # of each metric, a score or a status such as "failed"
        scores = [outcome for outcome in outcomes if isinstance(outcome, float)]
        lowest_scores.append(min(scores, default=-1.0))
    order = sorted(
        range(len(rows)), key=lambda place: (not drawn[place], lowest_scores[place])
    )
    packed_details = pack_lines(
        detail_lines((rows[place], diagnoses[place]) for place in order)
    )

    # by what people can filter: short metadata, and what was drawn to be labelled
    facets: dict[str, Any] = dict(facets_of(rows))
    if any(drawn):
        facets[TO_LABEL] = {
            "values": ["drawn"],
            "of": [0 if is_drawn else None for is_drawn in drawn],
            # from how many they were drawn, for those who read the labels
            "among": sum(row.sample is not None for row in rows),
        }

    # A person may label rows on the page. The browser keeps these labels under a digest
    # of its texts, so that they never appear on the page of another report.
    texts_of_page = packed_details + json_text(table_entries)
    digest = sha256(texts_of_page.encode(errors="replace")).hexdigest()

    faults = {diagnosis.name for diagnosis in diagnoses if diagnosis.kind == "fault"}
    at_weakest = list(glance.weakest.faults) if glance.weakest else []
    script_data = {
        "metrics": metrics,
        "digest": digest,
        "groups": list(glance.groups),
        # in the order in which people look at their rows: the weakest stage first
        "faults": [at_weakest, sorted(faults.difference(at_weakest))],
        # of these rows nobody can say whether something is wrong: they come next
        "open": [rule.name for rule in RULES if rule.kind == "unjudged"],
        "facets": facets,
        "yes_above": ONE_HALF,
        "asks": {
            metric: question_of(metric, run_facts.questions, by_words=False)
            for metric in metrics
        },
        "histograms": {one.metric: one.histogram for one in summary.metrics},
        "means": {one.metric: one.mean for one in summary.metrics},
        "boxes": {
            one.metric: (one.min, *(one.quartiles or ()), one.max)
            for one in summary.metrics
        },
    }
    return {"columns": script_data, "index": table_entries, "details": packed_details}


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _as_markup(text: str) -> Any:
    """Return text that autoescape leaves as it is.

    It is of our own making, or escaped by its maker.
    """
    from markupsafe import Markup  # comes with Jinja2

    return Markup(text)  # noqa: S704 - files of this folder, and JSON without < > &


def _environment() -> Any:
    """Set up Jinja2 with our templates; it escapes everything that they show."""
    import jinja2  # only now: most runs write no page

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ragmetrics_core.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["adherence_worth"] = adherence_worth
    environment.filters.update(
        cut=cut, worth=judge_in_words, data=lambda value: _as_markup(json_text(value))
    )
    return environment


# How each metric that ships is scored, in a sentence, and as a formula.
EXPLANATIONS = {
    "context_utilization": (
        "Each retrieved text is judged useful or not to arrive at the answer; the "
        "score is high where the useful ones come first."
    ),
    "context_adherence": (
        "Each claim of the answer is held against the retrieved texts: does "
        "anything in them support it?"
    ),
    "context_recall": (
        "The answer is rated by how much of the reference, the expected answer, "
        "it holds."
    ),
    "retrieval_accuracy": (
        "Each fact of the reference is looked for in the retrieved texts; a fact "
        "may weigh more than another."
    ),
    "context_sufficiency": (
        "The judge reads the question and the texts that the application showed "
        "its model, and no answer; the score is the probability that they are "
        "enough."
    ),
    "answer_relevance": (
        "The answer is graded from 0 to 3 by how much of the question it "
        "addresses, whatever is true."
    ),
    "retrieval_ranking": (
        "The ranks of the passages that the data set expects are measured; no "
        "judge is asked."
    ),
    "citation_quality": (
        "Each sentence with a claim is held against the texts that it cites. The "
        "score is high where these support it and none of them is needless."
    ),
}

# They hold whichever kind of judge answers: one that is polled, one that gives a
# probability, or one that compares words.
FORMULAS = {
    "context_utilization": (
        "Average precision: sum of P@k over the ranks k of useful texts / number of"
        " useful texts. With probabilities: its expectation."
    ),
    "context_adherence": (
        "Polls that say yes / polls that say yes or no. Of a judge that is asked once:"
        " the score that it gives."
    ),
    "context_recall": "The judge's rating; of several references the best.",
    "retrieval_accuracy": (
        "Covered facts / facts, by weight; a fact is covered if its score in one text is"
        " above 0.5. Where the embedded judge split the reference: the mean of each"
        " fact's best score."
    ),
    "context_sufficiency": "The judge's score that nothing is missing.",
    "answer_relevance": "Grade / 3.",
    "retrieval_ranking": (
        "The measure of the settings: nDCG, hit rate, recall, precision or reciprocal"
        " rank, with gains of 0 and 1."
    ),
    "citation_quality": (
        "2PR / (P + R); R = supported sentences / sentences with a claim, P = precise"
        " citations / citations."
    ),
}
