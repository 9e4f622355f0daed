"""Runs without a root: which of them are one turn, in which order they wait, and what is said of those left over."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_tree_rules import (
    ANSWER,
    DOCS,
    PORTO,
    QUESTION,
    SECOND,
    Clock,
    alone,
    asked,
    model,
    retriever,
    tree,
)

from ragmetrics_core.capture import (
    Document,
    Message,
    Node,
    Overrides,
    ToolCall,
    Tree,
)
from ragmetrics_core.capture.answers_read_later import AnswersReadLater
from ragmetrics_core.capture.auxiliary_runs import AuxiliaryRuns
from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.hooks import Problems
from ragmetrics_core.capture.joining import join_trees
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.run_group import (
    Prompts,
    RunGroup,
    groups_that_run_joins,
)
from ragmetrics_core.capture.tree import FLOW, THREAD
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.capture.unsampled import Unsampled
from ragmetrics_core.capture.waiting_groups import WaitingGroups
from ragmetrics_core.data.sample import Sample

HINT = "say where things are"
MOST_KEPT = 1000


def said_by(replies: str, began: float, ended: float) -> Tree:
    """A call of a model by itself, between two moments."""
    node = Node("model", "model", began, ended, reply=Message("assistant", replies))
    node.prompt = (Message("user", QUESTION),)
    return Tree(node)


def asking(question: str | None, began: float, kind: str = "step") -> Tree:
    node = Node(kind, "run", began, began + 1, query=question)  # type: ignore[arg-type]
    return Tree(node, question=question)


# Several runs as one


def test_several_runs_of_a_thread_last_from_the_first_to_the_end_of_the_last() -> None:
    parts = [asking(QUESTION, began) for began in (1.0, 3.0, 5.0)]
    for number, part in enumerate(parts):
        part.output = number
    whole = join_trees(parts, THREAD)
    assert (whole.root.began, whole.root.ended) == (1.0, 6.0)
    assert whole.output == 2


def test_what_a_retriever_is_asked_is_not_the_users_question_where_a_chain_has_one() -> (
    None
):
    c = Clock()
    search = alone(retriever(c, DOCS[0], query="Douro"), question="Douro")
    whole = join_trees([search, tree(c, model(c, asked(PORTO)))], FLOW)
    assert whole.question == QUESTION


@pytest.mark.parametrize(("began", "expected"), [(5.0, QUESTION), (4.9, SECOND)])
def test_a_question_is_a_models_from_the_moment_at_which_it_was_written(
    began: float, expected: str
) -> None:
    writer = said_by(SECOND, 3.0, 5.0)
    whole = join_trees([writer, asking(SECOND, began), asking(QUESTION, 7.0)], FLOW)
    assert whole.question == expected


def test_only_what_was_searched_for_beside_a_run_tells_what_was_added_to_it() -> None:
    c = Clock()
    inner = retriever(c, DOCS[0], query="which city lies")
    chain = tree(c, inner, model(c, asked(PORTO)))
    unlike = alone(retriever(c, DOCS[1], query="Where is the airport?"))
    agent = Tree(c.node("agent", query="city on the Douro?"))
    assert not join_trees([unlike, agent, chain], FLOW).doubts
    beside = alone(retriever(c, DOCS[1], query="which city lies"))
    assert join_trees([beside, chain], FLOW).doubts


# Groups that wait


def waiting(*queries: str) -> WaitingGroups:
    """Groups that one search each began."""
    c, groups = Clock(), WaitingGroups()
    for query in queries:
        groups.add_retrieval(alone(retriever(c, DOCS[0], query=query)), query, [])
    return groups


def test_of_answered_groups_that_searched_for_the_same_the_last_one_waits_on() -> None:
    groups = waiting(QUESTION, QUESTION, SECOND)
    for group in groups:
        group.answered_at = 0.5
    first, last, other = groups
    assert groups.take_over_due("", QUESTION) == [first, other]
    assert list(groups) == [last]


PAGES = tuple(
    Document(f"The page of the town number {n} lies open.", id=f"page {n}")
    for n in range(4)
)
CITY = "city on the river"
pages = st.sets(st.sampled_from(range(len(PAGES))), min_size=1).map(sorted)
steps = st.tuples(
    st.sampled_from(["search", "rank", "answer"]),
    pages,
    st.sampled_from([CITY, QUESTION]),
)


def played(*made: tuple[str, list[int], str]) -> tuple[WaitingGroups, list[Tree]]:
    """Searches, rankings and answers by themselves, each over some pages.

    Returns:
        The groups that wait, and the runs that stand in them.
    """
    c, groups, runs = Clock(), WaitingGroups(), []
    for kind, places, query in made:
        found = tuple(PAGES[place] for place in places)
        if kind == "search":
            run = alone(retriever(c, *found, query=query))
            groups.add_retrieval(run, query, [])
        elif kind == "rank":
            ranked = c.node("reranker", query=query, documents=found)
            ranked.input_documents = found
            run = Tree(ranked)
            groups.add_retrieval(run, query, [])
        else:
            run = alone(model(c, "\n".join(page.text for page in found)))
            if groups.join(run, Calls(run)) is None:
                continue
        runs.append(run)
    return groups, runs


RANKED_BETWEEN = [
    ("search", [1, 2], CITY),
    ("rank", [1, 2], CITY),
    ("search", [0, 1], CITY),
    ("answer", [0, 1], CITY),
]


@example([("search", [2], CITY), *RANKED_BETWEEN])
@given(st.lists(steps, max_size=8))
def test_each_run_stands_in_just_one_group(
    made: list[tuple[str, list[int], str]],
) -> None:
    groups, runs = played(*made)
    in_groups = [run.root.began for group in groups for run in group.runs]
    assert sorted(in_groups) == sorted(run.root.began for run in runs)


def test_a_search_beside_one_that_was_ranked_belongs_to_the_group_that_was_answered() -> (
    None
):
    """Two searches for one query; the first was ranked, and the second answered from."""
    groups, runs = played(*RANKED_BETWEEN)
    (group,) = groups
    assert len(group.runs) == len(runs)


def test_documents_that_are_ranked_by_hand_belong_to_the_search_made_last() -> None:
    groups = waiting(QUESTION, SECOND)
    ranked = Node("reranker", "reranker", 90.0, 91.0, input_documents=DOCS[:1])
    groups.add_retrieval(Tree(ranked), "", [])
    assert [len(group.runs) for group in groups] == [1, 2]


def test_documents_that_another_task_ranks_belong_to_the_search_that_found_them() -> (
    None
):
    """As where ``asyncio.gather`` searches, and its caller ranks what was found."""
    groups = waiting(QUESTION)
    ranked = Node("reranker", "reranker", 90.0, 91.0, input_documents=DOCS[:1])
    groups.add_retrieval(Tree(ranked, task_or_thread="main"), QUESTION, [])
    (group,) = groups
    assert len(group.runs) == 2


def test_a_run_that_wrote_a_rerankers_query_stays_with_the_question_that_it_split() -> (
    None
):
    c, groups = Clock(), WaitingGroups()
    writer = alone(model(c, QUESTION, "bridge\nferry"))
    groups.add_retrieval(
        alone(retriever(c, DOCS[0], query="bridge")), "bridge", [writer]
    )
    groups.add_retrieval(alone(retriever(c, DOCS[1], query=SECOND)), SECOND, [])
    ranked = Node("reranker", "reranker", 90.0, 91.0, input_documents=DOCS[1:2])
    ranked.query = "ferry"
    groups.add_retrieval(Tree(ranked), "ferry", [])
    assert [len(group.runs) for group in groups] == [2, 2]


def test_a_draft_that_is_revised_beside_its_documents_is_no_turn_of_its_own() -> None:
    c = Clock()
    made: Turns[Tree] = Turns(lambda run: [run], Overrides())
    draft = "The city is called Porto, as the page about it says."
    for run in (
        alone(retriever(c, DOCS[0])),
        alone(model(c, asked(PORTO), draft)),
        alone(model(c, f"{asked(PORTO)}\nDraft: {draft}")),
    ):
        assert not made.add(run)
    (sample,) = made.finish()
    assert sample.answer == ANSWER
    assert sample.capture is not None
    assert not any("turn of its own" in word for word in sample.capture.warnings)


def search_in(thread: str, query: str, document: Document, began: float) -> RunGroup:
    """The group that one search of a thread began."""
    node = Node(
        "retriever",
        "retriever",
        began,
        began + 0.5,
        query=query,
        documents=(document,),
    )
    return RunGroup([Tree(node, task_or_thread=thread)])


@pytest.mark.parametrize(
    ("query", "is_asked", "began", "answered_at", "expected"),
    [
        # the search of the other thread began when the own question was answered
        (QUESTION, True, 7.0, None, ["other"]),
        # its own question, which still waits for its answer
        (SECOND, True, 3.0, None, ["own", "other"]),
        (SECOND, True, 3.0, 4.0, ["own"]),
        (QUESTION, True, 3.0, None, ["own"]),
        # only its document is shown, which may have been found again
        (SECOND, False, 7.0, None, ["own"]),
    ],
)
def test_a_run_goes_on_with_a_search_of_another_thread(
    query: str,
    is_asked: bool,
    began: float,
    answered_at: float | None,
    expected: list[str],
) -> None:
    own = search_in("own", QUESTION, DOCS[0], 1.0)
    own.answered_at = 5.0
    other = search_in("other", query, DOCS[1], began)
    other.answered_at = answered_at
    texts = [QUESTION, DOCS[0].text, DOCS[1].text]
    if is_asked:
        texts.append(query)
    prompts = Prompts(texts, texts)
    joined = groups_that_run_joins([own, other], "own", prompts)
    names = {own: "own", other: "other"}
    assert sorted(names[shown.group] for shown in joined) == sorted(expected)


def test_a_search_of_another_thread_counts_where_the_own_thread_shows_none() -> None:
    own = search_in("own", QUESTION, DOCS[0], 1.0)
    other = search_in("other", SECOND, DOCS[1], 2.0)
    only_document = Prompts([DOCS[1].text], [DOCS[1].text])
    (joined,) = groups_that_run_joins([own, other], "own", only_document)
    assert joined.group is other
    texts = [QUESTION, SECOND, DOCS[0].text, DOCS[1].text]
    # the own question still waits for its answer
    (joined,) = groups_that_run_joins([own, other], "own", Prompts(texts, texts))
    assert joined.group is own


# Runs that are no samples by themselves


def test_a_bounded_number_of_tasks_and_threads_is_kept() -> None:
    runs = AuxiliaryRuns()
    for number in range(MOST_KEPT):
        runs.add(Tree(Node("model", "model"), task_or_thread=str(number)))
    assert runs.runs_near("0")[0].task_or_thread == "0"
    runs.add(Tree(Node("model", "model"), task_or_thread="one more"))
    assert all(run.task_or_thread != "0" for run in runs.runs_near("0"))


@pytest.mark.parametrize("calls_a_tool", [True, False])
def test_a_run_that_called_a_tool_wrote_for_one_run_alone(calls_a_tool: bool) -> None:
    call = ToolCall("search", {"query": SECOND}, "1")
    reply = (
        Message("assistant", "", (call,))
        if calls_a_tool
        else Message("assistant", SECOND)
    )
    writer = Tree(Node("model", "model", 1.0, 2.0, reply=reply))
    runs = AuxiliaryRuns()
    runs.add(writer)
    later = asking(SECOND, 3.0)
    assert runs.take_writers_of(later) == [writer]
    assert runs.take_writers_of(later) == ([] if calls_a_tool else [writer])


@pytest.mark.parametrize(("count", "expected"), [(MOST_KEPT, 0), (MOST_KEPT + 1, 1)])
def test_questions_without_a_sample_wait_in_bounded_number(
    count: int, expected: int
) -> None:
    problems = Problems(logged=False)
    unsampled = Unsampled(problems, HINT)
    for number in range(count):
        unsampled.add(asking(f"Question {number}?", 1.0), counts_anyway=False)
    assert len(problems) == expected
    unsampled.note_problems(is_without_samples=True)
    assert problems.counts == {HINT: count}


@pytest.mark.parametrize("is_without_samples", [True, False])
def test_runs_that_were_asked_nothing_are_said_once(is_without_samples: bool) -> None:
    problems = Problems(logged=False)
    Unsampled(problems, HINT).note_problems(is_without_samples=is_without_samples)
    assert problems.counts == ({HINT: 1} if is_without_samples else {})


# Answers that a later run was shown


def read_later() -> tuple[AnswersReadLater, list[Sample]]:
    """Who keeps samples, and what it makes of a run that is doubted."""
    made: list[Sample] = []

    def samples_of(run: Tree) -> list[Sample]:
        made.append(Sample(question=run.question, answer="in doubt"))
        return made[-1:]

    return AnswersReadLater(samples_of), made


@pytest.mark.parametrize("answer", [None, "Empty Response"])
def test_a_run_without_an_answer_has_none_that_another_run_replaces(
    answer: str | None,
) -> None:
    kept, doubted = read_later()
    kept.remember(asking(QUESTION, 1.0), [Sample(question=QUESTION, answer=answer)])
    later = tree(Clock(), model(Clock(), asked(PORTO)))
    kept.doubt_answer_replaced_by(later)
    assert len(doubted) == (0 if answer is None else 1)


def test_an_answer_in_doubt_keeps_its_first_reason() -> None:
    """A later run works on the answer as a draft, and then answers its question anew."""
    kept, doubted = read_later()
    sample = Sample(question=QUESTION, answer="In 1874.")
    kept.remember(asking(QUESTION, 1.0), [sample])
    prompt = "Make this longer.\nDraft: In 1874."
    later = tree(Clock(), model(Clock(), prompt, "It was opened long ago."))
    kept.doubt_answers_shown_to(later, Calls(later), {QUESTION})
    kept.doubt_answer_replaced_by(later)
    assert len(doubted) == 1
    assert kept.revise_sample(sample) is doubted[0]


@pytest.mark.parametrize(("last", "expected"), [(SECOND, 0), (QUESTION, 1)])
def test_a_call_is_asked_by_the_last_message_of_the_user(
    last: str, expected: int
) -> None:
    kept, doubted = read_later()
    kept.remember(asking(QUESTION, 1.0), [Sample(question=QUESTION, answer=ANSWER)])
    said = [
        Message("user", QUESTION),
        Message("assistant", "That I cannot say."),
        Message("user", last),
    ]
    later = alone(model(Clock(), said, "Here is what I know of it."))
    kept.doubt_answers_shown_to(later, Calls(later))
    assert len(doubted) == expected


@pytest.mark.parametrize(
    ("letters", "expected"), [(DISTINCTIVE_LENGTH, 1), (DISTINCTIVE_LENGTH - 1, 0)]
)
def test_a_long_answer_counts_as_shown_without_its_question(
    letters: int, expected: int
) -> None:
    kept, doubted = read_later()
    answer = "The city lies on the northern river bank."[: letters - 1] + "!"
    assert len(answer) == letters
    kept.remember(asking(QUESTION, 1.0), [Sample(question=QUESTION, answer=answer)])
    kept.remember(asking(SECOND, 2.0), [Sample(question=SECOND, answer="Faro.")])
    later = alone(model(Clock(), f"Translate this: {answer}", "Die Stadt liegt dort."))
    kept.doubt_answers_shown_to(later, Calls(later))
    assert len(doubted) == expected


@pytest.mark.parametrize(
    ("answer", "prompt", "expected"),
    [
        # it stands by itself, or beside its question
        ("In 1874.", "Make this longer.\nDraft: In 1874.", 1),
        ("In 1874.", f"{QUESTION} It opened in May. In 1874. Rewrite that.", 1),
        # it stands among other words, as a word alone, as an earlier turn, or nowhere
        ("In 1874.", "The mayor spoke. In 1874. he left. Rewrite that.", 0),
        ("1874.", "Make this longer.\nDraft: 1874.", 0),
        ("In 1874.", f"User: {QUESTION}\nAssistant: In 1874.\nUser: And then?", 0),
        ("In 1874.", f"Answer the question.\n{QUESTION}", 0),
    ],
)
def test_a_short_answer_counts_as_shown_by_itself_or_beside_its_question(
    answer: str, prompt: str, expected: int
) -> None:
    kept, doubted = read_later()
    kept.remember(asking(QUESTION, 1.0), [Sample(question=QUESTION, answer=answer)])
    later = alone(model(Clock(), prompt, "It was opened long ago."))
    kept.doubt_answers_shown_to(later, Calls(later))
    assert len(doubted) == expected
