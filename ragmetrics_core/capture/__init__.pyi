from ragmetrics_core.capture.background import (
    BackgroundEvaluator as BackgroundEvaluator,
)
from ragmetrics_core.capture.background import WatchSettings as WatchSettings
from ragmetrics_core.capture.captured import Captured as Captured
from ragmetrics_core.capture.front_door import FrontDoor as FrontDoor
from ragmetrics_core.capture.hooks import Listener as Listener
from ragmetrics_core.capture.hooks import Listeners as Listeners
from ragmetrics_core.capture.hooks import guard_hook as guard_hook
from ragmetrics_core.capture.sinks import JsonlSink as JsonlSink
from ragmetrics_core.capture.stages import samples_of as samples_of
from ragmetrics_core.capture.tree import Answer as Answer
from ragmetrics_core.capture.tree import Document as Document
from ragmetrics_core.capture.tree import Message as Message
from ragmetrics_core.capture.tree import Node as Node
from ragmetrics_core.capture.tree import ToolCall as ToolCall
from ragmetrics_core.capture.tree import Tree as Tree
