# report.py - shared by the client tests, each of which is started as
#   python CLIENT.py URL KEY demo|real
# and prints a line "0 name" for a success, "1 name" for a failure, with the reason
# on stderr.  The demo model writes nonsense: with it, only the guarantees of the
# server are tested.  REAL is true if the model can follow an instruction.
import json, os, sys, traceback, urllib.request, warnings

warnings.filterwarnings("ignore")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"    # no look for another one
URL, KEY = sys.argv[1].rstrip("/"), sys.argv[2]
V1 = URL + "/v1"
REAL = sys.argv[3] == "real"
HI = [{"role": "user", "content": "Say hi"}]
WEATHER = "What is the weather in Oslo?"
# more tokens than any context in these tests
LONG = "x y " * 20000


def ok(what, name):
    print(0 if what else 1, name, flush=True)


def works(name, f, want=None):
    """f returns; its result is true, or satisfies want()."""
    try:
        got = f()
        good = want(got) if want else got
        ok(good, name)
        if not good:
            print(f"{name}: {got!r:.400}", file=sys.stderr)
        return got
    except BaseException as e:
        ok(False, name)
        print(f"{name}: {type(e).__name__}: {e!s:.600}", file=sys.stderr)
        traceback.print_exc(limit=-2, chain=False)


def refused(name, f, error, said=""):
    """f throws this class of the client's own, which says this."""
    try:
        got = f()
        ok(False, f"{name}: not refused")
        print(f"{name}: {got!r:.300}", file=sys.stderr)
    except Exception as e:
        good = isinstance(e, error) and said in str(e)
        ok(good, name)
        if not good:
            print(f"{name}: {type(e).__name__}: {e!s:.600}",
                  file=sys.stderr)


def post(path, body, timeout=300):
    """Status and JSON of the answer."""
    r = urllib.request.Request(URL + path, json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
    try:
        with urllib.request.urlopen(r, timeout=timeout) as a:
            return a.status, json.load(a)
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())
