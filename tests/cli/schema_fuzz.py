# SPDX-License-Identifier: ISC
"""Makes random schemas and random texts of their grammars, and validates the texts
with Python's jsonschema: schema_fuzz.py TOOL SEED COUNT."""
import datetime
import json
import re
import random
import subprocess
import sys

import jsonschema

PATTERNS = [
    r"^[a-z]+$", r"^[A-Z]{2,4}-\d{1,3}$", r"b", r"^x|y$", r"^(ab|c)*?$",
    r"^[^\s,]+$", r"^\w+@\w+\.(com|org)$", r"^\S{3}$", r"^.$", r'^["\\/]+$',
    r"^(?:\+?\d{1,3}[ -]?)?\d+$", r"^[äöü\u20ac]x?$", r"(?:a|)\t?$",
    r"\bfoo\b", r"^(?!x)[a-z]*$", r"^(?=.*\d)(?=.*[a-z])[\w-]{2,8}$",
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", r"^[a-z-]+(?<!-)$", r"(^a|b$)",
    r"^a*b*$", r"\Ba",
]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "hostname",
           "uri", "ipv6", "duration", "json-pointer"]
NOTES = ["path", "binary", "regex", "iri", "x"]     # not looked at by anybody
NAMES = ["a", "b", "ab", "abc", "name", "ü", 'q"', "x y", "", "n\n"]
VALUES = [None, True, False, 0, 1, -7, 2.5, 1e3, "", "a", "ab", 'q"\\', "ü\n", [],
          [1, "a"], {}, {"a": [None]}]


def number(r):
    return r.choice([r.randint(-20, 20), r.randint(-5000, 5000),
                     round(r.uniform(-3, 3), r.randint(0, 3)),
                     round(r.uniform(-200, 200), 2)])


def some(r, d, **options):
    """Each of the options, or not."""
    for key, value in options.items():
        if r.random() < 0.4:
            d[key] = value() if callable(value) else value
    return d


def ordered(r, d, low, high, draw):
    a, b = sorted([draw(), draw()])
    if r.random() < 0.6:
        d[low] = a
    if r.random() < 0.6:
        d[high] = b
    return d


def string(r, depth):
    d = {"type": "string"}
    kind = r.random()
    if kind < 0.35:
        return ordered(r, d, "minLength", "maxLength", lambda: r.randint(0, 9))
    if kind < 0.7:
        d["pattern"] = r.choice(PATTERNS)
        return some(r, d, minLength=1) if r.random() < 0.2 else d
    if kind < 0.9:
        d["format"] = r.choice(FORMATS + NOTES)
    if kind < 0.78:
        d["pattern"] = r.choice(PATTERNS)
    if kind > 0.85:
        d["not"] = r.choice([{"const": "a"}, {"enum": ["", "ab", 1]},
                             {"pattern": r.choice(PATTERNS)}])
    return d


def integer(r, depth):
    d = {"type": "integer"}
    low = r.choice(["minimum", "exclusiveMinimum"])
    high = r.choice(["maximum", "exclusiveMaximum"])
    if r.random() < 0.3:
        d["multipleOf"] = r.choice([1, 2, 3, 5, 7, 10, 100, 0.5, 0.25, 0.125])
    if r.random() < 0.1:
        d["not"] = {"enum": [r.randint(-3, 3), 0]}
    return ordered(r, d, low, high, lambda: number(r))


def real(r, depth):
    return dict(integer(r, depth), type="number")


def array(r, depth):
    d = {"type": "array"}
    if r.random() < 0.3:
        d["prefixItems"] = [schema(r, depth + 1)
                            for _ in range(r.randint(1, 3))]
    if r.random() < 0.7:
        d["items"] = schema(r, depth + 1)
    if r.random() < 0.3:
        d["uniqueItems"] = True
        d["items"] = listed(r, depth)
        d.pop("prefixItems", None)
    return ordered(r, d, "minItems", "maxItems", lambda: r.randint(0, 4))


def obj(r, depth):
    d = {"type": "object"}
    names = r.sample(NAMES, r.randint(0, 5))
    if names or r.random() < 0.3:
        d["properties"] = {n: schema(r, depth + 1) for n in names}
    if r.random() < 0.6:
        d["required"] = [n for n in names if r.random() < 0.5]
        if r.random() < 0.1:
            d["required"].append("more")
    if r.random() < 0.4:
        d["additionalProperties"] = r.choice(
            [True, False, schema(r, depth + 1)])
    elif r.random() < 0.2:
        d["unevaluatedProperties"] = r.choice([True, False])
    if r.random() < 0.2:
        d["patternProperties"] = {p: schema(r, depth + 1) for p in
                                  r.sample(PATTERNS, r.randint(1, 2))}
    elif names and r.random() < 0.2:
        d["dependentRequired"] = {r.choice(names): r.sample(NAMES, 1)}
    elif names and r.random() < 0.2:
        some(r, d, then={"required": r.sample(NAMES, 1)},
             **{"else": {"properties": {r.choice(names): False}}})
        d["if"] = {"properties": {r.choice(names): listed(r, depth)}}
    elif not names and r.random() < 0.3:
        d["propertyNames"] = string(r, depth)
    if r.random() < 0.2:
        d["minProperties"] = r.randint(0, 2)
    if r.random() < 0.1:
        d["maxProperties"] = r.randint(0, 6)
    return d


def listed(r, depth):
    if r.random() < 0.3:
        return {"const": r.choice(VALUES)}
    d = {"enum": r.sample(VALUES, r.randint(1, 5))}
    return some(r, d, type=r.choice(["string", "number", "integer", "null"]),
                minLength=1, maximum=2)


def several(r, depth):
    kind = r.choice(["anyOf", "anyOf", "oneOf", "allOf"])
    d = {kind: [schema(r, depth + 1) for _ in range(r.randint(1, 3))]}
    if r.random() < 0.3:
        d.update(r.choice([string, integer, obj])(r, depth + 1))
    return d


def tagged(r, depth):
    """Objects that are told apart by a member."""
    def one(k):
        d = obj(r, depth)
        d.setdefault("properties", {})["kind"] = {"const": k}
        d["required"] = d.get("required", []) + ["kind"]
        for k in ("patternProperties", "propertyNames"):
            d.pop(k, None)
        return d
    return {"oneOf": [one(k) for k in range(r.randint(2, 3))]}


def opposite(r, depth):
    """What not and if make of several keywords."""
    d = {"not": r.choice([string, integer, listed, obj])(r, depth + 1)}
    if r.random() < 0.5:
        d.update(r.choice([string, integer, obj])(r, depth + 1))
    return d


def any_type(r, depth):
    d = {}
    for part in r.sample([string, integer, array, obj], 2):
        d.update(part(r, depth))
    d["type"] = r.sample(["string", "integer", "array", "object", "null",
                          "number", "boolean"], r.randint(1, 4))
    if r.random() < 0.3:
        del d["type"]
    return d


def schema(r, depth=0):
    if depth > 3:
        return r.choice([string, integer, real, listed])(r, depth)
    kind = r.random()
    if kind < 0.05:
        return r.choice([True, {}, {"type": "boolean"}, {"type": "null"}, False])
    if kind < 0.15 and depth > 0:
        return {"$ref": r.choice(["#/$defs/d0", "#/$defs/d1"])}
    return r.choice([string, string, integer, real, array, obj, obj, listed,
                     several, tagged, any_type, opposite])(r, depth)


def is_time(t):
    """jsonschema's own is of an old draft, or is not there."""
    if not isinstance(t, str):
        return True
    t = re.sub(r"\.\d+", "", t)     # Python 3.10 takes three or six digits
    return datetime.time.fromisoformat(t.replace("Z", "+00:00")) is not None


def is_date_time(t):
    if not isinstance(t, str):
        return True
    date, _, time = t.partition("T")
    return datetime.date.fromisoformat(date) is not None and is_time(time)


def main():
    tool, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = texts = bad = 0
    checker = jsonschema.FormatChecker(
        set(FORMATS) & set(jsonschema.FormatChecker.checkers))
    checker.checks("time", ValueError)(is_time)
    checker.checks("date-time", ValueError)(is_date_time)
    for k in range(count):
        r = random.Random(seed * 1000003 + k)
        s = schema(r)
        if not isinstance(s, dict):
            continue
        s["$defs"] = {"d0": schema(r, 1), "d1": obj(r, 1)}
        text = json.dumps(s, ensure_ascii=r.random() < 0.5)
        p = subprocess.run([tool, "-g", str(k), "12"], input=text.encode(),
                           stdout=subprocess.PIPE, timeout=60)
        out = p.stdout.decode()
        if p.returncode == 1:
            continue            # refused, with a reason
        if p.returncode != 0:
            print("status", p.returncode, text, out[-200:])
            bad += 1
            continue
        made += 1
        v = jsonschema.Draft202012Validator(s, format_checker=checker)
        for line in out.split("\n")[:-1]:
            texts += 1
            try:
                e = next(v.iter_errors(json.loads(line)), None)
            except Exception as x:
                e = x
            bad += e is not None
            if e is not None and bad < 4:
                print("schema", text, "\ntext", line, "\nerror",
                      str(e).split("\n")[0])
    print("%d schemas, %d made, %d texts, %d bad" % (count, made, texts, bad))
    return bad > 0 or texts < count


if __name__ == "__main__":
    sys.exit(main())
