"""The calls of one run, indexed for the stages. Pure.

The index says which calls replied and what they said, what was retrieved, and which
lists of documents were there at which moment. All is read off the tree: nothing is
located, and no later stage is asked. Each value is worked out once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragmetrics_core.capture.authors import ModelTexts
from ragmetrics_core.capture.plain_values import (
    ANSWER_KEYS,
    answer_text,
    as_one_line,
    compact,
    has_no_answer,
    parse_json,
    texts_in,
)
from ragmetrics_core.capture.provider_calls import n_distinct_sources
from ragmetrics_core.capture.tree import (
    Document,
    Message,
    Node,
    Path,
    ToolCall,
    Tree,
)
from ragmetrics_core.data.answer_parts import without_reasoning
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# The form of a model's reply. The higher it is, the more the reply looks like a final
# answer.
FREE_TEXT = 3  # a sentence or more
STRUCTURED = 2  # JSON, or a tool's arguments, with a field for the answer
LABEL = 1  # a word or two, such as "relevant", or JSON of any other kind
NO_ANSWER = 0  # nothing, a query, a call of a tool, or a verdict as JSON

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
_NUMBER = lazy_pattern(
    r"^\W*(?:\d+[.)]|[-*•]|(?:sub-?\s?)?(?:question|query|q)\s?\d*[:.)])\W*?\s",
    re.IGNORECASE,
)
_LABEL_ALONE = lazy_pattern(r"\W*\w+(?:\W+\w+)?\W*")
_LONGEST_LABEL = 24
# what parsers of frameworks split at
_LABELS = lazy_pattern(
    r"</think>|</?answer>|\b(?:answer|score|sources?):", re.IGNORECASE
)
_ALWAYS = float("inf")


def end_of(node: Node) -> float:
    """When a call ended; when it began if it never did."""
    return node.began if node.ended is None else node.ended


def began_after(later: Node, earlier: Node) -> bool:
    """Whether a call began after another one had ended.

    True as well if it began in the very tick of the clock in which the other one ended:
    some traces count milliseconds.
    """
    return later.began >= end_of(earlier)


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

        The text stands first, then the arguments from the last call to the first. The
        JSON may stand behind reasoning such as ``<think>…</think>``.
        """
        values: list[Any] = []
        value_of_text = parse_json(without_reasoning(self.text))
        if value_of_text is not None:
            values.append(value_of_text)
        for tool_call in reversed(self.tool_calls):
            values.append(dict(tool_call.arguments))
        return tuple(values)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that it calls."""
        return () if self.message is None else self.message.tool_calls

    @cached_property
    def fields(self) -> frozenset[str]:
        """Texts inside of these values, each in one line."""
        lines: set[str] = set()
        for value in self.values:
            lines.update(as_one_line(text) for text in texts_in(value))
            lines.add(as_one_line(answer_text(value)))
        return frozenset(lines - {""})

    @cached_property
    def parts(self) -> frozenset[str]:
        """What stands between the labels at which parsers of frameworks split.

        Such labels are "Final Answer:", "SOURCES:" and the tag ``<answer>``.
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
        arguments = [tool_call.arguments for tool_call in self.tool_calls]
        return tuple(texts_in(arguments))

    @cached_property
    def is_verdict(self) -> bool:
        """Whether it is a judgement.

        Example: "yes", or ``{"score": 0.8}``: a structure with a field for a verdict,
        and no field for an answer.
        """
        if self.answer.strip(" .!\n").lower() in _VERDICTS:
            return True
        for value in self.values:
            if not isinstance(value, Mapping):
                continue
            has_verdict = not _JUDGING.isdisjoint(value)
            has_answer = not set(ANSWER_KEYS).isdisjoint(value)
            if has_verdict and not has_answer:
                return True
        return False

    @property
    def questions(self) -> list[str]:
        """Its lines where each of them asks; empty where one does not."""
        lines = [line.rstrip() for line in self.text.splitlines() if line.strip()]
        if all(line.endswith("?") for line in lines):
            return lines
        return []

    @property
    def lists_questions(self) -> bool:
        """Whether it is a numbered list of questions.

        Questions without numbers may ask the user back.
        """
        questions = self.questions
        is_numbered = all(_NUMBER.match(question) for question in questions)
        return is_numbered and bool(questions)

    @cached_property
    def queries(self) -> frozenset[str]:
        """All texts in it that may be a query.

        These are the whole text, its lines without numbers and quotes, and the texts of
        its structure.
        """
        texts = [self.text, *texts_in(list(self.values))]
        queries: set[str] = set()
        for text in texts:
            queries.add(_bare_query(text))
            queries.update(_bare_query(line) for line in text.splitlines())
        return frozenset(queries)

    def writes_query(self, query: str | None) -> bool:
        """Whether a query was written here, alone or among others."""
        if not query:
            return False
        return _bare_query(query) in self.queries

    def writes_only_query(self, query: str) -> bool:
        """Whether a query, in one line, was written here and no other.

        It is the whole text, or an argument of the only tool that is called. Of a list
        of several texts each is one of several.
        """
        if query == self.line:
            return True
        if len(self.tool_calls) != 1:
            return False
        (tool_call,) = self.tool_calls
        for argument in tool_call.arguments.values():
            lines = [as_one_line(text) for text in texts_in(argument)]
            if lines == [query]:
                return True
        return False


def _bare_query(line: str) -> str:
    """A line without the number of a list, quotes and marks: queries are compared so."""
    return as_one_line(_NUMBER.sub("", line)).strip("\"'`* ")


def is_asked_later(call: Node, nodes: Iterable[Node]) -> bool:
    """Whether a later call was asked what a model wrote in this one.

    Such a text is a query that the model rewrote, or a tool's argument.

    Args:
        call: The call of the model.
        nodes: The calls that may have been asked it.
    """
    reply = Reply(call.reply)
    later_queries = [node.query for node in nodes if node.began >= call.began]
    return any(reply.writes_query(query) for query in later_queries)


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of one run.

    Args:
        tree: The run.
        context_tools: Names of the tools whose text is a context, where they return no
            documents.
        has_user_named_tools: Whether the user said which tools these are, be it that
            there are none.
    """

    tree: Tree
    context_tools: Collection[str] = ()
    has_user_named_tools: bool = False

    @cached_property
    def paths(self) -> Mapping[Node, Path]:
        """By each call that counts its path: the calls around it, then the call itself.

        The calls stand in the order in which they began, each after the calls around it.
        """
        return {path[-1]: path for path in self.tree.root.paths()}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The calls that count."""
        return tuple(self.paths)

    # Calls of models

    @cached_property
    def models(self) -> list[Node]:
        """List the calls of models that replied, in the order in which they began.

        Only calls that work for the answer are listed (``prompted``). Where calls
        stand inside each other, as of a model with a fallback, the innermost counts.
        """
        return [node for node in self.prompted if self._is_innermost_reply(node)]

    def _is_innermost_reply(self, model: Node) -> bool:
        """Whether a model's call replied, and no model's call inside it did."""
        _, *inner_calls = model.walk()
        return _has_replied(model) and not any(map(_has_replied, inner_calls))

    @cached_property
    def prompted(self) -> list[Node]:
        """Calls of models that work for the answer, in the order in which they began.

        Those that only make documents or queries inside a retriever or reranker are
        left out.
        """
        prompted = []
        for node, path in self.paths.items():
            if node.kind != "model":
                continue
            kinds_around = {caller.kind for caller in path}
            if kinds_around.isdisjoint(("retriever", "reranker")):
                prompted.append(node)
        return prompted

    @cached_property
    def last_prompted(self) -> Node | None:
        """The last call of a model that was shown anything; None if there is none.

        It need not have replied: of a broken run it tells what was shown until then.
        """
        return next((node for node in reversed(self.prompted) if node.prompt), None)

    @cached_property
    def replies(self) -> Mapping[Node, Reply]:
        """What each call of a model said."""
        return {node: Reply(node.reply) for node in self.nodes if node.kind == "model"}

    @cached_property
    def reply_forms(self) -> Mapping[Node, int]:
        """The form of each call's reply, from ``NO_ANSWER`` to ``FREE_TEXT``."""
        return {call: self._form_of_reply(call) for call in self.models}

    @cached_property
    def likely_answer_calls(self) -> list[Node]:
        """The calls whose replies look most like an answer, in their order.

        Empty if no reply looks like an answer.
        """
        best_form = max(self.reply_forms.values(), default=NO_ANSWER)
        if best_form == NO_ANSWER:
            return []
        return [call for call, form in self.reply_forms.items() if form == best_form]

    @cached_property
    def answers_after_a_tool(self) -> bool:
        """Whether a model may have answered the question after a tool had run.

        Example: the first node of a graph calls ``calculate.invoke("6 * 7")``, and a
        model in the second node writes "It is 42.". A verdict such as "yes" is no
        answer, and a model inside a tool answers to this tool. Tools that returned no
        text, or only steer the run, do not count.
        """
        if self.tree.question is None:
            return False
        ends_of_tools = [end_of(node) for node in self.nodes if _brings_text(node)]
        first_end = min(ends_of_tools, default=float("inf"))
        return any(
            call.began >= first_end and self._may_answer(call) for call in self.models
        )

    def _may_answer(self, call: Node) -> bool:
        """Whether a call runs in no tool, and replied something else than a verdict."""
        is_in_tool = any(caller.kind == "tool" for caller in self.paths[call])
        is_answer_like = self.reply_forms[call] != NO_ANSWER
        return is_answer_like and not is_in_tool and not self.replies[call].is_verdict

    def looks_like_answer(self, call: Node) -> bool:
        """Whether a call's reply is a text or has a field for the answer."""
        return self.reply_forms[call] >= STRUCTURED

    @cached_property
    def query_writers(self) -> frozenset[Node]:
        """Calls of models that wrote the query of a later call.

        The query is all of the reply, a line of it, or a text of its structure.
        """
        query_writers = set()
        for call, reply in self.replies.items():
            queries_searched = reply.queries & self._last_search_by_query.keys()
            moments = [self._last_search_by_query[query] for query in queries_searched]
            if moments and max(moments) >= call.began:
                query_writers.add(call)
        return frozenset(query_writers)

    @cached_property
    def _last_search_by_query(self) -> Mapping[str, float]:
        """When the last call with each query began."""
        last_search: dict[str, float] = {}
        for node in self.nodes:
            if node.query:
                query = _bare_query(node.query)
                last_search[query] = max(node.began, last_search.get(query, node.began))
        return last_search

    @cached_property
    def step_calls(self) -> frozenset[Node]:
        """The **step calls**: calls of models that steer the run instead of answering.

        They wrote a query, a verdict, a route or a tool's arguments.
        """
        step_calls = set()
        for call in self.models:
            if call in self.query_writers or not self.looks_like_answer(call):
                step_calls.add(call)
        return frozenset(step_calls)

    def step_with_documents(self, call: Node) -> Node | None:
        """The step around a call that was handed documents; None without one.

        Synthesizers that refine, or build a tree of answers, make several calls in such
        a step.
        """
        for around in reversed(self.paths[call]):
            if around.kind == "step" and around.input_documents:
                return around
        return None

    def last_answer_to(self, question: str | None) -> Node | None:
        """The last call that looks like answering; None without such a call.

        Calls that were shown the question go before others.
        """
        calls_shown = self.filter_by_question(question, self.likely_answer_calls)
        answering_calls = calls_shown or self.likely_answer_calls
        return answering_calls[-1] if answering_calls else None

    def filter_by_question(
        self, question: str | None, among: Sequence[Node]
    ) -> list[Node]:
        """Those of some calls that were shown the question; none without a question."""
        if not question:
            return []
        calls_shown = []
        for call in among:
            if any(question in message.text for message in call.prompt):
                calls_shown.append(call)
        return calls_shown

    def is_written(self, text: str) -> bool:
        """Whether a model wrote a query, also one that its provider searched for."""
        if text in self._queries_of_providers:
            return True
        return any(self.replies[call].writes_query(text) for call in self.models)

    @cached_property
    def _queries_of_providers(self) -> frozenset[str | None]:
        """What providers of models searched for while they answered."""
        return frozenset(node.query for node in self.nodes if node.by_provider)

    def _form_of_reply(self, call: Node) -> int:
        """Tell the form of a call's reply, by how much it looks like an answer.

        Example: "It fell." is FREE_TEXT, "yes" a LABEL, and a query NO_ANSWER. A JSON
        object has the form that its keys tell, even if it was searched for.
        """
        reply = call.reply
        if reply is None or self._only_calls_tool(call, reply):
            return NO_ANSWER
        value = _structure_of(reply)
        if isinstance(value, Mapping):
            return form_of_structure(value)
        if not reply.text.strip() or call in self.query_writers:
            return NO_ANSWER
        is_other_json = value is not None
        return LABEL if is_other_json or _is_label(reply.text) else FREE_TEXT

    def _only_calls_tool(self, call: Node, reply: Message) -> bool:
        """Whether a reply calls a tool that ran, or a tool with a query that was searched for.

        A text beside such a tool call is a remark: "Let me look."
        """
        names_called = {tool_call.name for tool_call in reply.tool_calls}
        if not names_called.isdisjoint(self.names_of_tools_that_ran):
            return True
        return bool(names_called) and call in self.query_writers

    @cached_property
    def names_of_tools_that_ran(self) -> frozenset[str]:
        """The names of the tools that were called."""
        return frozenset(node.name for node in self.nodes if node.kind == "tool")

    # What was found

    @cached_property
    def retrievals(self) -> Mapping[Node, tuple[Document, ...]]:
        """The documents that each retrieving call brought.

        Retrievers and tools count. Only where none of these reported documents, the
        steps that gave documents count instead: a plain function may search unseen.
        """
        return self._documents_of_searches or self._documents_of_steps

    @cached_property
    def _documents_of_searches(self) -> dict[Node, tuple[Document, ...]]:
        """The documents that each retriever and each tool found.

        A retriever found [A, B], and the tool around it returned [A, B, C]: A and B are
        the retriever's, C is the tool's.
        """
        documents_by_call: dict[Node, tuple[Document, ...]] = {}
        for node, path in self.paths.items():
            if node.error is not None or node.documents is None:
                continue
            if any(caller.kind == "retriever" for caller in path[:-1]):
                continue  # the retriever around this call returns what it found
            if node.kind == "retriever":
                documents_by_call[node] = node.documents
            elif node.kind == "tool":
                documents = _documents_not_found_inside(node)
                if documents or self._is_an_empty_search(node):
                    documents_by_call[node] = documents
        return documents_by_call

    @cached_property
    def _documents_of_steps(self) -> dict[Node, tuple[Document, ...]]:
        """The documents that each step gave, without documents that a model wrote.

        Steps that gave no other documents are left out.
        """
        documents_by_step: dict[Node, tuple[Document, ...]] = {}
        for step in self.steps_with_documents:
            documents = self.without_texts_of_models(step.documents or (), end_of(step))
            if documents:
                documents_by_step[step] = documents
        return documents_by_step

    def _is_an_empty_search(self, tool: Node) -> bool:
        """Whether a tool gave an empty list of documents: it searched and found nothing.

        A search inside it tells of itself, and the text of a tool that is named in
        ``context_tools`` is what it found.
        """
        if tool.documents != () or tool in self.context_tool_calls:
            return False
        _, *inner_calls = tool.walk()
        return all(inner.documents is None for inner in inner_calls)

    @cached_property
    def steps_with_documents(self) -> list[Node]:
        """The steps, agents and rerankers that returned documents, by their ends.

        The root of the tree counts only if it is the one call.
        """
        steps = []
        for node in self.nodes:
            is_root_around_others = node is self.tree.root and bool(node.children)
            is_step = node.kind in ("step", "agent", "reranker")
            if is_step and node.documents and not is_root_around_others:
                steps.append(node)
        return sorted(steps, key=end_of)

    @cached_property
    def reranker_names(self) -> list[str]:
        """The names of what put documents in order, each once.

        A reranker that asked models has their names, any other its own: ["gpt-4o",
        "CohereRerank"].
        """
        names: dict[str, None] = {}
        for node in self.nodes:
            if node.kind != "reranker":
                continue
            models = [inner for inner in node.walk() if inner.kind == "model"]
            for model in models:
                names[model.model or model.name] = None
            if not models:
                names[node.name] = None
        return list(names)

    @cached_property
    def tools_with_text(self) -> list[Node]:
        """Calls of tools that returned text, and no documents that the text may show."""
        tools = []
        for node in self.nodes:
            has_text = bool((node.text or "").strip())
            if node.kind != "tool" or node.error or not has_text:
                continue
            if not any(inner.documents for inner in node.walk()):
                tools.append(node)
        return tools

    @cached_property
    def context_tool_calls(self) -> list[Node]:
        """Calls of the tools that ``context_tools`` names, where they returned text alone.

        The text of such a call counts as a context.
        """
        return [
            node for node in self.tools_with_text if node.name in self.context_tools
        ]

    @cached_property
    def has_search(self) -> bool:
        """Whether anything was retrieved, or something was searched and found nothing."""
        return bool(self._searches)

    @cached_property
    def has_search_of_application(self) -> bool:
        """Whether the application retrieved or searched, apart from a model's provider.

        A call of a model whose provider searched may still answer from documents that
        the application found before.
        """
        return any(not node.by_provider for node in self._searches)

    @cached_property
    def _searches(self) -> list[Node]:
        """The calls that retrieved, or searched and found nothing."""
        retrievers = [node for node in self.nodes if node.kind == "retriever"]
        return [*self.retrievals, *self.context_tool_calls, *retrievers]

    @cached_property
    def n_without_text(self) -> int:
        """How many of the retrieved documents have a text that was not recorded.

        A page counts once, though one reply found it and the next one cites it.
        """
        sources: list[tuple[str, ...]] = []
        for node in self.nodes:
            sources += node.sources_without_text
        return self.tree.n_without_text + n_distinct_sources(sources)

    @cached_property
    def n_searches_without_end(self) -> int:
        """How many searches had neither returned nor failed when the run ended."""
        n_searches = 0
        for node in self.nodes:
            has_returned = node.ended is not None or node.documents is not None
            if node.kind == "retriever" and not has_returned and node.error is None:
                n_searches += 1
        return n_searches

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What is uncertain about single calls, in words, each once."""
        remarks: list[str] = []
        for node in self.nodes:
            remarks += node.remarks
        return tuple(dict.fromkeys(remarks))

    @cached_property
    def evidence_not_recorded(self) -> tuple[str, ...]:
        """Why evidence that models were shown was not recorded, in words, each once."""
        reasons: list[str] = []
        for node in self.nodes:
            reasons += node.evidence_not_recorded
        return tuple(dict.fromkeys(reasons))

    def lists(self, before: float = _ALWAYS) -> list[tuple[Document, ...]]:
        """Lists of documents that were there at a moment, the latest first.

        Lists of one moment stand in the order of their calls.

        Args:
            before: The moment; by default all lists of the run count.
        """
        return [
            documents
            for moment, documents in self._lists_with_moments
            if moment <= before
        ]

    def lists_after(self, moment: float) -> list[tuple[Document, ...]]:
        """Lists of documents that were there after a moment, the latest first."""
        return [
            documents for began, documents in self._lists_with_moments if began > moment
        ]

    @cached_property
    def _lists_with_moments(self) -> list[tuple[float, tuple[Document, ...]]]:
        """Each list of documents with the time from which it was there, the latest first.

        Example: one search returned (A, B) at 2.0, another (C,) at 3.0: (3.0, (C,)),
        then (2.0, (A, B)). Documents that models of the run wrote are left out, and so
        are empty lists.
        """
        lists: list[tuple[float, tuple[Document, ...]]] = []
        for node in self.nodes:
            lists += self._lists_of_call(node)
        lists = [(moment, documents) for moment, documents in lists if documents]
        lists.sort(key=lambda moment_and_list: moment_and_list[0], reverse=True)
        return lists

    def _lists_of_call(
        self, node: Node
    ) -> Iterator[tuple[float, tuple[Document, ...]]]:
        """Yield the documents that a call took at its begin and returned at its end.

        A reranker took [A, B, C] at 2.0 and returned [C, A] at 3.0: (2.0, (A, B, C)),
        then (3.0, (C, A)). Documents that a model of the run wrote are left out.
        """
        if node.input_documents:
            inputs = self.without_texts_of_models(node.input_documents, node.began)
            yield node.began, inputs
        if node.documents and node.ended is not None:
            returned = self.without_texts_of_models(node.documents, node.ended)
            yield node.ended, returned
        if node in self.context_tool_calls:
            # the user named the tool in ``context_tools``: its text is a document
            yield end_of(node), (Document(node.text or ""),)

    def without_texts_of_models(
        self, documents: Sequence[Document], before: float
    ) -> tuple[Document, ...]:
        """Leave out the documents that a model of this run wrote.

        A step may put a model's reply into a document, such as a summary. ``before`` is
        the time at which the documents were there: later replies cannot stand in them.
        """
        found = []
        for document in documents:
            if document.author is not None:
                continue
            if not self._texts_of_models.are_source_of(document.text, before):
                found.append(document)
        return tuple(found)

    @cached_property
    def _texts_of_models(self) -> ModelTexts:
        """Collect what the run's models wrote, to recognise it in documents."""
        return ModelTexts(
            replies=self._replies_with_ends(),
            queries=self._steering_texts(),
            originals=frozenset(self._texts_found()),
        )

    def _replies_with_ends(self) -> list[tuple[float, str]]:
        """List the answers of models and sub-agents, each with the end of its call.

        Example: a model ran from 1.0 to 2.0 and replied "In May.": [(2.0, "In May.")].
        Replies that steer the run, such as a query or a grade, are left out.
        """
        replies: list[tuple[float, str]] = []
        for call in self.models:
            if call not in self.step_calls:
                replies.append((end_of(call), text_of(call)))
        nodes_below_root = self.nodes[1:]
        for node in nodes_below_root:
            if node.kind == "agent":
                replies.append((end_of(node), node.text or ""))
        return replies

    def _steering_texts(self) -> list[str]:
        """List the question, the queries, and the verdicts and routes of models.

        A document may repeat one beside an answer: "Sub question: …  Response: …".
        """
        texts = [node.query for node in self.nodes if node.query]
        for call in self.models:
            if call in self.step_calls:
                texts.append(text_of(call))
        if self.tree.question:
            texts.append(self.tree.question)
        return texts

    def _texts_found(self) -> Iterator[str]:
        """Yield the texts that were found, so that no model of the run wrote them.

        They are the documents of retrievers and tools, and the results of tools inside
        which no model ran.
        """
        for node in self.nodes:
            if node.kind not in ("retriever", "tool"):
                continue
            for document in node.documents or ():
                yield from document.texts
            if node.kind == "tool" and node.text and not _holds_model(node):
                yield node.text
                yield from texts_in(parse_json(node.text))


def _has_replied(node: Node) -> bool:
    """Whether a call is one of a model, which replied without an error."""
    return node.kind == "model" and node.reply is not None and node.error is None


def _structure_of(reply: Message) -> object:
    """Return a reply's text as JSON, or without a text the arguments of its last tool.

    Frameworks ask for a structured reply as the arguments of a tool. None if the text is
    no JSON.
    """
    if reply.text.strip():
        return parse_json(reply.text)
    return reply.tool_calls[-1].arguments if reply.tool_calls else None


def _holds_model(tool: Node) -> bool:
    """Whether a model or an agent ran inside a tool."""
    return any(inner.kind in ("model", "agent") for inner in tool.walk())


def _is_label(text: str) -> bool:
    """Whether a text is a word or two: a grade, a route."""
    return len(text) <= _LONGEST_LABEL and bool(_LABEL_ALONE.fullmatch(text))


def form_of_structure(value: Mapping[str, Any]) -> int:
    """Tell the form of a reply that is a JSON object, by its keys."""
    if any(key in value for key in ANSWER_KEYS):
        answer = answer_text(value) or ""
        return LABEL if _is_label(answer) else STRUCTURED
    # such as {"binary_score": "yes"} or {"route": "search"}
    is_verdict_or_route = not _STEERING.isdisjoint(value)
    return NO_ANSWER if is_verdict_or_route else LABEL


def _brings_text(node: Node) -> bool:
    """Whether a call is a tool of the application that returned a text as evidence."""
    is_tool_of_application = node.kind == "tool" and not node.by_provider
    return is_tool_of_application and not node.is_control and bool(node.text)


def _documents_not_found_inside(tool: Node) -> tuple[Document, ...]:
    """Return the documents of a tool that no call inside it gave.

    Example: a tool returned A and B, and a retriever inside it found A: B.
    """
    _, *inner_calls = tool.walk()
    texts_inside: set[str] = set()
    for inner in inner_calls:
        texts_inside.update(document.text for document in inner.documents or ())
    documents = tool.documents or ()
    return tuple(
        document for document in documents if document.text not in texts_inside
    )


def texts_not_of_models(call: Node) -> list[str]:
    """The messages that a call was shown, without messages that models wrote."""
    return [message.text for message in call.prompt if message.role != "assistant"]


def names_of(calls: Iterable[Node]) -> tuple[str, ...]:
    """The names of some calls, each once, in the order of the calls."""
    return tuple(dict.fromkeys(call.name for call in calls))
