# sdk_ollama.py - the Python client of Ollama against a server: prints lines
# "STATUS NAME", 0 for results as documented.  usage: sdk_ollama.py URL
import sys
import typing

import ollama
import pydantic

client = ollama.Client(host=sys.argv[1], timeout=100)
NAME = "demo.gguf"
HELLO = [{"role": "user", "content": "Hello"}]


def ok(what, name):
    print(0 if what else 1, name)


def tries(f):
    try:
        f()
    except Exception as e:
        print("#", f.__name__, repr(e)[:300], file=sys.stderr)
        ok(False, f.__name__ + " ends well")


def models():
    listed = client.list().models
    ok(listed[0].model == NAME + ":latest" and listed[0].size > 0 and
        listed[0].modified_at.year > 2000 and
        listed[0].details.quantization_level == "Q4_K_M", "list")
    shown = client.show(NAME)
    ok(shown.modelinfo["general.architecture"] == shown.details.family and
        "thinking" in shown.capabilities, "show")
    ok(client.ps().models[0].context_length == 4096, "ps")
    ok(client.pull(NAME).status == "success", "pull of what is there")
    ok([p.status for p in client.pull(NAME, stream=True)][-1] == "success",
        "as a stream")


def chat():
    opts = {"num_predict": 12, "temperature": 0.8, "seed": 3}
    one = client.chat(NAME, HELLO, think=False, options=opts)
    ok(one.message.content and one.done_reason == "length" and
        one.eval_count == 12 and one.total_duration > one.eval_duration > 0,
        "chat")
    parts = list(client.chat(NAME, HELLO, think=False, options=opts,
        stream=True))
    ok("".join(p.message.content for p in parts) == one.message.content and
        [p.done for p in parts] == [False] * (len(parts) - 1) + [True] and
        parts[-1].prompt_eval_count == one.prompt_eval_count, "its stream")
    thought = client.chat(NAME, HELLO, think=True, options=opts)
    ok(thought.message.thinking and not thought.message.content, "thoughts")
    likely = client.chat(NAME, HELLO, think=False, options=opts,
        logprobs=True, top_logprobs=2)
    ok(len(likely.logprobs) == 12 and
        len(likely.logprobs[0].top_logprobs) == 2 and
        "".join(t.token for t in likely.logprobs) == likely.message.content,
        "probabilities")


class Light(pydantic.BaseModel):
    on: bool
    colour: typing.Literal["red", "green"]


def formats():
    got = client.chat(NAME, HELLO, think=False,
        format=Light.model_json_schema(), options={"num_predict": 60})
    ok(Light.model_validate_json(got.message.content), "a schema")
    got = client.generate(NAME, "Hello", think=False, format=
        Light.model_json_schema(), options={"num_predict": 60})
    ok(Light.model_validate_json(got.response), "a schema of a prompt")


def look(at: str) -> str:
    """Look at something.

    Args:
        at: what
    """
    return at


def tools():
    got = client.chat(NAME, HELLO, tools=[look], think=False,
        options={"num_predict": 8})
    ok(got.done and got.prompt_eval_count > 50, "a function as a tool")
    turns = HELLO + [
        {"role": "assistant", "content": "", "tool_calls": [{"function":
            {"name": "look", "arguments": {"at": "sky"}}}]},
        {"role": "tool", "tool_name": "look", "content": "blue"}]
    got = client.chat(NAME, turns, tools=[look], think=False,
        options={"num_predict": 8})
    ok(got.message.content, "what it gave")


def generate():
    opts = {"num_predict": 9}
    one = client.generate(NAME, "Hello", think=False, options=opts)
    ok(one.response and len(one.context) == one.prompt_eval_count +
        one.eval_count, "generate")
    two = client.generate(NAME, "More", think=False, options=opts,
        context=one.context)
    ok(two.prompt_eval_count > len(one.context), "from its context")
    raw = client.generate(NAME, "In the beginning", raw=True, options=opts)
    ok(raw.response.startswith(" God created") and raw.context is None, "raw")
    parts = list(client.generate(NAME, "In the beginning", raw=True,
        options=opts, stream=True))
    ok("".join(p.response for p in parts) == raw.response, "its stream")
    ok(client.generate(NAME).done_reason == "load", "a load")
    ok(client.generate(NAME, keep_alive=0).done_reason == "unload",
        "an unload")


def embed():
    two = client.embed(NAME, ["light", "darkness"])
    one = client.embed(NAME, "light", dimensions=9)
    ok(len(two.embeddings) == 2 and len(one.embeddings[0]) == 9 and
        two.prompt_eval_count > 0, "embed")
    ok(list(client.embeddings(NAME, "light").embedding) ==
        list(two.embeddings[0]), "embeddings")


def refused(f, status, name):
    try:
        f()
    except ollama.ResponseError as e:
        ok(e.status_code == status and len(e.error) > 9 and
            not e.error.startswith("{"), name)
    else:
        ok(False, name)


def errors():
    refused(lambda: client.pull("llama3"), 404, "pull of another model")
    refused(lambda: client.delete(NAME), 501, "delete")
    refused(lambda: client.copy(NAME, "x"), 501, "copy")
    refused(lambda: client.create("x", from_=NAME), 501, "create")
    refused(lambda: client.push(NAME), 501, "push")
    refused(lambda: client.chat(NAME, HELLO, options={"top_p": 7}), 400,
        "an option out of range")
    refused(lambda: list(client.chat(NAME, HELLO, options={"top_p": 7},
        stream=True)), 400, "of a stream")
    refused(lambda: client.chat(NAME, [{"role": "user", "content": "x",
        "images": ["aGk="]}]), 400, "a picture")
    refused(lambda: client.generate(NAME, "x", template="{{.Prompt}}"), 400,
        "a template")


for test in models, chat, formats, tools, generate, embed, errors:
    tries(test)
