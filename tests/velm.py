"""A question about a bridge, three texts that may be cited, and the check of what an answer cites.

What is expected of an answer stands in one value: for each citation the part of the
answer (None: the whole answer), the numbers of the texts that it cites, and the marks
that dangle; or words of the reason why nothing can be known.
"""

from ragmetrics_core import Sample

QUESTION = "When was the Velm bridge opened?"
TEXTS = (
    "The Velm is a river of the north; it rises in the hills and ends in a wide lake.",
    "Bridges are built of stone, of iron or of wood, and some of them carry a railway.",
    "After years of quarrels the Velm bridge was opened at last in 1874, by the mayor.",
)
ANSWER = "It was opened in 1874 [3]. It rises in the hills [1][2]. It is red [9]."

Expected = list[tuple[str | None, tuple[int, ...], tuple[str, ...]]] | str
MARKS: Expected = [
    ("It was opened in 1874 [3].", (2,), ()),
    ("It rises in the hills [1][2].", (0,), ()),
    ("It rises in the hills [1][2].", (1,), ()),
    ("It is red [9].", (), ("9",)),
]


def number_of_text(context: str) -> int:
    """The number of the text that a context holds."""
    (number,) = [number for number, text in enumerate(TEXTS) if text in context]
    return number


def check(sample: Sample, expected: Expected) -> None:
    """Assert that the sample cites what is expected, or says why it is unknown."""
    if isinstance(expected, str):
        assert sample.citations is None
        assert expected in sample.citations_unknown
        return
    answer = sample.answer or ""
    assert sample.citations is not None, sample.citations_unknown
    numbers = [number_of_text(context.text) for context in sample.known_contexts]
    assert [
        (
            answer[citation.start : citation.end],
            tuple(numbers[index] for index in citation.contexts),
            citation.dangling,
        )
        for citation in sample.citations
    ] == [(part or answer, cited, dangling) for part, cited, dangling in expected]


def check_contexts(sample: Sample) -> None:
    """Assert that every context is one of the texts, to the letter."""
    assert {context.text for context in sample.known_contexts} <= set(TEXTS)
