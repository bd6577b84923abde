<?php
/** A partner on php-amqplib, which reconnects when the test says so. */
require '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPSSLConnection;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Message\AMQPMessage;

$slug = getenv('SLUG');
$routingKey = "$slug.command.device";
$statusQueue = "vcp.$slug.event.status";

function connect(string $url): AMQPSSLConnection
{
    $at = parse_url($url);
    $tls = ['cafile' => getenv('CA_FILE'), 'verify_peer' => true, 'verify_peer_name' => true];
    return new AMQPSSLConnection(
        $at['host'], $at['port'], $at['user'], $at['pass'], substr($at['path'], 1), $tls, ['read_write_timeout' => 30]
    );
}

function uuid(): string
{
    $hex = bin2hex(random_bytes(16));
    return preg_replace('/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/', '$1-$2-4$3-8$4-$5', $hex);
}

/** A command to a battery in its signed envelope: its correlation id and the text to publish. */
function signedCommand(string $routingKey): array
{
    $envelope = [
        'version' => '1.1', 'messageId' => uuid(), 'correlationId' => uuid(),
        'timestamp' => gmdate('Y-m-d\TH:i:s\Z'), 'source' => 'php', 'siteId' => getenv('SITE_ID'),
    ];
    $command = [
        'deviceId' => 'BESS-1', 'assetType' => 'BESS', 'command' => 'BESS_CHARGE', 'params' => ['powerKw' => 5],
    ];
    $payload = ['commands' => [$command]];
    $signed = implode('|', [...array_values($envelope), $routingKey, json_encode($payload)]);
    $signature = hash_hmac('sha256', $signed, getenv('SIGNING_KEY'));
    $body = json_encode($envelope + ['payload' => $payload, 'signature' => $signature]);
    return [$envelope['correlationId'], $body];
}

try {
    connect(getenv('WRONG_URL'));
} catch (AMQPExceptionInterface $error) {
    echo 'refused ', get_class($error), ' ', $error->getMessage(), "\n";
}

foreach ([1, 2, 3] as $life) {
    fgets(STDIN); // the broker is there
    $connection = connect(getenv('AMQP_URL'));
    echo "connected\n";
    $channel = $connection->channel();
    $channel->confirm_select();
    [$id, $body] = signedCommand($routingKey);
    $channel->basic_publish(new AMQPMessage($body, ['content_type' => 'application/json']), 'vcp', $routingKey);
    $channel->wait_for_pending_acks(20);
    echo "confirmed $id\n";

    $status = null;
    $take = function (AMQPMessage $message) use ($id, &$status) {
        $message->ack();
        $event = json_decode($message->getBody(), true);
        if ($event['correlationId'] === $id) {
            $status = $event['payload']['status'];
        }
    };
    $channel->basic_consume($statusQueue, '', false, false, false, false, $take);
    while ($status === null) {
        $channel->wait(null, false, 20);
    }
    echo "acked $id $status\n";

    if ($life === 1) {
        $channel->basic_publish(new AMQPMessage('no envelope'), 'vcp', $routingKey);
        $channel->wait_for_pending_acks(20);
        echo 'got ', $channel->basic_get("vcp.$slug.dead-letter", true)->getBody(), "\n";
        $other = $connection->channel();
        $other->confirm_select();
        try {
            $other->basic_publish(new AMQPMessage($body), 'vcp', 'other.command.device');
            $other->wait_for_pending_acks(20);
        } catch (AMQPExceptionInterface $error) {
            echo 'denied ', $error->getCode(), ' ', $error->getMessage(), "\n";
        }
    }

    try {
        while ($life < 3) {
            $channel->wait();
        }
        $connection->close();
    } catch (AMQPExceptionInterface $error) {
        echo 'lost ', get_class($error), ' ', $error->getMessage(), "\n";
    }
}
echo "bye\n";
