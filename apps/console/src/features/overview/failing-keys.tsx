import type { FailingKey } from '@leasehold/api/contract';
import { resourceText, sayFailure } from '@leasehold/keys-core';
import { memo } from 'react';
import { count, duration, fullName } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { failureLook } from '~/resources/looks.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { Link, LookBadge, RelativeTime, VisibleText } from '~/ui/text.tsx';
import classes from './overview.module.css';

/** Keys whose programs fail, each with a link to why, and to what the program wrote last; nothing without any. */
export const FailingKeys = memo(function FailingKeys({
  failing,
  asOf,
}: {
  readonly failing: readonly FailingKey[];
  readonly asOf: string;
}) {
  if (failing.length === 0) return null;
  return (
    <Panel title="Failing programs" isFlush>
      <div className={classes['failing']}>
        <PlainTable
          label="Keys whose last backend failed"
          heads={[
            { text: 'Why' },
            { text: 'Key' },
            { text: 'Failures', align: 'end' },
            { text: 'Last', align: 'end' },
          ]}
        >
          {failing.map((key) => (
            <tr key={fullName(key)}>
              <td>
                <Link href={routes.backend(key.backendId)} title="Why it ended, and its last lines">
                  <LookBadge look={failureLook(sayFailure(key))} />
                </Link>
              </td>
              <td className={classes['name']}>
                <Link href={routes.key(key)} title={fullName(key)}>
                  <VisibleText>{resourceText(key)}</VisibleText>
                </Link>
              </td>
              <td data-align="end">{failuresText(key)}</td>
              <td data-align="end">
                <RelativeTime at={key.failedAt} asOf={asOf} />
              </td>
            </tr>
          ))}
        </PlainTable>
      </div>
    </Panel>
  );
});

/** `25 in 5 min`: how often it failed in a row, and over which time. */
function failuresText({ failures, since, failedAt }: FailingKey): string {
  if (failures === 1) return '1';
  return `${count(failures)} in ${duration(Date.parse(failedAt) - Date.parse(since))}`;
}
