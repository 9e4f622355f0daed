"""Which of several rerankers and filters dropped a passage, on a neutral tree of calls."""

from collections.abc import Callable, Sequence

import pytest

from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.data import PassageNote

QUESTION = "Which city lies on the Douro?"
DOCS = tuple(
    Document(f"Passage {name}: {text}", name)
    for name, text in (
        ("p", "Porto lies on the Douro, in the north of Portugal."),
        ("f", "Faro is the southernmost city; its airport serves the Algarve."),
        ("e", "Evora keeps a Roman temple inside its medieval walls."),
    )
)
P, F, E = DOCS


def run(
    *steps: Callable[[float], Node], found: Sequence[Document] = DOCS
) -> Sequence[PassageNote]:
    """What a run notes: a search for all three, then these steps, one after the other."""
    search = Node(
        "retriever", "search", 1.0, 1.5, query=QUESTION, documents=tuple(found)
    )
    nodes = [search, *(step(float(at)) for at, step in enumerate(steps, start=2))]
    root = Node("step", "chain", 0.0, 99.0, children=nodes)
    (sample,) = samples_of(Tree(root, question=QUESTION))
    assert sample.capture.passages is not None
    return sample.capture.passages


def keeps(
    name: str, gave: Sequence[Document], took: Sequence[Document] = DOCS
) -> Callable[[float], Node]:
    return lambda at: Node(
        "reranker",
        name,
        at,
        at + 0.5,
        input_documents=tuple(took),
        documents=tuple(gave),
    )


def answers(*shown: Document) -> Callable[[float], Node]:
    prompt = "\n".join([*(one.text for one in shown), QUESTION])
    return lambda at: Node(
        "model",
        "llm",
        at,
        at + 0.5,
        prompt=(Message("user", prompt),),
        reply=Message("assistant", "It is Porto, in the north."),
    )


def told(notes: Sequence[PassageNote]) -> list[tuple[bool | None, str | None]]:
    return [(note.kept, note.dropped_by) for note in notes]


ROWS: dict[
    str, tuple[list[Callable[[float], Node]], list[tuple[bool | None, str | None]]]
] = {
    "none": ([answers(P)], [(None, None)] * 3),
    "one": (
        [keeps("first", (F, P)), answers(P)],
        [(True, None), (True, None), (False, "first")],
    ),
    "one behind the other": (
        [keeps("first", (F, P)), keeps("second", (P,), took=(F, P)), answers(P)],
        [(True, None), (False, "second"), (False, "first")],
    ),
    "beside each other": (
        [keeps("first", (P,)), keeps("second", (F,)), answers(P, F)],
        [(True, None), (True, None), (None, None)],
    ),
    "one that drops all": ([keeps("first", ()), answers()], [(False, "first")] * 3),
    "one behind the answer": (
        [keeps("first", (P, F, E)), answers(P, F, E), keeps("late", (P,))],
        [(True, None)] * 3,
    ),
    "one of which nobody knows what it took": (
        [keeps("first", (P,), took=()), answers(P)],
        [(None, None)] * 3,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_dropped_a_passage_is_named(name):
    steps, expected = ROWS[name]
    assert told(run(*steps)) == expected


def test_contexts_that_the_user_names_tell_which_passages_were_shown():
    """The prompt shows another passage as well. What is not named is no warning."""
    search = searches(P, F, E)(1.0)
    root = Node("step", "chain", 0.0, 99.0, children=[search, answers(P, F)(2.0)])
    tree = Tree(root, question=QUESTION)
    named = Overrides(contexts_from=lambda *_: [P.text])
    (sample,) = samples_of(tree, named)
    assert sample.capture.evidence_from == "named"
    notes = sample.capture.passages or ()
    told_of_contexts = [(note.context, note.share) for note in notes]
    assert told_of_contexts == [(0, 1.0), (None, None), (None, 0.0)]
    assert sample.capture.warnings == ()


@pytest.mark.parametrize("name", ["other", ""])
def test_a_passage_has_the_name_and_the_rank_of_the_search_that_found_it_first(name):
    notes = run(searches(F, P, name=name), answers(P, F), found=(E, P))
    told_of_searches = [(note.retriever, note.rank) for note in notes]
    assert told_of_searches == [("search", 1), ("search", 2), (name, 1)]


# a dropped text, and a text that is handed on and begins or ends with its letters
FARE, RISE = (
    "The fare of line four for adults is ",
    " saw the fare rise to nine crowns.",
)
ALIKE = {  # the dropped text, and the kept one that begins or ends with it
    "a number": (f"{FARE}12", f"{FARE}125"),
    "a number, full stop": (f"{FARE}12.", f"{FARE}125."),
    "a decimal number": (
        "stop: Harbour\nline: 4\nfare: 12",
        "stop: Harbour\nline: 4\nfare: 12.50",
    ),
    "a short row": (
        "line: 4\nstop: Harbour\nfare: 12",
        "line: 4\nstop: Harbour\nfare: 125",
    ),
    "a word": (f"{FARE}four", f"{FARE}fourteen"),
    "its end": (f"2024{RISE}", f"12024{RISE}"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_dropped_text_with_which_a_kept_one_begins_or_ends_is_dropped(name):
    dropped, kept = (
        Document(text, text_id) for text, text_id in zip(ALIKE[name], "ab", strict=True)
    )
    found = (dropped, kept, P)
    notes = run(keeps("first", (kept, P), took=found), answers(kept, P), found=found)
    assert told(notes) == [(False, "first"), (True, None), (True, None)]
    assert [note.share for note in notes] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_near_copy_of_what_is_shown_is_not_shown(*, has_metadata):
    """The heading that a framework writes above a text makes no other text of it."""
    texts = {
        f"{year}.md": f"Fares of {year}: a seat on the night ferry to Porto costs"
        " 38 crowns, a cabin for two 96."
        for year in (2019, 2026)
    }
    old, new = (
        Document(f"file_name: {name}\n\n{text}", name, forms=(text,))
        if has_metadata
        else Document(text, name)
        for name, text in texts.items()
    )
    notes = run(answers(new), found=(old, new))
    assert [note.share for note in notes] == [0.0, 1.0]


def test_ranks_of_search_and_reranker():
    notes = run(keeps("first", (E, P)), answers(E, P))
    assert [(note.retriever, note.rank, note.rank_kept) for note in notes] == [
        ("search", 1, 2),
        ("search", 2, None),
        ("search", 3, 1),
    ]
    assert [(note.context, note.share) for note in notes] == [
        (1, 1.0),
        (None, 0.0),
        (0, 1.0),
    ]


def test_results_of_two_last_steps_have_no_common_ranks():
    notes = run(keeps("first", (P, F)), keeps("second", (F,)), answers(P, F))
    assert [note.kept for note in notes] == [True, True, False]


def test_what_is_shown_is_told_in_part():
    notes = run(answers(Document(P.text[:50])))
    assert notes[0].context == 0
    assert notes[0].share is not None
    assert 0.6 < notes[0].share < 0.95


def plain_step(
    handed: Sequence[Document], passed_on: Sequence[Document]
) -> Callable[[float], Node]:
    return lambda at: Node(
        "step",
        "node",
        at,
        at + 0.5,
        documents_among_inputs=tuple(handed),
        documents_passed_on=tuple(passed_on),
    )


def test_of_two_texts_that_overlap_the_one_that_was_not_returned_is_dropped():
    """A step keeps the shorter of two, and a reranker drops that one."""
    longer = Document(f"{P.text} It is the second city of the country.", "page")
    found = (P, F, longer)
    dedupe = plain_step(found, [P, F])
    rerank = keeps("rerank", (F,), took=(P, F))
    notes = run(dedupe, rerank, answers(F), found=found)
    assert told(notes) == [(False, "rerank"), (True, None), (False, "node")]
    notes = run(dedupe, answers(P, F), found=found)
    assert [note.share for note in notes] == [1.0, 1.0, 0.0]


def empties(
    name: str, took: Sequence[Document] = DOCS, seconds: float = 0.5
) -> Callable[[float], Node]:
    """A step that returns an empty list in the place of its documents."""
    return lambda at: Node(
        "step", name, at, at + seconds, documents_among_inputs=tuple(took), documents=()
    )


def searches(*found: Document, name: str = "again") -> Callable[[float], Node]:
    return lambda at: Node(
        "retriever", name, at, at + 0.5, query=QUESTION, documents=found
    )


def test_what_a_later_search_finds_again_was_dropped_before():
    """A grader drops all; a second search finds some of these again, and the prompt shows them."""
    grade = empties("grade")
    generate = plain_step((P, F), ())
    notes = run(grade, searches(P, F), generate, answers(P, F))
    assert notes[2].dropped_by in ("grade", None)
    assert [note.share for note in notes] == [1.0, 1.0, 0.0]
    # no search found them again: the state still held all of them
    notes = run(grade, generate, answers(P, F))
    assert not any(note.dropped_by for note in notes)


def test_an_empty_list_beside_the_way_into_the_prompt_drops_nothing():
    """Of three calls that take the same documents, one picks their pictures: there are none."""
    pictures = empties("pictures", seconds=0.2)
    write = plain_step(DOCS, ())
    parallel: Callable[[float], Node] = lambda at: Node(  # noqa: E731 - one expression
        "step", "parallel", at, at + 0.9, children=[write(at), pictures(at + 0.6)]
    )
    notes = run(parallel, answers(P, F))
    assert not any(note.kept is False for note in notes)


SHOWN = [(True, None), (None, None), (None, None)]
DROPPED = [(True, None), (False, "node"), (False, "node")]


@pytest.mark.parametrize(
    ("handed_later", "shown", "expected"),
    [
        # what it passed on went on, and nothing else did
        ((P,), (P,), DROPPED),
        # the state keeps all of them: the prompt shows the one that the step picked
        (DOCS, (P,), DROPPED),
        # the prompt shows one that it did not pick, too
        (DOCS, (P, F), SHOWN),
        # the prompt shows no more than what it picked
        ((), (P,), DROPPED),
    ],
)
def test_a_plain_step_is_a_filter_if_what_it_left_out_went_no_further(
    handed_later, shown, expected
):
    steps = [plain_step(DOCS, [P]), plain_step(handed_later, []), answers(*shown)]
    assert told(run(*steps)) == expected


def test_where_no_prompt_is_known_nobody_knows_what_was_shown():
    """LlamaIndex's mode "generation" asks the model without what was found."""
    search = Node("retriever", "search", 1.0, 1.5, query=QUESTION, documents=DOCS)
    root = Node("step", "engine", 0.0, 99.0, children=[search])
    tree = Tree(root, question=QUESTION, flow_documents=())
    (sample,) = samples_of(tree)
    assert sample.capture.evidence_from == "flow"
    assert [note.share for note in sample.capture.passages or ()] == [None] * 3


def rewrites(at: float) -> Node:
    """A step that returns the first passage as it is, and two others in its own words."""
    rewritten = (Document("A southern town.", "x"), Document("A Roman town.", "y"))
    return Node(
        "step", "shorten", at, at + 0.5, input_documents=DOCS, documents=(P, *rewritten)
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [((P,), [1.0, None, None]), ((P, Document("A southern town.")), [1.0, None, None])],
)
def test_a_rewritten_passage_may_be_shown_only_if_a_rewritten_text_is(shown, expected):
    notes = run(rewrites, answers(*shown))
    assert [note.share for note in notes[:3]] == expected


def test_a_duplicate_that_a_later_step_was_given_has_a_fate_of_its_own():
    copies = [P, Document(P.text, "p2"), F]
    notes = run(
        plain_step(copies, [P, F]),
        keeps("first", [F], took=[P, F]),
        keeps("second", [copies[1]], took=[copies[1]]),
        answers(F, copies[1]),
        found=copies,
    )
    assert [note.kept for note in notes][1] is True
    assert notes[1].share == 1.0


FERRY = "The ferry crosses the Douro twice an hour, from six in the morning on."
FARES = "A single ticket is two euros, and bicycles are carried free of charge."


@pytest.mark.parametrize("n_sentences", [1, 2])
def test_a_share_is_one_of_the_document_and_not_of_the_text_that_a_step_made_of_it(
    n_sentences,
):
    """The step kept some sentences of it, and the prompt shows all of these."""
    whole = Document(f"{FERRY} {FARES}", "x")
    made = Document(" ".join([FERRY, FARES][:n_sentences]), "x")

    def cuts(at: float) -> Node:
        return Node(
            "step", "cut", at, at + 0.5, input_documents=(whole, F), documents=(made,)
        )

    first, second = run(cuts, answers(made), found=(whole, F))
    kept = len(made.text.replace(" ", "")) / len(whole.text.replace(" ", ""))
    assert first.share in (None, pytest.approx(kept, abs=0.02))
    assert second.share == 0.0
