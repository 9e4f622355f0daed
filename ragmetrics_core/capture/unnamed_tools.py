"""Tools whose text may be evidence, and that the user has to name. A part of stage 3.

A tool that returns "It fell in 1874." may have searched, or may be a calculator. Nobody
can tell but the user, who names searching tools by ``context_tools=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.context_rules import Contexts
from ragmetrics_core.capture.ledger_entries import LedgerEntry
from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.undivided import how_to_name_tools

_NEARLY_ALIKE = 0.85  # of two names: a slip of a letter or two
# "", "[]", "ok", "Done.", "null", and a bare number: "42", "-3.5 %", "1,024"
_SAYS_NOTHING = lazy_pattern(
    r"\W*(?:ok|okay|done|success|null|none)?\W*|[-+−]?\d[\d.,]*\s?%?", re.IGNORECASE
)
_NONE_CALLED = "the run called no tool that context_tools= names ({}); {}"


@dataclass(frozen=True, eq=False)
class ToolsOfText:
    """Tools whose text may be evidence.

    Attributes:
        with_text: Calls of all such tools.
        unnamed: Calls of tools for which the user has to say whether their text is a
            context.
        names_not_called: What the user named, if the run called no tool of such a name.
    """

    with_text: tuple[Node, ...]
    unnamed: tuple[Node, ...]
    names_not_called: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence that says how to name the tools; empty if none needs a name.

        It also says if the user named only tools that the run did not call.
        """
        if self.names_not_called and self.with_text:
            named = ", ".join(self.names_not_called)
            how_to_name = how_to_name_tools(_names_of(self.with_text))
            return (_NONE_CALLED.format(named, how_to_name),)
        if self.unnamed:
            return (how_to_name_tools(_names_of(self.unnamed)),)
        return ()


def _names_of(tools: Sequence[Node]) -> list[str]:
    """The names of some tools, each once."""
    return list(dict.fromkeys(tool.name for tool in tools))


def tools_of_text(
    contexts: Contexts, entries: Sequence[LedgerEntry], calls: Calls
) -> ToolsOfText:
    """Find the tools whose text may be evidence.

    Example: the tool ``web_search`` returned a text, and the user named no tools: the
    user has to say whether the text is a context. A user who named other tools, or gave
    an empty set, left this tool out on purpose. But ``websearch`` may be a slip.

    Args:
        contexts: The contexts of the answer.
        entries: The ledger's entries for the calls of the turn.
        calls: The calls of the turn, with the names of tools that the user gave.
    """
    with_text = _tools_beside_contexts(contexts, entries)
    context_tools = calls.context_tools
    if not calls.has_user_named_tools:
        return ToolsOfText(with_text, unnamed=with_text)
    names_not_called: tuple[str, ...] = ()
    if calls.names_of_tools_that_ran.isdisjoint(context_tools):
        names_not_called = tuple(sorted(context_tools))
    unnamed = with_text if _has_slip(context_tools, with_text) else ()
    return ToolsOfText(with_text, unnamed, names_not_called)


def _has_slip(names: Iterable[str], tools: Sequence[Node]) -> bool:
    """Whether a name that the user gave is nearly, or exactly, the name of a tool."""
    names_of_tools = [tool.name for tool in tools]
    return any(
        get_close_matches(name, names_of_tools, cutoff=_NEARLY_ALIKE) for name in names
    )


def _tools_beside_contexts(
    contexts: Contexts, entries: Sequence[LedgerEntry]
) -> tuple[Node, ...]:
    """Find the calls of tools that returned a text which is no context of the answer.

    Example: a retriever found "The bridge is old.", and a tool returned "The ferry runs
    every hour.". The prompt shows both: the call of the tool is returned, for nobody
    knows whether it searched.

    Args:
        contexts: The contexts of the answer.
        entries: What each call of the turn returned, and what of it a prompt shows.
    """
    if contexts.evidence_from == "named":  # the user said what the contexts are
        return ()
    entries_of_tools = [
        entry
        for entry in entries
        if entry.result.kind == "tool" and entry.result.text is not None
    ]
    # with contexts from a search, a tool counts if a prompt shows its text; without
    # contexts each tool counts
    if contexts.evidence_from is not None:
        context_texts = [context.text for context in contexts.items]
        entries_of_tools = [
            entry
            for entry in entries_of_tools
            if _is_shown_beside(entry, context_texts)
        ]
    return tuple(entry.result.call for entry in entries_of_tools)


def _is_shown_beside(entry: LedgerEntry, context_texts: Sequence[str]) -> bool:
    """Whether the answer was shown a tool's text, and no context was made of the text.

    Its length does not count: "Berlin" may be all that was looked up. A text that says
    nothing, such as "ok", or a bare number, such as "42", does not count.
    """
    text = as_one_line(entry.result.text)
    if not entry.shown or _SAYS_NOTHING.fullmatch(text):
        return False
    if any(text == as_one_line(context) for context in context_texts):
        return False
    return not shares_a_passage_with_any(text, context_texts)
