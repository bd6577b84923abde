/**
 * The life of dispatches, each step in the caller's turn: sending, acks, retries, expiry, devices that come
 * and go. The owner of a dispatch decides what its acks and its end mean (`owner.ts`).
 */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { ViewOf } from '../site-view.ts';
import {
  ackDue,
  advance,
  type DispatchWindow,
  hasEnded,
  isExpired,
  isHeld,
  type PlannedDispatch,
  waitingDue,
  wasSent,
} from './dispatch.ts';
import type { Departure, Owner } from './owner.ts';
import type { DispatchRow, DispatchRows, OwnerName } from './rows.ts';
import type { CommandSender } from './sender.ts';

/**
 * Maximum number of due dispatches that one alarm handles; the next alarm, which is set for now, handles the
 * rest.
 */
const DUE_PER_ALARM = 200;
/** When a due dispatch whose handling failed is due again. */
const RETRY_MS = 60_000;

export interface DeviceAck {
  deviceId: string;
  cmdId: string;
  status: DeviceAckStatus;
}

export interface DispatchesHost {
  rows: DispatchRows;
  devices: Devices;
  sessions: DeviceSessions;
  sender: CommandSender;
  view: ViewOf;
  owner(name: OwnerName): Owner;
  /** Called when a dispatch that may carry the target of the plan was sent, was acknowledged, or has failed. */
  planMoved(turn: Turn, row: DispatchRow, outcome?: 'ACKNOWLEDGED' | 'UNANSWERED'): void;
  /** The log: when a command was first sent, and the sequence of the last emergency. */
  log: {
    markDispatched(turn: Turn, sequence: number | null): void;
    lastEmergency(): number;
  };
}

export class Dispatches implements DueSource {
  readonly name = 'dispatches';
  readonly rows: DispatchRows;
  readonly #host: DispatchesHost;

  constructor(host: DispatchesHost) {
    this.#host = host;
    this.rows = host.rows;
  }

  /**
   * Sends the dispatch with this turn if its time has come, its device is there and its owner allows it; else
   * it waits.
   */
  create(
    turn: Turn,
    from: { owner: OwnerName; commandSequence: number | null },
    planned: PlannedDispatch,
    { notBeforeMs, expiresAtMs }: Pick<DispatchWindow, 'notBeforeMs' | 'expiresAtMs'>,
  ): DispatchRow {
    const isHeldBack = this.#host.owner(from.owner).isHeldBack?.(turn) ?? false;
    const goesNow = !isHeldBack && notBeforeMs <= turn.now && this.#host.view(turn).isLive(planned.deviceId);
    const window = { not_before_ms: notBeforeMs, expires_at_ms: expiresAtMs };
    const row: DispatchRow = {
      cmd_id: crypto.randomUUID(),
      owner: from.owner,
      command_sequence: from.commandSequence,
      device_id: planned.deviceId,
      action: planned.action,
      payload: planned.payloadText,
      state: goesNow ? 'SENT' : 'WAITING',
      tries: goesNow ? 1 : 0,
      ...window,
      due_at_ms: goesNow ? ackDue(turn.now) : waitingDue(window, turn.now),
      reason: null,
    };
    this.rows.insert(turn, row);
    if (goesNow) this.#send(turn, row);
    return row;
  }

  /** Applies a device's ack. Unknown, foreign, lower and repeated acks change nothing [C-3.9]. */
  applyAck(turn: Turn, ack: DeviceAck): void {
    const row = this.rows.find(ack.cmdId);
    if (row?.device_id !== ack.deviceId) return;
    const state = advance(row.state, ack.status);
    if (state) this.#noteMove(turn, row, state === 'FAILED' ? 'UNANSWERED' : 'ACKNOWLEDGED');
    if (state) this.#owner(row).acked(turn, row, state);
  }

  /** The device has the dispatch and works on it; without a result in time it fails. */
  holdForResult(turn: Turn, row: DispatchRow, state: DispatchRow['state']): void {
    this.rows.update(turn, row, { state, due_at_ms: turn.now + LIMIT.noResultMs });
  }

  /** Whether an emergency leaves the waiting dispatch as it is. */
  survivesEmergency(row: DispatchRow): boolean {
    return this.#owner(row).survivesEmergency;
  }

  fail(turn: Turn, row: DispatchRow, reason: string | null): void {
    if (wasSent(row)) this.#noteMove(turn, row, 'UNANSWERED');
    this.#owner(row).failed(turn, row, reason);
  }

  /**
   * Sends the open dispatches to a device that commands reach again, or that could not verify the last ones,
   * the oldest commands first: those that wait for it, those that it has not acknowledged and, with
   * `isNewSession`, those that it has acknowledged and may have forgotten. The device recognizes repeats by
   * their `cmdId`.
   */
  resume(turn: Turn, deviceId: string, isNewSession: boolean): void {
    const lastEmergency = this.#host.log.lastEmergency();
    for (const row of this.rows.openFor(deviceId)) {
      if (this.#holdBack(turn, row)) continue;
      const mayRepeat = this.#mayRepeat(turn, row, lastEmergency);
      if (isHeld(row.state)) {
        if (isNewSession && mayRepeat) this.#send(turn, row);
      } else if (row.state === 'SENT') {
        // The link lost the dispatch or the device could not verify it, so the send does not count as a try. A
        // dispatch that may not be repeated only waits for its ack.
        if (mayRepeat) this.#sendAgain(turn, row, row.tries);
      } else if (row.not_before_ms <= turn.now) this.sendWaiting(turn, row.cmd_id);
    }
  }

  /** A device no longer serves this site: the owners move or end what is open for it. */
  deviceGone(turn: Turn, deviceId: string, why: Departure): void {
    for (const { cmd_id: cmdId } of this.rows.ofDevice(deviceId)) {
      turn.step(() => {
        const row = this.rows.find(cmdId);
        if (row && !hasEnded(row.state)) this.#owner(row).deviceGone(turn, row, why);
      });
    }
  }

  /**
   * Sends a waiting dispatch to the device that serves now, if that device is there; fails it if the device is
   * gone.
   */
  sendWaiting(turn: Turn, cmdId: string): void {
    // An earlier dispatch of the same loop may have ended its command.
    const row = this.rows.find(cmdId);
    if (!row || this.#owner(row).isHeldBack?.(turn)) return;
    for (const one of this.#forServing(turn, row)) {
      if (this.#host.sessions.isLive(one.device_id, turn.now)) this.#sendAgain(turn, one, one.tries + 1);
      else if (this.#isGone(one.device_id)) this.fail(turn, one, 'DEVICE_GONE');
    }
  }

  /** Sends all waiting dispatches of this owner that may be sent now. */
  sendAllWaiting(turn: Turn, owner: OwnerName): void {
    for (const row of this.rows.ofOwner(owner)) {
      if (row.state === 'WAITING') this.sendWaiting(turn, row.cmd_id);
    }
  }

  /** Puts a dispatch that was sent back to WAITING and sends it to the device that serves now. */
  requeue(turn: Turn, row: DispatchRow): void {
    this.#wait(turn, row);
    this.sendWaiting(turn, row.cmd_id);
  }

  /** The site has changed: ends waiting dispatches that may no longer be sent. */
  recheckWaiting(turn: Turn): void {
    for (const { cmd_id: cmdId } of this.rows.waiting()) {
      // An earlier dispatch of the same loop may have ended its command.
      const row = this.rows.find(cmdId);
      if (row?.state === 'WAITING') this.#endIfUnfit(turn, row, false);
    }
  }

  /** Ends the oldest waiting commands above the limit, except emergencies [C-7.6]. */
  makeRoom(turn: Turn): void {
    const waiting = this.rows.waitingCommands();
    const surplus = waiting.length - LIMIT.waitingCommands;
    if (surplus <= 0) return;
    const ended = waiting.filter(({ owner }) => !this.#host.owner(owner).isNeverDropped).slice(0, surplus);
    for (const { sequence } of ended) {
      for (const row of this.rows.ofCommand(sequence)) {
        if (row.state === 'WAITING') this.fail(turn, row, 'QUEUE_FULL');
      }
    }
  }

  // the agenda: a window opens, a dispatch expires or is sent again, a result is missing

  dueMs(): number | undefined {
    return this.rows.dueMs();
  }

  run(turn: Turn): void {
    for (const row of this.rows.due(turn.now, DUE_PER_ALARM)) {
      const isDone = turn.step(() => this.#runDue(turn, row.cmd_id));
      if (!isDone) this.rows.update(turn, row, { due_at_ms: turn.now + RETRY_MS });
    }
    this.makeRoom(turn);
  }

  /**
   * Each alarm reads the next due time from storage again, because the dispatch that was due next may have
   * ended.
   */
  ride(): void {
    this.rows.forgetDue();
  }

  #runDue(turn: Turn, cmdId: string): void {
    // An earlier dispatch of the same loop may have ended its command.
    const row = this.rows.find(cmdId);
    if (!row) return;
    if (isHeld(row.state)) this.fail(turn, row, 'NO_RESULT');
    else if (row.state === 'WAITING') this.#runWaiting(turn, row);
    else if (this.#holdBack(turn, row)) return;
    else if (row.tries >= LIMIT.dispatchTries) this.fail(turn, row, 'NO_ACK');
    else if (!this.#mayRepeat(turn, row, this.#host.log.lastEmergency())) {
      // It was sent in time and may have been obeyed: only its ack is awaited.
      this.rows.update(turn, row, { tries: row.tries + 1, due_at_ms: ackDue(turn.now) });
    } else if (this.#host.sessions.isLive(row.device_id, turn.now)) this.#sendAgain(turn, row, row.tries + 1);
    else this.requeue(turn, row);
  }

  #runWaiting(turn: Turn, row: DispatchRow): void {
    // The dispatch was sent earlier, got no ack, and has no expiry: it fails now.
    const isGivenUp = row.tries > 0 && row.expires_at_ms === null && row.due_at_ms !== null;
    if (isExpired(row, turn.now) || isGivenUp) {
      this.#expire(turn, row);
      return;
    }
    this.#wait(turn, row);
    if (row.not_before_ms <= turn.now) this.sendWaiting(turn, row.cmd_id);
  }

  /** Whether its owner allows no sending now; then it waits, and what was sent before does not count as a try. */
  #holdBack(turn: Turn, row: DispatchRow): boolean {
    if (!this.#owner(row).isHeldBack?.(turn)) return false;
    if (row.state === 'SENT') this.#wait(turn, this.rows.update(turn, row, { tries: 0 }));
    return true;
  }

  #wait(turn: Turn, row: DispatchRow): void {
    const givenUpMs = row.tries > 0 && row.expires_at_ms === null ? turn.now + LIMIT.noResultMs : undefined;
    const dueMs = givenUpMs ?? waitingDue(row, turn.now);
    this.rows.update(turn, row, { state: 'WAITING', due_at_ms: dueMs, reason: null });
  }

  /** A queued command is checked again before it is sent [C-7.6]. */
  #sendAgain(turn: Turn, row: DispatchRow, tries: number): void {
    if (isExpired(row, turn.now)) {
      this.#expire(turn, row);
      return;
    }
    if (row.state === 'WAITING' && this.#endIfUnfit(turn, row, true)) return;
    const sent = this.rows.update(turn, row, { state: 'SENT', tries, due_at_ms: ackDue(turn.now) });
    this.#host.log.markDispatched(turn, row.command_sequence);
    this.#send(turn, sent);
  }

  #noteMove(turn: Turn, row: DispatchRow, outcome?: 'ACKNOWLEDGED' | 'UNANSWERED'): void {
    if (this.#owner(row).carries) this.#host.planMoved(turn, row, outcome);
  }

  #send(turn: Turn, row: DispatchRow): void {
    this.#noteMove(turn, row);
    this.#owner(row).sending?.(turn, row);
    const { cmd_id: cmdId, device_id: deviceId, action, payload: payloadText } = row;
    turn.send(() => this.#host.sender.add(deviceId, { cmdId, action, payloadText }));
  }

  /** Returns whether the dispatch may no longer wait, or be sent now; it has failed then. */
  #endIfUnfit(turn: Turn, row: DispatchRow, isSent: boolean): boolean {
    const owner = this.#owner(row);
    const refusal = owner.recheck?.(turn, row, isSent);
    if (refusal) owner.failed(turn, row, refusal.rejectionCode, refusal);
    return refusal !== undefined;
  }

  /**
   * The window, or the time to wait for an ack, is over. A device that was sent the command has not
   * acknowledged it.
   */
  #expire(turn: Turn, row: DispatchRow): void {
    this.fail(turn, row, wasSent(row) ? 'NO_ACK' : 'EXPIRED');
  }

  /**
   * Neither expired, nor refused by its owner, nor older than an emergency: what was sent before an emergency
   * is repeated after it only if its owner survives emergencies.
   */
  #mayRepeat(turn: Turn, row: DispatchRow, lastEmergency: number): boolean {
    if (isExpired(row, turn.now) || this.#owner(row).mayRepeat?.(turn, row) === false) return false;
    const isOlder = row.command_sequence !== null && row.command_sequence < lastEmergency;
    return !isOlder || this.survivesEmergency(row);
  }

  /**
   * Changes a waiting dispatch for the devices that serve now, which may be another device or several. A
   * dispatch that its device may have obeyed is sent to another device only if its owner allows it.
   */
  #forServing(turn: Turn, row: DispatchRow): DispatchRow[] {
    const owner = this.#owner(row);
    if (wasSent(row) && !owner.mayReachAnother) return [row];
    const planned = owner.replan?.(turn, row) ?? [];
    if (planned.length === 0) return [row];
    return planned.map(({ deviceId, payloadText }, index) => {
      if (index === 0 && deviceId === row.device_id && payloadText === row.payload) return row;
      const change = { device_id: deviceId, payload: payloadText };
      if (index === 0) return this.rows.update(turn, row, change);
      const another = { ...row, ...change, cmd_id: crypto.randomUUID() };
      this.rows.insert(turn, another);
      return another;
    });
  }

  /** A suspended device is not gone: it may be reactivated. */
  #isGone(deviceId: string): boolean {
    const device = this.#host.devices.find(deviceId);
    return device === undefined || device.status === 'DECOMMISSIONED';
  }

  #owner({ owner }: DispatchRow): Owner {
    return this.#host.owner(owner);
  }
}
