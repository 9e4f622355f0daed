"""Checks a tree that an adapter made, before the stages read it.

A wrong type would raise somewhere inside of the stages, or quietly give no sample.
"""

from collections.abc import Iterable
from types import NoneType
from typing import get_args

from ragmetrics_core.capture.tree import Answer, Document, Kind, Message, Node, Tree
from ragmetrics_core.data import SettingError

_KINDS = get_args(Kind)


def check_tree(tree: Tree) -> None:
    """Check that the calls of a tree are of known kinds and hold objects of our types.

    Raises:
        SettingError: A call has an unknown kind, a text stands in place of a
            ``Document``, ``Message`` or ``Answer``, one of these in place of a tuple,
            or an exception in place of its words. The error names the call.
    """
    if not isinstance(tree.answers, Iterable):
        kind = type(tree.answers).__name__
        raise SettingError(f"the tree has answers that are one {kind}: give a tuple")
    if not isinstance(tree.error, (str, NoneType)):
        kind = type(tree.error).__name__
        raise SettingError(f"the tree has an error that is a {kind}: give its words")
    for answer in tree.answers:
        if not isinstance(answer, Answer):
            kind = type(answer).__name__
            raise SettingError(
                f"the tree has answers that hold a {kind}: give Answer(text) objects"
            )
    calls = [tree.root]
    for call in calls:  # the list grows while the loop runs
        problem = _problem_of_call(call)
        if problem:
            raise SettingError(f"the call {call.name!r} of the tree {problem}")
        calls += call.children


def _problem_of_call(call: Node) -> str:
    """Say which field of a recorded call has a wrong value; "" if none has.

    Example: "has input_documents that hold a str: give Document(text) objects".
    """
    if call.kind not in _KINDS:  # "llm" in place of "model"
        return f"has the kind {call.kind!r}: give one of {', '.join(_KINDS)}"
    if not isinstance(call.error, (str, NoneType)):
        return f"has an error that is a {type(call.error).__name__}: give its words"
    for name, documents in (
        ("documents", call.documents),
        ("input_documents", call.input_documents),
    ):
        if not isinstance(documents, (Iterable, NoneType)):
            return f"has {name} that are one {type(documents).__name__}: give a tuple"
        for document in documents or ():
            if not isinstance(document, Document):
                kind = type(document).__name__
                return f"has {name} that hold a {kind}: give Document(text) objects"
    if not isinstance(call.prompt, Iterable):
        return f"has a prompt that is one {type(call.prompt).__name__}: give a tuple"
    for message in call.prompt:
        if not isinstance(message, Message):
            kind = type(message).__name__
            return f"has a prompt that holds a {kind}: give Message('user', text)"
    if call.reply is not None and not isinstance(call.reply, Message):
        kind = type(call.reply).__name__
        return f"has a reply that is a {kind}: give Message('assistant', text)"
    return ""
