"""What a run was asked, as its spans tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.history import history_in, turns_before_question
from ragmetrics_core.capture.plain_values import documents_in, has_written, question_in
from ragmetrics_core.capture.structures import as_one_line, find_instances
from ragmetrics_core.capture.tree import Message, Node, Tree
from ragmetrics_core.data import Turn
from ragmetrics_core.traces.dialects import Reading

ASKED_IN_PROMPT = Doubt("question_guessed")
_STEPS_BEFORE_QUESTION = Doubt(
    "history_unread",
    "several messages of the assistant stand before the question in the first prompt, and"
    " may be earlier turns; let the spans record the id of the conversation",
)
_FIELDS = re.compile(r"\w+=['\"]")  # of an object that was recorded as its text


def add_question(tree: Tree, reading: Reading) -> None:
    """Write into a tree what its run was asked: question, earlier turns and documents.

    Of a model or a retriever that was called alone only the question is written.

    Args:
        tree: The calls of one run, whose outermost is the root; it is changed.
        reading: What the span of the root says.
    """
    is_run = tree.root.kind == "step"
    tree.continues = is_run and _continues_a_run(reading.input)
    tree.question = _question(tree, reading)
    if tree.question is None and is_run and reading.says_nothing:
        tree.question = _question_of_first_prompt(tree.root)
        if tree.question is not None:
            tree.doubts += (ASKED_IN_PROMPT,)
    if is_run:
        _add_history(tree, reading)
        _add_documents_given(tree.root, reading.input)


def _add_history(tree: Tree, reading: Reading) -> None:
    """Write the earlier turns into a tree: those handed in, returned, or in a prompt."""
    tree.lookup_inputs = (reading.input,)
    tree.history = history_in(reading.input) or history_in(
        reading.output, tree.question
    )
    if not tree.history:
        _add_history_of_first_prompt(tree)


def _add_documents_given(root: Node, inputs: Any) -> None:
    """Write into a run's outermost call the documents that it was given.

    A run that was given an answer beside the documents grades that answer: it answers
    nothing from the documents.
    """
    is_grader = has_written(inputs)
    if not root.input_documents and not is_grader:
        root.input_documents = tuple(documents_in(inputs))


def _continues_a_run(inputs: Any) -> bool:
    """Whether a run of LangGraph goes on with an interrupted one.

    It is given nothing then, or a command.
    """
    if isinstance(inputs, Mapping):
        return {"resume", "goto"} <= set(inputs)
    return inputs is None


def _question(tree: Tree, reading: Reading) -> str | None:
    """Find the user's question in the metadata, else in the input; None without one.

    Example: the span of the chain "qa" has the input {"question": "Who?"}. Of a model or
    a retriever that was called alone only the metadata count.
    """
    question: str | None = reading.user_fields.get("question")
    if question is not None:
        return question
    is_run = tree.root.kind == "step"
    if not is_run or tree.continues:  # a run that goes on is asked nothing anew
        return None
    return _question_in_input(reading.input)


def _question_in_input(inputs: Any) -> str | None:
    """The question in what a run was given; None for several texts, or an object's text.

    A text such as "query='…'" is an object as Python writes it.
    """
    if holds_several_texts(inputs):
        return None
    question = question_in(inputs)
    if question is not None and not _FIELDS.match(question):
        return question
    return only_message(inputs, role="user")


def only_message(value: Any, *, role: str) -> str | None:
    """The text of the only message in a value; None if there are several or none.

    It is the user's or the assistant's, by ``role``.
    """
    messages: list[Message] = list(find_instances(value, Message))
    if len(messages) != 1 or messages[0].role != role:
        return None
    return messages[0].text if messages[0].text.strip() else None


def _add_history_of_first_prompt(tree: Tree) -> None:
    """Write into a tree the turns that stand before the question in its first prompt.

    They may be examples that a template holds, which is noted. Nothing is written in
    two cases. Where the user said nothing there, the assistant's words may be a
    greeting, or belong to the template. Where the assistant speaks twice in a row, its
    words may be steps of an agent: that leaves a doubt.
    """
    turns = _history_of_first_prompt(tree.root, tree.question)
    if not any(turn.role == "user" for turn in turns):
        return
    first_model = next(node for node in tree.root.walk() if node.kind == "model")
    said = [message for message in first_model.prompt if message.text.strip()]
    roles = [message.role for message in said if message.role in ("user", "assistant")]
    has_steps = ("assistant", "assistant") in pairwise(roles)
    if has_steps and tree.conversation_id is None:
        tree.doubts += (_STEPS_BEFORE_QUESTION,)
        return
    tree.history = turns
    tree.is_history_of_prompt = True


def _history_of_first_prompt(root: Node, question: str | None) -> tuple[Turn, ...]:
    """Return the turns that stand before the question in the first prompt of a run.

    The first prompt is the prompt of the model's first call. Example: "Hi" of the user,
    "Hello" of the assistant, "Who?" of the user: with the question "Who?" the turns are
    "Hi" and "Hello".

    Args:
        root: The outermost call of the run.
        question: What is asked; None if it is not known. The user's last message in the
            prompt stands for it then.

    Returns:
        The turns; () if no message of the user in the prompt holds the question.
    """
    models = [node for node in root.walk() if node.kind == "model"]
    if not models:
        return ()
    first_prompt = models[0].prompt
    user_texts = [message.text for message in first_prompt if message.role == "user"]
    question_in_prompt = question
    if not question_in_prompt and user_texts:
        question_in_prompt = user_texts[-1]
    if not question_in_prompt:
        return ()
    if not any(question_in_prompt in text for text in user_texts):
        return ()
    # messages that only show documents of the run are no turns
    documents = [document for node in root.walk() for document in node.documents or ()]
    return turns_before_question(first_prompt, question_in_prompt, documents)


def _question_of_first_prompt(root: Node) -> str | None:
    """The last message of the user that the first model of a run was shown.

    None if it may hold more than the question: what was found before, or a template's
    words around what was searched for before.
    """
    queries = []
    for node in root.walk():
        if node.documents or node.kind == "tool":
            return None
        if node.kind == "retriever" and node.query:
            queries.append(as_one_line(node.query))
        if node.kind == "model":
            text = _last_text_of_user(node.prompt)
            return None if _ends_with_query(text, queries) else text
    return None


def _last_text_of_user(prompt: Sequence[Message]) -> str | None:
    """The last message of the user in a prompt that is not blank; else None."""
    for message in reversed(prompt):
        if message.role == "user" and message.text.strip():
            return message.text
    return None


def _ends_with_query(text: str | None, queries: Sequence[str]) -> bool:
    """Whether a text is a query with words before it: "Question: Who?" around "Who?"."""
    line = as_one_line(text)
    return line not in queries and line.endswith(tuple(queries))


def holds_several_texts(inputs: Any) -> bool:
    """Whether the one value that a run was given is a list of texts."""
    values = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    if len(values) != 1:
        return False
    (value,) = values
    has_several = isinstance(value, tuple) and len(value) > 1
    return has_several and all(type(text) is str for text in value)
