"""The plant's gateway over MQTTS: sets the clock that all processes of the stack share, signs and publishes a batch of
messages, and continues when each of them has its PUBACK: it is stored, or rejected and counted.
"""
import hashlib
import hmac
import mmap
import ssl
import struct
import threading
import time

import paho.mqtt.client as mqtt

PUBACK_WAIT = 60
TOKEN_SECONDS = 86_400
RENEW_BEFORE = 7_200
IN_FLIGHT = 60


class Clock:
    """Moves the wall clock of all processes that were started with clock.c and this file, this one included."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 8)

    def set(self, at_ms):
        """Sets the clock forwards; a time in the past changes nothing."""
        ahead = at_ms * 1_000_000 - time.time_ns()
        if ahead > 0:
            self.page[:] = struct.pack("<q", struct.unpack("<q", self.page[:])[0] + ahead)


class Gateway:
    def __init__(self, rest, package, ca):
        self.rest = rest
        self.device = package["deviceId"]
        self.secret = package["security"]["hmacSecret"].encode()
        self.topic = package["mqtt"]["topics"]["telemetry"]
        self.port = package["mqtt"]["port"]
        self.trust = ssl.create_default_context(cafile=ca)
        self.changed = threading.Condition()
        self.open = 0
        self.code = None
        self.client = None
        self.token_until = 0

    def connect(self):
        """Connects with a new token, because a session ends when its token expires."""
        answer = self.rest.admin("POST", f"/devices/{self.device}/mqtt-token", {"expiresIn": TOKEN_SECONDS})
        self.token_until = time.time() + TOKEN_SECONDS
        self.close()
        self.code = None
        client = self.client = mqtt.Client(client_id=self.device, clean_session=True)
        client.username_pw_set(self.device, answer["token"])
        client.tls_set_context(self.trust)
        client.max_inflight_messages_set(IN_FLIGHT)
        client.on_connect = self.on_connect
        client.on_publish = self.on_publish
        client.connect("localhost", self.port, keepalive=60)
        client.loop_start()
        with self.changed:
            if not self.changed.wait_for(lambda: self.code is not None, PUBACK_WAIT) or self.code != 0:
                raise RuntimeError(f"the gateway cannot connect: CONNACK code {self.code}")

    def on_connect(self, _client, _userdata, _flags, code):
        with self.changed:
            self.code = code
            self.changed.notify()

    def on_publish(self, _client, _userdata, _mid):
        with self.changed:
            self.open -= 1
            self.changed.notify()

    def send(self, messages):
        """Publishes the messages and waits until each has its PUBACK."""
        if time.time() > self.token_until - RENEW_BEFORE:
            self.connect()
        with self.changed:
            self.open += len(messages)
        for message in messages:
            self.client.publish(self.topic, self.payload(message), qos=1)
        with self.changed:
            if not self.changed.wait_for(lambda: self.open == 0, PUBACK_WAIT):
                raise RuntimeError(f"{self.open} messages have no PUBACK")

    def payload(self, message):
        data = "{" + ",".join(f'"{name}":{text}' for name, text in message.data) + "}"
        signed = f"{self.device}|{message.ts}|{message.nonce}|{data}"
        signature = hmac.new(self.secret, signed.encode(), hashlib.sha256).hexdigest()
        if message.kind == "forged":
            signature = signature[::-1]
        return f'{{"ts":{message.ts},"nonce":"{message.nonce}","data":{data},"sig":"{signature}"}}'

    def close(self):
        if self.client:
            self.client.disconnect()
            self.client.loop_stop()
