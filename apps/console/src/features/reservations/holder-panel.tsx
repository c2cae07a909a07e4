import { keyNameOf } from '@leasehold/keys-core';
import { Skeleton } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ApiError } from '~/lib/api/api-error.ts';
import type { Outputs } from '~/lib/api/api.ts';
import { routes } from '~/lib/routes.ts';
import { isInForce } from '~/resources/grant-view.ts';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { Facts, Panel } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { Link, Mono, RelativeTime } from '~/ui/text.tsx';
import classes from './reservations.module.css';

type Grant = NonNullable<Outputs['keys']['get']>;

/** Who holds the key in its home, with a link to its page. */
export function HolderPanel({
  of,
  unreachable,
  read,
}: {
  readonly of: readonly string[];
  /** The home of the key, if it cannot be reached now. */
  readonly unreachable: string | undefined;
  readonly read: UseQueryResult<Outputs['keys']['get'], ApiError>;
}) {
  const grant = read.data;
  return (
    <Panel title="Holder" meta={grant ? <PhaseBadge phase={grant.phase} /> : undefined}>
      {keyNameOf(of) === undefined ? (
        <p className={classes['text']}>
          This list names no key of Leasehold: nothing is granted under it. Its owner only uses its
          home.
        </p>
      ) : grant && !isOnlyMoved(grant) ? (
        <StaleScope read={read}>
          <HolderFacts grant={grant} />
        </StaleScope>
      ) : unreachable === undefined && read.isPending ? (
        <Skeleton height={110} aria-busy="true" />
      ) : (
        <p className={classes['text']}>{holderText(unreachable, read.error)}</p>
      )}
    </Panel>
  );
}

/** Whether only a move has made the row: its holder is not a drone. */
function isOnlyMoved(grant: Grant): boolean {
  return grant.droneId === null && !isInForce(grant);
}

function holderText(unreachable: string | undefined, error: ApiError | null): string {
  if (unreachable !== undefined) return `Unknown while ${unreachable} cannot be reached.`;
  return error === null ? 'Nobody has held it there yet.' : `Unknown: ${error.message}`;
}

function HolderFacts({ grant }: { readonly grant: Grant }) {
  const isHeld = isInForce(grant);
  const { droneId, datacenter, holder } = grant;
  return (
    <Facts
      items={{
        Key: <Link href={routes.key(grant)}>deadlines, history, actions</Link>,
        [isHeld ? 'Held by drone' : 'Last held by']:
          droneId === null ? (
            <Mono>{holder}</Mono>
          ) : (
            <Link href={routes.drone(droneId, datacenter)} className="mono">
              {droneId}
            </Link>
          ),
        Remaining: isHeld ? <Remaining {...grant} /> : null,
        Granted: <RelativeTime at={grant.grantedAt} asOf={grant.asOf} />,
        'Fencing token': <Mono>{grant.fencingToken}</Mono>,
        Datacenter: <Mono>{datacenter}</Mono>,
      }}
    />
  );
}
