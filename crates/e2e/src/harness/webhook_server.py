"""A program on loopback that gets notices by HTTP and keeps them: one line of JSON for each.

usage: webhook_server.py PORT FILE [CERTIFICATE KEY]
While the file FILE.refuse exists, every request is answered with 503.
"""

import json
import os
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, file, *rest = sys.argv[1:]


class Keeper(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        is_refused = os.path.exists(file + ".refuse")
        notice = {
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("utf-8", "replace"),
            "refused": is_refused,
        }
        with open(file, "a") as kept:
            kept.write(json.dumps(notice) + "\n")
        self.send_response(503 if is_refused else 204)
        self.end_headers()

    def log_message(self, *words):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(port)), Keeper)
if rest:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*rest)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
