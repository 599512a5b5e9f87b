# use_langchain.py - langchain's models of OpenAI, Anthropic and Ollama, and an
# agent of langgraph.
from report import *
from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

args = {"model": "qwen", "base_url": V1, "api_key": KEY, "temperature": 0,
        "max_tokens": 60, "max_retries": 0}
m = ChatOpenAI(**args)


class Person(BaseModel):
    "A person"
    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    "Get the weather in a city"
    return "3 C and rain in " + city


def is_person(p):
    return isinstance(p, Person)


def calls(r):
    return [c["name"] for c in r.tool_calls] == ["get_weather"] and \
        isinstance(r.tool_calls[0]["args"].get("city"), str)


works("langchain invoke", lambda: m.invoke("Say hi"),
    lambda r: isinstance(r.content, str))
works("langchain stream", lambda: "".join(c.content for c in
    m.stream("Say hi")) == m.invoke("Say hi").content)
works("langchain usage of a stream", lambda: [c.usage_metadata for c in
    m.stream("Say hi", stream_usage=True) if c.usage_metadata],
    lambda l: len(l) == 1)
works("langchain batch of 4", lambda: m.batch(["a", "b", "c", "d"]),
    lambda l: len(l) == 4)
short = ChatOpenAI(**{**args, "max_tokens": 300})
ask = "Invent a person with a short name. JSON with name and age."
if REAL:
    for method in "json_schema", "function_calling", "json_mode":
        works("langchain structured output, " + method, lambda: short.
            with_structured_output(Person, method=method).invoke(ask),
            is_person)
for name, choice in ("any", "any"), ("a named tool", "get_weather"):
    if REAL:
        works("langchain tools, " + name, lambda: m.bind_tools([get_weather],
            tool_choice=choice).invoke(WEATHER), calls)
if REAL:
    works("langchain tools, auto", lambda: m.bind_tools([get_weather]).invoke(
        WEATHER), calls)

    def agent():
        from langgraph.prebuilt import create_react_agent
        r = create_react_agent(m, [get_weather]).invoke(
            {"messages": [("user", WEATHER)]}, {"recursion_limit": 8})
        return [type(x).__name__ for x in r["messages"]]
    # what a small model says in the end is its own matter
    works("langgraph agent: a call, its result, and it ends", agent,
        lambda r: r[:3] == ["HumanMessage", "AIMessage", "ToolMessage"]
        and r[-1] == "AIMessage")
works("langchain logprobs", lambda: m.bind(logprobs=True).invoke("Say hi").
    response_metadata["logprobs"]["content"],
    lambda l: isinstance(l, list))
works("langchain by the responses interface", lambda: ChatOpenAI(**args,
    use_responses_api=True).invoke("Say hi"), lambda r: r.content is not None)
works("langchain completions", lambda: OpenAI(**args).invoke("def f("),
    lambda s: isinstance(s, str))
works("langchain embeddings", lambda: OpenAIEmbeddings(model="qwen",
    base_url=V1, api_key=KEY, check_embedding_ctx_length=False).
    embed_documents(["hi", "there"]), lambda v: len(v) == 2)
refused("langchain: a context overflow is known as one",
    lambda: m.invoke(LONG), ContextOverflowError)
a = ChatAnthropic(model="claude-sonnet-4-5", base_url=URL, api_key=KEY,
    temperature=0, max_tokens=60, max_retries=0)
works("langchain-anthropic invoke", lambda: a.invoke("Say hi"),
    lambda r: r.content is not None)
works("langchain-anthropic stream", lambda: list(a.stream("Say hi")))
refused("langchain-anthropic: a context overflow is known as one",
    lambda: a.invoke(LONG), ContextOverflowError)
if REAL:
    works("langchain-anthropic tools, any", lambda: a.bind_tools([get_weather],
        tool_choice="any").invoke(WEATHER), calls)
    works("langchain-anthropic structured", lambda: a.with_structured_output(
        Person).invoke(ask), is_person)
o = ChatOllama(model="qwen", base_url=URL, temperature=0, num_predict=20,
    client_kwargs={"headers": {"Authorization": "Bearer " + KEY}})
works("langchain-ollama invoke", lambda: o.invoke("Say hi"),
    lambda r: r.usage_metadata["output_tokens"] > 0)
works("langchain-ollama stream", lambda: list(o.stream("Say hi")),
    lambda l: len(l) > 1)
