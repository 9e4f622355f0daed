"""Runs until decided: in order, in time, counted at the server, killed and resumed, against an earlier run."""

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
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.reporting.gates import Gate, decide
from ragmetrics_core.statistics.sequential import UntilDecided
from ragmetrics_core.testing.server import LoopbackServer

Row = dict[str, Any]


@metric(name="good", requires=("answer",))
def good(sample: Any) -> float | None:
    """The score that stands in the answer; undefined for "none", failed for "fails"."""
    if sample.answer == "fails":
        raise ValueError("no score")
    return None if sample.answer == "none" else float(sample.answer)


def rows(*scores: float | str, **more: Any) -> list[Row]:
    return [{"question": f"Question {n}?", "answer": str(score), **more} for n, score in enumerate(scores)]


def verdicts(count: int, mean: float, seed: int = 0) -> list[float]:
    scores = [1.0] * round(count * mean) + [0.0] * (count - round(count * mean))
    random.Random(seed).shuffle(scores)
    return scores


def until(data: Any, *gates: str, **options: Any) -> Report:
    return evaluate(
        data, good, judge="lexical", until=UntilDecided(**options), gates=gates, concurrency=4, progress=False
    )


# End to end.

KIND = re.compile(r"Thing (\d+) ")


def says_yes(body: Row) -> str:
    """Nine of ten answers are supported."""
    found = KIND.search(str(body["messages"]))
    assert found is not None
    verdict = "no" if int(found[1]) % 10 == 0 else "yes"
    return json.dumps({"reason": "As told.", "unsupported": [] if verdict == "yes" else ["It."], "verdict": verdict})


THINGS = [
    {"question": f"What is thing {n}?", "contexts": [f"Thing {n} is here."], "answer": f"Thing {n} is here."}
    for n in range(1_000)
]
ONE_CALL = ContextAdherence(polls=1, cause=False)


def test_a_run_stops_when_its_gate_is_decided_and_the_server_counts_what_is_saved(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server(says_yes)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
    stopped = evaluate(THINGS, ONE_CALL, judge=judge, until="decided", gates=["adherence=0.8"], progress=False)
    made = len(server.requests)
    whole = evaluate(THINGS, ONE_CALL, judge=judge, progress=False)
    (decision,) = stopped.decisions
    assert (decision.outcome, decision.metric, decision.at_least) == ("passed", "context_adherence", 0.8)
    assert decision.decided_at is not None
    assert decision.decided_at < 300
    assert made == len(stopped.results) == decision.decided_at + 2 * 32 - 1
    assert decision.saved == len(server.requests) - made - made
    assert whole.summary()["context_adherence"].mean == pytest.approx(0.9)
    assert decision.bounds[0] > 0.8
    assert decision.bounds[0] <= 0.9 <= decision.bounds[1]
    assert re.fullmatch(
        rf"context_adherence reaches 0\.8; decided after {decision.decided_at} of 1,000 samples \({made} scored with "
        rf"those in flight, {1000 - made} calls saved\), e-value [\d.,]+ \(≥ 20\), bounds 0\.8\d\d–0\.9\d\d, "
        r"each valid with 95 % whenever one stops\.",
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


def test_a_killed_run_goes_on_to_the_same_decision_without_a_second_call(
    loopback_server: Callable[..., LoopbackServer], tmp_path: Path
) -> None:
    server = loopback_server(says_yes, latency=0.02)

    def child(store: str) -> subprocess.Popen[str]:
        arguments = [server.base_url, str(tmp_path / store), str(Path(__file__).parent)]
        return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True)

    whole, _ = child("whole.sqlite").communicate(timeout=60)
    undisturbed = len(server.requests)
    killed = child("killed.sqlite")
    while len(server.requests) < undisturbed + 60 and killed.poll() is None:
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    resumed, _ = child("killed.sqlite").communicate(timeout=60)
    assert resumed.split()[:-1] == whole.split()[:-1]
    stored = int(resumed.split()[-1])
    again = len(server.requests) - 2 * undisturbed
    assert stored >= 28
    assert 0 <= again <= 32  # those that were in flight, and never answered


# The order, and what counts.


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_file_makes_no_difference(draw: random.Random, seed: int) -> None:
    data = rows(*verdicts(80, 0.8))
    shuffled = list(data)
    draw.shuffle(shuffled)
    one, other = (until(own, "good=0.6", seed=seed) for own in (data, shuffled))
    assert one.decisions == other.decisions
    questions = [{row.sample.question for row in own.results if row.sample} for own in (one, other)]
    assert questions[0] == questions[1]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["0", "0.5", "1", "none", "fails"]), min_size=1, max_size=40), st.integers(0, 2))
def test_a_population_judged_to_its_end_is_decided_as_its_mean_says(scores: list[str], seed: int) -> None:
    report = until(rows(*scores), "good=0.7", on="point", seed=seed, min_scored=0.0, alpha=1e-9)
    known = [float(score) for score in scores if score not in ("none", "fails")]
    unknown = scores.count("fails")
    (decision,) = report.decisions
    low, high = ((sum(known) + extra) / max(1, len(known) + unknown) for extra in (0, unknown))
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
    assert [row.index for row in report.results] == sorted(row.index for row in report.results)
    assert [row.index for row in report.results] != list(range(len(report.results)))
    assert report.run.inputs == evaluate(data, good, judge="lexical").run.inputs
    assert "seed 0" in report.table()


def test_all_forms_take_the_same_rows() -> None:
    data, how = rows(*verdicts(200, 0.9)), {"judge": "lexical", "until": "decided", "gates": ["good=0.5"]}
    one = evaluate(data, good, **how)
    other = asyncio.run(aevaluate(data, good, **how))
    streamed = list(iter_results(data, good, **how))
    assert one.decisions == other.decisions
    assert sorted(row.index for row in streamed) == [row.index for row in one.results]


def test_stragglers_are_waited_for(loopback_server: Callable[..., LoopbackServer]) -> None:
    def slow_if_bad(body: Row) -> str:
        reply = says_yes(body)
        time.sleep(0.05 if '"no"' in reply else 0.0)
        return reply

    def decisions(reply: Callable[[Row], str]) -> Any:
        judge = LLMJudge(OpenAICompatibleModel(loopback_server(reply).base_url, "m"))
        return evaluate(THINGS[:300], ONE_CALL, judge=judge, until="decided", gates=["adherence=0.8"]).decisions

    assert decisions(slow_if_bad) == decisions(says_yes)


def test_an_iterator_is_taken_in_its_order() -> None:
    def endless() -> Iterator[Row]:
        n = 0
        while True:
            yield {"question": f"Question {n}?", "answer": "1.0"}
            n += 1

    report = until(endless(), "good=0.5")
    assert [row.index for row in report.results] == list(range(len(report.results)))
    assert report.decisions[0].saved is None
    assert "order of arrival: what was decided holds only if that is random" in report.run.notes[0]
    assert "decided after 10 samples (" in report.decisions[0].sentence
    assert len(until(endless(), "good=1", max_samples=20).results) == 20
    with pytest.raises(SettingError, match="need a list of rows"):
        until(endless(), "good=0.5", on="point")


@pytest.mark.parametrize(
    ("scores", "options", "outcome", "words"),
    [
        ([1.0] * 60, {}, "passed", "good reaches 0.5; decided after 10 of 60 samples"),
        ([0.0] * 60, {}, "failed", "good misses 0.5; decided after 10 of 60 samples"),
        ([0.4] * 60, {"margin": 0.2}, "passed", "good reaches 0.5 less the margin of 0.2"),
        ([0.5] * 60, {}, "undecided", "reach 0.5; undecided after 60 of 60 samples (60 scored), e-value"),
        ([1.0] * 20 + ["none"] * 40, {}, "undecided", "because fewer than 95 % of those looked at were scored"),
        ([1.0] * 20 + ["fails"] * 40, {}, "undecided", "because fewer than 95 % of those looked at were scored"),
        ([1.0] * 57 + ["none"] * 3, {"min_scored": 0.5}, "passed", "good reaches 0.5"),
        ([1.0] * 60, {"max_samples": 8}, "undecided", "after 8 of 60 samples (8 scored, 52 samples not judged)"),
        ([1.0] * 60, {"min_samples": 30}, "passed", "decided after 30 of 60"),
        ([1.0] * 5, {"on": "point"}, "passed", "after 5 of 5 samples (5 scored with those in flight), e-value ∞"),
    ],
)  # fmt: skip
def test_outcomes(scores: list[Any], options: dict[str, Any], outcome: str, words: str) -> None:
    (decision,) = until(rows(*scores), "good=0.5", **options).decisions
    assert (decision.outcome, words in decision.sentence) == (outcome, True), decision.sentence


def test_a_bad_row_is_a_row_without_a_score() -> None:
    report = until([*rows(*[1.0] * 10), *[{"answer": {}}] * 10], "good=0.5", on="point", min_scored=0.0)
    assert report.decisions[0].outcome == "passed"  # 10 of 20 are sure
    assert report.summary().bad_rows == 10
    assert report.decisions[0].bounds == pytest.approx((0.5, 1.0), abs=1e-5)


def test_several_gates_decide_together() -> None:
    data = rows(*[1.0] * 30, *[0.0] * 70)
    report = until(data, "good=0.05", "good=0.6")
    assert {own.at_least: own.outcome for own in report.decisions}[0.6] == "failed"
    assert "(≥ 40)" in report.decisions[1].sentence  # either may fail the run: 2 / .05
    assert len(report.results) < 100


def test_conversations_are_units() -> None:
    talks = [{"question": f"Turn {n}?", "answer": str(float(n // 5 % 10 != 0)), "conversation_id": f"c{n // 5}"}
             for n in range(1_000)]  # fmt: skip
    report = until(talks, "good=0.6")
    (decision,) = report.decisions
    assert (decision.outcome, decision.decided_at) == ("passed", decision.decided_at)
    assert decision.decided_at is not None
    assert decision.decided_at % 5 == 0
    alone = until(talks, "good=0.6", cluster=None).decisions[0]
    assert alone.decided_at is not None
    assert alone.decided_at % 5 != 0
    report = until(iter(talks), "good=0.6")
    assert (len(report.results), report.decisions[0].outcome) == (1, "undecided")
    assert "row 2 shares its cluster with an earlier one; give a list" in report.decisions[0].sentence


def test_a_limit_ends_what_counts(loopback_server: Callable[..., LoopbackServer]) -> None:
    judge = LLMJudge(OpenAICompatibleModel(loopback_server(says_yes).base_url, "m"))
    report = evaluate(
        THINGS, ONE_CALL, judge=judge, until="decided", gates=["adherence=0.8"], limits=Limits(max_calls=20)
    )
    (decision,) = report.decisions
    assert decision.outcome == "undecided"
    assert "because a limit was reached" in decision.sentence
    assert decide(Gate(metric="context_adherence", at_least=0.1), report).outcome == "undecided"


# Against an earlier run.


def earlier(*scores: float | str, **more: Any) -> Report:
    return evaluate(rows(*scores, **more), good, judge="lexical", progress=False)


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        (0.0, "passed", "good loses no more than 0.1 against the earlier run; decided after"),
        (-0.3, "failed", "good loses more than 0.1 against the earlier run; decided after"),
        (-0.1, "undecided", "good may or may not lose more than 0.1 against the earlier run; undecided after"),
    ],
)
def test_against_an_earlier_run(change: float, outcome: str, words: str, tmp_path: Path) -> None:
    scores = [0.4 + 0.5 * (n % 2) for n in range(400)]
    before = earlier(*scores)
    before.to_jsonl(tmp_path / "before.jsonl")
    after = rows(*[score + change for score in scores])
    for against in (before, tmp_path / "before.jsonl"):
        report = until(after, against=against, margin=0.1)
        (decision,) = report.decisions
        assert (decision.outcome, decision.at_least, words in decision.sentence) == (outcome, None, True)
        assert decision.bounds[0] - 1e-9 <= change <= decision.bounds[1] + 1e-9
        assert report.summary()["good"].interval is None  # the bounds are those of the difference


def test_failed_and_undefined_pairs() -> None:
    before = earlier(*[1.0] * 50, "fails", "none")
    report = until(rows(*[1.0] * 50, 1.0, 1.0), against=before, margin=0.5, on="point", min_scored=0.9)
    (decision,) = report.decisions
    # 51 pairs count, of which one may be 0 to 1 better; the undefined one stands outside.
    assert decision.outcome == "passed"
    whole = until(rows(*[1.0] * 50, 1.0, 1.0), against=before, on="point", alpha=1e-12, min_scored=0.9)
    assert whole.decisions[0].bounds == pytest.approx((0.0, 1 / 51), abs=1e-4)


def test_a_gate_and_an_earlier_run_together() -> None:
    before = earlier(*[0.9] * 200)
    report = until(rows(*[0.9] * 200), "good=0.5", against=before, margin=0.1)
    assert [own.outcome for own in report.decisions] == ["passed", "passed"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (earlier(1.0, 1.0), rows(1.0, 1.0, 1.0), "cannot be told apart"),
        (earlier(1.0), [{"question": "Other?", "answer": "1"}], "no sample in common"),
        (evaluate(rows(1.0), "adherence", judge="lexical"), rows(1.0), "needs something to decide"),
        (Report([], earlier(1.0).run.model_copy(update={"stopped": "max_calls=1 was reached"})), rows(1.0),
         "not judged to its end: max_calls=1"),
        (until(rows(*[1.0] * 100), "good=0.5"), rows(*[1.0] * 100), "not judged to its end: its gates were decided"),
        (Report([], earlier(1.0).run.model_copy(update={"judges": ("other",)})), rows(1.0), "lexical against other"),
    ],
)  # fmt: skip
def test_earlier_runs_that_do_not_fit(before: Report, after: list[Row], words: str) -> None:
    with pytest.raises(InputError, match=words):
        until(after, against=before)


def test_other_settings_are_not_comparable() -> None:
    data = [{"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}]
    before = evaluate(data, ContextAdherence(polls=3), judge="lexical")
    with pytest.raises(InputError, match=r"not comparable: context_adherence.*polls:5.*against.*polls:3"):
        evaluate(data, ContextAdherence(polls=5), judge="lexical", until=UntilDecided(against=before))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"until": "decided"}, "needs something to decide"),
        ({"gates": ["good=0.5"]}, 'gates= end a run until="decided"'),
        ({"until": "decided", "gates": ["adherence=0.5"]}, "no metric 'adherence' for a gate; there are: good"),
        ({"until": "decided", "gates": ["good"]}, "metric=threshold"),
        ({"until": "decided", "gates": [Gate(metric="bad", at_least=0.5)]}, "no metric 'bad'"),
    ],
)
def test_bad_settings(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        evaluate(rows(1.0), good, judge="lexical", **how)


# What a stopped run shows.


def test_a_stopped_run_shows_the_bounds_and_nothing_else(tmp_path: Path) -> None:
    data = rows(*verdicts(300, 0.9))
    report = evaluate(
        [{**row, "contexts": ["A tower."]} for row in data], [good, "adherence"], judge="lexical", until="decided",
        gates=["good=0.7"],
    )  # fmt: skip
    summary = report.summary(bootstrap=True)
    assert (summary["good"].interval, summary["good"].worst) == (report.decisions[0].interval,) * 2
    own = summary["context_adherence"]
    assert (own.count > 0, own.interval, own.worst, own.best) == (True, None, None, None)
    told = report.table() + report._repr_html_() + report.methods()
    assert "stopping early pushes it away from the threshold" in told
    assert not re.search(r"95 % interval|Wilson|BCa|\bt with", told)
    report.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl") == report


def test_another_gate_of_a_stopped_run_is_held_against_its_bounds() -> None:
    report = until(rows(*verdicts(300, 0.9)), "good=0.7")
    low, high = report.decisions[0].bounds
    for at_least, outcome in ((low - 0.01, "passed"), (fmean((low, high)), "undecided")):
        decision = decide(Gate(metric="good", at_least=at_least), report)
        assert (decision.outcome, "95 % interval" in decision.sentence) == (outcome, False)
    assert decide(Gate(metric="good", at_least=0.0), report, on="point").outcome == "undecided"
