"""Puts the page together: Jinja2 with autoescape, figures and script within the file, nothing from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data.errors import InputError, MissingDependency
from ragmetrics_core.data.files import write_text
from ragmetrics_core.data.frozen import clean
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.page.rows import detail_lines, index_json, json_text
from ragmetrics_core.reporting.diagnosis import RULES, diagnose
from ragmetrics_core.reporting.figures import check_matplotlib, ranks_svg, scores_svg
from ragmetrics_core.reporting.fooled import (
    CAUGHT,
    FLIPPED,
    Correlation,
    correlations,
    rank_share,
    shared_families,
    usefulness_by_rank,
)
from ragmetrics_core.reporting.methods import paragraphs
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.reporting.tables import footnotes

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = files("ragmetrics_core.page")
_BENCHMARK = "benchmarks/judge_quality.py measures it on labelled data"


def write_page(path: str | Path, rows: Sequence[SampleResult], summary: Summary, run: RunFacts) -> None:
    """Write the report as one HTML file that opens offline and asks nothing of any network.

    Args:
        path: The file to write; an existing one is replaced.
        rows: Results in input order.
        summary: Their numbers.
        run: The run's facts.

    Raises:
        MissingDependency: If Jinja2 or matplotlib is not installed.
        InputError: If the file cannot be written.
    """
    write_html(path, "report.html.j2", ("table.js", "detail.js"), page_data(rows, summary, run))


def write_html(path: str | Path, template: str, scripts: Sequence[str], data: dict[str, Any]) -> None:
    """Render one of the templates of this folder into a file.

    Args:
        path: The file to write.
        template: Name of the template.
        scripts: Names of the script files, joined into one.
        data: What the template shows.

    Raises:
        MissingDependency: If Jinja2 is not installed.
        InputError: If the file cannot be written.
    """
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
    """Refuse, before anything is judged, a page that could not be written at the end.

    Raises:
        MissingDependency: If Jinja2 or matplotlib is not installed.
        InputError: If the folder of the page does not exist.
    """
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
    return {
        "summary": summary,
        "run": run,
        "families": shared_families(rows),
        "cards": [_card(numbers, rows, summary, run) for numbers in summary.metrics],
        "ranks": _ranks(rows, run),
        "diagnoses": [
            {"code": code, "rule": rule, "count": found[code], "share": _share(found[code], len(rows))}
            for code, rule in RULES.items()
        ],
        "undiagnosed": found[None],
        "traits": ("answer length", "context length", "number of chunks"),
        "correlations": _by_metric(correlations(rows, metrics)),
        "caught": [_caught(judge) for judge in run.judges],
        "flipped": [_flipped(judge) for judge in run.judges],
        "facts": _facts(summary.usage, run),
        "methods": paragraphs(summary, run),
        "columns": _trusted(json_text(columns)),
        "index": _trusted(index_json(rows, metrics)),
        "details": _trusted(detail_lines(rows)),
    }


def _card(numbers: MetricSummary, rows: Sequence[SampleResult], summary: Summary, run: RunFacts) -> dict[str, Any]:
    name = numbers.metric
    scores = [r.value for row in rows if (r := row.results.get(name)) is not None and r.value is not None]
    label = f"Histogram and box plot of {len(scores)} scores of {name}"
    lines = [f"Interval: {numbers.interval.method}; {summary.caption}."] if numbers.interval else []
    for title, counts in (("Undefined", numbers.undefined), ("Failed", numbers.failed)):
        if counts:
            lines.append(f"{title}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}.")
    lines += [
        line.partition(": ")[2].capitalize()
        for line in footnotes(summary, run)
        if numbers.useful_share is not None and line.startswith(f"{name}: any useful chunk")
    ]
    return {
        "numbers": numbers,
        "signs": [sign.removeprefix(f"{name}: ") for sign in numbers.signs],
        "figure": _trusted(scores_svg(scores, label)) if scores else "",
        "lines": lines,
    }


def _ranks(rows: Sequence[SampleResult], run: RunFacts) -> dict[str, Any] | None:
    shares = usefulness_by_rank(rows)
    if not shares:
        return None
    places = enumerate(run.audit.by_place if run.audit else (), 1)
    shuffled = [rank_share(place, [True] * useful + [False] * (n - useful)) for place, (useful, n) in places if n]
    label = "Share of useful chunks by rank: " + ", ".join(f"{s.rank}: {s.share:.2f}" for s in shares)
    return {"figure": _trusted(ranks_svg(shares, shuffled, label)), "shares": shares}


def _by_metric(found: Sequence[Correlation]) -> dict[str, list[Correlation]]:
    grouped: dict[str, list[Correlation]] = {}
    for one in found:
        grouped.setdefault(one.metric, []).append(one)
    return grouped


def _caught(judge: str) -> str:
    shares = CAUGHT.get(judge)
    if shares is None:
        return f"{judge}: not measured; {_BENCHMARK}."
    words = ", ".join(f"{share:.0%} after {kind}" for kind, share in shares.items())
    return f"{judge}: of answers that it accepted, it rejects {words} (wrong answers made by one edit; {_BENCHMARK})."


def _flipped(judge: str) -> str:
    shares = FLIPPED.get(judge)
    if shares is None:
        return f"{judge}: not measured; {_BENCHMARK}."
    words = ", ".join(f"{share:.1%} after a context that {kind}" for kind, share in shares.items())
    return f"{judge}: of its verdicts on adherence flip {words} ({_BENCHMARK})."


def _facts(usage: Usage, run: RunFacts) -> list[tuple[str, str]]:
    price = "unknown" if usage.cost is None else f"${usage.cost:.4f}"
    facts = [
        ("Judge", ", ".join(run.judges)),
        ("Model as the endpoint named it", ", ".join(usage.models)),
        ("Began", run.started),
        ("Took", f"{run.seconds:,.1f} s, {run.concurrency} calls at a time" if run.seconds else ""),
        ("Calls", f"{usage.calls:,}"),
        ("Taken from the store", f"{usage.stored:,}"),
        ("Tokens", f"{usage.prompt_tokens:,} sent, {usage.completion_tokens:,} received"),
        ("Cost", price),
        ("Faults survived", f"{usage.faults:,}; {usage.repairs:,} replies asked for again"),
        ("Replaced, because the endpoint cannot", ", ".join(usage.fallbacks)),
        ("Version of ragmetrics", run.version),
    ]
    return [(name, value) for name, value in facts if value]


def _share(count: int, total: int) -> str:
    return f"{count / total:.0%}" if total else ""


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text of our own making, or escaped by its maker, that autoescape leaves as it is."""
    from markupsafe import Markup  # comes with Jinja2

    return Markup(text)  # noqa: S704 - files of this folder, figures, and JSON without < > &


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependency('a page needs Jinja2: pip install "ragmetrics-core[report]"') from error
    return Environment(
        loader=PackageLoader("ragmetrics_core.page", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
