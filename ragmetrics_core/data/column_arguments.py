"""How a caller says where rows have the fields of a sample, for editors and type checkers."""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

Column = str | Callable[[Mapping[str, Any]], Any]
"""A column's name, a dotted path through dicts and JSON, or a callable that gets the row."""


class Fields(TypedDict, total=False):
    """Per field of a sample, where rows have it."""

    question: Column | None
    contexts: Column | None
    answer: Column | None
    reference: Column | None
    retrieved: Column | None
    facts: Column | None
    expected_ids: Column | None
    expected_contexts: Column | None
    standalone_question: Column | None
    history: Column | None
    generator: Column | None
    error: Column | None
    id: Column | None
    ledger: Column | None
    capture: Column | None
    citations: Column | None
    metadata: Column | None


class Columns(TypedDict, total=False):
    """Where rows have the fields of a sample, as arguments of ``evaluate``.

    ``ground_truth_column`` is another name of ``reference_column``.
    """

    question_column: Column | None
    contexts_column: Column | None
    answer_column: Column | None
    ground_truth_column: Column | None
    reference_column: Column | None
    retrieved_column: Column | None
    facts_column: Column | None
    expected_ids_column: Column | None
    expected_contexts_column: Column | None
    standalone_question_column: Column | None
    history_column: Column | None
    generator_column: Column | None
    error_column: Column | None
    id_column: Column | None
    ledger_column: Column | None
    capture_column: Column | None
    citations_column: Column | None
    metadata_column: Column | None
