"""Whether what an answer names, and no context is called, was certainly shown to nobody. Pure.

Then the model made the name up, and the citation dangles. Else its meaning is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.prompt_numbers import (
    FORMS_OF_NUMBERS,
    lines_by_number_in_brackets,
    numbers_in_form,
    words_before_number,
)
from ragmetrics_core.capture.source_names import (
    PART_OF_NAME,
    WEB_ADDRESS,
    page_of,
    without_scheme,
)
from ragmetrics_core.data.label_shapes import shape_of_label
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.marks import is_range

NO_MEANING = "the prompt does not tell which context {} means"
SEVERAL = "the prompt shows several texts under {}"
SHOWN_ELSEWHERE = "the prompt shows something under {} that is none of the contexts"
_AMBIGUOUS = "the numbers in the prompt do not tell which of several texts {} means"
_BEHIND_SEVERAL_WORDS = (
    "the prompt shows several texts under the number {}, each behind another word, and"
    " what such words tell is not read"
)
_UNCLEAR = "the prompt shows {}, and does not tell which contexts stand under it"
_OF_EARLIER_TURN = (
    "no context of this turn is known: a mark may mean a text of an earlier turn, which"
    " the model is still shown"
)
UNDIVIDED = "a tool returned one text, which nobody divided into passages"
_NOT_KNOWN = "it is not known what the model was shown"
NOT_RETURNED = (
    "the model's provider names a source whose text it does not return, or that none of"
    " the contexts is called"
)
SEARCHED_UNSEEN = (
    "the answer names a source that the model's provider may have shown to the model,"
    " and the provider does not tell all that it showed"
)
SOURCE_IN_WORDS = (
    "the answer names a source in its own words, which may cite it and may not"
)
NUMBER_OF_A_SOURCE = (
    "the answer has a number that may name a source: it stands so in no passage and not"
    " in the question"
)
MARKS_CHANGED = (
    "the application changed the marks that the model wrote: what they mean now is not"
    " recorded"
)
LONGEST_LABEL = 80
# what can be looked for in a prompt: a word, an id such as "1a2b3c4", a time
_CAN_BE_FOUND = lazy_pattern(r"[^\W\d_]{2}|\w{5}|\d:\d\d")


class UnknownMeaning(Exception):
    """What an answer names has no meaning that can be known; the message is the reason."""


class UnknownByItself(UnknownMeaning):
    """One mark has no meaning that can be known, which says nothing of the other marks.

    An answer names page 99 of a source of page 3: its other marks mean what they mean.
    """


def refuse_if_perhaps_shown(
    name: str, answer: CitingAnswer, labels: Labels, prompts: Sequence[str]
) -> None:
    """Raise unless a name of no context was certainly shown nowhere else either.

    Then the model made the name up, and the citation dangles.

    Args:
        name: What the answer names, without words such as "Source".
        answer: The answer, with its prompts, contexts and labels.
        labels: The labels of the contexts in the prompts.
        prompts: What the model was shown.

    Raises:
        UnknownMeaning: If the name may stand for something that the model was shown.
    """
    if answer.may_provider_have_shown_more:
        raise UnknownMeaning(SEARCHED_UNSEEN)
    if not answer.knows_what_was_shown:
        raise UnknownMeaning(_why_not_known_what_was_shown(answer))
    if name.isdigit():
        _refuse_number_if_perhaps_shown(name, answer, labels, prompts)
    else:
        _refuse_words_if_perhaps_shown(name, prompts)


def _why_not_known_what_was_shown(answer: CitingAnswer) -> str:
    """Say in words why nobody knows what a name means, without all contexts known."""
    evidence = answer.answer_evidence
    if evidence.contexts.evidence_from == "undivided":
        return UNDIVIDED
    shows_earlier_texts = any(call.shown for call in evidence.earlier_calls)
    if shows_earlier_texts and not evidence.contexts.items:
        return _OF_EARLIER_TURN
    return _NOT_KNOWN


def _refuse_words_if_perhaps_shown(label: str, prompts: Sequence[str]) -> None:
    """Raise if a label in words may stand for something in the prompts.

    Raises:
        UnknownMeaning: If a part of the label stands in a prompt, as "report.pdf" of
            "report.pdf, p. 2"; or if the label has no letter, and is no range or time.
    """
    has_letter = any(map(str.isalpha, label))
    has_shape = is_range(label) or shape_of_label(label) is not None  # "3-9", "09:59"
    if not has_letter and not has_shape:
        # "2:0" of 【2:0†source】 counts a provider's own results
        raise UnknownMeaning(NO_MEANING.format(as_mark(label)))
    behind_colon = label.partition(": ")[2]  # "b.pdf" of "1: b.pdf"
    for part in [*PART_OF_NAME.split(label), behind_colon]:
        if _is_part_shown(part, prompts):
            raise UnknownMeaning(NO_MEANING.format("a source that it names"))


def _refuse_number_if_perhaps_shown(
    number: str, answer: CitingAnswer, labels: Labels, prompts: Sequence[str]
) -> None:
    """Raise if a number that labels no context may stand for something in the prompts.

    An answer cites "[7]", and the prompt shows only "[1]" and "[2]": nothing is raised,
    since the model made "[7]" up.

    Raises:
        UnknownMeaning: If several texts stand under the number, if the prompts give
            the contexts no numbers, or if another text than a context, such as a note
            of the application, has this number.
    """
    if number in labels.ambiguous_numbers:
        raise UnknownMeaning(_why_number_is_ambiguous(number, prompts))
    if not labels.numbers:
        _refuse_number_beside_unnumbered_contexts(number, answer, prompts)
    # "[7] Our office opens at nine" beside the contexts "[1]" and "[2]"
    if _is_shown_like_contexts(number, labels, prompts):
        raise UnknownMeaning(SHOWN_ELSEWHERE.format(as_mark(number)))


def _why_number_is_ambiguous(number: str, prompts: Sequence[str]) -> str:
    """Say in words why a number of the prompts may mean any of several contexts.

    Two lines begin with "[7]"; or another context has no number, so that nobody knows
    whether what stands under "[7]" goes on there.
    """
    lines = lines_by_number_in_brackets(prompts).get(number, set())
    reason = SEVERAL if len(lines) > 1 else _AMBIGUOUS
    return reason.format(as_mark(number))


def _refuse_number_beside_unnumbered_contexts(
    number: str, answer: CitingAnswer, prompts: Sequence[str]
) -> None:
    """Raise if a number may mean something where the prompts number no context.

    Nothing is raised if the framework numbered the contexts, as an answer builder does,
    or if there are none.

    Raises:
        UnknownMeaning: If it may be the model's own count of the contexts, or a line of
            the prompts begins with it: "[2] Our office opens at nine".
    """
    if answer.context_texts and not answer.known_labels.framework_numbering:
        raise UnknownMeaning(_why_number_is_unclear(number, prompts))
    if _begins_a_line(number, prompts):
        raise UnknownMeaning(SHOWN_ELSEWHERE.format(as_mark(number)))


def _why_number_is_unclear(number: str, prompts: Sequence[str]) -> str:
    r"""Say in words why a number means no certain context of a prompt.

    "Manuals:\n[1] It is old.\nTickets:\n[1] It fell." shows two texts under 1. Of
    "[1] a.txt\nIt is old.\n\nIt fell." nobody knows where what stands under 1 ends.
    "Document 1: It is old.\nTicket 1: It fell." tells two texts apart by a word.
    """
    mark = as_mark(number)
    lines = lines_by_number_in_brackets(prompts).get(number, set())
    if len(lines) > 1:
        return SEVERAL.format(mark)
    if len(words_before_number(number, prompts)) > 1:
        return _BEHIND_SEVERAL_WORDS.format(number)
    return (_UNCLEAR if lines else NO_MEANING).format(mark)


def as_mark(label: str) -> str:
    """The label as a mark, for a message."""
    return f"[{label[:LONGEST_LABEL]}]"


def _is_part_shown(part: str, prompts: Iterable[str]) -> bool:
    """Whether a part of a name, such as the file of a file and page, stands in a prompt."""
    line = as_one_line(part).lower()
    if WEB_ADDRESS.match(line):  # "http://b.test/" is another form of "https://b.test"
        line = without_scheme(page_of(line))
    if not _CAN_BE_FOUND.search(line):
        return False
    return any(line in as_one_line(prompt).lower() for prompt in prompts)


def _begins_a_line(number: str, prompts: Iterable[str]) -> bool:
    """Whether a line of the prompts begins with a number, such as "[2]", "Source 2" or "2."."""
    shown = "\n".join(prompts)
    return any(number in numbers_in_form(form, shown) for form in FORMS_OF_NUMBERS)


def _is_shown_like_contexts(
    number: str, labels: Labels, prompts: Sequence[str]
) -> bool:
    """Whether a prompt shows something under a number in the form of the contexts' numbers.

    Example: the contexts are "[1]" and "[2]", and the prompt also has "[7] Our office
    opens at nine": True for 7. It may be a passage of the application's own, or an
    example in the instructions: nobody can tell which of these an answer means.
    """
    if not labels.numbers:
        return False
    shown = "\n".join(prompts)
    return any(
        numbers_in_form(form, shown).issuperset([number, *labels.numbers])
        for form in FORMS_OF_NUMBERS
    )
