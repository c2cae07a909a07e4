/** Freezes: times in which nobody may acquire an environment. Pure. */
import { LeaseError } from './errors.ts';
import { isWithinNamespace, type Named, namespaceText, resourceText } from './resource.ts';

/** What is frozen. Without a name: all environments of the namespace, children included. */
export interface FreezePlace {
  readonly namespace: string;
  readonly name: string | null;
}

/** From the one instant until before the other, as ISO-8601 in UTC. */
export interface FreezeWindow {
  readonly from: string;
  readonly until: string;
}

/** When the windows of a freeze are, by the clock on the wall of a time zone. */
export interface Recurrence {
  /** When each window begins: five fields of cron. */
  readonly schedule: string;
  /** How long each lasts, in milliseconds: one of 63 hours from Friday 17:00 ends on Monday at 08:00. */
  readonly durationMs: number;
  /** An IANA time zone, such as `Europe/Zurich`. */
  readonly zone: string;
}

/** Who may override a freeze: callers with one of the roles, and each of the people. */
export interface FreezePass {
  readonly roles: readonly string[];
  /** Names of API tokens, and addresses of people. */
  readonly people: readonly string[];
}

/** What an acquire is refused by. */
export interface FreezeInForce extends FreezePlace {
  readonly freezeId: string;
  readonly reason: string;
  /** When its present window ends, as ISO-8601 in UTC. */
  readonly until: string;
  /** Until then, by the database's clock. */
  readonly remainingMs: number;
  readonly allow: FreezePass;
}

/** Whether a freeze is about an environment. */
function isFrozenBy(freeze: FreezePlace, environment: Named): boolean {
  return freeze.name === null
    ? isWithinNamespace(environment.namespace, freeze.namespace)
    : freeze.namespace === environment.namespace && freeze.name === environment.name;
}

/** A freeze as lists have it, as far as it matters to an environment. */
interface ListedFreeze extends FreezePlace {
  readonly state: string;
  readonly datacenter: string;
  /** The present window first. */
  readonly windows: readonly FreezeWindow[];
}

/** The freeze that keeps an environment from being acquired now: of several, the one that lasts the longest. */
export function freezeNowOf<Freeze extends ListedFreeze>(
  freezes: readonly Freeze[],
  environment: Named & { readonly datacenter: string },
): Freeze | undefined {
  const untilOf = ({ windows }: Freeze): string => windows[0]?.until ?? '';
  return freezes
    .filter(
      (freeze) =>
        freeze.state === 'frozen' &&
        freeze.datacenter === environment.datacenter &&
        isFrozenBy(freeze, environment),
    )
    .sort((one, other) => (untilOf(one) > untilOf(other) ? -1 : 1))[0];
}

/** What is frozen, as people read and type it: `team.app/prod`, `team.app/*`, and `*` for all. */
export function freezePlaceText({ namespace, name }: FreezePlace): string {
  if (name !== null) return resourceText({ namespace, name });
  return namespace === '' ? '*' : `${namespaceText(namespace)}/*`;
}

/** @returns the error of an acquire that falls into a freeze. */
export function frozenError({
  freezeId,
  reason,
  until,
  remainingMs,
  allow,
  ...place
}: FreezeInForce): LeaseError {
  const what = place.name === null ? ` (all of ${freezePlaceText(place)})` : '';
  return new LeaseError(
    'environment.frozen',
    `The environment is frozen until ${until}${what}: ${reason}`,
    { details: { freezeId, reason, until, remainingMs, roles: allow.roles, people: allow.people } },
  );
}
