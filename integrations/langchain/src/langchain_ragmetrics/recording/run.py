"""The runs that LangChain reports, and those inside each, where each piece of work stands once. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from langsmith import schemas
from langsmith.run_trees import RunTree

from langchain_ragmetrics.values import Copier, plain
from ragmetrics_core.capture import Document
from ragmetrics_core.capture.plain_values import documents_in
from ragmetrics_core.data.errors import SettingError

# tag of a search of a vector store that the application made without a retriever
STORE_SEARCH = "ragmetrics_by_hand"
# the name of a run in which the application reports documents by ``add_documents()``
ADD_DOCUMENTS = "add_documents"


@dataclass(eq=False, slots=True)
class Run:
    """A run as the recorder keeps it.

    Its fields are named and filled as in LangSmith's. ``extra`` holds the metadata, and
    notes of the recorder under names of its own. All runs of a root share its
    ``copier``.
    """

    id: UUID
    name: str
    run_type: str
    parent_run_id: UUID | None
    tags: list[str]
    extra: dict[str, Any]
    copier: Copier = field(default_factory=Copier, repr=False)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    error: str | None = None
    child_runs: "list[Run]" = field(default_factory=list)
    start_time: datetime = field(default_factory=partial(datetime.now, UTC))
    end_time: datetime | None = None


AnyRun = Run | schemas.RunBase


def as_run(run: object) -> AnyRun:
    """The run as it is: one of the recorder, of a tracer or of LangSmith.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(run, (Run, schemas.RunBase)):
        return run
    raise SettingError(
        "samples_from needs a run of LangSmith or of a tracer, such as what a RunTree"
        f" or a collector of runs holds; got {type(run).__name__}"
    )


def children(run: AnyRun) -> list[AnyRun]:
    """List the runs directly inside a run by their start, each piece of work once.

    Example: ``search("Rome")`` failed, and a second ``search("Rome")`` succeeded: the
    first is left out. A failed run is left out if a later run has its name; for a tool
    or a retriever, the inputs must be equal, too. A search that the application made
    and reported by ``add_documents()`` counts once.
    """
    if not isinstance(run, (Run, schemas.Run, RunTree)):
        return []
    in_order: list[AnyRun] = sorted(
        run.child_runs or (), key=lambda child: child.start_time
    )
    later_attempts: set[tuple[str, str]] = set()
    runs_last_first: list[AnyRun] = []
    # from the last to the first, so that later attempts are known
    for child in reversed(in_order):
        takes_arguments = child.run_type in ("tool", "retriever")
        arguments = repr(child.inputs) if takes_arguments else ""
        attempt = (child.name, arguments)
        is_repeated = attempt in later_attempts
        if not (child.error and is_repeated):
            runs_last_first.append(child)
        later_attempts.add(attempt)
    without_failed_attempts = runs_last_first[::-1]
    return _without_reported_searches(without_failed_attempts)


def _without_reported_searches(runs: list[AnyRun]) -> list[AnyRun]:
    """Leave out the searches of a store whose documents the application reports itself.

    Example: an application calls ``store.similarity_search("Who?")``, and reports the
    two documents by ``add_documents()``: the report stays.
    """
    reported_texts: set[str] = set()
    for run in runs:
        if run.name == ADD_DOCUMENTS:
            reported_texts |= {document.text for document in _documents_of_search(run)}
    others = []
    for run in runs:
        texts = {document.text for document in _documents_of_search(run)}
        is_by_hand = STORE_SEARCH in (run.tags or ())
        if not (is_by_hand and reported_texts and texts <= reported_texts):
            others.append(run)
    return others


def _documents_of_search(search: AnyRun) -> list[Document]:
    """The documents of a recorded search or of a report, in their order."""
    return list(documents_in(plain((search.outputs or {}).get("documents"))))


def walk(run: AnyRun) -> Iterator[AnyRun]:
    """Yield a run and all runs inside it, each before those inside it, siblings by their start."""
    yield run
    for child in children(run):
        yield from walk(child)
