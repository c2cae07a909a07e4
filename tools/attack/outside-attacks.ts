/** Attacks from outside that need a look at more than the healthy callers: at newcomers, the console, or the database. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createControllerClient } from '@leasehold/client';
import type { Attack, Yield } from './attack.ts';
import { LEFT_MB_MAX, settledMb } from './carry-out.ts';
import type { AttackStage } from './stage.ts';
import { startAttacker } from './start-attacker.ts';

const NEWCOMER_EVERY_MS = 200;
const NEWCOMER_MS_MAX = 5_000;
const CONSOLE_MS_MAX = 5_000;
/** Of a service, in an hour. */
const HISTORY_BYTES_MAX = 1_000_000;

/** Strangers hold as many connections as their address may have. Who comes with a token must find a place. */
export const heldConnections: Attack = {
  name: 'held-connections',
  what: '1,200 connections without a token, while callers with one connect',
  async carryOut(stage, attackMs) {
    const attack = { name: 'held-connections', url: stage.url, token: null, attackMs };
    const [seen, refused] = await Promise.all([
      startAttacker(attack),
      refusedNewcomers(stage, attackMs),
    ]);
    return { ...seen, got: refused.map((error) => `the place of a newcomer: ${error}`) };
  },
};

async function refusedNewcomers(stage: AttackStage, forMs: number): Promise<string[]> {
  const untilMs = performance.now() + forMs;
  const refused: string[] = [];
  while (performance.now() < untilMs) {
    const { url, tokens } = stage;
    const client = createControllerClient({ url, token: tokens.attacker, transport: 'ws' });
    const signal = AbortSignal.timeout(NEWCOMER_MS_MAX);
    await client.api.session.get
      .query(undefined, { signal })
      .catch((error: unknown) => refused.push(String(error)));
    await client.close();
    await sleep(NEWCOMER_EVERY_MS);
  }
  return refused;
}

/** Strangers ask the console for pages, and leave. */
export const signInPages: Attack = {
  name: 'sign-in-pages',
  what: '50 sockets that ask the console for its sign-in page, and leave at once',
  async carryOut(stage, attackMs) {
    const { pid } = await stage.console();
    const url = stage.consoleUrl;
    const memoryMb = (): Promise<number> => stage.memoryMb(pid);
    await pageOf(url);
    const before = await memoryMb();
    const seen = await startAttacker({ name: 'sign-in-pages', url, token: null, attackMs });
    const got = (await pageOf(url)) ? [] : ['the console: it does not answer'];
    const moreMb = (await settledMb(memoryMb, before)) - before;
    const kept = moreMb > LEFT_MB_MAX ? [`${String(moreMb)} MB of the console`] : [];
    return { ...seen, got: [...got, ...kept] };
  },
};

async function pageOf(url: string): Promise<boolean> {
  return fetch(`${url}/sign-in`, { signal: AbortSignal.timeout(CONSOLE_MS_MAX) }).then(
    async (response) => {
      await response.arrayBuffer();
      return response.ok;
    },
    () => false,
  );
}

/** A service fills the history. */
export const fullHistory: Attack = {
  name: 'history',
  what: 'a service with a quota of 1 MB of events an hour takes leases as fast as it can',
  async carryOut(stage, attackMs): Promise<Yield> {
    const { secret: token } = await stage.api().tokens.create.mutate({
      name: 'historian',
      role: 'client',
      limits: { eventBytesPerHour: HISTORY_BYTES_MAX },
    });
    const before = await historyBytes(stage);
    const seen = await startAttacker({ name: 'history', url: stage.url, token, attackMs });
    const grown = (await historyBytes(stage)) - before;
    const tooMuch = grown > HISTORY_BYTES_MAX ? [`${String(grown)} bytes of history`] : [];
    return { ...seen, got: tooMuch };
  },
};

/** Of the attackers' own leases. */
async function historyBytes(stage: AttackStage): Promise<number> {
  const [row] = await stage.query<{ bytes: string }>(
    `select coalesce(sum(pg_column_size(e.*)), 0)::bigint as bytes from lease_event e where e.namespace = 'attack'`,
  );
  return Number(row?.bytes ?? 0);
}
