"""`capture` and `watch`: what runs in a block or in the process, with nothing passed to any chain.

Keys and paths lead into the inputs or outputs of the root; ``metadata={"ragmetrics": {"reference": …}}`` in the config
of a call says the same things for that call.
"""

from langchain_core.tracers.schemas import Run

from langchain_ragmetrics.capturing.trees import Finding, assembler
from langchain_ragmetrics.judges import as_judge
from langchain_ragmetrics.process import LISTENERS
from ragmetrics_core.capturing import FrontDoor

_DOOR = FrontDoor[Run](
    LISTENERS,
    lambda where, listener: assembler(Finding(**vars(where)), listener.problems),
    as_judge,
    places=Finding,
    unseen="nothing of LangChain or LangGraph ran in it; make the calls inside the block",
    sampleless="LangChain's runs were seen, but none of them retrieved anything; say where things are by "
    "question_from=, contexts_from= and answer_from=, or by build=",
)
capture = _DOOR.capture
watch = _DOOR.watch
