import { consoleOrigin, freePort, openStage } from '@leasehold/testing/stack';
import { makePerson } from '../../../e2e/fixtures/people.ts';
import type { BenchDatabase, Rig } from '../rig/rig.ts';
import { insertTokenOf } from '../rig/rig.ts';
import { programOf, type ConsoleBuild } from './commit-build.ts';
import { startCountingProxy, type CountingProxy } from './counting-proxy.ts';

/** A million rows were written a moment ago, and PostgreSQL is still at work. */
const READY_MS_MAX = 180_000;

/** A controller and a console of one build, and somebody who may sign in. */
export interface ConsoleStack {
  readonly controllerUrl: string;
  /** Where a browser opens the console: through a proxy that counts. */
  readonly url: string;
  readonly proxy: CountingProxy;
  readonly controllerPid: number;
  readonly consolePid: number;
  /** An administrator's. */
  readonly token: string;
  readonly person: { readonly email: string; readonly password: string };
  stop(): Promise<void>;
}

/** Starts both on a database that has the schema of the build. */
export async function startConsoleStack(
  rig: Rig,
  database: BenchDatabase,
  { name, folder }: ConsoleBuild,
): Promise<ConsoleStack> {
  const port = await freePort();
  const proxy = await startCountingProxy(() => port);
  const origin = consoleOrigin(proxy.port);
  const stage = await openStage({
    ...{ name: 'console', databaseUrl: database.url, readyMsMax: READY_MS_MAX },
    ...{ datacenter: 'bench', consoleOrigin: origin, entry: programOf(folder, 'controller') },
    env: { LEASEHOLD_LOG_LEVEL: 'warn' },
  });
  const pages = await stage.startConsole({ port, origin, entry: programOf(folder, 'console') });
  const { url: controllerUrl } = stage;
  const stop = once(async () => {
    await Promise.all([stage.close(), proxy.close()]);
  });
  rig.onClose(stop);
  const token = await insertTokenOf(database, { role: 'admin', droneId: null });
  const person = { email: `bench-${name}@example.com`, password: 'measures-with-a-clock' };
  await makePerson(
    controllerUrl,
    { admin: token, origin },
    { ...person, name: 'Bench', role: 'admin' },
  );
  return {
    ...{ controllerUrl, url: origin, proxy, token, person, stop },
    controllerPid: stage.controller().pid,
    consolePid: pages.pid,
  };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
