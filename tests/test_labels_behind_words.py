"""Labels of passages in prompts that put words before the first of them, as ``Context: {context}``."""

from __future__ import annotations

from haystack_pipelines import answered_by_pipeline
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from test_planted_losses import QUESTION, TEXTS, Finds

from ragmetrics_core import Sample
from ragmetrics_core.capture.prompt_labels import labels_in

LEADS = (
    "",
    "Context:\n",
    "Context: ",
    "Sources: ",
    "Here is what was found, in 3 parts: ",
    "Question: When was it opened, in 1874 or 1900? \nContext: ",
    "<context>",
    'Context: """',
    "Cite like this: [7]. Context: ",
    "See document 9. The passages follow. ",
)
LABELS = (
    "[{}] ",
    "[{}]: ",
    "[{}]\n",
    "[{}] a.pdf (p. 2)\n",
    "[Source {}: a.pdf]\n",
    "**[{}]** ",
    "--- [{}] ---\n",
    "Source {}:\n",
    "Document {}: ",
    "Document[{}]: ",
    "### Source {}\n",
    "Source {} (a.pdf): ",
    "Chunk #{} (score 0.83):\n",
    "Citation [{}]\n",
    '<document id="{}">',
    "Source ID: {}\nArticle Title: Bridges\nArticle Snippet: ",
)
PASSAGES = (
    "The Velm rises in the hills.",
    "The bridge was opened in 1874 by the mayor.",
    "The towers are painted red each spring.",
    "Cars pay two crowns at the northern gate.",
)


@given(
    lead=st.sampled_from(LEADS),
    label=st.sampled_from(LABELS),
    between=st.sampled_from(["\n", "\n\n", "\n---\n"]),
    order=st.permutations(range(len(PASSAGES))),
    n_shown=st.integers(2, len(PASSAGES)),
    first_number=st.integers(0, 3),
)
def test_a_number_means_the_passage_that_was_shown_under_it(
    lead: str,
    label: str,
    between: str,
    order: list[int],
    n_shown: int,
    first_number: int,
) -> None:
    """Whatever stands before the first label, each number is known, and right."""
    shown = order[:n_shown]
    passages = [PASSAGES[place] for place in shown]
    texts = [
        label.format(number) + passage
        for number, passage in enumerate(passages, start=first_number)
    ]
    prompt = lead + between.join(texts) + " \nAnswer the question."
    contexts = sorted(passages)
    expected = {
        str(number): (contexts.index(passage),)
        for number, passage in enumerate(passages, start=first_number)
    }
    labels = labels_in([prompt], contexts)
    numbers = {
        name: at
        for name, at in labels.context_indexes_by_label.items()
        if name.isdigit()
    }
    assert numbers == expected
    assert not labels.ambiguous_numbers


def test_words_that_look_like_two_labels_leave_the_numbers_unknown() -> None:
    first, second = PASSAGES[:2]
    for number, other in ((3, 1), (1, 3)):
        lead = f"In document {number}: gone. Document {other}: "
        prompt = f"{lead}{first}\nDocument 2: {second}\n"
        assert not labels_in([prompt], [first, second]).context_indexes_by_label


def test_a_number_of_the_instructions_is_none_of_the_first_passage() -> None:
    """Only the first two of three passages have numbers, which stand behind them."""
    first, second, third = PASSAGES[:3]
    prompt = f"Cite like this: [7]. {first} [1]\n{second} [2]\n{third}\n"
    labels = labels_in([prompt], [first, second, third])
    assert not [name for name in labels.context_indexes_by_label if name.isdigit()]


def test_a_prompt_that_begins_with_its_first_passage_shows_it_under_no_number() -> None:
    """Nobody can tell whether the first number is of the passage above it or below it."""
    first, second, third = PASSAGES[:3]
    prompt = f"{first}\n[2]\n{second}\n[3]\n{third}\nAnswer the question."
    assert not labels_in([prompt], [first, second, third]).context_indexes_by_label


def test_the_only_passage_has_a_number_behind_any_words() -> None:
    for lead in ("What was found, as of May: ", "Context: ", "<context>", ""):
        prompt = f"{lead}[1] {PASSAGES[0]}\nAnswer the question."
        assert labels_in([prompt], PASSAGES[:1]).context_indexes_by_label.get("1") == (
            0,
        )
    unlabelled = f"What was found in part 3: {PASSAGES[0]}\nAnswer."
    assert not labels_in([unlabelled], PASSAGES[:1]).context_indexes_by_label


def of_langchain(template: str, answer: str) -> Sample:
    """The prompt of ``rlm/rag-prompt``, which most tutorials use, with numbered texts."""
    found = RunnableLambda(lambda _: [Document(text) for text in TEXTS])
    numbered = found | (
        lambda documents: "\n\n".join(
            f"[{number}] {one.page_content}"
            for number, one in enumerate(documents, start=1)
        )
    )
    made = (
        {"context": numbered, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template(template)
        | FakeListChatModel(responses=[answer])
    )
    with capture_langchain() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def of_haystack(template: str, answer: str) -> Sample:
    return answered_by_pipeline(Finds((0, 1, 2)), template, answer, QUESTION)


def test_the_usual_prompt_of_one_line_tells_what_marks_mean() -> None:
    answer = "It rises in the hills [1]. It was opened in 1874 [2]."
    samples = [
        of_langchain("Question: {question} \nContext: {context} \nAnswer:", answer),
        of_haystack(
            "Documents: {% for d in documents %}[{{ loop.index }}] {{ d.content }}\n"
            "{% endfor %}{{ query }}",
            answer,
        ),
    ]
    for sample in samples:
        assert [one.contexts for one in sample.citations or ()] == [(0,), (1,)]


def test_the_name_of_a_file_before_a_text_is_its_label() -> None:
    """deepset-ai/haystack, tutorials: ``{{ document.meta.file_name }}: {{ document.content }}``."""
    template = (
        "Documents:\n{% for d in documents %}f{{ loop.index }}.pdf: {{ d.content }}\n"
        "{% endfor %}\n{{ query }}"
    )
    for mark in ("[f2.pdf]", "(Source: f2.pdf)"):
        sample = of_haystack(template, f"It was opened in 1874 {mark}.")
        assert [one.contexts for one in sample.citations or ()] == [(1,)]
