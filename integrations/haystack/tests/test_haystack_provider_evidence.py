"""What a model's provider searched while Haystack's generator replied: expectations first, in real messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from haystack import Document
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import capture
from lighthouse_texts import ANSWER, FACT, QUESTION, ROOMS
from provider_finds import (
    ASKS_THE_WEB,
    OWN,
    WEB_CITED,
    WEB_RESULT,
    check,
    file_search,
    response,
    tool_result,
)

from ragmetrics_core.data import Sample


@dataclass(frozen=True)
class Shape:
    """The metadata of an agent's last message, and what its sample must say.

    Attributes:
        meta: The metadata.
        contexts: The texts of the contexts, the agent's own noise first.
        grade: The grade of the sample.
        warned: Words of its warnings.
        calls: Kind and name of each call of the ledger.
    """

    meta: dict[str, Any]
    contexts: Sequence[str]
    grade: str
    warned: str = ""
    calls: Sequence[tuple[str, str]] = ()


def anthropic(*blocks: dict[str, Any], cited: Sequence[Any] = ()) -> dict[str, Any]:
    """The metadata that Haystack's generator for Anthropic writes."""
    text = {"type": "text", "text": ANSWER, "citations": list(cited) or None}
    meta: dict[str, Any] = {"raw_content_for_server_tools": [*blocks, text]}
    if cited:
        meta["citations"] = list(cited)
    return meta


SHAPES: dict[str, Shape] = {
    "Anthropic: the web, with cited words": Shape(
        anthropic(ASKS_THE_WEB, tool_result([WEB_RESULT]), cited=[WEB_CITED]),
        [ROOMS],
        "incomplete",
        "encrypted",
        [OWN],
    ),
    "Anthropic: the web, nothing cited": Shape(
        anthropic(ASKS_THE_WEB, tool_result([WEB_RESULT])),
        [ROOMS],
        "incomplete",
        "encrypted",
        [OWN],
    ),
    "OpenAI: its response, of which Haystack drops the output": Shape(
        {
            "object": "response",
            "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}],
        },
        [ROOMS],
        "incomplete",
        "file_search",
        [OWN],
    ),
    "no search": Shape(
        {"model": "m", "usage": {"total_tokens": 3}}, [ROOMS], "exact", calls=[OWN]
    ),
}


def look_up(query: Annotated[str, "what to look for"]) -> dict[str, list[Document]]:
    """Looks something up; here it brings noise."""
    del query
    return {"documents": [Document(content=ROOMS)]}


def sample_of(
    meta: dict[str, Any], first_meta: dict[str, Any] | None = None
) -> tuple[Sample, Any]:
    """The sample of an agent that calls its tool and then answers, and what it returned."""

    def reply(messages: list[ChatMessage]) -> ChatMessage:
        if any(message.tool_call_results for message in messages):
            return ChatMessage.from_assistant(ANSWER, meta=meta)
        wish = ToolCall("look_up", {"query": "lamp"})
        return ChatMessage.from_assistant(tool_calls=[wish], meta=first_meta)

    agent = Agent(
        chat_generator=MockChatGenerator(response_fn=reply),
        tools=[create_tool_from_function(look_up)],
    )
    with capture() as captured:
        result = agent.run(messages=[ChatMessage.from_user(QUESTION)])
    assert not captured.problems
    (sample,) = captured.samples
    return sample, result


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_provider_found_is_evidence(name: str) -> None:
    shape = SHAPES[name]
    sample, _ = sample_of(shape.meta)
    check(
        sample,
        contexts=shape.contexts,
        grade=shape.grade,
        warned=shape.warned,
        calls=shape.calls,
    )


def test_the_generator_of_openai_itself() -> None:
    generators = pytest.importorskip("haystack.components.generators.chat")
    httpx = pytest.importorskip("httpx")
    if not hasattr(generators, "OpenAIResponsesChatGenerator"):
        pytest.skip("this Haystack has no such generator")
    generator = generators.OpenAIResponsesChatGenerator(
        api_key=Secret.from_token("none"),
        model="gpt-test",
        http_client_kwargs={
            "transport": httpx.MockTransport(
                lambda request: httpx.Response(200, json=response(file_search(FACT)))
            )
        },
    )
    agent = Agent(chat_generator=generator, tools=[create_tool_from_function(look_up)])
    with capture() as captured:
        agent.run(messages=[ChatMessage.from_user(QUESTION)])
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.answer == ANSWER
    assert sample.capture.grade in ("inferred", "incomplete")
    assert "file_search" in " ".join(sample.capture.warnings)


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ({"type": "web_search"}, "web_search"),
        ({"type": "web_search_preview_2025_03_11"}, "web_search_preview_2025_03_11"),
        ({"type": "mcp", "server_label": "docs"}, "mcp"),
        (
            {"type": "code_interpreter", "container": {"type": "auto"}},
            "code_interpreter",
        ),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "shell"),
        ({"type": "a_tool_of_tomorrow"}, "a_tool_of_tomorrow"),
        ({"type": "function", "name": "look_up"}, None),
        ({"type": "custom", "name": "look_up"}, None),
        ({"type": "local_shell"}, "local_shell"),
    ],
)
def test_a_tool_of_the_provider_whose_result_was_dropped_is_a_doubt(
    tool: dict[str, Any], told: str | None
) -> None:
    """OpenAIResponsesChatGenerator drops the output, and with it what a tool returned.

    Only functions of the application leave no doubt.
    """
    function = {"type": "function", "name": "of_the_application"}
    sample, _ = sample_of({"object": "response", "tools": [function, tool, tool]})
    assert sample.capture is not None
    said = [text for text in sample.capture.warnings if "the provider's" in text]
    if told is None:
        assert (sample.capture.grade, said) == ("exact", [])
    else:
        assert sample.capture.grade == "incomplete"
        assert [f"the provider's {told} found" in text for text in said] == [True]


# Law: whatever stands in these places, the run is recorded as without it or hedged
