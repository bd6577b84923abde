#!/usr/bin/env python3
"""A partner in Python with pika (Debian: python3-pika; elsewhere: pip install pika).

By hand, from the project's folder, while `npm start` runs in another terminal:

    python3 examples/partner/partner.py

It charges a battery with a signed command, holds the plant at 20 kW for eight seconds, stops the battery, and prints what becomes
of each. It ends with 0 if all were COMPLETED, with 1 and a sentence if one was not. For another deployment say what the key's
connectionBundle says: SITEWIRE_AMQP_URI (amqps.uri), SITEWIRE_SIGNING_KEY, SITEWIRE_SITE_ID, SITEWIRE_BATTERY (a sub-device), and
SITEWIRE_CA, a PEM file, where the listener's certificate is not one that systems trust.
"""
import hashlib
import hmac
import json
import os
import ssl
import sys
import time
import uuid
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import pika
import pika.exceptions


def settings():
    if "SITEWIRE_AMQP_URI" in os.environ:
        names = ("AMQP_URI", "SIGNING_KEY", "SITE_ID", "BATTERY")
        return (*(os.environ[f"SITEWIRE_{name}"] for name in names), os.environ.get("SITEWIRE_CA"))
    try:
        with open(os.path.join(os.environ.get("SITEWIRE_DATA_DIR", ".dev"), "stack.json")) as file:
            stack = json.load(file)
    except FileNotFoundError:
        sys.exit("no stack is running here: start one with `npm start`, or set SITEWIRE_AMQP_URI")
    amqp, key, plant = stack["amqp"], stack["apiKey"], stack["plants"][0]
    uri = f"amqps://{stack['organization']['slug']}:{key['key']}@{amqp['host']}:{amqp['port']}/{key['vhost']}"
    battery = next(one["deviceId"] for one in plant["subDevices"] if one["assetType"] == "BESS")
    return uri, key["signingKey"], plant["id"], battery, amqp["ca"]


URI, SIGNING_KEY, SITE_ID, BATTERY, CA = settings()
SLUG = urlsplit(URI).username  # the user name, and the first word of routing keys and queues
seen = {}  # messageIds of the last events: one may come twice
fates = {}  # by correlationId: the acknowledgement and the executions of what this program sent


def now():
    return datetime.now(timezone.utc)


def signed(routing_key, payload):
    """The envelope as it travels. What is signed of the payload are the very characters that are sent."""
    fields = {
        "version": "1.1",
        "messageId": str(uuid.uuid4()),
        "correlationId": str(uuid.uuid4()),
        "timestamp": now().isoformat(),
        "source": "partner.py",
        "siteId": SITE_ID,
    }
    compact = json.dumps(payload, separators=(",", ":"))
    text = "|".join([*fields.values(), routing_key, compact])
    signature = hmac.new(SIGNING_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()
    return fields["correlationId"], json.dumps({**fields, "payload": payload, "signature": signature})


def on_event(channel, method, _properties, body):
    event = json.loads(body)
    if event["messageId"] not in seen:
        seen[event["messageId"]] = True
        if len(seen) > 10_000:
            del seen[next(iter(seen))]
        fate, payload = fates.get(event["correlationId"]), event["payload"]
        if fate is not None:  # else it is of another program with this key: a key has one set of queues
            print("   ", method.routing_key.removeprefix(f"{SLUG}.event."), json.dumps(payload), flush=True)
            fate.append(payload)
    # Only now: what is not acknowledged comes again, after a crash too.
    channel.basic_ack(method.delivery_tag)


def publish(routing_key, body):
    """Its confirm means that the site has recorded it. A nack means "again": one messageId has one effect."""
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
    for pause in (1, 2, 4, None):
        try:
            return channel.basic_publish("vcp", routing_key, body, properties)
        except pika.exceptions.NackError:
            if pause is None:
                sys.exit(f"{routing_key} was not taken four times: the site is in trouble")
            connection.sleep(pause)


def command(what, word, payload, patience=60):
    """Sends a command and waits for its end."""
    routing_key = f"{SLUG}.command.{word}"
    correlation_id, body = signed(routing_key, payload)
    fate = fates[correlation_id] = []
    print(what, flush=True)
    publish(routing_key, body)
    print("    confirmed", flush=True)
    give_up_at = time.monotonic() + patience
    while time.monotonic() < give_up_at:
        connection.process_data_events(time_limit=1)
        statuses = {payload["status"] for payload in fate}
        if statuses & {"REJECTED", "PARTIAL", "DEVIATED", "FAILED"}:
            sys.exit(f"{what}: {json.dumps(fate[-1])}")
        # They come by two queues: the end may be told before the acknowledgement.
        if statuses & {"ACCEPTED", "QUEUED"} and "COMPLETED" in statuses:
            del fates[correlation_id]
            return
    sys.exit(f"{what}: no end within {patience} s")


def battery(name, **params):
    return {"commands": [{"deviceId": BATTERY, "assetType": "BESS", "command": name, "params": params}]}


parameters = pika.URLParameters(URI)
parameters.ssl_options = pika.SSLOptions(ssl.create_default_context(cafile=CA), parameters.host)
try:
    # A program that runs on does all from here in a loop, with growing pauses: the service closes connections with 320 when it is
    # deployed. What was not confirmed is then published again with its old messageId; what was not acknowledged comes again.
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=100)
    for name in ("status", "execution"):
        channel.basic_consume(f"vcp.{SLUG}.event.{name}", on_event)

    command("battery: charge with 5 kW", "device", battery("BESS_CHARGE", powerKw=5.0))
    setpoint = {"type": "POWER", "targetValueKw": 20.0, "direction": "IMPORT", "includeConsumption": True, "priority": "NORMAL"}
    window = {"validFrom": now().isoformat(), "validUntil": (now() + timedelta(seconds=8)).isoformat()}
    command("plant: import 20 kW for eight seconds", "site-setpoint", {**setpoint, **window})
    command("battery: stop", "device", battery("BESS_STOP"))
    connection.close()
except (pika.exceptions.AMQPError, OSError) as error:
    sys.exit(f"connection: {error!r}")
