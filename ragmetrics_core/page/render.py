"""Puts the page together: Jinja2 with autoescape, figures and script within the file, nothing from elsewhere."""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.files import write_text
from ragmetrics_core.data.frozen import clean
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.page import biases
from ragmetrics_core.page.diagnosis import RULES, diagnose
from ragmetrics_core.page.figures import check_matplotlib, ranks_svg, scores_svg
from ragmetrics_core.page.methods import paragraphs
from ragmetrics_core.page.rows import detail_lines, index_json, json_text
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import Summary

_HERE = files("ragmetrics_core.page")


def write_page(path: str | Path, rows: Sequence[SampleResult], summary: Summary, run: RunFacts) -> None:
    """Write the report as one HTML file that opens offline and asks nothing of any network; see ``Report.to_html``."""
    write_html(path, "report.html.j2", ("table.js", "detail.js"), page_data(rows, summary, run))


def write_html(path: str | Path, template: str, scripts: Sequence[str], data: dict[str, Any]) -> None:
    """Render one of the templates of this folder into a file, with its scripts joined into one."""
    from_file = _environment().get_template(template)
    script = "\n".join(_text(name) for name in scripts)
    fixed = {
        "style": _trusted(_text("report.css")),
        "script": _trusted(script),
        "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
    }
    text = from_file.render(**fixed, **data).lstrip()
    write_text(path, str(clean(text)), "the page")


def check_page(path: Path) -> None:
    """Raise, before anything is judged, for a page that could not be written at the end."""
    _environment()
    check_matplotlib()
    if not path.parent.is_dir():
        raise InputError(f"the page cannot be written to {path}: there is no folder {path.parent}")


def page_data(rows: Sequence[SampleResult], summary: Summary, run: RunFacts) -> dict[str, Any]:
    """Everything that the template of a report shows."""
    metrics = [numbers.metric for numbers in summary.metrics]
    found = Counter(own and own.code for own in map(diagnose, rows))
    columns = {
        "metrics": metrics,
        "diagnoses": {code: rule.title for code, rule in RULES.items()},
        "remedies": {code: rule.remedy for code, rule in RULES.items()},
    }
    shares = biases.usefulness_by_rank(rows)
    if run.decisions:  # no interval of another kind holds where a run stopped for what it saw
        shares = [replace(share, low=share.share, high=share.share) for share in shares]
    return {
        "summary": summary,
        "run": run,
        "families": biases.shared_families(rows),
        "figures": {name: _figure(name, rows) for name in metrics},
        "shares": shares,
        "ranks": _ranks(shares, run) if shares else "",
        "rules": RULES,
        "diagnoses": found,
        "traits": biases.TRAITS,
        "correlations": [] if run.decisions else biases.correlations(rows, metrics),
        "caught": biases.CAUGHT,
        "flipped": biases.FLIPPED,
        "methods": paragraphs(summary, run),
        "columns": _trusted(json_text(columns)),
        "index": _trusted(index_json(rows, metrics)),
        "details": _trusted(detail_lines(rows)),
    }


def _figure(name: str, rows: Sequence[SampleResult]) -> Any:
    scores = [r.value for row in rows if (r := row.results.get(name)) is not None and r.value is not None]
    return _trusted(scores_svg(scores, f"Histogram and box plot of {len(scores)} scores of {name}")) if scores else ""


def _ranks(shares: Sequence[biases.RankShare], run: RunFacts) -> Any:
    places = enumerate(run.audit.by_place if run.audit else (), 1)
    shuffled = [biases.rank_share(at, [True] * good + [False] * (n - good)) for at, (good, n) in places if n]
    label = "Share of useful chunks by rank: " + ", ".join(f"{s.rank}: {s.share:.2f}" for s in shares)
    return _trusted(ranks_svg(shares, shuffled, label))


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text of our own making, or escaped by its maker, that autoescape leaves as it is."""
    from markupsafe import Markup  # comes with Jinja2

    return Markup(text)  # noqa: S704 - files of this folder, figures, and JSON without < > &


def _environment() -> Any:
    jinja2 = extra("jinja2", "report", "a page")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ragmetrics_core.page", ""), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
