"""Copies of what the framework's objects hold at one moment.

They are live, and applications change them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeGuard

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
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Context, Event, StopEvent
from llama_index.evaluation.ragmetrics.recording.kept_conversations import (
    empties_memory,
    messages_kept_by,
    name_of_conversation,
    start_over,
)
from llama_index.evaluation.ragmetrics.recording.provider_data import (
    plain_data,
    provider_evidence_of,
)
from llama_index.evaluation.ragmetrics.recording.run import (
    Kind,
    Pointer,
    Run,
)
from pydantic import BaseModel

from ragmetrics_core import Turn
from ragmetrics_core.capture import (
    ANSWER_KEYS,
    UNREAD_SEARCH,
    Document,
    Message,
    Node,
    ToolCall,
    add_provider_evidence,
    answer_text,
    evidence_in_reply,
    history_in,
    names_a_history,
    spoken,
    unread_request,
)

Streamed = StreamingResponse | AsyncStreamingResponse | StreamingAgentChatResponse
_Response = Response | PydanticResponse | AgentChatResponse | Streamed
Returned = _Response | AgentOutput  # what engines and agents return

# A node with or without a score, in the annotation of what a function returns.
_NAME_OF_NODES = re.compile(r"\b(?:NodeWithScore|BaseNode|TextNode|Document)\b")
# stands for calls of tools that are told in the form of the provider only
_CALL_OF_PROVIDER = ToolCall("")

_ROLES = {
    "chatbot": "assistant",
    "model": "assistant",
    "function": "tool",
    "developer": "system",
}


def is_being_written(response: object) -> TypeGuard[StreamingAgentChatResponse]:
    """Whether a chat engine still writes an answer, in a thread or task of its own."""
    if not isinstance(response, StreamingAgentChatResponse):
        return False
    return response.is_writing_to_memory


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
        node.query = argument_of(arguments)
        # such a tool only steers the run, and brings no evidence
        node.is_control = _hands_over_to_agent(instance)
    elif kind == "model" and isinstance(instance, BaseLLM):
        _copy_request(node, arguments, instance)
    elif kind not in ("workflow", "program"):
        node.query = question_of(_query_among(arguments))
        nodes = documents_of(arguments.get("nodes"))
        node.input_documents = nodes or _chunks_among(arguments)


def _copy_request(node: Node, arguments: Mapping[str, Any], llm: BaseLLM) -> None:
    """Copy what a model was given: its prompt, and what of it cannot be read.

    Args:
        node: The recorded call of the model.
        arguments: What the model's method was given.
        llm: The model.
    """
    prompt = _prompt_among(arguments)
    node.prompt = prompt_of(arguments)
    # a PDF or an image: the model was shown it, and its text is not known here
    parameters = _parameters_sent(arguments, llm)
    unread_parts = unread_request(parameters, list(_blocks_sent(prompt)))
    unread_parts.add_to(node)
    model_name = llm.metadata.model_name
    # the framework's word for no name
    node.model = None if model_name == "unknown" else model_name


def _hands_over_to_agent(tool: BaseTool) -> bool:
    """Whether a tool is the framework's own, by which one agent hands over to another.

    It steers the run, and what it returns is no evidence.
    """
    return isinstance(tool, FunctionTool) and tool.real_fn is handoff


def _chunks_among(arguments: Mapping[str, Any]) -> tuple[Document, ...]:
    """The texts that a synthesizer's method was given instead of nodes, as documents."""
    chunks = arguments.get("text_chunks") or ()
    return tuple(Document(chunk) for chunk in chunks if isinstance(chunk, str))


def _query_among(arguments: Mapping[str, Any]) -> object:
    """The query among the arguments of a method: one of a usual name, else the first.

    Arguments that are None do not count. None if there are no others.
    """
    usual_names = ("message", "user_msg", "query", "query_str", "query_bundle")
    for name in (*usual_names, *arguments):
        if arguments.get(name) is not None:
            return arguments[name]
    return None


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


def copy_start(
    run: Run,
    arguments: Mapping[str, Any],
    instance: object,
    needs_data: bool,
    context: Context | None,
) -> None:
    """Copy into a run what its outermost call was given: inputs and conversation.

    Example: ``engine.chat("And when?", chat_history=[…])`` gets the history as earlier
    turns. Without ``chat_history`` the turns are read from the engine's memory.

    Args:
        run: The run.
        arguments: What the call was given.
        instance: The object whose method was called.
        needs_data: Whether ``run.inputs`` is filled: the user looks a key up there, as by
            ``question_from="user_msg"``.
        context: The context that a workflow's run goes on with; None if it has none.
    """
    # ``workflow.run(user_msg="Who?")``: the fields of its start event; {} for an engine
    fields = start_fields(arguments)
    if needs_data:
        run.inputs = plain({**arguments, **fields})
    if run.kind == "chat":
        # a chat engine keeps messages in a memory, or by itself
        keeper_of_messages = vars(instance).get("_memory") or instance
    elif run.kind == "workflow":
        # a workflow keeps them in a memory that it is handed, or in its context
        keeper_of_messages = fields.get("memory") or arguments.get("ctx") or context
    else:
        return  # a query engine keeps no conversation
    handed_history = {**arguments, **fields}.get("chat_history")
    _copy_history(run, handed_history, keeper_of_messages, instance)
    if not run.history:
        # ``run(memory_notes="They spoke of Rome.")``: from these the core reads the turns
        run.conversation_fields = _fields_with_conversation(fields)
    _copy_texts_and_documents(run, fields)


def _copy_texts_and_documents(run: Run, fields: Mapping[str, Any]) -> None:
    """Copy the texts and the documents of a start event into a run.

    One of the texts may be the question.
    """
    documents: list[Document] = []
    for name, value in fields.items():
        text = question_of(value)
        if text:
            run.fields[name] = text
        documents += documents_of(value)
    run.root.input_documents = tuple(documents)


def _copy_history(
    run: Run, handed_history: object, keeper_of_messages: object, instance: object
) -> None:
    """Copy the earlier turns into a run, and the name of its conversation.

    Example: ``engine.chat("And when?")`` with "Who?" and "Anna" in its memory: these
    two turns, and the memory's name. An empty ``chat_history`` begins anew.

    Args:
        run: The run of a chat engine or a workflow.
        handed_history: The ``chat_history`` of the call; None if it has none. A
            conversation that is handed in has no name.
        keeper_of_messages: What keeps the messages, such as a memory; None if nothing
            does.
        instance: The chat engine or the workflow.
    """
    run.conversation_id = None
    if handed_history:
        run.history = spoken(_messages(handed_history))
        return
    begins_anew = handed_history == [] and empties_memory(instance)
    if begins_anew:
        start_over(instance)
    if keeper_of_messages is not None:
        run.conversation_id = name_of_conversation(keeper_of_messages)
    if begins_anew:
        run.history = ()
    else:
        run.history = spoken(_messages(messages_kept_by(keeper_of_messages)))


def _fields_with_conversation(fields: Mapping[str, object]) -> dict[str, Any]:
    """Pick the fields of a start event that hold an earlier conversation, by their names.

    Returns their values as messages, else as plain data.
    """
    picked: dict[str, Any] = {}
    for name, value in fields.items():
        if names_a_history(name) or name == "messages":
            key = "chat_history" if name == "messages" else name
            picked[key] = _messages(value) or plain(value)
    return picked


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
    if kind in ("retrieve", "post"):
        node.documents = documents_of(result)
    elif kind == "tool" and isinstance(result, ToolOutput):
        _copy_tool_output(node, result, instance)
    elif kind == "model":
        note_reply(node, result, instance)
    elif kind == "program":
        node.text = result.model_dump_json() if isinstance(result, BaseModel) else None
    else:
        node.text = answer_of(result)


def _copy_tool_output(node: Node, output: ToolOutput, tool: object) -> None:
    """Copy the text of a tool, its documents, and whether it failed."""
    node.text = _text_of_blocks(output)
    node.error = "the tool failed" if output.is_error else None
    returned = output.raw_output
    # a structured answer, which the framework has its model hand in as a call
    node.is_control = node.is_control or type(returned).__name__ == node.name
    if not isinstance(returned, list):
        node.result = _plain_result(returned)
        return
    is_of_nodes = all(
        isinstance(element, (NodeWithScore, BaseNode)) for element in returned
    )
    # An empty list is one of documents only if the tool says so: it may be one of rows.
    if is_of_nodes and (returned or _says_it_returns_nodes(tool)):
        node.documents = _documents_of_tool(returned)
    else:
        node.result = _plain_result(returned)


def _plain_result(returned: object) -> Any:
    """Copy what a tool returned, with the blocks of text of an MCP server's reply."""
    blocks = getattr(returned, "content", None)
    listed = blocks if isinstance(blocks, list) else returned
    if not isinstance(listed, list):
        return plain(listed)
    return [
        {"type": "text", "text": block.text}
        if isinstance(getattr(block, "text", None), str)
        else plain(block)
        for block in listed
    ]


def _documents_of_tool(returned: object) -> tuple[Document, ...]:
    """Copy the nodes that a tool returned, with or without scores.

    LlamaHub's tools return a list of LlamaIndex's documents, as ``TavilyToolSpec.search``
    does.
    """
    nodes: list[object] = []
    for element in returned if isinstance(returned, (list, tuple)) else ():
        is_bare_node = isinstance(element, BaseNode)
        nodes.append(NodeWithScore(node=element) if is_bare_node else element)
    return documents_of(nodes)


def _says_it_returns_nodes(tool: object) -> bool:
    """Whether the function of a tool is annotated to return nodes."""
    if not isinstance(tool, FunctionTool):
        return False
    annotations = getattr(tool.real_fn, "__annotations__", {})
    return _NAME_OF_NODES.search(str(annotations.get("return", ""))) is not None


def copy_outcome(run: Run, result: object, needs_data: bool) -> None:
    """Copy the source nodes of a run's result; with ``needs_data`` all of it."""
    run.sources = sources_of(result)
    if needs_data:
        plain_result = plain(without_stop_event(result))
        run.outputs = {
            **plain(fields_of(result)),
            "result": plain_result,
            **(plain_result if isinstance(plain_result, dict) else {}),
        }


def prompt_of(arguments: Mapping[str, Any]) -> tuple[Message, ...]:
    """The messages that a model was given; a prompt without roles is the user's."""
    prompt = _prompt_among(arguments)
    return (Message("user", prompt),) if isinstance(prompt, str) else _messages(prompt)


def _prompt_among(arguments: Mapping[str, Any]) -> object:
    """The prompt among the arguments of a model's method; None without arguments."""
    for name in ("messages", "prompt"):
        if name in arguments:
            return arguments[name]
    # a method of an integration may take its arguments as *args and **kwargs
    unnamed = [*arguments.get("args", ()), *arguments.get("kwargs", {}).values()]
    return unnamed[0] if unnamed else None


def _parameters_sent(arguments: Mapping[str, Any], model: BaseLLM) -> dict[str, Any]:
    """Collect the parameters of a request by their names.

    Some models are made with parameters for each request. OpenAI's model of the
    Responses API keeps the id of the response that it goes on from.
    """
    parameters: dict[str, Any] = {}
    previous_id = getattr(model, "_previous_response_id", None)
    if isinstance(previous_id, str):
        parameters["previous_response_id"] = previous_id
    further = getattr(model, "additional_kwargs", None)
    for source in (further, arguments.get("kwargs")):
        if isinstance(source, Mapping):
            parameters.update(source)
    return parameters


def _blocks_sent(prompt: object) -> Iterator[dict[str, str]]:
    """Yield the types of the blocks of messages that the application sends.

    Example: a message with a text and an image yields {"type": "text"} and {"type":
    "image"}. What a model wrote is left out. A block that may be cited holds further
    blocks.
    """
    for message in prompt if isinstance(prompt, (list, tuple)) else ():
        if isinstance(message, ChatMessage) and message.role.value != "assistant":
            for block in message.blocks:
                yield {"type": block.block_type}
                # older releases have no class for blocks that may be cited
                inner_blocks = getattr(block, "content", ())
                for inner in inner_blocks if block.block_type == "citable" else ():
                    yield {"type": inner.block_type}


def _messages(value: object) -> tuple[Message, ...]:
    messages: list[Message] = []
    for element in value if isinstance(value, (list, tuple)) else ():
        if isinstance(element, ChatMessage):
            messages += _shown(element)
    return tuple(messages)


def _shown(message: ChatMessage) -> tuple[Message, ...]:
    """The messages that one message of a prompt stands for.

    What a model's provider found while the model wrote the message is shown again
    behind it.
    """
    messages = _messages_in_reasoning(message_of(message))
    message_of_provider = evidence_in_reply(
        plain_data(message.additional_kwargs)
    ).message
    return messages if message_of_provider is None else (*messages, message_of_provider)


def _messages_in_reasoning(message: Message) -> tuple[Message, ...]:
    """Split a message of a ReAct agent into the messages that it stands for.

    In a memory such an agent keeps one text of a whole turn. Example: the lines
    "Thought: …", "Observation: Rome is old", "Thought: …" and "Answer: Old" stand for
    the tool's message "Rome is old" and the answer "Old". Other messages stay.
    """
    flags = re.MULTILINE | re.DOTALL
    observations = re.findall(
        r"^Observation: (.*?)\nThought: ", message.text, flags=flags
    )
    # what a tool returned may itself hold "Answer:"
    without_observations = re.sub(
        r"^Observation: .*?\n(?=Thought: )", "", message.text, flags=flags
    )
    is_of_assistant = message.role == "assistant"
    if not is_of_assistant or not without_observations.startswith("Thought: "):
        return (message,)
    _, _, answer = without_observations.partition("\nAnswer: ")
    if not answer:
        return (message,)
    tool_messages = [Message("tool", text) for text in observations]
    return (*tool_messages, Message("assistant", answer))


def message_of(
    message: ChatMessage, calls: tuple[ToolCall, ...] | None = None
) -> Message:
    """Copy a chat message of the framework.

    Args:
        message: The message.
        calls: The tool calls that it makes; None to read them from the message. Calls
            in the provider's own form, which only the LLM can read, become a
            placeholder: one call without a name.
    """
    if calls is None:
        calls = _tool_calls_in_blocks(message)
        has_calls_of_provider = bool(message.additional_kwargs.get("tool_calls"))
        if has_calls_of_provider and not calls:
            calls = (_CALL_OF_PROVIDER,)
    role = str(message.role.value)
    return Message(_ROLES.get(role, role), _text_of_blocks(message), calls)


def _tool_calls_in_blocks(message: ChatMessage) -> tuple[ToolCall, ...]:
    """The tool calls that stand in the blocks of a message; empty in older releases."""
    calls = []
    for block in message.blocks:
        if block.block_type == "tool_call":
            arguments = block.tool_kwargs  # a mapping, or a text
            if not isinstance(arguments, dict):
                arguments = {}
            calls.append(ToolCall(block.tool_name, arguments, block.tool_call_id))
    return tuple(calls)


def _text_of_blocks(holder: ChatMessage | ToolOutput) -> str:
    """The text of a message or a result, with that of the documents in it.

    Documents that a provider may cite stand in blocks of their own.
    """
    texts = [holder.content or ""]
    for block in getattr(holder, "blocks", ()):  # older tools give no blocks
        if block.block_type == "citable":  # older releases have no class for it
            texts += [getattr(part, "text", None) or "" for part in block.content]
    return "\n".join(text for text in texts if text)


def note_reply(
    node: Node,
    response: object,
    llm: object = None,
    *,
    has_search_in_stream: bool = False,
) -> None:
    """Write into the call of a model what it said, and what its provider found.

    Args:
        node: The call.
        response: What the model or the step of an agent returned; of a stream the last
            chunk.
        llm: The LLM, which can read tool calls in the provider's own format.
        has_search_in_stream: Whether a chunk of the reply tells that the provider
            searched. Chunks are not read further.
    """
    node.reply = reply_of(response, llm)
    if node.reply is not None:
        evidence = provider_evidence_of(response)
        is_of_own_tool = bool(node.reply.tool_calls)
        if has_search_in_stream and not evidence.calls and not is_of_own_tool:
            evidence = replace(evidence, calls=(UNREAD_SEARCH,))
        add_provider_evidence(node, evidence)


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
    # message_of() puts a placeholder where only the LLM can read the calls
    has_unread_calls = reply.tool_calls == (_CALL_OF_PROVIDER,)
    if has_unread_calls and isinstance(llm, FunctionCallingLLM):
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
    blank line, "Rome is old.". A node without a text of its own gives a blank document.
    """
    node = scored_node.node
    alone = node.get_content(metadata_mode=MetadataMode.NONE)
    text_for_models = (
        node.get_content(metadata_mode=MetadataMode.LLM) if alone.strip() else ""
    )
    score = None if scored_node.score is None else float(scored_node.score)
    document_class = Pointer if isinstance(node, IndexNode) else Document
    return document_class(
        text_for_models,
        node.node_id,
        score,
        dict(node.metadata),
        () if alone == text_for_models else (alone,),
    )


def documents_of_result(
    result: VectorStoreQueryResult,
) -> tuple[Document, ...] | None:
    """Copy the nodes of a search of a vector store; None where it names only their ids."""
    if not result.nodes:
        return None if result.ids else ()
    scores = result.similarities or ()
    return documents_of(
        [
            NodeWithScore(node=node, score=score)
            for node, score in zip_longest(result.nodes, scores)
            if node is not None
        ]
    )


def documents_of(value: object) -> tuple[Document, ...]:
    """Copy all scored nodes of a list; anything else gives none."""
    listed = value if isinstance(value, (list, tuple)) else ()
    return tuple(
        document_of(element) for element in listed if isinstance(element, NodeWithScore)
    )


def argument_of(arguments: Mapping[str, Any]) -> str:
    """The one text argument of a tool, else all its arguments as JSON.

    Example: ``search("Rome")`` gives "Rome", and ``search("Rome", limit=3)`` gives
    '{"0": "Rome", "limit": 3}': positional arguments are named by their number. A
    workflow's context, which the framework hands in, does not count.
    """
    values: dict[Any, Any] = dict(enumerate(arguments.get("args", ())))
    values.update(arguments.get("kwargs", {}))
    for name, value in arguments.items():
        if name not in ("args", "kwargs"):
            values[name] = value
    for name, value in list(values.items()):
        if isinstance(value, Context):
            del values[name]
    if len(values) == 1:
        (only_value,) = values.values()
        if isinstance(only_value, str):
            return only_value
    return json.dumps(plain(values), ensure_ascii=False)


def question_of(value: object) -> str | None:
    """The text of a question: a text, a query bundle or a chat message."""
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return value if isinstance(value, str) else None


def prompted_turns(arguments: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Read the earlier turns of a conversation from what a model's template was given.

    They stand in a text that fills the template, or in the messages of the template
    itself.

    Args:
        arguments: What the model's method was given: "prompt", the template, and
            "prompt_args", what fills it.

    Returns:
        The turns; empty if there are none.
    """
    filled_in = arguments.get("prompt_args")
    if isinstance(filled_in, dict) and isinstance(filled_in.get("chat_history"), str):
        return _turns_in_text(filled_in["chat_history"])
    template = arguments.get("prompt")
    if isinstance(template, ChatPromptTemplate):
        return history_in(prompt_of({"messages": template.message_templates}))
    return ()


def prompted_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pick what fills a model's template under a name such as "history".

    Args:
        arguments: What the model's method was given, as in ``prompted_turns``.
    """
    filled_in = dict(getattr(arguments.get("prompt"), "kwargs", None) or {})
    filled_in.update(arguments.get("prompt_args") or {})
    return _fields_with_conversation(filled_in)


def _turns_in_text(history: str) -> tuple[Turn, ...]:
    """Read the turns that the framework has written as one text, to condense a question.

    "user: Hi" and "assistant: Hello" in two lines are two turns.
    """
    parts = re.split(r"^(user|assistant|system|tool): ", history, flags=re.MULTILINE)
    # The first part stands before the first role; then role and text take turns.
    roles = parts[1::2]
    texts = parts[2::2]
    messages = []
    for role, text in zip(roles, texts, strict=True):
        messages.append(Message(role, text.strip()))
    return spoken(messages)


def fields_of(event: object) -> dict[str, Any]:
    """All fields of a workflow's event, declared or not."""
    if not isinstance(event, Event):
        return {}
    declared = {name: getattr(event, name) for name in type(event).model_fields}
    return {**dict(event.items()), **declared}


def start_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a workflow was started with: the fields of its start event.

    Older workflows are started with keywords instead, which are fields as well.
    """
    keywords = arguments.get("kwargs")
    fields = dict(keywords) if isinstance(keywords, dict) else {}
    fields.update(fields_of(arguments.get("start_event")))
    return fields


def without_stop_event(result: object) -> object:
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
    returned = without_stop_event(result)
    if isinstance(returned, str):
        return answer_text(returned)
    if isinstance(returned, (Response, AgentChatResponse)):
        return answer_text(returned.response)
    if isinstance(returned, PydanticResponse):
        return _answer_of_structured(returned)
    if isinstance(returned, (StreamingResponse, AsyncStreamingResponse)):
        return returned.response_txt
    if isinstance(returned, StreamingAgentChatResponse):
        return (returned.response or None) if returned.is_done else None
    if isinstance(returned, AgentOutput):
        return returned.response.content
    if isinstance(returned, Mapping):
        for name in ANSWER_KEYS:
            if returned.get(name) is not None:
                return str(returned[name])
        return None
    if isinstance(returned, BaseModel):
        return _text_of_answer_field(vars(returned))
    return None


def _answer_of_structured(response: PydanticResponse) -> str | None:
    """The field for the answer of a structured response; without one the whole as text."""
    fields = {} if response.response is None else response.response.model_dump()
    text = _text_of_answer_field(fields)
    if text is None and fields:
        return str(response)
    return text


def _text_of_answer_field(fields: Mapping[str, Any]) -> str | None:
    """The first text under a usual name for an answer; None if there is none."""
    for name in ANSWER_KEYS:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            return text
    return None


def sources_of(result: object) -> tuple[Document, ...]:
    """The source nodes that a result names, as documents.

    Example: ``response.source_nodes`` of a query. An agent's result has the nodes that
    its tools returned.
    """
    returned = without_stop_event(result)
    if isinstance(returned, _Response):
        return documents_of(returned.source_nodes)
    # of an agent's calls of tools, those with a result count
    calls: Iterable[object] = (
        returned.tool_calls if isinstance(returned, AgentOutput) else ()
    )
    documents: list[Document] = []
    for call in calls:
        if isinstance(call, ToolCallResult):
            output = call.tool_output.raw_output
            documents += _documents_of_tool(output) or sources_of(output)
    return tuple(documents)


def plain(value: object, depth: int = 6) -> Any:
    """Turn a value into plain data, so that keys and paths can be looked up in it.

    Example: a ``Response`` becomes {"response": "Rome", "source_nodes": [{"id": "n1",
    "text": …}], "metadata": …}. Here the path "source_nodes.0.text" leads to a text.

    Args:
        value: What a call was given or returned.
        depth: How many containers inside of each other are read. Anything deeper, and
            what is no data, becomes None.
    """
    if value is None or isinstance(value, (str, int, float, bool, Document)):
        return value
    if isinstance(value, (QueryBundle, ChatMessage)):
        return question_of(value)
    if isinstance(value, NodeWithScore):
        document = document_of(value)
        return {
            "id": document.id,
            "text": document.text,
            "score": document.score,
            "metadata": document.metadata,
        }
    if isinstance(value, Returned):
        return {
            "response": answer_of(value),
            "source_nodes": plain(getattr(value, "source_nodes", None), depth - 1),
            "metadata": plain(getattr(value, "metadata", None), depth - 1),
        }
    if isinstance(value, Event):
        value = fields_of(value)
    if isinstance(value, Mapping) and depth > 0:
        return {str(key): plain(element, depth - 1) for key, element in value.items()}
    if isinstance(value, (list, tuple)) and depth > 0:
        return [plain(element, depth - 1) for element in value]
    return None
