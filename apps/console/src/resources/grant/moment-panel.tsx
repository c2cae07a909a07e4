import { Button, Skeleton, TextInput } from '@mantine/core';
import { IconHelpCircle } from '@tabler/icons-react';
import { type ReactNode, useId, useState } from 'react';
import { momentOf } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute, count, dayTime } from '~/lib/format.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at as inDatacenter, type ResourceRef } from '~/lib/routes.ts';
import { FACE_WORDS, type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { PersonLink, PHASE_LOOKS } from '~/resources/looks.tsx';
import { Facts, PlainTable } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { CopyableId, type Look, LookBadge, Mono, VisibleText } from '~/ui/text.tsx';
import { EVENT_LOOKS } from './grant-panels.tsx';
import { useMoment } from './grant-timeline.tsx';
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
        onAsk={(next) => setAsked(next)}
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

type Answer = Outputs['keys']['at'];
type Grant = NonNullable<Answer['grant']>;

const LOOKS: Record<Answer['phase'], Look> = {
  held: PHASE_LOOKS.held,
  expiring: PHASE_LOOKS.expiring,
  free: PHASE_LOOKS.free,
  unknown: { label: 'Not kept', tone: 'calm', icon: IconHelpCircle },
};

/** Who held it at that moment, with which token, since when and until when; or who was the last before. */
function MomentAnswer({ face, answer }: { readonly face: GrantFace; readonly answer: Answer }) {
  const { at, phase, grant, sharing } = answer;
  const several = sharing !== null && sharing.holderCount > 0 ? sharing : undefined;
  return (
    <>
      <p className={classes['headline']} role="status">
        <LookBadge look={LOOKS[phase]} />
        <span className={classes['said']}>
          <Said face={face} answer={answer} />
        </span>
        <time dateTime={at} className="mono dimmed">
          {absolute(at)}
        </time>
      </p>
      {sharing?.isComplete === false ? (
        <p className={classes['note']}>
          Others may have held it too: only the grants around this moment were looked at.
        </p>
      ) : null}
      {grant === null || phase === 'unknown' ? null : several !== undefined ? (
        <Holders sharing={several} />
      ) : (
        <>
          <GrantFacts grant={grant} isOver={isOver(answer, grant)} />
          {grant.end?.kind === 'expired' ? (
            <p className={classes['note']}>
              It expired: it was over some time before its end was recorded
              {isOver(answer, grant) ? '.' : ', perhaps at this moment already.'}
            </p>
          ) : null}
        </>
      )}
    </>
  );
}

/** All who held it then. */
function Holders({ sharing }: { readonly sharing: NonNullable<Answer['sharing']> }) {
  const { holders, holderCount } = sharing;
  const more = holderCount - holders.length;
  return (
    <>
      <PlainTable
        label="Who held it at that moment"
        heads={[
          { text: 'Token' },
          { text: 'Holder' },
          { text: 'Mode' },
          { text: 'Since' },
          { text: 'Until' },
          { text: 'What happened' },
        ]}
      >
        {holders.map((grant) => (
          <tr key={grant.leaseId}>
            <td>
              <CopyableId id={grant.fencingToken} label="fencing token of that moment" />
            </td>
            <td>{grant.holder === null ? 'not kept' : <Mono>{grant.holder}</Mono>}</td>
            <td>{grant.mode}</td>
            <td>{grant.since === null ? 'not kept' : <At at={grant.since} />}</td>
            <td>{grant.until === null ? '–' : <At at={grant.until} />}</td>
            <td>
              {grant.end !== null ? (
                <Act what={EVENT_LOOKS[grant.end.kind].label} act={grant.end} />
              ) : grant.blocked === null ? null : (
                <>
                  Renewal blocked <Blocked act={grant.blocked} />
                </>
              )}
            </td>
          </tr>
        ))}
      </PlainTable>
      {more > 0 ? <p className={classes['said']}>and {count(more)} more</p> : null}
    </>
  );
}

/** Whether the grant had ended by the moment. */
function isOver({ at }: Answer, { until }: Grant): boolean {
  return until !== null && Date.parse(until) <= Date.parse(at);
}

/** The answer in one sentence. */
function Said({ face, answer }: { readonly face: GrantFace; readonly answer: Answer }): ReactNode {
  const { phase, grant, sharing, oldestAt } = answer;
  if (phase === 'unknown') {
    return oldestAt === null
      ? `Nothing that happened to this ${FACE_WORDS[face][0]} is kept.`
      : `What happened then is not kept. The oldest moment that is kept is ${absolute(oldestAt)}.`;
  }
  if (sharing != null && sharing.holderCount > 1) {
    return `Held by ${count(sharing.holderCount)} at once`;
  }
  if (grant === null) return 'Nobody held it. No earlier grant is kept.';
  const holder =
    grant.holder === null ? 'somebody whose name is not kept' : <Mono>{grant.holder}</Mono>;
  if (phase === 'free') return <>Nobody held it. The last holder was {holder}.</>;
  if (isOver(answer, grant)) {
    return <>Ended by force, and held back until the backend of {holder} had to be gone.</>;
  }
  return <>Held by {holder}</>;
}

function GrantFacts({ grant, isOver }: { readonly grant: Grant; readonly isOver: boolean }) {
  const { holder, fencingToken, action, comment, since, until, end, blocked } = grant;
  return (
    <Facts
      items={{
        [isOver ? 'Last holder' : 'Holder']: holder === null ? 'not kept' : <Mono>{holder}</Mono>,
        For: action === null || action === '' ? null : <Mono>{action}</Mono>,
        Comment: comment === null || comment === '' ? null : <VisibleText>{comment}</VisibleText>,
        'Fencing token': <CopyableId id={fencingToken} label="fencing token of that moment" />,
        Since: since === null ? 'not kept' : <At at={since} />,
        Until: until === null ? 'not over, as far as is known' : <At at={until} />,
        Ended: end === null ? null : <Act what={EVENT_LOOKS[end.kind].label} act={end} />,
        'Renewal blocked': blocked === null ? null : <Blocked act={blocked} />,
        'Lease id': <CopyableId id={grant.leaseId} label="lease id of that moment" isShort />,
      }}
    />
  );
}

function At({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} className="mono">
      {absolute(at)}
    </time>
  );
}

type DoneAct = Pick<NonNullable<Grant['end']>, 'actor' | 'reason'>;

function Blocked({ act }: { readonly act: NonNullable<Grant['blocked']> }) {
  return (
    <>
      <Act what={null} act={act} />, <At at={act.at} />
    </>
  );
}

/** What was done, by whom, and why; an expiry has nobody who did it. */
function Act({ what, act }: { readonly what: string | null; readonly act: DoneAct }) {
  const { actor, reason } = act;
  const isBySomebody = actor !== '' && actor !== 'leasehold';
  return (
    <>
      {what}
      {isBySomebody ? (
        <>
          {what === null ? 'by ' : ' by '}
          <PersonLink name={actor} />
        </>
      ) : null}
      {reason === null ? null : (
        <>
          {': '}
          <VisibleText>{reason}</VisibleText>
        </>
      )}
    </>
  );
}
