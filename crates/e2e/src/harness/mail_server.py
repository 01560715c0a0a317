"""A mail server on loopback that keeps what it gets: one line of JSON for each mail.

usage: mail_server.py PORT FILE plain|starttls|tls [CERTIFICATE KEY] [USER PASSWORD]
"""

import json
import os
import ssl
import sys
import threading

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

port, file, mode, *rest = sys.argv[1:]
context = None
if mode != "plain":
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(rest[0], rest[1])
    rest = rest[2:]


class Keeper:
    async def handle_DATA(self, server, session, envelope):
        user = session.auth_data.login.decode() if session.authenticated else None
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode("utf-8", "replace"),
            "encrypted": session.ssl is not None or mode == "tls",
            "user": user,
        }
        with open(file, "a") as kept:
            kept.write(json.dumps(mail) + "\n")
            kept.flush()
            os.fsync(kept.fileno())
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    is_right = isinstance(data, LoginPassword) and [data.login.decode(), data.password.decode()] == rest
    return AuthResult(success=is_right, handled=is_right, auth_data=data if is_right else None)


options = {"hostname": "127.0.0.1", "port": int(port)}
if mode == "starttls":
    options.update(tls_context=context, require_starttls=True)
if mode == "tls":
    options.update(ssl_context=context)
if rest:
    options.update(authenticator=authenticate, auth_required=True, auth_require_tls=mode == "starttls")
controller = Controller(Keeper(), **options)
controller.start()
print("ready", flush=True)
threading.Event().wait()
