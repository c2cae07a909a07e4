/** The manifests of deploy/kubernetes, and what of them the tests look at. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { z } from 'zod';

export const DEPLOY = path.resolve(import.meta.dirname, '../../deploy');
export const KUBERNETES = path.join(DEPLOY, 'kubernetes');
/** Each is applied by itself. */
export const FOLDERS = ['.', 'migration', 'drones', 'gateways', 'backup', 'ingress', 'monitoring'];
const KUSTOMIZATION = 'kustomization.yaml';

const labels = z.record(z.string(), z.string());
const port = z.union([z.string(), z.number()]);
const probe = z.object({ httpGet: z.object({ path: z.string(), port }).optional() }).optional();
const container = z.object({
  name: z.string(),
  image: z.string(),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })).default([]),
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })).default([]),
  envFrom: z.array(z.object({ configMapRef: z.object({ name: z.string() }) })).default([]),
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  resources: z.object({ requests: labels, limits: labels }),
  securityContext: z.object({
    runAsUser: z.number().optional(),
    allowPrivilegeEscalation: z.boolean().optional(),
    readOnlyRootFilesystem: z.boolean(),
    capabilities: z.object({ drop: z.array(z.string()), add: z.array(z.string()).default([]) }),
  }),
  volumeMounts: z.array(z.object({ name: z.string() })).default([]),
});
const podSpec = z.object({
  serviceAccountName: z.string().optional(),
  automountServiceAccountToken: z.boolean(),
  securityContext: z.object({
    runAsNonRoot: z.boolean().optional(),
    seccompProfile: z.object({ type: z.string() }),
  }),
  containers: z.array(container),
  volumes: z
    .array(z.object({ name: z.string(), secret: z.object({ secretName: z.string() }).optional() }))
    .default([]),
});
const selector = z.object({ matchLabels: labels }).optional();
const documentSchema = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.object({ name: z.string(), labels: labels.default({}) }),
  spec: z
    .looseObject({
      jobTemplate: z
        .object({
          spec: z.object({
            template: z.object({ metadata: z.object({ labels }), spec: podSpec }),
          }),
        })
        .optional(),
      template: z.object({ metadata: z.object({ labels }), spec: podSpec }).optional(),
      serviceName: z.string().optional(),
      volumeClaimTemplates: z
        .array(z.object({ metadata: z.object({ name: z.string() }) }))
        .default([]),
    })
    .optional(),
});
const kustomizationSchema = z.strictObject({
  apiVersion: z.literal('kustomize.config.k8s.io/v1beta1'),
  kind: z.literal('Kustomization'),
  namespace: z.string(),
  resources: z.array(z.string()),
  configMapGenerator: z
    .array(
      z.strictObject({
        name: z.string(),
        envs: z.array(z.string()).default([]),
        files: z.array(z.string()).default([]),
      }),
    )
    .default([]),
  images: z.array(z.strictObject({ name: z.string(), newName: z.string(), newTag: z.string() })),
});
const serviceSchema = z.object({
  selector: labels,
  ports: z.array(z.object({ targetPort: port })),
});
const podMonitorSchema = z.object({
  selector: z.object({ matchLabels: labels }),
  podMetricsEndpoints: z.array(
    z.strictObject({ port: z.string(), path: z.literal('/metrics'), interval: z.string() }),
  ),
});
const policySchema = z.object({
  podSelector: z.object({ matchLabels: labels.default({}) }),
  ingress: z.array(z.object({ ports: z.array(z.object({ port })) })).default([]),
});

export type Container = z.infer<typeof container>;
export type Manifest = z.infer<typeof documentSchema> & {
  /** The folder and the file, from deploy/kubernetes. */
  readonly folder: string;
  readonly file: string;
  /** As it was written. */
  readonly whole: unknown;
};

export function kustomizationOf(folder: string): z.infer<typeof kustomizationSchema> {
  const [document] = loadAll(readFileSync(path.join(KUBERNETES, folder, KUSTOMIZATION), 'utf8'));
  return kustomizationSchema.parse(document);
}

/** Files of manifests in a folder. */
export function filesOf(folder: string): string[] {
  return readdirSync(path.join(KUBERNETES, folder)).filter(
    (name) => name.endsWith('.yaml') && name !== KUSTOMIZATION,
  );
}

export function manifestsOf(folder: string): Manifest[] {
  return filesOf(folder).flatMap((file) =>
    loadAll(readFileSync(path.join(KUBERNETES, folder, file), 'utf8')).map((whole) => ({
      ...documentSchema.parse(whole),
      folder,
      file: path.join(folder, file),
      whole,
    })),
  );
}

export const MANIFESTS: readonly Manifest[] = FOLDERS.flatMap(manifestsOf);

/** Everything that makes pods. */
export const WORKLOADS = MANIFESTS.flatMap((manifest) => {
  const { spec } = manifest;
  const template = spec?.template ?? spec?.jobTemplate?.spec.template;
  if (template === undefined) return [];
  const [first] = template.spec.containers;
  if (first === undefined || template.spec.containers.length > 1) throw new Error(manifest.file);
  return [
    {
      ...manifest,
      labels: template.metadata.labels,
      pod: template.spec,
      container: first,
      claims: (spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name),
    },
  ];
});
export type Workload = (typeof WORKLOADS)[number];

/** The labels by which a manifest selects pods, and the ports that it names; undefined when it selects none. */
export function selectionOf({ kind, spec: given }: Manifest):
  | {
      readonly labels: Readonly<Record<string, string>>;
      readonly ports: readonly (string | number)[];
    }
  | undefined {
  const spec: unknown = given ?? {};
  if (kind === 'Service') {
    const service = serviceSchema.parse(spec);
    return { labels: service.selector, ports: service.ports.map(({ targetPort }) => targetPort) };
  }
  if (kind === 'ServiceMonitor') return undefined;
  if (kind === 'PodMonitor') {
    const { selector: pods, podMetricsEndpoints } = podMonitorSchema.parse(spec);
    return { labels: pods.matchLabels, ports: podMetricsEndpoints.map(({ port: name }) => name) };
  }
  if (kind === 'NetworkPolicy') {
    const { podSelector, ingress } = policySchema.parse(spec);
    const ports = ingress.flatMap((rule) => rule.ports.map((one) => one.port));
    return { labels: podSelector.matchLabels, ports };
  }
  const found = z.object({ selector }).parse(spec).selector;
  return found === undefined ? undefined : { labels: found.matchLabels, ports: [] };
}

export function matches(
  wanted: Readonly<Record<string, string>>,
  labelsOf: Readonly<Record<string, string>>,
): boolean {
  return Object.entries(wanted).every(([name, value]) => labelsOf[name] === value);
}
