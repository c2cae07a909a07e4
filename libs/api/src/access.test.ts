import { describe, expect, test } from 'vitest';
import { LeaseError } from '@leasehold/keys-core';
import {
  assertMayOffer,
  assertMayReport,
  assertMayStart,
  errorFor,
  isWithinRange,
} from './access.ts';

describe('addresses of a drone token', () => {
  test.each([
    ['10.1.2.3:21000', '10.1.0.0/16', true],
    ['10.2.2.3:21000', '10.1.0.0/16', false],
    ['10.1.2.3:21000', '10.1.0.0/16:21000-29999', true],
    ['10.1.2.3:29999', '10.1.0.0/16:21000-29999', true],
    ['10.1.2.3:30000', '10.1.0.0/16:21000-29999', false],
    ['10.1.2.3:20999', '10.1.0.0/16:21000-29999', false],
    ['10.1.2.3:21001', '10.1.2.3/32:21000', false],
    ['[fd00::1]:80', '[fd00::/8]:80', true],
    ['[fd00::1]:81', '[fd00::/8]:80', false],
    ['[fd00::1]:80', 'fd00::/8', true],
    ['[fe80::1]:80', 'fd00::/8', false],
    ['[::ffff:10.1.2.3]:80', '10.1.0.0/16', true],
    ['10.1.2.3:80', 'fd00::/8', false],
    ['backend.example:80', '0.0.0.0/0', false],
    ['10.1.2.3', '0.0.0.0/0', false],
    ['10.1.2.3:99999', '0.0.0.0/0', false],
    ['010.1.2.3:80', '0.0.0.0/0', false],
    ['169.254.169.254:80', '10.0.0.0/8', false],
  ])('%s is within %s: %s', (address, range, isWithin) => {
    expect(isWithinRange(address, range)).toBe(isWithin);
  });

  test('a report is refused if its address is not allowed, and accepted if it has none', () => {
    const access = { addresses: ['10.1.0.0/16', '10.2.0.0/16:80'] };
    const code = expect.objectContaining({ code: 'drone.not_allowed' }) as unknown;

    expect(() => assertMayReport(access, '10.3.0.1:80')).toThrow(code);
    expect(() => assertMayReport(access, '10.2.0.1:80')).not.toThrow();
    expect(() => assertMayReport(access, undefined)).not.toThrow();
    expect(() => assertMayReport({ addresses: null }, '10.3.0.1:80')).not.toThrow();
  });
});

describe('programs and capacity of a token', () => {
  const offered = { programs: [{ name: 'room' }, { name: 'match' }], capacity: 10 };

  test.each([
    ['another program', { programs: ['room'], capacity: null }],
    ['more capacity', { programs: null, capacity: 9 }],
  ])('a drone that offers %s is refused', (_what, access) => {
    expect(() => assertMayOffer(access, offered)).toThrow(
      expect.objectContaining({ code: 'drone.not_allowed' }),
    );
  });

  test('a drone is let in if its token allows what it offers or has no bounds', () => {
    expect(() =>
      assertMayOffer({ programs: ['room', 'match'], capacity: 10 }, offered),
    ).not.toThrow();
    expect(() => assertMayOffer({ programs: null, capacity: null }, offered)).not.toThrow();
    expect(() => assertMayOffer({}, offered)).not.toThrow();
  });

  test.each([
    ['any program', { namespaces: null, programs: null }, ['api', 'web']],
    ['one program', { namespaces: null, programs: ['web', 'wbe'] }, ['web']],
    ['other programs', { namespaces: null, programs: ['wbe'] }, undefined],
    ['some namespaces', { namespaces: ['game'], programs: null }, undefined],
  ])('a token for %s is told of programs only what it may see and start', (_what, access, seen) => {
    const error = new LeaseError('spawn.no_drone', 'said', {
      details: { program: 'wbe', offered: ['api', 'web'] },
    });

    expect(errorFor(access, error)).toMatchObject({
      code: 'spawn.no_drone',
      message: 'said',
      details: { program: 'wbe', ...(seen && { offered: seen }) },
    });
    expect((errorFor(access, error) as LeaseError).details['offered']).toEqual(seen);
  });

  test('a client may start only the programs of its token, and may connect without a program', () => {
    const code = expect.objectContaining({ code: 'spawn.not_allowed' }) as unknown;

    expect(() => assertMayStart({ programs: ['room'] }, 'match')).toThrow(code);
    expect(() => assertMayStart({ programs: ['room'] }, 'room')).not.toThrow();
    expect(() => assertMayStart({ programs: ['room'] }, undefined)).not.toThrow();
    expect(() => assertMayStart({ programs: null }, 'match')).not.toThrow();
  });
});
