"""Records what other agent frameworks write into their spans, driven by a scripted model.

Usage: python benchmarks/record_agents.py FRAMEWORK FOLDER

It runs where the framework is installed, in an environment of its own, as in:

    uv run --no-project --with pydantic-ai-slim --with opentelemetry-sdk \
        benchmarks/record_agents.py pydantic_ai tests/traces/golden/agents

An agent is asked two questions in one conversation. For each it calls a tool that
returns text, and answers. Nothing leaves this machine. Attributes of more than 1,500
characters, which are descriptions of tools and prompts of the framework, are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOUND = "The gate was built in 1632.\n\nThe mill lies by the river Lahn."
INSTRUCTIONS = "Answer from what you find."
QUESTIONS = ("When was the gate built?", "Where is the mill?")
ANSWERS = ("It was built in 1632.", "It lies by the river Lahn.")
ARGUMENTS = {"query": "gate and mill"}
_LONGEST = 1500


def search_knowledge(query: str) -> str:
    """Search the knowledge.

    Args:
        query: What to search for.
    """
    assert query
    return FOUND


def answer_to(text: str) -> str:
    """The answer to the question that stands last in a text."""
    places = [text.rfind(question) for question in QUESTIONS]
    return ANSWERS[places.index(max(places))]


# The frameworks


def pydantic_ai(provider: Any) -> None:
    """Pydantic AI, by its own instrumentation."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    def reply(messages: Any, _: Any) -> Any:
        if messages[-1].parts[-1].part_kind == "tool-return":
            return ModelResponse(parts=[TextPart(answer_to(str(messages)))])
        call = ToolCallPart("search_knowledge", ARGUMENTS, tool_call_id="c1")
        return ModelResponse(parts=[call])

    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    agent = Agent(FunctionModel(reply), instructions=INSTRUCTIONS, name="guide")
    agent.tool_plain(search_knowledge)
    earlier: list[Any] = []
    for question in QUESTIONS:
        run = agent.run_sync(
            question, message_history=earlier, conversation_id="thread-1"
        )
        earlier = run.all_messages()


def openai_agents(provider: Any) -> None:
    """The OpenAI Agents SDK, by OpenInference."""
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    with_model = AsyncOpenAI(api_key="none", base_url=_model_server())
    agent = Agent(
        name="guide",
        instructions=INSTRUCTIONS,
        model=OpenAIResponsesModel("scripted", with_model),
        tools=[function_tool(search_knowledge)],
    )
    earlier: list[Any] = []
    for question in QUESTIONS:
        asked = [*earlier, {"role": "user", "content": question}]
        earlier = Runner.run_sync(agent, asked).to_input_list()


def agent_framework(_: Any) -> None:
    """Microsoft's Agent Framework, by its own instrumentation."""
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatResponse,
        Content,
        FunctionInvocationLayer,
        Message,
        tool,
    )
    from agent_framework.observability import (
        ChatTelemetryLayer,
        enable_instrumentation,
    )

    enable_instrumentation(enable_sensitive_data=True)

    class Scripted(FunctionInvocationLayer, ChatTelemetryLayer, BaseChatClient):
        def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
            async def reply() -> Any:
                kinds = [content.type for content in messages[-1].contents]
                if "function_result" in kinds:
                    asked = " ".join(message.text for message in messages)
                    said = [Content.from_text(answer_to(asked))]
                else:
                    said = [
                        Content.from_function_call(
                            call_id="c1",
                            name="search_knowledge",
                            arguments=json.dumps(ARGUMENTS),
                        )
                    ]
                return ChatResponse(messages=[Message("assistant", said)])

            return reply()

    search = tool(approval_mode="never_require")(search_knowledge)
    agent = Agent(
        client=Scripted(), instructions=INSTRUCTIONS, name="guide", tools=[search]
    )

    async def ask() -> None:
        session = agent.create_session(session_id="thread-1")
        for question in QUESTIONS:
            await agent.run(question, session=session)

    asyncio.run(ask())


def google_adk(provider: Any) -> None:
    """Google's Agent Development Kit, by OpenInference."""
    from openinference.instrumentation.google_adk import GoogleADKInstrumentor

    GoogleADKInstrumentor().instrument(tracer_provider=provider)
    _ask_google_adk()


def google_adk_itself(_: Any) -> None:
    """Google's Agent Development Kit, by its own instrumentation."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    _ask_google_adk()


def _ask_google_adk() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> Any:
            assert not stream
            if llm_request.contents[-1].parts[-1].function_response:
                part = types.Part(text=answer_to(str(llm_request.contents)))
            else:
                call = types.FunctionCall(
                    id="c1", name="search_knowledge", args=ARGUMENTS
                )
                part = types.Part(function_call=call)
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    agent = LlmAgent(
        name="guide",
        model=Scripted(model="scripted"),
        instruction=INSTRUCTIONS,
        tools=[search_knowledge],
    )

    async def ask() -> None:
        runner = InMemoryRunner(agent, app_name="app")
        named = {"user_id": "user", "session_id": "thread-1"}
        await runner.session_service.create_session(app_name="app", **named)
        for question in QUESTIONS:
            asked = types.Content(role="user", parts=[types.Part(text=question)])
            async for _ in runner.run_async(new_message=asked, **named):
                pass

    asyncio.run(ask())


def strands(_: Any) -> None:
    """Strands Agents, by its own instrumentation."""
    from strands import Agent, tool
    from strands.models import Model

    class Scripted(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {"model_id": "scripted"}

        def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
            is_answer = "toolResult" in messages[-1]["content"][-1]
            start: dict[str, Any] = {}
            delta: dict[str, Any] = {"text": answer_to(str(messages))}
            if not is_answer:
                start = {"toolUse": {"name": "search_knowledge", "toolUseId": "c1"}}
                delta = {"toolUse": {"input": json.dumps(ARGUMENTS)}}
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
            reason = "end_turn" if is_answer else "tool_use"
            yield {"messageStop": {"stopReason": reason}}

    agent = Agent(
        model=Scripted(),
        tools=[tool(search_knowledge)],
        system_prompt=INSTRUCTIONS,
        callback_handler=None,
        trace_attributes={"session.id": "thread-1"},
    )
    for question in QUESTIONS:
        agent(question)


def strands_latest(provider: Any) -> None:
    """Strands Agents, by the latest conventions of OpenTelemetry."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    strands(provider)


def crewai(provider: Any) -> None:
    """CrewAI, by OpenInference. A crew keeps no conversation."""
    os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
    os.environ["CREWAI_TRACING_ENABLED"] = "false"
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool
    from openinference.instrumentation.crewai import CrewAIInstrumentor

    CrewAIInstrumentor().instrument(tracer_provider=provider)
    llm = LLM(model="openai/gpt-4o-mini", base_url=_model_server(), api_key="none")
    agent = Agent(
        role="guide",
        goal=INSTRUCTIONS,
        backstory="",
        llm=llm,
        tools=[tool("search_knowledge")(search_knowledge)],
    )
    task = Task(description="{question}", expected_output="A sentence.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    for question in QUESTIONS:
        crew.kickoff(inputs={"question": question})


def smolagents(provider: Any) -> None:
    """Hugging Face's smolagents, by OpenInference."""
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor
    from smolagents import OpenAIModel, ToolCallingAgent, tool

    SmolagentsInstrumentor().instrument(tracer_provider=provider)
    model = OpenAIModel(
        "scripted", api_base=_model_server(answers_by="final_answer"), api_key="none"
    )
    agent = ToolCallingAgent(
        model=model, tools=[tool(search_knowledge)], verbosity_level=0
    )
    for number, question in enumerate(QUESTIONS):
        agent.run(question, reset=number == 0)


FRAMEWORKS: dict[str, Callable[[Any], None]] = {
    function.__name__: function
    for function in (
        pydantic_ai,
        openai_agents,
        agent_framework,
        google_adk,
        google_adk_itself,
        strands,
        strands_latest,
        crewai,
        smolagents,
    )
}


# A model's server on this machine


def _model_server(answers_by: str = "") -> str:
    """Start a server that replies as OpenAI's does, and return its address.

    Args:
        answers_by: The tool that the model calls with its answer; "" for none.
    """

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            request = json.loads(self.rfile.read(length))
            if "input" in request:
                reply = _response(request)
            else:
                reply = _completion(request, answers_by)
            text = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def _completion(request: dict[str, Any], answers_by: str) -> dict[str, Any]:
    """A reply of the API of chat completions."""
    text = str(request["messages"])
    answer = answer_to(text)
    last_question = max(text.rfind(question) for question in QUESTIONS)
    has_searched = text.rfind("1632") > last_question
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if not has_searched:
        message = _calling("search_knowledge", ARGUMENTS)
    elif answers_by:
        message = _calling(answers_by, {"answer": answer})
    return {
        "id": "reply",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _calling(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    """A message of a model that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call of {name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _response(request: dict[str, Any]) -> dict[str, Any]:
    """A reply of the API of responses."""
    last = request["input"][-1]
    if last.get("type") == "function_call_output":
        text = answer_to(str(request["input"]))
        output = {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
    else:
        output = {
            "id": "f1",
            "type": "function_call",
            "call_id": "c1",
            "name": "search_knowledge",
            "arguments": json.dumps(ARGUMENTS),
            "status": "completed",
        }
    details = {"cached_tokens": 0, "reasoning_tokens": 0}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": details, "output_tokens_details": details}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "scripted",
        "output": [output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


# Spans into a file


def main() -> None:
    """Record one framework."""
    framework, folder = sys.argv[1:]
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    FRAMEWORKS[framework](provider)
    spans = [json.loads(span.to_json()) for span in exporter.get_finished_spans()]
    lines = [json.dumps(_scrubbed(span), ensure_ascii=False) for span in spans]
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    (into / f"{framework}.jsonl").write_text(text, encoding="utf-8")


def _scrubbed(span: dict[str, Any]) -> dict[str, Any]:
    """A span as the console exporter writes it, without its resource and long texts."""
    attributes = {}
    for name, value in span["attributes"].items():
        if len(str(value)) <= _LONGEST:
            attributes[name] = value
    return {**span, "attributes": attributes, "resource": {}}


if __name__ == "__main__":
    main()
