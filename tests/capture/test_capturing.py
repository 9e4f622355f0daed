"""Capturing, tested with a toy framework: nothing that goes wrong inside ever reaches the application."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import pytest
from chat_models import PolledModel
from judge_replies import poll, polls

from ragmetrics_core import Context, Sample, ScriptedJudge, metric
from ragmetrics_core.capture import Answer as FoundAnswer
from ragmetrics_core.capture import (
    BackgroundEvaluator,
    Captured,
    Document,
    FrontDoor,
    Listeners,
    Message,
    Node,
    ReplacedMethods,
    Tree,
    WatchSettings,
    current_task_or_thread,
    guard_hook,
)
from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.data.errors import RowError, SettingError
from ragmetrics_core.data.replies import Answer, Usage
from ragmetrics_core.data.sample_parts import EvidenceCall, Ledger
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import ChatReply, Choice
from ragmetrics_core.models.judge_work import (
    as_judge_work,
    is_judge_work,
    judge_context,
)
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.report import Sink
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GOLDEN_TURNS

YES = ScriptedJudge({Adherent: polls((poll("yes", "fine"),))})


LISTENERS = Listeners()


class ToyRecorder:
    """What ragmetrics would hook into the toy framework."""

    problems = LISTENERS.problems

    @guard_hook
    def hand_on(self, run, listening):
        for listener in listening:
            listener.record(run)


RECORDER = ToyRecorder()


class ToyApp:
    """A framework in ten lines: it retrieves, answers, and tells those who listen when a run has ended."""

    def __init__(self, turn, fail=False, prompt=None):
        self.turn, self.fail, self.prompt = turn, fail, prompt

    def run(self):
        listening, output, error = LISTENERS.here(), None, None
        try:
            if self.fail:
                raise RuntimeError("generator is down")
            output = self.turn.answer
            return output
        except RuntimeError as raised:
            error = repr(raised)
            raise
        finally:
            run = {
                "inputs": {"query": self.turn.question},
                "documents": tuple(self.turn.contexts),
                "output": output,
                "error": error,
            }
            if self.prompt is not None:
                run["prompt"] = self.prompt
            RECORDER.hand_on(run, listening)

    async def arun(self):
        await asyncio.sleep(0)
        return self.run()


def samples_from(run):
    return [
        Sample(
            question=run["inputs"]["query"],
            contexts=run["documents"],
            answer=run["output"],
            error=run["error"],
            ledger=Ledger(
                calls=tuple(
                    call_of(found) for found in run.get("searches", (run["documents"],))
                )
            ),
        )
    ]


def call_of(found):
    return EvidenceCall(kind="retrieval", items=found, shown=tuple(range(len(found))))


def trees(run):
    """A tree of two calls: the search, and the model that is shown what it found."""
    found = tuple(
        Document(one.text, one.id, one.score, one.metadata) for one in run["documents"]
    )
    query = run["inputs"]["query"]
    shown = "\n\n".join(document.text for document in found)
    calls = [Node("retriever", began=1, ended=2, query=query, documents=found)]
    answers = ()
    if run["output"] is not None:
        calls.append(
            Node(
                "model",
                began=3,
                ended=4,
                prompt=(Message("user", run.get("prompt", f"{shown}\n\n{query}")),),
                reply=Message("assistant", run["output"]),
            )
        )
        answers = (FoundAnswer(run["output"]),)
    return [
        Tree(
            Node("step", "app", 0, 5, calls),
            question=query,
            answers=answers,
            error=run["error"],
            native_run=run,
            lookup_inputs=(run["inputs"],),
        )
    ]


def as_run(run):
    if isinstance(run, dict):
        return run
    raise SettingError(f"samples_from() needs a run, got {type(run).__name__}")


DOOR = FrontDoor(
    LISTENERS,
    trees,
    lambda judge: judge,
    as_run=as_run,
    unseen="make the calls inside the block",
    hint="say where things are by contexts_from=",
)
capture = DOOR.capture


class TestToyContract(AdapterContract):
    module = "json"
    framework = "toy"

    def adapter_module(self):
        return SimpleNamespace(
            capture=capture, watch=DOOR.watch, samples_from=DOOR.samples_from
        )

    def play(self, turn):
        with capture() as captured:
            output = ToyApp(turn).run()
        return list(captured.samples), output

    def play_two(self, one, two):
        searches = (one.contexts, two.contexts)
        run = {
            "inputs": {"query": two.question},
            "documents": sum(searches, ()),
            "output": two.answer,
            "error": None,
        }
        return samples_from({**run, "searches": searches})

    def play_uncaptured(self, turn):
        return ToyApp(turn).run()

    def play_streamed(self, turn):
        return self.play(turn)[0]

    async def play_async(self, turn):
        with capture() as captured:
            await ToyApp(turn).arun()
        return list(captured.samples)

    def play_unanswered(self, turn):
        with capture() as captured, pytest.raises(RuntimeError):
            ToyApp(turn, fail=True).run()
        return list(captured.samples)

    def begin(self, turn):
        return None  # each run has ended when its call returns

    def play_prompt(self, turn, prompt):
        with capture() as captured:
            ToyApp(turn, prompt=prompt).run()
        return list(captured.samples)

    def play_changed(self, turn):
        return self.play(turn)[0]  # contexts cannot be changed

    def to_native_and_back(self, result):
        native = {"score": result.value, "comment": result.reason}
        return native["score"], native["comment"]


def test_the_contract_notices_a_wrong_adapter():
    class Doubling(TestToyContract):
        def play(self, turn):
            samples, output = super().play(turn)
            return samples * 2, output

    with pytest.raises(AssertionError, match="2 samples"):
        Doubling().test_golden_turns()


def test_given_values_are_applied():
    with capture(reference="expected", id="run", metadata={"tag": 1}) as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
        ToyApp(GOLDEN_TURNS[1]).run()
    assert [sample.id for sample in captured.samples] == ["run", "run#1"]
    assert {(s.reference, s.metadata["tag"]) for s in captured.samples} == {
        (("expected",), 1)
    }
    assert captured.samples[0].contexts == GOLDEN_TURNS[0].contexts


def test_all_runs_of_a_block_around_a_question_are_one_turn():
    with capture(question="as given") as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
        ToyApp(GOLDEN_TURNS[1]).run()
    (sample,) = captured.samples
    assert sample.question == "as given"


def test_runs_without_a_sample_are_said():
    door = replace(DOOR, trees=lambda run: [Tree(Node("step"))])
    with door.capture() as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
    assert captured.samples == ()
    assert dict(captured.problems) == {"say where things are by contexts_from=": 1}
    assert list(captured.problems) == ["say where things are by contexts_from="]
    report = captured.evaluate(["context_adherence"], judge=YES)
    screen = " ".join(str(report).split())
    assert "no run gave a sample: say where things are by contexts_from=." in screen
    later = asyncio.run(captured.aevaluate(["context_adherence"], judge=YES))
    assert later.run.stopped == report.run.stopped
    watching = door.watch(["context_adherence"], judge=YES)
    ToyApp(GOLDEN_TURNS[0]).run()
    assert watching.report().run.stopped == report.run.stopped
    watching.stop()


def in_a_bare_thread():
    thread = threading.Thread(target=ToyApp(GOLDEN_TURNS[0]).run)
    thread.start()
    thread.join()


def test_bare_threads_are_left_out_with_a_word_and_a_watch_takes_them():
    with DOOR.watch([]) as everything, capture() as own:
        in_a_bare_thread()
    assert (len(everything.samples), len(own.samples)) == (1, 0)
    (said,) = own.problems.counts
    assert "take the whole process by watch()" in said
    assert not everything.problems


def test_a_judge_at_work_is_not_captured():
    with capture() as captured:
        with as_judge_work():
            ToyApp(GOLDEN_TURNS[0]).run()
        judge_context().run(ToyApp(GOLDEN_TURNS[0]).run)
        ToyApp(GOLDEN_TURNS[1]).run()
    assert [sample.contexts for sample in captured.samples] == [
        GOLDEN_TURNS[1].contexts
    ]


def test_a_judge_works_beside_an_opentelemetry_without_a_key_for_looking_away(
    monkeypatch,
):
    context = pytest.importorskip("opentelemetry.context")
    monkeypatch.delattr(context, "_SUPPRESS_INSTRUMENTATION_KEY")
    assert judge_context().run(is_judge_work)


def test_instrumentation_is_told_to_look_away_where_nothing_loaded_a_tracer(
    monkeypatch,
):
    context = pytest.importorskip("opentelemetry.context")
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    key = context._SUPPRESS_INSTRUMENTATION_KEY
    assert judge_context().run(context.get_value, key)


def test_a_tracer_that_samples_by_parent_or_a_share_of_traces_keeps_no_call_of_a_judge():
    """Also one that does not ask whether it should look away."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    sampling = pytest.importorskip("opentelemetry.sdk.trace.sampling")
    for sampler in (sampling.DEFAULT_ON, sampling.TraceIdRatioBased(0.99)):
        tracer = sdk.TracerProvider(sampler, shutdown_on_exit=False).get_tracer("")
        assert not judge_context().run(tracer.start_span, "call").is_recording()


def test_redact_that_gives_no_sample_drops_it_with_a_word():
    with capture(redact=lambda sample: None) as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
    assert captured.samples == ()
    (said,) = captured.problems.counts
    assert "must return a Sample and returned NoneType" in said


def test_redact_that_raises_for_one_sample_loses_no_other_of_its_run():
    def raising_for_the_first(sample: Sample) -> Sample:
        if sample.question != "And its river?":
            raise ZeroDivisionError
        return sample

    def two_trees(run):
        return [*trees(run), *trees({**run, "inputs": {"query": "And its river?"}})]

    with replace(DOOR, trees=two_trees).capture(
        redact=raising_for_the_first
    ) as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
    assert [sample.question for sample in captured.samples] == ["And its river?"]
    assert len(captured.problems) == 1


def test_a_watch_sees_the_process_and_redacts_before_anybody_sees():
    seen = []
    watching = DOOR.watch(
        ["adherence"],
        YES,
        redact=lambda sample: Sample(contexts=sample.contexts, answer="x"),
        on_result=seen.append,
    )
    in_a_bare_thread()
    assert watching.flush(timeout=30)
    assert watching.stop(timeout=30)
    in_a_bare_thread()
    assert [(result.sample.question, result.sample.answer) for result in seen] == [
        (None, "x")
    ]
    assert watching.aggregates["context_adherence"].scored == 1


def test_what_waits_for_a_further_run_is_shown_and_judged_at_the_end():
    class Pairs:
        def __init__(self):
            self.held = []

        def add(self, run):
            self.held.append(run)
            return (
                [Sample(question=self.held.pop(0), answer=self.held.pop())]
                if len(self.held) == 2
                else []
            )

        def rest(self):
            return [Sample(question=run) for run in self.held]

        def finish(self):
            rest, self.held = self.rest(), []
            return rest

    pairs = Pairs()
    captured = Captured(pairs.add, samples_that_wait=pairs.rest, id="a")
    for run in ("q1", "a1", "q2"):
        captured.record(run)
    assert [(sample.id, sample.answer) for sample in captured.samples] == [
        ("a", "a1"),
        ("a#1", None),
    ]
    captured.record("a2")
    assert [(sample.id, sample.answer) for sample in captured.samples] == [
        ("a", "a1"),
        ("a#1", "a2"),
    ]
    pairs = Pairs()
    background = BackgroundEvaluator(pairs.add, [], finish=pairs.finish)
    for run in ("q1", "a1", "q2"):
        background.record(run)
    assert background.stop(timeout=30)
    assert [(sample.question, sample.answer) for sample in background.samples] == [
        ("q1", "a1"),
        ("q2", None),
    ]


def test_what_waits_is_judged_while_nothing_happens(monkeypatch):
    monkeypatch.setattr("ragmetrics_core.capture.background._IDLE_SECONDS", 0.01)
    is_due, has_result = threading.Event(), threading.Event()

    def due_samples():
        return [Sample(question="q")] if is_due.is_set() else []

    background = BackgroundEvaluator(
        lambda run: [],
        [],
        settings=WatchSettings(on_result=lambda result: has_result.set()),
        samples_due=due_samples,
    )
    background.record("q")
    is_due.set()
    assert has_result.wait(30)
    is_due.clear()
    assert background.stop(timeout=30)


def test_captured_is_evaluated_in_both_forms():
    with capture() as captured:
        ToyApp(GOLDEN_TURNS[0]).run()
    report = captured.evaluate(["adherence"], judge=YES)
    assert report.scores("context_adherence") == [1.0]
    assert (
        asyncio.run(captured.aevaluate(["adherence"], judge=YES)).results
        == report.results
    )


def test_samples_grow():
    captured = Captured(samples_from)
    captured.record(run_of())
    assert len(captured.samples) == 1
    captured.record(run_of())
    assert len(captured.samples) == 2


def test_a_report_holds_the_latest_thousand_and_says_so():
    background = BackgroundEvaluator(lambda run: [Sample(question=run)], [])
    for number in range(1003):
        background.record(f"q{number}")
        if number % 500 == 0:
            assert background.flush(30)
    report = background.report()
    questions = [result.sample.question for result in report.results]
    assert questions == [f"q{number}" for number in range(3, 1003)]
    assert "the latest 1,000 of 1,003 results are kept" in report.run.notes[0]


def test_an_error_while_assembling_is_counted_and_the_rest_goes_on(caplog):
    def build(run):
        if run == "bad":
            raise ValueError("SECRET")
        return [Sample(question=run)]

    captured = Captured(build)
    for run in ("one", "bad", "two", "bad"):
        captured.record(run)
    assert [sample.question for sample in captured.samples] == ["one", "two"]
    assert captured.problems.counts == {"Captured._assemble: ValueError": 2}
    assert caplog.text.count("the application is not affected") == 1
    assert "SECRET" not in caplog.text


def test_problems_are_counted_in_bounded_memory_however_their_words_differ(caplog):
    """A row that is refused names its keys, which may differ from row to row."""

    def build(run):
        raise RowError(f"a context has no text; its keys are key_{run}")

    captured = Captured(build)
    for run in range(1000):
        captured.record(run)
    assert captured.samples == ()
    counts = captured.problems.counts
    assert sum(counts.values()) == len(captured.problems) == 1000
    assert len(counts) <= 101
    assert (
        counts[
            "Captured._assemble: RowError (a context has no text; its keys are key_0)"
        ]
        == 1
    )
    (others,) = [words for words, count in counts.items() if count > 1]
    assert "more kinds of problems" in others
    told = [record for record in caplog.records if record.name == "ragmetrics_core"]
    assert len(told) == len(counts)


def test_guarded_hooks_return_none_and_let_interrupts_pass():
    class Hooks:
        problems = Problems()

        @guard_hook
        def fine(self, value):
            return value + 1

        @guard_hook
        def broken(self):
            raise KeyError("x")

        @guard_hook
        def interrupted(self):
            raise KeyboardInterrupt

    hooks = Hooks()
    assert (hooks.fine(1), hooks.broken()) == (2, None)
    with pytest.raises(KeyboardInterrupt):
        hooks.interrupted()
    assert len(hooks.problems) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("query", "q"),
        ("inputs.query", "q"),
        (lambda run: run["output"], "a"),
        (lambda run: run.get("earlier"), "b"),
        (None, None),
        ("nowhere", None),
    ],
)
def test_overrides_are_keys_paths_and_callables(source, expected):
    run = {"inputs": {"query": "q"}, "output": "a"}
    runs = (run, {"output": "c", "earlier": "b"})
    found, value = Overrides(question_from=source).find(
        "question", runs, run["inputs"], run
    )
    assert (found, value) == (expected is not None, expected)


def test_an_override_of_a_wrong_type_is_an_error():
    with pytest.raises(SettingError, match="question_from"):
        Overrides(question_from=3).find("question", {}, {})


class Hanging(Judge):
    """Never answers until released."""

    name = "hanging"

    def __init__(self):
        self.released, self.begun, self.asked = threading.Event(), threading.Event(), 0

    async def answer(self, question):
        self.asked += 1
        self.begun.set()
        await asyncio.to_thread(self.released.wait)
        return Answer(polls((poll("yes"),)), Usage(calls=1))


def evaluator(judge=YES, **settings):
    return BackgroundEvaluator(
        samples_from, ["adherence"], judge, settings=WatchSettings(**settings)
    )


def run_of(number=0):
    return {
        "inputs": {"query": f"q{number}"},
        "documents": (Context(text="c"),),
        "output": f"a{number}",
        "error": None,
    }


def test_background_report_holds_everything_in_order():
    background = evaluator()
    for number in range(100):
        background.record(run_of(number))
    report = background.report()
    assert [result.sample.question for result in report.results] == [
        f"q{n}" for n in range(100)
    ]
    assert background.aggregates["context_adherence"].mean == 1.0
    assert background.aggregates["context_adherence"].scored == 100


def test_a_hanging_judge_blocks_nobody_and_overflow_is_counted(caplog):
    judge = Hanging()
    background = evaluator(judge, max_queue=5, concurrency=1)
    for number in range(50):
        background.record(run_of(number))
    assert not background.flush(timeout=0.05)
    assert background.dropped > 0
    assert background.dropped + background.pending == 50
    assert caplog.text.count("slower than the application") == 1
    judge.released.set()
    assert background.flush(timeout=30)
    assert background.aggregates["context_adherence"].scored == 50 - background.dropped


@pytest.mark.parametrize("watched", [False, True])
def test_what_stop_gave_up_is_a_problem_and_nothing_waits_for_it(watched):
    judge, done = Hanging(), threading.Event()
    settings = {"concurrency": 1, "on_result": lambda result: done.set()}
    background = (
        DOOR.watch(["adherence"], judge, **settings)
        if watched
        else evaluator(judge, **settings)
    )
    for number in range(7):
        background.record(run_of(number))
    assert judge.begun.wait(30)
    assert not background.stop(timeout=0.05)
    assert background.problems.counts == {
        "7 runs were not judged when stop() gave up after 0.05 seconds": 1
    }
    assert not background.flush()
    report = background.report()
    assert report.run.interrupted
    assert report.run.stopped.startswith("7 runs were not judged")
    judge.released.set()
    assert done.wait(30)
    assert judge.asked == 1


def test_a_hook_that_hangs_when_stop_gives_up_keeps_no_report_waiting():
    judge, released, done = Hanging(), threading.Event(), threading.Event()
    background = evaluator(
        judge,
        redact=lambda sample: released.wait() and sample,
        on_result=lambda result: done.set(),
    )
    for number in range(3):
        background.record(run_of(number))
    assert not background.stop(timeout=0.05)
    assert background.pending == 1  # the hook still has it
    assert not background.stop(timeout=0.05)
    assert [*background.problems.counts.values()] == [1]
    report = background.report()
    assert report.run.stopped.startswith("3 runs were not judged")
    released.set()
    assert done.wait(30)
    assert judge.asked == 0


class HangingOnce(Judge):
    """The first question is never answered until released."""

    name = "hanging once"

    def __init__(self):
        self.released, self._first = threading.Event(), True

    async def answer(self, question):
        first, self._first = self._first, False
        if first:
            await asyncio.to_thread(self.released.wait)
        return Answer(polls((poll("yes"),)), Usage(calls=1))


def test_one_hanging_call_stops_nothing_else():
    judge, done = HangingOnce(), threading.Semaphore(0)
    background = evaluator(
        judge, max_queue=None, concurrency=2, on_result=lambda result: done.release()
    )
    for number in range(100):
        background.record(run_of(number))
    for _ in range(99):
        assert done.acquire(timeout=30), "a later run waits for the call that hangs"
    assert background.pending == 1
    judge.released.set()
    assert [sample.question for sample in background.samples] == [
        f"q{number}" for number in range(100)
    ]


class Agreeing(PolledModel):
    """Says yes to everything."""

    name = "agreeing"

    async def complete(self, request):
        text = '{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
        return ChatReply((Choice(text),) * request.n, Usage(calls=1))


def test_a_limit_that_is_reached_is_said():
    background = evaluator(Agreeing(), limits=Limits(max_calls=1))
    for number in range(3):
        background.record(run_of(number))
    assert background.flush(timeout=30)
    assert background.aggregates["context_adherence"].scored == 1
    (said,) = background.problems.counts
    assert "not judged: max_calls=1 was reached" in said


@pytest.mark.parametrize(("seconds", "n_judged"), [(300.0, 0), (0.0, 5)])
def test_a_judge_that_answered_no_more_is_asked_again_after_a_while(
    monkeypatch, seconds, n_judged
):
    monkeypatch.setattr("ragmetrics_core.engine.run._OUTAGE_SECONDS", seconds)
    is_well = threading.Event()

    class Restarted(Agreeing):
        async def complete(self, request):
            if is_well.is_set():
                return await super().complete(request)
            return ChatReply((Choice("is loading"),) * request.n, Usage(calls=1))

    background = evaluator(Restarted())
    for number in range(30):
        background.record(run_of(number))
    assert background.flush(timeout=30)
    assert background.aggregates["context_adherence"].failed == 30
    assert any("none of the last" in said for said in background.problems.counts)
    is_well.set()
    for number in range(30, 35):
        background.record(run_of(number))
    assert background.flush(timeout=30)
    assert background.aggregates["context_adherence"].scored == n_judged


def test_threads_record_at_once_and_nothing_is_lost_or_doubled():
    background = evaluator(max_queue=None)

    def work(base):
        for number in range(40):
            background.record(run_of(base + number))

    threads = [threading.Thread(target=work, args=(base * 1000,)) for base in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    questions = [sample.question for sample in background.samples]
    assert len(questions) == len(set(questions)) == 400


def test_sample_rate_draws_samples_because_runs_may_belong_together():
    assembled = []

    def pair(run):
        assembled.append(run["output"])
        return samples_from(run) * 2

    background = BackgroundEvaluator(
        pair,
        ["adherence"],
        YES,
        settings=WatchSettings(sample_rate=0.25, max_queue=None),
    )
    for number in range(400):
        background.record(run_of(number))
    judged = [sample.answer for sample in background.samples]
    assert len(judged) == background.aggregates["context_adherence"].scored
    assert len(assembled) == 400
    assert 120 <= len(judged) <= 280


@pytest.mark.parametrize("rate", [0, -0.1, 1.1])
def test_a_share_of_runs_lies_between_0_and_1(rate):
    with pytest.raises(SettingError, match="sample_rate"):
        evaluator(sample_rate=rate)


WAITING = {
    "report": lambda watching: watching.report(),
    "samples": lambda watching: watching.samples,
    "flush": lambda watching: watching.flush(),
    "stop": lambda watching: watching.stop(),
}


@pytest.mark.parametrize("call", WAITING)
@pytest.mark.parametrize("place", ["on_result", "redact", "sink", "metric", "judge"])
def test_what_waits_for_the_judge_is_refused_where_the_judge_waits_for_it(call, place):
    """It would wait for itself: watching stood still for ever."""
    refused = []

    def waiting(value):
        with pytest.raises(SettingError, match="call them elsewhere") as error:
            WAITING[call](background)
        refused.append(error.value)
        return value

    class Waits(Sink):
        def write(self, result):
            waiting(result)

    class Judging(Judge):
        name = "judging"

        async def answer(self, question):
            waiting(question)
            return Answer(polls((poll("yes"),)), Usage(calls=1))

    @metric
    def own(sample):
        waiting(sample)
        return 1.0

    settings = {
        "on_result": {"on_result": waiting},
        "redact": {"redact": waiting},
        "sink": {"sinks": [Waits()]},
    }
    metrics, judge = (
        [own] if place == "metric" else ["adherence"],
        Judging() if place == "judge" else YES,
    )
    background = BackgroundEvaluator(
        samples_from, metrics, judge, settings=WatchSettings(**settings.get(place, {}))
    )
    background.record(run_of())
    assert background.flush(30)
    assert [
        row.results[name].value
        for row in background.report().results
        for name in row.results
    ] == [1.0]
    assert background.stop(30)
    assert len(refused) == 1


def test_a_problem_of_a_wrong_call_says_what_to_do():
    background = evaluator(on_result=lambda result: background.flush())
    background.record(run_of())
    assert background.flush(30)
    assert any(
        "call them elsewhere" in problem for problem in background.problems.counts
    )


def test_on_result_may_fail_and_broken_runs_are_counted():
    def hook(result):
        raise RuntimeError("the user's own")

    background = evaluator(on_result=hook)
    background.record(run_of())
    background.record({"nonsense": 1})
    assert background.flush(timeout=30)
    assert background.problems.counts == {
        "BackgroundEvaluator._count_result: RuntimeError": 1,
        "BackgroundEvaluator._start_judging: KeyError": 1,
    }


def test_stop_finishes_and_accepts_no_more():
    background = evaluator()
    background.record(run_of())
    assert background.stop(timeout=30)
    background.record(run_of())
    assert background.pending == 0
    assert background.aggregates["context_adherence"].scored == 1


@pytest.mark.nightly
def test_memory_stays_flat_beyond_the_results_that_are_kept():
    background = evaluator(max_queue=None, judge=_quiet())

    def rounds(count):
        for number in range(count):
            background.record(run_of(number))
        assert background.flush(timeout=60)
        gc.collect()

    rounds(300)
    tracemalloc.start()
    rounds(1100)  # the latest 1,000 are kept
    first, _ = tracemalloc.get_traced_memory()
    rounds(1500)
    second, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert second - first < 200_000, (
        f"{second - first} bytes more after 1,500 further runs"
    )


def _quiet():
    class Quiet(Judge):
        name = "quiet"

        async def answer(self, question):
            return Answer(polls((poll("yes", "fine"),)))

    return Quiet()


def test_running_figures_equal_those_of_all_scores():
    from statistics import mean

    from ragmetrics_core.capture.background import Aggregate

    values = [0.1, 0.9, 0.5, 0.5, 1.0]
    figures = Aggregate()
    for value in values:
        figures.add("scored", value)
    figures.add("undefined", None)
    figures.add("failed", None)
    assert (figures.scored, figures.undefined, figures.failed) == (5, 1, 1)
    assert figures.mean == pytest.approx(mean(values))


FORKED = """
import asyncio, os, sys, threading, warnings
warnings.simplefilter("ignore")
from ragmetrics_core import Sample
from ragmetrics_core.capture import WatchSettings, BackgroundEvaluator
from ragmetrics_core.models.chat import Capabilities, ChatModel, ChatReply, Choice

asked = threading.Semaphore(0)

class Slow(ChatModel):
    name = "slow"
    def capabilities(self):
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)
    async def complete(self, request):
        asked.release()
        await asyncio.sleep(0 if os.getpid() != parent else 3600)
        return ChatReply((Choice('{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'),) * request.n)

parent = os.getpid()
metrics = (name for name in ["adherence"])  # gone after the first look
evaluator = BackgroundEvaluator(lambda run: [run], metrics, Slow(), WatchSettings(concurrency=2))
for number in range(20):
    evaluator.record(Sample(contexts=["c"], answer=str(number)))
asked.acquire()
child = os.fork()
if not child:
    assert evaluator.flush(timeout=30), "what the parent has not judged is the parent's"
    assert evaluator.aggregates["context_adherence"].scored == 0, "a child counts what it judged itself"
    evaluator.record(Sample(contexts=["c"], answer="child"))
    done = evaluator.flush(timeout=30)
    os._exit(0 if done and evaluator.aggregates["context_adherence"].scored == 1 else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

STOPPED = """
import os, threading, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # Python 3.12 and newer say so of any such fork
from ragmetrics_core import Sample
from ragmetrics_core.capture import BackgroundEvaluator, Captured
from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns

evaluator = BackgroundEvaluator(lambda run: [run], ["adherence"], "lexical")
captured, problems, turns = Captured(lambda run: [run]), Problems(), Turns(lambda run: [], Overrides())
evaluator.record(Sample(contexts=["c"], answer="c"))
assert evaluator.flush(timeout=30)
held, let_go = threading.Event(), threading.Event()

def hold():  # as a thread may that records or judges at the moment of the fork
    with evaluator._state_changed, captured._lock, problems._lock, turns._lock:
        held.set()
        let_go.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    len(problems.counts)
    threading.Timer(20, os._exit, (2,)).start()  # what waits for a lock of the parent would wait for ever
    assert turns.finish() == []
    captured.record(Sample(answer="a"))
    started_at_zero = evaluator.aggregates["context_adherence"].scored == 0
    fine = evaluator.stop(timeout=30) and len(captured.samples) == 1 and started_at_zero
    os._exit(0 if fine else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

COMPARING = """
import os, sys, threading, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded")
make_lock, locks = threading.Lock, []

def noted():
    lock = make_lock()
    if sys._getframe(1).f_globals["__name__"].startswith("ragmetrics_core.capture"):
        locks.append(lock)
    return lock

threading.Lock = noted
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.capture.plain_values import Overrides
threading.Lock = make_lock

def answered(text):
    search = Node("retriever", "search", 1.0, 2.0, query="When?", documents=(Document(text),))
    prompt = (Message("user", f"{text} When?"),)
    model = Node("model", "m", 3.0, 4.0, prompt=prompt, reply=Message("assistant", "In 1874."))
    tree = Tree(Node("step", "run", 0.0, 5.0, [search, model]), question="When?")
    return [context.text for sample in samples_of(tree, Overrides()) for context in sample.contexts]

assert answered("The bridge opened in 1874.") == ["The bridge opened in 1874."]

def hold():  # as a thread may that compares texts at the moment of the fork
    for lock in locks:
        lock.acquire()

holder = threading.Thread(target=hold)
holder.start()
holder.join()
child = os.fork()
if not child:
    threading.Timer(20, os._exit, (2,)).start()
    os._exit(0 if answered("The ferry runs each hour.") == ["The ferry runs each hour."] else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize(
    "script",
    [FORKED, STOPPED, COMPARING],
    ids=["slots of its own", "locks of its own", "texts of its own"],
)
def test_a_child_forked_while_the_parent_judges_has(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_that_still_goes_on_when_its_block_ends_is_no_missing_sample():
    run = {
        "inputs": {"query": "Who?"},
        "documents": (),
        "output": "Anna.",
        "error": None,
    }
    with capture() as captured:
        (listener,) = LISTENERS.begin()
    assert not captured.problems
    listener.record(run)
    assert [sample.answer for sample in captured.samples] == ["Anna."]
    with capture() as nothing:
        pass
    assert "make the calls inside the block" in repr(nothing.problems)


def test_calls_that_are_hidden_at_once_hide_themselves_alone():
    told = []

    class Framework:
        def tell(self, word):
            told.append(word)

    def tell_hidden(word):
        with calls.hide():
            Framework().tell(word)

    def in_thread(tell, word):
        thread = threading.Thread(target=tell, args=[word])
        thread.start()
        thread.join()

    method = Framework.tell
    calls = ReplacedMethods({(Framework, "tell"): lambda _: lambda *_: None})
    with calls.hide():
        in_thread(tell_hidden, "another hidden call")
        Framework().tell("this hidden call")
        in_thread(Framework().tell, "the application")
    Framework().tell("the application later")
    assert told == ["the application", "the application later"]
    assert Framework.tell is method


def test_a_task_knows_the_latest_of_those_that_it_was_started_from():
    """A program may go on for ever by tasks that each start the next one."""

    async def names(n_further: int) -> list[str]:
        here = current_task_or_thread()
        rest = []
        if n_further:
            rest = await asyncio.create_task(names(n_further - 1))
        return [here, *rest]

    first, second, *_, last = asyncio.run(names(40))
    assert second.startswith(first)
    assert len(last) < 10 * len(first)
