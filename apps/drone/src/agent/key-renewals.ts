/**
 * The renewals of all keys of a drone: those that are due at a tick travel together. Just before each
 * call the warden is asked what is alive, and a backend that should run and is not alive is not
 * renewed: a key must not be held for a backend that nobody runs. Without a warden nothing is renewed.
 */
import { LIMITS } from '@leasehold/keys-core';
import type { Log } from '../config.ts';
import type { BackendRun } from './backend-run.ts';
import type { ControllerLink, RenewResult } from './controller-link.ts';
import type { WardenLink } from './warden-link.ts';

interface DueRenewal {
  readonly run: BackendRun;
  readonly requestId: number;
}

interface KeyRenewalsOptions {
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
    for (const page of pagesOf(due)) void this.#renew(page);
  }

  /**
   * Renews the keys of all runs, due or not, and gives the warden their deadlines: the next agent
   * has until then. A key that cannot be renewed keeps the deadlines that it has.
   */
  async handOver(runs: readonly BackendRun[]): Promise<void> {
    try {
      await Promise.all(pagesOf(runs).map((page) => this.#handOverPage(page)));
    } catch (error) {
      this.#options.log.warn(
        { err: error, count: runs.length },
        'keys were not renewed before the end',
      );
    }
  }

  async #handOverPage(runs: readonly BackendRun[]): Promise<void> {
    const { asked, results } = await this.#ask(runs);
    const byLease = new Map([...asked].map(({ identity }) => [identity.leaseId, identity]));
    const extensions = results.flatMap((result) => {
      const identity = byLease.get(result.leaseId);
      if (identity === undefined || result.outcome !== 'renewed') return [];
      const { backendId, leaseId } = identity;
      const { softTerminateAtMs: softAtMs, hardTerminateAtMs: hardAtMs } = result.deadlines;
      return [{ backendId, leaseId, softAtMs, hardAtMs }];
    });
    await this.#options.warden().extend(extensions);
  }

  async #renew(due: readonly DueRenewal[]): Promise<void> {
    try {
      const { asked, results } = await this.#ask(due.map(({ run }) => run));
      await this.#take(
        due.filter(({ run }) => asked.has(run)),
        results,
      );
    } catch (error) {
      this.#options.log.debug({ err: error, count: due.length }, 'renewals got no answer');
      for (const { run, requestId } of due) run.failed(requestId);
    }
  }

  /** Asks the warden which of them are alive, and a controller to renew those. */
  async #ask(
    runs: readonly BackendRun[],
  ): Promise<{ asked: ReadonlySet<BackendRun>; results: readonly RenewResult[] }> {
    const { link, droneId, nowMs } = this.#options;
    const warden = this.#options.warden();
    const aliveIds = new Set(await warden.alive());
    const asked = new Set(runs.filter((run) => run.isWorthRenewing(aliveIds)));
    if (asked.size === 0) return { asked, results: [] };
    const identities = [...asked].map(({ identity }) => identity);
    const results = await link.renew(
      {
        droneId,
        clockId: warden.identity.clockId,
        // Read before it is sent: the answer's deadlines are counted from here.
        localTimeMs: nowMs(),
        renewals: identities.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken })),
      },
      // After soft, no answer moves it.
      Math.max(...identities.map(({ ladder }) => ladder.softAfterMs)),
    );
    return { asked, results };
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
      // A stop that began in the meantime is final; any other problem is logged.
      if (problem !== null && problem !== 'stopping') {
        this.#options.log.warn({ backendId, problem }, 'the warden did not take a deadline');
      }
    }
  }
}

/** The items in pages, each of them as large as one call may be. */
function pagesOf<Item>(items: readonly Item[]): (readonly Item[])[] {
  const size = LIMITS.renewalsPerCallMax;
  return Array.from({ length: Math.ceil(items.length / size) }, (_page, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
