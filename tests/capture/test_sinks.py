"""Sinks: results leave while the application runs, and one that raises or hangs harms nothing."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from judge_replies import poll, polls

from ragmetrics_core import Report, Sample, ScriptedJudge
from ragmetrics_core.capture import BackgroundEvaluator, JsonlSink, WatchSettings
from ragmetrics_core.data import SettingError
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.report import Sink

YES = ScriptedJudge({Adherent: polls((poll("yes", "fine"),))})


class Kept(Sink):
    """Keeps what it is given."""

    def __init__(self):
        self.results, self.flushed = [], 0

    def write(self, result):
        self.results.append(result)

    def flush(self):
        self.flushed += 1


class Broken(Sink):
    def write(self, result):
        raise OSError("the disk is full")


class Hanging(Sink):
    def __init__(self):
        self.reached, self.free = threading.Event(), threading.Event()

    def write(self, result):
        self.reached.set()
        self.free.wait(30)


def watched(*sinks, **settings):
    return BackgroundEvaluator(
        lambda sample: [sample],
        ["adherence"],
        YES,
        settings=WatchSettings(sinks=sinks, **settings),
    )


def sample(number=0):
    return Sample(
        question="Who?",
        contexts=["Anna kept it."],
        answer=f"Anna {number}.",
        id=str(number),
    )


def test_every_sink_gets_every_result_and_is_flushed():
    first, second = Kept(), Kept()
    background = watched(first, second)
    for number in range(20):
        background.record(sample(number))
    assert background.stop(timeout=30)
    assert [{one.sample.id for one in sink.results} for sink in (first, second)] == [
        set(map(str, range(20)))
    ] * 2
    assert all(one.results["context_adherence"].value == 1 for one in first.results)
    assert min(first.flushed, second.flushed) >= 1
    assert not background.problems


def test_a_sink_that_raises_is_counted_and_the_others_go_on():
    kept = Kept()
    background = watched(Broken(), kept)
    for number in range(3):
        background.record(sample(number))
    assert background.stop(timeout=30)
    assert len(kept.results) == len(background.report().results) == 3
    assert background.problems.counts == {"Broken: OSError": 3}


def test_a_sink_that_hangs_delays_neither_judging_nor_other_sinks_and_loses_what_does_not_fit():
    kept, hanging = Kept(), Hanging()
    background = watched(hanging, kept, max_queue=2)
    background.record(sample(0))
    assert hanging.reached.wait(30)
    for number in range(1, 6):
        background.record(sample(number))
        while background.pending:
            time.sleep(0.01)
    began = time.monotonic()
    assert background.stop(timeout=1)
    assert time.monotonic() - began < 20
    assert len(kept.results) == background.aggregates["context_adherence"].scored == 6
    counts = background.problems.counts
    assert counts["Hanging is slower than the judge: results are not sent to it"] >= 3
    assert counts["Hanging did not take all results in time"] >= 1
    hanging.free.set()


class Buffering(Hanging):
    """Keeps rows until it is flushed, and takes the first one only when it is freed."""

    def __init__(self):
        super().__init__()
        self.buffered, self.flushed = [], []

    def write(self, result):
        super().write(result)
        self.buffered.append(result.sample.id)

    def flush(self):
        self.flushed += self.buffered
        self.buffered.clear()


class Freeing(Sink):
    """Counts what it is given, and frees another sink when it is flushed."""

    def __init__(self, other):
        self.other, self.taken = other, threading.Semaphore(0)

    def write(self, result):
        self.taken.release()

    def flush(self):
        self.other.free.set()


@pytest.mark.parametrize("how", ["stop", "flush"])
def test_a_sink_with_a_full_queue_is_flushed_and_each_lost_result_counted(
    how, monkeypatch
):
    monkeypatch.setattr("ragmetrics_core.capture.background.FLUSH_SECONDS", 600)
    buffering = Buffering()
    # flushed one after the other: when the second one frees the first, its queue is full
    freeing = Freeing(buffering)
    background = watched(buffering, freeing, max_queue=2)
    for number in range(6):
        background.record(sample(number))
        assert freeing.taken.acquire(timeout=30)
        assert buffering.reached.wait(30)
    assert getattr(background, how)(timeout=30)
    # 0 is being written, 1 and 2 wait, 3 to 5 find no room
    assert buffering.flushed == ["0", "1", "2"]
    lost = "Buffering is slower than the judge: results are not sent to it"
    assert background.problems.counts == {lost: 3}
    background.stop(timeout=30)


def test_an_error_of_a_sink_ends_the_writing_of_a_report_behind_a_flush():
    class Failing(Kept):
        def write(self, result):
            if len(self.results) == 2:
                raise OSError("the disk is full")
            super().write(result)

    kept, failing = Kept(), Failing()
    background = watched(kept)
    for number in range(4):
        background.record(sample(number))
    background.stop(timeout=30)
    with pytest.raises(OSError, match="the disk is full") as raised:
        Report(kept.results).write_to(failing)
    assert len(failing.results) == 2
    assert failing.flushed == 1
    assert raised.value.__notes__ == [
        "2 of 4 results were written to the sink Failing before"
    ]


@pytest.mark.parametrize("sink", [Kept, print, object()])
def test_a_report_refuses_what_is_no_sink(sink):
    with pytest.raises(SettingError, match="a sink is an object with plain methods"):
        Report([]).write_to(sink)


AT_THE_END = """
import threading
from judge_replies import poll, polls
from ragmetrics_core import Sample, ScriptedJudge
from ragmetrics_core.capture import BackgroundEvaluator, WatchSettings
from ragmetrics_core.metrics.polls import Adherent

class Buffering:
    def __init__(self):
        self.rows, self.reached = [], threading.Event()

    def write(self, result):
        self.rows.append(result.sample.id)
        self.reached.set()

    def flush(self):
        print("flushed", self.rows)

judge = ScriptedJudge({Adherent: polls((poll("yes", "fine"),))})
sink = Buffering()
background = BackgroundEvaluator(
    lambda sample: [sample], ["adherence"], judge, settings=WatchSettings(sinks=[sink])
)
background.record(Sample(contexts=["Anna."], answer="Anna.", id="a"))
assert sink.reached.wait(30)
"""


def test_a_sink_is_flushed_at_the_end_of_a_process_that_stops_nothing():
    ended = subprocess.run(
        [sys.executable, "-c", AT_THE_END],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "flushed ['a']\n"


def test_each_line_of_the_jsonl_sink_is_a_row_of_a_report(tmp_path):
    path = tmp_path / "scores.jsonl"
    kept = Kept()
    background = watched(kept)
    background.record(sample())
    background.stop(timeout=30)
    sink = JsonlSink(path)
    sink.write(kept.results[0])
    path.rename(tmp_path / "scores.jsonl.1")  # as logrotate does
    sink.write(kept.results[0])
    Report(kept.results).write_to(sink)
    assert len(path.read_text().splitlines()) == 2
    row = json.loads(path.read_text().splitlines()[0])
    assert row["results"]["context_adherence"]["value"] == 1
    assert row["sample"]["id"] == "0"


@pytest.mark.parametrize(
    "text", ['{"ragmetrics_report": 5}\n', '{"question": "?"}\n', "id,answer\n"]
)
def test_the_jsonl_sink_alters_no_file_of_others(tmp_path, text):
    path = tmp_path / "scores.jsonl"
    path.write_text(text)
    with pytest.raises(SettingError, match="name another file"):
        JsonlSink(path)
    assert path.read_text() == text


def test_a_sink_in_a_folder_that_is_missing_is_refused_before_anything_is_judged():
    with pytest.raises(SettingError, match="there is no such folder"):
        JsonlSink("missing/scores.jsonl")


@pytest.mark.parametrize("text", ["", '{"ind', '{"index": 0, "sample": {"quest'])
def test_the_jsonl_sink_goes_on_behind_a_line_that_broke_off(tmp_path, text):
    path = tmp_path / "scores.jsonl"
    path.write_text(text)
    kept = Kept()
    background = watched(kept)
    background.record(sample())
    background.stop(timeout=30)
    Report(kept.results).write_to(JsonlSink(path))
    *before, row = path.read_text().splitlines()
    assert before == [text][: bool(text)]
    assert json.loads(row)["sample"]["id"] == "0"


class Ending(Sink):
    def write(self, result):
        raise SystemExit

    def flush(self):
        raise KeyboardInterrupt


def test_what_would_end_the_process_ends_neither_a_sink_nor_the_evaluator():
    def build(number):
        if not number:
            raise SystemExit
        return [sample(number)]

    kept = Kept()
    background = BackgroundEvaluator(
        build, ["adherence"], YES, settings=WatchSettings(sinks=[Ending(), kept])
    )
    for number in range(3):
        background.record(number)
    assert background.stop(timeout=30)
    assert len(kept.results) == 2
    ended = {
        "BackgroundEvaluator._start_judging: SystemExit": 1,
        "Ending: SystemExit": 2,
    }
    assert background.problems.counts == ended | {"Ending: KeyboardInterrupt": 1}


class Written:
    """Has no ``flush``."""

    def write(self, result):
        """Take one result."""


class Awaited(Kept):
    async def write(self, result):
        """Nobody awaits it."""


NO_SINKS = [
    (Kept(), r"takes a list of sinks.*got a Kept"),
    ("scores.jsonl", r"takes a list of sinks.*got a str"),
    (["scores.jsonl"], "plain methods.*got a str"),
    ([print], "plain methods.*got a builtin_function_or_method"),
    ([Kept], "plain methods.*got a class"),
    ([Written()], "plain methods.*got a Written"),
    ([Awaited()], "plain methods.*got a Awaited"),
]


@pytest.mark.parametrize(("sinks", "words"), NO_SINKS)
def test_what_cannot_be_written_to_is_refused_when_the_watch_begins(sinks, words):
    with pytest.raises(SettingError, match=words):
        BackgroundEvaluator(
            lambda made: [made], ["adherence"], YES, settings=WatchSettings(sinks=sinks)
        )


def test_a_sink_without_a_write_of_its_own_cannot_be_made():
    class Forgetful(Sink):
        """Inherits a ``write`` that takes nothing."""

    with pytest.raises(TypeError, match="abstract"):
        Forgetful()


def test_a_sink_is_flushed_while_the_application_runs(monkeypatch):
    monkeypatch.setattr("ragmetrics_core.capture.background.FLUSH_SECONDS", 0.05)
    calls, flushed = [], threading.Event()

    class Noting(Kept):
        def write(self, result):
            calls.append(("write", threading.current_thread()))

        def flush(self):
            calls.append(("flush", threading.current_thread()))
            flushed.set()

    background = watched(Noting())
    for _ in range(2):
        flushed.clear()
        background.record(sample())
        assert flushed.wait(30)
    assert [name for name, _ in calls] == ["write", "flush"] * 2
    assert len({thread for _, thread in calls}) == 1, "all in one thread of its own"
    assert calls[0][1] is not threading.current_thread()
    assert background.stop(timeout=30)


def test_a_sink_that_is_never_idle_is_flushed_as_well(monkeypatch):
    monkeypatch.setattr("ragmetrics_core.capture.background.FLUSH_SECONDS", 0.01)
    calls = []
    all_queued = threading.Event()

    class Busy(Kept):
        def write(self, result):
            all_queued.wait(30)
            time.sleep(0.01)
            calls.append("write")

        def flush(self):
            calls.append("flush")

    background = watched(Busy())
    for number in range(5):
        background.record(sample(number))
    while background.pending:
        time.sleep(0.01)
    all_queued.set()
    assert background.stop(timeout=30)
    assert "flush" in calls[: calls.index("write") + 3]
    assert calls.count("write") == 5


def test_the_words_on_a_sink_that_fails_name_the_place_in_it_and_no_text(caplog):
    class Full(Kept):
        def write(self, result):
            raise OSError(28, "SECRET of a sample")

    background = watched(Full())
    background.record(sample())
    assert background.stop(timeout=30)
    assert "the sink Full raised OSError (No space left on device) in write" in (
        caplog.text
    )
    assert "test_sinks.py" in caplog.text
    assert "SECRET" not in caplog.text
