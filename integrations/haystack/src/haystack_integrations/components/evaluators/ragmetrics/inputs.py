"""What the component's sockets hold, as samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, Document, ExtractedAnswer, GeneratedAnswer
from haystack_integrations.tracing.ragmetrics.nodes import copied

from ragmetrics_core import Context, Sample
from ragmetrics_core.capture import Answer, SettingError

_PARTS = ("query", "documents", "replies", "response")
_FIELD_OF_LIST = {
    "questions": "question",
    "contexts": "contexts",
    "predicted_answers": "answer",
    "responses": "answer",
    "ground_truth_answers": "reference",
}


def samples(
    answers: list[GeneratedAnswer | ExtractedAnswer] | None = None,
    query: str | None = None,
    documents: list[Document] | None = None,
    replies: list[ChatMessage] | list[str] | str | None = None,
    questions: list[str] | None = None,
    contexts: list[list[str]] | None = None,
    predicted_answers: list[str] | None = None,
    ground_truth_answers: list[str] | None = None,
    reference: str | list[str] | None = None,
    response: str | None = None,
    responses: list[str] | None = None,
) -> tuple[list[Sample], list[str]]:
    """Make samples of the inputs of ``RagMetricsEvaluator.run``, with warnings.

    One of three groups is given: answers of Haystack; lists with an element for each
    answer; one query with its documents and replies. Example: a query with one document
    and two replies gives two samples. Warnings are made of the first group alone: an
    answer object may hold fewer documents than the model saw.

    Raises:
        SettingError: If inputs of several groups are given, or lists differ in length.
    """
    values = {
        "answers": answers,
        "query": query,
        "documents": documents,
        "replies": replies,
        "questions": questions,
        "contexts": contexts,
        "predicted_answers": predicted_answers,
        "ground_truth_answers": ground_truth_answers,
        "response": response,
        "responses": responses,
    }
    filled = {name: value for name, value in values.items() if value is not None}
    _refuse_several_groups(filled)
    for name, other in (("replies", "response"), ("predicted_answers", "responses")):
        if name in filled and other in filled:
            raise SettingError(f"give {name} or {other}, not both")
    if answers is not None:
        samples_of_answers = [_of_answer(answer) for answer in answers]
        warnings = _warnings_of_missing_documents(answers)
        return _with_references(samples_of_answers, reference), warnings
    has_lists = bool(filled.keys() & _FIELD_OF_LIST.keys())
    if has_lists and reference is not None:
        raise SettingError("with lists give ground_truth_answers, not reference")
    samples_of_rows = _samples_of_rows(filled, has_lists=has_lists)
    return _with_references(samples_of_rows, reference), []


def _samples_of_rows(filled: Mapping[str, Any], *, has_lists: bool) -> list[Sample]:
    """Make samples of inputs that are no answer objects of Haystack.

    Args:
        filled: The inputs that were given, by their names.
        has_lists: Whether they are lists with an element for each answer; else they are
            one query with its documents and replies.

    Raises:
        SettingError: If a context is neither a text nor a document, or lists differ in
            length.
    """
    rows = _rows_of_lists(filled) if has_lists else _rows_of_replies(filled)
    samples_of_rows = []
    for row in rows:
        fields = {**row, "contexts": _contexts(row.get("contexts"))}
        samples_of_rows.append(Sample.model_validate(fields))
    return samples_of_rows


def _refuse_several_groups(filled: Mapping[str, Any]) -> None:
    """Refuse, by ``SettingError``, values in sockets of several groups."""
    groups: list[str] = []
    for group in (["answers"], _PARTS, _FIELD_OF_LIST):
        names = [name for name in group if name in filled]
        if names:
            groups.append(", ".join(names))
    if len(groups) > 1:
        raise SettingError(
            f"give one group of inputs, got {'; '.join(groups)}: answers, or"
            " query/documents/replies, or lists"
        )


def _rows_of_lists(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a row for each answer of inputs that are lists, such as ``questions``.

    Example: {"questions": ["Who?"], "predicted_answers": ["Anna"]} gives
    [{"question": "Who?", "answer": "Anna"}].

    Args:
        filled: The lists by the names of their inputs; each has an element for each
            answer.

    Returns:
        Rows with the fields of a sample.

    Raises:
        SettingError: If the lists differ in length.
    """
    lengths = {name: len(elements) for name, elements in filled.items()}
    if len(set(lengths.values())) > 1:
        lengths_in_words = [f"{name} {length}" for name, length in lengths.items()]
        raise SettingError(f"lists differ in length: {', '.join(lengths_in_words)}")
    n_rows = min(lengths.values())
    rows: list[dict[str, Any]] = [{} for _ in range(n_rows)]
    for name, elements in filled.items():
        field = _FIELD_OF_LIST[name]
        for row, element in zip(rows, elements, strict=True):
            row[field] = element
    return rows


def _rows_of_replies(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a row for each reply to one query; a row without an answer if there is none.

    Example: {"query": "Who?", "replies": ["Anna", "Bob"]} gives two rows with the
    question "Who?", one with the answer "Anna" and one with "Bob".

    Args:
        filled: The inputs by name: the query, its documents and its replies, which are
            one reply or a list, of texts or messages.

    Returns:
        Rows with the fields of a sample; none without any input.
    """
    if not filled:
        return []
    replies = filled.get("replies", filled.get("response"))
    if not isinstance(replies, list):
        replies = [replies]
    rows = []
    for reply in replies or [None]:
        answer = reply.text if isinstance(reply, ChatMessage) else reply
        rows.append(
            {
                "question": filled.get("query"),
                "contexts": filled.get("documents"),
                "answer": answer,
            }
        )
    return rows


def _contexts(
    documents: Sequence[Document | str] | None,
) -> tuple[Context, ...] | None:
    """Make contexts of texts and documents; documents without a text are left out.

    Example: ["Rome is old.", Document(content=" ")] gives one context. None gives None:
    what the model saw is unknown.

    Raises:
        SettingError: If one of them is neither a text nor a document.
    """
    if documents is None:
        return None
    contexts = []
    for document in documents:
        if isinstance(document, str):
            contexts.append(Context(text=document))
        elif not isinstance(document, Document):
            kind = type(document).__name__
            raise SettingError(f"contexts are texts or Documents, got {kind}")
        elif (document.content or "").strip():
            contexts.append(copied(document).context())
    return tuple(contexts)


def _of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Sample:
    """Make the sample of an answer of Haystack.

    Its contexts are the answer's documents that hold a text. Example: the answer "It is
    old." to "Is it?" with two documents: a sample with question, answer and two
    contexts.

    Raises:
        SettingError: If it is no answer of Haystack.
    """
    # Haystack's answer becomes an ``Answer`` of ragmetrics_core; other objects do not
    copied_answer = copied(answer)
    if not isinstance(copied_answer, Answer):
        raise SettingError(
            "answers must be GeneratedAnswer or ExtractedAnswer, got"
            f" {type(answer).__name__}"
        )
    contexts = tuple(
        document.context()
        for document in copied_answer.documents or ()
        if document.text.strip()
    )
    return Sample(
        question=copied_answer.question,
        contexts=contexts,
        answer=copied_answer.text,
        generator=copied_answer.model,
    )


def _warnings_of_missing_documents(
    answers: Sequence[GeneratedAnswer | ExtractedAnswer],
) -> list[str]:
    """Warn if an ``AnswerBuilder`` kept only the documents that an answer cites.

    It then marks each of them as referenced.
    """
    for answer in answers:
        documents = answer.documents if isinstance(answer, GeneratedAnswer) else ()
        if documents and all(document.meta.get("referenced") for document in documents):
            return [
                "the documents look cut to those that the answer cites"
                " (reference_pattern): scores are those of the cited documents only;"
                " set return_only_referenced_documents=False in the AnswerBuilder"
            ]
    return []


def _with_references(
    samples_of_answers: list[Sample], reference: str | Sequence[str] | None
) -> list[Sample]:
    """Give samples their references: one for each, or one text for all.

    Example: two samples and ["Anna", "1874"]: the references ("Anna",) and ("1874",).
    Without any reference the samples stay as they are.

    Raises:
        SettingError: If there are not as many references as samples.
    """
    if reference is None:
        return samples_of_answers
    n_answers = len(samples_of_answers)
    if isinstance(reference, str):
        references = [reference] * n_answers
    else:
        references = list(reference)
    if len(references) != n_answers:
        raise SettingError(
            f"{n_answers} answers and {len(references)} references; give one for each,"
            " or one text"
        )
    return [
        sample.model_copy(update={"reference": (text,)})
        for sample, text in zip(samples_of_answers, references, strict=True)
    ]
