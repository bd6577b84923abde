/*
 * A partner in Java with RabbitMQ's client (Debian: librabbitmq-client-java and a JDK of 17 or newer;
 * elsewhere: com.rabbitmq:amqp-client).
 *
 * To try it, run `npm start` in another terminal, then in the project's folder:
 *
 *     java -cp /usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar examples/partner/Partner.java
 *
 * It charges a battery with a signed command, holds the plant at 20 kW for eight seconds, stops the battery,
 * and prints the events of each command. It exits with 0 if all commands are COMPLETED, otherwise with 1 and
 * an error message.
 *
 * For another deployment set SITEWIRE_AMQP_URI (`amqps.uri` of the key's connectionBundle),
 * SITEWIRE_SIGNING_KEY, SITEWIRE_SITE_ID, SITEWIRE_BATTERY (a sub-device) and, if the listener's certificate
 * is not signed by a public authority, SITEWIRE_CA (a PEM file).
 */
import com.rabbitmq.client.*;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.*;

public class Partner {
    static final long TIMEOUT_MS = 60_000;
    static final Map<String, String> SETTINGS = new HashMap<>();
    /** Events of commands, without repeated ones. */
    static final BlockingQueue<String> EVENTS = new LinkedBlockingQueue<>();
    /** messageIds of the last events, because an event may be delivered twice. */
    static final Set<String> SEEN = Collections.newSetFromMap(new LinkedHashMap<>() {
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > 10_000;
        }
    });
    /** The user name, the first word of routing keys, and a part of queue names. */
    static String slug;
    static Channel channel;

    /**
     * The first text member with that name. This replaces a JSON parser in one line; use a real parser in
     * your program.
     */
    static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ?\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    static void readSettings() throws Exception {
        System.getenv().forEach((name, value) -> SETTINGS.put(name.replace("SITEWIRE_", ""), value));
        if (!SETTINGS.containsKey("AMQP_URI")) {
            String stack = Files.readString(Path.of(SETTINGS.getOrDefault("DATA_DIR", ".dev"), "stack.json"));
            String amqp = stack.substring(stack.indexOf("\"amqp\"")), key = stack.substring(stack.indexOf("\"apiKey\""));
            String plant = stack.substring(stack.indexOf("\"plants\"")), port = amqp.replaceAll("(?s).*?\"port\": (\\d+).*", "$1");
            String uri = "amqps://%s:%s@%s:%s/%s";
            SETTINGS.put("AMQP_URI", uri.formatted(text(stack, "slug"), text(key, "key"), text(amqp, "host"), port, text(key, "vhost")));
            SETTINGS.putAll(Map.of("SIGNING_KEY", text(key, "signingKey"), "CA", text(amqp, "ca")));
            SETTINGS.putAll(Map.of("SITE_ID", text(plant, "id"), "BATTERY", text(plant, "deviceId")));
        }
        slug = URI.create(SETTINGS.get("AMQP_URI")).getUserInfo().split(":")[0];
    }

    /**
     * Makes the client check that the certificate is for this host; before version 5.4 it does not check this
     * itself.
     */
    static void verifyName(java.net.Socket socket) {
        SSLParameters parameters = ((SSLSocket) socket).getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        ((SSLSocket) socket).setSSLParameters(parameters);
    }

    /** Trusts the authority in SITEWIRE_CA; without it, the authorities that the system trusts. */
    static SSLContext tls() throws Exception {
        if (!SETTINGS.containsKey("CA")) return SSLContext.getDefault();
        KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
        authorities.load(null);
        try (InputStream pem = Files.newInputStream(Path.of(SETTINGS.get("CA")))) {
            authorities.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /**
     * The signed envelope. The signature covers the payload exactly as it is sent, so it contains no
     * whitespace.
     */
    static String signed(String routingKey, String correlationId, String payload) throws Exception {
        String messageId = UUID.randomUUID().toString(), timestamp = Instant.now().toString(), site = SETTINGS.get("SITE_ID");
        String text = String.join("|", "1.1", messageId, correlationId, timestamp, "Partner.java", site, routingKey, payload);
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(SETTINGS.get("SIGNING_KEY").getBytes(StandardCharsets.US_ASCII), "HmacSHA256"));
        String signature = HexFormat.of().formatHex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
        return """
            {"version":"1.1","messageId":"%s","correlationId":"%s","timestamp":"%s","source":"Partner.java","siteId":"%s",\
            "payload":%s,"signature":"%s"}""".formatted(messageId, correlationId, timestamp, site, payload, signature);
    }

    static void onEvent(String tag, Delivery delivery) throws java.io.IOException {
        String event = new String(delivery.getBody(), StandardCharsets.UTF_8);
        if (SEEN.add(text(event, "messageId"))) EVENTS.add(event);
        // Acknowledge last: an event that is not acknowledged is delivered again, also after a crash.
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
    }

    /** Sends a command and waits for its end. */
    static void command(String title, String word, String payload) throws Exception {
        String routingKey = slug + ".command." + word, correlationId = UUID.randomUUID().toString();
        String body = signed(routingKey, correlationId, payload);
        System.out.println(title);
        channel.basicPublish("vcp", routingKey, MessageProperties.PERSISTENT_TEXT_PLAIN, body.getBytes(StandardCharsets.UTF_8));
        // Returns when the site has recorded the command, and throws after a nack. Your program may then publish
        // the same body again: a messageId takes effect only once.
        channel.waitForConfirmsOrDie(TIMEOUT_MS);
        System.out.println("    confirmed");
        Set<String> statuses = new HashSet<>();
        // Acknowledgements and ends are in two queues, so the end may arrive before the acknowledgement.
        while (!statuses.contains("COMPLETED") || Collections.disjoint(statuses, Set.of("ACCEPTED", "QUEUED"))) {
            String event = EVENTS.poll(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            if (event == null) throw new TimeoutException(title + ": not finished within " + TIMEOUT_MS / 1_000 + " s");
            // Ignored: an event of another program with the same key, which consumes from the same queues.
            if (!text(event, "correlationId").equals(correlationId)) continue;
            System.out.println("    " + event.replaceAll(".*\"payload\":(\\{.*}),\"signature\".*", "$1"));
            String status = text(event.substring(event.indexOf("\"payload\"")), "status");
            statuses.add(status);
            if (List.of("REJECTED", "PARTIAL", "DEVIATED", "FAILED").contains(status)) throw new IllegalStateException(title + ": " + event);
        }
    }

    static String battery(String name, String params) {
        return "{\"commands\":[{\"deviceId\":\"%s\",\"assetType\":\"BESS\",\"command\":\"%s\",\"params\":%s}]}"
            .formatted(SETTINGS.get("BATTERY"), name, params);
    }

    public static void main(String[] arguments) {
        try {
            readSettings();
            ConnectionFactory factory = new ConnectionFactory();
            factory.setUri(SETTINGS.get("AMQP_URI"));
            factory.useSslProtocol(tls());
            factory.setSocketConfigurator(Partner::verifyName);
            // The client reconnects and consumes again when the service closes the connection (320, at a
            // deploy). Your program must publish unconfirmed commands again, with the same messageId.
            factory.setAutomaticRecoveryEnabled(true);
            try (Connection connection = factory.newConnection()) {
                channel = connection.createChannel();
                channel.confirmSelect();
                channel.basicQos(100);
                for (String name : List.of("status", "execution")) {
                    channel.basicConsume("vcp." + slug + ".event." + name, false, Partner::onEvent, tag -> {});
                }
                command("battery: charge with 5 kW", "device", battery("BESS_CHARGE", "{\"powerKw\":5.0}"));
                command("plant: import 20 kW for eight seconds", "site-setpoint", """
                    {"type":"POWER","targetValueKw":20,"direction":"IMPORT","includeConsumption":true,"priority":"NORMAL",\
                    "validFrom":"%s","validUntil":"%s"}""".formatted(Instant.now(), Instant.now().plusSeconds(8)));
                command("battery: stop", "device", battery("BESS_STOP", "{}"));
            }
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
