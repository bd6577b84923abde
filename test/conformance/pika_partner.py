"""A partner in Python: publishes one signed battery command with a confirm and reads its events.

Reads its settings as one JSON object from standard input and writes one JSON object per line to standard output.
"""
import datetime
import hashlib
import hmac
import json
import ssl
import sys
import uuid

import pika

settings = json.loads(sys.stdin.readline())
slug = settings["slug"]


def say(**event):
    print(json.dumps(event), flush=True)


credentials = pika.PlainCredentials(slug, settings["key"])
tls = pika.SSLOptions(ssl.create_default_context(cafile=settings["ca"]), "localhost")
connection = pika.BlockingConnection(
    pika.ConnectionParameters(
        host="localhost",
        port=settings["port"],
        virtual_host=settings["vhost"],
        credentials=credentials,
        ssl_options=tls,
    )
)
channel = connection.channel()
channel.confirm_delivery()
channel.basic_qos(prefetch_count=10)
for queue in ("event.status", "event.execution"):
    declared = channel.queue_declare(f"vcp.{slug}.{queue}", passive=True)
    say(event="declared", queue=declared.method.queue)

envelope = {
    "version": "1.1",
    "messageId": str(uuid.uuid4()),
    "correlationId": str(uuid.uuid4()),
    "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
    "source": "python",
    "siteId": settings["siteId"],
}
command = {"deviceId": "BESS-1", "assetType": "BESS", "command": "BESS_CHARGE", "params": {"powerKw": 5.0}}
payload = {"commands": [command]}
routing_key = f"{slug}.command.device"
compact = json.dumps(payload, separators=(",", ":"))
fields = [envelope[name] for name in ("version", "messageId", "correlationId", "timestamp", "source", "siteId")]
signed = "|".join([*fields, routing_key, compact])
signature = hmac.new(settings["signingKey"].encode(), signed.encode(), hashlib.sha256).hexdigest()
# With the spaces of json.dumps; the signature covers the same text without them.
body = json.dumps({**envelope, "payload": payload, "signature": signature})
channel.basic_publish("vcp", routing_key, body, pika.BasicProperties(content_type="application/json"), mandatory=True)
say(event="confirmed", correlationId=envelope["correlationId"])

for queue in ("event.status", "event.execution"):
    for method, _properties, content in channel.consume(f"vcp.{slug}.{queue}", inactivity_timeout=20):
        if method is None:
            say(event="silence", queue=queue)
            break
        channel.basic_ack(method.delivery_tag)
        message = json.loads(content)
        say(event=queue, correlationId=message["correlationId"], status=message["payload"]["status"])
        if message["payload"]["status"] in ("ACCEPTED", "REJECTED", "QUEUED", "COMPLETED", "FAILED"):
            break
    channel.cancel()
connection.close()
