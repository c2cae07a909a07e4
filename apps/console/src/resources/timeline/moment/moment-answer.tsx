import { IconHelpCircle } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import { FACE_WORDS, type GrantFace } from '~/resources/grant-view.ts';
import { PHASE_LOOKS } from '~/resources/looks.tsx';
import { PersonLink } from '~/resources/person-link.tsx';
import { EVENT_LOOKS } from '~/resources/timeline/event-looks.ts';
import { Facts } from '~/ui/page.tsx';
import { CopyableId, type Look, LookBadge, Mono, VisibleText } from '~/ui/text.tsx';
import classes from './moment-panel.module.css';

type Answer = Outputs['keys']['at'];
type Grant = NonNullable<Answer['grant']>;

const LOOKS: Record<Answer['phase'], Look> = {
  held: PHASE_LOOKS.held,
  expiring: PHASE_LOOKS.expiring,
  free: PHASE_LOOKS.free,
  unknown: { label: 'Not kept', tone: 'calm', icon: IconHelpCircle },
};

/** Who held it at that moment, with which token, since when and until when; or who was the last before. */
export function MomentAnswer({
  face,
  answer,
}: {
  readonly face: GrantFace;
  readonly answer: Answer;
}) {
  const { at, phase, grant } = answer;
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
      {grant === null || phase === 'unknown' ? null : (
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

/** Whether the grant had ended by the moment. */
function isOver({ at }: Answer, { until }: Grant): boolean {
  return until !== null && Date.parse(until) <= Date.parse(at);
}

/** The answer in one sentence. */
function Said({ face, answer }: { readonly face: GrantFace; readonly answer: Answer }): ReactNode {
  const { phase, grant, oldestAt } = answer;
  if (phase === 'unknown') {
    return oldestAt === null
      ? `Nothing that happened to this ${FACE_WORDS[face][0]} is kept.`
      : `What happened then is not kept. The oldest moment that is kept is ${absolute(oldestAt)}.`;
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
