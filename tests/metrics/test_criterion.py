"""A criterion in one sentence is a metric like any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import Body, LoopbackServer

from ragmetrics_core import (
    Criterion,
    OpenAICompatibleModel,
    Report,
    Sample,
    ScriptedJudge,
    decide,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.metrics.criterion import Meets
from ragmetrics_core.testing import MetricContract

SENTENCE = "The answer addresses the customer politely."
LINE = f"polite: {SENTENCE}"


def is_polite(question: Any) -> dict[str, Any]:
    met = "please" in question["answer"]
    return {"reason": "It says please." if met else "It orders.", "met": int(met)}


polite = Criterion("polite", SENTENCE)
by_word = ScriptedJudge({Meets: is_polite})


class TestPolite(MetricContract):
    metric = polite
    reads = frozenset({"question"})

    def good(self) -> tuple[Sample, ScriptedJudge]:
        return Sample(answer="Sit, please."), by_word

    def bad(self) -> tuple[Sample, ScriptedJudge]:
        return Sample(answer="Sit."), by_word

    def test_an_unanswered_question_fails(self):
        """It fails but for a judge that cannot judge criteria at all."""
        unreadable = ScriptedJudge({Meets: {"reason": "", "met": 2}})
        assert self.outcome(self.good()[0], unreadable).status == "failed"
        result = self.outcome(self.good()[0], ScriptedJudge({}))
        assert (result.status, result.code) == ("undefined", "other")


@pytest.mark.parametrize(
    ("verdicts", "score", "reason"),
    [
        ([1, 1, 0, 1, 1], 0.8, "yes"),
        ([0, 1, 0, 0, 0], 0.2, "no"),
        ([1, 0], 0.5, "no"),  # a half is no
    ],
)
def test_the_score_is_the_share_of_yes_and_the_reason_that_of_the_verdict(
    verdicts, score, reason
):
    replies = [{"reason": "yes" if met else "no", "met": met} for met in verdicts]
    metric = Criterion("polite", SENTENCE, polls=len(verdicts))
    result = metric.score(answer="Sit.", judge=ScriptedJudge({Meets: replies}))
    assert (result.value, result.reason) == (score, reason)
    assert result.evidence is not None
    assert result.evidence.verdicts() == [
        f"{'met' if score > 0.5 else 'not met'}, {score:.2f}"
    ]


@pytest.mark.parametrize("method", ["polls", "probability"])
def test_a_model_is_shown_what_the_criterion_reads(method, loopback_server):
    def reply(body: Body) -> str:
        assert '"met"' in json.dumps(body)
        return '{"reason": "It is.", "met": 1}' if method == "polls" else '{"met": 1}'

    server = loopback_server(reply, probability=0.75)
    metric = Criterion(
        "short",
        "It is no longer than it was.",
        reads=["answer", "contexts"],
        method=method,
    )
    report = evaluate(
        [
            {
                "question": "Why?",
                "contexts": ["Because."],
                "answer": "So.",
                "reference": "X",
            }
        ],
        [metric],
        judge=OpenAICompatibleModel(server.base_url, "m"),
    )
    [score] = report.scores("short")
    assert score == (1.0 if method == "polls" else pytest.approx(0.75, abs=0.01))
    shown = server.requests[0].body["messages"][-1]["content"]
    for text in ("Why?", "Because.", "So.", "It is no longer than it was."):
        assert text in shown
    assert ">\nX\n<" not in shown  # nobody said that it reads the reference


def test_what_it_reads_is_needed():
    metric = Criterion("near", SENTENCE, reads=["answer", "contexts", "reference"])
    for row, reason in (
        ({"answer": "a", "contexts": ["c"]}, "no reference"),
        ({"answer": "a", "reference": "r"}, "no contexts"),
        ({"answer": "a", "contexts": [], "reference": "r"}, "no context was found"),
    ):
        result = metric.score(**row, judge=by_word)
        assert result.status == "undefined"
        assert reason in result.reason


def test_words_cannot_judge_it():
    report = evaluate([{"answer": "Sit."}], [polite], judge="lexical")
    result = report[0].results["polite"]
    assert result.status == "undefined"
    assert "compares words" in result.reason
    assert "name a model" in result.reason


def test_its_signature_tells_sentences_and_what_they_read_apart():
    others = [
        Criterion("polite", "Another."),
        Criterion("polite", SENTENCE, reads=["question"]),
        Criterion("polite", SENTENCE, method="probability"),
        Criterion("polite", SENTENCE, polls=3),
    ]
    assert len({str(metric.signature) for metric in (polite, *others)}) == 5
    assert Criterion.of_line(LINE).signature == polite.signature


@pytest.mark.parametrize("line", ["polite", "polite:", ": It is polite."])
def test_a_line_without_a_name_or_a_sentence_is_refused(line):
    with pytest.raises(SettingError, match="NAME: SENTENCE"):
        Criterion.of_line(line)


@pytest.fixture
def model(
    loopback_server: Callable[..., LoopbackServer], monkeypatch: pytest.MonkeyPatch
) -> LoopbackServer:
    """A server that finds every answer polite but the second."""

    def reply(body: Body) -> str:
        if '"met"' not in json.dumps(body):
            return '{"reason": "", "supported": 1, "claims": 1, "unsupported": []}'
        return json.dumps(
            {"reason": "By tone.", "met": int("Go." not in json.dumps(body))}
        )

    server: LoopbackServer = loopback_server(reply)
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    monkeypatch.setenv("RAGMETRICS_JUDGE", "gpt-4o-mini")
    return server


ROWS = [{"answer": answer, "contexts": ["Sit."]} for answer in ("Sit, please.", "Go.")]


@pytest.mark.parametrize("where", ["option", "file"])
def test_the_command_measures_and_gates_it(where, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    command = ["evaluate", "a.jsonl", "--no-store", "--out", "r.jsonl", "--no-files"]
    command += ["--metrics", "adherence", "--set", "polite.polls=1"]
    if where == "option":
        command += ["--criterion", LINE]
    else:
        Path("ragmetrics.toml").write_text(f"criteria = [{json.dumps(LINE)}]")
    assert main([*command, "--fail-under", "polite=0.6"]) == 1
    report = Report.from_jsonl("r.jsonl")
    assert report.scores("polite") == [1.0, 0.0]
    assert report.scores("context_adherence") == [1.0, 1.0]
    assert report.run.questions["polite"] == SENTENCE
    assert decide("polite=0.5", report).outcome == "passed"
    assert decide("share(polite>0.5)=0.6", report).outcome == "failed"
    assert main([*command, "--fail-under", "polite=0.5"]) == 0


def test_two_criteria_of_one_name_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"answer": "a"}\n')
    two = ["--criterion", LINE, "--criterion", "polite: Another."]
    assert main(["evaluate", "a.jsonl", *two]) == 2
    assert "two metrics are named polite" in capsys.readouterr().err
