"""How each metric that ships is scored, for the page: in a sentence, and as a formula."""

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

# They hold whichever kind of judge answers: one that is polled, one that gives a
# probability, or one that compares words.
FORMULAS = {
    "context_utilization": (
        "Average precision: sum of P@k over the ranks k of useful texts / number of"
        " useful texts. With probabilities: its expectation."
    ),
    "context_adherence": (
        "Polls that say yes / polls that say yes or no. Of a judge that is asked once:"
        " the score that it gives."
    ),
    "context_recall": "The judge's rating; of several references the best.",
    "retrieval_accuracy": (
        "Covered facts / facts, by weight; a fact is covered if its score in one text is"
        " above 0.5. Where the embedded judge split the reference: the mean of each"
        " fact's best score."
    ),
    "context_sufficiency": "The judge's score that nothing is missing.",
    "answer_relevance": "Grade / 3.",
    "retrieval_ranking": (
        "The measure of the settings: nDCG, hit rate, recall, precision or reciprocal"
        " rank, with gains of 0 and 1."
    ),
    "citation_quality": (
        "2PR / (P + R); R = supported sentences / sentences with a claim, P = precise"
        " citations / citations."
    ),
}
