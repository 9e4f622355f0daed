"""How many values of a long sequence stood in it before."""

from collections.abc import Sequence

_PARTS = 16


def n_repeats(numbers: Sequence[int]) -> int:
    """How many numbers stood in the sequence before.

    They are counted part by part, so that no set of all of them takes memory.
    """
    n_different = 0
    for part in range(_PARTS):
        different = {number for number in numbers if number % _PARTS == part}
        n_different += len(different)
    return len(numbers) - n_different
