"""Questions that no run of the framework holds together stay as many as were asked.

None goes without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import create_retriever_tool, tool
from langchain_fakes import Shelf, Speaker, calls, document, joined, rag
from langchain_ragmetrics import capture

from ragmetrics_core.data.sample import Sample

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
FIRST, SECOND = "When was the bridge opened?", "How often does the ferry go?"
IN_1874 = "It was opened in 1874, by the mayor of the town himself."
HOURLY = "It goes every hour, but only in the summer months."


async def in_its_own_task(call: Coroutine[Any, Any, Any]) -> Any:
    """As ``asyncio.wait_for`` runs a call on Python 3.11; since 3.12 it runs it in the caller's task."""
    return await asyncio.create_task(call)


async def ask(
    question: str,
    answer: str,
    *found: list[Document],
    before: str = "",
    limited: bool = True,
) -> None:
    """Searches at once, each in its own task, then a model, perhaps in another: no run is around them."""
    searches = [
        in_its_own_task(Shelf(books=books).ainvoke(question)) for books in found
    ]
    documents = [one for some in await asyncio.gather(*searches) for one in some]
    prompt = f"{before}Use only this:\n{joined(documents)}\n\nQuestion: {question}"
    call = Speaker(lines=answer).ainvoke(prompt)
    await (in_its_own_task(call) if limited else call)


def triples(samples: list[Sample]) -> list[tuple[Any, ...]]:
    return [
        (one.question, [context.text for context in one.contexts], one.answer)
        for one in samples
    ]


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(("page", "name"), [(FERRY, "f"), (BRIDGE, "b")])
def test_a_question_that_shows_the_earlier_one_as_text_is_a_question_of_its_own(
    page: str, name: str, limited: bool
) -> None:
    """A chat that keeps its history as text, and searches in tasks of their own: new pages, or the same."""

    async def chat() -> None:
        await ask(FIRST, IN_1874, [document(BRIDGE, "b")], [], limited=limited)
        before = f"So far:\nUser: {FIRST}\nAssistant: {IN_1874}\n\n"
        await ask(
            SECOND, HOURLY, [document(page, name)], [], before=before, limited=limited
        )

    with capture() as captured:
        asyncio.run(chat())
    assert triples(list(captured.samples)) == [
        (FIRST, [BRIDGE], IN_1874),
        (SECOND, [page], HOURLY),
    ]


TALKS = {
    "user and assistant": f"User: {FIRST}\nAssistant: {IN_1874}\nUser: {SECOND}",
    "human and AI": f"Human: {FIRST}\nAI: {IN_1874}\n\nHuman: {SECOND}\nAI:",
    "letters": f"Q: {FIRST}\nA: {IN_1874}\nQ: {SECOND}\nA:",
    "headings": f"### User\n{FIRST}\n\n### Assistant\n{IN_1874}\n\n### User\n{SECOND}",
    "bold": f"**User:** {FIRST}\n**Bot:** {IN_1874}\n\nNow answer: {SECOND}",
    "messages": (
        f"[HumanMessage(content='{FIRST}'), AIMessage(content='{IN_1874}')]\n"
        f"Question: {SECOND}"
    ),
    "pairs": f"[('human', '{FIRST}'), ('ai', '{IN_1874}')]\n{SECOND}",
    "dictionaries": (
        f"[{{'role': 'user', 'content': '{FIRST}'}},"
        f" {{'role': 'assistant', 'content': '{IN_1874}'}}]\n{SECOND}"
    ),
    "JSON": (
        f'[{{"role": "user", "content": "{FIRST}"}},'
        f' {{"role": "assistant", "content": "{IN_1874}"}}]\n{SECOND}'
    ),
    "names of another language": (
        f"Frage: {FIRST}\nAntwort: {IN_1874}\nFrage: {SECOND}\nAntwort:"
    ),
    "ChatML": (
        f"<|im_start|>user\n{FIRST}<|im_end|>\n<|im_start|>assistant\n"
        f"{IN_1874}<|im_end|>\n<|im_start|>user\n{SECOND}<|im_end|>"
    ),
}


@pytest.mark.parametrize("found", [[document(BRIDGE, "b")], []])
@pytest.mark.parametrize("talk", TALKS)
def test_a_turn_of_a_talk_in_text_that_searches_nothing_is_no_answer_to_the_turn_before(
    talk: str, found: list[Document]
) -> None:
    with capture() as captured:
        asyncio.run(ask(FIRST, IN_1874, found, limited=False))
        Speaker(lines=HOURLY).invoke(f"Be polite.\n\n{TALKS[talk]}")
    (sample,) = captured.samples
    assert triples([sample]) == [(FIRST, [one.page_content for one in found], IN_1874)]
    assert sample.capture is not None
    assert sample.capture.grade == ("inferred" if talk == "bold" else "exact")


@pytest.mark.parametrize(
    "prompt",
    [
        f"Question: {FIRST}\nDraft: {IN_1874}\nMake it shorter.",
        f"{FIRST}\n{IN_1874}\n{SECOND}",
        f"They asked {FIRST!r}, we said {IN_1874!r}. {SECOND}",
    ],
)
def test_whether_an_answer_is_revised_or_the_talk_goes_on_is_in_doubt_where_no_name_says_it(
    prompt: str,
) -> None:
    with capture() as captured:
        asyncio.run(ask(FIRST, IN_1874, [document(BRIDGE, "b")], limited=False))
        Speaker(lines=HOURLY).invoke(prompt)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert any("turn of its own" in words for words in sample.capture.warnings)


@pytest.mark.parametrize("other", [FIRST, SECOND])
def test_a_draft_that_is_revised_belongs_to_the_question_that_it_answers(
    other: str,
) -> None:
    """Somebody else's question between the draft and its revision, be it the same, takes it from nobody."""
    draft = "The mayor of the town opened the bridge in the year 1874."

    async def revise() -> None:
        await ask(FIRST, draft, [document(BRIDGE, "b")], limited=False)
        await in_its_own_task(ask(other, HOURLY, [document(BRIDGE, "b")]))
        await Speaker(lines=IN_1874).ainvoke(
            f"Shorten the answer to {FIRST}\n{draft}\nfrom {BRIDGE}"
        )

    with capture() as captured:
        asyncio.run(revise())
    assert triples(list(captured.samples)) == [
        (FIRST, [BRIDGE], IN_1874),
        (other, [BRIDGE], HOURLY),
    ]


@pytest.mark.parametrize("shows_the_page", [False, True])
def test_a_draft_is_revised_though_the_same_was_asked_again_since(
    shows_the_page: bool,
) -> None:
    """All in one task: the prompt holds the draft, and no word of the later answer."""
    draft = "The mayor of the town opened the bridge in the year 1874."

    async def revise() -> None:
        await ask(FIRST, draft, [document(BRIDGE, "b")], limited=False)
        await ask(FIRST, HOURLY, [document(BRIDGE, "b")], limited=False)
        page = f"from {BRIDGE}" if shows_the_page else ""
        await Speaker(lines=IN_1874).ainvoke(
            f"Shorten the answer to {FIRST}\n{draft}\n{page}"
        )

    with capture() as captured:
        asyncio.run(revise())
    assert triples(list(captured.samples)) == [
        (FIRST, [BRIDGE], IN_1874),
        (FIRST, [BRIDGE], HOURLY),
    ]


@pytest.mark.parametrize("limited", [False, True])
def test_one_question_asked_again_is_asked_again(limited: bool) -> None:
    async def load() -> None:
        for number in range(3):
            answer = f"Answer {number}, which nobody else gave."
            await ask(
                FIRST,
                answer,
                [document(BRIDGE, "b")],
                [document(MILL)],
                limited=limited,
            )

    with capture() as captured:
        asyncio.run(load())
    expected = [
        (FIRST, [BRIDGE, MILL], f"Answer {number}, which nobody else gave.")
        for number in range(3)
    ]
    assert triples(list(captured.samples)) == expected


@pytest.mark.parametrize("limited", [False, True])
def test_questions_that_find_nothing_stay_apart(limited: bool) -> None:
    async def load() -> None:
        for number in range(3):
            await ask(
                FIRST,
                f"I do not know it, at attempt {number}.",
                [],
                [],
                limited=limited,
            )

    with capture() as captured:
        asyncio.run(load())
    expected = [
        (FIRST, [], f"I do not know it, at attempt {number}.") for number in range(3)
    ]
    assert triples(list(captured.samples)) == expected


def test_questions_that_find_pages_with_the_same_sentences_stay_apart() -> None:
    """A later page holds an earlier one: a new edition."""

    async def chat() -> None:
        await ask(
            "Which mill and bridge are old?",
            IN_1874,
            [document(BRIDGE, "b"), document(MILL, "m")],
        )
        await ask(
            "Which mill?",
            "The mill on the Tarn.",
            [document(f"{MILL} It was rebuilt in 1925.", "m2")],
        )

    with capture() as captured:
        asyncio.run(chat())
    assert triples(list(captured.samples)) == [
        ("Which mill and bridge are old?", [BRIDGE, MILL], IN_1874),
        ("Which mill?", [f"{MILL} It was rebuilt in 1925."], "The mill on the Tarn."),
    ]


@pytest.mark.parametrize("together", [False, True])
def test_questions_one_after_another_or_at_once_are_as_many_as_were_asked(
    together: bool,
) -> None:
    words = ("bridge", "ferry", "mill", "market")
    books = {"bridge": BRIDGE, "ferry": FERRY, "mill": MILL, "market": BRIDGE}

    async def work() -> None:
        asked = [
            ask(
                f"What of the {word}?",
                f"This is all on the {word}.",
                [document(books[word])],
            )
            for word in words
        ]
        if together:
            await asyncio.gather(*map(in_its_own_task, asked))
            return
        for one in asked:
            await one

    with capture() as captured:
        asyncio.run(work())
    expected = [
        (f"What of the {word}?", [books[word]], f"This is all on the {word}.")
        for word in words
    ]
    assert sorted(triples(list(captured.samples))) == sorted(expected)


def test_a_chain_that_rewrote_the_question_is_no_question_without_a_sample() -> None:
    rewritten = "opening year of the bridge of Velm"
    rewrite = (
        ChatPromptTemplate.from_template("Rewrite: {question}")
        | Speaker(lines=rewritten)
        | StrOutputParser()
    )
    with capture() as captured:
        found = Shelf(books=[document(BRIDGE, "b")]).invoke(
            rewrite.invoke({"question": FIRST})
        )
        Speaker(lines=IN_1874).invoke(f"{joined(found)}\n\nQuestion: {FIRST}")
    assert triples(list(captured.samples)) == [(FIRST, [BRIDGE], IN_1874)]
    assert not captured.problems


def test_every_question_that_only_read_the_text_of_a_tool_is_counted() -> None:
    """One of twenty questions retrieved: of the other nineteen it is said which tool to name."""

    @tool
    def look_up(query: str) -> str:
        """Looks up."""
        return BRIDGE

    retriever = create_retriever_tool(
        Shelf(books=[document(BRIDGE, "b")]), "search", "Searches."
    )
    with capture() as captured:
        for number in range(20):
            name, tools = (
                ("search", [retriever]) if number == 7 else ("look_up", [look_up])
            )
            agent = create_agent(
                Speaker(lines=[calls(name, query="bridge"), IN_1874]), tools
            )
            agent.invoke({"messages": [("user", f"{FIRST} ({number})")]})
    assert len(captured.samples) == 20
    ((words, count),) = captured.problems.counts.items()
    assert 'context_tools={"look_up"}' in words
    assert count == 19


LATER = {
    "a friendlier text": (f"Question: {FIRST}\nAnswer: {IN_1874}", HOURLY, "inferred"),
    "without the question": (f"Make a post of this: {IN_1874}", HOURLY, "inferred"),
    "a verdict": (f"Question: {FIRST}\nAnswer: {IN_1874}\nIs it so?", "yes", "exact"),
    "a score": (f"Rate: {FIRST} {IN_1874}", '{"score": 4}', "exact"),
    "the next turn": (TALKS["human and AI"], HOURLY, "exact"),
    "anything else": (f"Question: {FIRST}", HOURLY, "exact"),
}


@pytest.mark.parametrize("later", LATER)
def test_an_answer_that_a_later_call_works_on_is_in_doubt(later: str) -> None:
    prompt, reply, grade = LATER[later]
    with capture() as captured:
        rag(Shelf(books=[document(BRIDGE, "b")]), Speaker(lines=IN_1874)).invoke(FIRST)
        Speaker(lines=reply).invoke(prompt)
    (sample,) = captured.samples
    assert triples([sample]) == [(FIRST, [BRIDGE], IN_1874)]
    assert sample.capture is not None
    assert sample.capture.grade == grade
    assert not captured.problems


def test_a_later_call_that_comes_when_the_sample_was_handed_on_is_told() -> None:
    with capture() as captured:
        rag(Shelf(books=[document(BRIDGE, "b")]), Speaker(lines=IN_1874)).invoke(FIRST)
        assert len(captured.samples) == 1
        Speaker(lines=HOURLY).invoke(f"Make a post of this: {IN_1874}")
        assert len(captured.samples) == 1
    assert [words for words in captured.problems.counts if "handed on" in words]


@pytest.mark.parametrize("reply", ["[3, 1]", '{"ranking": [3, 1]}', "yes"])
def test_a_ranking_or_a_verdict_alone_is_in_doubt_as_an_answer(reply: str) -> None:
    with capture() as captured:
        asyncio.run(ask(FIRST, reply, [document(BRIDGE, "b")], limited=False))
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "the answer may be a verdict" in sample.capture.warnings


@pytest.mark.parametrize("given", [BRIDGE, BRIDGE[:40], f"  {BRIDGE[:45]}…\n"])
def test_a_document_that_a_chain_is_handed_is_no_question_though_it_is_cut(
    given: str,
) -> None:
    prompt = ChatPromptTemplate.from_template("Sum up: {text}")
    with capture() as captured:
        Shelf(books=[document(BRIDGE, "b")]).invoke(FIRST)
        (prompt | Speaker(lines=IN_1874) | StrOutputParser()).invoke({"text": given})
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (FIRST, IN_1874)


def chain(line: str) -> Any:
    prompt = ChatPromptTemplate.from_template("Speak: {question}")
    return prompt | Speaker(lines=line) | StrOutputParser()


def counted(problems: Any) -> list[int]:
    return [
        count for words, count in problems.counts.items() if "no retrieval" in words
    ]


def test_every_chain_without_a_search_is_counted_beside_one_that_searches() -> None:
    """Its documents may come from a store that is not observed."""
    with capture() as captured:
        rag(Shelf(books=[document(BRIDGE, "b")]), Speaker(lines=IN_1874)).invoke(FIRST)
        for number in range(3):
            chain(HOURLY).invoke({"question": f"{SECOND} ({number})"})
    assert len(captured.samples) == 1
    assert counted(captured.problems) == [3]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("words", [FIRST, IN_1874])
def test_a_chain_that_is_handed_words_of_a_sample_is_no_question_without_one(
    words: str, before: bool
) -> None:
    """A router before the search, a title after it."""
    with capture() as captured:
        if before:
            chain("search").invoke({"question": words})
        rag(Shelf(books=[document(BRIDGE, "b")]), Speaker(lines=IN_1874)).invoke(FIRST)
        if not before:
            chain("Bridges").invoke({"question": words})
    assert len(captured.samples) == 1
    assert not captured.problems


@pytest.mark.parametrize("limited", [False, True])
def test_a_note_on_one_of_two_searches_at_once_is_part_of_their_question(
    limited: bool,
) -> None:
    async def fan_out() -> None:
        shelves = [
            Shelf(books=[document(BRIDGE, "b")]),
            Shelf(books=[document(FERRY, "f")]),
        ]
        await asyncio.gather(
            *(
                shelf.ainvoke(query)
                for shelf, query in zip(shelves, (FIRST, SECOND), strict=True)
            )
        )
        note = "The mayor of the town opened the bridge in the year 1874."
        noting = Speaker(lines=note).ainvoke(f"Sum up for {FIRST}\n{BRIDGE}")
        await (in_its_own_task(noting) if limited else noting)
        prompt = f"{note}\n{FERRY}\n\nQuestion: {FIRST} {SECOND}"
        answering = Speaker(lines=HOURLY).ainvoke(prompt)
        await (in_its_own_task(answering) if limited else answering)

    with capture() as captured:
        asyncio.run(fan_out())
    (sample,) = captured.samples
    assert ({context.text for context in sample.contexts}, sample.answer) == (
        {BRIDGE, FERRY},
        HOURLY,
    )


def test_a_draft_is_revised_while_somebody_else_asks_the_same() -> None:
    """The other one searched and waits for an answer: the revision takes nothing from them."""
    draft = "The mayor of the town opened the bridge in the year 1874."

    async def revise(searched: asyncio.Event, revised: asyncio.Event) -> None:
        await ask(FIRST, draft, [document(BRIDGE, "b")], limited=False)
        await searched.wait()
        await Speaker(lines=IN_1874).ainvoke(
            f"Shorten the answer to {FIRST}\n{draft}\nfrom {BRIDGE}"
        )
        revised.set()

    async def somebody_else(searched: asyncio.Event, revised: asyncio.Event) -> None:
        books = [document(BRIDGE, "b"), document(MILL, "m")]
        documents = await Shelf(books=books).ainvoke(FIRST)
        searched.set()
        await revised.wait()
        prompt = f"{joined(documents)}\n\nQuestion: {FIRST}"
        await Speaker(lines=HOURLY).ainvoke(prompt)

    async def both() -> None:
        events = asyncio.Event(), asyncio.Event()
        await asyncio.gather(revise(*events), somebody_else(*events))

    with capture() as captured:
        asyncio.run(both())
    assert sorted(triples(list(captured.samples))) == [
        (FIRST, [BRIDGE], IN_1874),
        (FIRST, [BRIDGE, MILL], HOURLY),
    ]
