import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type EtcdTls, startEtcd, type TestEtcd } from '@leasehold/testing';
import { MACHINE_CLOCK } from '../../testing/kernel-fixture.ts';
import { aKey, anId } from '../reservation-store.contract-for-test.ts';
import type { ReservationStore } from '../reservation-store.ts';
import type { EtcdOptions } from './etcd-calls.ts';
import { createEtcdReservationStore } from './etcd-store.ts';

const PASSWORD = 'a-password-of-etcd';

let folder: string;
let etcd: TestEtcd;
let tls: { readonly ca: string; readonly cert: string; readonly key: string };

/** A CA, and a certificate of it for 127.0.0.1 that both sides use. */
async function makeCertificates(): Promise<EtcdTls> {
  const file = (name: string): string => path.join(folder, name);
  const openssl = (...args: string[]): Promise<unknown> => promisify(execFile)('openssl', args);
  const newKey = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
  await writeFile(
    file('extensions'),
    'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
  );
  await openssl(
    'req',
    '-x509',
    ...newKey,
    '-subj',
    '/CN=test CA',
    '-keyout',
    file('ca.key'),
    '-out',
    file('ca.pem'),
  );
  await openssl(
    'req',
    ...newKey.slice(0, 3),
    '-subj',
    '/O=leasehold test',
    '-keyout',
    file('key.pem'),
    '-out',
    file('csr.pem'),
  );
  await openssl(
    'x509',
    '-req',
    '-in',
    file('csr.pem'),
    '-CA',
    file('ca.pem'),
    '-CAkey',
    file('ca.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    file('extensions'),
    '-out',
    file('cert.pem'),
  );
  return { caFile: file('ca.pem'), certFile: file('cert.pem'), keyFile: file('key.pem') };
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'leasehold-etcd-tls-'));
  const files = await makeCertificates();
  const [ca, cert, key] = await Promise.all(
    [files.caFile, files.certFile, files.keyFile].map((file) => readFile(file, 'utf8')),
  );
  tls = { ca: ca ?? '', cert: cert ?? '', key: key ?? '' };
  etcd = await startEtcd({ tls: files });
  await turnAuthenticationOn();
});

afterAll(async () => {
  await etcd.stop();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

/** With a user for Leasehold that may only read and write below `/leasehold/`. */
async function turnAuthenticationOn(): Promise<void> {
  const admin = new Etcd3({
    hosts: [...etcd.endpoints],
    credentials: {
      rootCertificate: Buffer.from(tls.ca),
      certChain: Buffer.from(tls.cert),
      privateKey: Buffer.from(tls.key),
    },
  });
  try {
    const root = await admin.role('root').create();
    await (await admin.user('root').create('of-root')).addRole(root);
    const role = await admin.role('leasehold').create();
    await role.grant({ permission: 'Readwrite', range: admin.range({ prefix: '/leasehold/' }) });
    await (await admin.user('leasehold').create(PASSWORD)).addRole(role);
    await admin.auth.authEnable();
  } finally {
    admin.close();
  }
}

function storeWith(options: Omit<EtcdOptions, 'endpoints'>): ReservationStore {
  const store = createEtcdReservationStore({
    endpoints: etcd.endpoints,
    clock: MACHINE_CLOCK,
    ...options,
  });
  onTestFinished(() => store.close());
  return store;
}

test('reserves over TLS with a password and a certificate', async () => {
  const store = storeWith({ ...tls, user: 'leasehold', password: PASSWORD });
  const [key, id] = [aKey(), anId()];

  expect(await store.put(key, id)).toEqual({ outcome: 'reserved', reservationId: id });
  expect(await store.put(key, anId())).toEqual({ outcome: 'existing', reservationId: id });
  expect(await store.readNearby(key)).toBe(id);
});

test('continues after etcd has forgotten who is signed in', async () => {
  const store = storeWith({ ...tls, user: 'leasehold', password: PASSWORD });
  const [key, id] = [aKey(), anId()];
  await store.put(key, id);

  await etcd.kill(0);
  await etcd.restart(0);
  await etcd.waitUntilHealthy();

  expect(await store.read(key)).toBe(id);
});

test.each([
  ['a wrong password', { user: 'leasehold', password: 'not-that' }],
  ['no user', {}],
])('with %s every call fails, and the error contains no secret', async (_what, change) => {
  const store = storeWith({ ...tls, ...change });

  const error = await store.read(aKey()).catch((thrown: unknown) => thrown);

  expect(error).toMatchObject({ code: 'reservation.store_unreachable' });
  const told = `${String(error)} ${String((error as Error).cause)} ${JSON.stringify(error)}`;
  expect(told).not.toContain('not-that');
  expect(told).not.toContain('PRIVATE');
});

test.each(['the certificate', 'the CA'])('without %s every call fails', async (what) => {
  const { ca, ...own } = tls;
  const store = storeWith({
    ...(what === 'the CA' ? own : { ca }),
    user: 'leasehold',
    password: PASSWORD,
  });

  await expect(store.put(aKey(), anId())).rejects.toMatchObject({
    code: 'reservation.store_unreachable',
  });
});
