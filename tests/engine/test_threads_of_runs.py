"""How many threads a run needs: none per sample."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, OpenAICompatibleModel, Sample, evaluate

SAMPLES = [
    Sample(contexts=["Paris is the capital."], answer=f"Paris, {number}.")
    for number in range(200)
]
REPLY = '{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
CONCURRENCY = 4


@contextmanager
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads were alive whenever one had been started, apart from those that serve connections."""
    alive: list[int] = []
    start = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        start(thread)
        if "loopback-server" not in thread.name:
            alive.append(threading.active_count())

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", counted)
        yield alive


def run(judge: Any, samples: list[Sample] = SAMPLES) -> None:
    metrics = [ContextAdherence(polls=1)]
    report = evaluate(
        samples, metrics, judge=judge, concurrency=CONCURRENCY, store=None
    )
    assert len(report.scores("context_adherence")) == len(samples)


@pytest.mark.nightly
def test_judges_of_the_core_start_none_per_sample(loopback_server, monkeypatch):
    """The server's threads, one per connection, are not theirs."""
    server = loopback_server(lambda body: REPLY)
    with started(monkeypatch) as alive:
        run("lexical")
    assert len(alive) <= 2
    with started(monkeypatch) as alive:
        run(OpenAICompatibleModel(server.base_url, "test", api_key="k"))
    assert len(server.requests) == len(SAMPLES)
    assert len(alive) <= 2
