/** What a worker is started with, and what all of them do. */
import type { HolderClock } from '../../../leases/stage/program.ts';

export interface WorkerSettings {
  readonly role: 'caller' | 'holder' | 'updater';
  /** Different for each process that is started. */
  readonly name: string;
  readonly urls: readonly string[];
  readonly databaseUrl: string;
  readonly token: string;
  readonly diary: string;
  readonly seed: number;
  readonly clock: HolderClock;
}

export const NAMESPACE = 'proof';
export const PROGRAM = 'witness';
/** With its schema: connections of Leasehold search another one. */
export const SINK = 'public.proof_sink';
export const KEYS = ['k0', 'k1', 'k2', 'k3', 'k4', 'k5'] as const;

export function leaseResource(key: string): string {
  return `lease ${NAMESPACE}/${key}`;
}

export function keyResource(name: string): string {
  return `key /${name}`;
}
