import { expect, test } from 'vitest';
import { assertBound } from './call-kinds.ts';

const namesOf = (count: number): string =>
  `{${Array.from({ length: count }, (_, nth) => `"${nth.toString(36)}":1`).join(',')}}`;

test.each([10_000, 60_000])(
  'a message with very many different names is refused where it may have %i values, however short it is',
  (valuesMax) => {
    const refusalOf = (json: string) => () =>
      assertBound({ bytesMax: 1_000_000, valuesMax }, { bytes: json.length, json });

    expect(namesOf(4_001).length).toBeLessThan(40_000);
    expect(refusalOf(namesOf(4_001))).toThrow(
      expect.objectContaining({ code: 'request.too_large' }) as Error,
    );
    expect(refusalOf(namesOf(4_000))).not.toThrow();
  },
);
