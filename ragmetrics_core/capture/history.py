"""Finds what was said in earlier turns: in inputs, in histories and in prompts. Pure.

Messages of a framework, mappings with a role, and pairs of question and answer have
turns. A text such as "User: Open? Assistant: Yes." is not read: the sample has a doubt
then. Of the messages "When did it open?", "In 1874." and "And the ferry?" the first
two are the history, if the question of now is "And the ferry?".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from math import inf
from operator import itemgetter

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.plain_values import (
    conversation,
    names_a_history,
)
from ragmetrics_core.capture.shown import shows, shows_some
from ragmetrics_core.capture.structures import as_one_line, find_instances
from ragmetrics_core.capture.tree import Document, Message, Node
from ragmetrics_core.data import RowError, Turn
from ragmetrics_core.data.columns import read_turns

_SPEAKERS = ("user", "assistant")  # of a conversation, in the order of a pair
# what an application writes around the user's words is at least so long
_FEWEST_CHARACTERS_AROUND = 24
_ROLE_OF_LINE = re.compile(r"^(user|assistant): ", re.MULTILINE)


def history_in(
    value: object,
    question: str | None = None,
    *,
    depth: int = 3,
    only_before_question: bool = False,
) -> tuple[Turn, ...]:
    """Find the earlier turns of a conversation in what a run was given.

    ``{"input": "When?", "chat_history": [("Open?", "Yes.")]}`` has two earlier turns:
    the user's "Open?" and the assistant's "Yes.". So has a list of three messages,
    "Open?", "Yes." and "When?".

    Args:
        value: A list of messages, or a mapping that may hold a history or messages.
        question: What is asked now; None if it is not known.
        depth: How many levels of nested mappings are searched.
        only_before_question: Whether messages are earlier turns only if a later message
            is the question. If not, any messages before the user's last one are.

    Returns:
        The turns; () for none, and for texts that do not say who speaks, such as a
        memory's note "They spoke about the bridge.".
    """
    messages = conversation(value)
    # ["When did it open?", "Who built it?"] may be a list of queries
    if messages is not None and any(find_instances(value, Message)):
        line = as_one_line(question)
        places = [n for n, each in enumerate(messages) if each.role == "user"]
        asking = [n for n in places if as_one_line(messages[n].text) == line]
        if not asking and not only_before_question:
            asking = places
        return spoken(messages[: asking[-1]]) if asking else ()
    if depth == 0 or not isinstance(value, Mapping):
        return ()
    for name, part in value.items():
        if names_a_history(name) and not name.endswith("messages"):
            turns = read_history(part)
            if turns and turns[-1].role == "user":
                line = as_one_line(turns[-1].content)
                turns = turns[:-1] if line == as_one_line(question) else turns
            if turns:
                return turns
    parts = [value.get("input"), value.get("messages")]
    if len(value) == 1:
        parts.extend(value.values())
    for part in parts:
        turns = history_in(
            part,
            question,
            depth=depth - 1,
            only_before_question=only_before_question,
        )
        if turns:
            return turns
    return ()


def read_history(value: object) -> tuple[Turn, ...]:
    """Read a chat history in any of its usual forms; no turns for another value.

    Other texts do not surely tell who speaks, be it "User: Open? Assistant: Yes.".
    """
    if isinstance(value, str):
        # as LlamaIndex writes it into prompts: "user: Open?\nassistant: Yes."
        before, *parts = _ROLE_OF_LINE.split(value)
        roles = () if before.strip() else parts[::2]
        texts = [text.strip() for text in parts[1::2]]
        return spoken(map(Message, roles, texts))
    if not isinstance(value, (list, tuple)):
        return ()
    if any(isinstance(element, str) for element in value):
        return ()
    messages = conversation(value)
    if messages is not None:
        # what user and assistant said, without messages of tools or the system
        return spoken(messages)
    # [{"role": "user", "content": "Open?"}], [("Open?", "Yes.")]
    turns: list[Turn] = []
    with suppress(RowError):  # another structure
        for role, text in map(itemgetter("role", "content"), read_turns(value)):
            if role in _SPEAKERS and isinstance(text, str) and text.strip():
                turns.append(Turn(role=role, content=text))
    return tuple(turns)


def spoken(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """Return what user and assistant said to each other, without blank messages.

    Of the assistant's messages in a row only the last one is its reply: before it stand
    calls of tools with the model's thoughts, notes of a framework, and reports of agents
    to each other.

    Of the user's "Open?" and, right after it, the user's "Answer from these documents:
    … Question: Open?" only the first is a turn: the other is the prompt made of it.
    """
    turns: list[Turn] = []
    for message in messages:
        is_spoken = message.role in _SPEAKERS and bool(message.text.strip())
        if not is_spoken or message.tool_calls:
            continue
        turn = Turn(role=message.role, content=message.text)
        last_turn = turns[-1] if turns else None
        is_next_in_row = last_turn is not None and last_turn.role == turn.role
        if last_turn is None or not is_next_in_row:
            turns.append(turn)
        elif turn.role == "assistant":
            turns[-1] = turn
        else:
            # words that stand apart in a longer prompt: a line of it, or behind a label
            words = last_turn.content.strip()
            n_around = len(as_one_line(turn.content)) - len(as_one_line(words))
            is_longer = bool(words) and n_around >= _FEWEST_CHARACTERS_AROUND
            if not (is_longer and shows([turn.content], words)):
                turns.append(turn)
    return tuple(turns)


def is_same_history(history: Sequence[Turn], captured: Sequence[Turn]) -> bool:
    """Return whether a history is, turn by turn, the captured one.

    In the history a turn of the user may be a whole prompt: it then begins or ends with
    the captured words. Between other lines of a prompt they may be a passage's.
    """
    if not captured or len(history) != len(captured):
        return False
    for turn, captured_turn in zip(history, captured, strict=True):
        text, words = turn.content.strip(), captured_turn.content.strip()
        is_same = as_one_line(text) == as_one_line(words)
        if turn.role == "user" and len(words) >= _FEWEST_CHARACTERS:
            is_first = text.startswith(f"{words}\n")
            is_last = text.endswith((f"\n{words}", f": {words}"))
            is_same = is_same or is_first or is_last
        if turn.role != captured_turn.role or not is_same:
            return False
    return True


def history_of_prompts(
    root: Node, question: str | None, examples: Collection[str] = ()
) -> tuple[Turn, ...]:
    """Return the longest history in the prompts of a run's models; () without one.

    Example: a model was shown user "Open?", assistant "Yes.", user "And when?". The first
    two are the history of the question "And when?". What models of the run replied
    before is a step of this turn.

    Args:
        root: The run.
        question: What is asked now; None if that is not known.
        examples: Replies that a template holds: they and what stands before them are
            no history.
    """
    nodes = list(root.walk())
    # a reranker's model is shown no talk of the user
    rerankers = [node for node in nodes if node.kind == "reranker"]
    of_rerankers = {inner for node in rerankers for inner in node.walk()}
    shown_replies = [
        node
        for node in nodes
        if node not in of_rerankers and any(m.role == "assistant" for m in node.prompt)
    ]
    documents = [document for node in nodes for document in node.documents or ()]
    end_of_reply: dict[str, float] = {}  # by its letters: an agent may write it anew
    for node in nodes:
        if node.reply is not None and node.ended is not None:
            end_of_reply.setdefault(letters_of(node.reply.text), node.ended)

    longest: tuple[Turn, ...] = ()
    for node in shown_replies:
        prompt: list[Message] = []
        for message in node.prompt:
            letters = letters_of(message.text)
            if message.text in examples:
                prompt = []
            elif not letters or node.began < end_of_reply.get(letters, inf):
                prompt.append(message)
        turns = turns_before_question(prompt, question, documents)
        has_reply = any(turn.role == "assistant" for turn in turns)
        if has_reply and len(turns) > len(longest):
            longest = turns
    return longest


# a shorter question stands in other messages by chance
_FEWEST_CHARACTERS = 8


def turns_before_question(
    prompt: Sequence[Message], question: str | None, documents: Iterable[Document]
) -> tuple[Turn, ...]:
    """Return what user and assistant said in a prompt before the current question.

    User "Open?", assistant "Yes.", user "And when?": the turns are "Open?" and "Yes."
    They end with the assistant's last message if no message holds the question.

    Args:
        prompt: The messages that a model was shown.
        question: What is asked now; None if that is not known.
        documents: What was found; messages that only show these are no turns.
    """
    question_line = as_one_line(question)
    n_earlier_messages = 0
    for index, message in enumerate(prompt):
        is_reply = message.role == "assistant" and not message.tool_calls
        if is_reply and message.text.strip():
            n_earlier_messages = index + 1
    # the last message that asks the question ends the earlier turns
    for index, message in enumerate(prompt):
        line = as_one_line(message.text)
        is_long = len(question_line) >= _FEWEST_CHARACTERS
        is_asked = line == question_line or (is_long and question_line in line)
        if message.role == "user" and question_line and is_asked:
            n_earlier_messages = index
    earlier = [each for each in prompt[:n_earlier_messages] if each.role in _SPEAKERS]
    found = {letters_of(document.text) for document in documents}
    turns = []
    for message, next_message in zip_longest(earlier, earlier[1:]):
        is_answered = (
            next_message is not None
            and next_message.role == "assistant"
            and next_message.text.strip()
        )
        # "Context: Porto lies on the Douro, in …" asks nothing, if nobody answered it
        is_context = message.role == "user" and not is_answered
        letters = letters_of(message.text) if is_context else ""
        if not any(shows_some(letters, each) for each in found):
            turns.append(message)
    return spoken(turns)
