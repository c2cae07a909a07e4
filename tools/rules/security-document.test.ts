import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '..', '..');
/** `"title of a test" in \`file\`` or the file alone. */
const CITED = /(?:"(?<title>[^"\n]+)" in )?`(?<file>[\w.-]+\.test\.ts)`/gu;

test('every test that docs/security.md names exists', async () => {
  const [text, files] = await Promise.all([
    readFile(path.join(root, 'docs', 'security.md'), 'utf8'),
    testFiles(),
  ]);
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

/** Paths of all tests, by the names of their files. */
async function testFiles(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const folder of ['libs', 'apps', 'tools', 'examples']) {
    for (const file of await readdir(path.join(root, folder), { recursive: true })) {
      if (!file.endsWith('.test.ts') || /node_modules|\/dist\//u.test(file)) continue;
      found.set(path.basename(file), path.join(root, folder, file));
    }
  }
  return found;
}
