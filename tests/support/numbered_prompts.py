"""Applications of each framework that number their contexts in the prompt."""

from haystack_pipelines import answered_by_pipeline
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from planted_pipelines import QUESTION, Finds, Found, Nodes, Says

from ragmetrics_core import Sample

ANSWER = "The Velm rises in the hills [1]. The bridge was opened in 1874. [3][9]"


def chain(label: str, answer: str = ANSWER, behind: str = "") -> Sample:
    """langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: sources with their ids in the prompt."""

    def format_docs(documents: list[Document]) -> str:
        return "\n\n".join(
            label.format(number) + one.page_content
            for number, one in enumerate(documents, start=1)
        )

    prompt = ChatPromptTemplate.from_template(
        f"{{context}}{behind}\n\nAsked: {{question}}"
    )
    made = (
        {"context": Found() | format_docs, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[answer])
        | StrOutputParser()
    )
    with capture_langchain() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def citation_query_engine(answer: str = ANSWER) -> Sample:
    """run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb."""
    engine = CitationQueryEngine(retriever=Nodes(), llm=Says(answer=answer))
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def pipeline(label: str, answer: str = ANSWER, behind: str = "") -> Sample:
    """deepset-ai/haystack, docs of AnswerBuilder: documents numbered by the template."""
    template = "{% for d in documents %}" + label + "{{ d.content }}\n{% endfor %}"
    template += behind + "{{ query }}"
    return answered_by_pipeline(Finds((0, 1, 2)), template, answer, QUESTION)
