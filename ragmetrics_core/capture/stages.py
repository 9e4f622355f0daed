"""Makes the samples of a run, in four stages. Pure.

    Tree ─▶ Turn ─▶ FoundAnswer ─▶ AnswerEvidence ─▶ Ledger and Sample

    Turn             what was asked, and the calls made for it
    FoundAnswer      what was answered, and which call wrote it
    AnswerEvidence   what the answer could rest on: contexts, retrieved documents
    Ledger           the searches and tool calls of this turn and of earlier ones

Each stage is one function that makes a frozen value of those before it; none calls
back.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ragmetrics_core.capture.answer import FoundAnswer, answers
from ragmetrics_core.capture.call_results import CallResults
from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.citing import CitationsFound, cited_by
from ragmetrics_core.capture.context_rules import FROM_ELSEWHERE
from ragmetrics_core.capture.evidence import AnswerEvidence, evidence
from ragmetrics_core.capture.ledger import ledger
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.prompt_contents import PromptContents
from ragmetrics_core.capture.question import Turn, turn_of
from ragmetrics_core.capture.shared_ids import mark_shared_ids
from ragmetrics_core.capture.texts_of_steps import steps_with_shown_texts
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.capture.tree_checks import check_tree
from ragmetrics_core.data import CaptureNotes, Context, Grade, Ledger, Sample

_GRADES_FROM_BEST: tuple[Grade, ...] = ("exact", "located", "inferred", "incomplete")
_NO_OVERRIDES = Overrides()

_TEXTS_NOT_RECORDED = "the text of {} retrieved documents was not recorded"
_SOME_TEXTS_NOT_RECORDED = "the texts of some retrieved documents were not recorded"
_SEARCHES_NOT_ENDED = (
    "searches that had not ended when the run did: {}; what they found is not known"
)
_TEXT_OF_STEP = (
    "the step {} returned a text that the prompt shows beside the retrieved ones; if it"
    " searches, return its texts as documents, or name them by contexts_from"
)
_FAILED = "the run failed: its answer is missing or not whole"
_UNFINISHED = "the run did not end: its answer is missing or not whole"
_UNANSWERED = "no answer was found: the run only retrieved, or gave none"
_WITHOUT_EVIDENCE = (
    "no contexts were found: no search was recorded in this turn that found a text, and"
    " no tool that returned one; if something was found, name its place by"
    " contexts_from="
)
_WRITTEN_BY_A_MODEL = (
    "no contexts were found: a model wrote what tool {} returned, which is no evidence;"
    " if that text is what was found, make it a context by context_tools={{{}}}"
)


def samples_of(tree: Tree, overrides: Overrides = _NO_OVERRIDES) -> list[Sample]:
    """Make the samples of one run: question, contexts, answer, and how they were found.

    Example: a chain is invoked with "When did it open?", its retriever finds "Opened in
    1874.", and its model writes "In 1874.". These become one sample.

    Args:
        tree: The run as a tree of its calls. ``join_trees`` may have made it of several
            runs.
        overrides: The user's settings on where the question, contexts and answer are
            found, or a function that makes the samples; by default nothing is set.

    Returns:
        A sample for each answer. A run that broke off or only retrieved gives one
        sample without an answer. A run without a search and without documents usually
        gives none, such as a single call of a model.
    """
    if overrides.build is not None:  # the user's own function makes the samples
        return list(overrides.build(tree.native_run))
    check_tree(tree)  # raises where an adapter put wrong values into the tree
    mark_shared_ids(tree.root)  # ids that two stores gave to different documents
    turn = turn_of(tree, overrides)  # the question, and the calls made for it
    if turn is None:
        return []
    # which documents each model was shown in its prompt
    prompt_contents = PromptContents(
        turn.calls,
        turn.texts_besides_documents,
        turn.question,
        turn.standalone_question,
    )
    call_results = CallResults(turn.calls)  # what each search or tool returned
    samples = []
    for answer in answers(turn, prompt_contents):
        # what the answer could rest on: its contexts, and what was retrieved
        answer_evidence = evidence(turn, answer, prompt_contents, call_results)
        citations = cited_by(turn, answer, answer_evidence)
        # the evidence of each call, of earlier turns too
        call_table = ledger(turn, answer_evidence, answer.writing_call)
        samples.append(_sample(turn, answer, answer_evidence, citations, call_table))
    return samples


def _sample(
    turn: Turn,
    found_answer: FoundAnswer,
    answer_evidence: AnswerEvidence,
    cited: CitationsFound,
    ledger_of_turn: Ledger,
) -> Sample:
    """Put what the stages found into the sample of one answer.

    Example: the question "When did it open?", the context "Opened in 1874." and the
    answer "In 1874. [1]", with a citation of the first context.

    Args:
        turn: The question, and the run in which it was asked.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: The contexts, and the retrieved documents.
        cited: The citations found in the answer.
        ledger_of_turn: The table of what each call of the turn returned.
    """
    tree = turn.tree
    # None: nobody recorded what was retrieved; (): nothing was found
    retrieved: tuple[Context, ...] | None = None
    if answer_evidence.retrieved is not None:
        retrieved = tuple(document.context() for document in answer_evidence.retrieved)
    sample = Sample(
        # the framework's answer object may carry its question
        question=turn.question or found_answer.answer.question,
        contexts=answer_evidence.contexts.items,
        retrieved=retrieved,
        answer=found_answer.text,
        standalone_question=turn.standalone_question,
        history=tree.history,
        generator=found_answer.model,
        error=turn.error,
        **tree.given_fields,  # what the user's code gave: the sample's id, a reference
        capture=_notes(turn, found_answer, answer_evidence, cited),
        ledger=ledger_of_turn,
    )
    # A sample stores the answer " " as None, and half a character as "�": then the
    # citations were found in another text than the stored one.
    is_stored_otherwise = sample.answer != found_answer.text
    has_citations_of_user = bool(sample.citations)
    if cited.citations is None or is_stored_otherwise or has_citations_of_user:
        return sample
    return sample.model_copy(update={"citations": cited.citations})


def _notes(
    turn: Turn,
    found_answer: FoundAnswer,
    answer_evidence: AnswerEvidence,
    cited: CitationsFound,
) -> CaptureNotes:
    """Note how the sample came about, and how certain it is.

    Example: two things were found out on the way, ("exact", "documents carry a
    distance") and ("inferred", "the retriever's query stands for the question"). The
    sample gets the worse of these grades, "inferred", and both warnings.
    """
    tree = turn.tree
    findings = list(_findings(turn, found_answer, answer_evidence))
    grades = [grade for grade, _ in findings]
    warnings = dict.fromkeys(warning for _, warning in findings)  # each once
    dropped = answer_evidence.passages.dropped_by_retrievers
    worst_grade = max(grades, key=_GRADES_FROM_BEST.index, default="exact")
    return CaptureNotes(
        grade=worst_grade,
        evidence_from=answer_evidence.contexts.evidence_from,
        provenance=_provenance(turn, found_answer, answer_evidence),
        warnings=tuple(warnings),
        # what earlier calls of models wrote, from which the answer was made
        intermediate=_intermediate(turn, answer_evidence),
        # retrieved documents without a text, such as images
        other=tuple(document.context() for document in tree.documents_without_text),
        complete=tree.is_complete and not turn.error,
        # for each retrieved document: kept or dropped, and how much of it was shown
        passages=answer_evidence.passages.notes,
        # {"MergerRetriever": 2}: how many documents that searches inside a retriever found
        # it left out; then these documents, and those of which it returned parts
        dropped_inside=dict(Counter(each.dropped_by for each in dropped)) or None,
        passages_dropped_inside=dropped or None,
        passages_cut_inside=answer_evidence.passages.cut_by_retrievers or None,
        citations_unknown=cited.why_unknown or None,
        unread_texts=tuple(
            dict.fromkeys(_unread_texts(turn, found_answer, answer_evidence))
        ),
    )


def _unread_texts(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> Iterator[str]:
    """Yield in words why the run may have found texts that are not in the sample.

    The words have no numbers, so that samples with the same reason get the same words.
    """
    calls = turn.calls
    # what calls remark tells of texts that a model's provider found or was given
    yield from calls.remarks
    yield from calls.evidence_not_recorded
    n_with_known_ids = len(turn.tree.documents_without_text)
    if calls.n_without_text > n_with_known_ids and not calls.remarks:
        yield _SOME_TEXTS_NOT_RECORDED
    if calls.n_searches_without_end:
        yield _SEARCHES_NOT_ENDED.format("some")
    if answer_evidence.contexts.n_from_elsewhere:
        yield FROM_ELSEWHERE.format("some")
    for name in steps_with_shown_texts(turn, found_answer.writing_call):
        yield _TEXT_OF_STEP.format(name)


def _provenance(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> dict[str, str]:
    """Say in words where each field of the sample was found.

    Example: ``{"question": "query of the first retriever", "retrieved": "my_search"}``.
    Fields that were not found are left out.
    """
    places = {
        "question": turn.found_question.place,
        "retrieved": ", ".join(answer_evidence.sources),
        "answer": found_answer.answer.place,
        "contexts": answer_evidence.contexts.place,
        "conversation": turn.tree.how_conversation_was_found,
        "reranker": ", ".join(turn.calls.reranker_names),
    }
    return {field: place for field, place in places.items() if place}


def _intermediate(turn: Turn, answer_evidence: AnswerEvidence) -> tuple[Context, ...]:
    """Collect the texts of models that are not the answer.

    They are the replies from which the answer was made, and the part of an answer that
    was read before its stream broke off.
    """
    texts = [
        turn.calls.replies[call].text for call in answer_evidence.contributing_calls
    ]
    texts.append(turn.tree.partial_answer or "")
    return tuple(Context(text=text) for text in dict.fromkeys(texts) if text.strip())


def _findings(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> Iterator[tuple[Grade, str]]:
    """Yield what makes a sample less certain, each with the best grade it still allows.

    Example: ("inferred", "the question was not found in the inputs; the retriever's
    query stands for it"). The grades are exact, located, inferred and incomplete.
    """
    tree = turn.tree
    # warnings of the adapter leave a sample exact
    for words in tree.warnings:
        yield "exact", words
    # which runs belong to the turn, or what its question is, was guessed
    for words in (*tree.doubts, *turn.found_question.doubts):
        yield "inferred", words
    # how the contexts were found
    for words in answer_evidence.warnings:
        yield answer_evidence.grade, words
    # which call wrote the answer
    answer_doubts = _answer_doubts(found_answer, answer_evidence)
    for words in answer_doubts:
        yield "inferred", words
    yield from _findings_of_calls(turn.calls)
    reason = _why_answer_is_incomplete(turn, found_answer, answer_doubts)
    if reason is not None:
        yield "incomplete", reason
    if answer_evidence.contexts.evidence_from is None:  # neither search nor tool
        yield "incomplete", _why_without_evidence(answer_evidence)


def _why_without_evidence(answer_evidence: AnswerEvidence) -> str:
    """Say why there are no contexts; the tools whose text a model wrote are named."""
    names = dict.fromkeys(
        entry.result.call.name
        for entry in answer_evidence.ledger_entries
        if entry.result.kind == "written" and entry.result.call.kind == "tool"
    )
    if not names:
        return _WITHOUT_EVIDENCE
    setting = ", ".join(f'"{name}"' for name in names)
    return _WRITTEN_BY_A_MODEL.format(", ".join(names), setting)


def _findings_of_calls(calls: Calls) -> Iterator[tuple[Grade, str]]:
    """Yield what the user should know of a run's calls, such as texts not recorded."""
    if calls.n_without_text:
        yield "incomplete", _TEXTS_NOT_RECORDED.format(calls.n_without_text)
    if calls.n_searches_without_end:
        yield "incomplete", _SEARCHES_NOT_ENDED.format(calls.n_searches_without_end)
    for words in calls.evidence_not_recorded:
        yield "incomplete", words
    for words in calls.remarks:
        yield "inferred", words


def _why_answer_is_incomplete(
    turn: Turn, found_answer: FoundAnswer, answer_doubts: Sequence[str]
) -> str | None:
    """Say why the answer is missing or not whole; None if it is whole.

    A doubt about the answer also says why there is none.
    """
    if turn.error:
        return _FAILED
    if not turn.tree.is_complete:
        return _UNFINISHED
    if found_answer.text is not None:
        return None
    return answer_doubts[0] if answer_doubts else _UNANSWERED


def _answer_doubts(
    found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> tuple[str, ...]:
    """Return what is uncertain about the answer and the call that wrote it.

    Empty where the user named the contexts: these do not depend on the call then.
    """
    if answer_evidence.contexts.evidence_from == "named":
        return ()
    return (*found_answer.answer.doubts, *found_answer.doubts)
