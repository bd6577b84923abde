"""A gateway in Python: connects with a token, verifies commands, acknowledges them, publishes telemetry.

Reads its settings as one JSON object from standard input, writes one JSON object per line to standard output,
and ends after one battery command has been completed.
"""
import hashlib
import hmac
import json
import ssl
import sys
import time
import uuid

import paho.mqtt.client as mqtt

settings = json.loads(sys.stdin.readline())
device = settings["deviceId"]
secret = settings["hmacSecret"].encode()


def sign(*fields):
    return hmac.new(secret, "|".join(str(field) for field in fields).encode(), hashlib.sha256).hexdigest()


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def now():
    return int(time.time() * 1000)


def acknowledge(client, command, status):
    ts = now()
    message = {"cmdId": command["cmdId"], "status": status, "ts": ts, "sig": sign(device, command["cmdId"], ts, status)}
    return client.publish(f"cpi/{device}/ack", json.dumps(message), qos=1)


def on_connect(client, _userdata, _flags, code):
    say(event="connected", code=code)
    if code == 0:
        client.subscribe(f"cpi/{device}/commands", qos=1)


def on_subscribe(client, _userdata, _mid, granted):
    # Floats as Python prints them: 5.0 and 1e-05 must verify as they were sent.
    data = json.dumps({"BESS-1/powerKw": 5.0, "BESS-1/socPercent": 1e-05, "7": 1}, separators=(",", ":"))
    ts, nonce = now(), str(uuid.uuid4())
    sig = sign(device, ts, nonce, data)
    body = '{"ts": %d, "nonce": "%s", "data": %s, "sig": "%s"}' % (ts, nonce, data, sig)
    client.publish(f"cpi/{device}/telemetry", body, qos=1)
    say(event="subscribed", granted=list(granted))


last = None


def on_publish(client, _userdata, mid):
    say(event="stored", mid=mid)
    if mid == last:
        client.disconnect()


def on_message(client, _userdata, message):
    global last
    command = json.loads(message.payload)
    payload = json.dumps(command["payload"], separators=(",", ":"))
    expected = sign(device, command["cmdId"], command["ts"], command["action"], payload)
    say(event="command", action=command["action"], verified=hmac.compare_digest(expected, command["sig"]))
    acknowledge(client, command, "RECEIVED")
    completed = acknowledge(client, command, "COMPLETED")
    if command["action"].startswith("BESS_"):
        last = completed.mid


client = mqtt.Client(client_id=device, clean_session=True)
client.username_pw_set(device, settings["token"])
client.tls_set(ca_certs=settings["ca"], tls_version=ssl.PROTOCOL_TLS_CLIENT)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_publish = on_publish
client.on_message = on_message
client.connect("localhost", settings["port"], keepalive=60)
client.loop_forever()
