"""Turns of one conversation: what earlier ones found and said goes on with the next, in bounded memory."""

import hashlib
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ragmetrics_core.capture.plain_values import one_line
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Ledger, Sample, Turn

BY_WORDS = "the words of an earlier turn end the messages handed in"
_MOST_NAMED = _MOST_TURNS = 500
_MOST_CALLS = 200
_NEAR = 32


@dataclass(frozen=True)
class _Said:
    """A turn that was captured, with the calls of the ledger and the history up to it."""

    question: str
    answer: str
    ledger: Ledger
    history: tuple[Turn, ...]
    words: tuple[str, ...]  # question and answer as they are compared

    @property
    def so_far(self) -> tuple[Turn, ...]:
        """What user and assistant had said when it was over."""
        said = (("user", self.question), ("assistant", self.answer))
        return (
            *self.history,
            *(Turn(role=role, content=text) for role, text in said if text),
        )[-2 * _MOST_CALLS :]


class Conversations:
    """The turns that were captured last, and how a further run goes on with one of them.

    ``named`` is the conversation that runs belong to where the framework has no id of
    its own, or only a memory's; ``before`` holds turns of other blocks. One counts
    where the framework's id is the same and its words stand in the history: two
    applications may use one id.
    """

    def __init__(
        self, named: str | None = None, before: "Conversations | None" = None
    ) -> None:
        self._named, self._before = named, before
        self.turns: deque[_Said] = deque(maxlen=_MOST_TURNS)

    def placed(self, tree: Tree) -> Tree:
        """A run as a turn of its conversation: that of its id, else of the only turn whose words end its history."""
        name = (self._named if tree.kept else None) or tree.conversation or self._named
        last = self._last_by_words(tree) if name is None else self._last_of(name, tree)
        if last is None:
            return replace(tree, conversation=name or _new(tree))
        kept = tree.history or any(
            one.role == "summary" for node in tree.root.walk() for one in node.prompt
        )
        history = (
            last.so_far
            if kept and _asked(last.so_far) > _asked(tree.history)
            else tree.history
        )
        return replace(
            tree,
            conversation=last.ledger.conversation,
            turn=1 + max(last.ledger.turn, _asked(history)),
            earlier=last.ledger.calls,
            history=history,
            conversation_at="" if name is not None else BY_WORDS,
        )

    def _last_by_words(self, tree: Tree) -> _Said | None:
        """The only turn whose question and answer end the history that a run was handed."""
        words = _last_words(tree)
        ended = [turn for turn in self.turns if turn.words == words]
        return ended[0] if len(ended) == 1 else None

    def _last_of(self, name: str, tree: Tree) -> _Said | None:
        """The last turn of a conversation, by its words if these end the history.

        Of other blocks where they stand.
        """
        spoken = {one_line(one.content) for one in tree.history}
        others = list(self._before.turns) if self._before is not None else []
        turns = [turn for turn in others if spoken.issuperset(turn.words)]
        own = [
            turn for turn in (*turns, *self.turns) if turn.ledger.conversation == name
        ]
        words = _last_words(tree)
        same_words = (turn for turn in reversed(own) if turn.words == words)
        return next(same_words, own[-1] if own else None)

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember a turn, as it was placed, by its samples."""
        for one in samples:
            if one.ledger is not None:
                own = (
                    call for call in one.ledger.calls if call.turn == one.ledger.turn
                )
                ledger = one.ledger.model_copy(
                    update={"calls": (*tree.earlier, *own)[-_MOST_CALLS:]}
                )
                said = one.question or "", one.answer or ""
                self.turns.append(
                    _Said(*said, ledger, one.history, tuple(map(one_line, said)))
                )
        if (
            self._before is not None
            and tree.conversation_at != BY_WORDS
            and tree.conversation != _new(tree)
        ):
            self._before.add(tree, samples)

    def stand_in(
        self, prompt: str, question: str | None, said_before: Collection[str] = ()
    ) -> bool:
        """Whether a prompt holds an earlier question and its answer.

        Args:
            prompt: The prompt.
            question: What is asked now.
            said_before: What models of this run had said, each in one line: that is no
                earlier answer, though a sub-question was asked before.
        """
        near = (
            one
            for one in list(self.turns)[-_NEAR:]
            if all(one.words)
            and one.question != question
            and one.words[1] not in said_before
        )
        return any(one.question in prompt and one.answer in prompt for one in near)


@lru_cache(_MOST_NAMED)
def of_blocks(named: str | None = None, redact: object = None) -> Conversations:
    """What blocks of a name and of one ``redact=`` share: texts that one hides reach none that hides others."""
    return Conversations(named, None if named is None else of_blocks(None, redact))


def _last_words(tree: Tree) -> tuple[str, ...]:
    """The last two messages of a history, as they are compared."""
    return tuple(one_line(one.content) for one in tree.history[-2:])


def _asked(history: Sequence[Turn]) -> int:
    return sum(one.role == "user" for one in history)


def _new(tree: Tree) -> str:
    """A name for a conversation that has none: the same for the same run, and another for each run."""
    said = repr((tree.root.name, tree.root.began, tree.root.ended, tree.question))
    return hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest()
