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
    given = {name: value for name, value in values.items() if value is not None}
    reference, rows = given.pop("reference", None), []
    groups = [
        held
        for group in (["answers"], _PARTS, _LISTS)
        if (held := [name for name in group if name in given])
    ]
    if len(groups) > 1:
        names = "; ".join(map(", ".join, groups))
        raise SettingError(
            f"give one group of inputs, got {names}: answers, or"
            " query/documents/replies, or lists"
        )
    if "answers" in given:
        made = [_of_answer(answer) for answer in given["answers"]]
        return _with_references(made, reference), _cut(given["answers"])
    if given.keys() & _LISTS.keys():
        if reference is not None:
            raise SettingError("with lists give ground_truth_answers, not reference")
        if len({len(value) for value in given.values()}) > 1:
            raise SettingError(
                "lists differ in length:"
                f" {', '.join(f'{name} {len(v)}' for name, v in given.items())}"
            )
        rows = [
            dict(zip(map(_LISTS.get, given), row, strict=True))
            for row in zip(*given.values(), strict=True)
        ]
    elif given:
        said = given.get("replies")
        replies = said or [None] if isinstance(said, list) else [said]
        texts = [one.text if isinstance(one, ChatMessage) else one for one in replies]
        rows = [
            {
                "question": given.get("query"),
                "contexts": given.get("documents"),
                "answer": text,
            }
            for text in texts
        ]
    made = [
        Sample.model_validate({**row, "contexts": _contexts(row.get("contexts"))})
        for row in rows
    ]
    return _with_references(made, reference), []


def _contexts(documents: Sequence[Document | str] | None) -> tuple[Context, ...]:
    """Contexts from texts, and from documents that hold a text."""
    wrong = next(
        (
            type(one).__name__
            for one in documents or ()
            if not isinstance(one, (str, Document))
        ),
        None,
    )
    if wrong is not None:
        raise SettingError(f"contexts are texts or Documents, got {wrong}")
    given = [
        one
        for one in documents or ()
        if isinstance(one, str) or (one.content or "").strip()
    ]
    return tuple(
        Context(text=one) if isinstance(one, str) else copied(one).context()
        for one in given
    )


def _of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Sample:
    made = copied(answer)
    if not isinstance(made, Answer):
        raise SettingError(
            "answers must be GeneratedAnswer or ExtractedAnswer, got"
            f" {type(answer).__name__}"
        )
    cut = _cut([answer])
    contexts = tuple(one.context() for one in made.documents or () if one.text.strip())
    notes = (
        CaptureNotes(
            provenance={"contexts": "the answer's documents"}, warnings=tuple(cut)
        )
        if cut
        else None
    )
    return Sample(
        question=made.question,
        contexts=contexts,
        answer=made.text,
        generator=made.model,
        capture=notes,
    )


def _cut(answers: Sequence[GeneratedAnswer | ExtractedAnswer]) -> list[str]:
    """Say when documents look as if an ``AnswerBuilder`` had kept only those that the answer cites.

    All are then marked as referenced, or their source indices have gaps; a cut tail
    cannot be seen.
    """
    for answer in answers:
        metas = (
            [one.meta or {} for one in answer.documents or ()]
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
    made: list[Sample], reference: str | Sequence[str] | None
) -> list[Sample]:
    if reference is None:
        return made
    references = (
        [reference] * len(made) if isinstance(reference, str) else list(reference)
    )
    if len(references) != len(made):
        raise SettingError(
            f"{len(made)} answers and {len(references)} references; give one for each,"
            " or one text"
        )
    return [
        one.model_copy(update={"reference": (text,)})
        for one, text in zip(made, references, strict=True)
    ]
