import type { ControllerApi } from '@leasehold/client';
import type { AcquireAnswer } from '@leasehold/keys-core/leases';
import { forTest, Stage, type FaultProxy, type StageOptions } from '@leasehold/testing';
import { expect } from 'vitest';
import { startCommand, type Ended, type Started } from './command-line.ts';
import { runHere } from './in-process.ts';

/** A controller as it ships, and the command line that talks to it. */
export class CliStage extends Stage {
  #proxy: FaultProxy | undefined;

  static open(options: StageOptions = {}): Promise<CliStage> {
    return new CliStage(forTest(options)).begin();
  }

  override async begin(): Promise<this> {
    await super.begin();
    this.#proxy = await this.front();
    return this;
  }

  /** Between the command line and the controller. */
  get proxy(): FaultProxy {
    if (this.#proxy === undefined) throw new Error('the stage has not begun');
    return this.#proxy;
  }

  /** What a command is started with. */
  get env(): Record<string, string> {
    return {
      LEASEHOLD_HOME: this.home,
      LEASEHOLD_URL: this.proxy.url,
      LEASEHOLD_TOKEN: this.credentials.admin,
    };
  }

  /** Runs `leasehold …` to its end, in this process: a process for each command would take ten times as long. */
  async run(...args: string[]): Promise<Ended> {
    // What follows `--` is started by the command line's own file.
    if (args.includes('--')) return this.start(...args).ended;
    const { exitCode, ...said } = await runHere(args, this.env);
    return { exitCode: exitCode ?? null, ...said };
  }

  /** Starts `leasehold …` as it ships, in a process of its own. */
  start(...args: string[]): Started {
    return startCommand(args, this.env);
  }

  /** As {@link start}, with a standard input. */
  startWith(input: string, ...args: string[]): Started {
    return startCommand(args, this.env, { input });
  }

  /** What `leasehold … --json` answers. */
  async answer<Value>(...args: string[]): Promise<Value> {
    const ended = await this.run(...args, '--json');
    expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
    return JSON.parse(ended.stdout) as Value;
  }

  /** The exit code and the error code of a refused `leasehold --json …`. */
  async refused(...args: string[]): Promise<{ exitCode: number | null; code: string }> {
    const { exitCode, stdout, stderr } = await this.run('--json', ...args);
    expect(stdout).toBe('');
    return { exitCode, code: (JSON.parse(stderr) as { error: { code: string } }).error.code };
  }
}

/** Takes a lease for half a minute, and never renews it. */
export async function heldLease(
  api: ControllerApi,
  namespace: string[],
  key: string,
): Promise<Extract<AcquireAnswer, { outcome: 'granted' }>['lease']> {
  const answer = await api.leases.acquire.mutate({
    namespace,
    key,
    ttlMs: 30_000,
    localTimeMs: 0,
    holder: 'worker-1',
    comment: 'for tests',
  });
  if (answer.outcome !== 'granted') throw new Error(`${key} is held by ${answer.by}`);
  return answer.lease;
}
