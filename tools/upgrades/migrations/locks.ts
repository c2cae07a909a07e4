/** Asks squawk, which reads SQL with a parser, for statements that block or break what runs beside a migration. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

const SQUAWK = path.resolve(
  import.meta.dirname,
  '../../../node_modules/.bin',
  process.platform === 'win32' ? 'squawk.cmd' : 'squawk',
);
/** The oldest that Leasehold runs on. */
const POSTGRES = '15';
/**
 * The migration runner sets the timeouts: a migration waits a second for a lock, and is tried again. The others
 * are about style, not about safety.
 */
const EXCLUDED = [
  'require-lock-timeout',
  'require-statement-timeout',
  'prefer-bigint-over-int',
  'prefer-bigint-over-smallint',
  'prefer-identity',
  'prefer-robust-stmts',
  'prefer-text-field',
  'prefer-timestamptz',
];

export interface Finding {
  readonly migration: string;
  readonly rule: string;
  readonly text: string;
}

interface Report {
  readonly file: string;
  readonly line: number;
  readonly rule_name: string;
  readonly message: string;
}

/** @param files named `migration.sql`, each in the folder of its migration. */
export async function blockingStatements(files: readonly string[]): Promise<Finding[]> {
  if (files.length === 0) return [];
  const args = ['--assume-in-transaction', '--pg-version', POSTGRES, '--reporter', 'json'];
  const exclusions = EXCLUDED.map((rule) => `--exclude=${rule}`);
  const { stdout } = await promisify(execFile)(SQUAWK, [...args, ...exclusions, ...files]).catch(
    // It ends with 1 when it has found something.
    (error: unknown) => {
      const { stdout: printed } = error as { stdout?: string };
      if (printed === undefined || printed === '') throw error;
      return { stdout: printed };
    },
  );
  return (JSON.parse(stdout) as Report[]).map(({ file, line, rule_name: rule, message }) => {
    const migration = path.basename(path.dirname(file));
    return {
      migration,
      rule,
      text: `${migration}, line ${String(line + 1)}: ${message} (${rule})`,
    };
  });
}
