#!/usr/bin/env python3
"""Follows the events of a key over HTTPS in Python, without a library.

To try it, run `npm start` in another terminal, then in the project's folder:

    python3 examples/partner/stream.py

It prints each event after it has verified its signature. If the connection ends, it goes on after the last event, so it
misses none. A number as argument ends it after so many events.

For another deployment set SITEWIRE_URL (such as https://api.example.com), SITEWIRE_KEY, SITEWIRE_SIGNING_KEY and
SITEWIRE_SLUG (of your organization). To go on after a restart, keep the id of the last event and pass it as
SITEWIRE_AFTER.
"""
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request

# The server ends a stream after 15 minutes, and sends a comment every 15 s: longer silence is a lost connection.
SILENCE_SECONDS = 40


def settings():
    if "SITEWIRE_URL" in os.environ:
        return [os.environ[f"SITEWIRE_{name}"] for name in ("URL", "KEY", "SIGNING_KEY", "SLUG")]
    try:
        with open(os.path.join(os.environ.get("SITEWIRE_DATA_DIR", ".dev"), "stack.json")) as file:
            stack = json.load(file)
    except FileNotFoundError:
        sys.exit("no stack is running here: start one with `npm start`, or set SITEWIRE_URL")
    key = stack["apiKey"]
    return stack["baseUrl"], key["key"], key["signingKey"], stack["organization"]["slug"]


URL, KEY, SIGNING_KEY, SLUG = settings()
last = os.environ.get("SITEWIRE_AFTER", "0")  # the id of the last event: the stream continues after it
left = int(sys.argv[1]) if len(sys.argv) > 1 else None
retry_seconds = 2.0


class WrongSignature(Exception):
    pass


def verify(kind, text, event):
    """The signature covers the fields, the routing key and the payload exactly as they are in the text."""
    routing_key = f"{SLUG}.event.{'command.ack' if kind == 'ack' else kind}"
    payload = text[text.index('"payload":') + 10 : text.rindex(',"signature":')]
    names = ("version", "messageId", "correlationId", "timestamp", "source", "siteId")
    signed = "|".join([*(event.get(name, "") for name in names), routing_key, payload])
    expected = hmac.new(SIGNING_KEY.encode(), signed.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, event.get("signature", "")):
        raise WrongSignature(f"event {event['messageId']} has a wrong signature")


def on_event(fields):
    global last, left, retry_seconds
    kind, text = fields.get("event"), fields.get("data")
    if "retry" in fields:
        retry_seconds = int(fields["retry"]) / 1_000
    if kind == "gap":
        print("events were deleted before this program read them:", text)
    elif kind:
        event = json.loads(text)
        # Only the events of an unsigned command whose correlationId contains | have no signature.
        if "signature" in event:
            verify(kind, text, event)
        verified = "" if "signature" in event else " (not signed)"
        print(f"{fields['id']}{verified}", event["timestamp"], kind, json.dumps(event["payload"])[:120], flush=True)
        if left is not None:
            left -= 1
    last = fields.get("id", last)


def follow():
    """Reads one stream until it ends."""
    request = urllib.request.Request(f"{URL}/api/v1/vcp/events/stream")
    request.add_header("X-API-Key", KEY)
    request.add_header("Last-Event-ID", last)
    with urllib.request.urlopen(request, timeout=SILENCE_SECONDS) as stream:
        fields = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            on_event(fields)
            fields = {}
            if left == 0:
                sys.exit(0)


while True:
    try:
        follow()
    except urllib.error.HTTPError as error:
        if error.code in (400, 401, 403):
            sys.exit(f"the stream was refused: {error.read().decode()}")
    except OSError:
        pass  # the connection was lost: the next one goes on
    time.sleep(retry_seconds)
