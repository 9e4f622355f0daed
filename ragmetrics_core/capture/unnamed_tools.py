"""Tools whose text may be evidence, and that the user has to name. A part of stage 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ragmetrics_core.capture.brought import LedgerEntry
from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.context_rules import Contexts
from ragmetrics_core.capture.passages import (
    is_long_enough,
    shares_a_passage_with_any,
)
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.undivided import how_to_name_tools

_NEARLY_ALIKE = 0.85  # of two names: a slip of a letter or two
_NONE_CALLED = "the run called no tool that context_tools= names ({}); {}"


@dataclass(frozen=True, eq=False)
class ToolsOfText:
    """Tools whose text may be evidence.

    Attributes:
        with_text: These tools.
        to_name: Those of which the user has to say whether their text is a context.
        names_not_called: What the user named, if the run called no tool of such a name.
    """

    with_text: tuple[Node, ...]
    to_name: tuple[Node, ...]
    names_not_called: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence that says how to name the tools; none if there are none to name.

        It also says if the user named tools of which the run called none.
        """
        if self.names_not_called and self.with_text:
            named = ", ".join(self.names_not_called)
            how_to_name = how_to_name_tools(_names_of(self.with_text))
            return (_NONE_CALLED.format(named, how_to_name),)
        if self.to_name:
            return (how_to_name_tools(_names_of(self.to_name)),)
        return ()


def _names_of(tools: Sequence[Node]) -> list[str]:
    """The names of some tools, each once."""
    return list(dict.fromkeys(tool.name for tool in tools))


def tools_of_text(
    contexts: Contexts, brought: Sequence[LedgerEntry], calls: Calls
) -> ToolsOfText:
    """Find the tools whose text may be evidence.

    The user has to name none of them where other tools were named: these were left out.
    But a name that is nearly that of one of the tools may be a slip.

    Args:
        contexts: The contexts of the answer.
        brought: What each call of the turn brought.
        calls: The calls of the turn, with the names of tools that the user gave.
    """
    with_text = _tools_beside_contexts(contexts, brought)
    context_tools = calls.context_tools
    if not context_tools:
        return ToolsOfText(with_text, to_name=with_text)
    names = [tool.name for tool in with_text]
    may_be_slip = any(
        get_close_matches(name, names, cutoff=_NEARLY_ALIKE) for name in context_tools
    )
    names_not_called: tuple[str, ...] = ()
    if calls.names_of_tools_that_ran.isdisjoint(context_tools):
        names_not_called = tuple(sorted(context_tools))
    to_name = with_text if may_be_slip else ()
    return ToolsOfText(with_text, to_name, names_not_called)


def _tools_beside_contexts(
    contexts: Contexts, brought: Sequence[LedgerEntry]
) -> tuple[Node, ...]:
    """Tools whose text may be evidence, so that the user is told to name them.

    These are all tools with text where there are no contexts, but for text that a model
    wrote. Beside contexts, the text must be shown, be no mere number, and be no page
    that a step made a context of.
    """
    if contexts.evidence_from is None:
        arrivals = [brought_text.arrival for brought_text in brought]
        return tuple(
            arrival.node
            for arrival in arrivals
            if arrival.kind == "tool" and arrival.text is not None
        )
    if contexts.evidence_from == "named":
        return ()
    context_texts = [context.text for context in contexts.items]
    tools = []
    for brought_text in brought:
        arrival = brought_text.arrival
        if arrival.kind != "tool" or not brought_text.shown:
            continue
        text = arrival.text or ""
        is_made_a_context = shares_a_passage_with_any(text, context_texts)
        if is_long_enough(text) and not is_made_a_context:
            tools.append(arrival.node)
    return tuple(tools)
