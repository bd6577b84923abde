"""Calculates the expected answers from the messages, independently of the product: exact decimals, every bucket
directly from its samples, every register from its first sample on [C-4.5], [C-4.6].
"""
from bisect import bisect_left
from decimal import ROUND_HALF_UP, Decimal, getcontext
from fractions import Fraction

getcontext().prec = 60

MINUTE = 60_000
WIDTHS = {"1m": MINUTE, "5m": 5 * MINUTE, "15m": 15 * MINUTE, "1h": 60 * MINUTE, "1d": 1_440 * MINUTE}
QUARTER = 15 * MINUTE
GOOD, STALE = 5 * MINUTE, 15 * MINUTE
MICRO = Decimal("0.000001")
# A register that falls below this share of its maximum belongs to a new meter; a smaller fall is a glitch.
SLIP = Decimal("0.9")
# A fall is believed after so many further readings, or after this time.
SURE_READINGS, SURE_MS = 2, 60_000

SUB_DEVICES = {
    "BESS-1": {"assetType": "BESS", "capacityKwh": 100},
    "FVE-1": {"assetType": "FVE"},
    "METER-1": {"assetType": "METER", "meterRole": "GRID"},
    "EV-1": {"assetType": "EV_CHARGER"},
    "BESS-2": {"assetType": "BESS", "capacityKwh": 40},
    "METER-2": {"assetType": "METER", "meterRole": "FVE"},
}
REGISTERS = ("importRegisterKwh", "exportRegisterKwh", "productionRegisterKwh")
SAMPLE_SIGNALS = ("availableCapacityKwh", "regulationPercent", "socPercent", "temperatureCelsius")


def printed(number):
    """The number as a double is printed: the digits that an answer must have."""
    return Decimal(repr(float(number)))


def is_register(metric):
    return metric.endswith("RegisterKwh")


class Reckoning:
    def __init__(self):
        self.values = {}  # by metric and timestamp; with equal timestamps the later received wins
        self.taken = 0
        self.sorted = {}
        self.last = {}  # newest (timestamp, value) of each metric
        self.newest = 0

    def take(self, message):
        self.taken += 1
        for name, text in message.data:
            value = Decimal(text)
            self.values.setdefault(name, {})[message.ts] = value
            self.sorted.pop(name, None)
            if message.ts >= self.last.get(name, (0,))[0]:
                self.last[name] = message.ts, value
        self.newest = max(self.newest, message.ts)

    def metrics(self):
        return sorted(self.values)

    def samples(self, metric, since=0, until=10**15):
        """(timestamps, values) in [since, until)."""
        if metric not in self.sorted:
            own = sorted(self.values.get(metric, {}).items())
            self.sorted[metric] = [ts for ts, _ in own], [value for _, value in own]
        moments, values = self.sorted[metric]
        first, end = bisect_left(moments, since), bisect_left(moments, until)
        return moments[first:end], values[first:end]

    def raw(self, metric, since, until):
        """Raw samples as points: (timestamp, value, count)."""
        return [(ts, printed(value), None) for ts, value in zip(*self.samples(metric, since, until))]

    def buckets(self, metric, bucket, since, until, aggregate=None):
        """Whole buckets that begin in [since, until), as points."""
        width = WIDTHS[bucket]
        aggregate = aggregate or ("last" if is_register(metric) else "avg")
        start = -(-since // width) * width
        moments, values = self.samples(metric, start, -(-until // width) * width)
        points, first = [], 0
        while first < len(moments):
            start = moments[first] // width * width
            end = bisect_left(moments, start + width)
            points.append((start, printed(reckon(aggregate, values[first:end])), end - first))
            first = end
        return points

    def registers(self):
        """For each register: (timestamps, totals over all meters, whether each total was computed)."""
        walks = {}
        for metric in filter(is_register, self.values):
            moments, values = self.samples(metric)
            counted, before, origin, doubt, totals, computed = values[0], Decimal(0), Decimal(0), None, [], []
            for moment, value in zip(moments, values):
                is_held = value < counted
                if not is_held or value >= counted * SLIP:
                    counted, doubt = max(counted, value), None
                elif doubt is None:
                    doubt = moment, 0
                else:
                    doubt = doubt[0], doubt[1] + 1
                    if doubt[1] >= SURE_READINGS or moment - doubt[0] >= SURE_MS:
                        before, counted, origin = before + counted - origin + value, value, value
                        doubt, is_held = None, False
                totals.append(printed(before + counted - origin))
                computed.append(before != origin or is_held)
            walks[metric] = moments, totals, computed
        return walks

    def reading(self, walks, at, until, memory):
        """Meter reading at `at`, from register values received before `until` and at most `memory` before `at`."""
        meters, ages, is_computed = [], [], False
        for device, facts in SUB_DEVICES.items():
            entry = {}
            for register in REGISTERS:
                moments, totals, computed = walks.get(f"{device}/{register}", ([], [], []))
                last = bisect_left(moments, until) - 1
                if "meterRole" not in facts or last < 0 or at - moments[last] > memory:
                    continue
                if at - moments[last] < STALE:
                    ages.append(at - moments[last])
                    entry[register] = totals[last]
                    is_computed |= computed[last]
            if entry:
                meters.append({"deviceId": device, "role": facts["meterRole"], **entry})
        if not meters:
            return None
        quality = "ESTIMATED" if is_computed else "GOOD" if max(ages) < GOOD else "DEGRADED"
        return {"at": at, "meters": meters, "dataQuality": quality}

    def quarters(self, since, until):
        """Meter reading at each quarter of an hour in [since, until), from the values of the 15 minutes before."""
        walks = self.registers()
        moments = range(-(-since // QUARTER) * QUARTER, until, QUARTER)
        readings = (self.reading(walks, at, at, QUARTER) for at in moments)
        return [reading for reading in readings if reading]

    def state(self, now):
        """Current meter reading, values with a future timestamp included: a device's clock may be ahead."""
        return self.reading(self.registers(), now, 10**15, 10**15)

    def payload(self, now):
        """The canonical payload (spec: Canonical telemetry payload; [C-3.13], [C-4.5])."""
        last, used = self.last, []

        def of(*metrics):
            if any(metric not in last for metric in metrics):
                return None
            used.extend(last[metric][0] for metric in metrics)
            return [last[metric][1] for metric in metrics]

        def devices(kind):
            return [device for device, facts in SUB_DEVICES.items() if facts["assetType"] == kind]

        def power(kind):
            own = of(*(f"{device}/powerKw" for device in devices(kind)))
            return own and rounded(sum(own))

        grid = (of("gridPowerKw") or [None])[0]
        pv, battery = power("FVE"), power("BESS")
        charges = of(*(f"{device}/socPercent" for device in devices("BESS")))
        weights = [SUB_DEVICES[device]["capacityKwh"] for device in devices("BESS")]
        heats = [of(f"{device}/temperatureCelsius") for device in devices("BESS")]
        samples = {}
        for device, facts in SUB_DEVICES.items():
            own = of(f"{device}/powerKw")
            if own is None:
                continue
            samples[device] = {"deviceId": device, "assetType": facts["assetType"], "powerKw": printed(own[0])}
            for signal in SAMPLE_SIGNALS:
                also = of(f"{device}/{signal}")
                if also:
                    samples[device][signal] = printed(also[0])
        known = None not in (grid, pv, battery)
        quality = "STALE" if now - min(used) >= GOOD else "INTERPOLATED" if known else "GOOD"
        return {
            "gridPowerKw": grid,
            "fvePowerKw": pv,
            "batteryPowerKw": battery,
            "consumptionPowerKw": rounded(grid + pv - battery) if known else None,
            "socPercent": charges and rounded(sum(map(Decimal.__mul__, charges, map(Decimal, weights))) / sum(weights)),
            "availableBatteryEnergyKwh": None,
            "batteryTemperatureCelsius": max((heat[0] for heat in heats if heat), default=None),
            "currentOperatingMode": "STANDARD",
            "dataQuality": quality,
            "devices": samples,
        }


def reckon(aggregate, values):
    match aggregate:
        case "avg":
            return Fraction(sum(values)) / len(values)
        case "sum":
            return sum(values)
        case "count":
            return len(values)
        case "last":
            return values[-1]
        case "min":
            return min(values)
        case _:
            return max(values)


def rounded(value):
    return printed(value.quantize(MICRO, ROUND_HALF_UP))
