import { fstatSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { processEnvironment } from './config.ts';
import { EXIT_CODES, SIGNAL_EXIT_CODE } from './failures.ts';
import { readSecret } from './processes.ts';
import { runCli } from './program.ts';

/** One Ctrl-C arrives twice: from the terminal, and from npm, which passes it on. */
const SAME_SIGNAL_MS = 1_000;

/** The same, for signals that are passed on: a person who presses a key twice takes longer. */
const SAME_KEYPRESS_MS = 100;

/** How long what is still open may keep a command whose result is known, and taken by its reader. */
const END_MS_MAX = 500;

/** How often a process that npx has started looks whether npx is still there. */
const LOOK_MS = 250;

const parentPid = process.ppid;
/** What npm calls itself then; a program that we run is not started by it. */
const { npm_lifecycle_event: startedBy, ...environment } = processEnvironment();
const isByNpx = startedBy === 'npx';

const stopping = new AbortController();
/** Of the first signal that asked to stop, or the last that was passed on. */
let askedAtMs = -Infinity;
let isSignalTaken = false;

/** Aborted when nobody reads the standard output any more. */
const unread = new AbortController();
const stoppingOrUnread = AbortSignal.any([stopping.signal, unread.signal]);

/** Handles Ctrl-C and SIGTERM from the first call on; see {@link CliContext.signal}. */
function takeSignal(): AbortSignal {
  if (!isSignalTaken) {
    isSignalTaken = true;
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => onSignal(name));
    }
    whenLeft(() => stopping.abort('disconnect'));
  }
  return stopping.signal;
}

/** See {@link CliContext.signalWhileRead}. */
function takeSignalWhileRead(): AbortSignal {
  takeSignal();
  return stoppingOrUnread;
}

function onSignal(name: string): void {
  const nowMs = performance.now();
  if (stopping.signal.aborted && nowMs - askedAtMs > SAME_SIGNAL_MS) {
    // A second signal means: do not wait. The processes that we started notice our end, and end too.
    process.exit(EXIT_CODES.refused);
  }
  if (!stopping.signal.aborted) askedAtMs = nowMs;
  stopping.abort(name);
}

/** The signals that a listener is told of; see {@link CliContext.onSignal}. */
const PASSED_ON = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGTSTP', 'SIGCONT'] as const;

function passSignals(listener: (signal: NodeJS.Signals) => void): void {
  const lastAtMs = new Map<string, number>();
  for (const name of PASSED_ON) {
    process.on(name, () => {
      const nowMs = performance.now();
      const isAgain = nowMs - (lastAtMs.get(name) ?? -Infinity) < SAME_KEYPRESS_MS;
      lastAtMs.set(name, nowMs);
      askedAtMs = nowMs;
      if (!isAgain) listener(name);
    });
  }
  // A command that got a signal is ending already.
  whenLeft(() => lastAtMs.size === 0 && listener('SIGTERM'));
}

/**
 * Tells when the process that started us has gone, and wanted us to end with it: one with a channel, as `npm start`, or
 * npx, which ends at a signal without passing it on.
 */
function whenLeft(listener: () => void): void {
  process.once('disconnect', listener);
  if (!isByNpx) return;
  const look = setInterval(() => {
    if (process.ppid === parentPid) return;
    clearInterval(look);
    listener();
  }, LOOK_MS).unref();
}

/** Whether some output was lost, for example on a full disk. */
let isOutputLost = false;
/** Whether some of the standard output was lost, also because nobody reads it any more. */
let isAnswerLost = false;

/**
 * Does not throw: what `leasehold up` runs is more important than what it prints. A reader that has ended, as `| head` does,
 * is a problem only for a command that asks, by {@link wasAnswerLost}, and ends one that only prints.
 */
function onOutputError(stream: NodeJS.WriteStream, error: NodeJS.ErrnoException): void {
  if (stream === process.stdout) {
    isAnswerLost = true;
    if (error.code === 'EPIPE') unread.abort();
  }
  if (error.code === 'EPIPE' || isOutputLost) return;
  isOutputLost = true;
  write(process.stderr, `The output is incomplete: ${error.message}\n`);
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    onOutputError(stream, error);
  });
}

/** Node writes to a file once, and takes a part for the whole: on a disk with little space left. */
function write(stream: NodeJS.WriteStream & { fd: number }, text: string): void {
  if (!isFile(stream.fd)) {
    stream.write(text);
    return;
  }
  try {
    writeFileSync(stream.fd, text);
  } catch (error) {
    onOutputError(stream, error as NodeJS.ErrnoException);
  }
}

/** See {@link CliContext.wasAnswerLost}. */
async function wasAnswerLost(): Promise<boolean> {
  await flushed(process.stdout);
  // The error of what was written is reported in the same turn at the latest.
  await setImmediate();
  return isAnswerLost;
}

/** Waits until what was written has been taken, or is lost. */
async function flushed(stream: NodeJS.WriteStream & { fd: number }): Promise<void> {
  // Called after what was written before.
  if (!isFile(stream.fd)) await new Promise((resolve) => stream.write('', resolve));
}

/** From now on a signal ends this process at once; but not the second one of the same Ctrl-C. */
function endAtSignals(): void {
  const leftMs = SAME_SIGNAL_MS - (performance.now() - askedAtMs);
  if (leftMs > 0) setTimeout(endAtSignals, leftMs).unref();
  else for (const name of PASSED_ON) process.removeAllListeners(name);
}

function isFile(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isFile();
  } catch {
    return false;
  }
}

async function askPerson(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined;
  write(process.stderr, question);
  try {
    return await readSecret(process.stdin, () => {
      write(process.stderr, '\n');
      process.exit(SIGNAL_EXIT_CODE + constants.signals.SIGINT);
    });
  } finally {
    write(process.stderr, '\n');
  }
}

process.once('exit', (code) => {
  if (isOutputLost && code === EXIT_CODES.done) process.exitCode = EXIT_CODES.refused;
});

const exitCode = await runCli(process.argv.slice(2), {
  stdout: (text) => write(process.stdout, text),
  stderr: (text) => write(process.stderr, text),
  readStdin: () => text(process.stdin),
  askSecret: askPerson,
  environment,
  isTerminal: process.stdout.isTTY,
  signal: takeSignal,
  signalWhileRead: takeSignalWhileRead,
  onSignal: passSignals,
  wasAnswerLost,
});
if (exitCode !== undefined) {
  process.exitCode = exitCode;
  endAtSignals();
  // The channel to the process that started us would keep this one alive with nothing left to do.
  if (process.connected) process.disconnect();
  // A reader may take its time, as `less` does.
  await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
  // Nothing else that a command has left open may keep it, such as a connection that does not close.
  setTimeout(() => process.exit(), END_MS_MAX).unref();
}
