import type { StartRequest } from '../../warden/link/protocol.ts';
import { backendEnv } from './backend-env.ts';
import type { BackendNotes } from '../notes.ts';
import { leashMs } from '../warden-link/patience.ts';
import type { ProgramPlace } from '../program-place.ts';
import type { LaunchPlan, RunIdentity } from './run-types.ts';

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
  identity: RunIdentity,
  of: {
    plan: LaunchPlan;
    keyId: string;
    notes: BackendNotes;
    place: ProgramPlace;
    inheritedEnv: Readonly<Record<string, string | undefined>>;
    deadlines: { softAtMs: number; hardAtMs: number };
  },
): StartRequest {
  const { backendId, leaseId, fencingToken, program, ladder } = identity;
  const { plan, notes, place } = of;
  return {
    backendId,
    leaseId,
    ...of.deadlines,
    hardAfterMs: ladder.hardAfterMs,
    softToHardMs: ladder.hardAfterMs - ladder.softAfterMs,
    leashMs: leashMs(ladder),
    program: identity.programName,
    user: place.user,
    places: place.places,
    command: place.command,
    args: [...program.args, ...plan.args],
    env: backendEnv({
      inherited: of.inheritedEnv,
      program: program.env,
      requested: plan.env,
      keyName: plan.key.name,
      keyId: of.keyId,
      fencingToken,
      backendId,
      port: notes.port,
    }),
    cwd: place.cwd,
    stopSignal: program.stopSignal,
    stopGraceMs: program.stopGraceMs,
    meta: notes,
  };
}
