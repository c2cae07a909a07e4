import { describe, expect, test } from 'vitest';
import { LIMITS } from '@leasehold/keys-core';
import { tokenCreateInputSchema, tokenRevokeInputSchema } from './access.ts';
import { backendListInputSchema, heartbeatInputSchema, sessionInputSchema } from './fleet.ts';
import {
  connectInputSchema,
  keyListInputSchema,
  keyRenewInputSchema,
  keyRevokeInputSchema,
} from './keys.ts';

const LEASE_ID = 'b39f7a4a-0d2c-4a55-9f6a-6b8d7c1a2f30';

const connectTo = (key: unknown): boolean => connectInputSchema.safeParse({ key }).success;

describe('contract', () => {
  test('C6 an omitted namespace and tag equal empty ones', () => {
    expect(connectInputSchema.parse({ key: { name: 'k' } })).toEqual(
      connectInputSchema.parse({ key: { name: 'k', namespace: '', tag: '' } }),
    );
  });

  test.each([
    ['one byte', 'k'],
    ['the longest', 'x'.repeat(LIMITS.nameBytesMax)],
    ['path-like', '../../etc/passwd'],
    ['absolute path-like', '/tmp/x'],
    ['with dots and separators', 'a.b:c/d\\e'],
    ['of the first plane', 'schlüssel 鍵'],
    ['of every plane', '\u{1F511}\u{20000}\u{E0100}\u{F0000}\u{10FFFD}'],
  ])('C10 accepts a name that is %s and keeps it unchanged', (_what, name) => {
    expect(connectInputSchema.parse({ key: { name } }).key?.name).toBe(name);
  });

  test.each([
    ['is empty', ''],
    ['is one byte too long', 'x'.repeat(LIMITS.nameBytesMax + 1)],
    ['is too long in bytes, not in characters', '鍵'.repeat(86)],
    ['has a NUL', 'a\0b'],
    ['has a line break', 'a\nb'],
    ['has an escape', 'a\u001Bb'],
    ['has a C1 control', 'a\u0085b'],
    ['has a lone surrogate', 'a\uD800'],
    ['is a number', 7],
    ['is null', null],
  ])('C10 refuses a name that %s', (_what, name) => {
    expect(connectTo({ name })).toBe(false);
  });

  test('C10 limits the bytes and segments of a namespace, and refuses empty segments', () => {
    const inNamespace = (namespace: string): boolean => connectTo({ name: 'k', namespace });

    expect(inNamespace('a.b')).toBe(true);
    expect(inNamespace(Array.from({ length: 16 }, () => 'a').join('.'))).toBe(true);
    expect(inNamespace(Array.from({ length: 17 }, () => 'a').join('.'))).toBe(false);
    expect(inNamespace('a'.repeat(512))).toBe(true);
    expect(inNamespace('a'.repeat(513))).toBe(false);
    for (const namespace of ['.', 'a.', '.a', 'a..b']) expect(inNamespace(namespace)).toBe(false);
  });

  test('an unknown field is an error at every depth', () => {
    expect(connectInputSchema.safeParse({ key: { name: 'k' }, more: 1 }).success).toBe(false);
    expect(connectTo({ name: 'k', more: 1 })).toBe(false);
    expect(keyListInputSchema.safeParse({ limt: 5 }).success).toBe(false);
  });

  test('connect without a key needs something to spawn', () => {
    expect(connectInputSchema.safeParse({}).success).toBe(false);
    expect(connectInputSchema.safeParse({ spawn: { program: 'room' } }).success).toBe(true);
  });

  test('waits are bounded, and ten seconds by default', () => {
    const waiting = (waitMs: number): boolean =>
      connectInputSchema.safeParse({ key: { name: 'k' }, waitMs }).success;

    expect(connectInputSchema.parse({ key: { name: 'k' } }).waitMs).toBe(10_000);
    expect([0, 120_000].map(waiting)).toEqual([true, true]);
    expect([-1, 120_001, 1.5, Number.NaN, Infinity].map(waiting)).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  test('arguments and environment are bounded in number and size', () => {
    const spawning = (spawn: object): boolean =>
      connectInputSchema.safeParse({ spawn: { program: 'room', ...spawn } }).success;
    const entries = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`V${String(index)}`, 'x']));

    expect(spawning({ args: Array.from({ length: 64 }, () => 'a'), env: entries(64) })).toBe(true);
    expect(spawning({ args: Array.from({ length: 65 }, () => 'a') })).toBe(false);
    expect(spawning({ env: entries(65) })).toBe(false);
    expect(spawning({ args: ['x'.repeat(4_097)] })).toBe(false);
    expect(spawning({ args: ['a\0b'] })).toBe(false);
    for (const name of ['', 'A=B', '1A', 'A B', 'A\0']) {
      expect(spawning({ env: { [name]: 'x' } })).toBe(false);
    }
  });

  test('args and env together are bounded, counted with control characters escaped', () => {
    const withArgs = (args: string[]) =>
      connectInputSchema.safeParse({ spawn: { program: 'room', args } });
    const control = '\u0001'.repeat(4_096);

    expect(withArgs(Array.from({ length: 10 }, () => control)).success).toBe(true);
    expect(withArgs(Array.from({ length: 64 }, () => control)).error?.issues).toMatchObject([
      { path: ['spawn'], message: 'args and env together must be at most 262144 bytes of JSON' },
    ]);
  });

  test('a call has up to ten thousand renewals, with tokens as decimal strings', () => {
    const renewing = (renewals: unknown[]): boolean =>
      keyRenewInputSchema.safeParse({ droneId: 'd1', clockId: LEASE_ID, localTimeMs: 1, renewals })
        .success;
    const ref = { leaseId: LEASE_ID, fencingToken: '9223372036854775807' };

    expect(renewing(Array.from({ length: 10_000 }, () => ref))).toBe(true);
    expect(renewing(Array.from({ length: 10_001 }, () => ref))).toBe(false);
    for (const fencingToken of [1, '01', '-1', '1.0', '9223372036854775808', '']) {
      expect(renewing([{ ...ref, fencingToken }])).toBe(false);
    }
  });

  test('an id in upper case equals the same id in lower case', () => {
    const upper = LEASE_ID.toUpperCase();

    expect(
      keyRenewInputSchema.parse({
        droneId: 'd1',
        clockId: upper,
        localTimeMs: 1,
        renewals: [{ leaseId: upper, fencingToken: '1' }],
      }),
    ).toMatchObject({ clockId: LEASE_ID, renewals: [{ leaseId: LEASE_ID }] });
    expect(keyRevokeInputSchema.parse({ leaseId: upper, mode: 'force', reason: 'x' }).leaseId).toBe(
      LEASE_ID,
    );
    expect(tokenRevokeInputSchema.parse({ tokenId: upper }).tokenId).toBe(LEASE_ID);
  });

  test('a revoke has a reason, and may abandon only in mode force', () => {
    const revoking = (input: object): boolean =>
      keyRevokeInputSchema.safeParse({ leaseId: LEASE_ID, mode: 'force', reason: 'x', ...input })
        .success;

    expect(revoking({ abandon: true })).toBe(true);
    expect(revoking({ abandon: true, mode: 'graceful' })).toBe(false);
    expect(revoking({ reason: '' })).toBe(false);
    expect(revoking({ reason: undefined })).toBe(false);
  });

  test('a local time is a finite, non-negative number', () => {
    const beating = (localTimeMs: unknown): boolean =>
      heartbeatInputSchema.safeParse({
        droneId: 'd1',
        clockId: LEASE_ID,
        session: 1,
        localTimeMs,
        load: { backends: 0 },
      }).success;

    expect(beating(0.5)).toBe(true);
    for (const wrong of [-1, Infinity, Number.NaN, '1', null]) expect(beating(wrong)).toBe(false);
  });

  test('what a drone reports of its load is bounded, and may be left out', () => {
    const machine = {
      cpuShare: 0.5,
      processors: 8,
      memoryUsedBytes: 1,
      memoryBytes: 2,
      diskUsedBytes: 0,
      diskBytes: 2 ** 50,
    };
    const use = { backendId: 'bk-1', memoryBytes: 1 };
    const beat = { droneId: 'd1', clockId: LEASE_ID, session: 1, localTimeMs: 1 };
    const beating = (of: { machine?: object; usage?: object }): boolean =>
      heartbeatInputSchema.safeParse({
        ...beat,
        load: { backends: 0, ...(of.machine && { machine: of.machine }) },
        ...(of.usage && { usage: of.usage }),
      }).success;

    expect(beating({})).toBe(true);
    expect(beating({ machine, usage: [use, { ...use, cpus: 2.5 }] })).toBe(true);
    expect(beating({ usage: Array(500).fill(use) })).toBe(true);
    expect(beating({ usage: Array(501).fill(use) })).toBe(false);
    const wrongOfMachine = [
      { cpuShare: 1.1 },
      { cpuShare: -1 },
      { cpuShare: Number.NaN },
      { processors: 0 },
      { memoryBytes: 1.5 },
      { memoryBytes: 2 ** 60 },
      { diskBytes: -1 },
      { diskBytes: '1' },
      { colour: 'red' },
    ];
    for (const wrong of wrongOfMachine) {
      expect(beating({ machine: { ...machine, ...wrong } })).toBe(false);
    }
    const wrongOfBackends = [
      { backendId: 'B 1' },
      { memoryBytes: -1 },
      { memoryBytes: Infinity },
      { cpus: -1 },
      { cpus: 1e9 },
      { cpus: null },
    ];
    for (const wrong of wrongOfBackends) {
      expect(beating({ usage: [{ ...use, ...wrong }] })).toBe(false);
    }
  });

  test('ids of drones have at most 64 lower-case letters, digits and inner hyphens', () => {
    const session = {
      clockId: LEASE_ID,
      datacenter: 'local',
      programs: [],
      version: '1',
      capacity: 1,
    };
    const opening = (droneId: string): boolean =>
      sessionInputSchema.safeParse({ ...session, droneId }).success;

    expect(['d', 'drone-1', 'x'.repeat(64)].map(opening)).toEqual([true, true, true]);
    for (const wrong of ['', 'D1', '-d', 'd-', 'x'.repeat(65), 'd/1', 'd\n']) {
      expect(opening(wrong)).toBe(false);
    }
  });

  test('a drone offers each of its programs once', () => {
    const session = {
      droneId: 'd1',
      clockId: LEASE_ID,
      datacenter: 'local',
      version: '1',
      capacity: 1,
    };
    const offering = (...names: string[]): boolean =>
      sessionInputSchema.safeParse({ ...session, programs: names.map((name) => ({ name })) })
        .success;

    expect(offering('a', 'b')).toBe(true);
    expect(offering('a', 'a')).toBe(false);
  });

  test('a token has a drone id exactly if its role is drone, and never the reserved namespace', () => {
    const creating = (input: object): boolean =>
      tokenCreateInputSchema.safeParse({ name: 'n', role: 'viewer', ...input }).success;

    expect(creating({ namespaces: ['a', 'b.c'] })).toBe(true);
    expect(creating({ role: 'client', programs: ['room'], limits: { streams: 0 } })).toBe(true);
    expect(creating({ limits: { streams: -1 } })).toBe(false);
    expect(creating({ limits: { stream: 1 } })).toBe(false);
    expect(creating({ capacity: 1 })).toBe(false);
    expect(creating({ addresses: ['10.0.0.0/8'] })).toBe(false);
    expect(creating({ role: 'viewer', programs: ['room'] })).toBe(false);
    const drone = { role: 'drone', droneId: 'd1', programs: ['room'], capacity: 5 };
    for (const address of ['10.0.0.0/8', '10.0.0.0/8:21000-29999', '[fd00::/8]:80', 'fd00::/8']) {
      expect(creating({ ...drone, addresses: [address] })).toBe(true);
    }
    for (const address of [
      '10.0.0.0',
      '10.0.0.0/33',
      '300.0.0.0/8',
      '10.0.0.0/8:2-1',
      'host/8',
      'fd00::/129',
    ]) {
      expect(creating({ ...drone, addresses: [address] })).toBe(false);
    }
    expect(creating({ role: 'drone', droneId: 'd1' })).toBe(true);
    expect(creating({ role: 'drone' })).toBe(false);
    expect(creating({ droneId: 'd1' })).toBe(false);
    expect(creating({ role: 'drone', droneId: 'd1', namespaces: ['a'] })).toBe(false);
    expect(creating({ namespaces: [] })).toBe(false);
    expect(creating({ namespaces: [''] })).toBe(false);
    expect(creating({ namespaces: ['leasehold.x'] })).toBe(false);
    expect(creating({ role: 'peer' })).toBe(false);
    expect(creating({ expiresAt: 'tomorrow' })).toBe(false);
  });

  test('a token cannot have a name that looks like a person in the audit', () => {
    const named = (name: string) => tokenCreateInputSchema.safeParse({ name, role: 'viewer' });

    expect(named('ci of ada').success).toBe(true);
    expect(named('ada@example.com').error?.issues).toMatchObject([
      { path: ['name'], message: expect.stringContaining('"@"') as string },
    ]);
  });

  test('a list may be requested without any input, and a page has at most 500 items', () => {
    expect(keyListInputSchema.parse(undefined).limit).toBe(LIMITS.pageSizeDefault);
    expect(backendListInputSchema.safeParse({ limit: 500 }).success).toBe(true);
    expect(backendListInputSchema.safeParse({ limit: 501 }).success).toBe(false);
    expect(backendListInputSchema.safeParse({ limit: 0 }).success).toBe(false);
  });
});
