import type { Caller, FoundKind, Match } from '../kernel/face-types.ts';

/** What found it, where that is not its name. */
export type FoundBy = 'lease_id' | 'ticket' | 'token' | 'holder' | 'backend_id' | 'address';

/** What was found: enough to tell it from others, and to open it. */
export interface FoundView {
  readonly kind: FoundKind;
  /** As it is printed: `boards.eu/q4-roadmap`, an id, an e-mail address, the name of a token. */
  readonly text: string;
  /** Of a resource, or of a backend's key; empty for the others. */
  readonly namespace: string;
  /** Of a resource or a token; the id of a drone or a backend; a person's name. */
  readonly name: string;
  /** Of the newest grant, the drone, the backend, the person or the token. */
  readonly id: string;
  /** Its phase or status. */
  readonly state: string;
  /** Whether it is in use: held, connected or in force. */
  readonly isLive: boolean;
  /** Who holds it, the backend's key, or the role; null for what has none. */
  readonly detail: string | null;
  readonly match: Match;
  /** Left out for what was found by its name. */
  readonly by?: FoundBy;
  readonly datacenter: string;
}

export interface FindInput {
  readonly text: string;
  readonly kinds?: readonly FoundKind[] | undefined;
  readonly limit: number;
}

export interface Found {
  /** Best first. */
  readonly items: FoundView[];
  /** False while the names of a database that was in use before are still being filled. */
  readonly isComplete: boolean;
  /** What could not be searched this time: the rest was. */
  readonly failed: FoundKind[];
  /** ISO-8601. */
  readonly asOf: string;
}

export interface SearchService {
  /**
   * What contains a text, whatever its case: exact names first, then names that begin with it, then words,
   * then the rest; of each, what is held comes first, then what is shorter. Shows only what the caller may list.
   */
  find(input: FindInput, caller: Caller): Promise<Found>;
}
