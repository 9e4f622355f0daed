"""Copies of what the framework's objects hold at one moment.

They are live, and applications change them.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from uuid import uuid4

from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from llama_index.core.agent.workflow.workflow_events import (
    AgentOutput,
    AgentSetup,
    ToolCallResult,
)
from llama_index.core.agent.workflow.workflow_events import ToolCall as AgentToolCall
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    StreamingAgentChatResponse,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import BaseMemory, ChatSummaryMemoryBuffer, Memory
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Context, Event, StopEvent
from llama_index.evaluation.ragmetrics.recording.run import Kind, Run, call_when_gone
from pydantic import BaseModel

from ragmetrics_core.capture import (
    ANSWER_KEYS,
    ROLES,
    Document,
    Message,
    Node,
    ToolCall,
    add_provider_evidence,
    answer_in,
    find_instances,
    is_bulk,
    kept_once,
    names_a_history,
    note_documents_of_step,
    unrecorded_evidence,
)

Streamed = StreamingResponse | AsyncStreamingResponse | StreamingAgentChatResponse
_Response = Response | PydanticResponse | AgentChatResponse | Streamed
Returned = _Response | AgentOutput  # what engines and agents return

# what a tool returned, in the memory of a ReAct agent
_OBSERVATION = re.compile(
    r"^Observation: (.*?)\n(?=Thought: )", re.MULTILINE | re.DOTALL
)
_conversations: dict[int, str] = {}  # names, by the identity of the memory


def copy_arguments(
    kind: Kind, node: Node, arguments: Mapping[str, Any], instance: object
) -> None:
    """Copy what a method was given into the recorded call of it.

    Example: of ``retriever.retrieve("Who?")`` the node gets the query "Who?", and of
    ``llm.chat(messages)`` the prompt. Of a workflow and of a program (a structured
    output) nothing is copied here.

    Args:
        kind: What the call does.
        node: The recorded call.
        arguments: What the method was given.
        instance: The object whose method it is.
    """
    if kind == "tool" and isinstance(instance, BaseTool):
        node.name = instance.metadata.name or ""
        node.arguments = arguments_of_tool(arguments)
        # the framework's own tool, by which one agent hands over to another, only steers
        node.is_control = (
            isinstance(instance, FunctionTool) and instance.real_fn is handoff
        )
    elif kind == "model" and isinstance(instance, BaseLLM):
        _copy_request(node, arguments, instance)
    elif kind not in ("workflow", "program"):
        questions = map(question_of, arguments.values())
        node.query = next(filter(None, questions), None)
        node.input_documents = documents_of(arguments.get("nodes"))


def _copy_request(node: Node, arguments: Mapping[str, Any], llm: BaseLLM) -> None:
    """Copy what a model was given: its prompt, and that some of it cannot be read."""
    sent: object = None
    if "messages" in arguments:
        sent = arguments["messages"]
    elif "prompt" in arguments:
        sent = arguments["prompt"]
    else:
        # a method of an integration may take its arguments as *args and **kwargs
        unnamed = [*arguments.get("args", ()), *arguments.get("kwargs", {}).values()]
        sent = unnamed[0] if unnamed else None
    if isinstance(sent, str):  # without roles: the user's
        node.prompt = (Message("user", sent),)
    else:
        node.prompt = _messages(sent)
    # some models are made with parameters for each request
    parameters: dict[str, Any] = {}
    # OpenAI's model of the Responses API keeps the id of the response that it goes on from
    previous_id = getattr(llm, "_previous_response_id", None)
    if isinstance(previous_id, str):
        parameters["previous_response_id"] = previous_id
    further = getattr(llm, "additional_kwargs", None)
    for source in (further, arguments.get("kwargs")):
        if isinstance(source, Mapping):
            parameters.update(source)
    # a PDF or an image: the model was shown it, and its text is not known here
    blocks: list[Any] = []
    for each in find_instances(arguments, BaseModel):
        if isinstance(each, BaseNode):
            is_text = not isinstance(each, ImageNode) and each.get_content()
            blocks += [] if is_text else [{"type": "image"}]
        elif not isinstance(each, ChatMessage):
            blocks += [plain_data(each)] if hasattr(each, "block_type") else []
        elif each.role.value != "assistant":
            blocks.append(plain_data(each.blocks))
    unrecorded_evidence(parameters, blocks).add_to(node)
    model_name = llm.metadata.model_name
    # the framework's word for no name
    node.model = None if model_name == "unknown" else model_name


def copy_event(node: Node, event: object) -> None:
    """Copy what a step of an agent was sent.

    It is the call of a tool that the step answers, or the agent whose turn it is.
    """
    node.tool_call_id = event.tool_id if isinstance(event, AgentToolCall) else None
    node.agent = (
        event.current_agent_name
        if isinstance(event, (AgentSetup, AgentOutput))
        else None
    )


def copy_start(run: Run, arguments: Mapping[str, Any], instance: object) -> None:
    """Copy into a run what its outermost call was given: inputs and conversation.

    Example: ``engine.chat("And when?", chat_history=[…])`` gets the history as earlier
    turns. Without ``chat_history`` they are read from the engine's memory.

    Args:
        run: The run.
        arguments: What the call was given.
        instance: The object whose method was called.
    """
    # ``workflow.run(user_msg="Who?")``: the fields of its start event, or the keywords
    # with which older workflows are started; {} for an engine
    inputs = dict(arguments)
    keywords = inputs.pop("kwargs", None)
    inputs.update(keywords if isinstance(keywords, dict) else {})
    inputs.update(fields_of(inputs.pop("start_event", None)))
    if run.kind in ("chat", "workflow"):  # a query engine keeps no conversation
        memory = vars(instance).get("_memory") or inputs.get("memory")
        run.memory = memory
        before = _messages(vars(instance).get("_prefix_messages"))
        run.has_examples = any(each.role == "assistant" for each in before)
        note_summaries(run)
        # a ReAct agent does not show its model what its memory summed up
        inputs["memory"] = list(run.summaries)
        if not inputs.get("chat_history"):
            # a conversation that is handed in has no name
            run.conversation_id = _name_of_conversation(memory)
        # what a memory has summed up is not the whole talk
        if inputs.get("chat_history") is None and not run.summaries:
            inputs["chat_history"] = _messages_kept_by(memory)
        talk = inputs.get("chat_history")
        inputs["chat_history"] = _messages(talk) or talk
    run.lookup_inputs = (plain(inputs),)
    if run.kind == "workflow":
        run.root.input_documents = tuple(find_instances(run.lookup_inputs, Document))


def copy_talk_of_template(run: Run, arguments: Mapping[str, Any]) -> None:
    """Copy the earlier talk with which a model's template is filled in, as an input.

    Example: a chat engine condenses the question by ``llm.predict(template,
    chat_history="user: Hi…", question="And when?")``. A template of messages may hold
    the talk itself.
    """
    if "prompt_args" not in arguments:
        return
    template = arguments.get("prompt")
    if isinstance(template, ChatPromptTemplate):
        run.templates += (_messages(template.message_templates),)
    variables = dict(getattr(template, "kwargs", None) or {})
    variables.update(arguments["prompt_args"])
    talk = {
        name: plain(value)
        for name, value in variables.items()
        # the framework's own ``context_messages`` show documents
        if names_a_history(name) and not name.startswith("context")
    }
    if talk:
        run.lookup_inputs += (talk,)


def _name_of_conversation(memory: object) -> str | None:
    """The name of the conversation that a memory keeps; None without a memory.

    It is the memory's own name, else one that is forgotten with the memory.
    """
    if isinstance(memory, Memory):
        return memory.session_id
    if not isinstance(memory, BaseMemory):
        return None
    if id(memory) not in _conversations:
        _conversations[id(memory)] = uuid4().hex
        call_when_gone(memory, _conversations.pop, id(memory), None)
    return _conversations[id(memory)]


def note_summaries(run: Run) -> None:
    """Note what the memory of a run put in the place of earlier messages."""
    if isinstance(run.memory, ChatSummaryMemoryBuffer):
        kept = _messages(_messages_kept_by(run.memory))
        texts = {each.text for each in kept if each.role == "system"}
        run.summaries |= texts


def _messages_kept_by(memory: object) -> list[ChatMessage]:
    """The messages of a memory that keeps them in this process; of others, prompts tell."""
    if isinstance(
        memory, (BaseChatStoreMemory, ChatSummaryMemoryBuffer)
    ) and isinstance(memory.chat_store, SimpleChatStore):
        return memory.chat_store.get_messages(memory.chat_store_key)
    return []


def copy_result(kind: Kind, node: Node, result: object, instance: object) -> None:
    """Copy what a method returned into the recorded call of it.

    Args:
        kind: What the call does. A retriever or postprocessor ("retrieve", "post")
            returned documents, a tool a text and perhaps documents, a model a reply, a
            program a structured answer, any other call an answer.
        node: The recorded call.
        result: What the method returned.
        instance: The object whose method it is.
    """
    if isinstance(result, VectorStoreQueryResult):
        # with the similarities as scores
        found = zip_longest(result.nodes or (), result.similarities or ())
        node.documents = documents_of(
            [NodeWithScore(node=each, score=score) for each, score in found if each]
        )
    elif kind in ("retrieve", "post"):
        node.documents = documents_of(result)
    elif kind == "tool" and isinstance(result, ToolOutput):
        node.text = _text_of_blocks(result)
        node.error = "the tool failed" if result.is_error else None
        returned = result.raw_output
        # a structured answer, which the framework has its model hand in as a call
        node.is_control = node.is_control or type(returned).__name__ == node.name
        node.documents = documents_of(returned) or None
        if node.documents is not None and node.text == str(returned):
            node.text = None  # the framework's own writing of the documents
        elif node.documents is None:
            # an MCP server replies with a list of blocks
            node.result = plain_data(getattr(returned, "content", returned))
    elif kind == "model":
        note_reply(node, result, instance)
    elif kind == "program":
        node.text = result.model_dump_json() if isinstance(result, BaseModel) else None
    else:
        node.text = answer_of(result)


def copy_outcome(run: Run, result: object) -> None:
    """Copy the result of a run, and the source nodes that it names as its data flow."""
    note_summaries(run)
    returned = unwrap_stop_event(result)
    plain_result = plain(returned)
    fields = plain_result if isinstance(plain_result, dict) else {}
    by_name = {
        name: plain_result if value is returned else plain(value)
        for name, value in fields_of(result).items()
    }
    if isinstance(returned, Returned):
        with_text = [each for each in fields["source_nodes"] if each.text.strip()]
        run.flow_documents = tuple(with_text) or None
    run.lookup_outputs = ({**by_name, "result": plain_result, **fields},)


def _messages(value: object) -> tuple[Message, ...]:
    """Copy the chat messages of a list."""
    messages: list[Message] = []
    for element in value if isinstance(value, (list, tuple)) else ():
        if isinstance(element, ChatMessage):
            messages += _messages_of_react(message_of(element))
    return tuple(messages)


def _messages_of_react(message: Message) -> tuple[Message, ...]:
    """Return the messages for which a message of a ReAct agent stands; others as they are.

    Such an agent shows its model the result of a tool as the user's message, and keeps
    one text of a whole turn in its memory. Example: the lines "Thought: …",
    "Observation: Rome is old", "Thought: …" and "Answer: Old" stand for the tool's
    message "Rome is old" and the answer "Old".
    """
    result = message.text.removeprefix("Observation: ")
    if message.role == "user" and result != message.text:
        return (Message("tool", result),)
    # what a tool returned may itself hold "Answer:"
    thoughts = _OBSERVATION.sub("", message.text)
    _, _, answer = thoughts.partition("\nAnswer: ")
    is_turn = message.role == "assistant" and thoughts.startswith("Thought: ")
    if not is_turn or not answer:
        return (message,)
    results = _OBSERVATION.findall(message.text)
    tool_messages = [Message("tool", text) for text in results]
    return (*tool_messages, Message("assistant", answer))


def message_of(
    message: ChatMessage, calls: tuple[ToolCall, ...] | None = None
) -> Message:
    """Copy a chat message; its tool calls are read from its blocks if none are given."""
    if calls is None:
        calls_in_blocks = []
        for block in message.blocks:
            if block.block_type == "tool_call":
                arguments = block.tool_kwargs  # a mapping, or a text
                if not isinstance(arguments, dict):
                    arguments = {}
                calls_in_blocks.append(
                    ToolCall(block.tool_name, arguments, block.tool_call_id)
                )
        calls = tuple(calls_in_blocks)
    role = ROLES[message.role.value]
    return Message(role, _text_of_blocks(message), calls)


def _text_of_blocks(holder: ChatMessage | ToolOutput) -> str:
    """The text of a message or a result, with that of the documents in it.

    Documents that a provider may cite stand in blocks of their own.
    """
    texts = [holder.content or ""]
    for block in holder.blocks:
        if block.block_type == "citable":  # older releases have no class for it
            texts += [getattr(part, "text", None) or "" for part in block.content]
    return "\n".join(text for text in texts if text)


def note_streamed_reply(root: Node, text: str) -> None:
    """Take a stream that was read for the reply of the last model, if no event told one.

    A model's class that lacks the framework's callback on its stream tells none.
    """
    models = [node for node in root.walk() if node.kind == "model"]
    if models and models[-1].reply is None and models[-1].error is None:
        models[-1].reply = Message("assistant", text)


def note_reply(node: Node, response: object, llm: object = None) -> None:
    """Write into the call of a model what it said, and what its provider found.

    Args:
        node: The call.
        response: What the model or the step of an agent returned; of a stream the last
            chunk.
        llm: The LLM, which can read tool calls in the provider's own format.
    """
    reply = reply_of(response, llm)
    node.reply = reply
    if reply is None:
        return
    raw = plain_data(getattr(response, "raw", None))
    fields = raw if isinstance(raw, dict) else {}
    # integrations put the provider's response in one of two places
    further = plain_data(getattr(response, "additional_kwargs", None))
    places = [{"content": reply.text}, fields.get("response"), fields, further]
    message: ChatMessage | None = None  # of a completion
    if isinstance(response, ChatResponse):
        message = response.message
    elif isinstance(response, AgentOutput):
        message = response.response
    if message is not None:
        places.append(plain_data(message.additional_kwargs))
        # the blocks that quote a source, in the form in which providers cite
        citations = [
            {
                **plain_data(block),
                "cited_text": getattr(block.cited_content, "text", None),
            }
            for block in message.blocks
            if block.block_type == "citation"  # older releases have no class for it
        ]
        places.append({"citations": citations})
    add_provider_evidence(
        node,
        *places,
        # a chunk of a stream told it; that of the agent's own tool looks alike
        has_searched_unread=node.may_have_searched and not reply.tool_calls,
    )


def note_reply_of_agent(step: Node, output: AgentOutput, moment: float) -> None:
    """Write into the last model's call of an agent's step what the step made of its reply.

    The step knows the tools that the model called, also where a stream does not tell.
    """
    models = [child for child in step.children if child.kind == "model"]
    for last_model in models[-1:]:
        if output.tool_calls or last_model.reply is None:
            note_reply(last_model, output)
            last_model.ended = moment


def plain_data(value: object, depth: int = 10) -> Any:
    """Turn a provider's objects into plain data: dicts, lists, texts and numbers.

    Args:
        value: An object of the provider's client, or data.
        depth: How many containers inside of each other are read: as deep as evidence
            lies. Anything deeper, and what is no data, becomes None.
    """
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping) and depth > 0:
        return {str(key): plain_data(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and depth > 0 and not is_bulk(value):
        return [plain_data(element, depth - 1) for element in value]
    return value if isinstance(value, (str, int, float)) else None


def reply_of(response: object, llm: object = None) -> Message | None:
    """Copy what a model said, with its tool calls; None for a stream and the like.

    Example: ``CompletionResponse(text="Rome")`` gives the assistant's message "Rome".

    Args:
        response: What the model or the step of an agent returned.
        llm: The LLM, which can read tool calls in the provider's own format; None
            leaves such tool calls unread.
    """
    if isinstance(response, AgentOutput):
        return message_of(response.response, _calls(response.tool_calls))
    if isinstance(response, CompletionResponse):
        return Message("assistant", response.text)
    if not isinstance(response, ChatResponse):
        return None
    reply = message_of(response.message)
    # calls in the provider's own form
    has_unread_calls = "tool_calls" in response.message.additional_kwargs
    if (
        has_unread_calls
        and not reply.tool_calls
        and isinstance(llm, FunctionCallingLLM)
    ):
        selections = llm.get_tool_calls_from_response(
            response, error_on_no_tool_call=False
        )
        return replace(reply, tool_calls=_calls(selections))
    return reply


def _calls(selections: Iterable[ToolSelection]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(selection.tool_name, selection.tool_kwargs, selection.tool_id)
        for selection in selections
    )


def document_of(scored_node: NodeWithScore) -> Document:
    """Copy a node as a document, with the text that models see.

    Models see the node's metadata before its own text; the own text alone is kept as
    another form. Example: the text "Rome is old." with {"page": 3} gives "page: 3", a
    blank line, "Rome is old.". A node of an image or a recording without a text of its
    own gives a blank document.
    """
    node = scored_node.node
    alone = node.get_content(metadata_mode=MetadataMode.NONE)
    score = None if scored_node.score is None else float(scored_node.score)

    def copy() -> Document:
        has_text = bool(alone.strip())
        holds_media = isinstance(node, ImageNode) or any(
            getattr(node, f"{kind}_resource", None)
            for kind in ("image", "audio", "video")
        )
        text = ""
        if has_text or not holds_media:
            text = node.get_content(metadata_mode=MetadataMode.LLM)
        forms = (alone,) if has_text and alone != text else ()
        return Document(text, node.node_id, score, dict(node.metadata), forms)

    not_shown = tuple(node.excluded_llm_metadata_keys)
    key = (type(node), node.node_id, score, alone, repr(node.metadata), not_shown)
    return kept_once(key, copy)


def documents_of(value: object) -> tuple[Document, ...]:
    """Copy the nodes of a list, with or without scores; anything else gives none.

    LlamaHub's tools return nodes without scores, as ``TavilyToolSpec.search`` does.
    """
    documents: list[Document] = []
    for element in value if isinstance(value, (list, tuple)) else ():
        if isinstance(element, NodeWithScore):
            documents.append(document_of(element))
        elif isinstance(element, BaseNode):
            documents.append(document_of(NodeWithScore(node=element)))
    return tuple(documents)


def arguments_of_tool(arguments: Mapping[str, Any]) -> dict[Any, Any]:
    """All arguments of a tool in one mapping, positional ones by their number.

    A workflow's context, which the framework hands in, does not count.
    """
    values: dict[Any, Any] = dict(enumerate(arguments.get("args", ())))
    values.update(arguments.get("kwargs", {}))
    for name, value in arguments.items():
        if name not in ("args", "kwargs"):
            values[name] = value
    return {
        name: plain(value)
        for name, value in values.items()
        if not isinstance(value, Context)
    }


def question_of(value: object) -> str | None:
    """The text of a question: a text, a query bundle or a chat message."""
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return value if isinstance(value, str) else None


def events_among(arguments: Mapping[str, Any]) -> tuple[Event, ...]:
    """The events that a step of a workflow was given.

    Usually it is one. A step that collects events is given several, or a list of them.
    """
    return tuple(find_instances(arguments, Event, depth=2))


def copy_documents_taken(step: Node, events: Iterable[Event]) -> None:
    """Copy the scored nodes of a step's events, as they are when it begins."""
    step.documents_among_inputs = tuple(
        find_instances(_fields_of_all(events), Document)
    )


def copy_documents_returned(
    step: Node, events: Iterable[object], result: object
) -> None:
    """Copy the nodes of the event that a step of a workflow returned.

    Example: the step was sent the nodes A and B, and returned an event with A: it
    passed A on. A step that fans out returns a list of events.
    """
    returned = result if isinstance(result, list) else [result]
    note_documents_of_step(step, _fields_of_all(events), _fields_of_all(returned))


def _fields_of_all(events: Iterable[object]) -> dict[str, Any]:
    """Copy the fields of events as plain data.

    Example: ``Ranked(nodes=[A, B], query="Who?")`` gives {"nodes": [A, B], "query":
    "Who?"}.
    """
    values: dict[str, Any] = {}
    for number, event in enumerate(events):
        for name, value in fields_of(event).items():
            values[f"{name} {number}" if number else name] = plain(value)
    return values


def copy_what_is_looked_into(
    step: Node, names: Collection[str], events: Iterable[object], *, is_end: bool
) -> None:
    """Copy the fields of a step's events where the user looks into them.

    Their names may stand behind that of the step, of the event's class, or alone.
    """
    events = [*events]
    fields = _fields_of_all(events)
    for event in events:
        name = type(event).__name__
        if name in names:
            fields[name] = plain(event)
    if step.name in names or not fields.keys().isdisjoint(names):
        setattr(step, "returned" if is_end else "given", fields)


def fields_of(event: object) -> dict[str, Any]:
    """All fields of a workflow's event, declared or not."""
    if not isinstance(event, Event):
        return {}
    declared = {name: getattr(event, name) for name in type(event).model_fields}
    return {**dict(event.items()), **declared}


def unwrap_stop_event(result: object) -> object:
    """What a workflow's stop event carries, else the result itself."""
    if not isinstance(result, StopEvent):
        return result
    if result.result is not None:
        return result.result
    fields = fields_of(result)
    return next(
        (fields[name] for name in ANSWER_KEYS if fields.get(name) is not None), None
    )


def answer_of(result: object) -> str | None:
    """Read the answer's text in anything that an engine returns.

    Example: "Rome", ``Response("Rome")`` and {"answer": "Rome"} all give "Rome". None
    if there is no answer, or if it is still streaming.
    """
    returned = unwrap_stop_event(result)
    if isinstance(returned, str):
        return answer_in(returned)
    if isinstance(returned, (Response, AgentChatResponse)):
        return answer_in(returned.response)
    if isinstance(returned, PydanticResponse):
        fields = {} if returned.response is None else returned.response.model_dump()
        return answer_in(fields) or (str(returned) if fields else None)
    if isinstance(returned, (StreamingResponse, AsyncStreamingResponse)):
        return returned.response_txt
    if isinstance(returned, StreamingAgentChatResponse):
        return (returned.response or None) if returned.is_done else None
    if isinstance(returned, AgentOutput):
        return returned.response.content
    if not isinstance(returned, (BaseModel, Mapping)):
        return None
    is_form = isinstance(returned, BaseModel) and not isinstance(returned, ChatResponse)
    fields = plain(vars(returned) if is_form else returned)
    return answer_in(fields) if isinstance(fields, Mapping) else None


def sources_of(result: object) -> tuple[Document, ...]:
    """The source nodes that a result names, as documents.

    Example: ``response.source_nodes`` of a query. An agent's result has the nodes that
    its tools returned.
    """
    returned = unwrap_stop_event(result)
    if isinstance(returned, _Response):
        return documents_of(returned.source_nodes)
    documents: list[Document] = []
    if isinstance(returned, AgentOutput):
        for call in returned.tool_calls:
            # of an agent's calls of tools, those with a result count
            if isinstance(call, ToolCallResult):
                output = call.tool_output.raw_output
                documents += documents_of(output) or sources_of(output)
    return tuple(documents)


def plain(value: object, depth: int = 6) -> Any:
    """Turn a value into plain data, so that keys and paths can be looked up in it.

    Example: a ``Response`` becomes {"response": "Rome", "source_nodes": [the documents]}.

    Args:
        value: What a call was given or returned.
        depth: How many containers inside of each other are read. Anything deeper, what
            is no data, and a list of more than 10,000 items, becomes None.
    """
    if value is None or isinstance(value, (str, int, float, bool, Document, Message)):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return message_of(value)
    if isinstance(value, ChatResponse):
        text = message_of(value.message).text
        return {"response": text, "message": {"content": text}}
    if isinstance(value, NodeWithScore):
        return document_of(value)
    if isinstance(value, Returned):
        return {
            "response": answer_of(value),
            "source_nodes": list(sources_of(value)),
        }
    if isinstance(value, Event):
        value = fields_of(value)
    if isinstance(value, Mapping) and depth > 0:
        return {str(key): plain(element, depth - 1) for key, element in value.items()}
    if isinstance(value, (list, tuple)) and depth > 0 and not is_bulk(value):
        return [plain(element, depth - 1) for element in value]
    return None
