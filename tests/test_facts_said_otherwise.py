"""A fact whose words lack in a shown part is cut away only where nothing stands in their place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture

from ragmetrics_core.reporting.journey import Journey
from ragmetrics_core.reporting.sample_journey import FactOnItsWay, journey_of

QUESTION = "When was the Norwick lighthouse opened?"
REFERENCE = "The Norwick lighthouse was opened on 4 May 1874."
IRON = "The tower is made of riveted iron plates from the Brenner foundry in the south."
SHIP = "The steamer Aurora sank off the skerries in a gale of the winter of 1869."
SHOWN = FactOnItsWay(1, lost=None, known=True)
UNKNOWN = FactOnItsWay(1, lost=None, known=False)
CUT = FactOnItsWay(1, lost="cut", known=True)
LABELS = ["[{}] ", "Source {}: ", "- ", ""]


class Found(BaseRetriever):
    texts: list[str]

    def _get_relevant_documents(
        self, query: str, *, run_manager: object
    ) -> list[Document]:
        return [Document(text, id=str(n)) for n, text in enumerate(self.texts)]


def fate_of_fact(text: str, shown: Callable[[str], str], label: str) -> FactOnItsWay:
    """The fate of the fact, where a prompt changes the text in which it stands."""
    model = FakeListChatModel(responses=["It was opened."])

    def answer(question: str) -> str:
        found = Found(texts=[IRON, text]).invoke(question)
        lines = [
            label.format(n) + shown(document.page_content)
            for n, document in enumerate(found, start=1)
        ]
        return model.invoke("\n".join([*lines, "", question])).text

    with capture(reference=REFERENCE) as captured:
        RunnableLambda(answer).invoke(QUESTION)
    report = captured.evaluate(["accuracy"], judge="lexical")
    journey = journey_of(report.results[0])
    assert journey is not None
    (fact,) = journey.facts
    return FactOnItsWay(fact.number, fact.lost, fact.known)


OTHER_DATES = ["May 4, 1874", "1874-05-04", "[DATE]", "4th May 1874", "the 4.5.1874"]


@given(
    st.sampled_from([f"{REFERENCE} {SHIP}", f"{SHIP} {REFERENCE} {IRON[::-1]}"])
    | st.just(f"{SHIP} {REFERENCE}"),
    st.sampled_from(OTHER_DATES),
    st.sampled_from(LABELS),
)
def test_a_date_in_another_form_is_not_cut_away(
    text: str, date: str, label: str
) -> None:
    """Wherever the fact stands in its passage, at the end as well."""
    fate = fate_of_fact(text, lambda words: words.replace("4 May 1874", date), label)
    assert fate.lost is None


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "beginning", ["It was opened", "This light, seen from afar, was opened"]
)
def test_the_beginning_of_a_passage_may_be_said_otherwise(
    beginning: str, label: str
) -> None:
    fate = fate_of_fact(
        f"{REFERENCE} {SHIP}",
        lambda words: words.replace("The Norwick lighthouse was opened", beginning),
        label,
    )
    assert fate == UNKNOWN


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("dots", ["", "...", "…", " [...]"])
@pytest.mark.parametrize("n_letters", [80, 100, 110])
def test_a_text_that_was_cut_at_its_end_lost_the_fact(
    n_letters: int, dots: str, label: str
) -> None:
    def cut(text: str) -> str:
        return text[:n_letters] + dots if len(text) > n_letters else text

    assert fate_of_fact(f"{SHIP} {REFERENCE}", cut, label) == CUT


@pytest.mark.parametrize("label", LABELS)
def test_a_fact_in_front_of_a_changed_end_is_not_lost(label: str) -> None:
    fate = fate_of_fact(
        f"{REFERENCE} {SHIP}",
        lambda words: words.replace("the winter of 1869", "winter 69"),
        label,
    )
    assert fate in (SHOWN, UNKNOWN)


def journey_of_changed(change: Callable[[str], str]) -> Journey:
    """The journey of a run whose prompt shows two passages, one of them changed."""
    model = FakeListChatModel(responses=["It was opened."])

    def answer(question: str) -> str:
        found = Found(texts=[IRON, f"{REFERENCE} {SHIP}"]).invoke(question)
        lines = [change(document.page_content) for document in found]
        return model.invoke("\n".join([*lines, "", question])).text

    with capture(reference=REFERENCE) as captured:
        RunnableLambda(answer).invoke(QUESTION)
    return captured.evaluate(["accuracy"], judge="lexical").journey()


@pytest.mark.parametrize("date", [*OTHER_DATES, "4 (Monday) May 1874"])
def test_a_passage_with_a_few_other_words_is_not_counted_as_cut(date: str) -> None:
    """Nothing was cut, so that no smaller chunks are advised."""
    journey = journey_of_changed(lambda text: text.replace("4 May 1874", date))
    stage = journey.of("cut")
    assert stage is None or stage.lost == 0
    assert journey.mend is None
    cut = journey_of_changed(lambda text: text[:70])
    stage = cut.of("cut")
    assert stage is not None
    assert stage.lost > 0
