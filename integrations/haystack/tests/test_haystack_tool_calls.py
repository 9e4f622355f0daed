"""Which tool call of a Haystack agent's model each tool ran for, where one reply calls several."""

from __future__ import annotations

from collections.abc import Callable

from haystack.components.agents import Agent, State
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool
from haystack_integrations.components.evaluators.ragmetrics import capture

ANSWER = "The ferry goes every hour."


def tool(name: str, function: Callable[..., str], **settings: object) -> Tool:
    properties = {"topic": {"type": "string"}, "page": {"type": "string"}}
    parameters = {"type": "object", "properties": properties}
    return Tool(name, "Returns a text.", parameters, function, **settings)  # type: ignore[arg-type]


def calls_of(tools: list[Tool], *tool_calls: ToolCall) -> list[tuple[object, ...]]:
    """The name, the query and the text of each call of the ledger, in its order."""
    says = [ChatMessage.from_assistant(tool_calls=list(tool_calls)), ANSWER]
    agent = Agent(
        chat_generator=MockChatGenerator(says),
        tools=tools,
        state_schema={"page": {"type": str}},
    )
    with capture() as captured:
        agent.run(messages=[ChatMessage.from_user("When does the ferry go?")])
    (sample,) = captured.samples
    assert sample.answer == ANSWER
    assert sample.ledger is not None
    return [(call.name, call.query, call.items[0].text) for call in sample.ledger.calls]


def test_equal_tool_calls_of_one_reply_have_their_own_results() -> None:
    # by topic, since Haystack runs the tools of one reply beside each other
    texts = {
        "times": iter(["It goes hourly.", "It went hourly."]),
        "kind": iter(["It is a ferry."]),
    }
    search = tool("search", lambda topic: next(texts[topic]))
    topics = ("times", "kind", "times")
    requests = [ToolCall("search", {"topic": topic}) for topic in topics]
    agent_calls = calls_of([search], *requests)
    assert agent_calls == [
        ("search", "times", "It goes hourly."),
        ("search", "kind", "It is a ferry."),
        ("search", "times", "It went hourly."),
    ]


def test_tool_calls_stand_in_the_order_of_the_reply_whichever_ran_first() -> None:
    """The first call reads what another call writes: Haystack runs it last."""

    def read(page: str) -> str:
        return f"What stands on page {page}."

    def turn_page(state: State) -> str:
        state.set("page", "2")
        return "Turned."

    agent_calls = calls_of(
        [
            tool("read", read, inputs_from_state={"page": "page"}),
            tool("turn_page", turn_page, outputs_to_state={"page": {"source": "page"}}),
        ],
        ToolCall("read", {}),
        ToolCall("read", {"page": "7"}),
        ToolCall("turn_page", {}),
    )
    assert agent_calls == [
        ("read", "{}", "What stands on page 2."),
        ("read", "7", "What stands on page 7."),
        ("turn_page", "{}", "Turned."),
    ]
