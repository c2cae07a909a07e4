/** What a worker is started with, and what all of them do. */
import type { HolderClock } from '../../../leases/stage/program.ts';

export interface WorkerSettings {
  readonly role: 'caller' | 'holder' | 'updater' | 'sharer';
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

/** Leases with permits, leases that are shared, and leases that are wanted together. */
export const PERMITS_NAMESPACE = 'proof.permits';
export const SHARED_NAMESPACE = 'proof.shared';
export const TOGETHER_NAMESPACE = 'proof.group';
export const PERMITS = { perKey: 2, total: 3 } as const;
/** Each request for it supersedes what came before. */
export const ENVIRONMENT = `environment ${NAMESPACE}/deploy`;
/** It is frozen now and then. */
export const FROZEN_ENVIRONMENT = `environment ${NAMESPACE}/frozen`;

export function isOf(resource: string, namespace: string): boolean {
  return resource.startsWith(`lease ${namespace}/`);
}

/** Whether several hold it at once. */
export function isShareable(resource: string): boolean {
  return isOf(resource, PERMITS_NAMESPACE) || isOf(resource, SHARED_NAMESPACE);
}

/** A holder that names one request, and how many leases that is for. */
export function holderOfAll(id: string, count: number): string {
  return `${id} ${String(count)}`;
}

export function wantedTogether(holder: string): number {
  return Number(holder.split(' ').at(-1));
}
