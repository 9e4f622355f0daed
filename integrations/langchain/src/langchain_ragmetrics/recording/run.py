"""The runs that LangChain reports, and those inside each, where each piece of work stands once. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from langsmith import schemas
from langsmith.run_trees import RunTree

from langchain_ragmetrics.values import Copier
from ragmetrics_core.data.errors import SettingError

# tag of a search of a vector store that the application made without a retriever
STORE_SEARCH = "ragmetrics_by_hand"
# the beginnings of the tags that the rules read of a run inside another
TAGS_READ = (STORE_SEARCH, "seq:step:")
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
    tags: Sequence[str]
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

    A failed run is left out if a later one has its name; for a tool or a retriever, the
    inputs must be equal, too. Searches of a store that were seen are left out where the
    application tells by ``add_documents()`` what it found.
    """
    if not isinstance(run, (Run, schemas.Run, RunTree)):
        return []
    in_order: list[AnyRun] = sorted(
        run.child_runs or (), key=lambda child: child.start_time
    )
    later_attempts: set[tuple[str, str]] = set()
    inside: list[AnyRun] = []
    # from the last to the first, so that later attempts are known
    for child in reversed(in_order):
        takes_arguments = child.run_type in ("tool", "retriever")
        attempt = (child.name, repr(child.inputs) if takes_arguments else "")
        if not (child.error and attempt in later_attempts):
            inside.append(child)
        later_attempts.add(attempt)
    inside.reverse()
    if any(child.name == ADD_DOCUMENTS for child in inside):
        return [child for child in inside if STORE_SEARCH not in (child.tags or ())]
    return inside


def walk(run: AnyRun) -> Iterator[AnyRun]:
    """Yield a run and all runs inside it, each before those inside it, siblings by their start."""
    yield run
    for child in children(run):
        yield from walk(child)
