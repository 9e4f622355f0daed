"""When a prompt without a trace of the documents proves that they were forgotten, on a neutral tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragmetrics_core.capture import Answer, Document, Message, Node, Tree, samples_of

QUESTION = "When was the Velm bridge opened?"
ANSWER = "I do not know."
DOCUMENTS = (
    Document(
        "The Velm bridge was opened in May of 1874 by the mayor, after years of quarrels.",
        "a",
    ),
    Document(
        "Carriages paid a toll of two pence there until the county bought the rights.",
        "b",
    ),
)


def forgetful_run() -> Tree:
    """A search finds two documents, and the prompt is the question alone."""
    search = Node("retriever", "search", 1.0, 1.5, query=QUESTION, documents=DOCUMENTS)
    model = model_call(5.0, QUESTION, ANSWER)
    root = Node("step", "chain", 0.0, 9.0, children=[search, model])
    return Tree(root, question=QUESTION, question_place="input", output=ANSWER)


def model_call(began: float, prompt: str, reply: str) -> Node:
    return Node(
        "model",
        "llm",
        began,
        began + 0.5,
        prompt=(Message("user", prompt),),
        is_prompt_text_alone=True,
        reply=Message("assistant", reply),
    )


def is_known_to_be_forgotten(tree: Tree) -> bool:
    (sample,) = samples_of(tree)
    assert sample.capture is not None
    reason = "holds no word of what was retrieved"
    return any(reason in words for words in sample.capture.warnings)


def test_a_prompt_of_the_question_alone_shows_that_all_was_forgotten() -> None:
    assert is_known_to_be_forgotten(forgetful_run())


def by_provider(tree: Tree) -> Tree:
    """The model's provider searched as well: what it found is shown to the model."""
    model = tree.root.children[1]
    model.children = [Node("retriever", "web_search", 5.1, 5.2, by_provider=True)]
    return tree


def with_remark(tree: Tree) -> Tree:
    """A part of the request was not recorded."""
    tree.root.children[1].remarks = ("the request holds a file",)
    return tree


def with_another_reader(tree: Tree) -> Tree:
    """Another model was shown a document of which some words are masked."""
    masked = (
        "Is this of use? The [NAME] bridge was [DONE] in [MONTH] of 1874 by the [WHO],"
        " after [N] of quarrels."
    )
    tree.root.children.append(model_call(3.0, masked, "Perhaps, but ask again."))
    return tree


def with_doubtful_answer(tree: Tree) -> Tree:
    """The framework does not say for sure what the answer is."""
    tree.answers = (Answer(ANSWER, "result", doubts=("there were two",)),)
    return tree


def with_doubtful_writer(tree: Tree) -> Tree:
    """Two calls were asked, and neither reply is the answer."""
    tree.root.children.append(model_call(6.0, QUESTION, "Ask the mayor of the town."))
    tree.output = "The bridge? That is unknown to me."
    return tree


def with_longer_form(tree: Tree) -> Tree:
    """A document may be shown as the text around it, and a word of that is there."""
    window = "The rope ferry ended. " + DOCUMENTS[0].text
    search, model = tree.root.children
    search.documents = (replace(DOCUMENTS[0], forms=(window,)), DOCUMENTS[1])
    model.prompt = (Message("user", f"{QUESTION} Ferry!"),)
    return tree


def with_first_words(tree: Tree) -> Tree:
    """A line of the prompt may be a document that was cut behind its first words.

    Each of these words is so short that it tells nothing by itself.
    """
    documents = (
        Document("He sat on the bow for an hour, and the others were glad of it.", "a"),
    )
    search, model = tree.root.children
    search.documents = (*documents, *DOCUMENTS)
    model.prompt = (Message("user", f"{QUESTION}\nHe sat on the bow for an"),)
    return tree


MAY_BE_SHOWN: list[Callable[[Tree], Tree]] = [
    by_provider,
    with_remark,
    with_another_reader,
    with_doubtful_answer,
    with_doubtful_writer,
    with_longer_form,
    with_first_words,
]


@pytest.mark.parametrize("change", MAY_BE_SHOWN)
def test_what_may_have_been_shown_in_another_way_is_not_said_to_be_forgotten(
    change: Callable[[Tree], Tree],
) -> None:
    assert not is_known_to_be_forgotten(change(forgetful_run()))


def test_a_known_text_that_holds_the_question_is_no_trace_of_documents() -> None:
    """An example in the template repeats the question, with a word of a document."""
    tree = forgetful_run()
    example = f"Example: {QUESTION} Long ago, before 1874."
    tree.instructions = (example,)
    tree.root.children[1].prompt = (Message("user", f"{example}\n{QUESTION}"),)
    assert is_known_to_be_forgotten(tree)
