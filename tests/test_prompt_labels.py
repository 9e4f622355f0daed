"""Under which labels a prompt shows its contexts: numbers, files, titles, ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture.prompt_labels import labels_in

TEXTS = ("It is old and grey.", "It fell in the war.", "It was built again.")
FILES = ("a.pdf", "b.pdf", "a.pdf")


def prompt(label: str, between: str = "\n\n") -> str:
    """Instructions, the texts with what an application writes around them, the question."""
    shown = between.join(
        label.format(n=place + 1, i=place, file=FILES[place], text=text)
        for place, text in enumerate(TEXTS)
    )
    return f"1. Answer in English.\n2. Cite.\n\nContext:\n{shown}\n\nQuestion: When?"


NUMBERS = {"1": (0,), "2": (1,), "3": (2,)}
FROM_0 = {"0": (0,), "1": (1,), "2": (2,)}

# How a prompt is written, and what some labels must mean; None: nothing.
LABELS: dict[str, tuple[str, dict[str, tuple[int, ...] | None]]] = {
    "in brackets": ("[{n}] {text}", {**NUMBERS, "4": None}),
    "in lenticular brackets": ("【{file}】\n{text}", {"a.pdf": (0, 2), "b.pdf": (1,)}),
    "a word and a number": ("Source {n}:\n{text}", {**NUMBERS}),
    "in German": ("[Dokument {n}] {file}\n{text}", {**NUMBERS, "a.pdf": (0, 2)}),
    "with a title": ("[Source {n}: {file} | 2020]\n{text}", {**NUMBERS, "b.pdf": (1,)}),
    "from 0": ("Source ID: {i}\nSnippet: {text}", FROM_0),
    "elements": ('<source id="{i}">\n<text>{text}</text>\n</source>', FROM_0),
    "JSON": ('{{"id": {n},\n"text": "{text}"\n}}', NUMBERS),
    "metadata": ("citation_id: id-{n}\nfile: {file}\n\n{text}", {"id-2": (1,)}),
    "behind the text": ("{text}\n[source: {file}#{i}]", {"b.pdf#1": (1,)}),
    "before and behind": (
        "[{n}] {text}\nSource: {file} (Page {i})",
        {**NUMBERS, "a.pdf": (0, 2), "0": None},
    ),
    "doubled brackets": ("[[citation:{n}]] {text}", NUMBERS),
    "words around each text": (
        '<document id="{n}">\n<content>\n{text}\n</content>\n<metadata>\nfile: {file}\n'
        "</metadata>\n</document>\nIf you use it, write so:\n- [{n}: {file}, p.{i}]",
        {**NUMBERS, "a.pdf": (0, 2), "b.pdf": (1,), "2: b.pdf, p.1": (1,)},
    ),
    "a page is no number": ("[{file}]\nPage: {n}\n{text}", {"1": None, "b.pdf": (1,)}),
    "a chapter is no number": ("Chapter {n}\n{text}", {"1": None}),
    "prose before it": ("This is relevant, too.\n{text}", {"1": None, "2": None}),
    "no labels": ("{text}", {"1": None, "2": None}),
    "bullets": ("- {text}", {"1": None}),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_label_means_the_text_that_it_stands_with(name: str) -> None:
    label, expected = LABELS[name]
    labels = labels_in([prompt(label)], TEXTS)
    assert {
        key: labels.context_indexes_by_label.get(key) for key in expected
    } == expected


@pytest.mark.parametrize(
    "shown",
    [
        "Source 0\nAA aa\n[1]\n\nBB bb\n[2]",
        "Chapter 3\nAA aa\n[1]\n\nBB bb\n[2]",
        "AA aa\n[1]\n---\nBB bb\n[2]\n---\n",
    ],
)
def test_numbers_behind_the_texts_belong_to_these(shown: str) -> None:
    assert labels_in([shown], ["AA aa", "BB bb"]).context_indexes_by_label == {
        "1": (0,),
        "2": (1,),
    }


@pytest.mark.parametrize(
    "shown",
    ["2. Cite it.\n\nContext:\nAA aa", "2. Cite each source that you use.\nAA aa"],
)
def test_an_instruction_gives_a_single_text_no_number(shown: str) -> None:
    assert labels_in([shown], ["AA aa"]).context_indexes_by_label == {}


def test_a_number_of_several_texts_is_ambiguous() -> None:
    labels = labels_in(
        ["[1] AA aa\n\n[2] BB bb", "[1] CC cc"], ["AA aa", "BB bb", "CC cc"]
    )
    assert "1" in labels.ambiguous_numbers
    assert "1" not in labels.context_indexes_by_label


def test_a_text_that_stands_there_twice_has_two_numbers() -> None:
    shown = "[1] AA aa\n\n[2] BB bb\n\n[3] AA aa"
    expected = {"1": (0,), "2": (1,), "3": (0,)}
    assert labels_in([shown], ["AA aa", "BB bb"]).context_indexes_by_label == expected
    twice = {"1": (0,), "2": (1,), "3": (2,)}
    assert (
        labels_in([shown], ["AA aa", "BB bb", "AA aa"]).context_indexes_by_label
        == twice
    )


def test_texts_that_bring_their_own_labels() -> None:
    texts = [
        f"file_name: {file}\n\nSource {n}:\nText {n} says it."
        for n, file in ((4, "a.pdf"), (7, "b.pdf"))
    ]
    labels = labels_in(["Cite.\n\n" + "\n\n".join(texts)], texts)
    assert labels.context_indexes_by_label == {
        "4": (0,),
        "7": (1,),
        "a.pdf": (0,),
        "b.pdf": (1,),
    }


@pytest.mark.parametrize("text", ["----", "[1]", "Source 1:", "id: 7", "|"])
def test_a_text_without_words_has_no_label_inside(text: str) -> None:
    assert (
        labels_in([f"Cite.\n\n{text}\n\nWhen?"], [text]).context_indexes_by_label == {}
    )


def test_a_number_counts_only_where_every_text_has_one() -> None:
    texts = ["Source 4:\nIt is old and grey.", "It fell in the war."]
    labels = labels_in(["\n\n".join(texts)], texts)
    assert labels.ambiguous_numbers == {"4"}
    assert "4" not in labels.context_indexes_by_label


def test_the_applications_number_goes_before_one_inside_of_the_text() -> None:
    texts = ["Source 9:\nIt is old and grey.", "Source 1:\nIt fell in the war."]
    labels = labels_in([f"[1] {texts[0]}\n\n[2] {texts[1]}"], texts)
    assert labels.context_indexes_by_label == {"1": (0,), "2": (1,)}


def test_a_text_of_fields_alone_has_no_labels_inside() -> None:
    texts = ["Name: Ann\nTown: Velm", "Name: Bob\nTown: Ost"]
    labels = labels_in([f"[1] {texts[0]}\n\n[2] {texts[1]}"], texts)
    assert labels.context_indexes_by_label == {"1": (0,), "2": (1,)}


@pytest.mark.parametrize(
    "shown",
    [
        "[a.pdf]\nAA aa\n[b.pdf]\nBB bb\n[c.pdf]\nCC cc\n[d.pdf]",
        "[a.pdf]\nAA aa\n\n[b.pdf]\nBB bb\nNote: so\n[c.pdf]\nCC cc",
    ],
)
def test_lines_that_may_belong_to_either_neighbour_label_none(shown: str) -> None:
    assert (
        labels_in([shown], ["AA aa", "BB bb", "CC cc"]).context_indexes_by_label == {}
    )


@pytest.mark.parametrize(
    "shown",
    [
        "[1] AA aa\n(Source: a.pdf, Page: 4)\n[2] BB bb\n(Source: b.pdf, Page: 7)\n",
        "[1] AA aa\n\n[2] BB bb\n\n[3] It is red, says the web.",
        "[1] AA aa\nRead this, too.\n[2] BB bb",
    ],
)
def test_a_label_in_the_line_of_a_text_is_its_own_whatever_stands_between(
    shown: str,
) -> None:
    labels = labels_in([f"Cite.\n{shown}\n\nWhen?"], ["AA aa", "BB bb"])
    assert labels.context_indexes_by_label == {"1": (0,), "2": (1,)}


@pytest.mark.parametrize(
    "shown",
    [
        "[1] AA aa\nRead this, too.\n7. BB bb",  # labels of two shapes
        "[1] AA aa [2] BB bb [3]",  # in one line, before or behind the texts
    ],
)
def test_labels_in_the_lines_of_texts_count_only_in_one_shape(shown: str) -> None:
    labels = labels_in([f"Cite.\n{shown}\n\nWhen?"], ["AA aa", "BB bb"])
    assert labels.context_indexes_by_label == {}


FORMS: tuple[Callable[[str, str], str], ...] = (
    lambda label, text: f"[{label}] {text}",
    lambda label, text: f"[Source {label}]\n{text}",
    lambda label, text: f"Document {label}:\n{text}",
    lambda label, text: f"<doc id='{label}'>\n{text}\n</doc>",
    lambda label, text: f"{text}\n[{label}]",
    lambda label, text: f"source_id: {label}\n\n{text}",
)
WORDS = st.text("abcdefghij", min_size=2, max_size=9)
SENTENCE = st.lists(WORDS, min_size=3, max_size=8).map(
    lambda words: " ".join(words) + "."
)


@given(
    st.lists(SENTENCE, min_size=2, max_size=6, unique=True),
    st.sampled_from(FORMS),
    st.sampled_from(["\n\n", "\n", "\n---\n"]),
    st.randoms(use_true_random=False),
    st.integers(0, 90),
)
def test_numbers_are_found_in_whatever_order_the_texts_stand(
    texts: list[str],
    form: Callable[[str, str], str],
    between: str,
    chance: object,
    first: int,
) -> None:
    """Law: each text has the number that the prompt shows it under, whatever the order."""
    if any(one != other and one in other for one in texts for other in texts):
        return
    order = list(range(len(texts)))
    chance.shuffle(order)  # type: ignore[attr-defined]  # a Random of Hypothesis
    shown = between.join(
        form(str(first + rank), texts[place]) for rank, place in enumerate(order)
    )
    labels = labels_in([f"Answer and cite.\n\n{shown}\n\nWhen was it?"], texts)
    expected = {str(first + rank): (place,) for rank, place in enumerate(order)}
    assert {
        key: named
        for key, named in labels.context_indexes_by_label.items()
        if key.isdigit()
    } == expected


# What stands in texts and looks like a label, but is none.
BEGINNINGS = (
    "It opens at 11:30 and closes at 14:00.",
    "Note: it is closed on Mondays.",
    "12 eggs are needed.\nMix them well.",
    "Lanes: 4\nSee the plan.",
    "See page 3: the towers.",
    "10-15 drops, or 0.5 ml.",
    "It is old.\nIt is grey.",
    "Towers {2} [sic] are red.",
)
LABELS_OF_TEXTS = (
    ("[{}] ", "{}"),
    ("[{}]: ", "{}"),
    ("[S{}] ", "S{}"),
    ("[doc{}] ", "{}"),
    ("[KB-10{}]\n", "KB-10{}"),
    ("[f{}.pdf] ", "f{}.pdf"),
    ("f{}.pdf: ", "f{}.pdf"),
    ("Source {}: ", "{}"),
    ("Source {}:\n", "{}"),
    ("doc{}: ", "{}"),
    ("#{}: ", "{}"),
    ('<source id="{}">', "{}"),
    ('<doc id="{}" file="f.pdf">\n', "{}"),
    ("citation_id: id-{}\n\n", "id-{}"),
    ("file_name: f.pdf\npage_label: 7\n\nSource {}:\n", "{}"),
)


@given(
    form=st.sampled_from(LABELS_OF_TEXTS),
    words=st.lists(st.sampled_from(BEGINNINGS), min_size=1, max_size=5),
    first=st.integers(1, 90),
    are_carried=st.booleans(),
)
def test_a_label_means_its_text_whether_prompt_or_text_carries_it(
    form: tuple[str, str], words: list[str], first: int, are_carried: bool
) -> None:
    """Law: what a step wrote into the texts means the same as what the prompt's join wrote."""
    label, name = form
    texts = [f"{said}\nText {rank} ends." for rank, said in enumerate(words)]
    labelled = [label.format(first + rank) + text for rank, text in enumerate(texts)]
    prompt = "\n\n".join(["Answer and cite.", *labelled, "When was it?"])
    labels = labels_in([prompt], labelled if are_carried else texts)
    expected = {name.format(first + rank): (rank,) for rank in range(len(texts))}
    assert labels.context_indexes_by_label.items() >= expected.items()
    numbers = {key for key in labels.context_indexes_by_label if key.isdigit()}
    assert numbers <= expected.keys()
    assert not labels.ambiguous_numbers & expected.keys()


@pytest.mark.parametrize("words", BEGINNINGS)
@pytest.mark.parametrize(
    "label",
    ["[{}] ", "[S{}] ", "Source {}:\n", "doc{}: ", "file: f.pdf\n\nSource {}:\n"],
)
def test_a_label_that_a_text_of_one_line_carries(label: str, words: str) -> None:
    texts = [label.format(number) + words for number in (1, 2)]
    labels = labels_in(["\n\n".join(["Cite.", *texts])], texts)
    name = "S1" if "S" in label and "Source" not in label else "1"
    assert labels.context_indexes_by_label[name] == (0,)


@given(
    st.lists(st.text("ab[]()<>#:=\"'|,.1 2\n…Source", max_size=60), max_size=4),
    st.lists(st.text("ab[]1: \n…", max_size=20), max_size=4),
)
def test_whatever_a_prompt_holds_places_are_those_of_contexts(
    prompts: list[str], texts: list[str]
) -> None:
    labels = labels_in(prompts, texts)
    places = {
        place for named in labels.context_indexes_by_label.values() for place in named
    }
    assert places <= set(range(len(texts)))
    assert not labels.ambiguous_numbers & labels.context_indexes_by_label.keys()


def test_a_bare_branch_of_a_tree_before_a_context_is_no_label() -> None:
    shown = "Files │\nIt is old and grey.\n[2]\nIt fell in the war."
    labels = labels_in([shown], TEXTS[:2])
    assert labels.numbers == ()
