"""A small RAG application over our own documentation, evaluated with the embedded judge."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from ragmetrics_core.data import Context, InputError, Sample
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.lexical.text import content_terms
from ragmetrics_core.reporting.report import Report

_PAGES = ("how_it_works.md", "metrics.md")
_TOP = 4

# Questions with the answers that the documentation gives.
QUESTIONS: tuple[tuple[str, str], ...] = (
    (
        "What is a sample?",
        (
            "A sample is one turn of an application: question, contexts, answer and"
            " reference."
        ),
    ),
    (
        "What does the embedded judge compare?",
        "The embedded judge compares words of answer and contexts.",
    ),
    (
        "When is Context Adherence undefined?",
        "It is undefined if most polls say that the answer makes no claim.",
    ),
    (
        "Which formula does Context Utilization use?",
        "Average precision over the ranks of useful chunks.",
    ),
    (
        "Where do all judge calls run?",
        "All judge calls run on one event loop in a daemon thread.",
    ),
    (
        "What are the bands of Context Recall?",
        "None, minimal, partial, mostly and perfect.",
    ),
    (
        "How is a cell of Retrieval Accuracy scored?",
        "As p(1) / (p(0) + p(1)) from log-probabilities.",
    ),
    ("What does a failed result carry?", "A failed result carries a typed error."),
)

_CONTEXT = (
    "The old lighthouse on Weser Island was built in 1856. Its lamp was lit by Anna"
    " Brandt until 1903."
)
# What the embedded judge sees, and what it cannot see.
HANDWRITTEN: tuple[tuple[str, str, str], ...] = (
    ("hit: grounded", "The old lighthouse was built in 1856.", "high"),
    ("hit: wrong number", "The old lighthouse was built in 1871.", "low"),
    (
        "hit: made up",
        "Tourists can rent kayaks at the harbour office every summer.",
        "low",
    ),
    ("hit: negation", "The old lighthouse was not built in 1856.", "low"),
    ("miss: swapped name", "The lamp was lit by Peter Brandt until 1903.", "low"),
)


def demo() -> Report:
    """Retrieve from our documentation, answer by quoting, and score every turn with all four metrics.

    The last samples of the report are written by hand and show what the embedded judge
    cannot see.
    """
    chunks = corpus()
    print(
        f"Corpus: {len(chunks)} paragraphs of the documentation of ragmetrics."
        " Retriever: shared words.\nGenerator: extractive, it only quotes the best"
        " sentences. Judge: embedded, it compares words."
    )
    samples = [
        _answered(question, reference, chunks) for question, reference in QUESTIONS
    ]
    samples += [
        Sample(
            id=name,
            question="What is known of the lighthouse?",
            contexts=(_CONTEXT,),
            answer=answer,
        )
        for name, answer, _ in HANDWRITTEN
    ]
    report = evaluate(samples, judge=LexicalJudge(), progress=False)
    print("\nWritten by hand, adherence as a person and as the embedded judge sees it:")
    for (name, text, truth), result in zip(
        HANDWRITTEN, report.results[-len(HANDWRITTEN) :], strict=True
    ):
        value = result.results["context_adherence"].value
        print(
            f"  {name:20} person: {truth:4}  judge:"
            f" {'none' if value is None else f'{value:.2f}'}  {text}"
        )
    print()
    return report


def corpus() -> list[Context]:
    """Paragraphs of our documentation; ``InputError`` if it is neither in the package nor beside it."""
    chunks = []
    for name in _PAGES:
        places = (
            files("ragmetrics_core.demo").joinpath("corpus", name),
            Path(__file__).parents[2] / "docs" / name,
        )
        page = next((place for place in places if place.is_file()), None)
        if page is None:
            raise InputError(
                f"the demo's page {name} is missing; install ragmetrics-core again"
            )
        paragraphs = [
            " ".join(part.split())
            for part in page.read_text(encoding="utf-8").split("\n\n")
        ]
        texts = [
            part
            for part in paragraphs
            if len(part) > 40 and not part.startswith(("#", "|"))
        ]
        chunks += [
            Context(text=part, id=f"{name}#{number}")
            for number, part in enumerate(texts)
        ]
    return chunks


def retrieve(question: str, chunks: Sequence[Context]) -> tuple[Context, ...]:
    """The chunks that share most with the question; rare words weigh more."""
    terms = [set(content_terms(chunk.text)) for chunk in chunks]
    frequency = Counter(term for terms_of_chunk in terms for term in terms_of_chunk)
    terms_of_question = set(content_terms(question))
    weights = [
        sum(
            math.log(len(chunks) / frequency[term])
            for term in terms_of_question & terms_of_chunk
        )
        / (1 + math.log(1 + len(terms_of_chunk)))
        for terms_of_chunk in terms
    ]
    best = sorted(range(len(chunks)), key=lambda index: -weights[index])[:_TOP]
    return tuple(
        chunks[index].model_copy(update={"score": weights[index]})
        for index in best
        if weights[index] > 0
    )


def answer(question: str, texts: Iterable[str]) -> str:
    """The sentence that shares most with the question, quoted."""
    terms_of_question = set(content_terms(question))
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    return max(
        sentences,
        key=lambda sentence: len(terms_of_question & set(content_terms(sentence))),
        default="I don't know.",
    )


def _answered(question: str, reference: str, chunks: Sequence[Context]) -> Sample:
    contexts = retrieve(question, chunks)
    return Sample(
        question=question,
        contexts=contexts,
        answer=answer(question, (context.text for context in contexts)),
        reference=reference,
        generator="extractive",
    )
