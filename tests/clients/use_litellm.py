# use_litellm.py - litellm with the prefixes that users choose for their own server,
# and its class of error for a prompt that is too long.
from report import *
import litellm

litellm.suppress_debug_info = True


def args(model, base=V1, **more):
    return {"model": model, "api_base": base, "api_key": KEY, "temperature": 0,
            "max_tokens": 16, "num_retries": 0, **more}


def text(r):
    return r.choices[0].message.content is not None


for model, base in (("openai/qwen", V1), ("hosted_vllm/qwen", V1),
                    ("lm_studio/qwen", V1), ("llamafile/qwen", V1),
                    ("anthropic/claude-sonnet-4-5", URL),
                    ("ollama_chat/qwen", URL)):
    works("litellm " + model, lambda: litellm.completion(
        messages=HI, **args(model, base)), text)
    works("litellm " + model + ", a stream", lambda: [c for c in
        litellm.completion(messages=HI, stream=True, **args(model, base))],
        lambda l: len(l) > 1 and l[-1].choices[0].finish_reason)
for model, base in (("openai/qwen", V1), ("hosted_vllm/qwen", V1),
                    ("anthropic/claude-sonnet-4-5", URL)):
    refused("litellm " + model + ": a context overflow is known as one",
        lambda: litellm.completion(messages=[{"role": "user",
        "content": LONG}], **args(model, base)),
        litellm.exceptions.ContextWindowExceededError)
works("litellm text completion", lambda: litellm.text_completion(
    prompt="def f(", **args("text-completion-openai/qwen")),
    lambda r: isinstance(r.choices[0].text, str))
if REAL:
    works("litellm text completion with a suffix", lambda:
        litellm.text_completion(prompt="def add(a, b):\n    ",
        suffix="\n\nprint(add(1, 2))\n",
        **args("text-completion-openai/qwen")),
        lambda r: "return a + b" in r.choices[0].text)
for model in "openai/qwen", "hosted_vllm/qwen":
    works("litellm embedding " + model, lambda: litellm.embedding(model=model,
        api_base=V1, api_key=KEY, input=["hi"]),
        lambda r: len(r.data[0]["embedding"]) > 0)
works("litellm responses", lambda: litellm.responses(model="openai/qwen",
    api_base=V1, api_key=KEY, input="Say hi", max_output_tokens=16,
    temperature=0), lambda r: len(r.output) > 0)
