import { expect, test } from 'vitest';
import { z } from 'zod';
import { parseEnvironment } from './environment.ts';

const schema = z.object({
  PORT: z.string().regex(/^\d+$/, 'must be a whole number').transform(Number).default(80),
  MODE: z.enum(['fast', 'slow'], 'must be fast or slow').default('slow'),
});

test('reports every problem at once, each by its variable, and repeats no value', () => {
  const parsed = parseEnvironment(schema, { PORT: 'hunter2', MODE: 'hunter2' });

  expect(parsed).toEqual({
    outcome: 'invalid',
    problems: ['PORT: must be a whole number', 'MODE: must be fast or slow'],
  });
});

test('treats a variable that is set to nothing as not set', () => {
  expect(parseEnvironment(schema, { PORT: '', MODE: undefined })).toEqual({
    outcome: 'valid',
    values: { PORT: 80, MODE: 'slow' },
  });
});
