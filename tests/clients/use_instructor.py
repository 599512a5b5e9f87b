# use_instructor.py - every mode of instructor that uses the APIs of OpenAI and
# Anthropic.
from report import *
import anthropic, instructor, openai
from pydantic import BaseModel, Field
from typing import Literal, Optional

BOB = [{"role": "user", "content": "Bob is a 5 year old dog."}]


class Pet(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)
    kind: Literal["cat", "dog", "human"]
    nick: Optional[Literal["Bobby"]] = None


def is_pet(p):
    return isinstance(p, Pet) and (not REAL or (p.age, p.kind) == (5, "dog"))


c = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
modes = ["TOOLS", "JSON_SCHEMA", "TOOLS_STRICT", "RESPONSES_TOOLS"]
if REAL:
    modes += ["JSON", "MD_JSON"]	# these rely on what the model writes
for mode in modes:
    client = instructor.from_openai(c, mode=getattr(instructor.Mode, mode))
    n = "max_output_tokens" if "RESPONSES" in mode else "max_tokens"
    works("instructor " + mode, lambda: client.chat.completions.create(
        model="qwen", response_model=Pet, max_retries=1, temperature=0,
        messages=BOB, **{n: 400}, **({"parallel_tool_calls": False}
        if "TOOLS" in mode else {})), is_pet)
client = instructor.from_openai(c, mode=instructor.Mode.JSON_SCHEMA)
works("instructor, a partial stream", lambda: list(
    client.chat.completions.create_partial(model="qwen", response_model=Pet,
    temperature=0, max_tokens=400, messages=BOB))[-1],
    lambda p: p.kind in ("cat", "dog", "human"))
a = instructor.from_anthropic(anthropic.Anthropic(base_url=URL, api_key=KEY,
    max_retries=0))
works("instructor by Anthropic's interface", lambda: a.messages.create(
    model="claude-sonnet-4-5", response_model=Pet, max_tokens=400,
    messages=BOB), is_pet)
