"""Puts the spans that write LlamaIndex's streamed answers inside the chats that they answer."""

from collections.abc import Sequence

from ragmetrics_core.capture import as_one_line
from ragmetrics_core.traces.llamaindex_values import last_text_of_user
from ragmetrics_core.traces.span_calls import Call

# the object whose method writes the answer of a streamed chat
_STREAM_WRITER = "StreamingAgentChatResponse."


def put_streams_into_chats(calls: Sequence[Call]) -> list[Call]:
    """Put the spans that write streamed answers inside the chats that they answer.

    A thread of LlamaIndex writes such an answer. Its span stands beside the
    chat's span if the thread begins after the chat has ended.

    Args:
        calls: The outermost calls of a trace, as ``read`` left them.

    Returns:
        The outermost calls now.
    """
    outermost: list[Call] = []
    unanswered_chats: list[Call] = []
    for call in calls:
        chat = _chat_of_writer(call, unanswered_chats)
        if chat is not None:
            chat.inside.append(call)
            unanswered_chats.remove(chat)
            continue
        outermost.append(call)
        if not _writes_stream(call) and _is_unanswered(call):
            unanswered_chats.append(call)
    return outermost


def _chat_of_writer(call: Call, unanswered_chats: Sequence[Call]) -> Call | None:
    """The only chat with whose question a writer's prompt ends; None for no writer."""
    if not _writes_stream(call):
        return None
    chats = [
        chat for chat in unanswered_chats if _prompt_ends_with_question(chat, call)
    ]
    return chats[0] if len(chats) == 1 else None


def _writes_stream(call: Call) -> bool:
    """Whether a call writes the answer of a streamed chat."""
    return call.span.name.startswith(_STREAM_WRITER)


def _is_unanswered(call: Call) -> bool:
    """Whether an engine was asked, returned no answer, and nothing inside wrote one."""
    reading = call.reading
    if reading is None or reading.kind != "agent":
        return False
    if any(_writes_stream(inner) for inner in call.walk()):
        return False
    return bool(reading.query) and reading.output is None


def _prompt_ends_with_question(chat: Call, writer: Call) -> bool:
    """Whether the question of a chat ends a prompt inside the writer of a stream.

    Questions of earlier turns stand in the prompt as well, and do not end it.
    """
    if chat.reading is None:
        return False
    question = as_one_line(chat.reading.query)
    for call in writer.walk():
        prompt = call.reading.prompt if call.reading is not None else ()
        last_text = last_text_of_user(prompt)
        # where a chat is shown as one text, this begins the reply
        text = as_one_line(last_text).removesuffix("assistant:").rstrip()
        if text.endswith(question):
            return True
    return False
