"""What the page says of each metric that ships; any other is told by its score."""

from typing import NamedTuple


class Wording(NamedTuple):
    """How a metric is told.

    Attributes:
        asks: Its question.
        explanation: How it is scored.
        gloss: What stands beside the name where that misleads; "" else.
    """

    asks: str
    explanation: str
    gloss: str = ""


WORDINGS = {
    "context_utilization": Wording(
        "Do useful texts come first?",
        "Each retrieved text is judged useful or not to arrive at the answer; the score"
        " is high where the useful ones come first.",
    ),
    "context_adherence": Wording(
        "Does the answer rest on the retrieved text?",
        "Each claim of the answer is held against the retrieved texts: does anything in"
        " them support it?",
    ),
    "context_recall": Wording(
        "Does the answer match the expected answer?",
        "The answer is rated by how much of the reference, the expected answer, it"
        " holds.",
        "scores the answer against the expected answer",
    ),
    "retrieval_accuracy": Wording(
        "Does the retrieved text hold what is needed?",
        "Each fact of the reference is looked for in the retrieved texts; a fact may"
        " weigh more than another.",
    ),
    "context_sufficiency": Wording(
        "Could the question be answered from the text that was shown?",
        "The judge reads the question and the texts that the application showed its"
        " model, and no answer; the score is the probability that they are enough.",
    ),
    "answer_relevance": Wording(
        "Does the answer address the question?",
        "The answer is graded from 0 to 3 by how much of the question it addresses,"
        " whatever is true.",
    ),
    "retrieval_ranking": Wording(
        "Does the search rank the expected passages high?",
        "The ranks of the passages that the data set expects are measured; no judge is"
        " asked.",
    ),
    "citation_quality": Wording(
        "Do the citations of the answer hold?",
        "Each sentence with a claim is held against the texts that it cites. The score"
        " is high where these support it and none of them is needless.",
    ),
}
