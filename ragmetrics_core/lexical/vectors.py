"""Sentence vectors of ``wordllama``, from the files of its own package: nothing is downloaded."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ragmetrics_core.data.extras import extra
from ragmetrics_core.lexical.features import MOST_SENTENCES
from ragmetrics_core.lexical.text import Passage

_MOST = 5_000  # context sentences looked at


@cache
def model() -> Any:
    """The vectors, loaded once per process; ``MissingDependency`` without the extra."""
    package = extra("wordllama", "vectors", "The embedded judge with sentence vectors")
    return package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)


def nearness(answer: Passage, contexts: Sequence[Passage]) -> float:
    """Mean over the answer's sentences of the cosine with the nearest context sentence, in [0, 1]; 0.0 without one."""
    own = [sentence.text for sentence in answer.sentences[:MOST_SENTENCES]]
    others = [sentence.text for context in contexts for sentence in context.sentences][:_MOST]
    if not own or not others:
        return 0.0
    vectors = model().embed([text.encode("utf-8", "replace").decode() for text in own + others], norm=True)
    nearest = (vectors[: len(own)] @ vectors[len(own) :].T).max(axis=1)
    return min(1.0, max(0.0, float(nearest.mean())))
