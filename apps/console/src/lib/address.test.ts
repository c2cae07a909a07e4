import { expect, test } from 'vitest';
import {
  choiceParam,
  flagParam,
  integerParam,
  searchWith,
  textParam,
  textsOf,
  textsParam,
  valuesOf,
} from './address.ts';

const PARAMS = {
  q: textParam.withDefault(''),
  after: textParam,
  before: integerParam,
  live: flagParam.withDefault(false),
  kinds: textsParam.withDefault([]),
  tab: choiceParam(['grants', 'events']).withDefault('grants'),
};

const read = (address: string) => valuesOf(PARAMS, new URLSearchParams(address));
const written = (before: string, changes: Parameters<typeof textsOf<typeof PARAMS>>[1]) =>
  searchWith(new URLSearchParams(before), new Map(textsOf(PARAMS, changes)));

test('a page has its defaults until the address says something else', () => {
  expect(read('')).toEqual({
    q: '',
    after: null,
    before: null,
    live: false,
    kinds: [],
    tab: 'grants',
  });
  expect(read('q=a%26b&after=c&before=100&live=true&kinds=granted,revoked&tab=events')).toEqual({
    q: 'a&b',
    after: 'c',
    before: 100,
    live: true,
    kinds: ['granted', 'revoked'],
    tab: 'events',
  });
});

test('what is no value of a parameter is as good as none', () => {
  expect(read('before=many&live=yes&kinds=&tab=nonsense')).toEqual(read(''));
});

test('the address names only what differs from the default, and keeps what others have in it', () => {
  const changes = { q: 'phase:held "a b"', kinds: ['granted', 'ended'], tab: 'events' } as const;
  expect(written('window=15', { ...changes, kinds: [...changes.kinds] })).toBe(
    'window=15&q=phase:held+%22a+b%22&kinds=granted,ended&tab=events',
  );
  expect(written('q=x&tab=events&kinds=a', { q: null, tab: 'grants', kinds: [] })).toBe('');
});

test('what is written is read again', () => {
  const changes = { q: 'a/b, c=d & 100 % #1', after: 'é+/=', before: 200, live: true };
  expect(read(written('', changes))).toMatchObject(changes);
});

test('a first page has no number of rows before it', () => {
  expect(written('after=c&before=100', { after: null })).toBe('');
});
