"""From the spans of a run to the core's tree of calls: what each component, agent step and tool is. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
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

from ragmetrics_core.capture import (
    Document,
    Message,
    ToolCall,
    add_provider_evidence,
    documents_in,
    note_documents_of_step,
    texts_in,
    unread_request,
)
from ragmetrics_core.capture import Node as Call

_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_QUERY_SOCKETS = ("query", "text", "queries", "question")
_QUERY_WORDS = ("query", "queries", "question", "embedding", "search", "keyword")


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
        # spans come in the order in which they began: the call around is made before
        for node in run.nodes:
            self.call_by_span[node] = self._make_call(node)
        self.root = self.call_by_span[run.root]
        tools = self._tools_run_by_hand(run.root)
        if tools:
            model, ended = self.root, self.root.ended
            self.root = Call("agent", "run", model.began, ended, [*tools, model])

    def _make_call(self, node: Node) -> Call:
        """Make the call of a span, and put it below the call of the span around it.

        A **span** is what Haystack records of a component, agent step or tool. A
        ``Call`` says the same in the terms of the core. Example: the span of the
        component "bm25" becomes a call of the kind "retriever" below the run's call.
        """
        parent = None if node.parent is None else self.call_by_span[node.parent]
        if parent is not None and node.operation == AGENT:
            # the call of an agent is that of the component around it; in a tool a new one
            call = parent
            if parent.kind == "tool":
                call = Call("agent", parent.name, node.opened, node.closed or None)
                parent.children.append(call)
            agents = [span for span in self.run.nodes if span.operation == AGENT]
            call.agent = parent.name if len(agents) > 1 else None
            return call
        if parent is not None and node.operation not in _CALLS:
            # a nested pipeline has no call: its components go below the component that
            # runs it
            return parent
        kind = self._kind_of_call(node)
        call = Call(kind, node.path or "run", node.opened, node.closed or None)
        call.error = node.error
        if parent is not None:
            parent.children += [*self._tools_run_by_hand(node), call]
            if node.output is None:
                call.error = node.error or "no output"
        self._fill_call(call, node)
        return call

    def _kind_of_call(self, node: Node) -> Any:
        """Tell what kind of call a span is, by what runs inside and what it passes on.

        The run of a pipeline or agent is an agent, and so is a component that runs
        models inside. An evaluator is ignored. What fits nothing, such as a prompt
        builder, is a step. Example: [A, B, C] in and [C, A] out, with nothing inside,
        is a reranker.
        """
        if node is self.run.root and node.operation != COMPONENT:
            return "agent"
        if node.operation == AGENT_TOOL:
            return "tool"
        if self.is_model(node):
            return "model"
        if ".evaluators." in node.type:
            return "ignored"
        inside = self.spans_inside[node]
        if any(self.is_model(span) for span in inside):
            return "agent"
        # whether it is given a query, or an embedding of one
        sockets = " ".join(node.input).lower()
        is_asked = any(word in sockets for word in _QUERY_WORDS)
        is_asked = is_asked or self._query_of(node) is not None
        if node is self.run.root and not is_asked:
            return "step"  # such as a converter of files that are indexed
        if _searches(node) and not any(map(_searches, inside)):
            return "retriever"
        are_given = any(documents_in(node.input))
        are_returned = any(documents_in(node.output))
        return "reranker" if are_given and are_returned and not inside else "step"

    def _fill_call(self, call: Call, node: Node) -> None:
        """Write into a call what its span was given and returned.

        Example: a generator's call gets its prompt and reply, and a retriever's call
        its query and documents.

        Args:
            call: The call; it is changed.
            node: Its span.
        """
        given = documents_with_text(documents_in(node.input))
        found = _documents_found(node)
        call.input_documents = given
        if node is self.run.root and call.kind in ("agent", "step"):
            return  # question and answer of the whole run stand in its tree
        if call.kind == "model":
            _fill_model(call, node)
        elif call.kind == "tool":
            self._fill_tool_call(call, node, found)
        else:
            call.query = self._query_of(node)
        if call.kind == "step" and given:
            call.documents_among_inputs, call.input_documents = given, ()
            note_documents_of_step(call, node.input, node.output_by_socket)
        elif found or call.kind in ("retriever", "reranker"):
            note_documents_of_step(call, {}, node.output_by_socket)
            call.documents = found if node.output is not None else None

    def _fill_tool_call(
        self, call: Call, node: Node, documents: tuple[Document, ...]
    ) -> None:
        """Write into the call of a tool what it was asked and what it returned.

        Example: a tool ``search(query="Rome")`` gets the query "Rome", the id of the
        model's request, and the text that the next model was shown. A tool such as
        ``final_answer`` ends the agent: its text is the answer, and it brings no evidence
        (``is_control``). Nor does one that finds further tools for the agent.

        Args:
            call: The call; it is changed.
            node: The span of the tool.
            documents: The documents that it returned.
        """
        call.name = node.name
        call.arguments = node.input
        request, call.text = self._result_shown(node)
        call.tool_call_id = request.id if request else None
        error = node.output_by_socket.get("error")
        if isinstance(error, str) and len(node.output_by_socket) == 1:
            call.error = call.text or error
            call.text = None
        else:
            # an empty list, alone or under a name such as "documents"
            lists = {"documents": node.output, **node.output_by_socket}
            is_empty_search = any(
                value == () and "document" in name for name, value in lists.items()
            )
            if documents or is_empty_search:
                call.documents = documents
        agent_output = node.agent.output_by_socket if node.agent is not None else {}
        ends_agent = agent_output.get("exit_reason") == node.name
        finds_tools = any(
            node.name in span.tools_that_find_tools
            for span in self.run.nodes
            if span.agent is node.agent
        )
        # what gave documents is a search, even in the last step
        call.is_control = (ends_agent or finds_tools) and not documents

    def _tools_run_by_hand(self, node: Node) -> list[Call]:
        """The calls of tools that stand in a model's prompt and were recorded nowhere.

        Code that runs the tools itself writes their results into the next prompt.
        Those behind the user's last message belong to the model that answers.
        """
        agents_tools = [span for span in self.run.nodes if span.operation == AGENT_TOOL]
        answers = [reply for reply in replies(node) if not reply.tool_calls]
        if agents_tools or not answers or not self.is_model(node):
            return []
        tools: list[Call] = []
        for message in prompt(node):
            if message.role == "user":
                tools = []
            elif message.role == "tool":
                for request in message.tool_calls:
                    tool = Call("tool", request.name, node.opened, node.opened)
                    tool.arguments = request.arguments
                    tool.tool_call_id = request.id
                    tool.text = message.text
                    tools.append(tool)
        return tools

    def _result_shown(self, node: Node) -> tuple[ToolCall | None, str | None]:
        """The request that a tool ran for, and its result as the next model of its agent was shown it.

        Of several results the one for the same arguments, else for the same tool; of
        several of these the order decides. If no model followed, the result is what the
        tool returned, if that is a text.
        """
        next_models = [
            span
            for span in self.run.nodes
            if span.operation == AGENT_LLM and span.opened > node.opened
            if span.agent is node.agent
        ]
        results: list[tuple[ToolCall, str]] = []
        for message in prompt(next_models[0]) if next_models else ():
            if message.role == "assistant":
                results = []  # what stands before it answers earlier requests
            elif message.role == "tool":
                results += [(call, message.text) for call in message.tool_calls]
        of_tool = [result for result in results if result[0].name == node.name]
        equal = [result for result in of_tool if result[0].arguments == node.input]
        beside = [
            span
            for span in self.run.nodes
            if span.parent is node.parent and span.name == node.name
            if span.input == node.input or not equal
        ]
        in_order = (equal or of_tool)[beside.index(node) :]
        if in_order:
            return in_order[0]
        return None, node.output if isinstance(node.output, str) else None

    def _query_of(self, node: Node) -> str | None:
        """The text that a component was asked; None if it was asked none.

        Example: ``{"query": "Who?"}`` gives "Who?". A retriever that was given an
        embedding was asked the text that was embedded.
        """
        for name in _QUERY_SOCKETS:
            texts = list(texts_in(node.input.get(name)))
            if texts:
                return (
                    texts[0]
                    if len(texts) == 1
                    else json.dumps({name: texts}, ensure_ascii=False)
                )
        embedders = [
            span
            for span in self.run.nodes
            if span.parent is node.parent and 0 < span.closed < node.opened
            if "embedding" in span.output_by_socket
        ]
        is_given_embedding = any("embedding" in name for name in node.input)
        if embedders and is_given_embedding:
            return self.call_by_span[embedders[-1]].query
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
        gives_replies = node.gives_replies or "replies" in node.output_by_socket
        return gives_replies and bool(prompt(node))

    @cached_property
    def models(self) -> list[Call]:
        """Calls of models, in the order in which they began."""
        return [call for call in self.root.walk() if call.kind == "model"]


def _searches(node: Node) -> bool:
    """Whether a component finds documents and takes none, by values or types of its sockets.

    One that takes a model's replies may make its documents of them.
    """
    is_given = any("document" in name or name == "replies" for name in node.input)
    if node.operation != COMPONENT or is_given or any(documents_in(node.input)):
        return False
    # a retriever that found nothing has an output for documents with none in it
    has_returned = any(documents_in(node.output))
    return bool(_documents_found(node)) or (node.gives_documents and not has_returned)


def _documents_found(node: Node) -> tuple[Document, ...]:
    """The documents that a span returned, without those made of texts that it was given."""
    documents = documents_with_text(documents_in(node.output))
    texts_given = set(texts_in(node.input)) if documents else set()
    return tuple(each for each in documents if each.text not in texts_given)


def _fill_model(call: Call, node: Node) -> None:
    """Write into the call of a model what the model was shown, and what it replied."""
    call.prompt = prompt(node)
    call.offered_tools = node.offered_tools
    messages = replies(node)
    # what the request showed it and no recorded text holds
    kinds: list[str] = []
    for shown in _values(node, "messages"):
        if isinstance(shown, CopiedMessage) and shown.role != "assistant":
            kinds += shown.unread_kinds
    # the generator's own parameters stand in its replies alone
    parameters: dict[str, object] = {}
    for reply in messages:
        if reply.meta.get("object") == "response":  # OpenAI's repeats the request's
            parameters.update(reply.meta)
    settings_of_call = node.input.get("generation_kwargs")
    if isinstance(settings_of_call, Mapping):
        parameters.update(settings_of_call)
    unread_request(parameters, [{"type": kind} for kind in kinds]).add_to(call)
    if messages:
        call.reply, *others = messages
        call.other_replies = tuple(others)
        call.model = messages[0].model
        # the text first: it tells how the blocks of the metadata are joined
        add_provider_evidence(call, {"content": call.reply.text}, messages[0].meta)


def documents_with_text(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Leave out documents without a text, such as images."""
    return tuple(document for document in documents if document.text.strip())


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a model was shown; blank ones that call no tool are left out.

    Example: ``run(prompt="Who?")`` gives one message of the user, "Who?".
    """
    messages: list[Message] = []
    for value in (*_values(node, "messages"), *_values(node, "prompt")):
        if not value:
            continue
        message = value if isinstance(value, Message) else Message("user", value)
        messages.append(message)
    return tuple(
        message for message in messages if message.text.strip() or message.tool_calls
    )


def _values(node: Node, socket: str) -> tuple[Any, ...]:
    """What a socket was given; a single value may be no list."""
    value = node.input.get(socket)
    return value if isinstance(value, tuple) else (value,)


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
