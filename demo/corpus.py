# SPDX-License-Identifier: ISC
"""The training text (King James Bible) and the tokenizer made from it.

The text comes from the Debian packages bible-kjv and bible-kjv-text: the
program `bible` prints all verses.  A book becomes a document: chapter
headings and one verse a line.  Two whole books are held out.
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
        elif form < 0.6:
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
