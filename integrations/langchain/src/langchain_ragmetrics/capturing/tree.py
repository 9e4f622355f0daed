"""Walking a run tree: LangSmith's runs, as any LangChain tracer builds them. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langsmith.run_trees import RunTree
from langsmith.schemas import Run, RunBase

# Keys of a root's ``extra`` that the recorder fills: the task or thread it ran in, the fallbacks it failed within.
FLOW = "ragmetrics_flow"
WRAPPER = "ragmetrics_fallbacks"


def metadata_of(run: RunBase) -> Mapping[str, Any]:
    """Metadata of the call; the run's own property would create it."""
    found = (run.extra or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}


def children(run: RunBase) -> list[RunBase]:
    """Child runs in start order, without attempts that a later sibling of the same name replaced."""
    found = (run.child_runs or []) if isinstance(run, (Run, RunTree)) else []
    later: set[str] = set()
    kept: list[RunBase] = []
    for child in sorted(found, key=lambda child: child.start_time)[::-1]:
        if not (child.error and child.name in later):
            kept.append(child)
        later.add(child.name)
    return kept[::-1]


def walk(run: RunBase) -> Iterator[RunBase]:
    """The run and all runs below it, in start order."""
    yield run
    for child in children(run):
        yield from walk(child)


def is_model(run: RunBase) -> bool:
    """A call of a model."""
    return run.run_type in ("llm", "chat_model")
