import type { Figure } from '../rig/figures.ts';

export interface Machine {
  readonly processor: string;
  readonly coreCount: number;
  readonly memoryGb: number;
  readonly system: string;
  readonly node: string;
  readonly postgres: string;
}

export interface Section {
  /** The name that selects the measurement. */
  readonly name: string;
  readonly figures: readonly (Figure & { readonly verdict: string })[];
}

export interface Report {
  readonly startedAt: string;
  readonly tookS: number;
  readonly commit: string;
  readonly command: string;
  /** Small tables and short rounds: the figures mean nothing. */
  readonly isQuick: boolean;
  readonly machine: Machine;
  /** What decides about durability, of PostgreSQL and of the peers. */
  readonly durability: Readonly<Record<string, string>>;
  readonly sections: readonly Section[];
}
