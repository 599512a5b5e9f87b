# SPDX-License-Identifier: ISC
# image_web.py: a web server for images in this folder; prints its port, and adds
# each path to the file "asked".  It redirects, sends without end, or has nothing.
import http.server


class Web(http.server.BaseHTTPRequestHandler):
	def log_message(self, *args):
		pass

	def head(self, status, **headers):
		self.send_response(status)
		for name, value in headers.items():
			self.send_header(name, value)
		self.end_headers()

	def do_GET(self):
		with open("asked", "a") as f:
			f.write(self.path + "\n")
		name = self.path[1:]
		to = {"there": "/one.png", "file": "file:///etc/passwd",
		    "round": "/round"}.get(name)
		if to is not None:
			self.head(302, Location=to)
		elif name == "long":
			self.head(200)
			while True:
				self.wfile.write(bytes(1 << 16))
		elif name in ("one.png", "bare.txt"):
			self.head(200)
			with open(name, "rb") as f:
				self.wfile.write(f.read())
		else:
			self.head(404)


s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
print(s.server_port, flush=True)
s.serve_forever()
