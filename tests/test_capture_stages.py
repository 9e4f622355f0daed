"""The new stages from a tree to its samples: the text rule, the evidence, the doubts; as tables and laws."""

from __future__ import annotations

import html
import itertools
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    ToolCall,
    Tree,
    doubts,
)
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.shown import Candidate, PromptText, find_shown
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.data import Sample
from ragmetrics_core.data.sample import Turn

QUESTION = "Which town has an iron bridge, and when does its ferry go?"
REPLY = "It is Velm, and its ferry goes every hour of the day."
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
law = settings(max_examples=60, deadline=None)


class Clock:
    """Moments that rise, and calls that begin and end one after the other."""

    def __init__(self) -> None:
        self._moments = itertools.count(1)

    def node(self, kind: Any, *inside: Callable[[], Node], **fields: Any) -> Node:
        node = Node(kind, fields.pop("name", kind), next(self._moments), **fields)
        node.children = [make() for make in inside]
        node.ended = next(self._moments)
        return node

    def retriever(
        self, *documents: Document, query: str = QUESTION
    ) -> Callable[[], Node]:
        return lambda: self.node("retriever", query=query, documents=documents)

    def model(
        self, prompt: str | Sequence[Message], reply: str = REPLY
    ) -> Callable[[], Node]:
        messages = (
            (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        )
        return lambda: self.node(
            "model", prompt=messages, reply=Message("assistant", reply), model="m"
        )

    def tree(self, *inside: Callable[[], Node], **fields: Any) -> Tree:
        answers = fields.pop("answers", (Answer(REPLY, "output"),))
        question = fields.pop("question", QUESTION)
        return Tree(
            self.node("step", *inside), question=question, answers=answers, **fields
        )


def asked(context: str) -> str:
    return f"Use only this:\n{context}\n\nQuestion: {QUESTION}"


def documents(*texts: str) -> tuple[Document, ...]:
    return tuple(Document(text, f"d{number}") for number, text in enumerate(texts))


def only(tree: Tree, **settings_of_user: Any) -> Sample:
    (sample,) = samples_of(tree, Overrides(**settings_of_user))
    return sample


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts or ()]


def codes(sample: Sample) -> set[str]:
    assert sample.capture is not None
    return set(sample.capture.doubts)


# The text rule

RENDERINGS: dict[str, Callable[[Sequence[str]], str]] = {
    "plain": "\n\n".join,
    "indented": lambda texts: "\n".join(
        "    " + " \n     ".join(text.split(" ")) for text in texts
    ),
    "JSON": lambda texts: json.dumps([{"text": text} for text in texts]),
    "JSON in JSON": lambda texts: json.dumps(json.dumps(list(texts))),
    "repr": lambda texts: repr([{"page_content": text} for text in texts]),
    "table": lambda texts: "\n".join(
        f"| {n} | {text} |" for n, text in enumerate(texts)
    ),
    "XML": lambda texts: "".join(f"<doc>{html.escape(text)}</doc>" for text in texts),
    "XML twice": lambda texts: html.escape(
        "".join(f"<d>{html.escape(text)}</d>" for text in texts)
    ),
    "bullets": lambda texts: "\n".join(f"- **{text}**" for text in texts),
}
WORDS = (
    *("bridge", "ferry", "mill", "café", "naïve", "Straße", "Ångström", "мост"),
    *("паром", "橋", "渡し", "'twas", '"iron"', "&", "<b>", "it's", "1874", "12.5"),
    *("%", "lake", "town\tgate\nwall", "summer", "winter", "river", "\\n", "stone"),
)


def sentence(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(8, 16))]
    return " ".join([*words, f"number {rng.randint(10**6, 10**7)}."])


@law
@given(st.integers(0, 2**32), st.sampled_from(sorted(RENDERINGS)))
def test_law_rendering_order_and_repeats_change_no_context(
    seed: int, name: str
) -> None:
    """Sure contexts are the documents shown, in the order of the prompt, however they are printed."""
    rng, clock = random.Random(seed), Clock()
    found = documents(*(sentence(rng) for _ in range(rng.randint(1, 7))))
    shown = rng.sample(found, rng.randint(1, len(found)))
    repeated = [*shown, *rng.sample(shown, rng.randint(0, len(shown)))]
    prompt = asked(RENDERINGS[name]([document.text for document in repeated]))
    sample = only(clock.tree(clock.retriever(*found), clock.model(prompt)))
    assert texts(sample) == [document.text for document in shown]
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.evidence_from) == ("exact", "prompt")
    assert [context.id for context in sample.retrieved or ()] == [d.id for d in found]
    (call,) = sample.ledger.calls if sample.ledger else ()
    assert call.shown == tuple(sorted(found.index(document) for document in shown))


@law
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_law_each_context_is_an_item_of_a_call(seed: int, n_steps: int) -> None:
    """Whatever steps make of the documents, a context's text or id is found in the ledger."""
    rng, clock = random.Random(seed), Clock()
    held = documents(*(sentence(rng) for _ in range(rng.randint(2, 6))))
    inside = [clock.retriever(*held)]
    current = list(held)
    for number in range(n_steps):
        taken = tuple(current)
        change = rng.choice(["drop", "sort", "cut", "add", "rewrite"])
        if change == "drop":
            current = rng.sample(current, max(1, len(current) - 1))
        elif change == "sort":
            rng.shuffle(current)
        elif change == "cut":
            current = [Document(d.text[: 2 * len(d.text) // 3], d.id) for d in current]
        elif change == "add":
            current = [*current, Document(sentence(rng), f"new{number}")]
        else:
            current = [Document(sentence(rng)) for _ in current]
        returned = tuple(current)
        inside.append(
            lambda taken=taken, returned=returned: clock.node(  # type: ignore[misc]
                "reranker", input_documents=taken, documents=returned
            )
        )
    prompt = asked("\n".join(document.text for document in current))
    sample = only(clock.tree(*inside, clock.model(prompt)))
    assert sample.ledger is not None
    items = [item for call in sample.ledger.calls for item in call.items]
    for context in sample.known_contexts or ():
        assert any(
            (context.id is not None and context.id == item.id)
            or context.text in item.text
            for item in items
        )
    for passage in sample.retrieved or ():
        assert passage.text in {item.text for item in items}


@law
@given(st.integers(0, 2**32))
def test_law_a_document_that_no_prompt_shows_is_no_sure_context(seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    found = documents(*(sentence(rng) for _ in range(4)))
    shown = found[: rng.randint(0, 3)]
    prompt = asked("\n".join(document.text for document in shown))
    sample = only(clock.tree(clock.retriever(*found), clock.model(prompt)))
    assert sample.capture is not None
    if sample.capture.grade == "exact":
        assert texts(sample) == [document.text for document in shown]
    else:
        assert not shown
        assert codes(sample) == {"by_data_flow"}


CUT = BRIDGE + " " + MILL + " " + FERRY
SHOWN: dict[str, tuple[list[str], str, list[tuple[str, str, str]]]] = {
    "whole": ([BRIDGE], f"Read: {BRIDGE} Now answer.", [("whole", BRIDGE, "")]),
    "not shown": (
        [BRIDGE, MILL],
        f"Read: {BRIDGE}",
        [("whole", BRIDGE, ""), ("not", "", "")],
    ),
    "its beginning": ([CUT], f"Read: {CUT[:110]}…", [("part", CUT[:110].strip(), "")]),
    "its end": ([CUT], f"Read: …{CUT[60:]}", [("part", CUT[60:].strip(), "")]),
    "its middle": (
        [CUT],
        f"…{CUT[20:150]}…",
        [("unknown", CUT[20:150].strip(), "in_part")],
    ),
    "two parts": (
        [CUT],
        f"{BRIDGE}\n…\nAnd: {FERRY}",
        [("unknown", f"{BRIDGE[:-1]}\n{FERRY}", "in_part")],
    ),
    "a few words": ([CUT], "The Velm bridge was closed.", [("unknown", "", "in_part")]),
    "no beginning of a word": (
        ["iron bridge at Velmoo"],
        "castiron bridge at Velmoors",
        [("not", "", "")],
    ),
    "a short line": (["Porto"], "Cities:\n- Porto\n- Faro", [("whole", "Porto", "")]),
    "a short word": (
        ["Porto"],
        "I like Porto very much",
        [("unknown", "Porto", "short_text")],
    ),
    "signs alone": (["++"], "a ++ b", [("unknown", "", "short_text")]),
    "inside another of its list": (
        [BRIDGE, f"{BRIDGE} {MILL}"],
        f"{BRIDGE} {MILL}",
        [("unknown", "", "inside_another"), ("whole", f"{BRIDGE} {MILL}", "")],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_message_shows_of_texts(name: str) -> None:
    candidates, message, expected = SHOWN[name]
    showings = find_shown(
        [Candidate((text,)) for text in candidates], [PromptText(message)]
    )
    assert [(one.extent, one.text, one.doubt) for one in showings] == expected


def test_a_text_inside_a_longer_one_of_a_later_list_was_replaced() -> None:
    """The latest list that holds the longer text lacks the shorter one."""
    wide = Candidate((f"{BRIDGE} {MILL}",), list_number=0)
    narrow = Candidate((BRIDGE,), list_number=1)
    showings = find_shown([wide, narrow], [PromptText(wide.texts[0])])
    assert [showing.extent for showing in showings] == ["whole", "not"]


def test_a_text_that_only_the_history_repeats_is_in_doubt_or_not_shown() -> None:
    message = PromptText(f"Before you said: {BRIDGE}", known=(f"you said: {BRIDGE}",))
    (last, earlier) = find_shown(
        [Candidate((BRIDGE,)), Candidate((MILL,), 1)], [message]
    )
    assert (last.extent, last.doubt) == ("unknown", "quoted")
    assert earlier.extent == "not"


# Question and history


def test_an_exact_question_is_never_that_of_an_earlier_turn() -> None:
    clock = Clock()
    history = (
        Turn(role="user", content=QUESTION),
        Turn(role="assistant", content="No."),
    )
    prompt = f"Use only this:\n{BRIDGE}\n\nQuestion: And the ferry?"
    tree = clock.tree(
        clock.retriever(*documents(BRIDGE)), clock.model(prompt), history=history
    )
    assert "question_guessed" in codes(only(tree))


@pytest.mark.parametrize(
    "prompt",
    [
        [
            Message("user", "Open?"),
            Message("assistant", "It was opened."),
            Message("user", asked(BRIDGE)),
        ],
        [
            Message("system", "User: Open?\nAssistant: It was opened."),
            Message("user", asked(BRIDGE)),
        ],
    ],
    ids=["by roles", "as a transcript"],
)
def test_a_history_that_was_not_read_is_never_none_for_sure(
    prompt: list[Message],
) -> None:
    clock = Clock()
    sample = only(clock.tree(clock.retriever(*documents(BRIDGE)), clock.model(prompt)))
    assert sample.history == ()
    assert "history_unread" in codes(sample)


def test_the_query_of_plain_functions_is_the_question() -> None:
    clock = Clock()
    tree = clock.tree(
        clock.retriever(*documents(BRIDGE)),
        clock.model(asked(BRIDGE)),
        question=None,
        answers=(),
    )
    tree.root.name = "runs of plain functions"
    sample = only(tree)
    assert (sample.question, sample.answer) == (QUESTION, REPLY)
    assert codes(sample) == set()


# Answer and chain


def test_what_an_earlier_call_of_the_chain_was_shown_are_contexts() -> None:
    clock = Clock()
    draft = "The draft says that the bridge of Velm is old."
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE, FERRY)),
            clock.model(asked(BRIDGE), draft),
            clock.model(asked(f"{draft}\n{FERRY}")),
        )
    )
    assert texts(sample) == [BRIDGE, FERRY]
    assert sample.capture is not None
    assert [text.text for text in sample.capture.intermediate] == [draft]
    assert codes(sample) == set()


def test_an_answer_that_joins_replies_rests_on_what_each_call_was_shown() -> None:
    clock = Clock()
    first, second = "The bridge was opened in 1874.", "The ferry goes every hour."
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE, FERRY)),
            clock.model(asked(BRIDGE), first),
            clock.model(asked(FERRY), second),
            answers=(Answer(f"{first}\n\n{second}", "output"),),
        )
    )
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize(
    "verdict", ["yes", '{"score": 0.8}', "Who built it?\nWhere is it?"]
)
def test_a_verdict_on_the_answer_is_no_sure_answer(verdict: str) -> None:
    clock = Clock()
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE)),
            clock.model(asked(BRIDGE)),
            clock.model(f"Is this good? {REPLY}", verdict),
            answers=(Answer(verdict, "output"),),
        )
    )
    assert "answer_guessed" in codes(sample)


def test_a_verdict_in_a_structure_is_no_sure_answer_even_alone() -> None:
    clock = Clock()
    verdict = '{"binary_score": "yes"}'
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE)),
            clock.model(asked(BRIDGE), verdict),
            answers=(Answer(verdict, "output"),),
        )
    )
    assert codes(sample) == {"answer_guessed"}


def test_what_the_answer_object_carries_is_a_guess_where_no_call_was_recorded() -> None:
    answer = Answer(REPLY, "response", documents=documents(BRIDGE))
    tree = Clock().tree(answers=(answer,), is_always_a_sample=True)
    sample = only(tree)
    assert texts(sample) == [BRIDGE]
    assert "by_data_flow" in codes(sample)


def test_a_document_that_a_model_of_the_run_wrote_is_no_evidence() -> None:
    clock = Clock()
    summary = "In short, the bridge of Velm was opened in 1874."
    found = documents(BRIDGE)
    sample = only(
        clock.tree(
            clock.retriever(*found),
            clock.model(f"Sum up: {BRIDGE}", summary),
            lambda: clock.node("step", documents=(Document(summary, "s"),)),
            clock.model(asked(summary)),
        )
    )
    assert texts(sample) == [BRIDGE]
    assert [context.text for context in sample.retrieved or ()] == [BRIDGE]


def test_calls_of_one_step_beside_each_other_read_nothing_of_each_other() -> None:
    """Of one answer for each document only the best is used: the other's document is no context."""
    clock = Clock()
    found = documents(FERRY, BRIDGE)

    def both() -> Node:
        other = clock.model(asked(FERRY), "It does not say when the ferry goes.")
        step = clock.node("step", other, clock.model(asked(BRIDGE)))
        step.input_documents = found
        first, second = step.children
        first.ended = second.ended  # they ran beside each other
        return step

    assert texts(only(clock.tree(clock.retriever(*found), both))) == [BRIDGE]


def test_what_was_found_after_the_answer_is_no_context() -> None:
    """The prompt quotes a text that is searched for later, such as to check the answer."""
    clock = Clock()
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE)),
            clock.model(asked(f"{BRIDGE}\n{FERRY}")),
            clock.retriever(Document(FERRY, "later"), query="Is it so?"),
        )
    )
    assert texts(sample) == [BRIDGE]


# Evidence without prompts, and tools


def test_without_a_prompt_that_shows_them_the_last_list_stands_for_the_contexts() -> (
    None
):
    clock = Clock()
    found = documents(BRIDGE, FERRY)
    sample = only(
        clock.tree(
            clock.retriever(*found),
            lambda: clock.node("reranker", input_documents=found, documents=found[:1]),
            clock.model("Answer."),
        )
    )
    assert texts(sample) == [BRIDGE]
    assert codes(sample) == {"by_data_flow"}


@pytest.mark.parametrize("returned", [None, ()], ids=["unknown", "nothing"])
def test_contexts_are_not_empty_for_sure_where_something_was_found(
    returned: tuple[Document, ...] | None,
) -> None:
    """A step took what was found, and no prompt shows it: what it made of it is not certain."""
    clock = Clock()
    found = documents(BRIDGE, FERRY)
    step = lambda: clock.node(  # noqa: E731  # made when the clock says
        "step", documents_among_inputs=found, documents=returned
    )
    sample = only(clock.tree(clock.retriever(*found), step, clock.model("Answer.")))
    assert texts(sample) == ([BRIDGE, FERRY] if returned is None else [])
    assert codes(sample) == {"by_data_flow"}


def test_a_search_that_found_nothing_gives_empty_contexts_for_sure() -> None:
    clock = Clock()
    sample = only(clock.tree(clock.retriever(), clock.model(asked(""))))
    assert texts(sample) == []
    assert sample.retrieved == ()
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.evidence_from) == ("exact", "flow")


def test_what_became_of_each_passage_is_noted() -> None:
    clock = Clock()
    found = documents(BRIDGE, FERRY, MILL)
    sample = only(
        clock.tree(
            clock.retriever(*found),
            lambda: clock.node(
                "reranker", name="rank", input_documents=found, documents=found[1:]
            ),
            clock.model(asked(FERRY)),
        )
    )
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    told = [(note.kept, note.dropped_by, note.context, note.share) for note in notes]
    assert told == [
        (False, "rank", None, 0.0),
        (True, None, 0, 1.0),
        (True, None, None, 0.0),
    ]


DIVIDED: dict[str, tuple[str, list[str] | None]] = {
    "a list of texts": (json.dumps([BRIDGE, FERRY]), [BRIDGE, FERRY]),
    "a list of mappings": (json.dumps([{"content": BRIDGE, "url": "a"}]), [BRIDGE]),
    "a list under a name": (json.dumps({"results": [{"snippet": BRIDGE}]}), [BRIDGE]),
    "blocks of content": (json.dumps([{"type": "text", "text": BRIDGE}]), [BRIDGE]),
    "JSON in a block": (
        json.dumps(
            [{"type": "text", "text": json.dumps([{"text": BRIDGE}, {"text": MILL}])}]
        ),
        [BRIDGE, MILL],
    ),
    "an empty list": ("[]", []),
    "text alone": (f"1. {BRIDGE}\n2. {FERRY}", None),
    "numbers": ("[1, 2]", None),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_tools_result_is_divided_by_its_own_structure(name: str) -> None:
    text, expected = DIVIDED[name]
    passages = divided(text)
    assert (
        None if passages is None else [passage.text for passage in passages]
    ) == expected


def agent_with_tool(text: str, **fields: Any) -> Tree:
    clock = Clock()
    call = ToolCall("search", {"query": "bridge"}, "t1")
    choice = Message("assistant", "", (call,))
    prompt = (Message("user", QUESTION), choice, Message("tool", text))
    return clock.tree(
        lambda: clock.node("model", prompt=prompt[:1], reply=choice, model="m"),
        lambda: clock.node(
            "tool", name="search", query="bridge", text=text, tool_call_id="t1"
        ),
        clock.model(prompt),
        **fields,
    )


def test_the_text_of_a_named_tool_is_divided_or_one_doubtful_context() -> None:
    tree = agent_with_tool(json.dumps([{"text": BRIDGE}, {"text": FERRY}]))
    sample = only(tree, context_tools={"search"})
    assert (texts(sample), codes(sample)) == ([BRIDGE, FERRY], set())
    sample = only(agent_with_tool(f"{BRIDGE} {FERRY}"), context_tools={"search"})
    assert (texts(sample), codes(sample)) == ([f"{BRIDGE} {FERRY}"], {"undivided"})


def test_the_text_of_another_tool_is_evidence_of_the_ledger_alone() -> None:
    sample = only(agent_with_tool(BRIDGE))
    assert texts(sample) == []
    assert sample.retrieved is None
    assert codes(sample) == {"tool_text"}
    (call,) = sample.ledger.calls if sample.ledger else ()
    assert (call.kind, call.name, call.shown) == ("tool", "search", (0,))


def test_a_run_that_should_have_searched_is_a_sample_and_others_are_none() -> None:
    clock = Clock()
    tree = clock.tree(clock.model(QUESTION))
    assert samples_of(tree) == []
    assert codes(only(tree, question=QUESTION)) == {"no_search"}


# Citations

CITING: dict[str, tuple[str, list[tuple[int, ...]] | None]] = {
    "It was 1874 [1], and hourly [2].": ("[{}] ", [(0,), (1,)]),
    "It was 1874 [1-2].": ("Source {}: ", [(0, 1)]),
    "It was in 1874 [2].": ("{}. ", [(1,)]),
    "It was so [1].": ("", None),
    "It is said so.": ("[{}] ", None),
}


@pytest.mark.parametrize("answer", CITING)
def test_marks_mean_what_the_prompt_numbers_line_by_line(answer: str) -> None:
    label, expected = CITING[answer]
    clock = Clock()
    lines = [label.format(n) + text for n, text in enumerate((BRIDGE, FERRY), start=1)]
    sample = only(
        clock.tree(
            clock.retriever(*documents(BRIDGE, FERRY)),
            clock.model(asked("\n".join(lines)), answer),
            answers=(Answer(answer, "output"),),
        )
    )
    found = (
        None if sample.citations is None else [one.contexts for one in sample.citations]
    )
    assert found == expected
    assert bool(sample.citations_unknown) == (expected is None)


def test_the_doubts_are_one_table_of_few_codes() -> None:
    table = doubts._TABLE
    assert len(table) <= 22
    for code, (grade, words) in table.items():
        assert grade in ("inferred", "incomplete"), code
        assert words, code


def test_work_grows_with_the_documents_and_not_with_their_square() -> None:
    """Eight times the documents take less than thirty times as long."""

    def seconds(n_documents: int) -> float:
        rng, clock = random.Random(1), Clock()
        found = documents(*(sentence(rng) for _ in range(n_documents)))
        prompt = asked("\n".join(document.text for document in found[::2]))
        tree = clock.tree(clock.retriever(*found), clock.model(prompt))
        began = time.process_time()
        assert len(texts(only(tree))) == len(found[::2])
        return time.process_time() - began

    seconds(20)
    few = min(seconds(40) for _ in range(3))
    assert min(seconds(320) for _ in range(3)) < 30 * few
