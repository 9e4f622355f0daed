"""Each mistake that people make gets a message which says what is wrong and what to do.

One table for the command line, one for Python. A row is a mistake as somebody makes it,
and what its message has to hold.
"""

import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import Fault, LoopbackServer

from ragmetrics_core import ContextAdherence, Sample, evaluate
from ragmetrics_core.capture import BackgroundEvaluator, WatchSettings
from ragmetrics_core.cli.main import main
from ragmetrics_core.reporting.report import Sink

ROW = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna.",
    "lang": "en",
}
FILES = {
    "rows.jsonl": json.dumps(ROW) + "\n",
    "other.jsonl": json.dumps({"frage": "Wer?", "ctx": ["Anna."], "answer": "Anna."}),
    "empty.jsonl": "",
    "header.csv": "question,answer,contexts\n",
    "a.csv": "question,answer,contexts\nq,a,c\n",
    "b.csv": "question,answer,contexts\nq,b,c\n",
    "no_contexts.csv": "question,answer,chunks_found\nWho?,Anna.,Anna lit it.",
    "cut_list.csv": 'question,answer,contexts\nWho?,Anna.,"[""one"", ""tw"',
    "output.jsonl": json.dumps(
        {"contexts": ["A."], "answer": None, "output_text": "A"}
    ),
    "objects.jsonl": json.dumps({**ROW, "contexts": "[Document(id=1, text='a')]"}),
    "rivals.jsonl": json.dumps({"question": "Who?", "answer": "a", "response": "b"}),
    "plain.jsonl": f"{json.dumps({**ROW, 'contexts': 'Anna.'})}\n{json.dumps(ROW)}",
    "declines.jsonl": json.dumps({**ROW, "answer": "I do not know."}),
    "broken.jsonl": "{]\n3",
    "notes.docx": "x",
}
_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with files, and no key and no judge in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "store.sqlite"))
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE", *_OPENAI):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        Path(name).write_text(text)


EVALUATE = "evaluate rows.jsonl "
MISTAKES: list[tuple[str, list[str]]] = [
    # names
    ("dataset discret docs", ["no 'discret'", "did you mean 'discrete'?"]),
    ("store prun", ["no 'prun'", "did you mean 'prune'?"]),
    ("card --dat x", ["no option --dat", "did you mean '--data'?"]),
    (EVALUATE + "--lim 3", ["no option --lim", "did you mean '--limit'?"]),
    ("evalute rows.jsonl", ["no 'evalute'", "did you mean 'evaluate'?"]),
    ("dataset scroe", ["no 'scroe'", "did you mean 'score'?"]),
    (EVALUATE + "--jugde lexical", ["no option --jugde", "did you mean '--judge'?"]),
    ("report rows.jsonl --psh mlflow", ["no option --psh", "did you mean '--push'?"]),
    (EVALUATE + "--metrics adherance", ["did you mean 'context_adherence'?"]),
    (EVALUATE + "--metrics faithfulness", ["did you mean 'context_adherence'"]),
    (EVALUATE + "--metrics relevance", ["did you mean 'answer_relevance'"]),
    (EVALUATE + "--fail-under adherance=1", ["did you mean 'context_adherence'?"]),
    (EVALUATE + "--fail-under adherence=1@lnag", ["'lnag'", "did you mean 'lang'?"]),
    (EVALUATE + "--cluster lnag", ["'lnag'", "did you mean 'lang'?"]),
    (EVALUATE + "--fail-under adherence", ["got 'adherence'", "adherence=0.8"]),
    (
        EVALUATE + "--set adherence.pols=3",
        ["pols: no such setting", "did you mean 'polls'?"],
    ),
    (EVALUATE + "--question-column qestion", ["did you mean 'question'?"]),
    # columns
    (EVALUATE + "--answer-column reply", ["no column 'reply'", "the row has:"]),
    (
        "evaluate a.csv --metrics recall",
        ["context_recall: no reference", "--reference-column NAME"],
    ),
    ("evaluate no_contexts.csv", ["answer, chunks_found", "--contexts-column NAME"]),
    ("evaluate rivals.jsonl", ["'answer' and 'response'", "--answer-column"]),
    ("evaluate output.jsonl", ["no answer", "output_text", "--answer-column NAME"]),
    ("evaluate objects.jsonl", ["by str() of Python", "write the whole list as JSON"]),
    ("evaluate cut_list.csv", ["begins as a list", "write the whole list as JSON"]),
    # files
    ("evaluate broken.jsonl", ["1: not JSON", "2: a row must be an object"]),
    ("evaluate notes.docx", ["unknown kind of file '.docx'", ".jsonl"]),
    ("evaluate missing.jsonl", ["missing.jsonl: no such file"]),
    ("evaluate row.jsonl", ["row.jsonl: no such file (did you mean 'rows.jsonl'?)"]),
    ("evaluate nowhere/row.jsonl", ["nowhere/row.jsonl: no such file\n"]),
    ("evaluate empty.jsonl", ["empty.jsonl holds no rows", "write it again"]),
    ("evaluate empty.jsonl --dry-run", ["empty.jsonl holds no rows", "write it again"]),
    ("evaluate header.csv", ["header.csv holds no rows", "write it again"]),
    (
        "evaluate other.jsonl",
        ["are frage, ctx", "--question-column NAME", "--contexts-column"],
    ),
    ("compare a.csv b.csv", ["a.csv", "no results", "ragmetrics evaluate FILE --out"]),
    ("evaluate --traces a.csv", ["a.csv is a table", "leave out --traces"]),
    ("evaluate --traces empty.jsonl", ["empty.jsonl holds no rows"]),
    ("evaluate --traces rows.jsonl", ["rows.jsonl", "no spans in a known form"]),
    (
        "report rows.jsonl --push mlflow",
        ["rows.jsonl", "no results of ragmetrics", "ragmetrics evaluate FILE --out"],
    ),
    # limits
    (EVALUATE + "--max-cost 0", ["--max-cost: ", "greater than 0, got 0"]),
    (EVALUATE + "--max-calls 0", ["--max-calls: ", "greater than 0, got 0"]),
    (EVALUATE + "--deadline -1", ["--deadline: ", "greater than 0, got -1"]),
    ("card --data x --limit many", ["whole number of at least 1; got 'many'"]),
    ("card --data x --limit 0", ["--limit: needs a whole number", "got '0'"]),
    (EVALUATE + "--concurrency -1", ["number of at least 1; got '-1'"]),
    (EVALUATE + "--max-cost cheap", ["--max-cost: needs a number; got 'cheap'"]),
    (EVALUATE + "--max-cost nan", ["--max-cost: needs a number; got 'nan'"]),
    (EVALUATE + "--deadline inf", ["--deadline: needs a number; got 'inf'"]),
    (EVALUATE + "--timeout 0", ["--timeout: needs a number above 0; got '0'"]),
    (EVALUATE + "--timeout -5", ["--timeout: needs a number above 0; got '-5'"]),
    ("store prune --older-than -3d", ["--older-than: expected", "begins with a dash"]),
    (EVALUATE + "--min-scored 95", ["needs a number from 0 to 1; got '95'"]),
    (EVALUATE + "--store x --no-store", ["not allowed with argument --store"]),
    # addresses and keys
    (
        EVALUATE + "--judge openai-compatible/m --api-base http://127.0.0.1:PORT",
        ["http://127.0.0.1:PORT", "could not be reached", "check the address"],
    ),
    (
        EVALUATE + "--judge gpt-4o-mini",
        ["no key was given for gpt", "set OPENAI_API_KEY"],
    ),
    (EVALUATE + "--judge openai/new", ["no key was given", "set OPENAI_API_KEY"]),
]


@pytest.mark.parametrize(("command", "words"), MISTAKES, ids=lambda value: str(value))
def test_mistakes_on_the_command_line(command, words, capsys):
    with socket.socket() as listening:  # nothing listens at its port any more
        listening.bind(("127.0.0.1", 0))
        port = str(listening.getsockname()[1])
    try:
        code = main(command.replace("PORT", port).split())
    except SystemExit as ended:  # argparse ends the process
        code = int(str(ended.code))
    told = capsys.readouterr().err.replace(port, "PORT")
    assert code == 2
    assert [word for word in words if word not in told] == [], told
    assert "Traceback" not in told
    assert "HTTP 500" not in told
    assert len(told.splitlines()) <= 3, "a message is read, a screen full is not"


@pytest.mark.parametrize("command", ["", "dataset"])
def test_a_command_without_its_command_shows_help(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(command.split())
    told = capsys.readouterr()
    assert told.out.startswith(f"usage: ragmetrics {command}".strip())
    assert "COMMAND" in told.out
    assert told.err == ""


def test_one_text_as_contexts_is_one_context(capsys):
    assert main(["evaluate", "plain.jsonl", "--metrics", "adherence"]) == 0
    assert "2 of 2" in capsys.readouterr().out


def test_no_column_is_asked_for_where_none_is_missing(capsys):
    assert main(["evaluate", "declines.jsonl", "--metrics", "adherence"]) == 1
    told = capsys.readouterr()
    assert "not scored: 1 declined" in told.out
    assert "-column" not in told.out + told.err


@pytest.mark.parametrize("name", ["contexts", "context"])
def test_one_text_with_a_bar_is_scored(name):
    fields = {name: "a | b"}
    result = ContextAdherence().score(**fields, answer="a", judge="lexical")
    assert result.status == "scored"


def test_a_target_that_is_misspelt(capsys):
    report = evaluate([ROW], "adherence", judge="lexical")
    report.to_jsonl("results.jsonl")
    assert main(["report", "results.jsonl", "--push", "langfus"]) == 2
    assert "no target 'langfus' (did you mean 'langfuse'?)" in capsys.readouterr().err


def _evaluated(**arguments: Any) -> object:
    return evaluate([ROW], **{"judge": "lexical", "progress": False, **arguments})


def _adherence(**fields: Any) -> object:
    return ContextAdherence().score(**fields, judge="lexical")


def _scored(sample: Any) -> object:
    return ContextAdherence().score(sample, judge="lexical")


IN_PYTHON: list[tuple[str, Callable[[], object], list[str]]] = [
    ("setting", lambda: ContextAdherence(pols=3), ["did you mean 'polls'?"]),  # type: ignore[call-arg]  # the mistake
    ("argument", lambda: _evaluated(metric="adherence"), ["did you mean 'metrics'?"]),
    ("near a column", lambda: _evaluated(anwser_column="a"), ["'answer_column'?"]),
    (
        "file",
        lambda: evaluate("rows.jsonl"),
        ["got one str", "read the file first", "ragmetrics evaluate FILE"],
    ),
    (
        "tables",
        lambda: evaluate(type("DatasetDict", (dict,), {})(train=[ROW], test=[])),
        ["got one DatasetDict", "choose one of its tables: train, test"],
    ),
    ("one row", lambda: evaluate(ROW), ["must be several", "got one dict"]),
    ("field", lambda: _adherence(anser="x"), ["anser", "use question, contexts"]),
    (
        "a number",
        lambda: _adherence(contexts=[7], answer="x"),
        ["contexts: number 1 must be a text", "found int"],
    ),
    ("a text", lambda: _scored("text"), ["a Sample", "score(question="]),
    ("a row", lambda: _scored(ROW), ["a Sample", "evaluate()"]),
    ("no key", lambda: _evaluated(judge="gpt-4o-mini"), ["set OPENAI_API_KEY"]),
]


@pytest.mark.parametrize(
    ("mistake", "words"),
    [row[1:] for row in IN_PYTHON],
    ids=[row[0] for row in IN_PYTHON],
)
def test_mistakes_in_python(mistake, words):
    from ragmetrics_core.data import RagMetricsError

    with pytest.raises(RagMetricsError) as raised:
        mistake()
    told = str(raised.value)
    assert [word for word in words if word not in told] == [], told


def test_columns_that_nobody_read_are_named_in_python(caplog):
    with caplog.at_level(logging.WARNING, logger="ragmetrics_core"):
        evaluate([{"ctx": ["Anna."], "answer": "Anna."}], judge="lexical")
    assert "no row has question or contexts or reference" in caplog.text
    assert "not recognised: ctx" in caplog.text
    assert "contexts_column=" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="ragmetrics_core"):
        evaluate([{**ROW, "ctx": 1}], judge="lexical")
    assert "not recognised" not in caplog.text, "metrics apply without that column"


def _told(capsys: pytest.CaptureFixture[str], url: str) -> tuple[int, str]:
    judge = ["--judge", "openai-compatible/lama", "--api-base", url]
    code = main(["evaluate", "rows.jsonl", "--metrics", "adherence", *judge])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).split())


@pytest.mark.parametrize("provider_code", ["model_not_found", "DeploymentNotFound"])
def test_a_model_that_the_own_endpoint_does_not_know(provider_code, capsys):
    unknown = Fault(status=404, code=provider_code)
    with LoopbackServer(faults=lambda _: unknown) as server:
        code, told = _told(capsys, server.base_url)
        assert code == 2
        assert f"no model openai-compatible/lama at {server.base_url}" in told
        assert f"(HTTP 404, {provider_code}" in told
        assert f"stand at {server.base_url}/models" in told


def test_prose_instead_of_json(capsys):
    with LoopbackServer(lambda _: "It looks fine to me.") as server:
        code, told = _told(capsys, server.base_url)
    assert code == 1
    assert "the reply of openai-compatible/lama cannot be used" in told
    assert "take a model that keeps to a form" in told


class Unmended(Sink):
    """A sink of a user's that does not work."""

    def write(self, result: object) -> None:
        raise ValueError(f"secret {result}")

    def flush(self) -> None:
        """Nothing is kept back."""


def test_a_sink_that_raises_is_named(caplog):
    background = BackgroundEvaluator(
        lambda sample: [sample],
        ["adherence"],
        "lexical",
        settings=WatchSettings(sinks=[Unmended()]),
    )
    background.record(Sample(contexts=["Anna lit it."], answer="Anna lit it."))
    assert background.stop(timeout=30)
    assert background.problems.counts == {"Unmended: ValueError": 1}
    assert "the sink Unmended raised ValueError in write (" in caplog.text
    assert "secret" not in caplog.text
