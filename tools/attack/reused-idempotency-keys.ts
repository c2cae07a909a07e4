import { randomUUID } from 'node:crypto';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import type { Attack } from './attack.ts';

const REUSED = 'request.idempotency_reused';

/** Requests that all use the same idempotency key, and each ask for something else. */
function requests(api: ControllerApi, idempotencyKey: string): (() => Promise<unknown>)[] {
  const connect = (name: string) => () =>
    api.keys.connect.mutate({ key: { name }, spawn: { program: 'server' }, idempotencyKey });
  const acquire = (key: string) => () =>
    api.leases.acquire.mutate({
      namespace: ['attack'],
      key,
      ttlMs: 10_000,
      waitMs: 0,
      holder: 'attacker',
      localTimeMs: 0,
      idempotencyKey,
    });
  const use = () =>
    api.environments.tryAcquire.mutate({
      environment: 'attack',
      action: 'deploy',
      holder: 'attacker',
      localTimeMs: 0,
      idempotencyKey,
    });
  return [connect('healthy'), connect('another'), acquire('one'), acquire('two'), use];
}

/** One idempotency key for different requests, on every face: no request gets the answer of another one. */
export const reusedIdempotencyKeys: Attack = {
  name: 'reused-idempotency-keys',
  what: 'one idempotency key for different requests',
  async carryOut(stage) {
    const { url, tokens } = stage;
    const client = createControllerClient({ url, token: tokens.attacker, transport: 'ws' });
    const refused: Record<string, number> = {};
    const got: string[] = [];
    let tried = 0;
    const kinds = requests(client.api, '').length;
    for (let first = 0; first < kinds; first += 1) {
      const all = requests(client.api, randomUUID());
      await all[first]?.();
      for (const [nth, ask] of all.entries()) {
        if (nth === first) continue;
        tried += 1;
        const code = await ask().then(
          () => undefined,
          (error: unknown) => codeOf(error) ?? String(error),
        );
        if (code === REUSED) refused[code] = (refused[code] ?? 0) + 1;
        else got.push(code ?? 'the answer of another request');
      }
    }
    await client.close();
    return { tried, refused, got };
  },
};

function codeOf(error: unknown): string | undefined {
  return (error as { data?: { leaseholdCode?: string } }).data?.leaseholdCode;
}
