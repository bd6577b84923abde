#!/usr/bin/env python3
"""A partner in Python with pika (Debian: python3-pika; elsewhere: pip install pika).

To try it, run `npm start` in another terminal, then in the project's folder:

    python3 examples/partner/partner.py

It charges a battery with a signed command, holds the plant at 20 kW for eight seconds, stops the battery, and prints
the events of each command. It exits with 0 if all commands are COMPLETED, otherwise with 1 and an error message.

For another deployment set SITEWIRE_AMQP_URI (`amqps.uri` of the key's connectionBundle), SITEWIRE_SIGNING_KEY,
SITEWIRE_SITE_ID, SITEWIRE_BATTERY (a sub-device) and, if the listener's certificate is not signed by a public
authority, SITEWIRE_CA (a PEM file).
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
SLUG = urlsplit(URI).username  # the user name, the first word of routing keys, and a part of queue names
seen = {}  # messageIds of the last events: an event may be delivered twice
events_of = {}  # by correlationId: acknowledgement and execution events of this program's commands


def now():
    return datetime.now(timezone.utc)


def signed(routing_key, payload):
    """The signed envelope. The signature covers the payload exactly as it is sent, character by character."""
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
        events, payload = events_of.get(event["correlationId"]), event["payload"]
        if events is not None:  # None: an event of another program with this key; all share one set of queues
            print("   ", method.routing_key.removeprefix(f"{SLUG}.event."), json.dumps(payload), flush=True)
            events.append(payload)
    # Acknowledge last: an event that is not acknowledged is delivered again, also after a crash.
    channel.basic_ack(method.delivery_tag)


def publish(routing_key, body):
    """A confirm means that the site has recorded the command. After a nack the command is sent again with the same
    messageId, because a messageId takes effect only once."""
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
    for pause in (1, 2, 4, None):
        try:
            return channel.basic_publish("vcp", routing_key, body, properties)
        except pika.exceptions.NackError:
            if pause is None:
                sys.exit(f"{routing_key}: nacked four times, the site cannot record the command")
            connection.sleep(pause)


def command(title, word, payload, timeout=60):
    """Sends a command and waits for its end."""
    routing_key = f"{SLUG}.command.{word}"
    correlation_id, body = signed(routing_key, payload)
    events = events_of[correlation_id] = []
    print(title, flush=True)
    publish(routing_key, body)
    print("    confirmed", flush=True)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        connection.process_data_events(time_limit=1)
        statuses = {payload["status"] for payload in events}
        if statuses & {"REJECTED", "PARTIAL", "DEVIATED", "FAILED"}:
            sys.exit(f"{title}: {json.dumps(events[-1])}")
        # Acknowledgements and ends are in two queues, so the end of a command may arrive before its
        # acknowledgement.
        if statuses & {"ACCEPTED", "QUEUED"} and "COMPLETED" in statuses:
            del events_of[correlation_id]
            return
    sys.exit(f"{title}: not finished within {timeout} s")


def battery(name, **params):
    return {"commands": [{"deviceId": BATTERY, "assetType": "BESS", "command": name, "params": params}]}


parameters = pika.URLParameters(URI)
parameters.ssl_options = pika.SSLOptions(ssl.create_default_context(cafile=CA), parameters.host)
try:
    # A long-running program repeats everything from here in a loop, with growing pauses: the service closes connections
    # with code 320 when it is deployed. Publish unconfirmed commands again with the same messageId. Unacknowledged
    # events are delivered again.
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
