"""`capture` and `watch`: what runs in a block or in the process, with nothing passed to any chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.tracers.schemas import Run
from langsmith.schemas import RunBase

from langchain_ragmetrics.capturing.trees import Finding, assembler
from langchain_ragmetrics.judges import as_judge
from langchain_ragmetrics.process import LISTENERS
from ragmetrics_core import Limits, Sample
from ragmetrics_core.capturing import (
    Captured,
    FrontDoor,
    Given,
    Listener,
    Metrics,
    Overrides,
    Redact,
    SampleResult,
    Source,
    Turns,
    Watcher,
)


def _assembler(where: Overrides, listener: Listener) -> Turns[RunBase]:
    return assembler(where if isinstance(where, Finding) else Finding(**vars(where)), listener.problems)


class _Door(FrontDoor[Run]):
    """LangChain's front door has one argument more."""

    @contextmanager
    def capture(
        self,
        *,
        question: str | None = None,
        reference: str | tuple[str, ...] | list[str] | None = None,
        id: str | None = None,  # noqa: A002  # the name of the sample's field
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        question_from: Source | None = None,
        contexts_from: Source | None = None,
        answer_from: Source | None = None,
        context_tools: Collection[str] | None = None,
        build: Callable[[Any], Iterable[Sample]] | None = None,
        redact: Redact | None = None,
        max_samples: int | None = None,
        all_threads: bool = False,
        every_turn: bool = False,
    ) -> Iterator[Captured[Run]]:
        """Capture what the application does inside the block; nothing of it is changed.

        Arguments are those of every adapter (``ragmetrics_core.capturing.FrontDoor.capture``), and one more: with
        ``every_turn=True`` a run that called a model is a sample even where nothing was retrieved. Keys and paths
        lead into the inputs or outputs of the root; ``metadata={"ragmetrics": {"reference": …}}`` in the config of a
        call says the same things for that call.
        """
        where = Finding(question_from, contexts_from, answer_from, context_tools, build, every_turn)
        given = Given(question, reference, id, dict(metadata or {}), conversation)
        with self._captured(where, given, redact, max_samples, all_threads) as captured:
            yield captured

    def watch(
        self,
        metrics: Metrics = None,
        judge: object = None,
        *,
        sample_rate: float = 1.0,
        max_queue: int | None = 1000,
        keep: bool = False,
        on_result: Callable[[SampleResult], None] | None = None,
        concurrency: int = 8,
        limits: Limits | None = None,
        redact: Redact | None = None,
        question_from: Source | None = None,
        contexts_from: Source | None = None,
        answer_from: Source | None = None,
        context_tools: Collection[str] | None = None,
        build: Callable[[Any], Iterable[Sample]] | None = None,
        every_turn: bool = False,
    ) -> Watcher[Run]:
        """Judge what the whole process does from now on, in the background; the application never waits.

        Arguments are those of every adapter (``ragmetrics_core.capturing.FrontDoor.watch``), and ``every_turn`` as for
        ``capture``.
        """
        where = Finding(question_from, contexts_from, answer_from, context_tools, build, every_turn)
        settings = {"sample_rate": sample_rate, "max_queue": max_queue, "keep": keep, "on_result": on_result}
        return self._watcher(where, metrics, judge, **settings, concurrency=concurrency, limits=limits, redact=redact)


_DOOR = _Door(
    LISTENERS,
    _assembler,
    as_judge,
    unseen="nothing of LangChain or LangGraph ran in it; make the calls inside the block",
    sampleless="LangChain's runs were seen, but none of them retrieved anything; say where things are by "
    "question_from=, contexts_from= and answer_from=, or by build=",
)
capture = _DOOR.capture
watch = _DOOR.watch
