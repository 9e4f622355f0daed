"""Which method of LlamaIndex a span stands for, and what a call of it does. Pure."""

from typing import Any

from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import mapping

# What a call of each method does. An awaited method has its name without the "a":
# "aquery" counts as "query". Calls of other methods are looked through.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("query", "chat", "stream_chat", "run", "predict_and_call"), "agent"
    ),
    **dict.fromkeys(("synthesize", "get_response"), "step"),
    **dict.fromkeys(("complete", "stream_complete"), "model"),
    **dict.fromkeys(
        ("postprocess_nodes", "_postprocess_nodes", "_apostprocess_nodes"), "reranker"
    ),
    **dict.fromkeys(("select", "_select"), "ignored"),
    **dict.fromkeys(("call", "__call__"), "tool"),
    "retrieve": "retriever",
}
# If a span names no method, the keys of its input tell the method, and with ">" the
# keys of its output. The first row counts whose keys are all there.
_METHODS_BY_KEYS = {
    ">tool_name >raw_output": "call",
    ">response >tool_calls": "run_agent_step",
    ">selections": "select",
    "query_bundle nodes": "postprocess_nodes",
    "query nodes": "synthesize",
    "text_chunks": "get_response",
    "str_or_query_bundle": "query",
    "message": "chat",
    "prompt_args": "predict",
    **dict.fromkeys(("messages", "prompt", "args"), "complete"),
    ">messages": "_prepare_chat_with_tools",
}


def method_of(call: Call, inputs: Any, output: Any) -> str:
    """Tell which method of LlamaIndex a call is; "" if nothing tells it.

    Most spans are named OWNER.METHOD. ``aquery`` and the like count as ``query``.
    """
    owner, _, name = call.span.name.rpartition(".")
    if name in ("task", "workflow"):
        return _method_by_values(owner, name, inputs, output)
    is_awaited = name.startswith("a") and name[1:] in KINDS
    return name[1:] if is_awaited else name


def _method_by_values(owner: str, name: str, inputs: Any, output: Any) -> str:
    """Tell the method of a span that Traceloop named OWNER.task or OWNER.workflow.

    Traceloop calls any outermost call a "workflow", also an engine or a retriever.

    Returns:
        The method; "" if nothing tells it.
    """
    method = _method_by_keys(inputs, output)
    returns_nodes = isinstance(output, tuple)
    returns_answer = isinstance(output, str)
    if name == "workflow" and not (method or returns_nodes or returns_answer):
        return "run"
    # a retriever has the same input keys as a query engine
    is_retriever = returns_nodes or owner.endswith("Retriever")
    return "retrieve" if method == "query" and is_retriever else method


def _method_by_keys(inputs: Any, output: Any) -> str:
    """The method of a call whose name tells none, as Traceloop writes it.

    It is "" if the keys do not tell it.
    """
    keys = {*mapping(inputs), *(f">{key}" for key in mapping(output))}
    for needed_keys, method in _METHODS_BY_KEYS.items():
        if keys.issuperset(needed_keys.split()):
            return method
    return ""
