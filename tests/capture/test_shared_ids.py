"""An id names a document only together with its text: two stores may count from "0".

The same holds in the frameworks' own classes (tests of the adapters) and here, on a
neutral tree, as laws.
"""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Sample
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of

QUESTION = "What is told of the towns of the coast?"
TEXTS = (
    "Porto lies on the Douro, in the north of Portugal, and ships its wine by river.",
    "Faro is the southernmost city of the country; its airport serves the Algarve.",
    "Evora keeps a Roman temple inside its medieval walls, and a chapel of bones.",
    "Braga counts more churches than any other town, the oldest of them from 1089.",
    "Tomar was the seat of the Templars, whose round church stands on the hill still.",
)
FOUND = st.lists(
    st.builds(Document, st.sampled_from(TEXTS), st.sampled_from(["0", "1", "2", None])),
    max_size=4,
    unique_by=lambda document: (document.id, document.text),
)
Search = Sequence[Document]


def retriever(number: int, found: Search, inside: Sequence[Node] = ()) -> Node:
    began = 2.0 * number
    return Node(
        "retriever",
        f"store {number}",
        began,
        began + 1.5,
        query=QUESTION,
        documents=tuple(found),
        children=list(inside),
    )


REPLY = "Each of them has a story that is worth telling."


def run(
    searches: Sequence[Node], shown: Search, *steps: Node, reply: str = REPLY
) -> Sample:
    """The sample of a run that searches, and shows some documents to a model."""
    prompt = "\n\n".join([*(document.text for document in shown), QUESTION])
    model = Node(
        "model",
        "llm",
        90.0,
        91.0,
        prompt=(Message("user", prompt),),
        reply=Message("assistant", reply),
    )
    root = Node("step", "chain", 0.0, 99.0, children=[*searches, *steps, model])
    (sample,) = samples_of(Tree(root, question=QUESTION))
    return sample


def pairs(documents: Sequence[object]) -> list[tuple[str | None, str]]:
    return [(document.id, document.text) for document in documents]  # type: ignore[attr-defined]  # Document or Context


@given(st.lists(FOUND, min_size=1, max_size=4), st.data())
def test_whatever_a_search_returned_is_among_the_retrieved(lists, data):
    found = [document for documents in lists for document in documents]
    shown = data.draw(
        st.lists(st.sampled_from(found), unique_by=lambda one: one.text)
        if found
        else st.just([])
    )
    searches = [retriever(number, found) for number, found in enumerate(lists, 1)]
    sample = run(searches, shown)
    assert sample.retrieved is not None
    assert set(pairs(sample.retrieved)) == set(pairs(found))
    listed = [item for call in sample.ledger.calls for item in call.items]
    assert set(pairs(found)) <= set(pairs(listed))
    if shown:
        assert [context.text for context in sample.known_contexts] == [
            document.text for document in shown
        ]
        assert set(pairs(sample.contexts)) <= set(pairs(sample.retrieved))
        assert sample.capture.passages is not None
        for document, note in zip(
            sample.retrieved, sample.capture.passages, strict=True
        ):
            is_shown = document.text in {one.text for one in shown}
            assert (note.share or 0.0) == (1.0 if is_shown else 0.0)


@given(FOUND, FOUND)
def test_a_reranker_keeps_what_it_gave_of_two_stores(first, second):
    taken = [*first, *(document for document in second if document not in first)]
    gave = taken[::2]
    reranker = Node(
        "reranker",
        "ranker",
        50.0,
        51.0,
        input_documents=tuple(taken),
        documents=tuple(gave),
    )
    sample = run([retriever(1, first), retriever(2, second)], gave, reranker)
    assert sample.retrieved is not None
    assert sample.capture is not None
    texts_given = {document.text for document in gave}
    for document, note in zip(
        sample.retrieved, sample.capture.passages or (), strict=True
    ):
        if document.text not in texts_given:
            assert (note.kept, note.dropped_by) in ((False, "ranker"), (None, None))
        elif (document.id, document.text) in pairs(gave):
            assert note.kept is True


def test_documents_handed_in_share_no_id_with_what_was_found():
    handed_in = Document(TEXTS[0], "0")
    found = Document(TEXTS[1], "0")
    model = Node(
        "model",
        "llm",
        5.0,
        6.0,
        prompt=(Message("user", f"{TEXTS[0]}\n\n{QUESTION}"),),
        reply=Message("assistant", "Porto lies on the Douro, as everybody knows."),
    )
    children = [retriever(1, [found]), model]
    root = Node(
        "step", "chain", 0.0, 9.0, input_documents=(handed_in,), children=children
    )
    (sample,) = samples_of(Tree(root, question=QUESTION))
    assert {call.kind for call in sample.ledger.calls} == {"given", "retrieval"}
    (note,) = sample.capture.passages or ()
    assert (note.context, note.share) == (None, 0.0)


def test_a_step_that_searches_unseen_adds_a_document_of_a_known_id():
    found, by_hand = Document(TEXTS[0], "0"), Document(TEXTS[1], "0")
    step = Node(
        "step",
        "search by hand",
        20.0,
        21.0,
        input_documents=(found,),
        documents=(found, by_hand),
    )
    sample = run([retriever(1, [found])], [found, by_hand], step)
    assert pairs(sample.retrieved or ()) == [("0", TEXTS[0]), ("0", TEXTS[1])]


def test_a_tool_that_cuts_what_was_found_before_brings_no_other_document():
    found, cut = Document(TEXTS[0], "0"), Document(TEXTS[0][:50], "0")
    tool = Node("tool", "shorten", 20.0, 21.0, documents=(cut,), text=cut.text)
    sample = run([retriever(1, [found])], [cut], tool)
    assert pairs(sample.retrieved or ()) == [("0", TEXTS[0])]
