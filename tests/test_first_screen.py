"""The first screen: each row in one named group, counts that add up, words that are true."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import (
    ContextAdherence,
    Failed,
    Report,
    Sample,
    Scored,
    Undefined,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import ErrorInfo, SampleResult
from ragmetrics_core.page.first_screen import FirstScreen, ScreenTally, screen_of
from ragmetrics_core.page.row_groups import (
    LOSSES,
    NOT_JUDGED,
    NOT_SCORED,
    TITLES,
    group_of_row,
)
from ragmetrics_core.reporting.gates import all_in_words, decide, parse_gate
from ragmetrics_core.reporting.joined import join_reports
from ragmetrics_core.reporting.run_facts import Decision, Input, RunFacts
from ragmetrics_core.statistics.means import mean_interval
from ragmetrics_core.statistics.paired import mcnemar

ERROR = ErrorInfo(type="RateLimited", message="slow")
CRASH = ErrorInfo(type="MetricCrashed", message="no name")
METRICS = ("context_utilization", "context_adherence", "context_recall", "mine")


def scored(metric: str, value: float) -> Scored:
    return Scored(metric=metric, value=value, reason="r")


def result_of(metric: str) -> st.SearchStrategy[Any]:
    """Any outcome of a metric."""
    return st.one_of(
        st.floats(0, 1).map(lambda value: scored(metric, value)),
        st.just(Undefined(metric=metric, reason="r")),
        st.just(Undefined(metric=metric, reason="r", code="abstained")),
        st.just(Failed(metric=metric, reason="r", error=ERROR)),
    )


RESULTS = st.sets(st.sampled_from(METRICS)).flatmap(
    lambda names: st.fixed_dictionaries({name: result_of(name) for name in names})
)
SAMPLES = st.builds(
    Sample,
    question=st.sampled_from([None, "q", "other"]),
    contexts=st.sampled_from([(), ("a text",)]),
    answer=st.sampled_from([None, "an answer"]),
    error=st.sampled_from([None, None, "it broke"]),
)
ROWS = st.lists(
    st.one_of(
        st.builds(SampleResult, index=st.just(0), sample=SAMPLES, results=RESULTS),
        st.just(SampleResult(index=0, sample=None, problem="no sample")),
    ),
    max_size=20,
).map(
    lambda rows: [
        row.model_copy(update={"index": place}) for place, row in enumerate(rows)
    ]
)


def screen(rows: list[SampleResult], **facts: Any) -> FirstScreen:
    report = Report(rows, RunFacts(**facts))
    return screen_of(report, report.summary(), report.run)


@given(ROWS)
def test_every_row_stands_in_exactly_one_named_group(rows: list[SampleResult]) -> None:
    first = screen(rows)
    assert sum(group.count for group in first.groups) == len(rows)
    assert all(group.count for group in first.groups)
    codes = [group_of_row(row) for row in rows]
    assert {group.code: group.count for group in first.groups} == {
        code: codes.count(code) for code in codes
    }
    assert [group.title for group in first.groups] == [
        TITLES[code] for code in TITLES if code in codes
    ]
    shown = [int(n) for n in re.findall(r"(\d+) [a-z]", first.groups_in_words)]
    assert shown[0] == len(rows)
    assert sum(shown[1:]) == len(rows)
    assert "drawn" not in first.groups_in_words
    of_more = replace(first, rows=len(rows) + 1).groups_in_words
    assert f" drawn at random of {len(rows) + 1}:" in of_more


@given(ROWS)
def test_what_the_first_screen_counts_is_what_the_summary_counts(
    rows: list[SampleResult],
) -> None:
    summary = Report(rows).summary()
    counts = {group.code: group.count for group in screen(rows).groups}
    assert counts.get("bad_row", 0) == summary.bad_rows
    assert counts.get("application_failed", 0) == summary.application_errors
    unjudged = sum(counts.get(code, 0) for code in NOT_JUDGED)
    judged = len(rows) - unjudged
    assert judged <= summary.judged


@given(ROWS)
def test_the_largest_loss_and_the_examples_are_true(rows: list[SampleResult]) -> None:
    first = screen(rows)
    codes = [group_of_row(row) for row in rows]
    losses = {code: codes.count(code) for code in codes if code in LOSSES}
    n_silent = sum(code in {*NOT_JUDGED, *NOT_SCORED} for code in codes)
    n_scored = len(codes) - n_silent
    n_failed = codes.count("judge_failed")
    holding_up = Counter(group_of_row(row) for row in rows if holds_up(row))
    weights = {code: (n - holding_up[code], n) for code, n in losses.items()}
    most = max(weights.values(), default=(0, 0))
    n_holding_up = sum(holding_up[code] for code in losses)
    n_spoilt = sum(losses.values()) - n_holding_up
    is_split = n_spoilt > 0 and n_holding_up > 0
    said = re.search(r"; (\d+) more (has|have) a fault and one that does", first.loss)
    assert (int(said[1]) if said else 0) == (n_holding_up if is_split else 0)
    all_hold_up = re.search("(its answer holds|their answers hold) up", first.loss)
    assert bool(all_hold_up) == (n_holding_up > 0 and not n_spoilt)
    assert (f"{n_silent} " in first.loss) >= (n_silent > 0)
    assert ("not scored" in first.loss) == (n_silent > 0)
    for code, title in (*NOT_JUDGED.items(), *NOT_SCORED.items()):
        count = codes.count(code)
        assert (f" {count} {title}" in first.loss) == (count > 0)
    n_lost = sum(losses.values())
    if n_silent > n_lost:
        assert first.loss.startswith(f"{n_silent} of {len(codes)} row")
    elif losses:
        n_named = n_spoilt if is_split else n_lost
        assert first.loss.startswith(f"{n_named} of {n_scored} row")
    few = f"oo few rows to say: {n_scored} scored, 30 wanted"
    assert (few in first.loss + first.how_sure) == (n_scored > 0)
    most_declined = codes.count("abstained") > n_scored
    judged = [code for code in codes if code not in NOT_JUDGED]
    if most_declined:
        known = [code == "abstained" for code in judged if code != "judge_failed"]
        reach = expected_range(known, n_failed)
        assert f"confidence, {reach} of rows like" in first.how_sure
        assert "decline and have no score; whether declining" in first.how_sure
    assert ("decline and have no score" in first.how_sure) == most_declined
    cannot_be_good = "cannot be called good enough" in first.verdicts[0]
    assert cannot_be_good == (n_silent > n_scored)
    if not n_scored:
        assert (first.how_sure == "") == (not most_declined)
    elif losses:
        of_other_row = "The other row has a fault" in first.loss and n_scored == 1
        n_named = n_spoilt if is_split else n_lost
        of_rows = re.search(f"{n_named} of (the other )?{n_scored} row", first.loss)
        assert of_other_row or of_rows
        place = 0 if most[0] else 1
        for code, weight in weights.items():
            is_largest = weight[place] == most[place]
            assert (TITLES[code] in first.loss) >= is_largest
            if not is_largest and TITLES[code] in first.loss:
                assert 0 < weight[place] < most[place]
                assert mcnemar(most[place], weight[place]) > 0.05
                assert "is not surely smaller" in first.loss
        known = [code for code in codes if code in {*LOSSES, "no_loss"}]
        any_loss = expected_range([code in LOSSES for code in known], n_failed)
        pairs = zip(rows, codes, strict=True)
        counting = [
            code if not (is_split and holds_up(row)) else "another"
            for row, code in pairs
            if code in {*LOSSES, "no_loss"}
        ]
        named = expected_range([code in LOSSES for code in counting], n_failed)
        assert f"confidence, {named} of rows like" in first.how_sure
        assert (f", {any_loss} any fault" in first.how_sure) == is_split
        for code in losses:
            of_code = expected_range([own == code for own in counting], n_failed)
            is_named = f"{TITLES[code]}: {of_code}" in first.how_sure
            is_largest = weights[code][place] == most[place]
            assert is_named == (is_largest and len(losses) > 1)
    else:
        assert "No fault" not in first.loss, "few rows are no success"
    groups = {group.code: group.examples for group in first.groups}
    for code, examples in groups.items():
        for example in examples:
            row = rows[example.index]
            assert group_of_row(row) == code
            if example.score is not None:
                assert row.results[example.metric].value == example.score
    shown_first = {*LOSSES}
    if n_silent > n_lost:
        shown_first |= {*NOT_JUDGED, *NOT_SCORED} - {"bad_row"}
    ranked = worst_first(rows)
    unscored = [
        row.index
        for row in rows
        if row.sample and row.index not in ranked and group_of_row(row) in shown_first
    ]
    assert [example.index for example in first.worst] == [*unscored, *ranked][:3]
    for group in first.groups:
        of_group = [row for row in rows if group_of_row(row) == group.code]
        shown = [example.index for example in group.examples]
        scored_first = worst_first(of_group)
        others = [
            row.index
            for row in of_group
            if row.sample and row.index not in scored_first
        ]
        in_order = [*scored_first, *others]
        if group.code in LOSSES:
            in_order = [*others, *scored_first]
        assert shown == in_order[:3], "one order everywhere"


def holds_up(row: SampleResult) -> bool:
    """Whether what is known of the answer speaks for it."""
    results = row.results
    if any(
        isinstance(r, Undefined) and r.code == "abstained" for r in results.values()
    ):
        return False
    recall, adherence = results.get("context_recall"), results.get("context_adherence")
    known = []
    if isinstance(recall, Scored):
        known.append(recall.value >= 0.65 - 1e-9)
    if isinstance(adherence, Scored):
        known.append(adherence.value > 0.5 + 1e-9)
    return bool(known) and all(known)


def expected_range(are_in: list[bool], n_failed: int) -> str:
    """The range of a share, with rows that the judge failed on as without and with it."""
    ends = []
    for if_failed in (0.0, 1.0):
        interval = mean_interval([*map(float, are_in), *[if_failed] * n_failed])
        assert interval is not None
        ends += [round(100 * interval.low), round(100 * interval.high)]
    return f"{min(ends)} to {max(ends)} %"


def worst_first(rows: list[SampleResult]) -> list[int]:
    """The scored rows by lowest score, then by mean, to four decimals as on the page."""
    ranked = []
    for row in rows:
        results = row.results.values()
        units = [round(1e4 * r.value) for r in results if isinstance(r, Scored)]
        if row.sample is not None and units:
            ranked.append((min(units), sum(units) / len(units), row.index))
    return [index for _, _, index in sorted(ranked)]


@given(ROWS)
def test_the_first_screen_never_says_good(rows: list[SampleResult]) -> None:
    first = screen(rows, judges=("lexical",))
    texts = [first.loss, first.how_sure, first.groups_in_words, *first.warnings]
    assert not re.search(r"\b(good|great|fine|well)\b", " ".join(texts))
    if first.how_sure:
        assert "it misses subtle failures, and some gross ones" in first.how_sure


def test_the_stage_to_mend_is_the_most_frequent_and_of_equals_the_earliest() -> None:
    def without_context(index: int) -> SampleResult:
        sample = Sample(question="q", answer="a", contexts=())
        return SampleResult(
            index=index, sample=sample, results={"mine": scored("mine", 1)}
        )

    fact = "Anna Brandt built the lamp of Vale in 1871."
    row = {
        "question": "Who built the lamp of Vale, and when?",
        "contexts": [fact, "Bread is baked twice a week in the old kitchen."],
        "answer": "It was a wizard from Norland who raised it by magic in 1902.",
        "reference": fact,
    }
    (one,) = evaluate([row], judge="lexical").results
    assert group_of_row(one) == "generation"

    def astray(index: int) -> SampleResult:
        return one.model_copy(update={"index": index})

    equal = screen([astray(0), without_context(1)])
    assert equal.mend_first is not None
    assert equal.mend_first.code == "no_context"
    assert equal.loss == (
        "2 of 2 rows have a fault. Largest: answered without context (1); generation"
        " went astray (1)."
    )
    more = screen([astray(0), without_context(1), astray(2)])
    assert more.mend_first is not None
    assert more.mend_first.code == "generation"
    assert [example.row for example in more.mend_first.examples] == [1, 3]
    low = SampleResult(index=0, sample=Sample(), results={"mine": scored("mine", 0.1)})
    assert screen([low]).mend_first is None


def test_the_verdict_is_that_of_the_users_gates() -> None:
    def decided(outcome: str, metric: str) -> Decision:
        return Decision(metric=metric, outcome=outcome, sentence=f"{metric}.")  # type: ignore[arg-type]  # one of three

    report = Report([], RunFacts())
    tally = ScreenTally()
    outcomes = [
        decided("passed", "a"),
        decided("failed", "b"),
        decided("undecided", "c"),
    ]
    first = tally.screen(report.summary(), report.run, outcomes)
    assert first.outcome == "failed"
    assert first.verdicts == ("failed: b.", "undecided: c.", "passed: a.")
    assert tally.screen(report.summary(), report.run, outcomes[:1]).outcome == "passed"
    without = tally.screen(report.summary(), report.run)
    assert without.outcome == ""
    assert without.verdicts == (
        "No gate is set: only a threshold of your own (--fail-under) can say whether"
        " this is good enough.",
    )


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({}, "Samples of a program"),
        ({"name": "baseline"}, "baseline"),
        ({"inputs": (Input(name="a.jsonl", sha256=""),)}, "a.jsonl"),
        (
            {"name": "x", "inputs": (Input(name="a.jsonl", sha256=""),)},
            "x (a.jsonl)",
        ),
        (
            {"inputs": tuple(Input(name=f"{n}.csv", sha256="") for n in range(5))},
            "0.csv, 1.csv, 2.csv and 2 more",
        ),
    ],
)
def test_the_title_says_which_run_it_is(facts: dict[str, Any], title: str) -> None:
    assert screen([], **facts).title == title


def test_the_page_and_the_terminal_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "question": f"Who lit lamp {n}?",
            "contexts": [f"Anna lit lamp {n}.", "Rain fell."],
            "answer": f"Anna lit lamp {n}." if n % 3 else "A wizard built it in 1871.",
        }
        for n in range(30)
    ]
    evaluate(rows, judge="lexical").to_jsonl("results.jsonl")
    capsys.readouterr()
    gate = ["--fail-under", "adherence=0.9", "--name", "after the change"]
    assert main(["report", "results.jsonl", *gate]) == 1
    terminal = capsys.readouterr().out.splitlines()
    page = " ".join(Path("results.html").read_text().split())
    report = Report.from_jsonl("results.jsonl")
    decision = decide(parse_gate("adherence=0.9", report.metrics), report.summary())
    first = screen_of(report, report.summary(), report.run, [decision])
    assert f"<h1>{'after the change'}</h1>" in page
    assert terminal[0].startswith("after the change: judged by lexical")
    assert terminal[1:3] == [
        "The gate failed: exit 1, at which a CI job stops.",
        *first.verdicts,
    ]
    for sentence in (first.loss, first.how_sure):
        assert sentence in page
        assert sentence in terminal
    assert first.groups_in_words in terminal
    for group in first.groups:
        assert f">{group.count} {group.title}<" in page
    order = ["In short", 'id="samples"', 'id="metrics"', 'id="fooled"', 'id="run"']
    assert sorted(order, key=page.index) == order
    assert terminal[-1].startswith("Next")
    worst = [line for line in terminal if line.startswith("  row ")]
    assert len(worst) == 3
    assert "Who lit lamp" in worst[0]


@pytest.mark.parametrize(
    ("codes", "group"),
    [
        (("missing", "abstained"), "abstained"),
        (("other", "missing"), "missing"),
        (("other", "no_facts"), "undefined"),
    ],
)
def test_a_row_without_a_score_has_one_reason(
    codes: tuple[Any, ...], group: str
) -> None:
    results = {code: Undefined(metric=code, reason="r", code=code) for code in codes}
    row = SampleResult(index=0, sample=Sample(question="q"), results=results)
    assert group_of_row(row) == group


@pytest.mark.parametrize(("score", "group"), [(0.49, "low"), (0.5, "no_loss")])
def test_a_score_is_low_below_one_half(score: float, group: str) -> None:
    results = {"mine": scored("mine", score)}
    row = SampleResult(index=0, sample=Sample(question="q"), results=results)
    assert group_of_row(row) == group


def test_rows_that_nobody_measured_are_no_evidence() -> None:
    def row(index: int, *results: Any) -> SampleResult:
        sample = Sample(question="q", contexts=("a text",), answer="a")
        return SampleResult(
            index=index, sample=sample, results={own.metric: own for own in results}
        )

    well = [row(place, scored("mine", 1.0)) for place in range(30)]
    failed = [
        row(place, Failed(metric="mine", reason="r", error=ERROR))
        for place in range(30, 60)
    ]
    undefined = [
        row(place, Undefined(metric="mine", reason="r")) for place in range(30, 60)
    ]
    abstained = [
        row(place, Undefined(metric="mine", reason="r", code="abstained"))
        for place in range(30, 32)
    ]
    alone = screen(well)
    assert alone.loss == "No fault found in 30 rows."
    beside_undefined = screen([*well, *undefined, *abstained])
    assert beside_undefined.loss == (
        "32 of 62 rows were not scored: 2 declined, 30 without context or another input. No fault"
        " found in the other 30 rows."
    )
    assert beside_undefined.mend_first is not None
    assert beside_undefined.mend_first.code == "missing"
    assert range_of(beside_undefined) == range_of(alone)
    assert "of rows like the scored ones have a fault" in beside_undefined.how_sure
    beside_failed = screen([*well, *failed])
    assert beside_failed.loss.startswith(
        "30 of 60 rows were not scored: 30 the judge failed on."
    )
    assert beside_failed.mend_first is not None
    assert beside_failed.mend_first.code == "judge_failed"
    assert "mine 30. For example: r" in beside_failed.warnings[0]
    low, high = range_of(beside_failed)
    assert low == 0
    assert high > 50, "each of the 30 may have a fault"
    lost = [row(place, scored("mine", 0.1)) for place in range(5)]
    few_failed = screen([*lost, *well[5:], *failed[:1]])
    assert few_failed.loss == (
        "5 of 30 rows have a fault: a low score, cause unclear; 1 more row was not"
        " scored: 1 the judge failed on."
    )
    assert screen(failed).loss == (
        "30 of 30 rows were not scored: 30 the judge failed on."
    )
    crashed = [
        row(place, Failed(metric="mine", reason="r", error=CRASH))
        for place in range(30, 60)
    ]
    beside_crashed = screen([*well, *crashed])
    assert beside_crashed.loss.startswith(
        "30 of 60 rows were not scored: 30 a metric's own code failed on."
    )
    assert beside_crashed.mend_first is not None
    assert beside_crashed.mend_first.code == "metric_failed"
    assert range_of(beside_crashed) == range_of(beside_failed)
    both = row(0, *(Failed(metric=e.type, reason="r", error=e) for e in (CRASH, ERROR)))
    assert group_of_row(both) == "judge_failed"


@given(ROWS)
def test_rows_that_repeat_earlier_ones_are_said(rows: list[SampleResult]) -> None:
    contents = [
        (row.sample.question, len(row.sample.contexts), row.sample.answer)
        for row in rows
        if row.sample is not None
    ]
    texts = [content for content in contents if any(content)]
    n_copies = len(texts) - len(set(texts))  # all contexts of these rows are one text
    said = [warning for warning in screen(rows).warnings if "earlier row" in warning]
    assert [warning.split(" repeat")[0] for warning in said] == (
        [f"{n_copies} row{'s' * (n_copies > 1)}"] if n_copies else []
    )


def range_of(first: FirstScreen) -> tuple[int, int]:
    """The range that the first screen names, in per cent."""
    shown = re.search(r"(\d+) to (\d+) % of rows like", first.how_sure)
    assert shown, first.how_sure
    return int(shown[1]), int(shown[2])


LAMP = "Anna Brandt built the lamp of Vale in 1871."


def lamps(n_rows: int, **fields: Any) -> list[dict[str, Any]]:
    """Rows with a perfect answer, each about another lamp."""
    rows = []
    for number in range(n_rows):
        fact = LAMP.replace("lamp", f"lamp {number}")
        row = {
            "question": f"Who built lamp {number} of Vale?",
            "contexts": [fact, "Bread is baked twice a week."],
            "answer": fact,
            "reference": fact,
        }
        rows.append({**row, **fields})
    return rows


@pytest.mark.parametrize(
    ("fields", "highest"),
    [
        ({}, {"context_adherence": 0.965, "retrieval_accuracy": 0.860}),
        ({"facts": [LAMP]}, {"context_adherence": 0.965}),
    ],
)
def test_the_highest_mean_of_the_embedded_judge_is_reached_and_said(
    fields: dict[str, Any], highest: dict[str, float]
) -> None:
    report = evaluate(lamps(30, **fields), judge="lexical")
    summary = report.summary()
    gate = decide(parse_gate("context_adherence=0.97", report.metrics), summary)
    first = screen_of(report, summary, report.run, [gate])
    for numbers in summary.metrics:
        name = numbers.metric
        said = f"Highest mean this judge can give: {highest.get(name, 0):.3f}"
        assert (said in first.sentences[name]) == (name in highest)
        assert first.highest_means[name] == pytest.approx(
            highest.get(name, 1.0), abs=5e-4
        )
        assert numbers.max is not None
        assert numbers.max <= first.highest_means[name] + 1e-9
    assert summary["context_adherence"].mean == first.highest_means["context_adherence"]
    assert first.warnings == (
        "The gate context_adherence=0.97 cannot be passed with this judge: 0.965 is"
        " the highest mean that it can give to these rows. Lower the gate, or take"
        " another judge.",
    )
    reachable = decide(parse_gate("context_adherence=0.96", report.metrics), summary)
    assert screen_of(report, summary, report.run, [reachable]).warnings == ()


def test_other_judges_reach_one() -> None:
    first = screen(
        [SampleResult(index=0, sample=Sample(), results={"mine": scored("mine", 0.1)})]
    )
    assert first.highest_means == {"mine": 1.0}
    assert "Highest" not in first.sentences["mine"]


def test_few_rows_are_said_to_be_few_and_have_no_bar(tmp_path: Path) -> None:
    refusals = lamps(99, answer="I don't know.")
    report = evaluate([*lamps(1), *refusals], judge="lexical", metrics=["adherence"])
    first = screen_of(report, report.summary(), report.run)
    assert first.loss == (
        "99 of 100 rows were not scored: 99 declined. Too few rows to say: 1 scored,"
        " 30 wanted."
    )
    assert first.sentences["context_adherence"] == (
        "1 of 1 answer rests on the retrieved text: too few to say, 30 wanted. Not"
        " scored: 99 declined. Highest mean this judge can give: 0.965 (the"
        " interval ignores that)."
    )
    assert first.verdicts == (
        "This cannot be called good enough: most rows were not scored.",
    )
    assert first.how_sure.startswith(
        "How sure: with 95 % confidence, 95 to 100 % of rows like these decline and have"
        " no score; whether declining was right is not known. This covers chance"
    ), "no range from the one row with a score"
    assert first.mend_first is not None
    assert first.mend_first.mending is not None
    assert "at 0 no retrieved text was of use" in first.mend_first.mending.remedy
    assert first.groups_in_words == "100 rows: 99 declined, 1 no fault found."
    assert [example.row for example in first.worst] == [2, 3, 4]
    assert first.order_in_words.startswith("Worst first: rows without a score")
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<svg class="meanbar"' not in page
    assert "too few to draw" in page
    many = evaluate(lamps(30), judge="lexical", metrics=["adherence"])
    many.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<rect class="mass"' in page
    assert "too few to draw" not in page


@pytest.mark.parametrize(
    ("n_good", "n_bad", "n_declined", "ranges"),
    [
        (1, 0, 0, ["0 to 79"]),  # says little, and there is no other
        (1, 0, 20, ["77 to 99"]),
        (40, 0, 99, ["63 to 78", "0 to 9"]),
        (2, 2, 20, ["64 to 93", "15 to 85"]),
    ],
    ids=["a row", "a row beside declined ones", "enough rows", "few with a fault"],
)
def test_a_range_that_says_nothing_is_left_out_where_rows_decline(
    n_good: int, n_bad: int, n_declined: int, ranges: list[str]
) -> None:
    wrong = "It was a wizard from Norland who raised it by magic in 1902."
    rows = lamps(n_good)
    rows += lamps(n_bad, answer=wrong)
    rows += lamps(n_declined, answer="I don't know.")
    report = evaluate(rows, judge="lexical", metrics=["adherence"])
    first = screen_of(report, report.summary(), report.run)
    assert re.findall(r"(\d+ to \d+) % of rows like", first.how_sure) == ranges


def test_the_gate_at_risk_and_the_stage_to_mend_are_told_apart() -> None:
    astray = {"answer": "It was a wizard from Norland who raised it by magic in 1902."}
    lost = {"contexts": ["Bread is baked twice a week.", "Rain fell on the roofs."]}
    rows = [*lamps(20), *lamps(8, **lost), *lamps(5, **astray, facts=[LAMP])]
    report = evaluate(rows, judge="lexical")
    summary = report.summary()

    def at_risk(*gates: str) -> str:
        decisions = [
            decide(parse_gate(text, report.metrics), summary) for text in gates
        ]
        return screen_of(report, summary, report.run, decisions).to_mend.at_risk

    assert screen_of(report, summary, report.run).mend_first is not None
    assert at_risk() == at_risk("context_recall=0.1") == ""
    assert at_risk("retrieval_accuracy=0.85") == (
        "Of the 8 rows that count against retrieval_accuracy, whose gate is not"
        " passed, 8 are of this kind."
    )
    assert at_risk("context_recall=0.95", "retrieval_accuracy=0.1") == (
        "Of the 5 rows that count against context_recall, whose gate is not passed,"
        " 5 are of this kind."
    )


def gates_decided(*outcomes: str) -> list[Decision]:
    return [
        Decision(metric=f"m{place}", outcome=outcome, sentence="s")  # type: ignore[arg-type]  # one of three
        for place, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcomes", "exit_code", "line"),
    [
        ((), 0, ""),
        (("passed",), None, ""),
        (("passed",), 0, "The gate passed: exit 0, at which a CI job goes on."),
        (("failed",), 1, "The gate failed: exit 1, at which a CI job stops."),
        (("undecided",), 3, "The gate is undecided: exit 3, at which a CI job stops."),
        (
            ("passed", "undecided"),
            3,
            "1 of 2 gates passed, 1 undecided: exit 3, at which a CI job stops.",
        ),
        (("passed", "passed"), None, "2 of 2 gates passed."),
        (
            ("failed", "undecided", "failed"),
            1,
            "0 of 3 gates passed, 2 failed, 1 undecided: exit 1, at which a CI job stops.",
        ),
    ],
)
def test_one_line_says_what_all_gates_decide(
    outcomes: tuple[str, ...], exit_code: int | None, line: str
) -> None:
    assert all_in_words(gates_decided(*outcomes), exit_code) == line


@pytest.mark.parametrize("command", ["evaluate", "report"])
@pytest.mark.parametrize(
    "options",
    [
        ["--fail-under", "adherence=0.9"],
        ["--fail-under", "adherence=0.99", "--fail-under", "recall=0.1"],
        ["--fail-under", "adherence=0.965"],
        ["--fail-under", "adherence=0.965", "--undecided", "pass"],
        ["--fail-under", "adherence=0.965", "--undecided", "fail"],
        ["--fail-under", "adherence=0.9", "--name", "its summary cannot be written"],
    ],
)
def test_the_screen_names_the_exit_code_of_its_command(
    command: str,
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*lamps(20), *lamps(1, answer="It was a wizard.")]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = "rows.jsonl"
    page = ["--report", "rows.html"]
    if "--name" in options:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))  # a folder
    if command == "report":
        evaluate(rows, judge="lexical").to_jsonl("results.jsonl")
        file, page = "results.jsonl", ["--html", "rows.html"]
    capsys.readouterr()
    code = main([command, file, *page, *options])
    line = next(
        line for line in capsys.readouterr().out.splitlines() if ": exit " in line
    )
    effect = "stops" if code else "goes on"
    assert f": exit {code}, at which a CI job {effect}." in line
    assert line in " ".join(Path("rows.html").read_text().split())


def test_an_interrupted_run_names_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lamps(9)))
    add = ScreenTally.add

    def add_and_interrupt(tally: ScreenTally, row: SampleResult) -> str:
        if row.index == 3:
            raise KeyboardInterrupt
        return add(tally, row)

    monkeypatch.setattr(ScreenTally, "add", add_and_interrupt)
    gates = ["--fail-under", "adherence=0.9", "--fail-under", "recall=0.9"]
    assert main(["evaluate", "rows.jsonl", *gates]) == 130
    shown = capsys.readouterr().out
    assert "0 of 2 gates passed, 2 undecided: exit 130, at" in shown


def test_a_fault_before_a_right_answer_is_mended_after_wrong_answers() -> None:
    noise = ["Bread is baked twice a week.", "Rain fell on the roofs."]
    low = [
        {**row, "contexts": [*noise, row["contexts"][0]], "facts": [row["reference"]]}
        for row in lamps(8)
    ]
    rows = [*lamps(20), *low, *lamps(5, answer="I don't know.")]
    report = evaluate(rows, judge="lexical")
    first = screen_of(report, report.summary(), report.run)
    counts = {group.code: group.count for group in first.groups}
    assert counts == {"ranking": 8, "declined": 5, "no_loss": 20}
    assert first.mend_first is not None
    assert first.mend_first.code == "declined", "8 useful texts low, 8 right answers"
    assert first.loss == (
        "5 of 33 rows have a fault and no answer that holds up (declined though the text"
        " was there); 8 more have a fault and one that does."
    )
    assert first.to_look_at == first.mend_first.examples
    lowest = decide(parse_gate("context_utilization=0.99", report.metrics), report)
    by_gate = screen_of(report, report.summary(), report.run, [lowest])
    assert by_gate.mend_first is not None
    assert by_gate.mend_first.code == "ranking", "what the gate at risk suffers from"
    assert by_gate.to_mend.at_risk.endswith(
        "whose gate is not passed, 8 are of this kind."
    )


@pytest.mark.parametrize(("n_next", "is_said"), [(2, False), (7, True)])
def test_the_next_loss_is_named_where_chance_may_have_put_it_behind(
    n_next: int, is_said: bool
) -> None:
    fact = LAMP.replace("lamp", "lamp 0")
    rows = [
        *lamps(12, answer="I don't know.", facts=[LAMP]),
        *lamps(n_next, answer="It was a wizard from Norland.", facts=[LAMP]),
    ]
    report = evaluate([{**row, "contexts": [fact]} for row in rows], judge="lexical")
    loss = screen_of(report, report.summary(), report.run).loss
    assert "Largest: declined though the text was there (12)" in loss
    assert ("generation went astray" in loss) == is_said
    assert ("is not surely smaller" in loss) == is_said


def test_the_largest_of_wrong_answers_is_named_beside_a_larger_harmless_fault() -> None:
    noise = ["Bread is baked twice a week.", "Rain fell on the roofs."]
    low = [
        {**row, "contexts": [*noise, row["contexts"][0]], "facts": [row["reference"]]}
        for row in lamps(12)
    ]
    rows = [
        *lamps(23),
        *low,
        *lamps(11, answer="I don't know."),
        *lamps(2, contexts=noise, answer="It was a wizard from Norland."),
    ]
    report = evaluate(rows, judge="lexical")
    first = screen_of(report, report.summary(), report.run)
    counts = {group.code: group.count for group in first.groups}
    assert counts == {"outside_store": 2, "ranking": 12, "declined": 11, "no_loss": 23}
    assert first.loss == (
        "13 of 48 rows have a fault and no answer that holds up; 12 more have a fault"
        " and one that does. Largest among the 13: declined though the text was there"
        " (11)."
    )
    spoilt, declined = (
        expected_range([True] * n + [False] * (48 - n), 0) for n in (13, 11)
    )
    of_any = expected_range([True] * 25 + [False] * 23, 0)
    assert first.how_sure.startswith(
        f"How sure: with 95 % confidence, {spoilt} of rows like these have a fault and no"
        f" answer that holds up (declined though the text was there: {declined}),"
        f" {of_any} any fault. This covers chance"
    )


def test_a_row_to_look_at_is_told_by_its_fault_and_not_by_another_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*lamps(30), *lamps(2, answer="I don't know.")]
    evaluate(rows, judge="lexical").to_jsonl("results.jsonl")
    capsys.readouterr()
    assert main(["report", "results.jsonl"]) == 0
    terminal = capsys.readouterr().out
    assert "  row 31: declined though the text was there: Who built lamp 0" in terminal
    plain = SampleResult(
        index=0, sample=Sample(question="q"), results={"mine": scored("mine", 0.1)}
    )
    Report([plain]).to_jsonl("own.jsonl")
    assert main(["report", "own.jsonl"]) == 0
    assert "  row 1: mine 0.100: q" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("judges", "is_chosen", "words"),
    [
        # results of earlier versions do not say it
        (("lexical",), None, ", used where --judge chooses none"),
        (("gpt",), None, ""),
        ((), None, ""),
        (("lexical",), False, ", because nobody chose a judge (--judge)"),
        (("lexical",), True, ""),
        (("gpt", "lexical"), False, ", because nobody chose a judge (--judge)"),
    ],
)
def test_the_line_of_the_judge_says_whether_it_was_chosen(
    judges: tuple[str, ...], is_chosen: bool | None, words: str
) -> None:
    origin = screen([], judges=judges, judge_chosen=is_chosen).origin
    said = re.findall(", (?:used where|because nobody)[^,]*", origin)
    assert said == ([words] if words else [])


def test_results_say_whether_a_judge_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    rows = lamps(2)
    unchosen = evaluate(rows)
    assert unchosen.run.judge_chosen is False
    unchosen.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl").run.judge_chosen is False
    chosen = evaluate(rows, judge="lexical")
    assert chosen.run.judge_chosen is True
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    assert evaluate(rows).run.judge_chosen is True
    of_metric = [ContextAdherence(model="lexical")]
    monkeypatch.delenv("RAGMETRICS_JUDGE")
    assert evaluate(rows, of_metric).run.judge_chosen is True
    both = [*of_metric, "utilization"]
    assert evaluate(rows, both).run.judge_chosen is False
    joined = join_reports([chosen, evaluate(lamps(1))], ["a", "b"])
    assert joined.run.judge_chosen is None, "one of them was chosen"
    assert join_reports([chosen, chosen], ["a", "b"]).run.judge_chosen is True


def test_an_answer_without_context_and_its_missing_input_share_a_word() -> None:
    rows = [*lamps(2), *lamps(1, contexts=[])]
    report = evaluate(rows, judge="lexical")
    first = screen_of(report, report.summary(), report.run)
    assert "1 answered without context" in first.groups_in_words
    assert "Not scored: 1 without context" in first.sentences["context_adherence"]


def test_of_the_largest_fault_only_rows_without_a_right_answer_count() -> None:
    noise = ["Bread is baked twice a week.", "Rain fell on the roofs."]
    low = [
        {**row, "contexts": [*noise, row["contexts"][0]], "facts": [row["reference"]]}
        for row in lamps(12)
    ]
    rows = [*low, *lamps(23), *lamps(3, answer="I don't know.")]
    results = list(evaluate(rows, judge="lexical").results)
    for place in range(8):
        wrong = {
            **results[place].results,
            "context_recall": scored("context_recall", 0),
        }
        results[place] = results[place].model_copy(update={"results": wrong})
    first = screen(results)
    counts = {group.code: group.count for group in first.groups}
    assert counts == {"ranking": 12, "declined": 3, "no_loss": 23}
    assert first.loss == (
        "11 of 38 rows have a fault and no answer that holds up; 4 more have a fault and"
        " one that does. Largest among the 11: useful chunks rank low (8); declined"
        " though the text was there (3) is not surely smaller."
    )
    named = expected_range([True] * 8 + [False] * 30, 0)
    assert f"(useful chunks rank low: {named})" in first.how_sure
