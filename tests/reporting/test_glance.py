"""The first screen: short for any number of rows, worded for what the judge can see."""

import html
import json
import os
import random
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import RightJudge, planted_rows, sample_of

from ragmetrics_core import (
    Context,
    ContextAdherence,
    ContextUtilization,
    Metric,
    Report,
    Sample,
    ScriptedJudge,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.cli.report_page import join_runs
from ragmetrics_core.data import EMBEDDED
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.reporting.gates import decide, parse_gate
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.reporting.screen import screen_lines


def flat(shown: object) -> str:
    """A screen without its line breaks."""
    return " ".join(str(shown).split())


def n_words(lines: list[str]) -> int:
    return len(re.findall(r"[^\W\d_]+", " ".join(lines)))


def assert_short(lines: list[str]) -> None:
    assert sum(bool(line.strip()) for line in lines) <= 15, lines
    assert n_words(lines) <= 120, (n_words(lines), lines)


def judged(faults: set[str], *, reference: bool) -> Report:
    """The planted rows with some of the faults, judged by the right judge."""
    rows = [row for row in planted_rows() if row["fault"] in faults]
    rows = [row for row in rows if (row["reference"] is not None) == reference]
    return evaluate(map(sample_of, rows), judge=RightJudge().judge())


def test_made_up_answers_are_no_fault_of_the_search():
    """Forty rows without a reference, contexts that hold the answer, eight made up."""
    rows = [row for row in planted_rows() if row["fault"] == "no fault"]
    made_up = [row for row in planted_rows() if row["fault"] == "made up"]
    rows = [{**row, "reference": None} for row in (rows + made_up[:8] + rows[:12])]
    report = evaluate(map(sample_of, rows), judge=RightJudge().judge())
    assert len(rows) == 40
    assert {fault.stage for fault in report.faults} == {None, "answer"}
    screen = flat(report)
    assert (
        "The generator is weakest: in 8 of 40 rows the answer is wrong"
        " although the right text was there." in screen
    )
    assert "search" not in screen


@pytest.mark.parametrize(
    ("fault", "headline"),
    [
        (
            "not in the text",
            "The search is weakest: in 10 of 20 rows the right text was",
        ),
        (
            "dropped before the prompt",
            "The prompt is weakest: in 10 of 20 rows the right text",
        ),
        ("made up", "The generator is weakest: in 10 of 20 rows the answer is"),
        (
            "declined wrongly",
            "The generator is weakest: in 10 of 20 rows the answer is wrong, or declines, ",
        ),
        ("no fault", "No fault was found in 10 rows."),
    ],
)
def test_headlines(fault, headline):
    assert headline in flat(judged({"no fault", fault}, reference=True))


@pytest.mark.parametrize(
    ("n_by_fault", "headline", "first", "sure"),
    [
        # one stage has clearly more faults than the next
        (
            {"no fault": 9, "made up": 10, "not in the text": 1},
            "The generator is weakest: in 10 of 20 rows the answer is wrong",
            "Read the 11 rows with a fault before you change anything.",
            "11 of 20 rows are faulty. Among new ones expect 34–74 %: too wide, use 30 or more.",
        ),
        # it has more, and not clearly
        (
            {"no fault": 10, "made up": 3, "not in the text": 1},
            "A fault shows in 4 of 14 rows: 3 in the answer, 1 in the search.",
            "Read the 4 rows with a fault before you change anything.",
            "expect 12–55 %: too wide",
        ),
        # two have as many
        (
            {"no fault": 4, "made up": 1, "not in the text": 1},
            "A fault shows in 2 of 6 rows: 1 in the search, 1 in the answer.",
            "Read the 2 rows with a fault before you change anything.",
            "too wide, use 30 or more.",
        ),
        (
            {"no fault": 39, "made up": 1},
            "Few faults. A fault shows in 1 of 40 rows: 1 in the answer.",
            "Read the 1 row with a fault before you change anything.",
            "1 of 40 rows is faulty. Among new ones expect 0–13 %, if the judge is right.",
        ),
    ],
)
def test_what_is_wrong_what_to_do_first_and_how_sure(n_by_fault, headline, first, sure):
    rows: list[dict[str, Any]] = []
    for fault, count in n_by_fault.items():
        drawn = [row for row in planted_rows() if row["fault"] == fault]
        rows += [row for row in drawn * 4 if row["reference"] is not None][:count]
    # each is a conversation of its own, and by its blanks no copy: else they would count
    # as one
    samples = [
        sample.model_copy(
            update={
                "metadata": {"conversation_id": place},
                "contexts": (*sample.known_contexts, Context(text=" " * place)),
            }
        )
        for place, sample in enumerate(map(sample_of, rows))
    ]
    report = evaluate(samples, judge=RightJudge().judge())
    screen = flat(report)
    for words in (headline, f"first {first}", sure):
        assert words in screen, screen
    notebook = html.unescape(report._repr_html_())
    for words in (headline, f"<p>First: {first}", sure):
        assert words in notebook, notebook
    assert max(map(len, str(report).splitlines())) <= 80


@pytest.mark.parametrize(
    ("n_by_answer", "headline", "first", "sure", "marks"),
    [
        (
            {"fine": 63, "unsure": 35, "failed": 2},
            "No fault was found in 63 of 100 rows; the rest: 35 unsure, 2 judge failed.",
            "For 35 of the 37 rows (unsure), read the unsure rows",
            "0 to 37 of 100 rows are faulty. Among new ones expect 0–47 %",
            ["?", "?", "?"],
        ),
        (
            {"fine": 30, "made up": 1, "unsure": 9},
            "In 1 of 40 rows the answer is wrong; ContextSufficiency would tell whether"
            " the search or the generator. Unclear: 9 unsure.",
            "Read the 1 row with a fault",
            "1 to 10 of 40 rows are faulty. Among new ones expect 0–40 %",
            ["x", "?", "?"],
        ),
    ],
)
def test_rows_of_which_the_judge_is_unsure_are_told_and_listed(
    n_by_answer, headline, first, sure, marks
):
    error = ErrorInfo(type="JudgeUnavailable", message="late")
    results: dict[str, Any] = {
        name: Scored(
            metric="context_adherence",
            value=value,
            reason=reason,
            judge=EMBEDDED,
            evidence=AdherenceEvidence(asked=1, yes=1, no=0),
        )
        for name, value, reason in [
            ("fine", 1.0, ""),
            ("made up", 0.0, ""),
            ("unsure", 0.4, "uncertain: 0.4"),
        ]
    }
    results["failed"] = Failed(metric="context_adherence", reason="late", error=error)
    sample = Sample(question="Who?", answer="She.", contexts=["She."], reference="She.")
    rows = [
        SampleResult(
            index=0, sample=sample, results={"context_adherence": results[name]}
        )
        for name, count in n_by_answer.items()
        for _ in range(count)
    ]
    rows = [
        row.model_copy(
            update={
                "index": place,
                "sample": sample.model_copy(update={"question": f"Who {place}?"}),
            }
        )
        for place, row in enumerate(rows)
    ]
    # as of a run with another judge beside it, which could tell
    judges, addresses = (EMBEDDED, "another"), {"another": ("http://here:8000/v1",)}
    run = RunFacts(judges=judges, addresses=addresses)
    lines = str(Report(rows, run)).splitlines()
    assert_short(lines)
    assert "another at http://here:8000/v1" in lines[0]
    for words in (headline, f"first {first}", sure):
        assert words in flat("\n".join(lines)), lines
    assert re.findall(r"^  row \d+ +([x?])  ", "\n".join(lines), re.MULTILINE) == marks


def test_where_most_rows_failed_the_first_step_is_about_the_failure():
    error = ErrorInfo(type="JudgeUnavailable", message="wrong key")
    failed = Failed(metric="context_adherence", reason="wrong key", error=error)
    made_up = Scored(
        metric="context_adherence",
        value=0.0,
        reason="",
        evidence=AdherenceEvidence(asked=1, yes=0, no=1),
    )
    sample = Sample(question="Who?", answer="She.", contexts=["She."])
    rows = [
        SampleResult(index=place, sample=sample, results={"context_adherence": result})
        for place, result in enumerate([made_up, failed, failed, failed, failed])
    ]
    screen = str(Report(rows))
    assert "4 of 5 rows: judge failed." in screen
    assert "first  Check the judge's model, key, address and limits" in screen


def test_a_metric_that_only_failed_is_told_however_long_the_screen():
    reason = "the reply holds no JSON object with the field 'score'; " * 4
    rows = []
    for place in range(5):
        error = ErrorInfo(type=f"ReplyInvalid{place}", message=reason)
        failed = Failed(metric="context_recall", reason=reason, error=error)
        sample = Sample(question="q", answer=f"a {place}", contexts=["c"])
        results = {"context_recall": failed}
        rows.append(SampleResult(index=place, sample=sample, results=results))
    run = RunFacts(judges=("gpt",), stopped="it was interrupted")
    screen = str(Report(rows, run=run))
    told = "  context_recall  not scored: 1 failed (ReplyInvalid0), 1 failed"
    (line,) = [line for line in screen.splitlines() if line.startswith(told)]
    assert (len(line), line[-1]) == (80, "…")
    assert "mean" not in screen


class Politeness(Metric):
    """Is the answer polite?

    More than that nobody asks.
    """

    name: str = "politeness"

    def plan(self, sample: Sample) -> Any:
        yield from ask([])
        return self.scored(1.0, sample.answer or "")


@metric
def long_asked(sample: Sample) -> float:
    """Is there anything in the answer that a reader would call impolite at all?"""
    return float(sample.answer == "")


def test_a_short_docstring_stands_beside_the_bar_of_an_own_metric(tmp_path):
    report = evaluate([{"answer": "Sit."}], [Politeness(), long_asked])
    report.to_jsonl(tmp_path / "results.jsonl")
    read = Report.from_jsonl(tmp_path / "results.jsonl")
    joined, _ = join_runs([read], ["a"])
    for one in (report, read, joined):
        by_name = {line.split()[0]: line for line in str(one).splitlines() if line}
        assert by_name["politeness"].endswith("  Is the answer polite?")
        assert by_name["long_asked"].endswith(" 0 of 1")
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("Is the answer polite?") == 2  # beside its bar, and for the rows


def test_a_stage_that_nobody_can_tell_is_not_named():
    rows = [row for row in planted_rows() if row["fault"] == "made up"]
    samples = [sample_of({**row, "reference": None}) for row in rows]
    judge = RightJudge().judge()
    report = evaluate(samples, ContextAdherence(cause=False), judge=judge)
    screen = flat(report)
    assert "weakest" not in screen
    assert "rows the answer is wrong; an expected answer would tell" in screen


def test_half_of_the_answers_that_decline_are_said():
    report = judged({"no fault", "declined rightly"}, reference=False)
    assert "10 of 15 answered" in str(report)


def test_a_judge_of_words_matches_nothing():
    """A row whose year is wrong shares the words of the expected answer."""
    rows: list[dict[str, Any]] = [
        {
            "question": f"When was tower {n} built?",
            "contexts": [f"The tower {n} on the hill was built in 18{n}."],
            "answer": f"The tower {n} on the hill was built in 18{n}.",
            "reference": f"The tower {n} on the hill was built in 19{n}.",
        }
        for n in range(10, 70)
    ]
    report = evaluate(rows, judge="lexical")
    texts = [str(report), report.glance().model_dump_json()]
    for text in texts:
        assert "match" not in text
        assert "the expected answer?" not in text
        assert "Are the expected words in the answer?" in text


KINDS = ("scored", "failed", "declined", "missing")


def drawn_report(draw: random.Random) -> Report:
    """Any run: metrics with any name, rows with any texts, results of any kind."""
    names = [draw.choice(["m", "context_adherence", "word " * 30, "x" * 90])]
    names += [f"metric_of_mine_{n}" for n in range(draw.randrange(9))]
    rows = []
    for index in range(draw.choice([0, 1, 13, 200])):
        text = draw.choice(["Who lit it?", "many words " * 50, "q\n\n\x1b[2J" * 9])
        sample = Sample(question=text, answer=text, reference=text, contexts=[text])
        results: dict[str, Any] = {}
        for name in names:
            kind = draw.choice(KINDS)
            if kind == "scored":
                results[name] = Scored(metric=name, reason="", value=draw.random())
            elif kind == "failed":
                error = ErrorInfo(type="RateLimited", message=text)
                results[name] = Failed(metric=name, reason=text, error=error)
            else:
                results[name] = Undefined.model_validate(
                    {"metric": name, "reason": text, "code": kind}
                )
        rows.append(SampleResult(index=index, sample=sample, results=results))
    run = RunFacts(name=draw.choice(["", "a run " * 40]), judges=("judge " * 20,))
    return Report(rows, run)


@pytest.mark.nightly
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_at_most_fifteen_lines_and_120_words(draw):
    report = drawn_report(draw)
    decisions = [
        decide(parse_gate(f"{name}={draw.random():.2f}", [name]), report)
        for name in report.metrics
        for _ in range(draw.randrange(3))
        if "=" not in name and "(" not in name
    ]
    page = "a folder/" * draw.randrange(30)
    for held in ([], decisions):
        lines = screen_lines(
            report.glance(held), page=page, next_command="ragmetrics x", exit_code=1
        )
        assert_short(lines)
        assert not any("\x1b" in line or "\n" in line for line in lines)
        if held:
            assert re.match(r"The gate|\d+ of \d+ gates", lines[0])


@pytest.mark.nightly
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_behind_the_rows_stands_how_many_more_there_are(draw):
    glance = drawn_report(draw).glance()
    lines = screen_lines(glance, page="page.html", next_command="ragmetrics x")
    n_shown = sum(bool(re.match(r"  row \d+", line)) for line in lines)
    n_further = glance.n_faults + glance.n_open - n_shown
    told = [line for line in lines if re.fullmatch(r"  and [\d,]+ further rows?", line)]
    plural = "" if n_further == 1 else "s"
    expected = f"  and {n_further:,} further row{plural}"
    assert told == ([expected] if n_shown and n_further else [])


def test_metrics_that_are_left_out_are_counted_and_what_is_scored_stays():
    results: dict[str, Any] = {}
    for number in range(9):
        name = f"metric_of_mine_{number}"
        results[name] = Undefined(metric=name, reason="no use", code="other")
    for name in ("citation_quality", "metric_of_mine_8"):
        results[name] = Scored(metric=name, reason="", value=0.5)
    report = Report(
        [SampleResult(index=0, sample=Sample(question="q"), results=results)]
    )
    decision = decide("citation_quality=0.6", report)
    lines = screen_lines(report.glance([decision]), page="page.html", exit_code=1)
    assert_short(lines)
    shown = [line.split()[0] for line in lines if re.match(r"  \w+ +(\.50|not)", line)]
    assert {"citation_quality", "metric_of_mine_8"} <= set(shown)
    assert f"  and {len(results) - len(shown)} further metrics" in lines
    assert "undefined, as each row says" in "\n".join(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    row = {"contexts": ["Anna lit it."], "answer": "Anna lit it."}
    rows = [{**row, "question": f"Who lit lamp {number}?"} for number in range(3)]
    Path("rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return tmp_path


def test_results_and_page_are_kept_and_the_last_two_runs_compared(folder, capsys):
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    assert main(["compare"]) == 2
    assert "the results of 0 runs" in capsys.readouterr().err
    assert main(command) == 0
    assert main(["compare"]) == 2
    shown = capsys.readouterr()
    assert "the results of 1 run here" in shown.err
    first = shown.out
    assert "page   .ragmetrics/runs/1/page.html" in first
    assert_short(first.splitlines())
    assert main(command) == 0
    for path in (folder / ".ragmetrics" / "runs").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert (folder / ".ragmetrics" / ".gitignore").read_text() == "*\n"
    capsys.readouterr()
    assert main(["compare", "--fail-on-regression"]) == 0
    assert "identical" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_a_last_run_that_was_interrupted_is_compared_as_a_partial_one(capsys):
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    for _ in range(3):
        assert main(command) == 0
    kept = Path(".ragmetrics/runs/3/results.jsonl")
    lines = kept.read_text().splitlines(keepends=True)
    kept.rename(f"{kept}.partial").write_text("".join(lines[:2]))
    capsys.readouterr()
    assert main(["compare", "--fail-on-regression"]) == 3
    shown = capsys.readouterr()
    assert "run 3" in shown.out or "results.jsonl.partial" in shown.out


@pytest.mark.usefixtures("folder")
def test_runs_with_a_path_of_their_own_are_compared_too(capsys):
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    # the second run writes to the path of the first
    for _ in range(2):
        assert main([*command, "--out", "a.jsonl", "--report", "a.html"]) == 0
        Path("a.jsonl").chmod(0o640)
    assert stat.S_IMODE(Path("a.jsonl").stat().st_mode) == 0o640
    capsys.readouterr()
    assert main(["compare"]) == 0
    by_default = capsys.readouterr().out
    assert re.match(r"run 1, .* → run 2, ", by_default)
    assert main(["compare", "1", "2"]) == 0
    assert capsys.readouterr().out == by_default
    kept = Path(".ragmetrics/runs/2/results.jsonl")
    assert kept.read_bytes() == Path("a.jsonl").read_bytes()
    assert not kept.samefile(".ragmetrics/runs/1/results.jsonl")


@pytest.mark.usefixtures("folder")
def test_twenty_runs_are_kept_and_none_on_request():
    runs = Path(".ragmetrics", "runs")
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    assert main([*command, "--no-files"]) == 0
    assert main([*command, "--dry-run"]) == 0
    assert not runs.exists()
    runs.mkdir(parents=True)
    for number in range(1, 30):
        (runs / str(number)).mkdir()
        for name in ("results.jsonl", "page.html", "results.jsonl.partial.1"):
            (runs / str(number) / name).touch()
    (runs / "mine").mkdir()
    (runs / "3" / "labels.jsonl").touch()  # somebody's own
    assert main(command) == 0
    kept = {path.name for path in runs.iterdir()}
    assert kept == {"mine", "3", *map(str, range(11, 31))}
    assert len([*(runs / "3").iterdir()]) == 4


@pytest.mark.usefixtures("folder")
def test_a_folder_that_cannot_be_written_costs_nothing_else(capsys):
    Path(".ragmetrics").write_text("a file")
    assert main(["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "nothing is kept in .ragmetrics/runs" in shown.err
    assert "page" not in shown.out


@pytest.mark.usefixtures("folder")
def test_a_judge_that_cannot_be_used_leaves_no_folder(monkeypatch, capsys):
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    command = ["evaluate", "rows.jsonl", "--quiet", "--no-store", "--judge"]
    for judge in ("azure/m", "decisions/"):
        assert main([*command, judge]) == 2
        assert list(Path(".ragmetrics/runs").iterdir()) == []
    assert main([*command, "azure/m"]) == 2
    error = capsys.readouterr().err
    assert "no key was given" in error
    assert "set AZURE_OPENAI_API_KEY" in error


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("metrics", [[], ["--metrics", "recall,adherence"]])
def test_the_page_of_a_run_and_the_run_show_the_same_metrics(metrics, capsys):
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    assert main([*command, *metrics]) == 0
    of_run = capsys.readouterr().out.splitlines()
    assert main(["report", ".ragmetrics/runs/1/results.jsonl"]) == 0
    of_report = capsys.readouterr().out.splitlines()
    shown = [
        [line for line in lines if line.startswith(("  context_", "  retrieval_"))]
        for lines in (of_run, of_report)
    ]
    assert shown[0] == shown[1]
    assert any(
        line.split()[:3] == ["context_recall", "not", "scored:"] for line in shown[0]
    )


@pytest.mark.nightly
@pytest.mark.usefixtures("folder")
def test_each_gate_has_a_line_and_each_line_is_whole(capsys):
    gates = ["adherence=0.8", "answered=0.5", "utilization=0.1", "adherence=1"]
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    Path("bad.jsonl").write_text(
        json.dumps({"question": "Who?", "contexts": ["Anna."], "answer": "Bo sank."})
    )
    for number in range(1, 5):
        options = [f"--fail-under={gate}" for gate in gates[:number]]
        for file in ("rows.jsonl", "bad.jsonl"):
            main([command[0], file, *command[2:], *options])
            lines = capsys.readouterr().out.splitlines()
            verdict = lines[1 : lines.index("")]
            # what a line is too short for stands below it
            gate_lines = [line for line in verdict if not line.startswith("  ")]
            assert len(gate_lines) == number
            assert verdict[-1].endswith(".")
            assert_short(lines)
            assert any(line.startswith("  page ") for line in lines)


@pytest.mark.usefixtures("folder")
def test_runs_that_cannot_be_compared_are_named(capsys):
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    assert main(command) == 0
    other = {"question": "Why?", "contexts": ["Bo sank."], "answer": "Bo sank."}
    Path("rows.jsonl").write_text(json.dumps(other))
    assert main(command) == 0
    assert main(["compare", "--anyway"]) == 2
    paths = [f".ragmetrics/runs/{number}/results.jsonl" for number in (1, 2)]
    error = capsys.readouterr().err
    assert f"{paths[0]} and {paths[1]}: the two runs have no sample in common" in error


@pytest.mark.usefixtures("folder")
def test_with_gates_the_verdict_comes_first_then_the_rows_that_failed_it(capsys):
    rows = [{"question": "Who?", "contexts": ["Anna lit it."], "answer": "Bo sank."}]
    Path("rows.jsonl").write_text(json.dumps(rows[0]))
    gates = ["--fail-under", "adherence=0.8", "--fail-under", "answered=0.5"]
    command = ["evaluate", "rows.jsonl", "--judge", "lexical", "--quiet"]
    assert main([*command, "--metrics", "adherence", *gates]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 of 2 gates passed, 1 failed: exit 1")
    assert lines[1].startswith("failed: context_adherence misses 0.8")
    assert lines[3].startswith("by words alone, passed: "), lines
    assert any("x  made up" in line and "Bo sank." in line for line in lines)
    assert main([*command, "--explain"]) == 0
    assert "scored/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gate", "rows"),
    [
        ("m=0.9", [1, 2]),
        ("share(m>0.5)=0.9", [1]),
        ("share(m>0.9)=0.5", [1, 2, 3]),
    ],
)
def test_the_rows_to_look_at_are_those_that_count_against_the_gate(gate, rows):
    results = [
        Scored(metric="m", reason="", value=value) for value in (0.5, 0.6, 0.9, 1.0)
    ]
    report = Report(
        SampleResult(index=place, sample=Sample(), results={"m": result})
        for place, result in enumerate(results)
    )
    glance = report.glance([decide("m=0.1", report), decide(gate, report)])
    assert [row.row for row in glance.worst] == rows
    assert glance.further(0) == ""  # rows of a gate need have no fault


def test_the_demo_is_one_screen(folder, capsys):
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert_short(lines)
    assert lines[0].startswith("ragmetrics demo   13 rows · judge: words only")
    assert "13 of 13 answered" in "\n".join(lines)
    assert (folder / ".ragmetrics" / "runs" / "1" / "page.html").is_file()


def test_what_was_shown_is_unknown_where_only_the_retrieved_texts_are_given():
    rows = [row for row in planted_rows() if row["fault"] == "made up"]
    samples = [
        sample_of({**row, "contexts": None, "retrieved": row["contexts"]})
        for row in rows
    ]
    report = evaluate(samples, judge=RightJudge().judge())
    assert {fault.stage for fault in report.faults} == {None}
    assert "prompt" not in str(report)


@pytest.mark.parametrize(
    ("fault", "headline"),
    [
        ("declined rightly", "5 of 5 answers decline."),
        (
            "declined wrongly",
            "The generator is weakest: in 10 of 10 rows the answer is",
        ),
    ],
)
def test_a_row_is_diagnosed_alike_whatever_stands_beside_it(fault, headline):
    """Where every answer declines some metrics have no score on any row."""
    rows = [row for row in planted_rows() if row["fault"] == fault and row["reference"]]
    samples = [sample_of(row) for row in rows]
    report = evaluate(samples, judge=RightJudge().judge())
    assert {diagnosis.name for diagnosis in report.faults} == {fault}
    assert headline in flat(report)


def test_without_references_wrong_answers_cannot_be_seen():
    assert "To see wrong answers, add a column with the expected answer." in flat(
        judged({"no fault"}, reference=False)
    )
    with_references = flat(judged({"no fault"}, reference=True))
    assert "No fault was found in" in with_references
    assert "expected answer." not in with_references


@pytest.mark.parametrize(
    ("key", "is_ollama_here", "way"),
    [
        ("OPENAI_API_KEY", True, '--judge gpt-4o-mini (in Python judge="gpt-4o-mini")'),
        ("MISTRAL_API_KEY", False, "--judge mistral/mistral-small-latest (in Python"),
        (None, True, '--judge ollama/llama3.1 (in Python judge="ollama/llama3.1")'),
        (None, False, "(key in OPENAI_API_KEY), or on this machine ollama/"),
    ],
)
def test_words_are_no_evaluation_and_the_way_to_one_fits_the_machine(
    monkeypatch, tmp_path, key, is_ollama_here, way
):
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)
    if key is not None:
        monkeypatch.setenv(key, "secret")
    monkeypatch.setattr(
        shutil, "which", lambda name: "/bin/ollama" if is_ollama_here else None
    )
    rows = [sample_of(row) for row in planted_rows() if row["fault"] == "made up"]
    report = evaluate(rows, judge="lexical")
    screen = str(report)
    assert_short(screen.splitlines())
    second_line = screen.splitlines()[1]
    assert second_line.startswith("  Only words were compared; this is no evaluation")
    assert "to look at" in flat(screen)
    assert way in flat(screen)
    for advice_or_range in ("first  ", "sure?", "weakest", "–", "%"):
        assert advice_or_range not in screen
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    in_short = html.unescape(page[: page.index('id="samples"')])
    for shown in (in_short, html.unescape(report._repr_html_())):
        assert "Only words were compared; this is no evaluation yet." in shown
        assert way in shown
    assert "How sure?" not in in_short
    assert 'class="stage weak"' not in in_short
    assert "secret" not in page + screen


def test_a_comparison_of_words_shows_no_interval_and_only_supposes(tmp_path, capsys):
    rows = [row for row in planted_rows() if row["fault"] == "made up"]
    rows.append({**rows[0], "retrieved": [], "contexts": []})
    for judge, is_by_words in (("lexical", True), (RightJudge().judge(), False)):
        report = evaluate(map(sample_of, rows), judge=judge)
        assert all(numbers.interval for numbers in report.summary().metrics)
        report.to_jsonl(tmp_path / "results.jsonl")
        page = tmp_path / "page.html"
        command = ["report", str(tmp_path / "results.jsonl"), "--explain"]
        comment = tmp_path / "comment.md"
        assert main([*command, "--report", str(page), "--summary", str(comment)]) == 0
        in_comment = "Only words were compared" in comment.read_text("utf-8")
        assert in_comment == is_by_words
        comment.unlink()
        shown = [capsys.readouterr().out, page.read_text("utf-8")]
        for text in (*shown, report.table(), report._repr_html_()):
            assert bool(re.search("95 %|nterval.?:", text)) != is_by_words, text
        names = {fault.name for fault in report.faults if fault.kind == "fault"}
        assert "nothing retrieved" in names  # it is on record, whoever judges
        supposed = {name for name in names if name.endswith("?")}
        assert supposed == (names - {"nothing retrieved"} if is_by_words else set())
        assert {"made up", "made up?"} & names
        for name in names:
            assert f'data-value="{name}"' in shown[1]
            assert name in shown[0]


def test_a_comparison_of_two_runs_says_that_words_alone_tell():
    right, wrong = {"answer": "Anna lit it."}, {"answer": "Bo sank."}
    rows = [{"contexts": ["Anna lit it."], "question": f"{n}?"} for n in range(30)]
    first, second = (
        evaluate([row | answer for row in rows], "adherence", judge="lexical")
        for answer in (right, wrong)
    )
    comparison = first.compare(second)
    assert comparison.headline.startswith("By words alone, the second run is worse.")
    assert first.compare(first).headline == "Both runs came to the same on every row."


def test_a_stage_without_a_metric_or_a_fault_has_no_box(tmp_path):
    for faults, stages in (
        ({"made up"}, ["search", "answer"]),
        ({"made up", "dropped before the prompt"}, ["search", "prompt", "answer"]),
    ):
        judged(faults, reference=True).to_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text("utf-8")
        assert re.findall(r'aria-labelledby="stage-(\w+)"', page) == stages


@pytest.mark.parametrize(
    ("n_made_up", "n_beside", "advice"),
    [
        (
            8,
            4,
            "For 8 of the 12 faults (made up), instruct the model to keep to the text",
        ),
        (4, 8, "For 8 of the 12 faults (not as expected), say in the prompt what an"),
    ],
)
def test_the_advice_is_for_the_largest_kind_of_fault(n_made_up, n_beside, advice):
    by_fault = {
        "no fault": 20,
        "made up": n_made_up,
        "beside the expected answer": n_beside,
    }
    rows: list[dict[str, Any]] = []
    for fault, count in by_fault.items():
        drawn = [row for row in planted_rows() if row["fault"] == fault]
        rows += [row for row in drawn * 4 if row["reference"] is not None][:count]
    report = evaluate(map(sample_of, rows), judge=RightJudge().judge())
    assert report.glance().advice.startswith(advice)
    assert f"({report.glance().worst[0].name})" in report.glance().advice


def test_rows_ranked_low_have_their_word():
    report = judged({"no fault", "ranked low"}, reference=True)
    n_ranked_low = report.glance().ranked_low
    assert n_ranked_low >= 5
    assert f"answered · {n_ranked_low} rows ranked low" in str(report)


@pytest.mark.nightly
@pytest.mark.parametrize("judge", ["lexical", "a model"])
def test_figures_stand_below_what_they_are(judge):
    """Also where the screen is so full that lines are left out."""
    asked = "lexical" if judge == "lexical" else RightJudge().judge()
    rows = [row for row in planted_rows() if row["reference"] is not None]
    lines = screen_lines(
        evaluate(map(sample_of, rows), judge=asked).glance(),
        page=".ragmetrics/runs/1/page.html",
        next_command="ragmetrics compare   (after the next run)",
    )
    head = next(line for line in lines if "rows above ½" in line)
    figures = lines[lines.index(head) + 1]
    for title in ("rows above ½", *(["95% range"] if judge != "lexical" else [])):
        place = head.index(title)
        assert figures[place - 2 : place] == "  ", lines
        assert figures[place] in ".0123456789", lines


def test_a_low_rank_of_useful_texts_alone_is_no_fault():
    judge = ScriptedJudge(
        {Useful: lambda question: {"useful": "lit" in question["chunk"]}}
    )
    sample = Sample(
        question="Who lit it?",
        answer="Anna.",
        contexts=["Sea.", "Fog.", "Anna lit it."],
    )
    report = evaluate([sample], ContextUtilization(), judge=judge)
    assert report.scores("context_utilization") == [pytest.approx(1 / 3)]
    (diagnosis,) = report.faults
    assert (diagnosis.name, diagnosis.kind) == ("no fault found", "fine")
    assert diagnosis.ranked_low


@pytest.mark.parametrize(
    ("codes", "fault"),
    [
        (("no_claim", "no_claim"), "no fault found"),  # a greeting
        (("no_claim", "no_citations"), "no fault found"),
        (("no_claim", "missing"), "input missing"),
    ],
)
def test_an_answer_that_claims_nothing_lacks_no_input(codes, fault):
    results = {
        name: Undefined(metric=name, reason="so it is", code=code)
        for name, code in zip("ab", codes, strict=True)
    }
    sample = Sample(question="Hi", answer="Hello!", contexts=["Anna lit it."])
    row = SampleResult(index=0, sample=sample, results=results)
    (diagnosis,) = Report([row], RunFacts()).faults
    assert diagnosis.name == fault
