"""What a model of a run wrote is never evidence, whoever carries it; what was found beside it stays."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from own_words import (
    DOCUMENTS,
    FOUND,
    FOUND_PAGES,
    NAMED,
    PASSED,
    REPEATED,
    Passed,
    check_evidence,
    check_page,
)
from runs_by_hand import (
    FARO,
    PORTO,
    QUESTION,
    Call,
    F,
    P,
    asked,
    call,
    found,
    reads,
    says,
    step,
    tool,
)

from ragmetrics_core.capture import Document, Message, ToolCall, samples_of
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.data import Sample

law = settings(max_examples=examples(50))
TOLD = "Faro was founded in 1850 by Ida Holm, who came from the Azores."


def calls_of(each: Passed, number: int = 0) -> list[Call]:
    """A model passes a text to a tool, which gives it back in its way."""
    wish = ToolCall("note", {"text": each.text}, f"n{number}")
    documents = (Document(each.text, f"t{number}"), Document(each.page, f"p{number}"))
    fields: dict[str, Any] = {"query": each.text, "tool_call_id": f"n{number}"}
    if each.way == "documents":
        fields["documents"] = documents
    calls = [
        reads(QUESTION, Message("assistant", "", (wish,))),
        tool(each.told, name="note", **fields),
    ]
    return [*calls, found(*documents, query="?")] if each.way == "store" else calls


def sample_of(
    calls: Sequence[Call],
    *shown: str,
    named: frozenset[str] | None = None,
    question: str = QUESTION,
) -> Sample:
    prompt = [Message("user", question), *(Message("tool", text) for text in shown)]
    run = says(*calls, reads(prompt), question=question)
    (sample,) = samples_of(run, Overrides(context_tools=named))
    return sample


@pytest.mark.parametrize(
    ("prompt", "reply", "returned", "is_certain"),
    [
        (QUESTION, TOLD, TOLD, False),
        (QUESTION, "In 1850.", "In 1850.", False),
        (QUESTION, TOLD, f"Of the model: {TOLD}", False),
        (f"Cut out of this: {PORTO} {FARO}", PORTO, PORTO, True),
        (f"{PORTO} {FARO}", f"{PORTO}\n{FARO}", f"{PORTO}\n{FARO}", True),
        (f"Does it help? {PORTO}", "Yes", PORTO, True),
    ],
)
def test_what_a_model_inside_of_a_search_wrote_of_its_own_is_in_doubt(
    prompt, reply, returned, is_certain
):
    documents = (F, Document(returned, "w"))
    inside = reads(prompt, reply)
    search = call("retriever", inside, query=QUESTION, documents=documents)
    sample = sample_of([search], FARO, returned)
    assert sample.capture.doubts.get("by_data_flow") is None or not is_certain
    assert (sample.capture.grade == "exact") is is_certain


@pytest.mark.parametrize(
    ("told", "is_evidence"), [("Out of stock: Moby Dick", True), ("Moby Dick.", False)]
)
def test_a_named_tool_tells_more_than_its_argument_behind_a_label(told, is_evidence):
    wish = ToolCall("stock", {"title": "Moby Dick"}, "s")
    calls = [
        reads(QUESTION, Message("assistant", "", (wish,))),
        tool(told, name="stock", query="Moby Dick", tool_call_id="s"),
        found(F),
    ]
    sample = sample_of(calls, told, FARO, named=frozenset({"stock"}))
    texts = [context.text for context in sample.contexts]
    assert (told in texts) is is_evidence


@law
@given(passed=PASSED, named=NAMED)
def test_law_what_a_model_passed_in_never_comes_back_as_evidence(passed, named):
    calls: list[Call] = []
    shown = []
    for number, each in enumerate(passed):
        calls += calls_of(each, number)
        in_store = f"{each.text}\n{each.page}"
        shown.append(in_store if each.way in DOCUMENTS else each.told)
    check_evidence(sample_of(calls, *shown, named=named), passed)


@pytest.mark.parametrize("name", FOUND_PAGES)
def test_a_page_that_no_model_wrote_stays_as_it_is(name):
    question, argument, page = FOUND_PAGES[name]
    calls = calls_of(Passed("page", argument, page))
    check_page(
        sample_of(calls, page, named=frozenset({"note"}), question=question), page
    )


@pytest.mark.parametrize("way", FOUND)
def test_what_is_left_out_of_a_page_is_in_doubt(way):
    """A title may be what was asked: nobody knows who wrote it."""
    each = Passed(way, TOLD, PORTO)
    sample = sample_of(calls_of(each), each.told, named=frozenset({"note"}))
    assert sample.capture is not None
    assert sample.capture.unread_texts
    assert "repeats what a model passed" in "\n".join(sample.capture.warnings)
    assert sample.capture.grade == "inferred"


@pytest.mark.parametrize("names", [["Porto"], ["Porto", "Faro"]])
def test_a_found_name_that_was_asked_for_is_found(names):
    search = tool(str(names), name="note", query="Porto", result=names)
    sample = sample_of([search], *names, named=frozenset({"note"}))
    assert [context.text for context in sample.known_contexts] == names


def test_a_list_of_links_to_a_page_that_was_read_is_found():
    address = "https://docs.example.org/python/graph/quickstart"
    links = f"[Stores]({address}#stores) [Memory]({address}#memory)"
    calls = calls_of(Passed("page", address, PORTO))
    calls += calls_of(Passed("page", "pages on stores", links), 1)
    sample = sample_of(calls, PORTO, links, named=frozenset({"note"}))
    assert [context.text for context in sample.known_contexts] == [PORTO, links]


@pytest.mark.parametrize("way", REPEATED)
def test_a_tool_that_returns_only_what_was_passed_in_brings_nothing(way):
    each = Passed(way, TOLD, "")
    sample = sample_of(calls_of(each), each.told)
    assert sample.capture is not None
    assert sample.contexts is None
    assert set(sample.capture.doubts) == {"no_search"}


@pytest.mark.parametrize("named", [None, frozenset({"note"})])
def test_a_tool_that_returned_only_what_was_passed_in_stays_a_call_of_the_ledger(named):
    each = Passed(next(iter(REPEATED)), TOLD, "")
    sample = sample_of([*calls_of(each), found(P)], each.told, PORTO, named=named)
    kinds = [call.kind for call in sample.ledger.calls]
    assert kinds == ["written", "retrieval"]


def replied(*texts: str) -> Call:
    first, *others = (Message("assistant", text) for text in texts)
    return reads("Write a page.", first, other_replies=tuple(others))


@pytest.mark.parametrize(
    "wrote",
    [replied(TOLD), replied("Faro it is.", TOLD), replied(f'{{"pages": ["{TOLD}"]}}')],
    ids=["reply", "second reply", "field of a reply"],
)
def test_a_document_made_of_a_reply_is_no_evidence(wrote):
    calls = (wrote, step(Document(TOLD)), found(P), reads(asked(TOLD, PORTO)))
    (sample,) = samples_of(says(*calls))
    assert [context.text for context in sample.known_contexts] == [PORTO]
    assert [context.text for context in sample.retrieved or ()] == [PORTO]


_WORDS = ("essays", "yes", "1874", "the", "Douro", "which", "response", "question", "o")
REPLIES = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4).map(" ".join)
FRAMES = st.sampled_from(
    ["Sub question: {} \nResponse: {}.", "\nQuestion: {}\nAnswer: {}", "{} {}!"]
)


@law
@given(asks=REPLIES, replies=st.lists(REPLIES, min_size=2, max_size=2), frame=FRAMES)
def test_law_what_an_engine_answered_is_no_evidence_however_short(asks, replies, frame):
    """Its question may hold the words of its answer, which is handed on beside it."""
    engines, parts = [], []
    for page, city, reply in zip((P, F), ("Porto", "Faro"), replies, strict=True):
        query = f"{asks} of {city}?"
        reads_page = reads(asked(page.text), reply)
        inside = [found(page, query=query), reads_page]
        engines.append(call("agent", *inside, query=query, text=reply))
        parts.append(Document(frame.format(query, reply), f"part {page.id}"))
    prompt = "\n".join([*(part.text for part in parts), QUESTION])
    last = step(inside=[reads(prompt)], input_documents=tuple(parts))
    (sample,) = samples_of(says(*engines, last))
    assert sample.capture.grade == "exact", sample.capture.doubts
    assert {context.text for context in sample.known_contexts} == {PORTO, FARO}
    kinds = [each.kind for each in sample.ledger.calls]
    assert sorted(kinds) == ["retrieval", "retrieval", "written", "written"]


@pytest.mark.parametrize("frame", ["{}", "Summary 1: {}"])
@pytest.mark.parametrize("is_taken", [True, False])
def test_a_document_that_says_a_reply_of_a_word_is_hedged(is_taken, frame):
    """It may be found, too."""
    text = frame.format("Porto.")
    taken = {"input_documents": (Document(text, "x"),)} if is_taken else {}
    made = step(*[Document(text, "x")] * (not is_taken), **taken)
    calls = [found(P), reads(PORTO, "Porto."), made]
    run = says(*calls, reads(f"{text}\n{PORTO}\n{QUESTION}"))
    (sample,) = samples_of(run)
    assert text in [context.text for context in sample.known_contexts]
    assert "by_data_flow" in sample.capture.doubts


@pytest.mark.parametrize("verdict", ["Yes.", "relevant"])
def test_a_verdict_of_a_word_makes_no_document_written(verdict):
    """Nor does a query: a step that searches may find a page of such a word."""
    page = Document(f"Open on Sundays: {verdict}", "x")
    calls = [found(P), reads(PORTO, verdict), step(page, name="web")]
    (sample,) = samples_of(says(*calls, reads(f"{page.text}\n{PORTO}\n{QUESTION}")))
    texts = [context.text for context in sample.known_contexts]
    assert sorted(texts) == sorted([page.text, PORTO])


def test_documents_that_nobody_brought_count_where_the_user_named_contexts():
    written = Document("A page that a step made of the notes that it had kept.", "x")
    last = step(
        inside=[reads(f"{written.text}\n{QUESTION}")], input_documents=(written,)
    )
    run = says(found(P), last)
    for named, kinds in (
        ([PORTO], ["retrieval"]),
        ([PORTO, written.text], ["retrieval", "given"]),
    ):
        named_by = Overrides(contexts_from=lambda _, texts=named: texts)
        (sample,) = samples_of(run, named_by)
        assert [each.kind for each in sample.ledger.calls] == kinds


def test_what_was_found_before_a_model_quoted_it_stays_evidence():
    """Whether it is found again, or comes back in a text that a tool repeats."""
    draft = f"The archive says: {PORTO} Nothing more is known of this."
    note = calls_of(Passed("label", draft, ""))
    sample = sample_of([found(P), *note, found(P, F)], PORTO, draft, f"{PORTO}\n{FARO}")
    assert [context.text for context in sample.known_contexts] == [PORTO, FARO]
    kinds = [(each.kind, len(each.items)) for each in sample.ledger.calls]
    assert kinds == [("retrieval", 1), ("written", 1), ("retrieval", 2)]


# an argument, what the tool returns, and whether it brings that as evidence
RESULTS = {
    "a name in a sentence": ("Évora do Alentejo", "12 °C in Évora do Alentejo", True),
    "a name as a title": ("Évora do Alentejo", "Évora do Alentejo: 12 °C", True),
    "a number": ("1882", "In 1882 the mill was sold.", True),
    "one word": ("Porto", PORTO, True),
    "a question with its answer": (
        "When does it open?",
        "When does it open? At ten.",
        True,
    ),
    "a word that is repeated": ("Porto", "Porto", False),
    "a word behind a label": ("Porto", "Out of stock: Porto", True),
    "a word behind a number": ("Porto", "In 1882: Porto", True),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_short_argument_makes_no_result_written(name):
    argument, result, is_evidence = RESULTS[name]
    calls = [tool(result, name="look", query=argument)]
    ledger = sample_of(calls, result).ledger
    (only,) = ledger.calls
    assert only.kind == ("tool" if is_evidence else "written")
    assert [item.text for item in only.items] == [result]


def test_a_name_behind_a_label_is_told_beside_another_search():
    """It may be what was looked up: without it "Out of stock" would be made up."""
    told = "Out of stock: Moby Dick"
    calls = [tool(told, name="stock", query="Moby Dick"), found(F)]
    sample = sample_of(calls, told, FARO)
    assert sample.capture.grade == "inferred"
    assert set(sample.capture.doubts) == {"undivided"}
    kinds = [each.kind for each in sample.ledger.calls]
    assert sorted(kinds) == ["retrieval", "tool"]


def test_what_a_model_gave_to_a_tool_in_an_earlier_turn_is_no_evidence():
    """The prompt still shows the call, and a store still holds what it got."""
    earlier = Message("assistant", "", (ToolCall("save", {"text": TOLD}, "1"),))
    shown = [earlier, Message("tool", "Done."), Message("user", QUESTION)]
    stored = Document(TOLD, "note")
    run = says(
        reads(shown, Message("assistant", "", (ToolCall("find", {}, "2"),))),
        tool(f"{TOLD}\n{PORTO}", call("retriever", query="?", documents=(stored, P))),
        reads([*shown, Message("tool", f"{TOLD}\n{PORTO}")]),
    )
    (sample,) = samples_of(run)
    assert [context.text for context in sample.known_contexts] == [PORTO]
