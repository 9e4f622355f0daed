"""What the component's sockets hold, as samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer

from ragmetrics_core import RagMetricsError, Sample
from ragmetrics_core.data import SettingError

# the groups of sockets, of which one is given
_PARTS = ("query", "documents", "replies")
_FIELDS = {  # of a row, by the sockets that take lists
    "questions": "question",
    "contexts": "contexts",
    "predicted_answers": "answer",
}
_GROUPS = (("answers",), _PARTS, tuple(_FIELDS))
_CITED_ONLY = (
    "the documents look cut to those that the answer cites (reference_pattern): scores"
    " are those of the cited documents only; set"
    " return_only_referenced_documents=False in the AnswerBuilder"
)

Row = dict[str, Any]


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
    filled = [[name for name in group if values[name] is not None] for group in _GROUPS]
    given = [", ".join(names) for names in filled if names]
    if len(given) > 1:
        raise SettingError(
            f"give one group of inputs, got {'; '.join(given)}: answers, or"
            " query/documents/replies, or lists"
        )
    answers = values["answers"] or ()
    rows = [_row_of_answer(answer) for answer in answers]
    if filled[1]:
        query, documents, replies = (values[name] for name in _PARTS)
        several = replies if isinstance(replies, list) else [replies]
        # a row for each reply; one without an answer if there is none
        for reply in several or [None]:
            text = reply.text if isinstance(reply, ChatMessage) else reply
            rows.append(_row(query, documents, text))
    elif filled[2]:
        lists = {_FIELDS[name]: values[name] for name in filled[2]}
        _check_lengths({name: values[name] for name in filled[2]})
        rows = [
            dict(zip(lists, parts, strict=True))
            for parts in zip(*lists.values(), strict=True)
        ]
    if ground_truth_answers is not None:
        _check_lengths({"answers": rows, "ground_truth_answers": ground_truth_answers})
        for row, reference in zip(rows, ground_truth_answers, strict=True):
            row["reference"] = reference
    warnings: list[str] = []
    for answer in answers:
        documents = answer.documents if isinstance(answer, GeneratedAnswer) else ()
        # an ``AnswerBuilder`` that keeps only cited documents marks each of them
        if documents and all(each.meta.get("referenced") for each in documents):
            warnings = [_CITED_ONLY]
    try:
        return [Sample.from_row(row) for row in rows], warnings
    except RagMetricsError as error:
        raise SettingError(str(error)) from error


def _check_lengths(lists: Mapping[str, Sequence[Any]]) -> None:
    """Refuse, by ``SettingError``, lists that differ in length."""
    lengths = {name: len(elements) for name, elements in lists.items()}
    if len(set(lengths.values())) > 1:
        in_words = [f"{name} {length}" for name, length in lengths.items()]
        raise SettingError(f"lists differ in length: {', '.join(in_words)}")


def _row(question: object, documents: Sequence[Document] | None, answer: object) -> Row:
    """The row of one answer; documents without a text, such as images, are left out."""
    contexts = None
    if documents is not None:
        contexts = [each for each in documents if (each.content or "").strip()]
    return {"question": question, "contexts": contexts, "answer": answer}


def _row_of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Row:
    """The row of an answer of Haystack, with the documents that it carries.

    Raises:
        SettingError: If it is no answer of Haystack.
    """
    if isinstance(answer, GeneratedAnswer):
        return _row(answer.query, answer.documents, answer.data)
    if isinstance(answer, ExtractedAnswer):
        documents = [] if answer.document is None else [answer.document]
        return _row(answer.query, documents, answer.data)
    raise SettingError(
        "answers must be GeneratedAnswer or ExtractedAnswer, got"
        f" {type(answer).__name__}"
    )
