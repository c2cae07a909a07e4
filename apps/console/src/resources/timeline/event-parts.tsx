import type { EventView } from '@leasehold/keys-core';
import { Fragment } from 'react';
import { absolute, ago, dayTime } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { PersonLink } from '~/resources/person-link.tsx';
import { Link, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import { eventSentence } from './event-texts.ts';

/** What happened, in words, with links to what they name. */
export function EventSentence({ event }: { readonly event: EventView }) {
  return eventSentence(event).map(({ text, href, isActor }, place) => (
    // The parts of one event never change their places.
    <Fragment key={place}>
      {isActor === true ? (
        <PersonLink name={text} />
      ) : href === undefined ? (
        <VisibleText>{text}</VisibleText>
      ) : (
        <Link href={href}>
          <VisibleText>{text}</VisibleText>
        </Link>
      )}
    </Fragment>
  ));
}

/** The day and the time in UTC; how long ago, and the milliseconds, on hover and for the keyboard. */
export function EventTime({ at }: { readonly at: string }) {
  const nowMs = useDatabaseNow();
  const past = nowMs === null ? '' : `${ago(nowMs - Date.parse(at))} · `;
  return (
    <Tip
      label={
        <span className="mono">
          {past}
          {absolute(at)}
        </span>
      }
    >
      <time dateTime={at} className="mono">
        {dayTime(at)}
      </time>
    </Tip>
  );
}
