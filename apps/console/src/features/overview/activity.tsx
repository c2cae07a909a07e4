import { Skeleton, Text } from '@mantine/core';
import { Fragment } from 'react';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { actSentence, type AuditEntry } from '~/resources/audit.ts';
import { Panel } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { Link, RelativeTime, VisibleText } from '~/ui/text.tsx';
import classes from './overview.module.css';

const SHOWN = 8;
/** Those that the charts mark. */
const READ = 40;
/** The audit makes no events. */
const EVERY_MS = 10_000;

/** What people and tokens did lately, sign-ins left out; nothing for a role that may not read the audit. */
export function useRecentActs() {
  const whyNot = useWhyNot('operator');
  const read = useLiveQuery(
    'audit',
    'list',
    { limit: READ, signIns: false },
    { enabled: whyNot === undefined, everyMs: EVERY_MS },
  );
  return { whyNot, read };
}

/** What people did lately, in sentences, and why. */
export function Activity({ whyNot, read }: ReturnType<typeof useRecentActs>) {
  return (
    <Panel
      title="Recent activity"
      meta={
        <Link href={routes.audit()} className={classes['more']}>
          Audit
        </Link>
      }
    >
      {whyNot !== undefined ? (
        <Text size="sm" c="dimmed">
          {whyNot}
        </Text>
      ) : read.data === undefined && read.isError ? (
        <ErrorState read={read} what="the audit" />
      ) : read.data === undefined ? (
        <Skeleton height={120} aria-busy="true" />
      ) : read.data.items.length === 0 ? (
        <Text size="sm" c="dimmed">
          No actions yet. Sign-ins are in the audit.
        </Text>
      ) : (
        <StaleScope read={read}>
          <ol className={classes['acts']} aria-label="Recent activity">
            {read.data.items.slice(0, SHOWN).map((act) => (
              <li key={act.id}>
                <ActLine act={act} />
              </li>
            ))}
          </ol>
        </StaleScope>
      )}
    </Panel>
  );
}

function ActLine({ act }: { readonly act: AuditEntry }) {
  return (
    <>
      <span>
        {actSentence(act).map(({ text, href }, index) => (
          <Fragment key={index}>
            {href === null ? (
              text
            ) : (
              <Link href={href}>
                <VisibleText>{text}</VisibleText>
              </Link>
            )}
          </Fragment>
        ))}
      </span>
      <span className="small-print">
        {act.reason === null ? null : (
          <>
            <VisibleText>{`“${act.reason}”`}</VisibleText> ·{' '}
          </>
        )}
        <RelativeTime at={act.at} />
      </span>
    </>
  );
}
