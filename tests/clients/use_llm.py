# use_llm.py - the command llm, with a server added in its settings.
from report import *
import os, subprocess, tempfile

home = tempfile.mkdtemp(dir=".")
env = dict(os.environ, LLM_USER_PATH=home)
with open(home + "/keys.json", "w") as f:
    json.dump({"own": KEY}, f)
with open(home + "/extra-openai-models.yaml", "w") as f:
    f.write(f"""- model_id: q
  model_name: qwen
  api_base: {V1}
  api_key_name: own
  supports_tools: true
  supports_schema: true
- model_id: qc
  model_name: qwen
  api_base: {V1}
  api_key_name: own
  completion: true
""")
LLM = os.path.dirname(sys.executable) + "/llm"


def llm(*args):
    return subprocess.run([LLM, *args, "-o", "temperature", "0", "-o",
        "max_tokens", "60"], env=env, check=True, text=True,
        timeout=120, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if "--td" in args else None).stdout


def person(s):
    p = json.loads(s)
    return isinstance(p["name"], str) and isinstance(p["ok"], bool)


hi = works("llm, a stream", lambda: llm("-m", "q", "Say hi"))
works("llm, without a stream: the same", lambda: llm("-m", "q", "--no-stream",
    "Say hi"), lambda s: s.strip() == hi.strip())
works("llm, another turn", lambda: llm("-m", "q", "-c", "And again"))
works("llm, a completion model", lambda: llm("-m", "qc", "def f("))
works("llm, a system prompt", lambda: llm("-m", "q", "-s", "Be brief.",
    "Say hi"))
if REAL:
    works("llm, a schema", lambda: llm("-m", "q", "--schema",
        "name, ok bool", "A person named Al, ok is true"), person)
    works("llm, tools", lambda: llm("-m", "q", "--functions",
        'def get_weather(city: str) -> str:\n'
        '    "Get the weather in a city"\n'
        '    return "3 C and rain in " + city\n', "--td", WEATHER),
        lambda s: "get_weather({'city': 'Oslo'})" in s)
