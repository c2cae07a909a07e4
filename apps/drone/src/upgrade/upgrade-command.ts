import { LeaseError } from '@leasehold/keys-core';
import { processEnvironment } from '../config.ts';
import { upgradeDrone, UpgradeFailed } from './upgrade.ts';
import { upgradeOptions } from './upgrade-options.ts';

const EXIT = { done: 0, failed: 1, usage: 2 } as const;

/** Returns the exit code. */
export async function runUpgradeCommand(
  program: { name: string; build: string | null; command: readonly string[] },
  args: readonly string[],
): Promise<number> {
  const { name, build, command } = program;
  try {
    const options = upgradeOptions(name, args, processEnvironment());
    const say = (line: string): void => void process.stdout.write(`${line}\n`);
    await upgradeDrone({ ...options, command, build, say });
    return EXIT.done;
  } catch (error) {
    const isUsage = error instanceof LeaseError;
    if (!isUsage && !(error instanceof UpgradeFailed) && !isOfFiles(error)) throw error;
    process.stderr.write(`${error.message}\n`);
    return isUsage ? EXIT.usage : EXIT.failed;
  }
}

/** A file that may not be read or written, which its message names. */
function isOfFiles(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}
