import { setTimeout as pause } from 'node:timers/promises';
import { backoffMs, type Ladder } from '@leasehold/keys-core';
import { SessionSuperseded, type ControllerLink } from '../controller-link/controller-link.ts';
import type { DroneSession } from '../controller-link/drone-session.ts';
import type { Log } from '../log.ts';
import { renewWindowMs } from '../warden-link/patience.ts';
import type { ReportInput } from '../controller-link/wire.ts';

/** What one report says; the session's part is added when it is sent. */
export type ReportBody = Omit<ReportInput, 'droneId' | 'clockId' | 'session' | 'backendId'>;

const RETRY_FIRST_MS = 100;
const RETRY_MS_MAX = 2_000;
/** How long to wait for an answer where the ladder of the grant is not known. */
const ANSWER_MS_MAX = 5_000;

/** Texts of an engine or of a launch are of any length; a report that is too long would be refused. */
const DETAIL_LENGTH_MAX = 330;

function shortened(text: string): string {
  return text.length <= DETAIL_LENGTH_MAX ? text : `${text.slice(0, DETAIL_LENGTH_MAX)} …`;
}

export interface ReportContext {
  readonly link: ControllerLink;
  readonly session: DroneSession;
  readonly log: Log;
  readonly random: () => number;
  /** The database says that this backend is over: it must be stopped hard, now. */
  readonly onKill: (backendId: string) => void;
}

/**
 * The reports of one backend: sent in order, each again until it is answered. Reports are facts, so
 * sending one twice changes nothing.
 */
export class ReportLine {
  readonly #backendId: string;
  readonly #context: ReportContext;
  readonly #timeoutMs: number;
  #last: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** The ladder of its grant, where it is known, bounds the wait for one answer. */
  constructor(backendId: string, context: ReportContext, ladder?: Ladder) {
    this.#backendId = backendId;
    this.#context = context;
    this.#timeoutMs = ladder === undefined ? ANSWER_MS_MAX : renewWindowMs([ladder]);
  }

  /** Resolves when the report has been answered, or will never be sent because the line closed. */
  send(body: ReportBody): Promise<void> {
    const { detail } = body;
    const fitting = detail === undefined ? body : { ...body, detail: shortened(detail) };
    this.#last = this.#last.then(() => this.#untilAnswered(fitting));
    return this.#last;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #untilAnswered(body: ReportBody): Promise<void> {
    const { link, session, log, random } = this.#context;
    for (let failureCount = 1; !this.#isClosed; failureCount += 1) {
      const ref = await session.ref();
      try {
        const outcome = await link.report(
          { ...ref, ...body, backendId: this.#backendId },
          this.#timeoutMs,
        );
        if (outcome === 'kill') this.#context.onKill(this.#backendId);
        return;
      } catch (error) {
        if (error instanceof SessionSuperseded) session.superseded(ref);
        else {
          log.debug(
            { err: error, backendId: this.#backendId, status: body.status },
            'a report got no answer',
          );
        }
        await pause(
          backoffMs(failureCount, { firstMs: RETRY_FIRST_MS, maxMs: RETRY_MS_MAX, random }),
        );
      }
    }
  }
}
