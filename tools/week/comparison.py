"""Reads a plant's history through every endpoint and compares each number with the expected one, digit by digit."""
from collections import Counter
from datetime import datetime, timezone
from decimal import Decimal
import random
import time

from reckoning import WIDTHS
from rest import part

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
AGGREGATES = ("avg", "min", "max", "sum", "count", "last")
GRANULARITIES = ("raw", "5m", "1h", "1d")
PAGE = 1_000
SHOWN = 20
# How many of the unknown metrics are compared one by one.
OTHERS = 12
# An answer about the current state may be this much older than its comparison, ms.
NOW_WITHIN = 60_000


def instant(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"


class Comparison:
    def __init__(self, rest, site, device, eans, reckoning, seed):
        self.rest = rest
        self.site = f"/vcp/sites/{site}"
        self.device = f"/telemetry/{part(device)}"
        self.eans = eans
        self.reckoning = reckoning
        self.random = random.Random(seed)
        self.compared = 0
        self.answers = 0
        self.differences = 0
        # Data qualities that occurred; the test expects each of them.
        self.qualities = Counter()

    def all(self, since, until):
        """Compares every width; all aggregates metric by metric in long ranges, all metrics at once in short ones."""
        self.some(since, until)
        every = (None, *AGGREGATES)
        is_long = until - since > 2 * DAY
        for metric in self.metrics():
            self.of_device(metric, "raw", None, since, until)
            for bucket in WIDTHS:
                for aggregate in every if is_long else self.random.sample(every, 1):
                    self.of_device(metric, bucket, aggregate, since, until)
            for _ in range(3):
                self.of_device(metric, self.random.choice(tuple(WIDTHS)), None, *self.window(since, until))
        for aggregate in every[:1] if is_long else every:
            self.of_all(aggregate, since, until)

    def of_all(self, aggregate, since, until):
        """All metrics at once, in the longest allowed ranges; with many metrics raw and 1m only for 10 minutes each."""
        is_wide = len(self.reckoning.metrics()) > 2 * OTHERS
        for bucket, days in {"raw": 1, "1m": 1, "5m": 7, "15m": 7, "1h": 90, "1d": 700}.items():
            if bucket == "raw" and aggregate:
                continue
            if is_wide and bucket in ("raw", "1m"):
                for start in self.random.sample(range(since, until), 5):
                    self.of_device(None, bucket, aggregate, start, start + 10 * MINUTE)
                continue
            for start in range(since, until, days * DAY):
                self.of_device(None, bucket, aggregate, start, min(start + days * DAY, until))

    def some(self, since, until):
        """Compares the telemetry and the meters that partners can read."""
        for metric in self.metrics():
            for granularity in GRANULARITIES:
                self.of_site(metric, granularity, since, until)
                self.of_site(metric, granularity, *self.window(since, until))
        self.of_site("BESS-9/powerKw", "raw", since, until)
        self.meter_readings(since, until)
        self.meter_readings(*self.window(since, until))
        self.now()

    def now(self):
        for ean in self.eans:
            self.meter_state(ean)
        self.latest()

    def metrics(self):
        """All known metrics and some of the others."""
        names = self.reckoning.metrics()
        others = [name for name in names if name.startswith("STRING-")]
        chosen = self.random.sample(others, min(OTHERS, len(others)))
        return sorted({*names} - {*others}) + chosen

    def window(self, since, until):
        """A random range; its ends do not match bucket limits."""
        start, end = sorted(self.random.sample(range(since, until), 2))
        return start, end

    def of_site(self, metric, granularity, since, until):
        query = {"metric": metric, "from": instant(since), "to": instant(until), "granularity": granularity}
        answer = self.rest.key(f"{self.site}/telemetry", **query)
        self.points(query, answer["readings"], self.expected(metric, granularity, None, since, until))

    def of_device(self, metric, bucket, aggregate, since, until):
        """Compares all pages; without a metric those of all metrics, ordered by time and then by name."""
        query = {"metric": metric, "from": instant(since), "to": instant(until), "bucket": bucket, "agg": aggregate}
        metrics = [metric] if metric else self.reckoning.metrics()
        expected = sorted(
            (ts, one, value, count)
            for one in metrics
            for ts, value, count in self.expected(one, bucket, aggregate, since, until)
        )
        found, page, total = [], 1, 1
        while page <= total:
            answer = self.rest.admin("GET", self.device, None, **query, page=page, limit=PAGE)
            found += answer["data"]
            total = answer["meta"]["totalPages"]
            page += 1
        names = [point.pop("metric", None) for point in found]
        self.same({**query, "what": "order"}, names, [name for _, name, _, _ in expected])
        self.points(query, found, [(ts, value, count) for ts, _, value, count in expected])
        self.same({**query, "what": "total"}, answer["meta"]["total"], len(expected))

    def expected(self, metric, bucket, aggregate, since, until):
        if bucket == "raw":
            return self.reckoning.raw(metric, since, until)
        return self.reckoning.buckets(metric, bucket, since, until, aggregate)

    def points(self, query, found, expected):
        self.answers += 1
        wanted = [
            {"timestamp": instant(ts), "value": value} | ({} if count is None else {"count": count})
            for ts, value, count in expected
        ]
        self.same({**query, "what": "number of points"}, len(found), len(wanted))
        for own, other in zip(found, wanted):
            self.same(query, own, other)

    def meter_readings(self, since, until):
        query = {"from": instant(since), "to": instant(until)}
        found = self.rest.key(f"{self.site}/meter-readings", **query)["readings"]
        # The answer has only quarters of an hour that have ended.
        wanted = [self.reading(one) for one in self.reckoning.quarters(since, min(until, now_ms() + 1))]
        self.answers += 1
        self.qualities.update(one["dataQuality"] for one in wanted)
        self.same({**query, "what": "number of meter readings"}, len(found), len(wanted))
        for own, other in zip(found, wanted):
            self.same({**query, "what": "meter reading"}, ordered(own), ordered(other))

    def meter_state(self, ean):
        answer = self.rest.key("/vcp/meter-state", ean=ean)["reading"]
        now = self.moment("meter-state", (answer or {}).get("readingAt"))
        expected = self.reckoning.state(now)
        self.answers += 1
        self.qualities[expected["dataQuality"] if expected else "none"] += 1
        self.same("meter-state", ordered(answer), ordered(expected and self.reading(expected)))

    def latest(self):
        asked = now_ms()
        answer = self.rest.key(f"{self.site}/telemetry/latest")
        payload = answer["payload"]
        payload["devices"] = {device["deviceId"]: device for device in payload.get("devices", [])}
        # A signal may become stale during the request.
        expected = self.reckoning.payload(asked)
        if payload != expected:
            expected = self.reckoning.payload(now_ms())
        self.answers += 1
        self.qualities[expected["dataQuality"]] += 1
        self.same("latest", payload, expected)
        # The clock of a device may be ahead, but no answer may have a timestamp in the future.
        newest = self.reckoning.newest
        at = self.moment("latest", answer["timestamp"]) if newest > asked else newest
        self.same("latest", answer["timestamp"], instant(min(at, newest)))

    def reading(self, one):
        rest = {name: value for name, value in one.items() if name != "at"}
        return {"readingAt": instant(one["at"]), **rest}

    def moment(self, what, text):
        """The answer's timestamp, which must be close to the current time; without one, the current time."""
        if text is None:
            return now_ms()
        at = round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
        self.same({"what": f"moment of {what}"}, abs(now_ms() - at) < NOW_WITHIN, True)
        return at

    def same(self, where, found, expected):
        self.compared += numbers(expected)
        if found == expected:
            return
        self.differences += 1
        if self.differences <= SHOWN:
            print(f"DIFFERENT {where}\n  answered {found}\n  expected {expected}", flush=True)


def ordered(reading):
    """Sorts the meters by name: their order in the answer is not specified."""
    return reading and {**reading, "meters": sorted(reading["meters"], key=lambda meter: meter["deviceId"])}


def numbers(value):
    """Counts the numbers in a compared value."""
    if isinstance(value, dict):
        return sum(map(numbers, value.values()))
    if isinstance(value, list):
        return sum(map(numbers, value))
    return int(isinstance(value, (int, Decimal)) and not isinstance(value, bool))


def now_ms():
    return time.time_ns() // 1_000_000
