"""The calls of one run, in order: who replied what, who searched, which lists there were. Pure.

All of it is read off the tree; no prompt is looked into. What each stage hands to the
next stands at the end: the turn, the origins, the answer found, the evidence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any, Literal

from ragmetrics_core.capture.divided import lists_passages
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.structures import (
    ANSWER_KEYS,
    ANSWER_NAMES,
    ENDS_OF_QUESTION,
    as_one_line,
    compact,
    find_instances,
    has_no_answer,
    lines_without_labels,
    parse_json,
    query_of_tool,
    texts_of_query,
)
from ragmetrics_core.capture.tree import (
    Answer,
    Document,
    Message,
    Node,
    Path,
    ToolCall,
    Tree,
    last_words_of_user,
)
from ragmetrics_core.data import Context, PassageNote
from ragmetrics_core.data.citations import without_reasoning
from ragmetrics_core.data.sample_parts import EvidenceFrom

# How much a reply looks like a final answer.
FREE_TEXT = 3  # a sentence or more
STRUCTURED = 2  # JSON, or a tool's arguments, with a field for the answer
LABEL = 1  # a word or two, such as "relevant", or JSON of any other kind
NO_ANSWER = 0  # nothing, a query, a call of a tool, or a verdict as JSON

_STEERING_KEYS = frozenset(
    [
        "binary_score",
        "score",
        "grade",
        "verdict",
        "relevant",
        "is_relevant",
        "grounded",
        "is_grounded",
        "supported",
        "useful",
        "is_useful",
        "issup",
        "isuse",
        "isrel",
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
    ]
)
_VERDICTS = frozenset(
    {
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
    }
)
# what numbers or names a line of a list: "2. ", "- ", "Sub-question 2: "
_BRACKETS = re.compile(r"[\[\](){}<>\"]")
_NUMBER = re.compile(
    r"^\W{0,9}(?:\d+[.)]|[-*•]|(?:sub-?\s?)?(?:question|query|q)\s?\d*[:.)])\W{0,9}?\s",
    re.IGNORECASE,
)
# of what a search is asked
_NAME_OF_QUERY = re.compile(r"^q$|quer(?:y|ies)|question|search|keyword", re.IGNORECASE)
_LABEL_ALONE = re.compile(r"\W*\w+(?:\W+\w+)?\W*")
_WORD = re.compile(r"[^\W_]+")
_FEWEST_WORDS = 3  # that texts made from one another share
_LONGEST_LABEL = 24
_LONGEST_SENTENCE = 120  # letters
CUT = "…"  # stands in a tool's text in the place of what a model wrote


def end_of(node: Node) -> float:
    """When a call ended; when it began if it never did."""
    return node.began if node.ended is None else node.ended


def are_made_alike(one: str, other: str) -> bool:
    """Whether two texts are the same words, but for words left out of one, or cut from its end.

    Example: "Who lit the lamp?" with "who lit lamp", and with "velm: who lit the lamp".
    """
    if letters_of(one) == letters_of(other):
        return True
    words = (_WORD.findall(one.casefold()), _WORD.findall(other.casefold()))
    fewer, more = sorted(words, key=len)
    if len(fewer) < _FEWEST_WORDS or 2 * len(fewer) < len(more):
        return False
    rest = iter(more)
    is_begun = all(any(word == each for each in rest) for word in fewer[:-1])
    return is_begun and any(each.startswith(fewer[-1]) for each in rest)


@dataclass(frozen=True, eq=False)
class Reply:
    """What one call of a model said, in the forms in which it is read.

    Attributes:
        message: Its reply; None where it gave none.
        others: What it replied beside that, where it was asked for several replies.
    """

    message: Message | None
    others: tuple[Message, ...] = ()

    @property
    def text(self) -> str:
        """Its text; empty where the model said nothing."""
        return "" if self.message is None else self.message.text

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """Its structured values: its text if that is JSON, then its tool calls' arguments."""
        values: list[Any] = []
        value_of_text = parse_json(without_reasoning(self.text))
        if value_of_text is not None:
            values.append(value_of_text)
        tool_calls = () if self.message is None else self.message.tool_calls
        values += [dict(tool_call.arguments) for tool_call in reversed(tool_calls)]
        return tuple(values)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Its texts, its answer and the texts of its structured values, each once."""
        texts = [self.text, self.answer, *find_instances(self.values, str)]
        for other in self.others:
            texts += Reply(other).texts
        return tuple(text for text in dict.fromkeys(texts) if text.strip())

    @cached_property
    def letters(self) -> frozenset[str]:
        """These texts by their letters."""
        return frozenset(map(letters_of, self.texts)) - {""}

    @cached_property
    def answer(self) -> str:
        """What of it would be an answer: the answer field of a structure, else its text."""
        if not self.values:
            return self.text
        value = self.values[0]
        if has_no_answer(value):
            return ""
        is_mapping = isinstance(value, Mapping)
        return _answer_of_structure(value) if is_mapping else compact(value)

    @cached_property
    def asks_questions(self) -> bool:
        """Whether it is several questions, such as what to ask next, in lines or a list."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        if self.values and isinstance(self.values[0], list):
            lines = [each for each in self.values[0] if isinstance(each, str)]
        are_asked = all(line.rstrip().endswith(ENDS_OF_QUESTION) for line in lines)
        return len(lines) > 1 and are_asked

    @cached_property
    def is_verdict(self) -> bool:
        """Whether it is a judgement, a route, a plan or further questions, and no answer."""
        if self.asks_questions or self.answer.strip(" .!\n").lower() in _VERDICTS:
            return True
        mappings = [value for value in self.values if isinstance(value, Mapping)]
        return any(
            not _STEERING_KEYS.isdisjoint(value) and set(ANSWER_KEYS).isdisjoint(value)
            for value in mappings
        )

    @cached_property
    def lines(self) -> frozenset[str]:
        """Its texts whole, and their lines, each as a query."""
        lines = [line for text in self.texts for line in (text, *text.splitlines())]
        return frozenset(map(_bare_query, lines)) - {""}

    @cached_property
    def queries(self) -> frozenset[str]:
        """All texts in it that may be a query.

        They are its lines, and what stands in these behind a label, in brackets or in
        quotes.
        """
        lines = [line for text in self.texts for line in text.splitlines()]
        parts = [*chain.from_iterable(map(lines_without_labels, lines))]
        parts += chain.from_iterable(map(_BRACKETS.split, lines))
        return self.lines | (frozenset(map(_bare_query, parts)) - {""})

    def writes_query(self, query: str) -> bool:
        """Whether a query was written here, alone or among others."""
        return _bare_query(query) in self.queries

    def is_made_into(self, query: str) -> bool:
        """Whether a query is one of its lines, or made from one."""
        return any(are_made_alike(query, line) for line in self.lines)

    def mentions_query(self, query: str) -> bool:
        """Whether a query stands in it as a part of a line alone."""
        return _bare_query(query) in self.queries - self.lines


def _answer_of_structure(structure: Mapping[str, Any]) -> str:
    """Return the text under the first usual name for an answer, else all of it as JSON."""
    for key in ANSWER_KEYS:
        answer = structure.get(key)
        if isinstance(answer, str) and answer.strip():
            return answer
    return compact(structure)


def _bare_query(line: str) -> str:
    """Return a line without the number of a list, quotes and marks."""
    return as_one_line(_NUMBER.sub("", line)).strip("\"'`* ")


@dataclass(frozen=True, eq=False)
class DocumentList:
    """A list of documents that was there from a moment on.

    Attributes:
        moment: The moment.
        call: The call that took or returned it.
        documents: The documents.
        is_returned: Whether the call returned it.
    """

    moment: float
    call: Node
    documents: tuple[Document, ...]
    is_returned: bool = True


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of one run.

    Attributes:
        tree: The run.
        context_tools: Names of the tools whose text is what they searched for; None if
            the user says nothing.
    """

    tree: Tree
    context_tools: frozenset[str] | None = None

    @cached_property
    def paths(self) -> Mapping[Node, Path]:
        """By each call that counts the calls around it, the outermost first, then itself."""
        root = self.tree.root
        paths = {path[-1]: path for path in root.paths()}
        # the root stands first, also where it is the model
        handed_in = {tool: (root, tool) for tool in _tools_handed_in(paths)}
        return {root: (root,), **handed_in, **paths} if paths else {}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The calls that count, in the order in which they began."""
        return tuple(self.paths)

    # Calls of models

    @cached_property
    def prompted(self) -> list[Node]:
        """Calls of models that work for the answer, not inside of a retriever or reranker."""
        return [
            node
            for node in self.nodes
            if node.kind == "model" and not self.is_in_search(node, SEARCHING)
        ]

    def is_in_search(self, call: Node, kinds: Collection[str] = ("retriever",)) -> bool:
        """Whether a retriever around a call, which ended, returns what was found inside it.

        An agent inside a retriever is an application of its own. ``kinds`` may name
        further kinds of calls than retrievers.
        """
        for caller in reversed(self.paths[call][:-1]):
            # LangChain's streams call what follows a search from inside of it
            is_around = caller.ended is not None and call.began <= caller.ended
            if caller.kind in kinds and is_around:
                return True
            if caller.kind == "agent":
                return False
        return False

    def in_order(
        self, calls: Iterable[Node], place: Callable[[Node], Any]
    ) -> list[Node]:
        """Sort calls by their begin, and those that ran beside each other by a place."""
        in_order: list[Node] = []
        beside: list[Node] = []
        for call in sorted(calls, key=lambda call: call.began):
            if not any(self._ran_beside(call, other) for other in beside):
                in_order += sorted(beside, key=place)
                beside = []
            beside.append(call)
        return in_order + sorted(beside, key=place)

    def _ran_beside(self, call: Node, other: Node) -> bool:
        """Whether two calls, or the parts of the run in which they stand, overlap."""
        for around, around_other in zip(
            self.paths[call], self.paths[other], strict=False
        ):
            if around is not around_other:
                is_begun = around.began < end_of(around_other)
                return is_begun and around_other.began < end_of(around)
        return False

    @cached_property
    def models(self) -> list[Node]:
        """Those of them that replied; of calls inside each other the innermost."""
        replied = [
            node
            for node in self.prompted
            if node.reply is not None and node.error is None
        ]
        around = {caller for node in replied for caller in self.paths[node][:-1]}
        return [node for node in replied if node not in around]

    @cached_property
    def replies(self) -> Mapping[Node, Reply]:
        """What each call of a model said."""
        return {
            node: Reply(node.reply, node.other_replies)
            for node in self.nodes
            if node.kind == "model"
        }

    @cached_property
    def query_writers(self) -> frozenset[Node]:
        """Calls of models whose reply some later call was asked."""
        last_search: dict[str, float] = {}
        for node in self.nodes:
            for text in texts_of_query(node.query):
                query = _bare_query(text)
                last_search[query] = max(node.began, last_search.get(query, -inf))
        return frozenset(
            call
            for call, reply in self.replies.items()
            if any(last_search.get(each, -inf) >= call.began for each in reply.queries)
        )

    @cached_property
    def _queries_of_models(self) -> frozenset[str]:
        """What models of the run wrote, and what their providers searched for."""
        queries: set[str] = set()
        for call in self.models:
            if call in self.query_writers:  # it replied before the search
                said_by_user = _bare_query(last_words_of_user(call.prompt) or "")
                queries |= self.replies[call].queries - {said_by_user}
        for node in self.nodes:
            if node.by_provider and node.query:
                queries.add(_bare_query(node.query))
        return frozenset(queries)

    def is_written_query(self, query: str) -> bool:
        """Whether a model of the run wrote a query."""
        return _bare_query(query) in self._queries_of_models

    @cached_property
    def answer_likeness(self) -> Mapping[Node, int]:
        """How much each reply looks like an answer, from ``NO_ANSWER`` to ``FREE_TEXT``."""
        return {call: self._likeness_of(call) for call in self.models}

    def _likeness_of(self, call: Node) -> int:
        reply = self.replies[call]
        tool_calls = call.reply.tool_calls if call.reply is not None else ()
        names_called = {tool_call.name for tool_call in tool_calls}
        if not names_called.isdisjoint(self.names_of_tools):
            return NO_ANSWER
        value = reply.values[0] if reply.values else None
        if isinstance(value, Mapping):
            if set(ANSWER_KEYS).isdisjoint(value):
                return LABEL if _STEERING_KEYS.isdisjoint(value) else NO_ANSWER
            text, likeness = _answer_of_structure(value), STRUCTURED
        elif not reply.text.strip() or call in self.query_writers:
            return NO_ANSWER
        else:
            text, likeness = reply.text, FREE_TEXT if value is None else LABEL
        is_word = len(text) <= _LONGEST_LABEL and _LABEL_ALONE.fullmatch(text)
        return LABEL if is_word else likeness

    @cached_property
    def likely_answers(self) -> list[Node]:
        """The calls whose replies look most like an answer, in their order."""
        best = max(self.answer_likeness.values(), default=NO_ANSWER)
        if best == NO_ANSWER:
            return []
        return [call for call, each in self.answer_likeness.items() if each == best]

    @cached_property
    def names_of_tools(self) -> frozenset[str]:
        """The names of the tools that ran."""
        return frozenset(node.name for node in self.nodes if node.kind == "tool")

    # What was found

    @cached_property
    def searches(self) -> list[Node]:
        """The retrievers, and the tools that gave documents, without those inside a retriever."""
        return [
            node
            for node in self.nodes
            if node.kind == "retriever"
            or (node.kind == "tool" and node.documents is not None)
            if not self.is_in_search(node)
        ]

    @cached_property
    def text_tools(self) -> list[Node]:
        """Calls of tools that returned a text beside no documents that were found."""
        tools = []
        for node in self.nodes:
            has_text = bool((node.text or "").strip()) and not node.error
            is_tool = node.kind == "tool" and not node.is_control and has_text
            has_documents = any(inner.documents for inner in node.walk())
            if is_tool and not has_documents and not self.says_it_found_nothing(node):
                tools.append(node)
        return tools

    def searched_in_vain(self, tool: Node) -> bool:
        """Whether a tool that asks no model searched, and all its searches found nothing."""
        if tool.kind != "tool" or tool in self._around_models:
            return False
        lists = [node.documents for node in tool.walk() if node.documents is not None]
        has_failed = any(node.error for node in tool.walk())
        return bool(lists) and not any(lists) and not has_failed

    def says_it_found_nothing(self, tool: Node) -> bool:
        """Whether a tool searched in vain, and its text is a sentence on that.

        A longer one may come from elsewhere: what finds nothing in a store may ask a
        table, too.
        """
        is_in_vain = self.searched_in_vain(tool)
        return is_in_vain and len(letters_of(tool.text)) <= _LONGEST_SENTENCE

    @property
    def named_to_search(self) -> frozenset[str]:
        """The names in ``context_tools``; none where the user says nothing."""
        return self.context_tools or frozenset()

    @cached_property
    def named_tools(self) -> list[Node]:
        """Calls of the tools that ``context_tools`` names, where they returned text alone.

        If the user names none, of those whose results, as a model was shown them, are
        finds by their structure.
        """
        tools: list[Node] = []
        prompts = [call.prompt for call in self.models]
        results = {m.text for prompt in prompts for m in prompt if m.role == "tool"}
        for node in self.text_tools:
            is_named = node.name in self.named_to_search
            if self.context_tools is None and node.text in results:
                names = map(str, node.arguments or ())
                is_named = lists_passages(
                    node.text or "",
                    node.result,
                    is_asked_query=any(map(_NAME_OF_QUERY.search, names)),
                )
            if is_named and not self.is_handed_on(node, tools):
                tools.append(node)
        return tools

    @cached_property
    def _around_models(self) -> set[Node]:
        """The calls inside of which a model was called."""
        models = [node for node in self.nodes if node.kind == "model"]
        return {caller for model in models for caller in self.paths[model]}

    def is_handed_on(self, tool: Node, tools: Collection[Node]) -> bool:
        """Whether one of some tools that asks no model called a tool, and returned its text.

        Or it failed by the same error. What a tool returned arrived once.
        """
        letters = letters_of(tool.text)
        for around in tools_of(self.paths[tool][:-1]):
            if around not in tools or around in self._around_models:
                continue
            if tool.error and around.error:
                return letters_of(tool.error) in letters_of(around.error)
            if tool.error or around.error:  # one went on without the other
                return False
            text = letters_of(around.text)
            if letters == text or (len(letters) >= SHORTEST and letters in text):
                return True
        return False

    @cached_property
    def lists(self) -> list[DocumentList]:
        """Each list that a call took at its begin or returned at its end, the earliest first."""
        lists: list[DocumentList] = []
        for node in self.nodes:
            taken = node.input_documents or node.documents_among_inputs
            is_told_by_text = node.kind == "tool" and bool(node.text)
            if taken and not is_told_by_text:
                lists.append(DocumentList(node.began, node, taken, is_returned=False))
            returned = (*node.documents_passed_on, *(node.documents or ()))
            if node.ended is not None and (returned or node.documents is not None):
                lists.append(DocumentList(node.ended, node, returned))
        return sorted(lists, key=lambda each: each.moment)


def _tools_handed_in(nodes: Collection[Node]) -> list[Node]:
    """Make calls of the tools whose results a run was handed behind the user's question.

    Example: an agent stopped behind its first search, and another one goes on with its
    messages. They stand in a prompt before anything of the run can have brought them,
    and no model of the run asked for them.
    """
    models = [node for node in nodes if node.kind == "model"]
    brings = [node for node in nodes if node.kind in ("retriever", "tool")]
    first_end = min(map(end_of, brings), default=inf)
    first_reply = min(map(end_of, models), default=inf)
    replies = [reply for node in models for reply in (node.reply, *node.other_replies)]
    own_requests = {
        _key_of_request(call) for reply in replies if reply for call in reply.tool_calls
    }
    tools: dict[str, Node] = {}
    for model in [node for node in models if node.began < first_end]:
        of_user = [n for n, each in enumerate(model.prompt) if each.role == "user"]
        requests: list[ToolCall] = []
        for message in model.prompt[max(of_user, default=0) :]:
            if message.role == "assistant":
                requests = [*message.tool_calls]
            if message.role != "tool" or not message.text.strip():
                continue
            # the framework tells the request with the result, or results stand in order
            known = [*message.tool_calls, *requests[:1]]
            requests = requests[1:]
            key = _key_of_request(known[0]) if known else letters_of(message.text)
            is_own = key in own_requests or (not known and model.began >= first_reply)
            if not is_own and key not in tools:
                request = known[0] if known else ToolCall("")
                tools[key] = Node(
                    "tool",
                    request.name,
                    model.began,
                    model.began,
                    query=query_of_tool(request.arguments),
                    arguments=request.arguments,
                    text=message.text,
                    tool_call_id=request.id,
                )
    return list(tools.values())


def _key_of_request(request: ToolCall) -> str:
    """What tells a call of a tool from others: its id, else what it calls."""
    return request.id or f"{request.name}({compact(request.arguments)})"


SEARCHING = ("retriever", "reranker")


def messages_of(calls: Iterable[Node]) -> list[str]:
    """List the messages that calls were shown and no model wrote, each once."""
    messages: dict[str, None] = {}
    for call in calls:
        for message in call.prompt:
            if message.role != "assistant" and message.text.strip():
                messages[message.text] = None
    return list(messages)


_LAST = 1 << 30  # the rank of a call that no model asked for


def tools_of(path: Path) -> Path:
    """Return the tools in a path, the outermost first."""
    return tuple(node for node in path if node.kind == "tool")


class Order:
    """The order of a run's calls: by step, then as the model asked, then by beginning."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._agents = {_innermost_agent(calls.paths[node]) for node in calls.models}
        # the number of each tool call among all that models asked for, by its id
        self._rank_by_tool_call: dict[str | None, int] = {}
        for node in calls.nodes:
            for tool_call in node.reply.tool_calls if node.reply is not None else ():
                rank = len(self._rank_by_tool_call)
                self._rank_by_tool_call.setdefault(tool_call.id, rank)
        self._rank_by_tool_call.pop(None, None)
        # when the model calls began, in order, by the tools around them
        self._beginnings: dict[Path, list[float]] = defaultdict(list)
        for model in calls.models:
            insort(self._beginnings[tools_of(calls.paths[model])], model.began)

    def sort_keys(self, call: Node) -> list[tuple[object, ...]]:
        """Return the keys of each tool around a call, then the call's own."""
        keys: list[tuple[object, ...]] = []
        for node in (*tools_of(self.calls.paths[call][:-1]), call):
            rank = self._rank_by_tool_call.get(node.tool_call_id, _LAST)
            keys.append((self._step(node), rank, node.began))
        return keys

    def step_of(self, call: Node) -> int:
        """Return how many calls of models of the turn began before a call.

        Of a call inside tools the outermost tool counts.
        """
        outermost = (*tools_of(self.calls.paths[call][:-1]), call)[0]
        return self._step(outermost)

    def agent_of(self, call: Node) -> str | None:
        """Return the agent that made a call; None where the run has only one agent."""
        if len(self._agents) <= 1:
            return None
        return _innermost_agent(self.calls.paths[call])

    def _step(self, call: Node) -> int:
        tools_around = tools_of(self.calls.paths[call][:-1])
        return bisect_left(self._beginnings.get(tools_around, ()), call.began)


def _innermost_agent(path: Path) -> str | None:
    return next((node.agent for node in reversed(path) if node.agent), None)


# What each stage hands to the next


@dataclass(frozen=True, eq=False)
class AskedTurn:
    """One turn of an application, and what was asked: the result of stage 1.

    Attributes:
        tree: The run. ``join_trees`` may have made it of several runs.
        calls: Its calls.
        question: What was asked; None if that was not found.
        standalone_question: The one query that models of the run wrote and a search was
            asked; None without one, and where there are several.
        named: The values that the user's places led to, by "question", "contexts" and
            "answer".
        results: Where the place of the contexts leads to what several calls returned, or
            one returned several times, each result; () else.
        warnings: Which of the user's places lead to nothing, in words.
        doubts: What is uncertain about the question, the history and the user's places.
    """

    tree: Tree
    calls: Calls
    question: str | None
    standalone_question: str | None
    named: Mapping[str, Any]
    results: tuple[Any, ...]
    warnings: tuple[str, ...]
    doubts: tuple[Doubt, ...]

    @property
    def error(self) -> str | None:
        """What the run failed with; None if it did not fail."""
        return self.tree.error or self.tree.root.error

    def calls_it_answer(self, text: str | None) -> bool:
        """Whether the run returned a text under a name that no verdict has."""
        output = self.tree.output if isinstance(self.tree.output, Mapping) else {}
        answer_object = output.get("structured_response")  # of an agent
        if isinstance(answer_object, Mapping):
            return _answer_of_structure(answer_object) == text
        values = [output.get(name) for name in ANSWER_NAMES]
        return any(str(value) == text for value in values if value is not None)


@dataclass(eq=False)
class Origins:
    """What was found, and what models wrote, whoever carried it: the result of stage 2.

    Attributes:
        lists: All lists of documents, the earliest first, without what a model wrote.
            A list of nothing else is left out.
        undivided: The named tools whose text does not divide into passages.
        cut: The named tools that returned passages without a part of their text, which
            a model may have written.
        written: The documents that models wrote, by their letters.
        answers_handed_on: The engines inside the run whose answers were handed on, each
            with the text of a document or a tool that holds its answer.
        texts_of_tools: The text of each tool without what models wrote, and whether they
            wrote all of it.
    """

    lists: list[DocumentList] = field(default_factory=list)
    undivided: list[str] = field(default_factory=list)
    cut: dict[str, None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    answers_handed_on: list[tuple[Node, str]] = field(default_factory=list)
    texts_of_tools: dict[Node, tuple[Literal["tool", "written"], str]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, eq=False)
class FoundAnswer:
    """One answer of a turn: the result of stage 3.

    Attributes:
        answer: What was said.
        writer: The call of a model that wrote it; None if none did, or none is known.
        chain: The writer, and the earlier calls that it read, in their order.
        prompts: What the chain was shown, in the order in which any call was shown it.
        perhaps_read: Calls with replies of a word or two that the chain may have read.
        doubts: What is uncertain about the answer and its writer.
    """

    answer: Answer
    writer: Node | None = None
    chain: tuple[Node, ...] = ()
    prompts: tuple[str, ...] = ()
    perhaps_read: tuple[Node, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def text(self) -> str | None:
        """The answer; None if there is none."""
        return self.answer.text

    @property
    def model(self) -> str | None:
        """The name of the model that wrote it; None if that is unknown."""
        if self.answer.model or self.writer is None:
            return self.answer.model
        return self.writer.model


BroughtKind = Literal["retrieval", "tool", "given", "written"]


@dataclass(frozen=True, eq=False)
class Brought:
    """What one call brought as evidence: a call of the ledger.

    Attributes:
        kind: "retrieval" for documents, "tool" for another tool's text, "given" for
            documents that were handed in or made of others, "written" for a text of a
            model.
        call: The call.
        documents: The documents; a text is one document.
        error: What the call failed with.
        is_made_of_others: Whether the call made the documents of others, or put them in
            their stead: they were not retrieved.
        is_of_unknown_origin: Whether no call is known that brought the documents: the
            call was handed them. They count where they are contexts.
        shown: The places of those that the answer was shown; None if that is unknown.
    """

    kind: BroughtKind
    call: Node
    documents: tuple[Document, ...] = ()
    error: str | None = None
    is_made_of_others: bool = False
    is_of_unknown_origin: bool = False
    shown: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class FoundEvidence:
    """What one answer could rest on: the result of stage 4.

    Attributes:
        contexts: What reached the generator; None if that is unknown.
        evidence_from: What tells the contexts; None if nothing does.
        retrieved: What searches returned; None if nothing searched.
        passages: What became of each of these.
        brought: What each call brought.
        doubts: What is uncertain.
    """

    contexts: tuple[Context, ...] | None
    evidence_from: EvidenceFrom | None
    retrieved: tuple[Context, ...] | None
    passages: tuple[PassageNote, ...] | None
    brought: tuple[Brought, ...]
    doubts: tuple[Doubt, ...]
