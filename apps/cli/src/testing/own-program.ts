/** A program of one's own that `leasehold up` offers and watches. */
import { chmod, mkdtemp, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectResult } from '@leasehold/keys-core/keys';

/** Makes the folder with its sources, which backends may read. */
export async function makeEcho(version: string): Promise<string> {
  const sources = await mkdtemp(join(tmpdir(), 'leasehold-sources-'));
  await chmod(sources, 0o755);
  await writeEcho(sources, version);
  return sources;
}

/** As an editor does: a new file, which then gets the name. */
export async function writeEcho(sources: string, version: string, first = ''): Promise<void> {
  const draft = join(sources, 'echo.mjs~');
  const answer = `JSON.stringify({ version: '${version}', mode: process.env.MODE })`;
  await writeFile(
    draft,
    `import { createServer } from 'node:http';
     ${first}
     createServer((_, response) => response.end(${answer})).listen(process.env.HTTP_PORT, '127.0.0.1');
     process.on('SIGTERM', () => process.exit(0));`,
  );
  await rename(draft, join(sources, 'echo.mjs'));
}

/** How `leasehold up` offers it. */
export function echoArgs(sources: string): string[] {
  const variables = ['--env', 'MODE=dev', '--port-env', 'HTTP_PORT'];
  return ['--program', 'echo=node echo.mjs', '--cwd', sources, ...variables, '--watch'];
}

export async function echoOf({ address }: ConnectResult): Promise<unknown> {
  return (await fetch(`http://${address ?? ''}/`)).json();
}
