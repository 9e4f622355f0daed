"""The fixture and marker ``ragmetrics`` of pytest.

What was measured stands in the terminal's summary, also under xdist.

Every session of pytest imports this module, so it loads nothing else until the fixture
is used.
"""

from __future__ import annotations

import unittest
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from typing import Protocol, Unpack

    from ragmetrics_core.engine.evaluation import RunSettings
    from ragmetrics_core.engine.resolve import JudgeLike
    from ragmetrics_core.engine.run import Metrics
    from ragmetrics_core.engine.sample_sources import Samples
    from ragmetrics_core.reporting.gates import Gate
    from ragmetrics_core.reporting.report import Report

    class MeasureSettings(RunSettings, total=False):
        """Arguments of ``evaluate``, the gates, and ``strict``: see ``decide``."""

        judge: JudgeLike
        gates: Sequence[Gate | str] | str
        strict: bool

    class Measure(Protocol):
        """What the fixture ``ragmetrics`` gives to a test."""

        def __call__(
            self,
            samples: Samples,
            metrics: Metrics = None,
            **arguments: Unpack[MeasureSettings],
        ) -> Report:
            """Evaluate samples, and fail the test unless its gates pass."""


_MARKER_LINE = (
    "ragmetrics(*gates, **how): what the fixture of this name holds and gives to"
    ' evaluate, e.g. ("adherence=0.8", judge="gpt-4o-mini")'
)
# a test that has gates fails if it measures nothing: this note says that it did
_MEASURED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER_LINE)


@pytest.fixture(name="ragmetrics")
def make_measure(request: pytest.FixtureRequest) -> Measure:
    """A function that evaluates samples and fails the test unless its gates pass.

    It takes what ``evaluate`` takes and returns the report. Its arguments win, then
    those of the markers, then the nearest ``ragmetrics.toml`` above the test, up to
    pytest's root folder. Gates of several markers, of the test, its class and its
    module, all count; else the nearest marker wins. Beside the arguments of
    ``evaluate`` there are ``gates``, e.g. ``["adherence=0.8"]``, and ``strict=True``: a
    gate fails, too, where its 95 % interval holds the threshold.
    """
    by_markers = _arguments_of_markers(request.node)

    def measure(
        samples: Samples, metrics: Metrics = None, **arguments: Unpack[MeasureSettings]
    ) -> Report:
        from ragmetrics_core.data.errors import RagMetricsError

        try:
            by_project = _arguments_of_project(request.node)
            all_arguments = {**by_project, **by_markers, **arguments}
            if metrics is not None:
                all_arguments["metrics"] = metrics
            return _measure(request.node, samples, all_arguments)
        except RagMetricsError as error:
            what_to_do = str(error)  # such as to set a key
        pytest.fail(what_to_do, pytrace=False)

    return measure


def _arguments_of_project(test: pytest.Item) -> dict[str, Any]:
    """Return the arguments of ``evaluate`` that the nearest settings file gives.

    Example: ``judge = "lexical"`` becomes the argument ``judge``, and a column for the
    question the argument ``question_column``. Where the file gives no judge or store,
    there is no such argument. The path of a store is relative to the file's folder.
    """
    from ragmetrics_core.engine.project_file import project_settings
    from ragmetrics_core.engine.resolve import resolve_judge
    from ragmetrics_core.metrics.registry import metrics_with_settings

    folder = _folder_of_settings(test)
    settings = project_settings(folder, as_it_is=True)
    arguments: dict[str, Any] = {
        "metrics": settings.metrics,
        "gates": settings.gates,
        "strict": False,
    }
    if settings.criteria:
        metrics = metrics_with_settings(settings.metrics, (), settings.criteria)
        arguments["metrics"] = metrics
    for field, column in settings.columns.items():
        arguments[f"{field}_column"] = column
    if settings.judge:
        arguments["judge"] = resolve_judge(settings.judge, api_base=settings.api_base)
    if settings.store:
        arguments["store"] = folder / settings.store
    return arguments


def _measure(test: pytest.Item, samples: Samples, arguments: dict[str, Any]) -> Report:
    """Evaluate samples, and fail the test unless its gates pass; return the report.

    Example: with the gate "adherence=0.8" and a mean of .7 the test fails.
    What was measured is noted for the summary at the end of the session.
    """
    from ragmetrics_core.engine.evaluation import evaluate
    from ragmetrics_core.metrics.registry import choose_metrics
    from ragmetrics_core.reporting.gates import decide, parse_gate
    from ragmetrics_core.reporting.screen import reason_lines

    arguments["metrics"] = choose_metrics(arguments["metrics"])
    names = [metric.name for metric in arguments["metrics"]]
    given = arguments.pop("gates")
    gates = [
        parse_gate(gate, names) if isinstance(gate, str) else gate
        for gate in ([given] if isinstance(given, str) else given)
    ]
    strict = arguments.pop("strict")
    test.stash[_MEASURED] = True
    report = evaluate(samples, progress=False, **arguments)
    decisions = [decide(gate, report, strict=strict) for gate in gates]
    sentences_of_not_passed = [
        decision.sentence for decision in decisions if decision.outcome != "passed"
    ]
    is_passed = bool(decisions) and not sentences_of_not_passed
    measured = [] if is_passed else [report.table()]
    measured += map(str, decisions)
    if not decisions:
        measured.append("no gate was named: nothing is held")
    measured += report.run.notes
    # for the end of the session; properties of a test travel from the workers of xdist
    test.user_properties.append(("ragmetrics", "\n".join(measured)))
    if sentences_of_not_passed:
        lines = [*sentences_of_not_passed, *reason_lines(report.glance(decisions))]
        pytest.fail("\n".join(lines), pytrace=False)
    return report


def _arguments_of_markers(test: pytest.Item) -> dict[str, Any]:
    """Return the arguments of ``evaluate`` that the markers of a test give.

    A test has its own markers, and those of its class and its module. The gates of all
    of them count. Of any other argument, that of the nearest marker counts: with
    ``judge="a"`` on the test and ``judge="b"`` on its class it is "a".

    Raises:
        pytest.UsageError: If a marker gives gates both as arguments and as ``gates=``.
    """
    arguments: dict[str, Any] = {}
    gates: list[str] = []
    for marker in test.iter_markers("ragmetrics"):
        if marker.args and "gates" in marker.kwargs:
            raise pytest.UsageError(
                "the marker ragmetrics names gates twice: write them as arguments, or"
                " as gates="
            )
        gates_of_marker = marker.kwargs.get("gates", marker.args)
        if isinstance(gates_of_marker, str):
            gates.append(gates_of_marker)
        else:
            gates += gates_of_marker
        arguments_of_nearer_markers = arguments
        arguments = {**marker.kwargs, **arguments_of_nearer_markers}
    arguments.pop("gates", None)
    if gates:
        arguments["gates"] = gates
    return arguments


def _folder_of_settings(test: pytest.Item) -> Path:
    """Find the nearest folder above a test with a settings file, else the root."""
    from ragmetrics_core.engine.project_file import PROJECT_FILE

    root = test.config.rootpath
    for folder in test.path.parents:
        if folder.is_relative_to(root) and (folder / PROJECT_FILE).exists():
            return folder
    return root


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that has gates and measured nothing: they would seem to be passed.

    A marker of a class or module, and ``ragmetrics.toml``, do not speak of tests that
    do not ask for the fixture.
    """
    outcome = yield
    if item.stash.get(_MEASURED, False):
        return outcome
    asks_for_fixture = "ragmetrics" in getattr(item, "fixturenames", ())
    marked_nodes = [node for node, _ in item.iter_markers_with_node("ragmetrics")]
    # no test of a ``TestCase`` can ask for the fixture
    is_unittest = isinstance(getattr(item, "instance", None), unittest.TestCase)
    has_marker_of_its_own = any(
        node is item or (is_unittest and node is item.parent) for node in marked_nodes
    )
    gates: Sequence[Any] = ()
    if asks_for_fixture or has_marker_of_its_own:
        by_markers = _arguments_of_markers(item)
        if "gates" in by_markers:
            gates = by_markers["gates"]
        elif asks_for_fixture:
            from ragmetrics_core.engine.project_file import project_settings

            folder = _folder_of_settings(item)
            gates = project_settings(folder, as_it_is=True).gates
    if gates:
        names = ", ".join(map(str, gates))
        pytest.fail(
            f"the gates {names} were not held: the test never called the fixture"
            " ragmetrics",
            pytrace=False,
        )
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests measured."""
    summaries: list[str] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or report.when != "call":
                continue
            for name, summary in report.user_properties:
                if name == "ragmetrics":
                    summaries.append(f"{report.nodeid}\n{summary}")
    if summaries:
        terminalreporter.section("ragmetrics")
        terminalreporter.write_line("\n".join(summaries))
