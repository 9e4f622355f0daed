"""x"""

from langchain_ragmetrics.captures import capture as capture
from langchain_ragmetrics.capturing.samples import samples_from as samples_from
