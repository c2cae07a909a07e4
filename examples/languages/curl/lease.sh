#!/usr/bin/env bash
# Holds a lease with nothing but bash and curl: acquire, fenced write, renew, release, events.
# Usage: LEASEHOLD_URL=… LEASEHOLD_TOKEN=… STORE_URL=… lease.sh KEY
set -euo pipefail

key=$1
holder="lease.sh on $(uname -n)"
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT

# A mutation is a POST with its input as the body. The token is read from a file: arguments are visible to others.
printf 'authorization: Bearer %s\n' "$LEASEHOLD_TOKEN" > "$folder/headers"
call() {
  curl --silent --show-error --fail-with-body --max-time 20 --retry 3 --retry-connrefused \
    --header @"$folder/headers" --header 'content-type: application/json' \
    --data "$2" "$LEASEHOLD_URL/trpc/$1"
}

# A query is a GET with its input in the address.
ask() {
  curl --silent --show-error --fail-with-body --max-time 20 \
    --header @"$folder/headers" --get --data-urlencode "input=$2" "$LEASEHOLD_URL/trpc/$1"
}

# One stream of server-sent events, after the event with this id. It has a ping every 3 seconds. It is given up 10 seconds
# after its last byte: curl counts those of the last 5 seconds, and there must be none for 5.
stream() {
  exec curl --silent --no-buffer --connect-timeout 10 --speed-limit 1 --speed-time 5 \
    --header @"$folder/headers" --header "last-event-id: $1" \
    --get --data-urlencode "input={\"namespace\":\"examples\",\"name\":\"$key\"}" \
    "$LEASEHOLD_URL/trpc/events.watch" 2> /dev/null
}

# Prints events as they happen, each once. A stream that breaks, or was refused for now, continues after the last
# event. It ends when it is refused permanently, or killed: run it with &.
watch() {
  local last_id=$1 event id data name value
  while true; do
    event='' id='' data=''
    while read -r name value || [ -n "$name" ]; do
      case $name in
        event:) event=$value ;;
        id:) id=$value ;;
        data:) data=$value ;;
        '')
          # Events without an id are of the stream itself, such as pings.
          [ -n "$id" ] && last_id=$id && echo "$data"
          [ "$event" = serialized-error ] && fail_unless_passing "$data"
          event='' id='' data=''
          ;;
        # No stream, but the body of an error.
        *) fail_unless_passing "$name $value" ;;
      esac
    done < <(stream "$last_id")
    sleep 1
  done
}

fail_unless_passing() {
  [[ $1 != *'"retryable":false'* ]] || { echo "the stream was refused: $1" >&2 && exit 1; }
}

# The first text or number with this name in an answer. For more than an example, use jq.
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<< "$2"
}

# Milliseconds since the machine started, on Linux: a clock that nobody sets.
now_ms() {
  local up
  read -r up _ < /proc/uptime
  echo "${up/./}0"
}

write() {
  curl --silent --max-time 20 --request PUT --header "fencing-token: $1" --data "$2" "$STORE_URL/$key"
}

acquire() {
  # If no answer comes, the same request with the same idempotency key is granted only once. Each attempt of each
  # process has a key of its own: two with the same key get the same lease.
  local answer idempotency_key
  read -r idempotency_key < /proc/sys/kernel/random/uuid
  answer=$(call leases.acquire "{
    \"namespace\": [\"examples\"], \"key\": \"$key\", \"ttlMs\": 10000, \"waitMs\": 5000, \"holder\": \"$holder\",
    \"localTimeMs\": $(now_ms), \"idempotencyKey\": \"$idempotency_key\"
  }")
  if [ "$(field outcome "$answer")" != granted ]; then
    echo "not granted: $answer" >&2
    exit 1
  fi
  lease_id=$(field leaseId "$answer")
  token=$(field fencingToken "$answer")
  lose_at_ms=$(field loseAtMs "$answer")
}

release() {
  field outcome "$(call leases.release "{ \"leaseId\": \"$lease_id\", \"fencingToken\": \"$token\" }")"
}

last_id=$(field lastId "$(ask events.head {})")

acquire
first_token=$token
echo "acquired with token $token"
echo "the store: $(write "$token" "by $holder")"

# Renew in a loop, at `renewAtMs` of each answer, for as long as the work goes on. Stop the work at `loseAtMs`.
answer=$(call leases.heartbeat "{
  \"localTimeMs\": $(now_ms), \"renewals\": [{ \"leaseId\": \"$lease_id\", \"fencingToken\": \"$token\" }]
}")
field outcome "$answer"
lose_at_ms=$(field loseAtMs "$answer")
echo "time left: $([ "${lose_at_ms%.*}" -gt "$(now_ms)" ] && echo yes || echo no)"
release

acquire
echo "acquired again with a larger token: $([ "$token" -gt "$first_token" ] && echo yes || echo no)"
echo "the store: $(write "$token" "by the second grant")"
echo "the store, to a late write of the first grant: $(write "$first_token" "late")"
release

# From before the first grant: nothing is missed.
: > "$folder/events"
watch "$last_id" >> "$folder/events" &
while [ "$(wc -l < "$folder/events")" -lt 4 ]; do
  kill -0 $!
  sleep 0.1
done
grep '"kind"' "$folder/events" | while read -r event; do
  echo "event: $(field kind "$event")"
done
