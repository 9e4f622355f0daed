"""Which context shows a retrieved passage, where no run recorded it: by ids and texts alone. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence

from ragmetrics_core.data import Context, SampleResult

_CUT_SIGN = "…"  # between parts of a cut context, as capturing writes it
_DOTS = " ….\t\n"
_LONGEST_BY_CHANCE = 32  # signs; a shorter text stands in another by chance
_WORDS_BY_NO_CHANCE = 8  # that two texts share in a row
_HALF = 0.5

Part = tuple[int | None, float | None]
_NOT_SHOWN: Part = (None, 0.0)


def parts_shown(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[Part]:
    """Say of each retrieved passage which context shows it, and how much of it.

    It is the context of the same text, else one that is part of it or holds it; of
    several the one of its id. Of equal passages so many are shown as contexts have the
    text.

    Args:
        retrieved: The passages.
        contexts: What the model was shown.

    Returns:
        For each passage the place of the context, from 0, and the share of its letters
        that is shown. (None, 0.0) for one that is not shown. The share is None where a
        context has its id or some of its words, in another text: nobody can say.
    """
    texts = [_plain(context.text) for context in contexts]
    free_places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        free_places.setdefault(text, []).append(place)
    known_ids = {passage.id for passage in retrieved}
    whole_passages = {_plain(passage.text) for passage in retrieved}
    unaccounted = [
        place for place, text in enumerate(texts) if text not in whole_passages
    ]
    other_contexts = [
        _Other(place, contexts[place].id, texts[place]) for place in unaccounted
    ]
    parts: list[Part] = []
    for passage in retrieved:
        text = _plain(passage.text)
        if not text:
            parts.append(_NOT_SHOWN)
        elif text in free_places:
            parts.append(_equal(passage, contexts, free_places[text], known_ids))
        else:
            holder = _holder(text, texts)
            part = _part(passage, text, other_contexts)
            parts.append(part if holder is None else (holder, 1.0))
    return parts


def _holder(text: str, texts: Sequence[str]) -> int | None:
    """The first context inside which a passage stands as it is."""
    if len(text) < _LONGEST_BY_CHANCE:
        return None
    return next(
        (place for place, text_shown in enumerate(texts) if text in text_shown), None
    )


def _equal(
    passage: Context,
    contexts: Sequence[Context],
    free: list[int],
    known_ids: Container[str | None],
) -> Part:
    """The first context of its text, one of its id before others; each stands once.

    One that has the id of another passage is left to that one.
    """
    of_its_id = [place for place in free if _has_id_of(passage, contexts[place])]
    of_no_other = [
        place
        for place in free
        if contexts[place].id is None or contexts[place].id not in known_ids
    ]
    places = of_its_id or of_no_other
    if not places:
        return _NOT_SHOWN
    free.remove(places[0])
    return places[0], 1.0


class _Other:
    """A context that is no passage as a whole: a part of one, several, or other words."""

    def __init__(self, place: int, own_id: str | None, text: str) -> None:
        self.place = place
        self.own_id = own_id
        self.text = text
        self.runs = frozenset(_runs_of_words(text))


def _part(passage: Context, text: str, contexts: Sequence[_Other]) -> Part:
    """The context that shows most of a passage, and how much; one of its id comes first.

    A context that is another passage whole is none: chunks overlap.
    """
    best: tuple[bool, float, int | None] = (False, 0.0, None)
    place_alike: int | None = None
    runs = frozenset(_runs_of_words(text)) if contexts else frozenset()
    for context in contexts:
        same_id = passage.id is not None and passage.id == context.own_id
        share = _share(text, context.text, same_id=same_id)
        if share > 0 and (same_id, share) > best[:2]:
            best = (same_id, share, context.place)
        if place_alike is None and (same_id or not runs.isdisjoint(context.runs)):
            place_alike = context.place
    _, share, place_shown = best
    if place_shown is not None:
        return place_shown, share
    return _NOT_SHOWN if place_alike is None else (place_alike, None)


def _has_id_of(passage: Context, context: Context) -> bool:
    return passage.id is not None and passage.id == context.id


def _share(text: str, text_shown: str, *, same_id: bool) -> float:
    """The share of a passage's letters that a context shows; 0.0 if it shows none."""
    shortest = 1 if same_id else _LONGEST_BY_CHANCE
    if len(text) >= shortest and text in text_shown:
        return 1.0
    pieces = [piece.strip(_DOTS) for piece in text_shown.split(_CUT_SIGN)]
    pieces = [piece for piece in pieces if piece]
    pieces_held = [
        piece for piece in pieces if len(piece) >= shortest and piece in text
    ]
    if not pieces_held or len(pieces_held) < len(pieces):
        return 0.0
    n_letters = sum(map(str.isalnum, text))
    n_shown = sum(map(str.isalnum, "".join(pieces_held)))
    return min(1.0, n_shown / n_letters) if n_letters else 0.0


def _runs_of_words(text: str) -> Iterator[tuple[str, ...]]:
    """All runs of so many words that two texts share none by chance."""
    words = text.split()
    for start in range(len(words) - _WORDS_BY_NO_CHANCE + 1):
        yield tuple(words[start : start + _WORDS_BY_NO_CHANCE])


def _plain(text: str) -> str:
    """A text with single blanks, as which texts are compared."""
    return " ".join(text.split())


def sentences_resting(row: SampleResult) -> Mapping[int, tuple[int, ...]]:
    """By rank of a context the numbers of the answer's sentences that rest on it.

    A sentence rests on the context that matches it best, if most of its words stand in
    the contexts. Judges that do not say where a sentence is held give none.
    """
    numbers_by_rank: dict[int, tuple[int, ...]] = {}
    for result in row.results.values():
        evidence = {} if result.evidence is None else dict(result.evidence)
        sentences = evidence.get("sentences") or ()
        for number, sentence in enumerate(sentences, start=1):
            support = sentence if isinstance(sentence, Mapping) else dict(sentence)
            rank, coverage = support.get("rank"), support.get("coverage")
            if not isinstance(rank, int) or not isinstance(coverage, float):
                continue
            if coverage > _HALF:
                numbers_by_rank[rank] = (*numbers_by_rank.get(rank, ()), number)
        if numbers_by_rank:
            break
    return numbers_by_rank
