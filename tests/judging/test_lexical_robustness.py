"""The embedded judge under load and chance: other scripts, huge texts, arbitrary texts, no network."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from counted_steps import assert_steps_grow_as_the_size
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st
from judge_replies import shown
from lanes import examples
from word_overlap import ADHERENT, adherent, ask, fact, recall, stated, useful

from ragmetrics_core.data.errors import LanguageNotMeasured
from ragmetrics_core.data.scalars import is_placeholder
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.lexical.text import content_terms

# of Latin letters and signs: what is in another script stays undecided
texts = st.text(st.characters(max_codepoint=0x24F), max_size=120)
wordy = st.lists(
    st.sampled_from(
        [
            "Paris",
            "Lyon",
            "river",
            "1998",
            "42",
            "capital",
            "the",
            "not",
            "🎉",
            ".",
            "!",
            "\n",
        ]
    ),
    max_size=25,
)
sentences = st.one_of(texts, wordy.map(" ".join))


def test_scripts_are_folded():
    assert content_terms("Ποταμός ΠΟΤΑΜΟΣ") == content_terms("ποταμός ποταμός")
    assert content_terms("Café ﬁne") == content_terms("cafe\u0301 fine")
    assert content_terms("東京都") == ("東", "京", "都")


def test_reprs_hold_no_text():
    asked = ask(shown(ADHERENT, answer="Xylophone", contexts=("Zeppelin",)))
    assert "Xylophone" not in repr(asked) + repr(asked.reply) + repr(
        asked.reply.sentences
    )


def test_free_and_offline(monkeypatch):
    question = shown(ADHERENT, answer="a", contexts=("b",))
    loop = asyncio.new_event_loop()  # its self-pipe is a socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    answer = loop.run_until_complete(LexicalJudge().answer(question))
    monkeypatch.undo()
    loop.close()
    assert (answer.usage.calls, answer.usage.cost) == (0, 0.0)
    assert LexicalJudge().name == "lexical"


SIZE = 30_000
# a text of some size, by its number of characters
HUGE: dict[str, Callable[[int], str]] = {
    "prose": lambda size: "The quick fox number 77 jumps over Paris. " * (size // 42),
    "many words": lambda size: " ".join(f"word{index}" for index in range(size // 9)),
    "one word": lambda size: "a" * size,
    "no spaces": lambda size: "漢字仮名" * (size // 4),
    "points": lambda size: "." * size,
    "digits": lambda size: "1," * (size // 2),
    "brackets": lambda size: "[1," * (size // 3),
    "quotes": lambda size: '."' * (size // 2),
    "blank": lambda size: " \n" * (size // 2),
    "NUL": lambda size: "\0" * size,
    "surrogates": lambda size: "\ud800x " * (size // 3),
}


def judge_all(text: str) -> None:
    """Ask each kind of question about a text; of some language it decides none."""
    for ask_one in (
        lambda: adherent(text, text),
        lambda: useful(text, answer="Paris", question=text),
        lambda: fact("Paris", text),
        lambda: recall(text, text),
        lambda: stated(text),
    ):
        with suppress(LanguageNotMeasured):
            ask_one()


@contextmanager
def where_decided() -> Iterator[None]:
    """Pass over texts that are plainly in no language that the judge knows."""
    try:
        yield
    except LanguageNotMeasured:
        reject()


@pytest.mark.nightly
@pytest.mark.parametrize("name", HUGE)
def test_a_huge_text_is_survived(name):
    # a pattern that takes quadratic time would not end within the test's timeout
    judge_all(HUGE[name](SIZE))
    assert_steps_grow_as_the_size(lambda size: judge_all(HUGE[name](size)), SIZE // 40)


@pytest.mark.nightly
@example(answer="I DON'T KNOW", contexts=["Nobody may know."], question="Who?")
@given(answer=sentences, contexts=st.lists(sentences, max_size=4), question=sentences)
@settings(deadline=None, max_examples=examples(150))
def test_probabilities_and_determinism(answer, contexts, question):
    with where_decided():
        poll = adherent(answer, *contexts)
        if poll.verdict == "abstains":  # an answer that declines claims nothing
            assert poll.probability is None
        else:
            assert 0 <= poll.probability <= 1
            assert (poll.verdict == "yes") == (poll.probability > 0.5)
        assert all(0 <= support.coverage <= 1 for support in poll.sentences)
        assert poll == adherent(answer, *contexts)
        for text in contexts:
            assert 0 <= fact(answer, text) <= 1
            assert 0 <= recall(answer, text).score <= 1
        for verdict in useful(*contexts, answer=answer, question=question):
            assert verdict.probability is not None
            assert 0 <= verdict.probability <= 1
            assert verdict.useful == (verdict.probability > 0.5)


@given(
    answer=sentences,
    contexts=st.permutations(["Paris 1998", "the river", "東 Lyon", "", "not Paris"]),
)
@settings(deadline=None, max_examples=examples(50))
def test_permuting_chunks_permutes_verdicts(answer, contexts):
    with where_decided():
        verdicts = dict(
            zip(sorted(contexts), useful(*sorted(contexts), answer=answer), strict=True)
        )
        assert useful(*contexts, answer=answer) == tuple(
            verdicts[text] for text in contexts
        )
        assert adherent(answer, *contexts).probability == pytest.approx(
            adherent(answer, *sorted(contexts)).probability
        )


@pytest.mark.nightly
@given(answer=sentences, contexts=st.lists(sentences, max_size=3))
@settings(deadline=None, max_examples=examples(150))
@example(answer="\u00af", contexts=[])  # folding turns it into a blank
@example(answer="\u0301", contexts=["e\u0301"])
def test_a_context_that_holds_the_answer_makes_it_adherent(answer, contexts):
    with where_decided():
        assume(not is_placeholder(answer))  # which is no answer
        assume(not declines(answer))  # which claims nothing
        assume(not set(answer) & set("?？؟"))  # a question back claims nothing
        assert (
            adherent(answer, *contexts, f"Preface.\n{answer}\nPostscript.").verdict
            == "yes"
        )
        assert recall(answer, answer).score == 1.0
        assert fact(answer, answer) > 0.5


@given(texts)
def test_sentences_lose_no_word(text):
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
