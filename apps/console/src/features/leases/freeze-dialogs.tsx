import { Checkbox, SegmentedControl, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { parseResourceText } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';

const HOUR_MS = 60 * 60 * 1_000;
/** For how long an environment is frozen from now on. A weekend that comes again is one of the command line. */
const TIMES = [
  { value: '1', label: '1 h' },
  { value: '4', label: '4 h' },
  { value: '24', label: '1 day' },
  { value: '168', label: '1 week' },
];
const HOURS_FIRST = '4';

/** Freezes an environment, or all of a namespace, from now on. */
export function FreezeDialog({
  isOpen,
  onClose,
  datacenter,
}: DialogProps & {
  /** Where; undefined if there is only one. */
  readonly datacenter: string | undefined;
}) {
  const freeze = useApiMutation('environments', 'freeze');
  const [place, setPlace] = useState('');
  const [hours, setHours] = useState(HOURS_FIRST);
  const [isStopping, setStopping] = useState(false);
  const [wasOpen, setWasOpen] = useState(isOpen);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    // Nothing of the last freeze, least of all that it tells holders to stop.
    if (isOpen) {
      setPlace('');
      setHours(HOURS_FIRST);
      setStopping(false);
      freeze.reset();
    }
  }
  const asked = placeOf(place);
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`Freeze environments${datacenter === undefined ? '' : ` in ${datacenter}`}`}
      reason="required"
      actLabel="Freeze"
      isReady={asked !== undefined && databaseClock.nowMs() !== null}
      act={{
        isPending: freeze.isPending,
        error: freeze.error,
        run(reason) {
          // Known since the page was read.
          const nowMs = databaseClock.nowMs();
          if (nowMs === null) return;
          const until = new Date(nowMs + Number(hours) * HOUR_MS).toISOString();
          freeze.mutate(
            { ...asked, reason: reason ?? '', until, stopRunning: isStopping, ...at(datacenter) },
            { onSuccess: onClose },
          );
        },
      }}
    >
      <Stack gap="sm">
        <TextInput
          label="Environment"
          description="shop/prod is one; shop/* is all of shop and below it"
          value={place}
          onChange={(event) => setPlace(event.currentTarget.value)}
        />
        <SegmentedControl
          aria-label="For how long"
          data={TIMES}
          value={hours}
          onChange={setHours}
        />
        <Checkbox
          size="xs"
          label="Tell those who hold it now to stop; they go on otherwise"
          checked={isStopping}
          onChange={(event) => setStopping(event.currentTarget.checked)}
        />
        <span>
          Nobody acquires it until then, unless an operator or administrator overrides the freeze
          with a reason. Freezes that come again: <code>leasehold env freeze add --weekly</code>.
        </span>
      </Stack>
    </ActDialog>
  );
}

/** What is typed; undefined while it names nothing. */
function placeOf(
  text: string,
): Pick<Inputs['environments']['freeze'], 'namespace' | 'name'> | undefined {
  if (text.trim() === '') return undefined;
  const { namespace, name } = parseResourceText(text.trim());
  if (name === '') return undefined;
  return name === '*' ? { namespace } : { namespace, name };
}

/** Ends a freeze before its time. */
export function EndFreezeDialog({
  isOpen,
  onClose,
  freeze: { freezeId, datacenter },
  place,
  texts,
}: DialogProps & {
  readonly freeze: { readonly freezeId: string; readonly datacenter: string };
  /** What is frozen. */
  readonly place: string;
  /** Which freeze it is, and what ends with it. */
  readonly texts: readonly string[];
}) {
  const unfreeze = useApiMutation('environments', 'unfreeze');
  const [wasOpen, setWasOpen] = useState(isOpen);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    // The error may be that of another freeze.
    if (isOpen) unfreeze.reset();
  }
  const { isSeveral } = useDatacenters();
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`End the freeze of ${place}${isSeveral ? ` in ${datacenter}` : ''}`}
      reason="required"
      actLabel="End the freeze"
      act={{
        isPending: unfreeze.isPending,
        error: unfreeze.error,
        run: (reason) =>
          unfreeze.mutate(
            { freezeId, reason: reason ?? '', ...at(datacenter) },
            { onSuccess: onClose },
          ),
      }}
    >
      <Stack gap="sm">
        {texts.map((text) => (
          <span key={text}>{text}</span>
        ))}
        <span>
          Environments can be acquired again at once, unless another freeze is about them. The
          freeze stays in the history.
        </span>
      </Stack>
    </ActDialog>
  );
}
