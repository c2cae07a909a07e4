import { bundleOf } from './leasehold-processes.ts';
import { startProcess, type TestProcess } from './test-process.ts';

/** How to start the console as it ships. */
export interface ConsoleProcessOptions {
  /** The controller that it speaks to, or a proxy before it. */
  readonly controllerUrl: string;
  /** Known before it starts: the controller accepts sign-ins from this origin alone. */
  readonly port: number;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A console that answers at `url`. */
export interface ConsoleProcess extends TestProcess {
  /** Its origin, by the name that a browser is to use. */
  readonly url: string;
}

/** Where browsers find a console that listens on `port`. */
export function consoleOrigin(port: number): string {
  return `http://localhost:${String(port)}`;
}

/** Starts the console as it ships, built for production. @throws when it was not built. */
export async function startConsoleProcess({
  controllerUrl,
  port,
  env,
}: ConsoleProcessOptions): Promise<ConsoleProcess> {
  const started = await startProcess({
    name: 'console',
    args: [bundleOf('console')],
    env: {
      NODE_ENV: 'production',
      LEASEHOLD_URL: controllerUrl,
      LEASEHOLD_CONSOLE_PORT: String(port),
      LEASEHOLD_CONSOLE_ORIGIN: consoleOrigin(port),
      ...env,
    },
  });
  return { ...started, url: consoleOrigin(port) };
}
