import type { HoldOff } from './epoch.ts';
import type { Actor } from '../../kernel/access.ts';

/** How far the database has come, as it is sent to holders, which send it back. */
export interface WitnessService {
  /** For an answer; undefined when nothing is known yet. */
  told(): string | undefined;
  /** Checks whether the database is still as far as a holder was told. Ignores stamps of other databases. */
  consider(witness: string | undefined): Promise<void>;
}

/** New grants are not made for a while: the database was restored or failed over. */
export interface HoldOffView extends Omit<HoldOff, 'since' | 'until'> {
  /** ISO-8601; null when an earlier version began it. */
  readonly since: string | null;
  /** ISO-8601. */
  readonly until: string;
}

export interface EndHoldOffInput {
  readonly reason: string;
  /** The epoch of the hold-off that the caller has seen: another one goes on. Any by default. */
  readonly epoch?: number | undefined;
}

export interface EndedHoldOff {
  /** Null when nothing was held off, or by another hold-off. */
  readonly ended: HoldOffView | null;
  /** What holds grants off now; null while they are made. */
  readonly remaining: HoldOffView | null;
}

export interface HoldOffService {
  /** Null while grants are made. */
  get(): Promise<HoldOffView | null>;
  /** Ends it before its time. */
  end(input: EndHoldOffInput, actor: Actor): Promise<EndedHoldOff>;
}
