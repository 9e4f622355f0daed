"""Copies of what the framework's objects hold at one moment.

They are live, and applications change them.
"""

import json
import re
import weakref
from collections.abc import Iterable, Mapping
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
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    StreamingAgentChatResponse,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import Memory, SimpleComposableMemory
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.schema import IndexNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Context, Event, StopEvent
from llama_index.evaluation.ragmetrics.recording.run import Kind, Pointer, Run
from pydantic import BaseModel

from ragmetrics_core import Turn
from ragmetrics_core.capture import (
    ANSWER_KEYS,
    Document,
    Message,
    Node,
    ProviderEvidence,
    ToolCall,
    add_provider_evidence,
    answer_text,
    evidence_in_reply,
    history_in,
    names_a_talk,
    spoken,
)

Streamed = StreamingResponse | AsyncStreamingResponse | StreamingAgentChatResponse
_Response = Response | PydanticResponse | AgentChatResponse | Streamed
Returned = _Response | AgentOutput  # what engines and agents return

_DEPTH = 10

_conversations: dict[tuple[int, str], str] = {}  # names, by what keeps the messages
_ROLES = {
    "chatbot": "assistant",
    "model": "assistant",
    "function": "tool",
    "developer": "system",
}


def copy_arguments(
    kind: Kind, node: Node, arguments: Mapping[str, Any], instance: object
) -> None:
    """Copy into a call what its method was given: names, query, prompt, documents."""
    if kind == "tool" and isinstance(instance, BaseTool):
        node.name, node.query = instance.metadata.name or "", argument_of(arguments)
        node.control |= (
            isinstance(instance, FunctionTool) and instance.real_fn is handoff
        )
    elif kind == "model" and isinstance(instance, BaseLLM):
        node.prompt, name = prompt_of(arguments), instance.metadata.model_name
        # the framework's word for no name
        node.model = None if name == "unknown" else name
    elif kind not in ("workflow", "program"):
        names = (
            "message",
            "user_msg",
            "query",
            "query_str",
            "query_bundle",
            *arguments,
        )
        node.query = question_of(
            next(
                (arguments[name] for name in names if arguments.get(name) is not None),
                None,
            )
        )
        texts = (
            text for text in arguments.get("text_chunks") or () if isinstance(text, str)
        )
        node.taken = documents_of(arguments.get("nodes")) or tuple(map(Document, texts))


def copy_event(node: Node, event: object) -> None:
    """Copy what a step of an agent was sent.

    It is the call of a tool that the step answers, or the agent whose turn it is.
    """
    node.call = event.tool_id if isinstance(event, AgentToolCall) else None
    node.agent = (
        event.current_agent_name
        if isinstance(event, (AgentSetup, AgentOutput))
        else None
    )


def copy_start(
    run: Run,
    arguments: Mapping[str, Any],
    instance: object,
    data: bool,
    context: Context | None,
) -> None:
    """Copy what the outermost call says of the conversation.

    Args:
        run: The run.
        arguments: What the call was given.
        instance: Whose method it is.
        data: All that it was given is needed.
        context: The context that a workflow's run goes on with.
    """
    if data:
        run.inputs = plain({**arguments, **start_fields(arguments)})
    if run.kind in ("chat", "workflow"):
        fields = start_fields(arguments)
        memory = (
            fields.get("memory") or arguments.get("ctx") or context
            if run.kind == "workflow"
            else vars(instance).get("_memory") or instance
        )
        handed_history = {**arguments, **fields}.get("chat_history")
        emptied = (
            handed_history == []
            and run.kind == "chat"
            and not isinstance(instance, CondenseQuestionChatEngine)
        )
        if emptied:
            start_over(instance)
        run.conversation = (
            None if handed_history or memory is None else _conversation(memory)
        )
        run.history = (
            ()
            if emptied
            else spoken(_messages(handed_history or _messages_kept_by(memory)))
        )
        run.fields = {
            name: text for name, value in fields.items() if (text := question_of(value))
        }
        if not run.history:
            run.talk = _talk_handed_in(fields)
        run.root.taken = tuple(
            document for value in fields.values() for document in documents_of(value)
        )


def _talk_handed_in(fields: Mapping[str, object]) -> dict[str, Any]:
    """Those fields of a start event that hold an earlier talk by their names, as plain data."""
    talk: dict[str, Any] = {}
    for name, value in fields.items():
        if names_a_talk(name):
            talk[name] = _messages(value) or plain(value)
    return talk


def copy_result(kind: Kind, node: Node, result: object, instance: object) -> None:
    """Copy into a call what its method returned: documents, text, reply or error."""
    if kind in ("retrieve", "post"):
        node.documents = documents_of(result)
    elif kind == "tool" and isinstance(result, ToolOutput):
        output, node.text = result.raw_output, _text_of_blocks(result)
        is_of_nodes = isinstance(output, list) and all(
            isinstance(element, NodeWithScore) for element in output
        )
        # an empty list may be one of rows or numbers
        if is_of_nodes and (output or _says_it_returns_nodes(instance)):
            node.documents = documents_of(output)
        node.error = "the tool failed" if result.is_error else None
    elif kind == "model":
        note_reply(node, result, instance)
    elif kind == "program":
        node.text = result.model_dump_json() if isinstance(result, BaseModel) else None
    else:
        node.text = answer_of(result)


def _says_it_returns_nodes(tool: object) -> bool:
    """Whether the function of a tool is annotated to return nodes."""
    if not isinstance(tool, FunctionTool):
        return False
    annotations = getattr(tool.real_fn, "__annotations__", {})
    return NodeWithScore.__name__ in str(annotations.get("return", ""))


def copy_outcome(run: Run, result: object, data: bool) -> None:
    """Copy the source nodes of a run's result; with ``data`` all of it."""
    run.sources = sources_of(result)
    if data:
        plain_result = plain(result_of(result))
        run.outputs = {
            **plain(fields_of(result)),
            "result": plain_result,
            **(plain_result if isinstance(plain_result, dict) else {}),
        }


def prompt_of(arguments: Mapping[str, Any]) -> tuple[Message, ...]:
    """The messages that a model was given; a prompt without roles is the user's."""
    loose = [*arguments.get("args", ()), *dict(arguments.get("kwargs", {})).values()]
    prompt = arguments.get(
        "messages", arguments.get("prompt", loose[0] if loose else None)
    )
    return (Message("user", prompt),) if isinstance(prompt, str) else _messages(prompt)


def _messages(value: object) -> tuple[Message, ...]:
    listed = value if isinstance(value, (list, tuple)) else ()
    return tuple(
        message
        for element in listed
        if isinstance(element, ChatMessage)
        for message in _shown(element)
    )


def _shown(message: ChatMessage) -> tuple[Message, ...]:
    """The messages that one message of a prompt stands for.

    What a provider found for it is shown again with it.
    """
    messages = _reasoned(message_of(message))
    found = evidence_in_reply(_data(message.additional_kwargs)).message
    return messages if found is None else (*messages, found)


def _reasoned(message: Message) -> tuple[Message, ...]:
    """The messages that one message of a memory stands for.

    A memory keeps one text of a turn of a ReAct agent. It stands for what the tools
    returned and the answer. Any other message stands for itself.
    """
    observations = re.findall(
        r"^Observation: (.*?)\nThought: ", message.text, flags=re.MULTILINE | re.DOTALL
    )
    without_observations = re.sub(
        r"^Observation: .*?\n(?=Thought: )",
        "",
        message.text,
        flags=re.MULTILINE | re.DOTALL,
    )
    answer = (
        without_observations.partition("\nAnswer: ")[2]
        if message.role == "assistant" and without_observations.startswith("Thought: ")
        else ""
    )
    return (
        (
            *(Message("tool", text) for text in observations),
            Message("assistant", answer),
        )
        if answer
        else (message,)
    )


def message_of(
    message: ChatMessage, calls: tuple[ToolCall, ...] | None = None
) -> Message:
    """Copy a message; the calls of tools, where the framework names them."""
    if calls is None:
        calls_in_blocks = [
            (block.tool_name, block.tool_kwargs, block.tool_call_id)
            for block in message.blocks
            if block.block_type == "tool_call"  # 0.14.0 has no class for it
        ]
        calls = tuple(
            ToolCall(
                name, call_arguments if isinstance(call_arguments, dict) else {}, id_
            )
            for name, call_arguments, id_ in calls_in_blocks
        )
        if message.additional_kwargs.get("tool_calls"):
            calls = calls or (ToolCall(""),)  # in the form of its provider
    role = str(message.role.value)
    return Message(_ROLES.get(role, role), _text_of_blocks(message), calls)


def _text_of_blocks(holder: ChatMessage | ToolOutput) -> str:
    """The text of a message or a result, with that of the documents in it.

    Documents that a provider may cite stand in blocks of their own.
    """
    texts = [holder.content or ""]
    for block in getattr(holder, "blocks", ()):  # older tools give no blocks
        if block.block_type == "citable":  # older releases have no class for it
            texts += [getattr(part, "text", None) or "" for part in block.content]
    return "\n".join(text for text in texts if text)


def note_reply(node: Node, response: object, llm: object = None) -> None:
    """Write into the call of a model what it said, and what its provider found."""
    node.reply = reply_of(response, llm)
    if node.reply is not None:
        add_provider_evidence(node, _provider_evidence_of(response))


def _provider_evidence_of(response: object) -> ProviderEvidence:
    """What a provider found while a model answered.

    The provider's own response tells it, else what an integration made of it.
    """
    if not isinstance(response, (ChatResponse, CompletionResponse, AgentOutput)):
        return ProviderEvidence()
    raw = _data(response.raw)
    places = [raw.get("response"), raw] if isinstance(raw, dict) else []
    text = response.text if isinstance(response, CompletionResponse) else ""
    if not isinstance(response, CompletionResponse):
        message = response.message if isinstance(response, ChatResponse) else None
        message = response.response if isinstance(response, AgentOutput) else message
        if message is not None:
            text = message.content or ""
            places += [_data(message.additional_kwargs), _citations_of(message)]
    if not isinstance(response, AgentOutput):
        places.append(_data(response.additional_kwargs))
    return evidence_in_reply({"content": text}, *places)


def _citations_of(message: ChatMessage) -> dict[str, Any]:
    """The blocks of a reply that quote a source, in the form in which providers cite."""
    citations = [
        {
            "cited_text": getattr(block.cited_content, "text", None),
            "source": block.source,
            "title": block.title,
        }
        for block in message.blocks
        if block.block_type == "citation"  # older releases have no class for it
    ]
    return {"citations": citations}


def _data(value: object, depth: int = _DEPTH) -> Any:
    """A provider's objects as plain data, as deep as evidence lies in them."""
    if isinstance(value, BaseModel):
        value = dict(value)
    if depth and isinstance(value, Mapping):
        return {str(key): _data(inner, depth - 1) for key, inner in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [_data(element, depth - 1) for element in value]
    return value if isinstance(value, (str, int, float)) else None


def reply_of(response: object, llm: object = None) -> Message | None:
    """What a model said; None while it still streams.

    The LLM itself reads calls in the form of its provider.
    """
    if isinstance(response, AgentOutput):
        return message_of(response.response, _calls(response.tool_calls))
    if not isinstance(response, ChatResponse):
        return (
            Message("assistant", response.text)
            if isinstance(response, CompletionResponse)
            else None
        )
    reply = message_of(response.message)
    if reply.calls == (ToolCall(""),) and isinstance(llm, FunctionCallingLLM):
        return replace(
            reply,
            calls=_calls(
                llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
            ),
        )
    return reply


def _calls(selections: Iterable[ToolSelection]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(selection.tool_name, selection.tool_kwargs, selection.tool_id)
        for selection in selections
    )


def document_of(scored_node: NodeWithScore) -> Document:
    """Copy a node, with the text that models see, and as another form the text alone.

    Blank if it has no text.
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
    """The one text argument of a tool, else all of them as JSON."""
    values = {
        **dict(enumerate(arguments.get("args", ()))),
        **dict(arguments.get("kwargs", {})),
    }
    values |= {
        name: value
        for name, value in arguments.items()
        if name not in ("args", "kwargs")
    }
    values = {
        name: value for name, value in values.items() if not isinstance(value, Context)
    }
    only, *more_values = values.values() or (None,)
    return (
        only
        if isinstance(only, str) and not more_values
        else json.dumps(plain(values), ensure_ascii=False)
    )


def _messages_kept_by(memory: object) -> list[ChatMessage] | None:
    """The messages of a memory that keeps them in this process.

    None for other memories: their messages are read from the prompts.
    """
    if isinstance(memory, SimpleComposableMemory):
        memory = memory.primary_memory
    if isinstance(memory, BaseChatStoreMemory) and isinstance(
        memory.chat_store, SimpleChatStore
    ):
        return memory.chat_store.get_messages(memory.chat_store_key)
    return None


def _conversation(keeper: object) -> str:
    """The name of the conversation that a memory or a chat engine keeps.

    It gets another name when it is started over.
    """
    store, key = _store(keeper)
    if not isinstance(keeper, Memory) and (
        key not in _conversations or _messages_kept_by(keeper) == []
    ):
        _renamed(store, key)
    return _conversations.get(key, key[1])


def start_over(engine: object) -> None:
    """Give the conversation of a chat engine another name.

    That is when the engine is reset or handed an empty history: what its memory keeps
    from now on is another conversation.
    """
    _renamed(*_store(vars(engine).get("_memory") or engine))


def _store(keeper: object) -> tuple[object, tuple[int, str]]:
    """The object that keeps the messages, and the key of their conversation's name."""
    if isinstance(keeper, Memory):
        return keeper.sql_store, (id(keeper.sql_store), keeper.session_id)
    store = vars(keeper).get("chat_store", keeper)
    return store, (id(store), vars(keeper).get("chat_store_key", ""))


def _renamed(store: object, key: tuple[int, str]) -> None:
    if key not in _conversations:
        weakref.finalize(store, _conversations.pop, key, None).atexit = False
    _conversations[key] = uuid4().hex


def question_of(value: object) -> str | None:
    """The text of a question: a text, a query bundle or a chat message."""
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return value if isinstance(value, str) else None


def prompted_turns(llm_arguments: Mapping[str, Any]) -> tuple[Turn, ...]:
    """The earlier turns in what a model's template was given; empty if it holds none.

    They stand in a template of messages, or as the text that the framework writes into
    a template that condenses a question.
    """
    prompt, turns_in_words = (
        llm_arguments.get("prompt"),
        llm_arguments.get("prompt_args"),
    )
    turns_in_words = (
        turns_in_words.get("chat_history") if isinstance(turns_in_words, dict) else None
    )
    if not isinstance(turns_in_words, str):
        templates = (
            prompt.message_templates if isinstance(prompt, ChatPromptTemplate) else None
        )
        return history_in(prompt_of({"messages": templates}))
    parts = re.split(
        r"^(user|assistant|system|tool): ", turns_in_words, flags=re.MULTILINE
    )[1:]
    return spoken(
        Message(role, text.strip())
        for role, text in zip(parts[::2], parts[1::2], strict=True)
    )


def fields_of(event: object) -> dict[str, Any]:
    """All fields of a workflow's event, declared or not."""
    if not isinstance(event, Event):
        return {}
    declared = {name: getattr(event, name) for name in type(event).model_fields}
    return {**dict(event.items()), **declared}


def start_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a workflow was started with.

    These are the fields of its start event; in older workflows loose keywords.
    """
    loose = arguments.get("kwargs")
    return (loose if isinstance(loose, dict) else {}) | fields_of(
        arguments.get("start_event")
    )


def result_of(result: object) -> object:
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
    """The answer's text in anything that an engine returns.

    None if there is none, or not yet.
    """
    returned = result_of(result)
    if isinstance(returned, (str, Response, AgentChatResponse)):
        return answer_text(returned if isinstance(returned, str) else returned.response)
    if isinstance(returned, PydanticResponse):
        fields = {} if returned.response is None else returned.response.model_dump()
        texts = (fields.get(name) for name in ANSWER_KEYS)
        return next(
            (text for text in texts if isinstance(text, str) and text.strip()),
            str(returned) if fields else None,
        )
    if isinstance(returned, (StreamingResponse, AsyncStreamingResponse)):
        return returned.response_txt
    if isinstance(returned, StreamingAgentChatResponse):
        return (returned.response or None) if returned.is_done else None
    if isinstance(returned, AgentOutput):
        return returned.response.content
    if isinstance(returned, Mapping):
        return next(
            (
                str(returned[name])
                for name in ANSWER_KEYS
                if returned.get(name) is not None
            ),
            None,
        )
    if isinstance(returned, BaseModel):
        texts = (vars(returned).get(name) for name in ANSWER_KEYS)
        return next(
            (text for text in texts if isinstance(text, str) and text.strip()), None
        )
    return None


def sources_of(result: object) -> tuple[Document, ...]:
    """The source nodes that a result names.

    Of an agent those that its tools returned.
    """
    returned = result_of(result)
    if isinstance(returned, _Response):
        return documents_of(returned.source_nodes)
    # results among the calls
    calls: Iterable[object] = (
        returned.tool_calls if isinstance(returned, AgentOutput) else ()
    )
    outputs = [
        call.tool_output.raw_output
        for call in calls
        if isinstance(call, ToolCallResult)
    ]
    return tuple(
        document
        for output in outputs
        for document in documents_of(output) or sources_of(output)
    )


def plain(value: object, depth: int = 6) -> Any:
    """Plain data of a value, for keys and paths that the user names.

    What is no data becomes None.
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
        fields = {
            name: getattr(value, name, None) for name in ("source_nodes", "metadata")
        }
        return {
            "response": answer_of(value),
            **{
                name: plain(field_value, depth - 1)
                for name, field_value in fields.items()
            },
        }
    if isinstance(value, Event):
        value = fields_of(value)
    if depth and isinstance(value, Mapping):
        return {str(key): plain(element, depth - 1) for key, element in value.items()}
    return (
        [plain(element, depth - 1) for element in value]
        if depth and isinstance(value, (list, tuple))
        else None
    )
