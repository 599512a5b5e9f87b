# use_llama_index.py - llama-index's model for servers like OpenAI's.
from report import *
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

args = {"model": "qwen", "api_base": V1, "api_key": KEY, "temperature": 0,
        "max_tokens": 60, "context_window": 8192, "max_retries": 0,
        "timeout": 200}
m = OpenAILike(is_chat_model=True, is_function_calling_model=True, **args)
hi = [ChatMessage(role="user", content="Say hi")]


class Person(BaseModel):
    "A person"
    name: str
    age: int


def get_weather(city: str) -> str:
    "Get the weather in a city"
    return "3 C and rain"


works("llama-index chat", lambda: m.chat(hi),
    lambda r: r.message.content is not None)
works("llama-index stream = chat", lambda: "".join(x.delta or "" for x in
    m.stream_chat(hi)) == (m.chat(hi).message.content or ""))
works("llama-index completion", lambda: OpenAILike(is_chat_model=False,
    **args).complete("def f("), lambda r: isinstance(r.text, str))
if REAL:
    works("llama-index structured", lambda: m.as_structured_llm(Person).
        complete("Invent a person named Al").raw,
        lambda p: isinstance(p, Person))
    works("llama-index calls a function", lambda: m.predict_and_call(
        [FunctionTool.from_defaults(get_weather)], user_msg=WEATHER).response,
        lambda s: "3 C and rain" in s)
