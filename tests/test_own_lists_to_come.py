"""Prompts that show how the answer shall number its own list of sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, cited, sample_of

# langchain-ai/open_deep_research, the prompt of the final report
RULES = """<Citation Rules>
- Assign each unique URL a single citation number in your text
- End with ### Sources that lists each source with corresponding numbers
- Example format:
  [1] Source Title: URL
  [2] Source Title: URL
</Citation Rules>"""
LABELS = (
    "--- SOURCE {n}: Page {n} ---\nURL: https://x.org/{n}\n\n{text}",
    "Source {n}: https://x.org/{n}\n{text}",
    "Document {n} (https://x.org/{n}): {text}",
    '<doc id="{n}" url="https://x.org/{n}">{text}</doc>',
)


def prompt_of(label: str, rules: str = RULES) -> str:
    passages = [
        label.format(n=number, text=text) for number, text in enumerate(TEXTS, start=1)
    ]
    return "\n\n".join([rules, *passages, "Asked: where is Faro?"])


@given(label=st.sampled_from(LABELS), number=st.integers(1, 3))
def test_a_number_of_the_list_to_come_is_unknown_until_the_list_says_what_it_means(
    label: str, number: int
) -> None:
    said = f"Faro is there [{number}]."
    cut_off = sample_of(prompt_of(label), said)
    if number < 3:
        assert cut_off.citations is None
        assert f"[{number}]" in cut_off.citations_unknown
    else:  # the rules show no 3
        assert cited(cut_off) == [(2,)]
    for place in range(3):  # the list keeps the prompt's number, or gives another one
        listed = f"\n\n### Sources\n[{number}] Page: https://x.org/{place + 1}"
        assert cited(sample_of(prompt_of(label), said + listed)) == [(place,)]


@pytest.mark.parametrize(
    ("label", "rules"),
    [
        ("[{n}] {text}", RULES),  # the passages' own numbers
        (LABELS[1], "Cite as [1], [2] and so on."),
        (LABELS[1], "[1] https://x.org/1\n[2] https://x.org/2"),  # they agree
        (LABELS[1], "Write\n[1] for source 1\n[2] for source 2"),
        ("Source {n}:\n[{n}] {text}", "Cite the sources."),
        (LABELS[1], "[1] Use the passages.\n[2] The answer is short, and it is kind."),
    ],
)
def test_numbers_that_only_the_passages_have_are_known(label: str, rules: str) -> None:
    assert cited(sample_of(prompt_of(label, rules), "Faro is there [2].")) == [(1,)]
