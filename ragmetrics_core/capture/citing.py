"""What a captured answer cites: the last part of stage 3. Pure.

Three things say so, and the first that says anything decides: the model's provider, the
marks in the answer (without marks: the framework), and the sources that a structured
reply names. Marks and sources of one structured reply must say the same. A mark or a
number means what the prompt showed under it. If that cannot be known, the citations are
unknown, with a reason.

The prompt shows "[1] It is old. [2] It fell." The answer "It fell [2]." then cites the
context with the index 1. "It fell [3]." **dangles**: it names a source that was shown
to nobody. Had the prompt shown no numbers, the citations would be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragmetrics_core.capture.addresses_of_tools import (
    names_a_part_of_undivided_text,
    refuse_unclear_addresses,
)
from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.labels_to_cite import each_context_has_label_to_cite
from ragmetrics_core.capture.marked_citations import by_a_closing_line, by_marks
from ragmetrics_core.capture.model_words import has_lost_its_marks
from ragmetrics_core.capture.names_in_words import names_a_source
from ragmetrics_core.capture.numbers_of_sources import has_number_of_a_source
from ragmetrics_core.capture.provided_citations import by_the_provider
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.structured_citations import (
    by_a_structured_reply,
    by_marks_and_a_field,
)
from ragmetrics_core.capture.structured_sources import (
    has_unread_lists,
    may_be_a_source,
)
from ragmetrics_core.capture.unknown_meanings import (
    MARKS_CHANGED,
    NUMBER_OF_A_SOURCE,
    SOURCE_IN_WORDS,
    UNDIVIDED,
    UnknownMeaning,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import UNREAD_FORM
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.marks import marks_in, may_cite

_CITED_UNSEEN = (
    "the request lets the model's provider cite documents, and the recorded reply has no"
    " citation: the model made none, or the framework dropped them"
)
_UNREAD_FIELDS = "the structured answer has lists that may name sources"
_CUT_OFF = (
    "the model wrote more than the answer, and what the application cut off may name"
    " sources"
)
_MAY_BE_A_SOURCE = "the structured answer has fields such as a page or a file, which may name its source"
# numbers behind words of any language, at the end or in brackets: "Источники: 1, 2",
# "(источник 1)"; not behind a number, as in "at 22:40"
_NUMBERS_BEHIND_WORDS = lazy_pattern(
    r"(?<!\d)[:：][ \t]*\d{1,3}(?:[ \t]*[,;、，،][ \t]*\d{1,3})*[.。]?\s*\Z"
    r"|[(（][^\W\d_]{2,24}[ \t]+\d{1,3}[)）]"
)

# The rules. Each returns
# - the citations that it found,
# - () where the answer says that it cites nothing, as by an empty list of sources,
# - None where the rule does not apply.
# It raises UnknownMeaning where the answer names something whose meaning is not known.
_RULES = (
    by_the_provider,
    refuse_unclear_addresses,
    by_marks_and_a_field,
    by_marks,
    by_a_structured_reply,
    by_a_closing_line,
)
# Where one of these rules cannot tell, no later rule is asked. A source of the provider
# is none of the prompt's, and no mark tells what it is. Where the marks of an answer
# contradict its field, a later rule would believe one of the two alone. An address that
# may mean two texts is no clearer to the rules that follow, either.
_RULES_WHOSE_DOUBT_IS_FINAL = (
    by_the_provider,
    refuse_unclear_addresses,
    by_marks_and_a_field,
)


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """What is known of the citations of one answer.

    Args:
        citations: What it cites; () if it cites nothing; None if that is not known.
        why_unknown: Why it is not known, in words; "" if it is, or if nothing more can
            be said than that no prompt numbered the contexts.
    """

    citations: tuple[Citation, ...] | None = None
    why_unknown: str = ""


def cited_by(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> CitationsFound:
    """Find out which contexts an answer cites, by the first rule that finds citations.

    The prompt shows "[1] It is old. [2] It fell.": the answer "It fell [2]." cites the
    second context. There are three outcomes:

    - ``citations`` holds citations: a rule found them.
    - ``citations`` is (): the answer cites nothing, as by an empty list of sources, and
      names no source in words.
    - ``citations`` is None: nobody knows, as of a mark "[3]" of unknown meaning.
      ``why_unknown`` is the first reason that a rule gave.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """
    if found_answer.text is None:
        return CitationsFound(citations=None)
    answer = CitingAnswer(turn, found_answer, answer_evidence)
    first_reason = ""
    for rule in _RULES:
        try:
            # None where the rule does not apply; () where the answer cites nothing
            citations = rule(answer)
        except UnknownMeaning as reason:
            first_reason = first_reason or str(reason)
            if rule in _RULES_WHOSE_DOUBT_IS_FINAL:
                break  # the later rules know less
            continue  # a later rule may still tell
        if citations:
            return CitationsFound(citations)
        is_said_to_cite_nothing = citations is not None
        # after a mark of unknown meaning an empty list of sources is not believed
        if is_said_to_cite_nothing and not first_reason:
            return _citing_nothing(answer)
    if first_reason:
        return CitationsFound(None, first_reason)
    return _where_no_rule_applies(answer)


def _where_no_rule_applies(answer: CitingAnswer) -> CitationsFound:
    """Say what an answer cites of which no rule can tell anything.

    It cites nothing if nothing in it may be a citation, and the prompt gives each context
    a label to be cited by, such as "[1]". Otherwise it is not known. LangChain drops what
    Amazon Bedrock cites for a reply that is one block.
    """
    why_unknown = _why_it_may_still_cite(answer)
    if why_unknown is not None:
        return CitationsFound(None, why_unknown)
    writing_call = answer.found_answer.writing_call
    if writing_call is not None and writing_call.lets_provider_cite:
        return CitationsFound(None, _CITED_UNSEEN)
    if each_context_has_label_to_cite(
        answer.labels, answer.prompts, answer.context_texts
    ):
        return _citing_nothing(answer)
    may_name_numbers = _NUMBERS_BEHIND_WORDS.search(answer.text) is not None
    return CitationsFound(None, UNREAD_FORM if may_name_numbers else "")


def _why_it_may_still_cite(answer: CitingAnswer) -> str | None:
    """Say why an answer may cite in a way that no rule reads; None if it does not.

    "" if it has marks such as "[1]", and no prompt tells what they mean.
    """
    if has_lost_its_marks(answer.text, answer.reply):
        return MARKS_CHANGED
    if may_cite(answer.text):
        if marks_in(answer.text):
            return ""
        return UNDIVIDED if names_a_part_of_undivided_text(answer) else UNREAD_FORM
    fields = () if answer.reply is None else answer.reply.values
    if any(map(has_unread_lists, fields)):
        return _UNREAD_FIELDS
    if any(map(may_be_a_source, fields)):
        return _MAY_BE_A_SOURCE
    return None


def _citing_nothing(answer: CitingAnswer) -> CitationsFound:
    """Say that an answer cites nothing, if nothing that the model wrote may name a source.

    The application may have cut off "Document IDs: 2", which the model wrote below it.
    """
    why_unknown = _why_words_may_cite(answer)
    if not why_unknown and answer.text_cut_off:
        part_cut_off = answer.with_text(answer.text_cut_off)
        if may_cite(part_cut_off.text) or _why_words_may_cite(part_cut_off):
            why_unknown = _CUT_OFF
    if why_unknown:
        return CitationsFound(None, why_unknown)
    return CitationsFound(citations=())


def _why_words_may_cite(answer: CitingAnswer) -> str:
    """Say why words or numbers of a text may name a source; "" if none may.

    Whatever a prompt shows beside a passage may name it. So all of that which the text
    says must also stand in a passage, or in the question: then the text speaks of it.
    """
    is_source_named = names_a_source(
        answer.text,
        answer.known_labels.context_indexes_by_shown_name,
        question_and_passages=answer.question_and_passages,
    )
    if is_source_named:
        return SOURCE_IN_WORDS
    if has_number_of_a_source(
        answer.text, [answer.question_and_passages], answer.prompts
    ):
        return NUMBER_OF_A_SOURCE
    return ""
