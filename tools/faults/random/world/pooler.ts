/** A pooler in transaction mode, between one controller and the database: F13. */
import { startPgBouncer, type TestPgBouncer } from '@leasehold/testing/stack';
import type { Network } from './network.ts';
import { POOLED_ROLE, type WorldDatabase } from './database.ts';

/** More than one controller has statements under way, so that renewals never wait for others. */
const SESSIONS_MAX = 30;

export interface Pooler extends Pick<TestPgBouncer, 'kill' | 'restart' | 'stop'> {
  /** Where a controller finds it, with what it must know of it. */
  readonly url: string;
}

export async function openPooler(database: WorldDatabase, network: Network): Promise<Pooler> {
  const target = new URL(database.url);
  target.port = String(await network.lay('pooler', 'database', Number(target.port)));
  [target.username, target.password] = [POOLED_ROLE, POOLED_ROLE];
  const settings = { ignore_startup_parameters: 'options', server_login_retry: '1' };
  const pooler = await startPgBouncer(target.href, { poolSize: SESSIONS_MAX, settings });
  const url = new URL(pooler.url);
  url.searchParams.set('pgbouncer', 'true');
  return {
    url: url.href,
    kill: () => pooler.kill(),
    restart: () => pooler.restart(),
    stop: () => pooler.stop(),
  };
}
