import { momentOf } from '@leasehold/keys-core';
import { Button, Skeleton, TextInput } from '@mantine/core';
import { useId, useState } from 'react';
import { dayTime } from '~/lib/format.ts';
import { at as inDatacenter } from '~/lib/here.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { StaleScope } from '~/ui/stale.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { MomentAnswer } from './moment-answer.tsx';
import { useMoment } from './use-moment.ts';
import classes from './moment-panel.module.css';

const NO_MOMENT = 'Type a time of today, such as 03:12, or a date and a time: 2026-11-25 03:12.';

/** Who held it at a moment: what somebody types, or picks on the timeline. It is kept in the address. */
export function MomentPanel({
  face,
  resource,
  asOf,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** When the page's data was made. */
  readonly asOf: string;
}) {
  const [asked, setAsked] = useMoment();
  const today = useAtDatabaseNow((nowMs) =>
    (nowMs === null ? asOf : new Date(nowMs).toISOString()).slice(0, 10),
  );
  const moment = asked === null ? null : momentOf(asked, today);
  const { namespace, name, datacenter } = resource;
  const read = useLiveQuery(
    GROUP_OF[face],
    'at',
    { namespace, name, ...inDatacenter(datacenter), at: moment ?? asOf },
    { enabled: moment !== null },
  );
  const isRefused = read.error?.code === 'request.invalid';
  return (
    <section className={classes['panel']} aria-label="Who held it at a moment">
      <MomentField
        asked={asked}
        moment={moment}
        today={today}
        refusal={isRefused && moment !== null ? 'This moment has not come yet.' : undefined}
        onAsk={(next) => void setAsked(next)}
      />
      <div className={classes['answer']}>
        {moment === null || isRefused ? null : read.isError ? (
          <ErrorState read={read} what="who held it" />
        ) : read.data === undefined ? (
          <Skeleton height={90} aria-busy="true" />
        ) : (
          <StaleScope read={read}>
            <MomentAnswer face={face} answer={read.data} />
          </StaleScope>
        )}
      </div>
    </section>
  );
}

function MomentField({
  asked,
  moment,
  today,
  refusal,
  onAsk,
}: {
  /** As the address has it. */
  readonly asked: string | null;
  /** The instant that it is, if it is one. */
  readonly moment: string | null;
  readonly today: string;
  /** Why the controller does not answer for it. */
  readonly refusal: string | undefined;
  readonly onAsk: (moment: string | null) => void;
}) {
  const id = useId();
  const [text, setText] = useState(() => momentText(asked, moment));
  const [shown, setShown] = useState(asked);
  const [isInvalid, setInvalid] = useState(asked !== null && moment === null);
  // Back, Forward and a bar of the timeline change the address from outside.
  if (asked !== shown) {
    setShown(asked);
    setText(momentText(asked, moment));
    setInvalid(asked !== null && moment === null);
  }
  const ask = (): void => {
    const next = momentOf(text, today);
    setInvalid(next === null && text.trim() !== '');
    if (next !== null) setText(momentText(next, next));
    if (next !== null || text.trim() === '') onAsk(next);
  };
  return (
    <form
      className={classes['form']}
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <label htmlFor={id}>Who held it at …?</label>
      <TextInput
        id={id}
        size="xs"
        className={classes['field'] ?? ''}
        placeholder="03:12, or 2026-11-25 03:12, in UTC"
        autoComplete="off"
        spellCheck={false}
        value={text}
        error={isInvalid ? NO_MOMENT : refusal}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setInvalid(false);
        }}
      />
      <Button type="submit" variant="default" size="xs">
        Show
      </Button>
      {asked === null ? null : (
        <Button variant="subtle" size="xs" onClick={() => onAsk(null)}>
          Clear
        </Button>
      )}
    </form>
  );
}

/** A moment as the field shows it: whole seconds without their milliseconds. */
function momentText(asked: string | null, moment: string | null): string {
  if (moment === null) return asked ?? '';
  const parts = moment.slice(19, 23);
  return parts === '.000' ? dayTime(moment) : `${dayTime(moment)}${parts}`;
}
