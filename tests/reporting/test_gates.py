"""Gates: the mean decides, and what says nothing is undecided."""

import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcomes import Outcome, result_of
from planted import RightJudge, planted_rows, sample_of

from ragmetrics_core import Gate, Report, Sample, Scored, evaluate
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import (
    SampleResult,
    Signature,
)
from ragmetrics_core.data.scalars import ROUNDING
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.registry import METRICS
from ragmetrics_core.reporting.gates import decide, parse_gate, three_way
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.testing.assertions import assert_score

NAMES = list(METRICS)


def report(*outcomes: Outcome, **metadata: Sequence[object]) -> Report:
    """A report of one metric, m; "not judged" and "bad" are rows without a result."""
    rows = []
    for index, outcome in enumerate(outcomes):
        own = {key: values[index] for key, values in metadata.items()}
        sample = None if outcome == "bad" else Sample(answer="a", metadata=own)
        results = {}
        if outcome not in ("bad", "not judged"):
            results = {"m": result_of(outcome)}
        problem = "no object" if outcome == "bad" else ""
        rows.append(
            SampleResult(index=index, sample=sample, results=results, problem=problem)
        )
    return Report(rows, RunFacts(metrics={"m": Signature()}))


# 18 of 20: Wilson .699 to .972 (scipy 1.17.1, binomtest(18,
# 20).proportion_ci(method="wilson")).
EIGHTEEN = report(*[1.0] * 18, 0.0, 0.0)
FIFTY = [1.0] * 50


def with_lost_polls(*scores: tuple[float, float, float]) -> Report:
    """A report of one metric: each score with the bounds that lost polls give it."""
    rows = []
    for index, (value, *bounds) in enumerate(scores):
        result = Scored(metric="m", reason="", value=value, bounds=tuple(bounds))
        sample = Sample(question=f"Who {index}?", answer="a")
        rows.append(SampleResult(index=index, sample=sample, results={"m": result}))
    return Report(rows, RunFacts(metrics={"m": Signature()}))


def test_lost_polls_count_as_parts_of_rows_that_were_not_scored():
    sure = (1.0, 1.0, 1.0)
    many = decide("m=0.9", with_lost_polls(*[(1.0, 0.8, 1.0)] * 30))
    assert many.outcome == "undecided"
    assert "24 of 30 rows were scored" in many.sentence
    assert "lost polls worth 6.0 rows" in many.sentence
    few = with_lost_polls(*[sure] * 100, *[(1.0, 0.8, 1.0)] * 20)
    passed = decide("m=0.9", few)
    assert (passed.outcome, "–1.000; the mean" in passed.sentence) == ("passed", True)
    # the interval holds what the lost ones may have said
    low = few["m"].interval.low
    assert few["m"].lost == pytest.approx(4.0)
    without_lost = decide(
        f"m={low - 0.01}", with_lost_polls(*[sure] * 120), strict=True
    )
    with_lost = decide(f"m={low - 0.01}", few, strict=True)
    assert (without_lost.outcome, with_lost.outcome) == ("passed", "undecided")


def test_lost_polls_widen_a_share_by_the_rows_that_they_could_turn():
    sure, lost = (1.0, 1.0, 1.0), (1.0, 0.8, 1.0)
    run = with_lost_polls(*[sure] * 80, *[lost] * 20)
    # without the 20 rows above .9 the share is .8; each of them stays above .5
    assert decide("share(m>0.9)=0.9", run, strict=True).outcome == "undecided"
    assert decide("share(m>0.5)=0.9", run, strict=True).outcome == "passed"
    assert decide("share(m>0.9)=0.7", run, strict=True).outcome == "passed"


def test_failed_rows_of_one_question_are_one_cluster_of_a_share_too():
    rows = []
    for index in range(400):
        outcome: Outcome = "failed" if index < 20 else 1.0
        question = "Who else?" if index < 20 else f"Who {index}?"
        results = {"m": result_of(outcome)}
        sample = Sample(question=question, answer="a")
        rows.append(SampleResult(index=index, sample=sample, results=results))
    run = Report(rows, RunFacts(metrics={"m": Signature()}))
    numbers = run.summary()["m"]
    assert numbers.worst.clusters == 381
    low = numbers.worst.low
    for name in ("m", "share(m>0.5)"):
        reached = decide(f"{name}={low - 0.001}", run, strict=True)
        in_doubt = decide(f"{name}={low + 0.001}", run, strict=True)
        assert (reached.outcome, in_doubt.outcome) == ("passed", "undecided")


@pytest.mark.parametrize(
    ("at_least", "outcome", "strict"),
    [
        (0.69, "passed", "passed"),
        (0.71, "passed", "undecided"),
        (0.95, "failed", "undecided"),
        (0.98, "failed", "failed"),
    ],
)
def test_the_mean_decides_and_strict_asks_the_interval(at_least, outcome, strict):
    gate = Gate(metric="m", at_least=at_least)
    decision = decide(gate, EIGHTEEN)
    assert decision.outcome == outcome
    assert decide(gate, EIGHTEEN.summary()) == decision
    assert decide(gate, EIGHTEEN, strict=True).outcome == strict
    cannot_tell = "A close call: other rows could" in decision.sentence
    assert cannot_tell == (strict == "undecided")


def replied(*sets: Sequence[str], failed: Sequence[str] | None = None) -> Report:
    """A report of m, judged under one name: by row, the models that the endpoint named.

    The first row scores 0, the others 1; one more failed, if its models are given.
    """
    signature = Signature(metric="m", version="1", judge="gateway")
    rows = []
    for index, models in enumerate([*sets, *([] if failed is None else [failed])]):
        outcome: Outcome = "failed" if index == len(sets) else float(index > 0)
        settings = {
            "judge": "gateway",
            "signature": signature,
            "usage": Usage(calls=1, models=tuple(models)),
        }
        result = result_of(outcome).model_copy(update=settings)
        sample = Sample(question=f"Who {index}?", answer="a", metadata={"half": "ab"})
        rows.append(SampleResult(index=index, sample=sample, results={"m": result}))
    return Report(rows, RunFacts(metrics={"m": Signature()}))


A, B, BOTH, NONE = ["qwen-7b"], ["llama-8b"], ["llama-8b", "qwen-7b"], list[str]()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (replied(*[A] * 3, *[B] * 4), "4 by model:llama-8b, 3 by model:qwen-7b;"),
        (replied(*[A] * 9, BOTH), "9 by model:qwen-7b, 1 by model:llama-8b, qwen-7b;"),
        (replied(A, B, NONE), "1 by model:llama-8b, 1 by model:qwen-7b;"),
        (
            replied(["gpt-4o-mini"], *[["gpt-4o-mini-2024-07-18"]] * 2),
            "2 by model:gpt-4o-mini-2024-07-18, 1 by model:gpt-4o-mini;",
        ),
    ],
)
def test_no_gate_holds_over_rows_that_two_models_judged_under_one_name(report, said):
    for gate in ("m=0.1", "share(m>0.5)=0.1", "answered=0.1", "m=0.1@half"):
        decision = decide(gate, report)
        assert decision.outcome == "undecided", gate
        assert said in decision.sentence
        assert "judge all by one (--fresh, or another --store)" in decision.sentence
    with pytest.raises(AssertionError, match="its rows were measured in"):
        assert_score(report, at_least=0.1)


@pytest.mark.parametrize(
    "report",
    [
        replied(*[A] * 4),
        replied(*[NONE] * 4),
        replied(A, A, NONE, NONE),  # whose endpoint named none does not count
        replied(BOTH, BOTH, BOTH[::-1]),  # a jury
        replied(*[A] * 30, failed=B),  # which has no part in the mean
    ],
)
def test_a_gate_holds_over_rows_that_the_same_models_judged(report):
    assert decide("m=0.1", report).outcome == "passed"
    assert report.summary().signs == ()


def test_a_gate_holds_over_the_rows_of_one_model_that_is_named():
    report = replied(*[A] * 2, *[B] * 4, NONE)
    of_llama = report.with_signature("model:llama-8b")
    assert decide("m=0.6", of_llama).outcome == "passed"
    told = "2 of 7 rows left out, not measured by model:llama-8b"
    assert of_llama.run.left_out == (told,)
    of_qwen = report.with_signature("model:qwen-7b")
    assert decide("m=0.6", of_qwen).outcome == "passed"  # with the row of none: 2 of 3
    assert decide("m=0.7", of_qwen).outcome == "failed"
    assert of_qwen.run.models == ("qwen-7b",)
    # that a row failed, before any model answered, is not forgotten
    failed = replied(*[A] * 2, *[B] * 4, failed=NONE).with_signature("model:llama-8b")
    assert decide("m=0.1", failed).outcome == "undecided"
    assert "4 of 5 rows were scored" in decide("m=0.1", failed).sentence
    with pytest.raises(SettingError, match="no result has the signature 'model:x'"):
        report.with_signature("model:x")


def test_sentences():
    assert decide(Gate(metric="m", at_least=0.9), EIGHTEEN).sentence == (
        "m reaches 0.9: mean 0.900 of 20 rows, 95 % interval 0.699–0.972; the mean decides."
        " A close call: other rows could miss 0.9."
        " No metric of the run tells whether answers decline."
    )


def test_a_sentence_says_over_how_many_clusters_the_interval_is():
    rows = report(*[0.9, 0.8] * 4, document_id=["a"] * 6 + ["b"] * 2)
    assert "–1.000 over 2 clusters; the mean decides" in decide("m=0.5", rows).sentence


def test_a_decision_is_true_where_the_gate_passed_and_nowhere_else():
    rows = report(*[0.5, 0.9] * 4)
    for at_least, strict, outcome in (
        (0.7, False, "passed"),
        (0.8, False, "failed"),
        (0.7, True, "undecided"),
    ):
        decision = decide(Gate(metric="m", at_least=at_least), rows, strict=strict)
        assert (decision.outcome, bool(decision)) == (outcome, outcome == "passed")


def test_rounding_does_not_decide():
    thirds = report(0.6, 1.0, 0.8)  # the sum is 2.4, and 2.4 / 3 is just below 0.8
    for rows in (thirds, report(0.8 - ROUNDING)):
        assert decide(Gate(metric="m", at_least=0.8), rows).outcome == "passed"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.floats(0, 1))
def test_the_numbers_of_a_sentence_lead_to_its_verdict(values, at_least):
    """No rounding puts a shown number on the other side of the threshold."""
    decision = decide(Gate(metric="m", at_least=at_least), report(*values))
    shown = re.search(r": mean ([\d.]+) of", decision.sentence)
    assert shown
    mean = float(shown[1])
    assert three_way(mean, mean, at_least) == decision.outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.8 - ROUNDING, 1.0, "passed"),
        (math.nextafter(0.8 - ROUNDING, 0.0), 1.0, "undecided"),
        (0.0, 0.8 - ROUNDING, "undecided"),
        (0.0, math.nextafter(0.8 - ROUNDING, 0.0), "failed"),
    ],
)
def test_three_ways(low, high, outcome):
    assert three_way(low, high, 0.8) == outcome


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("at_least", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (["failed"] * 4, "nothing was scored (4 failed (RateLimited))"),
        ([], "nothing was scored"),
        (
            [*FIFTY[:40], *["failed"] * 10],
            "40 of 50 rows were scored, and a gate needs",
        ),
        ([*FIFTY[:40], *["missing"] * 10], "10 without an input that it needs"),
        ([*FIFTY[:40], *["not judged"] * 10], "Not scored: 10 without a result."),
        ([*FIFTY[:40], *["bad"] * 10], "Not scored: 10 unreadable."),
        ([*FIFTY[:40], *["declined"] * 60], "40 of 100 rows were answered"),
    ],
)
def test_a_run_that_did_not_judge_is_undecided_in_every_mode(
    outcomes, words, at_least, *, strict
):
    rows = report(*outcomes)
    if "declined" in outcomes:
        rows = asked(outcomes)
    decision = decide(Gate(metric="m", at_least=at_least), rows, strict=strict)
    assert decision.outcome == "undecided"
    assert words in decision.sentence


def asked(outcomes: Sequence[Outcome]) -> Report:
    """A report whose metric asks whether answers decline, as adherence does."""
    rows = []
    for row in report(*outcomes).results:
        result = row.results["m"]
        if isinstance(result, Scored):
            evidence = AdherenceEvidence(asked=1, yes=1, no=0)
            result = result.model_copy(update={"evidence": evidence})
        rows.append(row.model_copy(update={"results": {"m": result}}))
    return Report(rows)


def test_a_report_before_the_gate_is_told_the_order():
    rows = report(*FIFTY)
    for gate, measured in ((rows, "m=0.9"), (rows, ["m=0.9"]), ("m=0.9", "m=0.9")):
        with pytest.raises(SettingError, match="takes a gate, then a report"):
            decide(gate, measured)  # type: ignore[arg-type]


def test_rightly_undefined_rows_leave_the_denominator():
    rows = report(*FIFTY, *["no_claim"] * 50)
    assert decide(Gate(metric="m", at_least=0.9), rows).outcome == "passed"
    rows = report(*FIFTY, *["missing"] * 50)
    gate = Gate(metric="m", at_least=0.9)
    assert decide(gate, rows).outcome == "undecided"
    assert decide(gate, rows, min_scored=0.5).outcome == "passed"
    with pytest.raises(SettingError, match=r"min_scored .* from 0 to 1"):
        decide(gate, rows, min_scored=95)


def test_failed_rows_count_as_nothing_and_as_everything_when_strict():
    gate = Gate(metric="m", at_least=0.93)
    assert decide(gate, report(*[1.0] * 96), strict=True).outcome == "passed"
    rows = report(*[1.0] * 96, *["failed"] * 4)
    assert decide(gate, rows, strict=True).outcome == "undecided"
    assert decide(gate, rows).outcome == "passed"


@pytest.mark.parametrize(
    ("n_answered", "at_least", "outcome"),
    [(9, 0.8, "passed"), (7, 0.8, "failed"), (0, 0.8, "failed"), (0, 0.0, "passed")],
)
def test_the_answered_share_is_a_gate(n_answered, at_least, outcome):
    rows = asked([*[1.0] * n_answered, *["declined"] * (10 - n_answered)])
    gate = parse_gate(f"answered={at_least}", NAMES)
    decision = decide(gate, rows)
    assert (decision.metric, decision.outcome) == ("answered", outcome)
    assert f"share {n_answered / 10:.3f} of 10 rows" in decision.sentence
    assert rows.summary().answered_share == n_answered / 10


@pytest.mark.parametrize("answer", [None, "Anna"])
@pytest.mark.parametrize(("failed", "outcome"), [(1, "passed"), (3, "failed")])
def test_a_run_that_failed_was_not_answered(answer, failed, outcome):
    good = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna lit it."}
    crashed = {**good, "answer": answer, "error": "TimeoutError"}
    rows = [*[good] * (20 - failed), *[crashed] * failed]
    report = evaluate(rows, ["context_adherence"], judge="lexical")
    decision = decide("answered=0.9", report)
    assert decision.outcome == outcome
    assert f"share {1 - failed / 20:.3f} of 20 rows" in decision.sentence
    retrieval = evaluate(rows, ["retrieval_accuracy"], judge="lexical")
    assert retrieval.summary().answered_share is None


def test_where_no_metric_asks_the_answered_share_is_not_known():
    rows = report(*FIFTY)
    assert rows.summary().answered_share is None
    decision = decide(parse_gate("answered=0.8", NAMES), rows)
    assert decision.outcome == "undecided"
    assert "no metric of the run tells" in decision.sentence


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [([0.51] * 19 + [0.5], "passed"), ([0.51] * 18 + [0.5] * 2, "failed")],
)
def test_a_gate_on_a_share_of_rows_takes_half_as_no(scores, outcome):
    gate = Gate(metric="m", at_least=0.95, above=0.5)
    assert str(gate) == "share(m>0.5)=0.95"
    decision = decide(gate, report(*scores))
    assert (decision.metric, decision.outcome) == ("share(m>0.5)", outcome)


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("adherence=0.8", Gate(metric="context_adherence", at_least=0.8)),
        (
            " recall = 0.5 @ metadata.lang",
            Gate(metric="context_recall", at_least=0.5, by="lang"),
        ),
        (
            "share(adherence>0.5)=0.95@lang",
            Gate(metric="context_adherence", at_least=0.95, above=0.5, by="lang"),
        ),
        ("answered=1", Gate(metric="answered", at_least=1.0)),
    ],
)
def test_gates_are_read(text, gate):
    assert parse_gate(text, NAMES) == gate
    assert parse_gate(str(gate), NAMES) == gate


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adherence", "is written"),
        ("=0.5", "is written"),
        ("adherence=0.5@", "is written"),
        ("adherence>=0.5", "each alone"),
        ("adherence=0.5,recall=0.5", "each alone"),
        ("adherence=five", "0 to 1"),
        ("adherence=nan", "0 to 1"),
        ("adherence=1.5", "0 to 1"),
        ("share(adherence>2)=0.5", "0 to 1"),
        ("adherance=0.5", "did you mean"),
    ],
)
def test_bad_gates(text, words):
    with pytest.raises(SettingError, match=words):
        parse_gate(text, NAMES)


SLICED = Gate(metric="m", at_least=0.5, by="language")


LEFT_OUT = {"left_out": ("9 of 29 rows left out, not measured by v2",)}


@pytest.mark.parametrize(
    ("gate", "rows"),
    [
        ("m=0.5", "mean 1.000 of 17 of 20 rows (3 without a claim; 9 of 29 rows left"),
        ("share(m>0.5)=0.5", "share 1.000 of 17 of 20 rows (3 without a claim; 9 of"),
        (
            "m=0.5@half",
            "2 of 2 slices reach 0.5, over 17 of 20 rows (3 without a claim",
        ),
    ],
)
def test_a_gate_says_on_how_many_rows_it_rests_of_how_many(gate, rows):
    halves = [*["first"] * 10, *["second"] * 10]
    run = report(*[1.0] * 17, *["no_claim"] * 3, half=halves)
    run.run = run.run.model_copy(update=LEFT_OUT)
    decision = decide(gate, run)
    assert (decision.outcome, rows in decision.sentence) == ("passed", True), decision
    # nothing of it is told twice, nor of a slice, nor forgotten where all is undecided
    assert str(run).count("left out") == 1
    for told in (decision, decide(gate.replace("0.5", "1"), run, strict=True)):
        assert str(told).count("left out") == 1
        assert str(run.glance([told])).count("left out") == 1
    nothing = report(*["failed"] * 20, half=halves)
    nothing.run = run.run
    assert str(decide(gate, nothing)).count("left out") == 1


@pytest.mark.parametrize(
    ("rows", "outcome", "words"),
    [
        (
            [("de", 0.9), ("en", 0.8)],
            "passed",
            "m by language: 2 of 2 slices reach 0.5, over 2 rows.",
        ),
        ([("de", 0.9), ("en", 0.1)], "failed", ' "en": misses 0.5: mean 0.100 of'),
        ([("de", 0.9), (None, 0.1)], "failed", '"without language": misses 0.5'),
        (
            [("de", 0.9), ("en", "failed")],
            "undecided",
            ' "en": cannot be decided: nothing was',
        ),
        ([("de", 0.9), ("en", "failed"), ("fr", 0.1)], "failed", "1 of 3 slices"),
    ],
)
def test_a_gate_per_slice_needs_every_slice(rows, outcome, words):
    languages = [language for language, _ in rows]
    decision = decide(SLICED, report(*[each for _, each in rows], language=languages))
    assert (decision.outcome, decision.metric) == (outcome, "m")
    assert words in decision.sentence


def test_rows_that_could_not_be_read_may_be_a_slice_of_their_own():
    languages = [*["de"] * 50, "en"]
    decision = decide(SLICED, report(*FIFTY, "bad", language=languages))
    assert str(decision).startswith(
        "passed: m by language: 1 of 1 slices reach 0.5, over 50 of 51 rows (1"
        " unreadable). 1 row could not be read: of which slice, nobody knows."
    )


def test_of_many_slices_ten_are_shown():
    languages = ["zz", *(f"l{place:02}" for place in range(12))]
    sentence = decide(SLICED, report(0.9, *[0.1] * 12, language=languages)).sentence
    beginning = 'm by language: 1 of 13 slices reach 0.5, over 13 rows. "l00": misses'
    assert sentence.startswith(beginning)
    assert sentence.endswith(" And 2 more.")
    assert sentence.count("misses") == 10
    with pytest.raises(SettingError, match="no slices by 'language'"):
        decide(SLICED, report(0.9).summary())


def test_a_run_that_ended_early_is_undecided():
    rows = Report(EIGHTEEN.results, RunFacts(stopped="the limit is reached"))
    decision = decide(Gate(metric="m", at_least=0.5), rows)
    assert decision.outcome == "undecided"
    assert "the limit is reached" in decision.sentence


def test_a_gate_may_be_a_text():
    gate = Gate(metric="m", at_least=0.7)
    assert decide("m=0.7", EIGHTEEN) == decide(gate, EIGHTEEN.summary())
    with pytest.raises(SettingError, match="context_adherence was not asked for"):
        decide("faithfulness=0.7", EIGHTEEN)


METRIC_NAMES = ["utilization", "adherence", "recall", "accuracy"]
GATES = (
    "adherence=0.1",
    "utilization=0.1",
    "recall=0.1",
    "accuracy=0.1",
    "answered=0.1",
    "share(adherence>0.5)=0.1",
)


@pytest.mark.parametrize("answer", ["made_up", "declines"])
def test_a_dead_retriever_passes_no_gate_that_it_passed_before(answer):
    """The model invents, or it declines politely."""
    good = [row for row in planted_rows() if row["fault"] == "no fault"]
    by_fault = {
        row["question"]: row for row in planted_rows() if row["fault"] == "made up"
    }
    good = [row for row in good if row["reference"]]
    dead = []
    for row in good:
        text = by_fault[row["question"]]["answer"]
        if answer == "declines":
            text = "The sources do not say."
        dead.append({**row, "contexts": [], "retrieved": [], "answer": text})
    judge = RightJudge()
    before = evaluate(map(sample_of, good), judge=judge.judge(), metrics=METRIC_NAMES)
    after = evaluate(map(sample_of, dead), judge=judge.judge(), metrics=METRIC_NAMES)
    for text in GATES:
        gate = parse_gate(text, before.metrics)
        assert decide(gate, before).outcome == "passed", text
        assert decide(gate, after).outcome != "passed", text


@pytest.mark.nightly
@pytest.mark.parametrize("blank", [" ", "-", "...", "…", "— ."])
def test_a_blank_answer_is_no_answer(blank):
    """Thirty of forty answers say nothing, as after a timeout."""
    good = [row for row in planted_rows() if row["fault"] == "no fault"][:10]
    rows = good + [{**row, "answer": blank} for row in good * 3]
    samples = [sample_of({**row, "id": str(place)}) for place, row in enumerate(rows)]
    report = evaluate(samples, judge=RightJudge().judge())
    summary = report.summary()
    assert (summary.answered, summary.answered_share) == (10, 0.25)
    assert decide(parse_gate("answered=0.8", NAMES), report).outcome == "failed"
    assert [fault.name for fault in report.faults[10:]] == ["no answer"] * 30
    assert "30 of 40 rows: no answer." in str(report)
    unanswered = evaluate(samples[10:], METRIC_NAMES, judge=RightJudge().judge())
    assert unanswered.summary().answered_share == 0.0


@pytest.mark.parametrize("sign", ["#", "//", "[]", "*", "_", "?", "\ue000"])
def test_an_answer_of_signs_is_an_answer(sign):
    row = {
        "question": "Which sign begins a comment?",
        "contexts": [f"A comment begins with {sign}"],
        "answer": sign,
    }
    (result,) = evaluate([row], ["adherence"], judge="lexical").results
    scored = result.results["context_adherence"]
    assert isinstance(scored, Scored)
    assert scored.value > 0.5


def test_rows_of_which_nobody_asked_are_no_answered_rows():
    """Answers that decline, without contexts: no metric asked whether they do."""
    silent = {"question": "q", "answer": "I don't know."}
    told = {"question": "Who?", "contexts": ["Anna did."], "answer": "Anna did."}
    measured = evaluate([told, *[silent] * 40], judge="lexical")
    assert (measured.summary().answered, measured.summary().asked) == (1, 1)
    assert decide(Gate(metric="answered", at_least=0.9), measured).outcome == (
        "undecided"
    )


def test_one_half_answered_is_too_few():
    """A retriever that finds nothing in every second row, and a polite model."""
    told = {"question": "Who?", "contexts": ["Anna did."], "answer": "Anna did."}
    silent = {**told, "contexts": [], "answer": "I don't know."}
    measured = evaluate([told, silent] * 30, judge="lexical")
    assert decide(Gate(metric="context_adherence", at_least=0.6), measured).outcome == (
        "undecided"
    )


def test_slices_by_a_key_that_is_empty_everywhere_are_refused_as_such():
    rows = [Sample(contexts=["c"], answer="c", metadata={"language": None})]
    report = evaluate(rows, ["adherence"], judge="lexical")
    with pytest.raises(SettingError, match="'language' is empty in each sample"):
        decide("adherence=0.5@language", report)
