"""A small RAG application over our own documentation, evaluated with the embedded judge."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ragmetrics_core.data import Context, InputError, Sample
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.lexical.text import content_terms
from ragmetrics_core.reporting.report import Report

_PAGES = ("how_it_works.md", "metrics.md")
_TOP = 4
_LONGEST_SCRAP = 40  # characters of a paragraph that is no use as a context

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
# Each with the answer, written by hand; the judge sees the first four faults or not.
HANDWRITTEN: tuple[tuple[str, str], ...] = (
    ("grounded", "The old lighthouse was built in 1856."),
    ("a wrong number", "The old lighthouse was built in 1871."),
    ("made up", "Tourists can rent kayaks at the harbour office every summer."),
    ("a negation", "The old lighthouse was not built in 1856."),
    ("a swapped name", "The lamp was lit by Peter Brandt until 1903."),
)


def demo() -> Report:
    """Run the demo: retrieve from our documentation, answer by quoting, and score.

    The last samples are written by hand: one answer is grounded, and four have a fault,
    which the embedded judge, comparing words, sees or misses.
    """
    chunks = corpus()
    samples = [
        _answered(question, reference, chunks) for question, reference in QUESTIONS
    ]
    samples += _handwritten_samples()
    report = evaluate(samples, judge=LexicalJudge(), progress=False)
    run = report.run.model_copy(update={"name": "ragmetrics demo"})
    return Report(report.results, run)


def _handwritten_samples() -> list[Sample]:
    """The samples with answers that were written by hand, about one context."""
    return [
        Sample(
            id=name,
            question="What is known of the lighthouse?",
            contexts=(_CONTEXT,),
            answer=answer,
        )
        for name, answer in HANDWRITTEN
    ]


def corpus() -> list[Context]:
    """The paragraphs of our documentation that the demo searches.

    Headings, tables and very short paragraphs are left out. The pages are part of the
    installed package; a checkout has them in its folder ``docs``.

    Raises:
        InputError: If a page is in neither place.
    """
    chunks = []
    for page_name in _PAGES:
        for number, text in enumerate(_paragraphs_of_page(page_name)):
            chunks.append(Context(text=text, id=f"{page_name}#{number}"))
    return chunks


def _paragraphs_of_page(page_name: str) -> list[str]:
    """The paragraphs of one page, without headings, tables and very short ones."""
    page = _find_page(page_name)
    paragraphs = []
    for part in page.read_text(encoding="utf-8").split("\n\n"):
        text = " ".join(part.split())
        is_prose = not text.startswith(("#", "|"))
        if is_prose and len(text) > _LONGEST_SCRAP:
            paragraphs.append(text)
    return paragraphs


def _find_page(page_name: str) -> Traversable:
    """A page in the installed package or the checkout; ``InputError`` if it is in neither."""
    places: tuple[Traversable, ...] = (
        files("ragmetrics_core.demo").joinpath("corpus", page_name),
        Path(__file__).parents[2] / "docs" / page_name,
    )
    for place in places:
        if place.is_file():
            return place
    raise InputError(
        f"the demo's page {page_name} is missing; install ragmetrics-core again"
    )


def retrieve(question: str, chunks: Sequence[Context]) -> tuple[Context, ...]:
    """Return the few chunks that share most words with the question, best first.

    Rare words count more than words that many chunks have. Long chunks count less,
    since they share words by chance. Chunks that share no word are left out. Example:
    "How high is the tower?" finds the chunk with "tower" and "high" before the chunk
    with "tower" alone; the words of every chunk count nothing.
    """
    terms_by_chunk = [set(content_terms(chunk.text)) for chunk in chunks]
    n_chunks_by_term: Counter[str] = Counter()
    for terms in terms_by_chunk:
        n_chunks_by_term.update(terms)
    terms_of_question = set(content_terms(question))
    scores = []
    for terms in terms_by_chunk:
        rarities = [
            math.log(len(chunks) / n_chunks_by_term[term])
            for term in terms_of_question & terms
        ]
        length_penalty = 1 + math.log(1 + len(terms))
        scores.append(sum(rarities) / length_penalty)
    best_first = sorted(range(len(chunks)), key=scores.__getitem__, reverse=True)
    retrieved = []
    for index in best_first[:_TOP]:
        if scores[index] > 0:
            retrieved.append(chunks[index].model_copy(update={"score": scores[index]}))
    return tuple(retrieved)


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
