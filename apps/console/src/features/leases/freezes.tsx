import { SegmentedControl } from '@mantine/core';
import { IconCalendarClock, IconSnowflake } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { useMemo, useState } from 'react';
import { freezeNowOf, freezePlaceText, printableText, type Named } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute, dayTime } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { type Look, LookBadge, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

export type Freeze = Outputs['environments']['freezes']['items'][number];

const LIMIT = 500;
/** No event tells of a freeze. */
const EVERY = { everyMs: 10_000 } as const;

type Environment = Named & { readonly datacenter: string };

/** Freezes that are neither over nor removed, what is next first; of one environment, those that are about it. */
function useFreezes(of?: Environment): readonly Freeze[] {
  const about = of === undefined ? {} : { environment: segmentsOf(of), ...at(of.datacenter) };
  const { data } = useLiveQuery('environments', 'freezes', { limit: LIMIT, ...about }, EVERY);
  return useMemo(
    () => [...(data?.items ?? [])].sort((a, b) => (beginOf(a) < beginOf(b) ? -1 : 1)),
    [data],
  );
}

function segmentsOf({ namespace, name }: Named): string[] {
  return namespace === '' ? [name] : [...namespace.split('.'), name];
}

function beginOf({ windows }: Freeze): string {
  return windows[0]?.from ?? '';
}

/** What is frozen, with the only action if there is one. */
export function placeLabel({ action, ...freeze }: Freeze): string {
  const place = printableText(freezePlaceText(freeze));
  return action === null ? place : `${place} for ${printableText(action)}`;
}

/** Who may override a freeze. */
export function passText({ allow }: Freeze): string {
  const who = [...allow.roles, ...allow.people];
  return who.length === 0 ? 'Nobody may override it.' : `${who.join(', ')} may override it.`;
}

export const FROZEN_LOOK: Look = { label: 'Frozen now', tone: 'warn', icon: IconSnowflake };
const UPCOMING_LOOK: Look = { label: 'Next', tone: 'calm', icon: IconCalendarClock };

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

const FreezeCalendar = dynamic(() =>
  import('./freeze-calendar.tsx').then((module) => module.FreezeCalendar),
);

const VIEWS = ['List', 'Calendar'];

/**
 * All freezes of this datacenter, or those that are about one environment: as a list with what operators do about
 * them, or as a calendar of the coming weeks. Nothing without any.
 */
export function FreezesPanel({ of }: { readonly of?: Environment }) {
  const freezes = useFreezes(of);
  const [view, setView] = useState('List');
  if (freezes.length === 0) return null;
  return (
    <Panel
      title="Freezes"
      isFlush
      meta={
        <SegmentedControl
          aria-label="How freezes are shown"
          size="xs"
          data={VIEWS}
          value={view}
          onChange={setView}
        />
      }
    >
      {view === 'List' ? <FreezeList freezes={freezes} /> : <FreezeCalendar freezes={freezes} />}
    </Panel>
  );
}

function FreezeList({ freezes }: { readonly freezes: readonly Freeze[] }) {
  const whyNot = useWhyNot('operator');
  const [ended, setEnded] = useState<Freeze>();
  const [isEnding, setEnding] = useState(false);
  return (
    <>
      <PlainTable label="Freezes" heads={HEADS}>
        {freezes.map((freeze) => (
          <tr key={freeze.freezeId}>
            <td>
              <VisibleText>{placeLabel(freeze)}</VisibleText>
            </td>
            <td>
              <LookBadge look={freeze.state === 'frozen' ? FROZEN_LOOK : UPCOMING_LOOK} />
              <div className="dimmed">{whenText(freeze)}</div>
            </td>
            <td>
              <VisibleText>{freeze.reason}</VisibleText>
              <div className="dimmed">
                <VisibleText>{passText(freeze)}</VisibleText>
              </div>
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
    </>
  );
}

const HEADS = [
  { text: 'Environments' },
  { text: 'When' },
  { text: 'Why, and who may override it' },
  { text: 'Acts', align: 'end' },
] as const;

function whenText({ windows, state, recurrence }: Freeze): string {
  const [{ from, until } = { from: '', until: '' }] = windows;
  const when =
    state === 'frozen' ? `until ${minuteOf(until)}` : `${minuteOf(from)} to ${minuteOf(until)}`;
  return recurrence === null ? `${when} UTC` : `${when} UTC, again and again`;
}

/** Freezes begin and end with a minute. */
function minuteOf(iso: string): string {
  return dayTime(iso).slice(0, -3);
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
