/** Which faults happen when: the same seed, the same plan. */
import { Random } from '../../../simulate/engine/random.ts';
import type { FaultKind } from './kinds.ts';

export interface PlannedFault {
  /** Names it within its plan, for runs with only some of them. */
  readonly id: string;
  readonly kind: FaultKind;
  readonly target: string;
  /** After the beginning of the run. */
  readonly atMs: number;
  readonly forMs: number;
}

export interface PlanOptions {
  readonly seed: number;
  readonly runMs: number;
  /** Each kind once, in a random order, in place of random ones. */
  readonly isEachOnce: boolean;
}

/** The workload runs alone at first, and everything can recover in the end. */
const CALM_FIRST_MS = 2_000;
export const CALM_LAST_MS = 12_000;
/** So many faults at a time: they are to meet, and something must still work. */
const TOGETHER_MAX = 3;
const GAP_MS_MAX = 4_000;

type Slot = Pick<PlannedFault, 'kind' | 'target' | 'atMs' | 'forMs'>;

export function planOf(kinds: readonly FaultKind[], options: PlanOptions): PlannedFault[] {
  const random = new Random(options.seed);
  const lastMs = options.runMs - CALM_LAST_MS;
  const slots = options.isEachOnce
    ? eachOnce(random.shuffled(kinds), random, lastMs)
    : atRandom(kinds, random, lastMs);
  return slots.map((slot, index) => ({ ...slot, id: `f${String(index + 1)}` }));
}

function atRandom(kinds: readonly FaultKind[], random: Random, lastMs: number): Slot[] {
  const slots: Slot[] = [];
  for (let atMs = CALM_FIRST_MS; atMs < lastMs; atMs += random.whole(0, GAP_MS_MAX)) {
    const slot = slotOf(random.pick(kinds), random, atMs);
    if (atMs + slot.forMs <= lastMs && fits(slot, slots)) slots.push(slot);
  }
  return slots;
}

/** Evenly, and later where one may not overlap with those before it. */
function eachOnce(kinds: readonly FaultKind[], random: Random, lastMs: number): Slot[] {
  const slots: Slot[] = [];
  const stepMs = (SHARE_OF_TIME * Math.max(0, lastMs - CALM_FIRST_MS)) / kinds.length;
  for (const [index, kind] of kinds.entries()) {
    let slot = slotOf(kind, random, Math.round(CALM_FIRST_MS + index * stepMs));
    while (!fits(slot, slots)) slot = { ...slot, atMs: slot.atMs + STEP_MS };
    slots.push(slot);
  }
  return slots.sort((a, b) => a.atMs - b.atMs);
}

const STEP_MS = 250;
/** The rest is for those that must wait for others. */
const SHARE_OF_TIME = 0.8;

function slotOf(kind: FaultKind, random: Random, atMs: number): Slot {
  const [min, max] = kind.forMs;
  return { kind, target: random.pick(kind.targets), atMs, forMs: random.whole(min, max) };
}

/** What ends takes a moment until it is over. */
const ENDING_MS = 1_500;

function fits(slot: Slot, others: readonly Slot[]): boolean {
  const beside = others.filter((other) => {
    const endsAtMs = other.atMs + other.forMs + ENDING_MS;
    return slot.atMs < endsAtMs && other.atMs < slot.atMs + slot.forMs + ENDING_MS;
  });
  if (beside.length >= TOGETHER_MAX) return false;
  return !beside.some((other) => excludes(other, slot));
}

/** Whether two faults may not overlap: they have one target, or are of one group. */
export function excludes(one: Pick<Slot, 'kind' | 'target'>, other: typeof one): boolean {
  const { groups = [] } = other.kind;
  const isSameGroup = one.kind.groups?.some((group) => groups.includes(group)) === true;
  return isSameGroup || one.target === other.target;
}
