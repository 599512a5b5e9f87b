# browser.py - a page in headless Chromium, by the DevTools protocol over pipes:
#   b = Browser("chromium", "profile"); b.open(url); b.click("#send"); ...
# b.faults has the errors that the page logs or throws.
import base64, json, os, select, signal, subprocess, time


class Browser:
    def __init__(self, program, profile):
        to_r, self.to = os.pipe()
        self.of, of_w = os.pipe()

        def pipes():
            # the protocol's: 3 to read and 4 to write; via numbers above
            a, b = os.dup2(to_r, 50), os.dup2(of_w, 51)
            os.dup2(a, 3), os.dup2(b, 4)

        self.child = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update",
             "--disable-extensions", "--remote-debugging-pipe",
             "--user-data-dir=" + os.path.abspath(profile)],
            preexec_fn=pipes, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_r), os.close(of_w)
        self.held, self.number, self.session = b"", 0, None
        self.faults = []
        target = self.call("Target.createTarget", url="about:blank")
        self.session = self.call("Target.attachToTarget", flatten=True,
                                 targetId=target["targetId"])["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(domain + ".enable")

    def close(self):
        try:
            os.close(self.to)
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        os.close(self.of)

    def message(self, until):
        """The next one, or None after that time."""
        while b"\0" not in self.held:
            left = until - time.time()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                return None
            more = os.read(self.of, 1 << 16)
            if not more:
                raise RuntimeError("the browser ended")
            self.held += more
        one, self.held = self.held.split(b"\0", 1)
        m = json.loads(one)
        what = m.get("method")
        if what == "Runtime.exceptionThrown":
            d = m["params"]["exceptionDetails"]
            self.faults.append(d.get("exception", {}).get("description")
                               or d["text"])
        elif what == "Log.entryAdded":
            e = m["params"]["entry"]
            if e["level"] == "error":
                self.faults.append(e["text"])
        return m

    def call(self, method, **params):
        self.number += 1
        m = {"id": self.number, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        os.write(self.to, json.dumps(m).encode() + b"\0")
        until = time.time() + 60
        while True:
            got = self.message(until)
            if got is None:
                raise RuntimeError(method + ": no answer")
            if got.get("id") == self.number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState == 'complete'")

    def reload(self):
        self.js("window.old = true")
        self.call("Page.reload")
        self.wait("!window.old && document.readyState == 'complete'")

    def js(self, code):
        got = self.call("Runtime.evaluate", expression=code,
                        returnByValue=True, awaitPromise=True,
                        userGesture=True)
        if "exceptionDetails" in got:
            d = got["exceptionDetails"]
            raise RuntimeError(code + ": " +
                               d.get("exception", {}).get("description", ""))
        return got["result"].get("value")

    def wait(self, code, seconds=20):
        """Whether it comes true."""
        until = time.time() + seconds
        while time.time() < until:
            try:
                if self.js(code):
                    return True
            except RuntimeError:
                pass    # between two pages
            self.message(time.time() + 0.05)
        return False

    def click(self, selector):
        """With a mouse, where it is."""
        at = self.js("(() => { const e = document.querySelector(%s); "
                     "e.scrollIntoView({block: 'nearest'}); "
                     "const r = e.getBoundingClientRect(); "
                     "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
                     % json.dumps(selector))
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1],
                      button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, shift=False):
        code = {"Enter": 13, "Escape": 27, "Tab": 9}[name]
        text = "\r" if name == "Enter" else ""
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code, modifiers=8 if shift else 0,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def look(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(
                self.call("Page.captureScreenshot")["data"]))
