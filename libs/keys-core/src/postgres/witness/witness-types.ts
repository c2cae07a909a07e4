import type { HoldOff } from './epoch.ts';
import type { Actor } from '../../kernel/access/actor.ts';

/** How far the database has come, as it is sent to holders, which send it back. */
export interface WitnessService {
  /** For an answer; undefined when nothing is known yet. */
  told(): string | undefined;
  /** Checks whether the database is still as far as a holder was told. Ignores stamps of other databases. */
  consider(witness: string | undefined): Promise<void>;
}

/** New grants are not made for a while: the database was restored or failed over. */
export interface HoldOffView extends Omit<HoldOff, 'until'> {
  /** ISO-8601. */
  readonly until: string;
}

export interface HoldOffService {
  /** Null while grants are made. */
  get(): Promise<HoldOffView | null>;
  /** Ends it before its time. `ended` is null when none existed. */
  end(input: { readonly reason: string }, actor: Actor): Promise<{ ended: HoldOffView | null }>;
}
