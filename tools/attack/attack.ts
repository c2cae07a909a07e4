import type { Latencies } from './healthy.ts';
import type { AttackStage } from './stage.ts';

/** What an attacker has seen. */
export interface Yield {
  /** Calls, connections or tries. */
  readonly tried: number;
  /** How often each refusal came, by code. */
  readonly refused: Readonly<Record<string, number>>;
  /** What it got but must not get. */
  readonly got: readonly string[];
  /** Of a user's requests that went on beside it through what it attacks; left out, those of healthy callers count. */
  readonly beside?: Latencies | undefined;
}

export interface Attack {
  readonly name: string;
  readonly what: string;
  carryOut(stage: AttackStage, attackMs: number): Promise<Yield>;
}
