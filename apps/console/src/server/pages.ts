import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LeaseError } from '@leasehold/keys-core';

/** The built pages, ready to be served. */
export interface Pages {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  close(): Promise<void>;
}

/**
 * Loads the pages that `next build` made in this folder.
 * @throws {LeaseError} `config.invalid` when they were not built.
 */
export async function preparePages(folder: string): Promise<Pages> {
  if (!existsSync(join(folder, '.next', 'BUILD_ID'))) {
    throw new LeaseError(
      'config.invalid',
      `${folder} has no built pages: run \`npm run build\`. (What is missing is .next/BUILD_ID.)`,
    );
  }
  // Loaded only here: Next reads the environment when it is loaded, which takes half a second.
  const { default: next } = await import('next');
  const app = next({ dev: false, dir: folder, quiet: true });
  await app.prepare();
  return { handle: app.getRequestHandler(), close: () => app.close() };
}
