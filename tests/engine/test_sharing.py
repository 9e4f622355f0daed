"""What all uses of one judge's name share: the first call, replies, slots; and what outlives a run."""

import asyncio
from collections.abc import Callable
from threading import Thread

import pytest
from loopback import Fault, LoopbackServer

from ragmetrics_core import ContextUtilization, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import AuthenticationFailed, JudgeUnavailable

ROWS = [
    {"question": f"q {number}", "contexts": ["a", "b"], "answer": "a"}
    for number in range(30)
]
FIELDS = {"question": "q", "contexts": ["c"], "answer": "a"}
Serve = Callable[..., LoopbackServer]


@pytest.fixture
def serve(loopback_server: Serve, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A server that ``openai/…`` is found at."""
    monkeypatch.delenv("RAGMETRICS_STORE", raising=False)

    def made(**settings: object) -> LoopbackServer:
        server = loopback_server(**settings)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
        return server

    return made


def test_two_hundred_scores_with_a_wrong_key_at_once_cost_few_requests(serve):
    server = serve(faults=lambda _: Fault(401, code="invalid_api_key"))

    async def run() -> list[object]:
        metric = ContextUtilization()
        asked = (
            metric.ascore(**{**FIELDS, "question": f"q {n}"}, judge="openai/wrong-key")
            for n in range(200)
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    assert {type(outcome) for outcome in asyncio.run(run())} == {AuthenticationFailed}
    assert len(server.requests) < 20  # those that begin after a refusal ask again


def test_each_run_asks_again_what_an_earlier_one_was_refused(serve):
    refusing = [Fault(404, code="model_not_found")]
    server = serve(faults=lambda _: refusing[0] if refusing else None)
    for n_requests in (1, 2):
        with pytest.raises(JudgeUnavailable):
            evaluate(ROWS, [ContextUtilization()], judge="openai/not-yet-there")
        assert len(server.requests) == n_requests
    refusing.clear()  # the model was installed
    report = evaluate(ROWS, [ContextUtilization()], judge="openai/not-yet-there")
    assert None not in report.scores("context_utilization")


def test_three_equal_scores_with_a_store_cost_the_requests_of_one(
    serve, tmp_path, monkeypatch
):
    server = serve()
    monkeypatch.setenv("RAGMETRICS_STORE", str(tmp_path / "replies.sqlite"))
    values = {
        ContextUtilization().score(**FIELDS, judge="openai/stored").value
        for _ in range(3)
    }
    assert len(values) == 1
    assert len(server.requests) == 1


def test_runs_at_the_same_time_share_slots_and_calls(serve):
    server = serve(latency=0.02)

    def run() -> None:
        evaluate(ROWS, [ContextUtilization()], judge="openai/shared", concurrency=5)

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.most_in_flight <= 5
    assert len(server.requests) < 4 * 60


def test_a_cap_on_money_needs_a_price(serve, tmp_path, capsys):
    server = serve()
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "q", "contexts": ["c"], "answer": "a"}\n')
    command = [
        "evaluate",
        str(rows),
        "--metrics",
        "utilization",
        "--max-cost",
        "1",
        "--no-store",
    ]
    assert main([*command, "--judge", "openai/in-no-list"]) == 2
    assert "the price of openai/in-no-list is not known" in capsys.readouterr().err
    assert server.requests == []
    assert main([*command, "--judge", "gpt-4o-mini"]) == 0
