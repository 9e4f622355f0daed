"""Capturing runs without a change to the pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from haystack_integrations.tracing.ragmetrics.installing import attach, detach
from haystack_integrations.tracing.ragmetrics.nodes import Run
from haystack_integrations.tracing.ragmetrics.samples import Where, samples_from

from ragmetrics_core.capturing import Captured, Given
from ragmetrics_core.data.sample import Sample

Place = str | Callable[[Run], Any]


@contextlib.contextmanager
def capture(
    *,
    question: str | None = None,
    reference: str | list[str] | tuple[str, ...] | None = None,
    id: str | None = None,  # noqa: A002  # the field's name in all adapters
    metadata: Mapping[str, Any] | None = None,
    question_from: Place | None = None,
    contexts_from: Place | None = None,
    answer_from: Place | None = None,
    generator: str | None = None,
    build: Callable[[Run], Iterable[Sample]] | None = None,
    max_samples: int | None = None,
    all_threads: bool = False,
) -> Iterator[Captured[Run]]:
    """Capture every run of a pipeline or agent that begins inside the block; the pipeline is not changed.

    Args:
        question: The question, instead of the one found.
        reference: The expected answer, one or several.
        id: Id of the sample.
        metadata: Data of yours.
        question_from: Where the question is: ``component[.socket]``, dotted into SuperComponents, or a function of
            the run.
        contexts_from: Where the contexts are, in the same way.
        answer_from: Where the answer is, in the same way.
        generator: The component that writes the answers.
        build: A function from the run to its samples, instead of all rules.
        max_samples: Most runs to keep; None keeps all.
        all_threads: Capture the whole process. Otherwise runs belong to the block if they begin in its context:
            in the same thread or task, in tasks started from it, and in ``asyncio.to_thread``. A bare thread has
            no context.

    Yields:
        What was captured; runs still going on when the block ends are added when they end.

    Raises:
        SettingError: If a place is neither a name nor callable.

    Example:
        >>> from haystack import Pipeline
        >>> with capture() as captured:
        ...     result = Pipeline().run({})
        >>> captured.samples
        ()
    """
    where = Where(question_from, contexts_from, answer_from, build, generator)
    where.check()
    given = Given(question, reference, id, metadata or {})
    captured = Captured(partial(samples_from, where=where), given=given, max_samples=max_samples)
    attach(captured, process=all_threads)
    try:
        yield captured
    finally:
        detach(captured)
