"""What the user asked, by the names of sockets, and what was said before."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import AGENT, Run
from haystack_integrations.tracing.ragmetrics.tree import Calls, prompt

from ragmetrics_core import Turn
from ragmetrics_core.capturing import Message, documents_in, history_in, one_line, question_in

# Sockets that usually hold the question, the usual ones first.
_USUAL = (
    *("question", "user_question", "query", "user_query", "text", "user_input", "input", "prompt", "queries"),
    *("value", "messages"),
)
_NEVER = frozenset({"template", "prompt_template", "system_prompt", "filters", "generation_kwargs", "meta"})


@dataclass
class Given:
    """A text that the user gave, and each ``component.socket`` that got it."""

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL)


def question(calls: Calls, shown: Sequence[Message], query: str | None) -> Given | None:
    """The question in the user's own words: in a socket of a usual name before one that a model was shown."""
    given = _texts(calls.run)
    if same := [one for one in given if query and one_line(one.text) == one_line(query)]:
        return same[0]
    every = [one for node in calls.models for one in prompt(node)]
    seen, anywhere = ("\n".join(one_line(one.text) for one in some) for some in (shown, every))
    likely = [one for one in given if one.rank < len(_USUAL) or (_several(one.text) and _within(one.text, anywhere))]

    def order(one: Given) -> tuple[bool, bool, int, int]:
        there = _within(one.text, seen)
        return one.rank < len(_USUAL) and there, there, len(one.places), -one.rank

    return max(likely, key=order) if likely else _templated(calls.run, shown)


def _texts(run: Run) -> list[Given]:
    """Texts that the user gave, each once: of messages the user's last, of lists of texts each."""
    found: dict[str, Given] = {}
    for place, name, value in _inputs(run):
        listed = isinstance(value, tuple) and value and all(isinstance(item, str) for item in value)
        one_text = question_in(value) if isinstance(value, (str, Message, tuple)) else None
        for text in value if listed else (one_text,):
            if text is not None and text.strip() and name not in _NEVER:
                one = found.setdefault(one_line(text), Given(text))
                one.places.append(place)
                one.rank = min(one.rank, _USUAL.index(name) if name in _USUAL else len(_USUAL))
    return list(found.values())


def _inputs(run: Run) -> Iterator[tuple[str, str, Any]]:
    parts = {"": run.input} if run.root.operation == AGENT else run.input
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                yield from ((f"{place}.{key}", key, item) for key, item in value.items())


def _several(text: str) -> bool:
    """A single word of an unknown socket proves nothing, nor do several lines; many languages write no spaces."""
    line = text.strip()
    return "\n" not in line and (" " in line or (len(line) > 4 and not line.isascii()))


def _within(text: str, seen: str) -> bool:
    """True if it stands in a text as whole words, where its language has such."""
    edges = (r"(?<!\w)", r"(?!\w)") if one_line(text).isascii() else ("", "")
    return re.search(edges[0] + re.escape(one_line(text)) + edges[1], seen) is not None


def _templated(run: Run, shown: Sequence[Message]) -> Given | None:
    """The user's message as rendered, where the template itself came with the call and holds no documents."""
    places = [place for place, name, value in _inputs(run) if name == "template" and value]
    builders = [node for node in run.components() if f"{node.path}.template" in places]
    text = question_in(tuple(shown))
    fits = bool(builders) and not any(any(documents_in(node.input)) for node in builders)
    return Given(text, places) if text is not None and fits else None


def history(calls: Calls, before: int | None) -> tuple[Turn, ...]:
    """Earlier turns: those that the user handed in, else those that a memory brought back, shown or not."""
    kept: tuple[Turn, ...] = ()
    written: list[Message] = []
    lists = [_messages(value) for _, name, value in _inputs(calls.run) if name not in _NEVER]
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        listed = [_messages(value) for value in node.sockets.values()]
        if "Builder" in node.type or calls.of[node].kind in ("model", "agent"):
            written += [one for messages in listed for one in messages]
        elif node.closed and (before is None or node.closed < before):
            lists += [[one for one in messages if one not in written] for messages in listed]
    for earlier in lists:
        now = [Message("user", "now")] if earlier and earlier[-1].role != "user" else []
        kept = history_in([*earlier, *now]) or kept
    return kept


def _messages(value: object) -> list[Message]:
    return [one for one in value if isinstance(one, Message)] if isinstance(value, tuple) else []
