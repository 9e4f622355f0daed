"""A question about a lighthouse, two texts that may be found for it, and the answer: data of the adapters' tests."""

QUESTION = "Who lit the lamp of the lighthouse first?"
FACT = "Anna Berg lit the lamp of the lighthouse for the first time in May 1882."
ROOMS = "The lighthouse has eleven rooms; the keeper slept in the one below the lamp."
ANSWER = "Anna Berg lit it in May 1882."
