#!/usr/bin/env bash
# A partner's REST side with curl alone (commands go over AMQP, which curl does not speak: partner.py, partner.mjs, Partner.java).
#
# By hand, from the project's folder, while `npm start` runs in another terminal:
#
#     bash examples/partner/partner.sh
#
# It lists the key's plants and prints of the first its configuration, its latest values, its battery's power of the last
# fifteen minutes, its meters' registers and its last commands. It ends with 0 if all was answered, with 1 and the answer if not. For another
# deployment: SITEWIRE_URL (without /api/v1) and SITEWIRE_API_KEY, a key with the scope vcp:read; SITEWIRE_BATTERY, a sub-device.
set -euo pipefail

# The first text of that name in JSON, one member a line or all in one. A program of yours has a JSON parser: use it.
text_of() { tr ',{' '\n\n' | sed -nE "s/^ *\"$1\": *\"([^\"]*)\".*/\1/p" | sed -n 1p; }

STACK=${SITEWIRE_DATA_DIR:-.dev}/stack.json
if [ -z "${SITEWIRE_URL:-}" ] && [ ! -e "$STACK" ]; then
  echo 'no stack is running here: start one with `npm start`, or set SITEWIRE_URL' >&2 && exit 1
fi
URL=${SITEWIRE_URL:-$(text_of baseUrl <"$STACK")}
KEY=${SITEWIRE_API_KEY:-$(text_of key <"$STACK")}
BATTERY=${SITEWIRE_BATTERY:-BESS-1}

# GET path [name=value…]: the answer. 429 and 5xx are asked again, after what Retry-After says. The key goes by a file that only
# this process has, not by the command line, which every user of this machine can read.
get() {
  local path=$1 query=()
  shift
  for pair in "$@"; do query+=(--data-urlencode "$pair"); done
  # Read whole before it is shown: what looks at the first line alone would break curl's pipe.
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
[ -n "$SITE" ] || { echo "this key sees no plant" >&2 && exit 1; }
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
