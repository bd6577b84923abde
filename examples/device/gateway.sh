#!/usr/bin/env bash
# A gateway with only Debian's mosquitto, mosquitto-clients, curl and openssl: gateway.sh PACKAGE.json
#
# mosquitto_pub and mosquitto_sub open one connection each, but a device has one session: they would end each other's
# session. So a local mosquitto holds the device's only connection, as an MQTT bridge, and the programs here talk to it.
# PACKAGE.json is the device's provisioning package, on one line. See device.py for the settings and gateway.py for what a
# gateway does. The plant is simulated: a load of 12 kW with a battery and PV, in watts, because bash has no fractions.
# -m: each background job is a process group, which can be ended as a whole.
set -euo pipefail -m

FILE=$1
URL=${SITEWIRE_URL:-http://127.0.0.1:8787}
INTERVAL=${SITEWIRE_INTERVAL:-5}
BATTERY=${SITEWIRE_BATTERY:-BESS-1}
PV=${SITEWIRE_PV:-FVE-1}
CHARGER=${SITEWIRE_CHARGER:-EV-1}
FOLDER=$(mktemp -d)
LOCAL=${SITEWIRE_LOCAL_PORT:-18830}
broker=
trap 'for job in $(jobs -p); do kill -- "-$job" 2>/dev/null; done; rm -rf "$FOLDER"' EXIT
trap 'exit 143' TERM INT

# Print a text or number member of JSON on one line; print nothing if the member is missing.
text_of() { sed -nE "s/.*\"$1\":\"([^\"]*)\".*/\1/p"; }
number_of() { sed -nE "s/.*\"$1\":(-?[0-9.]+).*/\1/p"; }
if [ ! -e "$FILE" ]; then
  (umask 077 && curl -sf -X POST -H "authorization: Bearer $SITEWIRE_ADMIN_TOKEN" -o "$FILE" \
    "$URL/api/v1/devices/$SITEWIRE_DEVICE_ID/provision")
fi
DEVICE=$(text_of deviceId <"$FILE")
SECRET=$(text_of hmacSecret <"$FILE")
HOST=$(text_of broker <"$FILE" | sed -E 's#mqtts://(.*):.*#\1#')
PORT=$(number_of port <"$FILE")
printf '%b' "$(text_of caCertificate <"$FILE")" >"$FOLDER/ca.pem"

sign() { printf %s "$1" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1; }
now() { date +%s%3N; }
publish() { mosquitto_pub -h 127.0.0.1 -p "$LOCAL" -q 1 -t "cpi/$DEVICE/$1" -m "$2"; }

# Starts the local mosquitto with the given bridge configuration, in place of the previous one. It stores messages for `listen`.
start() {
  printf '%s\n' "listener $LOCAL 127.0.0.1" "allow_anonymous true" "user $(id -un)" "persistence true" \
    "persistence_location $FOLDER/" "$1" >"$FOLDER/mosquitto.conf"
  if [ -n "$broker" ]; then kill "$broker" && wait "$broker" || true; fi
  mosquitto -c "$FOLDER/mosquitto.conf" >"$FOLDER/mosquitto.log" 2>&1 &
  broker=$!
  until mosquitto_pub -h 127.0.0.1 -p "$LOCAL" -t ready -n 2>/dev/null; do sleep 0.2; done
}
listen() {
  mosquitto_sub -h 127.0.0.1 -p "$LOCAL" -i listener -c -q 1 -F '%t %p' -t "cpi/$DEVICE/commands" -t state "$@" 2>/dev/null
}

# Opens the device's connection with the given token. Its state, 1 or 0, arrives on a local topic.
connect() {
  start "$(
    cat <<CONF
connection sitewire
address $HOST:$PORT
bridge_cafile $FOLDER/ca.pem
bridge_protocol_version mqttv311
remote_clientid $DEVICE
remote_username $DEVICE
remote_password $1
cleansession true
try_private false
notifications_local_only true
notification_topic state
restart_timeout 1 30
topic cpi/$DEVICE/telemetry out 1
topic cpi/$DEVICE/ack out 1
topic cpi/$DEVICE/commands in 1
CONF
  )"
  echo '{"event":"connected"}'
}

acknowledge() {
  local ts
  ts=$(now)
  publish ack "{\"cmdId\":\"$1\",\"status\":\"$2\",\"ts\":$ts,\"sig\":\"$(sign "$DEVICE|$1|$ts|$2")\"}"
}

watts() { LC_ALL=C awk -v kw="$1" 'BEGIN { printf "%.0f", 1000 * kw }'; }
kilowatts() { LC_ALL=C awk -v watts="$1" 'BEGIN { printf "%.3f", watts / 1000 }'; }
clamp() { if [ "$1" -lt "$2" ]; then echo "$2"; elif [ "$1" -gt "$3" ]; then echo "$3"; else echo "$1"; fi; }

LOAD=12000 SUN=6000 MAX_POWER=50000
# The active orders, in watts; an empty value means no order. The setpoint has priority over `emergency`, which
# deletes it and lets only an EMERGENCY setpoint follow; both have priority over the battery power.
emergency='' setpoint='' until='' counts_load=true high='' battery=0 sun=$SUN
# Current powers, time of the last contact, state of the connection, and whether the fallback is active.
battery_now=0 pv_now=$SUN last_contact=$(now) state=0 fallback=0

# Executes an action; status 1 if this gateway does not support it or an emergency forbids it.
execute() {
  local action=$1 payload=$2 kw priority
  kw=$(number_of powerKw <<<"$payload")
  priority=$(text_of priority <<<"$payload")
  case "$emergency:$action:$priority" in
    :* | *:EMERGENCY_* | *:MODE_CHANGE:* | *:CONFIG_SET:* | *:SCHEDULE_* | *:SITE_SETPOINT:EMERGENCY | *:TOKEN_REFRESH:*) ;;
    # During an emergency an asset can only be stopped.
    *:BESS_STOP:*) emergency=0/${emergency#*/} && return 0 ;;
    *:FVE_STOP:*) emergency=${emergency%/*}/0 && return 0 ;;
    *) return 1 ;;
  esac
  case $action in
    SITE_SETPOINT)
      setpoint=$(watts "$(number_of targetSignedKw <<<"$payload")")
      until=$(text_of validUntil <<<"$payload")
      until=${until:+$(date -d "$until" +%s%3N)}
      [[ $payload != *'"includeConsumption":false'* ]] && counts_load=true || counts_load=false
      [[ $priority == HIGH || $priority == EMERGENCY ]] && high=1 || high='' ;;
    MODE_CHANGE)
      [ "$(text_of mode <<<"$payload")" = STANDARD ] || return 1 # the only mode that it supports
      emergency='' setpoint='' ;;
    EMERGENCY_STOP) emergency=0/0 setpoint='' battery=0 sun=$SUN ;;
    EMERGENCY_HOLD) emergency=$battery_now/$pv_now setpoint='' battery=0 sun=$SUN ;;
    CONFIG_SET) printf '%s\n' "$payload" >"$FILE.config" ;;
    SCHEDULE_SET | SCHEDULE_CANCEL)
      local id
      id=$(text_of scheduleId <<<"$payload")
      rm -f "$FILE".schedule.*."$id"
      if [ "$action" = SCHEDULE_CANCEL ]; then return 0; fi
      printf '%s\n' "$payload" >"$FILE.schedule.$(printf %012d "$(number_of sequence <<<"$payload")").$id" ;;
    BESS_STOP) battery=0 setpoint='' ;;
    BESS_*DISCHARGE*) battery=-$(watts "${kw:-50}") setpoint='' ;;
    BESS_*) battery=$(watts "${kw:-50}") setpoint='' ;;
    FVE_PRODUCE_MAX) sun=$SUN ;;
    FVE_STOP) sun=0 ;;
    FVE_REDUCE_PERCENT) sun=$((SUN * (100 - $(number_of percent <<<"$payload" | cut -d. -f1)) / 100)) ;;
    FVE_REDUCE_POWER) sun=$(clamp "$(watts "$kw")" 0 $SUN) ;;
    TOKEN_REFRESH)
      sed -i -E "s#\"mqttToken\":\"[^\"]*\"#\"mqttToken\":\"$(text_of token <<<"$payload")\"#" "$FILE"
      refreshed=1 && echo '{"event":"refreshed"}' ;;
    REBOOT) ;; # your own actions go here
    *) return 1 ;;
  esac
}

# A command as the platform writes it: compact, its members in this order. The outcomes of the last hundred commands are
# stored, so that each command is executed once.
COMMAND='^\{"cmdId":"([^"]*)","ts":([0-9]+),"action":"([A-Z0-9_]*)","payload":(.*),"sig":"([0-9a-f]{64})"\}$'
outcomes=() refreshed=''
handle() {
  [[ $1 =~ $COMMAND ]] || return 0
  local id=${BASH_REMATCH[1]} ts=${BASH_REMATCH[2]} action=${BASH_REMATCH[3]} payload=${BASH_REMATCH[4]}
  local sig=${BASH_REMATCH[5]} age outcome=COMPLETED known
  age=$(($(now) - ts))
  if [ "$(sign "$DEVICE|$id|$ts|$action|$payload")" != "$sig" ] || [ "${age#-}" -gt 300000 ]; then return 0; fi
  echo "{\"event\":\"command\",\"action\":\"$action\",\"cmdId\":\"$id\"}"
  for known in ${outcomes[@]+"${outcomes[@]}"}; do
    if [ "${known%:*}" = "$id" ]; then acknowledge "$id" "${known#*:}" && return 0; fi
  done
  acknowledge "$id" RECEIVED
  execute "$action" "$payload" || outcome=FAILED
  outcomes=(${outcomes[@]+"${outcomes[@]: -99}"} "$id:$outcome")
  acknowledge "$id" "$outcome"
}

# Without contact: the slot that is due, of the schedule with the highest sequence; otherwise the fallback after `afterSeconds`.
orders_without_contact() {
  local file ts start index slot found='' after action
  ts=$(now)
  if [ -n "$emergency" ] || { [ -n "$high" ] && [ -n "$setpoint" ]; }; then return 0; fi
  for file in "$FILE".schedule.*; do
    [ -e "$file" ] || continue
    start=$(date -d "$(text_of startTime <"$file")" +%s%3N)
    index=$(((ts - start) / 60000 / $(number_of slotDurationMinutes <"$file")))
    if [ "$start" -gt "$ts" ] || ! slot=$(grep -oE "\"slotIndex\":$index,[^}]*" "$file" | number_of value); then continue; fi
    found=1 setpoint=${slot:+$(watts "$slot")} until='' counts_load=true
  done
  if [ -n "$found" ] || [ $fallback = 1 ] || [ ! -e "$FILE.config" ]; then return 0; fi
  after=$(number_of afterSeconds <"$FILE.config") action=$(text_of action <"$FILE.config")
  if [ -z "$after" ] || [ $((ts - last_contact)) -lt $((after * 1000)) ]; then return 0; fi
  slot=$(number_of setpointKw <"$FILE.config")
  fallback=1 setpoint=${slot:+$(watts "$slot")} until='' counts_load=true battery=0
  if [ "$action" = STOP ]; then emergency=0/0; fi
  if [ "$action:$slot" = HOLD: ]; then emergency=$battery_now/$pv_now; fi
}

telemetry() {
  local ts nonce data was_fallback=$fallback before="$battery_now $pv_now"
  ts=$(now)
  if [ "$state" = 0 ]; then orders_without_contact; else last_contact=$ts; fi
  # After a reconnect the platform sends the active orders again, so delete the old ones. fallbackActive is
  # still 1 in the first message.
  if [ "$state$fallback" = 11 ]; then fallback=0 emergency='' setpoint=''; fi
  battery_now=$battery pv_now=$sun
  if [ -n "$setpoint" ] && [ "${until:-$((ts + 1))}" -gt "$ts" ]; then
    battery_now=$((setpoint + sun))
    if [ $counts_load = true ]; then battery_now=$((battery_now - LOAD)); fi
  elif [ -n "$emergency" ]; then
    battery_now=${emergency%/*} pv_now=${emergency#*/}
  fi
  battery_now=$(clamp $battery_now -$MAX_POWER $MAX_POWER)
  if [ "$before" != "$battery_now $pv_now" ]; then
    echo "{\"event\":\"powers\",\"batteryWatts\":$battery_now,\"pvWatts\":$pv_now,\"fallback\":$fallback}"
  fi
  if [ "$state" = 0 ]; then return 0; fi
  nonce=$(openssl rand -hex 16)
  data="{\"fallbackActive\":$was_fallback,\"gridPowerKw\":$(kilowatts $((LOAD + battery_now - pv_now)))"
  data+=",\"batteryPowerKw\":$(kilowatts $battery_now),\"fvePowerKw\":$(kilowatts $pv_now),\"consumptionPowerKw\":$(kilowatts $LOAD)"
  data+=",\"$BATTERY/powerKw\":$(kilowatts $battery_now),\"$PV/powerKw\":$(kilowatts $pv_now),\"$CHARGER/powerKw\":0"
  # `fault` is sent even if there is no fault, because a reported fault stays active until the gateway sends 0.
  data+=",\"$BATTERY/fault\":0,\"$PV/fault\":0,\"$CHARGER/fault\":0}"
  publish telemetry "{\"ts\":$ts,\"nonce\":\"$nonce\",\"data\":$data,\"sig\":\"$(sign "$DEVICE|$ts|$nonce|$data")\"}"
  echo '{"event":"sent","topic":"telemetry"}'
}

# Subscribe before the connection opens: the local broker stores the commands that arrive at its first subscribe.
start ''
listen -E
coproc COMMANDS { while true; do listen || sleep 0.1; done; }
connect "$(text_of mqttToken <"$FILE")"
rest=
while true; do
  if read -r -t "$INTERVAL" line <&"${COMMANDS[0]}"; then
    line=$rest$line rest=
    case $line in
      "state "*) state=${line#* } ;;
      *) handle "${line#* }" ;;
    esac
  else
    rest+=$line
    # A new token is used from the next connect on: reconnect now, between two messages.
    if [ -n "$refreshed" ]; then refreshed='' && connect "$(text_of mqttToken <"$FILE")"; fi
  fi
  telemetry
done
