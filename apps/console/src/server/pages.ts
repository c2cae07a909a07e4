import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LeaseError } from '@leasehold/keys-core';

/** The built pages, ready to be served. */
export interface Pages {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  close(): Promise<void>;
}

/** What a build writes about itself. */
const BUILT = join('.next', 'required-server-files.json');

/**
 * The configuration that the pages in this folder were built with, as JSON.
 * @throws {LeaseError} `config.invalid` when they were not built.
 */
export function builtConfigOf(folder: string): string {
  try {
    const { config } = JSON.parse(readFileSync(join(folder, BUILT), 'utf8')) as { config: unknown };
    return JSON.stringify(config);
  } catch (cause) {
    const problem = `${folder} has no built pages, or not all of them: ${BUILT} cannot be read.`;
    const help = 'Install Leasehold again; in a clone, run `npm run build`.';
    throw new LeaseError('config.invalid', `${problem} ${help}`, { cause });
  }
}

/** Loads the pages that `next build` made in this folder. */
export async function preparePages(folder: string): Promise<Pages> {
  // Loaded only here: Next reads the environment when it is loaded, which takes half a second.
  const { default: next } = await import('next');
  const app = next({ dev: false, dir: folder, quiet: true });
  await app.prepare();
  return { handle: app.getRequestHandler(), close: () => app.close() };
}
