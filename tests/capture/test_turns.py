"""Runs that wait for a further run: bounded in time and number."""

from dataclasses import replace

import pytest
from runs_by_hand import CALL, PORTO, P, after_tool, asked, call, reads, says, tool

from ragmetrics_core.capture import Answer, Document, Message, Node, Tree
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data import Turn

PAGE = "The Velm bridge was opened in 1874 by the mayor of the town."
BOOK = f"{PAGE} It was painted green in 1901."
PIECE = f"It cost a fortune. {PAGE[:40]}"  # it overlaps with the page


def search(query: str, began: float, found: str = PAGE) -> Tree:
    node = Node("retriever", "shelf", began, began + 0.5)
    node.query = query
    node.documents = (Document(found),)
    return Tree(node, gives_only_documents=True)


def test_a_search_waits_for_a_bounded_time(monkeypatch):
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search("When was it opened?", 1.0)) == []
    assert turns.samples_due() == []
    monkeypatch.setattr("time.monotonic", lambda: 1e12)
    (sample,) = turns.samples_due()
    assert (sample.question, sample.answer) == ("When was it opened?", None)
    assert turns.finish() == []


def test_only_so_many_searches_wait(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 0.0)  # none has waited too long
    monkeypatch.setattr("ragmetrics_core.capture.turns._MOST_WAITING", 20)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = []
    for number in range(40):
        samples += turns.add(search(f"What is page {number}?", float(number)))
    assert [sample.question for sample in samples[:2]] == [
        "What is page 0?",
        "What is page 1?",
    ]
    assert len(samples) == 20


def model(prompt: str, reply: str, began: float) -> Tree:
    node = Node("model", "model", began, began + 0.5)
    node.prompt = (Message("user", prompt),)
    node.reply = Message("assistant", reply)
    return Tree(node, answers=(Answer(reply, writing_call=node),))


QUESTION = "When was the Velm bridge opened?"
ANSWER = "The Velm bridge was opened in 1874."
ANSWERS = model(f"{PAGE}\nQuestion: {QUESTION}", ANSWER, 2.0)
REWRITES = model(f"Rewrite: {QUESTION}", "opening year of the Velm bridge", 0.0)
CLASSIFIES = model(f"Which kind? {QUESTION}", "It is a question of history.", 0.0)
SEARCHES = search("opening year of the Velm bridge", 1.0)
ASKS_IN_PARTS = model(
    f"Take apart: {QUESTION}", "1. Who opened it?\n2. What did it cost?", 0.0
)


def searches_and_answers(query: str, answer: str, began: float) -> Tree:
    """A chain that searches itself."""
    answering = model(f"{PAGE}\n{query}", answer, began + 1)
    chain = replace(answering, question=query)
    inner = [search(query, began).root, answering.root]
    chain.root = Node("step", "chain", began, began + 2, inner)
    return chain


def test_placing_a_turn_leaves_its_run_as_it_was():
    """A memory that was read after the run holds this turn as well."""
    talk = (Turn(role="user", content=QUESTION), Turn(role="assistant", content=ANSWER))
    run = replace(searches_and_answers(QUESTION, ANSWER, 1.0), history=talk)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run)
    assert sample.history == ()
    assert run.history == talk


@pytest.mark.parametrize(
    ("name", "said_before", "n_earlier"),
    [
        (None, ANSWER, 1),
        (None, "In 1901, as a sign says.", 0),
        ("a thread", ANSWER, 1),
        ("a thread", "In 1901, as a sign says.", 2),  # the thread's messages were cut
    ],
)
def test_a_run_goes_on_behind_the_turn_that_its_history_repeats(
    name, said_before, n_earlier
):
    """Another user may have asked meanwhile, or the turn between them was taken back."""
    talk = (
        Turn(role="user", content=QUESTION),
        Turn(role="assistant", content=said_before),
    )
    first, between, goes_on = (
        replace(searches_and_answers(*asked), conversation_id=name)
        for asked in (
            (QUESTION, ANSWER, 1.0),
            ("Who painted it?", "The town did.", 5.0),
            ("What did it cost?", "A fortune.", 9.0),
        )
    )
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    turns.add(first)
    turns.add(between)
    (sample,) = turns.add(replace(goes_on, history=talk))
    queries = [*[QUESTION, "Who painted it?"][:n_earlier], "What did it cost?"]
    assert [call.query for call in sample.ledger.calls] == queries


def test_a_turn_whose_words_are_in_doubt_is_repeated_by_no_history():
    guessed = replace(
        searches_and_answers(QUESTION, ANSWER, 1.0),
        doubts=(Doubt("question_guessed"),),
    )
    talk = (Turn(role="user", content=QUESTION), Turn(role="assistant", content=ANSWER))
    goes_on = searches_and_answers("What did it cost?", "A fortune.", 9.0)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    turns.add(guessed)
    (sample,) = turns.add(replace(goes_on, history=talk))
    assert [call.query for call in sample.ledger.calls] == ["What did it cost?"]


WORDS = "Velm bridge opened"  # made of the question by code


@pytest.mark.parametrize(
    ("prompt", "question", "doubts"),
    [
        (
            [("user", f"{PAGE}\nQuestion: {QUESTION}\nSearch words: {WORDS}")],
            QUESTION,
            1,
        ),
        ([("user", f"Asked: {QUESTION}\nTerms: {WORDS}"), ("user", PAGE)], QUESTION, 1),
        ([("system", f"{PAGE}\nTerms: {WORDS}"), ("user", QUESTION)], QUESTION, 1),
        ([("system", PAGE), ("user", QUESTION)], QUESTION, 1),
        ([("system", PAGE), ("user", WORDS)], WORDS, 0),
        ([("user", f"{PAGE}\nWords: {WORDS}"), ("user", "Be short.")], WORDS, 0),
        ([("user", f"The Velm bridge was opened by her.\nAbout: {WORDS}")], WORDS, 0),
    ],
)
def test_words_made_for_a_search_beside_a_question_are_no_sure_question(
    prompt, question, doubts
):
    found = PAGE if PAGE in str(prompt) else "The Velm bridge was opened by her."
    answering = model("", ANSWER, 2.0)
    answering.root.prompt = tuple(Message(role, text) for role, text in prompt)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search(WORDS, 1.0, found)) == []
    (sample,) = [*turns.add(answering), *turns.finish()]
    assert sample.question == question
    assert list(sample.capture.doubts) == ["question_guessed"] * doubts


@pytest.mark.parametrize(
    ("inputs", "said", "question"),
    [
        ({"input": QUESTION, "query": WORDS}, QUESTION, QUESTION),
        ({"message": QUESTION, "user": "anna", "query": WORDS}, QUESTION, QUESTION),
        ({"query": WORDS, "style": "Be short."}, f"{WORDS}\nBe short.", WORDS),
        ({"query": WORDS, "style": "Be short."}, "Be short.", WORDS),
        ({"query": WORDS}, QUESTION, WORDS),
    ],
)
def test_of_the_input_what_the_user_is_shown_to_say_is_the_question(
    inputs, said, question
):
    run = searches_and_answers(WORDS, ANSWER, 1.0)
    (answering,) = (node for node in run.root.walk() if node.kind == "model")
    answering.prompt = (
        Message("system", f"{PAGE}\nWords: {WORDS}" if said == "Be short." else PAGE),
        Message("user", said),
    )
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(replace(run, lookup_inputs=(inputs,)))
    assert (sample.question, sample.capture.grade) == (question, "exact")


def sample_with_inputs(query, prompt, inputs, *, question):
    """The sample of a chain that searched for a query, and was given some inputs."""
    run = searches_and_answers(query, ANSWER, 1.0)
    (answering,) = (node for node in run.root.walk() if node.kind == "model")
    answering.prompt = (Message("user", prompt),)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(replace(run, question=question, lookup_inputs=(inputs,)))
    return sample


@pytest.mark.parametrize(
    ("inputs", "question", "doubts"),
    [
        ({"query": WORDS, "original_question": QUESTION}, QUESTION, 1),
        ({"question": WORDS, "user_question": QUESTION}, QUESTION, 1),
        ({"query": WORDS, "language": "English"}, WORDS, 0),  # no question
        ({"query": WORDS, "aside": "Who painted it?"}, WORDS, 0),  # not shown
    ],
)
def test_a_question_that_a_prompt_shows_in_the_place_of_a_query_is_asked(
    inputs, question, doubts
):
    prompt = f"{PAGE}\nEnglish. Question: {QUESTION}"
    sample = sample_with_inputs(WORDS, prompt, inputs, question=WORDS)
    assert sample.question == question
    assert list(sample.capture.doubts) == ["question_guessed"] * doubts


def test_a_greeting_that_a_prompt_shows_is_no_question():
    """The prompt shows the question in other words, such as translated ones."""
    greeting, asked = "How can I help you today?", "Wann öffnete die Brücke?"
    prompt = f"{PAGE}\n{greeting}\nUser: {QUESTION}"
    inputs = {"question": asked, "greeting": greeting}
    sample = sample_with_inputs(asked, prompt, inputs, question=asked)
    assert (sample.question, sample.capture.grade) == (asked, "exact")


@pytest.mark.parametrize(
    ("inputs", "asked", "is_sure"),
    [
        ({"frage": QUESTION, "sprache": "Deutsch"}, QUESTION, True),
        ({"payload": {"text": QUESTION}, "user": "u-1"}, QUESTION, True),
        ({"payload": {"text": QUESTION}, "user": "Anna Berg"}, QUESTION, True),
        ({"frage": QUESTION, "ton": "Be short"}, QUESTION, False),  # shown, too
        ({"frage": QUESTION, "hint": "Who asks?"}, QUESTION, False),
        ({"frage": QUESTION}, "Sum it up.", False),  # no prompt shows it
    ],
)
def test_the_one_text_of_an_input_that_is_searched_for_and_shown_is_the_question(
    inputs, asked, is_sure
):
    prompt = f"{PAGE}\nQuestion: {asked}\nBe short."
    sample = sample_with_inputs(QUESTION, prompt, inputs, question=None)
    assert sample.question == QUESTION
    assert (sample.capture.grade == "exact") == is_sure


@pytest.mark.parametrize(
    ("said", "is_talk"),
    [
        (f"Sources:\n{PAGE[:40]}…\n\nQuestion: {QUESTION}\nAnswer:", False),
        (f"Benutzer: Who?\nAssistent: {ANSWER}\nBenutzer: {QUESTION}", True),
    ],
)
def test_a_label_before_the_question_alone_takes_no_turns(said, is_talk):
    answering = replace(model(said, ANSWER, 2.0), lookup_inputs=({"prompt": said},))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    turns.add(search(QUESTION, 1.0))
    (sample,) = [*turns.add(answering), *turns.finish()]
    assert ("history_unread" in sample.capture.doubts) == is_talk


@pytest.mark.parametrize(
    ("asked", "question"),
    [
        (f"Answer in English.\n\nQuestion: {QUESTION}", QUESTION),
        (f"{QUESTION} Answer briefly.", QUESTION),
        (QUESTION, QUESTION),
        ("What did the paint cost?", "What did the paint cost?"),
    ],
)
def test_a_question_with_words_put_around_it_is_no_sure_one(asked, question):
    """A synthesizer was asked more than the search."""
    query = QUESTION if QUESTION in asked else "the paint"
    answering = replace(
        model(f"{PAGE}\n{asked}", ANSWER, 2.0), question=asked, history=()
    )
    answering.root = Node("step", "synthesizer", 1.9, 3.0, [answering.root])
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search(query, 1.0)) == []
    (sample,) = [*turns.add(answering), *turns.finish()]
    assert sample.question == question
    is_guessed = "question_guessed" in sample.capture.doubts
    assert is_guessed == (asked not in (QUESTION, question))


def test_a_model_inside_of_a_search_answers_nobody():
    """A fusion of queries, or a reranker, asks one."""
    fused = search(QUESTION, 1.0)
    fused.root.children.append(model("Write more queries.", "Who came?", 1.1).root)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(fused) == []
    by_hand = replace(ANSWERS, answers=())
    (sample,) = [*turns.add(by_hand), *turns.finish()]
    assert (sample.answer, sample.capture.grade) == (ANSWER, "exact")


def test_what_a_search_dropped_of_its_own_finds_no_model_was_shown():
    """An engine says "Empty Response" where its retriever has a floor."""
    floor = search(QUESTION, 1.0).root
    floor.children.append(search(QUESTION, 1.1).root)
    floor.documents = ()
    empty = Answer("Empty Response")
    run = Tree(Node("agent", "engine", 0.0, 3.0, [floor]), QUESTION, answers=(empty,))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run)
    assert (sample.contexts, sample.capture.grade) == ((), "exact")


@pytest.mark.parametrize(("asked", "is_in_doubt"), [(QUESTION, False), ("Who?", True)])
def test_a_search_in_a_thread_of_its_own_is_of_the_model_that_says_its_words(
    asked, is_in_doubt
):
    elsewhere = replace(search(QUESTION, 1.0), task_or_thread="thread-7")
    answering = model("", ANSWER, 2.0)
    answering.root.prompt = (
        Message("system", f"{PAGE}\nAsked: {QUESTION}"),
        Message("user", asked),
    )
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(elsewhere) == []
    runs = [replace(answering, task_or_thread="task-1")]
    (sample,) = [sample for run in runs for sample in turns.add(run)] + turns.finish()
    assert sample.answer == ANSWER
    assert ("which_turn" in sample.capture.doubts) == is_in_doubt


def test_a_line_of_a_talk_that_is_rewritten_and_searched_begins_a_turn():
    rewrites = model(
        f"Human: {QUESTION}\nAI: {ANSWER}\nFollow up: By whom?", "Who opened it?", 3.0
    )
    found = "The mayor opened the Velm bridge on a day in spring."
    runs = [
        search(QUESTION, 1.0),
        ANSWERS,
        rewrites,
        search("Who opened it?", 4.0, found),
        model(f"{found}\nBy whom?", "The mayor did.", 5.0),
    ]
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = [sample for run in runs for sample in turns.add(run)] + turns.finish()
    assert [sample.answer for sample in samples] == [ANSWER, "The mayor did."]
    assert [sample.capture.grade for sample in samples] == ["exact", "inferred"]


@pytest.mark.parametrize(
    ("talk", "is_talk"),
    [
        (f"Kunde: {QUESTION}\nBerater: {ANSWER}", True),
        (f"<student>{QUESTION}</student>\n<tutor>{ANSWER}</tutor>", True),
        (f"{ANSWER}\n{QUESTION}", False),
        (f"{QUESTION}\nThe ferry to the north leaves at nine.\n{ANSWER}", False),
        (QUESTION, False),
    ],
)
def test_the_words_of_an_earlier_turn_in_a_prompt_are_the_history(talk, is_talk):
    """Whatever names stand before them."""
    next_question = "Who painted it?"
    goes_on = searches_and_answers(next_question, "The town did.", 5.0)
    (writer,) = (node for node in goes_on.root.walk() if node.kind == "model")
    writer.prompt = (Message("system", talk), *writer.prompt)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    turns.add(searches_and_answers(QUESTION, ANSWER, 1.0))
    (sample,) = turns.add(goes_on)
    said = [turn.content for turn in sample.history]
    assert said == ([QUESTION, ANSWER] if is_talk else [])
    assert (sample.question, sample.capture.grade) == (next_question, "exact")


def test_a_document_that_holds_an_earlier_question_and_answer_is_no_talk():
    of_faq = f"Q: {QUESTION} A: {ANSWER}"
    runs = []
    for query, answer, began in (
        (QUESTION, ANSWER, 1.0),
        ("Was it the mayor who opened it?", "It was the mayor.", 5.0),
    ):
        run = searches_and_answers(query, answer, began)
        for node in run.root.walk():
            node.documents = (Document(of_faq),) if node.documents else node.documents
            if node.kind == "model":
                node.prompt = (Message("user", f"{of_faq}\n{query}"),)
        runs.append(run)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = [sample for run in runs for sample in turns.add(run)]
    assert [sample.history for sample in samples] == [(), ()]


@pytest.mark.parametrize(
    ("kind", "offered", "context_tools", "is_told"),
    [
        ("step", (), None, True),
        ("step", (), set(), False),  # mere talk, as the user said
        ("model", (), None, False),
        ("step", ("search",), None, False),
    ],
)
def test_a_chain_without_a_search_is_told_beside_runs_with_one(
    kind, offered, context_tools, is_told
):
    """Its search may be code of its own. A bare model may write a title."""
    answering = model(f"{PAGE}\nBy whom?", "The mayor did.", 0.1)
    answering.root.offered_tools = offered
    if kind == "step":
        answering.root = Node("step", "chain", 0.0, 1.0, [answering.root])
    overrides = Overrides(context_tools=context_tools)
    turns: Turns[Tree] = Turns(lambda run: [run], overrides, hint="a hint")
    samples = [
        *turns.add(answering),
        *turns.add(searches_and_answers("Who?", "I.", 2.0)),
    ]
    assert len([*samples, *turns.finish()]) == 1
    assert turns.problems.counts == ({"a hint": 1} if is_told else {})


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize(
    ("query", "found", "n_samples"),
    [(QUESTION, PAGE, 1), ("Who?", PAGE, 2), (QUESTION, BOOK, 2)],
)
def test_a_search_for_a_list_of_sources_beside_a_run_that_found_the_same_is_no_sample(
    query, found, n_samples, *, is_before
):
    shows_sources = search(query, 4.0, found)
    runs = [searches_and_answers(QUESTION, ANSWER, 1.0), shows_sources]
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = [
        each for run in runs[:: -1 if is_before else 1] for each in turns.add(run)
    ]
    samples += turns.finish()
    assert len(samples) == n_samples
    assert [s.question for s in samples if s.answer == ANSWER] == [QUESTION]


@pytest.mark.parametrize(
    "runs",
    [
        [search(QUESTION, 1.0), search(QUESTION, 2.0)],
        [
            search(QUESTION, 1.0),
            search("Who?", 2.0, BOOK),
            searches_and_answers(QUESTION, ANSWER, 3.0),
        ],
    ],
)
def test_searches_that_are_evaluated_by_themselves_are_samples(runs):
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = [sample for run in runs for sample in turns.add(run)] + turns.finish()
    assert len(samples) == len(runs)


def test_a_search_beside_a_run_that_found_the_same_is_kept_for_a_model_that_shows_it():
    """As where two ways to answer are compared."""
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = []
    for run in (
        searches_and_answers(QUESTION, ANSWER, 1.0),
        search(QUESTION, 4.0),
        model(f"{PAGE}\nQuestion: {QUESTION}", "In 1874.", 5.0),
    ):
        samples += turns.add(run)
    samples += turns.finish()
    assert [sample.answer for sample in samples] == [ANSWER, "In 1874."]


FIRST_PART = (
    search("Who opened it?", 1.0),
    model(f"{PAGE}\nWho opened it?", "The mayor.", 2.0),
)
SECOND_PART = (
    search("What did it cost?", 3.0),
    model(f"{PAGE}\nWhat did it cost?", "It cost a fortune.", 4.0),
)
SUGGESTS = model(
    f"What to ask next?\n{QUESTION}\n{ANSWER}", "Ask who paid for it.", 3.0
)


ASKS_FURTHER = model(
    f"What to ask next?\n{QUESTION}\n{ANSWER}", '["Who paid?", "Why green?"]', 3.0
)
SEARCHES_SAME = search(QUESTION, 1.0)
NOT_TOLD = "The document does not tell when it was."
GRADES = model(f"Is it told?\n{PAGE}\n{QUESTION}", NOT_TOLD, 2.0)
CHECKS = model(f"Is it a safe question?\n{QUESTION}", "Yes.", 3.0)
ANSWERS_FREELY = model(f"Say what you know.\n{QUESTION}", "I think in 1874.", 3.0)


@pytest.mark.parametrize(
    ("question", "runs", "answer", "is_sure"),
    [
        (QUESTION, [REWRITES, SEARCHES, ANSWERS], ANSWER, True),
        # nor is what a model said before anything was found an answer
        (QUESTION, [CLASSIFIES, SEARCHES, ANSWERS], ANSWER, True),
        (
            QUESTION,
            [CLASSIFIES, searches_and_answers(QUESTION, ANSWER, 1.0)],
            ANSWER,
            True,
        ),
        # what a model writes on the answer may be the answer, and may not
        (QUESTION, [SEARCHES, ANSWERS, SUGGESTS], "Ask who paid for it.", False),
        (None, [SEARCHES, ANSWERS, SUGGESTS], "Ask who paid for it.", False),
        # but for questions, as lines or as a list
        (QUESTION, [SEARCHES, ANSWERS, ASKS_FURTHER], ANSWER, True),
        (None, [SEARCHES_SAME, ANSWERS, ASKS_FURTHER], ANSWER, True),
        # one that is asked the same, and is not shown what was found, may have answered
        (None, [SEARCHES_SAME, GRADES, ANSWERS_FREELY], NOT_TOLD, False),
        (None, [SEARCHES_SAME, ANSWERS, CHECKS], ANSWER, True),
        # each part of a question is searched and answered by itself
        (None, [ASKS_IN_PARTS, *FIRST_PART, *SECOND_PART], "It cost a fortune.", False),
        (
            None,
            [
                ASKS_IN_PARTS,
                searches_and_answers("Who opened it?", "The mayor.", 1.0),
                searches_and_answers("What did it cost?", "It cost a fortune.", 3.0),
            ],
            "It cost a fortune.",
            False,
        ),
        # the user named the question of the block: these are its parts
        (
            QUESTION,
            [ASKS_IN_PARTS, searches_and_answers("Who opened it?", "The mayor.", 1.0)],
            "The mayor.",
            True,
        ),
        # the user chose one of the questions that a model proposed
        (
            None,
            [ASKS_IN_PARTS, searches_and_answers("Who opened it?", "The mayor.", 1.0)],
            "The mayor.",
            False,
        ),
    ],
)
def test_of_several_models_called_by_themselves_none_is_sure_to_answer(
    question, runs, answer, is_sure
):
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides(question=question))
    samples = [sample for run in runs for sample in turns.add(run)] + turns.finish()
    (sample,) = samples
    assert sample.capture is not None
    assert sample.answer == answer
    code = "which_turn" if question is None else "answer_guessed"
    assert (code not in sample.capture.doubts) == is_sure
    assert sample.capture.grade == ("exact" if is_sure else "inferred")


def test_no_doubt_in_a_block_around_one_question_says_to_put_one_there():
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides(question=QUESTION))
    for query, answer, began in [
        ("Who opened it?", "The mayor.", 1.0),
        ("What did it cost?", "It cost a fortune.", 3.0),
    ]:
        assert turns.add(searches_and_answers(query, answer, began)) == []
    (sample,) = turns.finish()
    (sentence,) = sample.capture.warnings
    assert sample.capture.doubts == {"answer_guessed": sentence}
    assert "one answer counts" in sentence
    assert "answer_from=" in sentence
    assert "capture(question=" not in sentence


def test_a_question_may_hold_a_word_that_was_found():
    """It holds "bridge", and is the user's own."""
    found_word = search("bridge age", 0.0)
    found_word.root.documents = (Document("Bridge"), Document(PAGE))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(found_word) == []
    asks = replace(ANSWERS, question=QUESTION)
    (sample,) = [*turns.add(asks), *turns.finish()]
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)


TOOL = Node("tool", "look_up", 0.0, 1.0)
TOOL.text = PAGE
BY_HAND = replace(search("bridge", 0.0), is_by_hand=True)
READS = replace(ANSWERS, question=QUESTION)


@pytest.mark.parametrize(
    ("names", "contexts", "doubts"),
    [(None, None, ["undivided"]), ({"look_up"}, [PAGE], []), ({"nope"}, None, [])],
)
def test_a_tool_by_itself_waits_for_a_model_that_shows_what_it_returned(
    names, contexts, doubts
):
    overrides = Overrides(context_tools=names)
    turns: Turns[Tree] = Turns(lambda run: [run], overrides)
    assert turns.add(Tree(TOOL)) == []
    assert turns.add(READS) == []
    turns.samples_that_wait()
    (sample,) = turns.finish()
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    texts = sample.contexts and [context.text for context in sample.contexts]
    assert texts == contexts
    assert list(sample.capture.doubts) == doubts
    # a name may be misspelt
    is_none_named = "tools were called, and context_tools= names none of them"
    told = {is_none_named: 1} if names == {"nope"} else {}
    assert turns.problems.counts == told


def test_a_search_by_hand_is_a_sample_with_the_model_that_shows_it_alone():
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(BY_HAND) == []
    (sample,) = [*turns.add(READS), *turns.finish()]
    assert [context.text for context in sample.known_contexts] == [PAGE]
    assert (sample.capture.grade, len(turns.problems)) == ("exact", 0)
    # the next one is shown to nobody
    assert [*turns.add(BY_HAND), *turns.finish()] == []
    (words,) = turns.problems.counts
    assert "no model that was seen was shown what it found" in words


def test_a_query_that_only_a_model_is_seen_to_say_is_no_sure_question():
    """Its reply holds other words, too, so that nothing else tells that it wrote the query."""
    query = "opening year of the Velm bridge"
    for last_words, question, doubts in (
        (f"Observation: {PAGE}", query, ["question_guessed"]),
        (f"Observation: {PAGE}\n{query}", query, []),  # the user takes up its words
    ):
        answering = model("", ANSWER, 2.0)
        answering.root.prompt = (
            Message("user", QUESTION),
            Message("assistant", f"Tool input: {query}"),
            Message("user", last_words),
        )
        turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
        assert turns.add(search(query, 1.0)) == []
        (sample,) = [*turns.add(answering), *turns.finish()]
        assert sample.question == question
        told = [code for code in sample.capture.doubts if code != "history_unread"]
        assert told == doubts


@pytest.mark.parametrize("shown", [PAGE, "The mayor likes bridges."])
def test_a_turn_may_rest_on_what_an_earlier_one_found(shown):
    """Its conversation has a name, nothing is searched for in it, and its prompt shows it."""
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    searched, goes_on = (
        replace(
            model(f"{text}\n{question}", answer, began),
            question=question,
            conversation_id="c",
        )
        for text, question, answer, began in [
            (PAGE, QUESTION, ANSWER, 2.0),
            (shown, "By whom?", "By the mayor.", 4.0),
        ]
    )
    searched.root = Node("step", "agent", 1.0, 3.0, [SEARCHES.root, searched.root])
    goes_on.root = Node("step", "agent", 3.5, 5.0, [goes_on.root])
    (first,) = turns.add(searched)
    (second,) = [*turns.add(goes_on), *turns.finish()]
    assert (second.question, second.answer) == ("By whom?", "By the mayor.")
    assert second.contexts is None
    assert second.ledger is not None
    assert first.ledger is not None
    assert second.capture is not None
    doubts = [] if shown == PAGE else ["no_search"]
    assert list(second.capture.doubts) == doubts
    assert (second.ledger.calls == first.ledger.calls) == (shown == PAGE)


PAINTED = "Who painted the Velm bridge?"
TALK = (Turn(role="user", content=QUESTION), Turn(role="assistant", content=ANSWER))


def helper(
    asked: str, reply: str, began: float, history=TALK, prompt=None, kind="step"
) -> Tree:
    """A chain of one model, which is given the talk so far."""
    prompt = f"{ANSWER}\n{asked}" if prompt is None else prompt
    chain = replace(model(prompt, reply, began), question=asked, history=history)
    chain.root = Node(kind, "chain", began, began + 1, [chain.root])
    return chain


def goes_on(query: str, answer: str, began: float) -> Tree:
    """A chain that is given the talk so far, and searches."""
    return replace(searches_and_answers(query, answer, began), history=TALK)


@pytest.mark.parametrize(
    ("runs", "questions"),
    [
        (  # a follow-up that a chain rewrites, and another one answers
            [
                helper("And who painted it?", PAINTED, 5.0),
                goes_on(PAINTED, "The town did.", 7.0),
            ],
            ["And who painted it?"],
        ),
        (  # the kind of the question is found out first
            [
                helper(PAINTED, "question", 5.0),
                goes_on(PAINTED, "The town did.", 7.0),
            ],
            [PAINTED],
        ),
        (  # and what to ask next is suggested
            [
                goes_on(PAINTED, "The town did.", 5.0),
                helper(PAINTED, "In which colour?", 9.0),
            ],
            [PAINTED],
        ),
        (  # by who is given question and answer, perhaps behind a title of the talk
            [
                goes_on(PAINTED, "The town did.", 5.0),
                helper(PAINTED, "Paint of bridges", 9.0, (), PAINTED),
                replace(
                    helper(f"{PAINTED} The town did.", "1. In which colour?", 11.0),
                    question=None,
                    lookup_inputs=({"q": PAINTED, "a": "The town did."},),
                ),
            ],
            [PAINTED],
        ),
        (  # who is given more may have been asked by the user
            [
                goes_on(PAINTED, "The town did.", 5.0),
                replace(
                    helper("And whose?", "Whose what?", 9.0),
                    question=None,
                    lookup_inputs=({"q": PAINTED, "say": "And whose?"},),
                ),
            ],
            [PAINTED, "And whose?"],
        ),
        (  # a summary of the talk
            [helper(QUESTION, "They spoke of a bridge.", 5.0, TALK, "Sum up.")],
            [],
        ),
        ([helper("By whom?", "By the mayor.", 5.0)], ["By whom?"]),
        (  # a turn that needs no search stands between two that search
            [
                helper("By whom?", "By the mayor.", 5.0),
                goes_on(PAINTED, "The town did.", 7.0),
            ],
            ["By whom?", PAINTED],
        ),
        (  # the user asks what was suggested, as the history of the next turn tells
            [
                helper("What else could I ask?", PAINTED, 5.0),
                replace(
                    goes_on(PAINTED, "The town did.", 9.0),
                    history=(
                        *TALK,
                        Turn(role="user", content="What else could I ask?"),
                        Turn(role="assistant", content=PAINTED),
                    ),
                ),
            ],
            ["What else could I ask?", PAINTED],
        ),
        (  # what states something may be the answer that the user read
            [
                goes_on(PAINTED, "I do not know.", 5.0),
                helper(PAINTED, "Ask the town, please.", 9.0),
            ],
            [PAINTED, PAINTED],
        ),
        (  # a search that failed has no helpers
            [
                helper(PAINTED, "question", 5.0),
                replace(goes_on(PAINTED, "", 7.0), error="Broken"),
            ],
            [PAINTED, PAINTED],
        ),
        (  # of another talk
            [
                helper("And who?", PAINTED, 5.0),
                replace(goes_on(PAINTED, "It did.", 7.0), history=TALK[:1]),
            ],
            ["And who?", PAINTED],
        ),
        (  # an agent helps nobody
            [
                goes_on(PAINTED, "The town did.", 5.0),
                helper(PAINTED, "The town did, as I said.", 9.0, kind="agent"),
            ],
            [PAINTED, PAINTED],
        ),
        (  # and the same is asked again
            [
                helper("And who painted it?", PAINTED, 5.0),
                goes_on(PAINTED, "The town did.", 7.0),
                goes_on(PAINTED, "The town did, in 1901.", 12.0),
            ],
            ["And who painted it?", PAINTED],
        ),
        (  # neither of two searched
            [
                helper("By whom?", "By the mayor.", 5.0),
                helper("By whom?", "By him, as I said.", 8.0),
            ],
            ["By whom?", "By whom?"],
        ),
        (  # asked twice
            [
                goes_on("By whom?", "By the mayor.", 5.0),
                helper(
                    "By whom?",
                    "By the mayor, as I said.",
                    9.0,
                    (*TALK, Turn(role="user", content="By whom?")),
                ),
            ],
            ["By whom?", "By whom?"],
        ),
    ],
)
def test_a_chain_that_helps_another_run_of_its_conversation_is_no_turn(runs, questions):
    samples = samples_made([searches_and_answers(QUESTION, ANSWER, 1.0), *runs])
    # what waits comes at the end
    asked = sorted(sample.question for sample in samples)
    assert asked == sorted([QUESTION, *questions])
    for sample in samples:
        if sample.question == "And who painted it?":
            assert "question_guessed" not in sample.capture.doubts


@pytest.mark.parametrize(
    ("asked", "reply"), [(PAINTED, "question"), ("And who?", PAINTED)]
)
def test_runs_of_two_conversations_are_never_one_turn(asked, reply):
    first, between, other = (
        replace(run, conversation_id=name)
        for run, name in (
            (searches_and_answers(QUESTION, ANSWER, 1.0), "a"),
            (helper(asked, reply, 5.0), "a"),
            (searches_and_answers(PAINTED, "The town did.", 7.0), "b"),
        )
    )
    samples = samples_made([first, between, other])
    told = [(sample.question, sample.ledger.conversation) for sample in samples]
    assert told == [(QUESTION, "a"), (asked, "a"), (PAINTED, "b")]


def test_what_a_helper_wrote_is_asked_in_its_own_task():
    first, between, other = (
        replace(run, task_or_thread=task)
        for run, task in (
            (searches_and_answers(QUESTION, ANSWER, 1.0), "a"),
            (helper("And who painted it?", PAINTED, 5.0), "a"),
            (searches_and_answers(PAINTED, "The town did.", 7.0), "b"),
        )
    )
    samples = samples_made([first, between, other])
    asked = [sample.question for sample in samples]
    assert sorted(asked) == sorted([QUESTION, "And who painted it?", PAINTED])


@pytest.mark.parametrize(
    ("asked", "is_sure"), [("And who painted it?", True), ("What else?", False)]
)
def test_who_is_asked_what_a_helper_wrote_may_have_been_asked_by_the_user(
    asked, is_sure
):
    """A rewriting shares words with the question, and a suggestion need not."""
    runs = [
        searches_and_answers(QUESTION, ANSWER, 1.0),
        helper(asked, PAINTED, 5.0),
        searches_and_answers(PAINTED, "The town did.", 7.0),
    ]
    _, sample = samples_made(runs)
    assert ("which_turn" in sample.capture.doubts) is not is_sure


def test_who_asks_the_same_in_another_task_helps_nobody():
    """Two users of a server, of whom one was answered from what was found before."""
    first, other, again = (
        replace(run, task_or_thread=task)
        for run, task in (
            (searches_and_answers(QUESTION, ANSWER, 1.0), "a"),
            (goes_on(PAINTED, "The town did.", 5.0), "b"),
            (helper(PAINTED, "The town, as I know.", 9.0), "a"),
        )
    )
    samples = samples_made([first, other, again])
    assert [sample.question for sample in samples] == [QUESTION, PAINTED, PAINTED]


@pytest.mark.parametrize(
    ("reply", "answer", "doubts"),
    [
        ("Im Jahr 1874.", "Im Jahr 1874.", ["answer_guessed"]),
        ("yes", ANSWER, []),  # a verdict on it
        ('["bridge"]', ANSWER, []),
        ("1. What did it cost?\n2. Who opened it?", ANSWER, []),
    ],
)
def test_in_a_block_around_one_question_a_model_may_put_the_answer_into_other_words(
    reply, answer, doubts
):
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides(question=QUESTION))
    rewriting = replace(model(f"Say it in German:\n{ANSWER}", reply, 5.0), answers=())
    for run in (searches_and_answers(QUESTION, ANSWER, 1.0), rewriting):
        turns.add(run)
    (sample,) = turns.finish()
    assert (sample.answer, list(sample.capture.doubts)) == (answer, doubts)


def test_a_block_whose_answer_is_put_into_other_words_is_in_doubt_without_its_model():
    """The model behind the first answer was not recorded."""
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides(question=QUESTION))
    engine = replace(searches_and_answers(QUESTION, ANSWER, 1.0), answers=())
    engine.root.children.pop()
    engine.answers = (Answer(ANSWER),)
    said = f"Say it in German:\n{ANSWER}"
    rewriting = replace(model(said, "Im Jahr 1874.", 5.0), answers=())
    for run in (engine, rewriting):
        turns.add(run)
    (sample,) = turns.finish()
    assert "answer_guessed" in sample.capture.doubts


def agent_that_searches(found: str, prompt: str) -> Tree:
    """A run that finds a text by itself, and then asks a model."""
    answering = model(prompt, ANSWER, 3.0)
    own_search = Node("retriever", "shelf", 2.0, 2.5, query=QUESTION)
    own_search.documents = (Document(found),)
    agent = replace(answering, question=QUESTION)
    agent.root = Node("step", "agent", 1.5, 4.0, [own_search, answering.root])
    return agent


@pytest.mark.parametrize(
    ("found_itself", "is_read"),
    [
        ("The Velm bridge was painted green in 1901.", True),
        ("The Velm bridge was opened to cars in 1950.", True),  # begins like the page
        (PAGE, False),
        (BOOK, False),
        (PIECE, False),
        (PAGE[4:], False),  # it ends as the page does, and stands in it
        (PAGE[:40], False),
    ],
)
def test_a_run_that_searches_itself_may_show_what_was_searched_for_before_it(
    found_itself, is_read
):
    """What stands in what it found is its own: the search before it is a turn by itself."""
    shown = [PAGE, found_itself] if is_read else [found_itself]
    agent = agent_that_searches(found_itself, "\n".join([*shown, QUESTION]))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search("By whom was it opened?", 1.0)) == []
    (sample,) = turns.add(agent)  # it waits for nothing
    for passages in (sample.contexts, sample.retrieved):
        assert [passage.text for passage in passages or ()] == shown
    assert sample.ledger is not None
    assert len(sample.ledger.calls) == len(shown)
    alone = [(each.question, each.answer) for each in turns.finish()]
    assert alone == ([] if is_read else [("By whom was it opened?", None)])


def test_a_question_that_repeats_what_was_looked_up_before_it_reads_nothing():
    """Somebody looks at the page, and then asks the application about its words."""
    asked = f"Is it true that {PAGE}"
    found_itself = "It was painted green in 1901 by a painter of the coast."
    agent = agent_that_searches(found_itself, f"{found_itself}\n{asked}")
    agent = replace(agent, question=asked)
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search("By whom was it opened?", 1.0)) == []
    (sample,) = turns.add(agent)
    assert [passage.text for passage in sample.retrieved or ()] == [found_itself]
    assert len(sample.ledger.calls) == 1
    (alone,) = turns.finish()
    assert alone.question == "By whom was it opened?"


def test_what_a_run_found_side_by_side_is_no_longer_text_of_a_search_before_it():
    """A retriever that merges pieces was asked before; the run finds the pieces."""
    pieces = [PAGE, "It was painted green in 1901 by a painter of the coast."]
    agent = agent_that_searches(pieces[0], "\n".join([*pieces, QUESTION]))
    agent.root.children[0].documents = tuple(map(Document, pieces))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search("By whom was it opened?", 1.0, " ".join(pieces))) == []
    (sample,) = turns.add(agent)
    assert [len(call.items) for call in sample.ledger.calls] == [2]
    (alone,) = turns.finish()
    assert alone.question == "By whom was it opened?"


def test_a_page_that_stands_by_itself_beside_the_front_of_a_longer_one_is_read():
    """The longer one holds it, and what is shown of the longer one ends before it."""
    front = "The town of Velm lies on two banks, and many praise its markets in winter."
    longer = f"{front} {PAGE} It was painted green in 1901 by a painter of the coast."
    agent = agent_that_searches(longer, f"{PAGE}\n{front} …\n{QUESTION}")
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    assert turns.add(search("By whom was it opened?", 1.0)) == []
    (sample,) = turns.add(agent)
    assert PAGE in [context.text for context in sample.contexts or ()]
    assert sample.ledger is not None
    assert len(sample.ledger.calls) == 2
    assert turns.finish() == []


def test_what_two_searches_for_the_same_words_found_may_each_be_answered_from():
    runs = [search(QUESTION, 0.0, PORTO), search(QUESTION, 1.0, PAGE)]
    runs += [model(f"{text}\n{QUESTION}", ANSWER, 2.0) for text in (PORTO, PAGE)]
    samples = samples_made(runs)
    found = [[each.text for each in sample.known_contexts] for sample in samples]
    assert found == [[PORTO], [PAGE]]
    assert [sample.capture.grade for sample in samples] == ["exact", "exact"]


@pytest.mark.parametrize(
    ("first_query", "found", "shown", "joined"),
    [
        ("By whom was it opened?", [PAGE, PAGE], [PAGE], [0, 1]),
        ("By whom was it opened?", [PAGE, BOOK], [BOOK], [1]),  # it holds the page
        ("By whom was it opened?", [BOOK, PAGE], [BOOK], [0]),
        ("By whom was it opened?", [PAGE, BOOK], [BOOK, PAGE], [0, 1]),
        ("By whom was it opened?", [PAGE, PIECE], [PIECE], [1]),
        # what was found for the same words was thrown away, or another user's
        (QUESTION, [PORTO, PAGE], [PAGE], [1]),
    ],
)
def test_of_searches_by_themselves_those_belong_to_a_model_whose_texts_it_shows(
    first_query, found, shown, joined
):
    """What stands inside of the text of another search is that one's."""
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    queries = [first_query, QUESTION]
    for began, text in enumerate(found):
        assert turns.add(search(queries[began], began, text)) == []
    assert turns.add(model("\n".join([*shown, QUESTION]), ANSWER, 3.0)) == []
    samples = turns.finish()
    (answered,) = (each for each in samples if each.answer)
    texts = dict.fromkeys(found[n] for n in joined)
    assert [each.text for each in answered.retrieved] == list(texts)
    assert [call.query for call in answered.ledger.calls] == [
        queries[n] for n in joined
    ]
    assert len(samples) == 3 - len(joined)


@pytest.mark.parametrize(
    ("returned", "is_earlier"), [(PAGE, False), (BOOK, False), (PORTO, True)]
)
def test_a_result_before_words_of_the_user_is_of_an_earlier_turn_unless_its_tool_ran(
    returned, is_earlier
):
    """An application may write to its model as if the user did."""
    prompt = [*after_tool(PAGE), Message("user", "Go on.")]
    run = says(tool(returned, documents=(P,)), reads(prompt, ANSWER))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run) + turns.finish()
    assert ("which_turn" in sample.capture.doubts) is is_earlier


def test_a_result_that_was_cut_behind_the_users_words_is_of_this_turn():
    run = says(tool(BOOK, documents=(P,)), reads(after_tool("(too long)"), ANSWER))
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run) + turns.finish()
    assert "which_turn" not in sample.capture.doubts


@pytest.mark.parametrize(
    ("query", "is_doubted"), [("Who painted it?", True), (QUESTION, False)]
)
def test_a_search_that_found_no_text_alone_is_in_doubt_if_it_was_asked_otherwise(
    query, is_doubted
):
    """It may have been looked at, and answered by nobody."""
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    turns.add(search(query, 0.0))
    later = search(QUESTION, 1.0)
    later.root.documents = (Document(PAGE), Document("It is 90 metres long."))
    turns.add(later)
    shown = f"{PAGE}\nIt is 90 metres long.\n{QUESTION}"
    (sample,) = turns.add(model(shown, ANSWER, 3.0)) + turns.finish()
    assert ("which_turn" in sample.capture.doubts) is is_doubted


@pytest.mark.parametrize(
    ("reply", "is_sure"),
    [
        ("no", False),
        ("0.1", False),
        ("Irrelevant", False),
        ('{"relevance_score": 0.1}', False),
        ("In 1874.", True),
    ],
)
def test_a_verdict_between_plain_functions_may_be_on_what_was_found(reply, is_sure):
    """What is answered after it may stand in a run that shows nothing found."""
    runs = [search(QUESTION, 0.0), model(f"{PAGE}\n{QUESTION}", reply, 1.0)]
    (sample,) = samples_made(runs)
    assert (sample.answer, sample.capture.grade == "exact") == (reply, is_sure)


@pytest.mark.parametrize("ending", ["a reranker", "an answer"])
def test_what_is_handed_in_as_a_whole_is_of_the_search_that_found_all_of_it(ending):
    """An earlier search found one of the texts, too."""
    earlier, later = search("Who painted it?", 0.0), search(QUESTION, 1.0)
    later.root.documents = (Document(PAGE), Document("It is 90 metres long."))
    run = model(f"{PAGE}\n{QUESTION}", ANSWER, 3.0)
    if ending == "a reranker":
        reranks = Node("reranker", "rerank", 3.0, 4.0, documents=(Document(PAGE),))
        run = Tree(reranks, gives_only_documents=True)
    run.root.input_documents = later.root.documents
    samples = samples_made([earlier, later, run])
    assert {each.question: len(each.ledger.calls) for each in samples} == {
        "Who painted it?": 1,
        QUESTION: 1,
    }


@pytest.mark.parametrize(
    ("text", "returned", "kind", "items"),
    [
        (None, None, "tool", []),  # such as a number, or an image
        (None, (), "retrieval", []),
        (None, [], "retrieval", []),
        ("[]", None, "retrieval", []),
        ("", None, "retrieval", []),
        ("42", None, "tool", ["42"]),
        ("42", {"left": 42}, "tool", ["42"]),  # what the model was shown
    ],
)
def test_a_result_without_a_text_is_no_search_that_found_nothing(
    text, returned, kind, items
):
    run = says(
        call("tool", name="books", query="Porto", documents=(P,), text=PORTO),
        call("tool", name="books", query="Faro", text=text, result=returned),
        reads(asked(PORTO)),
    )
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run) + turns.finish()
    search, lookup = sample.ledger.calls
    assert (search.kind, lookup.kind) == ("retrieval", kind)
    assert [item.text for item in lookup.items] == items


def test_a_tool_whose_text_has_the_name_of_a_later_tool_brings_evidence():
    text = "A refund is paid within 30 days."
    run = says(
        reads(asked(), CALL, offered_tools=("search",)),
        tool(text, name="search", query="Douro"),
        reads(after_tool(text), offered_tools=("search", "refund")),
    )
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    (sample,) = turns.add(run) + turns.finish()
    assert [item.text for call in sample.ledger.calls for item in call.items] == [text]


def shown_messages(prompt: list[Message], reply: str, began: float) -> Tree:
    tree = model("", reply, began)
    tree.root.prompt = tuple(prompt)
    return tree


def samples_made(runs: list[Tree]):
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    return [sample for run in runs for sample in turns.add(run)] + turns.finish()


def answered(question: str, answer: str, began: float) -> list[Tree]:
    asks = f"{PAGE}\nQuestion: {question}"
    return [search(question, began), model(asks, answer, began + 1)]


PHRASE = "mayor of the town of Velm"
SUGGESTED = "Who painted the green rails?"


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        (f"By the {PHRASE}.", PHRASE),
        (f"In 1874. You may also ask: {SUGGESTED}", SUGGESTED),
        (f"In 1874.\nYou may also ask: {SUGGESTED}", SUGGESTED),
        (f"In 1874. [{SUGGESTED}]", SUGGESTED),
        (f"You asked: {QUESTION} In 1874.", QUESTION),
        ("Velm", "Velm?"),
        ("It is Velm.", "Velm?"),
        ("In 1874; its rails are old.", "and the rails?"),
    ],
)
def test_who_asks_next_for_words_of_an_answer_begins_a_turn(answer, question):
    first, second = samples_made(
        [*answered(QUESTION, answer, 0.0), *answered(question, "Jo.", 3.0)]
    )
    assert (first.question, first.answer) == (QUESTION, answer)
    assert (second.question, second.answer) == (question, "Jo.")
    for sample, asked_for in ((first, QUESTION), (second, question)):
        assert [call.query for call in sample.ledger.calls] == [asked_for]
        assert sample.capture.grade == "exact"


@pytest.mark.parametrize("answer", ["1874.", "By the mayor."])
def test_a_follow_up_on_a_short_answer_that_a_model_words_anew_begins_a_turn(answer):
    asked_anew, follow_up = "Who paid for the Velm bridge?", "and who paid?"
    talk = f"user: {QUESTION}\nassistant: {answer}\nFollow-up: {follow_up}"
    said = [Message("user", QUESTION), Message("assistant", answer)]
    said += [Message("system", PAGE), Message("user", follow_up)]
    first, second = samples_made(
        [
            *answered(QUESTION, answer, 0.0),
            model(talk, asked_anew, 3.0),
            search(asked_anew, 4.0),
            shown_messages(said, "The town.", 5.0),
        ]
    )
    assert (first.question, first.answer) == (QUESTION, answer)
    assert (second.question, second.answer) == (follow_up, "The town.")
    assert [turn.content for turn in second.history] == [QUESTION, answer]


def test_a_search_alone_for_words_of_an_answer_joins_no_turn():
    first, second = samples_made(
        [*answered(QUESTION, f"By the {PHRASE}.", 0.0), search(PHRASE, 3.0)]
    )
    assert [call.query for call in first.ledger.calls] == [QUESTION]
    assert (second.question, second.answer) == (PHRASE, None)


@pytest.mark.parametrize(
    ("asked_before", "reply", "question"),
    [
        (QUESTION, f"On topic: {QUESTION}", QUESTION),  # a guard
        ("How old is it?", f"Do you mean the {PHRASE} or the rails?", PHRASE),
    ],
)
def test_who_asks_what_a_model_has_just_said_is_asked_for_it(
    asked_before, reply, question
):
    (sample,) = samples_made(
        [model(asked_before, reply, 0.0), *answered(question, "Jo.", 1.0)]
    )
    assert (sample.question, sample.answer) == (question, "Jo.")
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize(
    ("said", "reply", "question", "is_sure"),
    [
        ("pls the bridge", QUESTION, QUESTION.lower(), False),
        ("pls the bridge", QUESTION, QUESTION[:-3], False),
        ("pls the bridge", QUESTION, f"Velm: {QUESTION}", False),
        ("pls the bridge", QUESTION, f"{QUESTION} site:velm.org", False),
        ("pls the bridge", QUESTION, QUESTION.replace("the ", ""), False),
        (QUESTION, f"It is on topic: '{QUESTION}'", QUESTION, True),  # a guard
        ("Hello!", "Ask me about the Velm bridge and its rails.", QUESTION, True),
        ("Hello!", "bridge", QUESTION, True),
    ],
)
@pytest.mark.parametrize("is_one_run", [True, False])
def test_who_is_asked_a_changed_text_of_a_model_may_have_been_asked_by_the_user(
    said, reply, question, is_sure, is_one_run
):
    runs = answered(question, "Jo.", 1.0)
    if is_one_run:
        runs = [searches_and_answers(question, "Jo.", 1.0)]
    (sample,) = samples_made([model(said, reply, 0.0), *runs])
    assert sample.answer == "Jo."
    assert ("which_turn" in sample.capture.doubts) is not is_sure
    assert sample.question == question or not is_sure


def test_who_asks_what_a_helper_suggests_is_the_user():
    """It was given question and answer alone, as by a pipeline of its own."""
    first, *_, last = samples_made(
        [
            searches_and_answers(QUESTION, ANSWER, 0.0),
            helper(QUESTION, SUGGESTED, 3.0, (), kind="agent"),
            searches_and_answers(SUGGESTED, "Jo.", 6.0),
        ]
    )
    assert (first.question, last.question) == (QUESTION, SUGGESTED)
    assert first.capture.grade == last.capture.grade == "exact"


def test_a_query_that_code_changed_leaves_the_question_beside_it_sure():
    query = "opening of the Velm bridge"
    answer = model(f"{PAGE}\nQuestion: {QUESTION}", ANSWER, 3.0)
    runs = [model("pls the bridge", query, 0.0), search(query.lower(), 1.0)]
    (sample,) = samples_made([*runs, replace(answer, question=QUESTION)])
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize("last", ["message", "prompt"])
def test_what_models_that_write_queries_are_told_each_time_is_no_question(last):
    told = "Write the next search query."
    asks = [Message("system", f"The user asks: {QUESTION}"), Message("user", told)]
    runs = []
    for began, query in ((0.0, "oldest bridge"), (2.0, "opening of the Velm bridge")):
        runs += [shown_messages(asks, query, began), search(query, began + 1)]
    ends = {
        "message": [Message("system", PAGE), Message("user", QUESTION)],
        "prompt": [Message("user", f"{PAGE}\nAnswer this: {QUESTION}")],
    }
    (sample,) = samples_made([*runs, shown_messages(ends[last], ANSWER, 4.0)])
    assert sample.answer == ANSWER
    is_hedged = "question_guessed" in sample.capture.doubts
    assert sample.question == QUESTION or is_hedged


def test_an_answer_of_what_was_found_waits_for_no_model():
    inner = search(QUESTION, 0.0).root
    root = Node("agent", "chain", 0.0, 1.0, [inner])
    chain = Tree(root, question=QUESTION, answers=(Answer(PAGE),), output=PAGE)
    later = answered("How old is it?", "Old.", 3.0)
    first, second = samples_made([chain, *later])
    assert (first.question, first.answer) == (QUESTION, PAGE)
    assert (second.question, second.answer) == ("How old is it?", "Old.")
    assert first.capture.grade == second.capture.grade == "exact"


MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
NEXT = "Until when did the mill grind corn?"


@pytest.mark.parametrize(
    ("shown", "contexts", "doubts"),
    [
        (f"{PAGE}\n{MILL}", [PAGE, MILL], []),
        (f"{PAGE[:40]}…\n{MILL}", [PAGE[:40].strip(), MILL], []),
        (f"{MILL}\n{PAGE}", [MILL, PAGE], []),
        (f"See {PAGE[:20]}, {PAGE[-20:]}\n{MILL}", [MILL], []),
        (MILL, [MILL], []),
    ],
)
def test_what_was_found_for_an_earlier_question_and_is_shown_again_counts(
    shown, contexts, doubts
):
    runs = [
        *answered(QUESTION, ANSWER, 0.0),
        search(NEXT, 3.0, MILL),
        model(f"{shown}\nQuestion: {NEXT}", "Until 1910.", 4.0),
    ]
    _, sample = samples_made(runs)
    assert [context.text for context in sample.contexts] == contexts
    assert [context.text for context in sample.retrieved] == [MILL]
    assert list(sample.capture.doubts) == doubts
    turns = [1, 2] if len(contexts) > 1 else [1]
    assert [call.turn for call in sample.ledger.calls] == turns


def test_what_an_earlier_turn_was_told_of_is_no_context_though_both_answers_agree():
    talk = [Message("user", QUESTION), Message("tool", PAGE)]
    talk += [Message("assistant", "The town."), Message("user", NEXT)]
    _, sample = samples_made(
        [
            *answered(QUESTION, "The town.", 0.0),
            search(NEXT, 3.0, MILL),
            shown_messages([*talk, Message("tool", MILL)], "The town.", 4.0),
        ]
    )
    assert [context.text for context in sample.contexts] == [MILL]


def test_what_an_earlier_run_found_and_a_tool_is_shown_to_return_is_told_once():
    handed_in = [Message("user", NEXT), Message("tool", PAGE)]
    *_, sample = samples_made(
        [
            *answered(QUESTION, ANSWER, 0.0),
            search(NEXT, 3.0, MILL),
            shown_messages([*handed_in, Message("user", MILL)], "Until 1910.", 4.0),
        ]
    )
    assert [call.turn for call in sample.ledger.calls] == [1]


def test_a_page_that_was_an_earlier_answer_and_is_shown_again_is_in_doubt():
    runs = [
        *answered(QUESTION, PAGE, 0.0),
        search(NEXT, 3.0, MILL),
        model(f"Before: {PAGE}\n{MILL}\nQuestion: {NEXT}", "Until 1910.", 4.0),
    ]
    _, sample = samples_made(runs)
    assert list(sample.capture.doubts) == ["short_text"]


def test_a_page_of_an_earlier_question_around_what_was_found_now_is_in_doubt():
    runs = [
        search(QUESTION, 0.0, BOOK),
        model(f"{BOOK}\nQuestion: {QUESTION}", ANSWER, 1.0),
        *answered(NEXT, "Jo.", 3.0)[:1],
        model(f"{BOOK}\nQuestion: {NEXT}", "Jo.", 4.0),
    ]
    _, sample = samples_made(runs)
    assert list(sample.capture.doubts) == ["in_part"]


@pytest.mark.parametrize(
    ("reply", "also_shown", "is_sure"),
    [
        (ANSWER, f"Answer: {ANSWER}", False),
        (ANSWER, "", False),
        ("Opened in 1874", "Answer: Opened in 1874", False),
        ("mayors of Velm", "", True),  # what to search next
        ("Who was the mayor then?", "Asked: Who was the mayor then?", True),
    ],
)
def test_a_statement_that_is_searched_for_again_may_be_the_answer(
    reply, also_shown, is_sure
):
    """What is said of the second finds may be a next question."""
    runs = [
        search(QUESTION, 0.0),
        model(f"{PAGE}\n{QUESTION}", reply, 1.0),
        search(reply, 2.0, PORTO),
        model(f"{PORTO}\n{QUESTION}\n{also_shown}", "Who was it in 1901?", 3.0),
    ]
    (sample,) = samples_made(runs)
    assert ("which_turn" not in sample.capture.doubts) is is_sure


@pytest.mark.parametrize(
    ("query", "asked", "is_sure"),
    [
        (ANSWER, ANSWER, False),
        (ANSWER, QUESTION, False),
        ("Who paid for it?", "Who paid for it?", True),
    ],
)
def test_what_a_model_answered_before_is_asked_by_no_user(query, asked, is_sure):
    """A question that it suggested may be taken up."""
    answer = f"{ANSWER}\n{asked}" if is_sure else ANSWER
    runs = [searches_and_answers(QUESTION, answer, 1.0), search(query, 5.0, PORTO)]
    said = replace(model(f"{PORTO}\n{asked}", "Porto paid.", 6.0), question=asked)
    runs.append(said)
    first, second = samples_made(runs)
    assert first.capture.grade == "exact"
    assert ("which_turn" not in second.capture.doubts) is is_sure


OPENED = "The mayor opened it in 1874."


@pytest.mark.parametrize(
    ("answer", "found", "is_sure"),
    [
        (OPENED, f"input: {QUESTION}\noutput: {OPENED}", False),
        (OPENED, f"They said: {OPENED}", False),
        ("1874.", f"Q: {QUESTION}\nA: 1874.", False),
        (PAGE, f"{QUESTION} {PAGE}", False),
        (PAGE, BOOK, True),  # the page was found before
        ("1874.", PAGE, True),
    ],
)
def test_a_text_that_holds_an_earlier_answer_may_be_a_memory(answer, found, is_sure):
    runs = [searches_and_answers(QUESTION, answer, 1.0)]
    runs.append(search("Who painted it?", 5.0, found))
    runs.append(model(f"{found}\nWho painted it?", "The town did.", 6.0))
    first, second = samples_made(runs)
    assert first.capture.grade == "exact"
    assert [each.text for each in second.contexts] == [found]
    assert ("by_data_flow" not in second.capture.doubts) is is_sure
