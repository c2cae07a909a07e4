import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const SOURCES = path.join(import.meta.dirname, '..', '..');

test('no name is escaped twice: what shows escapes gets the name as it is', () => {
  const twice = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.tsx'))
    .filter((file) =>
      /<(VisibleText|LongName|Mono)[^>]*>\s*\{(fullName|keyLabel|printableText)\(/u.test(
        readFileSync(path.join(SOURCES, file), 'utf8'),
      ),
    );
  expect(twice).toEqual([]);
});
