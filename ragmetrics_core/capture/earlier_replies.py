"""Which replies of earlier calls a later prompt may hold: answers, notes, structured output."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.capture.calls import Calls, began_after
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH
from ragmetrics_core.capture.passages import has_words, is_an_entry_of, stands_apart
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.tree import Node

_LEAST_DIGITS = 3  # a number of three digits stands in a prompt by no chance


@dataclass(frozen=True)
class EarlierReply:
    """A text that an earlier call wrote, which is searched for in a prompt.

    Attributes:
        call: The call of a model.
        text: What it wrote, or a text of its structured output.
        is_entry: Whether it is an entry of a list in the prompt.
    """

    call: Node
    text: str
    is_entry: bool


@dataclass(frozen=True, eq=False)
class EarlierReplies:
    """What the calls of models in a run replied, for later calls to read.

    Args:
        calls: The calls of the run.
    """

    calls: Calls

    def to_search_for(self, call: Node) -> list[EarlierReply]:
        """Collect the replies of earlier calls that a call's prompt may repeat.

        A long reply is always collected: where the prompt has so many of its words, it
        has them from the reply. The short reply "4 May 1874" is collected only if the
        prompt has it as "[1] 4 May 1874", "Answer: 4 May 1874", or as all that a tool
        returned; in "The bridge opened on 4 May 1874." it stands by chance.
        """
        # what tools returned, each in one line
        tool_results = _tool_results_in_prompt(call)
        message_texts = [message.text for message in call.prompt]
        replies = []
        for earlier_call in self._calls_before(call):
            # the "yes" of a grader: "Answer: yes" in a later prompt does not repeat it
            is_verdict = self.calls.replies[earlier_call].is_verdict
            for text in self._texts_written_by(earlier_call):
                is_long = len(text) >= DISTINCTIVE_LENGTH
                # all that a tool returned: the call was made inside this tool
                is_tool_result = as_one_line(text) in tool_results
                # "[1] 4 May 1874"
                is_list_entry = not is_verdict and _is_entry_in(message_texts, text)
                # "Answer: 4 May 1874"
                is_set_apart = not is_verdict and _stands_apart_in(message_texts, text)
                if is_long or is_tool_result or is_list_entry or is_set_apart:
                    replies.append(EarlierReply(earlier_call, text, is_list_entry))
        return replies

    def calls_with_notes(self, call: Node, *, left_out: Collection[Node]) -> list[Node]:
        """Return the earlier calls whose notes stand in a call's prompt.

        A note is a reply of a few words, such as "bridge fell 1874".

        Args:
            call: The call.
            left_out: Calls that are left out.
        """
        texts = [message.text for message in call.prompt if message.role != "assistant"]
        calls = []
        for earlier_call in self._calls_before(call):
            note = self._note_of(earlier_call)
            is_shown = any(has_words(text, note) for text in texts)
            if is_shown and earlier_call not in left_out:
                calls.append(earlier_call)
        return calls

    def has_certain_note(self, call: Node) -> bool:
        """Whether the few words of a call stand in a prompt by no mere chance.

        A verdict may, and so may a single word that is no number of three digits.
        """
        if self.calls.replies[call].is_verdict:
            return False
        note = self._note_of(call)
        n_digits = sum(map(str.isdigit, note))
        return len(note.split()) >= 2 or n_digits >= _LEAST_DIGITS

    def _note_of(self, call: Node) -> str:
        """Return what a call wrote if it is a few words; without the full stop.

        Empty for a longer reply, and for one that is structured output.
        """
        reply = self.calls.replies[call]
        words = reply.text.strip().rstrip(".")
        is_long = len(words) >= DISTINCTIVE_LENGTH
        return "" if is_long or reply.values else words

    def _texts_written_by(self, call: Node) -> list[str]:
        """Return what a call wrote: its text, and the texts of its structured output."""
        reply = self.calls.replies[call]
        texts = [reply.text, *texts_in(list(reply.values))]
        return [text for text in dict.fromkeys(texts) if text]

    def _calls_before(self, call: Node) -> list[Node]:
        """Return the calls that ended before a call began, and that it may have read."""
        return [
            earlier_call
            for earlier_call in self._calls_that_may_be_read
            if earlier_call is not call and began_after(call, earlier_call)
        ]

    @cached_property
    def _calls_that_may_be_read(self) -> list[Node]:
        """The calls of models that replied with a text that a later call may read.

        Calls that wrote a query, or called a tool that ran, are left out.
        """
        calls = []
        for call in self.calls.models:
            if call in self.calls.query_writers or call.reply is None:
                continue
            names_called = [tool_call.name for tool_call in call.reply.tool_calls]
            if self.calls.names_of_tools_that_ran.isdisjoint(names_called):
                calls.append(call)
        return calls


def _is_entry_in(message_texts: Iterable[str], text: str) -> bool:
    """Whether a text is an entry of a list in any of the messages."""
    words = text.strip()
    return bool(words) and any(is_an_entry_of(words, each) for each in message_texts)


def _stands_apart_in(message_texts: Iterable[str], text: str) -> bool:
    """Whether a text stands apart from other words in any of the messages."""
    words = text.strip()
    return bool(words) and any(stands_apart(words, each) for each in message_texts)


def _tool_results_in_prompt(call: Node) -> set[str]:
    """Return the results of tools in a call's prompt, each as one line.

    The texts inside of a result that is JSON are returned as well.
    """
    lines: set[str] = set()
    for message in call.prompt:
        if message.role == "tool":
            lines.add(as_one_line(message.text))
            parts = texts_in(parse_json(message.text))
            lines.update(as_one_line(part) for part in parts)
    return lines
