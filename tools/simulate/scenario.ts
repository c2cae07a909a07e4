import type { Random } from './engine/random.ts';
import type { World } from './engine/world.ts';

/** Something that is done to a world at a moment: by a user, or by fate. */
export interface Step {
  readonly atMs: number;
  readonly what: string;
  /** Whom it concerns. */
  readonly who?: number | undefined;
  readonly whom?: number | undefined;
  /** For how long, or by how much. */
  readonly ms?: number | undefined;
}

/** A kind of world: which steps happen in it, and what must hold whatever they are. */
export interface Scenario {
  readonly name: string;
  steps(random: Random): Step[];
  /** Plays the steps and checks what holds. @throws {Violation} */
  play(world: World, steps: readonly Step[]): Promise<void>;
}

/** As many steps as the world is long, in the order of their moments. */
export function stepsOver(
  random: Random,
  { untilMs, everyMs }: { readonly untilMs: number; readonly everyMs: number },
  make: (atMs: number) => Step,
): Step[] {
  const steps: Step[] = [];
  for (let atMs = 0; ;) {
    atMs += Math.ceil(random.next() * 2 * everyMs);
    if (atMs >= untilMs) return steps;
    steps.push(make(atMs));
  }
}

/** A step of the given kinds, each with its weight. */
export function weighted(random: Random, weights: Readonly<Record<string, number>>): string {
  const entries = Object.entries(weights);
  let left = random.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [name, weight] of entries) {
    left -= weight;
    if (left < 0) return name;
  }
  return entries[0]?.[0] ?? '';
}
