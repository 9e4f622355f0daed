"""Laws of locating, over families of texts that are alike: whatever texts share, each is found where it stands."""

from __future__ import annotations

import html
import json
import random
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core.capture.byte_spans import LONGEST_STEP
from ragmetrics_core.capture.findings import (
    Finding,
    LocateResult,
    percentage,
    unite_findings,
)
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.normalized_text import normalize_text

VOCABULARY = [
    f"{head}{vowel}{tail}"
    for head in "bdfgklmprstv"
    for vowel in ("a", "ei", "o", "u", "i")
    for tail in ("rst", "n", "lden", "mp", "s", "ter")
]
SHORTEST = 16  # letters of the shortest text of which the laws speak


def words(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choice(VOCABULARY) for _ in range(rng.randint(least, most)))


def alike_at_the_beginning(rng: random.Random, count: int) -> list[str]:
    beginning = words(rng, 3, 14)
    return [f"{beginning} {words(rng, 1, 12)}." for _ in range(count)]


def alike_at_the_end(rng: random.Random, count: int) -> list[str]:
    end = words(rng, 3, 14)
    return [f"{words(rng, 1, 12)} {end}." for _ in range(count)]


def alike_in_the_middle(rng: random.Random, count: int) -> list[str]:
    middle = words(rng, 3, 14)
    return [f"{words(rng, 1, 8)} {middle} {words(rng, 1, 8)}." for _ in range(count)]


def one_inside_another(rng: random.Random, count: int) -> list[str]:
    parent = words(rng, 20, 60).split()
    texts = [" ".join(parent) + "."]
    for _ in range(count):
        first = rng.randrange(len(parent) - 3)
        last = rng.randint(first + 3, len(parent))
        texts.append(" ".join(parent[first:last]) + ".")
    return texts


def records_of_a_catalogue(rng: random.Random, count: int) -> list[str]:
    records = []
    for _ in range(3 * count):
        colour, thing = (
            rng.choice(["red", "green", "black"]),
            rng.choice(["lamp", "chair", "bike"]),
        )
        end = rng.choice(
            [
                "",
                ".",
                " in stock.",
                "; colour and size may differ from the picture shown.",
            ]
        )
        size, price = rng.randint(1, 9), rng.randint(1, 99)
        records.append(
            f"Article {rng.randint(1, 300)}: {colour} {thing}, size {size}, price"
            f" {price} euro{end}"
        )
    return records


def versions_of_a_page(rng: random.Random, count: int) -> list[str]:
    page = words(rng, 8, 60).split()
    versions = []
    for _ in range(count):
        version = list(page)
        for _ in range(rng.randint(0, 2)):
            place = rng.randrange(len(version))
            change = rng.choice(["replace", "replace", "insert", "remove"])
            version[place : place + (change != "insert")] = (
                [] if change == "remove" else [rng.choice(VOCABULARY)]
            )
        versions.append(" ".join(version) + ".")
    return versions


FAMILIES = [
    alike_at_the_beginning,
    alike_at_the_end,
    alike_in_the_middle,
    one_inside_another,
    records_of_a_catalogue,
    versions_of_a_page,
]


def quoted_lines(text: str) -> str:
    return textwrap.indent(textwrap.fill(text, 50), "> ", lambda _: True)


def numbered_lines(text: str) -> str:
    return "\n".join(
        f"{number:3} {line}" for number, line in enumerate(textwrap.wrap(text, 60), 1)
    )


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "JSON": lambda text: json.dumps({"content": text}, ensure_ascii=False),
    "JSON, ASCII": lambda text: json.dumps([text]),
    "repr": repr,
    "html": html.escape,
    "escaped twice": lambda text: json.dumps(json.dumps([text])),
    "quoted lines": quoted_lines,
    "numbered lines": numbered_lines,
    "whitespace normalised": lambda text: " ".join(text.split()),
}
SEPARATORS = ["\n\n", "\n", "\n---\n", " ", ""]


@dataclass
class Case:
    """Candidates, of which some stand in a prompt."""

    candidates: list[str]
    order: list[int]  # the candidates that stand there, in the order of the prompt
    frame: tuple[str, str]
    separator: str
    known: list[str]

    def prompt(self, form: str) -> str:
        separator = self.separator
        if form == "numbered lines" and "\n" not in separator:
            separator = "\n"
        before, behind = self.frame
        return (
            before
            + separator.join(
                FORMS[form](self.candidates[index]) for index in self.order
            )
            + behind
        )

    @property
    def expected(self) -> list[int]:
        """The candidates to be located: of equal ones the first."""
        equal = defaultdict(list)
        for index, text in enumerate(self.candidates):
            equal[normalize_text(text)].append(index)
        showings: Counter[bytes] = Counter()
        located = []
        for index in self.order:
            text = normalize_text(self.candidates[index])
            located.append(equal[text][showings[text]])
            showings[text] += 1
        return located

    @property
    def joins_short_texts(self) -> bool:
        """Whether a letter of another text touches a short one, which is unknown then."""
        texts = [self.candidates[index] for index in self.order]
        for text, following in pairwise(texts):
            shortest = min(len(normalize_text(text)), len(normalize_text(following)))
            touches = (text[-1] + self.separator + following[0]).isalnum()
            if touches and shortest < 32:
                return True
        return False

    @property
    def is_ambiguous(self) -> bool:
        """Whether nobody could tell which is meant: another text stands across several, or joins a short one."""
        if self.joins_short_texts:
            return True
        before, behind = map(normalize_text, self.frame)
        texts = [normalize_text(self.candidates[index]) for index in self.order]
        prompt = before + b"".join(texts) + behind
        bounds = list(accumulate(map(len, texts), initial=len(before)))
        places = list(pairwise(bounds))
        for text in {
            *map(normalize_text, self.candidates),
            *map(normalize_text, self.known),
        }:
            for first, last in occurrences(prompt, text):
                inside = any(start <= first and last <= end for start, end in places)
                if not inside and any(
                    first < end and start < last for start, end in places
                ):
                    return True
        return False


def occurrences(prompt: bytes, text: bytes) -> Iterator[tuple[int, int]]:
    at = prompt.find(text)
    while at >= 0:
        yield at, at + len(text)
        at = prompt.find(text, at + 1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = random.Random(draw(st.integers(0, 2**48)))
    drawn = draw(st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2))
    texts = [text for family in drawn for text in family(rng, rng.randint(2, 12))]
    texts = [text for text in texts if len(normalize_text(text)) >= SHORTEST]
    if draw(st.integers(0, 4)):  # else some may be equal
        texts = list({normalize_text(text): text for text in texts}.values())
    rng.shuffle(texts)
    assume(texts)
    order = rng.sample(range(len(texts)), rng.randint(1, len(texts)))
    known = draw(st.sampled_from([[], [words(rng, 2, 6) + "?"]]))
    behind = f"\nQuestion: {known[0]}" if known else ""
    frame = draw(
        st.sampled_from(
            [("", behind), ("Use the context:\n\n", f"\n\nAnswer now.{behind}")]
        )
    )
    case = Case(texts, order, frame, draw(st.sampled_from(SEPARATORS)), known)
    assume(not case.is_ambiguous)
    return case


def outcomes(located: LocateResult) -> list[tuple[str, str | None]]:
    return [(place.outcome, place.extent) for place in located.findings]


VELM = [
    "The iron bridge of Velm was opened in 1874.",
    "The iron bridge of Velm has three arches.",
]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(40), deadline=None)
@given(case=cases())
@example(case=Case(VELM, [0, 1], ("", ""), "\n", []))
@example(case=Case(VELM, [1, 0], ("", ""), "\n", []))
def test_a_text_that_stands_whole_is_shown_whole_however_alike_its_neighbours_are(
    form: str, case: Case
) -> None:
    found = locate(case.candidates, case.prompt(form), known=case.known)
    assert list(found.shown_in_order) == case.expected
    assert [found.findings[index].extent for index in case.expected] == ["whole"] * len(
        case.order
    )
    for place in found.findings:
        assert (place.outcome == "shown") == (place.candidate_index in case.expected)


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.sampled_from(list(FORMS)))
def test_a_text_of_which_nothing_stands_there_is_never_shown(
    case: Case, form: str
) -> None:
    others = [
        f"Zyx{number} quux wibble flob; nothing of it is here, jolly good."
        for number in range(3)
    ]
    found = locate([*others, *case.candidates], case.prompt(form), known=case.known)
    assert {place.outcome for place in found.findings[:3]} == {"not shown"}
    assert {place.outcome for place in locate(others, case.prompt(form)).findings} == {
        "unknown"
    }


def ends_in(part: bytes, prompt: bytes) -> bool:
    """Whether a prompt holds the last 12 bytes of a part, at most one step put in between."""
    end = part[-12:]
    if end in prompt:
        return True
    put_in = b".{0,%d}" % LONGEST_STEP
    return any(
        re.search(
            re.escape(end[:cut]) + put_in + re.escape(end[cut:]), prompt, re.DOTALL
        )
        for cut in range(1, len(end))
    )


@settings(max_examples=examples(80), deadline=None)
@given(cases(), st.integers(30, 100))
@example(
    case=Case(
        candidates=[
            "bis keis dis bas suter teilden fump kimp teis gump mon mos sirst.",
            "sun teis gump mon mirst teis farst veiter kiter titer gein mas.",
        ],
        order=[0, 1],
        frame=("", ""),
        separator="\n\n",
        known=[],
    ),
    share=30,
)
def test_the_text_of_a_showing_is_a_part_of_the_candidate_and_of_the_prompt(
    case: Case, share: int
) -> None:
    shown = [case.candidates[index] for index in case.order]
    prompt = "\n\n".join(text[: max(len(text) * share // 100, 40)] for text in shown)
    for place in locate(case.candidates, prompt).findings:
        assert bool(place.text) == (place.outcome == "shown") == (place.coverage > 0)
        if place.extent == "whole":  # all but a few letters: the context keeps its text
            assert place.text == case.candidates[place.candidate_index]
            continue
        # "…" at an edge stands for other words of the prompt
        shown_part = place.text.removeprefix("… ").removesuffix(" …")
        for part in shown_part.split(" … ") if place.text else ():
            assert part in case.candidates[place.candidate_index]
            assert normalize_text(part)[:12] in normalize_text(prompt)
            assert ends_in(normalize_text(part), normalize_text(prompt))


@settings(max_examples=examples(80), deadline=None)
@given(cases(), st.randoms(use_true_random=False), st.sampled_from(list(FORMS)))
def test_places_are_permuted_as_the_candidates_are(
    case: Case, rng: random.Random, form: str
) -> None:
    # which of equal ones is shown depends on their order
    texts = list(dict.fromkeys(case.candidates))
    order = rng.sample(range(len(texts)), len(texts))
    prompt = case.prompt(form)
    first = locate(texts, prompt, known=case.known)
    second = locate([texts[index] for index in order], prompt, known=case.known)
    assert outcomes(second) == [outcomes(first)[index] for index in order]
    assert [order[index] for index in second.shown_in_order] == list(
        first.shown_in_order
    )


@settings(max_examples=examples(80), deadline=None)
@given(cases(), st.sampled_from(list(FORMS)))
def test_a_message_that_shows_none_of_them_changes_nothing(
    case: Case, form: str
) -> None:
    prompt = case.prompt(form)
    alone = locate(case.candidates, [prompt], known=case.known)
    behind = locate(
        case.candidates,
        ["You are a helpful assistant.", prompt, "Go on, please."],
        known=case.known,
    )
    assert outcomes(behind) == outcomes(alone)
    assert behind.shown_in_order == alone.shown_in_order


IN_CYRILLIC = str.maketrans("abdefgiklmnoprstuvz", "абдефгиклмнопрстувз")
CONSONANTS = set("bdfgklmnprstvz")


@given(st.integers(0, 2**32), st.integers(12, 60))
def test_a_text_in_another_script_is_never_told_not_shown(
    seed: int, count: int
) -> None:
    rng = random.Random(seed)
    several_consonants = [word for word in VOCABULARY if len(CONSONANTS & {*word}) > 2]
    latin = " ".join(rng.sample(several_consonants, count))
    other = "Faro is the southernmost city of the country, on a wide lagoon."
    text = latin.translate(IN_CYRILLIC)
    finding, of_other = locate([text, other], f"{latin}\n\n{other}").findings
    assert (finding.outcome, of_other.outcome) == ("unknown", "shown")


def covered(text: str, pieces: Sequence[tuple[int, int]]) -> float:
    """The share of a text's letters that stand in some of its pieces."""
    letters = [index for index, char in enumerate(text) if char.isalnum()]
    return sum(
        any(first <= index < last for first, last in pieces) for index in letters
    ) / len(letters)


@settings(max_examples=examples(80), deadline=None)
@given(st.data(), st.integers(0, 2**32))
def test_the_coverage_over_several_calls_is_that_of_the_union(
    data: st.DataObject, seed: int
) -> None:
    text = words(random.Random(seed), 60, 120) + "."
    starts = data.draw(
        st.lists(st.integers(0, len(text) - 100), min_size=1, max_size=4)
    )
    pieces = [(start, start + data.draw(st.integers(100, 400))) for start in starts]
    # No letter beside the piece: the "t" of "Context:" would stand for the first one,
    # and the "A" of "Answer." for the last, so that "nswer" might replace the rest.
    places = [
        locate([text], f"---\n{text[first:last]}\n---\n").findings[0]
        for first, last in pieces
    ]
    together = unite_findings(places)
    assert together.outcome == "shown"
    assert together.coverage == pytest.approx(covered(text, pieces), abs=0.02)
    assert together.coverage >= max(place.coverage for place in places)
    assert not together.text.startswith("…")
    assert not together.text.endswith("…")
    for part in together.text.split(" … "):
        assert part in text
    if together.extent == "whole":
        # the last letters of the last word may lack
        assert covered(text[:-4], pieces) == 1
    else:
        assert covered(text, pieces) < 1


def test_the_union_of_what_no_call_shows_is_what_the_first_says() -> None:
    places = [
        locate([VELM[0]], prompt).findings[0]
        for prompt in ("A joke about a horse.", "")
    ]
    assert unite_findings(places) is places[0]


def test_the_union_begins_where_a_call_shows_the_text_first() -> None:
    text = words(random.Random(1), 60, 60)
    places = [
        locate([text], prompt).findings[0]
        for prompt in ("Nothing.", text[:150], text[100:300])
    ]
    together = unite_findings(places)
    assert together.extent == "beginning"
    assert together.text == text[:300].strip()
    assert (together.message_index, together.offsets) == (
        places[1].message_index,
        places[1].offsets,
    )


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "0%"),
        (0.001, "less than 1%"),
        (0.39, "39%"),
        (0.997, "more than 99%"),
        (1.0, "100%"),
    ],
)
def test_a_percentage_is_never_false(share: float, expected: str) -> None:
    assert percentage(share) == expected
    assert Finding(0, "shown", share).percentage == expected


SENTENCE = (
    "harbour lantern meadow granite copper thistle walnut harvest pebble saddle timber"
    " violet quarry ribbon cellar beacon orchard marble"
)
# at least half of the sentence, from any of its first words on
PIECES = st.tuples(st.integers(0, 9), st.integers(9, 18)).map(
    lambda bounds: " ".join(SENTENCE.split()[bounds[0] : sum(bounds)])
)


@given(st.lists(PIECES, min_size=1, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_of_several_parts_of_a_text_at_least_the_longest_is_told(
    pieces: list[str],
) -> None:
    elsewhere = "\n---- Something else is told in between, of ships. ----\n"
    (finding,) = locate([SENTENCE], elsewhere.join(pieces)).findings
    longest = max(len(normalize_text(piece)) for piece in pieces)
    # the last letters of a piece may be equal by chance
    assert finding.coverage >= longest / len(normalize_text(SENTENCE)) - 0.02
