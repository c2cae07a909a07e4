import type { Death } from './death.ts';

/** The first delay before a process that died is started again; doubled with each further death. */
const RESTART_DELAY_MS_MIN = 500;
const RESTART_DELAY_MS_MAX = 8_000;
/** While its disk is full: each try costs a start, and space may be there any second. */
const FULL_DISK_DELAY_MS = 4_000;
/** Longer than the tries below take together, also where each start takes its whole minute. */
const DEATHS_WINDOW_MS = 600_000;
/** Deaths within the window after which no further start is worth a try: about 30 s of trying. */
const DEATHS_IN_WINDOW_MAX = 7;

/** What is done about a death. */
export type RestartDecision =
  | { readonly outcome: 'restart'; readonly delayMs: number }
  | { readonly outcome: 'give_up'; readonly deathCount: number; readonly windowMs: number };

/**
 * Decides when a process that died is started again, and when it is given up. Only deaths of the last ten
 * minutes count. A full disk does not count: only waiting for space helps, however long that takes,
 * and giving up would end what still runs beside it.
 */
export class RestartSchedule {
  readonly #random: () => number;
  #diedAtMs: number[] = [];

  /** @param random a number in `[0, 1)`, for the jitter. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** @param nowMs of a monotonic clock. */
  next({ cause }: Death, nowMs: number): RestartDecision {
    if (cause === 'disk_full') return this.afterFullDisk();
    this.#diedAtMs = [...this.#diedAtMs.filter((atMs) => nowMs - atMs < DEATHS_WINDOW_MS), nowMs];
    const deathCount = this.#diedAtMs.length;
    if (deathCount > DEATHS_IN_WINDOW_MAX) {
      return { outcome: 'give_up', deathCount, windowMs: DEATHS_WINDOW_MS };
    }
    return { outcome: 'restart', delayMs: this.#delayMs(deathCount) };
  }

  afterFullDisk(): Extract<RestartDecision, { outcome: 'restart' }> {
    return { outcome: 'restart', delayMs: this.#jittered(FULL_DISK_DELAY_MS) };
  }

  #delayMs(deathCount: number): number {
    return this.#jittered(
      Math.min(RESTART_DELAY_MS_MIN * 2 ** (deathCount - 1), RESTART_DELAY_MS_MAX),
    );
  }

  #jittered(fullMs: number): number {
    return fullMs * (1 - this.#random() / 2);
  }
}
