import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { AgentServer } from '../warden/run-warden.ts';
import { Warden } from '../warden/warden.ts';
import { NOT_ISOLATED } from './simulated-warden.ts';

type WardenOptions = ConstructorParameters<typeof Warden>[0];

/** A warden in this process, for backends that `launch` only pretends to start. */
export function wardenOf(
  launch: WardenOptions['launch'],
  change: Partial<WardenOptions> = {},
): Warden {
  return new Warden({
    launch,
    launchWarm: () => Promise.reject(new Error('the test has no warm processes')),
    onCooled: () => undefined,
    nowMs: () => os.uptime() * 1_000,
    onChange: () => undefined,
    onActBy: () => undefined,
    onProblem: () => undefined,
    ...change,
  });
}

/** Lets agents with the secret `one` command a warden while a test uses its socket. */
export async function whileListening(
  warden: Warden,
  use: (socketPath: string) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-warden-'));
  const socketPath = path.join(folder, 'warden.sock');
  const server = new AgentServer({
    identity: { clockId: 'one', pid: 1, isolation: NOT_ISOLATED },
    secret: 'one',
    warden: () => warden,
    onShutdown: () => undefined,
  });
  await server.listen(socketPath);
  try {
    await use(socketPath);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
