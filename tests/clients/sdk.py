# sdk.py - the Python clients of OpenAI and Anthropic against a server: all
# documented calls that apply, in strict mode, which refuses answers of an unknown
# form.  Prints lines "0 name", or "1 name" for a failure, with the reason on
# stderr.
#   sdk.py openai|anthropic URL KEY
#   sdk.py busy URL KEY          a server that accepts only one request
#   sdk.py types FILE            bodies and events of unit/request_events.test
#                                    against the types of these clients; no server
import asyncio, base64, json, math, struct, sys, threading, traceback
import typing, urllib.request

URL, KEY = sys.argv[2].rstrip("/"), sys.argv[3] if len(sys.argv) > 3 else ""
LOOP = asyncio.new_event_loop()
HI = [{"role": "user", "content": "In the beginning"}]
LONG = [{"role": "user", "content": "In the beginning " * 20}]
SCHEMA = {"type": "object", "properties": {
    "kind": {"type": "string", "enum": ["x", "y"]},
    "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "n"], "additionalProperties": False}


def ok(what, name):
    print(0 if what else 1, name, flush=True)


def same(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"{name}: {got!r}, not {want!r}", file=sys.stderr)


def tries(f):
    """What the client throws is a failure of that part alone."""
    name = f.__name__.replace("_", " ")
    try:
        LOOP.run_until_complete(f()) if asyncio.iscoroutinefunction(f) else f()
    except Exception as e:
        print(1, name, flush=True)
        line = [f.lineno for f in traceback.extract_tb(e.__traceback__)
                if f.filename == __file__][-1]
        print(f"{name}: line {line}: {type(e).__name__}: {e}"[:600],
              file=sys.stderr)


def refused(call, error, name, status, said=""):
    try:
        got = call()
        ok(False, f"{name}: not refused")
        print(f"{name}: {got!r:.300}", file=sys.stderr)
    except Exception as e:
        same((type(e), getattr(e, "status_code", None)), (error, status), name)
        ok(said in str(e), f"  with why: {str(e)[:90]}")
        return e


# ------------------------------------------------------------------- OpenAI

def of_openai():
    import openai, pydantic
    strict = {"base_url": URL + "/v1", "api_key": KEY, "max_retries": 0,
              "timeout": 60, "_strict_response_validation": True}
    o, a = openai.OpenAI(**strict), openai.AsyncOpenAI(**strict)
    # it knows no null for the first token of an echo, nor for why a part of a
    # streamed completion ended, as the interface has it; and no base64
    lax = openai.OpenAI(**{**strict, "_strict_response_validation": False})
    lax_a = openai.AsyncOpenAI(**{**strict, "_strict_response_validation": False})
    m = o.models.list().data[0].id
    OFF = {"chat_template_kwargs": {"enable_thinking": False}}
    chat = {"model": m, "messages": HI, "max_tokens": 12, "extra_body": OFF}
    TOOL = {"type": "function", "function": {
        "name": "pick", "description": "Picks one", "parameters": SCHEMA}}
    OTHER = {"type": "function", "function": {
        "name": "other", "parameters": {"type": "object", "properties": {}}}}

    class Pick(pydantic.BaseModel):
        kind: typing.Literal["x", "y"]
        n: typing.Literal[1, 2]

    @tries
    def models():
        got = [x.id for x in o.models.list()]
        same(got, [m], "models.list")
        same(o.models.retrieve(m).id, m, "models.retrieve")
        refused(lambda: o.models.retrieve("none"), openai.NotFoundError,
                "one that is not there", 404)

    @tries
    def chat_create():
        r = o.chat.completions.create(**chat)
        text = r.choices[0].message.content
        ok(text and r.choices[0].finish_reason == "length", "chat.create")
        same((r.object, r.model, r.choices[0].message.role),
             ("chat.completion", m, "assistant"), "its shape")
        u = r.usage
        same((u.completion_tokens, u.total_tokens), (12, u.prompt_tokens + 12),
             "usage")
        again = o.chat.completions.create(**chat)
        same(again.choices[0].message.content, text, "the same again")
        ok(again.id != r.id, "under another id")
        o.chat.completions.create(**{**chat, "messages": LONG})
        u = o.chat.completions.create(**{**chat, "messages": LONG}).usage
        ok(40 < u.prompt_tokens_details.cached_tokens <= u.prompt_tokens,
           "with cached tokens")
        s = list(o.chat.completions.create(**chat, stream=True))
        same("".join(c.choices[0].delta.content or "" for c in s), text,
             f"streamed, {len(s)} chunks")
        same((s[0].choices[0].delta.role, s[-1].choices[0].finish_reason,
              {c.object for c in s}, len({c.id for c in s}),
              any(c.usage for c in s)),
             ("assistant", "length", {"chat.completion.chunk"}, 1, False),
             "their shape")
        s = list(o.chat.completions.create(**chat, stream=True, stream_options={
            "include_usage": True}))
        same((s[-1].choices, s[-1].usage.completion_tokens), ([], 12),
             "usage of a stream")
        with o.chat.completions.stream(**chat) as s:
            kinds = [e.type for e in s]
            final = s.current_completion_snapshot
        same(final.choices[0].message.content, text, "by the stream helper")
        ok("content.delta" in kinds and "content.done" in kinds, "its events")
        raw = o.chat.completions.with_raw_response.create(**chat)
        same(raw.headers["content-type"].split(";")[0], "application/json",
             "a raw response")
        with o.chat.completions.with_streaming_response.create(**chat) as r:
            same(r.parse().choices[0].message.content, text,
                 "a streaming response")

    @tries
    async def chat_async():
        want = o.chat.completions.create(**chat).choices[0].message.content
        got = await asyncio.gather(*(a.chat.completions.create(**chat)
                                     for _ in range(4)))
        same([r.choices[0].message.content for r in got], [want] * 4,
             "four at once")
        text = ""
        async for c in await a.chat.completions.create(**chat, stream=True):
            text += c.choices[0].delta.content or ""
        same(text, want, "an async stream")
        async with a.chat.completions.stream(**chat) as s:
            async for _ in s:
                pass
            final = s.current_completion_snapshot
        same(final.choices[0].message.content, want, "its helper")
        # one that is left in the middle does not hinder the others
        s = await a.chat.completions.create(**{**chat, "max_tokens": 2000},
                                            stream=True)
        async for c in s:
            break
        await s.close()
        same((await a.chat.completions.create(**chat)).choices[0].message.content,
             want, "after one that was left")

    @tries
    def chat_sampling():
        hot = {**chat, "temperature": 2, "n": 3, "seed": 7}
        r = o.chat.completions.create(**hot)
        texts = [c.message.content for c in r.choices]
        same(([c.index for c in r.choices], len(set(texts))), ([0, 1, 2], 3), "n")
        same([o.chat.completions.create(**{**hot, "n": 1, "seed": 7 + i})
              .choices[0].message.content for i in range(3)], texts,
             "seeds that go up")
        got = ["", "", ""]
        for c in o.chat.completions.create(**hot, stream=True):
            for x in c.choices:
                got[x.index] += x.delta.content or ""
        same(got, texts, "n, streamed")
        plain = o.chat.completions.create(**chat).choices[0].message.content
        word = plain.split()[2]
        r = o.chat.completions.create(**chat, stop=[word, "\0never"])
        same((r.choices[0].message.content, r.choices[0].finish_reason),
             (plain[:plain.index(word)].rstrip(), "stop"), f"stop at {word!r}")
        text = "".join(c.choices[0].delta.content or "" for c in
                       o.chat.completions.create(**chat, stop=word, stream=True))
        same(text, plain[:plain.index(word)].rstrip(), "also of a stream")
        r = o.chat.completions.create(**chat, logprobs=True, top_logprobs=3)
        lp = r.choices[0].logprobs.content
        same("".join(t.token for t in lp), plain, "logprobs: tokens")
        ok(all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in lp),
           "and the best of each")
        s = [t for c in o.chat.completions.create(
             **chat, logprobs=True, top_logprobs=3, stream=True)
             for t in (c.choices[0].logprobs and
                       c.choices[0].logprobs.content or [])]
        same([(t.token, t.logprob) for t in s], [(t.token, t.logprob)
             for t in lp], "logprobs, streamed")
        r = o.chat.completions.create(**chat, logit_bias={"11": 100},
                                      logprobs=True)
        same(len({t.token for t in r.choices[0].logprobs.content}), 1,
             "logit_bias")
        r = o.chat.completions.create(**{**chat, "max_tokens": None},
                                      max_completion_tokens=3)
        same(r.usage.completion_tokens, 3, "max_completion_tokens")
        r = o.chat.completions.create(
            **chat, frequency_penalty=1, presence_penalty=1, top_p=0.9, user="u",
            metadata={"a": "b"}, store=False, parallel_tool_calls=True,
            service_tier="auto", verbosity="low")
        ok(r.choices[0].message.content, "idle members")

    @tries
    def reasoning():
        on = {**chat, "extra_body": {"chat_template_kwargs": {
            "enable_thinking": True}}}
        r = o.chat.completions.create(**on).choices[0].message
        thoughts = r.model_extra.get("reasoning_content")
        ok(thoughts and not r.content, "reasoning_content")
        same("".join(c.choices[0].delta.model_extra.get("reasoning_content") or ""
                     for c in o.chat.completions.create(**on, stream=True)),
             thoughts, "streamed")
        r = o.chat.completions.create(**{**chat, "extra_body": {}},
                                      reasoning_effort="none").choices[0].message
        ok(r.content and not r.model_extra.get("reasoning_content"),
           "reasoning_effort: none")

    @tries
    def tools():
        with_tools = {**chat, "max_tokens": 200, "tools": [TOOL, OTHER],
                      "parallel_tool_calls": False}
        for choice, name in (("required", None),
                             ({"type": "function", "function": {"name": "pick"}},
                              "pick"),
                             ({"type": "allowed_tools", "allowed_tools": {
                                 "mode": "required", "tools": [
                                     {"type": "function", "function": {
                                         "name": "pick"}}]}}, "pick")):
            r = o.chat.completions.create(**with_tools, tool_choice=choice)
            calls = r.choices[0].message.tool_calls
            same((r.choices[0].finish_reason, calls[0].type), ("tool_calls",
                 "function"), f"tool_choice {json.dumps(choice)[:40]}")
            ok(calls[0].function.name in ([name] if name else ["pick", "other"]),
               "  that one")
            args = json.loads(calls[0].function.arguments)
            ok(args == {} if calls[0].function.name == "other" else
               args["kind"] in "xy" and 0 <= args["n"] <= 99, "  by its schema")
        named = {**with_tools, "tool_choice": {"type": "function", "function": {
            "name": "pick"}}}
        want = o.chat.completions.create(**named).choices[0].message.tool_calls
        name, args, ids = "", "", set()
        s = list(o.chat.completions.create(**named, stream=True))
        for c in s:
            for t in c.choices[0].delta.tool_calls or []:
                name += t.function.name or ""
                args += t.function.arguments or ""
                ids |= {t.id} - {None}
        same((name, args, len(ids), s[-1].choices[0].finish_reason),
             ("pick", want[0].function.arguments, 1, "tool_calls"),
             "a call, streamed")
        with o.chat.completions.stream(**named) as s:
            kinds = {e.type for e in s}
            final = s.get_final_completion().choices[0].message.tool_calls
        same(final[0].function.arguments, args, "by the stream helper")
        ok("tool_calls.function.arguments.done" in kinds, "its events")
        for choice in "auto", "none":
            r = o.chat.completions.create(**with_tools, tool_choice=choice)
            ok(choice == "auto" or not r.choices[0].message.tool_calls,
               "tool_choice " + choice)
        r = o.chat.completions.create(**{**with_tools, "messages": HI + [
            {"role": "assistant", "content": None, "tool_calls": [
                want[0].model_dump()]},
            {"role": "tool", "tool_call_id": want[0].id, "content": "7"}]})
        ok(r.choices, "what a tool says is taken back")
        p = o.chat.completions.parse(**{**named, "tools": [
            openai.pydantic_function_tool(Pick, name="pick")]})
        ok(isinstance(p.choices[0].message.tool_calls[0].function
                      .parsed_arguments, Pick), "a tool of pydantic")
        refused(lambda: o.chat.completions.create(**with_tools, tool_choice={
            "type": "function", "function": {"name": "none"}}),
            openai.BadRequestError, "a tool that is not there", 400)

    @tries
    def formats():
        form = {**chat, "max_tokens": 200}
        r = o.chat.completions.create(**form, response_format={
            "type": "json_schema", "json_schema": {
                "name": "p", "strict": True, "schema": SCHEMA}})
        got = json.loads(r.choices[0].message.content)
        ok(set(got) == {"kind", "n"} and got["kind"] in "xy", "json_schema")
        p = o.chat.completions.parse(**form, response_format=Pick)
        ok(isinstance(p.choices[0].message.parsed, Pick), "parse")
        with o.chat.completions.stream(**form, response_format=Pick) as s:
            for _ in s:
                pass
            got = s.get_final_completion().choices[0].message.parsed
        same(got, p.choices[0].message.parsed, "parse of a stream")
        r = o.chat.completions.create(**form, response_format={"type": "text"})
        ok(r.choices[0].message.content, "text")
        r = o.chat.completions.create(**form, response_format={
            "type": "json_object"})
        ok(r.choices[0].message.content.startswith("{"), "json_object")
        try:
            o.chat.completions.parse(**{**form, "max_tokens": 2},
                                     response_format=Pick)
            ok(False, "one that is cut")
        except openai.LengthFinishReasonError:
            ok(True, "one that is cut is told as such")

    @tries
    def completions():
        text = "In the beginning"
        c = {"model": m, "prompt": text, "max_tokens": 8}
        r = o.completions.create(**c)
        plain = r.choices[0].text
        same((r.object, r.choices[0].finish_reason, r.usage.completion_tokens),
             ("text_completion", "length", 8), "completions.create")
        same("".join(x.choices[0].text for x in
                     lax.completions.create(**c, stream=True)), plain, "streamed")
        r = o.completions.create(**{**c, "prompt": [text, "And God"]}, n=2)
        same([x.index for x in r.choices], [0, 1, 2, 3], "two prompts, n")
        same(r.choices[0].text, plain, "the first as alone")
        r = o.completions.create(**c, logprobs=2)
        lp = r.choices[0].logprobs
        same("".join(lp.tokens), plain, "logprobs")
        ok(all(len(x) >= 2 for x in lp.top_logprobs), "with the best")
        r = lax.completions.create(**c, echo=True)
        same(r.choices[0].text, text + plain, "echo")
        r = lax.completions.create(**{**c, "max_tokens": 0}, echo=True, logprobs=1)
        lp = r.choices[0].logprobs
        same((r.choices[0].text, "".join(lp.tokens), lp.token_logprobs[0],
              lp.text_offset[0]), (text, text, None, 0),
             "echo and logprobs, no token")
        ok(all(x <= 0 for x in lp.token_logprobs[1:]) and
           lp.text_offset == sorted(lp.text_offset) and
           len(lp.top_logprobs) == len(lp.tokens), "of each token")
        r = lax.completions.create(**c, echo=True, logprobs=1)
        same(r.choices[0].logprobs.token_logprobs[:len(lp.tokens)],
             lp.token_logprobs, "the same before others")
        same("".join(x.choices[0].text for x in lax.completions.create(
            **c, echo=True, logprobs=1, stream=True)), text + plain,
            "echo, streamed")
        ids = json.loads(post("/tokenize", {"content": text}))["tokens"]
        same(o.completions.create(**{**c, "prompt": ids}).choices[0].text, plain,
             "a prompt of ids")

    @tries
    async def completions_async():
        c = {"model": m, "prompt": "In the beginning", "max_tokens": 8}
        want = (await a.completions.create(**c)).choices[0].text
        text = ""
        async for x in await lax_a.completions.create(**c, stream=True):
            text += x.choices[0].text
        same(text, want, "async")

    @tries
    def responses():
        q = {"model": m, "input": "In the beginning", "max_output_tokens": 12,
             "reasoning": {"effort": "none"}}
        r = o.responses.create(**q)
        text = r.output_text
        same((r.object, r.status, r.incomplete_details.reason,
              r.usage.output_tokens), ("response", "incomplete",
             "max_output_tokens", 12), "responses.create")
        same(text, o.chat.completions.create(**chat).choices[0].message.content,
             "as a chat answers")
        s = list(o.responses.create(**q, stream=True))
        same("".join(e.delta for e in s
                     if e.type == "response.output_text.delta"), text, "streamed")
        same((s[0].type, s[1].type, s[-1].type), ("response.created",
             "response.in_progress", "response.incomplete"), "its events")
        same([e.sequence_number for e in s], list(range(len(s))), "in order")
        with o.responses.stream(**{**q, "max_output_tokens": 200},
                                text_format=Pick) as s:
            kinds = {e.type for e in s}
            final = s.get_final_response()
        ok(isinstance(final.output_parsed, Pick), "the stream helper")
        ok({"response.output_item.added", "response.content_part.done",
            "response.output_text.done", "response.completed"} <= kinds,
           "its events")
        r = o.responses.create(**{**q, "instructions": "Be short.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "Ho", "annotations": []}]},
            {"role": "user", "content": "And?"}]})
        ok(r.output_text, "a conversation with instructions")
        r = o.responses.create(**{**q, "reasoning": {"effort": "low"}})
        same(r.output[0].type, "reasoning", "thoughts are an item")
        s = [e.type for e in o.responses.create(**{
            **q, "reasoning": {"effort": "low"}}, stream=True)]
        ok(any(t.startswith("response.reasoning") for t in s), "streamed too")
        tool = {"type": "function", **TOOL["function"], "strict": True}
        called = {**q, "max_output_tokens": 200, "parallel_tool_calls": False,
                  "tools": [tool],
                  "tool_choice": {"type": "function", "name": "pick"}}
        r = o.responses.create(**called)
        call = next(x for x in r.output if x.type == "function_call")
        same((r.status, call.name, set(json.loads(call.arguments))),
             ("completed", "pick", {"kind", "n"}), "a tool")
        s = list(o.responses.create(**called, stream=True))
        same("".join(e.delta for e in s if e.type ==
                     "response.function_call_arguments.delta"), call.arguments,
             "its arguments, streamed")
        r = o.responses.create(**{**q, "tools": [tool], "input": [
            {"role": "user", "content": "Pick"}, call.model_dump(),
            {"type": "function_call_output", "call_id": call.call_id,
             "output": "7"}]})
        ok(r.output, "what it says is taken back")
        p = o.responses.parse(**{**q, "max_output_tokens": 200}, text_format=Pick)
        ok(isinstance(p.output_parsed, Pick), "responses.parse")

    @tries
    def responses_of_codex():
        pick = {"type": "function", "name": "pick", "description": "Picks one",
                "strict": False, "parameters": SCHEMA}
        q = {"model": m, "input": "Pick", "max_output_tokens": 200,
             "reasoning": {"effort": "none"}, "parallel_tool_calls": False,
             "tools": [
                 {"type": "web_search", "external_web_access": False},
                 {"type": "custom", "name": "apply_patch", "description": "d",
                  "format": {"type": "grammar", "syntax": "lark",
                             "definition": 'start: "x"'}},
                 {"type": "namespace", "name": "crm", "description": "d",
                  "tools": [pick]}],
             "tool_choice": {"type": "function", "name": "pick"}}
        r = o.responses.create(**q)
        call = r.output[-1]
        same((call.type, call.name, call.namespace, set(json.loads(
             call.arguments))), ("function_call", "pick", "crm", {"kind", "n"}),
             "a tool of a namespace, beside others")
        s = list(o.responses.create(**q, stream=True))
        same(s[-1].response.output[-1].arguments, call.arguments, "streamed")
        same(o.responses.retrieve(r.id).output[-1].arguments, call.arguments,
             "responses.retrieve")
        out = {"type": "function_call_output", "call_id": call.call_id,
               "output": [{"type": "input_text", "text": "7"}]}
        say = {**q, "tool_choice": "auto", "max_output_tokens": 4}
        a = o.responses.create(**{**say, "input": [out],
                                  "previous_response_id": r.id})
        history = [{"role": "user", "content": "Pick"}, call.model_dump(), out]
        b = o.responses.create(**{**say, "input": history})
        c = o.responses.create(**{**say, "input": [
            history[0], {"type": "item_reference", "id": call.id}, out]})
        same([x.usage.input_tokens for x in (b, c)], [a.usage.input_tokens] * 2,
             "an output for a call of before, itself, or by its id")
        same(o.responses.input_tokens.count(model=m, input=history,
             tools=q["tools"], reasoning=q["reasoning"]).input_tokens, a.usage.input_tokens,
             "input_tokens.count")
        o.responses.delete(r.id)
        refused(lambda: o.responses.retrieve(r.id), openai.NotFoundError,
                "a response that is forgotten", 404)
        refused(lambda: o.responses.create(**{**say, "input": [
            {"type": "item_reference", "id": call.id}]}), openai.NotFoundError,
            "and its items", 404)
        # a message of the user is no output item by the client's types
        r = lax.responses.compact(model=m, input=history)
        same((r.object, r.output[-1].type), ("response.compaction",
             "compaction"), "responses.compact")
        r = o.responses.create(model=m, max_output_tokens=2, input=[
            *[x.model_dump(exclude_none=True) for x in r.output],
            {"role": "user", "content": "And?"}])
        ok(r.output, "and on from there")
        refused(lambda: o.responses.create(model=m, input="word " * 9000),
                openai.BadRequestError, "more than the context", 400,
                "prompt is too long: ")
        # Codex knows this code, the client's types do not
        s = list(lax.responses.create(model=m, input="word " * 9000, stream=True))
        same((s[-1].type, s[-1].response.error.code), ("response.failed",
             "context_length_exceeded"), "in a stream")
        r = o.responses.create(model=m, input=[], max_output_tokens=2)
        ok(r.usage.output_tokens, "an empty input")

    @tries
    async def responses_async():
        q = {"model": m, "input": "In the beginning", "max_output_tokens": 8,
             "reasoning": {"effort": "none"}}
        want = (await a.responses.create(**q)).output_text
        text = ""
        async for e in await a.responses.create(**q, stream=True):
            text += e.delta if e.type == "response.output_text.delta" else ""
        same(text, want, "async")

    @tries
    def embeddings():
        r = lax.embeddings.create(model=m, input=["In the beginning", "And God"])
        vectors = [d.embedding for d in r.data]     # base64 on the wire
        same([d.index for d in r.data], [0, 1], "embeddings.create")
        ok(all(abs(math.fsum(x * x for x in v) - 1) < 1e-3 for v in vectors),
           f"of length 1, {len(vectors[0])} numbers")
        r = o.embeddings.create(model=m, input="In the beginning",
                                encoding_format="float")
        same([struct.unpack("f", struct.pack("f", x))[0]
              for x in r.data[0].embedding], vectors[0], "as numbers, the same")
        raw = json.loads(post("/v1/embeddings", {"model": m, "input":
                         "In the beginning", "encoding_format": "base64"}))
        same(len(base64.b64decode(raw["data"][0]["embedding"])),
             4 * len(vectors[0]), "base64")
        r = lax.embeddings.create(model=m, input="And God", dimensions=16)
        same(len(r.data[0].embedding), 16, "dimensions")
        ids = json.loads(post("/tokenize", {"content": "And God"}))["tokens"]
        r = lax.embeddings.create(model=m, input=[ids])
        ok(len(r.data) == 1 and r.usage.prompt_tokens >= len(ids), "of ids")
        same(LOOP.run_until_complete(lax_a.embeddings.create(
             model=m, input="And God")).data[0].embedding, vectors[1], "async")

    @tries
    def errors():
        e = refused(lambda: o.chat.completions.create(**{
            **chat, "temperature": "warm"}), openai.BadRequestError, "400", 400,
            "temperature")
        same((e.type, e.param), ("invalid_request_error", "temperature"),
             "type and member")
        refused(lambda: o.chat.completions.create(**{**chat, "messages": [
            {"role": "user", "content": "word " * 20000}]}),
            openai.BadRequestError, "more than the context", 400)
        refused(lambda: openai.OpenAI(**{**strict, "api_key": "wrong"})
                .chat.completions.create(**chat), openai.AuthenticationError,
                "401", 401)
        refused(lambda: o.post("/nothing", cast_to=object), openai.NotFoundError,
                "404", 404)
        refused(lambda: list(o.chat.completions.create(**{
            **chat, "temperature": -1}, stream=True)), openai.BadRequestError,
            "of a stream, before it begins", 400)
        refused(lambda: o.chat.completions.create(**{**chat, "messages": [
            {"role": "user", "content": "x" * (2 << 20)}]}),
            openai.APIStatusError, "413", 413)      # the server has 1 MiB


def post(path, body):
    q = urllib.request.Request(URL + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + KEY})
    with urllib.request.urlopen(q, timeout=60) as r:
        return r.read()


# -------------------------------------------------------------------- types

def cases(path):
    """Blocks of lines "key text", tabs for more lines of a text."""
    case, key = {}, None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("\t") and key:
            case[key] += "\n" + line[1:]
        elif line and line[0] != "#":
            key, _, text = line.partition(" ")
            if key == "name" and case:
                yield case
                case = {}
            case[key] = text
        else:
            key = None
    yield case


def of_types():
    import anthropic.types, openai.types.chat, openai.types.responses
    from pydantic import TypeAdapter
    kind = {"responses": (openai.types.responses.Response,
                          openai.types.responses.ResponseStreamEvent),
            "compact": (openai.types.responses.CompactedResponse, None),
            "chat": (openai.types.chat.ChatCompletion,
                     openai.types.chat.ChatCompletionChunk),
            "completion": (openai.types.Completion, openai.types.Completion),
            "messages": (anthropic.types.Message,
                         anthropic.types.RawMessageStreamEvent)}
    for c in cases(sys.argv[2]):
        if c["form"] not in kind:
            continue    # of Ollama or llama.cpp
        body, events = kind[c["form"]]
        # what they know no null for, and users among output items
        odd = c["form"] in ("completion", "compact")
        try:
            if "body" in c and not odd:
                TypeAdapter(body).validate_json(c["body"])
                ok(True, f"{c['name']}: body")
            for line in c.get("events", "").split("\n"):
                if line.startswith("data: {") and not odd:
                    TypeAdapter(events).validate_json(line[6:])
            ok(True, f"{c['name']}: events")
        except Exception as e:
            ok(False, c["name"])
            print(f"{c['name']}: {e}"[:900], file=sys.stderr)


# ---------------------------------------------------------------- Anthropic

def of_anthropic():
    import anthropic, pydantic
    strict = {"base_url": URL, "api_key": KEY, "max_retries": 0, "timeout": 60,
              "_strict_response_validation": True}
    c, a = anthropic.Anthropic(**strict), anthropic.AsyncAnthropic(**strict)
    m = c.models.list().data[0].id
    q = {"model": m, "max_tokens": 12, "messages": HI,
         "thinking": {"type": "disabled"}}
    TOOL = {"name": "pick", "description": "Picks one", "input_schema": SCHEMA}

    class Pick(pydantic.BaseModel):
        kind: typing.Literal["x", "y"]
        n: typing.Literal[1, 2]

    def texts(message):
        return "".join(b.text for b in message.content if b.type == "text")

    @tries
    def create():
        r = c.messages.create(**q)
        text = texts(r)
        same((r.type, r.role, r.model, r.stop_reason, r.usage.output_tokens),
             ("message", "assistant", m, "max_tokens", 12), "messages.create")
        ok(text, "it says something")
        r2 = c.messages.create(**q)
        same(texts(r2), text, "the same again")
        c.messages.create(**{**q, "messages": LONG})
        u = c.messages.create(**{**q, "messages": LONG}).usage
        ok(u.cache_read_input_tokens > 40 and u.input_tokens > 0,
           "with cached tokens")
        s = list(c.messages.create(**q, stream=True))
        same("".join(e.delta.text for e in s if e.type == "content_block_delta"),
             text, "streamed")
        kinds = [e.type for e in s if e.type not in ("content_block_delta",
                                                     "ping")]
        same(kinds, ["message_start", "content_block_start",
                     "content_block_stop", "message_delta", "message_stop"],
             "its events")
        with c.messages.stream(**q) as s:
            same("".join(s.text_stream), text, "messages.stream: text")
            final = s.get_final_message()
        same((texts(final), final.stop_reason, final.usage.output_tokens),
             (text, "max_tokens", 12), "and the whole message")
        with c.messages.stream(**q) as s:
            ok({"text", "content_block_stop", "message_stop"} <=
               {e.type for e in s}, "and its events")
        r = c.messages.create(**q, system="Be short.")
        ok(r.content, "a system prompt")
        r = c.messages.create(**q, system=[{"type": "text", "text": "Be short.",
                              "cache_control": {"type": "ephemeral"}}])
        ok(r.content, "as a block")
        r = c.messages.create(**{**q, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Ho"}]},
            {"role": "user", "content": "And?"}]}, metadata={"user_id": "u"})
        ok(r.content, "a conversation")
        hot = {"extra_body": {"temperature": 1, "top_k": 20, "top_p": 0.9}}
        ok(c.messages.create(**q, **hot).content, "sampling")
        word = text.split()[2]
        r = c.messages.create(**q, stop_sequences=[word])
        want = text[:text.index(word)].rstrip(), "stop_sequence", word
        same((texts(r), r.stop_reason, r.stop_sequence), want, "stop_sequences")
        with c.messages.stream(**q, stop_sequences=[word]) as s:
            final = s.get_final_message()
        same((texts(final), final.stop_reason, final.stop_sequence),
             want, "streamed")

    @tries
    async def messages_async():
        want = texts(await a.messages.create(**q))
        got = await asyncio.gather(*(a.messages.create(**q) for _ in range(4)))
        same([texts(r) for r in got], [want] * 4, "four at once")
        async with a.messages.stream(**q) as s:
            same("".join([t async for t in s.text_stream]), want, "async stream")

    @tries
    def count():
        r = c.messages.create(**q)
        n = c.messages.count_tokens(model=m, messages=HI,
                                    thinking={"type": "disabled"}).input_tokens
        same(n, r.usage.input_tokens + (r.usage.cache_read_input_tokens or 0),
             "count_tokens")
        more = c.messages.count_tokens(model=m, messages=HI, system="Be short.",
                                       tools=[TOOL]).input_tokens
        ok(more > n, "with tools")

    @tries
    def thinking():
        on = {**q, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        r = c.messages.create(**on)
        same(r.content[0].type, "thinking", "a block of thoughts")
        with c.messages.stream(**on) as s:
            kinds = {e.type for e in s}
            same(s.get_final_message().content[0].thinking, r.content[0].thinking,
                 "streamed")
        ok("thinking" in kinds, "its events")
        r2 = c.messages.create(**{**on, "messages": HI + [
            {"role": "assistant", "content": [r.content[0].model_dump(),
             {"type": "text", "text": "Ho"}]}, {"role": "user",
                                                "content": "And?"}]})
        ok(r2.content, "and taken back")
        r = c.messages.create(**{**q, "thinking": {"type": "adaptive"}})
        ok(r.content, "adaptive")

    @tries
    def tools():
        t = {**q, "max_tokens": 200, "tools": [TOOL, {
            "name": "other", "input_schema": {"type": "object",
                                              "properties": {}}}]}
        for choice in {"type": "any"}, {"type": "tool", "name": "pick"}:
            r = c.messages.create(**t, tool_choice=choice)
            ok(r.content[0].type == "tool_use", f"tool_choice {choice}, or more")
            choice["disable_parallel_tool_use"] = True
            r = c.messages.create(**t, tool_choice=choice)
            b = next(x for x in r.content if x.type == "tool_use")
            same((r.stop_reason, b.name in ("pick", "other")), ("tool_use", True),
                 f"tool_choice {choice}")
            ok(b.name == "other" and b.input == {} or
               b.input["kind"] in "xy" and 0 <= b.input["n"] <= 99,
               "  by its schema")
        with c.messages.stream(**t, tool_choice=choice) as s:
            kinds = {e.type for e in s}
            final = s.get_final_message()
        got = next(x for x in final.content if x.type == "tool_use")
        same((got.input, final.stop_reason), (b.input, "tool_use"), "streamed")
        ok("input_json" in kinds, "its events")
        for choice in {"type": "auto"}, {"type": "none"}:
            r = c.messages.create(**t, tool_choice=choice)
            ok(choice["type"] == "auto" or
               not [x for x in r.content if x.type == "tool_use"],
               f"tool_choice {choice}")
        for content in "7", [{"type": "text", "text": "7"}]:
            r = c.messages.create(**{**t, "messages": HI + [
                {"role": "assistant", "content": [b.model_dump()]},
                {"role": "user", "content": [{
                    "type": "tool_result", "tool_use_id": b.id,
                    "content": content}, {"type": "text", "text": "Well?"}]}]})
            ok(r.content, "what a tool says is taken back")
        p = c.messages.parse(**{**q, "max_tokens": 200}, output_format=Pick)
        ok(isinstance(p.parsed_output, Pick), "messages.parse")

    @tries
    def models():
        same([x.id for x in c.models.list()], [m], "models.list")
        same(c.models.retrieve(m).id, m, "models.retrieve")
        refused(lambda: c.models.retrieve("none"), anthropic.NotFoundError,
                "one that is not there", 404)

    @tries
    def errors():
        e = refused(lambda: c.messages.create(**{**q, "max_tokens": "many"}),
                    anthropic.BadRequestError, "400", 400, "max_tokens")
        same((e.body["type"], e.body["error"]["type"]),
             ("error", "invalid_request_error"), "its shape")
        refused(lambda: c.messages.create(**{**q, "messages": []}),
                anthropic.BadRequestError, "no message", 400)
        refused(lambda: c.messages.create(**{**q, "messages": [
            {"role": "user", "content": "word " * 20000}]}),
            anthropic.BadRequestError, "more than the context", 400)
        wrong = anthropic.Anthropic(**{**strict, "api_key": "wrong"})
        e = refused(lambda: wrong.messages.create(**q),
                    anthropic.AuthenticationError, "401", 401)
        same(e.body["error"]["type"], "authentication_error", "its type")
        ok(anthropic.Anthropic(**{**strict, "api_key": None},
                               auth_token=KEY).messages.create(**q).content,
           "the key as a bearer")
        e = refused(lambda: c.post("/v1/messages/nothing", cast_to=object),
                    anthropic.NotFoundError, "404", 404)
        same(e.body["error"]["type"], "not_found_error", "its type")
        e = refused(lambda: c.messages.create(**{**q, "messages": [
            {"role": "user", "content": "x" * (2 << 20)}]}),
            anthropic.ContentTooLargeError, "413", 413)
        same(e.body["error"]["type"], "request_too_large", "its type")


# --------------------------------------------------------------------- busy

def of_busy():
    """One request at work, one that waits: the third is told to come again."""
    import anthropic, openai
    o = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
    c = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
    m = o.models.list().data[0].id
    chat = {"model": m, "messages": HI, "max_tokens": 3900, "temperature": 2,
            "extra_body": {"min_tokens": 3900}}
    one = o.chat.completions.create(**chat, stream=True)
    next(iter(one))
    two = threading.Thread(target=lambda: o.chat.completions.create(
        **{**chat, "max_tokens": 1, "extra_body": {}}))
    two.start()
    threading.Event().wait(0.5)
    e = refused(lambda: o.chat.completions.create(**chat), openai.RateLimitError,
                "OpenAI: 429", 429)
    ok(int(e.response.headers["Retry-After"]) > 0, "with Retry-After")
    e = refused(lambda: c.messages.create(model=m, max_tokens=1, messages=HI),
                anthropic.RateLimitError, "Anthropic: 429", 429)
    ok(int(e.response.headers["Retry-After"]) > 0, "with Retry-After")
    same(e.body["error"]["type"], "rate_limit_error", "its type")
    one.close()
    two.join(60)
    ok(not two.is_alive(), "the one that waited has its turn")


if __name__ == "__main__":
    {"openai": of_openai, "anthropic": of_anthropic,
     "busy": of_busy, "types": of_types}[sys.argv[1]]()
