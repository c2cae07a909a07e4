"""Holds a lease with Python's standard library: acquire, fenced write, renew, release, events.

Usage: LEASEHOLD_URL=… LEASEHOLD_TOKEN=… STORE_URL=… python3 lease.py KEY
"""

import http.client
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

URL = os.environ["LEASEHOLD_URL"]
STORE_URL = os.environ["STORE_URL"]
HEADERS = {"authorization": "Bearer " + os.environ["LEASEHOLD_TOKEN"]}
HOLDER = f"lease.py on {socket.gethostname()}"
TRIES_MAX = 5
ANSWER_S = 20
# A stream without news has a ping every three seconds.
IDLE_S = 10

# A clock that nobody sets, and that goes on while the machine sleeps.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Refused(Exception):
    """What Leasehold has refused, with the code of docs/errors.md."""

    def __init__(self, error):
        super().__init__(f"{error['data']['leaseholdCode']}: {error['message']}")
        self.code = error["data"]["leaseholdCode"]
        self.retryable = error["data"]["retryable"]


# A connection that broke, before or during an answer.
BROKEN = (OSError, http.client.HTTPException)


def now_ms():
    return time.clock_gettime_ns(CLOCK) / 1e6


def send(request):
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return json.load(answer)["result"]["data"]
    except urllib.error.HTTPError as error:
        raise failure_of(error) from None


def failure_of(error):
    try:
        return Refused(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        # A proxy has answered.
        return OSError(f"HTTP {error.code}")


def call(procedure, given):
    """A mutation: a POST with its input as the body."""
    body = json.dumps(given).encode()
    headers = {**HEADERS, "content-type": "application/json"}
    return send(urllib.request.Request(f"{URL}/trpc/{procedure}", body, headers))


def ask(procedure, given):
    """A query: a GET with its input in the address."""
    return send(urllib.request.Request(address_of(procedure, given), headers=HEADERS))


def address_of(procedure, given):
    return f"{URL}/trpc/{procedure}?" + urllib.parse.urlencode({"input": json.dumps(given)})


def acquire(key, ttl_ms=10_000, wait_ms=5_000):
    wanted = {
        "namespace": ["examples"],
        "key": key,
        "ttlMs": ttl_ms,
        "waitMs": wait_ms,
        "holder": HOLDER,
        # If no answer comes, the same request with the same key is granted only once.
        "idempotencyKey": str(uuid.uuid4()),
    }
    for tries in range(TRIES_MAX):
        try:
            answer = call("leases.acquire", {**wanted, "localTimeMs": now_ms()})
            break
        except BROKEN:
            time.sleep(0.1 * 2**tries)
        except Refused as refused:
            if not refused.retryable:
                raise
            time.sleep(0.1 * 2**tries)
    else:
        call("leases.cancel", {"idempotencyKey": wanted["idempotencyKey"]})
        raise TimeoutError("Leasehold does not answer")
    if answer["outcome"] != "granted":
        raise SystemExit(f"not granted: {answer}")
    return answer["lease"]


def ref_of(lease):
    return {"leaseId": lease["leaseId"], "fencingToken": lease["fencingToken"]}


def renew(lease):
    """Call it in a loop, at `renewAtMs` of each answer. Stop the work at `loseAtMs`."""
    answer = call("leases.heartbeat", {"localTimeMs": now_ms(), "renewals": [ref_of(lease)]})
    result = answer["results"][0]
    if result["outcome"] == "renewed":
        lease["deadlines"] = result["deadlines"]
    return result["outcome"]


def release(lease):
    return call("leases.release", ref_of(lease))["outcome"]


def write(key, token, value):
    """A fenced write: the store refuses it if it has seen a larger token."""
    headers = {"fencing-token": token}
    request = urllib.request.Request(f"{STORE_URL}/{key}", value.encode(), headers, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.read().decode().strip()


def watch(wanted, last_id):
    """Events as they happen, each once.

    A stream that breaks, or was refused for now, continues after the last event.
    """
    while True:
        headers = {**HEADERS, "last-event-id": last_id}
        request = urllib.request.Request(address_of("events.watch", wanted), headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=IDLE_S) as stream:
                for event in events_in(stream):
                    last_id = event["id"]
                    yield event
        except urllib.error.HTTPError as error:
            raise_unless_passing(failure_of(error))
        except Refused as refused:
            raise_unless_passing(refused)
        except BROKEN:
            pass
        time.sleep(1)


def raise_unless_passing(failure):
    if isinstance(failure, Refused) and not failure.retryable:
        raise failure from None


def events_in(stream):
    fields = {}
    for line in stream:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name != "":
            fields[name] = value
            continue
        # Events without an id are of the stream itself, such as pings.
        if fields.get("event") == "serialized-error":
            raise Refused(json.loads(fields["data"]))
        if "id" in fields:
            yield json.loads(fields["data"])
        fields = {}


def main(key):
    last_id = ask("events.head", {})["lastId"]
    lease = acquire(key)
    print(f"acquired with token {lease['fencingToken']}")
    print("the store:", write(key, lease["fencingToken"], f"by {HOLDER}"))
    print(renew(lease))
    left_ms = lease["deadlines"]["loseAtMs"] - now_ms()
    print("time left:", "yes" if left_ms > 0 else "no")
    print(release(lease))

    again = acquire(key)
    larger = int(again["fencingToken"]) > int(lease["fencingToken"])
    print("acquired again with a larger token:", "yes" if larger else "no")
    print("the store:", write(key, again["fencingToken"], "by the second grant"))
    late = write(key, lease["fencingToken"], "late")
    print("the store, to a late write of the first grant:", late)
    print(release(again))

    # From before the first grant: nothing is missed.
    seen = 0
    for event in watch({"namespace": "examples", "name": key}, last_id):
        print("event:", event["kind"])
        seen += 1
        if seen == 4:
            return


if __name__ == "__main__":
    main(sys.argv[1])
