"""Each typical mistake is told: what was given, what is needed, what to type."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import RagMetricsError, RowError

GOOD = {"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}
FILES = {
    "good.jsonl": json.dumps(GOOD),
    "output_text.jsonl": json.dumps({**GOOD, "answer": None, "output_text": "Anna."}),
    "plain.jsonl": f"{json.dumps({**GOOD, 'contexts': 'Anna.'})}\n{json.dumps(GOOD)}",
    "declines.jsonl": json.dumps({**GOOD, "answer": "I do not know."}),
    "german.jsonl": json.dumps({"frage": "Wer?", "antwort": "Anna."}),
    "no_contexts.csv": "question,answer,chunks_found\nWho?,Anna.,Anna lit it.",
    "joined.csv": "question,answer,contexts\nWho?,Anna.,Anna lit it.|Rain fell.",
    "rivals.jsonl": json.dumps({"question": "Who?", "answer": "a", "response": "b"}),
    "str_of_objects.jsonl": json.dumps(
        GOOD | {"contexts": "[Document(id=1, text='a')]"}
    ),
    "cut_list.csv": 'question,answer,contexts\nWho?,Anna.,"[""one"", ""tw"',
    "empty.jsonl": "",
    "broken.jsonl": "{]\n3",
    "notes.docx": "x",
}
# what was typed behind "ragmetrics", and what the message says: what was given, and
# what to type
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "a table without contexts": (
        "evaluate no_contexts.csv",
        [
            "its columns are question, answer, chunks_found",
            "--contexts-column chunks_found",
        ],
    ),
    "contexts joined in a cell": (
        "evaluate joined.csv",
        ["column 'contexts'", "may be 2 contexts or one", "--contexts-column contexts"],
    ),
    "a server that does not run": (
        "evaluate good.jsonl --judge openai-compatible/m --api-base http://127.0.0.1:PORT",
        ["http://127.0.0.1:PORT", "could not be reached", "check the address"],
    ),
    "names of another language": (
        "evaluate german.jsonl",
        ["its columns are frage, antwort", "--question-column NAME"],
    ),
    "two columns for one field": (
        "evaluate rivals.jsonl",
        ["'answer' and 'response'", "--answer-column"],
    ),
    "objects as one text": (
        "evaluate str_of_objects.jsonl",
        ["by str() of Python objects", "write the whole list as JSON"],
    ),
    "a list that was cut off": (
        "evaluate cut_list.csv",
        ["begins as a list and cannot be read", "write the whole list as JSON"],
    ),
    "no answer column": (
        "evaluate output_text.jsonl",
        ["no answer", "--answer-column output_text"],
    ),
    "no such column": (
        "evaluate good.jsonl --answer-column reply",
        ["no column 'reply'", "the row has: question, contexts, answer"],
    ),
    "no such file": ("evaluate missing.jsonl", ["missing.jsonl: no such file"]),
    "an empty file": ("evaluate empty.jsonl", ["empty.jsonl holds no rows"]),
    "lines that are no rows": (
        "evaluate broken.jsonl",
        ["line 1: not JSON", "line 2: a row must be an object"],
    ),
    "another kind of file": (
        "evaluate notes.docx",
        ["unknown kind of file '.docx'", ".jsonl"],
    ),
    "another library's metric": (
        "evaluate good.jsonl --metrics faithfulness",
        ["no metric is named 'faithfulness'", "did you mean 'context_adherence'"],
    ),
    "a metric that two of ours may be": (
        "evaluate good.jsonl --metrics relevance",
        ["no metric is named 'relevance'", "did you mean 'answer_relevance'"],
    ),
    "a metric without its input": (
        "evaluate good.jsonl --metrics recall",
        ["context_recall: no reference", "--reference-column NAME"],
    ),
    "no key": (
        "evaluate good.jsonl --judge gpt-4o-mini",
        ["no key was given for gpt-4o-mini", "set OPENAI_API_KEY"],
    ),
    "a gate without a threshold": (
        "evaluate good.jsonl --fail-under adherence",
        ["got 'adherence'", "adherence=0.8"],
    ),
    "a misspelt command": (
        "evaluat good.jsonl",
        ["'evaluat'", "did you mean 'evaluate'"],
    ),
    "samples where results belong": (
        "report good.jsonl",
        ["no results of ragmetrics begin here", "ragmetrics evaluate FILE --out"],
    ),
    "a setting that is not there": (
        "evaluate good.jsonl --set adherence.pols=3",
        ["pols: no such setting", "did you mean 'polls'"],
    ),
}


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "store.sqlite"))
    for name, text in FILES.items():
        Path(name).write_text(text)


def free_port() -> str:
    """Return a port at which nothing listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_command_says_what_to_type(
    mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, told = COMMANDS[mistake]
    port = free_port()
    try:
        code = main(typed.replace("PORT", port).split())
    except SystemExit as ended:  # argparse ends so
        code = int(ended.code or 0)
    assert code == 2
    message = capsys.readouterr().err
    for part in told:
        assert part.replace("PORT", port) in message
    assert "Traceback" not in message
    assert "HTTP 500" not in message


def test_one_text_as_contexts_is_one_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", "plain.jsonl", "--metrics", "adherence"]) == 0
    assert "2 of 2" in capsys.readouterr().out


def test_no_column_is_asked_for_where_none_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", "declines.jsonl", "--metrics", "adherence"]) == 2
    message = capsys.readouterr().err
    assert "the answer declines" in message
    assert "-column" not in message


CALLS: dict[str, tuple[Any, list[str]]] = {
    "a path for rows": (
        lambda: evaluate("rows.jsonl"),
        ["got one str", "ragmetrics evaluate FILE"],
    ),
    "a dict of tables": (
        lambda: evaluate(type("DatasetDict", (dict,), {})(train=[GOOD], test=[])),
        ["got one DatasetDict", "choose one of its tables: train, test"],
    ),
    "one row for rows": (lambda: evaluate(GOOD), ["must be several", "got one dict"]),
    "a misspelt argument": (
        lambda: evaluate([GOOD], question_colum="q"),  # type: ignore[call-arg]
        ["'question_colum'", "did you mean 'question_column'"],
    ),
    "a misspelt field": (
        lambda: ContextAdherence().score(anser="x", judge="lexical"),
        ["no field of a sample is named anser", "use question, contexts, answer"],
    ),
    "a number for contexts": (
        lambda: ContextAdherence().score(contexts=[7], answer="x", judge="lexical"),
        ["contexts: number 1 must be a text", "found int"],
    ),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_a_call_says_what_to_write(mistake: str) -> None:
    call, told = CALLS[mistake]
    with pytest.raises(RagMetricsError) as raised:
        call()
    for part in told:
        assert part in str(raised.value)


def test_one_text_with_a_bar_is_one_context_in_score() -> None:
    result = ContextAdherence().score(contexts="a | b", answer="a", judge="lexical")
    assert result.status == "scored"
    with pytest.raises(RowError, match="may be 2 contexts or one"):
        ContextAdherence().score(context="a | b", answer="a", judge="lexical")
