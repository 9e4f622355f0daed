"""The column names in use for each field of a sample."""

from __future__ import annotations

_OUTPUTS = ("outputs", "output", "response", "result", "prediction")
_LISTS = ("contexts", "retrieved_contexts", "context", "documents", "source_documents", "source_nodes")

# Per field of the sample, the column names in use; the first that the row has, wins. Compared without case,
# spaces, hyphens and underscores. A name with a dot is a column's name, or a path into a column. Where a column
# holds an object, the same names are looked for in it.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "question": (
        *("question", "query", "user_input", "user_query", "user_question", "questions", "input", "inputs"),
        *("attributes.input.value", "input.question", "input.query", "input.input", "prompt", "instruction"),
        *("inputs.question", "inputs.query", "inputs.input"),
    ),
    # In DeepEval, `context` is the ideal one and `retrieval_context` what was retrieved.
    "contexts": (
        *("contexts", "retrieved_contexts", "retrieval_context", "retrieved_context", "context", "context_texts"),
        *("source_documents", "source_nodes", "documents", "docs", "chunks", "passages"),
        *(f"{outer}.{inner}" for outer in (*_OUTPUTS, "inputs", "input") for inner in _LISTS),
        *("attributes.retrieval.documents", "retrieved_documents", "retrieved_docs", "retrieved_nodes"),
        *("retrieved_chunks", "retrieved_passages", "document", "passage", "chunk"),
    ),
    "answer": (
        *("answer", "response", "output", "actual_output", "prediction", "predicted_answer", "generated_answer"),
        *("model_answer", "completion", "generation", "generated_text", "result", "outputs", "attributes.output.value"),
        *("outputs.answer", "outputs.output", "answers", "responses", "predicted_answers", "replies"),
    ),
    "reference": (
        *("reference", "references", "ground_truth", "ground_truths", "ground_truth_answer", "ground_truth_answers"),
        *("expected_output", "expected_answer", "expected_response", "expected", "reference_answer"),
        *("reference_answers", "reference_output", "reference_outputs", "golden_answer", "gold_answer", "gt_answer"),
        *("golden_response", "correct_answer", "ideal", "target", "reference.answer", "reference.output"),
        *("reference_outputs.answer", "reference_outputs.output", "expectations.expected_response"),
        "answers.text",
    ),
    "retrieved": ("retrieved", "retrieved_documents", "retrieved_nodes"),
    "facts": ("facts", "reference_facts", "expectations.expected_facts"),
    "standalone_question": ("standalone_question", "rewritten_question", "rewritten_query"),
    "history": ("history", "chat_history", "conversation"),
    "generator": ("generator", "answer_model", "generator_model"),
    "error": ("error",),
    "id": ("id", "sample_id", "question_id", "query_id", "example_id", "record_id"),
    "metadata": ("metadata",),
}


def plain_name(name: str) -> str:
    """A name without case, spaces, hyphens and underscores.

    Example:
        >>> plain_name("Retrieved contexts"), plain_name("retrievedContexts")
        ('retrievedcontexts', 'retrievedcontexts')
    """
    return "".join(character for character in name.casefold() if character not in "_- ")
