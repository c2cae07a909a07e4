/** A job as GitHub's runner has it: the files and variables by which steps of an action speak to it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { load } from 'js-yaml';

export const ACTION = path.join(import.meta.dirname, '..');

/** The parts of `action.yml` that a runner reads. */
interface Metadata {
  readonly inputs: Readonly<Record<string, { readonly default?: string }>>;
  readonly runs: { readonly main: string; readonly post: string };
}

const metadata = load(readFileSync(path.join(ACTION, 'action.yml'), 'utf8')) as Metadata;

/** How a step ended, and what it printed. */
export interface StepEnd {
  readonly exitCode: number | null;
  readonly text: string;
}

export interface RunningStep {
  readonly child: ChildProcess;
  readonly text: () => string;
  readonly ended: Promise<StepEnd>;
}

/** One step of a job that uses the action. */
export class ActionStep {
  readonly folder = mkdtempSync(path.join(os.tmpdir(), 'lh-action-'));
  readonly #inputs: Readonly<Record<string, string>>;

  constructor(inputs: Readonly<Record<string, string>>) {
    this.#inputs = inputs;
    for (const name of ['GITHUB_OUTPUT', 'GITHUB_ENV', 'GITHUB_STATE']) {
      writeFileSync(path.join(this.folder, name), '');
    }
  }

  /** What was written to one of the runner's files. */
  written(name: 'GITHUB_OUTPUT' | 'GITHUB_ENV' | 'GITHUB_STATE'): Record<string, string> {
    const lines = readFileSync(path.join(this.folder, name), 'utf8').trim().split('\n');
    return Object.fromEntries(lines.filter(Boolean).map((line) => splitAtFirst(line, '=')));
  }

  main(): RunningStep {
    return this.#start(metadata.runs.main, {});
  }

  /** The main step as the child of a runner, which prints `over` after it and goes on until it is killed. */
  mainOfRunner(): RunningStep {
    return this.#start(metadata.runs.main, {}, ['sh', '-c', '"$@"; echo over; exec cat', 'runner']);
  }

  post(): RunningStep {
    const state = Object.entries(this.written('GITHUB_STATE'));
    return this.#start(
      metadata.runs.post,
      Object.fromEntries(state.map(([name, value]) => [`STATE_${name}`, value])),
    );
  }

  #start(file: string, state: Record<string, string>, runner: string[] = []): RunningStep {
    const inputs = Object.entries(metadata.inputs).map(([name, { default: value = '' }]) => [
      `INPUT_${name.toUpperCase()}`,
      this.#inputs[name] ?? value,
    ]);
    const at = (name: string): string => path.join(this.folder, name);
    const [program, ...words] = [...runner, process.execPath, path.join(ACTION, file)];
    const child = spawn(program, words, {
      env: {
        PATH: process.env['PATH'],
        HOME: this.folder,
        RUNNER_TEMP: this.folder,
        GITHUB_OUTPUT: at('GITHUB_OUTPUT'),
        GITHUB_ENV: at('GITHUB_ENV'),
        GITHUB_STATE: at('GITHUB_STATE'),
        ...(Object.fromEntries(inputs) as Record<string, string>),
        ...state,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (part: string) => (text += part));
    }
    const ended = new Promise<StepEnd>((resolve) => {
      child.once('close', (exitCode) => resolve({ exitCode, text }));
    });
    return { child, text: () => text, ended };
  }
}

function splitAtFirst(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + 1)];
}
