import type { Command } from 'commander';
import { refusal } from './failures/failure.ts';

/** The options of a command that says what can go wrong before it acts. */
export interface ConfirmedOptions {
  readonly yes?: boolean | undefined;
}

/** Adds `--yes`: without it the command says what it would do, and does nothing. */
export function withConfirmation(command: Command): Command {
  return command.option('--yes', 'do it; without this, only what can go wrong is shown');
}

/** @throws {CliFailure} `cli.unconfirmed`, with what can go wrong, unless `--yes` was given. */
export function confirmed({ yes }: ConfirmedOptions, risk: string): void {
  if (yes === true) return;
  throw refusal('cli.unconfirmed', risk, 'Nothing was done. Add --yes if you are certain.');
}
