"""Where a full stop stands inside a sentence: ordinal numbers and shortened words of several languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data.sentences import split_sentences, whole_sentences

ONE_SENTENCE = [
    "Der Leuchtturm von Norwick wurde am 4. Mai 1874 eröffnet.",
    "Der Leuchtturm wurde am 14. Mai 1874 eröffnet und am 3. Juni geweiht.",
    "Seit dem 19. Jahrhundert steht er auf dem Fels.",
    "König Christian IX. eröffnete den Turm.",
    "Die Regel steht in Art. 5 Abs. 2 der Verordnung Nr. 7 von 1874.",
    "Selon l'art. 5 de la loi n° 7, l'entrée est libre.",
    "La Sra. Holm inauguró el n.º 4 de la calle.",
    "Fue en el s. XIX, aprox. en 1874, en la pág. 3 del libro.",
    "Den 4. maj 1874 åbnede det.",
    "It is in Sec. 5 of No. 7, approx. 30 m wide.",
]
TWO_SENTENCES = [
    "Der Turm kostet 12.400 Taler. Er ist 31,5 m hoch.",
    "It fell on page 12. May came.",
    "He lived under Louis XIV. He died.",
    "There are 12. Then more.",
    "Er kam 1874. Mai war warm.",
    "They took lions, tigers etc. They left.",
]


@pytest.mark.parametrize("split", [split_sentences, whole_sentences])
@pytest.mark.parametrize(
    ("text", "n_sentences"),
    [(text, 1) for text in ONE_SENTENCE] + [(text, 2) for text in TWO_SENTENCES],
)
def test_a_full_stop_ends_a_sentence_or_not(split, text, n_sentences):
    assert len(split(text)) == n_sentences


@given(
    st.lists(
        st.tuples(
            st.integers(1, 31),
            st.sampled_from(["Januar", "März", "Mai", "August", "November"]),
            st.integers(1000, 2100),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_each_german_date_leaves_its_sentence_whole(dates):
    sentences = [f"Es geschah am {day}. {month} {year}." for day, month, year in dates]
    text = " ".join(sentences)
    assert split_sentences(text) == sentences
    assert whole_sentences(text) == sentences
