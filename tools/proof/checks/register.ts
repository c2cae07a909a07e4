/**
 * Linearizability of what clients observed of one lease: whether some order of the requests, each at one
 * instant between its call and its reply, explains every reply. The search is that of Wing and Gong; the
 * set of states that were tried makes it short, and the tokens do the rest.
 */
import type { Acquire, History, Operation, Release, Renew, Violation } from '../history.ts';
import { MAPPING_MS } from './exclusion.ts';
import { grantsOf, groupedBy } from './grants.ts';

/** What a lease is at one instant: its newest token, and whether that grant is in force. */
interface State {
  readonly token: bigint;
  readonly isHeld: boolean;
}

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

export function checkRegisters(history: History): Violation[] {
  const byResource = groupedBy(history.operations, ({ resource }) => resource);
  return [...byResource].flatMap(([resource, operations]) => {
    const steps = stepsOf(operations, history);
    const stuck = unexplained(steps);
    if (stuck === undefined) return [];
    const text = `${resource}: no order of the requests explains ${stuck.text}`;
    return [{ invariant: 'linear' as const, atMs: stuck.untilMs, text }];
  });
}

/** The step that no order explains; undefined when there is an order that explains all. */
export function unexplained(steps: readonly Step[]): Step | undefined {
  const mandatory = steps.filter((step) => !step.isOptional).sort((a, b) => a.fromMs - b.fromMs);
  const optional = steps.filter((step) => step.isOptional).sort((a, b) => a.fromMs - b.fromMs);
  const seen = new Set<string>();
  const pending: Point[] = [{ state: { token: 0n, isHeld: false }, first: 0, done: new Set() }];
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
function stepsOf(operations: readonly Operation[], history: History): Step[] {
  const [first] = operations;
  const grants = grantsOf(history.events).filter(
    ({ granted }) => granted.resource === first?.resource,
  );
  const byHolder = new Map(grants.map(({ granted, token }) => [granted.holder, token]));
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
  return [...steps, ...grants.map(({ granted, token }) => endOf(granted, token, history))];
}

/** A replay is answered with what became of the request when it was first carried out. */
function sinceFirstCalled(operations: readonly Operation[]): Operation[] {
  const first = new Map<string, number>();
  for (const operation of operations) {
    if (operation.kind !== 'acquire') continue;
    const { holder, calledAtMs } = operation;
    first.set(holder, Math.min(calledAtMs, first.get(holder) ?? Infinity));
  }
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

/** A grant may end when its promise is over, and for its holder's peers when an operator ends it. */
function endOf(
  granted: History['events'][number],
  token: bigint,
  { promises, operations, faults }: History,
): Step {
  const expiries = promises
    .filter(({ leaseId }) => leaseId === granted.leaseId)
    .map(({ expiresAtMs }) => expiresAtMs - MAPPING_MS);
  const told = operations.flatMap((operation) => {
    const { answer } = operation;
    const isRenewal = operation.kind === 'renew' && operation.leaseId === granted.leaseId;
    if (isRenewal && answer.outcome === 'renewed') return [answer.loseAtMs];
    if (answer.outcome !== 'granted' || answer.leaseId !== granted.leaseId) return [];
    return [answer.loseAtMs];
  });
  const byOthers = operations.flatMap((operation) => {
    const isRevoke = operation.kind === 'revoke' && operation.leaseId === granted.leaseId;
    if (isRevoke) return [operation.calledAtMs];
    const isCancel = operation.kind === 'cancel' && operation.holder === granted.holder;
    return isCancel ? [operation.calledAtMs] : [];
  });
  const jumps = faults
    .filter(({ name, untilMs }) => name === 'F7b' && untilMs > granted.atMs)
    .map(({ fromMs }) => fromMs);
  const expiresAtMs = Math.max(granted.atMs - MAPPING_MS, ...expiries, ...told);
  return {
    text: `the end of ${granted.token}`,
    // After a step of its clock the database calls expired what was not.
    fromMs: Math.min(expiresAtMs, ...byOthers, ...jumps),
    untilMs: Infinity,
    isOptional: true,
    apply: (state) => (isHeldBy(state, token) ? { token, isHeld: false } : undefined),
  };
}
