import { AsyncLocalStorage } from 'node:async_hooks';
import type { Grant } from './oidc/group-roles.ts';

/** What is known of a call while better-auth carries it out: its hooks and its log have no other way to learn it. */
export interface CallState {
  readonly requestId: string;
  readonly source: string | null;
  /** What the groups of the person allow; null: nothing; undefined: groups do not decide. */
  grant?: Grant | null;
}

export const callOfAuth = new AsyncLocalStorage<CallState>();
