import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Cli } from './cli.ts';
import { refusal } from './failures.ts';

/**
 * Where the programs are, relative to this one's own file `apps/cli/dist/main.mjs`: an installed package has
 * the folders of the repository. They are found as files because an app may not import another.
 */
const FROM_DIST = {
  cli: 'main.mjs',
  controller: '../../controller/dist/main.mjs',
  drone: '../../drone/dist/main.mjs',
  console: '../../console/dist/main.mjs',
  /** The file that a build of the console's pages writes last. */
  pages: '../../console/.next/BUILD_ID',
  room: '../../../examples/room-server/server.mjs',
  migrations: '../../../prisma/migrations',
} as const;

type Part = keyof typeof FROM_DIST;

/** Whether a part of this installation exists. */
export function hasPart(part: Part): boolean {
  return existsSync(pathOf(part));
}

function pathOf(part: Part): string {
  return fileURLToPath(new URL(FROM_DIST[part], import.meta.url));
}

/** The path of a part of this installation. @throws {CliFailure} when it is not there. */
export function pathOfPart(part: Part): string {
  const path = pathOf(part);
  if (!existsSync(path)) {
    const help = 'Install Leasehold again; in a clone, run `npm run build`.';
    throw refusal('install.incomplete', `${path} is missing.`, help);
  }
  return path;
}

/**
 * Becomes another program: it finds its own arguments in `process.argv`, and from here on the
 * process belongs to it.
 */
export async function becomeApp(
  cli: Cli,
  app: 'controller' | 'console' | 'drone',
  args: readonly string[],
): Promise<void> {
  const path = pathOfPart(app);
  process.argv = [process.argv[0] ?? 'node', path, ...args];
  await import(path);
  cli.exitCode = undefined;
}
