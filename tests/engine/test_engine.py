"""The engine: order, completeness, failure, interruption, and the same results in every form."""

import asyncio
import os
import random
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from interrupts import interruptible
from judge_replies import covered, poll, polls, useful
from lanes import crossed

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    LexicalJudge,
    Limits,
    Metric,
    Question,
    Sample,
    ScriptedJudge,
    aevaluate,
    ask,
    evaluate,
    iter_results,
    metric,
)
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    JudgeUnavailable,
    LimitReached,
    SettingError,
)
from ragmetrics_core.data.replies import Answer, Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.run import AHEAD, Run, stream
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.gates import Gate, decide

ROWS = [
    {
        "question": f"Who wrote book {n}?",
        "contexts": [f"Author {n} wrote book {n}.", "Rain fell."],
        "answer": f"Author {n}.",
    }
    for n in range(150)
]


class SlowJudge(Judge):
    """Answers yes after a random pause, and notes how many questions were in flight."""

    name = "slow"

    def __init__(self, seed=0, longest=0.001):
        self._longest = longest
        self.flying = self.most = self.count = 0
        self._random = random.Random(seed)

    async def answer(self, question: Question):
        self.flying += 1
        self.count += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(self._random.random() * self._longest)
        self.flying -= 1
        reply = (
            polls((poll("yes", question["answer"]),))
            if isinstance(question, Adherent)
            else useful(True)
        )
        return Answer(reply, Usage(calls=1))


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 66, 129])
def test_every_length_is_complete(count):
    samples = (Sample(answer=str(n), contexts=["c"]) for n in range(count))
    results = list(iter_results(samples, "adherence", judge=SlowJudge(), concurrency=4))
    assert [result.sample.answer for result in results] == [
        str(n) for n in range(count)
    ]


def test_streaming_reads_only_a_bounded_number_ahead(monkeypatch):
    monkeypatch.setattr("ragmetrics_core.engine.run.AHEAD", 16)
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield Sample(contexts=["c"], answer="a")

    class FirstLast(SlowJudge):
        """Answers the first question last of those that are asked meanwhile."""

        async def answer(self, question: Question):
            if self.count == 0:
                self.count = 1
                await asyncio.sleep(0.2)
            return await super().answer(question)

    stream = iter_results(endless(), "adherence", judge=FirstLast(), concurrency=4)
    for _ in range(200):
        next(stream)
    stream.close()
    assert taken <= 200 + 16 + 2 * 4


def test_the_first_result_of_a_slow_source_comes_after_few_rows():
    n_read = 0
    n_judged = threading.Semaphore(1)

    @metric(requires=["answer"])
    def counted(sample: Sample) -> bool:
        n_judged.release()
        return True

    def slow() -> Iterator[Sample]:
        """Rows of which each comes once the one before it is judged."""
        nonlocal n_read
        for sample in numbered(60):
            assert n_judged.acquire(timeout=20)
            n_read += 1
            yield sample

    next(iter_results(slow(), counted, judge=ScriptedJudge({})))
    assert n_read < 30


def test_a_run_that_was_left_begins_anew():
    run = Run("adherence", LexicalJudge(), 4, None)
    left = stream(run, ROWS[:30], progress=False, columns={})
    next(left)
    left.close()
    results = list(stream(run, ROWS[30:60], progress=False, columns={}))
    answers = [result.sample.answer for result in results if result.sample]
    assert answers == [row["answer"] for row in ROWS[30:60]]


def waits_for_the_last(rows: int, *, first: int) -> Metric:
    """A metric whose row ``first`` ends when the last of so many is looked at; 1 if that ever came."""
    last_was_seen = threading.Event()

    @metric(requires=["answer"])
    def waiting(sample: Sample) -> bool:
        number = int(sample.answer or "")
        if number == rows - 1:
            last_was_seen.set()
        return last_was_seen.wait(30) if number == first else True

    return waiting


def numbered(count: int) -> Iterator[Sample]:
    return (Sample(answer=str(number)) for number in range(count))


@pytest.mark.parametrize(
    ("how", "concurrency"),
    crossed(["evaluate", "aevaluate", "iter_results"], [1, 3]),
)
def test_at_most_two_rows_per_slot_are_judged_at_a_time(concurrency, how):
    window = 2 * concurrency
    lock, window_is_full = threading.Lock(), threading.Event()
    one_too_many = threading.Event()
    first_ends = threading.Event()
    begun: list[str | None] = []

    @metric(requires=["answer"])
    def held(sample: Sample) -> bool:
        """Whether the window is filled, and no more starts while the first row of it goes on."""
        with lock:
            begun.append(sample.answer)
            n_begun = len(begun)
        if n_begun == window:
            window_is_full.set()
        if n_begun > window and not first_ends.is_set():
            one_too_many.set()
        if not window_is_full.wait(20):
            return False
        if n_begun > 1:
            return first_ends.wait(20)
        is_one_too_many = one_too_many.wait(0.1)
        first_ends.set()
        return not is_one_too_many

    options: dict[str, Any] = {
        "judge": ScriptedJudge({}),
        "concurrency": concurrency,
        "progress": False,
    }
    if how == "aevaluate":
        results: Any = asyncio.run(aevaluate(numbered(20), held, **options)).results
    elif how == "evaluate":
        results = evaluate(numbered(20), held, **options).results
    else:
        results = list(iter_results(numbered(20), held, **options))
    assert [row.results["held"].value for row in results] == [1.0] * 20
    assert sorted(map(str, begun)) == sorted(map(str, range(20)))


def test_an_async_run_that_is_left_leaves_no_row_and_no_message(caplog):
    """Whoever waits may be cancelled: what the rows tell them by is not."""
    released, begun = threading.Event(), threading.Semaphore(0)

    @metric(requires=["answer"])
    def waiting(sample: Sample) -> bool:
        begun.release()
        return released.wait(20)

    async def leave() -> None:
        task = asyncio.create_task(
            aevaluate(
                numbered(10), waiting, judge=ScriptedJudge({}), concurrency=1
            )  # two rows start, and neither ends
        )
        await asyncio.to_thread(begun.acquire)
        await asyncio.to_thread(begun.acquire)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    released.set()
    assert [record.getMessage() for record in caplog.records] == []
    assert not begun.acquire(timeout=0.05), "no further row starts"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("how", "first"),
    crossed(["evaluate", "aevaluate", "iter_results", "iterator"], [0, 7, 60]),
)
def test_one_row_that_does_not_end_keeps_no_other_from_being_judged(how, first):
    rows = 200
    waiting = waits_for_the_last(rows, first=first)
    settings = {"judge": ScriptedJudge({}), "concurrency": 2, "progress": False}
    if how == "aevaluate":
        results = asyncio.run(
            aevaluate(list(numbered(rows)), waiting, **settings)
        ).results
    elif how == "iter_results":
        results = list(iter_results(list(numbered(rows)), waiting, **settings))
    else:
        samples = numbered(rows) if how == "iterator" else list(numbered(rows))
        results = evaluate(samples, waiting, **settings).results
    assert [result.index for result in results] == list(range(rows))
    assert {result.results["waiting"].value for result in results} == {1.0}


@pytest.mark.nightly
def test_behind_a_row_that_does_not_end_a_bounded_number_is_read():
    read = 0

    def counted():
        nonlocal read
        for sample in numbered(10**6):
            read += 1
            yield sample

    # the last that may start before it is done
    waiting = waits_for_the_last(AHEAD, first=0)
    stream = iter_results(counted(), waiting, judge=ScriptedJudge({}), concurrency=2)
    assert next(stream).results["waiting"].value == 1.0
    stream.close()
    assert AHEAD <= read <= AHEAD + 1


def test_one_slow_question_of_many_keeps_no_other_sample_out():
    class Holding(Judge):
        name = "holding"

        def __init__(self):
            self.released = asyncio.Event()

        async def answer(self, question: Question):
            if question["fact"] == "last":
                self.released.set()
            elif question["fact"] == "0":
                await asyncio.wait_for(self.released.wait(), 20)
            return Answer(covered(1.0), Usage(calls=1))

        def session(self, **settings):
            return self

    rows = [
        {"facts": [str(n) for n in range(60)], "contexts": ["c"]},
        {"facts": ["last"], "contexts": ["c"]},
    ]
    report = evaluate(rows, "accuracy", judge=Holding(), concurrency=1)
    assert [row.results["retrieval_accuracy"].status for row in report.results] == [
        "scored",
        "scored",
    ]


def test_answers_beside_one_that_raised_are_counted():
    class Refusing(Judge):
        name = "refusing"

        async def answer(self, question: Question):
            await asyncio.sleep(0)
            if question["fact"] == "7":
                raise AuthenticationFailed("blocked")
            return Answer(covered(1.0), Usage(calls=1, cost=0.5))

    rows = [
        {"facts": ["a"], "contexts": ["c"]},
        {"facts": [str(n) for n in range(20)], "contexts": ["c"]},
    ]
    report = evaluate(rows, "accuracy", judge=Refusing())
    assert [row.results["retrieval_accuracy"].status for row in report.results] == [
        "scored",
        "failed",
    ]
    assert (report.usage.calls, report.usage.cost) == (20, 10.0)


def test_bad_rows_are_reported_and_the_rest_goes_on():
    report = evaluate(
        [ROWS[0], 7, {"contexts": [3], "answer": "a"}, ROWS[1]],
        "adherence",
        judge="lexical",
    )
    assert [bool(result.problem) for result in report.results] == [
        False,
        True,
        True,
        False,
    ]
    summary = report.summary()
    assert (summary.rows, summary.judged, summary.bad_rows) == (4, 2, 2)


class Unavailable(SlowJudge):
    """Refuses every key, behind the first questions."""

    name = "unavailable"
    after = 0

    async def answer(self, question: Question):
        if self.count >= self.after:
            raise AuthenticationFailed("the key was refused; set EXAMPLE_KEY")
        return await super().answer(question)


class Revoked(Unavailable):
    after = 20


def test_a_wrong_key_ends_the_run_with_one_sentence():
    with pytest.raises(JudgeUnavailable, match="set EXAMPLE_KEY"):
        evaluate(ROWS, "adherence", judge=Unavailable())
    with pytest.raises(JudgeUnavailable):
        asyncio.run(aevaluate(ROWS, "adherence", judge=Unavailable()))
    with pytest.raises(JudgeUnavailable):
        ContextAdherence().score(contexts=["c"], answer="a", judge=Unavailable())


def test_a_judge_that_refuses_its_key_after_others_were_paid_leaves_what_was_paid():
    paid = ScriptedJudge({Adherent: polls((poll("yes", "fine"),))})
    utilization = ContextUtilization(name="refused")

    class Either(Judge):
        """Two endpoints behind one name, of which one has a wrong key."""

        name = "either"

        async def answer(self, question: Question):
            if isinstance(question, Useful):
                raise AuthenticationFailed("the key was refused; set EXAMPLE_KEY")
            return await paid.answer(question)

    report = evaluate(ROWS, ["adherence", utilization], judge=Either(), concurrency=1)
    assert report.run.stopped.startswith("the key was refused; set EXAMPLE_KEY")
    assert report.results[0].results["context_adherence"].status == "scored"
    assert report.results[0].results["refused"].error.type == "AuthenticationFailed"
    assert report.usage.calls == len(paid.asked) > 0


def test_two_judges_of_which_one_refuses_its_key_leave_what_the_other_was_paid(
    monkeypatch,
):
    class Paid(SlowJudge):
        name = "paid"

    monkeypatch.setattr(sys.modules[__name__], "PAID", Paid(), raising=False)
    monkeypatch.setattr(sys.modules[__name__], "REFUSING", Unavailable(), raising=False)
    metrics = [
        ContextAdherence(name=name, model=f"{__name__}:{name.upper()}")
        for name in ("paid", "refusing")
    ]
    report = evaluate(ROWS, metrics, concurrency=1)
    assert "EXAMPLE_KEY" in report.run.stopped
    assert 0 < len(report.results) < len(ROWS), (
        "no further row starts once a judge has only ever refused"
    )
    assert {row.results["paid"].status for row in report.results} == {"scored"}
    assert {row.results["refusing"].error.type for row in report.results} == {
        "AuthenticationFailed"
    }
    assert report.usage.calls == len(report.results)


class Crashing(Metric):
    name: str = "crashing"

    def plan(self, sample):
        yield from ask([])
        raise ZeroDivisionError(sample.answer)


class Wrong(Metric):
    name: str = "wrong"

    def plan(self, sample):
        yield from ask([])
        return 0.5


def test_a_crashing_metric_fails_alone_and_leaks_no_text(caplog):
    samples = [Sample(answer="SECRET", contexts=["c"])]
    report = evaluate(samples, [Crashing(), Wrong(), "adherence"], judge="lexical")
    results = report.results[0].results
    assert [
        results[name].status for name in ("crashing", "wrong", "context_adherence")
    ] == ["failed", "failed", "scored"]
    assert results["crashing"].error.type == "MetricCrashed"
    assert "ZeroDivisionError" in results["crashing"].reason
    assert "SECRET" in results["crashing"].error.raw
    assert "SECRET" not in results["crashing"].reason + caplog.text + repr(
        results["crashing"]
    )


def test_a_metric_that_no_row_could_be_scored_for_stays_and_says_why():
    report = evaluate(ROWS[:2], judge="lexical")
    assert "context_recall" in report.metrics
    assert "context_recall       not scored" in str(report)
    assert report.results[0].results["context_recall"].status == "undefined"


def test_each_metric_may_have_its_own_judge(monkeypatch):
    monkeypatch.setenv("RAGMETRICS_JUDGE", "lexical")
    metrics = [
        ContextAdherence(name="a"),
        ContextUtilization(name="u", model="lexical"),
    ]
    report = evaluate(ROWS[:1], metrics)
    assert report.run.judges == ("lexical",)
    assert all(
        outcome.signature.judge == "lexical"
        for outcome in report.results[0].results.values()
    )


class OfHaystack:
    """A generator of Haystack is known by its module."""


OfHaystack.__module__ = "haystack.components.generators"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(ROWS, ["adherence", "adherence"]), "context_adherence"),
        (lambda: evaluate(ROWS, ["truth"]), "truth"),
        (lambda: evaluate(ROWS, [3]), "int"),
        (lambda: evaluate(ROWS[0]), "several"),
        (lambda: evaluate("text"), "several"),
        (lambda: evaluate(ROWS, concurrency=0), "at least 1"),
        (lambda: evaluate(ROWS, answers="x"), "answers"),
        (lambda: evaluate(ROWS, colour_column="x"), "colour"),
        (lambda: evaluate(ROWS, judge=3), "a int; give .*'openai/gpt-4o-mini'"),
        (lambda: evaluate(ROWS, judge=Judge), "give an object of Judge"),
        (lambda: evaluate(ROWS, judge=" "), "name is blank"),
        (lambda: evaluate(ROWS, judge="openai/https://x"), "holds no address"),
        (
            lambda: evaluate(ROWS, judge=OfHaystack()),
            "a OfHaystack of haystack; give HaystackModel",
        ),
        (lambda: ContextAdherence().score(Sample(), answer="x"), "not both"),
        (lambda: ContextAdherence().score(anwser="x", contexts=["c"]), "anwser"),
        (lambda: ContextAdherence().score(answer="x", history=3), "history= takes a"),
    ],
)
def test_wrong_settings_say_what_is_wrong(call, message):
    with pytest.raises(SettingError, match=message):
        call()


def test_results_name_judge_signature_sample_and_usage():
    result = ContextAdherence().score(
        Sample(id="s1", contexts=["c"], answer="a"), judge=SlowJudge()
    )
    assert (result.judge, result.sample_id, result.usage.calls) == ("slow", "s1", 1)
    version = ContextAdherence().version
    begin = f"context_adherence|v{version}|polls:5|T:1.0|prompt:"
    assert str(result.signature).startswith(begin)
    assert str(result.signature).endswith("|judge:slow")


def test_score_inside_a_running_loop_and_from_threads():
    async def inside():
        return ContextAdherence().score(
            contexts=["c"], answer="c", judge=LexicalJudge()
        )

    assert asyncio.run(inside()).status == "scored"
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                ContextAdherence().score(contexts=["c"], answer="c", judge="lexical")
            )
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({outcome.value for outcome in found}) == 1
    assert len(found) == 8


class Nested(Judge):
    """A judge that calls the sync API on the judges' own loop, where it would wait for itself."""

    name = "nested"

    async def answer(self, question):
        ContextUtilization().score(
            question="q", contexts=["c"], answer="a", judge="lexical"
        )
        raise AssertionError("never reached")


def test_the_sync_api_on_the_judges_loop_is_an_error_not_a_deadlock():
    result = ContextAdherence().score(contexts=["c"], answer="a", judge=Nested())
    assert result.status == "failed"
    assert "cannot call score or evaluate: in a judge await" in result.reason


def test_a_forked_child_makes_its_own_loop():
    ContextAdherence().score(contexts=["c"], answer="c", judge="lexical")
    reader, writer = os.pipe()
    child = os.fork() if threading.active_count() else 0
    if child == 0:
        value = (
            ContextAdherence().score(contexts=["c"], answer="c", judge="lexical").value
        )
        os.write(writer, str(value).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert (
        float(text)
        == ContextAdherence().score(contexts=["c"], answer="c", judge="lexical").value
    )


class Interrupting(SlowJudge):
    async def answer(self, question: Question):
        if self.count == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return await super().answer(question)


@pytest.mark.parametrize("in_coroutine", [False, True])
def test_an_interrupt_ends_with_what_is_done(in_coroutine):
    reports = []

    def run() -> None:
        judge = Interrupting()
        reports.append(evaluate(ROWS, "adherence", judge=judge, concurrency=2))

    async def main() -> None:
        run()

    with interruptible():
        if in_coroutine:  # whose task is cancelled in place of an exception
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(main())
        else:
            run()
    (report,) = reports
    assert report.run.interrupted
    assert 0 < len(report.results) < len(ROWS)
    left = re.fullmatch(
        rf"it was interrupted; (\d+) of {len(ROWS)} rows were not begun",
        report.run.stopped,
    )
    assert left
    assert 0 < int(left[1]) == len(ROWS) - len(report.results)
    assert report.run.stopped in " ".join(str(report).split())
    outcomes = [outcome for row in report.results for outcome in row.results.values()]
    assert {outcome.status for outcome in outcomes} == {"scored"}
    # what was given up is told if it was paid
    assert all(row.results or row.usage.calls for row in report.results)


def test_an_interrupted_score_gives_up_its_question():
    given_up = threading.Event()

    class Waiting(Judge):
        name = "waiting"

        async def answer(self, question: Question):
            loop = asyncio.get_running_loop()
            loop.call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

    with interruptible(), pytest.raises(KeyboardInterrupt):
        ContextAdherence().score(contexts=["c"], answer="a", judge=Waiting())
    assert given_up.wait(10)


@pytest.mark.parametrize(
    ("judge", "limits", "error", "words"),
    [
        (
            SlowJudge,
            Limits(max_calls=20),
            LimitReached,
            ("max_calls=20 was reached", "Run again"),
        ),
        (
            SlowJudge,
            Limits(deadline=0.001),
            LimitReached,
            ("the deadline of 0.001 s", "Run again"),
        ),
        (Interrupting, None, KeyboardInterrupt, ()),
        (Revoked, None, JudgeUnavailable, ("set EXAMPLE_KEY", "Run again")),
    ],
)
def test_a_stream_that_ends_early_says_so_after_whole_rows(judge, limits, error, words):
    metrics = ["adherence", "utilization"]
    results = iter_results(ROWS, metrics, judge=judge(), limits=limits)
    rows: list[SampleResult] = []
    with interruptible(), pytest.raises(error) as raised:
        rows.extend(results)  # keeps those before the error
    assert raised.type is error
    assert len(rows) < len(ROWS)
    assert all(len(row.results) == 2 for row in rows)
    outcomes = [outcome for row in rows for outcome in row.results.values()]
    assert all(outcome.status == "scored" for outcome in outcomes)
    assert all(word in str(raised.value) for word in words)
    if words:
        assert f"after {len(rows)} rows" in str(raised.value)


@pytest.mark.parametrize("how", ["evaluate", "aevaluate", "iter_results"])
def test_an_iterator_is_read_no_further_once_its_judge_answers_no_more(how):
    n_read = 0

    def application() -> Iterator[dict[str, Any]]:
        nonlocal n_read
        for row in ROWS:
            n_read += 1  # as an answer of the user's application
            yield row

    settings = {"judge": Revoked(), "concurrency": 2}
    if how == "iter_results":
        rows: list[SampleResult] = []
        with pytest.raises(JudgeUnavailable, match="set EXAMPLE_KEY"):
            rows.extend(iter_results(application(), "adherence", **settings))
    else:
        report = (
            evaluate(application(), "adherence", **settings)
            if how == "evaluate"
            else asyncio.run(aevaluate(application(), "adherence", **settings))
        )
        assert "set EXAMPLE_KEY" in report.run.stopped
        # what was cut off is not judged, as behind a limit
        rows = [row for row in report.results if row.unfinished is None]
    assert [row.results["context_adherence"].status for row in rows] == ["scored"] * 20
    assert n_read <= 20 + 2 * 2 + 1


def test_a_list_is_reported_whole_though_its_judge_answers_no_more():
    report = evaluate(ROWS, "adherence", judge=Revoked(), concurrency=2)
    statuses = [row.results["context_adherence"].status for row in report.results]
    assert statuses == ["scored"] * 20 + ["failed"] * (len(ROWS) - 20)
    assert "set EXAMPLE_KEY" in report.run.stopped


def test_the_embedded_judge_opens_no_socket(monkeypatch):
    # the judges' loop has its own pair
    ContextAdherence().score(contexts=["c"], answer="c", judge="lexical")

    def forbidden(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    report = evaluate(
        [row | {"reference": "Author 1."} for row in ROWS[:5]], judge="lexical"
    )
    assert {o.status for r in report.results for o in r.results.values()} == {"scored"}


@pytest.mark.parametrize("is_async", [False, True])
def test_progress_counts_every_sample(is_async):
    seen = []
    judge = ScriptedJudge({Adherent: polls((poll("yes"),)), Useful: useful(True)})
    options = {
        "judge": judge,
        "progress": lambda p: seen.append((p.done, p.calls, p.total)),
    }
    metrics = ["utilization", "adherence"]
    if is_async:
        asyncio.run(aevaluate(ROWS[:5], metrics, **options))
    else:
        evaluate(ROWS[:5], metrics, **options)
    assert seen == [(n, 3 * n, 5) for n in range(1, 6)]


def test_data_frames_and_datasets_are_rows():
    import pandas as pd

    frame = pd.DataFrame(ROWS[:3])
    report = evaluate(frame, "adherence", judge="lexical")
    assert [r.sample.question for r in report.results] == [
        row["question"] for row in ROWS[:3]
    ]
    renamed = frame.rename(columns={"answer": "what it said"})
    named = evaluate(
        renamed, "adherence", judge="lexical", answer_column="what it said"
    )
    assert [r.results for r in named.results] == [r.results for r in report.results]


def test_metadata_given_to_score_is_the_users_alone():
    scored = ContextAdherence().score(
        question="q",
        contexts=["Paris"],
        answer="Paris",
        metadata={"question": "mine", "answer": 1},
        judge="lexical",
    )
    assert scored.status == "scored"


def rows_until_the_source_fails() -> Iterator[dict[str, Any]]:
    """Three rows of a database whose connection is lost."""
    yield from ROWS[:3]
    raise ConnectionResetError("SECRET of a row")


def test_a_source_of_rows_that_fails_keeps_what_was_judged(caplog):
    whole = evaluate(ROWS[:3], ["adherence"], judge="lexical")
    report = evaluate(rows_until_the_source_fails(), ["adherence"], judge="lexical")
    assert report.results == whole.results
    assert "ConnectionResetError in rows_until_the_source_fails" in report.run.stopped
    assert "SECRET" not in report.run.stopped + caplog.text
    gate = Gate(metric="context_adherence", at_least=0.0)
    assert decide(gate, report).outcome == "undecided"
    same = asyncio.run(
        aevaluate(rows_until_the_source_fails(), ["adherence"], judge="lexical")
    )
    assert same.results == whole.results
    assert same.run.stopped == report.run.stopped
    results = iter_results(
        rows_until_the_source_fails(), ["adherence"], judge="lexical"
    )
    found = [next(results) for _ in range(3)]
    with pytest.raises(ConnectionResetError):
        next(results)
    assert tuple(found) == whole.results


def test_a_source_that_fails_before_its_first_row_raises():
    def rows() -> Iterator[dict[str, Any]]:
        raise ConnectionResetError
        yield {}

    with pytest.raises(ConnectionResetError):
        evaluate(rows(), ["adherence"], judge="lexical")
