"""A partner on aio-pika's robust connection, which connects, consumes and reconnects by itself."""
import asyncio
import ssl

import aio_pika
from client import CA_FILE, DEAD_LETTER_QUEUE, ROUTING_KEY, STATUS_QUEUE, URL, WRONG_URL
from client import read_status, say, signed_command

ROLLING_CHANNELS = 40


async def roll_channels(connection):
    """Opens and closes one channel after another, as web workers do; no channel number is reused."""
    for number in range(100, 100 + ROLLING_CHANNELS):
        async with connection.channel(channel_number=number) as channel:
            await channel.get_queue(STATUS_QUEUE)
    say("rolled", number)


async def main():
    context = ssl.create_default_context(cafile=CA_FILE)
    try:
        await aio_pika.connect(WRONG_URL, ssl_context=context)
    except aio_pika.exceptions.AMQPConnectionError as error:
        say("refused", repr(error))

    connection = await aio_pika.connect_robust(URL, ssl_context=context, reconnect_interval=0.2)
    say("connected")
    ready = asyncio.Queue()

    def lost(_connection, error):
        if not isinstance(error, asyncio.CancelledError):  # except by our own close
            say("lost", repr(error))

    connection.close_callbacks.add(lost)
    connection.reconnect_callbacks.add(lambda _connection: ready.put_nowait(say("connected")))
    channel = await connection.channel(publisher_confirms=True)
    exchange = await channel.get_exchange("vcp")
    statuses = asyncio.Queue()

    async def take(message):
        async with message.process():
            statuses.put_nowait(read_status(message.body))

    queue = await channel.get_queue(STATUS_QUEUE)
    await queue.consume(take)

    for life in (1, 2, 3):
        if life > 1:
            await ready.get()
        correlation_id, body = signed_command()
        await exchange.publish(aio_pika.Message(body.encode(), content_type="application/json"), ROUTING_KEY)
        say("confirmed", correlation_id)
        answered = None
        while answered != correlation_id:
            answered, status = await statuses.get()
        say("acked", correlation_id, status)

        if life == 1:
            await exchange.publish(aio_pika.Message(b"no envelope"), ROUTING_KEY)
            dead_letters = await channel.get_queue(DEAD_LETTER_QUEUE)
            message = await dead_letters.get(no_ack=True)
            say("got", message.body.decode())
            await roll_channels(connection)
            try:
                async with connection.channel() as other:
                    foreign = await other.get_exchange("vcp")
                    await foreign.publish(aio_pika.Message(body.encode()), "other.command.device")
            except aio_pika.exceptions.ChannelClosed as error:
                say("denied", repr(error))
    await connection.close()
    say("bye")


asyncio.run(main())
