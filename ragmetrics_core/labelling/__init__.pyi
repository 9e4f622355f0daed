from ragmetrics_core.labelling.building import (
    ContinuousSettings as ContinuousSettings,
)
from ragmetrics_core.labelling.building import DiscreteSettings as DiscreteSettings
from ragmetrics_core.labelling.building import Maker as Maker
from ragmetrics_core.labelling.building import build_continuous as build_continuous
from ragmetrics_core.labelling.building import build_discrete as build_discrete
from ragmetrics_core.labelling.building import write_pairs as write_pairs
from ragmetrics_core.labelling.documents import Document as Document
from ragmetrics_core.labelling.documents import Pair as Pair
from ragmetrics_core.labelling.documents import chunk_document as chunk_document
from ragmetrics_core.labelling.documents import load_documents as load_documents
from ragmetrics_core.labelling.documents import load_pairs as load_pairs
from ragmetrics_core.labelling.judge_scores import score_set as score_set
from ragmetrics_core.labelling.judge_scores import score_table as score_table
from ragmetrics_core.labelling.reviews import Reviews as Reviews
from ragmetrics_core.labelling.sets import read_set as read_set
from ragmetrics_core.labelling.sets import write_set as write_set
