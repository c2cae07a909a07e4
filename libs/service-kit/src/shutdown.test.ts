import { describe, expect, test, vi } from 'vitest';
import { createShutdown } from './supervision.ts';

describe('shutdown', () => {
  test('releases what was added last first, and each thing once', async () => {
    const order: string[] = [];
    const shutdown = createShutdown({ timeLimitMs: 1_000 });
    shutdown.add('database', () => void order.push('database'));
    shutdown.add('server', () => void order.push('server'));

    const [first, second] = await Promise.all([shutdown.run('test'), shutdown.run('again')]);

    expect(order).toEqual(['server', 'database']);
    expect([first, second]).toEqual([true, true]);
  });

  test('releases the rest when one step fails, and logs which one did', async () => {
    const error = vi.fn();
    const released = vi.fn();
    const shutdown = createShutdown({ timeLimitMs: 1_000, log: { info: () => undefined, error } });
    shutdown.add('database', released);
    shutdown.add('server', () => Promise.reject(new Error('stuck')));

    expect(await shutdown.run('test')).toBe(false);
    expect(released).toHaveBeenCalledTimes(1);
    expect(error).toHaveBeenCalledWith(
      { step: 'server', err: expect.objectContaining({ message: 'stuck' }) as unknown },
      expect.any(String),
    );
  });

  test('gives up when its time is over', async () => {
    const error = vi.fn();
    const shutdown = createShutdown({ timeLimitMs: 20, log: { info: () => undefined, error } });
    shutdown.add('stuck', () => new Promise(() => undefined));

    expect(await shutdown.run('test')).toBe(false);
    expect(error).toHaveBeenCalledTimes(1);
  });

  test('signals to work in progress that it has begun', async () => {
    const shutdown = createShutdown({ timeLimitMs: 1_000 });
    expect(shutdown.begun).toBe(false);

    await shutdown.run('test');

    expect([shutdown.begun, shutdown.signal.aborted]).toEqual([true, true]);
  });
});
