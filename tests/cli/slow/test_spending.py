"""The options of the command line for stored replies and limits.

Token budgets of the prompts.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from loopback import LoopbackServer

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    LiteLLMModel,
    LLMJudge,
    OpenAICompatibleModel,
    RetrievalAccuracy,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.reply_store import default_path

Evaluate = Callable[..., int]


@pytest.fixture
def server(loopback_server: Callable[..., LoopbackServer]) -> LoopbackServer:
    return loopback_server(reply=lambda body: '{"useful": 1, "reason": "By digest."}')


@pytest.fixture
def command(server: LoopbackServer, tmp_path: Path) -> Evaluate:
    """Runs ``ragmetrics evaluate`` on three rows.

    Returns the number of calls that it made.
    """
    path = tmp_path / "rows.jsonl"
    rows = [
        {"question": f"q {number}", "contexts": ["a", "b"], "answer": "a"}
        for number in range(3)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))

    def run(*options: str, code: int = 0) -> int:
        before = len(server.requests)
        judge = [
            "--judge",
            "openai-compatible/test",
            "--api-base",
            server.base_url,
            "--metrics",
            "utilization",
        ]
        assert main(["evaluate", str(path), *judge, *options]) == code
        return len(server.requests) - before

    return run


def test_a_second_run_pays_nothing_and_the_first_names_the_file(
    command, capsys, caplog
):
    assert command() == 6
    assert str(default_path()) in caplog.text
    caplog.clear()
    assert command("--explain") == 0
    assert "stored replies: all 6" in capsys.readouterr().out
    assert str(default_path()) not in caplog.text


@pytest.mark.nightly
def test_fresh_asks_anew_and_no_store_keeps_nothing(command, tmp_path):
    assert command("--no-store") == 6
    assert not default_path().exists()
    assert command("--no-store") == 6
    named = tmp_path / "named.sqlite"
    assert command("--store", str(named)) == 6
    assert command("--store", str(named), "--fresh") == 6
    assert command("--store", str(named)) == 0
    assert not default_path().exists()


@pytest.mark.nightly
def test_after_an_interrupted_fresh_run_the_new_replies_are_used(
    server, command, tmp_path
):
    store, out = (
        ["--store", str(tmp_path / "s.sqlite"), "--concurrency", "1"],
        tmp_path / "out.jsonl",
    )

    def reasons(*options: str) -> list[str]:
        assert command(*store, "--out", str(out), *options) == 0
        return [
            word
            for word in ("old", "new", "newest")
            for _ in range(out.read_text().count(f'"{word}"'))
        ]

    server.reply = lambda body: '{"useful": 1, "reason": "old"}'
    assert command(*store) == 6
    server.reply = lambda body: '{"useful": 1, "reason": "new"}'
    assert command(*store, "--fresh", "--max-calls", "4", code=3) == 4
    assert reasons() == ["old"] * 2 + ["new"] * 4
    server.reply = lambda body: '{"useful": 1, "reason": "newest"}'
    assert command(*store, "--fresh") == 6  # fresh again is paid again
    assert reasons() == ["newest"] * 6


def test_the_variable_names_the_file(command, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "variable.sqlite"))
    assert command() == 6
    assert (tmp_path / "variable.sqlite").exists()
    assert command() == 0
    assert command("--no-store") == 6


def test_the_library_keeps_nothing_unless_told(server, tmp_path, monkeypatch):
    rows = [{"question": "q", "contexts": ["a", "b"], "answer": "a"}]
    monkeypatch.setenv("RAGMETRICS_JUDGE", "openai-compatible/test")
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    metric = ContextUtilization()
    evaluate(rows, [metric])
    metric.score(question="q", contexts=["a", "b"], answer="a")
    assert len(server.requests) == 4
    assert not default_path().exists()
    evaluate(rows, [metric], store=True)
    evaluate(rows, [metric], store=True)
    assert len(server.requests) == 6
    assert default_path().exists()
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "s.sqlite"))
    evaluate(rows, [metric])
    evaluate(rows, [metric])
    assert len(server.requests) == 8
    evaluate(rows, [metric], store=False)
    assert len(server.requests) == 10


def test_a_cap_ends_the_run_and_says_so(command, capsys):
    """Rows are missing: that is not all well, also where no gate is held."""
    assert command("--max-calls", "4", "--concurrency", "1", code=3) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "The results are incomplete: max_calls=4 was reached, after 4 calls" in said
    assert command() == 2  # what was answered is kept


def test_a_cap_that_makes_no_sense_is_explained(command, capsys):
    assert command("--max-cost", "0", code=2) == 0
    assert (
        "--max-cost: Input should be greater than 0, got 0" in capsys.readouterr().err
    )


def test_no_key_enters_the_store(server, command, monkeypatch, tmp_path):
    monkeypatch.setenv("RAGMETRICS_API_KEY", "sk-very-secret")
    assert (
        command(
            "--store", str(tmp_path / "s.sqlite"), "--api-key-env", "RAGMETRICS_API_KEY"
        )
        == 6
    )
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    content = b"".join(file.read_bytes() for file in tmp_path.glob("s.sqlite*"))
    assert b"By digest." in content
    assert b"sk-very-secret" not in content
    assert server.base_url.encode() not in content


SECRET = "sk-very-secret"
SECRETS: dict[str, Callable[[str], ChatModel]] = {
    "api_key": lambda url: OpenAICompatibleModel(url, "test", api_key=SECRET),
    "extra": lambda url: OpenAICompatibleModel(url, "test", extra={"user": SECRET}),
    "litellm": lambda url: LiteLLMModel("openai/test", api_base=url, api_key=SECRET),
}
if find_spec("litellm") is None:
    del SECRETS["litellm"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_enters_the_store_however_it_is_given(kind, server, tmp_path):
    """Neither with a usable reply, nor with one that is forgotten again."""
    server.reply = lambda body: (
        "what?" if "odd" in str(body) else '{"useful": 1, "reason": "kept"}'
    )
    rows = [
        {"question": question, "contexts": ["c"], "answer": "a"}
        for question in ("odd", "even")
    ]
    path = tmp_path / "s.sqlite"
    judge = LLMJudge(SECRETS[kind](server.base_url))
    evaluate(rows, [ContextUtilization()], judge=judge, store=path)
    first = server.requests[0]
    sent = f"{first.path} {first.headers} {first.body}"
    assert SECRET in sent
    content = b"".join(file.read_bytes() for file in tmp_path.glob("s.sqlite*"))
    assert b"kept" in content
    for text in (SECRET, SECRET.encode().hex(), "127.0.0.1"):
        assert text.encode() not in content


# Token budgets


@pytest.fixture(scope="module")
def cost() -> Iterator[ModuleType]:
    path = Path(__file__).parents[3] / "benchmarks" / "cost.py"
    spec = importlib.util.spec_from_file_location("cost_benchmark", path)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


def test_prompts_keep_their_budgets(cost):
    """Five chunks of 300 characters, at four characters a token."""
    assert {len(context.text) for context in cost.SAMPLE.contexts} == {300}
    pointwise, listwise = ContextUtilization(), ContextUtilization(judging="listwise")
    assert cost.recorded(pointwise)[0].prompt_tokens <= 2600
    assert cost.recorded(listwise)[0].prompt_tokens <= 900


def test_prompts_of_a_sample_begin_alike(cost):
    assert cost.common(["abcd", "abce", "xy"]) == 6 / 10
    assert cost.cached(["abcd", "abce", "xy"]) == 3 / 10
    _, polls = cost.recorded(ContextAdherence(), together=False)
    assert len(polls) == 5
    assert cost.common(polls) >= 0.8
    assert cost.common(cost.recorded(RetrievalAccuracy(), logprobs=True)[1]) >= 0.8


def test_a_goal_that_is_missed_is_said_and_ends_with_1(cost, capsys):
    shown = cost.Rows()
    shown.add(
        "a: 1.0 × the ideal", cost.at_most(1.0, 1.05), cost.at_least(80, 80, " %")
    )
    assert shown.code == 0
    shown.add("b: 1.1 × the ideal", cost.at_most(1.1, 1.05))
    shown.add("c: no goal")
    assert shown.code == 1
    assert capsys.readouterr().out.splitlines() == [
        "a: 1.0 × the ideal; goal ≤ 1.05: met; goal ≥ 80 %: met",
        "b: 1.1 × the ideal; goal ≤ 1.05: MISSED",
        "c: no goal",
    ]


@pytest.mark.nightly
def test_the_benchmark_of_costs_meets_its_goals(cost, capsys):
    assert cost.main() == 0
    printed = capsys.readouterr().out
    assert printed.count(": met") >= 4


def test_environment_is_safe():
    assert "XDG_CACHE_HOME" in os.environ
    assert Path(os.environ["XDG_CACHE_HOME"]) in default_path().parents
