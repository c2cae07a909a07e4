import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { readConfig as readConsole } from '../../apps/console/src/server/config.ts';
import { readConfig } from '../../apps/controller/src/config.ts';
import { loadDroneConfig } from '../../apps/drone/src/config.ts';
import { readConfig as readGateway } from '../../apps/gateway/src/config.ts';
import { apiProblems } from './api-types.ts';
import { unread, withSecrets, type Process } from './environments.ts';
import {
  DEPLOY,
  filesOf,
  FOLDERS,
  KUBERNETES,
  kustomizationOf,
  MANIFESTS,
  matches,
  selectionOf,
  WORKLOADS,
  type Workload,
} from './manifests.ts';

/** By the labels of their pods. */
/** What runs no part of Leasehold reads none of its variables. */
type Part = Process | 'backup';

const PROCESSES: Readonly<Record<string, Part>> = {
  backup: 'backup',
  controller: 'controller',
  console: 'console',
  migration: 'migrate',
  drone: 'drone',
  gateway: 'gateway',
};
const monitorSchema = z.strictObject({
  jobLabel: z.string(),
  selector: z.strictObject({ matchLabels: z.record(z.string(), z.string()) }),
  endpoints: z.tuple([
    z.strictObject({
      port: z.string(),
      path: z.literal('/metrics'),
      interval: z.string().regex(/^\d+s$/u),
      authorization: z.strictObject({
        type: z.literal('Bearer'),
        credentials: z.strictObject({ name: z.string(), key: z.string() }),
      }),
    }),
  ]),
});
const portsSchema = z.object({ ports: z.array(z.object({ name: z.string() })) });
const ingressSchema = z.object({
  tls: z.array(z.object({ hosts: z.array(z.string()) })),
  rules: z.array(
    z.object({
      host: z.string(),
      http: z.object({
        paths: z.array(
          z.object({
            backend: z.object({
              service: z.object({ name: z.string(), port: z.object({ name: z.string() }) }),
            }),
          }),
        ),
      }),
    }),
  ),
});
const HEALTH = {
  controller: ['/healthz', '/readyz'],
  console: ['/healthz'],
  gateway: ['/healthz', '/readyz'],
} as const;
/** Where probes arrive that do not share the port of the requests. */
const PROBE_PORTS: Readonly<Record<string, readonly string[]>> = { gateway: ['metrics'] };

function processOf({ labels }: Workload): Part {
  const found = PROCESSES[labels['app.kubernetes.io/component'] ?? ''];
  if (found === undefined) throw new Error(JSON.stringify(labels));
  return found;
}

function workloadOf(process: Process): Workload {
  const found = WORKLOADS.find((one) => processOf(one) === process);
  if (found === undefined) throw new Error(process);
  return found;
}

/** The lines of the settings that a folder makes a config map of. */
function settingsOf(folder: string): Record<string, string> {
  const files = kustomizationOf(folder).configMapGenerator.flatMap(({ envs }) => envs);
  const lines = files.flatMap((file) =>
    readFileSync(path.join(KUBERNETES, folder, file), 'utf8')
      .trim()
      .split('\n'),
  );
  const settings = lines.filter((line) => !line.startsWith('#'));
  return Object.fromEntries(
    settings.map((line): [string, string] => {
      const [name = '', ...value] = line.split('=');
      return [name, value.join('=')];
    }),
  );
}

/** What a container sets by itself, and what it takes from the settings. */
function environmentOf({ container, folder }: Workload): Record<string, string> {
  const own = container.env.map(({ name, value = 'x' }): [string, string] => [name, value]);
  const settings = container.envFrom.length === 0 ? {} : settingsOf(folder);
  return { ...settings, ...Object.fromEntries(own) };
}

describe('the manifests for Kubernetes', () => {
  // The types of the operator of Prometheus are not among those of the API.
  const known = MANIFESTS.filter(({ kind }) => !['ServiceMonitor', 'PodMonitor'].includes(kind));
  const named = known.map(({ file, kind, metadata, ...rest }) => ({
    ...rest,
    kind,
    name: `${file}: ${kind} ${metadata.name}`,
  }));

  test('have only fields that the API knows, of the right types, and all that it requires', () => {
    expect(MANIFESTS.length).toBeGreaterThan(15);
    expect(apiProblems(named)).toEqual([]);
  });

  test('would not pass with a wrong field, a wrong type, or without a field that is required', () => {
    const planted = (spec: object) => ({
      apiVersion: 'v1',
      kind: 'Service',
      name: 'planted',
      whole: { apiVersion: 'v1', kind: 'Service', spec },
    });
    const problems = apiProblems([
      planted({ ports: [{ port: 1, portt: 1 }] }),
      planted({ clusterIP: 5 }),
      planted({ ports: [{}] }),
    ]);

    expect(problems).toEqual([
      expect.stringMatching(/^planted: .*'"portt"' does not exist/u),
      "planted: Type 'number' is not assignable to type 'string'.",
      expect.stringMatching(/^planted: Property '"port"' is missing/u),
    ]);
  });

  test.each(FOLDERS)(
    'of the folder %s are all applied, with images and files that exist',
    (folder) => {
      const { resources, images, configMapGenerator } = kustomizationOf(folder);
      const used = WORKLOADS.filter((one) => one.folder === folder).map(
        ({ container }) => container.image,
      );
      const made = configMapGenerator.flatMap(({ envs, files }) => [...envs, ...files]);

      expect([...resources].sort()).toEqual(filesOf(folder).sort());
      expect(images.map(({ name }) => name)).toEqual([...new Set(used)]);
      expect(made.filter((file) => !existsSync(path.join(KUBERNETES, folder, file)))).toEqual([]);
    },
  );

  test('select pods that exist, by ports that these have', () => {
    const selecting = MANIFESTS.flatMap((manifest) => {
      const selection = selectionOf(manifest);
      return selection === undefined
        ? []
        : [{ name: `${manifest.kind} ${manifest.metadata.name}`, ...selection }];
    });
    const wrong = selecting.flatMap(({ name, labels, ports }) => {
      const pods = WORKLOADS.filter((one) => matches(labels, one.labels));
      const portNames = pods.flatMap(({ container }) => container.ports.map((port) => port.name));
      const missing = ports.filter((port) => typeof port === 'string' && !portNames.includes(port));
      return pods.length === 0 || missing.length > 0 ? [name] : [];
    });

    expect(selecting.length).toBeGreaterThan(10);
    expect(wrong).toEqual([]);
    const { spec } = workloadOf('controller');
    expect(MANIFESTS.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toContain(
      `Service ${spec?.serviceName ?? ''}`,
    );
  });

  test('Prometheus reads a service that exists, at its port and with a token; the ingress ends at services', () => {
    const [monitor] = MANIFESTS.filter(({ kind }) => kind === 'ServiceMonitor');
    const { spec } = z.object({ spec: monitorSchema }).parse(monitor?.whole);
    const { selector, endpoints } = spec;
    const services = MANIFESTS.filter(({ kind }) => kind === 'Service');
    const portsOf = (name: string): string[] =>
      services
        .filter(({ metadata }) => metadata.name === name)
        .flatMap((one) => portsSchema.parse(one.spec).ports.map((port) => port.name));
    const read = services.filter(({ metadata }) => matches(selector.matchLabels, metadata.labels));
    const [ingress] = MANIFESTS.filter(({ kind }) => kind === 'Ingress');
    const { tls, rules } = ingressSchema.parse(ingress?.spec);

    expect(read.map(({ metadata }) => metadata.name)).toEqual(['controllers']);
    expect(portsOf('controllers')).toContain(endpoints[0].port);
    const ends = rules.flatMap(({ http }) => http.paths.map(({ backend }) => backend.service));
    expect(ends.map(({ name }) => name)).toEqual(['console', 'leasehold']);
    for (const { name, port } of ends) expect(portsOf(name)).toContain(port.name);
    expect(tls.flatMap(({ hosts }) => hosts)).toEqual(rules.map(({ host }) => host));
    const { LEASEHOLD_CONSOLE_ORIGIN: origin } = settingsOf('.');
    expect(origin).toBe(`https://${rules[0]?.host ?? ''}`);
  });

  test('Prometheus gives controllers the name of the job that the alerts ask for', () => {
    const [monitor] = MANIFESTS.filter(({ kind }) => kind === 'ServiceMonitor');
    const { jobLabel, selector } = z.object({ spec: monitorSchema }).parse(monitor?.whole).spec;
    const jobs = MANIFESTS.filter(
      ({ kind, metadata }) => kind === 'Service' && matches(selector.matchLabels, metadata.labels),
    ).map(({ metadata }) => metadata.labels[jobLabel]);
    const alerts = readFileSync(path.join(DEPLOY, 'observability/alerts.yaml'), 'utf8');
    const [, rule = ''] = /alert: LeaseholdControllerDown\n +expr: '(.*)'/u.exec(alerts) ?? [];

    // Without a service that it finds, Prometheus has no series that could be 0.
    expect(rule).toBe('up{job="leasehold"} == 0 or absent(up{job="leasehold"})');
    const asked = [...alerts.matchAll(/^ +expr: .*job="([^"]*)"/gmu)].map(([, job]) => job);
    expect(jobs).toEqual(['leasehold']);
    expect(new Set(asked)).toEqual(new Set(jobs));
  });

  test('Prometheus may reach the port at which it reads gateways', () => {
    const allowed = MANIFESTS.filter(({ kind }) => kind === 'NetworkPolicy')
      .flatMap((manifest) => selectionOf(manifest) ?? [])
      .filter(({ labels }) => matches(labels, workloadOf('gateway').labels));
    const [monitor] = MANIFESTS.filter(({ kind }) => kind === 'PodMonitor').flatMap(
      (manifest) => selectionOf(manifest) ?? [],
    );

    expect(monitor?.ports).toEqual(['metrics']);
    expect(allowed.flatMap(({ ports }) => ports)).toEqual(expect.arrayContaining(['metrics']));
  });

  test('keep two of three controllers, a console and a gateway while nodes are drained', () => {
    const budgets = MANIFESTS.filter(({ kind }) => kind === 'PodDisruptionBudget');

    expect(budgets.map(({ spec }) => spec?.['maxUnavailable'])).toEqual([1, 1, 1]);
    expect(workloadOf('controller').spec?.['replicas']).toBe(3);
    expect(workloadOf('console').spec?.['replicas']).toBe(2);
    expect(workloadOf('gateway').spec?.['replicas']).toBe(2);
  });
});

/** Everything with containers, wherever it is in a manifest. */
function podSpecsIn(value: unknown): Readonly<Record<string, unknown>>[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = 'containers' in value ? [{ ...value }] : [];
  return [...own, ...Object.values(value).flatMap(podSpecsIn)];
}

describe('every pod', () => {
  test('gets no variables of services: that of `leasehold` would be LEASEHOLD_PORT=tcp://…', () => {
    const pods = MANIFESTS.flatMap(({ file, whole }) =>
      podSpecsIn(whole).map(({ enableServiceLinks }) => ({ file, enableServiceLinks })),
    );

    expect(pods).toHaveLength(WORKLOADS.length);
    expect(pods.filter(({ enableServiceLinks }) => enableServiceLinks !== false)).toEqual([]);
  });

  test.each(WORKLOADS.map((one) => [processOf(one), one] as const))(
    'of %s has a read-only root, no capability and no token of the cluster',
    (process, one) => {
      const { securityContext } = one.container;

      expect(one.pod.automountServiceAccountToken).toBe(false);
      expect(one.pod.securityContext.seccompProfile.type).toBe('RuntimeDefault');
      expect(securityContext.readOnlyRootFilesystem).toBe(true);
      expect(securityContext.capabilities.drop).toEqual(['ALL']);
      expect(one.pod.securityContext.runAsNonRoot).toBe(process === 'drone' ? undefined : true);
      expect(securityContext.allowPrivilegeEscalation).toBe(
        process === 'drone' ? undefined : false,
      );
      expect(Object.keys(one.container.resources.limits)).toEqual(['memory', 'ephemeral-storage']);
      const volumes = [...one.pod.volumes.map(({ name }) => name), ...one.claims];
      expect(
        one.container.volumeMounts
          .map(({ name }) => name)
          .filter((name) => !volumes.includes(name)),
      ).toEqual([]);
    },
  );

  test.each(WORKLOADS.map((one) => [processOf(one), one] as const))(
    'of %s calls only what a policy of its namespace names',
    (_process, one) => {
      const { namespace } = kustomizationOf(one.folder);
      const policies = MANIFESTS.filter(
        ({ kind, folder, spec }) =>
          kind === 'NetworkPolicy' &&
          kustomizationOf(folder).namespace === namespace &&
          (spec?.['policyTypes'] as string[]).includes('Egress'),
      );
      const selected = policies.filter((policy) =>
        matches(selectionOf(policy)?.labels ?? {}, one.labels),
      );

      // Without one that selects it, a pod may call everything.
      expect(selected.length).toBeGreaterThan(0);
    },
  );

  test.each(WORKLOADS.map((one) => [processOf(one), one] as const))(
    'of %s sets only variables that its configuration reads',
    (process, one) => {
      const own = one.container.env.map(({ name }) => name);

      expect(process === 'backup' ? own : unread([process], own)).toEqual([]);
    },
  );

  test('has the probes of what it runs, at ports that it has', () => {
    for (const process of ['controller', 'console', 'gateway'] as const) {
      const { startupProbe, livenessProbe, readinessProbe, ports } = workloadOf(process).container;
      const probes = [startupProbe, livenessProbe, readinessProbe].flatMap(
        (probe) => probe?.httpGet ?? [],
      );

      expect([...new Set(probes.map((probe) => probe.path))]).toEqual([...HEALTH[process]]);
      expect(new Set(probes.map(({ port }) => port))).toEqual(
        new Set(PROBE_PORTS[process] ?? ports.map(({ name }) => name)),
      );
      // A database that is unreachable must restart nothing.
      expect(livenessProbe?.httpGet?.path).toBe('/healthz');
    }
  });

  test('has a configuration that its process accepts, and settings that somebody reads', () => {
    const controller = readConfig(withSecrets(environmentOf(workloadOf('controller'))));
    const page = readConsole(withSecrets(environmentOf(workloadOf('console'))));
    const gateway = readGateway(withSecrets(environmentOf(workloadOf('gateway'))));
    const file = path.join(KUBERNETES, 'drones/drone.json');
    const drone = loadDroneConfig(file, withSecrets(environmentOf(workloadOf('drone'))));

    expect(unread(['controller', 'console'], Object.keys(settingsOf('.')))).toEqual([]);
    expect(controller.signIn.consoleOrigin).toBe(page.origin);
    // The migration and the backup read no settings.
    expect(settingsOf('.')).not.toHaveProperty('LEASEHOLD_SCHEMA');
    // Without gateways, an access must not name one.
    expect(controller.gateway.url).toBeNull();
    const text = readFileSync(path.join(KUBERNETES, 'settings.env'), 'utf8');
    expect(text).toContain(`# LEASEHOLD_GATEWAY_URL=${String(gateway.publicUrl)}`);
    // Addresses of pods prove nothing: backends have such addresses too.
    expect(page.consoleSecret).not.toBeNull();
    expect(controller.signIn.consoleSecret).toBe(page.consoleSecret);
    expect([controller.signIn.trustedProxies, page.trustedProxies]).toEqual([[], []]);
    expect(drone.isolation.require).toBe('own-user');
    expect(drone.datacenter).toBe(controller.datacenter);
  });
});

test('a drone has the same capabilities under systemd, in the compose file and in Kubernetes', () => {
  const unit = readFileSync(path.join(DEPLOY, 'drone/leasehold-drone.service'), 'utf8');
  const [, bounding = ''] = /^CapabilityBoundingSet=(.*)$/mu.exec(unit) ?? [];
  const names = bounding.split(' ').map((name) => name.replace(/^CAP_/u, ''));

  expect(workloadOf('drone').container.securityContext.capabilities.add).toEqual(names);
  expect(readFileSync(path.join(DEPLOY, 'compose/compose.yaml'), 'utf8')).toContain(
    `cap_add: [${names.join(', ')}]`,
  );
});

test('nothing may be called that is not named: every rule of egress has an end, and ports', () => {
  const rules = MANIFESTS.filter(({ kind }) => kind === 'NetworkPolicy').flatMap(
    ({ metadata, spec }) =>
      ((spec?.['egress'] ?? []) as { to?: object[]; ports?: object[] }[]).map((rule) => ({
        name: metadata.name,
        ...rule,
      })),
  );

  expect(rules.length).toBeGreaterThan(4);
  expect(
    rules.filter(
      ({ to = [], ports = [] }) =>
        to.length === 0 ||
        ports.length === 0 ||
        to.some((end) => Object.values(end).some((one) => Object.keys(one as object).length === 0)),
    ),
  ).toEqual([]);
});
