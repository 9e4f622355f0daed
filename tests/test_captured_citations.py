"""What answers of real frameworks cite: by the numbers under which their prompts showed the contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack_pipelines import answered_by_pipeline
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import QUESTION, TEXTS, Finds, Found, Nodes

from ragmetrics_core import Sample
from ragmetrics_core.capture.prompt_labels import labels_in
from ragmetrics_core.data import SampleResult
from ragmetrics_core.data.citations import may_cite_more
from ragmetrics_core.reporting.sample_journey import journey_of

ANSWER = "The Velm rises in the hills [1]. The bridge was opened in 1874. [3][9]"
CITED = [("The Velm rises in the hills [1].", (0,), ())]
CITED += [("The bridge was opened in 1874.", (2,), ())]
CITED += [("The bridge was opened in 1874.", (), ("9",))]


def chain(label: str, answer: str = ANSWER, behind: str = "") -> Sample:
    """langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: sources with their ids in the prompt."""

    def format_docs(documents: list[Document]) -> str:
        return "\n\n".join(
            label.format(number) + one.page_content
            for number, one in enumerate(documents, start=1)
        )

    prompt = ChatPromptTemplate.from_template(
        f"{{context}}{behind}\n\nAsked: {{question}}"
    )
    made = (
        {"context": Found() | format_docs, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[answer])
        | StrOutputParser()
    )
    with capture_langchain() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


class Cites(CustomLLM):
    answer: str = ANSWER

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=8192, num_output=256)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return CompletionResponse(text=self.answer)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        yield self.complete(prompt)


def citation_query_engine(answer: str = ANSWER) -> Sample:
    """run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb."""
    engine = CitationQueryEngine(retriever=Nodes(), llm=Cites(answer=answer))
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def pipeline(label: str, answer: str = ANSWER, behind: str = "") -> Sample:
    """deepset-ai/haystack, docs of AnswerBuilder: documents numbered by the template."""
    template = "{% for d in documents %}" + label + "{{ d.content }}\n{% endfor %}"
    template += behind + "{{ query }}"
    return answered_by_pipeline(Finds((0, 1, 2)), template, answer, QUESTION)


NUMBERED: dict[str, Callable[[], Sample]] = {
    "LangChain, in brackets": lambda: chain("[{}] "),
    "LangChain, as sources": lambda: chain("Source {}:\n"),
    "LangChain, with titles": lambda: chain(
        "Source ID: {}\nArticle Title: The Velm, 2nd\nArticle Snippet: "
    ),
    "LangChain, as a list": lambda: chain("{}. "),
    "LlamaIndex": citation_query_engine,
    "Haystack": lambda: pipeline("Document[{{ loop.index }}]: "),
    "Haystack, as elements": lambda: pipeline('<doc id="{{ loop.index }}">'),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_marks_mean_what_the_prompt_numbered(name: str) -> None:
    sample = NUMBERED[name]()
    assert sample.citations is not None
    answer = sample.answer or ""
    assert [
        (answer[one.start : one.end], one.contexts, one.dangling)
        for one in sample.citations
    ] == CITED
    assert [
        text in context.text
        for context, text in zip(sample.contexts, TEXTS, strict=True)
    ] == [True] * 3


@pytest.mark.parametrize("label", ["", "- ", "Title [{}] of a longer line, and\n"])
def test_marks_of_a_prompt_without_numbers_are_unknown(label: str) -> None:
    sample = chain(label)
    assert sample.citations is None
    expected = "the prompt does not tell which context [1] means"
    assert sample.citations_unknown == expected


UNCLEAR = {  # the prompt, in which {0} to {2} are the texts, and the reason
    "two texts under one number": (
        "[1] a.txt\n{0}\n{1}\n\n[2] b.txt\n{2}",
        "the prompt shows [1], and does not tell which contexts stand under it",
    ),
    "one number behind two words": (
        "Document 1: {0}\nDocument 2: {1}\n\nTicket 1: {2}",
        "the prompt shows several texts under the number 1, each behind another word,"
        " and what such words tell is not read",
    ),
    "other numbers behind two words": (
        "Our notes on Document 2: {0}\nand on Ticket 3: {1}\n{2}",
        "the prompt does not tell which context [1] means",
    ),
    "a list of files behind the texts": (
        "From a.txt:\n{0}\n\nFrom b.txt:\n{1}\n{2}\n\nSources:\n[1] a.txt\n[2] b.txt",
        "the prompt shows [1], and does not tell which contexts stand under it",
    ),
    "two lists": (
        "Manuals:\n[1] {0}\n\nTickets:\n[1] {1}\n[2] {2}",
        "the prompt shows several texts under [1]",
    ),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_a_number_without_a_certain_context_has_a_reason_that_is_so(name: str) -> None:
    form, reason = UNCLEAR[name]
    model = FakeListChatModel(responses=["It was opened in 1874 [1]."])

    def answer(question: str) -> str:
        texts = [found.page_content for found in Found().invoke(question)]
        prompt = f"{form.format(*texts)}\n\nQuestion: {question}"
        return str(model.invoke(prompt).content)

    with capture_langchain() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert (sample.citations, sample.citations_unknown) == (None, reason)


def test_a_numbered_prompt_and_an_answer_without_marks() -> None:
    assert chain("[{}] ", "It was opened in 1874.").citations == ()
    assert chain("{}. ", "It was opened in 1874.").citations is None


@pytest.mark.parametrize(
    "ending",
    [
        "\n\nSource IDs: 1, 2",
        "\n\nKilder: 1",
        " (ID: 1)",
        ' <span class="citation">1</span>.',
        " \ue200cite\ue202turn0search1\ue201",
    ],
)
def test_an_answer_that_may_cite_in_an_unread_form_is_not_said_to_cite_nothing(
    ending: str,
) -> None:
    sample = chain("[{}] ", "It was opened in 1874." + ending)
    assert sample.citations is None
    assert sample.citations_unknown


def test_a_number_in_a_sentence_cites_nothing() -> None:
    sample = chain("[{}] ", "It opens at 5 in the morning, and closes at 11:30.")
    assert sample.citations == ()


def test_a_number_of_the_labels_that_no_passage_speaks_of_may_cite() -> None:
    sample = chain("[{}] ", "It opens at 1 in the morning, and closes at 11:30.")
    assert sample.citations is None
    assert "has a number that may name a source" in sample.citations_unknown


PROMPTS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "in another order": ("[1] B b\n[2] A a", {"1": (1,), "2": (0,)}),
    "with zeros": ("[01] A a\n[02] B b", {"1": (0,), "2": (1,)}),
    "a number in prose": ("see source 3\nA a\nsee source 4\nB b", {}),
    "one without": ("[1] A a\nB b", {}),
    "one number twice": ("[1] A a\n[1] B b", {}),
    "a context twice": (
        "[1] A a\n[2] A a\n[3] B b",
        {"1": (0,), "2": (0,), "3": (1,)},
    ),
    "a context that is not there": ("[1] A a", {}),
    "in JSON": (
        '[{"id": 1, "text": "A a"}, {"id": 2, "text": "B b"}]',
        {"1": (0,), "2": (1,)},
    ),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_every_context_needs_a_number_of_its_own(name: str) -> None:
    prompt, expected = PROMPTS[name]
    assert labels_in([prompt], ["A a", "B b"]).context_indexes_by_label == expected


def test_a_blank_documents_place_is_no_number() -> None:
    assert labels_in(["[1] "], [" "]).context_indexes_by_label == {}
    assert labels_in(["[1] "], []).context_indexes_by_label == {}


ANSWERING: dict[str, Callable[[str], Sample]] = {
    "LangChain": lambda answer: chain("[{}] ", answer),
    "LlamaIndex": citation_query_engine,
    "Haystack": lambda answer: pipeline("[{{ loop.index }}] ", answer),
}
UNREAD = ("②", "<sup>2</sup>", "{2}", "[2 to 3]", "(2)", "²", "[see 2]", "[S2]")


@pytest.mark.parametrize("mark", UNREAD)
@pytest.mark.parametrize("name", ANSWERING)
@pytest.mark.parametrize(
    "form", ["It rises [1]. The bridge was opened in 1874 {}.", "It was opened {}."]
)
def test_a_mark_that_is_not_read_is_not_taken_for_none(
    name: str, form: str, mark: str
) -> None:
    """Either nothing is known, or the sentence is known as one that may cite."""
    sample = ANSWERING[name](form.replace("{}", mark))
    if sample.citations is not None:
        assert sample.citations
        assert may_cite_more(sample.answer, sample.citations)
        return
    assert sample.citations_unknown == (
        "the answer may cite in a form that is not read"
    )


@pytest.mark.parametrize("name", ANSWERING)
def test_a_source_in_words_beside_a_mark_is_not_taken_for_none(name: str) -> None:
    sample = ANSWERING[name]("It rises [1]. See Source 2.")
    assert sample.citations
    assert may_cite_more(sample.answer, sample.citations)


@pytest.mark.parametrize("name", [*ANSWERING, "a table"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Document 2 says it opened in 1874, while [3] says red.", None),
        ("Source 3 says [3] that it is red.", "known"),
        ("The towers are red [3].\n\n**Sources:** [2], [3]", None),
        ("The towers are red [3].\n\n**Sources:** [3]", "known"),
        ("It opened. The towers are red [3].\n\n**Sources:** [2], [3]", None),
    ],
)
def test_what_words_may_name_beside_a_mark_is_not_known_as_uncited(
    name: str, answer: str, expected: str | None
) -> None:
    if name == "a table":
        contexts = [f"[{number}] {text}" for number, text in enumerate(TEXTS, 1)]
        sample = Sample.from_row({"answer": answer, "contexts": contexts})
    else:
        sample = ANSWERING[name](answer)
    found = journey_of(SampleResult(index=0, sample=sample, results={}))
    assert found is not None
    cited = [passage.cited for passage in found.passages]
    if expected is None:
        assert cited == [None] * 3
        assert "form that is not read" in found.unknown["cited"]
    else:
        assert cited == [False, False, True]


@pytest.mark.parametrize("answer", ["It was opened in 1874 [2].", "It was [1][2]."])
def test_a_short_note_under_a_number_does_not_dangle(answer: str) -> None:
    """The notes of a map step are too short to be found as passages."""
    retriever = Found()
    model = FakeListChatModel(responses=["Two lanes.", "4 May 1874", "Red.", answer])

    def answer_from_notes(question: str) -> str:
        notes = [
            model.invoke(f"What of this answers the question? {found.page_content}")
            for found in retriever.invoke(question)
        ]
        lines = [f"[{place}] {note.content}" for place, note in enumerate(notes, 1)]
        prompt = "\n".join(["Notes:", *lines, f"Question: {question}"])
        return str(model.invoke(prompt).content)

    with capture_langchain() as captured:
        RunnableLambda(answer_from_notes).invoke(QUESTION)
    (sample,) = captured.samples
    assert sample.citations is None
    # the notes are read as the passages behind them, which have no numbers themselves
    assert "does not tell which context" in sample.citations_unknown


READ = ("［2］", "[２]", "〔2〕", "[2, p. 3]", "[Source 2, p. 3]", "[Source 2: a.pdf]")


@pytest.mark.parametrize("mark", READ)
@pytest.mark.parametrize("name", ANSWERING)
def test_wide_brackets_and_pages_beside_a_number_are_read(name: str, mark: str) -> None:
    sample = ANSWERING[name](f"It rises [1]. It was opened in 1874 {mark}.")
    assert [
        (citation.contexts, citation.dangling) for citation in sample.citations or ()
    ] == [((0,), ()), ((1,), ())]


@pytest.mark.parametrize("mark", ["【2:0†source】", "【12:3†report.pdf】"])
@pytest.mark.parametrize("name", ANSWERING)
def test_a_count_of_a_provider_means_nothing_that_is_known(
    name: str, mark: str
) -> None:
    sample = ANSWERING[name](f"It was opened in 1874 {mark}.")
    assert sample.citations is None
    assert "does not tell which context" in (sample.citations_unknown or "")


HANDBOOK = "\n[4] The handbook of the company says that it closed in 1999.\n"
NUMBERING: dict[str, Callable[[str], Sample]] = {
    "LangChain": lambda behind: chain("[{}] ", behind=behind),
    "Haystack": lambda behind: pipeline("[{{ loop.index }}] ", behind=behind),
}


@pytest.mark.parametrize("name", NUMBERING)
def test_a_passage_from_elsewhere_under_a_number_is_in_doubt(name: str) -> None:
    """What the application itself adds behind the passages of its retriever."""
    sample, with_handbook = (NUMBERING[name](behind) for behind in ("", HANDBOOK))
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert with_handbook.capture is not None
    assert with_handbook.capture.grade == "inferred"
    assert any("labelled like" in words for words in with_handbook.capture.warnings)


@pytest.mark.parametrize("name", ANSWERING)
def test_a_form_of_marks_means_the_same_in_all_frameworks(name: str) -> None:
    marks = ("\\[2\\]", "[2.]", "[No. 2]", "[2: The Velm]", "[2](CITE)")
    answer = " ".join(f"The bridge was opened in 1874 {mark}." for mark in marks)
    sample = ANSWERING[name](f"{answer} Read user_rows[3] of it.")
    assert sample.citations is not None, sample.citations_unknown
    assert [(one.contexts, one.dangling) for one in sample.citations] == [
        ((1,), ())
    ] * 5
    assert may_cite_more(sample.answer, sample.citations)


@pytest.mark.parametrize(
    "answered",
    [
        lambda answer: chain("chunk_id: {}07\n", answer),
        lambda answer: pipeline("chunk_id: {{ loop.index }}07\n", answer),
    ],
)
def test_a_key_of_a_field_means_the_same_in_frameworks_that_show_it(
    answered: Callable[[str], Sample],
) -> None:
    sample = answered("It rises in the hills [chunk_id: 107]. It fell [chunk_id: 907].")
    assert [(one.contexts, one.dangling) for one in sample.citations or ()] == [
        ((0,), ()),
        ((), ("chunk_id: 907",)),
    ]
