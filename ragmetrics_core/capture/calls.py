"""The calls of one run, indexed for the stages. Pure.

The index says which calls replied and what they said, what was retrieved, and which
lists of documents were there at which moment. All is read off the tree: nothing is
located, and no later stage is asked. Each value is worked out once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragmetrics_core.capture.plain_values import (
    ANSWER_KEYS,
    answer_text,
    as_one_line,
    compact,
    has_no_answer,
    parse_json,
    texts_in,
)
from ragmetrics_core.capture.tree import (
    Document,
    Message,
    Node,
    Path,
    Tree,
)
from ragmetrics_core.capture.written import OwnWords

FREE_TEXT = 3  # how much a reply looks like an answer
STRUCTURED = 2
LABEL = 1
NO_ANSWER = 0

# Keys of a structured reply that say yes or no, or grade.
_VERDICT_KEYS = {
    "binary_score",
    "score",
    "grade",
    "verdict",
    "relevant",
    "is_relevant",
}
# Keys of a reply that says how the run goes on.
_STEERING = _VERDICT_KEYS | {
    "datasource",
    "route",
    "next",
    "action",
    "destination",
    "decision",
    "query",
    "queries",
    "search_query",
    "search_queries",
    "steps",
    "plan",
}
# Keys of a reply that judges a text; the last three are the reflections of Self-RAG.
_JUDGING = _VERDICT_KEYS | {
    "grounded",
    "is_grounded",
    "supported",
    "useful",
    "is_useful",
    "issup",
    "isuse",
    "isrel",
}
_VERDICTS = (
    "yes",
    "no",
    "true",
    "false",
    "relevant",
    "irrelevant",
    "not relevant",
    "grounded",
    "supported",
    "useful",
)
# what numbers or names a line of a list: "2. ", "- ", "Sub-question 2: "
_NUMBER = re.compile(
    r"^\W*(?:\d+[.)]|[-*•]|(?:sub-?\s?)?(?:question|query|q)\s?\d*[:.)])\W*?\s",
    re.IGNORECASE,
)
_LABEL_ALONE = re.compile(r"\W*\w+(?:\W+\w+)?\W*")
_LONGEST_LABEL = 24
# what parsers of frameworks split at
_LABELS = re.compile(r"</think>|\b(?:answer|score|sources?):", re.IGNORECASE)
_ALWAYS = float("inf")


def end_of(node: Node) -> float:
    """When a call ended; when it began if it never did."""
    return node.began if node.ended is None else node.ended


def text_of(node: Node) -> str:
    """What a model said; empty where it said nothing."""
    return node.reply.text if node.reply is not None else ""


@dataclass(frozen=True, eq=False)
class Reply:
    """What one call of a model said, in the forms in which it is compared."""

    message: Message | None

    @cached_property
    def text(self) -> str:
        """Its text; empty where the model said nothing."""
        return "" if self.message is None else self.message.text

    @cached_property
    def line(self) -> str:
        """Its text in one line."""
        return as_one_line(self.text)

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """Its structured values: its text if that is JSON, and its tool calls' arguments.

        The text stands first, then the arguments from the last call to the first.
        """
        value = parse_json(self.text)
        calls = () if self.message is None else self.message.calls
        arguments = [dict(call.arguments) for call in reversed(calls)]
        return tuple(arguments if value is None else [value, *arguments])

    @cached_property
    def fields(self) -> frozenset[str]:
        """Texts inside of these values, each in one line."""
        texts = [
            text
            for value in self.values
            for text in (*texts_in(value), answer_text(value) or "")
        ]
        return frozenset(map(as_one_line, texts)) - {""}

    @cached_property
    def parts(self) -> frozenset[str]:
        """What stands between the labels at which parsers of frameworks split.

        Such labels are "Final Answer:" and "SOURCES:".
        """
        return frozenset(map(as_one_line, _LABELS.split(self.text)))

    @cached_property
    def answer(self) -> str:
        """What of it would be an answer: the answer field of a structure, else its text.

        Empty where that field was left empty.
        """
        if not self.values:
            return self.text
        value = self.values[0]
        if has_no_answer(value):
            return ""
        return answer_text(value) or compact(value)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Texts among the arguments that it calls tools with."""
        calls = () if self.message is None else self.message.calls
        return tuple(texts_in([call.arguments for call in calls]))

    @cached_property
    def is_verdict(self) -> bool:
        """Whether it is a judgement.

        It is one in a word or two, or a structure with a field for a verdict and none
        for an answer.
        """
        if self.answer.strip(" .!\n").lower() in _VERDICTS:
            return True
        structures = [value for value in self.values if isinstance(value, Mapping)]
        return any(
            _JUDGING & set(value) and not set(ANSWER_KEYS) & set(value)
            for value in structures
        )

    @property
    def questions(self) -> list[str]:
        """Its lines where each of them asks; empty where one does not."""
        lines = [line.rstrip() for line in self.text.splitlines() if line.strip()]
        return lines if all(line.endswith("?") for line in lines) else []

    @property
    def lists_questions(self) -> bool:
        """Whether it is a numbered list of questions; some without numbers may ask the user back."""
        return bool(self.questions) and all(map(_NUMBER.match, self.questions))

    @cached_property
    def queries(self) -> frozenset[str]:
        """All texts in it that may be a query.

        These are the whole text, its lines without numbers and quotes, and the texts of
        its structure.
        """
        texts = [self.text, *texts_in(list(self.values))]
        lines = [line for text in texts for line in text.splitlines()]
        return frozenset(map(_bare, (*texts, *lines)))

    def writes_query(self, query: str | None) -> bool:
        """Whether a query was written here, alone or among others."""
        return bool(query) and _bare(query or "") in self.queries

    def writes_only_query(self, query: str) -> bool:
        """Whether a query, in one line, was written here and no other.

        It is the whole text, or an argument of the only tool that is called. Of a list
        of several texts each is one of several.
        """
        if query == self.line:
            return True
        calls = () if self.message is None else self.message.calls
        if len(calls) != 1:
            return False
        arguments = calls[0].arguments.values()
        texts = [texts_in(argument) for argument in arguments]
        return any(
            [query] == [as_one_line(text) for text in texts_of_one]
            for texts_of_one in texts
        )


def _bare(line: str) -> str:
    return as_one_line(_NUMBER.sub("", line)).strip("\"'`* ")


def is_asked_later(call: Node, nodes: Iterable[Node]) -> bool:
    """Whether a later call was asked what a model wrote in this one.

    Such a text is a query that the model rewrote, or a tool's argument.

    Args:
        call: The call of the model.
        nodes: The calls that may have been asked it.
    """
    reply = Reply(call.reply)
    return any(
        reply.writes_query(node.query)
        for node in nodes
        if node.query and node.began >= call.began
    )


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of one run.

    Args:
        tree: The run.
        context_tools: Names of the tools whose text is a context, where they return no
            documents.
    """

    tree: Tree
    context_tools: Collection[str] = ()

    @cached_property
    def paths(self) -> Mapping[Node, Path]:
        """Each call that counts, behind the calls around it, in the order in which they began."""
        return {path[-1]: path for path in self.tree.root.paths()}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The calls that count."""
        return tuple(self.paths)

    # Calls of models

    @cached_property
    def models(self) -> list[Node]:
        """Calls of models that replied, in the order in which they began.

        Of nested ones the innermost.
        """
        models = (node for node in self.nodes if node.kind == "model")
        replied = {
            node for node in models if node.reply is not None and node.error is None
        }
        return [
            node
            for node in self.prompted
            if node in replied and replied.isdisjoint([*node.walk()][1:])
        ]

    @cached_property
    def prompted(self) -> list[Node]:
        """Calls of models that work for the answer, in the order in which they began.

        Those that only make documents or queries inside a retriever or reranker are
        left out.
        """
        models = (node for node in self.nodes if node.kind == "model")
        return [
            node
            for node in models
            if not any(
                around.kind in ("retriever", "reranker") for around in self.paths[node]
            )
        ]

    @cached_property
    def last(self) -> Node | None:
        """The last call of a model that was shown anything; None if there is none.

        It need not have replied: of a broken run it tells what was shown until then.
        """
        return next((node for node in reversed(self.prompted) if node.prompt), None)

    @cached_property
    def replies(self) -> Mapping[Node, Reply]:
        """What each call of a model said."""
        return {node: Reply(node.reply) for node in self.nodes if node.kind == "model"}

    @cached_property
    def weights(self) -> Mapping[Node, int]:
        """How much the reply of each call looks like an answer."""
        return {call: self._weight(call) for call in self.models}

    @cached_property
    def likely(self) -> list[Node]:
        """Calls that look most like answering, in their order."""
        best = max(self.weights.values(), default=NO_ANSWER)
        return (
            [call for call, weight in self.weights.items() if weight == best]
            if best
            else []
        )

    @cached_property
    def steering(self) -> frozenset[Node]:
        """Calls of models that wrote what a later call was asked."""
        last_asked: dict[str, float] = {}
        for node in self.nodes:
            if node.query:
                query = _bare(node.query)
                last_asked[query] = max(node.began, last_asked.get(query, node.began))
        return frozenset(
            call
            for call, reply in self.replies.items()
            if any(
                last_asked.get(query, -_ALWAYS) >= call.began for query in reply.queries
            )
        )

    @cached_property
    def step_calls(self) -> frozenset[Node]:
        """The **step calls**: calls of models that steer the run instead of answering.

        They wrote a query, a verdict, a route or a tool's arguments.
        """
        return frozenset(
            call
            for call in self.models
            if call in self.steering or self.weights[call] < STRUCTURED
        )

    def host(self, call: Node) -> Node | None:
        """The step around a call that was handed documents; None without one.

        Synthesizers that refine, or build a tree of answers, make several calls in such
        a step.
        """
        return next(
            (
                around
                for around in reversed(self.paths[call])
                if around.kind == "step" and around.taken
            ),
            None,
        )

    def filter_by_question(
        self, question: str | None, among: Sequence[Node]
    ) -> list[Node]:
        """Those of some calls that were shown the question; none without a question."""
        return [
            call
            for call in among
            if question and any(question in message.text for message in call.prompt)
        ]

    def is_written(self, text: str) -> bool:
        """Whether a model wrote a query, also one that its provider searched for."""
        return text in self._queries_of_providers or any(
            self.replies[call].writes_query(text) for call in self.models
        )

    @cached_property
    def _queries_of_providers(self) -> frozenset[str | None]:
        return frozenset(node.query for node in self.nodes if node.by_provider)

    def _weight(self, call: Node) -> int:
        """How much a reply looks like an answer, as one of the four weights.

        A reply is ``NO_ANSWER`` if it is empty, calls a tool that ran, or wrote what a
        later call was asked. A structure is weighed by its fields. Other JSON, and a
        text of a word or two, is a ``LABEL``. Any other text is ``FREE_TEXT``.
        """
        reply = call.reply
        if reply is None or any(
            call.name in self._tools_that_ran for call in reply.calls
        ):
            return NO_ANSWER
        steers = call in self.steering
        # its tool's argument was searched for, so its text is a remark beside it
        if reply.calls and steers:
            return NO_ANSWER
        has_text = bool(reply.text.strip())
        value = (
            parse_json(reply.text)
            if has_text
            else next((tool_call.arguments for tool_call in reply.calls[::-1]), None)
        )
        if isinstance(value, Mapping):
            return _weight_of_fields(value)
        if not has_text or steers:
            return NO_ANSWER
        if value is not None:
            return LABEL
        return LABEL if _is_label(reply.text) else FREE_TEXT

    @cached_property
    def _tools_that_ran(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if node.kind == "tool")

    # What was found

    @cached_property
    def retrievals(self) -> Mapping[Node, tuple[Document, ...]]:
        """What was retrieved, by the call that brought it.

        Outermost retrievers count, and tools with documents that no call inside them
        gave. Where neither reported any, steps that gave documents count.
        """
        reported: dict[Node, tuple[Document, ...]] = {}
        for node, path in self.paths.items():
            is_inner = any(around.kind == "retriever" for around in path[:-1])
            if (
                node.kind not in ("retriever", "tool")
                or node.error is not None
                or is_inner
            ):
                continue
            if node.documents is None:
                continue
            documents = (
                _not_found_inside(node) if node.kind == "tool" else node.documents
            )
            if documents or node.kind == "retriever" or self._is_an_empty_search(node):
                reported[node] = documents
        if reported:
            return reported
        steps = {
            node: self.drop_written(node.documents or (), end_of(node))
            for node in self.reworking
        }
        return {node: documents for node, documents in steps.items() if documents}

    def _is_an_empty_search(self, tool: Node) -> bool:
        """Whether a tool gave an empty list of documents: it searched and found nothing.

        A search inside it tells of itself, and the text of a tool that is named in
        ``context_tools`` is what it found.
        """
        if tool.documents != () or tool in self.tool_texts:
            return False
        return not any(
            inner.documents is not None for inner in tool.walk() if inner is not tool
        )

    @cached_property
    def reworking(self) -> list[Node]:
        """Steps that gave documents, in the order in which they ended.

        The root only where it is the one call.
        """
        steps = [
            node
            for node in self.nodes
            if node.kind in ("step", "agent", "reranker") and node.documents
        ]
        return sorted(
            (node for node in steps if node is not self.tree.root or not node.children),
            key=end_of,
        )

    @cached_property
    def rerankers(self) -> list[str]:
        """The names of what put documents in order, each once.

        A reranker that asked models has their names, any other its own.
        """
        names: list[str] = []
        for node in self.nodes:
            if node.kind == "reranker":
                names += [
                    inner.model or inner.name
                    for inner in node.walk()
                    if inner.kind == "model"
                ] or [node.name]
        return list(dict.fromkeys(names))

    @cached_property
    def texts_of_tools(self) -> list[Node]:
        """Tools that returned text behind which no documents stand."""
        tools = [
            node
            for node in self.nodes
            if node.kind == "tool" and not node.error and (node.text or "").strip()
        ]
        return [
            node for node in tools if not any(inner.documents for inner in node.walk())
        ]

    @cached_property
    def tool_texts(self) -> list[Node]:
        """Those of them that are named as tools whose text is a context."""
        return [node for node in self.texts_of_tools if node.name in self.context_tools]

    @cached_property
    def tried(self) -> bool:
        """Whether anything was retrieved, or something was searched and found nothing."""
        return bool(self.retrievals or self.tool_texts) or any(
            node.kind == "retriever" for node in self.nodes
        )

    @cached_property
    def unread(self) -> int:
        """How many of the retrieved documents have a text that was not recorded."""
        return self.tree.unread + sum([node.unread for node in self.nodes])

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What is uncertain about single calls, in words, each once."""
        words = [remark for node in self.nodes for remark in node.remarks]
        return tuple(dict.fromkeys(words))

    def lists(self, before: float = _ALWAYS) -> list[tuple[Document, ...]]:
        """Lists of documents that were there at a moment, the latest first.

        Lists of one moment stand in the order of their calls.

        Args:
            before: The moment; by default all lists of the run count.
        """
        return [documents for moment, documents in self._lists if moment <= before]

    @cached_property
    def _lists(self) -> list[tuple[float, tuple[Document, ...]]]:
        """Each list of documents with the moment from which it was there.

        The latest stands first. A call's input counts from its beginning, its result
        from its end. What models of the run wrote is left out, and so are lists that
        are empty then.
        """
        lists_by_moment: list[tuple[float, tuple[Document, ...]]] = []
        for node in self.nodes:
            if node.taken:
                lists_by_moment.append(
                    (node.began, self.drop_written(node.taken, node.began))
                )
            if node.documents and node.ended is not None:
                lists_by_moment.append(
                    (node.ended, self.drop_written(node.documents, node.ended))
                )
            if node in self.tool_texts:
                lists_by_moment.append((end_of(node), (Document(node.text or ""),)))
        lists_by_moment.sort(
            key=lambda moment_and_list: moment_and_list[0], reverse=True
        )
        return [
            (moment, documents) for moment, documents in lists_by_moment if documents
        ]

    def drop_written(
        self, documents: Sequence[Document], before: float
    ) -> tuple[Document, ...]:
        """Documents without those that a model of this run wrote.

        Answers to sub-questions and summaries are left out.

        Args:
            documents: The documents.
            before: When they were there. What models wrote later does not count.
        """
        return tuple(
            document
            for document in documents
            if document.author is None
            and not self._own_words.hold(document.text, before)
        )

    @cached_property
    def _own_words(self) -> OwnWords:
        """What the run's models wrote, to tell it from what was found.

        Answers and the texts of sub-agents carry the moment of their end, since a
        document can repeat only what was written before. Queries and other texts that
        steer the run need none: they only frame a repeated answer.
        """
        answers = [
            (end_of(call), text_of(call))
            for call in self.models
            if call not in self.step_calls
        ]
        nested = [
            (end_of(node), node.text or "")
            for node in self.nodes[1:]
            if node.kind == "agent"
        ]
        queries = [node.query for node in self.nodes if node.query]
        steering = [text_of(call) for call in self.models if call in self.step_calls]
        question = [self.tree.question] if self.tree.question else []
        return OwnWords(
            [*answers, *nested],
            [*queries, *steering, *question],
            frozenset(self._originals()),
        )

    def _originals(self) -> Iterable[str]:
        """Texts that were found, so that no model of the run wrote them.

        They are the documents of retrievers and tools, and the results of tools inside
        which no model ran.
        """
        for node in self.nodes:
            if node.kind in ("retriever", "tool"):
                for document in node.documents or ():
                    yield from document.texts
            if (
                node.kind == "tool"
                and node.text
                and not any(inner.kind in ("model", "agent") for inner in node.walk())
            ):
                yield node.text
                yield from texts_in(parse_json(node.text))


def _is_label(text: str) -> bool:
    """Whether a text is a word or two: a grade, a route."""
    return len(text) <= _LONGEST_LABEL and bool(_LABEL_ALONE.fullmatch(text))


def _weight_of_fields(value: Mapping[str, Any]) -> int:
    """How much a structure looks like an answer."""
    if any(key in value for key in ANSWER_KEYS):
        return LABEL if _is_label(answer_text(value) or "") else STRUCTURED
    return NO_ANSWER if _STEERING & set(value) else LABEL


def _not_found_inside(tool: Node) -> tuple[Document, ...]:
    """Documents of a tool that no call inside it gave."""
    below = {
        document.text
        for inner in tool.walk()
        if inner is not tool
        for document in inner.documents or ()
    }
    return tuple(
        document for document in tool.documents or () if document.text not in below
    )
