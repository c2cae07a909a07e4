import { useState } from 'react';
import { freezeNowOf, freezePlaceText, printableText, type Named } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

type Freeze = Outputs['environments']['freezes']['items'][number];

const INPUT = { limit: 500 } as const;
/** No event tells of a freeze. */
const EVERY = { everyMs: 10_000 } as const;

/** Freezes that are neither over nor removed, what is next first. */
function useFreezes(): readonly Freeze[] {
  const { data } = useLiveQuery('environments', 'freezes', INPUT, EVERY);
  return [...(data?.items ?? [])].sort((a, b) => (beginOf(a) < beginOf(b) ? -1 : 1));
}

function beginOf({ windows }: Freeze): string {
  return windows[0]?.from ?? '';
}

function placeLabel(freeze: Freeze): string {
  return printableText(freezePlaceText(freeze));
}

/** Below the state of an environment: until when and why it is frozen. */
export function FrozenMark({
  environment,
}: {
  readonly environment: Named & { readonly datacenter: string };
}) {
  const freeze = freezeNowOf(useFreezes(), environment);
  if (freeze === undefined) return null;
  const until = absolute(freeze.windows[0]?.until ?? '');
  const what = freeze.action === null ? '' : ` for ${printableText(freeze.action)}`;
  return (
    <div className="dimmed">
      <VisibleText>{`Frozen${what} until ${until} (${freeze.reason})`}</VisibleText>
    </div>
  );
}

/** All freezes of this datacenter with their next windows, and what operators do about them. Nothing without any. */
export function FreezesPanel() {
  const freezes = useFreezes();
  const whyNot = useWhyNot('operator');
  const [ended, setEnded] = useState<Freeze>();
  const [isEnding, setEnding] = useState(false);
  if (freezes.length === 0) return null;
  return (
    <Panel title="Freezes" isFlush>
      <PlainTable label="Freezes" heads={HEADS}>
        {freezes.map((freeze) => (
          <tr key={freeze.freezeId}>
            <td>
              <VisibleText>{placeLabel(freeze)}</VisibleText>
            </td>
            <td>{freeze.action === null ? 'all' : <VisibleText>{freeze.action}</VisibleText>}</td>
            <td>{whenText(freeze)}</td>
            <td>
              <VisibleText>{freeze.reason}</VisibleText>
            </td>
            <td data-align="end">
              <GuardedButton
                variant="default"
                size="xs"
                whyNot={whyNot}
                aria-label={`End the freeze of ${placeLabel(freeze)}`}
                onClick={() => {
                  setEnded(freeze);
                  setEnding(true);
                }}
              >
                End…
              </GuardedButton>
            </td>
          </tr>
        ))}
      </PlainTable>
      {ended === undefined ? null : (
        <EndFreezeDialog isOpen={isEnding} onClose={() => setEnding(false)} freeze={ended} />
      )}
    </Panel>
  );
}

const HEADS = [
  { text: 'Environments' },
  { text: 'Action' },
  { text: 'Frozen' },
  { text: 'Reason' },
  { text: 'Acts', align: 'end' },
] as const;

function whenText({ windows, state, recurrence }: Freeze): string {
  const [{ from, until } = { from: '', until: '' }] = windows;
  const when =
    state === 'frozen' ? `until ${absolute(until)}` : `${absolute(from)} to ${absolute(until)}`;
  return recurrence === null ? when : `${when}, again and again (${recurrence.zone})`;
}

/** The button that opens the dialog. */
export function FreezeButton() {
  const [isOpen, setOpen] = useState(false);
  const whyNot = useWhyNot('operator');
  return (
    <>
      <GuardedButton variant="default" whyNot={whyNot} onClick={() => setOpen(true)}>
        Freeze…
      </GuardedButton>
      <FreezeDialog isOpen={isOpen} onClose={() => setOpen(false)} />
    </>
  );
}

const FreezeDialog = lazyDialog('isOpen', () =>
  import('./freeze-dialogs.tsx').then((dialogs) => dialogs.FreezeDialog),
);
const EndFreezeDialog = lazyDialog('isOpen', () =>
  import('./freeze-dialogs.tsx').then((dialogs) => dialogs.EndFreezeDialog),
);
