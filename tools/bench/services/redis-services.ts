import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { Redis } from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import Redlock from 'redlock';
import type { Pairs } from './floors.ts';
import { HOLD_TTL_MS, type LockService } from './lock-service.ts';
import { freePort, provide, startPeerServer } from './peer-server.ts';
import type { Rig } from '../rig/rig.ts';

const REDIS = { command: 'redis-server', debianPackage: 'redis-server', service: 'redis-server' };
const RETRY_MS = 50;

/** One Redis that has every write on disk before it answers, as PostgreSQL has; undefined without Redis. */
async function startRedis(rig: Rig): Promise<Redis | undefined> {
  const file = await provide(REDIS);
  if (file === undefined) return undefined;
  const folder = await mkdtemp(path.join(rig.folder, 'redis-'));
  const port = await freePort();
  const redis = new Redis({ host: '127.0.0.1', port, retryStrategy: () => RETRY_MS });
  // Errors until the server listens; a call that fails reports that itself.
  redis.on('error', () => undefined);
  rig.onClose(() => {
    redis.disconnect();
    return Promise.resolve();
  });
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''];
  const server = await startPeerServer(
    file,
    ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, ...durable],
    () => Promise.resolve(redis.status === 'ready'),
  );
  rig.onClose(() => server.stop());
  return redis;
}

/**
 * `redlock` on one Redis. A waiter asks again and again, at redlock's own pace. @returns undefined where there is no
 * Redis.
 */
export async function startRedlock(rig: Rig): Promise<LockService | undefined> {
  const redis = await startRedis(rig);
  if (redis === undefined) return undefined;
  const redlock = new Redlock([redis]);
  return {
    name: 'redlock',
    take: (key) => redlock.acquire([key], HOLD_TTL_MS, { retryCount: 0 }),
    wait: (key) => redlock.acquire([key], HOLD_TTL_MS, { retryCount: -1 }),
  };
}

/** The semaphore of `redis-semaphore` on one Redis, with so many permits. @returns undefined where there is no Redis. */
export async function startRedisSemaphore(rig: Rig, permits: number): Promise<Pairs | undefined> {
  const redis = await startRedis(rig);
  if (redis === undefined) return undefined;
  return {
    name: 'redis-semaphore',
    async take(key) {
      const semaphore = new Semaphore(redis, key, permits, { lockTimeout: HOLD_TTL_MS });
      await semaphore.acquire();
      return semaphore;
    },
  };
}
