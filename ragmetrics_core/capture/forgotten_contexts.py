"""Tells where a prompt surely shows nothing of what was retrieved. Pure.

A template may have lost the place for its contexts: "Answer the question: {question}".
Then none of the documents is found in the prompt. That alone proves little, since they
may stand there in other words. So the prompt must also have no room for other words, and
no word in common with the documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import Calls, began_after
from ragmetrics_core.capture.prompt_contents import PromptContents
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.telling_words import telling_words

_FEWEST_DOCUMENTS = 3  # of fewer documents each word tells something


def is_everything_forgotten(
    turn: Turn, found_answer: FoundAnswer, prompt_contents: PromptContents
) -> bool:
    """Whether a template forgot its contexts, so that the model surely saw none.

    Example: a search found three documents, and the whole prompt of the answering call
    was "Answer the question: When did the bridge open?". False wherever the documents
    may have reached the model in another way, or the recording leaves a doubt.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        prompt_contents: What the prompts of the turn's calls show.
    """
    call = found_answer.writing_call
    if call is None or found_answer.doubts or found_answer.answer.doubts:
        return False
    # the answering call, and the calls whose replies its prompt repeats
    calls_behind_answer = prompt_contents.shown_to(call).calls
    # a prompt with an image or a file may show documents that we cannot read
    if not all(node.is_prompt_text_alone for node in calls_behind_answer):
        return False
    if _may_have_reached_model_otherwise(turn.calls, call, prompt_contents):
        return False
    document_texts: set[str] = set()
    for retrieved_documents in turn.calls.lists():  # what each search returned
        for document in retrieved_documents:
            document_texts.update(document.texts)
    prompt_texts = [
        message.text for node in calls_behind_answer for message in node.prompt
    ]
    # the question, the history and the like: they stand in the prompt anyway
    known_texts = turn.texts_besides_documents
    return has_no_trace_of(sorted(document_texts), prompt_texts, known_texts)


def _may_have_reached_model_otherwise(
    calls: Calls, answering_call: Node, prompt_contents: PromptContents
) -> bool:
    """Whether a model may have seen documents that the answering call's prompt lacks.

    Args:
        calls: The calls of the run.
        answering_call: The call whose prompt shows no document.
        prompt_contents: What the prompts of the calls show.
    """
    # A remark says that something was not recorded, such as a file of a request. Or the
    # model's provider searched. Documents may have been in either.
    if calls.remarks or any(node.by_provider for node in calls.nodes):
        return True
    for search in calls.retrievals:
        # a search that ended after the answering call began is meant for a later call
        is_for_later_call = not began_after(answering_call, search)
        # the text of a tool that searched tells the model what was found
        is_of_tool = any(caller.kind == "tool" for caller in calls.paths[search])
        if is_for_later_call or is_of_tool:
            return True
    # the prompt of the answering call may show the reply of a call that saw documents
    shown_to_calls = map(prompt_contents.shown_to, calls.prompted)
    return any(shown.may_show_documents for shown in shown_to_calls)


def has_no_trace_of(
    document_texts: Sequence[str],
    prompt_texts: Iterable[str],
    known_texts: Iterable[str],
) -> bool:
    """Whether a prompt surely shows no document, not even in other words.

    Example: "Answer briefly. When did the bridge open?" without the question leaves
    "Answer briefly.". This rest is shorter than half of each document, and shares no
    number and no rare long word, such as "Douro", with them.

    Args:
        document_texts: The texts of the documents; False without any.
        prompt_texts: The texts of all messages of the prompt.
        known_texts: Texts that stand there for another reason, such as the question.
    """
    rest = "\n".join(prompt_texts)
    # the longest first: the question may be a part of the history
    for text in sorted(filter(str.strip, known_texts), key=len, reverse=True):
        rest = rest.replace(text.strip(), " ")
    if not document_texts:
        return False
    shortest_document = min(_count_normalized_bytes(text) for text in document_texts)
    if 2 * _count_normalized_bytes(rest) > shortest_document:
        return False  # the rest may be a document in other words
    return _words_of([rest]).isdisjoint(_words_that_tell(document_texts))


def _words_that_tell(document_texts: Sequence[str]) -> set[str]:
    """Return the words of documents, without words that most of them share.

    Example: three documents have "bridge", and one of them has "Douro": only "douro"
    tells that a text comes from a document. Numbers always tell something.
    """
    n_documents_by_word: Counter[str] = Counter()
    for text in document_texts:
        n_documents_by_word.update(_words_of([text]))
    words = set()
    for word, n_documents in n_documents_by_word.items():
        is_common = 2 * n_documents > len(document_texts)
        has_several = len(document_texts) >= _FEWEST_DOCUMENTS
        if word.isdigit() or not (has_several and is_common):
            words.add(word)
    return words


def _words_of(texts: Iterable[str]) -> set[str]:
    """The words of texts that may tell something, in lower case."""
    words: set[str] = set()
    for text in texts:
        words.update(telling_words(text))
    return words


def _count_normalized_bytes(text: str) -> int:
    return sum(map(str.isalnum, text))
