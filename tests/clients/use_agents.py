# use_agents.py - openai-agents and smolagents.
from report import *
from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel,
    OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled)
from openai import AsyncOpenAI
import smolagents

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)


@function_tool
def get_weather(city: str) -> str:
    "Get the weather in a city"
    return "3 C and rain in " + city


def run(model, choice):
    agent = Agent(name="w", instructions="Use tools.", tools=[get_weather],
        model=model, model_settings=ModelSettings(temperature=0,
        max_tokens=80, tool_choice=choice))
    r = Runner.run_sync(agent, WEATHER, max_turns=6)
    return [type(i).__name__ for i in r.new_items]


# a small model may go on calling until there are no more turns
def loop(r):
    return r[:2] == ["ToolCallItem", "ToolCallOutputItem"]


models = ("chat", OpenAIChatCompletionsModel("qwen", client)), \
    ("responses", OpenAIResponsesModel("qwen", client))
for name, model in models:
    works("openai-agents, " + name, lambda: Runner.run_sync(Agent(name="w",
        model=model, model_settings=ModelSettings(temperature=0,
        max_tokens=20)), "Say hi").final_output is not None)
    if not REAL:
        continue
    for choice in "auto", "required":
        works(f"openai-agents, {name}, tools {choice}: a call and its "
            "result", lambda: run(model, choice), loop)


@smolagents.tool
def weather_in(city: str) -> str:
    """Get the weather in a city.

    Args:
        city: name of the city
    """
    return "3 C and rain in " + city


if REAL:
    m = smolagents.OpenAIServerModel("qwen", api_base=V1, api_key=KEY,
        temperature=0, max_tokens=150)
    works("smolagents: an agent that calls tools", lambda:
        smolagents.ToolCallingAgent(tools=[weather_in], model=m, max_steps=3,
        verbosity_level=0).run(WEATHER), lambda s: "rain" in str(s))
    works("smolagents: an agent that writes code", lambda:
        smolagents.CodeAgent(tools=[], model=m, max_steps=3,
        verbosity_level=0).run("What is 17 * 23?"), lambda s: "391" in str(s))
