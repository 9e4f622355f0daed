"""What the component's sockets hold, as samples."""

from collections.abc import Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer
from haystack_integrations.tracing.ragmetrics.nodes import copied

from ragmetrics_core import Context, Sample
from ragmetrics_core.capture import Answer, CaptureNotes, SettingError

_PARTS = ("query", "documents", "replies")
_LISTS = {
    "questions": "question",
    "contexts": "contexts",
    "predicted_answers": "answer",
    "ground_truth_answers": "reference",
}
_SOCKETS = ("answers", *_PARTS, *_LISTS, "reference")


def samples(*sockets: Any, **named: Any) -> tuple[list[Sample], list[str]]:
    """Samples of the one group of sockets that holds values, none if none does.

    And warnings about what they may lack.

    Values come in the order of the parameters of ``RagMetricsEvaluator.run``, or by
    their names.

    Raises:
        SettingError: If several groups hold values, or lists differ in length.
    """
    values = {**dict(zip(_SOCKETS, sockets, strict=False)), **named}
    filled = {name: value for name, value in values.items() if value is not None}
    reference, rows = filled.pop("reference", None), []
    groups = [
        filled_names
        for group in (["answers"], _PARTS, _LISTS)
        if (filled_names := [name for name in group if name in filled])
    ]
    if len(groups) > 1:
        names = "; ".join(map(", ".join, groups))
        raise SettingError(
            f"give one group of inputs, got {names}: answers, or"
            " query/documents/replies, or lists"
        )
    if "answers" in filled:
        found_samples = [_of_answer(answer) for answer in filled["answers"]]
        return _with_references(found_samples, reference), _cut(filled["answers"])
    if filled.keys() & _LISTS.keys():
        if reference is not None:
            raise SettingError("with lists give ground_truth_answers, not reference")
        if len({len(value) for value in filled.values()}) > 1:
            raise SettingError(
                "lists differ in length:"
                f" {', '.join(f'{name} {len(v)}' for name, v in filled.items())}"
            )
        rows = [
            dict(zip(map(_LISTS.get, filled), row, strict=True))
            for row in zip(*filled.values(), strict=True)
        ]
    elif filled:
        given_replies = filled.get("replies")
        replies = (
            given_replies or [None]
            if isinstance(given_replies, list)
            else [given_replies]
        )
        texts = [
            reply.text if isinstance(reply, ChatMessage) else reply for reply in replies
        ]
        rows = [
            {
                "question": filled.get("query"),
                "contexts": filled.get("documents"),
                "answer": text,
            }
            for text in texts
        ]
    found_samples = [
        Sample.model_validate({**row, "contexts": _contexts(row.get("contexts"))})
        for row in rows
    ]
    return _with_references(found_samples, reference), []


def _contexts(documents: Sequence[Document | str] | None) -> tuple[Context, ...]:
    """Contexts from texts, and from documents that hold a text."""
    wrong = next(
        (
            type(document).__name__
            for document in documents or ()
            if not isinstance(document, (str, Document))
        ),
        None,
    )
    if wrong is not None:
        raise SettingError(f"contexts are texts or Documents, got {wrong}")
    holding_text = [
        document
        for document in documents or ()
        if isinstance(document, str) or (document.content or "").strip()
    ]
    return tuple(
        Context(text=document)
        if isinstance(document, str)
        else copied(document).context()
        for document in holding_text
    )


def _of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Sample:
    copied_answer = copied(answer)
    if not isinstance(copied_answer, Answer):
        raise SettingError(
            "answers must be GeneratedAnswer or ExtractedAnswer, got"
            f" {type(answer).__name__}"
        )
    signs_of_cut = _cut([answer])
    contexts = tuple(
        document.context()
        for document in copied_answer.documents or ()
        if document.text.strip()
    )
    notes = (
        CaptureNotes(
            provenance={"contexts": "the answer's documents"},
            warnings=tuple(signs_of_cut),
        )
        if signs_of_cut
        else None
    )
    return Sample(
        question=copied_answer.question,
        contexts=contexts,
        answer=copied_answer.text,
        generator=copied_answer.model,
        capture=notes,
    )


def _cut(answers: Sequence[GeneratedAnswer | ExtractedAnswer]) -> list[str]:
    """Say when documents look as if an ``AnswerBuilder`` had kept only those that the answer cites.

    All are then marked as referenced, or their source indices have gaps; a cut tail
    cannot be seen.
    """
    for answer in answers:
        metas = (
            [document.meta or {} for document in answer.documents or ()]
            if isinstance(answer, GeneratedAnswer)
            else []
        )
        marks = [meta["referenced"] for meta in metas if "referenced" in meta]
        places = [
            meta["source_index"]
            for meta in metas
            if isinstance(meta.get("source_index"), int)
        ]
        if (marks and all(marks)) or places != list(range(1, len(places) + 1)):
            return [
                "the documents look cut to those that the answer cites"
                " (reference_pattern): scores are those of the cited documents only;"
                " set return_only_referenced_documents=False in the AnswerBuilder"
            ]
    return []


def _with_references(
    answered: list[Sample], reference: str | Sequence[str] | None
) -> list[Sample]:
    if reference is None:
        return answered
    references = (
        [reference] * len(answered) if isinstance(reference, str) else list(reference)
    )
    if len(references) != len(answered):
        raise SettingError(
            f"{len(answered)} answers and {len(references)} references; give one for each,"
            " or one text"
        )
    return [
        sample.model_copy(update={"reference": (text,)})
        for sample, text in zip(answered, references, strict=True)
    ]
