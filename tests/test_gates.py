"""Gates: three outcomes, and how they are written."""

from __future__ import annotations

import math
import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import evaluate, metric
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.metrics.registry import METRICS
from ragmetrics_core.reporting.gates import Gate, decide, parse_gate, three_way
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import Tally
from ragmetrics_core.statistics.stopping import ROUNDING
from ragmetrics_core.testing import assert_score
from ragmetrics_core.testing.assertions import UndecidedWarning


def report(*values: float) -> Report:
    return Report(
        SampleResult(
            index=index,
            sample=Sample(),
            results={"m": Scored(metric="m", reason="", value=value)},
        )
        for index, value in enumerate(values)
    )


# 18 of 20: Wilson .699 to .972 (scipy 1.17.1, binomtest(18,
# 20).proportion_ci(method="wilson")).
EIGHTEEN = report(*[1.0] * 18, 0.0, 0.0)


@pytest.mark.parametrize(
    ("at_least", "outcome", "point"),
    [
        (0.69, "passed", "passed"),
        (0.71, "undecided", "passed"),
        (0.95, "undecided", "failed"),
        (0.98, "failed", "failed"),
    ],
)
def test_outcomes(at_least: float, outcome: str, point: str) -> None:
    gate = Gate(metric="m", at_least=at_least)
    assert decide(gate, EIGHTEEN).outcome == outcome
    assert decide(gate, EIGHTEEN, on="point").outcome == point
    assert decide(gate, EIGHTEEN.summary()) == decide(gate, EIGHTEEN)


def test_sentences() -> None:
    gate = Gate(metric="m", at_least=0.9)
    assert (
        decide(gate, EIGHTEEN).sentence
        == "m reaches 0.9, but chance could explain it: mean 0.900 of 20 scored rows,"
        " 95 % interval 0.699–0.972. The mean lies at the threshold, so that hardly any"
        " number would decide."
    )
    assert (
        decide(gate, EIGHTEEN, on="point").sentence
        == "m reaches 0.9: mean 0.900 of 20 scored rows."
    )
    assert "misses 0.98" in repr(decide(Gate(metric="m", at_least=0.98), EIGHTEEN))


@pytest.mark.parametrize("at_least", [0.71, 0.8, 0.95])
def test_twice_as_many_rows_as_a_gate_names_would_decide_it(at_least: float) -> None:
    gate = Gate(metric="m", at_least=at_least)
    sentence = decide(gate, EIGHTEEN).sentence
    shown = re.search(r"it takes about (\d+) rows in all \((\d+) more\)", sentence)
    assert shown
    assert int(shown[1]) - int(shown[2]) == 20, "those that were scored"
    n_times = math.ceil(2 * int(shown[1]) / 20)
    many = report(*([1.0] * 18 * n_times + [0.0] * 2 * n_times))
    assert decide(gate, many).outcome != "undecided"
    assert int(shown[1]) > 20


def test_rounding_does_not_decide() -> None:
    thirds = report(0.6, 1, 0.8)  # the sum is 2.4, and 2.4 / 3 is just below 0.8
    assert (
        decide(Gate(metric="m", at_least=0.8), thirds, on="point").outcome == "passed"
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.floats(0, 1))
def test_the_numbers_of_a_sentence_lead_to_its_verdict(
    values: list[float], at_least: float
) -> None:
    """No rounding puts a shown number on the other side of the threshold."""
    decision = decide(Gate(metric="m", at_least=at_least), report(*values), on="point")
    shown = re.search(r": mean ([\d.]+) of", decision.sentence)
    assert shown
    mean = float(shown[1])
    assert three_way(mean, mean, at_least) == decision.outcome


def test_a_slice_with_too_few_scores_is_named_with_one_colon() -> None:
    few = sliced(("de", 0.9), ("en", 0.9), ("en", None))
    assert (
        ' "en": is not held against 0.5: 1 of 2 rows were scored'
        in decide(SLICED, few).sentence
    )


WANTED = 0.8 - ROUNDING


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (WANTED, 1.0, "passed"),
        (math.nextafter(WANTED, 0.0), 1.0, "undecided"),
        (0.0, WANTED, "undecided"),
        (0.0, math.nextafter(WANTED, 0.0), "failed"),
        (0.9, 0.95, "passed"),
        (0.7, 0.75, "failed"),
    ],
)
def test_a_bound_at_the_threshold_reaches_it(
    low: float, high: float, outcome: str
) -> None:
    assert three_way(low, high, 0.8) == outcome


def test_the_ends_of_the_scale() -> None:
    assert decide(Gate(metric="m", at_least=0), report(0.0)).outcome == "passed"
    assert decide(Gate(metric="m", at_least=1), report(1.0)).outcome == "undecided"


def test_nothing_scored_has_failed() -> None:
    row = SampleResult(
        index=0, sample=Sample(), results={"m": Undefined(metric="m", reason="")}
    )
    decision = decide(Gate(metric="m", at_least=0), Report([row]))
    assert (decision.outcome, decision.sentence) == (
        "failed",
        "m cannot reach 0, since nothing was scored: 1 without context or another input.",
    )


def test_a_gate_on_what_was_not_measured_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"no metric 'n' of this run for a gate.*; there are: m$"
    ):
        decide(Gate(metric="n", at_least=0), EIGHTEEN)
    with pytest.raises(SettingError, match="there are: none"):
        decide(Gate(metric="n", at_least=0), Report([], RunFacts()))


def test_rows_without_a_score_are_named() -> None:
    rows = [*EIGHTEEN.results, SampleResult(index=20, sample=Sample())]
    assert (
        "of 20 scored rows, 95 % interval 0.699–0.972. Not scored: 1 without a"
        " result; with the 1 that failed or was not judged at 0 and at 1 the bounds are"
        " 0.654–0.973." in decide(Gate(metric="m", at_least=0.5), Report(rows)).sentence
    )


SCORE, FAILED, UNDEFINED, NOT_JUDGED, BAD = (
    "scored",
    "failed",
    "undefined",
    "not judged",
    "bad row",
)


def mixed(
    counts: dict[str, int],
    value: float = 1.0,
    *,
    run: RunFacts | None = None,
    clustered: bool = False,
) -> Report:
    """A run with so many rows of each kind."""
    outcomes = {
        SCORE: {"m": Scored(metric="m", reason="", value=value)},
        FAILED: {
            "m": Failed(
                metric="m",
                reason="",
                error=ErrorInfo(type="RateLimited", message="quota gone"),
            )
        },
        UNDEFINED: {"m": Undefined(metric="m", reason="no contexts")},
    }
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    metadata = [
        {"conversation_id": index // 2} if clustered else {}
        for index in range(len(kinds))
    ]
    return Report(
        [
            (
                SampleResult(index=index, sample=None, problem="no object")
                if kind == BAD
                else SampleResult(
                    index=index,
                    sample=Sample(metadata=metadata[index]),
                    results=outcomes.get(kind, {}),
                )
            )
            for index, kind in enumerate(kinds)
        ],
        run,
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            {SCORE: 40, FAILED: 160},
            "40 of 200 rows were scored (mean 1.000), and a gate needs 95 %. Not"
            " scored: 160 failed (RateLimited).",
        ),
        (
            {SCORE: 3, UNDEFINED: 97},
            "3 of 100 rows were scored (mean 1.000), and a gate needs 95 %. Not"
            " scored: 97 without context or another input.",
        ),
        (
            {SCORE: 90, NOT_JUDGED: 10},
            "90 of 100 rows were scored (mean 1.000), and a gate needs 95 %. Not"
            " scored: 10 without a result.",
        ),
        (
            {SCORE: 90, BAD: 10},
            "90 of 100 rows were scored (mean 1.000), and a gate needs 95 %. Not"
            " scored: 10 unreadable.",
        ),
        (
            {SCORE: 94, FAILED: 2, UNDEFINED: 1, NOT_JUDGED: 2, BAD: 1},
            "1 without context or another input, 2 failed (RateLimited), 2 without a result, 1 unreadable.",
        ),
    ],
)
@pytest.mark.parametrize("on", ["interval", "point"])
@pytest.mark.parametrize("at_least", [0.0, 0.5, 1.0])
def test_a_run_that_did_not_judge_is_undecided(
    counts: dict[str, int],
    words: str,
    on: Literal["interval", "point"],
    at_least: float,
) -> None:
    decision = decide(Gate(metric="m", at_least=at_least), mixed(counts), on=on)
    assert decision.outcome == "undecided"
    assert words in decision.sentence


@pytest.mark.parametrize("on", ["interval", "point"])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    ("counts", "value", "at_least", "outcome"),
    [
        # 190 of 200 is .95, Wilson from .91
        ({SCORE: 190, FAILED: 10}, 1.0, 0.85, "passed"),
        # without the failures it would have passed
        ({SCORE: 190, FAILED: 10}, 1.0, 0.97, "undecided"),
        ({SCORE: 190, FAILED: 10}, 0.0, 0.03, "undecided"),
        ({SCORE: 190, FAILED: 10}, 0.0, 0.2, "failed"),
    ],
)
def test_failed_samples_count_as_nothing_and_as_everything(
    counts: dict[str, int],
    value: float,
    at_least: float,
    outcome: str,
    *,
    on: Literal["interval", "point"],
    clustered: bool,
) -> None:
    report = mixed(counts, value, clustered=clustered)
    assert decide(Gate(metric="m", at_least=at_least), report, on=on).outcome == outcome


@pytest.mark.parametrize("on", ["interval", "point"])
@pytest.mark.parametrize("kind", [FAILED, NOT_JUDGED, BAD])
def test_what_was_not_judged_is_no_better_than_failed(
    kind: str, on: Literal["interval", "point"]
) -> None:
    gate = Gate(metric="m", at_least=0.97 if on == "point" else 0.95)
    assert decide(gate, mixed({SCORE: 96}), on=on).outcome == "passed"
    decision = decide(gate, mixed({SCORE: 96, kind: 4}), on=on)
    assert decision.outcome == "undecided"
    assert (
        "; with the 4 that failed or were not judged at 0 and at 1 the bounds are 0."
        in decision.sentence
    )
    assert "More rows" not in decision.sentence
    claim = f"m reaches {gate.at_least}, but rows without a score could change that:"
    assert decision.sentence.startswith(claim)
    low = Gate(metric="m", at_least=0.03)
    decision = decide(low, mixed({SCORE: 96, kind: 4}, 0.0), on=on)
    assert decision.outcome == "undecided"
    if on == "point":
        claim = "m is below 0.03, but rows without a score could change that:"
        assert decision.sentence.startswith(claim)


def test_min_scored_is_the_users_to_set() -> None:
    report = mixed({SCORE: 60, UNDEFINED: 40})
    gate = Gate(metric="m", at_least=0.9)
    assert decide(gate, report).outcome == "undecided"
    assert decide(gate, report, min_scored=0.6).outcome == "passed"
    with pytest.raises(SettingError, match=r"min_scored .* from 0 to 1"):
        decide(gate, report, min_scored=95)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            RunFacts(stopped="the limit of 40 calls is reached"),
            "the limit of 40 calls is reached",
        ),
        (RunFacts(interrupted=True), "it was interrupted"),
    ],
)
def test_a_run_that_ended_early_is_undecided(run: RunFacts, why: str) -> None:
    decision = decide(Gate(metric="m", at_least=0), mixed({SCORE: 100}, run=run))
    assert (decision.outcome, decision.sentence) == (
        "undecided",
        f"m is not held against 0: the run ended early: {why}.",
    )


@pytest.mark.parametrize(
    "counts", [{SCORE: 40, FAILED: 160}, {SCORE: 3, UNDEFINED: 97}]
)
def test_an_assertion_does_not_pass_such_a_run_either(counts: dict[str, int]) -> None:
    with pytest.warns(UndecidedWarning, match="rows were scored"):
        assert_score(mixed(counts), at_least=0.5)
    with pytest.raises(AssertionError, match="rows were scored"):
        assert_score(mixed(counts), at_least=0.5, undecided="fail")
    assert_score(mixed(counts), at_least=0.0, min_scored=0.0)


@pytest.mark.parametrize(
    ("text", "metric", "at_least"),
    [
        ("adherence=0.8", "context_adherence", 0.8),
        ("utilization=1", "context_utilization", 1.0),
        (" Recall = .5 ", "context_recall", 0.5),
        ("accuracy=0", "retrieval_accuracy", 0.0),
        ("context_recall=0.25", "context_recall", 0.25),
    ],
)
def test_parsing(text: str, metric: str, at_least: float) -> None:
    gate = parse_gate(text, list(METRICS))
    assert (gate.metric, gate.at_least) == (metric, at_least)
    assert parse_gate(str(gate), list(METRICS)) == gate


def test_own_names() -> None:
    assert parse_gate("Mine=0.5", names=["Mine"]).metric == "Mine"
    assert (
        parse_gate("recall=0.5", names=["recall", "context_recall"]).metric == "recall"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adherence", "metric=threshold"),
        ("=0.5", "metric=threshold"),
        ("", "metric=threshold"),
        ("adherance=0.5", "did you mean 'context_adherence'"),
        ("recall=80", "0 to 1"),
        ("recall=nan", "0 to 1"),
        ("recall=-0.1", "0 to 1"),
        ("recall=high", "'high'"),
        ("recall=", "0 to 1"),
        ("recall==0.5", "0 to 1"),
    ],
)
def test_bad_gates(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse_gate(text, list(METRICS))


def test_only_metrics_of_the_run_are_offered() -> None:
    with pytest.raises(SettingError, match=r"there are: context_recall, mine$"):
        parse_gate("adherence=0.5", names=["context_recall", "mine"])


def sliced(*scores: tuple[object, float | None]) -> Report:
    """Rows of a language with their score; None for one that failed."""
    failed = Failed(
        metric="m", reason="", error=ErrorInfo(type="JudgeTimeout", message="")
    )
    return Report(
        SampleResult(
            index=at,
            sample=Sample(metadata={} if language is None else {"language": language}),
            results={
                "m": (
                    failed
                    if value is None
                    else Scored(metric="m", reason="", value=value)
                )
            },
        )
        for at, (language, value) in enumerate(scores)
    )


SLICED = Gate(metric="m", at_least=0.5, by="language")


@pytest.mark.parametrize(
    ("scores", "outcome", "said"),
    [
        (
            [("de", 0.9), ("en", 0.8)],
            "passed",
            "m by language: 2 of 2 slices reach 0.5.",
        ),
        (
            [("de", 0.9), ("en", 0.1)],
            "failed",
            '1 of 2 slices reach 0.5. "en": misses 0.5: mean 0.100 of',
        ),
        ([("de", 0.9), (None, 0.1)], "failed", '"without language": misses 0.5'),
        ([("de", 0.9), (False, 0.1)], "failed", '"False": misses 0.5'),
        (
            [("de", 0.9), ("en", None)],
            "failed",
            ' "en": cannot reach 0.5, since nothing was scored',
        ),
    ],
)
def test_a_gate_per_slice_needs_every_slice(
    scores: list[tuple[object, float | None]], outcome: str, said: str
) -> None:
    found = decide(SLICED, sliced(*scores), on="point")
    assert (found.outcome, found.metric) == (outcome, "m")
    assert said in found.sentence


@pytest.mark.parametrize(
    ("failing", "end"),
    [(1, "1 scored row."), (10, "1 scored row."), (12, "1 scored row. And 2 more.")],
)
def test_of_many_slices_that_do_not_pass_ten_are_shown(failing: int, end: str) -> None:
    slices = [(f"l{place:02}", 0.1) for place in range(failing)]
    sentence = decide(SLICED, sliced(("zz", 0.9), *slices), on="point").sentence
    assert sentence.startswith(
        f"m by language: 1 of {failing + 1} slices reach 0.5."
        ' "l00": misses 0.5: mean 0.100'
    )
    assert sentence.endswith(end)
    assert sentence.count("misses") == min(failing, 10)


def test_a_summary_without_the_slices_of_a_gate_says_how_to_make_it() -> None:
    with pytest.raises(
        SettingError,
        match=r"no slices by 'language'; make it with slices=\['language'\]",
    ):
        decide(SLICED, sliced(("de", 0.9)).summary())


def test_a_slice_with_few_samples_is_undecided_and_bad_rows_are_in_every_slice() -> (
    None
):
    one = sliced(("de", 0.9), ("en", 0.9))
    assert decide(SLICED, one).outcome == "undecided"
    bad = SampleResult(index=9, sample=None, problem="no mapping")
    for rows in ([bad, *one.results], [*one.results, bad]):
        tally = Tally(["m"], slices=["language"])
        for row in rows:
            tally.add(row)
        slices = tally.summary().slices["language"]
        assert {name: (own.rows, own.bad_rows) for name, own in slices.items()} == {
            "de": (2, 1),
            "en": (2, 1),
        }
    assert (
        decide(SLICED, Report([*one.results, bad]), on="point").outcome == "undecided"
    )


@pytest.mark.parametrize("wrong", [9, 10, 11, 13])
def test_of_many_slices_that_fail_ten_are_named(wrong: int) -> None:
    found = decide(
        SLICED,
        sliced(*((f"language {number}", 0.1) for number in range(wrong))),
        on="point",
    )
    assert found.sentence.count("misses") == min(wrong, 10)
    more = wrong - 10
    assert found.sentence.endswith(f" And {more} more.") == (more > 0)
    assert ("more." in found.sentence) == (more > 0)


def test_a_summary_without_the_slices_of_a_gate_is_refused() -> None:
    report = sliced(("de", 0.9), ("en", 0.9))
    with pytest.raises(
        SettingError,
        match=r"no slices by 'language'.*make it with slices=\['language'\]",
    ):
        decide(SLICED, report.summary())
    assert (
        decide(SLICED, report.summary(slices=["language"]), on="point").outcome
        == "passed"
    )


def test_a_gate_per_slice_is_written_with_its_key() -> None:
    for text in (
        "adherence=0.8@metadata.user.language",
        "context_adherence = 0.8 @ user.language",
    ):
        gate = parse_gate(text, list(METRICS))
        assert gate == Gate(
            metric="context_adherence", at_least=0.8, by="user.language"
        )
        assert str(gate) == "context_adherence=0.8@user.language"
    with pytest.raises(SettingError, match="a gate is written"):
        parse_gate("adherence=0.8@", list(METRICS))
    with pytest.raises(SettingError, match="after a whole run"):
        evaluate(
            [{"answer": "a", "contexts": ["a"]}],
            until="decided",
            gates=["adherence=0.8@language"],
        )


def test_a_run_until_decided_answers_only_what_it_was_decided_on() -> None:
    """It chose its own end, so it has no interval; the bounds that it has are of its gates."""

    @metric(name="good", requires=("answer",))
    def good(sample: Sample) -> float:
        return float(sample.answer or 0)

    @metric(name="other", requires=("answer",))
    def other(sample: Sample) -> float:
        return 1.0

    found = evaluate(
        [{"question": f"{number}?", "answer": "1"} for number in range(60)],
        [good, other],
        until="decided",
        gates=["good=0.5"],
        progress=False,
    )
    decided, alone = (
        Gate(metric="good", at_least=0.5),
        Gate(metric="other", at_least=0.5),
    )
    assert decide(decided, found.summary()).outcome == "passed"
    assert "bounds" in decide(decided, found.summary()).sentence
    for gate, on in ((decided, "point"), (alone, "interval"), (alone, "point")):
        not_asked = decide(gate, found.summary(), on=on)
        assert not_asked.outcome == "undecided"
        assert "has no bounds that answer this" in not_asked.sentence
