/** What the pages assume: `npm start` runs, in a folder of its own. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { startUp } from '../../apps/cli/src/testing/command-line.ts';

export const REPOSITORY = path.resolve(import.meta.dirname, '../..');

export interface Stage {
  /** Where commands run; `.leasehold` is in it. */
  readonly folder: string;
  readonly controllerUrl: string;
  readonly databaseUrl: string;
  /** Of an API token of the role `client`. */
  readonly token: string;
  /** Replaces the address in the pages with the one that runs here. */
  adapt(text: string): string;
  close(): Promise<void>;
}

/** Where `npm start` listens, as the pages show it. */
const SHOWN_ADDRESS = /\b(?:127\.0\.0\.1|localhost):4600\b/gu;

/** Starts `leasehold up`, as `npm start` does. The caller that starts it closes it. */
export async function setStage(): Promise<Stage> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-docs-'));
  const home = path.join(folder, '.leasehold');
  const { up, run } = await startUp(home);
  const credentials = await readFile(path.join(home, 'credentials.json'), 'utf8');
  const { controllerUrl, databaseUrl } = run;
  return {
    folder,
    controllerUrl,
    databaseUrl,
    token: (JSON.parse(credentials) as { client: string }).client,
    adapt: (text) => text.replaceAll(SHOWN_ADDRESS, new URL(controllerUrl).host),
    async close() {
      up.child.kill('SIGTERM');
      await up.ended;
      await rm(folder, { recursive: true });
    },
  };
}
