import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { CliStage } from './cli-controller.ts';

const ROOT = path.join(import.meta.dirname, '..', '..', '..', '..');

/** Starts `npx leasehold leases …`. A SIGTERM to it ends npx alone. */
export function startByNpx(cli: CliStage, ...args: string[]): ChildProcess {
  const npx = spawn('npx', ['leasehold', 'leases', ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...cli.env },
    stdio: 'ignore',
  });
  onTestFinished(() => void npx.kill());
  return npx;
}
