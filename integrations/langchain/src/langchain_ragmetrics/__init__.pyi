from langchain_ragmetrics.callback import RagMetricsCallback as RagMetricsCallback
from langchain_ragmetrics.capturing import capture as capture
from langchain_ragmetrics.capturing import samples_from as samples_from
from langchain_ragmetrics.capturing import watch as watch
from langchain_ragmetrics.evaluator import (
    RagMetricsRunEvaluator as RagMetricsRunEvaluator,
)
from langchain_ragmetrics.model import LangChainModel as LangChainModel
from langchain_ragmetrics.recording.patches import add_documents as add_documents
from langchain_ragmetrics.recording.patches import observe as observe
