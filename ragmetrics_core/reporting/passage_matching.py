"""Which context shows a retrieved passage, where no run recorded it: by ids and texts alone. Pure."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ragmetrics_core.data import Context, SampleResult

_CUT_SIGN = "…"  # between parts of a cut context, as capturing writes it
_DOTS = " ….\t\n"
_FEWEST_SIGNS = 32  # a shorter text stands in another by chance
_WORDS_BY_NO_CHANCE = 8  # that two texts share in a row
_HALF = 0.5
# A number, a word of four letters or more, or a sign of a script without blanks.
_TELLING_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]|\d+"
    r"|[^\W\d_\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]{4,}"
)
_FEWEST_WORDS = 2  # that tell something, where no number is among them

Part = tuple[int | None, float | None]
_NOT_SHOWN: Part = (None, 0.0)


def parts_shown(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[Part]:
    """Find for each retrieved passage the context that shows it, and how much of it.

    The first of these contexts shows the passage:

    1. a context of the same text. Each such context is used for one passage only: of
       three equal passages with two contexts of their text, one is not shown;
    2. a context that holds the whole passage among other text;
    3. a context that is a part of the passage.

    Args:
        retrieved: The passages.
        contexts: What the model was shown.

    Returns:
        For each passage the index of the context and the share of the passage's letters
        that it shows:

        - (2, 1.0): context 2 shows all of it;
        - (2, 0.4): context 2 shows a part of it;
        - (2, None): context 2 has the passage's id or some of its words, but another
          text, so that nobody can say how much it shows;
        - (None, 0.0): no context shows it.
    """
    context_texts = [_plain(context.text) for context in contexts]
    # Indices of contexts by their text. ``_choose_equal`` removes the index of a context
    # that shows a passage; a list may thus become empty.
    free_indices_by_text: dict[str, list[int]] = {}
    for index, text in enumerate(context_texts):
        free_indices_by_text.setdefault(text, []).append(index)
    # a context with another passage's id does not show this one
    ids_of_passages = {passage.id for passage in retrieved}
    other_contexts = _contexts_of_other_texts(retrieved, contexts)
    parts: list[Part] = []
    for passage in retrieved:
        text = _plain(passage.text)
        if not text:
            parts.append(_NOT_SHOWN)
            continue
        if text in free_indices_by_text:
            free_indices = free_indices_by_text[text]
            parts.append(
                _choose_equal(passage, contexts, free_indices, ids_of_passages)
            )
            continue
        index_of_holder = _index_of_holder(text, context_texts)
        if index_of_holder is not None:
            parts.append((index_of_holder, 1.0))
        else:
            parts.append(_find_part(passage, text, other_contexts))
    return parts


def _index_of_holder(text: str, texts: Sequence[str]) -> int | None:
    """The index of the first context inside which a passage stands as it is."""
    if len(text) < _FEWEST_SIGNS:
        return None
    for index, context_text in enumerate(texts):
        if text in context_text:
            return index
    return None


def _choose_equal(
    passage: Context,
    contexts: Sequence[Context],
    free_indices: list[int],
    ids_of_passages: Container[str | None],
) -> Part:
    """Choose which of the contexts with a passage's text shows the passage.

    - It is the first context with the passage's id.
    - If no context has it, it is the first context without an id, or with an id that
      belongs to no passage.

    The chosen index is removed from ``free_indices``, because a context shows one passage
    only.

    Args:
        passage: The passage.
        contexts: All contexts.
        free_indices: Indices of the contexts with the passage's text that show no passage
            yet.
        ids_of_passages: The ids of all passages.

    Returns:
        The index of the context, and 1.0 for the whole passage; ``_NOT_SHOWN`` if no
        context is left.
    """
    with_its_id = [
        index for index in free_indices if _has_id(passage, contexts[index].id)
    ]
    with_no_other_id = []
    for index in free_indices:
        context_id = contexts[index].id
        if context_id is None or context_id not in ids_of_passages:
            with_no_other_id.append(index)
    candidates = with_its_id or with_no_other_id
    if not candidates:
        return _NOT_SHOWN
    chosen_index = candidates[0]
    free_indices.remove(chosen_index)
    return chosen_index, 1.0


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


def _contexts_of_other_texts(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[_OtherContext]:
    """The contexts whose text is not that of any passage."""
    texts_of_passages = {_plain(passage.text) for passage in retrieved}
    other_contexts = []
    for index, context in enumerate(contexts):
        text = _plain(context.text)
        if text not in texts_of_passages:
            other_contexts.append(_OtherContext(index, context.id, text))
    return other_contexts


def _find_part(passage: Context, text: str, contexts: Sequence[_OtherContext]) -> Part:
    """Find the context that shows a part of a passage, and how large the part is.

    A context with the passage's id is preferred; else the context that shows most of the
    passage.

    Args:
        passage: The passage.
        text: Its text, with single blanks.
        contexts: The contexts to look at. Contexts with the text of another passage are
            already left out: they show that passage, although both may overlap.

    Returns:
        The index of the best context, and the share of the passage's letters that it
        shows. If none shows a part, the first context that may show the passage in
        other words, with None for the unknown share; else ``_NOT_SHOWN``.
    """
    best_index: int | None = None
    best_rank = (False, 0.0)
    for context in contexts:
        has_same_id = _has_id(passage, context.context_id)
        share = _share_shown(text, context.text, has_same_id=has_same_id)
        rank = (has_same_id, share)  # ranks compare by the id first, then by the share
        if share > 0 and rank > best_rank:
            best_rank = rank
            best_index = context.index
    if best_index is not None:
        _, best_share = best_rank
        return best_index, best_share
    similar_index = _index_of_similar(passage, text, contexts)
    if similar_index is not None:
        return similar_index, None
    return _NOT_SHOWN


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


def _share_shown(text: str, context_text: str, *, has_same_id: bool) -> float:
    """Return the share of a passage's letters that a context shows; 0.0 if none.

    A context shows a passage in two cases: it holds the whole passage, or it consists of
    pieces of the passage with "…" between them. A short passage or piece may stand in a
    context by chance. So it counts only if the context has the passage's id.
    """
    fewest_signs = 1 if has_same_id else _FEWEST_SIGNS
    if len(text) >= fewest_signs and text in context_text:
        return 1.0
    n_letters_shown = 0
    has_pieces = False
    for piece in context_text.split(_CUT_SIGN):
        stripped_piece = piece.strip(_DOTS)
        if not stripped_piece:
            continue
        if len(stripped_piece) < fewest_signs or stripped_piece not in text:
            return 0.0  # the context holds something else
        has_pieces = True
        n_letters_shown += _n_letters(stripped_piece)
    n_letters = _n_letters(text)
    if not has_pieces or n_letters == 0:
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

    A sentence rests on the context that matches it best, if most of its words stand in
    the contexts. Only some judges say of each sentence which context matches it best
    (``rank``), and which share of its words stands in the contexts (``coverage``). The
    first metric that says so counts.

    Returns:
        By rank of the context, from 1, the numbers of the sentences, from 1. Empty if
        no metric says it.
    """
    numbers_by_rank: dict[int, tuple[int, ...]] = {}
    for result in row.results.values():
        evidence = {} if result.evidence is None else dict(result.evidence)
        sentences = evidence.get("sentences") or ()
        for number, sentence in enumerate(sentences, start=1):
            # evidence that was read from a file holds mappings in place of models
            support = sentence if isinstance(sentence, Mapping) else dict(sentence)
            rank = support.get("rank")
            coverage = support.get("coverage")
            # another metric's evidence may mean something else by these names
            if not isinstance(rank, int) or not isinstance(coverage, float):
                continue
            if coverage > _HALF:
                numbers_by_rank[rank] = (*numbers_by_rank.get(rank, ()), number)
        if numbers_by_rank:
            break
    return numbers_by_rank


def words_of(text: str) -> list[str]:
    """The words of a text that tell something: numbers, and words of some length."""
    return _TELLING_WORD.findall(text.lower())


def holds_most(words: AbstractSet[str], held: AbstractSet[str]) -> bool:
    """Whether a passage holds most words of a sentence, and these tell something.

    They tell something if one is a number, or if there are at least two.

    Args:
        words: The words of the sentence.
        held: The words of the passage.
    """
    has_number = any(word.isdigit() for word in words)
    if not has_number and len(words) < _FEWEST_WORDS:
        return False
    return len(words & held) > _HALF * len(words)
