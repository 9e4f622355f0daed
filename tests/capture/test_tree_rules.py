"""The rules on the neutral tree of calls, as tables: a run, and the sample that it gives."""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_by_hand import (
    ANSWER,
    BETTER,
    CALL,
    CLOCK,
    DOCS,
    EVORA,
    FARO,
    GRADED,
    HALF,
    LONGER,
    NOT_FARO,
    NOTE,
    PORTO,
    QUESTION,
    RATED,
    ROW_OF_WEB,
    SAID,
    STATUS,
    TITLE,
    WEB,
    Call,
    E,
    F,
    P,
    after_tool,
    asked,
    call,
    found,
    later,
    reads,
    reranked,
    says,
    step,
    tool,
    tree,
)

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    ToolCall,
    Tree,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import Turn as Said

REPORT = f"## Report\n{NOT_FARO}\n## Sources\n* Porto: https://p.example/cities.html"


@dataclass(frozen=True)
class Row:
    """What a run must give; ``retrieved`` in ids, ``contexts`` in texts.

    ``doubts`` are the codes of all that is uncertain, ``hedged`` the fields that may be
    wrong for that reason, ``calls`` the kinds of the ledger's calls where they matter.
    """

    run: Tree
    contexts: Sequence[str]
    retrieved: str | None = "p f e"
    doubts: str = ""
    answer: str | None = ANSWER
    hedged: str = ""
    question: str | None = QUESTION
    calls: str | None = None
    where: Overrides = field(default_factory=Overrides)


SQL = "SELECT city, population, river FROM cities ORDER BY population DESC"
AS_JSON = json.dumps({"msg": QUESTION})
JOINED = Document(f"{PORTO}\n{FARO}", "j")


def ranked() -> Tree:
    """A step that asks of each document at once, and takes the answer of the best score."""
    run = says(
        found(F, P),
        step(
            inside=[
                reads(asked(FARO), "This document does not answer it.\nScore: 0"),
                reads(asked(PORTO), f"{ANSWER}\nScore: 100"),
            ],
            input_documents=(F, P),
        ),
    )
    one, two = run.root.children[1].children
    two.began = one.began + 0.1
    return run


def at_one_moment() -> Tree:
    """The second search ends when the model is called, as coarse clocks tell it."""
    run = says(found(P), found(F), reads(asked(PORTO, FARO)))
    run.root.children[1].ended = run.root.children[2].began
    return run


def engine(answer: str, *inside: Call) -> Call:
    return call("agent", *inside, name="engine", query="Douro?", text=answer)


def found_twice() -> Tree:
    """A place leads to what the second of two searches of one name found."""
    run = says(found(P), found(F), reads(asked(PORTO, FARO)))
    run.call_by_place = {"retriever.documents": run.root.children[1]}
    run.lookup_outputs = ({"retriever.documents": (F,)},)
    return run


def corrective(*search: Call, page: str = WEB, reply: str | Message = BETTER) -> Tree:
    """LangGraph's CRAG: a grade, a rewritten question, a search of the web by a step."""
    return says(
        found(F),
        reads(f"Relevant? {FARO}", GRADED),
        reads(f"Improve: {QUESTION}", reply),
        *search,
        step(Document(page), name="web_search"),
        reads(f"{FARO}\n{page}\nQuestion: {BETTER}"),
    )


def goes_on_with(result: str) -> Tree:
    """An agent that is handed the result of a tool behind the question, and then searches."""
    kept = after_tool(result)
    own_call = Message("assistant", "", (ToolCall("books", {"query": "Porto"}, "2"),))
    return says(
        reads(kept, own_call),
        tool(PORTO, documents=(P,), name="books", tool_call_id="2"),
        reads([*kept, own_call, Message("tool", PORTO)]),
    )


ALL = [PORTO, FARO, EVORA]
PAGE = "It is Porto, in the north, to which most of the bridges lead."
PAGE_OF_BOTH = f"{PORTO} Its bridges are of iron, and much older. {FARO}"
FLOW = "by_data_flow"
ROWS: dict[str, Row] = {
    # what the prompt shows
    "plain": Row(says(found(*DOCS), reads(asked(*ALL))), ALL, calls="retrieval"),
    "repr of a list": Row(says(found(*DOCS), reads(asked(repr(ALL)))), ALL),
    "order of the prompt": Row(
        says(found(*DOCS), reads(asked(EVORA, PORTO, FARO))), [EVORA, PORTO, FARO]
    ),
    "a search of what was found, joined to one text": Row(
        says(found(P, F), found(JOINED), reads(asked(JOINED.text))),
        [JOINED.text],
        "p f",
        calls="retrieval given",
    ),
    "a search that joins what it found inside": Row(
        says(
            call("retriever", found(P, F), query=QUESTION, documents=(JOINED,)),
            reads(asked(JOINED.text)),
        ),
        [JOINED.text],
        "j",
        calls="retrieval",
    ),
    "twice in the same order, which is not the list's": Row(
        says(found(P, F), reads(asked(FARO, PORTO, FARO, PORTO))), [FARO, PORTO], "p f"
    ),
    "an example, and the list behind it": Row(
        says(found(P, F), reads(f"As in:\n{FARO}\nSo now:\n{asked(PORTO, FARO)}")),
        [PORTO, FARO],
        "p f",
        "short_text",
        hedged="contexts",
    ),
    "an example in the instructions": Row(
        says(
            found(P, F),
            reads([Message("system", f"As in: {FARO}"), Message("user", asked(PORTO))]),
        ),
        [PORTO],
        "p f",
        "short_text",
        hedged="contexts",
    ),
    "found again, in another order": Row(
        says(
            found(P, F),
            found(F, P, query="Faro?"),
            reads([*after_tool(f"{PORTO}\n{FARO}"), *after_tool(f"{FARO}\n{PORTO}")]),
        ),
        [PORTO, FARO],
        "p f",
    ),
    "one of three": Row(says(found(*DOCS), reads(asked(FARO))), [FARO]),
    "cut": Row(says(found(P), reads(asked(HALF))), [HALF.rstrip(",")], "p"),
    "cut, and other words go on": Row(
        says(found(P), reads(asked(f"{HALF} it goes on in other words."))),
        [HALF],
        "p",
        "in_part",
        hedged="contexts",
    ),
    "one of several texts of a node": Row(
        says(
            found(Document(PORTO, "p", forms=(LONGER, "title: Porto"))),
            reads(asked(LONGER)),
        ),
        [LONGER],
        "p",
    ),
    "the end of one of several texts of a node": Row(
        says(
            found(Document(PORTO, "p", forms=("A city in Portugal.",))),
            reads(asked(PORTO[25:])),
        ),
        [PORTO[25:]],
        "p",
    ),
    "a short text between others": Row(
        says(
            found(P, Document("Porto", "s"), F),
            reads(asked(f"{PORTO} so Porto it is. {FARO}")),
        ),
        [PORTO, "Porto", FARO],
        "p s f",
        "short_text",
    ),
    "short texts without a space between them": Row(
        says(
            found(Document("Porto", "p"), Document("Faro", "f")),
            reads("Document:\nPorto\n\nRelevant?", "yes"),
            reads("PortoFaro"),
        ),
        ["Porto", "Faro"],
        "p f",
        FLOW,
    ),
    "inside of a shown one": Row(
        says(
            found(P, F),
            found(Document(ROW_OF_WEB, "w"), query="web"),
            reads(asked(ROW_OF_WEB)),
        ),
        [ROW_OF_WEB],
        "p f w",
    ),
    "the question and the history stand there for another reason": Row(
        says(found(Document(QUESTION, "q"), P), reads(asked(PORTO)), history=SAID),
        [PORTO],
        "q p",
        "short_text",
        hedged="contexts",
    ),
    # by the flow of documents
    "by data flow": Row(
        says(found(*DOCS), reads(asked("a summary"))), ALL, doubts=FLOW
    ),
    "data flow of the framework": Row(
        says(found(*DOCS), reads("?"), flow_documents=(P,)), [PORTO], doubts=FLOW
    ),
    "rerankers beside each other": Row(
        says(
            found(P, F, query="Douro"),
            reranked((P, F), P),
            found(E, query="Évora"),
            reranked((E,), E),
        ),
        [PORTO, EVORA],
        doubts=FLOW,
    ),
    "rerankers of searches that found the same": Row(
        says(
            found(*DOCS, query="Douro"),
            reranked(DOCS, P),
            found(*DOCS, query="Évora"),
            reranked(DOCS, F, E),
        ),
        [FARO, EVORA],  # the second one may have worked on what the first one gave
        doubts=FLOW,
    ),
    "a reranker behind another, with more than that gave": Row(
        says(found(P, F), reranked((P, F), P), reranked((P, E), E)),
        [EVORA],
        doubts=FLOW,
        hedged="retrieved",
    ),
    "rerankers one behind the other": Row(
        says(
            found(*DOCS),
            reranked(DOCS, P, F),
            reranked((P, F), Document(HALF)),
            reranked((Document(HALF),), Document(HALF)),
        ),
        [HALF],
        doubts=FLOW,
    ),
    "a filter in plain code between two rerankers": Row(
        says(found(*DOCS), reranked(DOCS, P, F), reranked((P,), P)),
        [PORTO],
        doubts=FLOW,
    ),
    "a page whose only piece of a later step it holds": Row(
        says(found(P), reranked((P,), Document(HALF, "half")), reads(asked(PORTO))),
        [PORTO],
        "p",
        "in_part",
        hedged="contexts",
    ),
    # what steps found and made
    "scored by the last step": Row(
        says(found(*DOCS), step(*RATED), reads(asked(EVORA, PORTO))), [EVORA, PORTO]
    ),
    "a longer version of a step": Row(
        says(found(P), step(Document(LONGER, "p")), reads(asked(LONGER))), [LONGER], "p"
    ),
    "pieces of a split document": Row(
        says(
            found(Document(LONGER, "p")),
            step(
                Document(LONGER[:50]),
                Document(LONGER[60:]),
                documents_among_inputs=(Document(LONGER, "p"),),
            ),
            reads(asked(LONGER[:50], "---", LONGER[60:])),
        ),
        [LONGER[:50], LONGER[60:]],
        "p",
    ),
    "passages that a step joined": Row(
        says(
            found(P, F),
            step(Document(f"{PORTO}\n{FARO}"), documents_among_inputs=(P, F)),
            reads(asked(PORTO, FARO)),
        ),
        [PORTO, FARO],
        "p f",
        "by_data_flow",
        hedged="contexts",
    ),
    "pages that a step put in the place of their sentences": Row(
        says(
            found(P, F, E),
            step(Document(PAGE_OF_BOTH), documents_among_inputs=(P, F, E)),
            reads(asked(PAGE_OF_BOTH)),
        ),
        [PAGE_OF_BOTH],
        "p f e",
    ),
    "a page that a step with a model put there": Row(
        says(
            found(P, F, E),
            step(
                Document(PAGE_OF_BOTH),
                inside=[reads("Which?", "1")],
                documents_among_inputs=(P, F, E),
            ),
            reads(asked(PAGE_OF_BOTH)),
        ),
        [PAGE_OF_BOTH],
        "p f e",
        "by_data_flow",
    ),
    "words that a step wrote anew": Row(
        says(
            found(P),
            step(Document("Oporto, on its river."), documents_among_inputs=(P,)),
            reads(asked("Oporto, on its river.")),
        ),
        ["Oporto, on its river."],
        "p",
        "by_data_flow",
    ),
    "a store searched by a step, beside a retriever": Row(
        says(found(P), step(F, E, name="search"), reads(f"{PORTO}\n{EVORA}")),
        [PORTO, EVORA],
        calls="retrieval retrieval",
    ),
    "texts handed on without their ids": Row(
        says(
            found(P, F),
            step(
                inside=[reads(asked(FARO, PORTO))],
                input_documents=(Document(FARO), Document(PORTO)),
            ),
        ),
        [FARO, PORTO],
        "p f",
    ),
    "handed in": Row(
        says(reads(asked(PORTO)), taken=(P, F), query="all input"),
        [PORTO],
        None,
        calls="given",
    ),
    "the last list arrived as the call began": Row(
        at_one_moment(), [PORTO, FARO], "p f"
    ),
    "nothing found": Row(says(found(), reads(asked(""))), [], ""),
    "what is ignored gives no candidates": Row(
        says(
            call("ignored", found(E), reads(EVORA, "tool 1")),
            found(P),
            reads(asked(PORTO)),
        ),
        [PORTO],
        "p",
    ),
    # the chain behind an answer
    "refine": Row(
        says(
            found(*DOCS),
            reads(asked(PORTO), NOTE),
            reads(f"Given {NOTE} and\n{FARO}\nanswer {QUESTION}", f"{NOTE} Not Faro."),
            reads(f"Given {NOTE} Not Faro. and\n{EVORA}\nanswer {QUESTION}"),
        ),
        ALL,
    ),
    "refine with short drafts": Row(
        says(
            found(*DOCS),
            step(
                inside=[
                    reads(asked(PORTO), "Porto."),
                    reads(f"Existing answer: Porto. New context: {FARO}", "Porto!"),
                    reads(f"Existing answer: Porto! New context: {EVORA}"),
                ],
                input_documents=DOCS,
            ),
        ),
        ALL,
    ),
    "one document in two packs that overlap": Row(
        says(
            found(P),
            step(
                inside=[
                    reads(asked(PORTO[:60]), "Porto."),
                    reads(f"Existing answer: Porto. New context: {PORTO[40:]}"),
                ],
                input_documents=(P,),
            ),
        ),
        [PORTO],
        "p",
        doubts="answer_guessed",
    ),
    "map and reduce": Row(
        says(
            found(P, F),
            reads(asked(FARO), NOT_FARO),
            reads(asked(PORTO), NOTE),
            reads(f"Notes:\n{NOT_FARO}\n{NOTE}\n{QUESTION}"),
        ),
        [FARO, PORTO],
        "p f",
    ),
    "one answer for each document, the best of them": Row(ranked(), [PORTO], "f p"),
    "an unrelated call feeds nothing": Row(
        says(
            found(*DOCS),
            reads(f"Title for {EVORA}", "The bones of Évora and other tales"),
            reads(asked(PORTO)),
        ),
        [PORTO],
        doubts="further_call",
    ),
    "answers to sub-questions are no documents": Row(
        says(
            engine(NOTE, found(P), reads(asked(PORTO), NOTE)),
            step(Document(f"Sub question: Douro?\nResponse: {NOTE}", "x")),
            reads(f"Context:\nSub question: Douro?\nResponse: {NOTE}\n{QUESTION}"),
        ),
        [PORTO],
        "p",
    ),
    "a short answer of an engine, handed on as a document": Row(
        says(
            engine("Yes.", found(P), reads(asked(PORTO), "Yes.")),
            step(
                inside=[reads(f"Question: Porto?\nAnswer: Yes.\n{QUESTION}")],
                input_documents=(Document("Question: Porto?\nAnswer: Yes.", "x"),),
            ),
        ),
        [PORTO],
        "p",
    ),
    "a retriever that hands on an engine's answer beside what it found": Row(
        says(
            call(
                "retriever",
                engine("Yes.", found(P), reads(asked(PORTO), "Yes.")),
                query=QUESTION,
                documents=(Document("Query: Douro?\nResponse: Yes.", "x"), F),
            ),
            reads(f"Query: Douro?\nResponse: Yes.\n{FARO}\n{QUESTION}"),
        ),
        [PORTO, FARO],
        "p f",
        hedged="retrieved",
    ),
    "a found page that quotes an engine's answer": Row(
        says(
            engine("At ten.", found(P), reads(asked(PORTO), "At ten.")),
            found(Document(f"When? At ten. {FARO}", "f")),
            reads(asked("At ten.", f"When? At ten. {FARO}")),
        ),
        [PORTO, f"When? At ten. {FARO}"],
        "p f",
        "further_call",
        hedged="contexts",
    ),
    "a short answer of an engine behind a short one of another call": Row(
        says(
            engine(NOTE, found(P), reads(asked(PORTO), NOTE)),
            engine("At ten.", found(F), reads(asked(FARO), "At ten.")),
            reads("Shorten: When? At ten.", "Ten."),
            reads(f"First: {NOTE}\nSecond: Ten.\n{QUESTION}"),
        ),
        [PORTO],
        "p f",
        "further_call",
    ),
    "a long answer of an engine behind a short one of another call": Row(
        says(
            engine(NOTE, found(P), reads(asked(PORTO), NOTE)),
            engine(NOT_FARO, found(F), reads(asked(FARO), NOT_FARO)),
            reads(f"Shorten: {NOT_FARO}", "Ten."),
            reads(f"First: {NOTE}\nSecond:\nTen.\n{QUESTION}"),
        ),
        [PORTO, FARO],
        "p f",
        "further_call",
    ),
    "a grade beside the answer": Row(
        says(found(P, F), reads(f"Does it help? {FARO}", "No."), reads(asked(PORTO))),
        [PORTO],
        "p f",
    ),
    # which reply is the answer
    "a grader after the answer": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads(f"{PORTO} {ANSWER}", GRADED),
            reads(f"Grounded? {PORTO}", "yes"),
        ),
        [PORTO],
        "p",
    ),
    "a rewrite steers": Row(
        tree(
            reads(f"Rewrite: {QUESTION}", "Portuguese city on the river Douro"),
            found(P, query="Portuguese city on the river Douro"),
        ),
        [PORTO],
        "p",
        f"{FLOW} no_answer",
        answer=None,
    ),
    "answers are equal, never inside": Row(
        tree(
            found(P, F),
            reads(asked(PORTO), "A text about Porto, in which the word north stands."),
            reads(asked(FARO), "north"),
            answers=(Answer("north"),),
        ),
        [FARO],
        "p f",
        "further_call",
        answer="north",
    ),
    "an answer that code made of the last of two summaries": Row(
        tree(
            found(P),
            reads(asked(PORTO), NOTE),
            found(F),
            reads(asked(NOTE, FARO), NOT_FARO),
            lookup_outputs=({"report": REPORT},),
        ),
        [PORTO, FARO],
        "p f",
        answer=REPORT,
        where=Overrides(answer_from="report"),
    ),
    "an answer that code made of one of two summaries": Row(
        tree(
            found(P),
            reads(asked(PORTO), NOTE),
            found(F),
            reads(asked(FARO), NOT_FARO),
            lookup_outputs=({"report": REPORT},),
        ),
        [FARO],
        "p f",
        "further_call",
        answer=REPORT,
        where=Overrides(answer_from="report"),
    ),
    "the same words twice in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            found(F),
            reads(asked(FARO)),
            output=[ANSWER, ANSWER],
        ),
        [FARO],
        "p f",
        "answer_guessed further_call",
    ),
    "an answer and its title in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads(f"Title for: {ANSWER}", TITLE),
            output={"reply": ANSWER, "heading": TITLE},
        ),
        [PORTO],
        "p",
        "answer_guessed",
    ),
    "a title of the question in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads(f"Title for: {QUESTION}", TITLE),
            output={"draft": ANSWER, "title": TITLE},
        ),
        [PORTO],
        "p",
    ),
    "a class of the question and a guess in the output": Row(
        tree(
            reads(f"Language of: {QUESTION}", "English"),
            reads(
                QUESTION, "I do not know, but Lisbon lies in the west of the country."
            ),
            found(P),
            reads(asked(PORTO)),
            output=["English", TITLE, ANSWER],
        ),
        [PORTO],
        "p",
    ),
    "a verdict on the answer in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads(f"Is this harmful? {ANSWER}", "No"),
            output={"reply": ANSWER, "guard": "No"},
        ),
        [PORTO],
        "p",
    ),
    "two answers from what was found in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO), BETTER),
            reads(asked(PORTO)),
            output={"first": BETTER, "second": ANSWER},
        ),
        [PORTO],
        "p",
        "answer_guessed",
    ),
    "a grade beside an answer in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO), "Quite pertinent"),
            reads(QUESTION),
            output={"grade": "Quite pertinent", "said": ANSWER},
        ),
        [PORTO],
        "p",
        f"answer_guessed {FLOW}",
    ),
    "what to ask next beside the answer in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads(
                f"What may be asked next? {ANSWER}", "Which river runs through Porto?"
            ),
            output={"answer": ANSWER, "next": "Which river runs through Porto?"},
            answers=(Answer(ANSWER),),
        ),
        [PORTO],
        "p",
    ),
    "a short answer that is put in other words in the output": Row(
        tree(
            found(P),
            reads(asked(PORTO), "In Porto."),
            reads("Say it in German: In Porto.", "In der Stadt Porto."),
            output={"answer": "In Porto.", "said_in_german": "In der Stadt Porto."},
            answers=(Answer("In Porto."),),
        ),
        [PORTO],
        "p",
        "answer_guessed",
        answer="In Porto.",
    ),
    "documents of one text, with and without an id": Row(
        says(found(P, Document(PORTO))),
        [PORTO],
        "p -",
        FLOW,
    ),
    "a structured answer": Row(
        tree(
            found(P),
            reads(
                asked(PORTO),
                Message("assistant", "", (ToolCall("Cited", {"answer": ANSWER}),)),
            ),
        ),
        [PORTO],
        "p",
    ),
    "a structure inside of the output": Row(
        tree(
            found(P),
            reads(asked(PORTO), '{"answer": "It is Porto.", "place": "north"}'),
            found(F, query="an airport"),
            reads(f"Which airport? {FARO}", "It is the one of Faro, in the south."),
            output={"result": {"first": {"answer": "It is Porto.", "place": "north"}}},
        ),
        [PORTO],
        "p f",
        answer="It is Porto.",
    ),
    "a grade alone in the output": Row(
        tree(found(P), reads(asked(PORTO), GRADED), output={"binary_score": "yes"}),
        [PORTO],
        "p",
        "answer_guessed",
        answer=GRADED.text,
    ),
    "an answer inside of a field that the user names": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            lookup_outputs=({"result": {"answer": ANSWER, "n": 1}},),
        ),
        [PORTO],
        "p",
        where=Overrides(answer_from="result"),
    ),
    "a verdict's form in the prompt, and no verdict's evidence": Row(
        says(
            found(P),
            found(F, query="an airport"),
            reads(f"Relevant? {FARO}", GRADED),
            reads(asked(PORTO, GRADED.text)),
        ),
        [PORTO],
        "p f",
    ),
    "changed after the call": Row(
        says(found(P), reads(asked(PORTO), ANSWER.upper())), [PORTO], "p"
    ),
    "cut out of a reply": Row(
        says(
            found(P),
            reads(asked(PORTO), f"I know.\nFinal Answer: {ANSWER}\nSOURCES: porto.txt"),
        ),
        [PORTO],
        "p",
    ),
    "a part of fewer than 16 letters, cut out of an earlier reply": Row(
        tree(
            found(P),
            reads(asked(PORTO), "Action: finish[in the north] and done"),
            found(F, query="an airport"),
            reads(f"Which airport? {FARO}", "It is the one of Faro."),
            answers=(Answer("in the north"),),
        ),
        [PORTO],
        "p f",
        answer="in the north",
    ),
    "a status line that no model wrote": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            answers=(Answer(STATUS),),
            output={"messages": [Message("assistant", STATUS)], "final_answer": ANSWER},
        ),
        [PORTO],
        "p",
        "further_call",
        hedged="answer",
    ),
    "a message that a step changed, beside a rewrite": Row(
        tree(
            reads(f"Improve: {QUESTION}", BETTER),
            found(P),
            reads(asked(PORTO)),
            answers=(Answer(ANSWER.upper()),),
            output={"messages": [Message("assistant", ANSWER.upper())], "to": BETTER},
        ),
        [PORTO],
        "p",
        answer=ANSWER.upper(),
    ),
    "a rewrite and the answer among the messages": Row(
        tree(
            reads(f"Improve: {QUESTION}", BETTER),
            found(P),
            reads(asked(PORTO), "Porto."),
            output={
                "messages": [
                    Message("user", QUESTION),
                    Message("assistant", BETTER),
                    Message("user", "Porto."),
                ]
            },
        ),
        [PORTO],
        "p",
        "answer_guessed",
        answer="Porto.",
    ),
    "a draft inside a synthesizer is not the answer behind a verdict": Row(
        tree(
            found(P, F),
            step(
                inside=[
                    reads(asked(PORTO)),
                    reads(f"{asked(FARO)}\nExisting answer: {ANSWER}", "Yes"),
                ],
                input_documents=(P, F),
            ),
            answers=(Answer("Yes"),),
        ),
        [PORTO, FARO],
        "p f",
        "answer_guessed",
        answer="Yes",
    ),
    "an answer beside a longer text that joins it with another reply": Row(
        tree(
            found(P),
            reads(asked(PORTO), f"## On Porto\n{ANSWER}"),
            reads("Write an introduction.", "We look at what lies where."),
            output={
                "answer": f"## On Porto\n{ANSWER}",
                "all_of_it": f"We look at what lies where.\n\n{ANSWER}",
            },
            answers=(Answer(f"## On Porto\n{ANSWER}"),),
        ),
        [PORTO],
        "p",
        "answer_guessed",
        answer=f"## On Porto\n{ANSWER}",
    ),
    "an answer beside a longer text of what it was written from": Row(
        tree(
            found(P),
            reads(asked(PORTO), "Porto lies in the north, say the notes."),
            reads(f"{QUESTION}\nPorto lies in the north, say the notes."),
            output={
                "answer": ANSWER,
                "log": f"1. Porto lies in the north, say the notes.\n2. {ANSWER}",
            },
            answers=(Answer(ANSWER),),
        ),
        [PORTO],
        "p",
    ),
    "an answer that is named, beside a text that joins it with another": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads("Write an introduction.", "We look at what lies where."),
            output={"part": ANSWER, "all": f"We look at what lies where. {ANSWER}"},
            lookup_outputs=({"part": ANSWER},),
        ),
        [PORTO],
        "p",
        where=Overrides(answer_from="part"),
    ),
    "an answer beside a log with a verdict on what was found": Row(
        tree(
            found(P),
            reads(f"Is it of use? {PORTO}", '{"grade": "relevant"}'),
            reads(asked(PORTO)),
            output={"answer": ANSWER, "log": f'{PORTO} {{"grade": "relevant"}} (1)'},
            answers=(Answer(ANSWER),),
        ),
        [PORTO],
        "p",
    ),
    "an answer beside a longer text that a model was shown": Row(
        tree(
            reads("Which towns lie in the north?", "Braga and Porto do."),
            found(P),
            reads(
                f"Notes: Braga and Porto do. {PORTO}\nWhat is north of Faro?", "Braga."
            ),
            reads(asked(PORTO)),
            output={"answer": ANSWER, "notes": f"Notes: Braga and Porto do. {PORTO}"},
            answers=(Answer(ANSWER),),
        ),
        [PORTO],
        "p",
    ),
    "an answer beside a shorter text of another reply": Row(
        tree(
            found(P),
            reads(asked(PORTO)),
            reads("Give it a title.", "Towns by rivers"),
            output={"answer": ANSWER, "title": "1. Towns by rivers"},
            answers=(Answer(ANSWER),),
        ),
        [PORTO],
        "p",
    ),
    "a search that ended, by its clock, after the prompt that shows it": Row(
        tree(reads(asked(PORTO)), found(P)), [PORTO], "p"
    ),
    "a call of a tool is no sure answer": Row(
        tree(
            reads(
                QUESTION,
                Message("assistant", "", (ToolCall("lookup", {"in": "Douro"}, "1"),)),
            ),
            found(P, query="Douro"),
        ),
        [PORTO],
        "p",
        f"answer_guessed {FLOW}",
        hedged="answer contexts",
    ),
    "no answer": Row(
        tree(found(*DOCS), gives_only_documents=True),
        ALL,
        doubts="no_answer",
        answer=None,
    ),
    "abandoned": Row(
        tree(found(P), reads(asked(PORTO)), is_complete=False, partial_answer="It is"),
        [PORTO],
        "p",
        "no_answer",
        answer=None,
    ),
    # tools
    "a tool loop": Row(
        says(
            reads(QUESTION, CALL),
            tool(PORTO, found(P, F, query="Douro"), tool_call_id="1"),
            reads(after_tool(PORTO)),
        ),
        [PORTO],
        "p f",
        calls="retrieval",
    ),
    "text of a tool": Row(
        says(
            reads(QUESTION, CALL), tool(PORTO, name="search"), reads(after_tool(PORTO))
        ),
        [],
        None,
        "undivided",
        calls="tool",
    ),
    "a value of a tool, and nothing else": Row(
        says(
            reads(QUESTION, CALL),
            tool("72.50 euros", name="search"),
            reads(after_tool("72.50 euros")),
        ),
        [],
        None,
        "undivided",
        calls="tool",
    ),
    "text of a tool named as context": Row(
        says(
            reads(QUESTION, CALL), tool(PORTO, name="search"), reads(after_tool(PORTO))
        ),
        [PORTO],
        None,
        hedged="retrieved",
        where=Overrides(context_tools={"search"}),
    ),
    "text of two lines of a tool named as context": Row(
        says(
            reads(QUESTION, CALL),
            tool(f"{PORTO}\n{FARO}", name="search"),
            reads(after_tool(f"{PORTO}\n{FARO}")),
        ),
        [f"{PORTO}\n{FARO}"],
        None,
        "undivided",
        hedged="retrieved",
        where=Overrides(context_tools={"search"}),
    ),
    "text of two blocks of a tool named as context": Row(
        says(
            reads(QUESTION, CALL),
            tool(f"{PORTO}\n\n{FARO}", name="search"),
            reads(after_tool(f"{PORTO}\n\n{FARO}")),
        ),
        [f"{PORTO}\n\n{FARO}"],
        None,
        "undivided",
        hedged="retrieved",
        where=Overrides(context_tools={"search"}),
    ),
    "a passage that a step left out, and that the prompt quotes from elsewhere": Row(
        says(
            found(P, F),
            reranked((P, F), F),
            reads(f"Earlier: {PORTO}\nNow: {FARO}\n{QUESTION}"),
        ),
        [PORTO, FARO],
        "p f",
        "short_text",
        hedged="contexts",
    ),
    "a tool that gives documents, and one that gives text": Row(
        says(
            tool(PORTO, documents=(P,), name="books", tool_call_id="1"),
            tool(NOTE, name="search", tool_call_id="2"),
            reads([*after_tool(PORTO), Message("tool", NOTE)]),
        ),
        [PORTO],
        "p",
        "undivided",
    ),
    "a tool with a text and documents beside it": Row(
        says(tool("Found.", documents=(P,)), reads(asked("Found.", PORTO))),
        [PORTO],
        "p",
        calls="tool retrieval",
    ),
    "a search of a tool that found nothing": Row(
        says(
            reads(QUESTION, CALL),
            tool("Nothing was found.", query="year", documents=()),
            reads(QUESTION),
        ),
        [],
        "",
        calls="retrieval",
    ),
    "a text of a step, of which the answer is made where nothing was found": Row(
        says(
            found(), reads(asked(PAGE)), lookup_outputs=({"page": PAGE, "prompt": ""},)
        ),
        [],
        "",
        FLOW,
    ),
    "a text of a step that the answer does not take up": Row(
        says(found(), reads(asked(FARO)), lookup_outputs=({"page": FARO},)), [], ""
    ),
    "a text of the caller, where nothing was found": Row(
        says(
            found(),
            reads(asked(PAGE)),
            lookup_inputs=({"page": PAGE},),
            lookup_outputs=({"page": PAGE, "answer": ANSWER},),
        ),
        [],
        "",
    ),
    "a tool's result that was handed in, before a search": Row(
        goes_on_with(NOTE), [PORTO], "p", "undivided", calls="tool retrieval"
    ),
    "documents of a tool that were handed in, before a search": Row(
        goes_on_with(
            json.dumps({"documents": [{"content": FARO, "id": "f", "score": 1}]})
        ),
        [FARO, PORTO],
        "f p",
        calls="retrieval retrieval",
    ),
    "a sub-agent": Row(
        says(
            reads(QUESTION, CALL),
            tool("Porto", found(P, F), reads(asked(FARO, PORTO), "Porto")),
            reads(after_tool("Porto")),
        ),
        [FARO, PORTO],
        "p f",
        calls="written retrieval",
    ),
    "a short reply that a tool hands on in a structure": Row(
        says(
            tool(
                '{"reply": "Porto."}', found(P, F), reads(asked(PORTO, FARO), "Porto.")
            ),
            reads(after_tool('{"reply": "Porto."}')),
        ),
        [PORTO, FARO],
        "p f",
    ),
    "a short reply that is another field of what a tool returned": Row(
        says(
            tool(
                json.dumps({"page": "Porto", "results": [FARO]}),
                found(P, F),
                reads(asked(PORTO, FARO), "Porto"),
            ),
            reads(after_tool(json.dumps({"page": "Porto", "results": [FARO]}))),
        ),
        [FARO, PORTO],
        "p f",
        "further_call short_text",
    ),
    "a short reply that two models inside of a tool gave": Row(
        says(
            tool(
                "Porto.",
                found(P, F),
                reads(asked(FARO), "Porto."),
                reads(asked(PORTO), "Porto."),
            ),
            reads(after_tool("Porto.")),
        ),
        [FARO, PORTO],
        "p f",
        "further_call",
    ),
    "a report of a tool in which a model inside said a passage": Row(
        says(
            tool(f"Pages: 12.\n{NOTE[:24]}\n{NOTE[24:]}\n" * 2, reads("Sum up.", NOTE)),
            reads(asked(f"Pages: 12.\n{NOTE[:24]}\n{NOTE[24:]}\n" * 2)),
        ),
        [],
        None,
        "no_search",
        calls="written",
    ),
    # pages that quote a question which a model wrote (LangGraph's CRAG)
    "a page of the web, by a tool": Row(
        corrective(tool(f"[{WEB!r}]", name="web", query=BETTER)),
        [FARO, WEB],
        None,
        hedged="retrieved",
    ),
    "a page of the web, by a plain function": Row(
        corrective(), [FARO, WEB], None, hedged="retrieved"
    ),
    "a page that is little more than the question": Row(
        corrective(tool(BETTER, name="web", query=BETTER), page=f"{BETTER} Porto."),
        [FARO, f"{BETTER} Porto."],
        None,
        hedged="retrieved",
    ),
    "a page that a tool returned and a model had written before": Row(
        corrective(tool(NOTE, name="web", query="Douro"), page=NOTE, reply=NOTE),
        [FARO],
        "f",
        calls="retrieval written",
    ),
    # the question
    "no question anywhere": Row(
        says(found(*DOCS, query=""), reads(PORTO), question=None),
        [PORTO],
        doubts="question_guessed",
        question=None,
        hedged="question",
    ),
    "a query alone": Row(
        says(found(*DOCS, query="Douro"), reads(PORTO), question=None),
        [PORTO],
        doubts="question_guessed",
        question="Douro",
    ),
    "a query that is the user's last message": Row(
        says(
            found(P),
            reads([Message("system", PORTO), Message("user", QUESTION)]),
            question=None,
        ),
        [PORTO],
        "p",
    ),
    "a query that is a part of the user's last message": Row(
        says(
            found(P),
            reads(
                [Message("system", PORTO), Message("user", f"{QUESTION} In a word!")]
            ),
            question=None,
        ),
        [PORTO],
        "p",
        "question_guessed",
    ),
    "an input that names the question alone": Row(
        says(
            found(P),
            reads(asked(PORTO)),
            question="8f3a",
            lookup_inputs=({"request_id": "8f3a"},),
        ),
        [PORTO],
        "p",
        "question_guessed",
    ),
    "an input that holds the question as JSON": Row(
        says(
            found(P),
            reads(asked(PORTO)),
            question=AS_JSON,
            lookup_inputs=({"input": AS_JSON},),
        ),
        [PORTO],
        "p",
        "question_guessed",
    ),
    "a short question under a usual name, and a function that words it anew": Row(
        says(
            found(P),
            reads(asked(PORTO)),
            question="Wo?",
            lookup_inputs=({"user_query": "Wo?"},),
        ),
        [PORTO],
        "p",
        question="Wo?",
    ),
    "a question that a model translates": Row(
        says(
            reads("Translate: Wo liegt das?", QUESTION),
            found(P),
            reads(asked(PORTO)),
            question="Wo liegt das?",
        ),
        [PORTO],
        "p",
        question="Wo liegt das?",
    ),
    "no question, but the user's word": Row(
        says(found(*DOCS, query="Douro"), reads(PORTO), question=None),
        [PORTO],
        where=Overrides(question_from=lambda _: QUESTION),
    ),
    "the argument of a tool is no question": Row(
        says(
            found(P, query=""),
            tool("Added.", query="Jon", name="add"),
            reads(PORTO),
            question=None,
        ),
        [PORTO],
        "p",
        "question_guessed",
        question=None,
        hedged="question",
    ),
    "the query of a retriever goes before what is around it": Row(
        says(
            call("agent", found(*DOCS, query="city on the Douro"), query="a part"),
            reads(f"{PORTO}\n{FARO}\n{EVORA}"),
            question=None,
        ),
        ALL,
        doubts="question_guessed",
        question="city on the Douro",
    ),
    "where models wrote each query, the user's words to the first": Row(
        says(
            reads(
                QUESTION,
                Message("assistant", "", (ToolCall("search", {"q": BETTER}, "1"),)),
            ),
            tool("", query="nobody's words", error="no connection"),
            found(*DOCS, query=BETTER),
            reads("\n".join(ALL)),
            question=None,
        ),
        ALL,
    ),
    # what the user names
    "contexts that the user names rest on no call": Row(
        tree(found(*DOCS), reads(asked(PORTO)), answers=(Answer("Other words."),)),
        [FARO],
        answer="Other words.",
        where=Overrides(contexts_from=lambda _: [FARO]),
    ),
    "a verdict is no answer beside contexts that the user names": Row(
        tree(reads(f"Relevant? {FARO}", "relevant"), output="relevant"),
        [FARO],
        None,
        "answer_guessed",
        hedged="answer",
        where=Overrides(contexts_from=lambda _: [FARO]),
    ),
    "named, where a prompt shows what a step left out": Row(
        says(
            found(P, F),
            reranked((P, F), F),
            reads(f"Earlier: {PORTO}\nNow: {FARO}\n{QUESTION}"),
        ),
        [FARO],
        "p f",
        where=Overrides(contexts_from=lambda _: [FARO]),
    ),
    "a longer text of the metadata that a prompt shows, too": Row(
        says(
            found(Document("How do I renew it?", "q", metadata={"answer": FARO})),
            reads(f"Q: How do I renew it?\nA: {FARO}\n{QUESTION}"),
        ),
        ["How do I renew it?"],
        "q",
    ),
    "a longer text of the metadata behind other words than its own text": Row(
        says(
            found(Document("How do I renew it?", "q", metadata={"answer": FARO})),
            reads(
                f"How do I renew it? As the guide to the city says, {FARO}\n{QUESTION}"
            ),
        ),
        [f"How do I renew it?\n{FARO}"],
        "q",
        "in_part",
    ),
    "a longer text of the metadata behind what is asked": Row(
        says(
            found(Document(QUESTION, "q", metadata={"answer": FARO})),
            reads(f"Question: {QUESTION}\n{FARO}"),
        ),
        [f"{QUESTION}\n{FARO}"],
        "q",
        "in_part",
    ),
    "a talk about what a document and its metadata say": Row(
        says(
            found(Document("How do I renew it?", "q", metadata={"answer": FARO})),
            reads(
                f"Q: How do I renew it?\nA: {FARO}\nUser: Hello\nAssistant: {FARO}\n"
                f"{QUESTION}"
            ),
        ),
        ["How do I renew it?"],
        "q",
        "history_unread",
    ),
    "a passage of the metadata that is shown in the place of a summary": Row(
        says(
            found(Document("On cities.", "s", metadata={"whole": FARO, "no": 7})),
            reads(asked(FARO)),
        ),
        [FARO],
        "s",
    ),
    "a passage that a step left out, and a later search found again": Row(
        says(
            found(P, F),
            reranked((P, F), F),
            found(P, query="once more"),
            reads(asked(PORTO)),
        ),
        [PORTO],
        "p f",
    ),
    "short texts that a template writes with nothing between them": Row(
        says(
            found(*map(Document, ("Mark lives in Nice", "Ida in Rome", "Tom in Bonn"))),
            reads(f"Mark lives in NiceIda in RomeTom in Bonn\n{QUESTION}"),
        ),
        ["Mark lives in Nice", "Ida in Rome", "Tom in Bonn"],
        "- - -",
    ),
    "a short passage of Chinese": Row(
        says(
            found(
                Document("国家奖学金每人每年八千元。", "n"), Document("学费另计。", "x")
            ),
            reads(f"资料里写着国家奖学金每人每年八千元。请回答。\n{QUESTION}"),
        ),
        ["国家奖学金每人每年八千元。"],
        "n x",
    ),
    "a text of the run's output that no model wrote": Row(
        tree(found(P), reads(asked(PORTO)), output={"draft": "Edited.", "q": QUESTION}),
        [PORTO],
        "p",
        "answer_guessed",
        hedged="answer",
    ),
    "a question with the talk so far around it": Row(
        says(
            found(P),
            reads(asked(PORTO)),
            question=f"User: Hi\nAI: Hello, traveller.\nNow: {QUESTION}",
            history=(
                Said(role="user", content="Hi"),
                Said(role="assistant", content="Hello, traveller."),
            ),
        ),
        [PORTO],
        "p",
        "question_guessed",
        hedged="question",
    ),
    "the question as a message, printed": Row(
        says(
            found(P),
            reads(f"[HumanMessage(content='{QUESTION}')]\n{asked(PORTO)}"),
        ),
        [PORTO],
        "p",
    ),
    "a title that is longer than the text, and shown above it": Row(
        says(
            found(Document("Opened in 1874 here.", "b", metadata={"title": TITLE})),
            reads(f"{TITLE}\nOpened in 1874 here.\n{QUESTION}"),
        ),
        ["Opened in 1874 here."],
        "b",
    ),
    "a query in the metadata, which a model wrote before": Row(
        says(
            reads("Write a query.", SQL),
            found(Document("[('Porto', 230000, 'Douro')]", "r", metadata={"sql": SQL})),
            reads(f"{SQL}\n[('Porto', 230000, 'Douro')]\n{QUESTION}"),
        ),
        ["[('Porto', 230000, 'Douro')]"],
        "r",
    ),
    "a longer text of the metadata that no prompt shows": Row(
        says(
            found(Document(FARO, "f", metadata={"page": f"{NOT_FARO} {PORTO}"})),
            reads(asked(FARO)),
        ),
        [FARO],
        "f",
    ),
    "named by a call that ran twice, and is shown both times": Row(
        says(found(P), found(F), reads(asked(PORTO, FARO))),
        [PORTO, FARO],
        "p f",
        where=Overrides(contexts_from="retriever"),
    ),
    "named by what a call that ran twice returned last": Row(
        found_twice(),
        [PORTO, FARO],
        "p f",
        where=Overrides(contexts_from="retriever.documents"),
    ),
    "named by a call that ran twice, and is shown once": Row(
        says(found(P), found(F), reads(asked(PORTO))),
        [PORTO],
        "p f",
        where=Overrides(contexts_from="retriever"),
    ),
    "named by a call that ran twice, and is shown in part": Row(
        says(found(P, E), found(F), reads(asked(PORTO, FARO))),
        [FARO],
        "p e f",
        "which_turn",
        where=Overrides(contexts_from="retriever"),
        hedged="contexts",
    ),
    "named by a call that ran twice, and found the same": Row(
        says(found(P), found(P), reads(asked(PORTO))),
        [PORTO],
        "p",
        where=Overrides(contexts_from="retriever"),
    ),
    "named by a call and a key of what it returned": Row(
        says(
            call("step", name="search", returned={"hits": [PORTO], "n": 1}),
            reads(asked(PORTO)),
        ),
        [PORTO],
        None,
        where=Overrides(contexts_from="search.hits"),
        hedged="retrieved",
    ),
    "named by a key of which two calls returned something": Row(
        says(
            call("step", name="search", returned={"hits": [FARO]}),
            call("step", name="rerank", returned={"hits": [PORTO]}),
            reads(asked(PORTO)),
        ),
        [PORTO],
        None,
        where=Overrides(contexts_from="hits"),
        hedged="retrieved",
    ),
    "named where nothing is": Row(
        says(reads(asked(PORTO)), lookup_outputs=({"chunks": []},)),
        [],
        None,
        "by_data_flow",
        where=Overrides(contexts_from="chunks"),
        hedged="retrieved",
    ),
    "named in what the run returned before what it was given": Row(
        tree(
            reads(asked(PORTO)),
            lookup_inputs=({"question": QUESTION, "chunks": [], "reply": ""},),
            lookup_outputs=(
                {"question": "?", "chunks": [{"text": PORTO}], "reply": "Porto."},
            ),
        ),
        [PORTO],
        None,
        answer="Porto.",
        where=Overrides("question", "chunks", "reply"),
        hedged="retrieved",
    ),
}


def ids_of(sample: Sample) -> str | None:
    documents = sample.retrieved
    return None if documents is None else " ".join(one.id or "-" for one in documents)


@pytest.mark.parametrize("name", ROWS)
def test_one_run(name):
    row = ROWS[name]
    (sample,) = samples_of(row.run, row.where)
    assert sorted(sample.capture.doubts) == sorted(row.doubts.split())
    assert (sample.capture.grade == "exact") == (not row.doubts)
    told = {
        "contexts": [context.text for context in sample.known_contexts],
        "answer": sample.answer,
        "question": sample.question,
        "retrieved": ids_of(sample),
    }
    for field_name, value in told.items():
        if field_name not in row.hedged.split():
            expected = getattr(row, field_name)
            assert value == expected, field_name
    if row.calls is not None:
        assert [call.kind for call in sample.ledger.calls] == row.calls.split()


@given(st.permutations(DOCS), st.permutations(DOCS), st.integers(1, 3))
def test_the_ledger_lists_what_each_search_returned_and_what_was_shown(
    returned, order, n_shown
):
    shown = order[:n_shown]
    run = says(found(*returned), reads(asked(*(one.text for one in shown))))
    (sample,) = samples_of(run)
    (search,) = sample.ledger.calls
    assert [item.id for item in search.items] == [one.id for one in returned]
    places = [place for place, one in enumerate(returned) if one in shown]
    assert search.shown == tuple(places)
    assert [one.id for one in sample.known_contexts] == [one.id for one in shown]


def test_scores_are_those_of_the_last_step():
    (sample,) = samples_of(ROWS["scored by the last step"].run)
    assert [context.score for context in sample.known_contexts] == [0.9, 0.7]
    assert [context.score for context in sample.retrieved or ()] == [None] * 3


def talk(answer: str) -> Tree:
    """An application of its own that searches nothing."""
    said = call("agent", reads("Hello, which ferry?", answer), name="pipeline")
    return Tree(said(itertools.count(1)), question="Hello, which ferry?")


@pytest.mark.parametrize(
    "run",
    [
        says(reads("Hello")),
        tree(call("ignored", found(*DOCS), reads(asked(PORTO))), question=None),
        tree(reads(asked(PORTO), GRADED), taken=DOCS),
        tree(step(*DOCS), question=None),
        talk("You're welcome!"),
        talk("Hello! How can I help you?"),
    ],
    ids=[
        "no retrieval",
        "ignored",
        "a grader of what is handed in",
        "an index",
        "thanks",
        "a greeting",
    ],
)
def test_no_sample(run):
    assert samples_of(run) == []
    # a place elsewhere makes none of what answered nobody
    if run.question is None:
        assert samples_of(run, Overrides(contexts_from="retriever")) == []


@pytest.mark.parametrize(
    "answer", ["It sails at ten.", "I don't know.", "Which ferry do you mean?"]
)
def test_an_application_that_does_not_only_greet_should_have_searched(answer):
    (sample,) = samples_of(talk(answer))
    assert list(sample.capture.doubts) == ["no_search"]


@pytest.mark.parametrize("place", ["chunks", lambda run: None])
def test_a_place_that_holds_none_names_nothing(place):
    run = says(found(P), reads(asked(PORTO)), lookup_outputs=({"chunks": None},))
    (sample,) = samples_of(run, Overrides(contexts_from=place))
    assert [context.text for context in sample.known_contexts] == [PORTO]
    assert (sample.capture.grade, sample.capture.evidence_from) == ("exact", "prompt")


@pytest.mark.parametrize(
    "value", [[{"blob": PORTO, "source": "a"}], {"blob": PORTO, "source": "a"}]
)
def test_named_contexts_without_a_text_are_unknown(value):
    run = says(reads(asked(PORTO)), lookup_outputs=({"chunks": value},))
    (sample,) = samples_of(run, Overrides(contexts_from="chunks"))
    assert sample.contexts is None
    doubt = sample.capture.doubts["by_data_flow"]
    assert re.search(r"without a text .*: blob, source", doubt)


# a text that a tool returned beside contexts; whether the tool is to be named
TEXTS_OF_TOOLS = {
    **dict.fromkeys(("42", "Done.", "[]", "Berlin", "北京", "4.4 pounds"), False),
    "49291234567890123456": True,  # it may be all that the answer tells
    FARO: True,
    PORTO: False,  # a text that is a context already
    f"Title: Porto\n{PORTO}\n[https://porto.example]": False,
    f"{PORTO}\n\n{FARO}": True,  # a context, and what nobody divided
    json.dumps({"title": "Porto", "text": PORTO}): False,
    json.dumps([{"text": PORTO}, {"text": PORTO, "url": "p"}]): False,
    json.dumps([{"text": PORTO}, {"text": FARO}]): True,
    # as ``str`` writes what a tool returned
    str([{"text": PORTO, "source": "porto", "score": 0.37796447300922725}]): False,
    str([{"text": f"It's \n{PORTO}", "url": None}]): False,
    str([{"text": PORTO}, {"text": FARO}]): True,
    f"['{PORTO} \\d']": False,  # what no ``repr`` writes makes no warning
}


@pytest.mark.parametrize("text", TEXTS_OF_TOOLS)
def test_a_tools_text_beside_contexts_is_to_be_named(text):
    """Unless it is a value, as of a calculator, or says what a context says."""
    prompt = [Message("user", asked(PORTO)), Message("tool", text)]
    run = says(found(P), tool(text, name="lookup", query="6 * 7"), reads(prompt))
    (sample,) = samples_of(run)
    assert ("undivided" in sample.capture.doubts) == TEXTS_OF_TOOLS[text]


SHIRT = {"name": "Breeze", "price": 120, "stock": 12, "page": "", "seller": "Anna"}
SHIRT["river"] = "Douro"  # as its text says


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        (f"Breeze, 120 euros, Douro\n{PORTO}\n{FARO}", ("name", "price")),
        (f"{PORTO} [Breeze]\nQuestion", ("name",)),
        (f"{PORTO}\nAnnabel", None),
        (f"Anna sells.{' It is said.' * 40}\n{PORTO}", None),
    ],
)
def test_which_metadata_a_prompt_shows_beside_a_text(prompt, names):
    run = says(found(Document(PORTO, "p", metadata=SHIRT), F), reads(prompt))
    (sample,) = samples_of(run)
    context = sample.known_contexts[0]
    assert (context.text, context.metadata) == (PORTO, SHIRT)
    assert context.shown_metadata == names
    lines = [f"{name}: {SHIRT[name]}" for name in names or ()]
    assert context.text_with_metadata == "\n".join([*lines, PORTO])


ITEMS = [{"content": PORTO, "url": "p"}, {"content": FARO, "url": "f"}]
TITLED = [{"title": "Porto", "text": PORTO}, {"title": "Faro", "text": FARO}]
TASKS = [{"id": 1, "content": PORTO, "status": "open"}, {"id": 2, "content": FARO}]
SAID_BEFORE = [{"role": "user", "content": PORTO}, {"role": "user", "content": FARO}]


def blocks(*texts, **fields):
    """What a server of MCP returns."""
    content = [{"type": "text", "text": text} for text in texts]
    return {"meta": None, "content": content, "isError": False, **fields}


# what a tool returned; the contexts, where it is sure that a search found them
ANY_TOOL = {
    "sources": (ITEMS, [PORTO, FARO]),
    "under a name": (
        {"query": "north", "results": ITEMS, "answer": None},
        [PORTO, FARO],
    ),
    "titles": ({"chunks": TITLED}, [PORTO, FARO]),
    "one title": (TITLED[:1], None),
    "in a block": (blocks(json.dumps({"results": ITEMS})), [PORTO, FARO]),
    "a block each": (blocks(*map(json.dumps, TITLED)), [PORTO, FARO]),
    "in a block, and structured": (
        blocks(*map(json.dumps, ITEMS), structuredContent={"result": ITEMS}),
        [PORTO, FARO],
    ),
    "a file": (
        {"content": [{"type": "resource", "resource": {"uri": "f", "text": FARO}}]},
        [FARO],
    ),
    "as str writes it": (str(ITEMS), [PORTO, FARO]),
    "tasks": (TASKS, None),
    "a record": ({"title": "Porto", "content": PORTO, "url": "p"}, None),
    "a record in a block": (blocks(json.dumps(ITEMS[0])), None),
    "one without a source": ([*ITEMS, {"content": NOTE}], None),
    "one block": (blocks(PORTO), None),
    "texts": ([PORTO, FARO], None),
}
ASKED_A_QUERY = {
    "texts": ([PORTO, FARO], [PORTO, FARO]),
    "blocks": (blocks(PORTO, FARO), [PORTO, FARO]),
    "blocks, and structured": (
        blocks(PORTO, FARO, structuredContent={"result": [PORTO, FARO]}),
        [PORTO, FARO],
    ),
    "records": (TASKS, [PORTO, FARO]),
    # it may be a word on the search, such as that it found nothing
    "one text": ([PORTO], None),
    "one block": (blocks(PORTO), None),
    "one record": (TASKS[:1], None),
    "one title": ([{"title": "None", "text": "Nothing was found for it."}], None),
    "a heading": (blocks("These are the towns that I found:", PORTO, FARO), None),
    "a word before files": (
        [{"type": "text", "text": NOTE}, {"type": "resource", "resource": ITEMS[0]}],
        None,
    ),
    "names": (["The town of Porto", "The town of Faro"], None),
    "questions": (["Which town lies in the north?", "Where is Faro?"], None),
    "a block of several": (blocks(PORTO, f"{FARO}\n\n{EVORA}"), None),
    "messages": (SAID_BEFORE, None),
    "an image": ({"content": [*blocks(PORTO)["content"], {"type": "image"}]}, None),
    "an error": (blocks(PORTO, FARO, isError=True), None),
    "objects": (blocks(json.dumps({"a": PORTO}), json.dumps({"a": FARO})), None),
}
RESULTS_OF_TOOLS = [
    *[({"town": "north"}, *row) for row in ANY_TOOL.values()],
    *[({"query": "north"}, *row) for row in ASKED_A_QUERY.values()],
]


@pytest.mark.parametrize(
    ("arguments", "result", "contexts"),
    RESULTS_OF_TOOLS,
    ids=[*ANY_TOOL, *(f"asked: {name}" for name in ASKED_A_QUERY)],
)
def test_what_a_structure_tells_to_be_found_is_found(arguments, result, contexts):
    text = result if isinstance(result, str) else json.dumps(result)
    run = says(
        reads(QUESTION, CALL),
        tool(text, name="search", query="north", arguments=arguments),
        reads(after_tool(text)),
    )
    (sample,) = samples_of(run)
    texts = [context.text for context in sample.known_contexts]
    assert texts == (contexts or [])
    assert list(sample.capture.doubts) == ([] if contexts else ["undivided"])


@pytest.mark.parametrize("names", [None, {"search"}])
def test_an_answer_of_the_search_itself_beside_its_finds_is_hedged(names):
    """A model of the provider wrote it. No passage needs to say so."""
    told = {"answer": "It lies in the north, on a wide river.", "results": ITEMS}
    text = json.dumps(told)
    run = says(
        reads(QUESTION, CALL),
        tool(text, name="search", query="north"),
        reads(after_tool(text)),
    )
    (sample,) = samples_of(run, Overrides(context_tools=names))
    assert [context.text for context in sample.known_contexts] == [PORTO, FARO]
    assert list(sample.capture.doubts) == ["undivided"]


def test_of_several_texts_that_the_user_names_as_the_question_none_is_left_out():
    run = says(found(P), reads(PORTO), lookup_inputs=({"places": ["Porto", "Faro"]},))
    (sample,) = samples_of(run, Overrides(question_from="places"))
    assert sample.question == "Porto\nFaro"


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Current question: {}\n\n[Output]\nNo lists.", QUESTION),
        ("You help guests.\n\n**Frage**：{}", QUESTION),
        ("Question: {}", None),
        ("First: who?\nThen: {}", None),
        ("I wonder.\n{}", None),
    ],
)
def test_a_question_under_a_label_beside_further_lines_is_taken_and_doubted(
    written, asked
):
    """An application wrote them around it. None of several is surely asked."""
    whole = written.format(QUESTION)
    run = says(found(P), reads(f"{PORTO}\n{whole}"), question=whole)
    (sample,) = samples_of(run)
    assert sample.question == (asked or whole)
    assert list(sample.capture.doubts) == (["question_guessed"] if asked else [])


def test_an_address_is_no_sure_question():
    run = says(found(P), reads(asked(PORTO)), question="https://porto.example/a")
    (sample,) = samples_of(run)
    assert list(sample.capture.doubts) == ["question_guessed"]


@pytest.mark.parametrize("names", [None, {"search"}, frozenset()])
@pytest.mark.parametrize(
    "saved",
    ["Saved 2 pages: /found/1.md, /found/2.md", "Stock in Porto: 4 lamps, 2 reserved"],
)
def test_a_text_of_its_own_of_a_tool_that_found_documents_is_hedged(names, saved):
    """One that only tells what was found is not, nor where the user says which search."""
    page = f"# Source: p\n\n1\t{PORTO}"
    run = says(
        reads(QUESTION, CALL),
        tool(saved, found(P, F), name="search", query="north"),
        tool(page, name="read", query="/found/1.md"),
        reads([*after_tool(saved), Message("tool", page)]),
    )
    (sample,) = samples_of(run, Overrides(context_tools=names))
    assert [context.text for context in sample.known_contexts] == [PORTO]
    hedged = {"undivided": '"search"'} if names is None else {}
    assert sample.capture.doubts.keys() == hedged.keys()
    for code, name in hedged.items():
        assert f"{{{name}}}" in sample.capture.doubts[code]


ROWS_AROUND = [
    {"lamp": PORTO, "price": "100 million dollars", "maker": "the Berg workshop"},
    [
        {"lamp": PORTO, "song": "Keep the light for us"},
        {"lamp": PORTO, "song": "Far out at sea"},
    ],
    {"question": PORTO, "answer": "From the keeper of the harbour."},
]


@pytest.mark.parametrize("result", ROWS_AROUND)
@pytest.mark.parametrize("names", [None, {"search"}, frozenset()])
def test_what_a_tool_returns_around_documents_that_it_found_is_hedged(names, result):
    """It is not, where the user says that the tool does not search, or names the contexts."""
    text = json.dumps(result)
    run = says(
        reads(QUESTION, CALL),
        tool(text, found(P), name="search", query="north"),
        reads(after_tool(text)),
    )
    (sample,) = samples_of(run, Overrides(context_tools=names))
    advice = 'context_tools={"search"}' if names is None else "contexts_from="
    hedged = {} if names == frozenset() else {"undivided": advice}
    assert sample.capture.doubts.keys() == hedged.keys()
    for code, words in hedged.items():
        assert words in sample.capture.doubts[code]
    kinds = [call.kind for call in sample.ledger.calls]
    assert sorted(kinds) == ["retrieval", "tool"]


QUERY = "which town lies in the north of it"
LABELS_AROUND = [
    {"status": "success", "results": [{"content": PORTO, "score": 0.9}]},
    [{"text": PORTO, "source": "notes.md", "page": 3}],
    {
        "where": "lies on the Douro",
        "part": "the north of Portugal",
        "whole": PORTO,
    },
    {
        "query": "where is the north",
        "message": "Found 1 document",
        "documents": [PORTO],
    },
    # what the model asked stands there, too, and is cut out
    {
        "query": QUERY,
        "follow_up_questions": None,
        "answer": None,
        "results": [{"content": PORTO, "url": "p"}],
    },
]


@pytest.mark.parametrize(
    "more",
    [
        " It costs eighty euros, and five are left.",
        "\nIts cellars are in Gaia, uphill.",
    ],
)
@pytest.mark.parametrize("is_inside", [True, False])
def test_what_a_tool_tells_beside_a_document_is_in_doubt(is_inside, more):
    """It holds the passage that was found, as a parent of it does, and tells more."""
    text = f"Page 3: {PORTO}{more}"
    search = [found(P)]
    run = says(
        reads(QUESTION, CALL),
        *([] if is_inside else search),
        tool(text, *(search if is_inside else []), name="fetch"),
        reads(after_tool(text)),
    )
    (sample,) = samples_of(run)
    assert set(sample.capture.doubts) == {"undivided"}
    assert [context.text for context in sample.known_contexts] == [PORTO]


@pytest.mark.parametrize("result", LABELS_AROUND)
@pytest.mark.parametrize("names", [None, {"search"}])
def test_labels_of_documents_that_a_tool_found_are_no_doubt(names, result):
    text = json.dumps(result)
    query = result.get("query", "north") if isinstance(result, dict) else "north"
    wish = Message("assistant", "", (ToolCall("search", {"query": query}, "1"),))
    run = says(
        reads(QUESTION, wish),
        tool(text, found(P), name="search", query=query),
        reads(after_tool(text)),
    )
    (sample,) = samples_of(run, Overrides(context_tools=names))
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == [PORTO]


def test_a_search_that_failed_beside_one_that_found_nothing_may_have_found_some():
    failed = call("retriever", query=QUESTION, error="no connection")
    (sample,) = samples_of(says(found(), failed, reads(asked(""))))
    assert sample.capture.grade == "incomplete"


# The ledger


def ledger_of(run: Tree) -> list[tuple[str, int, int, str | None, str | None]]:
    """Kind, turn, step, name and agent of each call of the ledger."""
    (sample,) = samples_of(run)
    return [
        (each.kind, each.turn, each.step, each.name, each.agent)
        for each in sample.ledger.calls
    ]


def test_turns_steps_and_agents_of_calls():
    asks = reads(QUESTION, CALL, agent="one")
    history = (*SAID, Said(role="user", content="Anybody?"))
    for second, agent in (("one", None), ("other", "one")):
        run = says(
            asks,
            found(P, agent="one"),
            reads(asked(PORTO), agent=second),
            history=history,
        )
        assert ledger_of(run) == [("retrieval", 3, 1, None, agent)]
    failed = reads(QUESTION, CALL, error="no connection")
    run = says(failed, found(P), reads(asked(PORTO)))
    assert ledger_of(run) == [("retrieval", 1, 0, None, None)]


def test_the_calls_inside_of_a_tool_are_counted_from_the_models_inside_of_it():
    """The tool "research" looks up one text by itself, and then one as its model asks."""
    wish = Message("assistant", "", (ToolCall("look", {}, "t1"),))
    research = tool(
        "",
        tool(FARO, name="first"),
        reads("Go on.", wish),
        tool(EVORA, name="look", tool_call_id="t1"),
        name="research",
    )
    names = [
        name for _, _, _, name, _ in ledger_of(says(research, reads(FARO + EVORA)))
    ]
    assert [name for name in names if name != "research"] == ["first", "look"]


# Several runs of one question


def alone(made: Call, **fields: Any) -> Tree:
    node = made(CLOCK)
    return Tree(node, gives_only_documents=node.kind == "retriever", **fields)


CONDENSED = "Portuguese city on the river Douro"
AND_FARO = "And where is Faro?"
Told = tuple[str | None, list[str], str | None, str]  # the last: the codes of doubts
FLOWS: dict[str, tuple[list[Tree], list[Told]]] = {
    "retriever, grader, model": (
        [
            alone(found(*DOCS)),
            alone(reads(f"Relevant? {PORTO}", GRADED)),
            alone(reads(asked(PORTO + EVORA))),
        ],
        [(QUESTION, [PORTO, EVORA], ANSWER, "")],
    ),
    "a word that may be a verdict": (
        [alone(found(P)), alone(reads(asked(PORTO), "Yes"))],
        [(QUESTION, [PORTO], "Yes", "answer_guessed")],
    ),
    "a rewrite comes first, after many calls of other work": (
        [
            *(
                alone(reads(f"Title of {n}?", f"Note {n} of harbours"))
                for n in range(12)
            ),
            alone(reads(f"Condense: {QUESTION}", CONDENSED)),
            alone(found(P, query=CONDENSED)),
            alone(reads([Message("system", PORTO), Message("user", QUESTION)])),
        ],
        [(QUESTION, [PORTO], ANSWER, "")],
    ),
    "several searches that a model wrote": (
        [
            alone(
                reads(f"Searches for: {QUESTION}", f'1. "{CONDENSED}"\n2. The Algarve')
            ),
            alone(found(P, query=CONDENSED)),
            alone(found(F, query="The Algarve")),
            alone(reads(asked(PORTO + FARO))),
        ],
        [(QUESTION, [PORTO, FARO], ANSWER, "question_guessed")],
    ),
    "a search that a model wrote in a line of its thoughts": (
        [
            alone(
                reads(f"Tools: search.\nQuestion: {QUESTION}", f"search[{CONDENSED}]")
            ),
            alone(found(P, query=CONDENSED)),
            alone(
                reads(
                    f"Question: {QUESTION}\nsearch[{CONDENSED}]\nObservation: {PORTO}"
                )
            ),
        ],
        [(QUESTION, [PORTO], ANSWER, "question_guessed")],
    ),
    "a search that a model wrote behind a label": (
        [
            alone(reads(f"Question: {QUESTION}", f"Think.\nAction Input: {CONDENSED}")),
            alone(found(P, query=CONDENSED)),
            alone(reads(asked(PORTO))),
        ],
        [(QUESTION, [PORTO], ANSWER, "question_guessed which_turn")],
    ),
    "a search that a model wrote as a call in its text": (
        [
            alone(reads(QUESTION, f'<call>{{"query": "{CONDENSED}"}}</call>')),
            alone(found(P, query=CONDENSED)),
            alone(
                reads(f"<result>{PORTO}</result>"),
                history=(
                    Said(role="user", content=QUESTION),
                    Said(role="assistant", content="<call/>"),
                ),
            ),
        ],
        [(QUESTION, [PORTO], ANSWER, "history_unread question_guessed")],
    ),
    "a search for some words of the question that the prompt shows": (
        [alone(found(P, query="lies on the Douro")), alone(reads(asked(PORTO)))],
        [(QUESTION, [PORTO], ANSWER, "question_guessed")],
    ),
    "two questions that were translated, and searched for alone": (
        [
            alone(reads("Translate: Welche Stadt liegt am Douro?", QUESTION)),
            alone(found(P)),
            alone(reads("Translate: Und wo liegt Faro?", AND_FARO)),
            alone(found(F, query=AND_FARO)),
        ],
        [
            (
                "Welche Stadt liegt am Douro?",
                [PORTO],
                None,
                f"{FLOW} no_answer question_guessed",
            ),
            ("Und wo liegt Faro?", [FARO], None, f"{FLOW} no_answer question_guessed"),
        ],
    ),
    "two questions, one after the other": (
        [
            alone(found(P)),
            alone(reads(asked(PORTO))),
            alone(found(F, query="And Faro?")),
            alone(reads(f"{FARO} And Faro?", "In the south, by the sea.")),
        ],
        [
            (QUESTION, [PORTO], ANSWER, ""),
            ("And Faro?", [FARO], "In the south, by the sea.", "question_guessed"),
        ],
    ),
    "the question of the chain that answers": (
        [alone(found(P, query="Douro")), later(says(reads(asked(PORTO))))],
        [(QUESTION, [PORTO], ANSWER, "")],
    ),
    "an agent that is asked what a model wrote": (
        [
            alone(reads("Ask it whole: and which city?", BETTER)),
            later(
                says(
                    reads([Message("user", BETTER)], CALL),
                    found(P, query="Douro"),
                    reads([Message("user", BETTER), CALL, Message("tool", PORTO)]),
                    question=BETTER,
                )
            ),
        ],
        [(BETTER, [PORTO], ANSWER, "question_guessed")],
    ),
    "a model that shows nothing retrieved is another matter": (
        [alone(found(P)), alone(reads("What time is it?", "Five, as far as I know."))],
        [(QUESTION, [PORTO], None, "no_answer")],
    ),
    "a title that reads the answer": (
        [
            alone(found(P)),
            alone(reads(asked(PORTO))),
            alone(reads(f"Title for: {ANSWER} {PORTO}", TITLE)),
        ],
        [(QUESTION, [PORTO], ANSWER, "answer_guessed which_turn")],
    ),
    "notes on each document, an answer from the notes": (
        [
            alone(found(P, F)),
            alone(reads(f"A note on: {PORTO}", NOTE)),
            alone(reads(f"A note on: {FARO}", NOT_FARO)),
            alone(reads(f"{NOTE}\n{NOT_FARO}\n{QUESTION}")),
        ],
        [(QUESTION, [PORTO, FARO], ANSWER, "answer_guessed which_turn")],
    ),
    "the conversation goes on without a retrieval": (
        [
            alone(found(P)),
            alone(reads(asked(PORTO))),
            alone(
                reads(
                    [
                        Message("user", asked(PORTO)),
                        Message("assistant", ANSWER),
                        Message("user", "Say more."),
                    ],
                    "There is more to be said of it.",
                )
            ),
        ],
        [(QUESTION, [PORTO], ANSWER, "")],
    ),
    "documents of two tasks in one prompt": (
        [
            alone(found(P), task_or_thread="a"),
            alone(found(E), task_or_thread="b"),
            alone(reads(asked(EVORA + PORTO)), task_or_thread="c"),
        ],
        [(QUESTION, [EVORA, PORTO], ANSWER, "which_turn")],
    ),
    "documents of a task that started another one": (
        [
            alone(found(P), task_or_thread="a>"),
            alone(found(E), task_or_thread="a>b>c>"),
            alone(reads(asked(PORTO + EVORA)), task_or_thread="a>b>"),
        ],
        [(QUESTION, [PORTO, EVORA], ANSWER, "")],
    ),
    "retriever, reranker": (
        [
            alone(found(*DOCS)),
            Tree(reranked(DOCS, E)(CLOCK), gives_only_documents=True),
        ],
        [(QUESTION, [EVORA], None, "no_answer")],
    ),
    "paused and resumed": (
        [
            tree(found(P), resumption_key="t", is_paused=True),
            later(
                says(
                    reads(asked(PORTO)),
                    resumption_key="t",
                    continues=True,
                    question=None,
                )
            ),
        ],
        [(QUESTION, [PORTO], ANSWER, "")],
    ),
    "a run that may be resumed": (
        [says(found(P), reads(asked(PORTO)), resumption_key="t")],
        [(QUESTION, [PORTO], ANSWER, "")],
    ),
}


def turns() -> Turns[Tree]:
    return Turns(lambda one: [one], Overrides())


@pytest.mark.parametrize("name", FLOWS)
def test_several_runs(name):
    runs, expected = FLOWS[name]
    joining = turns()
    samples = [sample for run in runs for sample in joining.add(run)]
    samples += joining.finish()
    assert joining.finish() == []
    assert [
        (
            sample.question,
            [context.text for context in sample.known_contexts],
            sample.answer,
            " ".join(sorted(sample.capture.doubts if sample.capture else ())),
        )
        for sample in samples
    ] == expected


def test_a_query_that_a_model_wrote_is_the_stand_alone_question():
    joining = turns()
    for run in FLOWS["a rewrite comes first, after many calls of other work"][0]:
        joining.add(run)
    (sample,) = joining.finish()
    assert sample.standalone_question == CONDENSED
    failed = found(query="Which drink?", error="Down: the store")
    run = says(found(*DOCS, query="Which city?"), failed, reads(PORTO))
    (sample,) = samples_of(run)
    assert sample.standalone_question is None


@pytest.mark.parametrize("field", ["question", "contexts", "answer"])
def test_a_place_that_leads_nowhere_is_said_and_the_rules_are_used(field):
    """So are the names that might have been meant."""
    calls = call("retriever", documents=DOCS, name="store"), reads(asked(PORTO))
    made = says(*calls, lookup_outputs=({"reply": ANSWER},))
    (by_rules,) = samples_of(made)
    (sample,) = samples_of(made, Overrides(**{f"{field}_from": "nowhere"}))
    assert (sample.question, sample.contexts, sample.answer) == (
        by_rules.question,
        by_rules.contexts,
        by_rules.answer,
    )
    said = f"{field}_from='nowhere' leads to nothing among 'reply', 'store'"
    assert any(said in text for text in sample.capture.warnings)


@pytest.mark.parametrize(
    "place", ["inputs.mail.body", "mail.body", "outputs.said.about", "said.about"]
)
def test_a_place_may_name_inputs_and_outputs_and_lead_through_an_object(place):
    @dataclass
    class Held:
        body: str = NOTE
        about: str = NOTE

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return vars(value) if isinstance(value, Held) else value

    run = says(
        found(*DOCS),
        reads(asked(PORTO)),
        lookup_inputs=({"mail": Held()},),
        lookup_outputs=({"said": Held()},),
        to_plain_value=plain,
    )
    (sample,) = samples_of(run, Overrides(question_from=place))
    assert sample.question == NOTE


@pytest.mark.parametrize(
    "place",
    [
        "messages.-1.text",
        "messages[-1].content",
        "messages[2]",
        "outputs.messages[-1]",
        "messages.0.metadata",
    ],
)
def test_a_place_may_lead_into_a_list_and_end_at_what_a_message_has(place):
    said = [
        Message("user", PORTO),
        Message("system", EVORA),
        Message("assistant", NOTE),
    ]
    run = says(found(*DOCS), reads(asked(PORTO)), lookup_outputs=({"messages": said},))
    (sample,) = samples_of(run, Overrides(answer_from=place))
    is_there = "metadata" not in place
    assert sample.answer == (NOTE if is_there else ANSWER)
    assert any(place in each for each in sample.capture.warnings) != is_there


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("question", "question_guessed"),
        ("answer", "answer_guessed"),
        ("contexts", "by_data_flow"),
    ],
)
def test_a_function_of_the_user_that_finds_nothing_or_raises_is_named(field, code):
    made = says(found(*DOCS), reads(asked(PORTO)))
    (by_rules,) = samples_of(made)

    def finder(run: object) -> None:
        return None

    def broken(run: object) -> None:
        raise TypeError(PORTO)

    (sample,) = samples_of(made, Overrides(**{f"{field}_from": finder}))
    assert sample.answer == ANSWER
    assert f"{field}_from=finder returned None" in " ".join(sample.capture.warnings)
    (sample,) = samples_of(made, Overrides(**{f"{field}_from": broken}))
    assert (sample.question, sample.contexts, sample.answer) == (
        by_rules.question,
        by_rules.contexts,
        by_rules.answer,
    )
    assert (sample.capture.grade, set(sample.capture.doubts)) == ("inferred", {code})
    said = " ".join(sample.capture.warnings)
    assert f"{field}_from=broken raised TypeError" in said
    assert PORTO not in said


@pytest.mark.parametrize(
    ("replied", "is_sure"),
    [
        ({"joke": NOTE}, True),  # the default of a field is filled in
        ({"joke": NOTE, "mood": "dry"}, True),
        ({"joke": NOTE, "mood": "wet"}, False),
        ({"mood": "dry"}, False),  # somebody else wrote the joke
    ],
)
def test_an_answer_object_is_of_the_reply_whose_fields_it_has(replied, is_sure):
    answered = {"joke": NOTE, "mood": "dry", "rating": None}
    reply = Message("assistant", "", (ToolCall("Schema", replied, "1"),))
    run = tree(
        found(*DOCS),
        reads(asked(PORTO), reply),
        answers=(Answer(json.dumps(answered)),),
        output={"structured_response": answered},
    )
    (sample,) = samples_of(run)
    assert sample.capture is not None
    assert set(sample.capture.doubts) == (set() if is_sure else {"further_call"})


# What an earlier answer says in a later prompt: no history, and no doubt
REFUSAL = "I cannot tell from these pages, please ask at the office in the town."
AGAIN = {
    "asked again inside of a run": (
        ANSWER,
        f"Sub question: {QUESTION}\nResponse: {ANSWER}\n{PORTO}\n{AND_FARO}",
        AND_FARO,
    ),
    "behind a name": (ANSWER, f"Anna: {QUESTION}\n{ANSWER}\n{PORTO}", QUESTION),
    "held by instructions": (REFUSAL, f"Else say: {REFUSAL}\n{PORTO}", AND_FARO),
}


@pytest.mark.parametrize("name", AGAIN)
def test_words_of_an_earlier_turn_in_a_prompt_are_no_history(name):
    reply, prompt, question = AGAIN[name]
    joining = turns()
    answers = (Answer(reply),)
    joining.add(tree(found(P), reads(asked(PORTO), reply), answers=answers))
    (sample,) = joining.add(
        tree(found(P), reads(prompt, "It is told there."), question=question)
    )
    assert sample.history == ()
    assert sample.capture.warnings == ()


def test_the_conversation_that_a_plain_call_shows():
    joining = turns()
    joining.add(alone(found(P)))
    joining.add(alone(reads(asked(PORTO)), history=SAID))
    (sample,) = joining.finish()
    assert sample.history == SAID


@pytest.mark.parametrize("error", ["TimeoutError", None])
def test_a_run_without_an_answer_leaves_the_earlier_one_as_it_was(error):
    """The same question with the same history again: the user reads the first answer."""
    joining = turns()
    second = later(tree(found(P), history=SAID))
    second.root.error = error
    first = says(found(P), reads(asked(PORTO)), history=SAID)
    samples = [*joining.add(first), *joining.add(second), *joining.finish()]
    assert [sample.answer for sample in samples] == [ANSWER, None]
    assert samples[0].capture.grade == "exact"
    assert not joining.problems.counts


@pytest.mark.parametrize("n_runs", [0, 1, 2])
def test_runs_of_which_none_gives_a_sample_are_said(n_runs):
    joining: Turns[Tree] = Turns(lambda _: [], Overrides(), hint="nothing retrieved")
    for _ in range(n_runs):
        assert joining.add(tree()) == []
    assert joining.finish() == []
    assert joining.problems.counts == ({"nothing retrieved": 1} if n_runs else {})
