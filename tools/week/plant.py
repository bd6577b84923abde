"""What the simulated plant sends: the messages of a gateway, one each half minute, as text on the wire.

The numbers have every form that devices print (`5.0`, `1e-05`, `-0.0`, zero to nine decimals). The plant behaves like
real ones: it is silent for minutes or hours, repeats messages, sends late, sends two messages with the same timestamp,
has a clock that is ahead, replaces a meter. The same seed gives the same messages.
"""
import math
import random
from dataclasses import dataclass

SECOND = 1_000
MINUTE = 60 * SECOND
QUARTER = 15 * MINUTE
HOUR = 60 * MINUTE
# The clock is moved in steps of this length, so the messages of a step are at most this old.
STEP = MINUTE
# 2026-10-25T01:00Z: clocks in Prague go back from 3:00 to 2:00.
WINTER_FROM = 1_792_890_000_000
# Maximum age of a late message, with a reserve for its transport: the tolerance is 300 s.
LATEST = 290 * SECOND
TOO_LATE = 330 * SECOND

# Gaps in which the gateway sends nothing: (start as a share of the whole time, length in minutes).
GAPS = ((0.03, 7), (0.12, 22), (0.2, 14.6), (0.28, 190), (0.44, 5), (0.62, 35), (0.82, 310))
FAST = 0.5  # from here on a message every five seconds, for three hours or a fortieth of the whole time
SLIP = (0.34, 35)  # the import register reads 4 % too low
RESET = 0.65  # the export register starts again from zero
QUIET = ((0.16, 12), (0.25, 40), (0.72, 13))  # only METER-2 is silent, until just after a quarter of an hour
# Probability that a message contains these signals; MOSTLY is that of every other signal.
OFTEN = {
    "BESS-1/temperatureCelsius": 0.8,
    "EV-1/powerKw": 0.3,
    "METER-2/productionRegisterKwh": 0.2,
    "BESS-2/powerKw": 0.15,
    "BESS-2/socPercent": 0.15,
    "leakageAmpere": 0.5,
    "busCharge": 0.5,
}
MOSTLY = 0.97


@dataclass(frozen=True)
class Message:
    ts: int
    nonce: str
    # Signal names and their numbers as text, in order.
    data: tuple
    # good, forged (wrong signature), late, replayed; only `good` is stored.
    kind: str = "good"


@dataclass(frozen=True)
class Batch:
    """The messages that are sent at one moment, in order."""

    at: int
    messages: tuple


class Plant:
    """`others`: number of additional metrics that the platform does not know."""

    def __init__(self, start, hours, seed, others=0):
        self.start = start
        self.end = start + round(hours * HOUR)
        self.random = random.Random(seed)
        self.others = [f"STRING-{number:03}/{word}" for number in range(others // 2) for word in ("volt", "ampere")]
        whole = self.end - start
        place = lambda part: start + round(part * whole)
        span = lambda part, minutes: (place(part), place(part) + round(minutes * MINUTE))
        # A short run has no room for hours of silence.
        self.gaps = [span(*gap) for gap in GAPS if gap[1] * MINUTE < 0.08 * whole]
        self.fast = (place(FAST), place(FAST) + min(3 * HOUR, whole // 40))
        self.slip = span(*SLIP)
        self.reset = place(RESET)
        quarters = [(-(-place(part) // QUARTER) * QUARTER + MINUTE, minutes) for part, minutes in QUIET]
        self.quiet = [(until - minutes * MINUTE, until) for until, minutes in quarters]
        self.held = {}  # late messages by the moment of their batch
        self.count = 0

    def batches(self):
        for at in range(self.start + STEP, self.end + STEP, STEP):
            messages = self.held.pop(at, [])
            for slot in self.slots(at - STEP, at):
                messages += self.sent(slot, at)
            if messages:
                yield Batch(at, tuple(messages))
        for at, messages in sorted(self.held.items()):
            yield Batch(at, tuple(messages))

    def slots(self, since, until):
        """Random moments, one per slot; some are at the first and some at the last millisecond of their slot."""
        width = 5 * SECOND if within([self.fast], since) else 30 * SECOND
        for slot in range(since, until, width):
            moment = slot + self.random.choice((0, width - 1, *[self.random.randrange(width)] * 6))
            if not within(self.gaps, moment):
                yield moment

    def sent(self, ts, at):
        """The messages for one slot: usually one; it may be late, sent twice, or share its timestamp with another."""
        message = self.message(ts)
        luck = self.random.random()
        if luck < 0.10:
            return self.later(message, at)
        if luck < 0.13:
            return [message, *self.later(message, at)]
        if luck < 0.18:
            return [message, *self.later(self.message(ts), at)]
        if luck < 0.195:
            return [message, self.message(at + self.random.randrange(100 * SECOND, LATEST))]
        if luck < 0.205:
            return [message, *self.refused(message, at)]
        return [message]

    def later(self, message, at):
        """Sends the message now or with one of the next four batches, unless it would be too late or in a gap."""
        steps = self.random.randrange(5)
        at += STEP * steps
        if steps == 0 or at - message.ts > LATEST or within(self.gaps, at):
            return [message]
        self.held.setdefault(at, []).append(message)
        return []

    def refused(self, message, at):
        """Messages that must be rejected: forged, too late, or with a nonce that was used before."""
        return [
            self.message(message.ts, kind="forged"),
            self.message(at - TOO_LATE, kind="late"),
            Message(message.ts, message.nonce, self.data(message.ts), "replayed"),
        ]

    def message(self, ts, kind="good"):
        self.count += 1
        return Message(ts, f"week-{self.count}", self.data(ts), kind)

    def data(self, ts):
        signals = self.signals(ts)
        chosen = [one for one in signals.items() if self.random.random() < OFTEN.get(one[0], MOSTLY)]
        return tuple(chosen or [("gridPowerKw", signals["gridPowerKw"])])

    def signals(self, ts):
        draw = self.random
        zone = 1 if ts >= WINTER_FROM else 2
        local_hours = (ts + zone * HOUR) / HOUR % 24
        sun = max(0, math.sin(math.pi * (local_hours - 7) / 11)) if 7 < local_hours < 18 else 0
        signals = {
            "gridPowerKw": f"{draw.gauss(10, 30):.3f}",
            "BESS-1/powerKw": f"{draw.uniform(-50, 50):.{draw.randrange(7)}f}",
            "BESS-1/socPercent": draw.choice(("1e-05", "5.0", "100", "1E1", f"{draw.uniform(0, 100):.2f}")),
            "BESS-1/temperatureCelsius": f"{draw.uniform(-20, 45):.1f}",
            "BESS-2/powerKw": str(draw.randrange(-20, 21)),
            "BESS-2/socPercent": str(draw.randrange(101)),
            "FVE-1/powerKw": f"{sun * draw.uniform(40, 80):.4f}" if sun else draw.choice(("0", "0.0", "-0.0")),
            "EV-1/powerKw": f"{draw.uniform(0, 22):.2f}",
            "METER-1/importRegisterKwh": f"{self.imported(ts):.6f}",
            "METER-1/exportRegisterKwh": f"{self.exported(ts):.3f}",
            "METER-2/productionRegisterKwh": str(71_000 + (ts - self.start) // (10 * MINUTE)),
            # Values too small and too large to be stored exactly in millionths.
            "leakageAmpere": draw.choice(("1.25e-07", f"{draw.uniform(0, 0.01):.9f}")),
            "busCharge": f"{draw.uniform(-9e11, 9e11):.2f}",
        }
        signals |= {name: f"{draw.uniform(0, 600):.2f}" for name in self.others}
        if within(self.quiet, ts):
            del signals["METER-2/productionRegisterKwh"]
        return signals

    def imported(self, ts):
        value = 48_210.123456 + (ts - self.start) / HOUR * 11.7
        return value * 0.96 if within([self.slip], ts) else value

    def exported(self, ts):
        """The export register: starts again from zero with the new meter."""
        since, value = (self.reset, 0) if ts >= self.reset else (self.start, 905.25)
        return value + (ts - since) / HOUR * 4.25


def within(spans, moment):
    return any(since <= moment < until for since, until in spans)
