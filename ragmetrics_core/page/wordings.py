"""How each metric that ships is scored, in a sentence or two for the page."""

EXPLANATIONS = {
    "context_utilization": (
        "Each retrieved text is judged useful or not to arrive at the answer; the "
        "score is high where the useful ones come first."
    ),
    "context_adherence": (
        "Each claim of the answer is held against the retrieved texts: does "
        "anything in them support it?"
    ),
    "context_recall": (
        "The answer is rated by how much of the reference, the expected answer, "
        "it holds."
    ),
    "retrieval_accuracy": (
        "Each fact of the reference is looked for in the retrieved texts; a fact "
        "may weigh more than another."
    ),
    "context_sufficiency": (
        "The judge reads the question and the texts that the application showed "
        "its model, and no answer; the score is the probability that they are "
        "enough."
    ),
    "answer_relevance": (
        "The answer is graded from 0 to 3 by how much of the question it "
        "addresses, whatever is true."
    ),
    "retrieval_ranking": (
        "The ranks of the passages that the data set expects are measured; no "
        "judge is asked."
    ),
    "citation_quality": (
        "Each sentence with a claim is held against the texts that it cites. The "
        "score is high where these support it and none of them is needless."
    ),
}
