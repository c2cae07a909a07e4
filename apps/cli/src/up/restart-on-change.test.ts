import { mkdirSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { watchFiles, type FileWatch } from './restart-on-change.ts';

let folder: string;
let watching: FileWatch | undefined;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-watch-'));
  for (const name of ['src/inner', 'src/node_modules', 'src/.git']) {
    mkdirSync(path.join(folder, name), { recursive: true });
  }
  for (const name of ['a.mjs', 'b.mjs', 'src/inner/c.mjs']) write(name, '1');
});
afterEach(() => {
  watching?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

const at = (name: string): string => path.join(folder, name);
function write(name: string, text: string): void {
  writeFileSync(at(name), text);
}

/** The changes that are reported, one after the other. */
function watched(...names: string[]): () => Promise<string[]> {
  const reports: string[][] = [];
  let tell: () => void = () => undefined;
  watching = watchFiles(names.map(at), {
    onChange: (files) => {
      reports.push(files.map((file) => path.relative(folder, file)).sort());
      tell();
    },
    onProblem: (error) => expect.unreachable(String(error)),
  });
  return async () => {
    while (reports.length === 0) await new Promise<void>((resolve) => (tell = resolve));
    return reports.shift() ?? [];
  };
}

describe('watchFiles', () => {
  test('a file that is written, replaced by another, or touched has changed; its neighbours have not', async () => {
    const change = watched('a.mjs');

    write('b.mjs', '2');
    write('a.mjs', '2');
    expect(await change()).toEqual(['a.mjs']);
    write('a.mjs.tmp', '3');
    renameSync(at('a.mjs.tmp'), at('a.mjs'));
    expect(await change()).toEqual(['a.mjs']);
    utimesSync(at('a.mjs'), 1, 1);
    expect(await change()).toEqual(['a.mjs']);
  });

  test('a burst of writes is one change', async () => {
    const change = watched('a.mjs', 'b.mjs');

    for (let text = 10; text < 60; text += 1) {
      write('a.mjs', String(text));
      write('b.mjs', String(text));
    }
    expect(await change()).toEqual(['a.mjs', 'b.mjs']);
    write('b.mjs', 'more');
    expect(await change()).toEqual(['b.mjs']);
  });

  test('a file that its editor removes for a moment has changed when it is back', async () => {
    const change = watched('a.mjs', 'b.mjs');

    rmSync(at('a.mjs'));
    write('b.mjs', 'seen after the removal');
    expect(await change()).toEqual(['b.mjs']);
    write('a.mjs', 'back');
    expect(await change()).toEqual(['a.mjs']);
  });

  test('of a folder, what comes, changes and goes at any depth; not what is installed, hidden, or written by programs', async () => {
    const change = watched('src');

    write('src/node_modules/x.mjs', '1');
    write('src/.git/index', '1');
    for (const name of ['out.log', 'data.db', 'data.sqlite-wal', 'a.mjs~']) {
      write(`src/${name}`, '1');
    }
    write('src/inner/c.mjs', '22');
    expect(await change()).toEqual(['src/inner/c.mjs']);
    mkdirSync(at('src/new'));
    write('src/new/d.mjs', '1');
    expect(await change()).toEqual(['src/new/d.mjs']);
    write('src/new/d.mjs', '22');
    expect(await change()).toEqual(['src/new/d.mjs']);
    rmSync(at('src/new'), { recursive: true });
    expect(await change()).toEqual(['src/new/d.mjs']);
  });
});
