# page.py - tests the chat page of qserve: prints lines "0 name", or "1 name" for a
# failure.
#   page.py text URL              the text visible in the page as served
#   page.py browser CHROMIUM URL  in a browser, against a server that answers with
#                                 what the last message requests, with the page
#                                 and its headers from URL; saves pictures here
#   page.py serve CHROMIUM URL KEY  in a browser, against the server itself, which
#                                 requires this key
import html.parser, http.server, json, os, re, sys, threading, time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def ok(what, name):
    print(0 if what else 1, name, flush=True)


def same(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"{name}: {got!r}, not {want!r}", file=sys.stderr)


# ------------------------------------------------------------------ its text

class Elements(html.parser.HTMLParser):
    """Elements are closed as they were opened; ids; what leads elsewhere."""
    VOID = {"meta", "link", "input", "br", "hr", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.ids, self.leads = [], [], [], []
        self.nonces, self.on = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name == "nonce":
                self.nonces.append(value)
            elif name in ("src", "href", "action", "data"):
                self.leads.append(value)
            elif name.startswith("on") or name == "style":
                self.on.append(name)
        if len({n for n, _ in attrs}) != len(attrs):
            self.faults.append(f"<{tag}> says a thing twice")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")


def get(url):
    with urllib.request.urlopen(url, timeout=20) as r:
        return r.read().decode("ascii"), r.headers


def text(url):
    page, headers = get(url)
    nonce = re.search(r'<script nonce="([0-9a-f]{32})">', page)[1]
    same(headers["Content-Type"], "text/html; charset=utf-8", "it is HTML")
    same(headers["Cache-Control"], "no-store", "that nobody keeps")
    policy = dict(x.strip().split(" ", 1) for x in
                  headers["Content-Security-Policy"].split(";"))
    same(policy, {"default-src": "'none'", "script-src": f"'nonce-{nonce}'",
                  "style-src": f"'nonce-{nonce}'", "connect-src": "'self'",
                  "img-src": "data:", "base-uri": "'none'",
                  "form-action": "'none'", "frame-ancestors": "'none'",
                  "require-trusted-types-for": "'script'"}, "its policy")
    again, headers = get(url)
    other = re.search(r'<script nonce="([0-9a-f]{32})">', again)[1]
    ok(other != nonce and f"'nonce-{other}'" in
       headers["Content-Security-Policy"], "a fresh nonce each time")
    same(again.replace(other, nonce), page, "and no other difference")
    e = Elements()
    e.feed(page)
    e.close()
    same((e.faults, e.open), ([], []), "elements are closed in order")
    same(sorted(set(e.ids)), sorted(e.ids), "no id is there twice")
    used = set(re.findall(r'\$\("([\w-]+)"\)', page))
    same(sorted(used - set(e.ids)), [], f"{len(used)} ids that the script asks for")
    ok(page.lower().startswith("<!doctype html>"), "of HTML as it is now")
    same([x for x in e.leads if not x.startswith("data:image/")], [],
         "it loads nothing from elsewhere")
    hosts = set(re.findall(r"(?:https?|wss?):?//[\w.-]+", page))
    same(hosts, {"http://www.w3.org"}, "no host but the name of a format")
    same(re.findall(r"@import|url\(|innerHTML|outerHTML|insertAdjacent|"
                    r"document\.write|\beval\b|new Function", page), [],
         "text becomes no program")
    same(e.on, [], "no script or style in attributes")
    same((e.nonces, page.count(nonce), "@NONCE@" in page), ([nonce] * 2, 2, False),
         "script and style have one nonce")
    ok(len(page) < 49152, f"{len(page)} bytes, below 48 KiB")


# ------------------------------------------------------- a server of our own

MARKDOWN = """A *slanted* and a **bold** word, `co<de`, snake_case, 2 * 3 * 4,
https://example.org/a_b?c. [There](https://example.org) [bad](javascript:x())
<img src=x onerror=alert(1)> \\*plain\\* **open

# Title

1. one
   ```c
   - int a;

   int b;
   ```
2. two
   - nested

| a | b |
|---|---|
| 1 | `2` |

> said

```
<script>alert(1)</script>
```
"""


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    page = policy = None
    asked = []          # bodies, with the Authorization header
    go = threading.Event()
    sees = False        # the model reads images

    def log_message(self, *args):
        pass

    def send(self, status, body, kind="application/json", **more):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/":
            self.send(200, self.page, "text/html; charset=utf-8",
                      Content_Security_Policy=self.policy)
        elif self.headers["Authorization"] == "Bearer wrong":
            self.send(401, b"{}")
        else:
            self.send(200, json.dumps({"object": "list", "data": [{
                "id": "a-model", **({"architecture": {"input_modalities":
                ["text", "image"]}} if self.sees else {})}]}).encode())

    def event(self, what):
        if not isinstance(what, str):
            what = json.dumps(what)
        self.wfile.write(b"data: " + what.encode() + b"\r\n\r\n")
        self.wfile.flush()

    def say(self, finish=None, **delta):
        self.event({"choices": [{"index": 0, "delta": delta,
                                 "finish_reason": finish}]})

    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((q, self.headers["Authorization"]))
        last = q["messages"][-1]["content"]
        if isinstance(last, list):
            last = "".join(part.get("text", "") for part in last)
        if re.fullmatch(r"\d{3}", last):
            return self.send(int(last), json.dumps(
                {"error": {"message": "told <b>so</b>"}}).encode(),
                **({"Retry_After": "7"} if last == "429" else {}))
        if last == "vanish":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.stream(q, last)
        except OSError:
            pass        # it was stopped

    def stream(self, q, last):
        self.say(role="assistant", content="")
        self.wfile.write(b": still here\n\n")
        if last == "wait":
            self.say(content="As far as ")
            self.go.wait(20)
            for i in range(10000):
                self.say(content="more ")
                time.sleep(0.01)
        if last == "break":
            return self.say(content="Half of ")
        if last == "fail":
            self.say(content="Half of ")
            return self.event({"error": {"message": "the engine died"}})
        if last == "think":
            for word in "let me see ".split(" "):
                self.say(reasoning_content=word + " ")
        # in the middle of a character of several bytes, and of a line
        whole = "data: " + json.dumps({"choices": [{"index": 0, "delta": {
            "content": "\u20ac 5"}}]}, ensure_ascii=False) + "\n\n"
        for part in whole.encode()[:45], whole.encode()[45:]:
            self.wfile.write(part)
            self.wfile.flush()
            time.sleep(0.02)
        for word in re.findall(r"\S+\s*", MARKDOWN if last == "markdown" else
                               f" for {last}, answer {len(self.asked)}"):
            self.say(content=word if word != "for " else " for ")
            time.sleep(0 if last == "markdown" else 0.02)
        self.say(finish="length" if last == "long" else "stop")
        self.event({"choices": [], "usage": {
            "prompt_tokens": 1204, "completion_tokens": 33,
            "prompt_tokens_details": {"cached_tokens": 1180}}})
        self.event("[DONE]")


# -------------------------------------------------------------- in a browser

HOSTILE = {     # what is quadratic, or deep, if one does not take care
    "back-ticks": "`a``" * 30000, "stars": "*a **" * 30000,
    "open stars": "**a " * 30000, "low lines": "_a_b " * 30000,
    "brackets": "[a](http://" * 20000, "quotes": ">" * 100000,
    "nested quotes": "\n".join("> " * i + "a" for i in range(400)),
    "nested items": "\n".join("  " * i + "- a" for i in range(400)),
    "dashes": "|a\n|" + "-" * 100000 + "x", "rules": "- " * 50000 + "x",
    "fence": "```" + "a" * 100000 + "`", "fences": "```\n" * 30000,
    "pipes": "|" * 50000 + "\n|-|\n" + "|" * 50000,
    "spaces": "a" + " " * 100000 + "b\n" * 3, "heads": "# " * 50000,
    "digits": "1" * 100000 + ". a", "URLs": "http://a" * 20000,
    "escapes": "\\*" * 50000,
}


class Page:
    def __init__(self, b, url):
        self.b = b
        b.open(url)

    def text(self, selector):
        """What the last one of them says."""
        return self.b.js(f"[...document.querySelectorAll({selector!r})].at(-1)"
                         "?.innerText.trim() ?? null")

    def count(self, selector):
        return self.b.js(f"document.querySelectorAll({selector!r}).length")

    def idle(self):
        return self.b.wait("document.getElementById('stop').hidden")

    def write(self, text):
        self.b.js("document.getElementById('text').focus()")
        self.b.type(text)
        self.b.key("Enter")

    def say(self, text):
        n = self.count("article")
        self.write(text)
        return (self.b.wait("document.querySelectorAll('article').length"
                            f" != {n}") and self.idle())

    def press(self, name, within="body"):
        """The last button of that name."""
        self.b.js(f"[...document.querySelectorAll({within + ' button'!r})]"
                  f".filter((x) => x.innerText == {name!r}).at(-1).click()")

    def dots(self):
        """Messages shown."""
        return self.b.js("[...document.querySelectorAll('article')].map((a) =>"
                         " a.querySelector('.text, .md').innerText.trim())")


def settings(p, **values):
    p.b.click("#open-settings")
    for name, value in values.items():
        p.b.js(f"document.querySelector('[name={name}]').value = {value!r}")
    p.press("Save")
    return p.b.wait("!document.getElementById('settings').open")


def chats_of(p):
    return p.b.js("[...document.querySelectorAll('#chats button')]"
                  ".map((x) => x.innerText)")


def streams(p):
    ok(p.b.wait("document.getElementById('model').innerText == 'a-model'"),
       "the model is named")
    ok(p.say("Hello"), "a message is answered")
    same(p.dots(), ["Hello", "\u20ac 5 for Hello, answer 1"], "word by word")
    same(p.text(".facts").split(" \u00b7 ")[1], "prompt 1,204, 1,180 cached",
         "tokens of the prompt, and cached ones")
    ok(re.match(r"33 tokens, [\d.,]+ a second \u00b7 .* \u00b7 first after [\d.]+ m?s$",
                p.text(".facts")), "tokens, and how many a second")
    q, key = Server.asked[-1]
    same((q["stream"], q["stream_options"], q["model"], q["messages"], key),
         (True, {"include_usage": True}, "a-model",
          [{"role": "user", "content": "Hello"}], None), "nothing is asked for "
         "that nobody set")
    p.say("think")
    ok(p.b.js("!document.querySelector('.thoughts:not([hidden])').open"),
       "thoughts are folded")
    p.b.click(".thoughts:not([hidden]) summary")
    same(p.text(".thoughts:not([hidden]) div"), "let me see", "and unfold")
    p.say("and?")
    same([m["role"] for m in Server.asked[-1][0]["messages"]],
         ["user", "assistant"] * 2 + ["user"], "what was said is sent again")
    same(Server.asked[-1][0]["messages"][3]["reasoning_content"],
         "let me see  ", "thoughts as such")


def ends(p):
    Server.go.clear()
    p.write("wait")
    ok(p.b.wait("[...document.querySelectorAll('.md')].at(-1)?.innerText"
                ".startsWith('As far as')"), "text is there before the end")
    Server.go.set()
    p.b.click("#stop")
    ok(p.idle(), "it stops")
    same(p.text("article .note"), "Stopped.", "which is told")
    p.say("long")
    same(p.text("article .note"), "Ended at the limit of tokens.", "so is a limit")
    for what, want in (
            ("break", "The connection broke before the answer ended."),
            ("vanish", "The server cannot be reached."),
            ("fail", "The server gave up. It says: the engine died"),
            ("401", "The server asks for an API key, or for another one: see "
                    "Settings."),
            ("400", "The server refuses the request. It says: told <b>so</b>"),
            ("413", "The conversation is too long for the server. It says: "
                    "told <b>so</b>"),
            ("429", "The server is busy. Please retry in 7 seconds."),
            ("503", "The server cannot answer now. It says: told <b>so</b>")):
        p.say(what)
        same(p.text(".error"), want, "in words: " + what)
    same(p.b.js("[...document.querySelectorAll('.md')].at(-6).innerText.trim()"),
         "Half of", "what came before is kept")


def branches(p):
    p.b.click("#new")
    p.say("one")
    p.say("two")
    before = p.dots()
    p.press("Retry")
    p.idle()
    ok(p.dots()[:3] == before[:3] and p.dots()[3] != before[3],
       "an answer is tried again")
    same(p.text(".assistant .foot span"), p.text(".facts"), "with its facts")
    ok("2/2" in p.text(".assistant .foot"), "it is the second of two")
    p.press("\u2039")
    same(p.dots(), before, "the first one is still there")
    p.b.js("[...document.querySelectorAll('article')][0].querySelectorAll("
           "'button')[1].click()")
    p.b.key("Escape")
    same(p.dots(), before, "an edit is given up by Escape")
    p.b.js("[...document.querySelectorAll('article')][0].querySelectorAll("
           "'button')[1].click()")
    p.b.type(" more")
    p.b.key("Enter")
    p.b.wait("document.querySelectorAll('article').length == 2")
    p.idle()
    same(p.dots()[0], "one more", "an earlier message is edited")
    same(Server.asked[-1][0]["messages"],
         [{"role": "user", "content": "one more"}], "and goes on from there")
    p.b.js("[...document.querySelectorAll('article')][0].querySelector("
           "'button').click()")
    ok(p.dots()[0] == "one" and len(p.dots()) == 4, "what was before is kept")
    return p.dots()


def keeps(p, shown):
    titles = chats_of(p)
    same(titles, ["one", "Hello"], "two conversations")
    p.b.js("document.getElementById('text').focus()")
    p.b.type("not sent yet")
    p.b.reload()
    same((chats_of(p), p.dots()), (titles, shown), "also after a reload")
    same(p.b.js("document.getElementById('text').value"), "not sent yet",
         "with what was not sent")
    p.b.js("document.getElementById('text').value = ''")
    p.b.js("const t = document.getElementById('title'); t.value = 'A name'; "
           "t.dispatchEvent(new Event('change'))")
    same(chats_of(p), ["A name", "Hello"], "renamed")
    p.b.js("document.getElementById('delete').click()")
    same((chats_of(p), p.dots()), (["Hello"], []), "deleted")
    p.press("Undo")
    same((chats_of(p), p.dots()), (["A name", "Hello"], shown), "and back")
    # what would be downloaded goes in again
    p.b.js("window.saved = null; URL.createObjectURL = (x) => { saved = x; "
           "return 'blob:x'; }; HTMLAnchorElement.prototype.click = () => {}; "
           "document.getElementById('export-all').click()")
    got = p.b.js("saved.text()")
    same(sorted(c["title"] for c in json.loads(got)), ["", "A name"],
         "exported as JSON")
    p.b.js(f"localStorage.clear(); chats.clear(); go(start()); "
           f"take([new File([{json.dumps(got)}], 'a.json')])")
    p.b.wait("chats.size == 2")
    same(chats_of(p), ["A name", "Hello"], "and imported")
    p.b.js("document.querySelector('#chats button').click()")
    same(p.dots(), shown, "as it was")
    for bad in "", "[1]", "{}", '{"nodes":{"a":{"up":"a"}},"tip":"a"}', "null":
        p.b.js(f"take([new File([{json.dumps(bad)}], 'a.json')])")
    ok("A name" in chats_of(p), "what is none does no harm")


def set_up(p):
    p.b.click("#new")
    settings(p, system="Be short.", temperature="0.5", top_p="0.9", top_k="20",
             min_p="0.1", repeat_penalty="1.2", max_tokens="77", seed="5",
             thinking="off", key="secret")
    p.say("set")
    q, key = Server.asked[-1]
    same({k: q.get(k) for k in ("temperature", "top_p", "top_k", "min_p",
                                "repeat_penalty", "max_tokens", "seed",
                                "chat_template_kwargs")},
         {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1,
          "repeat_penalty": 1.2, "max_tokens": 77, "seed": 5, "chat_template_kwargs": {"enable_thinking": False}},
         "settings are sent")
    same(q["messages"][0], {"role": "system", "content": "Be short."},
         "the system prompt first")
    same(key, "Bearer secret", "and the key")
    ok("secret" not in p.b.js("JSON.stringify([...chats.values()])"),
       "which is not part of a conversation")
    p.b.js("document.querySelectorAll('#chats button')[1].click()")
    p.say("other")
    same(Server.asked[-1][0]["messages"][0]["role"], "user",
         "other conversations have their own")
    settings(p, key="wrong")
    ok(p.b.wait("document.getElementById('notice').innerText"
                ".startsWith('The server asks for an API key.')"),
       "a wrong key is told at once")
    settings(p, key="")
    ok(p.b.js("document.getElementById('notice').hidden"), "and then no more")


def markdown(p):
    p.b.click("#new")
    p.say("markdown")
    md = "[...document.querySelectorAll('.md')].at(-1)"
    kinds = p.b.js(f"[...{md}.children].map((e) => e.className || e.tagName)")
    same(kinds, ["P", "h1", "OL", "table", "BLOCKQUOTE", "code"], "blocks")
    same(p.b.js(f"[...{md}.querySelectorAll('em, strong, p > code, td code')]"
                ".map((e) => e.innerText)"), ["slanted", "bold", "co<de", "2"],
         "inline")
    same(p.b.js(f"[...{md}.querySelectorAll('a')].map((a) => [a.href, a.rel])"),
         [["https://example.org/a_b?c", "noopener noreferrer"],
          ["https://example.org/", "noopener noreferrer"]],
         "links to http alone, which tell nothing")
    same(p.b.js(f"[...{md}.querySelectorAll('pre')].map((e) => e.textContent)"),
         ["- int a;\n\nint b;", "<script>alert(1)</script>"], "code")
    ok(p.b.js(f"{md}.innerText.includes('<img src=x onerror=alert(1)> *plain* "
              "**open')"), "what it says is never markup")
    same(p.count(".md img, .md script"), 0, "nor an element")
    for name, hostile in HOSTILE.items():
        took = p.b.js(f"(() => {{ const t = performance.now(), d = el('div'); "
                      f"render(d, {json.dumps(hostile)}); "
                      "return performance.now() - t; })()")
        ok(took < 2000, f"{name}: {took:.0f} ms")


def looks(p):
    for width, height in (1200, 800), (360, 640):
        for dark in False, True:
            p.b.look(width, height, dark)
            name = f"{width}-{'dark' if dark else 'light'}"
            same(p.b.js("document.documentElement.scrollWidth"), width,
                 "as wide as the window: " + name)
            p.b.picture(name + ".png")
            light = p.b.js("getComputedStyle(document.body).backgroundColor")
            ok((int(re.findall(r"\d+", light)[0]) < 128) == dark,
               "a look of the system's choice: " + name)
    ok(p.b.js("getComputedStyle(nav).visibility == 'hidden'"),
       "where it is narrow, the list is a drawer")
    p.b.click("#open-chats")
    ok(p.b.wait("nav.contains(document.activeElement)"), "that opens")
    p.b.key("Escape")
    ok(p.b.wait("getComputedStyle(nav).visibility == 'hidden'"), "and closes")
    p.b.look(1200, 800)
    # by the keyboard alone: every control is reached, and shows that it is
    seen = set()
    for _ in range(80):
        p.b.key("Tab")
        seen.add(p.b.js("document.activeElement.id || "
                        "document.activeElement.innerText"))
    same({"new", "import", "title", "open-settings", "More", "text", "send",
          "Copy", "Edit", "Retry"} - seen, set(), "all is reached by Tab")


PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGA"
       "hKmMIQAAAABJRU5ErkJggg==")
FILES = """(() => {
    const of = (text, name) => new File([Uint8Array.from(atob(text),
        (c) => c.charCodeAt(0))], name, { type: "image/png" });
    const all = new DataTransfer();
    for (const f of [%s])
        all.items.add(f);
    return all;
})()"""


def drop(p, *files):
    p.b.js("document.dispatchEvent(new DragEvent('drop', { dataTransfer: " +
           FILES % ",".join(files) + ", cancelable: true, bubbles: true }))")


def sent():
    """The URLs and the texts of the last message that came."""
    parts = Server.asked[-1][0]["messages"][-1]["content"]
    return ([x["image_url"]["url"] for x in parts if x["type"] == "image_url"],
            [x["text"] for x in parts if x["type"] == "text"])


def pictures(p):
    small = f'of("{PNG}", "a.png")'
    p.b.reload()
    ok(p.b.wait("document.getElementById('model').innerText == 'a-model'") and
       p.b.js("document.getElementById('attach').hidden"),
       "a model without images: no button")
    drop(p, small)
    same(p.count("#images img"), 0, "nor are images taken")
    Server.sees = True
    p.b.reload()
    ok(p.b.wait("!document.getElementById('attach').hidden"), "a button, if the "
       "model reads images")
    p.b.click("#new")
    drop(p, small)
    ok(p.b.wait("document.querySelectorAll('#images img').length == 1"),
       "an image is dropped")
    p.b.js("document.getElementById('text').dispatchEvent(new ClipboardEvent("
           "'paste', { clipboardData: " + FILES % small + "}))")
    ok(p.b.wait("document.querySelectorAll('#images img').length == 2"),
       "another is pasted")
    p.b.js("{ const f = document.getElementById('picture'); f.files = (" +
           FILES % small + ").files; f.onchange(); }")
    ok(p.b.wait("document.querySelectorAll('#images img').length == 3"),
       "a third is chosen")
    p.b.click("#images button")
    same(p.count("#images img"), 2, "one is removed")
    ok(p.say("What is it?"), "the message is answered")
    same(sent(), (["data:image/png;base64," + PNG] * 2, ["What is it?"]),
         "its images are sent as they are, in front of the text")
    same((p.count("#images img"), p.count("article.user .images img")), (0, 2),
         "and shown in it")
    p.say("And now?")
    same(Server.asked[-1][0]["messages"][0]["content"][0]["image_url"]["url"],
         "data:image/png;base64," + PNG, "the next turn has them too")
    p.b.reload()
    ok(p.b.wait("document.querySelectorAll('article.user .images img').length == 2"),
       "and the browser keeps them")
    p.b.js("""{ const c = document.createElement("canvas"), t = c.getContext("2d");
    c.width = 3000; c.height = 600;
    const d = t.createImageData(3000, 600);
    for (let i = 0; i < d.data.length; i++)
        d.data[i] = i % 4 == 3 ? 255 : Math.random() * 256;
    t.putImageData(d, 0, 0);
    window.large = c.toDataURL("image/png").split(",")[1]; }""")
    drop(p, 'of(window.large, "large.png")', 'new File(["no"], "no.png", '
         '{ type: "image/png" })')
    ok(p.b.wait("document.querySelectorAll('#images img').length == 1 && "
                "document.getElementById('notice').innerText.startsWith('no.png')"),
       "what is no image is named")
    p.b.js("document.getElementById('send').click()")
    p.idle()
    ok(p.b.wait("document.querySelectorAll('article.user').length == 3"),
       "a message may have images alone")
    (large,), texts = sent()
    same((large[:23], texts), ("data:image/jpeg;base64,", []), "a large one shrinks")


def browser(chromium, url):
    from browser import Browser
    page, headers = get(url)
    Server.page = page.encode()
    Server.policy = headers["Content-Security-Policy"]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    b = Browser(chromium, "profile")
    try:
        b.look(1200, 800)
        p = Page(b, f"http://127.0.0.1:{server.server_port}/")
        streams(p)
        ends(p)
        shown = branches(p)
        keeps(p, shown)
        set_up(p)
        markdown(p)
        looks(p)
        pictures(p)
        b.message(time.time() + 0.1)
        same([f for f in b.faults if "Failed to load resource" not in f], [],
             "no fault is logged, and nothing against the policy")
    finally:
        b.close()
        server.shutdown()


def serve(chromium, url, key):
    """The server itself: two turns, whose second finds the first cached."""
    from browser import Browser
    b = Browser(chromium, "profile")
    try:
        b.look(1200, 800)
        p = Page(b, url)
        ok(p.b.wait("document.getElementById('notice').innerText"
                    ".startsWith('The server asks for an API key.')"),
           "it asks for a key")
        p.say("Who?")
        same(p.text(".error"), "The server asks for an API key, or for another "
             "one: see Settings.", "and answers nobody without")
        p.b.click("#new")
        settings(p, key=key, max_tokens="24")
        ok(p.b.wait("document.getElementById('model').innerText"), "it has a model")
        ok(p.say("Wer reitet so spaet durch Nacht und Wind?"), "it answers")
        same(p.count(".error:not([hidden])"), 0, "without an error")
        ok(p.dots()[1] or p.text(".thoughts:not([hidden]) div"), "with text")
        p.say("Und weiter?")
        m = re.search(r"prompt ([\d,]+), ([\d,]+) cached", p.text(".facts"))
        ok(m and int(m[2].replace(",", "")) > 0, "and knows what was said: " +
           p.text(".facts"))
        b.picture("serve.png")
        same([f for f in b.faults if "status of 401" not in f], [],
             "no fault is logged")
    finally:
        b.close()


if __name__ == "__main__":
    {"text": text, "browser": browser, "serve": serve}[sys.argv[1]](*sys.argv[2:])
