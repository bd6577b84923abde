"""A partner on kombu with py-amqp, which reconnects when the test says so."""
import socket

import amqp.exceptions
from client import CA_FILE, DEAD_LETTER_QUEUE, ROUTING_KEY, STATUS_QUEUE, URL, WRONG_URL
from client import read_status, say, signed_command
from kombu import Connection, Queue

TLS = {"ca_certs": CA_FILE, "server_hostname": "localhost"}
OPTIONS = {"confirm_publish": True}

try:
    Connection(WRONG_URL, ssl=TLS, transport_options=OPTIONS).connect()
except (OSError, amqp.exceptions.AMQPError) as error:
    say("refused", repr(error))

for life in (1, 2, 3):
    input()  # the broker is available
    connection = Connection(URL, ssl=TLS, transport_options=OPTIONS)
    connection.connect()
    say("connected")
    channel = connection.channel()
    producer = connection.Producer(channel)
    correlation_id, body = signed_command()
    publishing = {"exchange": "vcp", "routing_key": ROUTING_KEY, "content_encoding": "utf-8"}
    producer.publish(body, content_type="application/json", **publishing)
    say("confirmed", correlation_id)
    statuses = {}

    def take(message):
        message.ack()
        answered, status = read_status(message.body)
        statuses[answered] = status

    queue = Queue(STATUS_QUEUE, no_declare=True)
    with connection.Consumer(queue, on_message=take, channel=channel):
        while correlation_id not in statuses:
            connection.drain_events(timeout=20)
        say("acked", correlation_id, statuses[correlation_id])

        if life == 1:
            producer.publish("no envelope", content_type="text/plain", **publishing)
            message = Queue(DEAD_LETTER_QUEUE, no_declare=True)(channel).get(no_ack=True)
            say("got", message.body)
            other = connection.channel()
            try:
                connection.Producer(other).publish(body, **{**publishing, "routing_key": "other.command.device"})
            except amqp.exceptions.AccessRefused as error:
                say("denied", repr(error))

        try:
            while life < 3:
                connection.drain_events()
        except (socket.error, amqp.exceptions.ConnectionForced) as error:
            say("lost", repr(error))
            connection.collect()
            continue
    connection.close()
say("bye")
