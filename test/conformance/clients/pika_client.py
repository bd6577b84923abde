"""A partner on pika's blocking connection, which leaves reconnecting to its user."""
import ssl

import pika
import pika.exceptions
from client import CA_FILE, DEAD_LETTER_QUEUE, ROUTING_KEY, STATUS_QUEUE, URL, WRONG_URL
from client import read_status, say, signed_command


def connect(url):
    parameters = pika.URLParameters(url)
    parameters.ssl_options = pika.SSLOptions(ssl.create_default_context(cafile=CA_FILE), "localhost")
    return pika.BlockingConnection(parameters)


try:
    connect(WRONG_URL)
except pika.exceptions.ProbableAuthenticationError as error:
    say("refused", repr(error))

for life in (1, 2, 3):
    input()  # the broker is available
    connection = connect(URL)
    say("connected")
    channel = connection.channel()
    channel.confirm_delivery()
    correlation_id, body = signed_command()
    channel.basic_publish("vcp", ROUTING_KEY, body, pika.BasicProperties(content_type="application/json"))
    say("confirmed", correlation_id)

    for method, _properties, content in channel.consume(STATUS_QUEUE):
        channel.basic_ack(method.delivery_tag)
        answered, status = read_status(content)
        if answered == correlation_id:
            say("acked", correlation_id, status)
            break

    if life == 1:
        channel.basic_publish("vcp", ROUTING_KEY, "no envelope")
        _method, _properties, content = channel.basic_get(DEAD_LETTER_QUEUE, auto_ack=True)
        say("got", content.decode())
        other = connection.channel()
        other.confirm_delivery()
        try:
            other.basic_publish("vcp", "other.command.device", body)
        except pika.exceptions.ChannelClosedByBroker as error:
            say("denied", repr(error))

    if life < 3:
        try:
            for _message in channel.consume(STATUS_QUEUE):
                pass
        except pika.exceptions.AMQPConnectionError as error:
            say("lost", repr(error))
    else:
        connection.close()
say("bye")
