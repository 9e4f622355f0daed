"""What a call of a model by itself tells of the runs before it, and what a run is asked around what it searches for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_tree_rules import (
    ANSWER,
    DOCS,
    FARO,
    PORTO,
    QUESTION,
    SAYS,
    SECOND,
    Clock,
    alone,
    asked,
    model,
    retriever,
    tree,
)

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    Overrides,
    Tree,
    Turns,
    samples_of,
)
from ragmetrics_core.capture.authors import name_authors
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample import Turn as Said

THIRD = "And which of the two has the older university?"
OTHER = "The older one lies in the middle of the country."
CHAT = "Tell me more about what you would like to know."


def turns(hint: str = "") -> Turns[Tree]:
    return Turns(lambda run: [run], Overrides(), hint=hint)


def grade(sample: Sample) -> str:
    assert sample.capture is not None
    return sample.capture.grade


# The answer


@pytest.mark.parametrize(
    ("last", "answer", "expected"),
    [
        ("Do you mean the city or the district?", None, "exact"),
        ("Which district?\nWhich year?", ANSWER, "inferred"),
        ("1. Which district?\n2. Which year?", ANSWER, "exact"),
    ],
)
def test_one_question_back_is_an_answer_and_further_questions_are_none(
    last: str, answer: str | None, expected: str
) -> None:
    """LlamaIndex's engine for several steps, whose last step asks back."""
    c = Clock()
    made = tree(
        c,
        retriever(c, DOCS[0]),
        model(c, asked(PORTO)),
        model(c, f"{QUESTION}\nBefore: {ANSWER}", last),
        answers=(Answer(last, "output"),),
    )
    (sample,) = samples_of(made)
    assert sample.answer == (answer or last)
    assert [context.text for context in sample.contexts] == [PORTO]
    assert grade(sample) == expected


@pytest.mark.parametrize(
    ("prompt", "reply", "expected"),
    [
        ([Message("system", "Be kind."), Message("user", QUESTION)], CHAT, "inferred"),
        ([Message("user", QUESTION)], "Rivers", "exact"),
        ([Message("user", QUESTION)], "And where does it end?", "exact"),
        ([Message("user", SECOND)], CHAT, "exact"),
    ],
)
def test_a_model_that_is_asked_the_same_after_an_engine_may_answer_in_its_place(
    prompt: list[Message], reply: str, expected: str
) -> None:
    """An engine says "Empty Response", and the application asks the model itself."""
    c = Clock()
    made = turns()
    empty = tree(
        c,
        retriever(c),
        answers=(Answer("Empty Response", "output"),),
        is_always_a_sample=True,
    )
    (sample,) = made.add(empty)
    made.add(alone(model(c, prompt, reply)))
    assert grade(made.revise_sample(sample)) == expected


@pytest.mark.parametrize("first_answers", [True, False])
def test_an_answer_that_no_model_wrote_is_in_doubt_where_the_same_is_asked_next(
    first_answers: bool,
) -> None:
    """A probe without a model says "Empty Response"; then an engine with one is asked the same."""
    c = Clock()
    made = turns()
    inside = [model(c, asked(PORTO), "Empty Response")] if first_answers else []
    probe = tree(
        c, retriever(c, DOCS[0]), *inside, answers=(Answer("Empty Response", "output"),)
    )
    engine = tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS)
    (first,) = made.add(probe)
    (second,) = made.add(engine)
    found = "exact" if first_answers else "inferred"
    assert grade(made.revise_sample(first)) == found
    assert grade(made.revise_sample(second)) == "exact"


@pytest.mark.parametrize("remembers", [False, True])
def test_an_answer_that_is_not_in_the_history_when_the_same_is_asked_next_is_in_doubt(
    remembers: bool,
) -> None:
    """A chain is asked until its answer can be read: the history stays as it was."""
    c = Clock()
    made = turns()
    before = (
        Said(role="user", content=SECOND),
        Said(role="assistant", content="It has two of them."),
    )
    added = (
        Said(role="user", content=QUESTION),
        Said(role="assistant", content="Not readable."),
    )

    def ask(reply: str, history: tuple[Said, ...]) -> Sample:
        run = tree(
            c,
            retriever(c, DOCS[0]),
            model(c, asked(PORTO), reply),
            answers=(Answer(reply, "output"),),
            history=history,
        )
        (sample,) = made.add(run)
        return sample

    first = ask("Not readable.", before)
    second = ask(ANSWER, (*before, *added) if remembers else before)
    notes = [made.revise_sample(sample).capture for sample in (first, second)]
    said = [" ".join(one.warnings) for one in notes if one is not None]
    in_doubt = ["was asked the same question" in words for words in said]
    assert in_doubt == [not remembers, False]


def test_a_draft_that_is_a_document_word_for_word_rests_on_all_that_its_call_was_shown() -> (
    None
):
    """The engine answers with a sentence of the texts, and a second call translates it."""
    c = Clock()
    made = tree(
        c,
        retriever(c, *DOCS[:2]),
        model(c, asked(f"{PORTO}\n{FARO}"), PORTO),
        model(c, f"Translate: {PORTO}"),
        answers=SAYS,
    )
    (sample,) = samples_of(made)
    assert [context.text for context in sample.contexts] == [PORTO, FARO]
    assert grade(sample) == "exact"


# Where a conversation goes on, and what a document may be shown as


def test_a_turn_that_gave_no_sample_does_not_break_the_conversation() -> None:
    """The messages that are handed in end with small talk, of which no run was recorded."""
    c = Clock()
    made = turns()
    (first,) = made.add(
        tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS)
    )
    said = (QUESTION, ANSWER, "Thank you!", "You are welcome.")
    roles = ("user", "assistant") * 2
    history = tuple(
        Said(role=role, content=text) for role, text in zip(roles, said, strict=True)
    )
    second = tree(
        c,
        retriever(c, DOCS[1], query=SECOND),
        model(c, f"{FARO} {SECOND}"),
        answers=SAYS,
        question=SECOND,
        history=history,
    )
    (sample,) = made.add(second)
    assert first.ledger is not None
    assert sample.ledger is not None
    assert sample.ledger.conversation == first.ledger.conversation
    assert [call.turn for call in sample.ledger.calls] == [1, 3]
    assert sample.history == history
    assert grade(sample) == "inferred"


def test_a_document_is_shown_as_the_section_of_its_metadata_that_holds_it() -> None:
    """The piece was embedded; the template shows ``meta["section"]``."""
    c = Clock()
    section = f"{PORTO} Its wine cellars stand across the river, in Gaia."
    piece = Document(PORTO, "p", metadata={"section": section, "page": "3"})
    (sample,) = samples_of(
        tree(c, retriever(c, piece), model(c, asked(section)), answers=SAYS)
    )
    assert [context.text for context in sample.contexts] == [section]
    assert sample.retrieved is not None
    # the section was found with its piece, so that a fact in it was retrieved
    assert [context.text for context in sample.retrieved] == [section]
    assert grade(sample) == "exact"


# The question


@pytest.mark.parametrize(
    ("query", "question", "expected"),
    [
        (QUESTION, f"Answer in English.\n\n{QUESTION}", "inferred"),
        (f"{QUESTION} {SECOND}", f"Before: {QUESTION}\nNow: {SECOND}", "inferred"),
        (QUESTION, QUESTION, "exact"),
        ("Douro", QUESTION, "exact"),
    ],
)
def test_a_chain_that_is_told_more_than_was_searched_for_tells_no_users_words(
    query: str, question: str, expected: str
) -> None:
    """A retriever is asked the question, a synthesizer the question in the words of a program."""
    c = Clock()
    made = turns()
    made.add(alone(retriever(c, DOCS[0], query=query)))
    prompt = f"{PORTO}\n\nQuestion: {question}"
    made.add(tree(c, model(c, prompt), answers=SAYS, question=question))
    (sample,) = made.finish()
    assert [context.text for context in sample.contexts] == [PORTO]
    assert grade(sample) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (QUESTION, "exact"),
        (f"query: {QUESTION}", "inferred"),
        (f"{QUESTION} Portugal north category city", "inferred"),
        ("rules for cities", "inferred"),
    ],
)
def test_a_query_that_the_answering_model_was_not_shown_is_in_doubt_as_the_question(
    query: str, expected: str
) -> None:
    """A retriever is asked the question with words of the application's own, and a model the question."""
    c = Clock()
    made = turns()
    made.add(alone(retriever(c, DOCS[0], query=query)))
    made.add(alone(model(c, asked(PORTO))))
    (sample,) = made.finish()
    assert (sample.answer, [context.text for context in sample.contexts]) == (
        ANSWER,
        [PORTO],
    )
    assert grade(sample) == expected


def test_a_search_of_an_earlier_turn_of_which_the_history_tells_is_no_part_of_this_one() -> (
    None
):
    """Each turn is searched for first; an engine answers two of them, the model alone the third."""
    c = Clock()
    made = turns()
    history: list[Message] = []
    samples: list[Sample] = []
    for document, question in ((DOCS[0], QUESTION), (DOCS[1], SECOND)):
        samples += made.add(alone(retriever(c, document, query=question)))
        said = f"On {question!r} the texts say this: {document.text}"
        prompt = [*history, Message("user", f"{document.text}\n{question}")]
        engine = tree(
            c,
            retriever(c, document, query=question),
            model(c, prompt, said),
            answers=(Answer(said, "output"),),
            question=question,
        )
        samples += made.add(engine)
        history += [Message("user", question), Message("assistant", said)]
    samples += made.add(alone(retriever(c, query=THIRD)))
    samples += made.add(alone(model(c, [*history, Message("user", THIRD)], CHAT)))
    samples += made.finish()
    (last,) = [sample for sample in samples if sample.question == THIRD]
    assert (last.answer, last.contexts) == (CHAT, ())
    assert not [
        sample for sample in samples if sample.answer == CHAT and sample is not last
    ]


QUERY = "history of the lighthouse at the river mouth"
SUBJECTS = ("When was it built?", "Who kept its lamp?", "What does it cost to see it?")


def multi_query(
    clock: Clock, question: str, task_or_thread: str, *, batch: bool
) -> Iterator[Tree]:
    """Runs of a question: a model writes two queries, of which one is written for all questions; they are answered."""
    written = f"{question.lower()}\n{QUERY}"
    searched = "batch of " + task_or_thread if batch else task_or_thread
    page = Document(f"A page that tells of this: {question}", question)
    shown = f"{page.text}\n{PORTO}\nQuestion: {question}"
    said = f"The answer to it in {task_or_thread} is this."
    splitting = model(clock, f"Queries for: {question}", written)
    yield tree(clock, splitting, question=question, task_or_thread=task_or_thread)
    yield alone(retriever(clock, page, query=question.lower()), task_or_thread=searched)
    yield alone(retriever(clock, DOCS[0], query=QUERY), task_or_thread=searched)
    yield tree(
        clock,
        model(clock, shown, said),
        question=question,
        task_or_thread=task_or_thread,
    )


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("questions", [SUBJECTS, SUBJECTS[:1] * 3, SUBJECTS[:2] * 2])
def test_queries_that_models_write_alike_for_several_questions_join_none_of_them(
    questions: tuple[str, ...], together: bool, batch: bool
) -> None:
    """A chain of loose functions: queries by a model, ``retriever.batch``, an answer; in order, or all at once."""
    c = Clock()
    made = turns()
    names = [
        f"task {number}" if together else "main" for number in range(len(questions))
    ]
    of_each = [
        multi_query(c, question, name, batch=batch)
        for question, name in zip(questions, names, strict=True)
    ]
    runs = (
        (run for step in zip(*of_each, strict=True) for run in step)
        if together
        else (run for runs_of_one in of_each for run in runs_of_one)
    )
    samples = [sample for run in runs for sample in made.add(run)] + made.finish()
    assert sorted(str(sample.question) for sample in samples) == sorted(questions)
    for sample in samples:
        assert {context.text for context in sample.contexts} == {
            f"A page that tells of this: {sample.question}",
            PORTO,
        }
        assert sample.ledger is not None
        assert len(sample.ledger.calls) == 2
        assert grade(sample) == ("inferred" if together and batch else "exact")


# What is counted


def test_each_turn_that_only_chats_is_counted() -> None:
    c = Clock()
    made = turns("nothing retrieved")
    made.add(tree(c, retriever(c, DOCS[0]), model(c, asked(PORTO)), answers=SAYS))
    made.add(alone(model(c, f"Is it grounded? {QUESTION} {ANSWER}", "yes")))
    for number in range(3):
        hello = f"Hello for the time number {number}"
        made.add(alone(model(c, [Message("user", hello)], CHAT)))
    made.finish()
    assert made.problems.counts == {"nothing retrieved": 3}


def test_each_turn_of_a_thread_that_only_chats_is_counted() -> None:
    c = Clock()
    made = turns("nothing retrieved")
    for number in range(3):
        hello = f"Hello for the time number {number}"
        answers = (Answer(CHAT, "output"),)
        run = tree(
            c,
            model(c, hello, CHAT),
            question=hello,
            conversation_id="one",
            answers=answers,
        )
        made.add(run)
    made.finish()
    assert made.problems.counts == {"nothing retrieved": 3}


# What a model wrote


def nested(clock: Clock, frame: str, said: str) -> Tree:
    """A tool that asks an engine, and hands on what it answered in a frame, beside what it found."""
    engine = clock.node(
        "agent", retriever(clock, DOCS[0]), model(clock, asked(PORTO), said), text=said
    )
    engine.query = QUESTION
    framed = frame.format(question=QUESTION, answer=said)
    handed = (Document(framed, "x"), DOCS[0])
    after = clock.node("step", input_documents=handed, name="synthesizer")
    shown = "\n".join(document.text for document in handed)

    def inside() -> Node:
        node = clock.node("tool", text=shown, name="ask")
        node.children = [engine, after]
        node.began = engine.began
        return node

    made = tree(clock, inside, model(clock, asked(shown)), answers=SAYS)
    name_authors(made.root)
    return made


SUB_QUESTION = "Sub question: {question}\nResponse: {answer}"


@pytest.mark.parametrize(
    ("said", "frame", "is_written"),
    [
        (f"So: {PORTO}", SUB_QUESTION, True),
        ("So Porto it is, in the north.", SUB_QUESTION, True),
        (f"So: {PORTO}", f"{{answer}} {FARO}\nIts port is small, and old.", False),
    ],
)
def test_an_answer_that_quotes_a_whole_document_is_no_document(
    said: str, frame: str, is_written: bool
) -> None:
    """LlamaIndex's engine for sub-questions, whose nodes a tool hands on as texts."""
    (sample,) = samples_of(nested(Clock(), frame, said))
    texts = [context.text for context in sample.contexts]
    assert PORTO in texts
    assert (len(texts) == 1) == is_written


@pytest.mark.parametrize("is_known", [True, False])
def test_documents_that_the_application_kept_from_an_earlier_turn_leave_a_doubt(
    is_known: bool,
) -> None:
    """A cache of what was found answers in place of the retriever; a synthesizer is handed it."""
    c = Clock()
    made = turns()
    kept = DOCS[:1] if is_known else DOCS[1:2]
    samples = made.add(alone(retriever(c, *kept)))
    samples += made.add(alone(model(c, asked(kept[0].text))))
    samples += made.add(
        tree(
            c,
            model(c, f"{PORTO}\nIn English, please: {SECOND}", OTHER),
            input_documents=DOCS[:1],
            question=f"In English, please: {SECOND}",
            answers=(Answer(OTHER, "output"),),
        )
    )
    samples += made.finish()
    cached = [sample for sample in samples if SECOND in (sample.question or "")]
    assert [sample.retrieved for sample in cached] == [None]
    expected = "inferred" if is_known else "exact"
    assert [grade(sample) for sample in cached] == [expected]


@pytest.mark.parametrize("is_kept", [True, False])
def test_only_documents_that_were_kept_begin_a_question_of_their_own(
    is_kept: bool,
) -> None:
    """A step revises the answer beside its page, and is handed a guide of style; or that page anew."""
    c = Clock()
    made = turns()
    handed_in = DOCS[0] if is_kept else Document("Write short sentences.", "guide")
    samples = made.add(alone(retriever(c, DOCS[0])))
    samples += made.add(alone(model(c, asked(PORTO))))
    samples += made.add(
        tree(
            c,
            model(c, f"{PORTO}\n{handed_in.text}\n{SECOND}", OTHER),
            input_documents=(handed_in,),
            question=SECOND,
        )
    )
    samples += made.finish()
    answers = [sample.answer for sample in samples]
    assert answers == ([OTHER, ANSWER] if is_kept else [OTHER])
