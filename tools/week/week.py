#!/usr/bin/python3
"""Loads a simulated week into a running stack. `npm run sitewire -- week` (tools/week.ts) starts both under a settable clock.

    week.py STACK.json CLOCK START HOURS SEED OTHERS

Sends the plant's messages over MQTT as fast as they are stored. Compares what partners read after about half of them,
while part of the data is not packed yet, and everything at the end. Exits with 1 if a number differs.
"""
import json
import sys
import time

from comparison import Comparison, now_ms
from gateway import Clock, Gateway
from plant import HOUR, SECOND, Plant
from reckoning import Reckoning
from rest import Rest

MIDDLE = 0.55
LOOK_EACH = 20
ADDED = (
    {"externalId": "BESS-2", "assetType": "BESS", "name": "Second battery", "capacityKwh": 40},
    {"externalId": "METER-2", "assetType": "METER", "name": "PV meter", "meterRole": "FVE"},
)
# A message whose age is close to the tolerance of 300 s is not sent, because it would depend on the machine's
# speed whether it is accepted.
SEND_WITHIN, TAKEN_WITHIN = 295 * SECOND, 300 * SECOND
# Rates so high that no message is held and no request is refused. The operator first raises the ceilings to them.
RATES = {"deviceRatePerSecond": 1_000, "restRatePerMinute": 1_000_000}
# One request covers at most a week, so samples that are dated after its end are not read.
SPAN = 168 * HOUR


def say(**figures):
    print(json.dumps(figures), flush=True)


def prepare(rest, stack):
    """Adds two assets to the stack's plant, provisions its gateway and returns it."""
    organization = stack["organization"]["id"]
    rest.operator("PATCH", f"/organizations/{organization}/limits", RATES)
    rest.admin("PATCH", f"/organizations/{organization}", {"settings": RATES})
    plant = stack["plants"][0]
    for asset in ADDED:
        rest.admin("POST", f"/plants/{plant['id']}/sub-devices", asset)
    return Gateway(rest, rest.admin("POST", f"/devices/{plant['gatewayId']}/provision", {}), stack["mqtt"]["ca"])


class Week:
    def __init__(self, stack, clock, plant, seed):
        self.clock, self.plant = clock, plant
        rest = Rest(stack)
        self.gateway = prepare(rest, stack)
        self.reckoning = Reckoning()
        about = stack["plants"][0]
        eans = (about["eanCons"], about["eanProd"])
        self.comparison = Comparison(rest, about["id"], self.gateway.device, eans, self.reckoning, seed)
        self.sent = self.left_out = 0

    def run(self):
        """Returns whether all numbers are equal."""
        began = time.monotonic()
        comparison, middle = self.comparison, self.plant.start + MIDDLE * (self.plant.end - self.plant.start)
        look_each = max(LOOK_EACH, (self.plant.end - self.plant.start) // HOUR // 2)
        for number, batch in enumerate(self.plant.batches(), 1):
            is_repeated = self.send(batch)
            if number % look_each == 0 or is_repeated:
                comparison.now()
            if middle and batch.at >= middle:
                self.compare("compared in the middle", comparison.some)
                middle = None
        say(event="sent", messages=self.sent, good=self.reckoning.taken, leftOut=self.left_out, seconds=since(began))
        self.compare("compared at the end", comparison.all)
        self.gateway.close()
        figures = {"values": comparison.compared, "answers": comparison.answers}
        figures |= {"differences": comparison.differences, **comparison.qualities}
        say(event="done", **figures, seconds=since(began))
        return comparison.differences == 0

    def send(self, batch):
        """Sends the batch. Returns whether two of its messages share the newest timestamp."""
        self.clock.set(batch.at)
        messages = [message for message in batch.messages if message.kind != "good" or age(message) < SEND_WITHIN]
        self.gateway.send(messages)
        self.sent += len(messages)
        self.left_out += len(batch.messages) - len(messages)
        good = [message for message in messages if message.kind == "good"]
        for message in good:
            self.reckoning.take(message)
        if any(age(message) >= TAKEN_WITHIN for message in good):
            raise RuntimeError("this machine is too busy: a message took seconds to be stored")
        return sum(message.ts == self.reckoning.newest for message in good) > 1

    def compare(self, what, compare):
        at, before = time.monotonic(), (self.comparison.compared, self.comparison.answers)
        compare(max(self.plant.start - HOUR, self.plant.end - SPAN), self.plant.end)
        values, answers = self.comparison.compared - before[0], self.comparison.answers - before[1]
        say(event=what, values=values, answers=answers, differences=self.comparison.differences, seconds=since(at))


def age(message):
    return now_ms() - message.ts


def since(at):
    return round(time.monotonic() - at, 1)


def main(stack_file, clock_file, start, hours, seed, others):
    with open(stack_file, encoding="utf-8") as file:
        stack = json.load(file)
    plant = Plant(int(start), int(hours), int(seed), int(others))
    return 0 if Week(stack, Clock(clock_file), plant, int(seed)).run() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
