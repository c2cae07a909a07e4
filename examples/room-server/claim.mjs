import { existsSync, readFileSync, rmSync, watch } from 'node:fs';
import { dirname } from 'node:path';

/**
 * For a process that a drone keeps warm: waits for its claim, and puts what the claim holds into the environment,
 * where any other backend finds it from its start. Returns what is to be called once the process serves its key:
 * before that, nobody is sent here. A process that was started with a key does not wait.
 *
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<() => void>}
 */
export async function takeClaim(env = process.env) {
  const file = env['LEASEHOLD_CLAIM_FILE'];
  if (file === undefined) return () => undefined;
  await isThere(file);
  Object.assign(env, JSON.parse(readFileSync(file, 'utf8')));
  return () => rmSync(file);
}

/**
 * The file comes whole, by a rename.
 *
 * @param {string} file
 * @returns {Promise<void>}
 */
function isThere(file) {
  return new Promise((resolve) => {
    const look = () => {
      if (!existsSync(file)) return;
      watcher.close();
      resolve();
    };
    const watcher = watch(dirname(file), look);
    // It may have come before the watch began.
    look();
  });
}
