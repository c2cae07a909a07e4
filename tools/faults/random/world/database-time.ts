/**
 * Puts times of the database into the machine's clock. The database clock may be stepped: then its lead over
 * the machine's changes at once, and each reading belongs to the clock before the step or to the one after.
 */

import type { ClockStep } from '../history.ts';

/** A reading of the database clock, between asking and the answer. */
export interface ClockReading {
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  readonly databaseMs: number;
  /** The newest event at that moment. */
  readonly lastEventId: number;
}

/** Readings of one clock: its lead is within all of their bounds, give or take a drift. */
interface Epoch {
  minAheadMs: number;
  maxAheadMs: number;
}

/** More than clocks drift in a run, and less than any step. */
const DRIFT_MS = 100;
/** How much earlier or later than two looks an event between them may seem. */
const BLUR_MS = 150;

export class DatabaseTime {
  readonly steps: ClockStep[] = [];
  readonly #readings: { readonly reading: ClockReading; readonly epoch: Epoch }[] = [];

  note(reading: ClockReading): void {
    const minAheadMs = reading.databaseMs - reading.answeredAtMs;
    const maxAheadMs = reading.databaseMs - reading.askedAtMs;
    const before = this.#readings.at(-1);
    let epoch = before?.epoch;
    if (
      epoch === undefined ||
      minAheadMs > epoch.maxAheadMs + DRIFT_MS ||
      maxAheadMs < epoch.minAheadMs - DRIFT_MS
    ) {
      epoch = { minAheadMs, maxAheadMs };
      if (before !== undefined) {
        const untilMs = reading.answeredAtMs;
        this.steps.push({ fromMs: before.reading.askedAtMs, untilMs });
      }
    } else if (maxAheadMs - minAheadMs < epoch.maxAheadMs - epoch.minAheadMs) {
      Object.assign(epoch, { minAheadMs, maxAheadMs });
    }
    this.#readings.push({ reading, epoch });
  }

  /** The present time of the machine for a present time of the database, as it was at the last reading. */
  machineTimeNow(databaseMs: number): number {
    return databaseMs - aheadOf(this.#readings.at(-1)?.epoch);
  }

  /** When an event was written. */
  machineTimeOf(eventId: number, databaseMs: number): number {
    const place = this.#readings.findIndex(({ reading }) => reading.lastEventId >= eventId);
    const after = this.#readings.at(place);
    const before = place > 0 ? this.#readings[place - 1] : undefined;
    const byLater = databaseMs - aheadOf(after?.epoch);
    const byEarlier = databaseMs - aheadOf(before?.epoch ?? after?.epoch);
    const fromMs = (before?.reading.askedAtMs ?? -Infinity) - BLUR_MS;
    const untilMs = (after?.reading.answeredAtMs ?? Infinity) + BLUR_MS;
    const isBetween = (atMs: number): boolean => atMs >= fromMs && atMs <= untilMs;
    return isBetween(byEarlier) && !isBetween(byLater) ? byEarlier : byLater;
  }
}

function aheadOf(epoch: Epoch | undefined): number {
  return epoch === undefined ? 0 : (epoch.minAheadMs + epoch.maxAheadMs) / 2;
}
