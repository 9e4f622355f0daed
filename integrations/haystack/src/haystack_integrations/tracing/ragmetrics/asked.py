"""What the user asked a run, and what was said before it. Pure.

Example: ``run({"builder": {"question": "Who?", "tone": "kind"}})`` hands in two texts.
"Who?" is the question, since an input named "question" got it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls, prompt
from haystack_integrations.tracing.ragmetrics.nodes import AGENT, Node, Run

from ragmetrics_core import Turn
from ragmetrics_core.capture import Message
from ragmetrics_core.capture.history import (
    history_in,
    names_a_history,
)
from ragmetrics_core.capture.plain_values import (
    as_one_line,
    find_instances,
    question_in,
)

# Names of sockets that usually hold the question, the likeliest first.
_USUAL_NAMES = (
    "question",
    "user_question",
    "query",
    "user_query",
    "text",
    "user_input",
    "input",
    "prompt",
    "queries",
    "value",
    "messages",
)
# Names of sockets that hold settings.
_NEVER_A_QUESTION = frozenset(
    {
        "template",
        "prompt_template",
        "system_prompt",
        "filters",
        "generation_kwargs",
        "meta",
    }
)


_ANSWERS_ALONE = "a component gave earlier answers without what they were answers to"


@dataclass
class UserText:
    """A text that the user handed in, which may be the question.

    Attributes:
        text: The text.
        places: Each ``component.socket`` that got it.
        rank: The place in ``_USUAL_NAMES`` of its socket's name; lower is likelier to
            be the question.
        is_one_of_several: Whether only lists of several texts hold it, so that nothing
            tells whether it was asked.
    """

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL_NAMES)
    is_one_of_several: bool = True

    @property
    def is_usual(self) -> bool:
        """Whether a socket of a usual name got it."""
        return self.rank < len(_USUAL_NAMES)


@dataclass(frozen=True)
class History:
    """What was said before the question.

    Attributes:
        turns: The turns.
        may_be_examples: Whether the turns stand in a prompt that a component composed.
        doubts: What is uncertain about them, in words.
    """

    turns: tuple[Turn, ...] = ()
    may_be_examples: bool = False
    doubts: tuple[str, ...] = ()


def find_question(
    calls: Calls, messages_shown: Sequence[Message], query: str | None
) -> UserText | None:
    """Choose the question among the user's texts; None if no text may be the question.

    If the answer carries a query, an equal text is chosen. Else a text may be the
    question if its input has a usual name, or if a model was shown its several words.

    Args:
        calls: The calls of the run.
        messages_shown: The prompt of the answering call.
        query: The question that the answer carries; None if it carries none.
    """
    user_texts = _user_texts(calls.run)
    for text in user_texts:
        if query and as_one_line(text.text) == as_one_line(query):
            text.is_one_of_several = False
            return text
    all_messages = [message for node in calls.models for message in prompt(node)]
    shown_to_models = _lines_of(all_messages)
    shown_here = _lines_of(messages_shown)

    def likelihood(text: UserText) -> tuple[bool, bool, int, int]:
        is_shown = _holds_words(shown_here, text.text)
        # an input named "query" or "question" first; then what the prompt shows; then
        # what most inputs got; then the likelier name of an input
        return text.is_usual and is_shown, is_shown, len(text.places), -text.rank

    likely = []
    for text in user_texts:
        is_shown = _holds_words(shown_to_models, text.text)
        if text.is_usual or (is_shown and _has_several_words(text.text)):
            likely.append(text)
    return max(likely, key=likelihood, default=None)


def _lines_of(messages: Sequence[Message]) -> str:
    """The texts of messages, one a line."""
    return "\n".join(as_one_line(message.text) for message in messages)


def _user_texts(run: Run) -> list[UserText]:
    """Collect each text that the user handed in, once, with all inputs that got it.

    Example: ``run({"retriever": {"query": "Who?"}, "builder": {"question": "Who?"}})``
    gives one text, "Who?", with two places. Of a list of texts each may be asked, and
    of messages the user's last one.
    """
    text_by_line: dict[str, UserText] = {}
    for place, name, value in _inputs_of_user(run):
        if name in _NEVER_A_QUESTION:
            continue
        texts = _texts_in_input(value)
        # of equally likely texts the first one is chosen: the last of a list
        for text in reversed(texts):
            user_text = text_by_line.setdefault(as_one_line(text), UserText(text))
            user_text.places.append(place)
            if name in _USUAL_NAMES:
                user_text.rank = min(user_text.rank, _USUAL_NAMES.index(name))
            if len(texts) == 1:
                user_text.is_one_of_several = False
    return list(text_by_line.values())


def _texts_in_input(value: object) -> list[str]:
    """The texts in one input of a component: a text, a list of texts, or messages."""
    if isinstance(value, tuple) and all(isinstance(text, str) for text in value):
        return [text for text in value if text.strip()]
    if not isinstance(value, (str, Message, tuple)):
        return []
    # messages may also be mappings of a role and a text
    text = question_in(value) or question_in(tuple(messages_in(value)))
    return [text] if text and text.strip() else []


def _inputs_of_user(run: Run) -> Iterator[tuple[str, str, Any]]:
    """Yield what the user handed in: for each input its place, its name and its value.

    Example: ``run({"retriever": {"query": "Who?"}})`` yields ("retriever.query",
    "query", "Who?"). Variables of a template are yielded as inputs as well.
    """
    # A pipeline's inputs are grouped by component. An agent's are not: they are put
    # under a component without a name, so that one loop reads both.
    inputs_by_component = run.input
    if run.root.operation == AGENT:
        inputs_by_component = {"": run.input}
    for component, inputs in inputs_by_component.items():
        if not isinstance(inputs, dict):
            continue
        for name, value in inputs.items():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                for variable, variable_value in value.items():
                    yield f"{place}.{variable}", variable, variable_value


def _has_several_words(text: str) -> bool:
    """True for a text of several words on one line, which may be a question.

    A text of more than four characters that are not all ASCII counts even without a
    space: its language, such as Chinese, may write none.
    """
    line = text.strip()
    if "\n" in line:
        return False
    return " " in line or (len(line) > 4 and not line.isascii())


def _holds_words(longer_text: str, text: str) -> bool:
    """Whether a longer text holds a text, at the borders of words.

    Borders count only for ASCII: other languages may write no spaces.
    """
    line = as_one_line(text)
    pattern = re.escape(line)
    if line.isascii():
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return re.search(pattern, longer_text) is not None


def find_history(
    calls: Calls, answer_began: int | None, question: str | None
) -> History:
    """Find the earlier turns of the conversation; without any if nothing was said before.

    Messages that a component such as a memory gave go first, then messages that the
    user handed in, then texts under a name such as "chat_history".

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        question: The question of now; None if it is not known.
    """
    for node in reversed(list(calls.run.components())):
        if not _may_be_memory(node, calls, answer_began):
            continue
        for value in node.output_by_socket.values():
            messages = _without_those_of_this_run(messages_in(value), calls)
            turns = _turns_of(messages, question)
            if any(turn.role == "user" for turn in turns):
                return History(turns, _is_composed_as_prompt(node, messages))
            # the assistant's words alone are those of a step, if it was given some
            if turns and not any(find_instances(node.input, Message)):
                return History(doubts=(_ANSWERS_ALONE,))
    history_by_name = {}
    for _, name, value in _inputs_of_user(calls.run):
        turns = _turns_of(messages_in(value), question)
        if any(turn.role == "user" for turn in turns) and name not in _NEVER_A_QUESTION:
            return History(turns)
        if names_a_history(name):
            history_by_name[name] = value
    return History(history_in(history_by_name, question))


def _may_be_memory(node: Node, calls: Calls, answer_began: int | None) -> bool:
    """Whether a component that ended before the answer may have given earlier turns.

    A model, an agent, a prompt builder and a component that was given documents write
    messages of their own.
    """
    call = calls.call_by_span[node]
    is_builder = "Builder" in node.type.rpartition(".")[2]
    is_writer = is_builder or call.kind in ("model", "agent") or call.input_documents
    has_ended = answer_began is None or node.closed < answer_began
    return has_ended and not is_writer


def _is_composed_as_prompt(node: Node, messages: Sequence[Message]) -> bool:
    """Whether a component put the question behind messages, which may be examples then.

    A memory hands the question on as a message that it was given.
    """
    given = list(find_instances(node.input, Message))
    return messages[-1].role == "user" and messages[-1] not in given


def _without_those_of_this_run(messages: list[Message], calls: Calls) -> list[Message]:
    """Leave out what models of this run replied."""
    replies = [call.reply for call in calls.root.walk() if call.reply is not None]
    texts = {as_one_line(reply.text) for reply in replies}
    return [
        message
        for message in messages
        if message.role != "assistant" or as_one_line(message.text) not in texts
    ]


def _turns_of(messages: Sequence[Message], question: str | None) -> tuple[Turn, ...]:
    """The turns of messages, without the question of now at their end.

    Example: "Hi", "Hello", "Who?" and the question "Who?" give "Hi" and "Hello". If the
    question is not known, a last message of the user is taken for it.
    """
    if not messages:
        return ()
    is_question_last = False
    if messages[-1].role == "user":
        is_question_last = as_one_line(question) in as_one_line(messages[-1].text)
    if not is_question_last:
        # history_in() takes off the last message as the question: give it one
        messages = [*messages, Message("user", "now")]
    return history_in(messages)


def messages_in(value: object) -> list[Message]:
    """The messages of a list, whose elements are messages or mappings of a role and a text."""
    if not isinstance(value, tuple):
        return []
    messages = [element for element in value if isinstance(element, Message)]
    if messages or not all(isinstance(element, Mapping) for element in value):
        return messages
    turns = history_in({"history": value})
    return [Message(turn.role, turn.content) for turn in turns]
