import { Button, Group, Stack, Text, Title } from '@mantine/core';
import {
  IconAlertTriangle,
  IconCircleCheck,
  IconInfoCircle,
  IconRefresh,
} from '@tabler/icons-react';
import { type ReactNode, useEffect, useState } from 'react';
import { createPortal } from 'react-dom';
import type { ApiError } from '~/lib/api/api.ts';
import { absolute } from '~/lib/format.ts';
import { CopyableId, type Tone } from './text.tsx';
import classes from './states.module.css';

/** Nothing is here, why, and what to do about it. */
export function EmptyState({
  title,
  children,
  action,
}: {
  readonly title: string;
  readonly children?: ReactNode;
  readonly action?: ReactNode;
}) {
  return (
    <Stack className={classes['state']}>
      <svg width="56" height="24" viewBox="0 0 56 24" aria-hidden className={classes['icon']}>
        <circle cx="10" cy="12" r="8" fill="none" stroke="currentColor" strokeDasharray="3 3" />
        <path d="M18 12h36M38 12v6M46 12v5M54 12v7" stroke="currentColor" strokeDasharray="3 3" />
      </svg>
      <Title order={2} size="h5">
        {title}
      </Title>
      <Text size="sm" c="dimmed" component="div" maw="31rem">
        {children}
      </Text>
      {action}
    </Stack>
  );
}

/** What is told of a failed call. */
export type Failure = Pick<ApiError, 'message' | 'code' | 'incidentId'>;

/** What could not be read, why, what to tell the people who look into it, and the way to try again. */
export function ErrorState({
  read,
  what,
}: {
  readonly read: { readonly error: Failure | null; readonly refetch: () => unknown };
  /** What could not be read: `the keys`. */
  readonly what: string;
}) {
  const { error } = read;
  if (error === null) return null;
  return (
    <Stack className={classes['state']} role="alert" data-tone="bad">
      <IconAlertTriangle size={22} aria-hidden className={classes['icon']} />
      <Title order={2} size="h5">
        {`Could not read ${what}`}
      </Title>
      <Text size="sm">{error.message}</Text>
      <Text size="xs" c="dimmed" component="div">
        <span className="mono">{error.code}</span>
        {error.incidentId === null ? null : (
          <Group gap={4} justify="center" mt={4}>
            incident <CopyableId id={error.incidentId} label="incident id" />
          </Group>
        )}
      </Text>
      <Button
        variant="default"
        leftSection={<IconRefresh size={14} />}
        onClick={() => {
          read.refetch();
        }}
      >
        Try again
      </Button>
    </Stack>
  );
}

/** In place of a page that the person's role may not see: why not, and what they can do about it. */
export function NotAllowed({
  whyNot,
  children,
}: {
  readonly whyNot: string;
  readonly children: ReactNode;
}) {
  return (
    <EmptyState title={whyNot}>
      {children} An administrator can change your role on the Access page.
    </EmptyState>
  );
}

const ICONS = {
  good: IconCircleCheck,
  warn: IconAlertTriangle,
  bad: IconAlertTriangle,
  info: IconInfoCircle,
  calm: IconInfoCircle,
} as const;

/** One line that must not be missed. Screen readers announce it when it appears. */
export function Notice({
  tone,
  children,
  action,
}: {
  readonly tone: Tone;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}) {
  const ToneIcon = ICONS[tone];
  return (
    <div className={classes['notice']} data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      <ToneIcon size={15} aria-hidden />
      <span>{children}</span>
      {action}
    </div>
  );
}

export interface UnreachableDatacenter {
  readonly datacenter: string;
  /** Null: it has not been reached since this controller started. */
  readonly since: string | null;
  readonly code: string | null;
}

/** Names the datacenters whose part of a list is missing, above the rest of the list. */
export function UnreachableNotice({
  unreachable,
}: {
  readonly unreachable: readonly UnreachableDatacenter[] | undefined;
}) {
  if (unreachable === undefined || unreachable.length === 0) return null;
  return (
    <Foot>
      <Notice tone="warn">
        {unreachable.map(unreachableText).join('; ')}. What is there is not shown, and continues to
        work.
      </Notice>
    </Foot>
  );
}

/** `dc2 cannot be reached since …`, or that it refuses this datacenter's credentials. */
function unreachableText({ datacenter, since, code }: UnreachableDatacenter): string {
  const what =
    code === 'peer.refused' ? 'refuses this datacenter’s credentials' : 'cannot be reached';
  return since === null
    ? `${datacenter} ${what}`
    : `${datacenter} ${what} since ${absolute(since)}`;
}

/** Why an act was refused, and the incident to look for. */
export function ActFailure({ error }: { readonly error: ApiError | null }) {
  if (error === null) return null;
  return (
    <Notice tone="bad">
      {error.message} <span className="mono">({error.code})</span>
      {error.incidentId === null ? null : (
        <>
          {' '}
          Incident <CopyableId id={error.incidentId} label="incident id" />
        </>
      )}
    </Notice>
  );
}

const PLACE_ID = 'foot';

/** The end of a page, which stays in sight at the foot of the window; see {@link Foot}. */
export function FootPlace() {
  return <div id={PLACE_ID} className={classes['foot']} />;
}

/**
 * What comes and goes by itself stands at the foot of the window, after what the page shows: nothing moves under
 * the pointer, nothing stays covered, and several of them stand one above the other.
 */
export function Foot({ children }: { readonly children: ReactNode }) {
  const [place, setPlace] = useState<HTMLElement | null>(null);
  useEffect(() => setPlace(document.getElementById(PLACE_ID)), []);
  return place === null ? null : createPortal(children, place);
}

/** What an answer says of the datacenters that did not give their part of it. */
export interface Answered {
  readonly unreachable?: readonly UnreachableDatacenter[] | undefined;
}

/** Whether every datacenter that was asked has answered: what is not in any other answer may be there all the same. */
export function isWhole({ unreachable = [] }: Answered): boolean {
  return unreachable.length === 0;
}

/** Whether a list has no rows, and no datacenter that may have some is silent. */
export function isSurelyEmpty(
  list: ({ readonly items: readonly unknown[] } & Answered) | undefined,
): boolean {
  return list?.items.length === 0 && isWhole(list);
}

const ASK_AGAIN_MS = 2_000;

/** In how long to ask again for what is read once, because a part of the answer is missing; false: never. */
export function askAgainMs(answer: Answered | undefined): number | false {
  return answer !== undefined && !isWhole(answer) ? ASK_AGAIN_MS : false;
}

/** What is known after an answer: that answer, or what was known before if a part of it is missing. */
export function lastWhole<Answer extends Answered>(
  answer: Answer | undefined,
  before: Answer | undefined,
): Answer | undefined {
  return answer !== undefined && isWhole(answer) ? answer : before;
}

/**
 * The last answer that was whole, so that a datacenter that does not answer is not taken for one where nothing is.
 * Undefined before the first. `key`: what was asked for; nothing is kept of anything else.
 */
export function useLastWhole<Answer extends Answered>(
  read: { readonly data: Answer | undefined; readonly isPlaceholderData: boolean },
  key: string,
): Answer | undefined {
  const [last, setLast] = useState<{ readonly key: string; readonly answer: Answer | undefined }>({
    key,
    answer: undefined,
  });
  const before = last.key === key ? last.answer : undefined;
  const answer = lastWhole(read.isPlaceholderData ? undefined : read.data, before);
  if (last.key !== key || last.answer !== answer) setLast({ key, answer });
  return answer;
}
