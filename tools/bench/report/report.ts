/** The report of a run: what was measured, on what, as JSON and as a page. */
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { verdictOf, type Figure } from '../rig/figures.ts';
import { pageOf } from './page.ts';
import type { Machine, Report, Section } from './report-types.ts';

const FOLDER = 'bench-report';

export function sectionOf(name: string, figures: readonly Figure[]): Section {
  return { name, figures: figures.map((figure) => ({ ...figure, verdict: verdictOf(figure) })) };
}

export function readMachine(postgres: string): Machine {
  return {
    processor: os.cpus()[0]?.model ?? 'unknown',
    coreCount: os.availableParallelism(),
    memoryGb: Math.round(os.totalmem() / 1_024 ** 3),
    system: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
    postgres,
  };
}

/** The commit that is measured, with a mark if files differ from it; `unknown` outside of a clone. */
export function readCommit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}

/** Writes both files. @returns their paths. */
export async function writeReport(report: Report): Promise<string[]> {
  await mkdir(FOLDER, { recursive: true });
  const json = path.join(FOLDER, 'report.json');
  const page = path.join(FOLDER, 'index.html');
  await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(page, pageOf(report));
  return [json, page];
}
