# use_aider.py - aider edits a file of a repository.
from report import *
import os, subprocess, tempfile

AIDER = os.path.dirname(sys.executable) + "/aider"
where = tempfile.mkdtemp(dir=".")
env = dict(os.environ, HOME=os.path.abspath(where), AIDER_CHECK_UPDATE="false",
    AIDER_ANALYTICS="false", GIT_CONFIG_NOSYSTEM="1")
BROKEN = "def add(a, b):\n    return a - b\n"


def run(*args):
    return subprocess.run(args, cwd=where, env=env, text=True, timeout=250,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


def aider(*args):
    return run(AIDER, "--model", "openai/qwen", "--openai-api-base", V1,
        "--openai-api-key", KEY, "--yes-always", "--no-show-model-warnings",
        "--no-stream", "--map-tokens", "0", "--no-gitignore",
        "--no-detect-urls", *args)


run("git", "init", "-q")
run("git", "config", "user.name", "t")
run("git", "config", "user.email", "t@localhost")
with open(where + "/calc.py", "w") as f:
    f.write(BROKEN)
run("git", "add", "calc.py")
run("git", "commit", "-qm", "begin")
works("aider asks and is answered", lambda: aider("--message",
    "/ask What does calc.py do?", "calc.py"), lambda r: r.returncode == 0 and
    " received." in r.stdout)
if REAL:
    r = works("aider edits a whole file", lambda: aider("--edit-format",
        "whole", "--message", "add() must add, not subtract. Mend it.",
        "calc.py"), lambda r: r.returncode == 0)
    code = {}
    exec(open(where + "/calc.py").read(), code)
    ok(code["add"](2, 3) == 5, "aider: the edit is right")
    ok("begin" != run("git", "log", "-1", "--format=%s").stdout.strip(),
        "aider: it is committed, with a message of the model's")
