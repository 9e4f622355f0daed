"""Judges that are encoders on this machine.

They are sequence classifiers of Hugging Face, without a key and a network.
"""

from ragmetrics_core.encoders.judge import EncoderJudge as EncoderJudge
