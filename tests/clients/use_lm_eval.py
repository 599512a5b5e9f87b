# use_lm_eval.py - lm-eval with tasks of local files: answers in text, log-
# probabilities of choices and of a whole text, with the server's own tokenizer.
from report import *
import glob, math, os, subprocess, tempfile

where = os.path.abspath(tempfile.mkdtemp(dir="."))
TEXT = "In the beginning God created the heaven and the earth. And the " \
    "earth was without form, and void; and darkness was upon the face of " \
    "the deep."
ROWS = {"mc": [
    {"q": "The capital of France is", "choices": ["Paris", "a banana"],
     "gold": 0},
    {"q": "2 + 2 =", "choices": ["4", "5"], "gold": 0}],
    "gen": [{"q": "What is the capital of France?", "a": "Paris"}],
    "ppl": [{"t": TEXT}]}
TASKS = {"mc": """output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list: [{metric: acc}]
""", "gen": """output_type: generate_until
doc_to_text: "{{q}} Answer with one word only."
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8, temperature: 0, do_sample: false}
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]
""", "ppl": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{t}}"
metric_list: [{metric: bits_per_byte}]
"""}
for name, rows in ROWS.items():
    with open(f"{where}/{name}.jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    with open(f"{where}/q_{name}.yaml", "w") as f:
        f.write(f"task: q_{name}\ndataset_path: json\ntest_split: test\n"
            f"dataset_kwargs: {{data_files: {{test: {where}/{name}.jsonl}}}}\n"
            + TASKS[name] + "metadata: {version: 1}\n")


def evaluate(model, tasks, path, **more):
    args = ",".join(f"{k}={v}" for k, v in {"model": "qwen", "base_url":
        V1 + path, "num_concurrent": 1, "max_retries": 1, **more}.items())
    env = dict(os.environ, OPENAI_API_KEY=KEY, HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1", HF_HOME=where + "/hf", HOME=where)
    subprocess.run([os.path.dirname(sys.executable) + "/lm_eval", "run",
        "--model", model, "--model_args", args, "--tasks", tasks,
        "--include_path", where, "--output_path", where + "/out",
        *(["--apply_chat_template"] if "chat" in model else [])],
        env=env, check=True, timeout=280, stdin=subprocess.DEVNULL,
        stdout=sys.stderr)
    newest = max(glob.glob(where + "/out/**/results*.json", recursive=True),
        key=os.path.getmtime)
    return json.load(open(newest))["results"]


remote = {"tokenizer_backend": "remote", "auth_token": KEY}
works("lm-eval, answers of a chat", lambda: evaluate("local-chat-completions",
    "q_gen", "/chat/completions", tokenizer_backend="None"),
    lambda r: not REAL or r["q_gen"]["exact_match,none"] == 1)
works("lm-eval, choices, with the server's tokenizer", lambda: evaluate(
    "local-completions", "q_mc", "/completions", **remote),
    lambda r: not REAL or r["q_mc"]["acc,none"] == 1)
got = works("lm-eval, bits per byte of a text", lambda: evaluate(
    "local-completions", "q_ppl", "/completions", **remote),
    lambda r: r["q_ppl"]["bits_per_byte,none"] > 0)
# the same from the server's own log-probabilities, by the definition; lm-eval
# puts the end-of-text token before the text, so that the first token counts
status, all_ids = post("/tokenize", {"content": TEXT})
if got:
    with urllib.request.urlopen(urllib.request.Request(URL +
            "/tokenizer_info", headers={"Authorization": "Bearer " + KEY})) \
            as r:
        info = json.load(r)
    start = info.get("eos_token") or info.get("bos_token")
    start = start["content"] if isinstance(start, dict) else start
    status, first = post("/tokenize", {"content": start, "add_special": False,
        "parse_special": True})
    status, a = post("/v1/completions", {"prompt": first["tokens"] +
        all_ids["tokens"], "max_tokens": 0, "echo": True, "logprobs": 0})
    lp = a["choices"][0]["logprobs"]["token_logprobs"][1:]
    want = -sum(lp) / math.log(2) / len(TEXT.encode())
    ok(abs(got["q_ppl"]["bits_per_byte,none"] - want) < 1e-4,
        "lm-eval: bits per byte follow from the log-probabilities")
