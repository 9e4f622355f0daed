"""What of some texts the messages of prompts show: the one text rule. Pure.

What of a document is a context is decided here alone. Other files ask of single texts
whether a prompt holds them: of replies (``answer``), of tools' texts (``ledger``), of
numbers (``citations``). All compare texts by their letters and digits (``forms``). A text
is shown **whole** where all its letters stand in one message, on ground that nothing else
took; **in part** where a long run of them does. What is less sure than that is told with
a doubt.

Example: the candidates are "The bridge opened in 1874." and "The ferry runs hourly.",
and a message says "Use this: - The bridge opened in 1874. When did it open?". The first
candidate is shown whole, the second is not shown.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from ragmetrics_core.capture.forms import (
    SHORTEST,
    Form,
    form_of,
    is_cut_before,
    is_cut_behind,
    is_entry,
    letters_of,
)

Extent = Literal["whole", "part", "unknown", "not"]

_FROM_LEAST_SURE: tuple[Extent, ...] = ("not", "unknown", "part", "whole")

_SHORTEST_PART = 24  # letters of a part
_ENOUGH_LETTERS = 100  # make a part sure, whatever its share
_SEED = 12  # letters by which a part is first seen; two seeds fit into a shortest part
_TAG = re.compile(r"<[^<>]*>")
_SENTENCE_END = re.compile(r"[.!?](?:\s|\Z)|[。！？\n]")


@dataclass(frozen=True)
class Candidate:
    """A text that messages may show.

    Attributes:
        texts: The texts that it may be shown as, such as a node with and without its
            heading. Each of them is the whole candidate.
        list_number: Which list of documents it stands in: 0 is the list that was there
            last, and claims ground first.
    """

    texts: tuple[str, ...]
    list_number: int = 0


@dataclass(frozen=True)
class Showing:
    """What messages show of a candidate.

    Attributes:
        extent: "whole"; "part"; "unknown", with a doubt; or "not".
        text: The text that is shown; "" for one that is not, or where that is unknown.
        place: The number of the message, and where in it; None where nothing is shown.
        last_place: Where a text that is shown whole stands last; None for any other.
        doubt: The code of what is uncertain; "" if nothing is.
    """

    extent: Extent
    text: str = ""
    place: tuple[int, int] | None = None
    doubt: str = ""
    last_place: tuple[int, int] | None = None

    @property
    def is_context(self) -> bool:
        """Whether it makes a context: some text of the candidate is shown, perhaps in doubt."""
        return bool(self.text)

    @property
    def sureness(self) -> tuple[int, int]:
        """Its rank: what is surely shown goes before what may be, and longer before shorter."""
        return _FROM_LEAST_SURE.index(self.extent), len(self.text)


_NOT_SHOWN = Showing("not")
_INSIDE_ANOTHER = Showing("unknown", doubt="in_part")


@dataclass(eq=False)
class _Message:
    """One message, and who took which of its letters.

    Attributes:
        number: Its number among the messages.
        form: Its letters.
        taken: For each letter 1 if a candidate, or a known text, took it; 0 for free
            ground.
        known_places: Where the question, the history, instructions and replies stand.
        owners: What candidates took: from where, to where, and the candidate's number.
        seeds: Where its free runs of ``_SEED`` letters stand; None before anybody asks.
    """

    number: int
    form: Form
    taken: bytearray
    known_places: list[tuple[int, int]] = field(default_factory=list)
    owners: list[tuple[int, int, int]] = field(default_factory=list)
    seeds: dict[str, list[int]] | None = None

    def places_of(
        self, letters: str, first: int = 0, last: int | None = None
    ) -> list[tuple[int, int]]:
        """List where letters stand as whole words, perhaps between two places."""
        places = []
        start = self.form.letters.find(letters, first, last)
        while start >= 0:
            end = start + len(letters)
            are_words = self.form.is_edge(start) and self.form.is_edge(end)
            if are_words:
                places.append((start, end))
            begin = end if are_words else start + 1
            start = self.form.letters.find(letters, begin, last)
        return places

    def is_free(self, start: int, end: int) -> bool:
        """Whether nobody took any of these letters."""
        return self.taken.find(1, start, end) < 0

    def is_entry(self, start: int, end: int) -> bool:
        """Whether a place is a line, an entry, a cell, in quotes or behind a label."""
        return is_entry(self.form.source, *self.form.place_in_source(start, end))

    def text_between(self, before: int, behind: int) -> str:
        """Return what stands between two letters, without tags."""
        _, start = self.form.place_in_source(before - 1, before)
        end, _ = self.form.place_in_source(behind, behind + 1)
        return _TAG.sub("", self.form.source[start:end])

    def take(self, start: int, end: int, owner: int) -> None:
        """Give a place to a candidate."""
        self.taken[start:end] = b"\1" * (end - start)
        self.owners.append((start, end, owner))

    def seed_places(self) -> dict[str, list[int]]:
        """Return where each run of ``_SEED`` letters stands that begins at a multiple of it."""
        if self.seeds is None:
            letters = self.form.letters
            self.seeds = {}
            for start in range(0, len(letters) - _SEED + 1, _SEED):
                if self.is_free(start, start + _SEED):
                    seed = letters[start : start + _SEED]
                    self.seeds.setdefault(seed, []).append(start)
        return self.seeds


@dataclass(frozen=True)
class PromptText:
    """A message that no model wrote.

    Attributes:
        text: Its text.
        known: Texts that may stand in it for another reason than evidence: the
            question, the history, instructions, replies of models.
    """

    text: str
    known: Sequence[str] = ()


def find_shown(
    candidates: Sequence[Candidate], messages: Sequence[PromptText]
) -> list[Showing]:
    """Tell of each candidate what the messages show of it.

    Args:
        candidates: The candidates; each of them another text.
        messages: The messages in their order, each once.

    Returns:
        A showing for each candidate.
    """
    return _Search(candidates, _with_known_places(messages)).showings


def spans_shown(
    texts: Sequence[str], messages: Sequence[PromptText]
) -> list[list[tuple[int, int, int]] | None]:
    """Return where each of some texts stands in messages, whole or as one part.

    Args:
        texts: The texts, each another one.
        messages: The messages in their order.

    Returns:
        For each text its spans: the number of the message, and where in its text the
        letters and digits begin and end. None for a text that is not shown, and for one
        of which that is not sure.
    """
    ready = _with_known_places(messages)
    showings = _Search([Candidate((text,)) for text in texts], ready).showings
    spans: list[list[tuple[int, int, int]] | None] = []
    for number, showing in enumerate(showings):
        of_text = [
            (message.number, *message.form.place_in_source(start, end))
            for message in ready
            for start, end, owner in message.owners
            if owner == number
        ]
        spans.append(of_text if showing.extent in ("whole", "part") else None)
    return spans


def shows(message_texts: Iterable[str], text: str) -> bool:
    """Whether any of some messages shows a text whole; short texts must be entries."""
    letters = letters_of(text)
    for message_text in message_texts:
        message = _message(0, message_text)
        for start, end in message.places_of(letters) if letters else ():
            if len(letters) >= SHORTEST:
                return True
            if message.is_entry(start, end):
                return True
    return False


def show_the_same(texts: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two prompts show the same texts, but for labels of a word or two.

    Example: the messages "Be short." and "Who?" show what "system: Be short. user: Who?"
    shows.
    """
    return _hold_all(texts, others) and _hold_all(others, texts)


def _hold_all(texts: Iterable[str], held: Iterable[str]) -> bool:
    """Whether some texts hold what others do, but for a word or two at each place."""
    letters_of_texts = sorted({*map(letters_of, texts)} - {""}, key=len, reverse=True)
    for rest in map(letters_of, held):
        if any(rest in letters for letters in letters_of_texts):
            continue
        for letters in letters_of_texts:
            rest = rest.replace(letters, "\n")
        if any(len(run) >= SHORTEST for run in rest.split("\n")):
            return False
    return True


def edges_of(letters: str) -> tuple[str, ...]:
    """Return the beginning and end of a text, by its letters; () for a word or two."""
    if len(letters) < _SHORTEST_PART:
        return (letters,) if len(letters) >= SHORTEST else ()
    return letters[:_SHORTEST_PART], letters[-_SHORTEST_PART:]


def shows_some(message_letters: str, letters: str) -> bool:
    """Whether a message shows a text whole, or its beginning or end, by their letters."""
    return any(edge in message_letters for edge in edges_of(letters))


class KnownTexts:
    """Texts that others may repeat, whole or in part, by their letters."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, None] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a text; one of a word or two repeats nothing."""
        letters = letters_of(text)
        if len(letters) >= SHORTEST:
            self._texts[letters] = None

    def places_in(self, text: str) -> list[tuple[int, int]]:
        """Return where a text repeats them: each of them whole, and long runs of words."""
        if not self._texts:
            return []
        message = _message(0, text)
        letters = message.form.letters
        if len(letters) < SHORTEST:
            return []
        places = []
        for known in self._texts:
            if letters in known:
                return [(0, len(letters))]
            start = letters.find(known)
            while start >= 0:
                places.append((start, start + len(known)))
                start = letters.find(known, start + len(known))
            for start, end, there in _common_runs(known, message):
                first, last = there, there + end - start
                while not message.form.is_edge(first):
                    first += 1
                while not message.form.is_edge(last):
                    last -= 1
                places.append((first, last))
        return places


def _message(number: int, text: str) -> _Message:
    form = form_of(text)
    return _Message(number, form, bytearray(len(form.letters)))


def _with_known_places(messages: Sequence[PromptText]) -> list[_Message]:
    """Make the messages ready for the search, with the places of known texts."""
    ready = []
    for number, prompt_text in enumerate(messages):
        message = _message(number, prompt_text.text)
        for letters in {letters_of(text) for text in prompt_text.known} - {""}:
            message.known_places += message.places_of(letters)
        ready.append(message)
    return ready


class _Search:
    """Gives each candidate its ground, the last lists and the longest texts first."""

    def __init__(
        self, candidates: Sequence[Candidate], messages: Sequence[_Message]
    ) -> None:
        self._candidates = candidates
        self._messages = messages
        self.showings: list[Showing] = [_NOT_SHOWN] * len(candidates)
        # each candidate with each of its texts, in the order of their claims
        claims = []
        for number, candidate in enumerate(self._candidates):
            for text in candidate.texts:
                claims.append(
                    (candidate.list_number, -len(letters_of(text)), number, text)
                )
        claims.sort(key=lambda claim: claim[:3])
        for list_number in {candidate.list_number for candidate in candidates}:
            self._show_glued(list_number)
        # first those that are shown whole, or only inside of other texts
        for _, _, number, text in claims:
            if self.showings[number].extent == "not":
                self.showings[number] = self._whole(number, text)
        # what known texts hold is taken, so that no part of a candidate is seen there
        for message in self._messages:
            for start, end in message.known_places:
                message.taken[start:end] = b"\1" * (end - start)
        for number in dict.fromkeys(number for _, _, number, _ in claims):
            if self.showings[number].extent != "not":
                continue
            texts = self._candidates[number].texts
            in_part = [self._in_part(number, text) for text in texts]
            showing, places = max(in_part, key=lambda each: each[0].sureness)
            self.showings[number] = showing
            for message, start, end in places:
                message.take(start, end, number)

    def _show_glued(self, list_number: int) -> None:
        """Note the texts of a list that a message shows with nothing between them."""
        numbers = []
        for number, candidate in enumerate(self._candidates):
            if candidate.list_number == list_number:
                numbers.append(number)
        forms = [letters_of(self._candidates[number].texts[0]) for number in numbers]
        glued = "".join(forms)
        ends = list(accumulate(map(len, forms)))
        if len(glued) < 2 * SHORTEST or not all(forms):
            return
        for message in self._messages:
            start = message.form.letters.find(glued)
            if start < 0:
                continue
            # where signs part them, each text is looked for by itself
            if all(message.form.is_edge(start + end) for end in ends[:-1]):
                continue
            for number, letters, end in zip(numbers, forms, ends, strict=True):
                first, last = start + end - len(letters), start + end
                place = (message.number, message.form.place_in_source(first, last)[0])
                text = self._candidates[number].texts[0]
                self.showings[number] = Showing("whole", text, place, "", place)
                message.take(first, last, number)
            return

    def _whole(self, number: int, text: str) -> Showing:
        """Return how a text stands whole in the messages: shown, quoted or inside another."""
        letters = letters_of(text)
        if not letters:  # signs alone
            sources = [message.form.source for message in self._messages]
            is_there = text.strip() and any(text.strip() in each for each in sources)
            return Showing("unknown", doubt="short_text") if is_there else _NOT_SHOWN
        first_place: tuple[int, int] | None = None
        last_place: tuple[int, int] | None = None
        is_one_entry = len(letters) >= SHORTEST
        known_place: tuple[int, int] | None = None
        owner: int | None = None
        for message in self._messages:
            for start, end in message.places_of(letters):
                known = message.known_places
                if any(first <= start and end <= last for first, last in known):
                    source_start, _ = message.form.place_in_source(start, end)
                    known_place = known_place or (message.number, source_start)
                elif message.is_free(start, end):
                    message.take(start, end, number)
                    source_start, _ = message.form.place_in_source(start, end)
                    is_one_entry = is_one_entry or message.is_entry(start, end)
                    last_place = (message.number, source_start)
                    first_place = first_place or last_place
                elif owner is None:
                    owners = (
                        each
                        for first, last, each in message.owners
                        if first <= start and end <= last
                    )
                    owner = next(owners, None)
        if first_place is not None:
            doubt = "" if is_one_entry else "short_text"
            extent: Extent = "whole" if is_one_entry else "unknown"
            return Showing(extent, text, first_place, doubt, last_place)
        list_number = self._candidates[number].list_number
        if owner is not None and owner != number:
            is_in_list_of_owner = self._candidates[owner].list_number == list_number
            # a later list that holds the longer text alone put it in the place of this
            return _INSIDE_ANOTHER if is_in_list_of_owner else _NOT_SHOWN
        if known_place is None:
            return _NOT_SHOWN
        if list_number == 0:  # the last list holds it: perhaps it was shown
            return Showing("unknown", text, known_place, "short_text")
        return Showing("unknown", doubt="short_text")

    def _in_part(
        self, number: int, text: str
    ) -> tuple[Showing, list[tuple[_Message, int, int]]]:
        """Return what parts of a text the messages show on free ground, and where.

        The longest go first. What they show already may be another text's: pages that
        differ in a name alone share many sentences.
        """
        form = form_of(text)
        runs = [
            (start, end, there, message)
            for message in self._messages
            for start, end, there in _common_runs(form.letters, message)
        ]
        united: list[tuple[int, int]] = []
        places: list[tuple[_Message, int, int]] = []
        for start, end, there, message in sorted(runs, key=lambda run: run[0] - run[1]):
            if not any(first <= start and end <= last for first, last in united):
                united = _united([*united, (start, end)])
                places.append((message, there, there + end - start))
        if not places:
            return self._beginning(form), []
        rest = self._rest(form, united, places)
        place = min(
            (message.number, message.form.place_in_source(there, there + 1)[0])
            for message, there, _ in places
        )
        # whether the messages show nothing in the place of what the text lacks
        is_cut = True
        for message, there, end in places:
            source = message.form.source
            first, last = message.form.place_in_source(there, end)
            is_begun = united[0][0] == 0 or is_cut_before(source, first)
            is_ended = united[0][1] == len(form.letters) or is_cut_behind(source, last)
            is_cut = is_cut and is_begun and is_ended
        n_letters = len(form.letters)
        shown = "\n".join(form.text_between(*part) for part in united)
        if united == [(0, n_letters)] or rest == "whole":
            return Showing("whole", form.source, place), places
        # what stands at two places is another text's at one of them
        n_taken = sum(end - there for _, there, end in places)
        is_one_part = n_taken == sum(end - start for start, end in united)
        is_one_part = is_one_part and len(united) == 1 and is_cut and rest == "not"
        if is_one_part and self._is_sure_part(number, form, united[0]):
            return Showing("part", shown, place), places
        n_letters_shown = sum(end - start for start, end in united)
        is_at_edge = united[0][0] == 0 or united[-1][1] == n_letters
        if is_at_edge or n_letters_shown >= min(_ENOUGH_LETTERS, n_letters / 2):
            return Showing("unknown", shown, place, "in_part"), places
        return Showing("unknown", doubt="in_part"), places

    def _rest(
        self,
        form: Form,
        parts: Sequence[tuple[int, int]],
        places: list[tuple[_Message, int, int]],
    ) -> Extent:
        """Return what a message shows of the rest of a text behind its one part, or before it.

        Numbers and marks may stand between, as where sentences are numbered. A rest that
        is too short for a part is a text of its own; its place is added. Of several
        sentences the one next to the part is looked for.
        """
        (start, end), n_letters = parts[0], len(form.letters)
        if len(parts) > 1 or (start == 0) == (end == n_letters):
            return "not"
        is_behind = start == 0
        rest_place = (end, n_letters) if is_behind else (0, start)
        rest = form.letters[slice(*rest_place)]
        pieces = map(letters_of, _SENTENCE_END.split(form.text_between(*rest_place)))
        sentences = [piece for piece in pieces if piece]
        message = places[0][0]
        here = [place for place in places if place[0] is message]
        first, last = min(place[1] for place in here), max(place[2] for place in here)
        near = (max(0, first - _ENOUGH_LETTERS), first)
        if is_behind:
            near = (last, last + _ENOUGH_LETTERS)
        for letters in (rest, sentences[0 if is_behind else -1]):
            if len(letters) >= _SHORTEST_PART:  # it would be a part
                continue
            for place in message.places_of(letters, *near):
                if message.is_free(*place):
                    is_text = len(letters) >= SHORTEST or message.is_entry(*place)
                    before, behind = (
                        (last, place[0]) if is_behind else (place[1], first)
                    )
                    between = message.text_between(before, behind)
                    is_text = is_text and not any(map(str.isalpha, between))
                    if letters == rest and is_text:
                        places.append((message, *place))
                        return "whole"
                    return "unknown"
        return "not"

    def _is_sure_part(self, number: int, form: Form, part: tuple[int, int]) -> bool:
        """Whether a part begins or ends a text, is long enough, and no other text's."""
        start, end = part
        n_letters = len(form.letters)
        is_at_edge = start == 0 or end == n_letters
        is_long = end - start >= min(_ENOUGH_LETTERS, n_letters / 2)
        if not is_at_edge or not is_long:
            return False
        letters = form.letters[start:end]
        for other_number, candidate in enumerate(self._candidates):
            if other_number == number:
                continue
            if any(letters in letters_of(text) for text in candidate.texts):
                return False
        return True

    def _beginning(self, form: Form) -> Showing:
        """Return a doubt where the first letters of a text stand on free ground.

        Only its beginning is looked for: applications that cut a text cut off its end.
        """
        beginning = form.letters[:SHORTEST]
        if len(beginning) < SHORTEST:
            return _NOT_SHOWN
        for message in self._messages:
            start = message.form.letters.find(beginning)
            while start >= 0:
                end = start + SHORTEST
                if message.form.is_edge(start) and message.is_free(start, end):
                    return Showing("unknown", doubt="in_part")
                start = message.form.letters.find(beginning, start + 1)
        return _NOT_SHOWN


def _common_runs(letters: str, message: _Message) -> list[tuple[int, int, int]]:
    """List the long runs of letters that stand on a message's free ground.

    Returns:
        For each run its first letter, the letter behind it, and where it stands.
    """
    seeds = message.seed_places()
    runs = []
    position = 0
    while position <= len(letters) - _SEED:
        longest = (position, position, 0)
        for there in seeds.get(letters[position : position + _SEED], ()):
            run = _extended(letters, position, message, there)
            if run[1] - run[0] > longest[1] - longest[0]:
                longest = run
        start, end, _ = longest
        if end - start >= _SHORTEST_PART:
            runs.append(longest)
            position = end
        else:
            position += 1
    return runs


def _extended(
    letters: str, position: int, message: _Message, there: int
) -> tuple[int, int, int]:
    """Extend a seed in both directions, as long as letters are equal and free."""
    of_message = message.form.letters
    taken = message.taken
    if not message.is_free(there, there + _SEED):
        return position, position, there
    end, end_there = position + _SEED, there + _SEED
    while (
        end < len(letters)
        and end_there < len(of_message)
        and letters[end] == of_message[end_there]
        and not taken[end_there]
    ):
        end += 1
        end_there += 1
    while (
        position > 0
        and there > 0
        and letters[position - 1] == of_message[there - 1]
        and not taken[there - 1]
    ):
        position -= 1
        there -= 1
    return position, end, there


def _united(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Unite parts that touch or overlap."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(parts):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united
