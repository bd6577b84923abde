#!/usr/bin/env bash
# A device with Debian's mosquitto, mosquitto-clients, curl and openssl alone: gateway.sh PACKAGE.json
#
# mosquitto_pub and mosquitto_sub are a connection each, and a device has one session: they would end each other. So a
# mosquitto of the device's own holds the one connection, as a bridge, and everything on this machine speaks to that.
# PACKAGE.json is the device's provisioning package. See device.py for what a device does.
# -m: each background job is a process group, which ends as one.
set -euo pipefail -m

FILE=$1
URL=${SITEWIRE_URL:-http://127.0.0.1:8787}
INTERVAL=${SITEWIRE_INTERVAL:-5}
FOLDER=$(mktemp -d)
LOCAL=${SITEWIRE_LOCAL_PORT:-18830}
broker=
trap 'for job in $(jobs -p); do kill -- "-$job" 2>/dev/null; done; rm -rf "$FOLDER"' EXIT
trap 'exit 143' TERM INT

# A text member of a JSON object in one line, and a PEM with its line ends.
text_of() { sed -nE "s/.*\"$1\":\"([^\"]*)\".*/\1/p" "$FILE"; }
if [ ! -e "$FILE" ]; then
  (umask 077 && curl -sf -X POST -H "authorization: Bearer $SITEWIRE_ADMIN_TOKEN" -o "$FILE" \
    "$URL/api/v1/devices/$SITEWIRE_DEVICE_ID/provision")
fi
DEVICE=$(text_of deviceId)
SECRET=$(text_of hmacSecret)
HOST=$(text_of broker | sed -E 's#mqtts://(.*):.*#\1#')
PORT=$(sed -nE 's/.*"port":([0-9]+).*/\1/p' "$FILE")
printf '%b' "$(text_of caCertificate)" >"$FOLDER/ca.pem"

sign() { printf %s "$1" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1; }
now() { date +%s%3N; }
publish() { mosquitto_pub -h 127.0.0.1 -p "$LOCAL" -q 1 -t "cpi/$DEVICE/$1" -m "$2"; }

# The one connection, with the token that is good now.
connect() {
  cat >"$FOLDER/mosquitto.conf" <<CONF
listener $LOCAL 127.0.0.1
allow_anonymous true
user $(id -un)
connection sitewire
address $HOST:$PORT
bridge_cafile $FOLDER/ca.pem
bridge_protocol_version mqttv311
remote_clientid $DEVICE
remote_username $DEVICE
remote_password $1
cleansession true
try_private false
notifications false
restart_timeout 1 30
topic cpi/$DEVICE/telemetry out 1
topic cpi/$DEVICE/status out 1
topic cpi/$DEVICE/ack out 1
topic cpi/$DEVICE/commands in 1
CONF
  if [ -n "$broker" ]; then kill "$broker" && wait "$broker" || true; fi
  mosquitto -c "$FOLDER/mosquitto.conf" >"$FOLDER/mosquitto.log" 2>&1 &
  broker=$!
  until mosquitto_pub -h 127.0.0.1 -p "$LOCAL" -t ready -n 2>/dev/null; do sleep 0.2; done
  echo '{"event":"connected"}'
}

acknowledge() {
  local ts
  ts=$(now)
  publish ack "{\"cmdId\":\"$1\",\"status\":\"$2\",\"ts\":$ts,\"sig\":\"$(sign "$DEVICE|$1|$ts|$2")\"}"
}

# A command as the platform writes it: compact, its members in this order.
COMMAND='^\{"cmdId":"([^"]*)","ts":([0-9]+),"action":"([A-Z0-9_]*)","payload":(.*),"sig":"([0-9a-f]{64})"\}$'
obey() {
  [[ $1 =~ $COMMAND ]] || return 0
  local id=${BASH_REMATCH[1]} ts=${BASH_REMATCH[2]} action=${BASH_REMATCH[3]} payload=${BASH_REMATCH[4]}
  local sig=${BASH_REMATCH[5]} age
  age=$(($(now) - ts))
  if [ "$(sign "$DEVICE|$id|$ts|$action|$payload")" != "$sig" ] || [ "${age#-}" -gt 300000 ]; then return 0; fi
  echo "{\"event\":\"command\",\"action\":\"$action\",\"cmdId\":\"$id\"}"
  acknowledge "$id" RECEIVED
  acknowledge "$id" COMPLETED
  if [ "$action" = TOKEN_REFRESH ]; then
    local token
    token=$(sed -nE 's/.*"token":"([^"]*)".*/\1/p' <<<"$payload")
    sed -i -E "s#\"mqttToken\":\"[^\"]*\"#\"mqttToken\":\"$token\"#" "$FILE"
    echo '{"event":"refreshed"}'
    touch "$FOLDER/refreshed"
  fi
}

telemetry() {
  local ts nonce data
  ts=$(now)
  nonce=$(openssl rand -hex 16)
  data="{\"powerKw\":$((RANDOM % 10)).5,\"temperatureCelsius\":21.5}"
  publish telemetry "{\"ts\":$ts,\"nonce\":\"$nonce\",\"data\":$data,\"sig\":\"$(sign "$DEVICE|$ts|$nonce|$data")\"}"
  echo '{"event":"sent","topic":"telemetry"}'
}

connect "$(text_of mqttToken)"
while true; do mosquitto_sub -h 127.0.0.1 -p "$LOCAL" -q 1 -t "cpi/$DEVICE/commands" || sleep 1; done |
  while read -r line; do obey "$line"; done &
while true; do
  sleep "$INTERVAL"
  telemetry
  # The new token counts from the next connect on: now, between two messages.
  if [ -e "$FOLDER/refreshed" ]; then rm "$FOLDER/refreshed" && connect "$(text_of mqttToken)"; fi
done
