/** What is written in etcd about datacenters that are lost, or may be one day. */
import type { GivenUp, Opened, Standing } from '../given-up/given-up-types.ts';
import { foreign, objectOf, ROOT, TOKEN, type EtcdRows } from './etcd-rows.ts';

const GIVEN_UP = `${ROOT}/given-up/`;
const WAITS = `${ROOT}/given-up-wait/`;
const STANDINGS = `${ROOT}/standing/`;

/** The datacenters that were given up. */
export const GIVEN_UP_ROWS: EtcdRows<string, GivenUp> = {
  prefix: GIVEN_UP,
  keyOf: (name) => GIVEN_UP + name,
  nameOf: (key) => key.slice(GIVEN_UP.length),
  write: ({ datacenter: _name, ...row }) => JSON.stringify(row),
  read(text, datacenter) {
    const row = objectOf(text);
    const { opened = null } = row;
    return {
      datacenter,
      declaredAt: textOf(row['declaredAt']),
      declaredBy: textOf(row['declaredBy']),
      declaredIn: textOf(row['declaredIn']),
      reason: textOf(row['reason']),
      opened: opened === null ? null : openedOf(opened),
    };
  },
};

/** While such a row is there, the keys of that datacenter wait. It has a lease of etcd, by whose clock it ends. */
export const WAIT_ROWS: EtcdRows<string, string> = {
  prefix: WAITS,
  keyOf: (name) => WAITS + name,
  nameOf: (key) => key.slice(WAITS.length),
  write: (text) => text,
  read: (text) => text,
};

/** What each datacenter has made known of itself. The only rows, with the two above, that are rewritten. */
export const STANDING_ROWS: EtcdRows<string, Standing> = {
  prefix: STANDINGS,
  keyOf: (name) => STANDINGS + name,
  nameOf: (key) => key.slice(STANDINGS.length),
  write: (standing) => JSON.stringify(standing),
  read(text) {
    const { token, keyTtlMs, startAloneMs } = objectOf(text);
    return {
      token: tokenOf(token),
      keyTtlMs: numberOf(keyTtlMs),
      startAloneMs: numberOf(startAloneMs),
    };
  },
};

function openedOf(value: unknown): Opened {
  const row = objectOf(JSON.stringify(value));
  return {
    at: textOf(row['at']),
    by: textOf(row['by']),
    reason: textOf(row['reason']),
    tokenFloor: tokenOf(row['tokenFloor']),
    isAbandoned: row['isAbandoned'] === true,
  };
}

const WHAT = 'record of a datacenter';

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : foreign(WHAT);
}

function tokenOf(value: unknown): string {
  return typeof value === 'string' && TOKEN.test(value) ? value : foreign(WHAT);
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? value
    : foreign(WHAT);
}
