"""Runs until decided: in order, in time, counted at the server, killed and resumed."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from loopback import LoopbackServer

from ragmetrics_core import (
    ContextAdherence,
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    aevaluate,
    evaluate,
    iter_results,
    metric,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.labelling.labels import Label, calibrate, draw
from ragmetrics_core.reporting.gates import Gate, UntilDecided, decide
from ragmetrics_core.testing import UndecidedWarning, assert_score

Row = dict[str, Any]


@metric(name="good", requires=("answer",))
def good(sample: Any) -> float | None:
    """The score that stands in the answer; undefined for "none", failed for "fails"."""
    if sample.answer == "fails":
        raise ValueError("no score")
    return None if sample.answer == "none" else float(sample.answer)


def rows(*scores: float | str, **more: Any) -> list[Row]:
    return [
        {"question": f"Question {n}?", "answer": str(score), **more}
        for n, score in enumerate(scores)
    ]


def verdicts(count: int, mean: float, seed: int = 0) -> list[float]:
    scores = [1.0] * round(count * mean) + [0.0] * (count - round(count * mean))
    random.Random(seed).shuffle(scores)
    return scores


def until(data: Any, *gates: str, **options: Any) -> Report:
    return evaluate(
        data,
        good,
        judge="lexical",
        until=UntilDecided(**options),
        gates=gates,
        concurrency=4,
        progress=False,
    )


# End to end.

KIND = re.compile(r"Thing (\d+) ")


def says_yes(body: Row) -> str:
    """Nine of ten answers are supported."""
    found = KIND.search(str(body["messages"]))
    assert found is not None
    verdict = "no" if int(found[1]) % 10 == 0 else "yes"
    return json.dumps(
        {
            "reason": "As told.",
            "unsupported": [] if verdict == "yes" else ["It."],
            "claims": 1,
        }
    )


THINGS = [
    {
        "question": f"What is thing {n}?",
        "contexts": [f"Thing {n} is here."],
        "answer": f"Thing {n} is here.",
    }
    for n in range(1_000)
]
ONE_CALL = ContextAdherence(polls=1, cause=False)


def test_a_run_stops_when_its_gate_is_decided_and_the_server_counts_what_is_saved(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server(says_yes)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
    stopped = evaluate(
        THINGS,
        ONE_CALL,
        judge=judge,
        until="decided",
        gates=["adherence=0.8"],
        progress=False,
    )
    made = len(server.requests)
    whole = evaluate(THINGS, ONE_CALL, judge=judge, progress=False)
    (decision,) = stopped.decisions
    assert (decision.outcome, decision.metric, decision.at_least) == (
        "passed",
        "context_adherence",
        0.8,
    )
    assert decision.decided_at is not None
    assert decision.decided_at < 300
    assert made == len(stopped.results) == decision.decided_at + 2 * 32 - 1
    assert decision.saved == len(server.requests) - made - made
    assert whole.summary()["context_adherence"].mean == pytest.approx(0.9)
    assert decision.bounds[0] > 0.8
    assert decision.bounds[0] <= 0.9 <= decision.bounds[1]
    assert re.fullmatch(
        rf"context_adherence reaches 0\.8; decided after {decision.decided_at} of 1,000"
        rf" rows \({made} scored with "
        rf"those in flight, {1000 - made} calls saved\), e-value (over 1,000|[\d.]+)"
        r" \(≥ 20\), "
        r"bounds 0\.8\d\d–0\.9\d\d, each valid with 95 % whenever one stops\.",
        decision.sentence,
    )


CHILD = """
import sys
from ragmetrics_core import ContextAdherence, LLMJudge, OpenAICompatibleModel, evaluate
sys.path.insert(0, sys.argv[3])
from test_until import THINGS, ONE_CALL
report = evaluate(THINGS, ONE_CALL, judge=LLMJudge(OpenAICompatibleModel(sys.argv[1], "m")), store=sys.argv[2],
                  until="decided", gates=["adherence=0.8"], progress=False)
print(report.decisions[0].model_dump_json(), report.summary().judged, report.usage.stored)
"""


@pytest.mark.nightly
def test_a_killed_run_goes_on_to_the_same_decision_without_a_second_call(
    loopback_server: Callable[..., LoopbackServer], tmp_path: Path
) -> None:
    server = loopback_server(says_yes, latency=0.02)

    def child(store: str) -> subprocess.Popen[str]:
        arguments = [server.base_url, str(tmp_path / store), str(Path(__file__).parent)]
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True
        )

    whole, _ = child("whole.sqlite").communicate(timeout=60)
    undisturbed = len(server.requests)
    killed = child("killed.sqlite")
    while len(server.requests) < undisturbed + 60 and killed.poll() is None:
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    resumed, _ = child("killed.sqlite").communicate(timeout=60)
    outcomes = [
        (own["outcome"], own["decided_at"], own["e_value"], own["bounds"])
        for own in (
            json.loads(said.rpartition("}")[0] + "}") for said in (whole, resumed)
        )
    ]
    assert outcomes[0] == outcomes[1]
    assert resumed.split()[-2] == whole.split()[-2]
    stored = int(resumed.split()[-1])
    again = len(server.requests) - 2 * undisturbed
    assert stored >= 28
    assert 0 <= again <= 32  # those that were in flight, and never answered


# The order, and what counts.


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.sampled_from(["0", "0.5", "1", "none", "fails"]), min_size=1, max_size=40
    ),
    st.integers(0, 2),
)
def test_a_population_judged_to_its_end_is_decided_as_its_mean_says(
    scores: list[str], seed: int
) -> None:
    report = until(
        rows(*scores), "good=0.7", on="point", seed=seed, min_scored=0.0, alpha=1e-9
    )
    known = [float(score) for score in scores if score not in ("none", "fails")]
    unknown = scores.count("fails")
    (decision,) = report.decisions
    low, high = (
        (sum(known) + extra) / max(1, len(known) + unknown) for extra in (0, unknown)
    )
    if decision.outcome == "passed":
        assert low >= 0.7 - 1e-9
    elif decision.outcome == "failed":
        assert high < 0.7
    else:
        assert low < 0.7 <= high + 1e-9 or not known


def test_the_report_keeps_the_order_of_the_input_and_digests_all_of_it() -> None:
    data = rows(*verdicts(200, 1.0))
    report = until(data, "good=0.5")
    assert 10 <= len(report.results) < 30
    assert [row.index for row in report.results] == sorted(
        row.index for row in report.results
    )
    assert [row.index for row in report.results] != list(range(len(report.results)))
    assert report.run.inputs == evaluate(data, good, judge="lexical").run.inputs
    assert "seed 0" in report.table()


def test_all_forms_take_the_same_rows() -> None:
    data, how = (
        rows(*verdicts(200, 0.9)),
        {"judge": "lexical", "until": "decided", "gates": ["good=0.5"]},
    )
    one = evaluate(data, good, **how)
    other = asyncio.run(aevaluate(data, good, **how))
    streamed = list(iter_results(data, good, **how))
    assert one.decisions == other.decisions
    assert sorted(row.index for row in streamed) == [row.index for row in one.results]


def test_stragglers_are_waited_for() -> None:
    data, order = rows(*verdicts(300, 0.9)), list[str]()

    @metric(name="good", requires=("answer",))
    def slow_if_bad(sample: Any) -> float:
        time.sleep(0.02 * (sample.answer == "0.0"))
        order.append(sample.question)
        return float(sample.answer)

    slow = evaluate(
        data,
        slow_if_bad,
        judge="lexical",
        until="decided",
        gates=["good=0.7"],
        concurrency=4,
    )
    assert slow.decisions == until(data, "good=0.7").decisions
    drawn = [
        row.sample.question
        for row in iter_results(
            data,
            good,
            judge="lexical",
            until="decided",
            gates=["good=0.7"],
            concurrency=4,
        )
        if row.sample
    ]
    assert sorted(order) == sorted(drawn)
    assert order != drawn  # the quick came first


def test_an_iterator_is_taken_in_its_order() -> None:
    def endless() -> Iterator[Row]:
        n = 0
        while True:
            yield {"question": f"Question {n}?", "answer": "1.0"}
            n += 1

    report = until(endless(), "good=0.5")
    assert [row.index for row in report.results] == list(range(len(report.results)))
    assert report.decisions[0].saved is None
    assert (
        "order of arrival: what was decided holds only if that is random"
        in report.run.notes[0]
    )
    assert "decided after 10 rows (" in report.decisions[0].sentence
    assert len(until(endless(), "good=1", max_samples=20).results) == 20
    with pytest.raises(SettingError, match="needs a list of rows"):
        until(endless(), "good=0.5", on="point")


@pytest.mark.parametrize(
    ("scores", "options", "outcome", "words"),
    [
        ([1.0] * 60, {}, "passed", "good reaches 0.5; decided after 10 of 60 rows"),
        ([0.0] * 60, {}, "failed", "good misses 0.5; decided after 10 of 60 rows"),
        (
            [0.4] * 60,
            {"margin": 0.2},
            "passed",
            "good reaches 0.5 less the margin of 0.2",
        ),
        (
            [0.5] * 60,
            {},
            "undecided",
            "reach 0.5; undecided after 60 of 60 rows (60 scored), e-value",
        ),
        (
            [1.0] * 20 + ["none"] * 40,
            {},
            "undecided",
            "so many have no score that 95 % of all rows cannot be scored",
        ),
        (
            [1.0] * 20 + ["fails"] * 40,
            {},
            "undecided",
            "so many have no score that 95 % of all rows cannot be scored",
        ),
        ([1.0] * 57 + ["none"] * 3, {"min_scored": 0.5}, "passed", "good reaches 0.5"),
        (
            [1.0] * 60,
            {"max_samples": 8},
            "undecided",
            "after 8 of 60 rows (8 scored, 52 without a result)",
        ),
        ([], {"on": "point"}, "undecided", "undecided after 0 of 0 rows"),
        ([1.0] * 60, {"min_samples": 30}, "passed", "decided after 30 of 60"),
        (
            [1.0] * 5,
            {"on": "point"},
            "passed",
            "5 of 5 rows (5 scored with those in flight), e-value over 1,000",
        ),
    ],
)
def test_outcomes(
    scores: list[Any], options: dict[str, Any], outcome: str, words: str
) -> None:
    (decision,) = until(rows(*scores), "good=0.5", **options).decisions
    assert (decision.outcome, words in decision.sentence) == (
        outcome,
        True,
    ), decision.sentence


def test_a_bad_row_is_a_row_without_a_score() -> None:
    report = until(
        [*rows(*[1.0] * 10), *[{"answer": {}}] * 10],
        "good=0.5",
        on="point",
        min_scored=0.0,
    )
    assert report.decisions[0].outcome == "passed"  # 10 of 20 are sure
    assert report.summary().bad_rows == 10
    assert report.decisions[0].bounds == pytest.approx((0.5, 1.0), abs=1e-5)


def test_a_clean_start_is_not_enough() -> None:
    """A report never says that a gate was decided over rows of which too few are scored."""
    bad: set[str] = set()

    @metric(name="good")
    def named(sample: Any) -> float:
        if sample.question in bad:
            raise ValueError("no score")
        return 1.0

    how: dict[str, Any] = {
        "judge": "lexical",
        "until": "decided",
        "gates": "good=0.5",
        "concurrency": 4,
    }
    drawn = [
        row.sample.question
        for row in iter_results(rows(*[1.0] * 200), named, **how)
        if row.sample
    ]
    assert len(drawn) == 17  # decided after ten
    bad.update(drawn[12:14])
    report = evaluate(rows(*[1.0] * 200), named, **how)
    (decision,) = report.decisions
    scored = report.summary()["good"].count
    assert (decision.outcome, decision.decided_at) == ("undecided", None)
    assert (scored, len(report.results)) == (15, 17)
    assert "because fewer than 95 % of those looked at were scored" in decision.sentence


@pytest.mark.parametrize("lost", ["none", "fails"])
def test_a_run_ends_where_nothing_can_be_decided_any_more(lost: str) -> None:
    report = until(rows(*([1.0] * 7 + [lost] * 3) * 200), "good=0.6")
    (decision,) = report.decisions
    assert decision.outcome == "undecided"
    # 101 of 2,000 are too many, and three of ten rows are lost
    assert 300 < len(report.results) < 420
    assert (
        "because so many have no score that 95 % of all rows cannot be scored"
        in decision.sentence
    )
    known = until(rows(*([1.0] * 7 + [lost] * 3) * 40), "good=0.6", min_scored=0.5)
    assert known.decisions[0].outcome == "passed" or lost == "fails"


def test_calls_saved_are_those_that_would_be_made(
    loopback_server: Callable[..., LoopbackServer], tmp_path: Path
) -> None:
    judge = LLMJudge(OpenAICompatibleModel(loopback_server(says_yes).base_url, "m"))
    how: dict[str, Any] = {
        "judge": judge,
        "until": "decided",
        "gates": ["adherence=0.8"],
        "concurrency": 2,
    }
    things = THINGS[:400]
    # nine calls, whatever is judged
    twice = evaluate(things[1:10] * 50, ONE_CALL, **how)
    assert (twice.usage.calls, twice.decisions[0].saved) == (9, 0)
    evaluate(things, ONE_CALL, judge=judge, store=tmp_path / "all.sqlite")
    stored = evaluate(things, ONE_CALL, store=tmp_path / "all.sqlite", **how)
    assert (stored.usage.calls, stored.decisions[0].saved) == (0, 0)
    assert "without a result" in stored.decisions[0].sentence


def test_ids_and_metadata_make_no_other_draw() -> None:
    scores = verdicts(300, 0.8)
    one, other = (
        until(
            [
                {**row, "id": f"{kind}{n}", "metadata": {"trace": f"{kind}{n}"}}
                for n, row in enumerate(rows(*scores))
            ],
            "good=0.7",
        )
        for kind in "ab"
    )
    assert one.decisions == other.decisions
    assert [row.index for row in one.results] == [row.index for row in other.results]


def test_several_gates_decide_together() -> None:
    data = rows(*[1.0] * 30, *[0.0] * 70)
    report = until(data, "good=0.05", "good=0.6")
    assert {own.at_least: own.outcome for own in report.decisions}[0.6] == "failed"
    assert "(≥ 40)" in report.decisions[1].sentence  # either may fail the run: 2 / .05
    assert len(report.results) < 100


def test_conversations_are_units() -> None:
    talks = [
        {
            "question": f"Turn {n}?",
            "answer": str(float(n // 5 % 10 != 0)),
            "conversation_id": f"c{n // 5}",
        }
        for n in range(1_000)
    ]
    report = until(talks, "good=0.6")
    (decision,) = report.decisions
    assert (decision.outcome, decision.decided_at) == ("passed", decision.decided_at)
    assert decision.decided_at is not None
    assert decision.decided_at % 5 == 0
    alone = until(talks, "good=0.6", cluster=None).decisions[0]
    assert alone.decided_at != decision.decided_at
    report = until(iter(talks), "good=0.6")
    assert (len(report.results) < 10, report.decisions[0].outcome) == (
        True,
        "undecided",
    )
    assert (
        "row 2 shares its cluster with an earlier one; give a list"
        in report.decisions[0].sentence
    )


def test_a_limit_ends_what_counts(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    judge = LLMJudge(OpenAICompatibleModel(loopback_server(says_yes).base_url, "m"))
    report = evaluate(
        THINGS,
        ONE_CALL,
        judge=judge,
        until="decided",
        gates=["adherence=0.8"],
        limits=Limits(max_calls=20),
    )
    (decision,) = report.decisions
    assert decision.outcome == "undecided"
    assert "because a limit was reached" in decision.sentence
    assert (
        decide(Gate(metric="context_adherence", at_least=0.1), report).outcome
        == "undecided"
    )


def earlier(*scores: float | str, **more: Any) -> Report:
    return evaluate(rows(*scores, **more), good, judge="lexical", progress=False)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"until": "decided"}, "needs something to decide"),
        ({"gates": ["good=0.5"]}, 'gates= end a run until="decided"'),
        (
            {"until": "decided", "gates": ["adherence=0.5"]},
            "no metric 'adherence' for a gate .*; there are: good",
        ),
        ({"until": "decided", "gates": ["good"]}, "metric=threshold"),
        ({"until": "decided", "gates": {"good": 0.5}}, "metric=threshold"),
        ({"until": "decided", "gates": None}, "needs something to decide"),
        (
            {"until": "decide", "gates": ["good=0.5"]},
            "until= is \"decided\", or settings: .* got 'decide'",
        ),
        (
            {"until": True, "gates": ["good=0.5"]},
            'until= is "decided", or settings: .* got True',
        ),
        (
            {"until": "decided", "gates": [Gate(metric="bad", at_least=0.5)]},
            "no metric 'bad'",
        ),
    ],
)
def test_bad_settings(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        evaluate(rows(1.0), good, judge="lexical", **how)


# What a stopped run shows.


def test_a_stopped_run_shows_the_bounds_and_nothing_else(tmp_path: Path) -> None:
    data = rows(*verdicts(300, 0.9))
    report = evaluate(
        [{**row, "contexts": ["A tower."]} for row in data],
        [good, "adherence"],
        judge="lexical",
        until="decided",
        gates=["good=0.7"],
    )
    summary = report.summary()
    assert (summary["good"].interval, summary["good"].worst) == (
        report.decisions[0].interval,
    ) * 2
    own = summary["context_adherence"]
    assert (own.count > 0, own.interval, own.worst, own.best) == (
        True,
        None,
        None,
        None,
    )
    told = report.table() + report._repr_html_() + report.methods()
    assert "stopping early pushes it away from the threshold" in told
    assert not re.search(r"95 % interval|Wilson|BCa|\bt with", told)
    report.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl") == report


def test_another_gate_of_a_stopped_run_is_held_against_its_bounds() -> None:
    report = until(rows(*verdicts(300, 0.9)), "good=0.7")
    low, high = report.decisions[0].bounds
    for at_least, outcome in (
        (low - 0.01, "passed"),
        (fmean((low, high)), "undecided"),
    ):
        decision = decide(Gate(metric="good", at_least=at_least), report)
        assert decision.outcome == outcome
    share = Gate(metric="good", at_least=0.0, above=0.5)
    assert decide(share, report).outcome == "undecided"


def test_the_page_shows_no_other_interval(tmp_path: Path) -> None:
    data = [
        {**row, "contexts": ["A tower.", "A lamp."]}
        for row in rows(*verdicts(300, 0.9))
    ]
    report = evaluate(
        data,
        [good, "utilization"],
        judge="lexical",
        until="decided",
        gates=["good=0.7"],
    )
    report.to_html(tmp_path / "r.html")
    page = (
        (tmp_path / "r.html").read_text(encoding="utf-8").partition('id="columns"')[0]
    )
    assert f"Passed: {report.decisions[0].sentence}" in page
    assert "wrong with a risk of at most 5 %, however often one looks" in page
    assert not re.search(r"95 % interval|Wilson|Spearman|\bt with", page)


# Comparisons, assertions, commands.


def test_rows_are_not_compared_as_if_they_were_a_run() -> None:
    with pytest.raises(SettingError, match="two finished runs are compared"):
        earlier(1.0).compare(rows(1.0))  # type: ignore[arg-type]  # the mistake meant


def test_a_stopped_run_is_not_tested_against_another() -> None:
    before, stopped = (
        earlier(*verdicts(300, 0.9)),
        until(rows(*verdicts(300, 0.9)), "good=0.7"),
    )
    with pytest.raises(InputError, match="its rows were chosen by their scores"):
        before.compare(stopped)
    found = before.compare(stopped, anyway=True)
    assert found.regression() == {"good": "undecided"}
    assert (
        "the second run ended early: its gates were decided"
        in found.regressions()[0].sentence
    )


def test_assertions() -> None:
    passing, failing = rows(*verdicts(300, 0.9)), rows(*verdicts(300, 0.4))
    assert_score(
        passing, at_least=0.7, metric=good, until_decided=True, judge="lexical"
    )
    with pytest.raises(AssertionError, match=r"good misses 0\.7; decided after"):
        assert_score(
            failing, at_least=0.7, metric=good, until_decided=True, judge="lexical"
        )
    with pytest.warns(UndecidedWarning, match="may or may not reach"):
        assert_score(
            rows(*[0.7] * 40),
            at_least=0.7,
            metric=good,
            until_decided=True,
            judge="lexical",
        )
    few = UntilDecided(max_samples=5)
    with pytest.raises(AssertionError, match="undecided after 5 of 300"):
        assert_score(
            passing,
            at_least=0.7,
            metric=good,
            until_decided=few,
            undecided="fail",
            judge="lexical",
        )
    turns = [
        {
            "question": f"What is {n}?",
            "contexts": [f"It is {n}."],
            "answer": f"It is {n}.",
        }
        for n in range(40)
    ]
    # adherence and utilization
    assert_score(turns, at_least=0.5, until_decided=True, judge="lexical")
    for metrics in (None, good):
        with pytest.raises((InputError, SettingError)):
            assert_score(
                [], at_least=0.5, metric=metrics, until_decided=True, judge="lexical"
            )
    with pytest.raises(SettingError, match="rows with until_decided=True"):
        assert_score(turns, at_least=0.5)


def written(path: Path, count: int, wrong: int) -> Path:
    """A file of turns, the wrong ones first."""
    lines = [
        {
            "question": f"What is {n}?",
            "contexts": [f"It is {n}."],
            "answer": "No tower." if n < wrong else f"It is {n}.",
        }
        for n in range(count)
    ]
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return path


BASE = ["--metrics", "adherence", "--quiet", "--no-store", "--judge", "lexical"]


@pytest.mark.parametrize(
    ("wrong", "more", "code", "words"),
    [
        (40, [], 0, "passed: context_adherence reaches 0.6; decided after"),
        (300, [], 1, "failed: context_adherence misses 0.6; decided after"),
        (
            40,
            ["--max-samples", "8"],
            3,
            "undecided: context_adherence may or may not reach 0.6; undecided after 8",
        ),
        (
            40,
            ["--seed", "4", "--alpha", "0.01"],
            0,
            "each valid with 99 % whenever one stops",
        ),
    ],
)
def test_the_command(
    wrong: int,
    more: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, out = written(tmp_path / "rows.jsonl", 400, wrong), tmp_path / "out.jsonl"
    how = [
        "--until-decided",
        "--fail-under",
        "adherence=0.6",
        *more,
        "--concurrency",
        "2",
        "--explain",
    ]
    assert (
        main(
            [
                "evaluate",
                str(path),
                *BASE,
                *how,
                "--out",
                str(out),
                "--report",
                str(tmp_path / "r.html"),
            ]
        )
        == code
    )
    said = capsys.readouterr().out
    assert words in said
    assert "95 % interval" not in said
    report = Report.from_jsonl(out)
    assert report.decisions[0].sentence in said
    assert len(report.results) < 200
    assert [source.rows for source in report.run.inputs] == [400]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (["--seed", "3"], "--seed belongs to --until-decided"),
        (["--until-decided"], "needs something to decide"),
    ],
)
def test_commands_that_are_refused(
    how: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["evaluate", str(written(tmp_path / "rows.jsonl", 20, 0)), *BASE, *how])
        == 2
    )
    assert words in capsys.readouterr().err


def test_stopped_runs_are_not_calibrated() -> None:
    stopped = until(
        [{**row, "id": row["question"]} for row in rows(*verdicts(300, 0.9))],
        "good=0.7",
    )
    labels = [
        Label(row.sample.id, (True,))
        for row in stopped.results[:20]
        if row.sample and row.sample.id
    ]
    with pytest.raises(InputError, match="until decided"):
        calibrate(stopped, "good", labels, assume_random=True)
    with pytest.raises(InputError, match="until decided"):
        draw(stopped, "good", 5, seed=0)
