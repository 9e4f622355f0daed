"""A number in an answer where no context was shown: of a line of the prompt, or of nothing."""

from __future__ import annotations

import pytest
from test_two_numberings import sample_of


@pytest.mark.parametrize(
    "line",
    [
        "[2] Our office opens at nine.",
        "Source 2: Our office opens at nine.",
        "2. Our office opens at nine.",
    ],
)
def test_a_number_with_which_a_line_of_the_prompt_begins_may_mean_this_line(
    line: str,
) -> None:
    sample = sample_of(f"{line}\nWhen?", "It opens at nine [2].", texts=())
    assert sample.citations is None
    assert "shows something under [2]" in sample.citations_unknown


@pytest.mark.parametrize("words", ["", "There are 2 offices.\n"])
def test_a_number_with_which_no_line_begins_dangles(words: str) -> None:
    sample = sample_of(f"{words}When?", "It opens at nine [2].", texts=())
    (citation,) = sample.citations or ()
    assert (citation.contexts, citation.dangling) == ((), ("2",))
