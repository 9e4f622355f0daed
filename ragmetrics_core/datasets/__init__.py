"""Data sets to evaluate retrieval with, built from the user's own documents, and judges scored on them."""

from ragmetrics_core.datasets.continuous import ContinuousSettings as ContinuousSettings
from ragmetrics_core.datasets.continuous import build_continuous as build_continuous
from ragmetrics_core.datasets.discrete import DiscreteSettings as DiscreteSettings
from ragmetrics_core.datasets.discrete import build_discrete as build_discrete
from ragmetrics_core.datasets.discrete import write_pairs as write_pairs
from ragmetrics_core.datasets.documents import Document as Document
from ragmetrics_core.datasets.documents import Pair as Pair
from ragmetrics_core.datasets.documents import chunked as chunked
from ragmetrics_core.datasets.documents import load_documents as load_documents
from ragmetrics_core.datasets.documents import load_pairs as load_pairs
from ragmetrics_core.datasets.making import Maker as Maker
from ragmetrics_core.datasets.reviews import Reviews as Reviews
from ragmetrics_core.datasets.scoring import score_set as score_set
from ragmetrics_core.datasets.scoring import score_table as score_table
from ragmetrics_core.datasets.sets import read_set as read_set
from ragmetrics_core.datasets.sets import write_set as write_set
