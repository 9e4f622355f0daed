"""Laws of capture over generated runs: what a run is called, in which order it is listed or what ran beside it."""

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import FrameType
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
    samples_of,
)
from ragmetrics_core.data import Turn
from ragmetrics_core.data.sample import Sample

QUESTION = "Which town has an iron bridge, and when does its ferry go?"
REPLY = "It is Velm; its ferry goes every hour."
SEEDS = st.integers(0, 2**32)
law = settings(max_examples=50)


@dataclass
class Run:
    """A generated run: what its retrievers returned, in order, and what the prompt showed."""

    tree: Tree
    returned: list[list[Document]]
    shown: list[Document]
    cut: bool = False
    made: dict[str, Any] = field(default_factory=dict)


class Clock:
    """Moments that rise."""

    def __init__(self) -> None:
        self._moments = itertools.count(1)

    def __call__(self) -> int:
        return next(self._moments)


def sentence(rng: random.Random, count: int = 12) -> str:
    return (
        " ".join(
            "".join(rng.choices("etaoinshrdluvmcp", k=rng.randint(3, 9)))
            for _ in range(count)
        )
        + "."
    )


def pages(rng: random.Random, count: int) -> list[Document]:
    """Documents of which some are alike, as pages of a catalogue are, and one may be a part of another."""
    beginning, end = sentence(rng, 8), sentence(rng, 8)
    kinds: list[Callable[[], str]] = [
        lambda: sentence(rng),
        lambda: f"{beginning} {sentence(rng, 6)}",
        lambda: f"{sentence(rng, 6)} {end}",
    ]
    return [
        Document(rng.choice(kinds)(), f"d{number}", 1 - number / 100)
        for number in range(count)
    ]


def retriever(
    clock: Clock, documents: list[Document], query: str, name: str = "retriever"
) -> Node:
    return Node(
        "retriever", name, clock(), clock(), query=query, documents=tuple(documents)
    )


def model(clock: Clock, prompt: str, reply: str = REPLY) -> Node:
    said = Message("assistant", reply)
    return Node(
        "model",
        "model",
        clock(),
        clock(),
        prompt=(Message("user", prompt),),
        reply=said,
        model="m",
    )


def step(
    clock: Clock, make: Callable[[], list[Node]], name: str = "step", **fields: Any
) -> Node:
    node = Node("step", name, clock(), **fields)
    node.children = make()
    node.ended = clock()
    return node


def generated(seed: int, *, cut: bool = False) -> Run:
    """One to three searches, some inside of steps, then a model that is shown some of what was found, in any order."""
    rng, clock = random.Random(seed), Clock()
    known = pages(rng, rng.randint(1, 8))
    returned = [
        rng.sample(known, rng.randint(1, len(known))) for _ in range(rng.randint(1, 3))
    ]
    found = list({one.id: one for some in returned for one in some}.values())
    shown = rng.sample(found, rng.randint(1, len(found)))
    texts = [
        one.text[: rng.randint(70, 90)] if cut and rng.random() < 0.4 else one.text
        for one in shown
    ]
    prompt = "Use only this:\n" + "\n\n".join(texts) + f"\n\nQuestion: {QUESTION}"

    def searches() -> list[Node]:
        made = []
        for some in returned:
            search = lambda some=some: [retriever(clock, some, QUESTION)]  # noqa: E731  # made when the clock says
            made += [step(clock, search)] if rng.random() < 0.5 else search()
        return made

    root = step(
        clock,
        lambda: [*searches(), step(clock, lambda: [model(clock, prompt)])],
        "chain",
    )
    tree = Tree(root, question=QUESTION, answers=(Answer(REPLY),))
    return Run(tree, returned, shown, cut)


def only_sample(tree: Tree) -> Sample:
    (sample,) = samples_of(tree)
    return sample


def facts(sample: Sample) -> dict[str, Any]:
    """A sample without what names of steps and moments are bound to change."""
    said = sample.model_dump()
    said["ledger"].pop("conversation")
    return said


def nodes(root: Node) -> Iterator[Node]:
    yield root
    for child in root.children:
        yield from nodes(child)


def changed(tree: Tree, change: Callable[[Node], None]) -> Tree:
    """A copy of a run with every call changed."""
    copy = deepcopy(tree)
    for node in list(nodes(copy.root)):
        change(node)
    return copy


@law
@given(SEEDS)
def test_contexts_are_the_documents_shown_in_the_order_shown(seed):
    run = generated(seed)
    sample = only_sample(run.tree)
    assert [one.id for one in sample.known_contexts] == [one.id for one in run.shown]
    assert [one.text for one in sample.known_contexts] == [
        one.text for one in run.shown
    ]


@law
@given(SEEDS, st.booleans())
def test_retrieved_is_what_the_retrievers_returned_ids_and_order(seed, cut):
    """Whatever the prompt shows of it, whole or cut, in whatever order."""
    run = generated(seed, cut=cut)
    sample = only_sample(run.tree)
    expected = list({one.id: one for some in run.returned for one in some}.values())
    assert [(one.id, one.text, one.score) for one in sample.retrieved] == [
        (d.id, d.text, d.score) for d in expected
    ]
    listed = [[item.id for item in call.items] for call in sample.ledger.calls]
    assert listed == [[one.id for one in some] for some in run.returned]


@law
@given(SEEDS)
def test_the_ledger_tells_which_items_were_shown(seed):
    run = generated(seed)
    sample = only_sample(run.tree)
    ids = {one.id for one in run.shown}
    told = [call.shown for call in sample.ledger.calls]
    assert told == [
        tuple(n for n, one in enumerate(some) if one.id in ids) for some in run.returned
    ]


@law
@given(SEEDS, st.booleans())
def test_names_of_steps_change_nothing(seed, cut):
    run, rng = generated(seed, cut=cut), random.Random(f"{seed} beside")

    def rename(node: Node) -> None:
        if node.kind == "step":
            node.name = rng.choice(
                [
                    "answer",
                    "retrieve",
                    "LLM",
                    "llm_chain",
                    "grade",
                    "query",
                    "",
                    "RunnableSequence",
                ]
            )

    assert facts(only_sample(changed(run.tree, rename))) == facts(only_sample(run.tree))


@law
@given(SEEDS, st.booleans())
def test_the_order_in_which_calls_are_listed_changes_nothing(seed, cut):
    run, rng = generated(seed, cut=cut), random.Random(f"{seed} beside")
    shuffled = changed(run.tree, lambda node: rng.shuffle(node.children))
    assert facts(only_sample(shuffled)) == facts(only_sample(run.tree))


@law
@given(
    SEEDS,
    st.booleans(),
    st.sampled_from([lambda t: t / 7, lambda t: t * 1e6 + 3, lambda t: t**2]),
)
def test_other_moments_in_the_same_order_change_nothing(seed, cut, moment):
    run = generated(seed, cut=cut)

    def move(node: Node) -> None:
        node.began = moment(node.began)
        node.ended = None if node.ended is None else moment(node.ended)

    assert facts(only_sample(changed(run.tree, move))) == facts(only_sample(run.tree))


@law
@given(SEEDS, st.booleans())
def test_a_step_around_every_call_changes_nothing(seed, cut):
    run = generated(seed, cut=cut)

    def wrap(node: Node) -> None:
        node.children = [
            Node(
                "step",
                "wrapper",
                child.began - 0.1,
                (child.ended or child.began) + 0.1,
                [child],
            )
            for child in node.children
        ]

    assert facts(only_sample(changed(run.tree, wrap))) == facts(only_sample(run.tree))


@law
@given(SEEDS, st.booleans(), st.integers(1, 3))
def test_a_retriever_beside_whose_documents_nobody_is_shown_changes_no_context(
    seed, cut, count
):
    run, rng = generated(seed, cut=cut), random.Random(f"{seed} beside")
    strangers = [
        Document(sentence(rng), f"stranger {number}") for number in range(count)
    ]
    other = deepcopy(run.tree)
    moment = rng.choice([0.3, *(node.began + 0.3 for node in other.root.children)])
    other.root.children.append(
        Node(
            "retriever",
            "other",
            moment,
            moment + 0.2,
            query=QUESTION,
            documents=tuple(strangers),
        )
    )
    other.root.began = 0.1
    before, after = only_sample(run.tree), only_sample(other)
    assert before.capture is not None
    if before.capture.evidence_from == "flow":  # the last lists stand for the contexts
        assert before.capture.grade == "inferred"
        return
    assert after.contexts == before.contexts
    assert (after.question, after.answer) == (before.question, before.answer)
    assert after.standalone_question is None
    assert before.retrieved is not None
    kept = [one for one in after.retrieved if not str(one.id).startswith("stranger")]
    assert tuple(kept) == before.retrieved
    assert len(after.retrieved) == len(before.retrieved) + count
    assert after.capture.grade == before.capture.grade


@law
@given(SEEDS)
def test_searches_at_once_give_the_contexts_of_searches_one_after_another(seed):
    """As by threads: all begin before any ends."""
    run, rng = generated(seed), random.Random(f"{seed} beside")
    other = deepcopy(run.tree)
    ends = max(child.ended or 0 for child in other.root.children[:-1])
    for search in other.root.children[:-1]:
        search.ended = ends - rng.random() / 10
    assert only_sample(other).contexts == only_sample(run.tree).contexts
    assert only_sample(other).answer == REPLY


@law
@given(SEEDS)
def test_messages_before_the_prompt_that_show_none_of_it_change_nothing(seed):
    run, rng = generated(seed), random.Random(f"{seed} beside")
    before = (
        Message("system", sentence(rng)),
        Message("user", sentence(rng)),
        Message("assistant", sentence(rng)),
    )

    def talk(node: Node) -> None:
        if node.kind == "model":
            node.prompt = (*before, *node.prompt)

    assert (
        only_sample(changed(run.tree, talk)).contexts == only_sample(run.tree).contexts
    )


@law
@given(SEEDS, st.sampled_from(["assistant", "tool", "user"]))
def test_an_earlier_message_that_shows_documents_changes_no_order_of_this_turn(
    seed, role
):
    """The conversation quotes, in any order, what this turn's search found again."""
    run, rng = generated(seed), random.Random(f"{seed} beside")
    quoted = rng.sample(run.shown, rng.randint(1, len(run.shown)))
    earlier = (
        Message("user", "What is known of it?"),
        Message("assistant", "", (ToolCall("search", {"query": "it"}, "1"),)),
        Message(role, "\n\n".join(one.text for one in quoted)),
        Message("assistant", "That is what is known."),
    )

    def talk(node: Node) -> None:
        if node.kind == "model":
            node.prompt = (*earlier, *node.prompt)

    _assert_right_or_quoted(only_sample(changed(run.tree, talk)), run.shown)


@law
@given(SEEDS, st.booleans(), st.sampled_from(["{}", "As I said, {} indeed."]))
def test_a_history_printed_in_the_prompt_shows_no_document_that_an_answer_quotes(
    seed, is_history_read, frame
):
    """The history is known as turns, or as texts that say nothing of who speaks."""
    run, rng = generated(seed), random.Random(f"{seed} quoted")
    quoted = rng.choice([document for listed in run.returned for document in listed])
    texts = [f"What about {sentence(rng, 5)}?", frame.format(quoted.text)]

    def talk(node: Node) -> None:
        if node.kind == "model":
            printed = "Before:\n" + "\n".join(texts)
            node.prompt = (Message("user", f"{printed}\n{node.prompt[0].text}"),)

    tree = changed(run.tree, talk)
    if is_history_read:
        tree.history = (
            Turn(role="user", content=texts[0]),
            Turn(role="assistant", content=texts[1]),
        )
    else:
        tree.instructions = tuple(texts)
    _assert_right_or_quoted(only_sample(tree), run.shown)


def _assert_right_or_quoted(sample: Sample, shown: Sequence[Document]) -> None:
    """The contexts are right unless a text of theirs is said to be quoted."""
    doubts = set(sample.capture.doubts)
    assert doubts <= {"short_text", "history_unread", "by_data_flow"}
    if "short_text" not in doubts:
        ids = [context.id for context in sample.known_contexts]
        assert ids == [document.id for document in shown]


@law
@given(SEEDS)
def test_a_document_shown_twice_in_one_prompt_is_one_context(seed):
    run, rng = generated(seed), random.Random(f"{seed} beside")
    repeated = rng.choice(run.shown)

    def repeat(node: Node) -> None:
        if node.kind == "model":
            text = node.prompt[0].text.replace(
                "\n\nQuestion:", f"\n\n{repeated.text}\n\nQuestion:"
            )
            node.prompt = (Message("user", text),)

    sample = only_sample(changed(run.tree, repeat))
    assert [one.id for one in sample.known_contexts] == [one.id for one in run.shown]


def _failed(tree: Tree) -> None:
    tree.error = "ValueError()"


def _left(tree: Tree) -> None:
    tree.is_complete = False


def _without_answer(tree: Tree) -> None:
    tree.answers = ()
    tree.root.children.pop()


def _without_search(tree: Tree) -> None:
    tree.root.children = [
        node
        for node in tree.root.children
        if not any(inner.kind == "retriever" for inner in nodes(node))
    ]
    tree.root.kind = "agent"


def _without_prompt(tree: Tree) -> None:
    tree.root.children.pop()


def _with_unread_documents(tree: Tree) -> None:
    tree.n_without_text = 2


def _without_question(tree: Tree) -> None:
    tree.question = None


def _with_an_unended_search(tree: Tree) -> None:
    tree.root.children.append(Node("retriever", "late", tree.root.ended or 0))


def _with_a_tool_that_gave_nothing(tree: Tree) -> None:
    _without_search(tree)
    began = tree.root.children[0].began - 0.5
    tree.root.children.append(Node("tool", "empty", began, began, text=""))


# a loss, and the code of what is uncertain then
LOSSES = {
    _failed: "no_answer",
    _left: "no_answer",
    _without_answer: "no_answer",
    _without_search: "no_search",
    _without_prompt: "by_data_flow",
    _with_unread_documents: "not_recorded",
    _without_question: "question_guessed",
    _with_an_unended_search: "not_recorded",
    _with_a_tool_that_gave_nothing: "no_search",
}


@law
@given(SEEDS, st.sampled_from(list(LOSSES)), st.booleans())
def test_what_is_not_exact_says_why(seed, lose, cut):
    whole = generated(seed, cut=cut).tree
    lost = deepcopy(whole)
    lose(lost)
    for sample in samples_of(whole):
        assert sample.capture.grade == "exact" or sample.capture.doubts
    for sample in samples_of(lost):
        assert sample.capture.grade != "exact"
        assert LOSSES[lose] in sample.capture.doubts


@law
@given(SEEDS)
def test_without_a_question_nothing_is_exact(seed):
    run = generated(seed)

    def forget(node: Node) -> None:
        node.query = None

    asked = changed(run.tree, forget)
    sample = only_sample(replace(asked, question=None))
    assert sample.question is None or "question_guessed" in sample.capture.doubts
    assert sample.capture.grade in ("inferred", "incomplete")


# What capture costs


def _in_a_row(clock: Clock, searches: list[Callable[[], Node]]) -> list[Node]:
    return [search() for search in searches]


def _in_steps(clock: Clock, searches: list[Callable[[], Node]]) -> list[Node]:
    return [step(clock, lambda search=search: [search()]) for search in searches]  # type: ignore[misc]  # a default


def _in_tools(clock: Clock, searches: list[Callable[[], Node]]) -> list[Node]:
    made = []
    for number, search in enumerate(searches):
        node = Node(
            "tool", "search", clock(), tool_call_id=f"call {number}", query=QUESTION
        )
        node.children = [search()]
        node.ended = clock()
        node.text = "\n".join(one.text for one in node.children[0].documents or ())
        made.append(node)
    return made


def _at_once(clock: Clock, searches: list[Callable[[], Node]]) -> list[Node]:
    made = _in_a_row(clock, searches)
    last = clock()
    for number, node in enumerate(made):
        node.ended = last + number / (2 * len(made))
    return made


def _after_each_other_in_one_step(
    clock: Clock, searches: list[Callable[[], Node]]
) -> list[Node]:
    return [step(clock, lambda: _in_a_row(clock, searches))]


SHAPES = [_in_a_row, _in_steps, _in_tools, _at_once, _after_each_other_in_one_step]


def operations(tree: Tree) -> int:
    """How many operations of Python the samples of a run take."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        samples_of(tree)
    finally:
        sys.settrace(before)
    return count


def many_searches(count: int, shape: Any) -> Tree:
    clock, rng = Clock(), random.Random(count)
    documents = [Document(sentence(rng), f"d{number}") for number in range(count)]
    searches = [lambda one=one: retriever(clock, [one], QUESTION) for one in documents]
    prompt = "\n".join(one.text for one in documents[:5]) + QUESTION
    root = step(clock, lambda: [*shape(clock, searches), model(clock, prompt)], "chain")
    return Tree(root, question=QUESTION, answers=(Answer(REPLY),))


@pytest.mark.nightly
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_as_many_retrievals_take_twice_the_operations(shape):
    samples_of(many_searches(3, shape))  # imports and compiled patterns do not count
    first, second, third = (
        operations(many_searches(count, shape)) for count in (20, 40, 80)
    )
    assert third - second <= 2.6 * (second - first)


def many_cut(count: int) -> Tree:
    """A search found many documents, and a step handed on a part of each."""
    clock = Clock()
    documents = [
        Document(f"Bridge {number} was opened by engineer {number * 7919} in spring.")
        for number in range(count)
    ]
    cut = tuple(Document(one.text[:-11]) for one in documents)
    root = step(
        clock,
        lambda: [
            retriever(clock, documents, QUESTION),
            Node("step", "cut", clock(), clock(), documents=cut),
            model(clock, cut[0].text + QUESTION),
        ],
        "chain",
    )
    return Tree(root, question=QUESTION, answers=(Answer(REPLY),))


@pytest.mark.nightly
def test_twice_as_many_cut_documents_take_twice_the_operations():
    samples_of(many_cut(3))  # imports and compiled patterns do not count
    first, second, third = (operations(many_cut(count)) for count in (20, 40, 80))
    assert third - second <= 2.6 * (second - first)


@law
@given(seed=SEEDS)
def test_a_text_is_found_again_wherever_it_stands_in_a_wider_one(seed):
    """A step hands on a piece of what was found: it was not retrieved by the step."""
    rng, clock = random.Random(seed), Clock()
    documents = [Document(sentence(rng, 20), f"d{number}") for number in range(9)]
    whole = rng.choice(documents)
    words = whole.text.split()
    first = rng.randrange(len(words) - 8)
    piece = " ".join(words[first : rng.randrange(first + 8, len(words) + 1)])
    is_wider = rng.random() < 0.5
    found, handed = (piece, whole.text) if is_wider else (whole.text, piece)
    others = [one for one in documents if one is not whole]
    retrieved = [*others, Document(found)]
    root = step(
        clock,
        lambda: [
            retriever(clock, retrieved, QUESTION),
            Node("step", "other", clock(), clock(), documents=(Document(handed),)),
            model(clock, handed + " " + QUESTION),
        ],
        "chain",
    )
    (sample,) = samples_of(Tree(root, question=QUESTION, answers=(Answer(REPLY),)))
    assert sample.ledger is not None
    # its text may stand in the piece
    assert handed == found or sample.ledger.calls[0].shown is None
    assert [one.text for one in sample.retrieved or ()] == [
        one.text for one in retrieved
    ]
