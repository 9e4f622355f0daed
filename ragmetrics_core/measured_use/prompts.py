"""The prompt of an answer, and the same prompt without some of its passages. Pure.

Example: of "[1] It opened in 1874. [2] It is red." the passage 1 is taken out. Its number
stays, so that no other passage gets a new one: "[1] [2] It is red."
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.shown import PromptText, places_shown, shows_some
from ragmetrics_core.data import PromptMessage, Sample


class NotMeasurable(Exception):
    """Why nothing can be taken out of the prompt of a sample, in words."""


@dataclass(frozen=True)
class KeptPrompt:
    """A prompt, and where passages stand in it.

    Attributes:
        messages: The messages, in order.
        spans: By the number of a message, where its passages stand: from where, to
            where, and the number of the passage. They are in order.
        texts: The passages.
    """

    messages: tuple[PromptMessage, ...]
    spans: dict[int, list[tuple[int, int, int]]]
    texts: tuple[str, ...]

    @cached_property
    def shown_elsewhere(self) -> frozenset[int]:
        """The passages of which words stay in the prompt that is without all of them.

        Example: an earlier reply of the model quotes the beginning of passage 0.
        """
        all_passages = range(len(self.texts))
        rest = [letters_of(each.content) for each in self.without(all_passages)]
        return frozenset(
            passage
            for passage, letters in enumerate(map(letters_of, self.texts))
            if any(shows_some(message, letters) for message in rest)
        )

    def without(self, removed: Collection[int]) -> tuple[PromptMessage, ...]:
        """Return the messages without the texts of some passages, by their numbers.

        Where equal separators stand between the passages of a message, one goes with
        each passage. Else, as in a numbered list, only the text itself goes.
        """
        messages = []
        for number, message in enumerate(self.messages):
            content = message.content
            spans = self.spans.get(number, [])
            separator = _separator(content, spans)
            if separator is not None:
                kept = [
                    content[start:end]
                    for start, end, passage in spans
                    if passage not in removed
                ]
                before, behind = content[: spans[0][0]], content[spans[-1][1] :]
                content = before + separator.join(kept) + behind
            else:
                for start, end, passage in reversed(spans):
                    if passage in removed:
                        content = content[:start] + content[end:]
            messages.append(message.model_copy(update={"content": content}))
        return tuple(messages)


def kept_prompt(sample: Sample) -> KeptPrompt:
    """Find the passages of a sample in the prompt that was kept of its answer.

    Raises:
        NotMeasurable: If no prompt was kept, the sample is not exact, has no answer or
            no context, or a context does not stand in the prompt whole or as one part:
            it has no letters, for example, or the text of an earlier one.
    """
    notes = sample.capture
    if notes is None or notes.prompt is None:
        raise NotMeasurable(
            "the prompt of its answer was not kept: capture(keep_prompts=True)"
        )
    if notes.grade != "exact":
        doubts = "; ".join(notes.doubts.values()) or "what was captured is not sure"
        raise NotMeasurable(f"its passages are not known exactly: {doubts}")
    if sample.answer is None:
        raise NotMeasurable("it has no answer")
    if not sample.contexts:
        raise NotMeasurable("it has no passage")
    texts = [context.text for context in sample.contexts]
    letters = [letters_of(text) for text in texts]
    # what models wrote is no evidence: nothing is sought in it
    numbers = [
        number
        for number, message in enumerate(notes.prompt)
        if message.role != "assistant"
    ]
    known = [sample.question or "", *(turn.content for turn in sample.history)]
    messages = [PromptText(notes.prompt[number].content, known) for number in numbers]
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for passage, places in enumerate(places_shown(texts, messages)):
        if not places:
            why = "does not stand in the answering prompt whole or as one part"
            if not letters[passage]:
                why = "has no letters, by which it could be found in the prompt"
            elif letters[passage] in letters[:passage]:
                twin = letters.index(letters[passage])
                why = f"has the same text as passage {twin + 1}"
            raise NotMeasurable(f"passage {passage + 1} {why}")
        for number, start, end in places:
            content = messages[number].text
            start, end = _with_signs(content, start, end, texts[passage])
            spans.setdefault(numbers[number], []).append((start, end, passage))
    for places_of_message in spans.values():
        places_of_message.sort()
    return KeptPrompt(notes.prompt, spans, tuple(texts))


def _with_signs(content: str, start: int, end: int, text: str) -> tuple[int, int]:
    """Widen the place of a text's letters by its own signs before and behind them.

    Example: the place of "It opened" in '"It opened."' is widened by the full stop that
    the text has, and not by the quotation mark.
    """
    is_letter = [sign.isalnum() for sign in text]
    before = text[: is_letter.index(True)]
    behind = text[len(text) - is_letter[::-1].index(True) :]
    for sign in reversed(before):
        if start and content[start - 1] == sign:
            start -= 1
    for sign in behind:
        if content[end : end + 1] == sign:
            end += 1
    return start, end


def _separator(content: str, spans: list[tuple[int, int, int]]) -> str | None:
    """Return what stands between all passages of a message; None where that differs.

    None also where it numbers or names them: what would be left around the others must
    read as it does around each of them now. Example: "</doc><doc>" between passages is a
    separator if "<doc>" stands before the first and "</doc>" behind the last.
    """
    gaps = {content[end:start] for (_, end, _), (start, _, _) in pairwise(spans)}
    are_shown_once = len({passage for _, _, passage in spans}) == len(spans)
    if len(gaps) != 1 or not are_shown_once:
        return None
    gap = gaps.pop()
    if not any(sign.isalnum() for sign in gap):
        return gap
    before, behind = content[: spans[0][0]], content[spans[-1][1] :]
    for cut in range(len(gap) + 1):
        if behind.startswith(gap[:cut]) and before.endswith(gap[cut:]):
            return gap
    return None
