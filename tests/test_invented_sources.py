"""Addresses and ids that an answer cites beside known ones, and that nobody was shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_numbers_beside_names import prompt_of
from test_two_numberings import sample_of

ADDRESSES = ("https://a.test/first", "https://b.test", "https://www.c.test/x.html")
LABELS = ("URL: {name}\n{text}", "Source: {name}\n{text}", "[{name}]\n{text}")
LINKS = ("[here]({})", "[{}]({})", "[{}]")
INVENTED = (
    "https://ghost.test",
    "https://a.test/ghost",
    "http://b.test.ghost.org/p?q=1",
)
PROMPT = prompt_of(LABELS[0], ADDRESSES)


def written(form: str, address: str) -> str:
    return form.format(*[address] * form.count("{}"))


@given(
    label=st.sampled_from(LABELS),
    links=st.lists(
        st.tuples(
            st.sampled_from(LINKS),
            st.sampled_from((*ADDRESSES, *INVENTED)),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_beside_a_known_address_each_other_one_dangles(
    label: str, links: list[tuple[str, str]]
) -> None:
    answer = " ".join(f"It is so {written(*link)}." for link in links)
    known = [address for _, address in links if address in ADDRESSES]
    sample = sample_of(prompt_of(label, ADDRESSES), answer)
    if not known:
        assert not sample.citations or all(one.dangling for one in sample.citations)
        return
    assert sample.citations is not None, sample.citations_unknown
    found = [(one.contexts, one.dangling) for one in sample.citations]
    assert found == [
        ((ADDRESSES.index(address),), ()) if address in ADDRESSES else ((), (address,))
        for _, address in links
    ]
    for citation, (_, address) in zip(sample.citations, links, strict=True):
        assert citation.mark is not None
        assert address in answer[slice(*citation.mark)]


def test_a_mark_may_name_a_known_address_and_an_invented_one() -> None:
    answer = f"It is [{ADDRESSES[1]}]. It is old [{ADDRESSES[0]}, {INVENTED[0]}]."
    sample = sample_of(PROMPT, answer)
    assert sample.citations is not None, sample.citations_unknown
    _, citation = sample.citations
    assert (citation.contexts, citation.dangling) == ((0,), (INVENTED[0],))


@pytest.mark.parametrize(
    "other",
    [
        "See [more](https://shown.test/more).",  # a link that a passage has
        "See https://shown.test/more.",
        "Run `curl https://ghost.test`.",
        "```\nhttps://ghost.test\n```",
        "![map](https://ghost.test/map.png)",
    ],
)
def test_what_the_prompt_shows_and_what_is_code_or_an_image_does_not_cite(
    other: str,
) -> None:
    prompt = f"{PROMPT}\nMore: [here](https://shown.test/more)."
    sample = sample_of(prompt, f"It is old [a]({ADDRESSES[0]}).\n\n{other}")
    assert sample.citations is not None, sample.citations_unknown
    assert [(c.contexts, c.dangling) for c in sample.citations] == [((0,), ())]


@pytest.mark.parametrize(
    "other",
    [
        "Visit https://ghost.test for more.",
        "It fell (https://ghost.test).",
        '"https://ghost.test" says so.',
        # other forms of what was shown, or of a part of it
        "It fell [b](https://b.test/).",
        "It fell [b](http://b.test).",
        "It fell [c](https://c.test/x.html).",
        "It fell [c](https://www.c.test/).",
        "It fell [a](https://a.test/first#end).",
    ],
)
def test_an_address_that_may_cite_or_may_be_a_shown_one_leaves_it_unknown(
    other: str,
) -> None:
    sample = sample_of(PROMPT, f"It is old [a]({ADDRESSES[0]}). {other}")
    assert sample.citations is None
    assert sample.citations_unknown


@pytest.mark.parametrize(
    "answer", ["It is old [1].", "It is old [1]. See [more](https://ghost.test)."]
)
def test_a_link_beside_numbers_that_are_no_links_is_left_alone(answer: str) -> None:
    sample = sample_of(prompt_of("[{n}] {text}", ADDRESSES), answer)
    assert sample.citations is not None, sample.citations_unknown
    assert [c.contexts for c in sample.citations] == [(0,)]


def test_a_link_beside_numbers_of_addresses_is_left_alone() -> None:
    """Only where the answer cites by addresses does another address dangle."""
    prompt = prompt_of("[{n}] {name}\n{text}", ADDRESSES)
    sample = sample_of(prompt, "It is old [1]. See [more](https://ghost.test).")
    assert [(c.contexts, c.dangling) for c in sample.citations or ()] == [((0,), ())]


@given(
    first=st.sampled_from(["", f"It is [{ADDRESSES[0]}]. "]),
    beside=st.sampled_from(["", f"{ADDRESSES[0]}, "]),
    other=st.sampled_from(
        ["http://b.test", "https://www.b.test", "HTTPS://B.test", "http://b.test/"]
    ),
)
def test_another_form_of_a_shown_address_never_dangles(
    first: str, beside: str, other: str
) -> None:
    sample = sample_of(PROMPT, f"{first}It fell [{beside}{other}].")
    assert not any(citation.dangling for citation in sample.citations or ())


IDS = ("e1b6", "77aa", "c0de")
FILES_AND_PARTS = ("lamp.txt#0", "lamp.txt#1", "rooms.txt#3")


@pytest.mark.parametrize(
    ("labels", "word", "invented", "dangles"),
    [
        (IDS, "citation:", "zz9", True),
        (FILES_AND_PARTS, "source:", "gone.txt#1", True),
        (IDS, "source:", "zz9", False),  # another word than that of the known marks
        (IDS, "citation:", "zz-9", False),  # another sign
        (IDS, "citation:", "town records", False),
        (IDS, "citation:", "smith", False),  # it may be an author
    ],
)
def test_an_id_dangles_if_it_is_written_like_the_known_ones(
    labels: tuple[str, ...], word: str, invented: str, dangles: bool
) -> None:
    known_word = "source:" if labels is FILES_AND_PARTS else "citation:"
    prompt = prompt_of(f"[{known_word}{{name}}]\n{{text}}", labels)
    answer = f"It is old [{known_word}{labels[0]}]. It fell [{word}{invented}]."
    sample = sample_of(prompt, answer)
    if dangles:
        assert sample.citations is not None, sample.citations_unknown
        assert [(c.contexts, c.dangling) for c in sample.citations] == [
            ((0,), ()),
            ((), (invented,)),
        ]
    else:
        assert sample.citations is None


def test_an_id_that_stands_elsewhere_in_the_prompt_is_unknown() -> None:
    prompt = prompt_of("[citation:{name}]\n{text}", IDS, before="Ticket zz9 is open.")
    sample = sample_of(prompt, "It is [citation:e1b6]. It fell [citation:zz9].")
    assert sample.citations is None
