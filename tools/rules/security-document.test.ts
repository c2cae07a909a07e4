import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

/** `"title of a test" in \`file\`` or the file alone. */
const CITED = /(?:"(?<title>[^"\n]+)" in )?`(?<file>[\w.-]+\.test\.ts)`/gu;

test('every test that docs/security.md names exists', async () => {
  const text = await readFile(path.join(ROOT, 'docs', 'security.md'), 'utf8');
  const files = new Map(
    codeFiles(['.test.ts']).map((file) => [path.basename(file), path.join(ROOT, file)]),
  );
  const cited = [...text.matchAll(CITED)].map(({ groups }) => ({
    file: groups?.['file'] ?? '',
    title: groups?.['title'] ?? '',
  }));

  const missing: string[] = [];
  for (const { file, title } of cited) {
    const found = files.get(file);
    const source = found === undefined ? undefined : await readFile(found, 'utf8');
    if (source?.includes(title) !== true) missing.push(`${file}: ${title}`);
  }

  expect(cited.length).toBeGreaterThan(20);
  expect(missing).toEqual([]);
});
