"""Shapes of Haystack applications: queries that are not the question."""

from __future__ import annotations

from haystack.components.builders import PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_rows import (
    QUESTION,
    TEMPLATE,
    Build,
    Expected,
    Row,
    adding_to,
    asked,
    bm25,
    connected,
    first_sentence,
    llm,
    retriever,
)

ROWS: dict[str, Build] = {}
row = adding_to(ROWS)


def searched(messages: list[ChatMessage]) -> str:
    return "old lighthouse Weser Island built year"


@row
def rewritten_query() -> Row:
    app = connected(
        ("rewrite_prompt", "rewriter"),
        ("rewriter.replies", "adapter.replies"),
        ("adapter.output", "retriever.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        rewrite_prompt=PromptBuilder("Write a search query for: {{ query }}"),
        rewriter=MockChatGenerator(response_fn=searched),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = bm25(searched([]))
    return Row(
        app,
        asked("rewrite_prompt", "prompt"),
        [
            Expected(
                found, first_sentence(found), retrieved=found, standalone=searched([])
            )
        ],
    )


@row
def multi_query() -> Row:
    from haystack.components.query import QueryExpander
    from haystack.components.retrievers import MultiQueryTextRetriever

    def expanded(messages: list[ChatMessage]) -> str:
        return '{"queries": ["lighthouse lamp", "harbour crane"]}'

    settings = {"retriever": retriever(1)}
    app = connected(
        ("expander.queries", "multi.queries"),
        ("multi.documents", "prompt.documents"),
        ("prompt", "llm"),
        expander=QueryExpander(
            chat_generator=MockChatGenerator(response_fn=expanded), n_expansions=2
        ),
        multi=MultiQueryTextRetriever(**settings),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = MultiQueryTextRetriever(**settings).run(
        queries=["lighthouse lamp", "harbour crane", QUESTION]
    )["documents"]
    return Row(
        app,
        asked("expander", "prompt"),
        [Expected(found, first_sentence(found), retrieved=found)],
    )
