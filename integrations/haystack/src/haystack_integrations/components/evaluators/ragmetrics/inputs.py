"""What the component's sockets hold, as samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer

from ragmetrics_core import Sample
from ragmetrics_core.data.errors import RowError, SettingError

# for each group of sockets, of which one is given: the field of a row by its socket
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "answers": {"answers": ""},
    "parts": {"query": "question", "documents": "contexts", "replies": "answer"},
    "lists": {
        "questions": "question",
        "contexts": "contexts",
        "predicted_answers": "answer",
    },
}
_CITED_ONLY = (
    "the documents look cut to those that the answer cites (reference_pattern): scores"
    " are those of the cited documents only; set"
    " return_only_referenced_documents=False in the AnswerBuilder"
)


def samples(
    values: Mapping[str, Any], ground_truth_answers: Sequence[str] | None
) -> tuple[list[Sample], list[str]]:
    """Make samples of the inputs of ``RagMetricsEvaluator.run``, with warnings.

    Example: a query with one document and two replies gives two samples. A warning says
    that an answer object holds fewer documents than the model saw.

    Args:
        values: What the sockets hold, by their names; None for a socket without a value.
        ground_truth_answers: The expected answers, one for each answer; None for none.

    Raises:
        SettingError: If inputs of several groups are given, lists differ in length, or
            a value is of another type.
    """
    filled = {name: value for name, value in values.items() if value is not None}
    group = _group_of(filled)
    warnings: list[str] = []
    rows: list[dict[str, Any]] = []
    if group == "answers":
        rows = [_row_of_answer(answer) for answer in filled["answers"]]
        warnings = [_CITED_ONLY] if _are_cited_only(filled["answers"]) else []
    elif group == "parts":
        rows = list(_rows_of_replies(filled))
    elif group == "lists":
        rows = _rows_of_lists(filled)
    if ground_truth_answers is not None:
        _check_lengths({"answers": rows, "ground_truth_answers": ground_truth_answers})
        for row, reference in zip(rows, ground_truth_answers, strict=True):
            row["reference"] = reference
    try:
        return [Sample.from_row(row) for row in rows], warnings
    except RowError as error:
        raise SettingError(str(error)) from error


def _group_of(filled: Mapping[str, Any]) -> str:
    """The group of the sockets that hold a value; "" if none does.

    Raises:
        SettingError: If they are of several groups.
    """
    names_by_group = {}
    for group, fields in _GROUPS.items():
        names = [name for name in fields if name in filled]
        if names:
            names_by_group[group] = ", ".join(names)
    if len(names_by_group) > 1:
        raise SettingError(
            f"give one group of inputs, got {'; '.join(names_by_group.values())}:"
            " answers, or query/documents/replies, or lists"
        )
    return next(iter(names_by_group), "")


def _check_lengths(lists: Mapping[str, Sequence[Any]]) -> None:
    """Refuse, by ``SettingError``, lists that differ in length."""
    lengths = {name: len(elements) for name, elements in lists.items()}
    if len(set(lengths.values())) > 1:
        in_words = [f"{name} {length}" for name, length in lengths.items()]
        raise SettingError(f"lists differ in length: {', '.join(in_words)}")


def _row_of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> dict[str, Any]:
    """The row of an answer of Haystack, with the documents that it carries.

    Raises:
        SettingError: If it is no answer of Haystack.
    """
    generator = None
    if isinstance(answer, GeneratedAnswer):
        documents = answer.documents
        model = (answer.meta or {}).get("model")
        generator = model if isinstance(model, str) else None
    elif isinstance(answer, ExtractedAnswer):
        documents = [] if answer.document is None else [answer.document]
    else:
        raise SettingError(
            "answers must be GeneratedAnswer or ExtractedAnswer, got"
            f" {type(answer).__name__}"
        )
    return {
        "question": answer.query,
        "contexts": _with_text(documents),
        "answer": answer.data,
        "generator": generator,
    }


def _are_cited_only(answers: Sequence[GeneratedAnswer | ExtractedAnswer]) -> bool:
    """Whether an ``AnswerBuilder`` kept only the documents that an answer cites.

    It then marks each of them as referenced.
    """
    for answer in answers:
        documents = answer.documents if isinstance(answer, GeneratedAnswer) else ()
        if documents and all(document.meta.get("referenced") for document in documents):
            return True
    return False


def _rows_of_replies(filled: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each reply to one query; one without an answer if there is none.

    Example: {"query": "Who?", "replies": ["Anna", "Bob"]} gives two rows with the
    question "Who?", one with the answer "Anna" and one with "Bob".

    Args:
        filled: The query, its documents and its replies, which are one reply or a list,
            of texts or messages.
    """
    replies = filled.get("replies")
    if not isinstance(replies, list):
        replies = [replies]
    for reply in replies or [None]:
        yield {
            "question": filled.get("query"),
            "contexts": _with_text(filled.get("documents")),
            "answer": reply.text if isinstance(reply, ChatMessage) else reply,
        }


def _rows_of_lists(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a row for each answer of inputs that are lists, such as ``questions``.

    Example: {"questions": ["Who?"], "predicted_answers": ["Anna"]} gives
    [{"question": "Who?", "answer": "Anna"}].

    Raises:
        SettingError: If the lists differ in length.
    """
    _check_lengths(filled)
    n_rows = len(next(iter(filled.values())))
    rows: list[dict[str, Any]] = [{} for _ in range(n_rows)]
    for name, elements in filled.items():
        field = _GROUPS["lists"][name]
        for row, element in zip(rows, elements, strict=True):
            row[field] = _with_text(element) if field == "contexts" else element
    return rows


def _with_text(
    contexts: Sequence[Document | str] | None,
) -> list[Document | str] | None:
    """Leave out documents without a text, such as images; None stays None."""
    if contexts is None:
        return None
    return [
        context
        for context in contexts
        if not isinstance(context, Document) or (context.content or "").strip()
    ]
