/**
 * The renewals of all keys of a drone: what is due at a tick travels in one call. Just before each
 * call the warden is asked what is alive, and nothing else is renewed: a key must not be held for a
 * backend that nobody runs. Without a warden nothing is renewed.
 */
import { LIMITS } from '@leasehold/keys-core';
import type { BackendRun } from './backend-run.ts';
import type { ControllerLink } from './controller-link.ts';
import type { Log } from './log.ts';
import type { RenewResult } from './wire.ts';
import type { WardenLink } from './warden-link.ts';

interface DueRenewal {
  readonly run: BackendRun;
  readonly requestId: number;
}

export interface KeyRenewalsOptions {
  readonly link: ControllerLink;
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly log: Log;
  readonly droneId: string;
}

export class KeyRenewals {
  readonly #options: KeyRenewalsOptions;

  constructor(options: KeyRenewalsOptions) {
    this.#options = options;
  }

  /** Lets every run do what is due, and sends the renewals among it. */
  tick(runs: Iterable<BackendRun>, nowMs: number): void {
    const due: DueRenewal[] = [];
    for (const run of runs) {
      const requestId = run.tick(nowMs);
      if (requestId !== undefined) due.push({ run, requestId });
    }
    for (let first = 0; first < due.length; first += LIMITS.renewalsPerCallMax) {
      void this.#renew(due.slice(first, first + LIMITS.renewalsPerCallMax));
    }
  }

  async #renew(due: readonly DueRenewal[]): Promise<void> {
    const { link, log, droneId } = this.#options;
    try {
      const warden = this.#options.warden();
      const aliveIds = new Set(await warden.alive());
      const worthy = due.filter(({ run }) => run.isWorthRenewing(aliveIds));
      if (worthy.length === 0) return;
      const results = await link.renew({
        droneId,
        clockId: warden.identity.clockId,
        // Read before it is sent: the answer's deadlines are counted from here.
        localTimeMs: this.#options.nowMs(),
        renewals: worthy.map(({ run }) => ({
          leaseId: run.identity.leaseId,
          fencingToken: run.identity.fencingToken,
        })),
      });
      await this.#take(worthy, results);
    } catch (error) {
      log.debug({ err: error, count: due.length }, 'renewals got no answer');
      for (const { run, requestId } of due) run.failed(requestId);
    }
  }

  async #take(due: readonly DueRenewal[], results: readonly RenewResult[]): Promise<void> {
    const resultOf = new Map(results.map((result) => [result.leaseId, result]));
    const moved: BackendRun[] = [];
    for (const { run, requestId } of due) {
      const result = resultOf.get(run.identity.leaseId);
      if (result === undefined) run.failed(requestId);
      else if (result.outcome === 'refused') run.refused(requestId, result.reason);
      else if (run.renewed(requestId, result.deadlines)) moved.push(run);
    }
    if (moved.length === 0) return;
    const problems = await this.#options.warden().extend(moved.map((run) => run.extension()));
    for (const [index, problem] of problems.entries()) {
      const backendId = moved[index]?.identity.backendId;
      // A stop that began in the meantime is final; anything else is worth a look.
      if (problem !== null && problem !== 'stopping') {
        this.#options.log.warn({ backendId, problem }, 'the warden did not take a deadline');
      }
    }
  }
}
