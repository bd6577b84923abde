#!/usr/bin/env bash
# A partner's REST side with curl only. Commands go over AMQP, which curl does not speak: see partner.py, partner.mjs and
# Partner.java.
#
# To try it, run `npm start` in another terminal, then in the project's folder:
#
#     bash examples/partner/partner.sh
#
# It lists the key's plants and prints, for the first plant, its configuration, its latest values, its battery's power in
# the last fifteen minutes, its meters' registers and its last commands. It exits with 0 if all requests succeed,
# otherwise with 1 and the failed answer.
#
# For another deployment set SITEWIRE_URL (without /api/v1), SITEWIRE_API_KEY (a key with the scope vcp:read) and
# SITEWIRE_BATTERY (a sub-device).
set -euo pipefail

# Prints the first text member with that name, from JSON on one line or with one member per line. Use a JSON parser in
# your program.
text_of() { tr ',{' '\n\n' | sed -nE "s/^ *\"$1\": *\"([^\"]*)\".*/\1/p" | sed -n 1p; }

STACK=${SITEWIRE_DATA_DIR:-.dev}/stack.json
if [ -z "${SITEWIRE_URL:-}" ] && [ ! -e "$STACK" ]; then
  echo 'no stack is running here: start one with `npm start`, or set SITEWIRE_URL' >&2 && exit 1
fi
URL=${SITEWIRE_URL:-$(text_of baseUrl <"$STACK")}
KEY=${SITEWIRE_API_KEY:-$(text_of key <"$STACK")}
BATTERY=${SITEWIRE_BATTERY:-BESS-1}

# get PATH [name=value…] prints the answer. curl retries 429 and 5xx after the time in Retry-After. The key is
# passed to curl through a file descriptor, because every user of this machine can read the command line.
get() {
  local path=$1 query=()
  shift
  for pair in "$@"; do query+=(--data-urlencode "$pair"); done
  # Read the whole answer before printing it. Otherwise curl would fail if the program after the pipe stops
  # after the first line.
  local answer
  if ! answer=$(curl -sS --fail-with-body --retry 3 --max-time 30 --get -H @<(printf 'X-API-Key: %s' "$KEY") \
    "${query[@]}" "$URL/api/v1/vcp$path"); then
    echo "GET $path: $answer" >&2
    exit 1
  fi
  printf '%s\n' "$answer"
}

minutes_ago() { date -u -d "-$1 minutes" +%Y-%m-%dT%H:%M:%SZ; }

echo "plants"
sites=$(get /sites)
echo "$sites"
SITE=$(text_of id <<<"$sites")
EAN=$(text_of eanCons <<<"$sites")
[ -n "$SITE" ] || { echo "no plant is accessible with this key" >&2 && exit 1; }
echo "configuration of $SITE"
get "/sites/$SITE/config"
echo "latest values"
get "/sites/$SITE/telemetry/latest"
echo "$BATTERY/powerKw in the last fifteen minutes"
get "/sites/$SITE/telemetry" "metric=$BATTERY/powerKw" "from=$(minutes_ago 15)" "to=$(minutes_ago 0)" granularity=5m
if [ -n "$EAN" ]; then
  echo "registers of $EAN"
  get /meter-state "ean=$EAN"
fi
echo "the last five commands"
get "/sites/$SITE/commands" pageSize=5
