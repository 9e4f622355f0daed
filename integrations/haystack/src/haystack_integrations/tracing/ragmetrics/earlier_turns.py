"""What was said before the question of a run: the earlier turns of its conversation. Pure.

Example: the user handed in the messages "Hi", "Hello" and "Who?". The first two are the
earlier turns of the question "Who?".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from haystack_integrations.tracing.ragmetrics.components import Calls
from haystack_integrations.tracing.ragmetrics.nodes import Node, Run
from haystack_integrations.tracing.ragmetrics.user_texts import (
    NEVER_A_QUESTION,
    UserText,
    inputs_of_user,
    messages_in,
)

from ragmetrics_core import Turn, capture
from ragmetrics_core.capture import (
    Document,
    EarlierConversation,
    Message,
    as_one_line,
)

_ANSWERS_ALONE = "a component gave earlier answers without what they were answers to"


@dataclass(frozen=True)
class _MessageList:
    """Messages that may hold earlier turns of the conversation.

    Attributes:
        messages: The messages.
        may_be_examples: Whether a component composed them as a prompt for the question:
            they may be few-shot examples then.
    """

    messages: list[Message]
    may_be_examples: bool = False


@dataclass(frozen=True)
class History:
    """What was said before the question.

    Attributes:
        conversation: The turns, with what is uncertain about them.
        is_of_prompt: Whether the turns stand in a prompt alone, and may be examples.
    """

    conversation: EarlierConversation
    is_of_prompt: bool = False


def find_history(
    calls: Calls, answer_began: int | None, question_of_user: UserText | None
) -> History:
    """Find the earlier turns of the conversation; without any if nothing was said before.

    Example: the user handed in [user "Hi", assistant "Hello", user "Who?"]: the first
    two are the turns. Messages of a memory go before these; texts come last.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        question_of_user: The question of now; None if it is not known.
    """
    question = None if question_of_user is None else question_of_user.text
    message_lists = _message_lists_handed_in(calls.run)
    message_lists += _message_lists_of_components(calls, answer_began, question)
    for message_list in reversed(message_lists):
        turns = _turns_of(message_list.messages, question)
        if any(turn.role == "user" for turn in turns):
            conversation = EarlierConversation(turns)
            return History(conversation, message_list.may_be_examples)
        if turns:
            return History(EarlierConversation(doubts=(_ANSWERS_ALONE,)))
    return History(_conversation_in_texts(calls.run, question_of_user))


def _message_lists_handed_in(run: Run) -> list[_MessageList]:
    """The messages in each input that the user handed in."""
    message_lists = []
    for _, name, value in inputs_of_user(run):
        if name not in NEVER_A_QUESTION:
            message_lists.append(_MessageList(messages_in(value)))
    return message_lists


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
    return capture.history_in(messages)


def _conversation_in_texts(
    run: Run, question_of_user: UserText | None
) -> EarlierConversation:
    """Find earlier turns that the user handed in as texts.

    They stand in an input whose name says so, such as "chat_history", or in one list
    before the question, as "Hi" in ["Hi", "Who?"].
    """
    question = None if question_of_user is None else question_of_user.text
    values = {
        name: value
        for _, name, value in inputs_of_user(run)
        if capture.names_a_history(name)
    }
    conversation = capture.find_conversation(values, question)
    if conversation.turns or conversation.texts or question_of_user is None:
        return conversation
    return capture.find_conversation({"history": question_of_user.before}, question)


def _message_lists_of_components(
    calls: Calls, answer_began: int | None, question: str | None
) -> list[_MessageList]:
    """Return the conversations that components, such as a memory, gave before the answer.

    Each goes up to the question of now. Example: a memory returns [user "Hi", assistant
    "Hello", user "Who?"] before the model answers "Who?": these three messages.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
        question: What is asked now; None if that is not known.
    """
    all_documents = _documents_of(calls)
    message_lists: list[_MessageList] = []
    for node, messages in _messages_not_of_this_run(calls, answer_began):
        up_to_question = _messages_up_to_question(
            node, messages, question, all_documents
        )
        # A component of the application that composes a prompt may put examples of
        # question and answer into it, which look like earlier turns.
        took_documents = bool(calls.call_by_span[node].input_documents)
        may_be_examples = _is_composed_as_prompt(node, up_to_question, took_documents)
        message_lists.append(_MessageList(up_to_question, may_be_examples))
    return message_lists


def _messages_not_of_this_run(
    calls: Calls, answer_began: int | None
) -> Iterator[tuple[Node, list[Message]]]:
    """Yield the messages in each output of a component, with the component's span.

    Only components that ended before the answer count. What models and prompt builders
    of this run wrote is left out: it is no earlier turn, even if a memory returns it.

    Args:
        calls: The calls of the run.
        answer_began: When the answering call began; None if no call is known.
    """
    written_in_run: list[Message] = []
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        if _writes_messages(node, calls):
            written_in_run += _messages_among(node.output_by_socket)
        elif _ended_before(node, answer_began):
            for value in node.output_by_socket.values():
                yield node, _drop_written(messages_in(value), written_in_run)


def _writes_messages(node: Node, calls: Calls) -> bool:
    """Whether a component is a prompt builder, a model or an agent."""
    is_builder = "Builder" in node.type.rpartition(".")[2]
    return is_builder or calls.call_by_span[node].kind in ("model", "agent")


def _ended_before(node: Node, moment: int | None) -> bool:
    """Whether a component ended before a moment; True if the moment is not known."""
    return moment is None or node.closed < moment


def _documents_of(calls: Calls) -> list[Document]:
    """Collect all documents that calls of a run took or returned."""
    documents: list[Document] = []
    for call in calls.root.walk():
        documents += [*call.input_documents, *(call.documents or ())]
    return documents


def _messages_up_to_question(
    node: Node,
    messages: list[Message],
    question: str | None,
    documents: Sequence[Document],
) -> list[Message]:
    """Keep what a component returned of earlier turns, up to the question of now.

    Args:
        node: The span of the component.
        messages: A list of messages that it returned.
        question: What is asked now; None if that is not known.
        documents: Messages that only show these are dropped.
    """
    messages_taken = _messages_among(node.input)
    earlier = capture.messages_up_to_question(messages, question, messages_taken)
    earlier = capture.drop_shown_documents(earlier, documents)
    has_user_spoken = any(message.role == "user" for message in earlier)
    # words of the assistant alone are those of a step, if it was given some
    return earlier if has_user_spoken or not messages_taken else []


def _is_composed_as_prompt(
    node: Node, messages: list[Message], took_documents: bool
) -> bool:
    """Whether a component composed messages as a prompt for the question.

    A memory also adds messages that it was not given, but hands the last one on as it
    was given, and takes no documents.

    Args:
        node: The span of the component.
        messages: What it returned of earlier turns, with the question at the end.
        took_documents: Whether the component was given documents.
    """
    if not messages or messages[-1].role != "user":
        return False
    messages_taken = _messages_among(node.input)
    adds_messages = any(message not in messages_taken for message in messages[:-1])
    adds_last_message = messages[-1] not in messages_taken
    return adds_messages and (adds_last_message or took_documents)


def _messages_among(values: Mapping[str, Any]) -> list[Message]:
    """All messages among the inputs or outputs of a component."""
    return [message for value in values.values() for message in messages_in(value)]


def _drop_written(messages: list[Message], written: list[Message]) -> list[Message]:
    """Return messages without the messages that the run itself wrote.

    If a message stands in the list several times, only the last one is dropped: the
    others belong to earlier turns.
    """
    remaining = list(messages)
    for place in reversed(range(len(remaining))):
        is_new = remaining[place] not in messages[place + 1 :]
        if remaining[place] in written and is_new:
            del remaining[place]
    return remaining
