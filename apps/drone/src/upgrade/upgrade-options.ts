import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs, parseEnv } from 'node:util';
import { LeaseError } from '@leasehold/keys-core';
import { durationWord, readDuration, type Environment } from '@leasehold/service-kit';
import { loadDroneConfig, type DroneConfig } from '../config.ts';

const TIMEOUT_MS = 60_000;
const TIMEOUT_MS_MIN = 1_000;
const TIMEOUT_MS_MAX = 60 * 60_000;

export interface UpgradeOptions {
  readonly config: DroneConfig;
  /** What the new agent runs with. */
  readonly environment: Environment;
  /** The file that a service manager starts, if this program is to take its place. */
  readonly install: string | undefined;
  /** How long each step may take. */
  readonly timeoutMs: number;
}

/** @throws {LeaseError} `config.invalid`, naming what is wrong and what is allowed. */
export function upgradeOptions(
  name: string,
  args: readonly string[],
  environment: Environment,
): UpgradeOptions {
  const values = parsed(name, args);
  const whole = { ...environment, ...environmentIn(values.environment) };
  return {
    config: loadDroneConfig(values.config, whole),
    environment: whole,
    install: values.install === undefined ? undefined : path.resolve(values.install),
    timeoutMs: timeoutMsOf(values.timeout),
  };
}

function parsed(name: string, args: readonly string[]) {
  const usage = `usage: ${name} upgrade --config FILE [--environment FILE] [--install FILE] [--timeout TIME]`;
  const text = { type: 'string' } as const;
  const options = { config: text, environment: text, install: text, timeout: text };
  try {
    const { values } = parseArgs({ args: [...args], options });
    const { config = '', install } = values;
    if (config !== '' && install !== '') return { ...values, config };
  } catch (cause) {
    const why = cause instanceof Error ? `${cause.message}\n` : '';
    throw new LeaseError('config.invalid', `${why}${usage}`, { cause });
  }
  throw new LeaseError('config.invalid', usage);
}

/** The variables of a file as systemd's `EnvironmentFile` reads it. */
function environmentIn(file: string | undefined): Environment {
  if (file === undefined) return {};
  try {
    return parseEnv(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new LeaseError('config.invalid', `--environment: ${file} cannot be read`, { cause });
  }
}

function timeoutMsOf(text: string | undefined): number {
  const timeoutMs = text === undefined ? TIMEOUT_MS : readDuration(text);
  if (timeoutMs !== undefined && timeoutMs >= TIMEOUT_MS_MIN && timeoutMs <= TIMEOUT_MS_MAX) {
    return timeoutMs;
  }
  const range = `${durationWord(TIMEOUT_MS_MIN)} to ${durationWord(TIMEOUT_MS_MAX)}`;
  throw new LeaseError(
    'config.invalid',
    `--timeout: must be a time from ${range}, such as 90s, or in milliseconds, and is "${String(text)}"`,
  );
}
