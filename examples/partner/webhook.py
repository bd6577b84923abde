#!/usr/bin/env python3
"""Receives the events of a key as webhooks in Python, without a library.

To try it, run `npm start` in another terminal, then in the project's folder:

    python3 examples/partner/webhook.py

It creates a webhook for the key of the stack, prints each message that has a valid signature, and deletes the webhook
when Ctrl-C ends it. A number as argument ends it after so many events.

For another deployment create the webhook with POST /api/v1/partner/webhooks, and set SITEWIRE_WEBHOOK_SECRET to its
secret and PORT to the port on which your proxy, which has the certificate, reaches this program. This program then only
receives. Instead of `is_genuine` you may use the library standardwebhooks.
"""
import base64
import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 5 * 60
MAX_BYTES = 1024 * 1024

secret = os.environ.get("SITEWIRE_WEBHOOK_SECRET")
left = int(sys.argv[1]) if len(sys.argv) > 1 else None
# The secret is known when the webhook is created; its first message may come a moment earlier.
ready = threading.Event()
done = threading.Event()
# A message is posted again if its answer was lost. Keep the ids in your database, and longer than this program does.
known = set()
# The server answers each request in a thread of its own.
lock = threading.Lock()


def is_genuine(headers, body):
    """The signature covers the id, the time and the body. During a rotation of the secret there are two."""
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > TOLERANCE_SECONDS:
        return False
    signed = f"{message_id}.{sent_at}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size) if size <= MAX_BYTES else b""
        ready.wait()
        if not is_genuine(self.headers, body):
            print("a message was refused: its signature is wrong, or it is old", file=sys.stderr)
            self.answer(401)
            return
        message = json.loads(body)
        # Answer at once: 2xx says that the message has arrived. Do what takes long afterwards. The first message asks
        # whether you want the events: its challenge is the answer.
        self.answer(200, message["data"]["challenge"] if message["type"] == "webhook.verify" else "")
        with lock:
            on_message(self.headers["webhook-id"], message)

    def answer(self, status, text=""):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def on_message(message_id, message):
    global left
    kind, data = message["type"], message["data"]
    is_event = not kind.startswith("webhook.")
    print(message_id, message["timestamp"], kind, json.dumps(data["payload"] if is_event else data)[:120], flush=True)
    if message_id in known:
        return
    known.add(message_id)
    if is_event and left is not None:
        left -= 1
    if left is not None and left <= 0:
        done.set()


def call(base_url, path, method, headers, body=None):
    request = urllib.request.Request(f"{base_url}/api/v1{path}", method=method)
    for name, value in {**headers, "content-type": "application/json"}.items():
        request.add_header(name, value)
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=30) as answer:
        return json.load(answer)


def create_webhook(port):
    """Creates a webhook of the local stack that posts to this program. Returns how to delete it."""
    global secret
    try:
        with open(os.path.join(os.environ.get("SITEWIRE_DATA_DIR", ".dev"), "stack.json")) as file:
            stack = json.load(file)
    except FileNotFoundError:
        sys.exit("no stack is running here: start one with `npm start`, or set SITEWIRE_WEBHOOK_SECRET")
    url = stack["baseUrl"]
    token = call(url, "/auth/login", "POST", {}, stack["admin"])["accessToken"]
    headers = {"authorization": f"Bearer {token}", "x-org-id": stack["organization"]["id"]}
    made = call(url, "/partner/webhooks", "POST", headers, {
        "url": f"http://localhost:{port}/",
        "keyId": stack["apiKey"]["id"],
        "types": ["ack", "execution", "alarm", "telemetry"],
        "description": "webhook.py",
    })
    secret = made["secret"]
    return lambda: call(url, f"/partner/webhooks/{made['webhook']['id']}", "DELETE", headers)


server = ThreadingHTTPServer(("localhost", int(os.environ.get("PORT", 0))), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
delete_webhook = None if secret else create_webhook(server.server_port)
ready.set()
print(f"listening on port {server.server_port}; Ctrl-C ends", flush=True)
for end in (signal.SIGINT, signal.SIGTERM):
    signal.signal(end, lambda *_: done.set())
done.wait()
if delete_webhook:
    delete_webhook()
