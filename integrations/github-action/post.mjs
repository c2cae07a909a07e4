/** The end of the job, also of one that has failed or was cancelled: releases what the step holds. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fail, logOf, messageOf, stateOf } from './runner.mjs';

const END_MS_MAX = 60_000;
const LOOK_EVERY_MS = 50;
/** With this exit code the command line says that the lease was lost. */
const LOST = 125;

/**
 * Sends a signal to what holds the lease.
 * @param {string} group
 * @param {NodeJS.Signals | 0} name
 * @returns whether it runs.
 */
function signal(group, name) {
  try {
    process.kill(-Number(group), name);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}

/**
 * @param {string} folder
 * @param {string} group
 * @param {boolean} isHeld
 * @returns its exit code, or undefined if it was killed or does not end.
 */
async function endHolder(folder, group, isHeld) {
  const file = path.join(folder, 'exit');
  if (!isHeld) {
    if (!existsSync(file)) signal(group, 'SIGHUP');
  } else {
    try {
      writeFileSync(path.join(folder, 'end'), '');
    } catch (error) {
      console.log(messageOf(error));
      signal(group, 'SIGTERM');
    }
  }
  for (let waitedMs = 0; waitedMs < END_MS_MAX; waitedMs += LOOK_EVERY_MS) {
    if (existsSync(file)) return Number(readFileSync(file, 'utf8'));
    if (!signal(group, 0)) break;
    await pause(LOOK_EVERY_MS);
  }
  signal(group, 'SIGKILL');
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined;
}

const folder = stateOf('folder');
// Without a folder, the command of the step was all, or nothing was begun.
if (folder !== '') {
  const isHeld = stateOf('held') !== '';
  const exitCode = await endHolder(folder, stateOf('group'), isHeld);
  if (!isHeld) console.log('Nothing was held.');
  else {
    if (existsSync(folder)) logOf(folder)();
    if (exitCode === 0) console.log('Ended.');
    else if (exitCode === LOST) {
      fail(
        'The lease was lost before the end of the job, which may have run beside the next holder.',
      );
    } else {
      fail(
        'What held the lease has ended before the job, which may have run beside the next holder.',
      );
    }
  }
}
