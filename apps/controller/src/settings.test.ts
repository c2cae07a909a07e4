import { SECRETS as SECRET_VARIABLES } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { CONTROLLER_VARIABLES, readConfig } from './config.ts';

const SECRETS = {
  DATABASE_URL: 'postgresql://leasehold:s3cret-1@db.example.com/leasehold?sslpassword=s3cret-2',
  LEASEHOLD_AUTH_SECRET: 's3cret-3'.repeat(5),
  LEASEHOLD_CONSOLE_SECRET: 's3cret-4'.repeat(5),
  LEASEHOLD_FIRST_TOKEN: `lh_${'s3cret5'.repeat(6)}x`,
  LEASEHOLD_OIDC_ISSUER: 'https://id.example.com',
  LEASEHOLD_OIDC_CLIENT_ID: 'leasehold',
  LEASEHOLD_OIDC_CLIENT_SECRET: 's3cret-6',
  LEASEHOLD_WEBHOOK_URL: 'https://hooks.example.com/s3cret-7',
  LEASEHOLD_WEBHOOK_SECRET: 's3cret-8'.repeat(5),
  LEASEHOLD_ETCD: 'https://etcd.example.com:2379',
  LEASEHOLD_ETCD_USER: 'leasehold',
  LEASEHOLD_ETCD_PASSWORD: 's3cret-9',
};

test('the configuration has every variable, and no secret', () => {
  const { settings } = readConfig(SECRETS);

  expect(settings.map(({ name }) => name)).toEqual(expect.arrayContaining(CONTROLLER_VARIABLES));
  expect(JSON.stringify(settings)).not.toContain('s3cret');
  const values = Object.fromEntries(settings.map(({ name, ...rest }) => [name, rest]));
  expect(values['LEASEHOLD_AUTH_SECRET']).toEqual({ value: null, isSecret: true, isSet: true });
  expect(values['LEASEHOLD_WEBHOOK_URL']).toMatchObject({ value: 'https://hooks.example.com' });
});

test('it says what is in effect, and what is set', () => {
  const { settings } = readConfig({
    LEASEHOLD_PRESET: 'fast',
    LEASEHOLD_LIMIT_VIEWER: 'streams=7',
  });

  const values = Object.fromEntries(settings.map(({ name, ...rest }) => [name, rest]));
  expect(values['LEASEHOLD_PRESET']).toEqual({ value: 'fast', isSecret: false, isSet: true });
  expect(values['LEASEHOLD_KEY_EXPIRE_MS']).toMatchObject({ value: '6000', isSet: false });
  expect(values['LEASEHOLD_LIMIT_VIEWER']?.value).toContain('streams=7');
});

// Secrets are kept from the other processes of a machine, and from commands under a lease, by this list.
test('every variable with a secret is one that may be read from a file', () => {
  const secret = /SECRET|PASSWORD|TOKEN$|WEBHOOK_URL|DATABASE_URL/u;

  expect(SECRET_VARIABLES).toEqual(
    expect.arrayContaining(CONTROLLER_VARIABLES.filter((name) => secret.test(name))),
  );
});
