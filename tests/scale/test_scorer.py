"""Scoring tables: one pure function, and reports over what it wrote."""

import asyncio
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import isclose
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ragmetrics_core import (
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
    metric,
)
from ragmetrics_core.data import (
    Evidence,
    InputError,
    JudgedChunk,
    JudgedChunks,
    Scored,
    SettingError,
    Usage,
)
from ragmetrics_core.reporting.gates import decide
from ragmetrics_core.scale import on_ray, on_spark
from ragmetrics_core.scale.scorer import Scorer

ALL = ["utilization", "adherence", "recall", "accuracy"]
ROWS: list[dict[str, Any]] = [
    {
        "n": 0,
        "question": "Capital of France?",
        "contexts": ["Paris is the capital.", "Rome."],
        "answer": "Paris.",
        "ground_truth": "Paris is the capital of France.",
        "conversation_id": "a",
    },
    {
        "n": 1,
        "question": "Capital of Italy?",
        "contexts": ["Berlin."],
        "answer": "Rome is it.",
        "conversation_id": "a",
    },
    {
        "n": 2,
        "question": "Nothing found?",
        "contexts": [],
        "answer": "I think so.",
        "ground_truth": "Yes, it was.",
    },
    {"n": 3, "question": None, "contexts": None, "answer": None, "ground_truth": None},
    {
        "n": 4,
        "question": "Bad?",
        "contexts": ["x"],
        "answer": "x",
        "facts": [{"text": "a fact", "weight": -1.0}],
    },
    {
        "n": 5,
        "question": "Broken?",
        "contexts": ["x"],
        "answer": "x",
        "error": "timeout",
    },
]


class Own(Evidence):
    kind: str = "own of test_scorer"
    notes: dict[str, list[float]]


class OwnChunks(JudgedChunks):
    kind: str = "own chunks of test_scorer"


@metric(requires=["answer"])
def noted(sample: Sample) -> Scored:
    return Scored(
        metric="",
        value=0.5,
        reason="uncertain: half",
        evidence=Own(notes={"a": [0.1, 1e-9]}),
    )


@metric(requires=["contexts"])
def counted(sample: Sample) -> Scored:
    chunks = tuple(
        JudgedChunk(rank=n + 1, useful=n == 1)
        for n in range(len(sample.known_contexts))
    )
    return Scored(metric="", value=0.25, reason="", evidence=OwnChunks(chunks=chunks))


@metric
def broken(sample: Sample) -> float:
    raise ZeroDivisionError


def table() -> pa.Table:
    names = sorted({name for row in ROWS for name in row})
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in names} for row in ROWS]
    )


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Report]:
    """What a scorer makes of a table, written in two files and read as a report."""

    def made(scorer: Scorer, given: pa.Table, **columns: Any) -> Report:
        scored = scorer(given)
        for number, part in enumerate((scored.slice(0, 4), scored.slice(4))):
            parquet.write_table(part, tmp_path / f"part-{number}.parquet")
        return Report.from_parquet(tmp_path, **columns)

    return made


def test_columns_pass_through_and_the_schema_is_that_of_no_rows_at_all():
    given = table()
    scorer = Scorer(ALL)
    scored = scorer(given)
    assert scored.select(given.column_names).equals(given)
    assert (
        scorer(given.slice(0, 0)).schema
        == scored.schema
        == scorer(given.to_batches()[0]).schema
    )
    assert scored.column_names[-5:] == ["sample", *(row.name for row in scorer.metrics)]
    assert [row["problem"] is not None for row in scored["sample"].to_pylist()] == [
        False
    ] * 4 + [True, False]


def test_it_gives_what_evaluate_gives(stored):
    own = [*ALL, noted, counted, broken]
    report, alone = stored(Scorer(own), table()), evaluate(table(), own)
    for row, other in zip(report.results, alone.results, strict=True):
        assert (row.index, row.sample, row.problem) == (
            other.index,
            other.sample,
            other.problem,
        )
        assert row.results == other.results
    assert report.summary() == alone.summary()
    assert report.summary(cluster="n") == alone.summary(cluster="n")
    assert report.usage == alone.usage
    assert report.scores("context_recall") == alone.scores("context_recall")
    for row, other in zip(
        report.worst(3, "adherence"), alone.worst(3, "context_adherence"), strict=True
    ):
        assert (row.index, row.sample) == (other.index, other.sample)
    assert report.table() == alone.table()
    assert type(report.results[0].results["noted"].evidence) is Own


def test_a_summary_of_captured_samples_reads_their_ledgers(stored):
    call = {
        "kind": "retrieval",
        "turn": 1,
        "items": [{"text": "Paris is the capital."}],
        "shown": [0],
    }
    ledger = {"conversation": "c", "turn": 2, "calls": [call]}
    rows = [
        {
            "question": "Where?",
            "contexts": ["Paris is it."],
            "answer": "In Paris.",
            "ledger": ledger,
        }
    ]
    report, alone = (
        stored(Scorer(ALL), pa.Table.from_pylist(rows)),
        evaluate(rows, ALL),
    )
    assert report.summary() == alone.summary()


def test_replies_of_a_model_come_through(loopback_server, stored):
    # prices whose sums are exact in any order
    prices = (2**-20, 2**-20)
    judge = LLMJudge(
        OpenAICompatibleModel(loopback_server().base_url, "m", prices=prices)
    )
    report, alone = (
        stored(Scorer(ALL, judge), table()),
        evaluate(table(), ALL, judge=judge),
    )
    assert [row.results for row in report.results] == [
        row.results for row in alone.results
    ]
    assert report.summary().metrics == alone.summary().metrics
    spent, total = report.summary().usage, alone.usage
    assert spent.calls == total.calls > 0
    assert isclose(spent.cost or 0.0, total.cost or 0.0)
    assert report.run.judges == alone.run.judges


def test_a_scorer_pickles_in_use_and_columns_are_named(stored):
    scorer = Scorer(
        "utilization",
        "lexical",
        question_column="asked",
        ground_truth_column="gold.text",
    )
    given = pa.table(
        {
            "asked": ["Where?"],
            "gold": [{"text": "There."}],
            "contexts": [["There."]],
            "answer": ["There."],
        }
    )
    first = scorer(given)
    again: Scorer = pickle.loads(pickle.dumps(scorer))
    assert again(given).equals(first)
    report = stored(
        again, given, question_column="asked", ground_truth_column="gold.text"
    )
    alone = evaluate(
        given, "utilization", question_column="asked", ground_truth_column="gold.text"
    )
    assert report.results[0].sample == alone.results[0].sample


def test_threads_of_an_engine_take_turns():
    scorer, given = Scorer("utilization"), table()
    with ThreadPoolExecutor(4) as pool:
        scored = list(pool.map(scorer, [given] * 8))
    assert all(one.equals(scored[0]) for one in scored)


@pytest.mark.nightly
def test_a_task_that_its_engine_ends_gives_no_table_of_rows_that_nobody_judged():
    code = """
import os, signal, threading
import pyarrow
from ragmetrics_core import LLMJudge, OpenAICompatibleModel
from ragmetrics_core.scale import Scorer
from loopback import LoopbackServer
with LoopbackServer(latency=60) as server:
    scorer = Scorer("adherence", LLMJudge(OpenAICompatibleModel(server.base_url, "m")))
    def end():
        while not server.requests:
            pass
        os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else it is ignored below a shell in the background
    threading.Thread(target=end).start()
    try:
        scorer(pyarrow.table({"question": ["q?"], "contexts": [["x"]], "answer": ["x"]}))
    except KeyboardInterrupt:
        print("ended", flush=True)
    os._exit(0)
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=100
        ).stdout
        == "ended\n"
    )


def test_a_row_that_python_cannot_hold_is_a_bad_row():
    broken_text = pa.array([b"Where?", b"\xff\xfe"]).view(pa.binary()).cast(pa.binary())
    texts = pa.StringArray.from_buffers(
        2, broken_text.buffers()[1], broken_text.buffers()[2]
    )
    scored = Scorer("utilization")(
        pa.table({"question": texts, "contexts": [["x"]] * 2, "answer": ["x"] * 2})
    )
    problems = [row["problem"] for row in scored["sample"].to_pylist()]
    assert problems[0] is None
    assert "UnicodeDecodeError" in problems[1]


def test_a_row_with_several_answers_is_told_apart():
    scored = Scorer("utilization")(
        pa.table({"question": ["q?"], "contexts": [["x"]], "replies": [["a", "b"]]})
    )
    assert "2 answers" in scored["sample"][0]["problem"].as_py()


def test_names_that_are_taken_are_refused():
    with pytest.raises(SettingError, match="retrieval_accuracy, sample"):
        Scorer([RetrievalAccuracy()])(
            pa.table({"answer": ["x"], "sample": [1], "retrieval_accuracy": [1.0]})
        )


def test_rows_behind_a_limit_are_not_judged_and_the_job_goes_on(
    loopback_server, stored
):
    server = loopback_server()
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
    rows = [{"question": f"{n}?", "contexts": ["x"], "answer": "y"} for n in range(9)]
    scorer = Scorer("utilization", judge, limits=Limits(max_calls=3), concurrency=1)
    scorer(pa.Table.from_pylist(rows))
    report = stored(scorer, pa.Table.from_pylist(rows))
    assert len(server.requests) == 3
    assert (report.summary().rows, report.summary().not_judged) == (9, 9)


@pytest.mark.parametrize("written", [None, b"no Parquet", {"answer": ["x"]}])
def test_what_holds_no_results_is_refused(written, tmp_path):
    path = tmp_path / "a.parquet"
    if isinstance(written, bytes):
        path.write_bytes(written)
    elif written:
        parquet.write_table(pa.table(written), path)
    with pytest.raises(
        InputError,
        match=(
            r"a\.parquet .* keep reports by to_jsonl and read them by"
            r" Report\.from_jsonl"
        ),
    ):
        Report.from_parquet(path)


GIVEN = pa.table(
    {"question": ["Who?"] * 4, "contexts": [["Ada did."]] * 4, "answer": ["Ada."] * 4}
)


@pytest.mark.parametrize("left", ["_temporary", ".spark-staging-81f3"])
def test_a_folder_that_a_job_left_unfinished_decides_no_gate(left, stored, tmp_path):
    for ending in ("_SUCCESS", ".part-0.parquet.crc"):  # of a job that ended well
        (tmp_path / ending).touch()
    for folder in (".git", "_delta_log", "_spark_metadata", "_temporary"):
        (tmp_path / folder).mkdir()  # they hold no rows
    whole = stored(Scorer("adherence"), GIVEN)
    assert decide("adherence=0.5", whole).outcome == "passed"
    (tmp_path / left / "0").mkdir(parents=True)
    part = Report.from_parquet(tmp_path)
    decision = decide("adherence=0.5", part)
    assert decision.outcome == "undecided"
    assert f"the folder {tmp_path / left}" in decision.sentence


def test_a_part_that_stands_twice_decides_no_gate(stored, tmp_path):
    table = GIVEN.set_column(2, "answer", [["Ada."] * 3 + ["Bob."]])
    report = stored(Scorer("adherence"), pa.concat_tables([table, table.slice(0, 2)]))
    nothing = parquet.read_table(tmp_path / "part-0.parquet").slice(0, 0)
    for name in "ab":  # parts without a row, as Spark writes them
        parquet.write_table(nothing, tmp_path / f"{name}.parquet")
    gate = "adherence=0.1"
    assert decide(gate, Report.from_parquet(tmp_path)).outcome == "passed"
    (tmp_path / "copy.parquet").write_bytes((tmp_path / "part-0.parquet").read_bytes())
    report = Report.from_parquet(tmp_path)
    decision = decide(gate, report)
    assert decision.outcome == "undecided"
    assert "1 file too many may be there" in decision.sentence
    assert "part-0.parquet looks like" in decision.sentence
    assert "1 file too many" in str(report)


def test_files_may_hold_other_metrics_and_columns_without_a_value(tmp_path):
    rows = [{"question": "Who?", "contexts": ["Ada did."], "answer": "Ada did."}] * 2
    first = pa.Table.from_pylist([{**row, "reference": None} for row in rows])
    second = pa.Table.from_pylist([{**row, "reference": "Ada."} for row in rows])
    for order in (("a", "b"), ("b", "a")):
        parquet.write_table(
            Scorer("adherence")(first), tmp_path / f"{order[0]}.parquet"
        )
        parquet.write_table(
            Scorer(["adherence", "utilization"])(second),
            tmp_path / f"{order[1]}.parquet",
        )
        report = Report.from_parquet(tmp_path)
        found = report.summary()
        assert (
            found["context_adherence"].count,
            found["context_utilization"].count,
        ) == (4, 2)
        assert found["context_utilization"].not_judged == 2
        assert {row.sample.reference for row in report.worst(4, "adherence")} == {
            (),
            ("Ada.",),
        }


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (b"PAR1 and no more", r"b\.parquet"),
        (b"", r"b\.parquet"),
        (pa.table({"x": [1]}), r"b\.parquet holds no results"),
        (
            Scorer("adherence")(
                pa.table({"question": [3], "contexts": [["x"]], "answer": ["x"]})
            ),
            "question",
        ),
        (
            Scorer("adherence")(pa.table({"answer": ["x"]})).drop_columns(["sample"]),
            "sample",
        ),
    ],
)
def test_a_folder_with_another_file_is_refused_by_its_name(other, said, tmp_path):
    given = pa.table(
        {"question": ["Who?"], "contexts": [["Ada did."]], "answer": ["Ada."]}
    )
    if "sample" not in said:
        parquet.write_table(Scorer("adherence")(given), tmp_path / "a.parquet")
    if isinstance(other, bytes):
        (tmp_path / "b.parquet").write_bytes(other)
    else:
        parquet.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=said):
        Report.from_parquet(tmp_path)


def test_two_columns_of_one_name_are_refused():
    twice = pa.Table.from_arrays(
        [pa.array(["x"])] * 3, names=["question", "answer", "answer"]
    )
    with pytest.raises(SettingError, match="answer twice"):
        Scorer("adherence")(twice)


def test_rows_of_several_judges_are_told(stored):
    first = Scorer("utilization")(table())
    second = Scorer("utilization", ScriptedJudge([], name="another"))(table())
    report = stored(lambda given: given, pa.concat_tables([first, second]))  # type: ignore[arg-type]
    assert "measured in 2 ways" in report.summary().signs[0]
    assert decide("utilization=0.1", report).outcome == "undecided"


def test_rows_of_several_models_under_one_name_are_told(stored, loopback_server):
    parts = []
    for model in ("weights-1", "weights-2"):
        server = loopback_server(from_openai=lambda body, n=model: {**body, "model": n})
        endpoint = OpenAICompatibleModel(server.base_url, "local")
        parts.append(Scorer("adherence", endpoint)(table()))
    report = stored(lambda given: given, pa.concat_tables(parts))  # type: ignore[arg-type]
    decision = decide("adherence=0.1", report)
    assert decision.outcome == "undecided"
    assert "by model:weights-1, " in decision.sentence
    assert "The endpoint called its model weights-1, weights-2." in str(report)
    signs = report.with_signature("model:weights-2").summary().signs
    assert "measured in" not in " ".join(signs)


@pytest.mark.nightly
def test_a_page_of_many_rows_shows_some_and_says_so(stored, tmp_path):
    rows = [
        {"id": f"row {n}", "question": f"{n}?", "contexts": ["x"], "answer": "x"}
        for n in range(1200)
    ]
    report = stored(Scorer("utilization"), pa.Table.from_pylist(rows))
    assert (
        repr(report)
        == "Report(1,200 rows of a Parquet file or folder: context_utilization)"
    )
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "The page shows 1,000 of 1,200 rows" in page
    assert len(set(re.findall(r'"row \d+"', page))) == 1000


def test_limits_of_a_job_hold_for_all_who_ask_and_a_call_that_nobody_ends_is_taken_for_paid(
    monkeypatch,
):
    monkeypatch.setattr(on_ray, "_LOST_AFTER", 0.05)

    async def run() -> list[int | str]:
        keeper = on_ray.JobLimits(Limits(max_cost=3.0))
        first = await keeper.acquire()
        await keeper.observe(first, Usage(cost=1.0))  # type: ignore[arg-type]
        lost = await keeper.acquire()  # its worker dies
        third = await keeper.acquire()
        await keeper.observe(third, None)  # type: ignore[arg-type]
        await asyncio.sleep(0.2)
        fourth = await keeper.acquire()
        await keeper.observe(fourth, Usage(cost=1.0))  # type: ignore[arg-type]
        return [first, lost, third, fourth, await keeper.acquire()]

    told = asyncio.run(run())
    assert told[:4] == [1, 2, 3, 4]
    assert "max_cost=3" in str(told[4])


def test_a_share_of_limits_is_never_more_than_the_whole():
    whole = Limits(max_calls=10, max_cost=1.0, requests_per_minute=60, deadline=9)
    assert on_spark.share_of_limits(whole, 4) == Limits(
        max_calls=2, max_cost=0.25, requests_per_minute=15, deadline=9
    )
    with pytest.raises(SettingError, match="11 partitions"):
        on_spark.share_of_limits(whole, 11)


def test_a_metric_named_as_the_column_of_samples_is_refused():
    named = noted.model_copy(update={"name": "sample"})
    with pytest.raises(SettingError, match=r"named 'sample'.*another name="):
        Scorer(named)
    assert (
        Scorer(noted.model_copy(update={"name": "sampled"})).metrics[0].name
        == "sampled"
    )
