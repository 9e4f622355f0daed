"""pytest: the fixture and marker ``ragmetrics``; what was measured stands in the terminal's summary, also under xdist.

Every session of pytest imports this module, so it loads nothing else until the fixture
is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragmetrics_core.reporting.run_facts import Decision

_MARKER = (
    "ragmetrics(*gates, **how): what the fixture of this name holds and gives to"
    ' evaluate, e.g. ("adherence=0.8", judge="gpt-4o-mini"); on="point" takes the mean'
    " alone."
)


_MEASURED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(name="ragmetrics")
def gated(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function that takes what ``evaluate`` takes, returns the report, and fails the test unless its gates pass.

    Its arguments win, then those of the markers, then the nearest ``ragmetrics.toml``
    above the test, up to pytest's root folder. Gates of several markers, of the test,
    its class and its module, all count; else the nearest marker wins. Beside those of
    ``evaluate`` there are ``gates``, e.g. ``["adherence=0.8"]``, and ``on="point"`` for
    the mean alone in place of its 95 % interval, which too few samples leave undecided.
    """
    marked = _marked(request.node)

    def measure(samples: Any, metrics: Any = None, **how: Any) -> Any:
        from ragmetrics_core.data import project_settings
        from ragmetrics_core.engine.evaluation import evaluate
        from ragmetrics_core.engine.resolve import resolve_judge
        from ragmetrics_core.reporting.gates import UntilDecided, decide, parse_gate

        folder = _folder_of_settings(request.node)
        found = project_settings(folder, as_it_is=True)
        settled: dict[str, Any] = {
            f"{name}_column": own for name, own in found.columns.items()
        }
        settled |= (
            {"judge": resolve_judge(found.judge, api_base=found.api_base)}
            if found.judge
            else {}
        )
        settled |= {"store": folder / found.store} if found.store else {}
        how = {
            "metrics": found.metrics,
            "gates": found.gates,
            "on": "interval",
            **settled,
            **marked,
            **how,
        }
        gates, on = how.pop("gates"), how.pop("on")
        gates = [gates] if isinstance(gates, str) else list(gates)
        if metrics is not None:
            how["metrics"] = metrics
        until = how.pop("until", None)
        if until is not None:
            how["until"] = UntilDecided(on=on) if until == "decided" else until
            how["gates"] = gates
        request.node.stash[_MEASURED] = True
        report = evaluate(samples, progress=False, **how)
        decisions: Sequence[Decision] = report.decisions
        if until is None:
            decisions = [
                decide(parse_gate(gate, report.metrics), report, on=on)
                for gate in gates
            ]
        told = [
            report.table(),
            *(
                map(str, decisions)
                if decisions
                else ["no gate was named: nothing is held"]
            ),
        ]
        # which travels from workers of xdist
        request.node.user_properties.append(("ragmetrics", "\n".join(told)))
        if wrong := [own.sentence for own in decisions if own.outcome != "passed"]:
            pytest.fail("\n".join(wrong), pytrace=False)
        return report

    return measure


def _marked(node: pytest.Item) -> dict[str, Any]:
    """What all markers of a test say: their gates together, of anything else what stands nearest to the test."""
    marked: dict[str, Any] = {}
    gates: list[str] = []
    for marker in node.iter_markers("ragmetrics"):  # the nearest first
        if marker.args and "gates" in marker.kwargs:
            raise pytest.UsageError(
                "the marker ragmetrics names gates twice: write them as arguments, or"
                " as gates="
            )
        named = marker.kwargs.get("gates", marker.args)
        gates += [named] if isinstance(named, str) else named
        marked = {**marker.kwargs, **marked}
    marked.pop("gates", None)
    return {**marked, "gates": gates} if gates else marked


def _gates_of(item: pytest.Item) -> Sequence[Any]:
    """The gates that a test is to hold, by its markers or else by the settings file.

    None if it is not meant.
    """
    asks_for_fixture = "ragmetrics" in getattr(item, "fixturenames", ())
    has_marker = any(
        node is item for node, _ in item.iter_markers_with_node("ragmetrics")
    )
    marked = _marked(item) if asks_for_fixture or has_marker else {}
    if "gates" in marked or not asks_for_fixture:
        return list(marked.get("gates", ()))
    from ragmetrics_core.data import project_settings

    return project_settings(_folder_of_settings(item), as_it_is=True).gates


def _folder_of_settings(item: pytest.Item) -> Path:
    """The nearest folder above a test that holds a settings file, up to pytest's root folder, which else is meant."""
    from ragmetrics_core.data import PROJECT_FILE

    root = item.config.rootpath
    above = [folder for folder in item.path.parents if folder.is_relative_to(root)]
    return next((folder for folder in above if (folder / PROJECT_FILE).exists()), root)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that has gates and measured nothing: its gates would seem to be passed.

    A marker of a class or module, and ``ragmetrics.toml``, do not speak of tests that
    do not ask for the fixture.
    """
    outcome = yield
    if item.stash.get(_MEASURED, False):
        return outcome
    gates = _gates_of(item)
    if gates:
        named = ", ".join(map(str, gates))
        pytest.fail(
            f"the gates {named} were not held: the test never called the fixture"
            " ragmetrics",
            pytrace=False,
        )
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests measured."""
    known = [
        one
        for listed in terminalreporter.stats.values()
        for one in listed
        if isinstance(one, pytest.TestReport)
    ]
    pairs = [
        (one.nodeid, own)
        for one in known
        if one.when == "call"
        for own in one.user_properties
    ]
    told = [f"{place}\n{text}" for place, (name, text) in pairs if name == "ragmetrics"]
    if told:
        terminalreporter.section("ragmetrics")
        terminalreporter.write_line("\n".join(told))
