# SPDX-License-Identifier: ISC
# hubs.py FOLDER: servers on 127.0.0.1 that play Hugging Face, ModelScope and
# Ollama's registry, for gguf-fetch*.t.  Python's standard library alone.
#
# The servers read these files in FOLDER, anew at each request:
#   repos/ORG/NAME/COMMIT/PATH  repositories of Hugging Face and ModelScope
#   repos/ORG/NAME/refs/BRANCH  the commit of a branch; without refs/main, main is
#                               the only commit
#   repos/ORG/NAME/gated        the token that may download files
#   repos/ORG/NAME/private      the token that may see the repository
#   repos/ORG/NAME/moved        the new name of a renamed repository
#   ollama/SPACE/NAME/TAG/KIND  the layers of a model: model, projector, ...
#   rules                       faults to make, as below
# They write these:
#   ca.pem     the certificate of the authority that signed theirs
#   addresses  shell variables: HUB serves everything; CDN, on another host and
#              port, is where HUB sends clients for large files; PLAIN has no TLS
#              and is also a proxy; UNTRUSTED has a self-signed certificate;
#              MISNAMED has a certificate for another host
#   log        a line for each request: SERVER METHOD PATH STATUS and some headers,
#              as in "Range:bytes=5-", with "_" for each blank
#
# A line of rules is "[N*]GLOB ACTION [ARGUMENT]".  It applies to requests whose
# "SERVER:METHOD:PATH" matches GLOB ("?" stands for a blank), to the first N of them
# if N is given.  All lines that match apply.  Actions:
#   status N [HEADER:VALUE]  reply with this status and no body
#   redirect URL             reply with status 302 and this Location
#   body FILE                reply with status 200 and the bytes of this file
#   header NAME:VALUE        add or replace this header
#   nolength                 send no Content-Length; the connection ends the body
#   cut N                    close the connection after N bytes of the body
#   size N                   cut the body to N bytes, or fill it with zeros up to N;
#                            the headers agree with that
#   slow N                   send N bytes of the body a second
#   stall N                  send N bytes of the body, and then nothing
#   flip N                   change a bit of byte N of the body
#   norange                  reply with the whole file to a request for a range
#   shift N                  begin a range N bytes later than asked
#   gzip                     compress the body
#   chaos SEED               at a third of the requests, one of these at random
#   sh COMMAND               run a shell command in FOLDER before the reply
import email.utils
import fnmatch
import functools
import gzip
import hashlib
import http.server
import json
import os
import random
import re
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

FOLDER = os.path.abspath(sys.argv[1])
PAGE = 5		# files on a page of a listing
SMALL = 1000		# bytes up to which a file is in git itself, not in LFS
lock = threading.Lock()
used = {}		# rule: how often it has been applied
chaos = {}		# seed: numbers
sums = {}		# (path, time, size): its hashes
blobs = {}		# sha256: bytes
address = {}


def read(*path):
	"""The text of a file in FOLDER, or None."""
	try:
		with open(os.path.join(FOLDER, *path), encoding="utf-8") as f:
			return f.read().strip()
	except (OSError, UnicodeDecodeError):
		return None


def load(path):
	with open(path, "rb") as f:
		return f.read()


@functools.lru_cache(None)
def parsed(line):
	"""A line of rules: how often, for which requests, what."""
	glob, action, arg = (line.split(" ", 2) + ["", ""])[:3]
	n, star, rest = glob.partition("*")
	times = int(n) if star and n.isdigit() else None
	return times, re.compile(fnmatch.translate(glob if times is None else
	    rest)), action, arg


def hashes(path):
	"""The sha256 of a file, and the sha1 that git gives it."""
	s = os.stat(path)
	key = path, s.st_mtime_ns, s.st_size
	if key not in sums:
		data = load(path)
		sums[key] = (hashlib.sha256(data).hexdigest(),
		    hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())
		blobs[sums[key][0]] = data
	return sums[key]


class Refused(Exception):
	def __init__(self, status, code="", message=""):
		self.status, self.code, self.message = status, code, message


class Repo:
	"""A revision of a repository; raises Refused if there is none."""

	def __init__(self, name, rev, token):
		self.name = name
		self.folder = os.path.join(FOLDER, "repos", name)
		private = read("repos", name, "private")
		if not os.path.isdir(self.folder) or \
		    private is not None and private != token:
			raise Refused(404 if token else 401, "RepoNotFound",
			    "Repository not found")
		self.gated = read("repos", name, "gated")
		self.refused = self.gated is not None and self.gated != token
		refs = os.path.join(self.folder, "refs")
		self.refs = {os.path.relpath(os.path.join(top, f), refs):
		    read(top, f) for top, _, files in os.walk(refs)
		    for f in files}
		commits = [c for c in os.listdir(self.folder)
		    if re.fullmatch("[0-9a-f]{40}", c)]
		if "main" not in self.refs and len(commits) == 1:
			self.refs["main"] = commits[0]
		rev = "main" if rev == "master" else rev
		self.commit = self.refs.get(rev, rev)
		if self.commit not in commits:
			raise Refused(404, "RevisionNotFound",
			    "Invalid rev id: " + rev)
		self.top = os.path.join(self.folder, self.commit)

	def file(self, path):
		"""Its full path, which stays in the repository."""
		full = os.path.normpath(os.path.join(self.top, path))
		if not full.startswith(self.top + "/") or not os.path.isfile(full):
			raise Refused(404, "EntryNotFound", "Entry not found")
		return full

	def paths(self):
		out = []
		for top, folders, files in os.walk(self.top):
			out += [os.path.relpath(os.path.join(top, f), self.top)
			    for f in files + folders]
		return sorted(out)

	def entry(self, path):
		"""What the hub's listing has of a path."""
		full = os.path.join(self.top, path)
		if os.path.isdir(full):
			return {"type": "directory", "path": path, "size": 0,
			    "oid": hashlib.sha1(path.encode()).hexdigest()}
		sha256, sha1 = hashes(full)
		size = os.path.getsize(full)
		out = {"type": "file", "path": path, "size": size, "oid": sha1}
		if size > SMALL:
			out["lfs"] = {"oid": sha256, "size": size,
			    "pointerSize": 134}
		return out


class Handler(http.server.BaseHTTPRequestHandler):
	protocol_version = "HTTP/1.1"
	disable_nagle_algorithm = True

	def log_message(self, *args):
		pass

	def log_reply(self, status):
		words = [self.server.name, self.command, self.path, str(status)]
		for h in ("Range", "Authorization", "Cookie", "Accept-Encoding",
		    "Accept", "Host", "User-Agent", "If-Range"):
			if h in self.headers:
				words.append(h + ":" + self.headers[h].replace(" ", "_"))
		with lock, open(os.path.join(FOLDER, "log"), "a") as f:
			f.write(" ".join(words) + "\n")

	def rules(self):
		"""The rules for this request: [(action, argument)]."""
		key = "%s:%s:%s" % (self.server.name, self.command, self.path)
		out = []
		for line in (read("rules") or "").splitlines():
			times, pattern, action, arg = parsed(line)
			if not pattern.match(key):
				continue
			with lock:
				used[line] = used.get(line, 0) + 1
				if times is not None and used[line] > times:
					continue
			out.append((action, arg))
		return [self.any_wrong(arg) if action == "chaos" else
		    (action, arg) for action, arg in out]

	@staticmethod
	def any_wrong(seed):
		with lock:
			draw = chaos.setdefault(seed, random.Random(seed))
			if draw.random() > 0.35:
				return "header", "X-Chaos:no"
			n = str(draw.randrange(25000))
			return draw.choice([("cut", n), ("cut", "0"), ("cut", n),
			    ("flip", n), ("size", n), ("norange", ""),
			    ("shift", "1"), ("gzip", ""), ("nolength", ""),
			    ("status", "500"), ("status", "403"),
			    ("status", "404"), ("status", "416"),
			    ("status", "429 Retry-After:0"),
			    ("redirect", "/nowhere"), ("body", "chaos.json")])

	# ------------------------------------------------------------- replies

	def reply(self, status, data=b"", headers=(), file=False):
		"""The body, or a file, of which parts may be had, gone wrong."""
		headers = dict(headers)
		wrong = dict(r for r in self.wrong if r[0] != "header")
		if "flip" in wrong and data:
			data = bytearray(data)
			data[int(wrong["flip"]) % len(data)] ^= 1
		if "size" in wrong:
			n = int(wrong["size"])
			data = bytes(data[:n]) + bytes(max(0, n - len(data)))
		whole = len(data)
		wanted = re.fullmatch(r"bytes=(\d+)-(\d*)",
		    self.headers.get("Range", ""))
		if file and wanted and status == 200 and "norange" not in wrong:
			first = int(wanted[1]) + int(wrong.get("shift", 0))
			last = min(int(wanted[2] or whole), whole - 1)
			if first >= whole:
				status, data = 416, b""
				headers["Content-Range"] = "bytes */%d" % whole
			else:
				status, data = 206, data[first:last + 1]
				headers["Content-Range"] = "bytes %d-%d/%d" % (
				    first, last, whole)
		if file:
			headers.setdefault("Accept-Ranges", "bytes")
		if "gzip" in wrong:
			data = gzip.compress(bytes(data))
			headers["Content-Encoding"] = "gzip"
		if "nolength" in wrong:
			headers["Connection"] = "close"
			self.close_connection = True
		else:
			headers.setdefault("Content-Length", str(len(data)))
		headers.update(r[1].split(":", 1) for r in self.wrong
		    if r[0] == "header")
		self.send_response_only(status)
		self.send_header("Date", email.utils.formatdate(usegmt=True))
		for h in headers.items():
			self.send_header(*h)
		self.log_reply(status)
		try:
			self.end_headers()
			if self.command != "HEAD":
				self.send(data, wrong)
		except OSError:
			self.close_connection = True

	def send(self, data, wrong):
		end = len(data)
		for a in ("cut", "stall"):
			if a in wrong:
				end = min(end, int(wrong[a]))
		step = max(1, int(wrong["slow"]) // 20) if "slow" in wrong else 1 << 16
		for at in range(0, end, step):
			self.wfile.write(data[at:min(at + step, end)])
			if "slow" in wrong:
				time.sleep(0.05)
		self.wfile.flush()
		if "stall" in wrong:	# until the client is gone
			self.connection.settimeout(120)
			self.connection.recv(1)
		if "cut" in wrong or "stall" in wrong:
			self.close_connection = True
			self.connection.close()

	def json(self, value, headers=(), status=200):
		self.reply(status, json.dumps(value).encode(),
		    {"Content-Type": "application/json", **dict(headers)})

	def redirect(self, url, status=302, headers=()):
		self.reply(status, b"", {"Location": url, **dict(headers)})

	def to_cdn(self, name, sha256, headers=(), status=302):
		"""A signed address, another one each time."""
		self.redirect("%s/%s/%s?Expires=1&Signature=%s" % (address["CDN"],
		    name, sha256, os.urandom(6).hex()), status, headers)

	# ------------------------------------------------------------ requests

	def do_GET(self):
		n = int(self.headers.get("Content-Length") or 0)
		self.sent = self.rfile.read(n)
		self.wrong = self.rules()
		for action, arg in self.wrong:
			if action == "sh":
				subprocess.run(arg, shell=True, cwd=FOLDER)
		for action, arg in self.wrong:
			if action == "status":
				status, *h = arg.split(" ", 1)
				return self.reply(int(status), b"",
				    [h[0].split(":", 1)] if h else ())
			if action == "redirect":
				return self.redirect(arg)
			if action == "body":
				return self.reply(200,
				    load(os.path.join(FOLDER, arg)))
		try:
			self.route()
		except Refused as e:
			self.refuse(e)

	do_HEAD = do_GET
	do_POST = do_GET

	def refuse(self, e):
		if "/v2/" in self.path:
			return self.json({"errors": [{"code": "MANIFEST_UNKNOWN",
			    "message": "manifest unknown"}]}, (), e.status)
		if self.path.startswith("/api/v1/"):
			return self.json({"Code": 10010205001, "Success": False,
			    "Message": e.message, "Data": None}, (),
			    404 if e.status == 401 else e.status)
		self.json({"error": e.message}, {"X-Error-Code": e.code,
		    "X-Error-Message": e.message}, e.status)

	def token(self):
		kind, _, token = self.headers.get("Authorization", "").partition(" ")
		return token if kind == "Bearer" else None

	def route(self):
		url = urllib.parse.urlsplit(self.path)
		self.query = {k: v[0] for k, v in
		    urllib.parse.parse_qs(url.query).items()}
		path = url.path
		# HF_ENDPOINT may have a path
		self.prefix = "/mirror" if path.startswith("/mirror/") else ""
		path = path[len(self.prefix):]
		if self.server.name == "cdn":
			return self.blob(path.rpartition("/")[2])
		for pattern, serve in (
		    ("/api/v1/models/([^/]+/[^/]+)/repo/files", self.ms_files),
		    ("/api/v1/models/([^/]+/[^/]+)/repo", self.ms_file),
		    ("/api/v1/models/([^/]+/[^/]+)/revisions", self.ms_refs),
		    ("/models/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.ms_file),
		    ("/v2/(.+)/manifests/([^/]+)", self.manifest),
		    ("/v2/(.+)/blobs/sha256:([0-9a-f]{64})", self.layer),
		    ("/api/models/([^/]+/[^/]+)(?:/(refs|revision|tree|"
		     "paths-info)(?:/([^/]+))?)?(?:/(.*))?", self.hf_api),
		    ("/api/resolve-cache/models/([^/]+/[^/]+)/([^/]+)/(.+)",
		     self.hf_small),
		    ("/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.hf_resolve)):
			m = re.fullmatch(pattern, path)
			if m:
				return serve(*[urllib.parse.unquote(g or "")
				    for g in m.groups()])
		raise Refused(404, "", "no such page")

	def blob(self, sha256):
		if sha256 not in blobs:
			raise Refused(404, "", "no such blob")
		self.reply(200, blobs[sha256], {"ETag": '"%s"' % hashlib.md5(
		    sha256.encode()).hexdigest()}, True)

	# -------------------------------------------------------- Hugging Face

	def hf_repo(self, name, rev):
		"""The repository; None if the client was sent to its new name."""
		moved = read("repos", name, "moved")
		if moved is None:
			return Repo(name, rev, self.token())
		self.redirect(self.path.replace(name, moved, 1), 307)

	def hf_api(self, name, what, rev, rest):
		if what == "refs":
			repo = self.hf_repo(name, "main")
			return repo and self.json({"branches": [{"name": b,
			    "ref": "refs/heads/" + b, "targetCommit": c}
			    for b, c in repo.refs.items()], "tags": [],
			    "converts": []})
		repo = self.hf_repo(name, rev or "main")
		if not repo:
			return
		commit = {"X-Repo-Commit": repo.commit}
		if what == "tree":
			at = int(self.query.get("cursor", "0"))
			all = [repo.entry(p) for p in repo.paths()
			    if p.startswith(rest + "/" if rest else "")]
			if self.query.get("recursive", "").lower() != "true":
				n = len(rest) + 1 if rest else 0
				all = [e for e in all if "/" not in e["path"][n:]]
			if at + PAGE < len(all):
				q = urllib.parse.urlencode({**self.query,
				    "cursor": at + PAGE})
				commit["Link"] = '<%s%s%s?%s>; rel="next"' % (
				    address["HUB"], self.prefix, self.path[
				    len(self.prefix):].split("?")[0], q)
			return self.json(all[at:at + PAGE], commit)
		if what == "paths-info":
			try:
				paths = json.loads(self.sent)["paths"]
			except ValueError:
				paths = urllib.parse.parse_qs(
				    self.sent.decode())["paths"]
			have = repo.paths()
			return self.json([repo.entry(p) for p in paths
			    if p in have], commit)
		self.json({"_id": "0", "id": repo.name, "modelId": repo.name,
		    "sha": repo.commit, "private": False, "disabled": False,
		    "gated": "manual" if repo.gated is not None else False,
		    "tags": ["gguf"], "downloads": 0, "likes": 0,
		    "siblings": [{"rfilename": p} for p in repo.paths()
		    if os.path.isfile(os.path.join(repo.top, p))]}, commit)

	def hf_resolve(self, name, rev, path):
		repo = self.hf_repo(name, rev)
		if not repo:
			return
		commit = {"X-Repo-Commit": repo.commit}
		if repo.refused:
			raise Refused(403 if self.token() else 401, "GatedRepo",
			    "Access to model %s is restricted" % name)
		full = repo.file(path)
		sha256, sha1 = hashes(full)
		size = os.path.getsize(full)
		if size > SMALL:
			return self.to_cdn(repo.name, sha256, {**commit, "X-Linked-Size":
			    str(size), "X-Linked-Etag": '"%s"' % sha256})
		self.redirect("%s/api/resolve-cache/models/%s/%s/%s" % (self.prefix,
		    repo.name, repo.commit, urllib.parse.quote(path)), 307,
		    {**commit, "X-Linked-Etag": '"%s"' % sha1,
		    "X-Linked-Size": str(size)})

	def hf_small(self, name, rev, path):
		repo = Repo(name, rev, self.token())
		full = repo.file(path)
		self.reply(200, load(full), {"X-Repo-Commit": repo.commit,
		    "ETag": '"%s"' % hashes(full)[1]}, True)

	# ---------------------------------------------------------- ModelScope

	def ms_repo(self, name, rev=None):
		return Repo(name, rev or self.query.get("Revision", "master"),
		    self.token())

	def ms_refs(self, name):
		repo = self.ms_repo(name, "master")
		branches = [{"Revision": "master" if b == "main" else b,
		    "CreatedAt": 1700000000} for b in repo.refs]
		self.json({"Code": 200, "Success": True, "Message": "success",
		    "Data": {"RevisionMap": {"Branches": branches, "Tags": []},
		    "Revisions": branches}})

	def ms_files(self, name):
		repo = self.ms_repo(name)
		root = self.query.get("Root", "").strip("/")
		deep = self.query.get("Recursive", "").lower() == "true"
		files = []
		for p in repo.paths():
			if root and not p.startswith(root + "/"):
				continue
			if not deep and "/" in p[len(root) + 1 if root else 0:]:
				continue
			full = os.path.join(repo.top, p)
			tree = os.path.isdir(full)
			files.append({"Path": p, "Name": os.path.basename(p),
			    "Type": "tree" if tree else "blob",
			    "Size": 0 if tree else os.path.getsize(full),
			    "Sha256": "" if tree else hashes(full)[0],
			    "IsLFS": not tree and os.path.getsize(full) > SMALL,
			    "Revision": repo.commit, "Mode": "33188",
			    "CommittedDate": 1700000000, "CommitMessage": ""})
		self.json({"Code": 200, "Success": True, "Message": "success",
		    "RequestId": "0", "Data": {"Files": files[:3000]}})

	def ms_file(self, name, rev=None, path=None):
		repo = self.ms_repo(name, rev)
		full = repo.file(path or self.query.get("FilePath", ""))
		sha256 = hashes(full)[0]
		if repo.refused:
			raise Refused(403, "", "no access")
		if os.path.getsize(full) > SMALL:
			return self.to_cdn(name, sha256, {"X-Linked-ETag":
			    '"%s"' % sha256, "X-Linked-Size":
			    str(os.path.getsize(full))})
		self.reply(200, load(full))	# whatever range is asked

	# -------------------------------------------------------------- Ollama

	def manifest(self, name, tag):
		top = os.path.join(FOLDER, "ollama", name, tag)
		if not os.path.isdir(top) or ".." in name + tag:
			raise Refused(404)
		kind = "application/vnd.ollama.image."
		layers = [{"mediaType": kind + os.path.basename(f),
		    "digest": "sha256:" + hashes(f)[0],
		    "size": os.path.getsize(f)} for f in
		    (os.path.join(top, n) for n in sorted(os.listdir(top)))]
		config = os.path.join(FOLDER, "config.json")
		self.json({"schemaVersion": 2, "mediaType":
		    "application/vnd.docker.distribution.manifest.v2+json",
		    "config": {"mediaType": "application/vnd.docker.container."
		    "image.v1+json", "digest": "sha256:" + hashes(config)[0],
		    "size": os.path.getsize(config)}, "layers": layers},
		    {"Content-Type": "application/vnd.docker.distribution."
		    "manifest.v2+json"})

	def layer(self, name, sha256):
		if sha256 not in blobs:
			raise Refused(404)
		self.to_cdn(name, sha256, (), 307)

	# ------------------------------------------------------------- a proxy

	def do_CONNECT(self):
		"""A tunnel, which serves no host but this one."""
		port = int(self.path.rpartition(":")[2])
		self.log_reply(200)
		with socket.create_connection(("127.0.0.1", port)) as to:
			self.send_response_only(200)
			self.end_headers()
			ends = {self.connection: to, to: self.connection}
			while True:
				for s in select.select(list(ends), [], [])[0]:
					data = s.recv(1 << 16)
					if not data:
						self.close_connection = True
						return
					ends[s].sendall(data)


class Server(http.server.ThreadingHTTPServer):
	daemon_threads = True
	request_queue_size = 64

	def __init__(self, name, context):
		super().__init__(("127.0.0.1", 0), Handler)
		self.name, self.context = name, context

	def finish_request(self, request, client):
		# the handshake is the thread's, lest it hold up the others
		if self.context:
			request.settimeout(60)
			request = self.context.wrap_socket(request, server_side=True)
		request.settimeout(None)
		try:
			super().finish_request(request, client)
		finally:
			request.close()

	def handle_error(self, request, client):
		if not isinstance(sys.exc_info()[1], OSError):
			super().handle_error(request, client)


def openssl(*words):
	subprocess.run(["openssl", *words], cwd=FOLDER, check=True,
	    stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def certificate(name, alt, by=None):
	"""NAME.pem with its key in it, signed by an authority or by itself."""
	key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
	    "-nodes", "-keyout", name + ".key", "-subj", "/CN=" + name]
	if not by:
		openssl("req", "-x509", *key, "-out", name + ".pem", "-days", "2",
		    *(["-addext", "subjectAltName=" + alt] if alt else
		    ["-addext", "keyUsage=critical,keyCertSign"]))
	else:
		with open(os.path.join(FOLDER, name + ".ext"), "w") as f:
			f.write("subjectAltName=%s\nbasicConstraints=CA:FALSE\n"
			    "authorityKeyIdentifier=keyid\n" % alt)
		openssl("req", *key, "-out", name + ".csr")
		openssl("x509", "-req", "-in", name + ".csr", "-CA", by + ".pem",
		    "-CAkey", by + ".key", "-set_serial", "1", "-days", "2",
		    "-extfile", name + ".ext", "-out", name + ".pem")
	if not alt:
		return None
	context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
	context.load_cert_chain(os.path.join(FOLDER, name + ".pem"),
	    os.path.join(FOLDER, name + ".key"))
	return context


def main():
	parent = os.getppid()
	here = "DNS:localhost,IP:127.0.0.1"
	with open(os.path.join(FOLDER, "config.json"), "w") as f:
		f.write('{"model_format":"gguf"}')
	certificate("ca", None)
	good = certificate("here", here, "ca")
	for name, host, context in (("hub", "localhost", good),
	    ("cdn", "127.0.0.1", good), ("plain", "127.0.0.1", None),
	    ("untrusted", "localhost", certificate("self", here)),
	    ("misnamed", "localhost",
	     certificate("other", "DNS:other.example", "ca"))):
		server = Server(name, context)
		address[name.upper()] = "http%s://%s:%d" % ("s" if context else "",
		    host, server.server_port)
		threading.Thread(target=server.serve_forever, daemon=True).start()
	open(os.path.join(FOLDER, "log"), "a").close()
	# complete or not there
	with open(os.path.join(FOLDER, "addresses.new"), "w") as f:
		f.writelines("%s=%s\n" % a for a in address.items())
	os.rename(os.path.join(FOLDER, "addresses.new"),
	    os.path.join(FOLDER, "addresses"))
	while os.getppid() == parent:	# until the test has ended, or is killed
		time.sleep(1)


main()
