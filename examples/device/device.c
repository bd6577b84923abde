/*
 * A device in C with Debian's libmosquitto, cJSON, libcurl and OpenSSL:
 *
 *     cc -O2 -Wall -o device device.c -lmosquitto -lcjson -lcurl -lcrypto && ./device PACKAGE.json
 *
 * As device.py: a missing PACKAGE.json is fetched once, with SITEWIRE_URL, SITEWIRE_DEVICE_ID and SITEWIRE_ADMIN_TOKEN.
 * Telemetry is sent every SITEWIRE_INTERVAL seconds. The program runs until it is stopped.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <mosquitto.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EXECUTED = 256 };
static const char *file, *url, *device, *secret;
static cJSON *provisioned, *security;
static char executed[MAX_EXECUTED][64]; /* cmdIds: a command may arrive several times and is executed once */
static unsigned executed_count;
static int is_refused, is_connected;

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}
static cJSON *item(const cJSON *object, const char *name) { return cJSON_GetObjectItemCaseSensitive(object, name); }
static const char *text_of(const cJSON *object, const char *name) { return cJSON_GetStringValue(item(object, name)); }
static void hex(const unsigned char *bytes, unsigned length, char *out) {
  for (unsigned i = 0; i < length; i++) sprintf(out + 2 * i, "%02x", bytes[i]);
}
/* HMAC-SHA256 in lower-case hex; the key is the secret's 64 characters. */
static void sign(const char *text, char *out) {
  unsigned char mac[32];
  HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text, strlen(text), mac, NULL);
  hex(mac, 32, out);
}
static void new_nonce(char *out) {
  unsigned char bytes[16];
  RAND_bytes(bytes, sizeof bytes), hex(bytes, sizeof bytes, out);
}
/* Writes the whole file or nothing. Only its owner can read it: it contains the secret. */
static void store(void) {
  char name[512], *text = cJSON_PrintUnformatted(provisioned);
  snprintf(name, sizeof name, "%s.new", file);
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) exit(1);
  close(fd), rename(name, file), free(text);
}
/* Sends a POST; returns the JSON of an answer 200, otherwise NULL. */
static cJSON *post(const char *path, const char *body, const char *bearer) {
  char address[512], authorization[4096], *answer = NULL;
  size_t length = 0;
  long status = 0;
  FILE *to = open_memstream(&answer, &length);
  struct curl_slist *headers = curl_slist_append(NULL, "content-type: application/json");
  snprintf(address, sizeof address, "%s/api/v1%s", url, path);
  snprintf(authorization, sizeof authorization, "authorization: Bearer %s", bearer);
  headers = curl_slist_append(headers, authorization);
  CURL *curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, address), curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body), curl_easy_setopt(curl, CURLOPT_WRITEDATA, to);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl), curl_slist_free_all(headers), fclose(to);
  cJSON *json = status == 200 ? cJSON_Parse(answer) : NULL;
  if (!json) fprintf(stderr, "%s answered %ld %s\n", path, status, answer);
  return free(answer), json;
}
/* The characters of a member as received, without whitespace outside strings: this text is signed. */
static char *member(const char *text, const char *name) {
  char key[64], *out = malloc(strlen(text) + 1), *to = out;
  int depth = 0, quoted = 0;
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(text, key);
  for (at = at ? at + strlen(key) : ""; *at; at++) {
    if (quoted && *at == '\\') *to++ = *at++;
    else if (*at == '"') quoted = !quoted;
    else if (!quoted && strchr("{[", *at)) depth++;
    else if (!quoted && strchr("}]", *at)) depth--;
    if (quoted || !strchr(" \t\r\n", *at)) *to++ = *at;
    if (depth == 0 && !quoted && to > out) break;
  }
  return *to = 0, out;
}
static const char *topic(const char *name) { return text_of(item(item(provisioned, "mqtt"), "topics"), name); }
static void publish(struct mosquitto *client, const char *name, const char *payload) {
  int mid = 0; /* the library resends the same characters if no PUBACK arrives */
  mosquitto_publish(client, &mid, topic(name), (int)strlen(payload), payload, 1, false);
  printf("{\"event\":\"sent\",\"topic\":\"%s\",\"mid\":%d}\n", name, mid);
}
static void acknowledge(struct mosquitto *client, const char *cmd_id, const char *status) {
  char text[512], sig[65], message[768];
  long long ts = now_ms();
  snprintf(text, sizeof text, "%s|%s|%lld|%s", device, cmd_id, ts, status), sign(text, sig);
  snprintf(message, sizeof message, "{\"cmdId\":\"%s\",\"status\":\"%s\",\"ts\":%lld,\"sig\":\"%s\"}", cmd_id, status, ts, sig);
  publish(client, "ack", message);
}
static void store_token(struct mosquitto *client, const cJSON *renewed) {
  if (!text_of(renewed, "token")) return;
  cJSON_ReplaceItemInObject(security, "mqttToken", cJSON_CreateString(text_of(renewed, "token")));
  cJSON_ReplaceItemInObject(security, "tokenExpiresAt", cJSON_CreateString(text_of(renewed, "expiresAt"))), store();
  mosquitto_username_pw_set(client, device, text_of(security, "mqttToken")); /* used from the next connect on */
  printf("{\"event\":\"refreshed\"}\n");
}
static void on_message(struct mosquitto *client, void *unused, const struct mosquitto_message *received) {
  char *body = strndup(received->payload, (size_t)received->payloadlen), sig[65];
  cJSON *command = cJSON_Parse(body);
  const char *id = text_of(command, "cmdId"), *action = text_of(command, "action"), *received_sig = text_of(command, "sig");
  if (id && action && received_sig && strlen(id) < 64 && strlen(received_sig) == 64) {
    char *payload = member(body, "payload"), *text = malloc(strlen(body) + 512);
    long long sent = (long long)cJSON_GetNumberValue(item(command, "ts"));
    sprintf(text, "%s|%s|%lld|%s|%s", device, id, sent, action, payload), sign(text, sig);
    if (CRYPTO_memcmp(sig, received_sig, 64) == 0 && llabs(now_ms() - sent) <= 300000) {
      int is_repeat = 0;
      for (unsigned i = 0; i < MAX_EXECUTED; i++) is_repeat |= strcmp(executed[i], id) == 0;
      printf("{\"event\":\"command\",\"action\":\"%s\",\"cmdId\":\"%s\"}\n", action, id);
      if (!is_repeat) {
        acknowledge(client, id, "RECEIVED");
        if (strcmp(action, "TOKEN_REFRESH") == 0) store_token(client, item(command, "payload"));
        strcpy(executed[executed_count++ % MAX_EXECUTED], id);
      }
      acknowledge(client, id, "COMPLETED");
    } else printf("{\"event\":\"ignored\",\"cmdId\":\"%s\"}\n", id);
    free(payload), free(text);
  }
  cJSON_Delete(command), free(body);
}
static void on_connect(struct mosquitto *client, void *unused, int code) {
  printf("{\"event\":\"%s\",\"code\":%d}\n", code == 0 ? "connected" : "refused", code);
  is_connected = code == 0, is_refused = code == 5;
  if (code == 0) mosquitto_subscribe(client, NULL, topic("commands"), 1);
}
static void on_publish(struct mosquitto *client, void *unused, int mid) { printf("{\"event\":\"stored\",\"mid\":%d}\n", mid); }
/* Gets a new token with the secret, because the current token was rejected. */
static void renew(struct mosquitto *client) {
  char nonce[33], text[256], sig[65], body[256], path[128];
  long long ts = now_ms();
  new_nonce(nonce), snprintf(text, sizeof text, "%s|%lld|%s|RENEW", device, ts, nonce), sign(text, sig);
  snprintf(body, sizeof body, "{\"ts\":%lld,\"nonce\":\"%s\",\"sig\":\"%s\"}", ts, nonce, sig);
  snprintf(path, sizeof path, "/devices/%s/mqtt-token/renew", device);
  cJSON *renewed = post(path, body, "");
  if (renewed) store_token(client, renewed), cJSON_Delete(renewed);
}
static void send_telemetry(struct mosquitto *client) {
  char nonce[33], data[128], text[384], sig[65], message[512];
  long long ts = now_ms();
  new_nonce(nonce);
  snprintf(data, sizeof data, "{\"powerKw\":%.3f,\"temperatureCelsius\":21.5}", (rand() % 10000) / 1000.0);
  snprintf(text, sizeof text, "%s|%lld|%s|%s", device, ts, nonce, data), sign(text, sig);
  snprintf(message, sizeof message, "{\"ts\":%lld,\"nonce\":\"%s\",\"data\":%s,\"sig\":\"%s\"}", ts, nonce, data, sig);
  publish(client, "telemetry", message);
}
static void load(void) {
  static char text[65536], path[128];
  FILE *in = fopen(file, "r");
  if (in) {
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    provisioned = cJSON_Parse(text), fclose(in);
    return;
  }
  snprintf(path, sizeof path, "/devices/%s/provision", getenv("SITEWIRE_DEVICE_ID"));
  if ((provisioned = post(path, "{}", getenv("SITEWIRE_ADMIN_TOKEN")))) store();
}
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  file = argc > 1 ? argv[1] : "device.json";
  url = getenv("SITEWIRE_URL") ? getenv("SITEWIRE_URL") : "http://127.0.0.1:8787";
  double interval = atof(getenv("SITEWIRE_INTERVAL") ? getenv("SITEWIRE_INTERVAL") : "5");
  if (load(), !provisioned) return 1;
  security = item(provisioned, "security"), device = text_of(provisioned, "deviceId"), secret = text_of(security, "hmacSecret");
  char ca[512], host[256] = "";
  snprintf(ca, sizeof ca, "%s.ca.pem", file);
  FILE *out = fopen(ca, "w");
  if (!out || fputs(text_of(security, "caCertificate"), out) < 0 || fclose(out) != 0) return 1;
  int port = (int)cJSON_GetNumberValue(item(item(provisioned, "mqtt"), "port"));
  sscanf(text_of(item(provisioned, "mqtt"), "broker"), "mqtts://%255[^:]", host);
  mosquitto_lib_init();
  struct mosquitto *client = mosquitto_new(device, true, NULL);
  mosquitto_username_pw_set(client, device, text_of(security, "mqttToken")), mosquitto_tls_set(client, ca, NULL, NULL, NULL, NULL);
  mosquitto_connect_callback_set(client, on_connect), mosquitto_message_callback_set(client, on_message);
  mosquitto_publish_callback_set(client, on_publish);
  mosquitto_connect(client, host, port, 60);
  for (long long next = 0;;) {
    if (mosquitto_loop(client, 100, 1) != MOSQ_ERR_SUCCESS) {
      if (is_refused) renew(client);
      is_connected = is_refused = 0;
      sleep(1), mosquitto_reconnect(client);
    }
    if (is_connected && now_ms() >= next) send_telemetry(client), next = now_ms() + (long long)(interval * 1000);
  }
}
