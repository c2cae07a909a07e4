import type { Ladder } from '@leasehold/keys-core';
import type { StartRequest } from '../../warden/link/protocol.ts';
import { leashMs } from '../warden-link/patience.ts';
import type { LaunchPlan, RunIdentity, WorkFields } from './run-types.ts';

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

/** What the next agent must know of a backend that is about to be started on a port. */
export function notesOf(
  identity: RunIdentity,
  of: { plan: LaunchPlan; port: number; nowMs: number },
): BackendNotes {
  const { lifetimeLimitMs } = of.plan;
  return {
    version: 1,
    program: identity.programName,
    leaseId: identity.leaseId,
    fencingToken: identity.fencingToken,
    ladder: identity.ladder,
    port: of.port,
    lifetimeEndsAtMs: lifetimeLimitMs === null ? null : of.nowMs + lifetimeLimitMs,
    startupEndsAtMs: of.nowMs + identity.program.readiness.timeoutMs,
    isReady: false,
  };
}

/** What the warden is asked to start. */
export function startRequestOf(
  { backendId, leaseId, program, programName, ladder }: RunIdentity,
  of: {
    fields: WorkFields;
    notes: BackendNotes;
    deadlines: { softAtMs: number; hardAtMs: number };
  },
): StartRequest {
  return {
    ...of.fields,
    ...{ backendId, leaseId, ...of.deadlines },
    hardAfterMs: ladder.hardAfterMs,
    softToHardMs: ladder.hardAfterMs - ladder.softAfterMs,
    leashMs: leashMs(ladder),
    program: programName,
    stopSignal: program.stopSignal,
    stopGraceMs: program.stopGraceMs,
    meta: of.notes,
  };
}
