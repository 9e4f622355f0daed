"""Judges that are encoders on this machine.

They are sequence classifiers of Hugging Face, without a key and a network.
"""

from ragmetrics_core.encoders.encoder_judge import EncoderJudge as EncoderJudge
