import type { SpawnAction } from '@leasehold/api';
import { isFirstGrantPlausible } from '@leasehold/keys-core';
import type { ProgramConfig } from '../../config.ts';
import { requestProblem } from './backend-env.ts';

/** The state of a drone when it is asked to start a backend. */
export interface SpawnSituation {
  readonly isStopping: boolean;
  /** Undefined while there is no warden. */
  readonly clockId: string | undefined;
  readonly nowMs: number;
  readonly program: ProgramConfig | undefined;
  /** Why the program must not be started on this machine; undefined when it may be. */
  readonly refusal: string | undefined;
  readonly hasRoom: boolean;
  /** How many backends of the program there are. */
  readonly instanceCount: number;
}

/**
 * Why a spawn cannot be carried out, for an operator; undefined when it can. Deadlines
 * that were computed for another clock would let a backend run for as long as the clocks differ.
 */
export function spawnProblem(action: SpawnAction, now: SpawnSituation): string | undefined {
  if (now.isStopping) return 'the drone is stopping';
  if (action.clockId !== now.clockId) return 'its deadlines are of another clock';
  if (!isFirstGrantPlausible(action.deadlines, action.ladder, now.nowMs)) {
    return 'its deadlines have passed, or are of another clock';
  }
  if (now.program === undefined) return 'the drone does not offer the program';
  if (now.refusal !== undefined) return `the program cannot run here: ${now.refusal}`;
  if (!now.hasRoom) return 'the drone is full';
  const instancesMax = now.program.resources?.instancesMax ?? Number.POSITIVE_INFINITY;
  if (now.instanceCount >= instancesMax) return 'the drone is at its limit for this program';
  return requestProblem(now.program, action);
}
