# use_outlines.py - outlines with the field names of OpenAI and vLLM for constrained
# answers.
from report import *
import json, openai, outlines
from pydantic import BaseModel, Field


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)


client = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
m = outlines.from_openai(client, "qwen")
works("outlines plain", lambda: m("Say hi", max_tokens=12, temperature=0),
    lambda s: isinstance(s, str))
works("outlines, a pydantic model", lambda: m("Invent a person", Person,
    max_tokens=200, temperature=0), Person.model_validate_json)
v = outlines.from_vllm(client, "qwen")
works("outlines by vLLM's names: a regular expression", lambda: v("zip code?",
    outlines.types.Regex("[0-9]{5}"), max_tokens=20),
    lambda s: len(s) == 5 and s.isdigit())
works("outlines by vLLM's names: a schema", lambda: v("Invent a person",
    Person, max_tokens=200), Person.model_validate_json)
