import { randomUUID } from 'node:crypto';
import type { DroneMessage, LogPage } from '@leasehold/api';
import type { TokenBindings } from '@leasehold/keys-core/access';
import { createControllerClient, leaseholdErrorOf } from '@leasehold/client';
import { waitUntil } from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import type { TestController } from './test-controller.ts';

/** A drone that is only its half of the protocol: it runs nothing and answers when told. */
export interface TestDrone {
  readonly droneId: string;
  readonly clockId: string;
  readonly tokenId: string;
  /** The number of its newest session; 0 before the first. */
  session(): number;
  /** Every message that came, oldest first. */
  readonly messages: DroneMessage[];
  /** The code that its session ended with, once it has. */
  endedWith(): string | undefined;
  goodbye(): Promise<unknown>;
  heartbeat(): Promise<unknown>;
  renew(
    renewals: { leaseId: string; fencingToken: string }[],
  ): Promise<{ results: { leaseId: string; outcome: string }[] }>;
  ack(actionId: string): Promise<{ acknowledged: boolean }>;
  /** Answers a question of its session. */
  answer(questionId: string, page: LogPage): Promise<{ isWanted: boolean }>;
  report(said: {
    backendId: string;
    status: 'loading' | 'ready' | 'terminating' | 'terminated';
    address?: string;
    reason?: 'external';
    refused?: boolean;
  }): Promise<string>;
}

/** Opens a session for a drone that offers `room`, and sends its first heartbeat. */
export async function startTestDrone(
  on: TestController,
  options: {
    droneId?: string;
    clockId?: string;
    secret?: string;
    datacenter?: string;
    /** By default `room`. */
    programs?: readonly string[];
    /** What its token is bound to. */
    bindings?: Partial<TokenBindings>;
  } = {},
): Promise<TestDrone> {
  const droneId = options.droneId ?? 'd1';
  const clockId = options.clockId ?? randomUUID();
  const made = await on.token('drone', { droneId, ...options.bindings });
  const client = createControllerClient({
    url: on.url,
    token: options.secret ?? made.secret,
    transport: 'ws',
    reconnectMsMax: 200,
  });
  const messages: DroneMessage[] = [];
  let session = 0;
  let endCode: string | undefined;
  const subscription = client.api.drones.session.subscribe(
    {
      droneId,
      clockId,
      datacenter: options.datacenter ?? 'local',
      programs: (options.programs ?? ['room']).map((name) => ({ name })),
      version: 'test',
      capacity: 100,
    },
    {
      onData: (message) => {
        messages.push(message);
        if (message.kind === 'session') session = message.session;
      },
      onError: (error) => {
        endCode = leaseholdErrorOf(error)?.code ?? String(error);
      },
    },
  );
  onTestFinished(async () => {
    subscription.unsubscribe();
    await client.close();
  });
  const from = (): { droneId: string; clockId: string; session: number } => ({
    droneId,
    clockId,
    session,
  });
  const drone: TestDrone = {
    droneId,
    clockId,
    tokenId: made.tokenId,
    session: () => session,
    messages,
    endedWith: () => endCode,
    heartbeat: () =>
      client.api.drones.heartbeat.mutate({ ...from(), localTimeMs: 1_000, load: { backends: 0 } }),
    renew: (renewals) =>
      client.api.keys.renew.mutate({ droneId, clockId, localTimeMs: 1_000, renewals }),
    answer: (questionId, page) => client.api.drones.answer.mutate({ ...from(), questionId, page }),
    goodbye: () => client.api.drones.goodbye.mutate(from()),
    ack: (actionId) => client.api.drones.ack.mutate({ ...from(), actionId }),
    report: async (said) =>
      (await client.api.backends.report.mutate({ ...from(), ...said })).outcome,
  };
  await waitUntil(() => session > 0 || endCode !== undefined, {
    what: 'the first message of the session',
  });
  if (endCode === undefined) await drone.heartbeat();
  return drone;
}
