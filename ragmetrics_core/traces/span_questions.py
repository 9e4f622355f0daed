"""What a run was asked, as its spans tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ragmetrics_core.capture import (
    documents_in,
    find_conversation,
    has_written,
    history_in,
)
from ragmetrics_core.capture.plain_values import (
    find_instances,
    question_in,
    question_in_state,
)
from ragmetrics_core.capture.prompt_turns import turns_before_question
from ragmetrics_core.capture.tree import Message, Node, Tree
from ragmetrics_core.data import Turn
from ragmetrics_core.traces.dialects import Reading

# where a question was read from, if the run's own span does not record it
FIRST_PROMPT = "first prompt"
_ASKED_IN_PROMPT = (
    "the run's span records no question; the user's last message in the first prompt"
    " stands for it"
)
_STEPS_BEFORE_QUESTION = (
    "several messages of the assistant stand before the question in the first prompt:"
    " they may be earlier turns, which are not read"
)
_FIELDS = re.compile(r"\w+=['\"]")  # of an object that was recorded as its text


def add_question(tree: Tree, reading: Reading) -> None:
    """Write into a tree what its run was asked, and was given beside the question.

    Beside the question a run may be given the earlier turns of the conversation, and
    documents. The tree also says whether the run goes on with an interrupted one, and
    what of all this is in doubt.

    Args:
        tree: The calls of one run, whose outermost is the root; it is changed.
        reading: What the span of the root says.
    """
    root = tree.root
    is_run = root.kind in ("step", "agent")
    tree.continues = is_run and _continues_a_run(reading.input)
    question, place = _question(tree, reading)
    tree.question = question
    tree.question_place = place
    if place == FIRST_PROMPT:
        tree.doubts += (_ASKED_IN_PROMPT,)
    if not is_run:
        return
    handed_in = find_conversation(reading.input)
    tree.history = handed_in.turns or reading.history
    if not tree.history:
        tree.history = history_in(reading.output, question)
    if not tree.history:
        _tell_history_of_first_prompt(tree)
    tree.doubts += handed_in.doubts
    # A run that is given an answer beside the documents grades that answer: it answers
    # nothing from the documents.
    is_grader = has_written(reading.input)
    if not root.input_documents and not is_grader:
        root.input_documents = tuple(documents_in(reading.input))


def _continues_a_run(inputs: Any) -> bool:
    """Whether a run of LangGraph goes on with an interrupted one.

    It is given nothing then, or a command.
    """
    if isinstance(inputs, Mapping):
        return {"resume", "goto"} <= set(inputs)
    return inputs is None


def _question(tree: Tree, reading: Reading) -> tuple[str | None, str]:
    """Find the user's question.

    These places are looked through in their order: what the application named for us,
    what went into the run, what it returned, and the first prompt where the run's span
    says nothing at all.

    Returns:
        The question, and in words where it was found; None and "" if no place has it.
    """
    root = tree.root
    question = reading.user_fields.get("question")
    if question is not None:
        return question, "metadata['ragmetrics']['question']"
    if root.kind not in ("step", "agent"):
        return None, ""
    # Nothing is asked in the input of a run that goes on with an interrupted one. Of
    # several texts in the input nothing tells which one is the question.
    if not tree.continues and not holds_several_texts(reading.input):
        question = question_in(reading.input)
        # a text such as "query='…'" is an object as Python writes it
        if question is not None and not _FIELDS.match(question):
            return question, f"input of {root.name}"
        question = only_message(reading.input, role="user")
        if question is not None:
            return question, f"input of {root.name}"
    question = question_in_state(reading.output)
    if question is not None:
        return question, f"output of {root.name}"
    if reading.says_nothing:
        question = _question_of_first_prompt(root)
        if question is not None:
            return question, FIRST_PROMPT
    return None, ""


def only_message(value: Any, *, role: str) -> str | None:
    """The text of the only message in a value; None if there are several or none.

    It is the user's or the assistant's, by ``role``.
    """
    messages: list[Message] = list(find_instances(value, Message))
    if len(messages) != 1 or messages[0].role != role:
        return None
    return messages[0].text if messages[0].text.strip() else None


def _tell_history_of_first_prompt(tree: Tree) -> None:
    """Write into a tree the turns that stand before the question in its first prompt.

    They may be examples that a template holds, which is noted. Nothing is written in
    two cases. Where the user said nothing there, the assistant's words may be a
    greeting, or belong to the template. Where the assistant speaks twice in a row, its
    words may be steps of an agent: that leaves a doubt.
    """
    turns = _history_of_first_prompt(tree.root, tree.question)
    roles = [turn.role for turn in turns]
    has_steps = ("assistant", "assistant") in pairwise(roles)
    if "user" not in roles:
        return
    if has_steps and tree.conversation_id is None:
        tree.doubts += (_STEPS_BEFORE_QUESTION,)
        return
    tree.history = turns
    tree.is_history_of_prompt = True


def _history_of_first_prompt(root: Node, question: str | None) -> tuple[Turn, ...]:
    """The turns that stand before the question in the first prompt of a run.

    Where the question is not known, the user's last message stands for it. () if the
    question does not stand there.
    """
    documents = [document for node in root.walk() for document in node.documents or ()]
    for node in root.walk():
        if node.kind != "model":
            continue
        words_of_user = [
            message.text for message in node.prompt if message.role == "user"
        ]
        asked = question or (words_of_user[-1] if words_of_user else "")
        if asked and any(asked in words for words in words_of_user):
            return turns_before_question(node.prompt, asked, documents)
        return ()
    return ()


def _question_of_first_prompt(root: Node) -> str | None:
    """The last message of the user that the first model of a run was shown.

    None where something was found before: an application may have put it into that
    message.
    """
    for node in root.walk():
        if node.documents or node.kind == "tool":
            return None
        if node.kind == "model":
            messages = [
                message.text for message in node.prompt if message.role == "user"
            ]
            texts = [text for text in messages if text.strip()]
            return texts[-1] if texts else None
    return None


def holds_several_texts(inputs: Any) -> bool:
    """Whether the one value that a run was given is a list of texts."""
    values = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    if len(values) != 1 or not isinstance(values[0], tuple):
        return False
    return len(values[0]) > 1 and set(map(type, values[0])) == {str}
