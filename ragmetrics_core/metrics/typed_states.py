"""How metrics ask typed questions: the texts that are shown, and a predicate about each.

Texts of a group are in an order that does not depend on their rank.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from ragmetrics_core.data import (
    Asked,
    Chances,
    Part,
    Question,
    State,
    TypedForm,
    TypedQuestion,
    Weight,
)
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.data.typed import NOTE


def order_of_digest(question: str | None, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct texts in an order independent of rank.

    So a judge that favours places cannot favour early ranks.

    Args:
        question: The question of the sample, so that no text always comes first.
        texts: The texts.
    """

    def digest(text: str) -> bytes:
        return sha256(f"{question}\0{text}".encode()).digest()

    return tuple(sorted(dict.fromkeys(texts), key=digest))


def opening(question: Question[Any]) -> dict[str, Any]:
    """Return how a state begins: with a note, and the user's question.

    A state is what a judge is shown: ``{"note": "…", "question": "How old is it?"}``.
    ``question`` is the question to the judge; its part "question" holds the user's.
    """
    state: dict[str, Any] = {"note": NOTE}
    part = question.parts.get("question")
    if part is None or part.text is None:
        return state
    state["question"] = part.text
    # "How old is the tower?" for the user's "How old is it?"
    if part.rewrite and part.rewrite != part.text:
        state["standalone_question"] = part.rewrite
    if part.history:
        state["earlier_turns"] = [
            {"role": turn.role, "text": turn.content} for turn in part.history
        ]
    return state


def chunks(question: Question[Any], texts: Sequence[str]) -> dict[str, str]:
    """Chunks by neutral letters, in an order independent of rank."""
    question_part = question.parts.get("question")
    ordered = order_of_digest(_single_text(question_part), texts)
    labels = Part("Chunk", ordered, "letters").labels
    return dict(zip(labels, ordered, strict=True))


def _single_text(part: Part | None) -> str | None:
    """Return the text of a part that holds one; None for a group of texts, or none."""
    return part.text if part is not None and isinstance(part.text, str) else None


def sentences(answer: str) -> dict[str, str]:
    """Return the sentences of an answer by label: S1, S2, and so on."""
    return number_texts("S", split_sentences(answer))


def number_texts(letter: str, texts: Iterable[str]) -> dict[str, str]:
    """Texts by a letter with a number, from 1."""
    return {f"{letter}{number}": text for number, text in enumerate(texts, start=1)}


def state_of_answer(question: Question[Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return the state of what was asked, shown and answered.

    It is that of usefulness listwise, of adherence and of its cause.
    """
    return {
        **opening(question),
        "chunks": chunks(question, texts),
        "answer": sentences(question["answer"]),
    }


def names_in_state(question: Question[Any], part: str) -> list[str]:
    """Return how a state names each text of a part, such as ``facts.F1``.

    A question about one text has a part of the singular name, such as ``fact``.
    """
    if part not in question.parts:
        return [part.removesuffix("s")]
    return [f"{part}.{label}" for label in question.parts[part].labels]


def reply_on_each(
    question: Question[Any], part: str, verdicts: Sequence[Mapping[str, Any]]
) -> Any:
    """Return the reply with these verdicts on the texts of a part, or with the only one."""
    if part not in question.parts:
        return question.read(verdicts[0])
    labelled = [
        {**verdict, "label": label}
        for label, verdict in zip(question.parts[part].labels, verdicts, strict=True)
    ]
    return question.read({part: labelled})


def predicate_of_each(
    part: str,
    wording: str,
    field: str,
    state: Callable[[Any], State],
    *,
    is_weighed: bool = True,
) -> TypedForm[Any]:
    """Make the typed form that asks one predicate about each text of a part.

    Example: of two facts, F1 has a probability of .9 and F2 of .2. The reply says that
    F1 is covered and F2 is not, with the weights .9 and .2.

    Args:
        part: The part with the texts, such as ``facts``. Where the question has no such
            part, one predicate is asked: about its ``fact``, or about all that it shows.
        wording: The statement about a text, whose name stands in place of ``{name}``.
        field: The field of a verdict that is 1 for a probability above one half.
        state: Returns the texts that are shown.
        is_weighed: Whether the probabilities are weights of the reply.
    """

    def typed_questions(question: Question[Any]) -> list[TypedQuestion]:
        return [
            TypedQuestion("predicate", wording.format(name=name))
            for name in names_in_state(question, part)
        ]

    def reply(question: Question[Any], answers: Sequence[Chances]) -> Asked[Any]:
        chances = [chance for (chance,) in answers]
        verdicts = [
            {field: int(is_yes(chance)), "reason": f"p = {chance:.2f}"}
            for chance in chances
        ]
        weights = [Weight(chance, mode="decision") for chance in chances]
        return Asked(
            (reply_on_each(question, part, verdicts),),
            weights=tuple(weights) if is_weighed else (),
        )

    return TypedForm(state, typed_questions, reply)


def one_predicate(
    state: Callable[[Any], State],
    predicate: TypedQuestion,
    fields_of_reply: Callable[[float], Mapping[str, Any]],
    *,
    is_weighed: bool = True,
    known_reply: Callable[[Any], Asked[Any] | None] | None = None,
) -> TypedForm[Any]:
    """Make the typed form that asks one predicate about all that it shows.

    Args:
        state: Returns the texts that are shown.
        predicate: The predicate.
        fields_of_reply: Returns the fields of the reply, from the probability.
        is_weighed: Whether the probability is the weight of the reply.
        known_reply: Returns the reply where the texts settle it, else None.
    """

    def typed_questions(question: Question[Any]) -> list[TypedQuestion]:
        del question  # the same for all
        return [predicate]

    def reply(question: Question[Any], answers: Sequence[Chances]) -> Asked[Any]:
        ((chance,),) = answers
        weights = (Weight(chance, mode="decision"),) if is_weighed else ()
        return Asked((question.read(fields_of_reply(chance)),), weights=weights)

    return TypedForm(state, typed_questions, reply, known_reply=known_reply)
