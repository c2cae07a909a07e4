import { processEnvironment } from './config.ts';
import { runCli } from './run-cli.ts';

const stopping = new AbortController();
let isSignalTaken = false;

/** Takes Ctrl-C and SIGTERM from the first call on; see {@link CliContext.signal}. */
function takeSignal(): AbortSignal {
  if (!isSignalTaken) {
    isSignalTaken = true;
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => {
        stopping.abort(name);
      });
    }
  }
  return stopping.signal;
}

// A reader that has gone away, as `| head` does, is no error of ours.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

const exitCode = await runCli(process.argv.slice(2), {
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  environment: processEnvironment(),
  isTerminal: process.stdout.isTTY,
  signal: takeSignal,
});
if (exitCode !== undefined) process.exitCode = exitCode;
