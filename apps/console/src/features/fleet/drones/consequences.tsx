'use client';

import { List } from '@mantine/core';
import { counted, duration } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { Drone } from './drone-texts.ts';

interface ConsequenceProps {
  readonly drone: Drone;
}

/** One answer holds this many keys; the ladder of the others is the same. */
const KEYS_LOOKED_AT = 100;

export function DrainConsequence({ drone: { backendCount } }: ConsequenceProps) {
  return (
    <List spacing={4} size="sm">
      <List.Item>
        New backends go to other drones, from the moment that this is confirmed.
      </List.Item>
      <List.Item>
        {backendCount === 0
          ? 'It has no backend now.'
          : `Its ${counted(backendCount, 'backend')} go on, and their keys are renewed as before, until they end by themselves or are stopped.`}
      </List.Item>
      <List.Item>Undrain takes it back.</List.Item>
    </List>
  );
}

export function UndrainConsequence({ drone: { lostAt } }: ConsequenceProps) {
  return (
    <List spacing={4} size="sm">
      <List.Item>
        {lostAt === null
          ? 'New backends go to it again, as long as its heartbeats come.'
          : 'It stays lost until it opens a new session; from then on new backends go to it again.'}
      </List.Item>
      <List.Item>Keys whose renewal was blocked stay blocked.</List.Item>
    </List>
  );
}

/** What happens to the keys of a drone that is marked lost, and by when at the latest. */
export function LostConsequence({
  drone: { droneId, datacenter, backendCount },
}: ConsequenceProps) {
  const read = useLiveQuery('keys', 'list', {
    droneId,
    limit: KEYS_LOOKED_AT,
    ...at(datacenter),
  });
  const ttlMs = Math.max(0, ...(read.data?.items ?? []).map(({ ladder }) => ladder.ttlMs));
  const until =
    ttlMs === 0
      ? 'Each runs out at its deadline'
      : `Each runs out at its deadline, the last of them within ${duration(ttlMs)}`;
  return (
    <List spacing={4} size="sm">
      <List.Item>
        Nobody can say whether its {counted(backendCount, 'backend')} still run, so no key is freed
        at once.
      </List.Item>
      <List.Item>
        Renewal of all its keys is blocked. {until}, and can be granted to another drone from then
        on.
      </List.Item>
      <List.Item>
        If the drone lives after all, it stops those backends itself: softly first, hard before
        their keys expire.
      </List.Item>
      <List.Item>
        It gets no new backends until it has opened a new session and is undrained.
      </List.Item>
    </List>
  );
}
