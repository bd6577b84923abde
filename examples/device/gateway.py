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
STORED = device.FILE + ".stored"

lock = threading.RLock()  # the MQTT client delivers commands in a thread of its own
plant = {"batteryKw": 0.0, "pvKw": SUN_KW, "gridKw": 0.0, "socPercent": 55.0, "importKwh": 0.0, "exportKwh": 0.0}
last_step_at = last_contact_at = time.time()
is_fallback = False


def new_orders(**changes):
    """Orders of the platform. `setpoint` precedes `emergency` (its powers): an emergency deletes it, and only an EMERGENCY
    setpoint may follow. Both precede the battery's power and the mode."""
    return {"emergency": None, "setpoint": None, "batteryKw": 0.0, "pvShare": 1.0, "pvMaxKw": SUN_KW, "mode": "STANDARD", **changes}


active = new_orders()
stored = {"config": {}, "schedules": {}}  # read again after a restart
if os.path.exists(STORED):
    with open(STORED) as file:
        stored = json.load(file)


def store():
    with open(STORED + ".new", "w") as file:
        json.dump(stored, file)
    os.replace(STORED + ".new", STORED)
    return True


def seconds(instant):
    return datetime.fromisoformat(instant.replace("Z", "+00:00")).timestamp()


def new_setpoint(kw, until=None, counts_load=True, priority="NORMAL"):
    return {"kw": kw, "until": until, "countsLoad": counts_load, "isHigh": priority != "NORMAL"}


def execute(action, payload):
    """Returns False, so that the command is FAILED, if action or mode is unknown or an emergency forbids it."""
    is_emergency = action == "SITE_SETPOINT" and payload.get("priority") == "EMERGENCY"
    with lock:
        step()
        if active["emergency"] and action not in PASS_EMERGENCY and not is_emergency:
            return stop_asset(action, payload)
        return apply_action(action, payload)


def stop_asset(action, payload):
    """During an emergency an asset can only be stopped or limited to zero."""
    params = (payload.get("targets") or [{}])[0].get("params") or {}
    if not action.endswith("_STOP") and params.get("powerKw") != 0 and params.get("percent") != 100:
        return False
    powers = {"BESS": "batteryKw", "FVE": "pvKw"}
    name = powers.get(action.split("_")[0])
    if name:
        active["emergency"][name] = 0.0
    return name is not None


def apply_action(action, payload):
    target = (payload.get("targets") or [{}])[0]
    params = target.get("params") or {}
    if action == "SITE_SETPOINT":
        until = seconds(payload["validUntil"]) if payload.get("validUntil") else None
        counts_load, priority = payload.get("includeConsumption", True), payload.get("priority", "NORMAL")
        active.update(setpoint=new_setpoint(payload["targetSignedKw"], until, counts_load, priority))
    elif action == "MODE_CHANGE":
        if payload["mode"] not in MODES:
            return False
        active.update(emergency=None, setpoint=None, mode=payload["mode"])
    elif action in ("EMERGENCY_STOP", "EMERGENCY_HOLD"):
        active.update(new_orders(emergency=emergency_powers(action == "EMERGENCY_STOP")))
    elif action == "CONFIG_SET":
        stored["config"] = payload
        return store()
    elif action == "SCHEDULE_SET":
        stored["schedules"][payload["scheduleId"]] = payload
        for ended in [one for one in stored["schedules"].values() if seconds(one["endTime"]) < time.time()]:
            del stored["schedules"][ended["scheduleId"]]
        return store()
    elif action == "SCHEDULE_CANCEL":
        stored["schedules"].pop(payload["scheduleId"], None)
        return store()
    elif action == "BESS_STOP":
        active.update(setpoint=None, batteryKw=0.0)
    elif action.startswith("BESS_"):
        sign = -1 if "DISCHARGE" in action else 1
        active.update(setpoint=None, batteryKw=sign * params.get("powerKw", BATTERY_KW))
    elif action in ("FVE_PRODUCE_MAX", "FVE_STOP", "FVE_REDUCE_PERCENT", "FVE_REDUCE_POWER"):
        share = {"FVE_STOP": 0.0, "FVE_REDUCE_PERCENT": 1 - params.get("percent", 0) / 100}.get(action, 1.0)
        active.update(pvShare=share, pvMaxKw=params["powerKw"] if action == "FVE_REDUCE_POWER" else SUN_KW)
    else:
        return action == "REBOOT"  # your own actions go here
    return True


def within_limits(kw):
    """Applies the site's limits: they may have changed since the platform checked the schedule or the fallback."""
    limits = stored["config"].get("constraints") or {}
    max_import, max_export = limits.get("maxImportKw"), limits.get("maxExportKw")
    kw = kw if max_import is None else min(kw, max_import)
    return kw if max_export is None else max(kw, -max_export)


def emergency_powers(is_stop):
    return {"batteryKw": 0.0, "pvKw": 0.0} if is_stop else {"batteryKw": plant["batteryKw"], "pvKw": plant["pvKw"]}


def orders_without_contact(now):
    """Returns the active orders: the last ones, or without contact the schedule slot that is due, or the fallback after `afterSeconds`."""
    global is_fallback
    setpoint, fallback = active["setpoint"], stored["config"].get("fallback")
    if active["emergency"] or (setpoint and setpoint["isHigh"] and (setpoint["until"] or now + 1) > now):
        return active
    due = [one for one in stored["schedules"].values() if seconds(one["startTime"]) <= now < seconds(one["endTime"])]
    if due:
        newest = max(due, key=lambda one: one["sequence"])
        slot = newest["slots"][int((now - seconds(newest["startTime"])) // (60 * newest["slotDurationMinutes"]))]
        return {**active, "setpoint": new_setpoint(within_limits(slot["setpoint"]["value"])) if slot["setpoint"] else None, "mode": slot["mode"]}
    if not fallback or now - last_contact_at < fallback["afterSeconds"]:
        return active
    is_fallback = True
    if fallback["action"] == "MODE":
        return new_orders(mode=fallback["mode"])
    if fallback["action"] == "HOLD" and fallback["setpointKw"] is not None:
        return new_orders(setpoint=new_setpoint(within_limits(fallback["setpointKw"])))
    return new_orders(emergency=emergency_powers(fallback["action"] == "STOP"))


def step():
    """Advances the plant to the current time with its previous powers, then applies the active orders."""
    global last_step_at, last_contact_at, is_fallback
    now = time.time()
    hours, last_step_at = (now - last_step_at) / 3600, now
    plant["importKwh"] += max(plant["gridKw"], 0) * hours
    plant["exportKwh"] += max(-plant["gridKw"], 0) * hours
    plant["socPercent"] = min(max(plant["socPercent"] + 100 * plant["batteryKw"] * hours / CAPACITY_KWH, 0), 100)
    if device.client.is_connected():
        last_contact_at, is_fallback, orders = now, False, active
    else:
        orders = orders_without_contact(now)
    setpoint = orders["setpoint"]
    pv = min(SUN_KW * orders["pvShare"], orders["pvMaxKw"])
    battery = -BATTERY_KW if orders["mode"] == "MAX_EXPORT" else orders["batteryKw"]
    if setpoint and (setpoint["until"] is None or now < setpoint["until"]):
        battery = setpoint["kw"] + pv - (LOAD_KW if setpoint["countsLoad"] else 0)
    elif orders["emergency"]:
        battery, pv = orders["emergency"]["batteryKw"], orders["emergency"]["pvKw"]
    elif orders["mode"] == "ZERO_EXPORT":
        pv = min(pv, LOAD_KW + max(battery, -LOAD_KW))
        battery = max(battery, -LOAD_KW)
    battery = min(max(battery, -BATTERY_KW), BATTERY_KW)
    powers = {"batteryKw": battery, "pvKw": pv, "gridKw": LOAD_KW + battery - pv}
    if not powers.items() <= plant.items():
        device.report("powers", **powers, fallback=is_fallback)
    plant.update(powers)


def readings():
    with lock:
        was_fallback = is_fallback  # still 1 in the first message after contact is back
        step()
        return {
            "fallbackActive": 1 if was_fallback else 0,
            "gridPowerKw": round(plant["gridKw"], 3),
            "batteryPowerKw": round(plant["batteryKw"], 3),
            "fvePowerKw": round(plant["pvKw"], 3),
            "consumptionPowerKw": LOAD_KW,
            # `fault` is sent even if there is no fault, because a reported fault stays active until the
            # gateway sends 0.
            **{f"{name}/fault": 0 for name in (BATTERY, PV, METER, CHARGER)},
            f"{BATTERY}/powerKw": round(plant["batteryKw"], 3),
            f"{BATTERY}/socPercent": round(plant["socPercent"], 3),
            f"{PV}/powerKw": round(plant["pvKw"], 3),
            f"{CHARGER}/powerKw": 0,
            f"{METER}/powerKw": round(plant["gridKw"], 3),
            f"{METER}/importRegisterKwh": round(plant["importKwh"], 3),
            f"{METER}/exportRegisterKwh": round(plant["exportKwh"], 3),
        }


device.execute, device.readings = execute, readings
device.run()
