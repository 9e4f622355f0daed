"""The corpus of the examples, a search in it, and an answer without a model: our own documentation."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragmetrics_core.data import Context
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.text import content_terms

_DOCS = Path(__file__).parents[1] / "docs"
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


def corpus() -> list[Context]:
    """The paragraphs of our documentation that the examples search.

    Headings, tables and very short paragraphs are left out.
    """
    chunks = []
    for page_name in _PAGES:
        for number, text in enumerate(_paragraphs_of_page(page_name)):
            chunks.append(Context(text=text, id=f"{page_name}#{number}"))
    return chunks


def _paragraphs_of_page(page_name: str) -> list[str]:
    """The paragraphs of one page, without headings, tables and very short ones."""
    page = _DOCS / page_name
    paragraphs = []
    for part in page.read_text(encoding="utf-8").split("\n\n"):
        text = " ".join(part.split())
        is_prose = not text.startswith(("#", "|"))
        if is_prose and len(text) > _LONGEST_SCRAP:
            paragraphs.append(text)
    return paragraphs


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
