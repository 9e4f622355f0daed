"""The embedded judge with sentence vectors: offline, by name, and a sentence where the extra is not installed."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest
from said import shown
from word_overlap import ADHERENT

from ragmetrics_core import ContextAdherence, LexicalJudge
from ragmetrics_core.data.errors import MissingDependency
from ragmetrics_core.data.replies import Asked
from ragmetrics_core.lexical import features

CONTEXT = "The physician treated the sick child in the hospital."


def probability(judge: LexicalJudge, answer: str, context: str = CONTEXT) -> float:
    asked = asyncio.run(
        judge.answer(shown(ADHERENT, answer=answer, contexts=(context,)))
    ).reply
    assert isinstance(asked, Asked)
    return asked.weights[0].p


def test_without_the_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    features.model.cache_clear()
    with pytest.raises(MissingDependency, match=r"ragmetrics-core\[vectors\]"):
        LexicalJudge(vectors=True)


class TestWithTheExtra:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("wordllama")
        features.model.cache_clear()

    def test_other_words_of_one_meaning_count_for_more(self) -> None:
        near, far = "A doctor cured the ill kid.", "A sailor mended the torn net."
        plain, judge = LexicalJudge(), LexicalJudge(vectors=True)
        assert probability(plain, near) == probability(plain, far)
        assert probability(judge, near) > probability(judge, far)

    def test_no_socket_is_opened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a socket was connected")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        assert (
            0
            < probability(
                LexicalJudge(vectors=True), "The physician treated the child."
            )
            < 1
        )

    @pytest.mark.parametrize("context", ["", "\ud800", "...", "🎉"])
    def test_nothing_to_compare_with(self, context: str) -> None:
        assert (
            probability(LexicalJudge(vectors=True), "Paris \ud800 is big.", context)
            < 0.5
        )

    def test_by_name_with_its_own_signature(self) -> None:
        result = ContextAdherence().score(
            answer=CONTEXT, contexts=[CONTEXT], judge="lexical+vectors"
        )
        assert (result.signature.judge, result.signature.details) == (
            "lexical+vectors",
            {"fit": "3"},
        )
        assert result.value is not None
        assert result.value > 0.9
