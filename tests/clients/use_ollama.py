# use_ollama.py - the client of Ollama.
from report import *
import ollama
from pydantic import BaseModel, Field

c = ollama.Client(host=URL, headers={"Authorization": "Bearer " + KEY},
    timeout=120)
name = c.list().models[0].model
few = {"temperature": 0, "num_predict": 12}


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)


def get_weather(city: str) -> str:
    """Get the weather in a city

    Args:
        city: name of the city
    """
    return "3 C and rain in " + city


works("ollama list", lambda: c.list().models, lambda l: len(l) == 1 and
    l[0].size > 0 and l[0].details.family)
works("ollama show", lambda: c.show(name), lambda s: s.modelinfo[
    "general.architecture"] and "completion" in s.capabilities)
works("ollama ps", lambda: c.ps().models, lambda l: l[0].model == name)
chat = works("ollama chat", lambda: c.chat(model=name, messages=HI,
    options=few), lambda r: r.done and r.eval_count <= 12 and
    r.prompt_eval_count > 0 and r.done_reason in ("stop", "length"))
works("ollama chat, a stream", lambda: list(c.chat(model=name, stream=True,
    messages=HI, options=few)), lambda l: l[-1].done and not l[0].done and
    "".join(x.message.content or "" for x in l) == chat.message.content)
one = works("ollama generate", lambda: c.generate(model=name,
    prompt="In the beginning", options=few), lambda r: r.done and r.response)
works("ollama generate, a stream", lambda: list(c.generate(model=name,
    prompt="In the beginning", options=few, stream=True)), lambda l:
    l[-1].done and "".join(x.response for x in l) == one.response)
works("ollama generate: its context continues a text", lambda: c.generate(
    model=name, prompt="and", context=one.context, options=few),
    lambda r: r.prompt_eval_count >= 0 and r.done)
works("ollama embed", lambda: c.embed(model=name, input=["hi", "there"]),
    lambda r: len(r.embeddings) == 2)
works("ollama, a schema", lambda: c.chat(model=name, messages=HI,
    format=Person.model_json_schema(), options={"temperature": 0,
    "num_predict": 200}), lambda r: Person.model_validate_json(
    r.message.content))
refused("ollama: pull is refused in its own form", lambda: c.pull("x"),
    ollama.ResponseError)
if REAL:
    works("ollama tools", lambda: c.chat(model=name, messages=[{"role":
        "user", "content": WEATHER}], tools=[get_weather], options={
        "temperature": 0, "num_predict": 80}), lambda r: r.message.tool_calls
        [0].function.name == "get_weather" and "Oslo" in r.message.tool_calls
        [0].function.arguments["city"])
