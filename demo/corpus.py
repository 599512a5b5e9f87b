# SPDX-License-Identifier: ISC
"""The training text (King James Bible) and the tokenizer made from it.

The text comes from the Debian packages bible-kjv and bible-kjv-text: the
program `bible` prints all verses.  A book becomes a document: chapter
headings and one verse a line.  Two whole books are held out.

Training has two parts.  The first reads the books, with conversations and
greeted texts between them (prepare).  The second, Mixture, adds many short
documents, so that the model also learns to answer a line and to stop.
"""
import json
import os
import random
import re
import subprocess

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

BOOKS = {
    "Ge": "Genesis", "Exo": "Exodus", "Lev": "Leviticus", "Num": "Numbers", "Deu": "Deuteronomy", "Josh": "Joshua",
    "Jdgs": "Judges", "Ruth": "Ruth", "1Sm": "1 Samuel", "2Sm": "2 Samuel", "1Ki": "1 Kings", "2Ki": "2 Kings",
    "1Chr": "1 Chronicles", "2Chr": "2 Chronicles", "Ezra": "Ezra", "Neh": "Nehemiah", "Est": "Esther", "Job": "Job",
    "Psa": "Psalm", "Prv": "Proverbs", "Eccl": "Ecclesiastes", "SSol": "Song of Solomon", "Isa": "Isaiah",
    "Jer": "Jeremiah", "Lam": "Lamentations", "Eze": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Joel": "Joel",
    "Amos": "Amos", "Obad": "Obadiah", "Jonah": "Jonah", "Mic": "Micah", "Nahum": "Nahum", "Hab": "Habakkuk",
    "Zep": "Zephaniah", "Hag": "Haggai", "Zec": "Zechariah", "Mal": "Malachi", "Mat": "Matthew", "Mark": "Mark",
    "Luke": "Luke", "John": "John", "Acts": "Acts", "Rom": "Romans", "1Cor": "1 Corinthians", "2Cor": "2 Corinthians",
    "Gal": "Galatians", "Eph": "Ephesians", "Phi": "Philippians", "Col": "Colossians", "1Th": "1 Thessalonians",
    "2Th": "2 Thessalonians", "1Tim": "1 Timothy", "2Tim": "2 Timothy", "Titus": "Titus", "Phmn": "Philemon",
    "Heb": "Hebrews", "Jas": "James", "1Pet": "1 Peter", "2Pet": "2 Peter", "1Jn": "1 John", "2Jn": "2 John",
    "3Jn": "3 John", "Jude": "Jude", "Rev": "Revelation"}
HELD_OUT = ("Josh", "1Cor")
CHATS = 1000                # made-up conversations of two turns: a verse, answered by the verses after it
PLAIN = 500                 # and short documents that begin with a greeting and go on with verses
GREETINGS = ("hi", "Hi", "hello", "Hello", "Hi!", "Hello!", "Hello.", "hello, world", "Hello, world!", "test",
             "Tell me something.", "Say something.", "Tell me a story.", "Who are you?", "Good morning!",
             "Once upon a time")

# The second part of training: what a batch row is made of, and the documents in a row of short ones.
LONG_ROWS = 0.25            # rows of running text; the others are filled with short documents
DOCUMENTS = (("greeted", 0.25), ("passage", 0.35), ("verses", 0.37), ("chat", 0.03))
N_VERSES = ((1, 0.40), (2, 0.45), (3, 0.15))      # of a "verses" document
BROKEN = 0.4                # of the passages and verses have a newline after their first words
# Passages met again and again, which the model partly learns by heart: book, chapter, first and last verse.
PASSAGES = (
    ("Ge", 1, 1, 3), ("Ge", 1, 26, 27), ("Ruth", 1, 16, 17), ("1Ki", 19, 11, 12), ("1Chr", 15, 2, 2),
    ("Psa", 1, 1, 3), ("Psa", 8, 3, 5), ("Psa", 19, 1, 3), ("Psa", 23, 1, 3), ("Psa", 23, 4, 6), ("Psa", 46, 1, 3),
    ("Psa", 100, 1, 3), ("Psa", 136, 1, 3), ("Prv", 3, 5, 6), ("Prv", 15, 1, 2), ("Eccl", 1, 2, 4), ("Eccl", 3, 1, 4),
    ("SSol", 2, 10, 12), ("Isa", 9, 6, 6), ("Isa", 40, 30, 31), ("Mic", 6, 8, 8), ("Mat", 5, 3, 6),
    ("Mat", 5, 14, 16), ("Mat", 6, 9, 13), ("Mat", 6, 28, 29), ("Mat", 7, 7, 8), ("Luke", 2, 1, 3),
    ("Luke", 2, 8, 11), ("John", 1, 1, 5), ("John", 3, 16, 17), ("John", 8, 12, 12), ("Rom", 8, 38, 39),
    ("Gal", 5, 22, 23), ("Phi", 4, 4, 7), ("Heb", 11, 1, 3), ("1Jn", 4, 7, 8), ("Rev", 21, 3, 4))
# Lines that are not scripture, in small letters and without the mark at the end, the commonest first, and the
# passages that answer them.
ANSWERS = (
    (("hi", "hello", "hey", "hi there", "hello there", "hey there", "hello, world", "hello world", "greetings",
      "dear reader", "good day", "good evening", "nice to meet you", "welcome", "peace"),
     (("Num", 6, 24, 26), ("3Jn", 1, 14, 14), ("3Jn", 1, 2, 2), ("Ruth", 2, 4, 4), ("John", 14, 27, 27),
      ("2Th", 3, 16, 16), ("Heb", 13, 1, 2), ("Rom", 15, 13, 13), ("Psa", 133, 1, 1))),
    (("good morning", "what a day", "what day is it"), (("Psa", 118, 24, 24), ("Lam", 3, 22, 23))),
    (("good night", "sleep well"), (("Psa", 4, 8, 8),)),
    (("how are you", "are you well", "how do you do"), (("3Jn", 1, 2, 2), ("Mat", 11, 28, 30))),
    (("who are you", "what are you", "what is your name"), (("John", 1, 23, 23),)),
    (("tell me a story", "once upon a time", "a story", "there was a man"),
     (("Eccl", 9, 14, 15), ("Mat", 13, 31, 32), ("Job", 1, 1, 1), ("Mark", 4, 3, 6))),
    (("say something", "tell me something", "speak", "write something", "talk to me"),
     (("Eccl", 11, 1, 1), ("Prv", 25, 11, 11), ("Mat", 7, 12, 12))),
    (("test", "testing", "this is a test", "foo", "foo bar"), (("1Th", 5, 21, 21), ("Jas", 1, 3, 4))),
    (("help", "help me", "i need help"), (("Psa", 121, 1, 3),)),
    (("thank you", "thanks"), (("Psa", 107, 1, 1), ("1Th", 5, 16, 18))),
    (("bye", "goodbye", "farewell", "see you"), (("2Cor", 13, 11, 11), ("Psa", 121, 8, 8))))

N_VOCAB = 4096
N_PADDING = 8               # UNUSED entries at the end of the vocabulary
# As in the Qwen vocabularies: (text, type), type 3 CONTROL, 4 USER_DEFINED.
SPECIALS = [("<|endoftext|>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3), ("<|vision_pad|>", 3),
            ("<tool_call>", 4), ("</tool_call>", 4), ("<|fim_prefix|>", 3), ("<|fim_middle|>", 3),
            ("<|fim_suffix|>", 3), ("<|fim_pad|>", 3), ("<|repo_name|>", 3), ("<|file_sep|>", 3),
            ("<tool_response>", 4), ("</tool_response>", 4), ("<think>", 4), ("</think>", 4)]
QWEN35_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def read_verses():
    """{book: {chapter: [verse text, ...]}} from the Debian program `bible`."""
    out = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True, text=True).stdout
    books = {}
    for line in out.splitlines():
        book, chapter, text = re.fullmatch(r"(\d?[A-Za-z]+)(\d+):\d+ (.*)", line).groups()
        books.setdefault(book, {}).setdefault(int(chapter), []).append(text.strip())
    assert list(books) == list(BOOKS)
    return books


def document(book, chapters):
    return "\n".join(f"{BOOKS[book]} {n}\n\n" + "".join(v + "\n" for v in verses)
                     for n, verses in chapters.items())


def chat(user, assistant):
    return f"<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{assistant}<|im_end|>\n"


def extras(books, rng):
    """Documents besides the books.  Conversations over the training books: the user quotes a verse or its beginning (or
    greets), the assistant goes on.  And plain texts that begin with a greeting."""
    runs = [v for name, chapters in books.items() if name not in HELD_OUT for v in chapters.values() if len(v) > 3]
    out = []
    for _ in range(CHATS):
        verses = rng.choice(runs)
        i = rng.randrange(len(verses) - 1)
        answer = verses[i + 1:i + 1 + rng.randint(1, 3)]
        user = verses[i]
        form = rng.random()
        if form < 0.15:
            user = rng.choice(GREETINGS)
        elif form < 0.5:
            words = user.split()
            cut = rng.randint(1, min(8, len(words)))
            user, answer = " ".join(words[:cut]), [user] + answer[:1]
        out.append(chat(user, " ".join(answer)))
    for _ in range(PLAIN):
        verses = rng.choice(runs)
        i = rng.randrange(len(verses) - 3)
        out.append(rng.choice(GREETINGS) + rng.choice(("\n", "\n\n")) + "\n".join(verses[i:i + 4]) + "\n")
    rng.shuffle(out)
    return out


class Tokenizer:
    """Byte-level BPE with the qwen35 split; ids: 256 bytes, merges, special tokens, padding."""

    def __init__(self, merges):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        self.merges = merges
        self.tokens = alphabet + ["".join(m) for m in merges]
        self.types = [1] * len(self.tokens)
        for text, kind in SPECIALS:
            self.tokens.append(text)
            self.types.append(kind)
        while len(self.tokens) < N_VOCAB:
            self.tokens.append(f"[PAD{len(self.tokens)}]")
            self.types.append(5)
        ids = {t: i for i, t in enumerate(self.tokens)}
        assert len(ids) == N_VOCAB
        n_plain = len(alphabet) + len(merges)
        self.hf = tokenizers.Tokenizer(models.BPE({t: i for t, i in ids.items() if i < n_plain}, merges))
        self.hf.pre_tokenizer = splitter()
        self.hf.decoder = decoders.ByteLevel()
        self.hf.add_special_tokens([t for t, _ in SPECIALS])
        assert all(self.hf.token_to_id(t) == ids[t] for t, _ in SPECIALS)
        self.eot, self.im_end = ids["<|endoftext|>"], ids["<|im_end|>"]

    def encode(self, text):
        return self.hf.encode(text).ids

    def decode(self, ids):
        return self.hf.decode(ids, skip_special_tokens=False)


def splitter():
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(QWEN35_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_tokenizer(texts):
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = splitter()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=N_VOCAB - len(SPECIALS) - N_PADDING, initial_alphabet=alphabet, show_progress=False))
    return [tuple(m) for m in json.loads(bpe.to_str())["model"]["merges"]]


def pick(weighted, rng):
    return rng.choices([x for x, _ in weighted], [w for _, w in weighted])[0]


class Mixture:
    """Endless rows for the second part of training: running text, and short documents packed one after the other.

    A row of short documents begins where a document begins, as a prompt
    does.  A short document is a passage, at random with a newline after its
    first words, so that a line cut off anywhere is gone on with; or a line
    of other English answered by a passage; or a conversation of these.
    """

    def __init__(self, tokenizer, seed):
        self.tokenizer, self.rng = tokenizer, random.Random(seed)
        self.books = {name: chapters for name, chapters in read_verses().items() if name not in HELD_OUT}
        self.runs = [v for chapters in self.books.values() for v in chapters.values()]
        self.run_weights = [len(v) for v in self.runs]
        self.stream = [t for name, chapters in self.books.items()
                       for t in tokenizer.encode(document(name, chapters)) + [tokenizer.eot]]

    def passage(self, book, chapter, first, last):
        return self.books[book][chapter][first - 1:last]

    def verses(self):
        """Neighbouring verses from anywhere, a few more where they would end within a sentence."""
        run = self.rng.choices(self.runs, self.run_weights)[0]
        at = self.rng.randrange(len(run))
        end = wanted = min(at + pick(N_VERSES, self.rng), len(run))
        while end < min(wanted + 3, len(run)) and not run[end - 1].endswith((".", "?", "!")):
            end += 1
        return run[at:end]

    def broken(self, verses):
        """The beginning of the first verse, and the rest."""
        words = verses[0].split(" ")
        if len(words) < 2:
            return verses[0], verses[1:]
        cut = self.rng.randint(1, min(len(words) - 1, 10))
        return " ".join(words[:cut]), [" ".join(words[cut:])] + verses[1:]

    def greeted(self):
        """A line of everyday English, now and then written another way, and its answer."""
        lines, answers = self.rng.choices(ANSWERS, [len(lines) + len(answers) for lines, answers in ANSWERS])[0]
        line = self.rng.choices(lines, [8, 4, 2] + [1] * len(lines[3:]) if lines[2:] else None)[0]
        question = line.split()[0] in ("who", "what", "how", "are")
        form = self.rng.random()
        if form < 0.5:
            line = line[0].upper() + line[1:]
        if 0.25 < form < 0.75:
            line += self.rng.choice("??." if question else "!.")
        return line, self.passage(*self.rng.choice(answers))

    def document(self):
        kind, rng = pick(DOCUMENTS, self.rng), self.rng
        if kind == "greeted":
            line, rest = self.greeted()
            return line + "\n" + "\n".join(rest) + "\n"
        if kind == "chat":
            line, rest = self.greeted() if rng.random() < 0.5 else self.broken(self.verses())
            return chat(line, "\n".join(rest))
        verses = self.passage(*rng.choice(PASSAGES)) if kind == "passage" else self.verses()
        if rng.random() < BROKEN:
            line, verses = self.broken(verses)
            verses = [line] + verses
        return "\n".join(verses) + "\n"

    def row(self, n):
        """n token ids."""
        if self.rng.random() < LONG_ROWS:
            at = self.rng.randrange(len(self.stream) - n)
            return self.stream[at:at + n]
        ids = []
        while len(ids) < n:
            ids += self.tokenizer.encode(self.document()) + [self.tokenizer.eot]
        return ids[:n]


def prepare(work, seed=1):
    """Makes (or reads back) work/corpus.npz; returns tokenizer, training ids, held-out ids, byte counts."""
    path = os.path.join(work, "corpus.npz")
    if not os.path.exists(path):
        books, rng = read_verses(), random.Random(seed)
        train = [document(b, c) for b, c in books.items() if b not in HELD_OUT]
        held_out = [document(b, books[b]) for b in HELD_OUT]
        merges = train_tokenizer(train)
        tok = Tokenizer(merges)
        talk = extras(books, rng)
        per_book = -(-len(talk) // len(train))
        stream = []
        for i, text in enumerate(train):
            stream += tok.encode(text) + [tok.eot]
            for t in talk[i * per_book:(i + 1) * per_book]:
                stream += tok.encode(t) + [tok.eot]
        held = [t for text in held_out for t in tok.encode(text) + [tok.eot]]
        assert tok.decode(tok.encode(train[0])) == train[0]
        np.savez(path, merges=np.array(merges), train=np.array(stream, np.int32), held=np.array(held, np.int32),
                 sizes=np.array([sum(map(len, t)) for t in (train, talk, held_out)]))
    z = np.load(path)
    return Tokenizer([tuple(map(str, m)) for m in z["merges"]]), z["train"], z["held"], z["sizes"].tolist()
