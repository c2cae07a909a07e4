/** What messages of the webhook say. Pure. */
import { printableText } from '@leasehold/keys-core';
import type { AuditView } from '@leasehold/keys-core/access';
import type { HealthConcern } from '@leasehold/keys-core/stats';

/** What an alarm is about: a concern whose number changes stays the same alarm. */
export function alarmKey({ kind, droneId, face }: HealthConcern): string {
  return [kind, droneId ?? face].filter((part) => part !== null).join(':');
}

const TEXTS: Readonly<Record<HealthConcern['kind'], (count: number) => string>> = {
  hold_off: () => 'The database was restored: nothing new is granted for now.',
  clock_jump: () => "The database's clock has stepped.",
  reaper_late: () => 'Expiries are recorded late.',
  events_late: () => 'Events are late.',
  no_drone_ready: () => 'No drone can take a new backend.',
  drone_unreachable: (count) => `${String(count)} drones are unreachable.`,
  drone_lost: (count) => `${String(count)} drones are lost.`,
  renewals_refused: (count) => `${String(count)} renewals were refused within five minutes.`,
  crash_loops: (count) =>
    count === 1
      ? 'The backends of a key fail one after another.'
      : `The backends of ${String(count)} keys fail one after another.`,
  callbacks_failing: (count) => `${String(count)} callbacks of expired leases fail.`,
  expiring: (count) => `${String(count)} grants are not renewed any more.`,
};

const DRONE_STATES: Partial<Record<HealthConcern['kind'], string>> = {
  drone_unreachable: 'unreachable',
  drone_lost: 'lost',
};

export function alarmText({ kind, count, droneId }: HealthConcern): string {
  const state = DRONE_STATES[kind];
  if (droneId === null || state === undefined) return TEXTS[kind](count);
  return `The drone ${printableText(droneId)} is ${state}.`;
}

/** `ann@example.com: keys.revoke of key:room-1: "stuck"`. */
export function auditText({ actor, action, resource, reason }: AuditView): string {
  const why = reason === null || reason === '' ? '' : `: "${reason}"`;
  return printableText(`${actor}: ${action} of ${resource}${why}`);
}
