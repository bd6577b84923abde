/** A partner on the Java client, which connects, consumes and reconnects by itself. */
import com.rabbitmq.client.*;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.*;

public class JavaClient {
    static final String SLUG = System.getenv("SLUG");
    static final String ROUTING_KEY = SLUG + ".command.device";

    static ConnectionFactory factory(String url) throws Exception {
        KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
        authorities.load(null);
        try (FileInputStream pem = new FileInputStream(System.getenv("CA_FILE"))) {
            authorities.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        factory.useSslProtocol(tls);
        factory.setAutomaticRecoveryEnabled(true);
        factory.setNetworkRecoveryInterval(200);
        return factory;
    }

    /** A command to a battery in its signed envelope: its correlation id and the text to publish. */
    static String[] signedCommand() throws Exception {
        String id = UUID.randomUUID().toString();
        String messageId = UUID.randomUUID().toString();
        String timestamp = Instant.now().toString();
        String siteId = System.getenv("SITE_ID");
        String payload = "{\"commands\":[{\"deviceId\":\"BESS-1\",\"assetType\":\"BESS\",\"command\":\"BESS_CHARGE\","
            + "\"params\":{\"powerKw\":5}}]}";
        String signed = String.join("|", "1.1", messageId, id, timestamp, "java", siteId, ROUTING_KEY, payload);
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(System.getenv("SIGNING_KEY").getBytes(), "HmacSHA256"));
        String signature = HexFormat.of().formatHex(mac.doFinal(signed.getBytes(StandardCharsets.UTF_8)));
        String body = String.format(
            "{\"version\":\"1.1\",\"messageId\":\"%s\",\"correlationId\":\"%s\",\"timestamp\":\"%s\",\"source\":\"java\","
                + "\"siteId\":\"%s\",\"payload\":%s,\"signature\":\"%s\"}",
            messageId, id, timestamp, siteId, payload, signature);
        return new String[] {id, body};
    }

    static String field(String json, String name) {
        return json.replaceFirst(".*\"" + name + "\":\"([^\"]*)\".*", "$1");
    }

    public static void main(String[] given) throws Exception {
        try {
            factory(System.getenv("WRONG_URL")).newConnection();
        } catch (AuthenticationFailureException error) {
            System.out.println("refused " + error);
        }

        Connection connection = factory(System.getenv("AMQP_URL")).newConnection();
        System.out.println("connected");
        BlockingQueue<String> recovered = new LinkedBlockingQueue<>();
        BlockingQueue<String> statuses = new LinkedBlockingQueue<>();
        connection.addShutdownListener(cause -> {
            if (!cause.isInitiatedByApplication()) System.out.println("lost " + cause.getMessage());
        });
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            public void handleRecoveryStarted(Recoverable recoverable) {}

            public void handleRecovery(Recoverable recoverable) {
                System.out.println("connected");
                recovered.add("connected");
            }
        });
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        channel.basicConsume("vcp." + SLUG + ".event.status", false, (tag, delivery) -> {
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            statuses.add(new String(delivery.getBody(), StandardCharsets.UTF_8));
        }, tag -> {});

        for (int life = 1; life <= 3; life++) {
            if (life > 1) recovered.take();
            String[] command = signedCommand();
            channel.basicPublish("vcp", ROUTING_KEY, MessageProperties.PERSISTENT_TEXT_PLAIN, command[1].getBytes());
            channel.waitForConfirmsOrDie(20_000);
            System.out.println("confirmed " + command[0]);
            String event = statuses.take();
            while (!field(event, "correlationId").equals(command[0])) event = statuses.take();
            System.out.println("acked " + command[0] + " " + field(event, "status"));
            if (life > 1) continue;

            channel.basicPublish("vcp", ROUTING_KEY, null, "no envelope".getBytes());
            channel.waitForConfirmsOrDie(20_000);
            System.out.println("got " + new String(channel.basicGet("vcp." + SLUG + ".dead-letter", true).getBody()));
            Channel other = connection.createChannel();
            BlockingQueue<String> denied = new LinkedBlockingQueue<>();
            other.addShutdownListener(cause -> denied.add(cause.getMessage()));
            other.basicPublish("vcp", "other.command.device", null, command[1].getBytes());
            System.out.println("denied " + denied.take());
        }
        connection.close();
        System.out.println("bye");
    }
}
