# use_pydantic_ai.py - agents of pydantic-ai, with all its output modes.
from report import *
import anthropic, openai
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(openai_client=openai.AsyncOpenAI(base_url=V1,
    api_key=KEY, max_retries=0))
settings = {"temperature": 0, "max_tokens": 200}
m = OpenAIChatModel("qwen", provider=provider)
r = OpenAIResponsesModel("qwen", provider=provider)
a = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(
    anthropic_client=anthropic.AsyncAnthropic(base_url=URL, api_key=KEY)))


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)


def run(model, ask, **more):
    # Anthropic's library has no temperature
    s = settings if model is not a else {"max_tokens": 200}
    return Agent(model, model_settings=s, **more).run_sync(ask)


def is_person(x):
    return isinstance(x.output, Person)


ask = "Invent a person"
works("pydantic-ai run", lambda: run(m, "Say hi"),
    lambda x: isinstance(x.output, str))
works("pydantic-ai output by a tool", lambda: run(m, ask, output_type=Person,
    retries=1), is_person)
works("pydantic-ai native output", lambda: run(m, ask,
    output_type=NativeOutput(Person), retries=1), is_person)
works("pydantic-ai by the responses interface", lambda: run(r, ask,
    output_type=Person, retries=1), is_person)
works("pydantic-ai by Anthropic's interface", lambda: run(a, ask,
    output_type=Person, retries=1), is_person)
if REAL:
    for name, output in ("output by a tool", Person), ("native output",
            NativeOutput(Person)):
        def both():
            asked = []
            agent = Agent(m, model_settings=settings, output_type=output,
                retries=2)

            @agent.tool_plain
            def lookup_age(name: str) -> int:
                "Look up the age of a person by name"
                asked.append(name)
                return 42
            try:
                agent.run_sync("Use lookup_age to find the age of Bob, then "
                    "give the person.", usage_limits=UsageLimits(
                    request_limit=4))
            except UsageLimitExceeded:
                pass    # a small model may go on calling
            return asked
        works("pydantic-ai, a tool beside " + name, both,
            lambda asked: asked[0] == "Bob")
