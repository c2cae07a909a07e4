/** The report of the runs of a folder: the figures of each as JSON, and all of them as a page. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { readCommit } from '../../../bench/report/report.ts';
import { commandOf, type RunOptions } from '../options.ts';
import type { RunResult } from '../run.ts';
import { figuresOf } from './figures.ts';
import { pageOf, type RunReport } from './page.ts';

const FOLDER = 'faults-report';
/** The newest runs are shown. */
const RUNS_MAX = 100;

/** Adds a run to the folder. @returns the path of the page. */
export async function writeReport(
  options: RunOptions,
  { history, violations, folder }: RunResult,
): Promise<string> {
  await mkdir(FOLDER, { recursive: true });
  const startedAt = new Date().toISOString();
  const command = commandOf(options);
  const figures = figuresOf(history, violations);
  const run: RunReport = { command, startedAt, commit: readCommit(), figures };
  const name = startedAt.replaceAll(/[^0-9TZ]/gu, '-');
  await writeFile(path.join(FOLDER, `run-${name}.json`), `${JSON.stringify(run)}\n`);
  if (violations.length > 0) {
    await writeFile(path.join(folder, 'history.json'), JSON.stringify(history));
  }
  const page = path.join(FOLDER, 'index.html');
  await writeFile(page, pageOf(await readRuns()));
  return page;
}

async function readRuns(): Promise<RunReport[]> {
  const names = (await readdir(FOLDER)).filter((name) => /^run-.*\.json$/u.test(name)).sort();
  const texts = names.slice(-RUNS_MAX).map((name) => readFile(path.join(FOLDER, name), 'utf8'));
  return (await Promise.all(texts)).map((text) => JSON.parse(text) as RunReport);
}
