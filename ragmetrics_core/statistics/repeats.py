"""How many values of a long sequence stood in it before."""

from collections.abc import Sequence

_PARTS = 16


def n_repeats(numbers: Sequence[int]) -> int:
    """Count the numbers of a sequence that repeat an earlier one.

    The sequence is counted part by part, so that no set of all numbers takes memory.
    """
    n_different = 0
    for part in range(_PARTS):
        different = {number for number in numbers if number % _PARTS == part}
        n_different += len(different)
    return len(numbers) - n_different
