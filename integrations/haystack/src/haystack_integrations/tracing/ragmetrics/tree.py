"""From a recorded run, or from what a pipeline returned, to the core's trees of calls. Pure.

What the user asked stands among what was handed in. Example: ``run({"builder":
{"question": "Who?", "tone": "kind"}})`` hands in two texts. "Who?" is the question, since
an input named "question" got it. What a run answered are answer objects, else messages or
a text in its output.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    AGENT_TOOL,
    COMPONENT,
    PIPELINE,
    CopiedMessage,
    Node,
    Run,
    copied,
)

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    SettingError,
    ToolCall,
    Tree,
    add_provider_evidence,
    answer_in,
    documents_in,
    find_instances,
    history_in,
    names_a_history,
    note_documents_of_step,
    question_among,
    texts_in,
    turns_before_question,
    unrecorded_evidence,
)
from ragmetrics_core.capture import Node as Call


def as_run(result: object) -> Run:
    """Return a run as it is, or make one of what an application got from Haystack.

    Example: the result {"llm": {"replies": ["Anna"]}} becomes a run without calls whose
    output it is.

    Args:
        result: A run, the result of a pipeline or agent, an answer, or several answers.

    Raises:
        SettingError: If it is none of these.
    """
    if isinstance(result, Run):
        return result
    output = copied(result)
    # an answer, or several, as a pipeline's component returns them
    several = (output,) if isinstance(output, Answer) else output
    if isinstance(several, tuple) and all(isinstance(each, Answer) for each in several):
        output = {"answers": {"answers": several}}
    if not isinstance(output, dict):
        raise SettingError(
            "samples_from() takes a run, a pipeline's result or answers, got"
            f" {type(result).__name__}"
        )
    is_of_agent = "last_message" in output
    root = Node(
        AGENT if is_of_agent else PIPELINE,
        name="",
        type="",
        parent=None,
        opened=1,
        closed=1,
        output=output,
    )
    return Run(nodes=[root])


def trees(run: Run) -> Iterator[Tree]:
    """Make the tree of a run, of which the core makes a sample for each answer."""
    calls = Calls(run)
    is_component = run.root.operation == COMPONENT
    has_searched = any(call.kind == "retriever" for call in calls.root.walk())
    # what a run returned before it failed is no answer
    found = () if run.root.error else answers(calls)
    # a component that ran by itself need not answer, nor was it asked by the user
    is_asked = not is_component or calls.root.kind in ("agent", "step")
    prompts = [[message.text for message in call.prompt] for call in calls.models]
    question, doubts = question_among(
        groups_of_inputs(run) if is_asked else (),
        prompts,
        found[0].question if found and is_asked else None,
    )
    outputs = outputs_by_place(run)
    documents = [tuple(documents_in(value)) for value in outputs.values()]
    flow_documents = next(filter(None, reversed(documents)), None)
    if flow_documents and not found and len(run.nodes) == 1 and not is_component:
        # a result by itself, as of samples_from(), whose answer is unknown
        found = (Answer(None, documents=flow_documents),)
    # an embedder that ran by itself, or an index build, belongs to no turn
    is_loose_step = is_component and calls.root.kind == "step" and not has_searched
    is_unasked = not (calls.is_asked or question or found or flow_documents)
    # as an embedder of documents is that are to be stored
    given = [each.text for each in documents_in(run.input)]
    returned = [each.text for each in documents_in(run.output)]
    is_handed_on = bool(given) and given == returned and not calls.root.query
    is_storing = is_component and is_handed_on
    is_preparation = is_loose_step or is_unasked
    is_ignored = calls.root.kind == "ignored" or is_storing
    if is_ignored or (is_preparation and not calls.root.input_documents):
        return
    by_id = {each.id: each for node in run.nodes for each in documents_in(node.output)}
    is_resumed = _is_resumed(run)
    may_go_on = run.paused or run.root.error is not None  # by a snapshot
    tree = Tree(
        calls.root,
        question=question,
        doubts=doubts,
        answers=found,
        output=outputs,
        flow_documents=flow_documents,
        gives_only_documents=(not is_component or has_searched)
        and any(documents)
        and all(
            each or value == ()
            for each, value in zip(documents, outputs.values(), strict=True)
        ),
        is_complete=run.complete,
        task_or_thread=run.task_or_thread,
        # a run and the one that resumes it have one key, the input
        resumption_key=repr(run.input) if may_go_on or is_resumed else None,
        is_paused=run.paused,
        continues=is_resumed,
        # images and the like
        documents_without_text=tuple(
            each for each in by_id.values() if not each.text.strip()
        ),
        native_run=run,
        # what a model is given is its prompt
        lookup_inputs=() if calls.root.kind == "model" else (run.input, _talk(calls)),
        to_plain_value=copied,
    )
    _add_places(tree, calls)
    _add_history(tree, calls)
    yield tree


def _is_resumed(run: Run) -> bool:
    """Whether a run goes on from a snapshot of an earlier one.

    A component of such a run was sent more than the components that ran before it send.
    """
    have_run: set[str] = set()
    for node in run.components():
        if node.parent is not run.root:
            continue
        from_the_user = run.input.get(node.name) or {}
        for name, senders in node.senders.items():
            sent = node.input.get(name)
            if not sent or name in from_the_user:
                continue
            # a joiner is sent several lists
            are_lists = isinstance(sent, tuple) and isinstance(sent[0], tuple)
            n_sent = len(sent) if are_lists else 1
            if n_sent > len(have_run.intersection(senders)):
                return True
        have_run.add(node.name)
    return False


def _talk(calls: Calls) -> Mapping[str, Any]:
    """What components other than models were given in inputs named like a history, by the name.

    Example: a memory sent "They spoke of ferries." to the input "memories" of a prompt
    builder. A template that is made anew for each run, and that the answer's model is
    not shown, may hold the talk itself.
    """
    talk: dict[str, Any] = {}
    shown_last = {message.text for call in calls.models[-1:] for message in call.prompt}
    for node in calls.run.components():
        if calls.call_by_span[node].kind != "step":
            continue
        for name, value in node.input.items():
            if names_a_history(name):
                talk[name] = value
        if node.input.get("template"):
            template = tuple(texts_in(node.input["template"]))
            if template and shown_last.isdisjoint(texts_in(node.output)):
                talk["history"] = template
    return talk


def _add_places(tree: Tree, calls: Calls) -> None:
    """Write into a tree where the user's keys, such as ``contexts_from``, are looked up.

    Example: ``contexts_from="retriever.documents"`` is found among the outputs of the
    components, under the names ``component`` and ``component.socket``; their inputs come
    next. The last run of a component counts. An agent's tools have sockets, too, unless a
    component has their name.
    """
    outputs: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    call_by_place: dict[str, Call] = {}
    tools = [node for node in calls.run.nodes if node.operation == AGENT_TOOL]
    for node in (*tools, *calls.run.components()):
        call = calls.call_by_span[node]
        is_tool = node.operation == AGENT_TOOL
        path = call.name if is_tool else node.path
        call_by_place[path] = call
        for by_place, values in ((outputs, node.output), (inputs, node.input)):
            if isinstance(values, dict):
                # the name of a model leads to its replies, that of a tool to documents
                if not is_tool:
                    by_place[path] = values.get("replies", values)
                for name, value in values.items():
                    by_place[f"{path}.{name}"] = value
        for name in node.output_by_socket:
            call_by_place[f"{path}.{name}"] = call
    tree.lookup_outputs = (outputs, inputs, calls.run.output)
    tree.call_by_place = call_by_place


def groups_of_inputs(run: Run) -> list[Mapping[str, Any]]:
    """What the user handed in, a group for each component of a pipeline.

    The variables of a prompt builder's template stand beside its other inputs.
    """
    is_pipeline = run.root.operation == PIPELINE
    groups = run.input.values() if is_pipeline else [run.input]
    return [
        {**inputs, **(inputs.get("template_variables") or {})}
        for inputs in groups
        if isinstance(inputs, dict)
    ]


def _add_history(tree: Tree, calls: Calls) -> None:
    """Write the earlier turns of the conversation into a tree whose question is known.

    They are those that a component such as a memory gave before the last model was
    called, else those among the user's inputs. A model and an agent write messages of
    their own, which other components hand on. Those of a prompt builder, or of a
    component that was given documents, may be examples.
    """
    ends_before = calls.models[-1].began if calls.models else math.inf
    own_replies = {call.reply.text for call in calls.models if call.reply is not None}
    for node in reversed(list(calls.run.components())):
        call = calls.call_by_span[node]
        is_writer = call.kind in ("model", "agent") or any(documents_in(node.input))
        if is_writer or "Builder" in node.type or node.closed > ends_before:
            continue
        messages = list(find_instances(node.output, Message))
        turns = turns_before_question(messages, tree.question, documents=())
        if turns and own_replies.isdisjoint(turn.content for turn in turns):
            tree.history = turns
            return
    for inputs in groups_of_inputs(calls.run):
        tree.history = tree.history or history_in(inputs, tree.question, depth=1)


def answers(calls: Calls) -> tuple[Answer, ...]:
    """Find the answers of a run; the first of these that it has.

    1. Answer objects in its output, such as an ``AnswerBuilder`` makes.
    2. The messages of the one output that holds some, a text under a usual name, or the
       replies of the one generator of texts in it.
    3. The best passage that a reader cut out of documents.
    4. The one text in it, if it was made of a model's reply.

    Example: the output {"llm": {"replies": ["Anna"]}} gives the answer "Anna".

    Returns:
        The answers; empty if there is none, or if several outputs may hold it: the
        core's rules look for one then.
    """
    outputs = outputs_by_place(calls.run)
    objects = list(find_instances(outputs, Answer))
    written = tuple(each for each in objects if not each.is_extracted)
    found = written or _messages(outputs, calls)
    if found:
        return found
    # A reader lists the best passage first. One without a text says that the documents
    # hold no answer; it counts only if no passage has a text. Behind the reader others
    # may hand its answers on, or grade them.
    extracted = tuple(each for each in objects if each.is_extracted)
    if not (extracted or calls.models):
        for node in calls.run.components():
            of_node = find_instances(node.output, Answer)
            extracted = (
                tuple(each for each in of_node if each.is_extracted) or extracted
            )
    with_text = tuple(answer for answer in extracted if answer.text)
    # the text in an output whose socket has a usual name, such as "answer"
    text_by_name = {
        place.rpartition(".")[2]: value
        for place, value in outputs.items()
        if isinstance(value, str)
    }
    text = answer_in(text_by_name)
    if text is not None:
        handed_on = [answer for answer in with_text if answer.text == text]
        return tuple(handed_on[:1]) or (Answer(text),)
    replies = {
        place: as_replies(value)
        for place, value in outputs.items()
        if place.rpartition(".")[2] == "replies"
    }
    found = _messages(replies, calls) or (with_text or extracted)[:1]
    return found or _text_made_of_a_reply(outputs, calls)


def outputs_by_place(run: Run) -> Mapping[str, Any]:
    """What the user got, by ``component.socket``; of an agent its last message alone."""
    is_pipeline = run.root.operation == PIPELINE
    by_component = run.output if is_pipeline else {"": run.output}
    outputs: dict[str, Any] = {}
    for component, sockets in by_component.items():
        if isinstance(sockets, dict):
            if "last_message" in sockets:
                message = sockets["last_message"]
                # An agent that ran out of steps ends with a tool's result. That is the
                # answer only where the agent was told to end with that tool.
                is_result = isinstance(message, Message) and message.role == "tool"
                requests = message.tool_calls if is_result else ()
                exit_reason = sockets.get("exit_reason")
                ended_by = [call for call in requests if call.name == exit_reason]
                if ended_by:
                    message = _answer_handed_to(ended_by[0], message)
                is_last_step = requests and not ended_by
                sockets = {} if is_last_step else {"last_message": message}
            for name, value in sockets.items():
                outputs[f"{component}.{name}" if component else name] = value
    return outputs


def _answer_handed_to(call: ToolCall, result: Message) -> Message:
    """The answer that an agent handed to the tool that ends it, else what the tool returned.

    Example: ``final_answer(answer="In 1856.")`` returned "ok". What holds words of its own
    in the place of the answer may be another one.
    """
    for name, value in call.arguments.items():
        if isinstance(value, str) and re.search(r"answer|response", name.lower()):
            letters = "".join(filter(str.isalnum, result.text))
            if value in result.text or len(letters) < _LONGEST_STATUS:
                return Message("assistant", value)
    return result


def _text_made_of_a_reply(
    outputs: Mapping[str, Any], calls: Calls
) -> tuple[Answer, ...]:
    """The one text that a run returned, where a component made it of a model's reply.

    Example: a component took the reply "Call Anna Berg." and returned "Call [name].". A
    prompt is made of documents as well.
    """
    texts = [value for value in outputs.values() if isinstance(value, str)]
    if len(texts) != 1:
        return ()
    said = {call.reply.text for call in calls.models if call.reply is not None}
    for node in calls.run.components():
        if texts[0] not in node.output_by_socket.values():
            continue
        messages = find_instances(node.input, Message)
        given = {*texts_in(node.input), *(message.text for message in messages)}
        if not said.isdisjoint(given) and not any(documents_in(node.input)):
            return (Answer(texts[0]),)
    return ()


def _messages(outputs: Mapping[str, Any], calls: Calls) -> tuple[Answer, ...]:
    """The replies in the one output that holds messages; of a conversation the last one.

    None where several models wrote them, as an answer and a grade of it.
    """
    replies_by_output: list[tuple[Answer, ...]] = []
    for value in outputs.values():
        messages = list(find_instances(value, Message))
        replies = [
            Answer(message.text)
            for message in messages
            if message.role in ("assistant", "tool") and message.text.strip()
        ]
        if any(message.role in ("user", "system") for message in messages):
            replies = replies[-1:]
        if replies:
            replies_by_output.append(tuple(replies))
        texts = {message.text for message in messages}
        authors = {
            call.name
            for call in calls.models
            if call.reply and call.reply.text in texts
        }
        if len(authors) > 1:
            return ()
    return replies_by_output[0] if len(replies_by_output) == 1 else ()


_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_LONGEST_STATUS = 16  # letters of a tool's result that tells only that it ran
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
            if node.output is None and kind != "tool":  # which may return nothing
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
        if not self.is_asked:
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
            call.arguments = None if given else _arguments(node)
        if call.kind == "step" and given:
            call.documents_among_inputs, call.input_documents = given, ()
            note_documents_of_step(call, node.input, node.output_by_socket)
        elif found or call.kind in ("retriever", "reranker"):
            note_documents_of_step(call, {}, node.output_by_socket)
            call.documents = found if node.output is not None else None
            call.result = node.output_by_socket

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
            if not isinstance(node.output, str):
                call.result = node.output
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
        for message in prompt(node.agent or node):
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
            if len(texts) > 1:
                return json.dumps({name: texts}, ensure_ascii=False)
            if texts:
                return texts[0]
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
    def is_asked(self) -> bool:
        """Whether the run is asked anything: it calls a model, or hands on a query.

        One that converts files, and writes the documents into a store, is asked nothing.
        """
        for node in self.run.components():
            # a query, or an embedding of one
            sockets = " ".join(node.input).lower()
            is_query = any(word in sockets for word in _QUERY_WORDS)
            if is_query or node.input.get("text"):
                return True
        return any(map(self.is_model, self.run.nodes))

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
    """Whether a component finds documents and was given none, be it an empty list of them.

    One that takes a model's replies, or results of tools, may make its documents of them.
    """
    is_given = any(
        name == "replies" or _is_empty(value) for name, value in node.input.items()
    ) or any(each.role == "tool" for each in find_instances(node.input, Message))
    if node.operation != COMPONENT or is_given or any(documents_in(node.input)):
        return False
    # a retriever that found nothing has an output for documents with none in it
    has_returned = any(documents_in(node.output))
    return bool(_documents_found(node)) or (node.gives_documents and not has_returned)


def _is_empty(value: object) -> bool:
    """Whether a list holds nothing; joiners are given a list of lists."""
    return isinstance(value, tuple) and all(map(_is_empty, value))


def _arguments(node: Node) -> Mapping[str, Any]:
    """What a component was given, without vectors; messages as their texts, one as itself."""
    arguments: dict[str, Any] = {}
    for name, value in node.input.items():
        texts = list(texts_in(value))
        if isinstance(value, tuple) and len(texts) == len(value):
            arguments[name] = texts[0] if len(texts) == 1 else texts
        else:
            arguments[name] = value
    return {name: value for name, value in arguments.items() if value}


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
    messages_shown = find_instances(_values(node, "messages"), CopiedMessage)
    blocks = [
        {"type": "image"}
        for message in messages_shown
        if message.holds_no_text and message.role != "assistant"
    ]
    # the generator's own parameters stand in its replies alone
    parameters: dict[str, object] = {}
    for reply in messages:
        if reply.meta.get("object") == "response":  # OpenAI's repeats the request's
            parameters.update(reply.meta)
    settings_of_call = node.input.get("generation_kwargs")
    if isinstance(settings_of_call, Mapping):
        parameters.update(settings_of_call)
    unrecorded_evidence(parameters, blocks).add_to(call)
    if messages:
        call.reply, *others = messages
        call.other_replies = tuple(others)
        model = messages[0].meta.get("model")
        call.model = model if isinstance(model, str) else None
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
        message = value if isinstance(value, Message) else Message("user", value or "")
        if message.text.strip() or message.tool_calls:
            messages.append(message)
    return tuple(messages)


def _values(node: Node, socket: str) -> tuple[Any, ...]:
    """What a socket was given; a single value may be no list."""
    value = node.input.get(socket)
    return value if isinstance(value, tuple) else (value,)


def replies(node: Node) -> tuple[CopiedMessage, ...]:
    """What a model returned, as messages of the assistant."""
    return as_replies(node.output_by_socket.get("replies"))


def as_replies(value: object) -> tuple[CopiedMessage, ...]:
    """The replies of a generator, of texts or of messages, as messages."""
    messages = []
    for reply in value if isinstance(value, tuple) else (value,):
        if isinstance(reply, str):
            messages.append(CopiedMessage("assistant", reply))
        elif isinstance(reply, CopiedMessage):
            messages.append(reply)
    return tuple(messages)
