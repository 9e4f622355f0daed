"""Summaries: counts and numbers, worked by hand."""

import statistics
from collections.abc import Iterable
from typing import Any

import pytest
from outcomes import result_of

from ragmetrics_core import evaluate
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import (
    ErrorInfo,
    MetricResult,
    SampleResult,
    Scored,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import CaptureNotes, EvidenceCall, Ledger
from ragmetrics_core.reporting.groups import Clusters, group_of
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.summary import CAPTION, Summary
from ragmetrics_core.statistics.means import mean_interval

SAMPLE = Sample(contexts=["c"])
UNUSABLE = result_of("failed").model_copy(
    update={"error": ErrorInfo(type="UnusableReply", message="x")}
)


def summarise(
    results: Iterable[SampleResult], metrics: list[str], cluster: Any = "auto"
) -> Summary:
    run = RunFacts(metrics=dict.fromkeys(metrics, ""))
    return Report(results, run).summary(cluster=cluster)


def rows(*results: MetricResult, sample: Sample = SAMPLE) -> list[SampleResult]:
    return [
        SampleResult(index=index, sample=sample, results={"m": result})
        for index, result in enumerate(results)
    ]


def test_numbers_by_hand():
    numbers = summarise(rows(result_of(0.2), result_of(0.4), result_of(0.9)), ["m"])[
        "m"
    ]
    assert (numbers.count, numbers.median, numbers.min, numbers.max) == (
        3,
        0.4,
        0.2,
        0.9,
    )
    assert numbers.mean == pytest.approx(0.5)
    assert numbers.sd == pytest.approx(0.13**0.5)
    assert numbers.interval == mean_interval([0.2, 0.4, 0.9])


def test_outcomes_are_counted_by_kind():
    results = rows(
        result_of(1),
        result_of("missing"),
        result_of("declined"),
        result_of("missing"),
        result_of("failed"),
        UNUSABLE,
    )
    numbers = summarise(results, ["m"])["m"]
    assert numbers.count == 1
    assert numbers.undefined == {"missing": 2, "declined": 1}
    assert numbers.failed == {"UnusableReply": 1, "RateLimited": 1}


def test_worst_and_best_are_the_interval_if_all_scores_are_known():
    metric = summarise(
        rows(result_of(0.5), result_of(1.0), result_of("missing")), ["m"]
    )["m"]
    assert metric.interval is not None
    assert metric.worst == metric.best == metric.interval


def test_worst_and_best_count_unknown_scores_beside_known_ones_only():
    metric = summarise(
        rows(result_of(0.5), result_of(1.0), result_of("failed")), ["m"]
    )["m"]
    assert metric.worst == mean_interval([0.5, 1.0, 0.0])
    assert metric.best == mean_interval([0.5, 1.0, 1.0])
    metric = summarise(
        rows(result_of("failed"), result_of("failed"), result_of("failed")), ["m"]
    )["m"]
    assert metric.interval is metric.worst is metric.best is None


def test_bad_rows_and_rows_not_judged_are_counted_apart():
    results = [
        *rows(result_of(1), result_of("missing")),
        SampleResult(index=2, sample=None, problem="row 3 is no object"),
        SampleResult(index=3, sample=SAMPLE),
        SampleResult(index=4, sample=SAMPLE, results={"other": result_of(0.5)}),
    ]
    summary = summarise(results, ["m", "other"])
    assert (summary.rows, summary.judged, summary.not_judged, summary.bad_rows) == (
        5,
        3,
        1,
        1,
    )
    assert summary["m"].not_judged == 2
    assert summary["other"].not_judged == 3


def test_a_metric_undefined_on_every_row_stays():
    numbers = summarise(
        rows(result_of("missing"), result_of("no_facts")), ["m", "never"]
    )
    for name in ("m", "never"):
        found = numbers[name]
        assert found.count == 0
        assert (
            found.mean,
            found.median,
            found.sd,
            found.min,
            found.max,
            found.interval,
        ) == (None,) * 6
    assert numbers["m"].unscored_in_words == (
        "1 without an input that it needs, 1 without a fact in the reference"
    )
    assert "NaN" not in numbers.model_dump_json()


def test_no_rows():
    summary = summarise([], ["m"])
    assert (summary.rows, summary.signs, summary.usage) == (0, (), Usage())


def test_usage_is_summed_and_unknown_cost_stays_unknown():
    one, two = (
        Usage(calls=2, cost=0.5, models=("x",)),
        Usage(calls=1, stored=3, cost=0.25, models=("y",)),
    )
    summary = summarise(rows(result_of(1, usage=one), result_of(1, usage=two)), ["m"])
    assert summary.usage == Usage(calls=3, stored=3, cost=0.75, models=("x", "y"))
    assert (
        summarise(
            rows(result_of(1, usage=Usage(cost=None)), result_of(1, usage=two)), ["m"]
        ).usage.cost
        is None
    )


def test_answers_without_context_are_a_sign():
    blind = Sample(question="q", contexts=["  "], answer="a")
    silent = Sample(question="q")
    summary = summarise(
        [
            *rows(result_of("missing"), sample=blind),
            *rows(result_of("missing"), sample=silent),
            *rows(result_of(1)),
        ],
        ["m"],
    )
    assert summary.without_context == 1
    assert summary.signs[0] == "answered without any context: 1 of 3 rows."


@pytest.mark.parametrize(
    ("samples", "share"),
    [
        ([Sample(contexts=[], answer="a"), SAMPLE], None),
        ([Sample(question="q"), Sample(contexts=["c"], answer="a")], None),
        ([Sample(question="q"), Sample(question="q")], 0.0),
    ],
)
def test_who_answered_is_unknown_where_no_metric_asks_it(samples, share):
    results = [
        SampleResult(
            index=index,
            sample=sample,
            results={"m": result_of(1) if sample.answer else result_of("missing")},
        )
        for index, sample in enumerate(samples)
    ]
    assert summarise(results, ["m"]).answered_share == share


def test_failed_runs_of_the_application_are_a_sign():
    summary = summarise(
        rows(result_of(1), sample=Sample(question="q", contexts=["c"], error="boom")),
        ["m"],
    )
    assert summary.application_errors == 1
    assert summary.signs == ("the application itself failed: 1 of 1 rows.",)


def test_order_does_not_matter():
    results = rows(
        result_of(0.1),
        result_of("missing"),
        result_of(0.7),
        result_of("failed"),
        UNUSABLE,
        result_of(0.3),
    )
    assert summarise(results, ["m"]) == summarise(results[::-1], ["m"])


def test_unknown_metric_names_the_known():
    with pytest.raises(SettingError, match="there are: m"):
        summarise([], ["m"])["n"]


def test_caption_and_frozen():
    summary = summarise([], [])
    assert (
        summary.caption
        == CAPTION
        == "mean score of this judge on rows like these; poll noise included, judge"
        " bias not"
    )


def test_clusters_of_a_conversation():
    rows = [
        SampleResult(
            index=index,
            sample=Sample(
                question=f"q{index}",
                contexts=["c"],
                answer="a",
                metadata={"conversation_id": index // 4},
            ),
            results={
                "m": Scored(metric="m", reason="", value=0.2 + 0.6 * (index // 4 % 2))
            },
        )
        for index in range(48)
    ]
    numbers = summarise(rows, ["m"])["m"]
    assert numbers.interval.clusters == 12
    # Scores are equal within each conversation of four: 12 clusters of size 4 give the
    # variance of 12 scores, .09 · 12/11 / 12, against .09 · 48/47 / 48.
    assert numbers.interval.design_effect == pytest.approx((0.09 / 11) / (0.09 / 47))
    assert summarise(rows, ["m"]).signs == (
        "m: few clusters: 12, under 20; the interval is a rough guide.",
    )
    assert "m: 12 clusters, design effect 4.27." in Report(rows).table()
    alone = summarise(rows, ["m"], cluster=None)["m"]
    assert alone.interval.clusters is None
    assert (
        numbers.interval.high - numbers.interval.low
        > alone.interval.high - alone.interval.low
    )


def test_the_conversation_of_a_ledger_comes_before_documents_and_behind_the_callers_own_name():
    def sample(metadata: dict[str, Any], **ledger: Any) -> Sample:
        return Sample(metadata={"document_id": 1, **metadata}, ledger=Ledger(**ledger))

    one, two, none = (
        sample({}, conversation="a"),
        sample({}, conversation="b"),
        sample({}),
    )
    named = sample({"session_id": "s"}, conversation="new")
    keys = [
        "ledger.conversation=a",
        "ledger.conversation=b",
        "document_id=1",
        "session_id=s",
    ]
    assert [group_of(it, "auto") for it in (one, two, none, named)] == keys
    assert [group_of(it, "conversation") for it in (one, two, none)] == ["a", "b", None]
    assert group_of(one, "document_id") == "1"
    clusters = Clusters("auto")
    numbers = [clusters.number(it) for it in (one, two, one, none)]
    assert numbers[0] == numbers[2]
    assert len({*numbers}) == 3
    assert min(numbers) >= 0
    assert clusters.number(Sample(answer="a")) == -1


@pytest.mark.parametrize(
    ("differs", "n_clusters"),
    [
        (lambda n: {"history": [{"role": "user", "content": f"About {n}"}]}, 9),
        (lambda n: {"standalone_question": f"The second {n}?"}, 9),
        (lambda n: {"retrieved": [f"text {n}"]}, 9),
        (lambda n: {"contexts": None}, 9),
        (lambda n: {"contexts": [f"text {n}"]}, 9),
        (lambda n: {"question": "AND the second?"}, 1),
        (lambda n: {}, 1),
    ],
)
def test_a_copy_shares_all_texts_and_its_contexts_are_known(differs, n_clusters):
    row = {"question": "And the second?", "answer": "I do not know.", "contexts": ["c"]}
    clusters = Clusters("auto")
    numbers = [
        clusters.number(
            Sample(**{**row, **differs(n), "metadata": {"conversation_id": n}})
        )
        for n in range(9)
    ]
    assert len({*numbers}) == n_clusters


def test_one_question_after_two_histories_is_two():
    turns = [{"role": "user", "content": "Of May."}]
    rows: list[dict[str, Any]] = [{}, {"history": turns}, {"question": "WHO? "}]
    one, after_turns, again = (Sample(**{"question": "Who?", **row}) for row in rows)
    assert group_of(one, "auto") == group_of(again, "auto")
    assert group_of(one, "auto") != group_of(after_turns, "auto")


SPELLINGS = {
    "session_id": [
        "session_id",
        "sessionId",
        "Session ID",
        "session-id",
        "SESSION_ID",
        "sessionid",
        "session.id",
        "attributes.session.id",
        "metadata.session_id",
        "mlflow.trace.session",
    ],
    "conversation_id": [
        "conversationId",
        "Conversation ID",
        "conversation_uuid",
        "gen_ai.conversation.id",
    ],
    "thread_id": ["threadId", "ThreadID", "extra.metadata.thread_id"],
    "chat_id": ["chatId", "traceloop.association.properties.chat_id"],
    "dialogue_id": ["dialogueId", "dialog_id"],
    "conversation": ["conversation", "Conversation"],
    "document_id": ["documentId", "metadata.document_id"],
    "source_document": ["sourceDocument"],
}


@pytest.mark.parametrize(
    ("usual", "written"),
    [(usual, written) for usual, names in SPELLINGS.items() for written in names],
)
def test_usual_names_of_clusters_are_compared_as_those_of_columns(usual, written):
    """A row's cell and the same in the metadata."""
    row = {"contexts": ["Anna lit it."], "answer": "Anna lit it.", written: "s1"}
    assert group_of(Sample.from_row(row), "auto") == f"{usual}=s1"


def test_rows_of_one_conversation_are_one_cluster_in_intervals():
    rows = [
        {
            "contexts": [f"Anna lit lamp {n}."],
            "answer": f"Anna lit lamp {n}." if n // 4 % 2 else "Rome.",
            "sessionId": f"s{n // 4}",
        }
        for n in range(24)
    ]
    interval = (
        evaluate(rows, ["adherence"], judge="lexical").summary()["adherence"].interval
    )
    assert interval.clusters == 6


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"extra": {"metadata": {"thread_id": 7}}}, "thread_id=7"),
        ({"extra": '{"metadata": {"thread_id": 7}}'}, "thread_id=7"),
        ({"extra": "{'metadata': {'thread_id': 7}}"}, "thread_id=7"),
        ({"config": {"configurable": {"thread_id": 7}}}, "thread_id=7"),
        ({"trace_metadata": {"mlflow.trace.session": 7}}, "session_id=7"),
        ({"attributes": {"session": {"id": 7}}}, "session_id=7"),
        ({"inputs": {"question": "q", "session_id": 7}}, "session_id=7"),
        ({"inputs": '{"question": "q", "session_id": 7}'}, "session_id=7"),
        ({"outputs": {"answer": "a", "session_id": 7}}, "session_id=7"),
        # LangSmith's project
        ({"session_id": 1, "extra": {"metadata": {"thread_id": 7}}}, "thread_id=7"),
        ({"user": {"session_id": 1}, "session_id": 7}, "session_id=7"),
        # threads of the operating system, texts, and what nothing names
        ({"attributes": {"thread": {"id": 7}}}, None),
        ({"thread.id": 7}, None),
        ({"notes": "the session_id is 7"}, None),
        (
            {"question": '{"session_id": 7}?'},
            'question=["{\\"session_id\\": 7}?", [], null, []]',
        ),
        ({"contexts": [{"text": "c", "metadata": {"thread_id": 7}}]}, None),
        ({"evaluation": {"conversation": "all of it"}}, None),
        ({"extra": {"metadata": {"thread_id": None}}}, None),
    ],
)
def test_a_conversation_is_found_in_the_objects_of_a_row(row, key):
    sample = Sample.from_row(row)
    assert group_of(sample, "auto") == key
    # also after a results file
    again = Sample.model_validate_json(sample.model_dump_json())
    assert group_of(again, "auto") == key


def test_of_two_spellings_of_a_cluster_the_one_that_is_filled_counts():
    assert (
        group_of(Sample(metadata={"sessionId": None, "session_id": "s"}), "auto")
        == "session_id=s"
    )
    assert (
        group_of(Sample(metadata={"document_id": 1, "threadId": "t"}), "auto")
        == "thread_id=t"
    )
    assert group_of(Sample(metadata={"ledger.conversation": "no"}), "auto") is None
    # of two names of the document the first that has a key counts
    twice = {"metadata.document_id": None, "document_id": 1, "documentId": 2}
    assert group_of(Sample(metadata=twice), "auto") == "document_id=1"


def test_rows_of_a_tool_are_no_answer_without_context():
    ledger = Ledger(
        calls=(EvidenceCall.model_validate({"kind": "tool", "items": ["412"]}),)
    )
    samples = [Sample(answer="a", contexts=(), ledger=own) for own in (None, ledger)]
    rows = [SampleResult(index=n, sample=sample) for n, sample in enumerate(samples)]
    assert Report(rows).summary().without_context == 1


def noted(**fields: Any) -> dict[str, Any]:
    return {"capture": CaptureNotes(**fields)}


@pytest.mark.parametrize(
    ("sample", "known"),
    [
        # a table without contexts
        (Sample.from_row({"question": "q", "answer": "a"}), False),
        (Sample.from_row({"question": "q", "answer": "a", "contexts": []}), True),
        (
            Sample.from_row(
                {"question": "q", "answer": "a", "Retrieved Contexts": None}
            ),
            False,
        ),
        (Sample.from_row({"question": "q", "answer": "a", "retrieved": []}), True),
        (Sample.from_row({"question": "q", "contexts": []}), False),  # no answer
        (Sample(answer="a"), False),
        (Sample(answer="a", contexts=["c"]), False),
        (
            Sample(
                answer="a",
                contexts=(),
                **noted(grade="inferred", evidence_from="none_found"),
            ),
            True,
        ),
        (
            Sample(
                answer="a",
                contexts=None,
                **noted(grade="incomplete", evidence_from="ids_only"),
            ),
            False,
        ),
        (Sample(answer="a", contexts=None, **noted(grade="incomplete")), False),
    ],
)
def test_only_contexts_that_were_recorded_can_be_none(sample, known, tmp_path):
    report = Report(rows(result_of("missing"), sample=sample))
    report.to_jsonl(tmp_path / "a.jsonl")
    for own in (report, Report.from_jsonl(tmp_path / "a.jsonl")):
        assert own.summary().without_context == known
        assert (
            any("answered without any context" in sign for sign in own.summary().signs)
            is known
        )


def test_what_capturing_was_not_sure_of_is_counted_by_code(tmp_path):
    told = [
        {"in_part": "2 of 3 shown in part"},
        {},
        {"in_part": "1 of 2", "loose": "."},
    ]
    captured = [
        SampleResult(
            index=place, sample=Sample(**noted(grade="inferred", doubts=doubts))
        )
        for place, doubts in enumerate(told)
    ]
    summary = Report(captured[::-1]).summary()
    found = [(one.code, one.samples, one.index, one.text) for one in summary.doubts]
    assert found == [("in_part", 2, 0, "2 of 3 shown in part"), ("loose", 1, 2, ".")]
    line = "2 of 3 shown in part (2 samples; the first is row 1)"
    assert line in " ".join(Report(captured).table().split())
    Report(captured).to_html(tmp_path / "page.html")
    assert "2 of 3 shown in part" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("scores", [[0.4], [0.2, 0.9], [0.1, 0.2, 0.6, 1.0, 1.0]])
def test_quartiles_are_those_of_the_standard_library(scores):
    numbers = summarise(rows(*map(result_of, scores)), ["m"])["m"]
    twice = scores * 2 if len(scores) == 1 else scores  # the library asks for two
    assert numbers.quartiles == pytest.approx(
        tuple(statistics.quantiles(twice, method="inclusive"))
    )


@pytest.mark.parametrize(
    ("scores", "risk"),
    [
        ([0.9, 1.0, 0.8, 1.0], ""),
        # one row in two is low, and the mean is not
        ([0.2, 0.3, 1.0, 1.0], ""),
        ([0.1, 0.3, 0.2, 1.0], "mean 0.40 and median 0.25 are low"),
        # a half is no yes
        ([0.5, 0.5], "mean 0.50 and median 0.50 are low"),
        # the fence is 0.9 - 1.5 * 0.1
        (
            [0.1, *[0.9] * 5, *[1.0] * 4],
            "a long lower tail: 1 of 10 rows, down to 0.10",
        ),
        # below the fence, and still good
        ([0.6, *[1.0] * 9], ""),
    ],
)
def test_signs_of_high_risk(scores, risk):
    results = rows(*map(result_of, scores))
    summary = summarise(results, ["m"])
    assert summary["m"].risk == risk
    assert summary.risks == ((f"m: {risk}.",) if risk else ())
    table = " ".join(Report(results, RunFacts(metrics={"m": ""})).table().split())
    assert (f"Sign of risk: m: {risk}." in table) is bool(risk)


def test_words_show_no_risk():
    """The scores of the embedded judge compare with each other, not with one half."""
    results = rows(result_of(0.1), result_of(0.2))
    facts = RunFacts(metrics={"m": ""}, judges=("lexical",))
    assert Report(results, facts).summary().risks == ()


def test_without_a_score_there_are_no_quartiles_and_no_risk():
    nothing = summarise(rows(result_of("failed")), ["m"])["m"]
    assert (nothing.quartiles, nothing.risk) == (None, "")
