"""What a prompt shows of texts, how a tool's result is divided, and laws from a tree to its sample."""

import html
import json
import random
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_by_hand import (
    ANSWER,
    CALL,
    NOTE,
    QUESTION,
    SAYS,
    Call,
    after_tool,
    asked,
    call,
    found,
    reads,
    says,
    tool,
    tree,
)

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    ToolCall,
    Tree,
    doubts,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.structures import find_instances
from ragmetrics_core.data import Sample
from ragmetrics_core.data.sample_parts import Turn

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
CUT = f"{BRIDGE} {MILL} {FERRY}"
law = settings(max_examples=60, deadline=None)


def documents(*texts: str) -> tuple[Document, ...]:
    return tuple(Document(text, f"d{number}") for number, text in enumerate(texts))


def only(run: Tree, overrides: Overrides | None = None) -> Sample:
    (sample,) = samples_of(run, overrides or Overrides())
    return sample


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts or ()]


def codes(sample: Sample) -> set[str]:
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
def test_law_rendering_order_and_repeats_change_no_context(seed, name):
    """Sure contexts are the documents shown, in the order of the prompt, however they are printed."""
    rng = random.Random(seed)
    held = documents(*(sentence(rng) for _ in range(rng.randint(1, 7))))
    shown = rng.sample(held, rng.randint(1, len(held)))
    repeated = shown * rng.randint(1, 3)
    prompt = asked(RENDERINGS[name]([document.text for document in repeated]))
    sample = only(says(found(*held), reads(prompt)))
    assert texts(sample) == [document.text for document in shown]
    assert (sample.capture.grade, sample.capture.evidence_from) == ("exact", "prompt")
    assert [context.id for context in sample.retrieved or ()] == [d.id for d in held]
    (search,) = sample.ledger.calls if sample.ledger else ()
    assert search.shown == tuple(sorted(held.index(document) for document in shown))


@law
@given(st.integers(0, 2**32), st.integers(0, 3))
def test_law_each_context_is_an_item_of_a_call(seed, n_steps):
    """Whatever steps make of the documents, a context's text or id is found in the ledger."""
    rng = random.Random(seed)
    held = documents(*(sentence(rng) for _ in range(rng.randint(2, 6))))
    calls = [found(*held)]
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
        calls.append(call("reranker", input_documents=taken, documents=returned))
    prompt = asked("\n".join(document.text for document in current))
    sample = only(says(*calls, reads(prompt)))
    items = [item for each in sample.ledger.calls for item in each.items]
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
def test_law_a_document_that_no_prompt_shows_is_no_sure_context(seed):
    rng = random.Random(seed)
    held = documents(*(sentence(rng) for _ in range(4)))
    shown = held[: rng.randint(0, 3)]
    prompt = asked("\n".join(document.text for document in shown))
    sample = only(says(found(*held), reads(prompt)))
    assert sample.capture is not None
    if sample.capture.grade == "exact":
        assert texts(sample) == [document.text for document in shown]
    else:
        assert not shown
        assert codes(sample) == {"by_data_flow"}


# what was found, what the prompt holds, the contexts, and the code of what is uncertain
SHOWN: dict[str, tuple[list[str], str, list[str], str]] = {
    "whole": ([BRIDGE, MILL], f"Read: {BRIDGE} Now answer.", [BRIDGE], ""),
    "its beginning": ([CUT], f"Read: {CUT[:110]}…", [CUT[:110].strip()], ""),
    "its end": ([CUT], f"Read: …{CUT[60:]}", [CUT[60:].strip()], ""),
    "its middle": ([CUT], f"…{CUT[20:150]}…", [CUT[20:150].strip()], "in_part"),
    "two parts": (
        [CUT],
        f"{BRIDGE}\n…\nAnd: {FERRY}",
        [f"{BRIDGE[:-1]}\n{FERRY}"],
        "in_part",
    ),
    "a few words": (
        [CUT, MILL],
        f"The Velm bridge was closed.\n{MILL}",
        [MILL],
        "in_part",
    ),
    "no beginning of a word": (
        ["iron bridge at Velmoo", MILL],
        f"castiron bridge at Velmoors\n{MILL}",
        [MILL],
        "",
    ),
    "a short line": (["Porto"], "Cities:\n- Porto\n- Faro", ["Porto"], ""),
    "short lines with numbers": (
        ["Porto", "Faro"],
        "Cities:\n[1] Porto\n[2] Faro",
        ["Porto", "Faro"],
        "",
    ),
    "a short word": (["Porto"], "I like Porto much", ["Porto"], "short_text"),
    "signs alone": (["++", MILL], f"a ++ b\n{MILL}", [MILL], "short_text"),
    "numbered sentences, of which the last is short": (
        [f"{CUT} It burned down."],
        f"[1] {BRIDGE}\n[2] {MILL}\n[3] {FERRY}\n[4] It burned down.",
        [f"{CUT} It burned down."],
        "",
    ),
    "marked sentences, of which the last is short": (
        [f"{CUT} A storm destroyed it."],
        f"{BRIDGE}<br/>{MILL}<br/>{FERRY}<br/>A storm destroyed it.",
        [f"{CUT} A storm destroyed it."],
        "",
    ),
    "sentences with notes between, of which the first is short": (
        [f"The town was a small one. {CUT}"],
        f"The town was a small one. (see 1) {BRIDGE} (see 2) {MILL} (see 3) {FERRY}",
        [CUT],
        "in_part",
    ),
    "numbered sentences, of which the last two are short": (
        [f"{CUT} A storm destroyed it. Nobody was hurt."],
        f"1. {BRIDGE}\n2. {MILL}\n3. {FERRY}\n4. A storm destroyed it.\n5. Nobody was hurt.",
        [CUT[:-1]],
        "in_part",
    ),
    "a template's words on its line": (
        [BRIDGE, MILL],
        f"Be short. {BRIDGE} Furthermore, there is this. {MILL} Be polite. Thanks.",
        [BRIDGE, MILL],
        "",
    ),
    "whole sentences, and a few other words that hold the last": (
        [f"{CUT} It fell."],
        f"[1] {BRIDGE}\n[2] {MILL}\n[3] {FERRY}\nNobody saw how it fell down",
        [CUT[:-1]],
        "in_part",
    ),
    "its beginning, and other words that end as it does": (
        [f"{BRIDGE} Ask the man at the mill."],
        f"{BRIDGE}\nEnd each reply with: Ask the man at the mill.",
        [BRIDGE[:-1]],
        "in_part",
    ),
    "its beginning, and another text that ends as it does": (
        [f"{BRIDGE} {MILL}", MILL],
        f"<p>{BRIDGE} {MILL[:20]}</p><p>{MILL[:40]}</p>",
        [f"{BRIDGE} {MILL[:40].strip()}"],
        "in_part",
    ),
    "inside another of its list": (
        [BRIDGE, f"{BRIDGE} {MILL}"],
        f"{BRIDGE} {MILL}",
        [f"{BRIDGE} {MILL}"],
        "in_part",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_message_shows_of_texts(name):
    held, prompt, expected, doubt = SHOWN[name]
    sample = only(says(found(*documents(*held)), reads(prompt)))
    assert (texts(sample), codes(sample)) == (expected, {doubt} - {""})


def test_a_text_inside_a_longer_one_of_a_later_list_was_replaced():
    """The latest list that holds the longer text lacks the shorter one."""
    narrow, wide = Document(BRIDGE, "n"), Document(f"{BRIDGE} {MILL}", "w")
    widens = call("reranker", input_documents=(narrow,), documents=(wide,))
    sample = only(says(found(narrow), widens, reads(asked(wide.text))))
    assert (texts(sample), codes(sample)) == ([wide.text], set())
    assert [passage.text for passage in sample.retrieved or ()] == [BRIDGE]


# Question and history


def test_an_exact_question_is_never_that_of_an_earlier_turn():
    said = (Turn(role="user", content=QUESTION), Turn(role="assistant", content="No."))
    prompt = f"Use only this:\n{BRIDGE}\n\nQuestion: And the ferry?"
    run = says(found(*documents(BRIDGE)), reads(prompt), history=said)
    assert "question_guessed" in codes(only(run))


@pytest.mark.parametrize(
    "before",
    [
        [Message("user", "Open?"), Message("assistant", "It was opened.")],
        [Message("system", "User: Open?\nAssistant: It was opened.")],
        [Message("system", f"User: Open?\nAssistant: {BRIDGE}")],
        [Message("system", "Earlier:\nQ: Open?\nA: It was opened.")],
    ],
    ids=["by roles", "as a transcript", "repeating a passage", "with letters"],
)
def test_a_history_that_was_not_read_is_never_none_for_sure(before):
    prompt = [*before, Message("user", asked(BRIDGE))]
    sample = only(says(found(*documents(BRIDGE)), reads(prompt)))
    assert sample.history == ()
    assert "history_unread" in codes(sample)


FRONT_MATTER = "name: docs\ndescription: Use it"
TALK_OF_TWO = f"Anna: Open?\nThe bot: {FERRY}"


@pytest.mark.parametrize(
    ("given", "is_shown", "is_talk"),
    [
        ({"notes": FRONT_MATTER}, False, False),
        (
            {"files": {"a.md": {"content": f"---\n{FRONT_MATTER}\n---\nRead."}}},
            False,
            False,
        ),
        # it may be what was said, whatever its names
        ({"memory_contents": {"/AGENTS.md": "Write plainly."}}, True, True),
        ({"memory": {"turn 1": "User asked who kept it", "turn 2": "Jan"}}, True, True),
        # it may be talk, whatever the names of those who speak
        ({"notes": TALK_OF_TWO}, True, True),
        ({"notes": "User: Open?\nBot: It is."}, False, True),
        ({"memory": {"user": "Open?", "bot": "It is open."}}, False, True),
        ({"memory": {"lines": ["Is it open?", "It is open."]}}, False, True),
    ],
)
def test_what_no_model_is_shown_and_names_no_speakers_is_no_talk(
    given, is_shown, is_talk
):
    prompt = asked(BRIDGE)
    if is_shown:
        prompt = "\n".join([*find_instances(given, str), prompt])
    run = says(
        found(*documents(BRIDGE)),
        reads(prompt),
        lookup_inputs=({"question": QUESTION, **given},),
    )
    assert ("history_unread" in codes(only(run))) == is_talk


@pytest.mark.parametrize(
    ("notes", "shown", "is_talk"),
    [
        (TALK_OF_TWO, f"Open? / {FERRY}", True),
        ("Ich: Wer war es?\nDu: Jan Harms.", "Wer war es? / Jan Harms.", True),
        (f"---\n{FRONT_MATTER}\n---\nRead.", "- docs (Use it)", False),
    ],
)
def test_a_talk_may_be_shown_without_its_labels(notes, shown, is_talk):
    run = says(
        found(*documents(BRIDGE)),
        reads(f"{shown}\n{asked(BRIDGE)}"),
        lookup_inputs=({"question": QUESTION, "notes": notes},),
    )
    assert ("history_unread" in codes(only(run))) == is_talk


# Answer and chain


def test_what_earlier_calls_of_the_chain_were_shown_are_contexts():
    """An answer that was written from a draft, and one that joins two replies."""
    held = documents(BRIDGE, FERRY)
    draft, second = "The draft says: the bridge is old.", "The ferry goes hourly."
    refined = reads(asked(f"{draft}\n{FERRY}"))
    sample = only(says(found(*held), reads(asked(BRIDGE), draft), refined))
    assert (texts(sample), codes(sample)) == ([BRIDGE, FERRY], set())
    assert [text.text for text in sample.capture.intermediate] == [draft]
    calls = (found(*held), reads(asked(BRIDGE), draft), reads(asked(FERRY), second))
    joined = Answer(f"{draft}\n\n{second}")
    assert texts(only(tree(*calls, answers=(joined,)))) == [BRIDGE, FERRY]


def test_a_call_beside_the_answer_is_doubted_unless_it_is_accounted_for():
    """A first try of the same prompt, and what wrote another answer of the run, are."""
    held = documents(BRIDGE, FERRY)
    other = "The ferry goes hourly, all summer long."
    beside, wrote = reads(asked(FERRY), other), reads(asked(BRIDGE))
    first_try = reads(asked(BRIDGE), "It was opened by a king, or so I think.")
    assert codes(only(says(found(*held), beside, wrote))) == {"further_call"}
    # of the same words no other answer is made
    alike = only(says(found(*held), reads(asked(FERRY)), wrote))
    assert codes(alike) == {"further_call"}
    retried = only(says(found(*held), first_try, wrote))
    assert (texts(retried), codes(retried)) == ([BRIDGE], set())
    both = (Answer(other), Answer(ANSWER))
    samples = samples_of(tree(found(*held), beside, wrote, answers=both))
    assert [texts(sample) for sample in samples] == [[FERRY], [BRIDGE]]
    assert [codes(sample) for sample in samples] == [set(), set()]


@pytest.mark.parametrize(
    "verdict",
    ["yes", '{"score": 0.8}', "Who built it?\nWhere is it?", '{"binary_score": "yes"}'],
)
def test_a_verdict_is_no_sure_answer(verdict):
    calls = (found(*documents(BRIDGE)), reads(asked(BRIDGE)))
    grades = reads(f"Is this good? {ANSWER}", verdict)
    run = tree(*calls, grades, answers=(Answer(verdict),))
    assert "answer_guessed" in codes(only(run))


@pytest.mark.parametrize("reply", ["3", "3.", "Yes"])
def test_a_word_that_a_model_says_to_the_result_of_its_tool_is_an_answer(reply):
    """Unless it may be a verdict on a text that was written before."""
    steps = [
        reads(asked(), CALL),
        tool("3", name="search", query="Douro"),
        reads(after_tool("3"), reply),
    ]
    told = {"answers": (Answer(reply),)}
    settings = Overrides(context_tools=set())
    assert codes(only(tree(*steps, **told), settings)) == set()
    judges = tree(reads(asked(), NOTE), *steps, **told)
    assert "answer_guessed" in codes(only(judges, settings))


def test_what_the_answer_object_carries_is_a_guess_where_no_call_was_recorded():
    answer = Answer(ANSWER, documents=documents(BRIDGE))
    sample = only(tree(answers=(answer,)))
    assert texts(sample) == [BRIDGE]
    assert "by_data_flow" in codes(sample)


@pytest.mark.parametrize(
    ("beside", "stands"),
    [
        (
            {"answers": (Answer(ANSWER, documents=documents(MILL)),)},
            "documents that came with the answer stand",
        ),
        (
            {"flow_documents": documents(MILL)},
            "documents that the run gave beside the answer stand",
        ),
        ({}, "last list of documents before the answer stands"),
    ],
    ids=["answer", "run", "last list"],
)
def test_a_doubt_tells_which_documents_stand_for_what_was_shown(beside, stands):
    told = {"answers": SAYS, **beside}
    sample = only(tree(found(*documents(BRIDGE)), reads("Answer."), **told))
    assert texts(sample) == [MILL if beside else BRIDGE]
    assert sample.capture is not None
    assert stands in sample.capture.doubts["by_data_flow"]


def test_a_search_alone_gives_what_it_returned_not_what_was_found_inside_of_it():
    inner = found(Document(FERRY, "ferry"), Document(MILL, "mill"))
    outer = call("retriever", inner, query="Velm", documents=documents(BRIDGE))
    sample = only(tree(outer))
    assert texts(sample) == [BRIDGE]
    assert [each.text for each in sample.retrieved or ()] == [BRIDGE]


def test_contexts_stand_in_the_order_in_which_any_call_was_first_shown_them():
    """An agent searches, and then reads a page that a model inside its tool sums up."""
    summary = "In short, the mill of Orle has ground corn since 1790."
    asks = [Message("user", QUESTION)]
    first = [*asks, CALL, Message("tool", BRIDGE)]
    reads_page = call(
        "tool",
        found(*documents(MILL)),
        reads(f"Sum up: {MILL}", summary),
        name="read",
        text=summary,
    )
    sample = only(
        says(
            reads(asks, CALL),
            tool(BRIDGE, found(*documents(BRIDGE)), name="search"),
            reads(first, CALL),
            reads_page,
            reads([*first, CALL, Message("tool", summary)]),
        )
    )
    assert texts(sample) == [BRIDGE, MILL]


def test_of_calls_beside_each_other_the_later_prompts_tell_the_order():
    """Summaries of summaries, in whose prompts they stand in order; they began in none."""
    shown = (BRIDGE, FERRY, MILL, "The lake of Osta is 30 metres deep, says a sign.")
    replies = [f"The {n}. page says nothing new of the town." for n in range(4)]
    leaves = [
        Node("model", "model", 3.0 - 0.1 * n, 4.0, reply=Message("assistant", reply))
        for n, reply in enumerate(replies)
    ]
    for leaf, text in zip(leaves, shown, strict=True):
        leaf.prompt = (Message("user", f"Sum up: {text}"),)
    halves = []
    for n, half in enumerate((replies[:2], replies[2:])):
        said = Message("assistant", f"Half {n} of the pages: nothing new of the town.")
        node = Node("model", "model", 4.2 - 0.1 * n, 5.0, reply=said)
        node.prompt = (Message("user", "\n".join(half)),)
        halves.append(node)
    last = Node("model", "model", 6.0, 7.0, reply=Message("assistant", ANSWER))
    last.prompt = (Message("user", asked(*(node.reply.text for node in halves))),)
    search = Node("retriever", "shelf", 1.0, 2.0, query=QUESTION)
    search.documents = documents(*shown)
    root = Node("step", "chain", 0.0, 8.0, [search, *leaves, *halves, last])
    sample = only(Tree(root, question=QUESTION, answers=SAYS))
    assert texts(sample) == list(shown)


def test_a_document_that_a_model_of_the_run_wrote_is_no_evidence():
    summary = "In short, the bridge of Velm was opened in 1874."
    sample = only(
        says(
            found(*documents(BRIDGE)),
            reads(f"Sum up: {BRIDGE}", summary),
            call("step", documents=(Document(summary, "s"),)),
            reads(asked(summary)),
        )
    )
    assert texts(sample) == [BRIDGE]
    assert [context.text for context in sample.retrieved or ()] == [BRIDGE]


def test_what_was_found_after_the_answer_is_no_context():
    """The prompt quotes a text that is searched for later, such as to check the answer."""
    later = found(Document(FERRY, "later"), query="Is it so?")
    run = says(found(*documents(BRIDGE)), reads(asked(f"{BRIDGE}\n{FERRY}")), later)
    assert texts(only(run)) == [BRIDGE]


@pytest.mark.parametrize("returned", [None, ()], ids=["unknown", "nothing"])
def test_contexts_are_not_empty_for_sure_where_something_was_found(returned):
    """A step took what was found, and no prompt shows it: what it made of it is not certain."""
    held = documents(BRIDGE, FERRY)
    takes = call("step", documents_among_inputs=held, documents=returned)
    sample = only(says(found(*held), takes, reads("Answer.")))
    assert texts(sample) == ([BRIDGE, FERRY] if returned is None else [])
    assert codes(sample) == {"by_data_flow"}


def test_pages_that_differ_in_a_name_alone_are_shown_piece_by_piece():
    """A synthesizer shows each page in two calls; each page holds sentences of the others."""
    years = range(1800, 1840, 2)
    pages = [
        " ".join(f"In {year} the town of {name} built a new mill." for year in years)
        for name in ("Velm", "Osta", "Tarn")
    ]
    calls: list[Call] = []
    reply = ""
    for page in pages:
        for piece in (page[:400], page[400:]):
            calls.append(
                reads(asked(f"{piece}\n{reply}"), f"Draft {len(calls)}: {ANSWER}")
            )
            reply = f"Draft {len(calls) - 1}: {ANSWER}"
    sample = only(says(found(*documents(*pages)), *calls))
    assert (texts(sample), codes(sample)) == (pages, set())


# Tools


def agent_with_tool(text: str) -> Tree:
    choice = Message("assistant", "", (ToolCall("search", {"query": "bridge"}, "t1"),))
    prompt = (Message("user", QUESTION), choice, Message("tool", text))
    search: Call = call(
        "tool", name="search", query="bridge", text=text, tool_call_id="t1"
    )
    return says(reads(prompt[:1], choice), search, reads(prompt))


INNER = json.dumps([{"text": BRIDGE}, {"text": MILL}])
RECORD = json.dumps({"bridge": {"name": "Velm", "opened": 1874}})
# the text of a tool that searches, and its passages; None where it is one
LONG_LINES = (
    "The old lighthouse of the island was built in 1856 by the harbour office.",
    "The lamp of it burns rapeseed oil, and is lit at dusk on each day of a year.",
)
DIVIDED: dict[str, tuple[str, list[str] | None]] = {
    "a list of texts": (json.dumps([BRIDGE, FERRY]), [BRIDGE, FERRY]),
    "a list of mappings": (json.dumps([{"content": BRIDGE, "url": "a"}]), [BRIDGE]),
    "a list under a name": (json.dumps({"results": [{"snippet": BRIDGE}]}), [BRIDGE]),
    "a result of MCP": (
        json.dumps({"content": [{"type": "text", "text": BRIDGE}], "isError": False}),
        [BRIDGE],
    ),
    "blocks of content": (json.dumps([{"type": "text", "text": BRIDGE}]), [BRIDGE]),
    "JSON in a block": (json.dumps([{"type": "text", "text": INNER}]), [BRIDGE, MILL]),
    "an empty list": ("[]", []),
    "lines": (f"exit_code: 0\nstdout:\n{BRIDGE}", [f"exit_code: 0\nstdout:\n{BRIDGE}"]),
    "a table": (f"|a|\n|---|\n|{BRIDGE}|", [f"|a|\n|---|\n|{BRIDGE}|"]),
    "long lines": ("\n".join(LONG_LINES), None),
    "blocks": (f"{BRIDGE}\n\n{FERRY}", None),
    "blocks between rules": (f"{BRIDGE}\n---\n{FERRY}", None),
    "numbered lines": (f"1. {BRIDGE}\n2. {FERRY}", None),
    "numbered sources": (f"Source 1: {BRIDGE}\nSource 2: {FERRY}", None),
    "lines with one label": (f"Title: {BRIDGE}\nTitle: {FERRY}", None),
    "lines of JSON": (f'{{"text": "{BRIDGE}"}}\n{{"text": "{FERRY}"}}', None),
    "items of a store": (
        json.dumps(
            [
                {
                    "namespace": ["a"],
                    "key": n,
                    "value": {"content": text},
                    "score": None,
                }
                for n, text in enumerate([BRIDGE, FERRY])
            ]
        ),
        [BRIDGE, FERRY],
    ),
    "two texts inside each item": (
        json.dumps([{"old": {"content": BRIDGE}, "new": {"content": FERRY}}]),
        None,
    ),
    "numbers": ("[1, 2]", None),
    "a record": (RECORD, [RECORD]),
    "lists in a record": (json.dumps({"hit": {"bridges": [{"name": BRIDGE}]}}), None),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_named_tools_result_is_divided_by_its_own_structure(name):
    text, expected = DIVIDED[name]
    sample = only(agent_with_tool(text), Overrides(context_tools={"search"}))
    if expected is None:
        assert "undivided" in codes(sample)
    else:
        assert (texts(sample), codes(sample)) == (expected, set())


def test_a_run_that_should_have_searched_is_a_sample_and_others_are_none():
    run = says(reads(QUESTION))
    assert samples_of(run) == []
    assert codes(only(run, Overrides(question=QUESTION))) == {"no_search"}


@pytest.mark.parametrize("n_found", [0, 1])
def test_a_search_that_failed_found_nothing_that_is_known(n_found):
    """Nor is it known of one beside it that nothing was there to find."""
    failed = call("retriever", query=QUESTION, error="TimeoutError")
    held = documents(BRIDGE)[:n_found]
    searches = (failed, *([found(*held)] if held else []))
    sample = only(says(*searches, reads(asked(*(each.text for each in held)))))
    assert sample.answer == ANSWER
    if held:
        assert (texts(sample), codes(sample)) == ([BRIDGE], set())
    else:
        assert (sample.contexts, codes(sample)) == (None, {"no_search"})
    broken = only(tree(failed))
    assert (broken.contexts, broken.answer) == (None, None)
    assert codes(broken) == {"no_answer", "no_search"}


def test_of_two_likely_answers_the_one_whose_prompt_shows_the_named_question_counts():
    """The run itself was asked something else."""
    calls = (
        found(*documents(BRIDGE)),
        reads(f"{BRIDGE}\nWhen was it opened?", "It was opened in 1874."),
        reads("Say goodbye to the user.", "Goodbye, and come again soon."),
    )
    named = Overrides(question="When was it opened?")
    assert only(tree(*calls, question="Say goodbye to the user.")).answer == (
        "Goodbye, and come again soon."
    )
    sample = only(tree(*calls, question="Say goodbye to the user."), named)
    assert sample.answer == "It was opened in 1874."


# Citations

CITING: dict[str, tuple[str, list[tuple[int, ...]] | None]] = {
    "It was 1874 [1], and hourly [2].": ("[{}] ", [(0,), (1,)]),
    "It was 1874 [1-2].": ("Source {}: ", [(0, 1)]),
    "It was in 1874 [2].": ("{}. ", [(1,)]),
    "It was so [1].": ("", None),
    "It is said so.": ("[{}] ", None),
}


@pytest.mark.parametrize("answer", CITING)
def test_marks_mean_what_the_prompt_numbers_line_by_line(answer):
    label, expected = CITING[answer]
    lines = [label.format(n) + text for n, text in enumerate((BRIDGE, FERRY), start=1)]
    calls = (found(*documents(BRIDGE, FERRY)), reads(asked(*lines), answer))
    sample = only(tree(*calls, answers=(Answer(answer),)))
    cited = sample.citations
    assert (None if cited is None else [one.contexts for one in cited]) == expected
    assert bool(sample.citations_unknown) == (expected is None)


@pytest.mark.parametrize(("listed", "expected"), [([1], [(0,)]), ([2], None)])
def test_a_list_of_sources_must_name_what_the_marks_name(listed, expected):
    answer = "It was in 1874 [1]."
    reply = json.dumps({"answer": answer, "sources": listed})
    prompt = asked(f"[1] {BRIDGE}", f"[2] {FERRY}")
    calls = (found(*documents(BRIDGE, FERRY)), reads(prompt, reply))
    cited = only(tree(*calls, answers=(Answer(answer),))).citations
    assert (None if cited is None else [one.contexts for one in cited]) == expected


def test_the_doubts_are_one_table_of_few_codes():
    table = doubts._TABLE
    assert len(table) <= 12
    for code, (grade, _, words) in table.items():
        assert grade in ("inferred", "incomplete"), code
        assert words, code


def test_work_grows_with_the_documents_and_not_with_their_square():
    """Eight times the documents take less than thirty times as long."""

    def seconds(n_documents: int) -> float:
        rng = random.Random(1)
        held = documents(*(sentence(rng) for _ in range(n_documents)))
        prompt = asked("\n".join(document.text for document in held[::2]))
        run = says(found(*held), reads(prompt))
        began = time.process_time()
        assert len(texts(only(run))) == len(held[::2])
        return time.process_time() - began

    seconds(20)
    few = min(seconds(40) for _ in range(3))
    assert min(seconds(320) for _ in range(3)) < 30 * few
