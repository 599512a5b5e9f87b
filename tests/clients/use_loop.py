# use_loop.py - an agent with tools that read and write files in its folder: ten
# requests or more.  It ends, its edits are right, and each request reads only its
# new text.
from report import *
import os, tempfile

where = tempfile.mkdtemp(dir=".")
FILES = {f"part{i}.py": f"def f{i}(x):\n    return x - {i}\n"
         for i in range(1, 6)}
for name, text in FILES.items():
    with open(f"{where}/{name}", "w") as f:
        f.write(text)


def path(name):
    return os.path.join(where, os.path.basename(name))


def read_file(name):
    try:
        return open(path(name)).read()
    except OSError:
        return "no such file"


def write_file(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return "written"


def tool(name, about, /, **properties):
    return {"type": "function", "function": {"name": name, "description":
        about, "parameters": {"type": "object", "properties": {
        k: {"type": "string", "description": v} for k, v in
        properties.items()}, "required": list(properties)}}}


TOOLS = [tool("read_file", "Read a file", name="name of the file"),
         tool("write_file", "Write a file, all of it", name="name of the file",
              text="the whole new text of the file")]
talk = [{"role": "system", "content": "You mend Python files with the tools. "
         "You call one tool at a time."}]
requests = bad = 0
before = None    # tokens of the last prompt and its answer


def ask(**more):
    global requests, bad, before
    status, a = post("/v1/chat/completions", {"messages": talk,
        "tools": TOOLS, "temperature": 0, "max_tokens": 120, "seed": 1,
        "parallel_tool_calls": False, **more})
    if status != 200:
        raise RuntimeError(f"{status}: {a}")
    u, m = a["usage"], a["choices"][0]["message"]
    cached = u["prompt_tokens_details"]["cached_tokens"]
    # all of the last prompt and its answer is there, but for its last tokens
    if before is not None and cached < before - 8:
        bad += 1
        print(f"request {requests + 1}: {cached} tokens cached of "
              f"{u['prompt_tokens']}, {before} were there", file=sys.stderr)
    before = u["prompt_tokens"] + u["completion_tokens"]
    requests += 1
    talk.append({k: v for k, v in m.items() if v is not None})
    return m


def use(m):
    for c in m.get("tool_calls") or []:
        f = c["function"]
        args = json.loads(f["arguments"])
        result = {"read_file": read_file, "write_file": write_file}[
            f["name"]](**args)
        talk.append({"role": "tool", "tool_call_id": c["id"],
                     "content": result})


def named(name):
    return {"type": "function", "function": {"name": name}}


for i in range(1, 6):
    talk.append({"role": "user", "content": f"In part{i}.py the function f{i} "
        f"must add {i}, not subtract it. Read part{i}.py, then write it with "
        "+ in place of -."})
    use(ask(tool_choice=named("read_file")))
    use(ask(tool_choice=named("write_file")))
talk.append({"role": "user", "content": "Say in one sentence what you did."})
last = ask()
ok(requests == 11 and isinstance(last["content"], str) and last["content"],
    f"agent: {requests} requests, and it ends with an answer")
good = 0
for i in range(1, 6):
    code = {}
    try:
        exec(read_file(f"part{i}.py"), code)
        good += code[f"f{i}"](10) == 10 + i
    except Exception as e:
        print(f"part{i}.py: {e}: {read_file(f'part{i}.py')!r}",
              file=sys.stderr)
ok(good == 5, f"agent: {good} of 5 edits are right")
ok(bad == 0, f"agent: each request reads only what is new ({bad} do not)")
