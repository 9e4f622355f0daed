"""From a recorded run, or from what a pipeline returned, to the core's trees of calls: a tree for each answer. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from haystack_integrations.tracing.ragmetrics.answers import (
    answers,
    documents_left,
    replies_of,
)
from haystack_integrations.tracing.ragmetrics.components import Calls, prompt
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    PIPELINE,
    Node,
    Run,
    copied,
)

from ragmetrics_core import Turn, capture
from ragmetrics_core.capture import (
    Answer,
    Message,
    Overrides,
    Problems,
    SettingError,
    Tree,
    documents_in,
    one_line,
)

# Sockets that usually hold the question, the usual ones first.
_USUAL = (
    *(
        "question",
        "user_question",
        "query",
        "user_query",
        "text",
        "user_input",
        "input",
        "prompt",
        "queries",
    ),
    *("value", "messages"),
)
_NEVER = frozenset(
    {
        "template",
        "prompt_template",
        "system_prompt",
        "filters",
        "generation_kwargs",
        "meta",
    }
)


def as_run(result: object) -> Run:
    """A run, or one that holds only what was returned: a result of a pipeline or agent, or an answer, or several.

    The contexts are then the documents that the answers carry, or the last ones in the
    result; ``SettingError`` if it is none of these.
    """
    if isinstance(result, Run):
        return result
    value = copied(result)
    value = (value,) if isinstance(value, Answer) else value
    if isinstance(value, tuple) and all(isinstance(item, Answer) for item in value):
        value = {"answers": {"answers": value}}
    if not isinstance(value, dict):
        raise SettingError(
            "samples_from() takes a run, a pipeline's result or answers, got"
            f" {type(result).__name__}"
        )
    run = Run(Problems())
    run.nodes.append(
        Node(
            AGENT if "last_message" in value else PIPELINE,
            "",
            "",
            None,
            1,
            closed=1,
            output=value,
        )
    )
    return run


def trees(run: Run, where: Overrides) -> list[Tree]:
    """A tree for each answer, because each may have its own question.

    One for a run without any.
    """
    calls = Calls(run)
    named = (
        replies_of(calls, where.answer_from)
        if isinstance(where.answer_from, str)
        else []
    )
    found = named or ([] if run.error else answers(calls))
    if (
        where.build is None
        and not calls.models
        and any("documents_written" in one.sockets for one in run.components())
    ):
        return []
    made = [
        _tree(calls, one, where) for one in found[: 1 if where.build else None]
    ] or [_tree(calls, None, where)]
    for one in made if named else ():
        one.places = tuple(
            {name: at for name, at in place.items() if name != where.answer_from}
            for place in one.places
        )
    return made


def _tree(calls: Calls, answer: Answer | None, where: Overrides) -> Tree:
    run = calls.run
    last = calls.models[-1] if calls.models else None
    call = (
        answer.call
        if answer is not None
        else calls.of[last]
        if last is not None
        else None
    )
    carried, at = (
        (answer.question, f"{answer.place} query") if answer is not None else (None, "")
    )
    asked = _question(calls, call.prompt if call is not None else (), carried)
    flow, place = (
        calls.flow(last) if answer is None and last is not None else (None, "")
    )
    left = documents_left(run)
    # Models, if any were called, may only have written queries for a later retriever.
    searched_last = last is None or any(
        node.opened > last.closed and calls.retrieves(node) for node in run.nodes
    )
    gives_documents = (
        answer is None and bool(left) and run.error is None and searched_last
    )
    if gives_documents or (
        answer is not None and left and call is None and not answer.documents
    ):
        place, flow = left[-1]
        answer = answer and replace(answer, documents=None)
    held = {one.id: one for node in run.nodes for one in documents_in(node.output)}
    blank = tuple(one for one in held.values() if not one.text.strip())
    return Tree(
        calls.root,
        question=carried if asked is None else asked.text,
        asked_at=(
            ", ".join(asked.places) if asked is not None else at if carried else ""
        ),
        standalone=(
            carried if asked is not None and carried and carried != asked.text else None
        ),
        history=_history(calls, None if call is None else int(call.began)),
        answers=() if answer is None else (answer,),
        output=run.output,
        flow=flow,
        flow_at=place,
        is_query=answer is not None or (last is not None and asked is not None),
        gives_documents=gives_documents,
        error=run.error,
        complete=run.complete,
        strand=run.strand,
        thread=repr(run.input) if run.resumable or _resumed(run) else None,
        paused=run.paused,
        continues=_resumed(run),
        other=blank,
        warnings=(
            *_warnings(run, where),
            *(
                [f"{len(blank)} documents without text are no contexts"]
                if blank
                else []
            ),
        ),
        run=run,
        places=_places(run),
        plain=copied,
    )


def _resumed(run: Run) -> bool:
    """True for a run from a snapshot: its first component was given what no component of the run returned."""
    first = next(run.components(), None)
    if first is None:
        return False
    given = run.input.get(first.name) or {}
    fed = [
        name
        for name, socket in first.takes.items()
        if socket.get("senders") and name not in given
    ]
    return any(first.input.get(name) for name in fed)


def _warnings(run: Run, where: Overrides) -> list[str]:
    """Places of the user that lead nowhere."""
    sources = {
        name: getattr(where, f"{name}_from")
        for name in ("question", "contexts", "answer")
    }
    named = [name for name, source in sources.items() if isinstance(source, str)]
    lost = [
        f"{name}_from={sources[name]!r}"
        for name in named
        if not where.find(name, run, *_places(run))[0]
    ]
    return [f"{one} is not in this run; the rules were used" for one in lost]


def _places(run: Run) -> tuple[Mapping[str, Any], ...]:
    """Outputs and inputs of the last visit of each component, by ``component`` and ``component.socket``."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for node in run.components():
        for there, values in zip(found, (node.output, node.input), strict=True):
            if isinstance(values, dict):
                there[node.path] = values
                there |= {
                    f"{node.path}.{name}": value for name, value in values.items()
                }
    return (*found, run.output, run.input)


# What the user asked, by the names of sockets, and what was said before


@dataclass
class _Given:
    """A text that the user gave, and each ``component.socket`` that got it."""

    text: str
    places: list[str] = field(default_factory=list)
    rank: int = len(_USUAL)


def _question(
    calls: Calls, shown: Sequence[Message], query: str | None
) -> _Given | None:
    """The question in the user's own words: in a socket of a usual name before one that a model was shown."""
    given = _texts(calls.run)
    if same := [
        one for one in given if query and one_line(one.text) == one_line(query)
    ]:
        return same[0]
    every = [one for node in calls.models for one in prompt(node)]
    seen, anywhere = (
        "\n".join(one_line(one.text) for one in some) for some in (shown, every)
    )
    likely = [
        one
        for one in given
        if one.rank < len(_USUAL)
        or (_several(one.text) and _within(one.text, anywhere))
    ]

    def order(one: _Given) -> tuple[bool, bool, int, int]:
        there = _within(one.text, seen)
        return one.rank < len(_USUAL) and there, there, len(one.places), -one.rank

    return max(likely, key=order) if likely else _templated(calls.run, shown)


def _texts(run: Run) -> list[_Given]:
    """Texts that the user gave, each once: of messages the user's last, of lists of texts each."""
    found: dict[str, _Given] = {}
    for place, name, value in _inputs(run):
        listed = (
            isinstance(value, tuple)
            and value
            and all(isinstance(item, str) for item in value)
        )
        one_text = (
            capture.question_in(value)
            if isinstance(value, (str, Message, tuple))
            else None
        )
        for text in value if listed else (one_text,):
            if text is not None and text.strip() and name not in _NEVER:
                one = found.setdefault(one_line(text), _Given(text))
                one.places.append(place)
                one.rank = min(
                    one.rank, _USUAL.index(name) if name in _USUAL else len(_USUAL)
                )
    return list(found.values())


def _inputs(run: Run) -> Iterator[tuple[str, str, Any]]:
    parts = {"": run.input} if run.root.operation == AGENT else run.input
    for component, sockets in parts.items():
        for name, value in sockets.items() if isinstance(sockets, dict) else ():
            place = f"{component}.{name}" if component else name
            yield place, name, value
            if name == "template_variables" and isinstance(value, dict):
                yield from (
                    (f"{place}.{key}", key, item) for key, item in value.items()
                )


def _several(text: str) -> bool:
    """A single word of an unknown socket proves nothing, nor do several lines.

    Many languages write no spaces.
    """
    line = text.strip()
    return "\n" not in line and (" " in line or (len(line) > 4 and not line.isascii()))


def _within(text: str, seen: str) -> bool:
    """True if it stands in a text as whole words, where its language has such."""
    edges = (r"(?<!\w)", r"(?!\w)") if one_line(text).isascii() else ("", "")
    return re.search(edges[0] + re.escape(one_line(text)) + edges[1], seen) is not None


def _templated(run: Run, shown: Sequence[Message]) -> _Given | None:
    """The user's message as rendered, where the template itself came with the call and holds no documents."""
    places = [
        place for place, name, value in _inputs(run) if name == "template" and value
    ]
    builders = [node for node in run.components() if f"{node.path}.template" in places]
    text = capture.question_in(tuple(shown))
    fits = bool(builders) and not any(
        any(documents_in(node.input)) for node in builders
    )
    return _Given(text, places) if text is not None and fits else None


def _history(calls: Calls, before: int | None) -> tuple[Turn, ...]:
    """Earlier turns: those that the user handed in, else those that a memory brought back, shown or not."""
    kept: tuple[Turn, ...] = ()
    written: list[Message] = []
    lists = [
        _messages(value) for _, name, value in _inputs(calls.run) if name not in _NEVER
    ]
    for node in sorted(calls.run.components(), key=lambda node: node.closed):
        listed = [_messages(value) for value in node.sockets.values()]
        if "Builder" in node.type.rpartition(".")[2] or calls.of[node].kind in (
            "model",
            "agent",
        ):
            written += [one for messages in listed for one in messages]
        elif node.closed and (before is None or node.closed < before):
            brought = [_without_once(messages, written) for messages in listed]
            # words of the assistant alone are a step's, no earlier turn's
            lists += [
                messages
                for messages in brought
                if any(one.role == "user" for one in messages)
            ]
    for earlier in lists:
        now = [Message("user", "now")] if earlier and earlier[-1].role != "user" else []
        kept = capture.history_in([*earlier, *now]) or kept
    return kept


def _without_once(messages: list[Message], written: list[Message]) -> list[Message]:
    """A conversation without what the run itself wrote: of equal messages the last is this run's."""
    left = list(messages)
    for place in reversed(range(len(left))):
        is_new = left[place] not in messages[place + 1 :]
        if left[place] in written and is_new:
            del left[place]
    return left


def _messages(value: object) -> list[Message]:
    return (
        [one for one in value if isinstance(one, Message)]
        if isinstance(value, tuple)
        else []
    )
