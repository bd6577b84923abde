"""Code that the Python clients share: the broker's address, a signed command, and their output lines for the test."""
import datetime
import hashlib
import hmac
import json
import os
import uuid

URL = os.environ["AMQP_URL"]
WRONG_URL = os.environ["WRONG_URL"]  # the same URL with an invalid key
CA_FILE = os.environ["CA_FILE"]
SLUG = os.environ["SLUG"]
ROUTING_KEY = f"{SLUG}.command.device"
STATUS_QUEUE = f"vcp.{SLUG}.event.status"
DEAD_LETTER_QUEUE = f"vcp.{SLUG}.dead-letter"


def signed_command():
    """A command to a battery in its signed envelope. Returns its correlation id and the text to publish."""
    command = {"deviceId": "BESS-1", "assetType": "BESS", "command": "BESS_CHARGE", "params": {"powerKw": 5.0}}
    envelope = {
        "version": "1.1",
        "messageId": str(uuid.uuid4()),
        "correlationId": str(uuid.uuid4()),
        "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "source": "python",
        "siteId": os.environ["SITE_ID"],
    }
    payload = {"commands": [command]}
    signed = "|".join([*envelope.values(), ROUTING_KEY, json.dumps(payload, separators=(",", ":"))])
    signature = hmac.new(os.environ["SIGNING_KEY"].encode(), signed.encode(), hashlib.sha256).hexdigest()
    return envelope["correlationId"], json.dumps({**envelope, "payload": payload, "signature": signature})


def read_status(body):
    """Reads an acknowledgement event: the command, and the decision on it."""
    event = json.loads(body)
    return event["correlationId"], event["payload"]["status"]


def say(*words):
    print(*words, flush=True)
