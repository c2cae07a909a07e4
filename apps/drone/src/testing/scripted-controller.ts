import type { DroneMessage, SpawnAction } from '@leasehold/api';
import { deadlinesFrom, KEY_LADDERS, type Ladder } from '@leasehold/keys-core';
import type { ControllerLink, SessionListener } from '../agent/controller-link.ts';
import type * as wire from '../agent/controller-link.ts';

/**
 * The other end of an agent's connection, controlled by a test: it sends what controllers send when
 * messages are late, duplicated or lost. What the agent sends is recorded.
 */
export class ScriptedController implements ControllerLink {
  ladder: Ladder = KEY_LADDERS.fast;
  /** How often it asks for a heartbeat. */
  heartbeatMs = 1_000;
  readonly acks: string[] = [];
  readonly reports: wire.ReportInput[] = [];
  readonly answers: wire.AnswerInput[] = [];
  readonly renewals: wire.RenewInput[] = [];
  readonly heartbeats: wire.HeartbeatInput[] = [];
  answerRenewal: (input: wire.RenewInput, leaseId: string) => wire.RenewResult | Error;
  answerReport: (input: wire.ReportInput) => wire.ReportOutcome | Error = () => 'recorded';
  /** Whether heartbeats are answered so that the drone is given no more backends. */
  isDraining = false;
  /** What a heartbeat waits for before it is answered. */
  answerHeartbeat: () => Promise<void> = () => Promise.resolve();
  /** The sessions in which a goodbye was said. */
  readonly goodbyes: number[] = [];
  answerGoodbye: () => Promise<void> = () => Promise.resolve();
  session = 0;
  /** Whether it answers a session at all: a wrong token and a dead connection look the same to an agent. */
  isAccepting = true;
  #listener: SessionListener | undefined;
  #input: wire.SessionInput | undefined;

  constructor() {
    this.answerRenewal = (input, leaseId) => this.renewed(input, leaseId);
  }

  renewed(input: wire.RenewInput, leaseId: string): wire.RenewResult {
    const deadlines = deadlinesFrom(this.ladder, input.localTimeMs, this.ladder.ttlMs);
    return { leaseId, outcome: 'renewed', deadlines };
  }

  follow(input: wire.SessionInput, listener: SessionListener): () => void {
    this.#listener = listener;
    this.#input = input;
    this.session += 1;
    if (this.isAccepting) {
      queueMicrotask(() => {
        if (this.#listener === listener) this.accept();
      });
    }
    return () => undefined;
  }

  /** Answers the newest session. */
  accept(): void {
    const { session, heartbeatMs } = this;
    this.#listener?.message({ kind: 'session', session, heartbeatMs });
  }

  send(message: DroneMessage): void {
    this.#listener?.message(message);
  }

  /** Ends the newest session, as a controller does that refuses it. */
  end(error: unknown): void {
    this.#listener?.ended(error);
  }

  /** What the newest session was opened with. */
  get sessionInput(): wire.SessionInput | undefined {
    return this.#input;
  }

  /** A spawn as it is sent to this drone, with first-grant deadlines of its own clock. */
  spawnAt(nowMs: number, fields: Partial<SpawnAction> = {}): SpawnAction {
    return {
      kind: 'spawn',
      actionId: '1',
      session: this.session,
      clockId: this.#input?.clockId ?? '',
      backendId: 'b1',
      program: 'room',
      args: [],
      env: {},
      key: { name: 'demo', namespace: '', tag: '' },
      leaseId: '6f1dd2cc-0b3a-4b0e-9a2c-0d6d8b0b7f01',
      fencingToken: '17',
      deadlines: deadlinesFrom(this.ladder, nowMs, this.ladder.ttlMs),
      ladder: this.ladder,
      lifetimeLimitSeconds: null,
      ...fields,
    };
  }

  async heartbeat(input: wire.HeartbeatInput): Promise<wire.HeartbeatAnswer> {
    this.heartbeats.push(input);
    await this.answerHeartbeat();
    return { isDraining: this.isDraining };
  }

  goodbye({ session }: wire.GoodbyeInput): Promise<void> {
    this.goodbyes.push(session);
    return this.answerGoodbye();
  }

  acknowledge(input: wire.AckInput): Promise<void> {
    this.acks.push(input.actionId);
    return Promise.resolve();
  }

  answer(input: wire.AnswerInput): Promise<void> {
    this.answers.push(input);
    return Promise.resolve();
  }

  report(input: wire.ReportInput): Promise<wire.ReportOutcome> {
    this.reports.push(input);
    const answer = this.answerReport(input);
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }

  renew(input: wire.RenewInput): Promise<readonly wire.RenewResult[]> {
    this.renewals.push(input);
    const results: wire.RenewResult[] = [];
    for (const { leaseId } of input.renewals) {
      const answer = this.answerRenewal(input, leaseId);
      if (answer instanceof Error) return Promise.reject(answer);
      results.push(answer);
    }
    return Promise.resolve(results);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The states that were reported for a backend, in order. */
  statusesOf(backendId: string): string[] {
    return this.reports
      .filter((report) => report.backendId === backendId)
      .map((report) => report.status);
  }
}
