/**
 * Datacenters that were given up, in etcd. A row is declared, then opened; opened is final. In between a
 * second row with a lease of etcd stands for the wait, so that etcd's own clock ends it: the clocks of
 * databases are not compared, and a new leader of etcd only prolongs it.
 */
import type { ICompare, IRequestOp } from 'etcd3';
import type { GivenUp, Opened, Standing } from '../given-up.ts';
import {
  DATACENTER_ROWS,
  type EtcdCalls,
  type EtcdRows,
  foreign,
  objectOf,
  ROOT,
  TOKEN,
} from './etcd-calls.ts';

/** A row as it was read: a later write changes its revision. */
export interface ReadGivenUp extends GivenUp {
  readonly revision: string;
}

export interface EtcdGivenUp {
  /** All of them. Linearizable. */
  list(): Promise<readonly ReadGivenUp[]>;
  /**
   * Writes a declaration. `waitMs` null: only somebody who is certain ends the wait. @returns false when there is one
   * already.
   */
  declare(givenUp: GivenUp, waitMs: number | null): Promise<boolean>;
  /** Lets its keys be given other homes. @returns false when it waits, or was changed since it was read. */
  open(seen: ReadGivenUp, opened: Opened): Promise<boolean>;
  /** Removes a declaration. @returns false when it was changed since it was read. */
  takeBack(seen: ReadGivenUp): Promise<boolean>;
  /** Writes an opened row that an etcd which was lost, or restored to before, had; not over another opened one. */
  putBack(givenUp: GivenUp): Promise<void>;
  /** How long a wait takes still: 0 when it is over, null when it has no end of its own. */
  remainingMs(datacenter: string): Promise<number | null>;
  isRegistered(datacenter: string): Promise<boolean>;
  readStanding(datacenter: string): Promise<Standing | undefined>;
  /** Writes what `change` makes of what is there. */
  changeStanding(
    datacenter: string,
    change: (known: Standing | undefined) => Standing,
  ): Promise<void>;
}

/** There are a handful of datacenters. */
const ROWS_MAX = 1_000;

export function createEtcdGivenUp(calls: EtcdCalls): EtcdGivenUp {
  return {
    async list() {
      const key = Buffer.from(GIVEN_UP_ROWS.prefix);
      const end = Buffer.from(`${GIVEN_UP_ROWS.prefix.slice(0, -1)}0`);
      const { kvs } = await calls.range({ key, range_end: end, limit: ROWS_MAX });
      return kvs.map(({ key: name, value, mod_revision: revision }) => ({
        ...GIVEN_UP_ROWS.read(value.toString(), GIVEN_UP_ROWS.nameOf(name.toString())),
        revision,
      }));
    },
    async declare(givenUp, waitMs) {
      const name = givenUp.datacenter;
      // A lease whose declaration was not written ends by itself.
      const lease = waitMs === null ? '0' : await calls.grantLease(Math.ceil(waitMs / 1_000));
      const { succeeded } = await calls.txn({
        compare: [isAbsent(GIVEN_UP_ROWS, name)],
        success: [
          putOf(GIVEN_UP_ROWS, name, givenUp),
          putOf(WAIT_ROWS, name, givenUp.declaredAt, lease),
        ],
        failure: [],
      });
      return succeeded;
    },
    async open({ revision, ...givenUp }, opened) {
      const name = givenUp.datacenter;
      const isOver = opened.isAbandoned ? [] : [isAbsent(WAIT_ROWS, name)];
      const row = { ...givenUp, opened };
      const { succeeded } = await calls.txn({
        compare: [isUnchanged(name, revision), ...isOver],
        success: [putOf(GIVEN_UP_ROWS, name, row), deleteOf(WAIT_ROWS, name)],
        failure: [],
      });
      return succeeded;
    },
    async takeBack({ datacenter: name, revision }) {
      const { succeeded } = await calls.txn({
        compare: [isUnchanged(name, revision)],
        success: [deleteOf(GIVEN_UP_ROWS, name), deleteOf(WAIT_ROWS, name)],
        failure: [],
      });
      return succeeded;
    },
    async putBack(givenUp) {
      const name = givenUp.datacenter;
      let isThere = false;
      while (!isThere) {
        const row = await readRow(calls, GIVEN_UP_ROWS, name);
        if (row !== undefined && GIVEN_UP_ROWS.read(row.value.toString(), name).opened !== null) {
          return;
        }
        const { succeeded } = await calls.txn({
          compare: [revisionIs(GIVEN_UP_ROWS, name, row?.mod_revision ?? '0')],
          success: [putOf(GIVEN_UP_ROWS, name, givenUp), deleteOf(WAIT_ROWS, name)],
          failure: [],
        });
        isThere = succeeded;
      }
    },
    async remainingMs(datacenter) {
      const wait = await readRow(calls, WAIT_ROWS, datacenter);
      if (wait === undefined) return 0;
      return wait.lease === '0' ? null : calls.leaseMs(wait.lease);
    },
    isRegistered: async (datacenter) =>
      (await readRow(calls, DATACENTER_ROWS, datacenter)) !== undefined,
    ...createStandings(calls),
  };
}

function createStandings(calls: EtcdCalls): Pick<EtcdGivenUp, 'readStanding' | 'changeStanding'> {
  return {
    async readStanding(datacenter) {
      const row = await readRow(calls, STANDING_ROWS, datacenter);
      return row === undefined ? undefined : STANDING_ROWS.read(row.value.toString(), datacenter);
    },
    async changeStanding(datacenter, change) {
      let isWritten = false;
      while (!isWritten) {
        const row = await readRow(calls, STANDING_ROWS, datacenter);
        const known =
          row === undefined ? undefined : STANDING_ROWS.read(row.value.toString(), datacenter);
        const next = change(known);
        if (known !== undefined && STANDING_ROWS.write(known) === STANDING_ROWS.write(next)) return;
        const { succeeded } = await calls.txn({
          compare: [revisionIs(STANDING_ROWS, datacenter, row?.mod_revision ?? '0')],
          success: [putOf(STANDING_ROWS, datacenter, next)],
          failure: [],
        });
        isWritten = succeeded;
      }
    },
  };
}

async function readRow(calls: EtcdCalls, rows: Places, name: string) {
  return (await calls.range({ key: Buffer.from(rows.keyOf(name)), limit: 1 })).kvs[0];
}

/** Where rows of a kind are. */
type Places = Pick<EtcdRows<string, never>, 'keyOf'>;

function isAbsent(rows: Places, name: string): ICompare {
  const key = Buffer.from(rows.keyOf(name));
  return { key, target: 'Create', result: 'Equal', create_revision: 0 };
}

function isUnchanged(name: string, revision: string): ICompare {
  return revisionIs(GIVEN_UP_ROWS, name, revision);
}

function revisionIs(rows: Places, name: string, revision: string): ICompare {
  return {
    key: Buffer.from(rows.keyOf(name)),
    target: 'Mod',
    result: 'Equal',
    mod_revision: revision,
  };
}

function putOf<Value>(
  rows: EtcdRows<string, Value>,
  name: string,
  value: Value,
  lease = '0',
): IRequestOp {
  const key = Buffer.from(rows.keyOf(name));
  return { request_put: { key, value: Buffer.from(rows.write(value)), lease } };
}

function deleteOf(rows: Places, name: string): IRequestOp {
  return { request_delete_range: { key: Buffer.from(rows.keyOf(name)) } };
}

// What is written in etcd about datacenters that are lost, or may be one day.

const GIVEN_UP = `${ROOT}/given-up/`;
const WAITS = `${ROOT}/given-up-wait/`;
const STANDINGS = `${ROOT}/standing/`;

/** The datacenters that were given up. */
const GIVEN_UP_ROWS: EtcdRows<string, GivenUp> = {
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
const WAIT_ROWS: EtcdRows<string, string> = {
  prefix: WAITS,
  keyOf: (name) => WAITS + name,
  nameOf: (key) => key.slice(WAITS.length),
  write: (text) => text,
  read: (text) => text,
};

/** What each datacenter has made known of itself. The only rows, with the two above, that are rewritten. */
const STANDING_ROWS: EtcdRows<string, Standing> = {
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
