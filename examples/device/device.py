#!/usr/bin/env python3
"""A device in Python with paho-mqtt (Debian: python3-paho-mqtt, 1.6).

    device.py PACKAGE.json

PACKAGE.json is the device's provisioning package. If the file does not exist, the program fetches it once, with
SITEWIRE_URL, SITEWIRE_DEVICE_ID and SITEWIRE_ADMIN_TOKEN. Then it sends telemetry every SITEWIRE_INTERVAL seconds,
executes signed commands, stores the tokens that the platform sends, and renews its token with its secret when the token
is rejected. It runs until it is stopped. Replace `readings` and `execute` by what your device measures and does; gateway.py
has those of a gateway.
"""
import hashlib
import hmac
import json
import os
import ssl
import sys
import threading
import time
import urllib.request
import uuid

import paho.mqtt.client as mqtt

FILE = sys.argv[1]
URL = os.environ.get("SITEWIRE_URL", "http://127.0.0.1:8787")
INTERVAL = float(os.environ.get("SITEWIRE_INTERVAL", "5"))


def report(event, **details):
    # One write for the whole line, because two threads write lines, and `print` writes the line and its end
    # separately.
    os.write(1, (json.dumps({"event": event, **details}) + "\n").encode())


def post(path, body, headers=None):
    headers = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(f"{URL}/api/v1{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def store(package):
    """Writes the whole file or nothing. Only its owner can read it: it contains the secret."""
    with open(os.open(FILE + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(package, file)
    os.replace(FILE + ".new", FILE)


def load():
    if not os.path.exists(FILE):
        bearer = {"authorization": f"Bearer {os.environ['SITEWIRE_ADMIN_TOKEN']}"}
        store(post(f"/devices/{os.environ['SITEWIRE_DEVICE_ID']}/provision", {}, bearer))
    with open(FILE) as file:
        return json.load(file)


package = load()
if package["authMethod"] != "TOKEN":
    sys.exit("this program connects with a token: register the device with authMethod TOKEN")
device = package["deviceId"]
security = package["security"]
topics = package["mqtt"]["topics"]
outcomes = {}  # by cmdId, the last thousand: a command may arrive several times and is executed once
changed = threading.Event()


def now():
    return int(time.time() * 1000)


def sign(*fields):
    text = "|".join(str(field) for field in fields)
    return hmac.new(security["hmacSecret"].encode(), text.encode(), hashlib.sha256).hexdigest()


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def member(text, name):
    """The characters of a member as received, without whitespace outside strings: this text is signed."""
    out, depth, quoted, at = [], 0, False, text.index(f'"{name}":') + len(name) + 3
    while at < len(text):
        char = text[at]
        if quoted and char == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        if char == '"':
            quoted = not quoted
        if not quoted:
            depth += (char in "{[") - (char in "}]")
        if quoted or not char.isspace():
            out.append(char)
        at += 1
        if depth == 0 and not quoted and out:
            return "".join(out)
    raise ValueError(f"no {name}")


def publish(name, payload):
    """paho resends the same characters if no PUBACK arrives."""
    report("sent", topic=name, mid=client.publish(topics[name], payload, qos=1).mid)


def acknowledge(command, status):
    ts, cmd = now(), command["cmdId"]
    publish("ack", compact({"cmdId": cmd, "status": status, "ts": ts, "sig": sign(device, cmd, ts, status)}))


def execute(_action, _payload):
    """Executes a command; returns False if the device cannot execute it."""
    return True


def readings():
    return {"powerKw": round(time.time() % 10, 3), "temperatureCelsius": 21.5}


def store_token(renewed):
    security["mqttToken"] = renewed["token"]
    security["tokenExpiresAt"] = renewed["expiresAt"]
    store(package)
    client.username_pw_set(device, security["mqttToken"])  # used from the next connect on
    report("refreshed", expiresAt=security["tokenExpiresAt"])
    return True


def handle(action, payload):
    try:
        return store_token(payload) if action == "TOKEN_REFRESH" else execute(action, payload)
    except (KeyError, TypeError, ValueError) as error:  # signed correctly, but its payload is not as expected
        report("failed", action=action, error=repr(error))
        return False


def on_message(_client, _userdata, message):
    text = message.payload.decode()
    command = json.loads(text)
    expected = sign(device, command["cmdId"], command["ts"], command["action"], member(text, "payload"))
    is_fresh = abs(now() - command["ts"]) <= 300_000
    if not (hmac.compare_digest(expected, command["sig"]) and is_fresh):
        report("ignored", cmdId=command["cmdId"])
        return
    action, payload = command["action"], command["payload"]
    report("command", action=action, cmdId=command["cmdId"], **({} if action == "TOKEN_REFRESH" else {"payload": payload}))
    if command["cmdId"] not in outcomes:
        acknowledge(command, "RECEIVED")
        outcomes[command["cmdId"]] = "COMPLETED" if handle(action, payload) else "FAILED"
        if len(outcomes) > 1000:
            del outcomes[next(iter(outcomes))]
        changed.set()  # send new readings now, not after the interval
    acknowledge(command, outcomes[command["cmdId"]])


def on_connect(_client, _userdata, _flags, code):
    report("connected" if code == 0 else "refused", code=code)
    if code == 0:
        client.subscribe(topics["commands"], qos=1)
    if code == 5:
        threading.Thread(target=renew).start()


def renew():
    """Gets a new token with the secret, because the current token was rejected."""
    ts, nonce = now(), str(uuid.uuid4())
    body = {"ts": ts, "nonce": nonce, "sig": sign(device, ts, nonce, "RENEW")}
    try:
        store_token(post(f"/devices/{device}/mqtt-token/renew", body))
    except OSError as error:
        report("not renewed", error=str(error))


def telemetry():
    ts, nonce = now(), str(uuid.uuid4())
    data = compact(readings())
    sig = sign(device, ts, nonce, data)
    # Formatted by hand, so that exactly the signed characters are sent.
    return '{"ts":%d,"nonce":"%s","data":%s,"sig":"%s"}' % (ts, nonce, data, sig)


client = mqtt.Client(client_id=device, clean_session=True)
client.username_pw_set(device, security.get("mqttToken"))
client.tls_set_context(ssl.create_default_context(cadata=security.get("caCertificate")))
client.on_connect = on_connect
client.on_message = on_message
client.on_publish = lambda _client, _userdata, mid: report("stored", mid=mid)
client.reconnect_delay_set(1, 30)


def run():
    client.connect_async(package["mqtt"]["broker"].split("//")[1].split(":")[0], package["mqtt"]["port"], keepalive=60)
    client.loop_start()
    while True:
        changed.wait(INTERVAL)
        changed.clear()
        message = telemetry()
        if client.is_connected():
            publish("telemetry", message)


if __name__ == "__main__":
    run()
