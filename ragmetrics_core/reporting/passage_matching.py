"""Which context shows a retrieved passage, where no run recorded it.

Pure functions of ids and texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ragmetrics_core.data import Context, Sample, SampleResult
from ragmetrics_core.data.citations import cited_statements
from ragmetrics_core.data.telling_words import telling_words
from ragmetrics_core.data.word_borders import holds_as_words

_CUT_SIGN = "…"  # between parts of a cut context, as capturing writes it
_DOTS = " ….\t\n"
_FEWEST_CHARACTERS = 32  # a shorter text stands in another by chance
_WORDS_BY_NO_CHANCE = 8  # that two texts share in a row
_HALF = 0.5
_FEWEST_WORDS = 2  # that tell something, where no number is among them


class ShownPart(NamedTuple):
    """Which context shows a passage, and how much of it.

    Attributes:
        context_index: The index of the context; None if no context shows the passage.
        share: The share of the passage's letters that the context shows. None for a
            reworded passage: nobody knows its share.
    """

    context_index: int | None
    share: float | None


_NOT_SHOWN = ShownPart(None, 0.0)


def parts_shown(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[ShownPart]:
    """Find for each retrieved passage the context that shows it, and how much of it.

    A context of the same text comes first, then a context that holds the whole passage,
    then a context that is a part of the passage. Example: the passage "It is old. It
    fell." and the context "It is old." give the index 0 and the share .5.
    """
    equal_contexts = _EqualContexts(retrieved, contexts)
    context_texts = [_plain(context.text) for context in contexts]
    contexts_that_are_no_passages = _contexts_that_are_no_passages(retrieved, contexts)
    parts: list[ShownPart] = []
    for passage in retrieved:
        text = _plain(passage.text)
        index_of_holder = _index_of_holder(text, context_texts)
        if not text:
            parts.append(_NOT_SHOWN)
        elif text in context_texts:
            # Of three equal passages and two such contexts, two passages were shown.
            parts.append(equal_contexts.take_free_one_for(passage))
        elif index_of_holder is not None:
            parts.append(ShownPart(index_of_holder, 1.0))
        else:
            parts.append(_find_part(passage, text, contexts_that_are_no_passages))
    return parts


def _index_of_holder(text: str, texts: Sequence[str]) -> int | None:
    """The index of the first context inside which a passage stands as it is."""
    if len(text) < _FEWEST_CHARACTERS:
        return None
    for index, context_text in enumerate(texts):
        if holds_as_words(context_text, text):
            return index
    return None


class _EqualContexts:
    """The contexts by their text. A context shows only one passage with this text.

    Args:
        retrieved: All passages.
        contexts: All contexts.
    """

    def __init__(
        self, retrieved: Sequence[Context], contexts: Sequence[Context]
    ) -> None:
        self._contexts = contexts
        self._ids_of_passages = {passage.id for passage in retrieved}
        self._free_indices_by_text: dict[str, list[int]] = {}
        for index, context in enumerate(contexts):
            text = _plain(context.text)
            self._free_indices_by_text.setdefault(text, []).append(index)

    def take_free_one_for(self, passage: Context) -> ShownPart:
        """Take a context with a passage's text that shows no passage yet.

        A context with the passage's id comes first; the id of another passage will not
        do. ``_NOT_SHOWN`` if none is left.
        """
        free_indices = self._free_indices_by_text[_plain(passage.text)]
        with_its_id = [
            index
            for index in free_indices
            if _has_id(passage, self._contexts[index].id)
        ]
        candidates = with_its_id or [
            index for index in free_indices if not self._has_id_of_a_passage(index)
        ]
        if not candidates:
            return _NOT_SHOWN
        free_indices.remove(candidates[0])
        return ShownPart(candidates[0], 1.0)

    def _has_id_of_a_passage(self, index: int) -> bool:
        context_id = self._contexts[index].id
        return context_id is not None and context_id in self._ids_of_passages


class _OtherContext:
    """A context that is no passage as a whole: a part of one, several, or other words.

    Attributes:
        index: Its index among the contexts.
        context_id: Its id.
        text: Its text, with single blanks.
        word_runs: All its runs of so many words that two texts share none by chance.
    """

    def __init__(self, index: int, context_id: str | None, text: str) -> None:
        self.index = index
        self.context_id = context_id
        self.text = text
        self.word_runs = frozenset(_runs_of_words(text))


def _contexts_that_are_no_passages(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[_OtherContext]:
    """The contexts with another text than any passage: they may show parts of one."""
    texts_of_passages = {_plain(passage.text) for passage in retrieved}
    other_contexts = []
    for index, context in enumerate(contexts):
        text = _plain(context.text)
        if text not in texts_of_passages:
            other_contexts.append(_OtherContext(index, context.id, text))
    return other_contexts


def _find_part(
    passage: Context, text: str, contexts: Sequence[_OtherContext]
) -> ShownPart:
    """Find the context that shows a part of a passage, and how large the part is.

    A context with the passage's id is preferred; else the context that shows most.
    Example: contexts 0 and 1 with a third and a half of the passage: (1, .5). If no
    context shows a part, a context with the passage's id, or with a few words of it in
    a row, gives its index and None: it is not known how much it shows.

    Args:
        passage: The passage.
        text: Its text, with single blanks.
        contexts: The contexts that do not show another passage as a whole.
    """
    best_index: int | None = None
    best_rank = (False, 0.0)
    for context in contexts:
        has_same_id = _has_id(passage, context.context_id)
        share = _share_shown(text, context.text, has_same_id=has_same_id)
        rank = (has_same_id, share)
        if share > 0 and rank > best_rank:
            best_rank = rank
            best_index = context.index
    if best_index is not None:
        _, best_share = best_rank
        return ShownPart(best_index, best_share)
    similar_index = _index_of_similar(passage, text, contexts)
    return _NOT_SHOWN if similar_index is None else ShownPart(similar_index, None)


def _index_of_similar(
    passage: Context, text: str, contexts: Sequence[_OtherContext]
) -> int | None:
    """The index of the first context with a passage's id, or with words of it in a row."""
    word_runs = frozenset(_runs_of_words(text)) if contexts else frozenset()
    for context in contexts:
        shared_word_runs = word_runs & context.word_runs
        if _has_id(passage, context.context_id) or shared_word_runs:
            return context.index
    return None


def _has_id(passage: Context, context_id: str | None) -> bool:
    return passage.id is not None and passage.id == context_id


def _share_shown(passage_text: str, context_text: str, *, has_same_id: bool) -> float:
    """Return the share of a passage's letters that a context shows; 0.0 if none.

    Example: a passage has 100 letters. A context with its first 40 and its last 20
    letters, and "…" between them, shows .6. A context with the whole passage in it shows
    1.0, and one with a piece of the passage beside other words 0.0.

    Args:
        passage_text: The text of the passage.
        context_text: The text of the context.
        has_same_id: Whether both have the same id. Else a passage or piece of fewer than
            32 characters does not count: it may stand in the context by chance.
    """
    fewest_characters = 1 if has_same_id else _FEWEST_CHARACTERS
    is_long_enough = len(passage_text) >= fewest_characters
    if is_long_enough and holds_as_words(context_text, passage_text):
        return 1.0
    stripped_pieces = [piece.strip(_DOTS) for piece in context_text.split(_CUT_SIGN)]
    pieces = [piece for piece in stripped_pieces if piece]
    for piece in pieces:
        if len(piece) < fewest_characters or piece not in passage_text:
            return 0.0  # the context holds something else
    n_letters_shown = sum(map(_n_letters, pieces))
    n_letters = _n_letters(passage_text)
    if n_letters == 0:
        return 0.0
    return min(1.0, n_letters_shown / n_letters)


def _n_letters(text: str) -> int:
    """How many letters and digits a text has."""
    return sum(map(str.isalnum, text))


def _runs_of_words(text: str) -> Iterator[tuple[str, ...]]:
    """Yield all runs of eight words, which two texts hardly share by chance."""
    words = text.split()
    for start in range(len(words) - _WORDS_BY_NO_CHANCE + 1):
        yield tuple(words[start : start + _WORDS_BY_NO_CHANCE])


def _plain(text: str) -> str:
    """A text with single blanks, as which texts are compared."""
    return " ".join(text.split())


def sentences_by_context_rank(row: SampleResult) -> Mapping[int, tuple[int, ...]]:
    """Return which sentences of the answer rest on each context.

    Some judges say of each sentence which context matches it best (``rank``), and which
    share of its words stands in the contexts (``coverage``). The first metric that says
    so counts. Example: {1: (1, 3)}: sentences 1 and 3 rest on the first context.

    Returns:
        By rank of the context, from 1, the numbers of the sentences, from 1. Empty if
        no metric says it.
    """
    for result in row.results.values():
        evidence = {} if result.evidence is None else dict(result.evidence)
        numbers_by_rank: dict[int, tuple[int, ...]] = {}
        sentences = evidence.get("sentences") or ()
        for number, sentence in enumerate(sentences, start=1):
            rank = _rank_it_rests_on(sentence)
            if rank is not None:
                numbers_by_rank[rank] = (*numbers_by_rank.get(rank, ()), number)
        if numbers_by_rank:
            return numbers_by_rank
    return {}


def _rank_it_rests_on(sentence: Any) -> int | None:
    """The rank of the context that holds most words of a sentence; None if none does.

    Args:
        sentence: What a metric's evidence says of it; a mapping, if read from a file.
    """
    support = sentence if isinstance(sentence, Mapping) else dict(sentence)
    rank = support.get("rank")
    coverage = support.get("coverage")
    # another metric's evidence may mean something else by these names
    if not isinstance(rank, int) or not isinstance(coverage, float):
        return None
    return rank if coverage > _HALF else None


def ranks_with_uncited_words(sample: Sample, ranks_cited: set[int] | None) -> set[int]:
    """Find contexts that an answer seems to use without citing them.

    They hold most words of a sentence of the answer, and no cited context does. Empty
    if it is not known what the answer cites. Example: the answer says "The tower is 330
    metres high [2]"; only context 1 has these words: {1}.

    Args:
        sample: The sample.
        ranks_cited: The ranks of the contexts that the answer cites.
    """
    if ranks_cited is None:
        return set()
    # "I do not know the height of the tower" repeats words of the question
    words_of_question = set(telling_words(sample.question or ""))
    words_by_rank = {
        rank: set(telling_words(context.text))
        for rank, context in enumerate(sample.known_contexts, start=1)
    }
    ranks: set[int] = set()
    for statement in cited_statements(sample.answer, sample.citations or ()):
        words = set(telling_words(statement.text)) - words_of_question
        ranks_of_holders = {
            rank
            for rank, words_of_context in words_by_rank.items()
            if _holds_most(words, words_of_context)
        }
        if ranks_cited.isdisjoint(ranks_of_holders):
            ranks |= ranks_of_holders
    return ranks


def _holds_most(words: AbstractSet[str], words_of_passage: AbstractSet[str]) -> bool:
    """Whether a passage holds most words of a sentence, and these tell something.

    They tell something if one is a number, or if there are at least two.

    Args:
        words: The words of the sentence.
        words_of_passage: The words of the passage.
    """
    has_number = any(word.isdigit() for word in words)
    if not has_number and len(words) < _FEWEST_WORDS:
        return False
    return len(words & words_of_passage) > _HALF * len(words)
