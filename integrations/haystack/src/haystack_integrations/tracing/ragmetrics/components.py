"""From the spans of a run to the core's tree of calls: what each component, agent step and tool is. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    AGENT_TOOL,
    COMPONENT,
    CopiedMessage,
    Node,
    Run,
)

from ragmetrics_core.capture import Document, Message, ToolCall
from ragmetrics_core.capture import Node as Call
from ragmetrics_core.capture.plain_values import (
    as_one_line,
    compact,
    documents_in,
    query_of_tool,
    texts_in,
)
from ragmetrics_core.capture.providers import add_provider_evidence
from ragmetrics_core.capture.step_documents import sorts_documents
from ragmetrics_core.capture.unread_requests import (
    UnreadRequest,
    parameters_in_reply,
    unread_request,
)

_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_NAMES_EVIDENCE = re.compile(r"document|context|passage|chunk|window|snippet")
_QUERY_SOCKETS = ("query", "text", "queries", "question")


class Calls:
    """The calls of a run, made of its spans.

    Attributes:
        run: The run.
        root: The outermost call, with all others inside.
        call_by_span: The call of each span.
    """

    def __init__(self, run: Run) -> None:
        """Make a call of each span, and put the calls inside each other."""
        self.run = run
        self.call_by_span: dict[Node, Call] = {}
        # what ``_documents_returned`` read of the spans that it was asked for
        self._documents_by_span: dict[Node, tuple[Document, ...] | None] = {}
        for node in run.nodes:
            self.call_by_span[node] = self._make_call(node)
        self.root = self.call_by_span[run.root]

    def _make_call(self, node: Node) -> Call:
        """Make the call of a span, and put it below the call of the span around it.

        A **span** is what Haystack records of a component, agent step or tool. A
        ``Call`` says the same in the terms of the core. Example: the span of the
        component "bm25" becomes a call of the kind "retriever" below the run's call.
        """
        parent: Call | None = None
        if node.parent is not None:
            # spans come in the order in which they began: the call around is made
            parent = self.call_by_span[node.parent]
            if node.operation == AGENT:
                # An agent inside a component uses the component's call. An agent inside
                # a tool gets a call of its own.
                return self._call_of_agent(parent, node)
            if node.operation not in _CALLS:
                # a nested pipeline has no call: its components go below the component
                # that runs it
                return parent
        kind = self._kind_of_call(node)
        call = Call(kind, node.path or "run", node.opened, node.closed or None)
        self._fill_call(call, node)
        if parent is not None:
            parent.children.append(call)
        return call

    def _fill_call(self, call: Call, node: Node) -> None:
        """Write into a call what its span was given and returned.

        Example: a generator's call gets its prompt and reply, and a retriever's call
        its query and documents.

        Args:
            call: The call; it is changed.
            node: Its span.
        """
        call.input_documents = documents_with_text(documents_in(node.input))
        if node is self.run.root:
            return  # question and answer of the whole run stand in its tree
        self._fill_documents_and_error(call, node)
        if call.kind == "model":
            _fill_model(call, node)
        elif node.operation == AGENT_TOOL:
            self._fill_tool_call(call, node)
        else:
            call.query = self._query_of(node)
            # a component that runs an agent returns the agent's "last_message"
            call.text = next(texts_in(node.output_by_socket.get("last_message")), None)

    def _fill_documents_and_error(self, call: Call, node: Node) -> None:
        """Write into a call which documents its span returned, and whether it failed.

        A grader that returns {"relevant": [A], "rejected": [B]} sorts its documents.
        """
        call.documents = self._documents_returned(node)
        call.sorts_documents = sorts_documents(node.input, node.output_by_socket)
        call.error = node.error or ("no output" if node.output is None else None)

    def _call_of_agent(self, enclosing: Call, node: Node) -> Call:
        """The call of an agent: that of the component around it; in a tool a new one.

        If several agents run, the call gets the agent's name, too.

        Args:
            enclosing: The call around the agent.
            node: The agent's span.
        """
        call = enclosing
        if enclosing.kind == "tool":
            call = Call("agent", enclosing.name, node.opened, node.closed or None)
            enclosing.children.append(call)
        agents = [span for span in self.run.nodes if span.operation == AGENT]
        call.agent = enclosing.name if len(agents) > 1 else None
        return call

    def _kind_of_call(self, node: Node) -> Any:
        """Tell what kind of call a span is, by what runs inside and what it passes on.

        The whole run is an agent, and so is a component that runs models inside. An
        evaluator is ignored. What fits nothing, such as a prompt builder, is a step.
        Example: [A, B, C] in and [C, A] out, with nothing inside, is a reranker.
        """
        if node is self.run.root:
            return "agent"
        if node.operation == AGENT_TOOL:
            return "tool"
        if self.is_model(node):
            return "model"
        if ".evaluators." in node.type:
            return "ignored"
        spans_inside = self.spans_inside[node]
        for span in spans_inside:
            if span.operation == AGENT_LLM or "replies" in span.output_by_socket:
                return "agent"
        takes_documents = any(documents_in(node.input))
        gives_documents = any(documents_in(node.output_by_socket))
        if takes_documents and gives_documents and not spans_inside:
            return "reranker"
        return "retriever" if self.retrieves(node) else "step"

    def _fill_tool_call(self, call: Call, node: Node) -> None:
        """Write into the call of a tool what it was asked and what it returned.

        Example: a tool ``search(query="Rome")`` gets the query "Rome", the id of the
        model's request, and the text that the next model was shown. A tool such as
        ``final_answer`` ends the agent: its text is the answer, no evidence
        (``is_control``). A tool that looks for other tools brings no evidence either.

        Args:
            call: The call; it is changed.
            node: The span of the tool.
        """
        call.name = node.name
        call.query = query_of_tool(node.input)
        request = self._request_of(node)
        call.tool_call_id = None if request is None else request.id
        next_model = self._next_model(node)  # None for the agent's last step
        result = None if next_model is None else self._result_shown(node, next_model)
        if result is not None:
            call.text = result.text
        elif isinstance(node.output, str):
            call.text = node.output
        if _has_failed(node, result):
            _note_failure(call, node)
        # what gave documents is a search, even in the last step
        is_answer = next_model is None and node.ends_agent and not call.documents
        # the one argument of Haystack's own tool that looks for tools
        looks_for_tools = "tool_keywords" in node.input
        call.is_control = is_answer or looks_for_tools

    def _request_of(self, node: Node) -> ToolCall | None:
        """The request of an agent's model that a tool's span ran; None if it ran none."""
        requests: list[ToolCall] = []
        for model in self._models_of[node.agent]:
            reply = None
            if (
                model.parent is node.parent
            ):  # the models of later steps have no call yet
                reply = self.call_by_span[model].reply
            if reply is not None:
                requests += reply.tool_calls
        index = self._index_of_request(node, requests)
        return None if index is None else requests[index]

    def _result_shown(self, node: Node, model: Node) -> Message | None:
        """The result of a tool's span as the next model was shown it; None if it was not.

        Each result names the request that it answers.
        """
        results = _results_after_the_last_reply(prompt(model))
        requests = [result.tool_calls[0] for result in results]
        index = self._index_of_request(node, requests)
        return None if index is None else results[index]

    def _index_of_request(self, node: Node, requests: Sequence[ToolCall]) -> int | None:
        """Find the index of the request that a tool's span ran; None if it ran none.

        Example: for the requests search("A"), search("B") and search("A"), the first
        span of search("A") has the index 0, and the second the index 2. If the
        arguments were changed before the tool ran, the name alone decides.

        Args:
            node: The span of the tool.
            requests: What the model asked for in its step.
        """
        spans = [
            span
            for span in self.run.nodes
            if span.operation == AGENT_TOOL
            and span.parent is node.parent
            and span.name == node.name
        ]
        like = [index for index, call in enumerate(requests) if call.name == node.name]
        equal = [index for index in like if requests[index].arguments == node.input]
        if equal:
            like = equal
            spans = [span for span in spans if span.input == node.input]
        place = spans.index(node)  # 1: the second of the spans that are alike
        return like[place] if place < len(like) else None

    def _next_model(self, node: Node) -> Node | None:
        """The next call of an agent's model, which is shown what a tool returned."""
        models = self._models_of[node.agent]
        return next((model for model in models if model.opened > node.opened), None)

    @cached_property
    def _models_of(self) -> Mapping[Node | None, list[Node]]:
        """Calls of the model of each agent, in their order."""
        models_of_agent = defaultdict[Node | None, list[Node]](list)
        for node in self.run.nodes:
            if node.operation == AGENT_LLM:
                models_of_agent[node.agent].append(node)
        return models_of_agent

    def _documents_returned(self, node: Node) -> tuple[Document, ...] | None:
        """Return the documents that a span found, which are read once.

        What kind of call a span is depends on them, and the call then holds them.
        """
        if node not in self._documents_by_span:
            self._documents_by_span[node] = self._read_documents_returned(node)
        return self._documents_by_span[node]

    def _read_documents_returned(self, node: Node) -> tuple[Document, ...] | None:
        """Read the documents that a span found: those whose text was not its input.

        Returns:
            The documents; () if the span only says that it gives documents; None if it
            says nothing of documents, or if a model wrote them.
        """
        if self._writes_its_documents(node):
            return None
        documents = (
            *documents_with_text(documents_in(node.output)),
            *self._documents_of_texts(node),
        )
        if documents:  # most components return none, and need not be read
            texts_taken = {as_one_line(text) for text in texts_in(node.input)}
            documents = tuple(
                document
                for document in documents
                if as_one_line(document.text) not in texts_taken
            )
        if documents or _is_for_documents(node):
            return documents
        return None

    def _writes_its_documents(self, node: Node) -> bool:
        """Whether a component has a model write its documents, such as imagined pages.

        It is told so by a prompt, and neither gets documents nor has an input for them.
        """
        if node.operation != COMPONENT or not isinstance(node.input.get("prompt"), str):
            return False
        # a prompt that no component sends is the user's question to a retriever
        if not (node.input_sockets.get("prompt") or {}).get("senders"):
            return False
        takes_documents = any(documents_in(node.input))
        return not takes_documents and not _has_socket_of_documents(node.input_sockets)

    def _documents_of_texts(self, node: Node) -> tuple[Document, ...]:
        """Make documents of the lists of texts that a component gave.

        Example: a component takes documents, and gives the texts around them: each text
        that holds the document at its place is this document with a longer text. A
        component that took none and gives a list under a name such as "snippets": a
        document of each text. What models write is left out.
        """
        if any(self.is_model(span) for span in (node, *self.spans_inside[node])):
            return ()
        documents_taken = documents_with_text(documents_in(node.input))
        documents: list[Document] = []
        for socket, texts in node.output_by_socket.items():
            if not isinstance(texts, tuple) or not all(
                isinstance(text, str) for text in texts
            ):
                continue
            if len(texts) == len(documents_taken):
                for document, text in zip(documents_taken, texts, strict=True):
                    if document.text.strip() in text:
                        documents.append(replace(document, text=text))
            elif not documents_taken and _NAMES_EVIDENCE.search(socket):
                documents += [Document(text) for text in texts]
        return documents_with_text(documents)

    def _query_of(self, node: Node, steps: int = 3) -> str | None:
        """The text that a component was asked; None if it was asked none.

        Example: ``{"query": "Who?"}`` gives "Who?". A retriever that was given an
        embedding was asked the text that was embedded.

        Args:
            node: The component's span.
            steps: How many embedders are followed backwards.
        """
        for name in _QUERY_SOCKETS:
            texts = list(texts_in(node.input.get(name)))
            if texts:
                return texts[0] if len(texts) == 1 else compact({name: texts})
        if steps == 0:
            return None
        for embedder in self._spans_feeding(node, "embedding"):
            if embedder.closed:
                return self._query_of(embedder, steps - 1)
        return None

    @cached_property
    def spans_inside(self) -> Mapping[Node, list[Node]]:
        """The components, agent steps and tools inside each span."""
        inside_by_span = defaultdict[Node, list[Node]](list)
        for node in self.run.nodes:
            if node.operation in _CALLS:
                for outer in node.ancestors:
                    inside_by_span[outer].append(node)
        return inside_by_span

    def is_model(self, node: Node) -> bool:
        """Whether a span called a model itself, and not by another span inside it.

        It takes a prompt and gives replies.
        """
        if node.operation == AGENT_LLM:
            return True
        if node.operation != COMPONENT or self.spans_inside[node]:
            return False
        gives_replies = "replies" in (node.output_sockets or node.output_by_socket)
        return gives_replies and bool(prompt(node))

    def retrieves(self, node: Node) -> bool:
        """Whether a component searched: it gives documents and was given none.

        Example: a retriever, but not a ranker, which was given documents. A component
        that gave no documents searched if it has an output for documents and no input
        for them. Two kinds do not count: a component around another that searched, and
        a component that has a model write its documents.
        """
        if node.operation != COMPONENT or self._writes_its_documents(node):
            return False
        if any(self.retrieves(span) for span in self.spans_inside[node]):
            return False
        takes_documents = any(documents_in(node.input)) or _has_socket_of_documents(
            node.input_sockets
        )
        if takes_documents:
            return False
        if self._documents_returned(node):
            return True
        # a retriever that found nothing has an output for documents with none in it
        return _has_socket_of_documents(node.output_sockets) and not any(
            documents_in(node.output_by_socket)
        )

    @property
    def models(self) -> list[Node]:
        """Spans that called a model, in the order in which they ended.

        Those still open come last.
        """
        models = [node for node in self.run.nodes if self.is_model(node)]
        return sorted(
            models, key=lambda node: (not node.closed, node.closed, node.opened)
        )

    def is_fed_by_documents(self, node: Node) -> bool:
        """Whether any component before a call was given documents, or found some."""
        waiting, seen = [node], {node}
        while waiting:
            span = waiting.pop()
            call = self.call_by_span[span]
            if call.input_documents or (span is not node and call.documents):
                return True
            before = [each for each in self._spans_feeding(span) if each not in seen]
            seen.update(before)
            waiting += before
        return False

    def _spans_feeding(self, node: Node, socket: str = "") -> list[Node]:
        """Find the components whose outputs are inputs of a call.

        Example: retriever → builder → generator: for the generator it is the builder.
        If there are none, the component around the call is taken, if there is one.

        Args:
            node: The span of the call.
            socket: Only inputs with this in their names are looked at, e.g.
                "embedding"; empty for all inputs.
        """
        names_of_senders = _names_of_senders(node, socket)
        last_run_by_name = {}  # of a component that ran several times
        for component in self.run.components():
            is_beside = component.parent is node.parent
            # a component that is still open has 0 as its end
            has_ended_before = 0 < component.closed < node.opened
            is_sender = component.name in names_of_senders
            if is_beside and has_ended_before and is_sender:
                last_run_by_name[component.name] = component
        if last_run_by_name:
            return list(last_run_by_name.values())
        for ancestor in node.ancestors:
            if ancestor.operation == COMPONENT:
                return [ancestor]
        return []


def _names_of_senders(node: Node, socket: str) -> set[str]:
    """The names of the components that send to inputs with a text in their names."""
    names: set[str] = set()
    for name, description in node.input_sockets.items():
        if socket in name:
            names.update(description.get("senders") or ())
    return names


def _fill_model(call: Call, node: Node) -> None:
    """Write into the call of a model what the model was shown, and what it replied first."""
    call.prompt = prompt(node)
    _unread_request(node).add_to(call)
    messages = replies(node)
    if messages:
        call.reply = _with_ids(messages[0], node)
        call.model = messages[0].model
        add_provider_evidence(call, messages[0].found)


def _has_socket_of_documents(sockets: Mapping[str, Any]) -> bool:
    """Whether any of these inputs or outputs is of the type Document."""
    return any("Document" in str(socket.get("type")) for socket in sockets.values())


def _is_for_documents(node: Node) -> bool:
    """Whether a span says that it gives documents, even if it gave none."""
    gives_empty_list = any(
        value == () and "document" in name
        for name, value in node.output_by_socket.items()
    )
    # a tool whose function searched, and returned a bare empty list
    is_empty_result = node.operation == AGENT_TOOL and node.output == ()
    has_ended = node.output is not None
    may_give_documents = has_ended and _has_socket_of_documents(node.output_sockets)
    return gives_empty_list or is_empty_result or may_give_documents


def documents_with_text(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Leave out documents without a text, such as images."""
    return tuple(document for document in documents if document.text.strip())


def _with_ids(reply: CopiedMessage, node: Node) -> CopiedMessage:
    """Return a reply with an id for each tool call: ids tell the order of the calls."""
    calls = (
        replace(call, id=call.id or f"{node.opened}.{place}")
        for place, call in enumerate(reply.tool_calls)
    )
    return replace(reply, tool_calls=tuple(calls))


def _results_after_the_last_reply(messages: Sequence[Message]) -> list[Message]:
    """The results of tools behind the model's last reply, each with its tool call."""
    places_of_replies = [
        place for place, message in enumerate(messages) if message.role == "assistant"
    ]
    start = places_of_replies[-1] + 1 if places_of_replies else 0
    return [
        message
        for message in messages[start:]
        if message.role == "tool" and message.tool_calls
    ]


def _has_failed(node: Node, message: Message | None) -> bool:
    """Whether a tool failed, by its span or by the message that tells its result."""
    if node.failed or (isinstance(message, CopiedMessage) and message.failed):
        return True
    # before Haystack 3.4 the span says no more
    return message is None and set(node.output_by_socket) == {"error"}


def _note_failure(call: Call, node: Node) -> None:
    """A tool that failed tells its error, and no text or document is evidence."""
    error_text = call.text or next(texts_in(node.output_by_socket.get("error")), None)
    call.error = error_text or "the tool failed"
    call.text = None
    call.documents = None


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a model was shown; blank ones that call no tool are left out.

    Example: ``run(prompt="Who?")`` gives one message of the user, "Who?".
    """
    values: list[Any] = []
    for name in ("messages", "prompt"):
        value = node.input.get(name)
        values += value if isinstance(value, tuple) else (value,)
    messages: list[Message] = []
    for value in values:
        if not value:
            continue
        message = value if isinstance(value, Message) else Message("user", value)
        messages.append(message)
        # an earlier reply of a model is shown with what its provider searched for it
        provider_results = _provider_results_behind(message)
        if provider_results is not None:
            messages.append(provider_results)
    return tuple(
        message for message in messages if message.text.strip() or message.tool_calls
    )


def _messages_given(node: Node) -> tuple[Any, ...]:
    """The messages that a model was given; a single one may be no list."""
    messages = node.input.get("messages") or ()
    return messages if isinstance(messages, tuple) else (messages,)


def _unread_request(node: Node) -> UnreadRequest:
    """Collect what a request showed a model and what no recorded text holds.

    Example: a message with an image, and the parameter ``previous_response_id``:
    both are noted.
    """
    kinds: list[str] = []
    for message in _messages_given(node):
        if isinstance(message, CopiedMessage) and message.role != "assistant":
            kinds += message.unread_kinds
    blocks = [{"type": kind} for kind in kinds]
    # the generator's own parameters stand in its replies alone
    parameters: dict[str, object] = {}
    for reply in replies(node):
        parameters.update(parameters_in_reply(reply.meta))
    settings_of_call = node.input.get("generation_kwargs")
    if isinstance(settings_of_call, Mapping):
        parameters.update(settings_of_call)
    return unread_request(parameters, blocks)


def _provider_results_behind(message: Message) -> Message | None:
    """What a model's provider found, as by a web search, while the model wrote a message.

    It is a message of its own, which stands behind that message in a prompt.
    """
    return message.found.message if isinstance(message, CopiedMessage) else None


def replies(node: Node) -> tuple[CopiedMessage, ...]:
    """What a model returned, as messages of the assistant."""
    value = node.output_by_socket.get("replies")
    messages = []
    for reply in value if isinstance(value, tuple) else (value,):
        if isinstance(reply, str):
            messages.append(CopiedMessage("assistant", reply))
        elif isinstance(reply, CopiedMessage):
            messages.append(reply)
    return tuple(messages)
