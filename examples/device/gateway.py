#!/usr/bin/env python3
"""A gateway in Python: device.py does connection, signatures, acknowledgements and tokens, this file executes commands.

    gateway.py PACKAGE.json

See device.py for PACKAGE.json and the settings. The plant is simulated: a load of 12 kW with a battery and PV. Replace
the code that reads and sets them by access to your meters and inverters. The sub-devices are those of the plant that
`npm start` seeds; set other names with SITEWIRE_BATTERY, SITEWIRE_PV, SITEWIRE_METER and SITEWIRE_CHARGER.
"""
import json
import os
import threading
import time
from datetime import datetime

import device

BATTERY = os.environ.get("SITEWIRE_BATTERY", "BESS-1")
PV = os.environ.get("SITEWIRE_PV", "FVE-1")
METER = os.environ.get("SITEWIRE_METER", "METER-1")
CHARGER = os.environ.get("SITEWIRE_CHARGER", "EV-1")  # no car charges there
LOAD_KW, SUN_KW, BATTERY_KW, CAPACITY_KWH = 12.0, 6.0, 50.0, 100.0
MODES = ("STANDARD", "ZERO_EXPORT", "MAX_EXPORT")  # the modes that this gateway supports
PASS_EMERGENCY = ("EMERGENCY_STOP", "EMERGENCY_HOLD", "MODE_CHANGE", "CONFIG_SET", "SCHEDULE_SET", "SCHEDULE_CANCEL")
AGREED = device.FILE + ".agreed"

lock = threading.RLock()  # the MQTT client delivers commands in a thread of its own
plant = {"batteryKw": 0.0, "pvKw": SUN_KW, "gridKw": 0.0, "socPercent": 55.0, "importKwh": 0.0, "exportKwh": 0.0}
stepped_at = heard_at = time.time()
is_fallback = False


def orders(**changes):
    """The active orders. `held` (an emergency) precedes `setpoint`, which precedes the battery's power and the mode."""
    return {"held": None, "setpoint": None, "batteryKw": 0.0, "pvShare": 1.0, "pvMaxKw": SUN_KW, "mode": "STANDARD", **changes}


told = orders()
agreed = {"config": {}, "schedules": {}}  # kept across restarts
if os.path.exists(AGREED):
    with open(AGREED) as file:
        agreed = json.load(file)


def keep_agreed():
    with open(AGREED + ".new", "w") as file:
        json.dump(agreed, file)
    os.replace(AGREED + ".new", AGREED)
    return True


def seconds(instant):
    return datetime.fromisoformat(instant.replace("Z", "+00:00")).timestamp()


def setpoint(kw, until=None, with_consumption=True, priority="NORMAL"):
    return {"kw": kw, "until": until, "withConsumption": with_consumption, "isHigh": priority != "NORMAL"}


def do(action, payload):
    """Returns False, so that the command is FAILED, if action or mode is unknown or an emergency forbids it."""
    is_emergency = action == "SITE_SETPOINT" and payload.get("priority") == "EMERGENCY"
    with lock:
        step()
        if told["held"] and action not in PASS_EMERGENCY and not is_emergency:
            return False
        return obey(action, payload)


def obey(action, payload):
    target = (payload.get("targets") or [{}])[0]
    params = target.get("params") or {}
    if action == "SITE_SETPOINT":
        until = seconds(payload["validUntil"]) if payload.get("validUntil") else None
        stands = setpoint(payload["targetSignedKw"], until, payload.get("includeConsumption", True), payload.get("priority", "NORMAL"))
        told.update(setpoint=stands)
    elif action == "MODE_CHANGE":
        if payload["mode"] not in MODES:
            return False
        told.update(held=None, setpoint=None, mode=payload["mode"])
    elif action in ("EMERGENCY_STOP", "EMERGENCY_HOLD"):
        told.update(orders(held=held(action == "EMERGENCY_STOP")))
    elif action == "CONFIG_SET":
        agreed["config"] = payload
        return keep_agreed()
    elif action == "SCHEDULE_SET":
        agreed["schedules"][payload["scheduleId"]] = payload
        for over in [one for one in agreed["schedules"].values() if seconds(one["endTime"]) < time.time()]:
            del agreed["schedules"][over["scheduleId"]]
        return keep_agreed()
    elif action == "SCHEDULE_CANCEL":
        agreed["schedules"].pop(payload["scheduleId"], None)
        return keep_agreed()
    elif action == "BESS_STOP":
        told.update(setpoint=None, batteryKw=0.0)
    elif action.startswith("BESS_"):
        sign = -1 if "DISCHARGE" in action else 1
        told.update(setpoint=None, batteryKw=sign * params.get("powerKw", BATTERY_KW))
    elif action in ("FVE_PRODUCE_MAX", "FVE_STOP", "FVE_REDUCE_PERCENT", "FVE_REDUCE_POWER"):
        share = {"FVE_STOP": 0.0, "FVE_REDUCE_PERCENT": 1 - params.get("percent", 0) / 100}.get(action, 1.0)
        told.update(pvShare=share, pvMaxKw=params["powerKw"] if action == "FVE_REDUCE_POWER" else SUN_KW)
    else:
        return action == "REBOOT"  # your own actions go here
    return True


def limited(kw):
    """Applies the site's limits: they may have changed since the platform checked the schedule or the fallback."""
    limits = agreed["config"].get("constraints") or {}
    most, least = limits.get("maxImportKw"), limits.get("maxExportKw")
    kw = kw if most is None else min(kw, most)
    return kw if least is None else max(kw, -least)


def held(is_stop):
    return {"batteryKw": 0.0, "pvKw": 0.0} if is_stop else {"batteryKw": plant["batteryKw"], "pvKw": plant["pvKw"]}


def alone(now):
    """Orders without contact: the last ones, the schedule slot that is due, or the fallback after `afterSeconds`."""
    global is_fallback
    stands, fallback = told["setpoint"], agreed["config"].get("fallback")
    if told["held"] or (stands and stands["isHigh"] and (stands["until"] or now + 1) > now):
        return told
    due = [one for one in agreed["schedules"].values() if seconds(one["startTime"]) <= now < seconds(one["endTime"])]
    if due:
        newest = max(due, key=lambda one: one["sequence"])
        slot = newest["slots"][int((now - seconds(newest["startTime"])) // (60 * newest["slotDurationMinutes"]))]
        return {**told, "setpoint": setpoint(limited(slot["setpoint"]["value"])) if slot["setpoint"] else None, "mode": slot["mode"]}
    if not fallback or now - heard_at < fallback["afterSeconds"]:
        return told
    is_fallback = True
    if fallback["action"] == "MODE":
        return orders(mode=fallback["mode"])
    if fallback["action"] == "HOLD" and fallback["setpointKw"] is not None:
        return orders(setpoint=setpoint(limited(fallback["setpointKw"])))
    return orders(held=held(fallback["action"] == "STOP"))


def step():
    """Advances the plant to now with its previous powers, then applies the active orders."""
    global stepped_at, heard_at, is_fallback
    now = time.time()
    hours, stepped_at = (now - stepped_at) / 3600, now
    plant["importKwh"] += max(plant["gridKw"], 0) * hours
    plant["exportKwh"] += max(-plant["gridKw"], 0) * hours
    plant["socPercent"] = min(max(plant["socPercent"] + 100 * plant["batteryKw"] * hours / CAPACITY_KWH, 0), 100)
    if device.client.is_connected():
        heard_at, is_fallback, holds = now, False, told
    else:
        holds = alone(now)
    stands = holds["setpoint"]
    pv = min(SUN_KW * holds["pvShare"], holds["pvMaxKw"])
    battery = -BATTERY_KW if holds["mode"] == "MAX_EXPORT" else holds["batteryKw"]
    if stands and (stands["until"] is None or now < stands["until"]):
        battery = stands["kw"] + pv - (LOAD_KW if stands["withConsumption"] else 0)
    elif holds["held"]:
        battery, pv = holds["held"]["batteryKw"], holds["held"]["pvKw"]
    elif holds["mode"] == "ZERO_EXPORT":
        pv = min(pv, LOAD_KW + max(battery, -LOAD_KW))
        battery = max(battery, -LOAD_KW)
    battery = min(max(battery, -BATTERY_KW), BATTERY_KW)
    does = {"batteryKw": battery, "pvKw": pv, "gridKw": LOAD_KW + battery - pv}
    if not does.items() <= plant.items():
        device.say("does", **does, fallback=is_fallback)
    plant.update(does)


def readings():
    with lock:
        engaged = is_fallback  # still 1 in the first message after contact is back
        step()
        return {
            "fallbackActive": 1 if engaged else 0,
            "gridPowerKw": round(plant["gridKw"], 3),
            "batteryPowerKw": round(plant["batteryKw"], 3),
            "fvePowerKw": round(plant["pvKw"], 3),
            "consumptionPowerKw": LOAD_KW,
            # Sent even without a fault: a fault that was reported stays active until a 0 clears it.
            **{f"{name}/fault": 0 for name in (BATTERY, PV, METER, CHARGER)},
            f"{BATTERY}/powerKw": round(plant["batteryKw"], 3),
            f"{BATTERY}/socPercent": round(plant["socPercent"], 3),
            f"{PV}/powerKw": round(plant["pvKw"], 3),
            f"{CHARGER}/powerKw": 0,
            f"{METER}/powerKw": round(plant["gridKw"], 3),
            f"{METER}/importRegisterKwh": round(plant["importKwh"], 3),
            f"{METER}/exportRegisterKwh": round(plant["exportKwh"], 3),
        }


device.do, device.readings = do, readings
device.run()
