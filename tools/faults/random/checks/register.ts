/**
 * Linearizability of what clients observed of one lease: whether some order of the requests, each at one
 * instant between its call and its reply, explains every reply. The search is that of Wing and Gong; the
 * set of states that were tried makes it short, and the tokens do the rest.
 */
import type { Acquire, History, Operation, Release, Renew, Violation } from '../history.ts';
import { firstCalls, type EraHistory } from './eras.ts';
import { isPromise, MAPPING_MS } from './exclusion.ts';
import { grantsOf, groupedBy, lastExpiries, type GrantRecord } from './grants.ts';

/** What a lease is at one instant: its newest token, and whether that grant is in force. */
interface State {
  readonly token: bigint;
  readonly isHeld: boolean;
}

const NOTHING: State = { token: 0n, isHeld: false };

/** A request, or an end that nobody asked for, as something that happens at one instant. */
export interface Step {
  readonly text: string;
  readonly fromMs: number;
  readonly untilMs: number;
  /** It may never have happened: its outcome is unknown, or nobody asked for it. */
  readonly isOptional: boolean;
  /** The state after it; undefined when it cannot happen in this one. */
  readonly apply: (state: State) => State | undefined;
}

/** More than any history of a run needs. */
const TRIES_MAX = 500_000;

export function checkRegisters(history: EraHistory): Violation[] {
  const byResource = groupedBy(history.operations, ({ resource }) => resource);
  const grants = groupedBy(grantsOf(history.events), ({ granted }) => granted.resource);
  const ends = earliestEnds(history);
  return [...byResource].flatMap(([resource, operations]) => {
    const all = grants.get(resource) ?? [];
    const own = all.filter(({ granted }) => granted.atMs >= history.sinceMs);
    const steps = stepsOf(operations, all, own, ends);
    // A grant that was in a backup may have ended by the time at which the database was put back.
    const kept = all[all.length - own.length - 1];
    const stuck = unexplained(steps, kept && { token: kept.token, isHeld: true });
    if (stuck === undefined) return [];
    const text = `${resource}: no order of the requests explains ${stuck.text}`;
    return [{ invariant: 'linear' as const, atMs: stuck.untilMs, text }];
  });
}

/** The step that no order explains; undefined when there is an order that explains all. */
export function unexplained(steps: readonly Step[], beginning = NOTHING): Step | undefined {
  const mandatory = steps.filter((step) => !step.isOptional).sort((a, b) => a.fromMs - b.fromMs);
  const optional = steps.filter((step) => step.isOptional).sort((a, b) => a.fromMs - b.fromMs);
  const seen = new Set<string>();
  const pending: Point[] = [{ state: beginning, first: 0, done: new Set() }];
  let furthest = 0;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const point = pending.pop();
    if (point === undefined) break;
    const settled = withoutChange(mandatory, point);
    if (settled.first >= mandatory.length) return undefined;
    furthest = Math.max(furthest, settled.first);
    const key = keyOf(settled);
    if (seen.has(key)) continue;
    seen.add(key);
    pending.push(...successors(mandatory, optional, settled));
  }
  return mandatory[furthest];
}

/** How far a search is: all before `first` have happened, and those in `done`. */
interface Point {
  readonly state: State;
  readonly first: number;
  readonly done: ReadonlySet<number>;
}

function keyOf({ state, first, done }: Point): string {
  const later = [...done].sort((a, b) => a - b).join();
  return `${String(state.token)} ${String(state.isHeld)} ${String(first)} ${later}`;
}

/** Those that may be next: called before the first of the remaining replies. */
function* candidates(mandatory: readonly Step[], { first, done }: Point): Generator<number> {
  let untilMs = Infinity;
  for (let index = first; index < mandatory.length; index += 1) {
    const step = mandatory[index] as Step;
    if (step.fromMs > untilMs) break;
    if (!done.has(index)) untilMs = Math.min(untilMs, step.untilMs);
  }
  for (let index = first; index < mandatory.length; index += 1) {
    if ((mandatory[index] as Step).fromMs > untilMs) return;
    if (!done.has(index)) yield index;
  }
}

/** What changes nothing may happen as soon as it can: that never stands in the way of another step. */
function withoutChange(mandatory: readonly Step[], point: Point): Point {
  let settled = point;
  for (let isChanged = true; isChanged;) {
    isChanged = false;
    for (const index of candidates(mandatory, settled)) {
      const after = (mandatory[index] as Step).apply(settled.state);
      if (after !== settled.state) continue;
      settled = happened(settled, index, after);
      isChanged = true;
      break;
    }
  }
  return settled;
}

function happened({ first, done }: Point, index: number, state: State): Point {
  const next = new Set(done).add(index);
  let begin = first;
  while (next.delete(begin)) begin += 1;
  return { state, first: begin, done: next };
}

function successors(mandatory: readonly Step[], optional: readonly Step[], point: Point): Point[] {
  const points: Point[] = [];
  let untilMs = Infinity;
  for (const index of candidates(mandatory, point)) {
    const step = mandatory[index] as Step;
    untilMs = Math.min(untilMs, step.untilMs);
    const after = step.apply(point.state);
    if (after !== undefined) points.push(happened(point, index, after));
  }
  for (const step of optional) {
    if (step.fromMs > untilMs) break;
    const after = step.apply(point.state);
    if (after !== undefined && after !== point.state) points.push({ ...point, state: after });
  }
  return points;
}

/** The steps of one resource: its requests, and the ends of its grants that nobody asked for. */
function stepsOf(
  operations: readonly Operation[],
  all: readonly GrantRecord[],
  grants: readonly GrantRecord[],
  ends: Ends,
): Step[] {
  const byHolder = new Map(all.map(({ granted, token }) => [granted.holder, token]));
  const answered = new Set<string>();
  const steps = sinceFirstCalled(operations)
    .sort((a, b) => a.repliedAtMs - b.repliedAtMs)
    .flatMap((operation) => stepOf(operation, byHolder, answered));
  // Grants whose answer nobody received, and those of the client library.
  const others = grants.filter(({ granted }) => !answered.has(granted.token));
  for (const { granted, token } of others) {
    const fromMs = granted.atMs - MAPPING_MS;
    const untilMs = granted.atMs + COMMIT_MS_MAX;
    steps.push(grantStep({ text: `the grant of ${granted.token}`, fromMs, untilMs }, token));
  }
  return [...steps, ...all.map((grant) => endOf(grant, ends, answered.has(grant.granted.token)))];
}

/** A replay is answered with what became of the request when it was first carried out. */
function sinceFirstCalled(operations: readonly Operation[]): Operation[] {
  const first = firstCalls(operations);
  return operations.map((operation) => {
    if (operation.kind !== 'acquire') return operation;
    return { ...operation, calledAtMs: first.get(operation.holder) ?? operation.calledAtMs };
  });
}

/** From the time in an event to its commit, on a busy machine with a slow database. */
const COMMIT_MS_MAX = 15_000;

type Span = Pick<Step, 'text' | 'fromMs' | 'untilMs'>;

function stepOf(
  operation: Operation,
  byHolder: ReadonlyMap<string, bigint>,
  answered: Set<string>,
): Step[] {
  const text = `${operation.id}, ${operation.kind} ${operation.answer.outcome}`;
  const span = { text, fromMs: operation.calledAtMs, untilMs: operation.repliedAtMs };
  if (operation.kind === 'acquire') return acquireSteps(operation, span, byHolder, answered);
  if (operation.kind === 'renew') return renewSteps(operation, span);
  return operation.kind === 'release' ? releaseSteps(operation, span) : [];
}

function must(span: Span, apply: Step['apply']): Step[] {
  return [{ ...span, isOptional: false, apply }];
}

function acquireSteps(
  { answer }: Acquire,
  span: Span,
  byHolder: ReadonlyMap<string, bigint>,
  answered: Set<string>,
): Step[] {
  if (answer.outcome === 'granted') {
    const token = BigInt(answer.token);
    // A replay is answered with what was granted before.
    if (answered.has(answer.token)) {
      return must(span, (state) => (state.token < token ? undefined : state));
    }
    answered.add(answer.token);
    return [grantStep(span, token)];
  }
  const by = answer.outcome === 'held' ? byHolder.get(answer.by) : undefined;
  if (by === undefined) return [];
  return must(span, (state) => (isHeldOrAhead(state, by) ? state : undefined));
}

function renewSteps({ answer, token: text }: Renew, span: Span): Step[] {
  const token = BigInt(text);
  if (answer.outcome === 'renewed') {
    return must(span, (state) => (isHeldBy(state, token) ? state : undefined));
  }
  const isOver = answer.outcome === 'refused' && answer.reason !== 'renewal_blocked';
  return isOver ? must(span, (state) => (isHeldBy(state, token) ? undefined : state)) : [];
}

function releaseSteps({ answer, token: text }: Release, span: Span): Step[] {
  const token = BigInt(text);
  const apply: Step['apply'] = (state) =>
    isHeldBy(state, token) ? { token, isHeld: false } : undefined;
  if (answer.outcome === 'unknown') {
    return [{ ...span, untilMs: Infinity, isOptional: true, apply }];
  }
  if (answer.outcome !== 'answered') return [];
  if (answer.report === 'released') return must(span, apply);
  return must(span, (state) => (isHeldBy(state, token) ? undefined : state));
}

function grantStep(span: Span, token: bigint): Step {
  return {
    ...span,
    isOptional: false,
    apply: (state) => (state.isHeld || state.token >= token ? undefined : { token, isHeld: true }),
  };
}

function isHeldBy(state: State, token: bigint): boolean {
  return state.isHeld && state.token === token;
}

/** The one who stands in the way holds it, or will: it is the first in the queue. */
function isHeldOrAhead(state: State, token: bigint): boolean {
  return state.token < token || isHeldBy(state, token);
}

/** From when on a grant may have ended without a release. */
interface Ends {
  /** When all promises of a grant are over, by its id. */
  readonly expiries: ReadonlyMap<string, number>;
  /** When somebody else was asked to end it, by its id or by its holder. */
  readonly askedAtMs: ReadonlyMap<string, number>;
  /** Steps of the database clock, which then calls expired what was not. */
  readonly jumpsAtMs: readonly (readonly [fromMs: number, untilMs: number])[];
}

function earliestEnds({ promises, operations, faults }: History): Ends {
  const expiries = lastExpiries(promises);
  const askedAtMs = new Map<string, number>();
  const extend = (leaseId: string, untilMs: number): void => {
    expiries.set(leaseId, Math.max(untilMs, expiries.get(leaseId) ?? -Infinity));
  };
  const ask = (name: string, atMs: number): void => {
    askedAtMs.set(name, Math.min(atMs, askedAtMs.get(name) ?? Infinity));
  };
  for (const [leaseId, expiresAtMs] of expiries) expiries.set(leaseId, expiresAtMs - MAPPING_MS);
  for (const operation of operations) {
    const { answer, kind, calledAtMs } = operation;
    if (kind === 'renew' && answer.outcome === 'renewed') {
      extend(operation.leaseId, answer.loseAtMs);
    }
    if (answer.outcome === 'granted' && isPromise(operation)) {
      extend(answer.leaseId, answer.loseAtMs);
    }
    if (kind === 'revoke') ask(operation.leaseId, calledAtMs);
    if (kind === 'cancel') ask(operation.holder, calledAtMs);
  }
  const jumpsAtMs = faults
    .filter(({ name }) => name === 'F7b')
    .map(({ fromMs, untilMs }) => [fromMs, untilMs] as const);
  return { expiries, askedAtMs, jumpsAtMs };
}

function endOf({ granted, token, ends: own }: GrantRecord, ends: Ends, isTold: boolean): Step {
  const { leaseId, holder, atMs } = granted;
  // A controller gives back at once what it granted to a caller that has fallen silent meanwhile.
  const back = isTold ? undefined : own.find(({ kind }) => kind === 'failed');
  const backAtMs = back === undefined ? undefined : back.atMs - MAPPING_MS;
  const jumps = ends.jumpsAtMs.filter(([, untilMs]) => untilMs > atMs).map(([fromMs]) => fromMs);
  const expiresAtMs = Math.max(atMs - MAPPING_MS, ends.expiries.get(leaseId) ?? -Infinity);
  const asked = [ends.askedAtMs.get(leaseId), ends.askedAtMs.get(holder), backAtMs];
  return {
    text: `the end of ${granted.token}`,
    fromMs: Math.min(expiresAtMs, ...asked.map((askedMs) => askedMs ?? Infinity), ...jumps),
    untilMs: Infinity,
    isOptional: true,
    apply: (state) => (isHeldBy(state, token) ? { token, isHeld: false } : undefined),
  };
}
