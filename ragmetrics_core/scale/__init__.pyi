from ragmetrics_core.scale.on_ray import score_dataset as score_dataset
from ragmetrics_core.scale.on_spark import score_frame as score_frame
from ragmetrics_core.scale.scorer import Scorer as Scorer
