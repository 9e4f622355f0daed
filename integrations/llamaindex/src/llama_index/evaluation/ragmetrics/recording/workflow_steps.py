"""Copies of the nodes that the steps of a workflow take and return.

They stand in the fields of the steps' events, as in ``RerankEvent(nodes=[…])``.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Event
from llama_index.evaluation.ragmetrics.recording.run import StepOfWorkflow
from llama_index.evaluation.ragmetrics.recording.snapshot import (
    document_of,
    fields_of,
    plain,
)

from ragmetrics_core.capture import (
    documents_in,
    find_instances,
    note_documents_of_step,
)

# the arguments of a step, and a list of events among them
_DEPTH_OF_EVENTS = 2


def events_among(arguments: Mapping[str, Any]) -> tuple[Event, ...]:
    """The events that a step of a workflow was given.

    Usually it is one. A step that collects events is given several, or a list of them.
    """
    return tuple(find_instances(arguments, Event, depth=_DEPTH_OF_EVENTS))


def copy_nodes_taken(step: StepOfWorkflow, events: Iterable[object]) -> None:
    """Copy the scored nodes of a step's events, as they are when it begins."""
    taken = _fields_with_documents(events)
    step.documents_among_inputs = tuple(documents_in(taken))


def copy_nodes_returned(
    step: StepOfWorkflow, events: Iterable[object], result: object
) -> None:
    """Copy the nodes of the event that a step of a workflow returned.

    Example: the step was sent the nodes A and B, and returned an event with A: it
    passed A on. A step that fans out returns a list of events.

    Args:
        step: The recorded call of the step.
        events: The events that it was given.
        result: What it returned; None if it returned no event.
    """
    step.has_returned_event = result is not None
    events_returned = result if isinstance(result, list) else [result]
    taken = _fields_with_documents(events)
    returned = _fields_with_documents(events_returned)
    note_documents_of_step(step, taken, returned)


def _fields_with_documents(events: Iterable[object]) -> dict[str, Any]:
    """Copy the fields of events as plain data, scored nodes as documents.

    Example: ``Ranked(nodes=[A, B], query="Who?")`` gives {"nodes": [A, B], "query":
    "Who?"}. Of several events the fields of one name stand in one list.
    """
    values_by_name: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        for name, value in fields_of(event).items():
            nodes = list(find_instances(value, NodeWithScore))
            values_by_name[name].append(
                list(map(document_of, nodes)) if nodes else plain(value)
            )
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in values_by_name.items()
    }
