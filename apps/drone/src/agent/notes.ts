import type { Ladder } from '@leasehold/keys-core';

/**
 * What the agent has the warden keep for it about a backend, so that the next agent can adopt it.
 * Instants are readings of the boot clock of this machine.
 */
export interface BackendNotes {
  readonly version: 1;
  readonly program: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly ladder: Ladder;
  readonly port: number;
  readonly lifetimeEndsAtMs: number | null;
  readonly startupEndsAtMs: number;
  readonly isReady: boolean;
}

/** Undefined for notes of another version of this program, or of none. */
export function readNotes(value: unknown): BackendNotes | undefined {
  if (typeof value !== 'object' || value === null || !('version' in value)) return undefined;
  // Only an agent of this version writes this version, and only to its own warden.
  return value.version === 1 ? (value as BackendNotes) : undefined;
}
