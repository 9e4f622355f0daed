"""Contexts that the user names: what the run returned goes first, what has no text is refused, none is not exact."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
ANSWER = "It was opened in 1874."


@component
class Searching:
    """Fills in the list that it is given, from a service that knows no documents."""

    def __init__(self, found: list[Any]) -> None:
        self.found = found

    @component.output_types(chunks=list[Any])
    def run(self, query: str, chunks: list[Any]) -> dict[str, Any]:
        return {"chunks": self.found}


def run(found: list[Any], begins_with: list[Any] | None = None) -> None:
    made = connected(
        ("search.chunks", "prompt.chunks"),
        ("prompt.prompt", "llm.messages"),
        search=Searching(found),
        prompt=ChatPromptBuilder(
            [
                ChatMessage.from_user(
                    "Use only this: {{ chunks }}\nQuestion: {{ query }}"
                )
            ],
            required_variables="*",
        ),
        llm=MockChatGenerator(response_fn=lambda messages: ANSWER),
    )
    given = {
        "search": {"query": QUESTION, "chunks": begins_with or []},
        "prompt": {"query": QUESTION},
    }
    made.run(given, include_outputs_from={"search"})


def test_what_the_run_returned_goes_before_what_it_was_given() -> None:
    with capture(contexts_from="search.chunks") as captured:
        run([{"text": BRIDGE, "source": "a.md"}])
        run([BRIDGE], begins_with=["an old list"])
    for sample in captured.samples:
        assert [context.text for context in sample.known_contexts] == [BRIDGE]
        assert sample.answer == ANSWER
    assert len(captured.samples) == 2


def test_dictionaries_without_a_text_are_refused() -> None:
    with capture(contexts_from="search.chunks") as captured:
        run([{"body_html": BRIDGE, "source": "a.md"}])
    assert not captured.samples
    (problem,) = captured.problems.counts
    assert "body_html, source" in problem
    assert BRIDGE not in problem


def test_where_no_context_is_named_nothing_is_exact() -> None:
    with capture(contexts_from="search.chunks") as captured:
        run([])
    (sample,) = captured.samples
    assert sample.contexts == ()
    assert sample.capture is not None
    assert sample.capture.grade != "exact"
    assert any("contexts_from" in warning for warning in sample.capture.warnings)


def test_a_run_that_is_refused_takes_no_other_with_it() -> None:
    with capture(contexts_from="search.chunks") as captured:
        for found in ([BRIDGE], [{"body_html": BRIDGE}], [{"text": BRIDGE}]):
            run(found)
    assert [
        [context.text for context in sample.known_contexts]
        for sample in captured.samples
    ] == [[BRIDGE], [BRIDGE]]
