import { useMemo, useState } from 'react';
import { freezeNowOf, printableText, type Named } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { useDatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import { dayTime } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { useLastWhole } from '~/ui/states.tsx';
import classes from './freezes.module.css';

const LIMIT = 500;
/** No event tells of a freeze. */
export const FREEZES_EVERY_MS = 10_000;

export type Freeze = Outputs['environments']['freezes']['items'][number];
export type Environment = Named & { readonly datacenter: string };

/**
 * Freezes that are neither over nor removed, what is next first: those that are about one environment, or those of the
 * datacenters whose environments are listed.
 */
export function useFreezes(of?: Environment) {
  const { input } = useDatacenterFilter();
  const about = of === undefined ? input : { environment: segmentsOf(of), ...at(of.datacenter) };
  const read = useLiveQuery(
    'environments',
    'freezes',
    { limit: LIMIT, ...about },
    { everyMs: FREEZES_EVERY_MS },
  );
  // Of one environment what was known stays: it is not free because its datacenter does not answer. A list of all
  // datacenters has those that answer.
  const known = useLastWhole(read, JSON.stringify(about));
  const items = (of === undefined ? read.data : known)?.items;
  const freezes = useMemo(
    () => [...(items ?? [])].sort((a, b) => (beginOf(a) < beginOf(b) ? -1 : 1)),
    [items],
  );
  return { freezes, read };
}

function segmentsOf({ namespace, name }: Named): string[] {
  return namespace === '' ? [name] : [...namespace.split('.'), name];
}

function beginOf({ windows }: Freeze): string {
  return windows[0]?.from ?? '';
}

/** Below the state of an environment: until when it is frozen, and on hover why. */
export function FrozenMark({ environment }: { readonly environment: Environment }) {
  const freeze = freezeNowOf(useFreezes().freezes, environment);
  if (freeze === undefined) return null;
  const what = freeze.action === null ? '' : ` for ${printableText(freeze.action)}`;
  return (
    <div className={classes['frozen']} title={printableText(freeze.reason)}>
      <VisibleText>{`Frozen${what} until ${minuteOf(freeze.windows[0]?.until ?? '')} UTC`}</VisibleText>
    </div>
  );
}

/** The button that opens the dialog: in the datacenter whose environments are listed, or in this one. */
export function FreezeButton() {
  const { here, isSeveral } = useDatacenters();
  const { chosen } = useDatacenterFilter();
  const [isOpen, setOpen] = useState(false);
  const whyNot = useWhyNot('operator');
  return (
    <>
      <GuardedButton variant="default" whyNot={whyNot} onClick={() => setOpen(true)}>
        Freeze…
      </GuardedButton>
      <FreezeDialog
        datacenter={isSeveral ? (chosen ?? here) : undefined}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
      />
    </>
  );
}

const FreezeDialog = lazyDialog('isOpen', () =>
  import('./freeze-dialogs.tsx').then((dialogs) => dialogs.FreezeDialog),
);

/** `2026-12-04 17:00`: freezes begin and end with a minute. */
export function minuteOf(iso: string): string {
  return dayTime(iso).slice(0, -3);
}
