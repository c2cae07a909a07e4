import { Link } from '~/ui/link.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { routes } from '~/lib/routes.ts';
import { isTaken } from '../lease-columns.tsx';
import { grantFacts } from '../lease-facts.tsx';
import type { LeaseItem } from '../lease-item.ts';
import { fieldText } from '~/lib/search/search-text.ts';
import { endedAt } from './last-use.ts';

/** Who uses an environment, for what and why; for a free one, who used it last, and until when. */
export function EnvironmentFacts({ environment }: { readonly environment: LeaseItem }) {
  const isHeld = isTaken(environment);
  const { action, comment, namespace, holder } = environment;
  return (
    <Facts
      isFirstWide
      items={[
        [
          isHeld ? 'Held by' : 'Last held by',
          <Link key="holder" href={routes.environments({ q: fieldText('holder', holder) })}>
            <bdi className="mono">{holder}</bdi>
          </Link>,
        ],
        [
          'For',
          action === null ? null : (
            <bdi key="for" className="mono">
              {action}
            </bdi>
          ),
        ],
        ['Comment', comment === null ? null : <bdi key="comment">{comment}</bdi>],
        ...(isHeld ? [] : [['Until', <Until key="until" environment={environment} />] as const]),
        [
          'Namespace',
          namespace === '' ? null : (
            <Link
              key="namespace"
              href={routes.environments({ q: fieldText('namespace', namespace) })}
            >
              <bdi>{namespace}</bdi>
            </Link>
          ),
        ],
        ...grantFacts(environment),
      ]}
    />
  );
}

function Until({ environment }: { readonly environment: LeaseItem }) {
  const at = endedAt(environment);
  if (at === null) return 'it was revoked by force';
  return (
    <>
      <RelativeTime at={at} asOf={environment.asOf} />
      {environment.endReason === 'released' ? ', released' : ', expired'}
    </>
  );
}
