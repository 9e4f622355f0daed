"""The forms in which guards are asked, and in which they reply.

A guard is a chat model that was trained to give one word, yes or no, about one text.
Each family takes the texts in places of its own, and each says *yes* to another
question: Granite Guardian to "is there a risk?", MiniCheck to "is the claim
consistent?".
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragmetrics_core.data.errors import (
    ContentRefused,
    CutOffReply,
    EmptyReply,
    MalformedReply,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.models.chat import Choice

Body = dict[str, Any]
Word = Literal["yes", "no"]
Criterion = Literal["groundedness", "context_relevance"]
"""What a guard is asked.

- ``groundedness``: whether documents hold a claim;
- ``context_relevance``: whether a document is about a question.
"""


@dataclass(frozen=True, slots=True, repr=False)
class GuardRequest:
    """What one request asks.

    Args:
        criterion: What is asked.
        documents: The texts to go by.
        text: The claim, or the question of the user.
    """

    criterion: Criterion
    documents: tuple[str, ...]
    text: str

    def to_json(self) -> str:
        """Return the request as the message of a chat request.

        Equal requests give equal messages.
        """
        return json.dumps(
            [self.criterion, self.documents, self.text], ensure_ascii=False
        )

    @classmethod
    def from_json(cls, message: str) -> "GuardRequest":
        """Read the request that ``to_json`` wrote."""
        criterion, documents, text = json.loads(message)
        return cls(criterion, tuple(documents), text)


@dataclass(frozen=True, slots=True)
class GuardForm:
    """How a family of guards is asked, and what its words mean.

    Args:
        name: Its name, as in the name of a judge.
        favourable: The word that says that a claim is held, or a document relevant.
        fields: The fields of the request's body, beside its parameters.
        judges_relevance: Whether it was trained for ``context_relevance``, too.
        in_tags: Whether the word stands in ``<score>``, instead of alone.
    """

    name: str
    favourable: Word
    fields: Callable[[GuardRequest], Body]
    judges_relevance: bool
    in_tags: bool


# What is sent


def _message(role: str, content: str) -> Body:
    return {"role": role, "content": content}


def _join_documents(documents: Sequence[str]) -> str:
    return "\n\n".join(documents)


def _granite_3_2_fields(request: GuardRequest) -> Body:
    """Return the body: each context is a message with its own role, the claim the last."""
    context = _message("context", _join_documents(request.documents))
    if request.criterion == "groundedness":
        messages = [context, _message("assistant", request.text)]
    else:
        messages = [_message("user", request.text), context]
    config = {"guardian_config": {"risk_name": request.criterion}}
    return {"messages": messages, "chat_template_kwargs": config}


def _bodies_of_documents(documents: Sequence[str]) -> list[Body]:
    return [
        {"doc_id": str(number), "text": document}
        for number, document in enumerate(documents, start=1)
    ]


def _message_to_judge(request: GuardRequest) -> Body:
    """Return the message that is judged beside documents."""
    role = "assistant" if request.criterion == "groundedness" else "user"
    return _message(role, request.text)


def _granite_3_3_fields(request: GuardRequest) -> Body:
    """Documents stand beside the messages; the chat template writes the criterion."""
    return {
        "messages": [_message_to_judge(request)],
        "documents": _bodies_of_documents(request.documents),
        "chat_template_kwargs": {
            "guardian_config": {"criteria_id": request.criterion},
            "think": False,
        },
    }


# The words that the model was trained with: others are another question to it.
_MINICHECK_SYSTEM = (
    "Determine whether the provided claim is consistent with the corresponding"
    " document. Consistency in this context implies that all information presented in"
    " the claim is substantiated by the document. If not, it should be considered"
    " inconsistent. Please assess the claim's consistency with the document by"
    ' responding with either "Yes" or "No".'
)


# What begins a text in that message; a line of a text that begins so would pose as one.
_LABEL = lazy_pattern(r"^(\s*(?:Document|Claim)\s*):", re.IGNORECASE | re.MULTILINE)


def _minicheck_fields(request: GuardRequest) -> Body:
    """Return the body: one message with all texts, in the words the model was trained on.

    A line of a text that looks like the claim's label is changed: its colon becomes a
    dash.
    """
    document = _LABEL.sub(r"\1 -", _join_documents(request.documents))
    claim = _LABEL.sub(r"\1 -", request.text)
    prompt = f"Document: {document}\nClaim: {claim}"
    return {
        "messages": [_message("system", _MINICHECK_SYSTEM), _message("user", prompt)]
    }


def _by_name(*forms: GuardForm) -> Mapping[str, GuardForm]:
    """Forms by their names."""
    return {form.name: form for form in forms}


FORMS = _by_name(
    GuardForm("granite-3.2", "no", _granite_3_2_fields, True, in_tags=False),
    GuardForm("granite-3.3", "no", _granite_3_3_fields, True, in_tags=True),
    GuardForm("minicheck", "yes", _minicheck_fields, False, in_tags=False),
)
"""The forms that are known, by name.

Source:
    Granite Guardian: ``evaluation/models`` of the repository
    ``ibm-granite/granite-guardian``, and its templates in ``ibm-granite/gguf``.
    MiniCheck: ``minicheck/utils.py`` of the repository ``Liyan06/MiniCheck``.
"""


# What comes back


@dataclass(frozen=True, slots=True)
class GuardWord:
    """The word of a reply.

    Args:
        word: The word.
        start: Where it begins in the text of the reply.
        after_thinking: Whether it stands behind a reasoning that is not empty.
    """

    word: Word
    start: int
    after_thinking: bool = False


# A reasoning before the word, and the beginning of one.
_THINKING = lazy_pattern(r"\s*<think>(?P<thought>.*?)</think>", re.DOTALL)
_THINKING_BEGINS = lazy_pattern(r"\s*<think>")
# The word alone, perhaps with a confidence in words behind it; or between tags.
_ALONE = lazy_pattern(
    r"[\s\"'*]*(?P<word>yes|no)[\s\"'*.]*(?:<confidence>\s*\w+\s*</confidence>\s*)?",
    re.IGNORECASE,
)
_IN_TAGS = lazy_pattern(r"\s*<score>\s*(?P<word>yes|no)\s*</score>\s*", re.IGNORECASE)


def word_of(form: GuardForm, choice: Choice) -> GuardWord:
    """Read the one word, yes or no, that a guard replies with.

    A reasoning may stand before the word. Nothing else may. Example:
    "<think>It fits.</think> Yes" is "yes"; "Yes, mostly" is refused.

    Args:
        form: How this family of guards replies: the word alone, or in a tag.
        choice: The reply.

    Returns:
        The word, the place where it begins in the text, and whether the guard reasoned.

    Raises:
        ContentRefused: If the model declined to answer.
        CutOffReply: If the reply ends at the limit of its length.
        EmptyReply: If it holds nothing.
        MalformedReply: If it holds neither word, both, or others beside.
    """
    _check_finished(choice)
    text = choice.text
    thinking = _THINKING.match(text)
    if thinking is None and _THINKING_BEGINS.match(text):
        raise MalformedReply("its reasoning does not end", raw=text)
    end_of_thinking = 0 if thinking is None else thinking.end()
    pattern = _IN_TAGS if form.in_tags else _ALONE
    match = pattern.fullmatch(text, end_of_thinking)
    if match is None:
        example = "<score> yes </score>" if form.in_tags else "Yes"
        raise MalformedReply(
            f"it is not the one word that guards of the form {form.name} give, e.g."
            f" {example}",
            raw=text,
        )
    word: Word = "yes" if match["word"].casefold() == "yes" else "no"
    has_thought = thinking is not None and bool(thinking["thought"].strip())
    return GuardWord(word, match.start("word"), has_thought)


def _check_finished(choice: Choice) -> None:
    """Refuse a reply that the model did not give, or did not end."""
    if choice.finish == "refused":
        raise ContentRefused("the guard declined to answer", raw=choice.text)
    if choice.finish == "length":
        raise CutOffReply("it ends before its verdict", raw=choice.text)
    if not choice.text.strip():
        raise EmptyReply("the guard's reply is empty")
