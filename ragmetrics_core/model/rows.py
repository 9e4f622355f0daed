"""Samples from rows of tables: the field's usual column names are found, none needs to be configured."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ragmetrics_core.model.errors import RowError, SettingError
from ragmetrics_core.model.sample import Context, Fact, Sample, Turn

Column = str | Callable[[Mapping[str, Any]], Any]

# Per field of the sample, the column names in use; the first that the row has, wins. Compared without case,
# spaces, hyphens and underscores.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "question": (
        *("question", "query", "user_input", "user_query", "user_question", "input", "inputs.question", "inputs.query"),
        *("inputs.input", "prompt", "instruction"),
    ),
    "contexts": (
        *("contexts", "context", "retrieved_contexts", "retrieval_context", "context_texts", "retrieved_context"),
        *("source_documents", "source_nodes", "documents", "docs", "chunks", "passages", "outputs.contexts"),
        *("outputs.context", "outputs.documents"),
    ),
    "answer": (
        *("answer", "response", "output", "actual_output", "prediction", "predicted_answer", "generated_answer"),
        *("model_answer", "completion", "generation", "result", "outputs.answer", "outputs.output", "outputs.response"),
        "answers",
    ),
    "reference": (
        *("reference", "references", "ground_truth", "ground_truths", "ground_truth_answers", "expected_output"),
        *("expected_answer", "expected_response", "expected", "reference_answer", "reference_answers"),
        *("reference_output", "golden_answer", "gold_answer", "golden_response", "correct_answer", "ideal", "target"),
        *("reference_outputs.answer", "reference_outputs.output"),
    ),
    "retrieved": ("retrieved", "retrieved_documents", "retrieved_nodes"),
    "facts": ("facts", "reference_facts"),
    "standalone_question": ("standalone_question", "rewritten_question", "rewritten_query"),
    "history": ("history", "chat_history", "conversation"),
    "generator": ("generator", "answer_model", "generator_model"),
    "error": ("error",),
    "id": ("id", "sample_id", "question_id", "query_id", "example_id"),
    "metadata": ("metadata",),
}

_TEXT_KEYS = ("text", "page_content", "content", "chunk", "passage", "document", "node.text")
_ID_KEYS = ("id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "node.id_")
_SCORE_KEYS = ("score", "relevance_score", "similarity")


def samples_from_row(row: Mapping[str, Any], columns: Mapping[str, Any]) -> list[Sample]:
    """Make the samples of one row: one, or where the answer is a list of texts, one per answer.

    Args:
        row: Column names to values.
        columns: Per field of the sample a name, dotted path or callable; fields not named are found.

    Returns:
        At least one sample. Several answers give ids ``id#0``, ``id#1``, ….

    Raises:
        RowError: If the row is no mapping, a value has a wrong type, or a named column is not there.
        SettingError: If ``columns`` names a field that samples do not have.
    """
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be an object with named fields, got {type(row).__name__}")
    found, used = _find(row, columns)
    answers = _structured(found.get("answer"))
    if not (isinstance(answers, (list, tuple)) and answers and all(isinstance(one, str) for one in answers)):
        return [_sample(row, found, used)]
    if len(answers) == 1:
        return [_sample(row, {**found, "answer": answers[0]}, used)]
    name = found.get("id")
    return [
        _sample(row, {**found, "answer": answer, "id": None if name is None else f"{name}#{number}"}, used)
        for number, answer in enumerate(answers)
    ]


def sample_from_row(row: Mapping[str, Any], columns: Mapping[str, Any]) -> Sample:
    """Make the one sample of a row; see ``Sample.from_row``."""
    samples = samples_from_row(row, columns)
    if len(samples) > 1:
        raise RowError(f"the row holds {len(samples)} answers; evaluate() makes one sample of each")
    return samples[0]


def _find(row: Mapping[str, Any], columns: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Values of the sample's fields, and the top-level columns that they came from."""
    unknown = set(columns) - set(USUAL_NAMES)
    if unknown:
        raise SettingError(f"no such field of a sample: {', '.join(sorted(unknown))}; known: {', '.join(USUAL_NAMES)}")
    plain = {_plain(str(name)): str(name) for name in reversed(list(row))}
    found: dict[str, Any] = {}
    used: set[str] = set()
    for field, names in USUAL_NAMES.items():
        column = columns.get(field)
        if callable(column):
            found[field] = column(row)
        elif column is not None:
            found[field] = _named(row, field, column)
            used.add(column if column in row else column.split(".")[0])
        else:
            for name, value in _usual(row, names, plain, used):
                found[field] = value
                used.add(name)
                break
    return found, used


def _named(row: Mapping[str, Any], field: str, column: str) -> Any:
    if column in row:
        return row[column]
    there, value = follow(row, column.split("."))
    if not there:
        raise RowError(f"no column {column!r} for {field}; the row has: {', '.join(map(str, row)) or 'no columns'}")
    return value


def _usual(
    row: Mapping[str, Any], names: tuple[str, ...], plain: Mapping[str, str], used: set[str]
) -> Iterator[tuple[str, Any]]:
    for name in names:
        head, _, rest = name.partition(".")
        column = plain.get(_plain(head))
        if column is None or (column in used and not rest) or not _present(row[column]):
            continue
        if not rest:
            yield column, row[column]
            continue
        there, value = follow(row[column], [rest])
        if there and _present(value):
            yield column, value


def follow(value: Any, path: list[str]) -> tuple[bool, Any]:
    """Follow a path through dicts, JSON strings and list indices.

    Args:
        value: Where the path starts.
        path: Keys of mappings and indices of lists.

    Returns:
        Whether something is there, and what.
    """
    for part in path:
        value = _structured(value)
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character not in "_- ")


def _present(value: Any) -> bool:
    """False for None, NaN and blank texts; an empty list is a value: nothing was retrieved."""
    if isinstance(value, str):
        return bool(value.strip())
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which is not imported here
        return False
    return not (isinstance(value, float) and math.isnan(value))


def _structured(value: Any) -> Any:
    """Lists and objects written as text (JSON, or Python as data frames write it) and arrays become data."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not (isinstance(value, str) and value.strip()[:1] in ("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value


def _sample(row: Mapping[str, Any], found: Mapping[str, Any], used: set[str]) -> Sample:
    values = {field: value for field, value in found.items() if _present(value)}
    for field in ("contexts", "retrieved"):
        if field in values:
            values[field] = [_context(item, field) for item in _items(values[field])]
    if "facts" in values:
        values["facts"] = [_fact(item) for item in _items(values["facts"])] or None
    if "history" in values:
        values["history"] = _history(values["history"])
    if "reference" in values:
        values["reference"] = _items(values["reference"])
    if "id" in values:
        values["id"] = str(values["id"])
    own = values.pop("metadata", {})
    rest = {str(name): value for name, value in row.items() if str(name) not in used and _present(value)}
    values["metadata"] = {**rest, **own} if isinstance(own, Mapping) else {**rest, "metadata": own}
    try:
        return Sample(**values)
    except ValidationError as error:
        raise RowError(_explain(error, found)) from None


def _explain(error: ValidationError, found: Mapping[str, Any]) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "row"
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg'].lower()}; found {type(found.get(field)).__name__}"


def _items(value: Any) -> list[Any]:
    value = _structured(value)
    if isinstance(value, (list, tuple)):
        return list(value)
    return [value]


def _first(item: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        there, value = follow(item, key.split("."))
        if there and value is not None:
            return value
    return None


def _context(item: Any, field: str) -> Any:
    """A context from a text or from the usual shapes of documents, nodes and passages."""
    item = _structured(item) if not isinstance(item, str) else item
    if isinstance(item, Context):
        return item
    if not isinstance(item, Mapping):
        if isinstance(item, str):
            return {"text": item}
        raise RowError(f"{field}: each must be a text or an object with a text, found {type(item).__name__}")
    text = _first(item, _TEXT_KEYS)
    if not isinstance(text, str):
        keys = ", ".join(map(str, item)) or "nothing"
        raise RowError(f"{field}: an object without a text (one of {', '.join(_TEXT_KEYS)}); it has: {keys}")
    name, score = _first(item, _ID_KEYS), _first(item, _SCORE_KEYS)
    metadata = item.get("metadata") or item.get("meta") or {}
    numeric = isinstance(score, (int, float)) and not isinstance(score, bool)
    return {
        "text": text,
        "id": None if name is None else str(name),
        "score": score if numeric else None,
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {"metadata": metadata},
    }


def _fact(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {key: item[key] for key in ("text", "weight", "vital") if item.get(key) is not None}
    return item if isinstance(item, Fact) else {"text": item}


def _history(value: Any) -> Any:
    turns = _items(value)
    speakers = ("user", "assistant")
    return [
        {"role": str(turn.get("role") or turn.get("speaker") or "user"), "content": _first(turn, ("content", "text"))}
        if isinstance(turn, Mapping)
        else turn
        if isinstance(turn, Turn)
        else {"role": speakers[number % 2], "content": turn}
        for number, turn in enumerate(turns)
    ]
