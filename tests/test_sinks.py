"""Sinks: results leave while the application runs, and one that raises or hangs harms nothing."""

from __future__ import annotations

import json
import threading
import time

from said import poll, polls

from ragmetrics_core import Report, Sample, ScriptedJudge
from ragmetrics_core.capture import BackgroundEvaluator, JsonlSink, Sink, WatchSettings
from ragmetrics_core.metrics.polls import Adherent

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
    assert first.flushed == second.flushed == 1
    assert not background.problems


def test_a_sink_that_raises_is_counted_and_the_others_go_on():
    kept = Kept()
    background = watched(Broken(), kept, keep=True)
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
        background.flush(timeout=0.2)
    began = time.monotonic()
    assert background.stop(timeout=1)
    assert time.monotonic() - began < 20
    assert len(kept.results) == background.aggregates["context_adherence"].scored == 6
    counts = background.problems.counts
    assert counts["Hanging is slower than the judge: results are not sent to it"] >= 3
    assert counts["Hanging did not take all results in time"] >= 1
    hanging.free.set()


def test_the_jsonl_sink_rotates_and_each_line_is_a_row_of_a_report(tmp_path):
    path = tmp_path / "scores.jsonl"
    kept = Kept()
    background = watched(kept)
    background.record(sample())
    background.stop(timeout=30)
    JsonlSink(tmp_path / "one").write(kept.results[0])
    line = (tmp_path / "one").stat().st_size
    sink = JsonlSink(path, max_mb=2.5 * line / 1e6, keep=2)
    # two lines to a file: 2, 2, 2, 2, 1; the path and two earlier ones stay
    for _ in range(9):
        sink.write(kept.results[0])
    rows = {
        file.name: len(file.read_text().splitlines())
        for file in tmp_path.glob("scores.jsonl*")
    }
    assert rows == {"scores.jsonl": 1, "scores.jsonl.1": 2, "scores.jsonl.2": 2}
    Report(kept.results).write_to(sink)
    assert len(path.read_text().splitlines()) == 2
    row = json.loads(path.read_text().splitlines()[0])
    assert row["results"]["context_adherence"]["value"] == 1
    assert row["sample"]["id"] == "0"


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
    ended = {"BackgroundEvaluator._start: SystemExit": 1, "Ending: SystemExit": 2}
    assert background.problems.counts == ended | {"Ending: KeyboardInterrupt": 1}
