import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { LogLine, LogPage, LogQuestion, LogRequest } from '@leasehold/api';
import { createControllerClient } from '@leasehold/client';
import { waitUntil } from '@leasehold/testing';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone, type TestDrone } from '../testing/test-drone.ts';

const lineOf = (text: string): LogLine => ({
  at: '2026-11-27T12:00:00.000Z',
  stream: 'stdout',
  text,
});

/** Answers every question of the drone by what it was asked, each once. */
function answering(
  drone: TestDrone,
  pageOf: (request: LogRequest) => Partial<LogPage>,
): LogRequest[] {
  const requests: LogRequest[] = [];
  const isQuestion = (message: { kind: string }): message is LogQuestion =>
    message.kind === 'read_log';
  void waitUntil(async () => {
    const question = drone.messages.filter(isQuestion)[requests.length];
    if (question === undefined) return false;
    const { request, questionId } = question;
    requests.push(request);
    const page = {
      backendId: request.backendId,
      from: request.from ?? 0,
      lines: [],
      position: 0,
      hasMore: false,
      isThere: true,
      hasEnded: false,
      ...pageOf(request),
    };
    await drone.answer(questionId, page);
    return page.hasEnded;
  });
  return requests;
}

/** A drone that alone offers a program, and its backend for a key. */
async function aBackend(
  on: TestController,
  namespace = '',
): Promise<{ drone: TestDrone; backendId: string }> {
  const [droneId, program] = [randomUUID(), randomUUID()];
  const drone = await startTestDrone(on, { droneId, programs: [program] });
  const client = await on.client('client');
  const key = { name: randomUUID(), namespace };
  const { backendId } = await client.keys.connect.mutate({ key, spawn: { program } });
  return { drone, backendId };
}

describe('the output of a backend', () => {
  let on: TestController;
  shareTestController((shared) => {
    on = shared;
  });

  test('is read at any controller, whichever has the session of the drone', async () => {
    const other = await startTestController({ databaseUrl: on.databaseUrl });
    const { drone, backendId } = await aBackend(on);
    const requests = answering(drone, () => ({ lines: [lineOf('one')], hasEnded: true }));

    const page = await (
      await other.client('viewer')
    ).backends.logs.query({ backendId, tail: 5, sinceMs: 60_000 });

    expect(page).toMatchObject({ backendId, lines: [lineOf('one')], hasEnded: true });
    expect(requests).toEqual([{ backendId, tail: 5, sinceMs: 60_000, waitMs: 0 }]);
  });

  /** A backend whose drone answers with three pages of one line each. */
  async function threePages(): Promise<string> {
    const { drone, backendId } = await aBackend(on);
    const texts = ['one', 'two', 'three'];
    answering(drone, ({ from = 0 }) => ({
      lines: [lineOf(texts[from] ?? 'none')],
      position: from + 1,
      hasEnded: from === 2,
    }));
    return backendId;
  }

  test('is followed from page to page until the backend has ended', async () => {
    const backendId = await threePages();
    const api = await on.client('viewer', 'ws');
    const seen: string[] = [];

    await new Promise<void>((resolve, reject) => {
      api.backends.followLogs.subscribe(
        { backendId },
        {
          onData: ({ id, data }) => seen.push(`${id} ${data.lines[0]?.text ?? ''}`),
          onError: reject,
          onComplete: resolve,
        },
      );
    });

    expect(seen).toEqual(['1 one', '2 two', '3 three']);
  });

  test('is followed by server-sent events, which are resumed where they ended', async () => {
    const backendId = await threePages();
    const { secret } = await on.token('viewer');
    const input = encodeURIComponent(JSON.stringify({ backendId }));

    const stream = await fetch(`${on.url}/trpc/backends.followLogs?input=${input}`, {
      headers: { authorization: `Bearer ${secret}`, 'last-event-id': '1' },
    });

    const text = await stream.text();
    expect([...text.matchAll(/"text":"(\w+)"/gu)].map(([, said]) => said)).toEqual([
      'two',
      'three',
    ]);
    expect([...text.matchAll(/^id: ?(\d+)/gmu)].map(([, id]) => id)).toEqual(['2', '3']);
  });

  test('is not for callers of other namespaces, and the audit keeps who read it where it is told to', async () => {
    const audited = await startTestController({ isReadingAudited: true });
    const { drone, backendId } = await aBackend(audited, 'team-a');
    answering(drone, ({ from }) => ({ lines: [lineOf('one')], hasEnded: from === 1 }));
    const { secret } = await audited.token('viewer', { namespaces: ['team-b'] });
    const stranger = createControllerClient({ url: audited.url, token: secret, transport: 'http' });

    await expect(stranger.api.backends.logs.query({ backendId })).rejects.toThrow(
      'There is no such backend.',
    );
    const viewer = await audited.client('viewer');
    // Also who reads from the first position on, which is all of it.
    await viewer.backends.logs.query({ backendId, from: 0 });
    await viewer.backends.logs.query({ backendId, from: 1 });

    await stranger.close();
    const admin = await audited.client('admin');
    const audit = await admin.audit.list.query({ action: 'backends.logs' });
    expect(audit.items).toMatchObject([
      { action: 'backends.logs', resource: `backend:${backendId}`, role: 'viewer' },
    ]);
    expect(audit.items).toHaveLength(1);
  });

  test.each([
    [{ backendId: 'b', tail: -1 }, 'tail'],
    [{ backendId: 'b', sinceMs: 0 }, 'sinceMs'],
    [{ backendId: 'b', from: 1.5 }, 'from'],
    [{ backendId: '' }, 'backendId'],
  ])('refuses %j and names the field', async (input, field) => {
    const viewer = await on.client('viewer');

    await expect(viewer.backends.logs.query(input)).rejects.toThrow(new RegExp(`^${field}: `, 'u'));
  });
});
