"""How the pages are put together.

Jinja2 renders them with autoescape. Figures and script are within the file, and nothing
comes from elsewhere.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragmetrics_core.data import (
    InputError,
    SampleResult,
    adherence_worth,
    import_extra,
    judge_in_words,
    replace_surrogates,
    write_text,
)
from ragmetrics_core.page import biases
from ragmetrics_core.page.counts import WORDINGS
from ragmetrics_core.page.diagnosis import RULES
from ragmetrics_core.page.first_screen import FirstScreen, screen_of
from ragmetrics_core.page.methods import paragraphs, quotes_of_cards
from ragmetrics_core.page.row_groups import TITLES
from ragmetrics_core.page.sample_rows import (
    cut,
    detail_lines,
    entry_of,
    facets_of,
    journey_cells,
    json_text,
    pack_lines,
)
from ragmetrics_core.page.stage_losses import (
    SEARCH_FAULTS,
    STAGE_ADVICE,
    interval_in_words,
)
from ragmetrics_core.reporting.judge_card import figures_of_cards
from ragmetrics_core.reporting.pairing import GroupBy
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import Summary

_HERE = files("ragmetrics_core.page")
PAGE_MARK = '<meta name="generator" content="ragmetrics">'
"""What every page of ours holds at its beginning."""

_SCRIPTS = tuple(
    f"{name}.js"
    for name in ("table", "filters", "people", "claims", "detail", "figures")
)


def write_page(
    path: str | Path,
    rows: Sequence[SampleResult],
    summary: Summary,
    run: RunFacts,
    decisions: Sequence[Decision] = (),
    cluster: GroupBy = "auto",
) -> None:
    """Write the report as one HTML file that opens offline.

    The file asks nothing of any network. See ``Report.to_html``.
    """
    screen = screen_of(rows, summary, run, decisions, cluster)
    write_page_from(screen, path, rows, summary, run)


def write_page_from(
    screen: FirstScreen,
    path: str | Path,
    rows: Sequence[SampleResult],
    summary: Summary,
    run: RunFacts,
) -> None:
    """Write the page of a report whose first screen is known; see ``write_page``."""
    data = page_data(rows, summary, run, screen)
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


def check_page(path: Path) -> None:
    """Raise for a page that could not be written at the end.

    The check comes before anything is judged.
    """
    _environment()
    if not path.parent.is_dir():
        raise InputError(
            f"the page cannot be written to {path}: there is no folder {path.parent}"
        )


def page_data(
    rows: Sequence[SampleResult], summary: Summary, run: RunFacts, screen: FirstScreen
) -> dict[str, Any]:
    """Collect all that the template of a report shows, by its name in the template.

    Example: "screen_rows" is 20 and "samples" 18 where 2 of 20 rows are no samples.

    Args:
        rows: The results.
        summary: Their numbers.
        run: The facts of the run.
        screen: What a person should see first.
    """
    metrics = [numbers.metric for numbers in summary.metrics]
    table_entries = [entry_of(row, metrics) for row in rows]
    rows_worst_first = (rows[index] for index in _worst_first(table_entries))
    packed_details = pack_lines(detail_lines(rows_worst_first))
    shares_by_rank = biases.usefulness_by_rank(rows)
    samples = [row.sample for row in rows if row.sample is not None and not row.problem]
    script_data = {
        "metrics": metrics,
        # A person may label rows on the page. The browser keeps these labels under this
        # name, so that they never appear on the page of another report.
        "digest": _name_for_kept_labels(packed_details, table_entries),
        "unscored_first": screen.unscored_first,
        "ranks": _points(shares_by_rank, run),
        **_data_of_table(rows),
    }
    return {
        "screen": screen,
        "screen_rows": len(rows),
        "summary": summary,
        "run": run,
        "wordings": WORDINGS,
        "samples": len(samples),
        "shares": shares_by_rank,
        "rules": RULES,
        "advices": STAGE_ADVICE,
        "group_counts": {group.code: group.count for group in screen.groups},
        "traits": biases.TRAITS,
        "correlations": _correlations(rows, metrics, run),  # none if it stopped early
        "quoted": quotes_of_cards(run),
        "figures": _figures_on_adherence(run),
        "methods": paragraphs(summary, run, rows),
        "columns": script_data,  # what the page's script reads
        "index": table_entries,
        "details": packed_details,
    }


def _name_for_kept_labels(packed_details: str, table_entries: Sequence[Any]) -> str:
    """A digest of the page's texts: under it a browser keeps the labels of a reader."""
    texts_of_page = packed_details + json_text(table_entries)
    return sha256(texts_of_page.encode(errors="replace")).hexdigest()


def _correlations(
    rows: Sequence[SampleResult], metrics: Sequence[str], run: RunFacts
) -> Sequence[biases.Correlation]:
    """The correlations of scores with traits of the rows; none if the run stopped early.

    A run with ``decisions`` stopped once its gates were decided: it chose its rows by
    their scores.
    """
    return [] if run.decisions else biases.correlations(rows, metrics)


def _data_of_table(rows: Sequence[SampleResult]) -> dict[str, Any]:
    """What the script needs of the table: groups, journey, filters and remedies."""
    return {
        "groups": TITLES,
        "journey": journey_cells(rows),
        "search_faults": SEARCH_FAULTS,
        "facets": facets_of(rows),
        "remedies": {code: rule.remedy for code, rule in RULES.items()},
    }


def _worst_first(index: Sequence[Sequence[Any]]) -> list[int]:
    """The indices of the rows, the rows with the lowest score first.

    Rows without any score come before them.
    """
    lowest_scores = []
    for entry in index:
        outcomes = entry[3]  # of each metric, a score or a status such as "failed"
        scores = [outcome for outcome in outcomes if isinstance(outcome, float)]
        lowest_scores.append(min(scores, default=-1.0))
    return sorted(range(len(index)), key=lowest_scores.__getitem__)


def _figures_on_adherence(run: RunFacts) -> list[tuple[str, Any]]:
    """Each judge whose card says something of adherence, with the figures of it."""
    figures_of_judges = []
    for judge in run.judges:
        for card_figures in figures_of_cards(judge, run).values():
            if card_figures.question == "adherent":
                figures_of_judges.append((judge, card_figures.figures))
    return figures_of_judges


def _points(
    shares: Sequence[biases.RankShare], run: RunFacts
) -> list[tuple[float, ...]]:
    """Make the points of the plot of ranks; without intervals if the run stopped early.

    A run that stopped once its gates were decided chose its rows by their scores.
    """
    if run.decisions:
        return [(share.rank, share.share) for share in shares]
    return [(share.rank, share.share, share.low, share.high) for share in shares]


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
    jinja2 = import_extra("jinja2", "report", "a page")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ragmetrics_core.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["adherence_worth"] = adherence_worth
    environment.globals["interval_in_words"] = interval_in_words
    environment.filters.update(
        cut=cut, worth=judge_in_words, data=lambda value: _as_markup(json_text(value))
    )
    return environment
