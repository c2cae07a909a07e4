import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { newTokenSecret } from '@leasehold/keys-core/store';
import { expect, test } from 'vitest';
import { FROM_HEADER, TO_HEADER, createPeerAccess } from '../peers/peer-access.ts';
import { createRateLimit } from './rate-limit.ts';
import { countRequest } from './request-context.ts';

test('one that asks too often is refused until the second is over, and nobody else is', () => {
  let nowMs = 100;
  const limit = createRateLimit({ nowMs: () => nowMs }, 2);

  expect(['a', 'a', 'a', 'b'].map((caller) => limit.mayAsk(caller))).toEqual([
    true,
    true,
    false,
    true,
  ]);
  nowMs = 1_099;
  expect(limit.mayAsk('a')).toBe(false);
  nowMs = 1_100;
  expect(limit.mayAsk('a')).toBe(true);
});

test('whoever makes secrets up is counted by address; a good token is counted by itself', () => {
  const good = newTokenSecret();
  const tokens = {
    standingOf: (secret: string) => (secret === good ? ('good' as const) : ('new' as const)),
    authenticate: () => Promise.resolve(undefined),
    flushLastUses: () => Promise.resolve(),
    close: () => undefined,
  };
  const peers = createPeerAccess('dc1', []);
  const rateLimit = createRateLimit({ nowMs: () => 0 }, 100, 2);
  const ask = (secret: string): void => {
    const request = new IncomingMessage(new Socket());
    request.headers.authorization = `Bearer ${secret}`;
    countRequest({ tokens, peers, rateLimit, sourceOf: () => '192.0.2.1' }, request);
  };

  ask(newTokenSecret());
  ask(newTokenSecret());

  expect(() => {
    ask(newTokenSecret());
  }).toThrow(expect.objectContaining({ code: 'request.rate_limited' }) as Error);
  expect(() => {
    ask(good);
  }).not.toThrow();
});

test('datacenters that share one secret are counted each by its name', () => {
  const secret = newTokenSecret();
  const tokens = {
    standingOf: () => 'new' as const,
    authenticate: () => Promise.resolve(undefined),
    flushLastUses: () => Promise.resolve(),
    close: () => undefined,
  };
  const url = 'http://192.0.2.1:7300';
  const peers = createPeerAccess(
    'dc1',
    ['dc2', 'dc3'].map((name) => ({ name, url, secret })),
  );
  const rateLimit = createRateLimit({ nowMs: () => 0 }, 1);
  const ask = (from: string): void => {
    const request = new IncomingMessage(new Socket());
    request.headers.authorization = `Bearer ${secret}`;
    request.headers[FROM_HEADER] = from;
    request.headers[TO_HEADER] = 'dc1';
    countRequest({ tokens, peers, rateLimit, sourceOf: () => '192.0.2.1' }, request);
  };

  ask('dc2');

  expect(() => {
    ask('dc3');
  }).not.toThrow();
  expect(() => {
    ask('dc2');
  }).toThrow(expect.objectContaining({ code: 'request.rate_limited' }) as Error);
});
