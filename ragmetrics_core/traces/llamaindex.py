"""LlamaIndex as instrumentations record it: a call is known by its method, or by what went into it and came out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ragmetrics_core.capture import Document, Message, ToolCall, answer_text, one_line
from ragmetrics_core.capture.plain_values import each, texts_in
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.data import Sample
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_trees import Call
from ragmetrics_core.traces.values import (
    ToolMessage,
    mapping,
    messages_in,
    parse_objects,
    replies_in,
)

# so the generator of test data begins
_GENERATOR = "You are a Teacher/Professor. Your task is to setup"
_MOST = 100_000  # answers remembered: an application may be traced for ever
_GIVEN = (
    "nodes were given to a synthesizer and not retrieved: the question may be that of"
    " building an index"
)
_CHOSEN = (
    "a model called a tool before, in another trace: it may have written the question"
)
# The methods that count, without the "a" of those that are awaited; others are looked
# through.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("query", "chat", "stream_chat", "run", "predict_and_call"), "agent"
    ),
    **dict.fromkeys(("synthesize", "get_response", "structured_predict"), "step"),
    **dict.fromkeys(("complete", "stream_complete"), "model"),
    **dict.fromkeys(
        ("postprocess_nodes", "_postprocess_nodes", "_apostprocess_nodes"), "reranker"
    ),
    **dict.fromkeys(("select", "_select", "build"), "ignored"),
    **dict.fromkeys(("call", "__call__"), "tool"),
    "retrieve": "retriever",
}
# Where no method is named, these keys of what went in, or with ">" came out, tell it:
# the first of which all are there.
_TOLD = {
    "ev": "step",
    ">tool_name >raw_output": "call",
    ">response >tool_calls": "run_agent_step",
    ">sources >is_dummy_stream": "predict_and_call",
    ">selections": "select",
    "query_bundle nodes": "postprocess_nodes",
    "query nodes": "synthesize",
    **dict.fromkeys(("nodes", "documents"), "build"),
    "text_chunks": "get_response",
    "str_or_query_bundle": "query",
    "query_bundle": "_query",
    "message": "chat",
    "prompt_args": "predict",
    **dict.fromkeys(("messages", "prompt", "args"), "complete"),
    ">messages": "_prepare_chat_with_tools",
}
# it tells the prompt where a model's own call was not recorded
_PREPARED = "_prepare_chat_with_tools"
_ASKED = (
    "message",
    "user_msg",
    "query",
    "query_str",
    "query_bundle",
    "str_or_query_bundle",
)
_ASKED_FIELDS = ("query", "question", "input", "message")
_TOOL = "Tool name: {}\nTool description: "  # what an index of tools holds of each


def read(calls: Sequence[Call]) -> None:
    """Say of the calls of a trace what the rules of all frameworks read."""
    trace = _Trace(
        [one for call in calls for one in call.walk() if one.reading is not None]
    )
    for call in calls:
        trace.read(call, (), ())


class _Trace:
    """The calls of one trace, what went into each and came out, and the nodes that these hold."""

    def __init__(self, calls: Sequence[Call]) -> None:
        said = [(call, call.reading) for call in calls if call.reading is not None]
        self._given = {call: parse_objects(one.input) for call, one in said}
        self._made = {
            call: parse_objects(
                one.output, any_object=_has(one.input, "ev", "init_state")
            )
            for call, one in said
        }
        for step, later in (pair for call in calls for pair in pairwise(call.inside)):
            # here the reply of the step before is not cut
            if later.span.name.endswith(".parse_agent_output"):
                self._made[step] = self._made.get(step) or self._event(later)
        self._methods = {
            call: _method(call, self._given[call], self._made[call])
            for call in self._given
        }
        held = [
            (one.documents, self._made[call], self._given[call]) for call, one in said
        ]
        nodes = list(each(held, Document, depth=9))
        self._named = {node.id: node for node in reversed(nodes) if node.text}
        self._whole = {(node.id, node.forms[0]): node for node in nodes if node.forms}
        self._chunks = sorted(
            (text for call in calls for text in self._texts(call)), key=len
        )
        ran = [
            some
            for call in calls
            for some in (self._event(call), mapping(self._made[call]))
            if "tool_id" in some
        ]
        self._tools = {
            some["tool_id"]: str(some.get("tool_name") or "") for some in ran
        }

    def read(
        self, call: Call, above: tuple[Call, ...], sources: tuple[Document, ...]
    ) -> None:
        """Read a call and those inside it.

        With the calls around it that count, and the nodes that an engine names.
        """
        said, kind = call.reading, None
        if call in self._given and said is not None:
            kind, output = self._kind(call, said, above), self._made[call]
            sources = self._nodes(mapping(output).get("source_nodes")) or sources
            said.kind, said.input, said.output = kind or "step", None, None
            if kind == "model":
                self._model(call, said)
            elif kind == "tool":
                self._tool(call, said)
            elif kind in ("retriever", "reranker"):
                self._search(call, said)
            elif kind in ("agent", "step"):
                self._engine(call, said, sources)
            elif self._methods[call] == "run_agent_step":
                self._replied(call)
        for one in call.inside:
            self.read(one, (*above, call) if kind is not None else above, sources)

    def _kind(self, call: Call, said: Reading, above: tuple[Call, ...]) -> Kind | None:
        """What a call does; None for what is looked through: steps of workflows, and what a call around it tells."""
        method, given = self._methods[call], self._given[call]
        kind, around = _KINDS.get(method), [self._methods[one] for one in above]
        if _has(given, "ev") or (
            method == "get_response" and {"synthesize", "get_response"} & set(around)
        ):
            return None
        if said.kind == "ignored" or (method == "run" and _has(given, "documents")):
            return "ignored"
        if (
            kind == "tool"
            and said.kind != "tool"
            and not _has(self._made[call], "raw_output")
        ):
            kind = (
                "ignored"
                if _has(given, "nodes")
                else "step"
                if _has(given, "llm_kwargs")
                else None
            )
        if (kind == "tool" and _KINDS.get("".join(around[-1:])) == "tool") or (
            method == "predict_and_call" and above
        ):
            return None
        if method in ("chat", "stream_chat") and not _has(given, "message"):
            return "model"
        retried = any(
            one.span.name.startswith("Retry") for one in above
        ) and not call.span.name.startswith("Retry")
        # that of an evaluator
        return "ignored" if method == "query" and retried else kind

    def _model(self, call: Call, said: Reading) -> None:
        """What a model was shown and said; a call inside it is the same one."""
        given, output = self._given[call], self._made[call]
        loose = (
            *(mapping(given).get("args") or ()),
            *mapping(mapping(given).get("kwargs")).values(),
        )
        said.prompt = (
            said.prompt
            or messages_in(given)
            or messages_in(loose[:1] if _has(given, "args") else ())
        )
        told = (
            replies_in(output)
            if _has(output, "message") or not said.replies
            else said.replies
        )
        inner = [one for one in call.walk() if one is not call]
        replies = told or next(
            (some for one in inner if (some := replies_in(self._made.get(one)))), ()
        )
        named = (
            tuple(
                replace(it, name=it.name or self._tools.get(it.id, ""))
                for it in one.calls
            )
            for one in replies
        )
        said.replies = tuple(
            replace(one, calls=calls) for one, calls in zip(replies, named, strict=True)
        )
        for one in inner:
            one.reading = None

    def _replied(self, call: Call) -> None:
        """Give the reply of an agent's step to the call of a model in it."""
        reply, made = (
            mapping(self._made[call]).get("response"),
            mapping(self._made[call]).get("tool_calls") or (),
        )
        calls = tuple(
            ToolCall(
                str(one.get("tool_name")),
                mapping(one.get("tool_kwargs")),
                one.get("tool_id"),
            )
            for one in made
        )
        inner = [one for one in call.walk() if one in self._given]
        models = [
            one
            for one in inner
            if one.reading is not None and self._kind(one, one.reading, ()) == "model"
        ]
        for one in (
            []
            if models
            else [one for one in inner if self._methods[one] == _PREPARED][-1:]
        ):
            self._methods[one], self._given[one], self._made[one] = (
                "complete",
                self._made[one],
                None,
            )
            models = [one]
        for one in [
            one for one in models if not any(one in other.inside for other in models)
        ][-1:]:
            if (
                isinstance(reply, Message)
                and one.reading is not None
                and (calls or not one.reading.replies)
            ):
                one.reading.replies, self._made[one] = (
                    (replace(reply, calls=calls),),
                    None,
                )

    def _tool(self, call: Call, said: Reading) -> None:
        given, made = mapping(self._given[call]), mapping(self._made[call])
        said.input = {
            **dict(enumerate(given.get("args") or ())),
            **mapping(given.get("kwargs")),
        }
        said.tool = str(said.tool or made.get("tool_name") or call.span.name)
        text = "".join(
            str(mapping(one).get("text") or "") for one in made.get("blocks") or ()
        )
        found = (
            self._nodes(raw) if isinstance(raw := made.get("raw_output"), tuple) else ()
        )
        said.output = (
            ToolMessage("tool", text, (ToolCall(said.tool),), found) if made else None
        )

    def _search(self, call: Call, said: Reading) -> None:
        given, made = self._given[call], self._made[call]
        said.query, said.input_documents = _query(given), self._nodes(given)
        said.documents = self._nodes(said.documents or made) or (
            None if made is None else ()
        )
        if said.documents and all(
            _TOOL.format(one.metadata.get("name")) in one.text for one in said.documents
        ):
            said.kind = "ignored"

    def _engine(self, call: Call, said: Reading, sources: tuple[Document, ...]) -> None:
        """An engine, a workflow or a synthesizer: what it was asked, which nodes it was given, what it answered."""
        given, method = self._given[call], self._methods[call]
        said.query, said.output = _query(given), _answer(self._made[call])
        # that one shows a model no nodes
        if said.kind == "step" and not call.span.name.startswith("Generation."):
            said.input_documents = self._nodes(
                mapping(given).get("nodes")
            ) or self._shown(call, sources)
        if method == "run":
            steps = [one for one in call.inside if one in self._made]
            ends = (
                one
                for one in steps
                if self._methods[one] == "run_agent_step"
                or _has(self._made[one], "result")
            )
            texts = [text for one in ends if (text := _answer(self._made[one]))]
            said.query, said.output = (
                self._asked(call, steps),
                said.output or (texts[-1] if texts else None),
            )
        said.input = {
            "question": said.query,
            "chat_history": mapping(given).get("chat_history"),
        }

    def _asked(self, call: Call, steps: Sequence[Call]) -> str | None:
        """What a workflow was asked: its message, else a text of its start event; None where that was not recorded."""
        hidden = _has(self._given[call], "init_state") and steps
        begun = mapping(self._event(steps[0]) if hidden else self._given[call])
        fields = {
            name: text for name, text in begun.items() if isinstance(text, str) and text
        }
        events = (
            mapping(value)
            for one in steps
            for value in (self._made[one], self._event(one))
        )
        inputs = (one["input"] for one in events if isinstance(one.get("input"), tuple))
        said = next((some for one in inputs if (some := messages_in(one))), ())
        inner = (
            one
            for one in call.walk()
            if one is not call and self._methods.get(one) in ("query", "retrieve")
        )
        first = next(
            (query for one in inner if (query := _query(self._given[one]))), None
        )
        found = [
            fields.get("user_msg"),
            *[one.text for one in said if one.role == "user"][-1:],
        ]
        found += [text for text in fields.values() if text == first] + [
            fields.get(name) for name in _ASKED_FIELDS
        ]
        return next(
            (text for text in found if text),
            next(iter(fields.values())) if len(fields) == 1 else None,
        )

    def _shown(self, call: Call, sources: tuple[Document, ...]) -> tuple[Document, ...]:
        """The nodes of which a synthesizer was given the texts."""
        texts = next((some for one in call.walk() if (some := self._texts(one))), ())
        known = {node.text: node for node in map(self._node, self._named.values())}
        found = []
        for place, text in enumerate(texts):
            node = sources[place] if len(texts) <= len(sources) else Document(text)
            held = node.forms[0] if node.forms else node.text
            if (held and held not in text) or (not held and text in known):
                node = known.get(text, Document(text))
            found.append(replace(node, text=text))
        return tuple(found) or sources

    def _event(self, call: Call) -> Mapping[str, Any]:
        """What a step of a workflow was sent."""
        return mapping(mapping(self._given.get(call)).get("ev"))

    def _texts(self, call: Call) -> tuple[str, ...]:
        chunks = mapping(self._given.get(call)).get("text_chunks")
        return tuple(one for one in chunks or () if isinstance(one, str))

    def _nodes(self, value: Any) -> tuple[Document, ...]:
        return tuple(map(self._node, each(value, Document)))

    def _node(self, node: Document) -> Document:
        """A node with the text that models are shown of it: its metadata stand before it."""
        node = (
            node
            if node.text
            else replace(self._named.get(node.id, node), score=node.score)
        )
        told = {
            name: str(value)
            for name, value in node.metadata.items()
            if (name, value) != ("score", node.score)
        }
        node = replace(self._whole.get((node.id, node.text), node), score=node.score)
        if node.forms or not told or not node.text:
            return node
        end = f"\n\n{node.text}"
        before = (
            one.removesuffix(end).splitlines()
            for one in self._chunks
            if one.endswith(end)
        )
        fitting = (
            some
            for some in before
            if all(any(value in line for value in told.values()) for line in some)
        )
        lines = next(fitting, [f"{name}: {value}" for name, value in told.items()])
        return Document(
            "\n".join(lines) + end, node.id, node.score, node.metadata, (node.text,)
        )


def _method(call: Call, given: Any, made: Any) -> str:
    owner, _, name = call.span.name.rpartition(".")
    if name not in ("task", "workflow"):
        return name[1:] if name[:1] == "a" and name[1:] in _KINDS else name
    keys = {*mapping(given), *(f">{key}" for key in mapping(made))}
    found = next(
        (method for told, method in _TOLD.items() if keys >= set(told.split())), ""
    )
    if name == "workflow" and not found and not isinstance(made, (str, tuple)):
        return "run"
    return (
        "retrieve"
        if found == "query" and (isinstance(made, tuple) or owner.endswith("Retriever"))
        else found
    )


def _has(value: Any, *keys: str) -> bool:
    return any(key in mapping(value) for key in keys)


def _query(given: Any) -> str | None:
    """The question in what an engine, retriever or synthesizer was given."""
    while isinstance(given, Mapping):
        given = next(
            (given[name] for name in _ASKED if given.get(name) is not None), None
        )
    return given if isinstance(given, str) else None


def _answer(made: Any) -> str | None:
    """The answer in what an engine, synthesizer or workflow returned.

    None if it is not there, or not yet.
    """
    names = ("result", "response", "response_txt")
    while _has(made, "response_gen", *names):
        made = next((made[name] for name in names if made.get(name) is not None), None)
    text = answer_text(made)
    reasoned = (
        text.partition("\nAnswer: ")[2]
        if text is not None and text.startswith("Thought: ")
        else ""
    )
    return reasoned or text


class Asides:
    """Tells what its evaluators, generators of test data and builders of indices ask: their traces look like users'."""

    def __init__(self) -> None:
        self._answers, self._nodes = dict[int, None](), set[str | None]()
        # what a model chose last; "" for what was not recorded
        self._chosen = set[str]()

    def are_judged(self, sample: Sample) -> bool:
        """Whether the question is an earlier answer that is judged, or one that was made to be test data."""
        asked, found = (
            one_line(sample.question),
            {one.id for one in sample.retrieved or ()},
        )
        if asked.startswith(_GENERATOR) or (found and found <= self._nodes):
            self._nodes |= found
            return True
        asked = (
            asked.partition(" Response: ")[2]
            if asked.startswith("Question: ")
            else asked
        )
        judged = bool(asked) and hash(asked) in self._answers
        self._answers[hash(one_line(sample.answer))] = None
        if len(self._answers) > _MOST:
            del self._answers[next(iter(self._answers))]
        return judged

    def doubt(self, sample: Sample) -> str | None:
        """Why the question of a sample may be none of a user's."""
        chosen = not self._chosen.isdisjoint(("", one_line(sample.question)))
        self._chosen.clear()
        return (
            _GIVEN
            if sample.retrieved is None and sample.contexts
            else _CHOSEN
            if chosen
            else None
        )

    def hear(self, calls: Sequence[Call]) -> None:
        """Remember what a model chose last for tools."""
        replies = [
            reply
            for one in calls
            if one.reading is not None
            for reply in one.reading.replies
        ]
        chosen = [
            [*map(one_line, texts_in(one.arguments))]
            for reply in replies
            for one in reply.calls
        ]
        self._chosen = {
            text for texts in chosen for text in texts or [""]
        } or self._chosen
