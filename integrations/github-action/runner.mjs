/** What GitHub's runner gives to an action, and takes from it. */
import { appendFileSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * An input of the step; empty if it was not given.
 * @param {string} name
 */
export function input(name) {
  return (process.env[`INPUT_${name.toUpperCase()}`] ?? '').trim();
}

/**
 * Keeps a word for the end of the job.
 * @param {string} name
 * @param {string} value
 */
export function saveState(name, value) {
  appendFileSync(process.env['GITHUB_STATE'] ?? '', `${name}=${value}\n`);
}

/**
 * What {@link saveState} has kept; empty if nothing.
 * @param {string} name
 */
export function stateOf(name) {
  return process.env[`STATE_${name}`] ?? '';
}

/**
 * Fails the step, and shows why at the job.
 * @param {string} message
 */
export function fail(message, exitCode = 1) {
  // A line break would end the message.
  console.log(`::error title=Leasehold::${message.replaceAll('%', '%25').replaceAll('\n', '%0A')}`);
  process.exitCode = exitCode || 1;
}

/**
 * Calls `pass` with each signal that is sent to a step whose job is cancelled.
 * @param {(signal: NodeJS.Signals) => void} pass
 */
export function passSignals(pass) {
  process.on('SIGINT', pass).on('SIGTERM', pass);
}

/**
 * @param {string} folder
 * @returns a function that shows what was written to the log since its last call.
 */
export function logOf(folder) {
  let shown = 0;
  return () => {
    const text = readFileSync(path.join(folder, 'log'), 'utf8');
    process.stdout.write(text.slice(shown));
    shown = text.length;
  };
}

/** @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
