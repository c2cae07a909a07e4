import { createControllerClient, type ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import { parseConfig, type CliConfig } from './config/config.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './failures/exit-codes.ts';
import { unreachable, usageFailure } from './failures/failure.ts';
import { readCredentials, readRunFile } from './config/home.ts';
import { createStyle, type Style } from './output/style.ts';

/** Controllers of one database, of which any that answers is used, and a token for them. */
export interface Access {
  readonly urls: readonly string[];
  readonly token: string;
}

/** What a command works with. Everything in it is made when it is first asked for. */
export interface Cli {
  readonly context: CliContext;
  /** Whether programs read the answer. */
  readonly isJson: boolean;
  /** @throws {CliFailure} `config.invalid`. */
  config(): CliConfig;
  /** Which controllers were asked, if any were: for messages. */
  controllerUrls(): string | undefined;
  /**
   * Where the controllers are, and the token for them.
   * @throws {CliFailure} when it is not configured.
   */
  access(): Access;
  /** The controller over HTTP, or over a WebSocket for a command that follows something. */
  client(transport?: 'http' | 'ws'): ControllerApi;
  /** Prints an answer: as JSON for programs, as text for people. */
  show(answer: unknown, text: () => string): void;
  /** Adds a leaf command, with what every command has. */
  leaf(parent: Command, nameAndArguments: string, description: string): Command;
  /** What a command that did not fail ends with; undefined once the process is another program. */
  exitCode: number | undefined;
  readonly style: Style;
  /** Closes what was opened. */
  close(): void;
}

export function createCli(context: CliContext, isJson: boolean): Cli {
  const closers: (() => void)[] = [];
  let config: CliConfig | undefined;
  let askedUrls: string | undefined;

  const cli: Cli = {
    context,
    isJson,
    config: () => (config ??= parseConfig(context.environment)),
    controllerUrls: () => askedUrls,
    access() {
      const access = controllerAccess(cli.config());
      askedUrls = access.urls.join(', ');
      return access;
    },
    client(transport = 'http') {
      const { urls, token } = cli.access();
      const connection = createControllerClient({ url: urls, token, transport });
      closers.push(() => void connection.close());
      return connection.api;
    },
    show(answer, text) {
      context.stdout(`${isJson ? JSON.stringify(answer) : text()}\n`);
    },
    leaf: (parent, nameAndArguments, description) =>
      parent
        .command(nameAndArguments)
        .description(description)
        .option('--json', 'print the answer as JSON, errors too')
        .showHelpAfterError('(--help lists what the command accepts)'),
    style: createStyle(context.isTerminal && (context.environment['NO_COLOR'] ?? '') === ''),
    exitCode: EXIT_CODES.done,
    close() {
      for (const close of closers.splice(0)) close();
    },
  };
  return cli;
}

/**
 * Where the controllers are and the token for them: from the environment, else from the home.
 * @throws {CliFailure} when neither gives it.
 */
export function controllerAccess(config: CliConfig): Access {
  const running = config.urls === null ? readRunFile(config.home)?.controllerUrl : undefined;
  const urls = config.urls ?? (running === undefined ? undefined : [running]);
  if (urls === undefined) {
    throw unreachable(
      `Nothing runs in ${config.home}, and LEASEHOLD_URL is not set.`,
      'Start everything here with `leasehold up`, or set LEASEHOLD_URL and LEASEHOLD_TOKEN.',
    );
  }
  // A token is never sent to an address that it was not made for.
  const token =
    config.token ?? (config.urls === null ? readCredentials(config.home)?.admin : undefined);
  if (token === undefined) {
    throw usageFailure(
      'LEASEHOLD_TOKEN is not set.',
      `The tokens of ${config.home} are for what runs there; \`leasehold tokens create\` makes others.`,
    );
  }
  return { urls, token };
}
