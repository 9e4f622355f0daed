"""What a person sees at a prompt and in a notebook's cell: value, verdicts, reason and judge; HTML is escaped."""

import io
import logging
import os
import re
import sys
import time

import pytest
from judge_replies import poll

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data import Failed, Usage, adherence_worth, judge_in_words
from ragmetrics_core.data.errors import UnusableReply
from ragmetrics_core.data.results import ErrorInfo, SampleResult
from ragmetrics_core.engine import progress
from ragmetrics_core.engine.progress import Display, Progress
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.run_facts import RunFacts

SAMPLE = Sample(
    question="What is the capital of France?",
    contexts=("Rain fell.", "Paris is the capital of France."),
    answer="Paris is the capital of France.",
    reference="Paris is the capital.",
    id="s1",
)
EVIL = "<script>alert(1)</script>"


def test_a_result_tells_value_reason_verdicts_and_judge():
    shown = repr(ContextUtilization().score(SAMPLE, judge="lexical")).splitlines()
    assert shown[0] == "context_utilization 0.500: 1 of 2 chunks useful, at rank 2."
    assert shown[1].startswith("  chunk 1: not useful, 0.")
    assert shown[2].startswith("  chunk 2: useful, 0.")
    assert (
        shown[3]
        == "  judge: words only (lexical: misses subtle failures, and some gross ones)"
    )
    assert len(shown) == 4
    adherent = repr(ContextAdherence().score(SAMPLE, judge="lexical"))
    assert "supported, score of words 0.9" in adherent
    assert "(no probability)" in adherent
    accuracy = repr(
        RetrievalAccuracy().score(
            facts=["Paris is big.", "Rome burnt."], contexts=["Paris is big."]
        )
    )
    assert "fact 1: in context 1, 0." in accuracy
    assert "fact 2: in no context, 0." in accuracy


def test_undefined_and_failed_results_say_why():
    assert (
        repr(ContextRecall().score(answer="a"))
        == "context_recall undefined: no reference"
    )
    failing = ScriptedJudge(
        {RateRecall: UnusableReply("no JSON in the reply", raw="secret")}
    )
    shown = repr(ContextRecall().score(SAMPLE, judge=failing))
    assert shown.startswith(
        "context_recall failed (UnusableReply): no JSON in the reply"
    )
    assert "secret" not in shown


def test_polls_are_counted():
    judge = ScriptedJudge(
        {Adherent: [poll(verdict) for verdict in ("yes", "no", "yes")]}
    )
    shown = repr(ContextAdherence(polls=3).score(SAMPLE, judge=judge))
    assert "2 of 3 polls: yes" in shown
    assert "1 of 3 polls: no" in shown
    assert "words alone" not in shown


def test_html_of_results_samples_and_comparisons_is_escaped():
    sample = SAMPLE.model_copy(
        update={"question": EVIL, "answer": f"{EVIL} Paris.", "reference": (EVIL,)}
    )
    report = evaluate([sample], judge="lexical")
    shown = [
        sample,
        *report.results,
        *report.results[0].results.values(),
        report,
        report.compare(report),
    ]
    for thing in shown:
        html = thing._repr_html_()
        assert "<script" not in html
        assert html.startswith("<")
    assert "&lt;script&gt;" in sample._repr_html_()
    assert "Paris is the capital of France." in sample._repr_html_()
    assert "context_utilization" in report.compare(report)._repr_html_()


def test_a_report_in_a_cell_is_the_first_screen_with_its_rows():
    made_up = {
        "question": "Who built it?",
        "contexts": ["Anna built the tower in 1882."],
        "answer": "A wizard conjured the castle overnight.",
    }
    report = evaluate([made_up], "adherence", judge="lexical")
    glance = report.glance()
    html = report._repr_html_()
    assert html.startswith(f"<div><h4>{glance.headline}</h4>")
    cells = re.findall(r"<t[hd] [^>]*>([^<]*)", html)
    first_row = ["1", "made up?", "Who built it?", made_up["answer"]]
    assert cells[:8] == ["row", "fault", "question", "answer", *first_row]
    assert "context_adherence" in html


def test_a_long_text_is_cut_in_html():
    html = Sample(answer="a" * 50_000)._repr_html_()
    assert len(html) < 3000
    assert "(50,000 characters)" in html


def test_the_embedded_judge_is_told_in_words_wherever_scores_are():
    told = "Judge: words only (lexical: misses subtle failures, and some gross ones)."
    report = evaluate([SAMPLE], ["adherence"], judge="lexical")
    for shown in (report.table(), report._repr_html_()):
        assert told in " ".join(shown.split())
        assert adherence_worth() in " ".join(shown.split())
    assert judge_in_words("openai/gpt-4o-mini") == "openai/gpt-4o-mini"
    other = Report(report.results, RunFacts(judges=("openai/x",)))
    assert "by words" not in other.table()


class OutStream:
    """Like that of a notebook's kernel, which is known by its module."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


OutStream.__module__ = "ipykernel.iostream"


def test_a_notebook_shows_a_line_that_renews_itself(monkeypatch, caplog):
    stream = OutStream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "ragmetrics_core"):
        evaluate([SAMPLE], ["adherence"], judge="lexical")
    assert stream.text.startswith("\r1/1 samples, 0 failed, 0 calls, $0.0000")
    assert stream.text.endswith("\r")
    assert caplog.text == ""
    stream.text = ""
    evaluate([SAMPLE], ["adherence"], judge="lexical", progress=False)
    seen: list[Progress] = []
    with Display(1, seen.append):
        pass
    assert stream.text == ""


def test_log_lines_elsewhere_tell_how_far_a_run_is(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "ragmetrics_core"):
        for show in (False, None):
            evaluate([SAMPLE], ["adherence"], judge="lexical", progress=show)
    assert caplog.messages == ["1/1 samples, 0 failed, 0 calls, $0.0000"]
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("total", "costs", "line"),
    [
        (4, [], "0/4 samples, 0 failed, 0 calls, $0.0000"),
        (4, [0.25, 0.5], "2/4 samples, 2 failed, 4 calls, $0.7500, 10 s left"),
        (2, [None, 0.25], "2/2 samples, 2 failed, 4 calls, price unknown"),
        (None, [0.25], "1 samples, 1 failed, 2 calls, $0.2500"),
    ],
)
def test_a_line_tells_what_failed_what_it_cost_and_the_time_left(total, costs, line):
    how_far = Progress(total, started=time.monotonic() - 10)
    error = ErrorInfo(type="JudgeError", message="r")
    for cost in costs:
        usage = Usage(calls=2, cost=cost)
        failed = Failed(metric="m", reason="r", error=error, usage=usage)
        how_far.add(SampleResult(index=0, sample=SAMPLE, results={"m": failed}))
    assert how_far.line() == line


class NarrowTerminal(OutStream):
    """A terminal of 30 columns."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def test_a_line_that_renews_itself_fits_a_narrow_terminal(monkeypatch):
    """A line that the terminal breaks would stay on it, one for each update."""
    stream = NarrowTerminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(
        progress.os, "get_terminal_size", lambda _: os.terminal_size((30, 24))
    )
    evaluate([SAMPLE] * 3, ["adherence"], judge="lexical")
    lines = stream.text.split("\r")
    assert lines[1].startswith("1/3 samples, 0 failed")
    assert lines[-2:] == [" " * 29, ""]
    assert {len(line) for line in lines[1:-1]} == {29}


class Bare:
    """A stream that some service sets: nobody can ask it anything, and it breaks."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class Closed(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.close()


@pytest.mark.parametrize("make", [lambda: None, Closed, Bare])
@pytest.mark.parametrize("show", [None, True])
def test_a_run_needs_no_standard_error(make, show, monkeypatch):
    monkeypatch.setattr(sys, "stderr", make())
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    report = evaluate([SAMPLE], ["adherence"], judge="lexical", progress=show)
    assert report.scores("adherence") != [None]


def test_without_a_metric_there_is_no_empty_table():
    report = Report([SampleResult(index=0, sample=Sample(question="Who?"), results={})])
    assert report.table().startswith("1 row, 1 without a result.")
    shown = report._repr_html_()
    assert shown.count("<table>") == 1  # of rows; there is none of metrics
    assert "not judged" in shown


def test_a_report_is_judged_again():
    first = evaluate([SAMPLE, 3], ["adherence"], judge="lexical")
    again = evaluate(first, ["adherence"], judge="lexical")
    assert again.scores("adherence") == first.scores("context_adherence")
    assert [row.problem for row in again] == [row.problem for row in first]
