"""Comparing two runs: what is found, what is refused, what stays undecided; on the command line, too."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report, Sample, Scored, Undefined, evaluate, metric
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.metric_evidence import Cell
from ragmetrics_core.data.replies import Mode, Usage
from ragmetrics_core.data.results import ErrorInfo, Failed, MetricResult, SampleResult
from ragmetrics_core.data.sample import Context, EvidenceCall, Fact, Ledger, Turn
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.reporting.gates import UntilDecided
from ragmetrics_core.reporting.report import Folded
from ragmetrics_core.reporting.run_facts import RunFacts

SIGNATURE = "m|v1|polls:5|T:1.0|prompt:3fa2|judge:gpt"


def outcome(value: float | str | None, **more: Any) -> MetricResult | None:
    settings = {"metric": "m", "reason": "because", "signature": SIGNATURE, **more}
    if value is None:
        return None
    if value == "failed":
        return Failed(error=ErrorInfo(type="RateLimited", message="slow"), **settings)
    if isinstance(value, str):
        return Undefined(**{"code": "abstained", **settings})
    return Scored(value=value, **settings)


def run_of(*values: float | str | None, ids: bool = True, **more: Any) -> Report:
    rows = []
    for index, value in enumerate(values):
        metadata = (
            {"topic": "ab"[index % 2], "conversation_id": index // 2}
            if more.get("grouped")
            else {}
        )
        sample = Sample(
            id=f"s{index}" if ids else None,
            question=f"q{index}",
            answer=f"a {value}",
            metadata=metadata,
        )
        result = outcome(value, **{k: v for k, v in more.items() if k != "grouped"})
        rows.append(
            SampleResult(
                index=index,
                sample=sample,
                results={} if result is None else {"m": result},
            )
        )
    return Report(rows, RunFacts(metrics={"m": "m|v1"}))


def changed_rows(report: Report, place: int, **update: Any) -> Report:
    """The same run with another row at a place."""
    rows = [
        (
            row.model_copy(update=update)
            if row.index == place
            else row.model_copy(deep=True)
        )
        for row in report.results
    ]
    return Report(rows, report.run)


def other_answer(report: Report) -> Report:
    """The same scores of answers of which one is another."""
    first = report.results[0].sample
    assert first is not None
    return changed_rows(
        report, 0, sample=first.model_copy(update={"answer": "another answer"})
    )


def test_by_hand() -> None:
    first = run_of(0.2, 0.4, 0.6, "failed", "abstained", 0.5)
    second = run_of(0.4, 0.4, 1.0, 0.5, 0.5, None)
    change = first.compare(second)["m"]
    assert change.outcomes == {
        "scored/scored": 3,
        "failed/scored": 1,
        "undefined/scored": 1,
        "scored/not judged": 1,
    }
    assert change.difference == pytest.approx(0.2)  # (.2 + 0 + .4) / 3
    # failed: worst for the second 1 → .5, best 0 → .5; not judged: .5 → 0 and .5 → 1;
    # (.2 + 0 + .4 ∓ .5 ∓ .5) / 5
    assert change.bounds == pytest.approx((-0.08, 0.32))
    # two changed: half of the four patterns
    assert (change.p, change.exact, change.pairs) == (0.5, True, 3)
    assert (change.abstained, change.failed) == (1.0, 1.0)  # one discordant pair each
    assert change.verdict == "undecided"


@metric(name="good", requires=("answer",))
def good(sample: Any) -> float:
    """The score that stands in the answer."""
    return float(sample.answer)


@pytest.mark.parametrize(
    ("without_score", "outcome"), [(0, "passed"), (2, "undecided")]
)
def test_rows_without_a_partner_and_rows_without_a_score_count_together(
    without_score: int, outcome: str
) -> None:
    """Of 100 rows 95 must have a partner and both scores, in finished runs and in one that may end earlier."""
    rows = [
        {"id": str(place), "question": f"Question {place}?", "answer": "0.9"}
        for place in range(100)
    ]
    later: list[dict[str, Any]] = [dict(row) for row in rows[:95]]
    for row in later[:without_score]:
        row["answer"] = "none"
    before, after = (
        evaluate(data, good, judge="lexical", progress=False) for data in (rows, later)
    )
    assert before.compare(after, margin=0.3).regression() == {"good": outcome}
    until = UntilDecided(against=before, margin=0.3, min_samples=93)
    early = evaluate(later, good, judge="lexical", until=until, progress=False)
    assert [decision.outcome for decision in early.decisions] == [outcome]


def test_a_planted_difference_is_found_and_none_where_there_is_none() -> None:
    draw = random.Random(5)
    before = [draw.choice([0.2, 0.4, 0.6, 0.8]) for _ in range(200)]
    noise = [draw.choice([-0.2, 0.0, 0.0, 0.2]) for _ in range(200)]
    after = [value + change for value, change in zip(before, noise, strict=True)]
    same = run_of(*before).compare(run_of(*after), margin=0.05)
    assert same["m"].verdict == "same"
    assert same.regression() == {"m": "passed"}
    worse = [max(0.0, value - 0.1) for value in after]
    found = run_of(*before).compare(run_of(*worse))
    assert found["m"].verdict == "worse"
    assert found.regression() == {"m": "failed"}
    assert found["m"].p == 1 / 10_000
    back = run_of(*worse).compare(run_of(*before))
    assert back["m"].verdict == "better"
    assert back["m"].difference == pytest.approx(-(found["m"].difference or 0))


def test_failures_that_could_turn_the_sign_leave_it_undecided() -> None:
    first = run_of(*[0.5] * 40)
    second = run_of(*[0.6] * 30, *["failed"] * 10)
    change = first.compare(second)["m"]
    assert change.p is not None
    assert change.p < 0.001
    assert change.bounds == pytest.approx((-0.05, 0.2))  # (3 − 5) / 40 and (3 + 5) / 40
    assert change.verdict == "undecided"
    assert change.failed == pytest.approx(2 / 2**10)
    assert first.compare(second).regression() == {"m": "undecided"}


@pytest.mark.parametrize(
    ("first", "second", "outcome", "words"),
    [
        (
            run_of(*[0.5] * 40),
            other_answer(run_of(*[0.5] * 40)),
            "passed",
            "one-sided bounds",
        ),
        (
            run_of(*[0.5] * 200),
            run_of(*[0.5] * 40, *["failed"] * 160),
            "undecided",
            "40 of 200 rows",
        ),
        (
            run_of(*[0.5] * 100),
            run_of(*[0.5] * 3, *["abstained"] * 97),
            "undecided",
            "97 scored/undefined",
        ),
        (
            run_of(*[0.5] * 100),
            run_of(*[0.5] * 60),
            "undecided",
            "60 of 100 rows were scored in both runs: 40 without",
        ),
        (
            run_of(*[0.5] * 60),
            run_of(*[0.5] * 60, *[None] * 40),
            "undecided",
            "40 without a partner",
        ),
        # The mean lost by failures set to 0 is .08, which the margin allows; its lower
        # bound does not.
        (
            run_of(*[1.0] * 100),
            run_of(*[0.9] * 95, *["failed"] * 5),
            "passed",
            "one-sided bounds",
        ),
        (
            run_of(*[1.0] * 100),
            run_of(*[0.75] * 96, *["failed"] * 4),
            "undecided",
            "one-sided bounds",
        ),
        (
            run_of(*[1.0] * 100),
            run_of(*[0.6] * 96, *["failed"] * 4),
            "failed",
            "one-sided bounds",
        ),
        (
            run_of(*[1.0] * 100),
            run_of(*[0.6] * 50, *["failed"] * 50),
            "undecided",
            "50 of 100 rows",
        ),
    ],
)
def test_a_regression_gate_passes_no_run_that_did_not_judge(
    first: Report, second: Report, outcome: str, words: str
) -> None:
    found = first.compare(second, margin=0.3)
    assert found.regression() == {"m": outcome}
    assert words in found.regressions()[0].sentence


def test_a_regression_gate_after_a_run_that_ended_early() -> None:
    early = Report(
        run_of(*[0.5] * 40).results,
        RunFacts(stopped="the limit of 40 calls is reached"),
    )
    found = run_of(*[0.5] * 40).compare(early, margin=0.3)
    assert found.regression() == {"m": "undecided"}
    assert (
        "the second run ended early: the limit of 40 calls"
        in found.regressions()[0].sentence
    )


def test_rows_without_a_partner_belong_to_their_slice() -> None:
    first, second = (
        run_of(*[0.5] * 100, grouped=True),
        run_of(*[0.5] * 100, grouped=True),
    )
    kept = [
        row
        for row in second.results
        if row.sample and (row.index % 2 == 0 or row.index < 60)
    ]
    found = first.compare(Report(kept), slices="topic", margin=0.3)
    assert found.regression() == {
        "m": "undecided",
        "m [a]": "passed",
        "m [b]": "undecided",
    }


def test_comparing_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "scipy", "sklearn", "statsmodels"):
        monkeypatch.setitem(sys.modules, name, None)
    found = run_of(*[0.9] * 30).compare(run_of(*[0.3] * 30))
    assert (found["m"].verdict, found.regression()) == ("worse", {"m": "failed"})


def test_slices_clusters_and_holm() -> None:
    first, second = run_of(*[0.2] * 40, grouped=True), run_of(*[0.4] * 40, grouped=True)
    found = first.compare(second, slices="topic")
    assert [change.name for change in found.changes] == ["m", "m [a]", "m [b]"]
    whole, part = found["m"], found["m [a]"]
    assert (whole.pairs, whole.interval.clusters, part.pairs) == (40, 20, 20)
    assert whole.p_holm == pytest.approx(3 * (whole.p or 0))  # the smallest of three
    assert first.compare(second, cluster=None)["m"].interval.clusters is None
    with pytest.raises(SettingError, match=r"it has: m, m \[a\], m \[b\]"):
        found["other"]


def test_matching_by_question_and_by_id() -> None:
    first, second = run_of(0.1, 0.2, 0.3, ids=False), run_of(0.1, 0.2, ids=False)
    with pytest.raises(
        InputError,
        match=(
            "1 rows are in one run only, and without ids nothing else tells rows apart"
        ),
    ):
        first.compare(second)
    found = first.compare(second, anyway=True)
    assert str(found.matched).startswith(
        "2 rows matched by question; 1 only in the first, 0 only in the second."
    )
    # by id
    assert len(run_of(0.1, 0.2, 0.3).compare(run_of(0.1, 0.2)).matched.pairs) == 2
    again = Report(
        [
            *run_of(0.1).results,
            SampleResult(index=1, sample=Sample(question="q0"), results={}),
        ]
    )
    # one id is missing: by question, in order
    assert len(again.compare(run_of(0.1), anyway=True).matched.pairs) == 1
    with pytest.raises(InputError, match="no sample in common"):
        first.compare(
            Report(
                [
                    SampleResult(
                        index=0,
                        sample=Sample(question="else"),
                        results=first.results[0].results,
                    )
                ]
            )
        )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (SIGNATURE.replace("polls:5", "polls:3"), "polls 5 against 3"),
        (SIGNATURE.replace("v1", "v2"), "version v1 against v2"),
        (SIGNATURE.replace("T:1.0", "T:0.0"), "temperature 1.0 against 0.0"),
        (SIGNATURE.replace("3fa2", "beef"), "prompt version 3fa2 against beef"),
        (SIGNATURE.replace("gpt", "claude"), "judge gpt against claude"),
        (SIGNATURE + "|early_stop:yes", "early stop not set against yes"),
        (SIGNATURE + "|k:3", "k not set against 3"),
    ],
)
def test_settings_that_differ_are_refused_and_named(other: str, words: str) -> None:
    first, second = run_of(0.1, 0.2), run_of(0.1, 0.2, signature=other)
    with pytest.raises(InputError, match=f"not comparable: m: {words}"):
        first.compare(second)
    found = first.compare(second, anyway=True)
    assert found.differing == (f"m: {words}",)
    assert f"! not comparable: m: {words}" in found.table()


def test_models_as_returned() -> None:
    first, second = (
        run_of(0.1, usage=Usage(calls=1, models=(name,))) for name in ("gpt-a", "gpt-b")
    )
    with pytest.raises(InputError, match="m: model gpt-a against gpt-b"):
        first.compare(second)
    # from the store: no model was called
    assert first.compare(run_of(0.1)).differing == ()


HERE, THERE = "http://here:8000/v1", "http://there:8000/v1"


def asked_at(*addresses: str, judge: str = "gpt") -> Report:
    """A run whose judge was asked at these addresses."""
    report = run_of(0.1, 0.2)
    results = [
        row.model_copy(
            update={
                "results": {
                    name: own.model_copy(update={"judge": "gpt"})
                    for name, own in row.results.items()
                }
            }
        )
        for row in report.results
    ]
    addresses = {judge: addresses} if addresses else {}
    return Report(
        results,
        report.run.model_copy(update={"judges": (judge,), "addresses": addresses}),
    )


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (asked_at(HERE), asked_at(THERE), f"judge gpt at {HERE} against {THERE}"),
        (
            asked_at(HERE),
            asked_at(HERE, THERE),
            f"judge gpt at {HERE} against {HERE}, {THERE}",
        ),
        (asked_at(HERE), asked_at(HERE), ""),
        (asked_at(HERE, THERE), asked_at(THERE, HERE), ""),
        (asked_at(HERE), asked_at(), ""),  # a file of before: not known
        # it judged nothing that is compared
        (asked_at(HERE, judge="other"), asked_at(THERE, judge="other"), ""),
    ],
)
def test_one_name_at_two_addresses_is_two_judges(
    first: Report, second: Report, words: str
) -> None:
    if words:
        with pytest.raises(InputError, match=f"not comparable: {words}"):
            first.compare(second)
    found = first.compare(second, anyway=True)
    assert found.differing == ((words,) if words else ())
    assert (f"! not comparable: {words}" in found.table()) == bool(words)


def accuracy(fact: str, mode: Mode) -> Report:
    evidence = AccuracyEvidence(
        facts=(Fact(text=fact),),
        facts_from="io",
        evaluated="contexts",
        context_ids=(None,),
        cells=((Cell(probability=1.0, mode=mode),),),
    )
    return run_of(1.0, evidence=evidence)


def test_facts_and_score_modes() -> None:
    with pytest.raises(InputError, match="m: other facts in 1 of 1 samples"):
        accuracy("one", "polls").compare(accuracy("another", "polls"))
    with pytest.raises(InputError, match="m: score mode logprobs against polls"):
        accuracy("one", "logprobs").compare(accuracy("one", "polls"))


def test_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="no metric in common"):
        run_of(0.1).compare(Report([SampleResult(index=0, sample=Sample(id="s0"))]))
    with pytest.raises(
        SettingError, match=r"no metric .other. in both runs; there are: m$"
    ):
        run_of(0.1).compare(run_of(0.1), metrics=["other"])
    with pytest.raises(SettingError, match="between 0 and 1"):
        run_of(0.1).compare(run_of(0.1), margin=2)
    change = run_of("failed").compare(run_of(0.5))["m"]
    assert (change.difference, change.p, change.verdict) == (None, None, "undecided")


def test_rows_that_are_read_anew_each_time_are_compared_like_others() -> None:
    first, second = run_of(0.5, 0.5, 0.9), run_of(0.5, 1.0, 0.1)
    folded = Report(Folded(first.results), first.run).compare(
        Report(Folded(second.results), second.run)
    )
    assert (folded.matched.first_only, folded.matched.second_only) == ((), ())
    assert folded.table() == first.compare(second).table()


@pytest.mark.parametrize("n_rows", [3, 60])
def test_the_page_says_the_rule_of_the_verdict_where_something_was_tested(
    n_rows: int, tmp_path: Path
) -> None:
    found = run_of(*[0.2] * n_rows).compare(run_of(*[0.9, 0.7, 0.8] * (n_rows // 3)))
    found.to_html(tmp_path / "c.html")
    page = " ".join((tmp_path / "c.html").read_text("utf-8").split())
    assert found["m"].interval is not None
    assert "p corrected by Holm is at most 0.05" in page
    assert "count as the same" not in page


def test_the_most_changed_samples_side_by_side(tmp_path: Path) -> None:
    found = run_of(0.5, 0.5, 0.9).compare(run_of(0.5, 1.0, 0.1))
    assert [
        (one.first.index, round(one.difference, 6)) for one in found.most_changed
    ] == [(2, -0.8), (1, 0.5)]
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    assert "<mark>0.9</mark>" in page
    assert "<mark>0.1</mark>" in page
    assert "a 0.9" not in found.table()


def test_the_page_shows_the_largest_loss_and_the_largest_gain_first(
    tmp_path: Path,
) -> None:
    first = run_of(0.5, 0.5, 0.5, 0.5)
    second = run_of(0.6, 0.9, 0.4, 0.1)
    first.compare(second).to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    places = [page.index(f'dir="auto">{question}<') for question in ("q3", "q2", "q1")]
    assert sorted(places) == places
    assert places[-1] < page.index('dir="auto">q0<')


def test_samples_that_lost_as_much_stand_in_the_order_of_the_rows(
    tmp_path: Path,
) -> None:
    def side(*values: tuple[float, float]) -> Report:
        rows = run_of(*(value for value, _ in values)).results
        others = [outcome(value, metric="n") for _, value in values]
        results = [
            {**row.results, "n": other} for row, other in zip(rows, others, strict=True)
        ]
        return Report(
            [
                row.model_copy(update={"results": it})
                for row, it in zip(rows, results, strict=True)
            ]
        )

    side((0.75, 0.75), (0.75, 0.75)).compare(side((0.75, 0.25), (0.25, 0.75))).to_html(
        tmp_path / "c.html"
    )
    page = (tmp_path / "c.html").read_text()
    assert 0 < page.index('dir="auto">q0<') < page.index('dir="auto">q1<')


def test_the_page_leads_with_what_can_be_said(tmp_path: Path) -> None:
    """Metrics, and slices with a verdict, are drawn to one scale; the other slices are named; losses come first."""
    first = run_of(*[0.5] * 80, grouped=True)
    second = run_of(
        *(0.3 if index % 2 else 0.5 + (index % 8 - 3) / 20 for index in range(80)),
        grouped=True,
    )
    found = first.compare(second, slices="topic", cluster=None)
    assert [own.verdict for own in found.changes] == ["worse", "undecided", "worse"]
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert [name in table for name in ("m [a]", "m [b]")] == [False, True]
    assert "Nothing is decided in 1 slice (pairs scored in both): m [a] (40)." in page
    assert table.count("<path") == 2
    assert page.index("q1<") < page.index("Rows that gained most") < page.index("q6<")
    assert "from 0.50 to 0.30" in page


def test_the_page_is_escaped(tmp_path: Path) -> None:
    text = "<script>x</script>"
    sides = [
        Report(
            [
                SampleResult(
                    index=0,
                    sample=Sample(
                        id=text, question=text, answer=answer, contexts=[text]
                    ),
                    results={text: Scored(metric=text, value=value, reason=text)},
                )
            ]
        )
        for value, answer in ((0.1, f"{text} one"), (0.9, f"{text} two"))
    ]
    sides[0].compare(sides[1]).to_html(tmp_path / "c.html")
    assert "<script" not in (tmp_path / "c.html").read_text("utf-8")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_of(*[0.5] * 30).to_jsonl("a.jsonl")
    run_of(*[0.3] * 30).to_jsonl("worse.jsonl")
    other_answer(run_of(*[0.5] * 30)).to_jsonl("same.jsonl")
    run_of(*[0.5] * 10, *["abstained"] * 20).to_jsonl("third.jsonl")
    run_of(*[0.5] * 30, signature=SIGNATURE.replace("gpt", "other")).to_jsonl(
        "other.jsonl"
    )


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["worse.jsonl"], 0, "m: worse"),
        (
            ["worse.jsonl", "--fail-on-regression"],
            1,
            "failed: m against a loss of 0.02",
        ),
        (
            ["worse.jsonl", "--fail-on-regression", "--margin", "0.5"],
            0,
            "passed: m against a loss of 0.5",
        ),
        # 30 pairs are few
        (
            ["same.jsonl", "--fail-on-regression"],
            3,
            "undecided: m against a loss of 0.02",
        ),
        (["same.jsonl", "--fail-on-regression", "--undecided=pass"], 0, "undecided: m"),
        (["same.jsonl", "--fail-on-regression", "--undecided=fail"], 1, "undecided: m"),
        (
            ["third.jsonl", "--fail-on-regression", "--margin", "0.5"],
            3,
            "10 of 30 rows were scored in both runs",
        ),
        (
            [
                "third.jsonl",
                "--fail-on-regression",
                "--margin",
                "0.5",
                "--min-scored",
                "0.3",
            ],
            0,
            "passed: m",
        ),
        (["same.jsonl", "--margin", "0.2", "--report", "c.html"], 0, "Report: c.html"),
        (
            ["other.jsonl", "--anyway"],
            0,
            "! not comparable: m: judge gpt against other",
        ),
    ],
)
def test_on_the_command_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "a.jsonl", *arguments]) == code
    assert words in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_the_terminal_begins_with_the_verdict_and_ends_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert main(["compare", "a.jsonl", "worse.jsonl"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].startswith("The second run is worse in m (-0.200 over 30 rows")
    assert told[-5:] == [
        "Lost most:",
        *(f"  row {row}: m -0.200: q{row - 1}" for row in (1, 2, 3)),
        "Next: ragmetrics compare a.jsonl worse.jsonl --report comparison.html",
    ]
    summary = Path("summary.md").read_text()
    assert "The second run is worse in m" in summary
    assert "q0" not in summary, "a job's summary holds no texts of samples"
    assert main(["compare", "a.jsonl", "same.jsonl", "--report", "c.html"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].startswith("No row scored differently, but the pairs are too few")
    assert told[-1] == "Report: c.html"


@pytest.mark.usefixtures("files")
def test_runs_that_differ_are_refused_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "a.jsonl", "other.jsonl"]) == 2
    assert "judge gpt against other" in capsys.readouterr().err


KNOWN = st.sampled_from([0.0, 0.2, 0.5, 1.0, "abstained"])


@given(st.lists(KNOWN, min_size=1, max_size=30), st.booleans(), st.booleans())
def test_a_run_compared_with_itself_is_identical(
    values: list[float | str], ids: bool, grouped: bool
) -> None:
    first = run_of(*values, ids=ids, grouped=grouped)
    for second in (
        first,
        changed_rows(first, -1),
        Report(Folded(first.results), first.run),
    ):
        found = first.compare(second, slices="topic" if grouped else None)
        assert {change.verdict for change in found.changes} == {"identical"}
        assert {
            (change.interval, change.p, change.one_sided) for change in found.changes
        } == {(None, None, None)}
        outcomes = {
            change.name: "passed" if change.pairs else "undecided"
            for change in found.changes
        }
        assert found.regression() == outcomes
        assert found["m"].pairs == sum(not isinstance(value, str) for value in values)
        assert found.regression(min_scored=1.0) == found.regression()
        assert "all rows and all outcomes are equal in both runs" in found.table()
        assert "all rows and all outcomes are equal" in found._repr_html_()


CHANGES: dict[str, Callable[[SampleResult], dict[str, Any]]] = {
    "score": lambda row: {"results": {"m": outcome(0.25)}},
    "undefined": lambda row: {"results": {"m": outcome("abstained")}},
    "other reason": lambda row: {
        "results": {"m": outcome("abstained", code="missing")}
    },
    "failed": lambda row: {"results": {"m": outcome("failed")}},
    "not judged": lambda row: {"results": {}},
    **{
        name: lambda row, name=name, value=value: {
            "sample": row.sample.model_copy(update={name: value})
        }
        for name, value in {
            "answer": "another",
            "contexts": (Context(text="c"),),
            "retrieved": (),
            "reference": ("r",),
            "facts": (Fact(text="f"),),
            "history": (Turn(role="user", content="h"),),
            "standalone_question": "s",
            "error": "e",
            "ledger": Ledger(calls=(EvidenceCall(kind="tool", items=("t",)),)),
        }.items()
    },
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("value", [0.5, "abstained"])
def test_one_differing_row_and_the_interval_holds(
    name: str, value: float | str
) -> None:
    first = run_of(0.5, 0.5, value, 0.5)
    second = changed_rows(first, 2, **CHANGES[name](first.results[2]))
    if second == first:
        return
    change = first.compare(second)["m"]
    assert change.verdict == "undecided"
    assert change.interval is not None
    assert first.compare(second).regression() == {"m": "undecided"}


@pytest.mark.parametrize("values", [[0.5, "failed"], [0.5, None], ["failed"]])
def test_what_was_not_judged_is_identical_to_nothing(
    values: list[float | str | None],
) -> None:
    found = run_of(*values).compare(run_of(*values))
    assert found["m"].verdict == "undecided"
    assert found.regression() == {"m": "undecided"}


def test_bad_rows_and_metadata() -> None:
    first = run_of(0.5, 0.5)
    bad = SampleResult(index=2, sample=None, problem="no object")
    with_bad = Report([*first.results, bad], first.run)
    assert with_bad.compare(with_bad)["m"].verdict == "undecided"
    other = changed_rows(
        first,
        0,
        sample=first.results[0].sample.model_copy(update={"metadata": {"trace": "2"}}),
    )  # type: ignore[union-attr]
    assert first.compare(other)["m"].verdict == "identical"


def other_samples(report: Report, **texts: Any) -> Report:
    """The same ids and scores of samples with other texts."""
    rows = [
        row.model_copy(update={"sample": row.sample.model_copy(update=texts)})
        for row in report.results
        if row.sample
    ]
    return Report(rows, report.run)


@pytest.mark.parametrize(
    "texts", [{"question": "another"}, {"reference": ("another",)}]
)
def test_equal_ids_of_other_samples_are_no_matches(texts: dict[str, Any]) -> None:
    first = other_samples(run_of(0.1, 0.2, 0.3), reference=("a reference",))
    with pytest.raises(
        InputError, match="3 of 3 samples of one id have another question or reference"
    ):
        first.compare(other_samples(first, **texts))
    assert first.compare(other_samples(first, **texts), anyway=True).differing
    unknown = other_samples(
        first, **dict.fromkeys(texts, () if "reference" in texts else None)
    )
    assert len(first.compare(unknown).matched.pairs) == 3


def test_ids_that_several_samples_share_tell_no_rows_apart() -> None:
    """As where the id is that of a conversation: the questions tell the rows apart."""
    rows = [
        row.model_copy(
            update={
                "sample": row.sample.model_copy(update={"id": f"talk {number // 2}"})
            }
        )
        for number, row in enumerate(run_of(0.1, 0.9, 0.2, 0.8).results)
        if row.sample
    ]
    found = Report(rows).compare(Report(reversed(rows)))
    assert found.matched.by == "question"
    assert [first.index for first, second in found.matched.pairs] == [0, 1, 2, 3]
    assert all(first == second for first, second in found.matched.pairs)


def test_a_metric_that_the_second_run_lacks_is_undecided_and_said(
    tmp_path: Path,
) -> None:
    second = run_of(*[0.5] * 30)
    rows = [
        row.model_copy(update={"results": {**row.results, "n": row.results["m"]}})
        for row in second.results
    ]
    first = Report(rows, RunFacts(metrics={"m": "m|v1", "n": "m|v1"}))
    found = first.compare(second)
    assert found.regression() == {"m": "passed", "n": "undecided"}
    mirrored = second.compare(first)
    assert mirrored.regression() == {"m": "passed"}
    for comparison, run in ((found, "second"), (mirrored, "first")):
        sentence = f"n is not compared: the {run} run lacks it"
        comparison.to_html(tmp_path / "page.html")
        shown = (
            comparison.table(),
            comparison._repr_html_(),
            (tmp_path / "page.html").read_text("utf-8"),
        )
        assert [text.count(sentence) for text in shown] == [1, 1, 1]
    chosen = first.compare(second, metrics=["m"])
    assert (chosen.regression(), chosen.not_compared) == ({"m": "passed"}, ())


def test_rows_without_question_and_id_are_matched_by_their_texts() -> None:
    samples = [Sample(contexts=["c"], answer=f"a{n}") for n in range(3)]
    report = Report(
        SampleResult(index=n, sample=own, results={"m": outcome(0.5)})
        for n, own in enumerate(samples)
    )
    assert report.compare(report)["m"].verdict == "identical"


@pytest.mark.parametrize("count", [1, 20, 50, 100, 404])
def test_the_command_passes_a_copy_of_a_run(
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    values: list[float | str] = [
        (n % 11) / 10 if n % 4 != 2 else "abstained" for n in range(count)
    ]
    for name in ("a.jsonl", "b.jsonl"):
        run_of(*values).to_jsonl(name)
    command = [
        "compare",
        "a.jsonl",
        "b.jsonl",
        "--fail-on-regression",
        "--report",
        "page.html",
    ]
    assert main(command) == 0
    assert "passed: m against a loss of 0.02; all" in capsys.readouterr().out
    assert "Identical, all rows and their outcomes are equal in both runs:" in Path(
        "page.html"
    ).read_text("utf-8")


KEYS = st.sampled_from([None, "x", "y", "z"])


def keyed_run(keys: list[str | None], value: float, name: str = "thread") -> Report:
    """A run with a score that varies by row, and with these keys in the metadata of its samples."""
    rows = []
    for index, key in enumerate(keys):
        sample = Sample(
            id=f"s{index}",
            question=f"q{index}",
            metadata={} if key is None else {name: key},
        )
        score = outcome(value * (index % 3) / 2)
        rows.append(
            SampleResult(
                index=index, sample=sample, results={"m": score} if score else {}
            )
        )
    return Report(rows, RunFacts(metrics={"m": "m|v1"}))


def clusters_of(found: Any) -> int | None:
    return found["m"].interval.clusters


@given(
    st.lists(KEYS, min_size=4, max_size=10).filter(any),
    st.sampled_from(["thread", "conversation_id"]),
)
def test_clusters_and_slices_are_those_of_either_run(
    keys: list[str | None], name: str
) -> None:
    cluster: Any = "auto" if name == "conversation_id" else name
    nothing: list[str | None] = [None] * len(keys)
    halves = [key if place % 2 else None for place, key in enumerate(keys)]
    others = [None if place % 2 else key for place, key in enumerate(keys)]

    def compared(first: list[str | None], second: list[str | None]) -> Any:
        runs = keyed_run(first, 0.2, name), keyed_run(second, 0.9, name)
        return runs[0].compare(runs[1], cluster=cluster, slices=name).changes

    in_both = compared(keys, keys)
    assert compared(keys, nothing) == in_both
    assert compared(nothing, keys) == in_both
    assert compared(halves, others) == in_both


@given(
    st.lists(st.tuples(KEYS, KEYS), min_size=2, max_size=10).filter(
        lambda keys: any(map(any, keys))
    )
)
def test_rows_that_belong_together_in_either_run_are_one_cluster(
    keys: list[tuple[str | None, str | None]],
) -> None:
    first, second = [key for key, _ in keys], [key for _, key in keys]
    # as of conversations that a run names by itself
    renamed = [key and f"run 2 {key}" for key in second]
    found = keyed_run(first, 0.2).compare(keyed_run(renamed, 0.9), cluster="thread")
    components = [{place} for place in range(len(keys))]
    for column in (first, renamed):
        for key in {key for key in column if key is not None}:
            together = {place for place, own in enumerate(column) if own == key}
            joined = set().union(*(part for part in components if part & together))
            components = [part for part in components if not part & together] + [joined]
    assert (clusters_of(found) or len(keys)) == len(components)


@pytest.mark.parametrize("lost_in", ["first", "second"])
def test_a_slice_whose_rows_are_all_gone_is_undecided(lost_in: str) -> None:
    whole = keyed_run(["en"] * 192 + ["fr"] * 8, 0.5, "language")
    part = Report([row for row in whole.results if row.index < 192], whole.run)
    first, second = (part, whole) if lost_in == "first" else (whole, part)
    found = first.compare(second, slices="language", margin=0.1)
    assert found.regression() == {
        "m": "passed",
        "m [en]": "passed",
        "m [fr]": "undecided",
    }
    assert (
        "0 of 8 rows were scored in both runs: 8 without a partner"
        in found.regressions()[2].sentence
    )
    assert "  m [fr]: undecided, no row is in both runs" in found.table()


def test_a_slice_is_one_line_and_an_interval_without_0_is_explained() -> None:
    whole = keyed_run(["en", "fr"] * 20, 0.0, "language")
    best = {"m": outcome(1.0)}
    rows = [row.model_copy(update={"results": best}) for row in whole.results]
    worse = [
        whole.results[place] if place in range(1, 13, 2) else rows[place]
        for place in range(40)
    ]
    first = Report(rows, whole.run)
    found = first.compare(Report(worse, whole.run), slices="language")
    french = found["m [fr]"]
    assert french.interval is not None
    assert f"  {french.line}" in found.table().splitlines()
    assert found.table().count("permutation test") == 1, "details of the whole alone"
    assert french.line.startswith(f"m [fr]: {french.verdict}, -0.300 over 20 pairs")
    many = [change for change in found.changes if change.is_chance_of_many]
    assert all(change.verdict == "undecided" for change in many)
    assert ("3 were tested at once" in found.table()) == bool(many)
    assert many, "or this shows nothing"


@pytest.mark.parametrize("key", ["question", "answer", "reference", "contexts"])
def test_texts_of_samples_are_no_names_of_slices(key: str) -> None:
    run = run_of(0.2, 0.4)
    with pytest.raises(
        SettingError, match=f"slices by '{key}' would have texts of samples for names"
    ):
        run.compare(run, slices=key)
    with pytest.raises(
        SettingError, match=f"slices by '{key}' would have texts of samples for names"
    ):
        run.summary(slices=[key])


def test_samples_without_the_key_are_a_slice_of_their_own() -> None:
    keys: list[str | None] = [*["en"] * 192, *[None] * 8]
    first, second = keyed_run(keys, 1.0, "language"), keyed_run(keys, 1.0, "language")
    fallen = [
        (
            row
            if row.index < 192
            else row.model_copy(update={"results": {"m": outcome(0.0)}})
        )
        for row in second.results
    ]
    found = first.compare(Report(fallen, second.run), slices="language", margin=0.1)
    assert [change.slice for change in found.changes] == [
        None,
        "en",
        "without language",
    ]
    assert found["m [without language]"].difference == -fmean(
        [n % 3 / 2 for n in range(192, 200)]
    )
    assert found.regression()["m [without language]"] != "passed"


def test_rows_that_are_in_another_slice_in_the_second_run_are_refused() -> None:
    first, second = (
        keyed_run(["en"] * 20 + [key] * 5, 0.5, "language") for key in ("fr", "de")
    )
    with pytest.raises(
        InputError, match="5 of 25 samples are in another slice in the second run"
    ):
        first.compare(second, slices="language")
    found = first.compare(second, slices="language", anyway=True)
    assert [change.slice for change in found.changes] == [None, "en", "fr"]


def test_no_run_is_called_better_where_its_own_interval_leaves_that_open() -> None:
    """Few small gains: the test of signs is sure of them, the interval is not."""
    before, after = run_of(*[0.5] * 12), run_of(*[0.53] * 12)
    change = before.compare(after)["m"]
    assert change.p_holm is not None
    assert change.p_holm <= 0.05
    assert change.interval is not None
    assert change.interval.low < 0 < change.interval.high
    assert change.verdict == "undecided"
    assert change.interval.method not in before.compare(after).table()


def two_metrics(m: list[float | str], n: list[float | str]) -> Report:
    """A run of two metrics, row by row."""
    rows = [
        row.model_copy(
            update={
                "results": {
                    **row.results,
                    "n": outcome(value, metric="n", signature="n|v1|judge:gpt"),
                }
            }
        )
        for row, value in zip(run_of(*m).results, n, strict=True)
    ]
    return Report(rows, RunFacts(metrics={"m": SIGNATURE, "n": "n|v1|judge:gpt"}))


def test_a_change_in_declining_is_said_beside_the_verdicts(tmp_path: Path) -> None:
    first = run_of(*["abstained"] * 10, *[0.5] * 20)
    few = first.compare(run_of(*["abstained"] * 5, *[0.5] * 25))
    assert few.shifts[0][:4] == ("Declined", 10, 5, 0.0625)
    sentence = "Declined: 10 → 5 rows (p = 0.0625: undecided, chance could explain it)."
    sentence += (
        " The 5 rows that no longer do have these means in the second run: m 0.500"
    )
    sentence += " (no row has more than 0.500)."
    assert list(map(str, few.shifts)) == [sentence]
    few.to_html(tmp_path / "c.html")
    in_short = (
        Path(tmp_path / "c.html").read_text("utf-8").partition("Differences</h2>")
    )
    assert sentence in in_short[0]
    assert sentence in few._repr_html_()
    many = first.compare(run_of(*["abstained"] * 1, *[0.5] * 29))
    assert str(many.shifts[0]) == (
        "Declined: 10 → 1 row (p = 0.0039: fewer in the second run). The 9 rows"
        " that no longer do have these means in the second run: m 0.500 (no row has"
        " more than 0.500)."
    )
    back = run_of(*["abstained"] * 1, *[0.5] * 29).compare(first)
    assert str(back.shifts[0]) == (
        "Declined: 1 → 10 rows (p = 0.0039: more in the second run)."
    )
    assert first.compare(first).shifts == ()
    broken = first.compare(run_of(*["abstained"] * 10, "failed", *[0.5] * 19))
    assert str(broken.shifts[0]).startswith("Failed: 0 → 1 row (p = 1.0000")


def test_a_row_that_two_metrics_decline_counts_once() -> None:
    first = two_metrics(["abstained"] * 3 + [0.5] * 3, ["abstained"] * 2 + [0.5] * 4)
    second = two_metrics([0.5] * 6, [0.5] * 6)
    assert first.compare(second).shifts[0][:3] == ("Declined", 3, 0)


def test_means_of_rows_that_no_longer_decline_stand_beside_what_a_reader_needs() -> (
    None
):
    first = two_metrics(["abstained"] * 2 + [0.5] * 3, [0.0, 0.5, 1.0, 1.0, 1.0])
    second = two_metrics([0.75, 0.25] + [0.9] * 3, [1.0, 0.5, 0.0, 0.0, 0.0])
    assert str(first.compare(second).shifts[0]).endswith(
        " The 2 rows that no longer do have these means in the second run: m 0.500"
        " (no row has more than 0.900), n 0.750 (before: 0.250)."
    )
    partly = two_metrics(["abstained"] * 2 + [0.5] * 3, [0.0, "missing", 1.0, 1.0, 1.0])
    assert str(partly.compare(second).shifts[0]).endswith(
        "(no row has more than 0.900), n 0.750."
    ), "not all of these rows were scored before"
    one = two_metrics([0.75, "abstained"] + [0.9] * 3, [1.0, 0.5, 0.0, 0.0, 0.0])
    assert str(first.compare(one).shifts[0]).endswith(
        " The 1 row that no longer does has these means in the second run: m 0.750"
        " (no row has more than 0.900), n 1.000 (before: 0.000)."
    )


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0.0, 1.0])))
)
def test_gains_and_losses_add_up_to_the_difference(
    pairs: list[tuple[float, float]],
) -> None:
    pairs = [*pairs, (0.5, 0.5)]
    first, second = (run_of(*scores) for scores in zip(*pairs, strict=True))
    change = first.compare(second)["m"]
    gains = [after - before for before, after in pairs if after > before]
    losses = [before - after for before, after in pairs if after < before]
    assert (change.n_gained, change.n_lost) == (
        (0, 0) if change.verdict == "identical" else (len(gains), len(losses))
    )
    if change.verdict != "identical":
        assert change.gain == (pytest.approx(fmean(gains)) if gains else None)
        assert change.loss == (pytest.approx(fmean(losses)) if losses else None)
        total = change.n_gained * (change.gain or 0) - change.n_lost * (
            change.loss or 0
        )
        assert change.difference == pytest.approx(total / len(pairs))


def test_an_unchanged_mean_does_not_hide_that_rows_lost(tmp_path: Path) -> None:
    first = run_of(*[0.0] * 10, *[1.0] * 10, *[0.5] * 20)
    second = run_of(*[1.0] * 10, *[0.1] * 10, *[0.5] * 20)
    found = first.compare(second)
    assert found["m"].verdict == "undecided"
    (moves,) = found.moves_behind_means
    sentence = (
        "The mean of m hides that 10 rows gained (+1.000 on average) and 10 rows lost"
        " (-0.900)."
    )
    assert str(moves) == f"{sentence} Lost most: rows 11, 12, 13."
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    in_short = page.partition("Differences</h2>")[0]
    assert f'{sentence} Look at <a href="#row-11">row 11</a>' in in_short
    assert 'id="row-13"' in page
    assert sentence in found._repr_html_()
    # gains alone, or changes within the margin, hide nothing
    assert first.compare(run_of(*[1.0] * 20, *[0.5] * 20)).moves_behind_means == ()
    assert first.compare(first).moves_behind_means == ()
    # one row lost a little where many gained: the mean hides next to nothing
    undecided = run_of(*[1.0] * 3, *[0.0] * 7, 0.9, *[1.0] * 9, *[0.5] * 20)
    gained = first.compare(undecided)
    assert (gained["m"].verdict, gained["m"].n_lost) == ("undecided", 1)
    assert gained.moves_behind_means == ()
    # a mean that fell says so itself
    worse = run_of(*[1.0] * 3, *[0.0] * 7, *[0.0] * 10, *[0.0] * 20)
    fallen = first.compare(worse)
    assert (fallen["m"].verdict, fallen["m"].n_gained) == ("worse", 3)
    assert fallen.moves_behind_means == ()
    little = run_of(0.05, *[0.0] * 9, 0.95, *[1.0] * 9, *[0.5] * 20)
    assert first.compare(little).moves_behind_means == ()


def test_each_worse_metric_has_rows_to_open_on_the_page(tmp_path: Path) -> None:
    first = two_metrics([0.9] * 60, [1.0] * 60)
    # the rows that lose in n are others than those that lose in m
    second = two_metrics([0.1] * 40 + [0.9] * 20, [1.0] * 40 + [0.2] * 20)
    found = first.compare(second)
    assert (found["m"].verdict, found["n"].verdict) == ("worse", "worse")
    assert found.rows_to_open("m") == (1, 2, 3)
    assert found.rows_to_open("n") == (41, 42, 43)
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    for row in (1, 2, 3, 41, 42, 43):
        assert f'<a href="#row-{row}">row {row}</a>' in page
        assert page.count(f'id="row-{row}"') == 1
    assert "row 3</a> for m." in page
    assert "row 43</a> for n." in page


def test_rows_to_open_stand_on_the_page_behind_many_of_other_metrics(
    tmp_path: Path,
) -> None:
    """Fifteen rows are shown, and those that the first lines name besides."""
    changed_scores = {"m": range(20), "n": range(20, 40), "o": range(40, 60)}
    first, second = (
        Report(
            [
                run_of(1.0)
                .results[0]
                .model_copy(
                    update={
                        "index": at,
                        "sample": Sample(id=f"s{at}", question=f"q{at}", answer="a"),
                        "results": {
                            name: outcome(
                                0.1 if is_second and at in lost else 1.0,
                                metric=name,
                                signature=f"{name}|v1|judge:gpt",
                            )
                            for name, lost in changed_scores.items()
                        },
                    }
                )
                for at in range(60)
            ]
        )
        for is_second in (False, True)
    )
    found = first.compare(second)
    found.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    for name in changed_scores:
        for row in found.rows_to_open(name):
            assert page.count(f'id="row-{row}"') == 1, (name, row)


def test_the_page_names_the_grey_zone(tmp_path: Path) -> None:
    run = run_of(*[0.5] * 30)
    run.compare(run).to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text("utf-8")
    assert "grey: counts as the same, ±0.02</th>" in page


def test_rows_that_lost_most_are_those_of_the_metric_that_is_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = two_metrics([0.9] * 40, [1.0] * 40)
    # m falls a little in many rows, n much in two
    second = two_metrics(
        [0.6 + 0.01 * (row % 3) for row in range(40)], [1.0] * 38 + [0.0] * 2
    )
    found = first.compare(second)
    assert (found["m"].verdict, found["n"].verdict) == ("worse", "undecided")
    assert {loss.metric for loss in found.lost_most[:10]} == {"m"}
    rows = [loss.second.index for loss in found.lost_most]
    assert len(rows) == len(set(rows)), "each row once"
    assert {38, 39} <= set(rows)
    first.to_jsonl("a.jsonl")
    second.to_jsonl("b.jsonl")
    assert main(["compare", "a.jsonl", "b.jsonl", "--report", "c.html"]) == 0
    lines = capsys.readouterr().out.splitlines()
    worst = lines[lines.index("Lost most:") + 1 :][:3]
    assert all(": m -0.300: q" in line for line in worst)
    page = Path("c.html").read_text("utf-8").partition("Rows that lost most</h2>")[2]
    assert page.index("m -0.30") < page.index("n -1.00")
    undecided = two_metrics([0.9] * 40, [1.0] * 40).compare(
        two_metrics([0.9] * 39 + [0.0], [1.0] * 39 + [0.5])
    )
    assert [loss.metric for loss in undecided.lost_most] == ["m"], "m fell further"
    few = two_metrics([0.9] * 40, [1.0] * 4 + ["abstained"] * 36).compare(
        two_metrics([0.6] * 40, [0.0] * 2 + [1.0] * 2 + ["abstained"] * 36)
    )
    assert (few["m"].verdict, few["n"].verdict) == ("worse", "undecided")
    means = (few["m"].difference, few["n"].difference)
    assert means == pytest.approx((-0.3, -0.5))
    assert few.lost_most[0].metric == "m", "what is decided comes first"


def test_page_and_terminal_say_rule_caution_and_metrics_in_one_order(
    tmp_path: Path,
) -> None:
    found = two_metrics([0.2] * 30, [0.9] * 30).compare(
        two_metrics([0.8] * 30, [0.1] * 30)
    )
    assert found.metrics_in_order == ("n", "m"), "the worse one first"
    table = found.table()
    assert table.index("\nn: worse") < table.index("\nm: better")
    assert table.splitlines()[-1] == found.rule
    assert found.caution.startswith("This covers chance, not a judge that is wrong")
    found.to_html(tmp_path / "c.html")
    page = " ".join((tmp_path / "c.html").read_text("utf-8").split())
    assert found.rule in page
    assert found.caution in page
    assert page.index('<th scope="row">n') < page.index('<th scope="row">m')
    by_words = found.model_copy(update={"judges": ("lexical",)})
    assert by_words.caution.endswith("it misses subtle failures, and some gross ones.")
    same = run_of(0.5, 0.7)
    assert same.compare(same).rule == same.compare(same).caution == ""


@pytest.mark.parametrize(
    "options",
    [
        ["same.jsonl", "--fail-on-regression"],
        ["same.jsonl", "--fail-on-regression", "--undecided=pass"],
        ["worse.jsonl", "--fail-on-regression"],
        ["worse.jsonl", "--fail-on-regression", "--cluster", "none"],
    ],
)
@pytest.mark.usefixtures("files")
def test_a_comparison_names_the_exit_code(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--cluster" in options:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))  # a folder
    code = main(["compare", "a.jsonl", *options])
    assert code == 2 or "--cluster" not in options
    gates = [line for line in capsys.readouterr().out.splitlines() if ": exit " in line]
    assert len(gates) == 1
    assert f": exit {code}, at which a CI job" in gates[0]
