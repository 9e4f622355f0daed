"""Turns of conversations that have a name: what a later turn knows of earlier ones.

The name is the user's, ``capture(conversation="c7")``, else the framework's id, such as
the thread of a graph. A run without a name is a turn of no known conversation: the
history of its prompt is all that is known then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.structures import as_one_line
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.data import Ledger, Sample, Turn

_MOST_CONVERSATIONS = 500
_MOST_TURNS = 8  # of a conversation: samples are made late, but not that late
_MOST_CALLS = 200
# of a sample with one of these, the user's words or what was said before may be others
_DOUBTS_OF_HISTORY = frozenset({"history_unread", "question_guessed", "which_turn"})
_NOT_CAPTURED = Doubt(
    "history_unread",
    "the conversation holds words of the user that no captured run was asked; they are"
    " taken for earlier turns: keep what an agent tells itself out of the user's messages",
)


@dataclass(frozen=True)
class CapturedTurn:
    """A captured turn of a conversation.

    Attributes:
        began: When its run began.
        ledger: Its ledger, with the calls of earlier turns.
        history: What user and assistant had said when it was over.
    """

    began: float
    ledger: Ledger
    history: tuple[Turn, ...]
    may_hold_examples: bool = False


class Conversations:
    """The last turns of each conversation, in bounded memory.

    What is earlier is earlier in time: a sample that is made late finds the turn that
    began before it.

    Args:
        user_name: The name that the user gave the conversation of all runs; None if
            they gave none. It goes before the framework's id.
        other_blocks: The turns of other ``capture()`` blocks; None to share with no
            block. Where the framework names the conversation, such a turn counts only
            if the run's history ends with its words: two applications may use one id.
    """

    def __init__(
        self, user_name: str | None = None, other_blocks: Conversations | None = None
    ) -> None:
        """Begin without any turn of its own."""
        self._user_name = user_name
        self._other_blocks = other_blocks
        self.last_turns: OrderedDict[str, tuple[CapturedTurn, ...]] = OrderedDict()
        # what was said last, from the first turn on; () where that is not certain
        self.last_history: tuple[Turn, ...] = ()

    def copy(self) -> Conversations:
        """Return a copy: turns added to it reach other blocks, and not this object."""
        trial = Conversations(self._user_name, self._other_blocks)
        trial.last_turns.update(self.last_turns)
        trial.last_history = self.last_history
        return trial

    def place_turn(self, tree: Tree) -> Tree:
        """Return a run as the next turn of its conversation.

        Example: the turn "When did it open?" of the thread "t1" was captured as turn 1.
        The next run of "t1" becomes turn 2, and gets the searches of turn 1 as
        ``earlier_calls``. A run without a name is returned as it is.
        """
        name = self._user_name or tree.conversation_id
        if name is None:
            return tree
        last_turn = self.turn_before(name, tree)
        if last_turn is None and self._other_blocks is not None:
            last_turn = self._other_blocks.turn_before(name, tree)
            # two applications may use one id of a framework
            if last_turn is not None and self._user_name is None:
                is_repeated = _last_lines(tree.history) == _last_lines(
                    last_turn.history
                )
                last_turn = last_turn if is_repeated else None
        if last_turn is None or tree.turn_number == 1:
            return replace(tree, conversation_id=name)
        history = tree.history
        n_questions = sum(message.role == "user" for message in history)
        n_captured = sum(message.role == "user" for message in last_turn.history)
        # the application may have cut, deleted or summed up its messages, or answered by
        # a call of a tool; and what a prompt shows may be its wording of them
        captured = (n_captured, len(last_turn.history))
        is_surer = captured > (n_questions, len(history)) or (
            tree.is_history_of_prompt and n_captured == n_questions
        )
        # examples may stand in what was captured, and not in what was handed in
        if last_turn.may_hold_examples and history and not tree.is_history_of_prompt:
            is_surer = False
        if is_surer:
            history = last_turn.history
        doubts = tree.doubts
        if n_captured < n_questions:
            doubts += (_NOT_CAPTURED,)
        return replace(
            tree,
            conversation_id=name,
            turn_number=max(last_turn.ledger.turn, n_questions) + 1,
            earlier_calls=last_turn.ledger.calls[-_MOST_CALLS:],
            history=history,
            doubts=doubts,
            is_history_of_prompt=(
                last_turn.may_hold_examples if is_surer else tree.is_history_of_prompt
            ),
        )

    def turn_before(self, name: str, tree: Tree) -> CapturedTurn | None:
        """Return the last turn kept here that began before a run; None without one."""
        for turn in reversed(self.last_turns.get(name, ())):
            if turn.began < tree.root.began:
                return turn
        return None

    def add(self, tree: Tree, samples: Sequence[Sample]) -> None:
        """Remember the samples of a run as a turn of its conversation.

        Args:
            tree: The run, as ``place_turn`` returned it.
            samples: Its samples.
        """
        name = self._user_name or tree.conversation_id
        for sample in samples:
            said: list[Turn] = list(sample.history or ())
            if sample.question:
                said.append(Turn(role="user", content=sample.question))
            if sample.answer:
                said.append(Turn(role="assistant", content=sample.answer))
            notes = sample.capture
            is_sure = notes is not None and _DOUBTS_OF_HISTORY.isdisjoint(notes.doubts)
            self.last_history = tuple(said) if is_sure else ()
            if name is not None:
                ledger = sample.ledger or Ledger()
                self.keep(
                    name,
                    CapturedTurn(
                        tree.root.began, ledger, tuple(said), tree.is_history_of_prompt
                    ),
                )

    def keep(self, name: str, turn: CapturedTurn) -> None:
        """Keep a turn of a conversation, for this block and for others.

        It takes the place of one that began with it: what waits is told each time that
        samples are read.
        """
        others = [
            each for each in self.last_turns.get(name, ()) if each.began != turn.began
        ]
        turns = sorted((*others, turn), key=attrgetter("began"))
        self.last_turns[name] = tuple(turns[-_MOST_TURNS:])
        self.last_turns.move_to_end(name)
        if len(self.last_turns) > _MOST_CONVERSATIONS:
            self.last_turns.popitem(last=False)
        if self._other_blocks is not None:
            self._other_blocks.keep(name, turn)


@lru_cache(_MOST_CONVERSATIONS)
def conversations_named(redact: object = None) -> Conversations:
    """Return the conversations that blocks with one ``redact=`` share.

    Blocks that hide other texts have another one: no text that one block hides reaches
    the other.
    """
    del redact
    return Conversations()


def _last_lines(history: Sequence[Turn]) -> tuple[str, ...]:
    """Return the last two messages of a history, each in one line."""
    return tuple(as_one_line(message.content) for message in history[-2:])
